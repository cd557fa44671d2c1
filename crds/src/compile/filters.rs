//! Filter sets: their services, and whether their filters compile.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tamis_config::Reason;
use tamis_engine::{CompileOptions, Compiled, Enforcement, PatternBudget, ResponseType, ToolFilter, ToolKind};

use super::service::Services;
use super::unusable::Unusables;
use super::{Part, duplicate_names};
use crate::diagnostic::did_you_mean;
use crate::origin::{FieldPath, Origin};
use crate::resources::{ServiceRef, ToolsFiltersSpec};
use crate::{Diagnostic, Resource};

type Set = Arc<Resource<ToolsFiltersSpec>>;

/// A document, identified by the address of its tree.
type DocumentId = usize;

/// A filter, by its document and its name there, with everything that decides whether it compiles.
type Check = (DocumentId, String, Conditions);

/// What the engine knows about a tool when it compiles the tool's filter. Two tools with one filter share a verdict only
/// if all of it is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Conditions {
    pub(super) enforcement: Enforcement,
    pub(super) response_type: Option<ResponseType>,
    /// The kind of the published tool, which is not the kind of a wrapped one: gateways go by the published name.
    pub(super) tool: ToolKind,
    /// Whether the exposition advertises `_format`.
    pub(super) format_input: bool,
}

impl Conditions {
    /// Returns the engine's options.
    pub(super) fn options(self) -> CompileOptions {
        let Self { enforcement, response_type, tool, format_input } = self;
        CompileOptions { enforcement, response_type, tool, format_input, ..CompileOptions::default() }
    }
}

/// The engine's verdict on a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilterVerdict {
    /// The filter has errors.
    Broken,
    /// Only data that the filter names passes.
    AllowList,
    /// Data that the filter does not name passes too.
    Open,
}

impl FilterVerdict {
    pub(super) fn of(compiled: &Compiled) -> Self {
        match &compiled.program {
            None => Self::Broken,
            Some(program) if program.is_allow_list() => Self::AllowList,
            Some(_) => Self::Open,
        }
    }

    /// Returns whether the filter can run.
    pub(super) fn is_good(self) -> bool {
        self != Self::Broken
    }
}

/// All filter sets by service, with the engine's verdict on each filter under all its conditions.
pub(super) struct Sets<'r> {
    all: &'r [Set],
    by_service: HashMap<(&'r str, &'r ServiceRef), Vec<&'r Set>>,
    checked: HashMap<Check, FilterVerdict>,
    /// The remaining budget for regular expressions, by document.
    patterns: HashMap<DocumentId, PatternBudget>,
    seen: HashSet<(DocumentId, String)>,
    part: Part<'r>,
    diagnostics: Vec<Diagnostic>,
}

/// Unknown tools of one set that are reported individually: comparing names costs more than reading them.
const UNKNOWN_TOOLS: usize = 20;

impl<'r> Sets<'r> {
    pub(super) fn new(
        all: &'r [Set],
        services: &Services<'_>,
        unusable: &Unusables<'_>,
        incomplete: bool,
        part: Part<'r>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        if part.judges_objects() {
            duplicate_names("ToolsFilters", all, diagnostics);
        }
        let mut sets = Self {
            all,
            by_service: HashMap::new(),
            checked: HashMap::new(),
            patterns: HashMap::new(),
            seen: HashSet::new(),
            part,
            diagnostics: Vec::new(),
        };
        for set in all {
            let judged = part.judges(&set.name);
            if judged && !incomplete {
                sets.references(set, services, unusable);
            }
            let bound = sets.by_service.entry((set.name.namespace.as_str(), &set.spec.service)).or_default();
            let twin = bound.iter().find(|other| set.spec.name.is_some() && other.spec.name == set.spec.name);
            if let (Some(twin), Some(name)) = (twin, &set.spec.name) {
                if !judged {
                    continue;
                }
                let message = format!("set `{name}` of this service is already defined in {}", twin.origin.place());
                let path = FieldPath::spec(["name"]);
                let error = set.origin.error(&path, message, "rename or remove one of them");
                sets.diagnostics.push(error.because(Reason::Conflict));
            } else {
                bound.push(set);
            }
        }
        for bound in sets.by_service.values_mut() {
            bound.sort_by(|a, b| (&a.name.name, a.origin.file()).cmp(&(&b.name.name, b.origin.file())));
        }
        sets
    }

    /// Checks that the service and the tools of a set exist.
    fn references(&mut self, set: &Set, services: &Services<'_>, unusable: &Unusables<'_>) {
        let service = match services.find(&set.name.namespace, &set.spec.service) {
            Ok(service) => service,
            Err((message, remedy)) => {
                if unusable.manifest(&set.name.namespace, &set.spec.service).is_none() {
                    let error = set.origin.error(&FieldPath::spec(["service"]), message, remedy);
                    self.diagnostics.push(error.because(Reason::ServiceNotFound));
                }
                return;
            }
        };
        if service.lacks_aliases || !service.knows_tools() {
            return;
        }
        let tools: HashSet<&str> = service.tools().collect();
        let mut unknown = set.spec.filters.keys().filter(|tool| !tools.contains(tool.as_str()));
        for tool in unknown.by_ref().take(UNKNOWN_TOOLS) {
            let remedy = match did_you_mean(tool, service.tools()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "remove it, or add the tool to the ServiceManifest".to_owned(),
            };
            let message = format!("service {} has no such tool", service.name());
            let error = set.origin.error(&FieldPath::spec(["filters", tool]), message, remedy);
            self.diagnostics.push(error.because(Reason::ToolNotFound));
        }
        let more = unknown.count();
        if more > 0 {
            let message = format!("{more} more filters name tools that service {} does not have", service.name());
            let error = set.origin.error(&FieldPath::spec(["filters"]), message, "fix the names above first");
            self.diagnostics.push(error.because(Reason::ToolNotFound));
        }
    }

    /// Returns the set with the name of its resource.
    pub(super) fn by_name(&self, name: &str) -> Option<&'r Set> {
        self.all.iter().find(|set| set.name.to_string() == name)
    }

    /// Returns the sets without a name, in the order of their resources' names.
    pub(super) fn unnamed(&self, namespace: &'r str, service: &'r ServiceRef) -> Vec<&'r Set> {
        let bound = self.by_service.get(&(namespace, service));
        bound.into_iter().flatten().copied().filter(|set| set.spec.name.is_none()).collect()
    }

    /// Returns the set with a name, or the message and remedy if it does not exist.
    pub(super) fn named(
        &self,
        namespace: &'r str,
        service: &'r ServiceRef,
        name: &str,
    ) -> Result<&'r Set, (String, String)> {
        let bound = self.by_service.get(&(namespace, service)).map_or(&[][..], Vec::as_slice);
        if let Some(set) = bound.iter().find(|set| set.spec.name.as_deref() == Some(name)) {
            return Ok(set);
        }
        let elsewhere = self.all.iter().find(|set| set.spec.name.as_deref() == Some(name));
        let message = format!("service {} {} has no filter set `{name}`", service.name, service.version);
        let remedy = if let Some(known) = did_you_mean(name, bound.iter().filter_map(|set| set.spec.name.as_deref())) {
            format!("did you mean `{known}`?")
        } else if let Some(other) = elsewhere {
            let ServiceRef { name, version } = &other.spec.service;
            format!("the set of that name in namespace {} belongs to {name} {version}", other.name.namespace)
        } else {
            "add a ToolsFilters with that name".to_owned()
        };
        Err((message, remedy))
    }

    /// Compiles a filter, and reports its findings once.
    pub(super) fn judge(
        &mut self,
        origin: &Origin,
        path: &FieldPath,
        tool: &str,
        filter: &ToolFilter,
        conditions: Conditions,
    ) -> FilterVerdict {
        let document = Arc::as_ptr(&origin.tree) as DocumentId;
        let key = (document, tool.to_owned(), conditions);
        if let Some(judged) = self.checked.get(&key) {
            return *judged;
        }
        let patterns = self.patterns.entry(document).or_default();
        let compiled = tamis_engine::compile_within(filter, &conditions.options(), patterns);
        for finding in &compiled.findings {
            let path = path.below(&finding.field);
            let diagnostic = match finding.severity {
                tamis_engine::Severity::Error => origin.error(&path, &*finding.message, &*finding.remedy),
                tamis_engine::Severity::Warning => origin.warning(&path, &*finding.message, &*finding.remedy),
            };
            let diagnostic = diagnostic.because(Reason::InvalidFilter);
            // Duplicates under other conditions are dropped when all findings are sorted.
            self.diagnostics.push(diagnostic);
        }
        let judged = FilterVerdict::of(&compiled);
        self.seen.insert((document, tool.to_owned()));
        self.checked.insert(key, judged);
        judged
    }

    /// Compiles the filters that no exposition uses, and returns all findings.
    pub(super) fn finish(mut self, services: &Services<'_>) -> Vec<Diagnostic> {
        for set in self.all.iter().filter(|set| self.part.judges(&set.name)).collect::<Vec<_>>() {
            let service = services.find(&set.name.namespace, &set.spec.service).ok();
            let known: HashSet<&str> = service.iter().flat_map(|service| service.tools()).collect();
            for (tool, filter) in &set.spec.filters {
                let path = FieldPath::spec(["filters", tool]);
                let service = service.filter(|_| known.contains(tool.as_str()));
                // The answer of an unknown tool is unknown. Treat it as a list, which needs no declaration in the filter.
                let response_type = service.map_or(Some(ResponseType::Array), |service| service.response_type(tool));
                if !self.is_checked(&set.origin, tool) {
                    let conditions = unused(tool, set.spec.enforcement, response_type);
                    self.judge(&set.origin, &path, tool, filter, conditions);
                }
            }
        }
        let judged = services.all().iter().filter(|_| self.part.judges_objects());
        for service in judged.collect::<Vec<_>>() {
            let origin = &service.resource.origin;
            for tool in service.own_tools() {
                if let (Some(filter), false) = (service.embedded(tool), self.is_checked(origin, tool)) {
                    let path = service.embedded_path(tool);
                    let conditions = unused(tool, Enforcement::Advisory, service.response_type(tool));
                    self.judge(origin, &path, tool, filter, conditions);
                }
            }
        }
        self.diagnostics
    }

    fn is_checked(&self, origin: &Origin, tool: &str) -> bool {
        self.seen.contains(&(Arc::as_ptr(&origin.tree) as DocumentId, tool.to_owned()))
    }
}

/// Returns the conditions of a filter that no exposition uses.
fn unused(tool: &str, enforcement: Enforcement, response_type: Option<ResponseType>) -> Conditions {
    Conditions { enforcement, response_type, tool: ToolKind::of(tool), format_input: false }
}
