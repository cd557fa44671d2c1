//! Finds the filter of one tool without an exposition, for `tamis filter`.

use std::collections::HashSet;
use std::sync::Arc;

use tamis_engine::{Enforcement, Finding, ResponseType, ToolFilter};

use crate::diagnostic::did_you_mean;
use crate::origin::{FieldPath, Origin};
use crate::resources::{Resources, ResponseSpec, ServiceRef, ToolsFiltersSpec};
use crate::{Diagnostic, Resource};

/// The filter that a gateway would apply to a tool, with everything that determines its behaviour.
#[derive(Debug, Clone, Copy)]
pub struct FoundFilter<'r> {
    /// The filter.
    pub filter: &'r ToolFilter,
    /// The enforcement of the sets that apply.
    pub enforcement: Enforcement,
    /// The declared shape of the output, if the tool's manifest is among the resources.
    pub response_type: Option<ResponseType>,
    /// The name of the set. `None` for an unnamed set and for a filter inside a manifest.
    pub set: Option<&'r str>,
    origin: &'r Origin,
    tool: &'r str,
    embedded: bool,
}

impl FoundFilter<'_> {
    /// Converts a finding of the engine to one at its place in the file.
    #[must_use]
    pub fn diagnose(&self, finding: &Finding) -> Diagnostic {
        let path = if self.embedded {
            FieldPath::spec(["http", "actions", self.tool, "response", "filter"])
        } else {
            FieldPath::spec(["filters", self.tool])
        };
        let path = path.below(&finding.field);
        match finding.severity {
            tamis_engine::Severity::Error => self.origin.error(&path, &*finding.message, &*finding.remedy),
            tamis_engine::Severity::Warning => self.origin.warning(&path, &*finding.message, &*finding.remedy),
        }
    }
}

/// The reason why no filter can be applied, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFound {
    /// The problem, without a full stop.
    pub message: String,
    /// The remedy, without a full stop.
    pub remedy: String,
}

impl Resources {
    /// Finds the filter of `tool`.
    ///
    /// With the name of a set, returns that set's filter. Without one, it decides as a gateway does for an exposition that
    /// names no sets: unnamed sets, `Enforced` ones first, then the filter in the tool's manifest, or else the only set that
    /// names the tool. References are not checked, so no service needs to exist.
    ///
    /// # Errors
    /// [`NotFound`] if no filter, or more than one, matches.
    pub fn filter_of<'r>(&'r self, tool: &'r str, set: Option<&str>) -> Result<FoundFilter<'r>, NotFound> {
        let naming: Vec<&Set> = self.filters.iter().filter(|s| s.spec.filters.contains_key(tool)).collect();
        if let Some(name) = set {
            return self.in_set(tool, name, &naming);
        }
        let (unnamed, named): (Vec<&Set>, Vec<&Set>) = naming.into_iter().partition(|s| s.spec.name.is_none());
        let embedded: Vec<_> = self.embedded(tool).collect();
        let services: HashSet<&ServiceRef> = unnamed.iter().map(|s| &s.spec.service).collect();
        if services.len() > 1 {
            return Err(NotFound {
                message: format!(
                    "several services have a filter for `{tool}`: {}",
                    list(services.iter().map(|s| &s.name))
                ),
                remedy: "pass the files of only one of them".into(),
            });
        }
        if let Some(first) = unnamed.iter().min_by_key(|s| (s.spec.enforcement != Enforcement::Enforced, &s.name)) {
            return Ok(self.found(first, tool));
        }
        match (&embedded[..], &named[..]) {
            ([one], _) => Ok(*one),
            ([], [one]) => Ok(self.found(one, tool)),
            ([], []) => Err(self.unknown(tool)),
            ([], several) => Err(NotFound {
                message: format!("several sets have a filter for `{tool}`: {}", list(several.iter().map(|s| name(s)))),
                remedy: "choose one with --set".into(),
            }),
            (several, _) => Err(NotFound {
                message: format!("{} manifests have a tool `{tool}` with a filter", several.len()),
                remedy: "pass the files of only one of them".into(),
            }),
        }
    }

    fn in_set<'r>(&'r self, tool: &'r str, wanted: &str, naming: &[&'r Set]) -> Result<FoundFilter<'r>, NotFound> {
        match naming.iter().filter(|s| name(s) == wanted).copied().collect::<Vec<_>>()[..] {
            [one] => Ok(self.found(one, tool)),
            [] => Err(match self.filters.iter().find(|s| name(s) == wanted) {
                Some(set) => NotFound {
                    message: format!("set `{wanted}` has no filter for `{tool}`"),
                    remedy: meant(tool, set.spec.filters.keys())
                        .unwrap_or_else(|| format!("it has filters for {}", list(set.spec.filters.keys()))),
                },
                None => NotFound {
                    message: format!("set `{wanted}` does not exist"),
                    remedy: meant(wanted, self.filters.iter().map(name))
                        .unwrap_or_else(|| "pass the file that defines it with -f".into()),
                },
            }),
            _ => Err(NotFound {
                message: format!("several sets are named `{wanted}`"),
                remedy: "pass the files of only one service".into(),
            }),
        }
    }

    fn found<'r>(&'r self, set: &'r Set, tool: &'r str) -> FoundFilter<'r> {
        // One Enforced set makes an exposition Enforced: those that apply together are the unnamed ones of a service.
        let together = self.filters.iter().filter(|other| {
            set.spec.name.is_none() && other.spec.name.is_none() && other.spec.service == set.spec.service
        });
        let enforcement = together.map(|s| s.spec.enforcement).fold(set.spec.enforcement, Ord::max);
        FoundFilter {
            filter: &set.spec.filters[tool],
            enforcement,
            response_type: self.response(&set.spec.service, tool).and_then(|response| response.kind),
            set: set.spec.name.as_deref(),
            origin: &set.origin,
            tool,
            embedded: false,
        }
    }

    fn embedded<'r>(&'r self, tool: &'r str) -> impl Iterator<Item = FoundFilter<'r>> {
        self.manifests.iter().filter_map(move |manifest| {
            let response = manifest.spec.source()?.response(tool)?;
            Some(FoundFilter {
                filter: response.filter.as_ref()?,
                enforcement: Enforcement::Advisory,
                response_type: response.kind,
                set: None,
                origin: &manifest.origin,
                tool,
                embedded: true,
            })
        })
    }

    fn response(&self, service: &ServiceRef, tool: &str) -> Option<&ResponseSpec> {
        let manifest = self.manifests.iter().find(|manifest| {
            let name = manifest.spec.name.as_deref().unwrap_or(&manifest.name.name);
            name == service.name && manifest.spec.version == service.version
        })?;
        manifest.spec.source()?.response(tool)
    }

    fn unknown(&self, tool: &str) -> NotFound {
        let known = || {
            let sets = self.filters.iter().flat_map(|s| s.spec.filters.keys().map(String::as_str));
            let embedded = self.manifests.iter().filter_map(|manifest| manifest.spec.source()).flat_map(|source| {
                source.tools().filter(move |tool| source.response(tool).is_some_and(|r| r.filter.is_some()))
            });
            sets.chain(embedded)
        };
        let message = format!("no filter names the tool `{tool}`");
        let remedy = match meant(tool, known()) {
            Some(remedy) => remedy,
            None if known().next().is_none() => "pass the file that defines the filter with -f".into(),
            None => format!("there are filters for {}", list(known())),
        };
        NotFound { message, remedy }
    }
}

type Set = Arc<Resource<ToolsFiltersSpec>>;

/// Returns the name that selects a set: its own name, or else that of its resource.
fn name(set: &Set) -> &str {
    set.spec.name.as_deref().unwrap_or(&set.name.name)
}

fn meant<'a, S: AsRef<str> + ?Sized + 'a>(written: &str, known: impl Iterator<Item = &'a S>) -> Option<String> {
    did_you_mean(written, known.map(AsRef::as_ref)).map(|name| format!("did you mean `{name}`?"))
}

/// Lists names for a message; of many, only the first few.
fn list<S: AsRef<str>>(names: impl Iterator<Item = S>) -> String {
    const SHOWN: usize = 8;
    let mut names: Vec<String> = names.map(|name| format!("`{}`", name.as_ref())).collect();
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let mut out = names.join(", ");
    if more > 0 {
        out.push_str(&format!(" and {more} more"));
    }
    out
}

#[cfg(test)]
mod tests;
