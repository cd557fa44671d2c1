//! Compiles resources to the configuration of a gateway. A pure function, which `tamis serve` and the operator share.

mod access;
mod action;
mod args;
mod auth;
mod bundle;
mod command;
mod content;
mod conversions;
mod credentials;
mod custom;
mod documents;
mod egress;
mod environment;
mod expose;
mod filters;
mod follow;
mod graphql;
mod groups;
mod grpc;
mod mcp;
mod openapi;
mod overrides;
mod pause;
mod plan;
mod resources;
mod schema;
mod selection;
mod service;
mod size;
mod source;
mod stale;
mod template;
#[cfg(test)]
mod tests;
mod tools;
mod unusable;

pub(crate) use content::{MAX_CONTENT, MAX_PROMPT_BYTES, MAX_PROMPT_PARTS, MAX_VALUES};
pub(crate) use resources::MAX_RESOURCE_BYTES;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use tamis_config::{ExpositionId, Reason, Snapshot};

use crate::cluster::Cluster;
use crate::origin::FieldPath;
use crate::resources::{GatewayGroupSpec, ObjectName, Resources};
use crate::{Diagnostic, Loaded, ParsedFile, Resource};
pub use bundle::Bundled;
pub use conversions::Conversions;
pub use pause::{Paused, pause};
pub use source::graphql::{GraphQlDocuments, GraphQlOperations, examine_graphql, graphql_operations};
pub use source::grpc::{GrpcReport, ProtoFile, ProtoText, examine_grpc, proto_imports};
pub use source::openapi::{Expansion, examine_api, expand_api};
pub use source::report::{ApiReport, ApiTool};

/// The inputs of the compile step besides the resources.
#[derive(Debug, Clone, Copy, Default)]
pub struct CompileEnv<'a> {
    /// The configuration that is served now. A tool whose filter no longer compiles keeps its last good filter, and an
    /// exposition whose manifest is no longer valid keeps its last good service.
    pub previous: Option<&'a Snapshot>,
    /// Whether full outputs can be written to a file even if no group configures it (`audit: {mode: Full}`).
    pub full_audit: bool,
    /// The cluster, set by the operator. Expositions then need a group, `access`, and labelled Secrets.
    pub cluster: Option<Cluster<'a>>,
    /// The part of the resources to compile.
    pub part: Part<'a>,
    /// What documents became in earlier compilations. None are remembered without it.
    pub conversions: Option<&'a Conversions>,
}

/// The part to compile. An operator compiles a large service in parts, so that other services get their turn in between.
#[derive(Debug, Clone, Copy, Default)]
pub enum Part<'a> {
    /// Everything.
    #[default]
    All,
    /// Only the expositions. Findings about the service's own objects are limited to those that affect an exposition.
    Expositions,
    /// Only the service's own objects, and of its filter sets only these.
    Objects(&'a BTreeSet<ObjectName>),
}

impl Part<'_> {
    /// Returns whether to report findings about the service's own objects.
    fn judges_objects(self) -> bool {
        matches!(self, Self::All | Self::Objects(_))
    }

    /// Returns whether to check a filter set on its own.
    fn judges(self, set: &ObjectName) -> bool {
        match self {
            Self::All => true,
            Self::Expositions => false,
            Self::Objects(sets) => sets.contains(set),
        }
    }
}

/// The result of a compile.
#[derive(Debug, Clone, Default)]
pub struct Compilation {
    /// The configuration to serve.
    pub snapshot: Snapshot,
    /// The findings, by file and from top to bottom.
    pub diagnostics: Vec<Diagnostic>,
    /// What each bundle of the snapshot publishes.
    pub bundled: BTreeMap<ExpositionId, Bundled>,
    /// Expositions that do not match the documents, because of errors in them.
    pub degraded: BTreeMap<ExpositionId, Vec<Degraded>>,
    /// In a cluster: the group that serves each exposition of the snapshot, including stopped ones. An exposition whose group
    /// does not exist or does not admit it is in `snapshot.stopped` instead. An exposition whose own object cannot be read is
    /// in neither: it stays where it is served.
    pub placements: BTreeMap<ExpositionId, ObjectName>,
    /// In a cluster: expositions whose group belongs to another operator. They are not reported on.
    pub foreign: BTreeSet<ExpositionId>,
    /// In a cluster: groups that cannot be read. Their documents must not be changed.
    pub frozen: BTreeSet<ObjectName>,
    /// In a cluster: expositions of such groups, which are neither placed nor stopped.
    pub held: BTreeMap<ExpositionId, ObjectName>,
    /// What [`pause`] has withheld from each paused exposition.
    pub paused: BTreeMap<ExpositionId, Paused>,
    /// The GatewayGroup that configures the process, if the documents have exactly one.
    pub group: Option<Arc<Resource<GatewayGroupSpec>>>,
}

impl Compilation {
    /// Returns whether any diagnostic is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// A part of an exposition that does not match the documents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Degraded {
    /// The exposition itself cannot be read. Its last good version stays in use, with the current Secrets.
    PreviousExposition,
    /// The manifest or the plan is invalid. The last good service is served.
    PreviousService,
    /// A document that may hold filters cannot be read. The last good filters apply, with at least their enforcement.
    PreviousFilters,
    /// The tool's filter does not compile. Its last good filter applies.
    PreviousFilter(String),
    /// The tool's filter has never compiled under the current enforcement. The tool is not published.
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

/// Binds expositions to services and filter sets, and reports every error that can be found before a call.
#[must_use]
pub fn compile(resources: &Resources, env: &CompileEnv<'_>) -> Compilation {
    run(resources, env, false)
}

/// Returns all findings about files, from loading and from compiling. If a file is broken, missing references are not
/// reported, because they may be in that file.
#[must_use]
pub fn diagnose(loaded: &Loaded) -> Vec<Diagnostic> {
    diagnose_as(loaded, loaded.files.iter().any(ParsedFile::is_broken))
}

/// Returns the findings about some of the files that belong together. Their references may be in the other files.
#[must_use]
pub fn diagnose_part(loaded: &Loaded) -> Vec<Diagnostic> {
    diagnose_as(loaded, true)
}

fn diagnose_as(loaded: &Loaded, incomplete: bool) -> Vec<Diagnostic> {
    // The destination of full records is checked when the files are served.
    let env = CompileEnv { full_audit: true, ..CompileEnv::default() };
    let mut diagnostics = run(&loaded.resources, &env, incomplete).diagnostics;
    if incomplete {
        // One finding per field is enough.
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
    let customs = custom::CustomToolsIndex::new(&resources.tools, &mut own);
    let contents = content::ContentIndex::new(&resources.prompts, &resources.contents, &mut own);
    let services = service::Services::new(resources, (&customs, &contents), &unusable, env, &mut own);
    if incomplete {
        own.retain(|finding| finding.reason != Reason::ConfigMapNotFound);
    } else {
        customs.references(&services, &unusable, &mut own);
        contents.references(&services, &unusable, &mut own);
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

/// Reports names that occur twice among documents of one kind, which is an error in files.
fn duplicate_names<S>(kind: &str, resources: &[Arc<Resource<S>>], diagnostics: &mut Vec<Diagnostic>) {
    let mut seen: BTreeMap<_, &Resource<S>> = BTreeMap::new();
    for resource in resources.iter().filter(|r| !r.unnamed) {
        if let Some(first) = seen.get(&resource.name) {
            let message = format!("{kind} {} is already defined in {}", resource.name, first.origin.place());
            let path = FieldPath::default().key("metadata").key("name");
            let error = resource.origin.error(&path, message, "rename or remove one of them");
            diagnostics.push(error.because(Reason::Conflict));
        } else {
            seen.insert(&resource.name, resource);
        }
    }
}
