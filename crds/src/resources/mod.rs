//! The custom resources, with the field names of their documents. This module holds only shapes: [`crate::compile`] checks
//! how the fields fit together.

#![expect(clippy::duplicated_attributes, reason = "columns of `kube` that share a type are no duplicates")]

mod command;
mod common;
mod config_map;
mod content;
mod exposition;
mod filters;
mod graphql;
mod group;
mod grpc;
mod manifest;
mod mcp;
mod openapi;
mod plan;
mod pod;
mod scaling;
mod status;
mod tools;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

pub use command::{
    AppleScriptActionSpec, AppleScriptSpec, CommandActionSpec, CommandArgSpec, CommandArgStyle, CommandLimitsSpec,
    CommandRetrySpec, CommandSpec, InlineScriptSpec, ScriptLanguage,
};
pub(crate) use common::LATER;
pub use common::{
    ConfigMapKeyRef, Later, LocalName, Memory, NamespacedName, Quantity, SecretKeyRef, ServiceRef, Share,
};
pub(crate) use config_map::document_name;
pub use config_map::{ConfigMap, Unpacked};
pub use content::{
    PromptArgumentSpec, PromptMessageSpec, PromptResultSpec, PromptSpec, PromptsObject, PromptsSpec, ResourceSpec,
    ResourceTemplateSpec, ResourcesObject, ResourcesSpec, TemplateVariableSpec,
};
pub(crate) use exposition::duration_ms;
pub use exposition::{
    AccessSpec, ApiKeysSpec, AuditMode, AuditSpec, BundlePartSpec, ContentSelection, Exposition, ExpositionOutputSpec,
    ExpositionSpec, LimitsSpec, ListsSpec, OutputLimitsSpec, Published, TokensSpec, ToolSelection,
};
pub use filters::{ToolsFilters, ToolsFiltersSpec};
pub use graphql::{GraphQlFieldsSpec, GraphQlOperationsSpec, GraphQlSpec};
pub use group::{
    AllowedNamespaces, AuditSink, CommandsSpec, EgressSpec, FloorsSpec, GatewayGroup, GatewayGroupSpec, GroupAuditSpec,
    ListenerSpec, MetricsDetail, MetricsSpec, NamespaceSelector, NamespacesFrom, ServiceSpec, ServiceType, TlsSpec,
    TracingSpec, TrafficPolicy,
};
pub use grpc::{GrpcMethodsSpec, GrpcSpec};
pub use manifest::{
    ActionSpec, ArgSpec, ArgStyle, ArgType, AuthSpec, AuthType, HttpSpec, ItemsSpec, PageType, PaginationSpec,
    RequestSpec, ResponseSpec, RetrySpec, RiskLevel, RiskSpec, ServiceManifest, ServiceManifestSpec, SourceSpec,
};
pub use mcp::{McpSpec, McpToolSpec};
pub(crate) use openapi::override_of;
pub use openapi::{OpenApiSpec, OperationsSpec, OverrideSpec};
pub use plan::{ConfigurationPlan, ConfigurationPlanSpec, PlanHeadersSpec, PlanTimeoutsSpec};
pub use pod::{
    EnvSpec, PodResources, PodSpec, SpreadSpec, TaintEffect, TolerationOperator, TolerationSpec, WhenUnsatisfiable,
};
pub(crate) use pod::{RESERVED_ENV, RESERVED_ENV_PREFIXES};
pub use scaling::{
    AutoscalingSpec, DisruptionBudgetSpec, ScalingBehavior, ScalingPolicy, ScalingRules, ScalingUnit, SelectPolicy,
};
pub use status::{
    ExpositionStatus, FilterSetStatus, GatewayGroupStatus, ResourceStatus, StatusCondition, UpstreamStatus,
    status_fields,
};
pub use tools::{CustomToolSpec, CustomTools, CustomToolsSpec};

use tamis_config::Digest;

use crate::Diagnostic;
use crate::origin::Origin;
use crate::read::api;
use crate::yaml::Node;

/// The `apiVersion` of every kind.
pub const API_VERSION: &str = "tamis.dev/v1alpha1";
/// The `apiVersion` of reShapr's documents, which files may use in place of [`API_VERSION`]. A cluster has no such kinds.
pub(crate) const RESHAPR_API_VERSION: &str = "reshapr.io/v1alpha1";
/// The API groups that documents in files may use.
pub(crate) const GROUPS: [&str; 2] = ["tamis.dev", "reshapr.io"];
/// The namespace of a document that sets none.
pub const DEFAULT_NAMESPACE: &str = "default";

/// The kinds of the API group, and whether files may hold them.
pub(crate) const KINDS: &[(&str, bool)] = &[
    ("ServiceManifest", true),
    ("ToolsFilters", true),
    ("Exposition", true),
    ("GatewayGroup", true),
    ("CustomTools", true),
    ("ConfigurationPlan", true),
    ("Prompts", true),
    ("Resources", true),
    ("GatewayConfig", false),
];

/// Kinds whose name is a common word. Without the API group it does not show whose document it is.
pub(crate) const COMMON_WORDS: [&str; 2] = ["Prompts", "Resources"];

/// The namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// `metadata.namespace`, or [`DEFAULT_NAMESPACE`].
    pub namespace: String,
    /// `metadata.name`, or a name derived from the file name if the document has none.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A parsed document.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource<S> {
    /// The namespace and name.
    pub name: ObjectName,
    /// Whether the name was generated because the document has no `metadata`.
    pub unnamed: bool,
    /// The specification.
    pub spec: S,
    /// The position of the document and its fields.
    pub origin: Origin,
}

/// The documents of a set of files by kind, each in the order of files and documents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resources {
    /// ServiceManifests.
    pub manifests: Vec<Arc<Resource<ServiceManifestSpec>>>,
    /// ToolsFilters.
    pub filters: Vec<Arc<Resource<ToolsFiltersSpec>>>,
    /// Expositions.
    pub expositions: Vec<Arc<Resource<ExpositionSpec>>>,
    /// GatewayGroups.
    pub groups: Vec<Arc<Resource<GatewayGroupSpec>>>,
    /// CustomTools.
    pub tools: Vec<Arc<Resource<CustomToolsSpec>>>,
    /// ConfigurationPlans.
    pub plans: Vec<Arc<Resource<ConfigurationPlanSpec>>>,
    /// Prompts.
    pub prompts: Vec<Arc<Resource<PromptsSpec>>>,
    /// Resources.
    pub contents: Vec<Arc<Resource<ResourcesSpec>>>,
    /// Documents that exist but cannot be read: invalid, which is not the same as absent.
    pub unusable: Vec<Arc<Unusable>>,
    /// OpenAPI, GraphQL and gRPC documents in files, which manifests may name.
    pub apis: Vec<Arc<ApiDocument>>,
    /// ConfigMaps in files, which manifests may name.
    pub config_maps: Vec<Arc<ConfigMap>>,
}

/// An OpenAPI, GraphQL or gRPC document in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiDocument {
    /// The file, as the caller named its folder.
    pub file: Arc<str>,
    /// The digest of its bytes.
    pub(crate) digest: Digest,
    /// The document, or why it cannot be read. A text in GraphQL's own language and a .proto text are scalars,
    /// and so is a descriptor set, in base64.
    pub(crate) tree: ApiTree,
}

/// A document, parsed or not.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ApiTree {
    /// It was parsed.
    Parsed(Result<Node, Box<Diagnostic>>),
    /// These bytes could be parsed before, and have not changed since.
    Known(Arc<[u8]>),
}

impl ApiDocument {
    /// Returns the document, parsed now if it is not yet.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn tree(&self) -> Result<Cow<'_, Node>, Box<Diagnostic>> {
        match &self.tree {
            ApiTree::Parsed(parsed) => parsed.as_ref().map(Cow::Borrowed).map_err(Clone::clone),
            ApiTree::Known(bytes) => api::tree_of(&self.file, bytes).map(Cow::Owned),
        }
    }

    /// Returns whether the document can be read.
    pub(crate) fn is_readable(&self) -> bool {
        !matches!(self.tree, ApiTree::Parsed(Err(_)))
    }
}

/// A document that cannot be read. Whatever relies on it keeps the last known good state, or stops. The document is never
/// treated as absent: an unreadable filter set would then be no filter at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// The kind, if it can be read.
    pub kind: Option<String>,
    /// The namespace and name, if they can be read.
    pub name: Option<ObjectName>,
    /// The service that the document defines or refers to, if it can be read.
    pub service: Option<ServiceRef>,
    /// `spec.name` of a ToolsFilters, if it can be read.
    pub set: Option<String>,
    /// The file, or kind and name, for messages.
    pub file: Arc<str>,
    /// The first error in the document.
    pub message: String,
}

fn without_tools(spec: &mut ServiceManifestSpec) {
    match spec.source() {
        Some(SourceSpec::Http(_)) => {
            if let Some(http) = &mut spec.http {
                http.actions.clear();
            }
        }
        Some(SourceSpec::Mcp(_)) => {
            if let Some(tools) = spec.mcp.as_mut().and_then(|mcp| mcp.tools.as_mut()) {
                tools.clear();
            }
        }
        Some(SourceSpec::OpenApi(_)) => {
            if let Some(openapi) = &mut spec.openapi {
                openapi.inline = None;
                openapi.overrides.clear();
            }
        }
        Some(SourceSpec::GraphQl(_)) => {
            if let Some(graphql) = &mut spec.graphql {
                graphql.inline = None;
                if let Some(operations) = &mut graphql.operations {
                    operations.inline = None;
                }
                graphql.overrides.clear();
            }
        }
        Some(SourceSpec::Command(_)) => {
            if let Some(command) = &mut spec.command {
                command.actions.clear();
            }
        }
        Some(SourceSpec::AppleScript(_)) => {
            if let Some(scripts) = &mut spec.apple_script {
                scripts.actions.clear();
            }
        }
        Some(SourceSpec::Grpc(_)) => {
            if let Some(grpc) = &mut spec.grpc {
                grpc.inline = None;
                grpc.overrides.clear();
            }
        }
        None => {}
    }
}

fn without_contents(spec: &mut ResourcesSpec) {
    let ResourcesSpec { service: _, resources, resource_templates } = spec;
    resources.clear();
    resource_templates.clear();
}

fn head<S: Clone>(resource: &Resource<S>, empty: impl FnOnce(&mut S)) -> Arc<Resource<S>> {
    let Resource { name, unnamed, spec, origin } = resource;
    let mut spec = spec.clone();
    empty(&mut spec);
    Arc::new(Resource { name: name.clone(), unnamed: *unnamed, spec, origin: origin.bare() })
}

impl Resources {
    /// Returns the number of usable documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.manifests.len()
            + self.filters.len()
            + self.expositions.len()
            + self.groups.len()
            + self.tools.len()
            + self.plans.len()
            + self.prompts.len()
            + self.contents.len()
            + self.config_maps.len()
    }

    /// Returns whether there are no usable documents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the same documents without their per-tool contents and trees: enough to know which resource refers to which.
    /// A reader that holds many large documents keeps these and reads a whole document when it is needed.
    #[must_use]
    pub fn heads(&self) -> Self {
        Self {
            manifests: self.manifests.iter().map(|resource| head(resource, without_tools)).collect(),
            filters: self.filters.iter().map(|resource| head(resource, |spec| spec.filters.clear())).collect(),
            tools: self.tools.iter().map(|resource| head(resource, |spec| spec.custom_tools.clear())).collect(),
            prompts: self.prompts.iter().map(|resource| head(resource, |spec| spec.prompts.clear())).collect(),
            contents: self.contents.iter().map(|resource| head(resource, without_contents)).collect(),
            ..self.clone()
        }
    }

    /// Adds the documents of another set. They are shared, not copied.
    pub fn extend(&mut self, other: &Self) {
        self.manifests.extend(other.manifests.iter().cloned());
        self.filters.extend(other.filters.iter().cloned());
        self.expositions.extend(other.expositions.iter().cloned());
        self.groups.extend(other.groups.iter().cloned());
        self.tools.extend(other.tools.iter().cloned());
        self.plans.extend(other.plans.iter().cloned());
        self.prompts.extend(other.prompts.iter().cloned());
        self.contents.extend(other.contents.iter().cloned());
        self.unusable.extend(other.unusable.iter().cloned());
        self.apis.extend(other.apis.iter().cloned());
        self.config_maps.extend(other.config_maps.iter().cloned());
    }
}
