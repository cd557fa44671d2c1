//! From resources to what a gateway serves. A pure function: `tamis serve` and the operator call the same one.

mod access;
mod action;
mod args;
mod auth;
mod credentials;
mod custom;
mod egress;
mod expose;
mod filters;
mod groups;
mod pause;
mod plan;
mod service;
mod size;
mod stale;
mod template;
#[cfg(test)]
mod tests;
mod tools;
mod unusable;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use tamis_config::{ExpositionId, Snapshot};

use crate::cluster::Cluster;
use crate::resources::{GatewayGroupSpec, ObjectName, Resources};
use crate::{Diagnostic, Loaded, ParsedFile, Reason, Resource};
pub use pause::{Paused, pause};

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
    /// What there is to compile of the resources.
    pub part: Part<'a>,
}

/// What a compile is for. An operator compiles a large service in parts, so that other services have their turn in between.
#[derive(Debug, Clone, Copy, Default)]
pub enum Part<'a> {
    /// Everything.
    #[default]
    All,
    /// The expositions alone: nothing is said of the service's own objects but what an exposition leads to.
    Expositions,
    /// The service's own objects alone, and of its filter sets these only.
    Objects(&'a BTreeSet<ObjectName>),
}

impl Part<'_> {
    /// Whether something is to be said of the service's own objects.
    fn judges_objects(self) -> bool {
        matches!(self, Self::All | Self::Objects(_))
    }

    /// Whether a filter set is to be judged by itself.
    fn judges(self, set: &ObjectName) -> bool {
        match self {
            Self::All => true,
            Self::Expositions => false,
            Self::Objects(sets) => sets.contains(set),
        }
    }
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
    /// a group which is not there, or does not take it, is in `snapshot.stopped` and not here; nor is one whose own
    /// object cannot be read: it stays where it is served.
    pub placements: BTreeMap<ExpositionId, ObjectName>,
    /// In a cluster: expositions whose group is another operator's. Nothing is said of them.
    pub foreign: BTreeSet<ExpositionId>,
    /// In a cluster: groups that cannot be read. None of their documents may be touched.
    pub frozen: BTreeSet<ObjectName>,
    /// In a cluster: expositions of such groups, which are neither placed nor stopped.
    pub held: BTreeMap<ExpositionId, ObjectName>,
    /// What [`pause`] has kept from each exposition that is paused.
    pub paused: BTreeMap<ExpositionId, Paused>,
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
    /// The exposition itself cannot be read; what was served of it stays, with today's Secrets.
    PreviousExposition,
    /// The manifest or the plan is invalid; the last good service is served.
    PreviousService,
    /// What may hold filters cannot be read; the filters that were served stay, and no looser enforcement.
    PreviousFilters,
    /// The tool's filter does not compile; its last good one applies.
    PreviousFilter(String),
    /// The tool's filter has never compiled under today's enforcement; the tool is not published.
    Unpublished(String),
}

impl fmt::Display for Degraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PreviousExposition => f.write_str("the exposition cannot be read; its last good version is served"),
            Self::PreviousService => f.write_str("the last good service is served"),
            Self::PreviousFilters => f.write_str("filters cannot be read; the last good filters apply"),
            Self::PreviousFilter(tool) => write!(f, "tool {tool} uses its last good filter"),
            Self::Unpublished(tool) => write!(f, "tool {tool} is not published"),
        }
    }
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
    diagnose_as(loaded, loaded.files.iter().any(ParsedFile::is_broken))
}

/// The same for some of the files that belong together: what they name may be in the others.
#[must_use]
pub fn diagnose_part(loaded: &Loaded) -> Vec<Diagnostic> {
    diagnose_as(loaded, true)
}

fn diagnose_as(loaded: &Loaded, incomplete: bool) -> Vec<Diagnostic> {
    // Where full records go is said when the files are served.
    let env = CompileEnv { full_audit: true, ..CompileEnv::default() };
    let mut diagnostics = run(&loaded.resources, &env, incomplete).diagnostics;
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
    let unusable = unusable::Unusables::new(&resources.unusable, incomplete);
    let groups = groups::Groups::new(&resources.groups, &unusable, env, &mut diagnostics);
    let mut own = Vec::new();
    let customs = custom::Customs::new(&resources.tools, &mut own);
    let services = service::Services::new(&resources.manifests, &customs, &unusable, env, &mut own);
    if !incomplete {
        customs.references(&services, &unusable, &mut own);
    }
    if env.part.judges_objects() {
        diagnostics.append(&mut own);
    }
    let mut plans = plan::Plans::new(&resources.plans, &mut diagnostics);
    let mut sets = filters::Sets::new(&resources.filters, &services, &unusable, incomplete, env.part, &mut diagnostics);
    let mut compilation = Compilation { group: groups.sole(), ..Compilation::default() };
    if env.cluster.is_some() {
        compilation.frozen = unusable.groups().filter_map(|group| group.name.clone()).collect();
    }
    let context = expose::Context { env, groups: &groups, services: &services, unusable: &unusable, incomplete };
    if !matches!(env.part, Part::Objects(_)) {
        expose::all(&resources.expositions, &context, &mut sets, &mut plans, &mut compilation);
    }
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
            let message = format!("{kind} {} is already defined in {}", resource.name, first.origin.place());
            let path = crate::origin::FieldPath::default().key("metadata").key("name");
            let error = resource.origin.error(&path, message, "rename or remove one of them");
            diagnostics.push(error.because(Reason::Conflict));
        } else {
            seen.insert(&resource.name, resource);
        }
    }
}
