//! `GatewayGroup`: what a gateway allows, and the floors that no exposition goes below.

use indexmap::IndexMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AuditMode, GatewayGroupStatus, Later};

/// Gateways that serve together. In a folder for `tamis serve` it configures the one process.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "reshapr.io",
    version = "v1alpha1",
    kind = "GatewayGroup",
    plural = "gatewaygroups",
    namespaced,
    shortname = "gwg",
    category = "tamis",
    status = "GatewayGroupStatus",
    derive = "PartialEq",
    schema = "disabled",
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(name = "Expositions", type_ = "integer", json_path = ".status.attachedExpositions"),
    printcolumn(name = "Gateways", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayGroupSpec {
    /// How many gateways; `tamis serve` is always one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// As many gateways as the load needs, in the place of `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<AutoscalingSpec>,
    /// From which namespaces expositions may name this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<AllowedNamespaces>,
    /// Where the gateways listen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<ListenerSpec>,
    /// Not implemented yet: where replicas share state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Later>,
    /// Command adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<CommandsSpec>,
    /// Which addresses may be called beside the public network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressSpec>,
    /// Floors that no exposition of the group can go below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require: Option<FloorsSpec>,
    /// What is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsSpec>,
    /// Where audit records go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<GroupAuditSpec>,
    /// Which operator looks after the group; nothing to `tamis serve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_name: Option<String>,
    /// Settings of the gateways' pods; nothing to `tamis serve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodSpec>,
}

/// As many gateways as the load needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AutoscalingSpec {
    /// At least so many.
    pub min_replicas: u32,
    /// At most so many.
    pub max_replicas: u32,
    /// Percent of the requested CPU that is aimed at; 70 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cpu_utilization: Option<u32>,
}

/// What of the gateways' pods can be set: nothing here can give a pod more rights.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSpec {
    /// The image; the operator's own default where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// `IfNotPresent` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Names of Secrets to pull the image with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// Requests and limits of CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<PodResources>,
    /// Labels of the pods, beside the operator's own.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, String>,
    /// Annotations of the pods.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub annotations: IndexMap<String, String>,
    /// Labels of the nodes that they may run on.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub node_selector: IndexMap<String, String>,
    /// Their PriorityClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// Requests and limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PodResources {
    /// What is set aside: `cpu`, `memory`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub requests: IndexMap<String, String>,
    /// What is the most: `cpu`, `memory`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub limits: IndexMap<String, String>,
}

/// From which namespaces expositions may name a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowedNamespaces {
    /// `Same` by default.
    pub from: NamespacesFrom,
    /// Labels that a namespace must have, for `Selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<NamespaceSelector>,
}

/// Which namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespacesFrom {
    /// The group's own.
    #[default]
    Same,
    /// Every one.
    All,
    /// Those that `selector` matches.
    Selector,
}

/// Which namespaces, by their labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespaceSelector {
    /// Labels that all have to be there with these values.
    pub match_labels: IndexMap<String, String>,
}

/// Where gateways listen. What the command line says comes first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListenerSpec {
    /// The port, 8080 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The host name under which clients reach the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The URL under which clients reach the group, where something stands in front of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_url: Option<String>,
    /// Not implemented yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Later>,
}

/// Command adapters, off by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandsSpec {
    /// Only `false` is implemented yet.
    #[serde(default)]
    pub enabled: bool,
    /// Not implemented yet: which programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Later>,
}

/// Which addresses may be called beside the public network: `10.1.0.0/16`, `192.0.2.7`, `api.internal`, `*.example.com`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EgressSpec {
    /// Networks and hosts that may be called although they are not public.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Networks and hosts that may not be called; wins over `allow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// Floors that no exposition of a group can go below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FloorsSpec {
    /// Callers must be authenticated: `access.anonymous` is refused.
    #[serde(default)]
    pub access: bool,
    /// Every exposition must be `Enforced`.
    #[serde(default)]
    pub enforced: bool,
    /// The least an audit record holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditMode>,
}

/// What is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsSpec {
    /// `Tool` by default.
    pub detail: MetricsDetail,
}

/// The finest label of the counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetricsDetail {
    /// A series a tool.
    #[default]
    Tool,
    /// A series an exposition.
    Exposition,
}

/// Where audit records go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupAuditSpec {
    /// `Stdout` by default.
    pub sink: AuditSink,
}

/// Where audit records go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AuditSink {
    /// The log.
    #[default]
    Stdout,
    /// Files, which may hold full outputs.
    File,
}
