//! Expositions: which tools, which filter each, under which posture; or why none of it is served.

use std::sync::Arc;

use indexmap::IndexMap;
use tamis_config::{
    Access, Audit, CallLimits, Digest, ExpositionDocument, ExpositionId, ExpositionTool, FORMAT_VERSION,
    ServiceDocument, Snapshot, Stopped,
};
use tamis_engine::{CompileOptions, Enforcement, ToolFilter};

use super::filters::{Sets, response_type};
use super::groups::Groups;
use super::service::{Service, Services};
use super::{Compilation, CompileEnv, Degraded, duplicate_names};
use crate::diagnostic::did_you_mean;
use crate::origin::{FieldPath, Origin};
use crate::resources::{AuditMode, ExpositionSpec, LimitsSpec, ToolSelection, ToolsFiltersSpec};
use crate::{Diagnostic, Resource};

/// Why an exposition is not served.
pub(super) struct Stop {
    reason: &'static str,
    path: FieldPath,
    message: String,
    remedy: String,
}

impl Stop {
    pub(super) fn new(
        reason: &'static str,
        path: FieldPath,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { reason, path, message: message.into(), remedy: remedy.into() }
    }
}

/// Compiles every exposition into the compilation's snapshot.
pub(super) fn all<'r>(
    expositions: &'r [Arc<Resource<ExpositionSpec>>],
    groups: &Groups<'r>,
    services: &Services<'r>,
    sets: &mut Sets<'r>,
    (env, incomplete): (&CompileEnv<'_>, bool),
    compilation: &mut Compilation,
) {
    duplicate_names("Exposition", expositions, &mut compilation.diagnostics);
    for resource in expositions {
        let id = ExpositionId { namespace: resource.name.namespace.clone(), name: resource.name.name.clone() };
        let taken = |snapshot: &Snapshot| snapshot.expositions.contains_key(&id) || snapshot.stopped.contains_key(&id);
        if taken(&compilation.snapshot) {
            continue;
        }
        let mut exposer = Exposer {
            resource,
            previous: env.previous.and_then(|p| Some((p.expositions.get(&id)?, p))),
            sets,
            diagnostics: &mut compilation.diagnostics,
            degraded: Vec::new(),
        };
        match exposer.expose(&id, groups, services, env) {
            Ok((document, digest, service)) => {
                let degraded = exposer.degraded;
                if !degraded.is_empty() {
                    compilation.degraded.insert(id.clone(), degraded);
                }
                compilation.snapshot.services.insert(digest, service);
                compilation.snapshot.expositions.insert(id, Arc::new(document));
            }
            Err(stop) => {
                let diagnostic = resource.origin.error(&stop.path, &*stop.message, &*stop.remedy);
                let message = format!("{}: {}, {}", diagnostic.field, stop.message, stop.remedy);
                if !(incomplete && stop.reason.ends_with("NotFound")) {
                    compilation.diagnostics.push(diagnostic);
                }
                compilation.snapshot.stopped.insert(id, Stopped { reason: stop.reason.into(), message });
            }
        }
    }
}

struct Exposer<'a, 'r> {
    resource: &'r Arc<Resource<ExpositionSpec>>,
    previous: Option<(&'a Arc<ExpositionDocument>, &'a Snapshot)>,
    sets: &'a mut Sets<'r>,
    diagnostics: &'a mut Vec<Diagnostic>,
    degraded: Vec<Degraded>,
}

/// A filter, and where it stands.
struct Candidate<'c> {
    filter: &'c Arc<ToolFilter>,
    origin: &'c Origin,
    path: FieldPath,
    set: String,
}

impl<'r> Exposer<'_, 'r> {
    fn expose(
        &mut self,
        id: &ExpositionId,
        groups: &Groups<'r>,
        services: &Services<'r>,
        env: &CompileEnv<'_>,
    ) -> Result<(ExpositionDocument, Digest, Arc<ServiceDocument>), Stop> {
        let spec = &self.resource.spec;
        let group = groups.of(self.resource)?;
        let service = services
            .find(&id.namespace, &spec.service)
            .map_err(|(message, remedy)| Stop::new("ServiceNotFound", FieldPath::spec(["service"]), message, remedy))?;
        let sets = self.chosen_sets()?;
        let enforcement = sets.iter().map(|set| set.spec.enforcement).fold(spec.enforcement, Ord::max);
        Groups::floors(group, spec, enforcement, env)?;
        let access = access(spec)?;
        let (digest, document) = self.service(service)?;
        let tools = self.tools(service, &document, &sets, enforcement)?;
        let exposition = ExpositionDocument {
            format_version: FORMAT_VERSION,
            id: id.clone(),
            service: digest.clone(),
            enforcement,
            tools,
            credentials: std::collections::BTreeMap::new(),
            access,
            limits: spec.limits.as_ref().map(limits).unwrap_or_default(),
            audit: match spec.audit.unwrap_or_default().mode {
                AuditMode::Digest => Audit::Digest,
                AuditMode::Full => Audit::Full,
            },
        };
        Ok((exposition, digest, document))
    }

    /// Enforced sets come before Advisory ones; otherwise the order is the exposition's, or that of the names.
    fn chosen_sets(&self) -> Result<Vec<&'r Arc<Resource<ToolsFiltersSpec>>>, Stop> {
        let spec = &self.resource.spec;
        let namespace = self.resource.name.namespace.as_str();
        let mut sets = match &spec.filters {
            None => self.sets.unnamed(namespace, &spec.service),
            Some(names) => {
                let found = names.iter().enumerate().map(|(index, name)| {
                    let path = FieldPath::spec(["filters"]).index(index);
                    if names[..index].contains(name) {
                        return Err(Stop::new(
                            "Conflict",
                            path,
                            format!("`{name}` occurs twice"),
                            "remove one of them",
                        ));
                    }
                    self.sets
                        .named(namespace, &spec.service, name)
                        .map_err(|(message, remedy)| Stop::new("FilterSetNotFound", path, message, remedy))
                });
                found.collect::<Result<_, _>>()?
            }
        };
        sets.sort_by_key(|set| set.spec.enforcement != Enforcement::Enforced);
        Ok(sets)
    }

    /// The service's document; the last good one where the manifest is in error.
    fn service(&mut self, service: &Service<'r>) -> Result<(Digest, Arc<ServiceDocument>), Stop> {
        if let Some(document) = &service.document {
            return Ok(document.clone());
        }
        let wanted = &self.resource.spec.service;
        let last_good = self.previous.and_then(|(exposition, snapshot)| {
            let document = snapshot.services.get(&exposition.service)?;
            let same = document.name == wanted.name && document.version == wanted.version;
            same.then(|| (exposition.service.clone(), Arc::clone(document)))
        });
        if last_good.is_some() {
            self.degraded.push(Degraded::PreviousService);
        }
        last_good.ok_or_else(|| {
            let message = format!("the manifest of {} {} has errors", wanted.name, wanted.version);
            let remedy = format!("mend {}", service.resource.origin.file());
            Stop::new("InvalidManifest", FieldPath::spec(["service"]), message, remedy)
        })
    }

    fn tools(
        &mut self,
        service: &Service<'r>,
        document: &ServiceDocument,
        sets: &[&'r Arc<Resource<ToolsFiltersSpec>>],
        enforcement: Enforcement,
    ) -> Result<IndexMap<String, ExpositionTool>, Stop> {
        let selection = Selection::new(self.resource, document, self.diagnostics)?;
        let mut tools = IndexMap::new();
        let mut unnamed = Vec::new();
        for tool in document.tools.keys().filter(|tool| selection.selects(tool)) {
            match self.candidate(service, tool, sets) {
                Some(candidate) => {
                    if let Some(published) = self.filtered(service, tool, &candidate, enforcement) {
                        tools.insert(tool.clone(), published);
                    }
                }
                None if enforcement == Enforcement::Enforced => unnamed.push(tool.as_str()),
                None => {
                    tools.insert(tool.clone(), ExpositionTool::default());
                }
            }
        }
        if !unnamed.is_empty() {
            let message = format!("not published, since no filter set names them: {}", listing(&unnamed));
            let remedy = "name each in a set, with `passthrough: true` where all of it may pass";
            let diagnostic = self.resource.origin.warning(&FieldPath::spec(["filters"]), message, remedy);
            self.diagnostics.push(diagnostic);
        }
        if tools.is_empty() && unnamed.is_empty() && self.degraded.is_empty() {
            let remedy = "compare `tools` and the filter sets with the ServiceManifest";
            let diagnostic = self.resource.origin.warning(&FieldPath::spec([]), "publishes no tool", remedy);
            self.diagnostics.push(diagnostic);
        }
        Ok(tools)
    }

    /// The first set that names the tool; else the filter inside the manifest, unless the exposition wants none.
    fn candidate<'c>(
        &mut self,
        service: &'c Service<'r>,
        tool: &str,
        sets: &[&'r Arc<Resource<ToolsFiltersSpec>>],
    ) -> Option<Candidate<'c>>
    where
        'r: 'c,
    {
        let mut naming = sets.iter().filter_map(|set| Some((set, set.spec.filters.get(tool)?)));
        if let Some((set, filter)) = naming.next() {
            let path = FieldPath::spec(["filters", tool]);
            for (other, _) in naming {
                let message =
                    format!("set {} names the tool too and wins in exposition {}", set.name, self.resource.name);
                let remedy = "remove one of them, or list the sets in another order";
                let warning = other.origin.warning(&path, message, remedy);
                self.diagnostics.push(warning);
            }
            return Some(Candidate { filter, origin: &set.origin, path, set: set.name.to_string() });
        }
        if self.resource.spec.filters.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let filter = service.embedded(tool)?;
        let path = Service::embedded_path(tool);
        Some(Candidate { filter, origin: &service.resource.origin, path, set: "manifest".to_owned() })
    }

    /// The tool with its filter, with its last good filter, or not at all.
    fn filtered(
        &mut self,
        service: &Service<'_>,
        tool: &str,
        candidate: &Candidate<'_>,
        enforcement: Enforcement,
    ) -> Option<ExpositionTool> {
        let Candidate { filter, origin, path, set } = candidate;
        let response_type = response_type(service, tool);
        if self.sets.compiles(origin, path, tool, filter, enforcement, response_type) {
            return Some(ExpositionTool { filter: Some(Arc::clone(filter)), filter_set: Some(set.clone()) });
        }
        // Under another posture the last good filter was a promise of another kind.
        let last_good =
            self.previous.filter(|(previous, _)| previous.enforcement == enforcement).and_then(|(previous, _)| {
                let last = previous.tools.get(tool)?;
                let options = CompileOptions { enforcement, response_type, ..CompileOptions::default() };
                let compiled = tamis_engine::compile(last.filter.as_deref()?, &options);
                compiled.program.is_some().then(|| last.clone())
            });
        self.degraded.push(match last_good {
            Some(_) => Degraded::PreviousFilter(tool.to_owned()),
            None => Degraded::Unpublished(tool.to_owned()),
        });
        last_good
    }
}

/// `tools.include` and `tools.exclude`.
struct Selection<'r> {
    include: Option<&'r [String]>,
    exclude: &'r [String],
}

impl<'r> Selection<'r> {
    /// A name that is no tool stops the exposition: an excluded tool would be published under its right name.
    fn new(
        resource: &'r Resource<ExpositionSpec>,
        service: &ServiceDocument,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Self, Stop> {
        let Some(ToolSelection { include, exclude }) = &resource.spec.tools else {
            return Ok(Self { include: None, exclude: &[] });
        };
        let at = FieldPath::spec(["tools"]);
        let included = include.iter().flatten().enumerate().map(|(index, p)| (at.key("include").index(index), p, true));
        let excluded = exclude.iter().enumerate().map(|(index, p)| (at.key("exclude").index(index), p, false));
        for (path, pattern, included) in included.chain(excluded) {
            if service.tools.keys().any(|tool| matches(pattern, tool)) {
                continue;
            }
            if !pattern.contains(['*', '?']) {
                let remedy = match did_you_mean(pattern, service.tools.keys().map(String::as_str)) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => "remove it, or add the tool to the ServiceManifest".to_owned(),
                };
                let message = format!("service {} has no tool `{pattern}`", service.name);
                return Err(Stop::new("ToolNotFound", path, message, remedy));
            }
            if included {
                diagnostics.push(resource.origin.warning(
                    &path,
                    "matches no tool",
                    "compare it with the ServiceManifest",
                ));
            }
        }
        Ok(Self { include: include.as_deref(), exclude })
    }

    fn selects(&self, tool: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, tool));
        self.include.is_none_or(any) && !any(self.exclude)
    }
}

/// `*` is any text, `?` any character. Patterns and names are short, so the simple way is fast enough: linear but for
/// the way back to the last `*`.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t, mut back) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                back = Some((p, t));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    p = star + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

fn access(spec: &ExpositionSpec) -> Result<Option<Access>, Stop> {
    match spec.access.as_ref().map(|access| access.anonymous) {
        None => Ok(None),
        Some(Some(true)) => Ok(Some(Access::Anonymous)),
        Some(_) => {
            let message = "says of nobody that they may call";
            let remedy = "write `anonymous: true`, the only access implemented yet";
            Err(Stop::new("AccessRequired", FieldPath::spec(["access"]), message, remedy))
        }
    }
}

/// What does not parse was refused when the document was read; the default is the safe side.
fn limits(spec: &LimitsSpec) -> CallLimits {
    let default = CallLimits::default();
    CallLimits {
        requests_per_second: spec.requests_per_second,
        burst: spec.burst,
        concurrent: spec.concurrent,
        timeout_ms: spec.timeout_ms().unwrap_or(default.timeout_ms),
        max_response_bytes: spec
            .max_response_bytes
            .as_ref()
            .and_then(crate::resources::Quantity::bytes)
            .unwrap_or(default.max_response_bytes),
    }
}

/// At most ten names: a message is a line.
fn listing(names: &[&str]) -> String {
    let shown = names.iter().take(10).copied().collect::<Vec<_>>().join(", ");
    if names.len() > 10 { format!("{shown} and {} more", names.len() - 10) } else { shown }
}
