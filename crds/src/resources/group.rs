//! `GatewayGroup`: what a gateway allows, and the floors that no exposition goes below.

use indexmap::IndexMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_config::CallLimits;

use super::exposition::duration_ms;
use super::{
    AuditMode, AutoscalingSpec, DisruptionBudgetSpec, GatewayGroupStatus, Later, LocalName, Memory, PodSpec, Quantity,
};

/// Gateways that serve together. In a folder for `tamis serve` it configures the one process.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tamis.dev",
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
    printcolumn(name = "Version", type_ = "string", priority = 1, json_path = ".status.versions[*]"),
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
    /// Bytes that calls, their answers and connections may hold in each gateway: 60 % of the memory limit by default, of the
    /// machine's memory where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// The largest `limits.maxResponseBytes` of an exposition of the group: `64Mi` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_response_bytes: Option<Quantity>,
    /// The longest `limits.timeout` of an exposition of the group, with a unit: `5m` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tamis-unit" = "s"))]
    pub max_timeout: Option<String>,
    /// What is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsSpec>,
    /// Where audit records go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<GroupAuditSpec>,
    /// Traces of calls; none without it. The variables of the OpenTelemetry specification that start with `OTEL_` hold
    /// too (`pod.env`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<TracingSpec>,
    /// Which operator looks after the group; nothing to `tamis serve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_name: Option<String>,
    /// Settings of the gateways' pods; nothing to `tamis serve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodSpec>,
    /// How many gateways may be away at once while nodes are drained; one by default, where there are several. What
    /// leaves none that may be away keeps nodes from being drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption_budget: Option<DisruptionBudgetSpec>,
}

impl GatewayGroupSpec {
    /// `memory` in bytes; none where it is absent or out of bounds.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory.as_ref()?.bytes()
    }

    /// `maxResponseBytes` in bytes, or its default.
    #[must_use]
    pub fn response_ceiling(&self) -> u64 {
        let given = self.max_response_bytes.as_ref().and_then(Quantity::bytes);
        given.unwrap_or(CallLimits::MAX_RESPONSE_BYTES_CEILING)
    }

    /// `maxTimeout` in milliseconds; none where it is absent or no duration.
    #[must_use]
    pub fn max_timeout_ms(&self) -> Option<u64> {
        duration_ms(self.max_timeout.as_deref()?)
    }

    /// `maxTimeout` in milliseconds, or its default.
    #[must_use]
    pub fn timeout_ceiling_ms(&self) -> u64 {
        self.max_timeout_ms().unwrap_or(CallLimits::TIMEOUT_MS_CEILING)
    }
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
    /// The port of the Service: 8080 by default, with `tls` 443. `tamis serve`: where it listens, 8080 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The host name under which clients reach the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The URL under which clients reach the group, where something stands in front of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_url: Option<String>,
    /// TLS on the serving port; without it, whatever stands in front of the gateways ends TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    /// The Kubernetes Service of the group; nothing to `tamis serve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceSpec>,
}

impl ListenerSpec {
    /// The port of the Service.
    #[must_use]
    pub fn service_port(&self) -> u16 {
        self.port.unwrap_or(if self.tls.is_some() { 443 } else { 8080 })
    }
}

/// TLS on the serving port: 1.2 and 1.3, HTTP/2 and HTTP/1.1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsSpec {
    /// A Secret of the group's namespace and of type `kubernetes.io/tls`, with `tls.crt` and `tls.key`, as cert-manager
    /// writes it. A new certificate is shown as soon as it is mounted: no restart, no connection dropped. `tamis serve`
    /// reads `<name>/tls.crt` and `<name>/tls.key` below `--secrets`.
    pub secret_ref: LocalName,
}

/// The Kubernetes Service of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceSpec {
    /// `ClusterIP` by default.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<ServiceType>,
    /// Annotations of the Service: what a load balancer is told.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub annotations: IndexMap<String, String>,
    /// The port on every node, for `NodePort` and `LoadBalancer`; one that is free where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<u16>,
    /// Which implementation of load balancers, for `LoadBalancer`; the cluster's default where absent. It cannot be
    /// changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_class: Option<String>,
    /// Networks that clients may be in, for `LoadBalancer`: `203.0.113.0/24`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_balancer_source_ranges: Vec<String>,
    /// Whether a node passes connections from outside to gateways on other nodes, for `NodePort` and `LoadBalancer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<TrafficPolicy>,
}

/// From where a Service can be reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// From within the cluster.
    #[default]
    ClusterIP,
    /// At a port of every node too.
    NodePort,
    /// By a load balancer too.
    LoadBalancer,
}

/// Whether a node passes connections on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrafficPolicy {
    /// It does; the default.
    Cluster,
    /// It does not, and keeps the client's address.
    Local,
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
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FloorsSpec {
    /// Callers must be authenticated: `access.anonymous` is refused.
    #[serde(default)]
    pub access: bool,
    /// Every exposition must be `Enforced`.
    #[serde(default)]
    pub enforced: bool,
    /// Every filter of an `Enforced` exposition must be an allow-list: `retain` without globs, `select` with nothing beside the
    /// payload, or, for text, `keep`. A filter with nothing but `exclude` or `remove` is refused, and so is
    /// `passthrough: true`. Set `enforced` as well to refuse `Advisory` expositions.
    #[serde(default)]
    pub allow_lists: bool,
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

/// Traces of calls, sent to an OpenTelemetry collector. They hold names, sizes, times and statuses, and nothing that a
/// tool answered or was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TracingSpec {
    /// The base URL of a collector that takes OTLP over HTTP: `http://otel-collector.observability:4318`.
    pub endpoint: String,
    /// How many of a million calls are traced, where the caller has not decided; all of them by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_rate_per_million: Option<u32>,
}

impl TracingSpec {
    /// The share of calls, from 0 to 1, where the spec names one.
    #[must_use]
    pub fn sampling(&self) -> Option<f64> {
        self.sampling_rate_per_million.map(|rate| f64::from(rate) / 1e6)
    }
}
