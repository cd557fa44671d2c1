//! From resources to what a gateway serves. A pure function: `tamis serve` and the operator call the same one.

mod action;
mod args;
mod auth;
mod expose;
mod filters;
mod groups;
mod service;
mod template;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tamis_config::{ExpositionId, Snapshot};

use crate::cluster::Cluster;
use crate::resources::{GatewayGroupSpec, ObjectName, Resources};
use crate::{Diagnostic, Loaded, ParsedFile, Resource};

/// What the compile step knows beside the resources.
#[derive(Debug, Clone, Copy, Default)]
pub struct CompileEnv<'a> {
    /// What is served now. A tool whose filter no longer compiles keeps its last good one, and an exposition whose
    /// manifest is no longer valid its last good service.
    pub previous: Option<&'a Snapshot>,
    /// Whether full outputs can be written to a file although no group says so (`audit: {mode: Full}`).
    pub full_audit: bool,
    /// Set by the operator: an exposition then needs a group, `access`, and Secrets that take part.
    pub cluster: Option<Cluster<'a>>,
}

/// What came of a compile.
#[derive(Debug, Clone, Default)]
pub struct Compilation {
    /// What to serve.
    pub snapshot: Snapshot,
    /// What there is to say, by file and from top to bottom.
    pub diagnostics: Vec<Diagnostic>,
    /// Expositions that do not serve what the documents say, since some of that is in error.
    pub degraded: BTreeMap<ExpositionId, Vec<Degraded>>,
    /// In a cluster: the group that each exposition of the snapshot is served by, stopped ones included. One that names
    /// a group which is not there, or does not take it, is in `snapshot.stopped` and not here.
    pub placements: BTreeMap<ExpositionId, ObjectName>,
    /// The GatewayGroup that configures the process, where the documents have exactly one.
    pub group: Option<Arc<Resource<GatewayGroupSpec>>>,
}

impl Compilation {
    /// Whether a diagnostic is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// A part of an exposition that is not what the documents say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Degraded {
    /// The manifest is invalid; its last good version is served.
    PreviousService,
    /// The tool's filter does not compile; its last good one applies.
    PreviousFilter(String),
    /// The tool's filter has never compiled under today's posture; the tool is not published.
    Unpublished(String),
}

/// Binds expositions to services and filter sets, and checks everything that can be known before a call.
#[must_use]
pub fn compile(resources: &Resources, env: &CompileEnv<'_>) -> Compilation {
    run(resources, env, false)
}

/// Everything there is to say about files: what loading said, and what compiling says. Where a file is broken, what is
/// not found may be in it, so that nothing is said about that.
#[must_use]
pub fn diagnose(loaded: &Loaded) -> Vec<Diagnostic> {
    let incomplete = loaded.files.iter().any(ParsedFile::is_broken);
    let mut diagnostics = run(&loaded.resources, &CompileEnv::default(), incomplete).diagnostics;
    if incomplete {
        // Once is enough for a field.
        let told: HashSet<_> = loaded.diagnostics.iter().filter(|d| d.is_error()).map(Diagnostic::spot).collect();
        diagnostics.retain(|diagnostic| !told.contains(&diagnostic.spot()));
    }
    diagnostics.extend(loaded.diagnostics.iter().cloned());
    Diagnostic::sort(&mut diagnostics);
    diagnostics
}

fn run(resources: &Resources, env: &CompileEnv<'_>, incomplete: bool) -> Compilation {
    let mut diagnostics = Vec::new();
    let groups = groups::Groups::new(&resources.groups, &mut diagnostics);
    let services = service::Services::new(&resources.manifests, &mut diagnostics);
    let mut sets = filters::Sets::new(&resources.filters, &services, incomplete, &mut diagnostics);
    let mut compilation = Compilation { group: groups.sole(), ..Compilation::default() };
    expose::all(&resources.expositions, &groups, &services, &mut sets, (env, incomplete), &mut compilation);
    diagnostics.extend(sets.finish(&services));
    diagnostics.append(&mut compilation.diagnostics);
    Diagnostic::sort(&mut diagnostics);
    compilation.diagnostics = diagnostics;
    compilation
}

/// Names that occur twice among documents of one kind: in files an error.
fn duplicate_names<S>(kind: &str, resources: &[Arc<Resource<S>>], diagnostics: &mut Vec<Diagnostic>) {
    let mut seen: BTreeMap<_, &Resource<S>> = BTreeMap::new();
    for resource in resources.iter().filter(|r| !r.unnamed) {
        if let Some(first) = seen.get(&resource.name) {
            let message = format!("{kind} {} is in {} too", resource.name, first.origin.place());
            let path = crate::origin::FieldPath::default().key("metadata").key("name");
            diagnostics.push(resource.origin.error(&path, message, "rename or remove one of them"));
        } else {
            seen.insert(&resource.name, resource);
        }
    }
}
