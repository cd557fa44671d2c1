//! Selects the tools of an exposition and the filter of each.

use std::sync::Arc;

use indexmap::IndexMap;
use tamis_config::{ExpositionTool, Reason, ServiceDocument, ServiceTool, selects};
use tamis_engine::{Enforcement, ToolFilter};

use super::Degraded;
use super::expose::{Chosen, Exposer, Stop, conditions, judge};
use super::filters::{Conditions, FilterVerdict};
use super::selection::{Selected, Words};
use super::service::Service;
use crate::origin::{FieldPath, Origin};
use crate::resources::{ExpositionSpec, ToolSelection, ToolsFiltersSpec};
use crate::{Diagnostic, Resource};

/// A filter and its place.
struct Candidate<'c> {
    /// The tool that the filter is written for.
    name: &'c str,
    filter: &'c Arc<ToolFilter>,
    origin: &'c Origin,
    path: FieldPath,
    set: String,
}

impl<'r> Exposer<'_, 'r> {
    /// Returns the published tools. `service` is `None` if its manifest cannot be read; `document` is then the last good one.
    pub(super) fn tools(
        &mut self,
        service: Option<&Service<'r>>,
        document: &ServiceDocument,
        chosen: &Chosen<'r>,
        enforcement: Enforcement,
    ) -> Result<IndexMap<String, ExpositionTool>, Stop> {
        let lost = self.lost_tools(service, document);
        let selection = Selection::new(self.resource, document, &lost, self.diagnostics)?;
        self.some_filter(service, document, chosen, &selection)?;
        let mut tools = IndexMap::new();
        let mut unnamed = Vec::new();
        for (tool, declared) in document.tools.iter().filter(|(tool, _)| selection.selects(tool)) {
            let candidate = self.candidate(service, tool, declared, chosen);
            // If a set cannot be read, it is unknown which set would take precedence. The one that did still applies to its tools.
            let candidate = candidate.filter(|c| chosen.unreadable.is_none() || self.was_from_set(tool, &c.set));
            let published = if let Some(candidate) = candidate {
                self.other_sets(tool, declared, chosen);
                self.filtered(tool, declared, &candidate, enforcement)
            } else if chosen.unreadable.is_some() {
                self.kept(tool, declared, enforcement, |_| true)
            } else if service.is_none() && !chosen.none {
                // The unreadable manifest may hold a filter.
                self.kept(tool, declared, enforcement, |last| last.filter_set.as_deref().is_none_or(|s| s == MANIFEST))
            } else if enforcement == Enforcement::Enforced {
                unnamed.push(tool.as_str());
                None
            } else {
                Some(ExpositionTool::default())
            };
            let published = published.map(|mut published| {
                published.query = self.query(service, tool, declared, &published, enforcement);
                published
            });
            tools.extend(published.map(|published| (tool.clone(), published)));
        }
        tools.shrink_to_fit();
        let lost = lost.into_iter().filter(|tool| selection.selects(tool));
        self.degraded.extend(lost.map(Degraded::Unpublished));
        if !unnamed.is_empty() {
            let message = format!("not published because no filter set names them: {}", listing(&unnamed));
            let remedy = "name each tool in a filter set, with `passthrough: true` if its whole output may pass";
            let warning = self.resource.origin.warning(&FieldPath::spec(["filters"]), message, remedy);
            self.diagnostics.push(warning);
        }
        if tools.is_empty() && unnamed.is_empty() && self.degraded.is_empty() {
            let remedy = "compare `tools` and the filter sets with the ServiceManifest";
            let warning = self.resource.origin.warning(&FieldPath::spec([]), "publishes no tool", remedy);
            self.diagnostics.push(warning);
        }
        Ok(tools)
    }

    /// Stops an exposition without filters: it names no sets, and there is no default set and no filter in the manifest of any
    /// published tool. `filters: []` publishes tools unfiltered.
    fn some_filter(
        &self,
        service: Option<&Service<'r>>,
        document: &ServiceDocument,
        chosen: &Chosen<'r>,
        selection: &Selection<'_>,
    ) -> Result<(), Stop> {
        if !chosen.by_default || !chosen.sets.is_empty() || chosen.unreadable.is_some() {
            return Ok(());
        }
        let filtered = |(tool, declared): (&String, &ServiceTool)| match service {
            Some(service) => service.embedded(base_of(tool, declared)).is_some(),
            // The manifest cannot be read. A filter of it that is served still counts.
            None => self.was_from_set(tool, MANIFEST),
        };
        if document.tools.iter().filter(|(tool, _)| selection.selects(tool)).any(filtered) {
            return Ok(());
        }
        Err(no_filter(document))
    }

    /// Returns whether the filter of a served tool comes from a set.
    fn was_from_set(&self, tool: &str, set: &str) -> bool {
        let last = self.previous.and_then(|previous| previous.document.tools.get(tool));
        last.is_some_and(|last| last.filter_set.as_deref() == Some(set))
    }

    /// Returns the served tools of CustomTools that are missing because CustomTools have errors or cannot be read.
    fn lost_tools(&self, service: Option<&Service<'r>>, document: &ServiceDocument) -> Vec<String> {
        let Some(previous) = self.previous.filter(|_| service.is_some_and(|service| service.lacks_aliases)) else {
            return Vec::new();
        };
        let served = previous.document.tools.keys().filter(|tool| !document.tools.contains_key(*tool));
        let aliases =
            served.filter(|tool| previous.service.tools.get(*tool).is_some_and(|tool| tool.alias().is_some()));
        aliases.cloned().collect()
    }

    /// Returns the filter of the first set that names the tool or its wrapped tool, or else the filter in the manifest, unless
    /// the exposition excludes filters.
    fn candidate<'c>(
        &self,
        service: Option<&'c Service<'r>>,
        tool: &'c str,
        declared: &'c ServiceTool,
        chosen: &Chosen<'r>,
    ) -> Option<Candidate<'c>>
    where
        'r: 'c,
    {
        for set in &chosen.sets {
            if let Some((name, filter)) = named_in(&set.spec, tool, declared) {
                let path = FieldPath::spec(["filters", name]);
                return Some(Candidate { name, filter, origin: &set.origin, path, set: set.name.to_string() });
            }
        }
        let service = service.filter(|_| !chosen.none)?;
        let base = base_of(tool, declared);
        let filter = service.embedded(base)?;
        let path = service.embedded_path(base);
        Some(Candidate { name: base, filter, origin: &service.resource.origin, path, set: MANIFEST.to_owned() })
    }

    /// Reports which set takes precedence if several sets name the tool.
    fn other_sets(&mut self, tool: &str, declared: &ServiceTool, chosen: &Chosen<'r>) {
        let naming = |set: &&Arc<Resource<ToolsFiltersSpec>>| named_in(&set.spec, tool, declared).is_some();
        let mut naming = chosen.sets.iter().filter(|set| naming(set));
        let Some(first) = naming.next() else { return };
        for other in naming {
            let name = named_in(&other.spec, tool, declared).map_or(tool, |(name, _)| name);
            let path = FieldPath::spec(["filters", name]);
            let message = format!(
                "set {} also names the tool and takes precedence in exposition {}",
                first.name, self.resource.name
            );
            let remedy = "remove one of the filters, or reorder the sets";
            self.diagnostics.push(other.origin.warning(&path, message, remedy).because(Reason::Conflict));
        }
    }

    /// Returns the tool with its filter or its last good filter, or `None`.
    fn filtered(
        &mut self,
        tool: &str,
        declared: &ServiceTool,
        candidate: &Candidate<'_>,
        enforcement: Enforcement,
    ) -> Option<ExpositionTool> {
        let Candidate { name, filter, origin, path, set } = candidate;
        let conditions = self.conditions(tool, declared, enforcement);
        let judged = self.sets.judge(origin, path, name, filter, conditions);
        if judged.is_good() {
            self.record_open_filter(tool, set, judged);
            return Some(ExpositionTool {
                filter: Some(Arc::clone(filter)),
                filter_set: Some(set.as_str().into()),
                query: None,
            });
        }
        // The last good filter was valid under its own enforcement only, and a filter of another set does not replace this one.
        let same = self.previous.is_some_and(|previous| previous.document.enforcement == enforcement);
        let last_good = self.kept(tool, declared, enforcement, |last| {
            same && last.filter.is_some() && last.filter_set.as_deref() == Some(set.as_str())
        })?;
        self.degraded.push(Degraded::PreviousFilter(tool.to_owned()));
        Some(last_good)
    }

    /// Returns the served version of the tool, if `fits` holds and its filter is valid under the current enforcement.
    fn kept(
        &mut self,
        tool: &str,
        declared: &ServiceTool,
        enforcement: Enforcement,
        fits: impl Fn(&ExpositionTool) -> bool,
    ) -> Option<ExpositionTool> {
        let last = self.previous.and_then(|previous| previous.document.tools.get(tool)).filter(|last| fits(last));
        let good = last.filter(|last| match &last.filter {
            Some(filter) => {
                let judged = judge(filter, self.conditions(tool, declared, enforcement));
                self.record_open_filter(tool, last.filter_set.as_deref().unwrap_or(MANIFEST), judged);
                judged.is_good()
            }
            None => enforcement == Enforcement::Advisory,
        });
        if good.is_none() {
            self.degraded.push(Degraded::Unpublished(tool.to_owned()));
        }
        good.cloned()
    }

    /// Returns the query of a GraphQL tool whose filter reads a part of the output; none if the service's own query is right.
    fn query(
        &self,
        service: Option<&Service<'r>>,
        tool: &str,
        declared: &ServiceTool,
        published: &ExpositionTool,
        enforcement: Enforcement,
    ) -> Option<Arc<String>> {
        let filter = published.filter.as_ref()?;
        let Some(service) = service.filter(|service| service.document.is_ok()) else {
            // The last good service is served, and its schema is not known any more.
            let last = self.previous?.document.tools.get(tool).filter(|last| last.filter.as_ref() == Some(filter))?;
            return last.query.clone();
        };
        if !service.derives_queries() {
            return None;
        }
        let options = self.conditions(tool, declared, enforcement).options();
        let reads = tamis_engine::compile(filter, &options).program?.reads();
        service.query(tool, &reads).map(Arc::new)
    }

    /// Returns the conditions under which the exposition publishes a tool.
    fn conditions(&self, tool: &str, declared: &ServiceTool, enforcement: Enforcement) -> Conditions {
        let inputs = self.resource.spec.output.as_ref().and_then(|output| output.inputs.as_deref());
        conditions(tool, enforcement, declared.response_type, inputs)
    }

    /// Records a published tool whose filter is not an allow-list.
    pub(super) fn record_open_filter(&mut self, tool: &str, set: &str, judged: FilterVerdict) {
        if judged == FilterVerdict::Open {
            self.open.push((tool.to_owned(), set.to_owned()));
        }
    }
}

/// Stops an exposition to which no filter applies, although it does not say that this is meant.
pub(super) fn no_filter(service: &ServiceDocument) -> Stop {
    let ServiceDocument { name, version, .. } = service;
    let message =
        format!("no filter applies: {name} {version} has no unnamed filter set and no filter in its manifest");
    let remedy = "add a ToolsFilters for it, name sets here, or write `filters: []` to publish its tools unfiltered";
    Stop::new(Reason::FilterSetNotFound, FieldPath::spec(["filters"]), message, remedy)
}

/// The name of the filter inside a manifest in documents.
pub(super) const MANIFEST: &str = "manifest";

/// Returns the wrapped tool of an alias, or the tool itself.
fn base_of<'t>(tool: &'t str, declared: &'t ServiceTool) -> &'t str {
    declared.alias().map_or(tool, |alias| &alias.tool)
}

/// Returns a set's filter for a tool, by the tool's own name or else by the name of the wrapped tool.
pub(super) fn named_in<'s>(
    set: &'s ToolsFiltersSpec,
    tool: &str,
    declared: &ServiceTool,
) -> Option<(&'s str, &'s Arc<ToolFilter>)> {
    let entry = |name: &str| set.filters.get_key_value(name).map(|(name, filter)| (name.as_str(), filter));
    entry(tool).or_else(|| entry(base_of(tool, declared)))
}

/// `tools.include` and `tools.exclude`.
struct Selection<'r> {
    include: Option<&'r [String]>,
    exclude: &'r [String],
}

impl<'r> Selection<'r> {
    /// # Errors
    /// [`Selected::check`].
    fn new(
        resource: &'r Resource<ExpositionSpec>,
        service: &ServiceDocument,
        lost: &[String],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Self, Stop> {
        let Some(ToolSelection { include, exclude }) = &resource.spec.tools else {
            return Ok(Self { include: None, exclude: &[] });
        };
        let at = FieldPath::spec(["tools"]);
        let selected = Selected { include: include.as_deref(), exclude, origin: &resource.origin, at };
        let names: Vec<&str> = service.tools.keys().map(String::as_str).collect();
        let words = Words {
            unknown: &|tool| format!("service {} has no tool `{tool}`", service.name),
            remedy: "remove it, or add the tool to the ServiceManifest",
            unmatched: ("matches no tool", "compare it with the ServiceManifest"),
        };
        selected.check(&names, lost, &words, diagnostics)?;
        Ok(Self { include: include.as_deref(), exclude })
    }

    fn selects(&self, tool: &str) -> bool {
        selects(self.include, self.exclude, tool)
    }
}

/// Lists at most ten names, so that a message stays on one line.
fn listing(names: &[&str]) -> String {
    let shown = names.iter().take(10).copied().collect::<Vec<_>>().join(", ");
    if names.len() > 10 { format!("{shown} and {} more", names.len() - 10) } else { shown }
}
