//! The custom resources, as `contract.md` names their fields. Shapes only: what the fields say together is checked by
//! [`crate::compile`].

#![expect(clippy::duplicated_attributes, reason = "columns of `kube` that share a type are no duplicates")]

mod common;
mod exposition;
mod filters;
mod group;
mod manifest;
mod plan;
mod pod;
mod scaling;
mod status;
mod tools;

use std::fmt;
use std::sync::Arc;

pub(crate) use common::LATER;
pub use common::{Later, LocalName, Memory, NamespacedName, Quantity, SecretKeyRef, ServiceRef, Share};
pub use exposition::{
    AccessSpec, ApiKeysSpec, AuditMode, AuditSpec, Exposition, ExpositionSpec, LimitsSpec, ToolSelection,
};
pub use filters::{ToolsFilters, ToolsFiltersSpec};
pub use group::{
    AllowedNamespaces, AuditSink, CommandsSpec, EgressSpec, FloorsSpec, GatewayGroup, GatewayGroupSpec, GroupAuditSpec,
    ListenerSpec, MetricsDetail, MetricsSpec, NamespaceSelector, NamespacesFrom, ServiceSpec, ServiceType, TlsSpec,
    TracingSpec, TrafficPolicy,
};
pub use manifest::{
    ActionSpec, ArgSpec, ArgStyle, ArgType, AuthSpec, AuthType, HttpSpec, ItemsSpec, PageType, PaginationSpec,
    RequestSpec, ResponseSpec, RetrySpec, RiskLevel, RiskSpec, ServiceManifest, ServiceManifestSpec,
};
pub use plan::{ConfigurationPlan, ConfigurationPlanSpec, PlanHeadersSpec, PlanTimeoutsSpec};
pub use pod::{
    EnvSpec, PodResources, PodSpec, SpreadSpec, TaintEffect, TolerationOperator, TolerationSpec, WhenUnsatisfiable,
};
pub(crate) use pod::{RESERVED_ENV, RESERVED_ENV_PREFIXES};
pub use scaling::{
    AutoscalingSpec, DisruptionBudgetSpec, ScalingBehavior, ScalingPolicy, ScalingRules, ScalingUnit, SelectPolicy,
};
pub use status::{ExpositionStatus, FilterSetStatus, GatewayGroupStatus, ResourceStatus};
pub use tools::{CustomToolSpec, CustomTools, CustomToolsSpec};

use crate::origin::Origin;

/// `apiVersion` of every kind.
pub const API_VERSION: &str = "tamis.dev/v1alpha1";
/// `apiVersion` of reShapr's documents, which files may have in place of [`API_VERSION`]. A cluster knows no such kinds.
pub(crate) const RESHAPR_API_VERSION: &str = "reshapr.io/v1alpha1";
/// API groups that documents in files may have.
pub(crate) const GROUPS: [&str; 2] = ["tamis.dev", "reshapr.io"];
/// The namespace of a document that names none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The kinds of the group that exist, and whether files may hold them today.
pub(crate) const KINDS: &[(&str, bool)] = &[
    ("ServiceManifest", true),
    ("ToolsFilters", true),
    ("Exposition", true),
    ("GatewayGroup", true),
    ("CustomTools", true),
    ("ConfigurationPlan", true),
    ("GatewayConfig", false),
];

/// `metadata`, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// `metadata.namespace`, or [`DEFAULT_NAMESPACE`].
    pub namespace: String,
    /// `metadata.name`, or one made of the file's name for the documents that have none.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One document, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource<S> {
    /// Its name.
    pub name: ObjectName,
    /// Whether the name was made up, since the document has no `metadata`.
    pub unnamed: bool,
    /// What it says.
    pub spec: S,
    /// Where it says it.
    pub origin: Origin,
}

/// Everything that a set of files says, by kind, each in the order of files and documents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resources {
    /// What can be called.
    pub manifests: Vec<Arc<Resource<ServiceManifestSpec>>>,
    /// What may pass.
    pub filters: Vec<Arc<Resource<ToolsFiltersSpec>>>,
    /// Who sees which service, how.
    pub expositions: Vec<Arc<Resource<ExpositionSpec>>>,
    /// What a gateway allows.
    pub groups: Vec<Arc<Resource<GatewayGroupSpec>>>,
    /// Further tools of services.
    pub tools: Vec<Arc<Resource<CustomToolsSpec>>>,
    /// How upstreams are reached.
    pub plans: Vec<Arc<Resource<ConfigurationPlanSpec>>>,
    /// What is there and cannot be read: invalid, which is not the same as absent.
    pub unusable: Vec<Arc<Unusable>>,
}

/// A document that cannot be read. What relies on it keeps what it had, or stops; it is never treated as absent, since
/// a filter set that cannot be read would else be no filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// Its kind; none where not even that can be read.
    pub kind: Option<String>,
    /// Its name, where that can be read.
    pub name: Option<ObjectName>,
    /// The service that it is or binds to, where that can be read.
    pub service: Option<ServiceRef>,
    /// The name of a ToolsFilters' set, where that can be read.
    pub set: Option<String>,
    /// The file, or kind and name, as messages say it.
    pub file: Arc<str>,
    /// The first thing that is wrong with it.
    pub message: String,
}

fn without_actions(spec: &mut ServiceManifestSpec) {
    if let Some(http) = &mut spec.http {
        http.actions.clear();
    }
}

fn head<S: Clone>(resource: &Resource<S>, empty: impl FnOnce(&mut S)) -> Arc<Resource<S>> {
    let Resource { name, unnamed, spec, origin } = resource;
    let mut spec = spec.clone();
    empty(&mut spec);
    Arc::new(Resource { name: name.clone(), unnamed: *unnamed, spec, origin: origin.bare() })
}

impl Resources {
    /// How many documents there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.manifests.len()
            + self.filters.len()
            + self.expositions.len()
            + self.groups.len()
            + self.tools.len()
            + self.plans.len()
    }

    /// Whether there is no document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same documents without what they say of each tool and without their trees: enough to know what binds to what.
    /// A reader that holds many large documents keeps these and reads the whole of one when it is needed.
    #[must_use]
    pub fn heads(&self) -> Self {
        Self {
            manifests: self.manifests.iter().map(|resource| head(resource, without_actions)).collect(),
            filters: self.filters.iter().map(|resource| head(resource, |spec| spec.filters.clear())).collect(),
            tools: self.tools.iter().map(|resource| head(resource, |spec| spec.custom_tools.clear())).collect(),
            ..self.clone()
        }
    }

    /// Adds the documents of another set; they are shared, not copied.
    pub fn extend(&mut self, other: &Self) {
        self.manifests.extend(other.manifests.iter().cloned());
        self.filters.extend(other.filters.iter().cloned());
        self.expositions.extend(other.expositions.iter().cloned());
        self.groups.extend(other.groups.iter().cloned());
        self.tools.extend(other.tools.iter().cloned());
        self.plans.extend(other.plans.iter().cloned());
        self.unusable.extend(other.unusable.iter().cloned());
    }
}
