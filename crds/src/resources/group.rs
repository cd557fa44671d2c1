//! `GatewayGroup`: what a gateway allows, and the floors that no exposition goes below.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AuditMode, Later};

/// Gateways that serve together. In a folder for `tamis serve` it configures the one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayGroupSpec {
    /// How many gateways; `tamis serve` is always one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Not implemented yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Later>,
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
    /// Not implemented yet: settings of the gateways' pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Later>,
}

/// From which namespaces expositions may name a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowedNamespaces {
    /// `Same` by default.
    pub from: NamespacesFrom,
    /// Not implemented yet: labels of namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Later>,
}

/// Which namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespacesFrom {
    /// The group's own.
    #[default]
    Same,
    /// Every one.
    All,
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
