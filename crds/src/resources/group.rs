//! `GatewayGroup`: a set of gateways, and the requirements for the expositions that they serve.

use std::num::NonZero;

use indexmap::IndexMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_config::CallLimits;

use super::exposition::duration_ms;
use super::{
    AuditMode, AutoscalingSpec, DisruptionBudgetSpec, GatewayGroupStatus, Later, LocalName, Memory, PodSpec, Quantity,
};

/// Gateways that serve the same expositions. In a folder for `tamis serve` it configures the one process.
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
    /// The number of gateways. `tamis serve` always runs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Scales the number of gateways with the load, in place of `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<AutoscalingSpec>,
    /// The namespaces whose expositions may name this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<AllowedNamespaces>,
    /// How clients reach the gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<ListenerSpec>,
    /// Not implemented yet: the store that replicas share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Later>,
    /// Command adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<CommandsSpec>,
    /// The addresses that gateways may call in addition to the public network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressSpec>,
    /// Minimum requirements for every exposition of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require: Option<FloorsSpec>,
    /// The memory, in bytes, that calls, their answers and connections may use in each gateway. Defaults to 60 % of the memory
    /// limit, or of the machine's memory if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// The threads of each gateway that serve connections, from 1 to 1024, each with connections to upstreams of its own. Defaults to
    /// the cores that the CPU limit of the pod allows, or to those of the machine if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// The largest `limits.maxResponseBytes` of an exposition of the group. Defaults to `64Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_response_bytes: Option<Quantity>,
    /// The longest `limits.timeout` of an exposition of the group, with a unit. Defaults to `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tamis-unit" = "s"))]
    pub max_timeout: Option<String>,
    /// The granularity of metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsSpec>,
    /// Where audit records are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<GroupAuditSpec>,
    /// Traces of calls. Without it, no call is traced. The `OTEL_` variables of the OpenTelemetry specification apply too
    /// (`pod.env`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<TracingSpec>,
    /// The operator that manages the group. `tamis serve` ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_name: Option<String>,
    /// Settings of the gateways' pods. `tamis serve` ignores them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodSpec>,
    /// How many gateways may be unavailable at once while nodes are drained. Defaults to one if there are several gateways. A
    /// budget that allows none prevents nodes from being drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption_budget: Option<DisruptionBudgetSpec>,
}

impl GatewayGroupSpec {
    /// The largest number of `workers`.
    pub const MAX_WORKERS: u32 = 1024;

    /// Returns `memory` in bytes, or `None` if it is absent or out of bounds.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory.as_ref()?.bytes()
    }

    /// Returns `workers`, or `None` if it is absent or out of bounds.
    #[must_use]
    pub fn worker_threads(&self) -> Option<NonZero<usize>> {
        self.workers.filter(|number| *number <= Self::MAX_WORKERS).and_then(|number| NonZero::new(number as usize))
    }

    /// Returns whether services may be programs.
    #[must_use]
    pub fn enables_programs(&self) -> bool {
        self.commands.as_ref().is_some_and(|commands| commands.enabled)
    }

    /// Returns `maxResponseBytes` in bytes, or its default.
    #[must_use]
    pub fn response_ceiling(&self) -> u64 {
        let given = self.max_response_bytes.as_ref().and_then(Quantity::bytes);
        given.unwrap_or(CallLimits::MAX_RESPONSE_BYTES_CEILING)
    }

    /// Returns `maxTimeout` in milliseconds, or `None` if it is absent or not a duration.
    #[must_use]
    pub fn max_timeout_ms(&self) -> Option<u64> {
        duration_ms(self.max_timeout.as_deref()?)
    }

    /// Returns `maxTimeout` in milliseconds, or its default.
    #[must_use]
    pub fn timeout_ceiling_ms(&self) -> u64 {
        self.max_timeout_ms().unwrap_or(CallLimits::TIMEOUT_MS_CEILING)
    }
}

/// The namespaces whose expositions may name a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowedNamespaces {
    /// How the namespaces are chosen. Defaults to `Same`.
    pub from: NamespacesFrom,
    /// The labels that a namespace must have, for `Selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<NamespaceSelector>,
}

/// How namespaces are chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespacesFrom {
    /// The namespace of the group.
    #[default]
    Same,
    /// Every namespace.
    All,
    /// The namespaces that `selector` matches.
    Selector,
}

/// Selects namespaces by their labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamespaceSelector {
    /// Labels and their values, all of which a namespace must have.
    pub match_labels: IndexMap<String, String>,
}

/// How clients reach the gateways. Options on the command line take precedence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListenerSpec {
    /// The port of the Service. Defaults to 8080, or to 443 with `tls`. For `tamis serve`, the port to listen on; defaults to
    /// 8080.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The host name under which clients reach the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The URL under which clients reach the group, if a proxy or load balancer is in front of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_url: Option<String>,
    /// TLS on the serving port. Without it, a proxy in front of the gateways must terminate TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    /// Settings of the group's Kubernetes Service. `tamis serve` ignores them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceSpec>,
}

impl ListenerSpec {
    /// Returns the port of the Service.
    #[must_use]
    pub fn service_port(&self) -> u16 {
        self.port.unwrap_or(if self.tls.is_some() { 443 } else { 8080 })
    }
}

/// TLS on the serving port: versions 1.2 and 1.3, HTTP/2 and HTTP/1.1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsSpec {
    /// A Secret of the group's namespace and of type `kubernetes.io/tls`, with `tls.crt` and `tls.key`, as cert-manager
    /// writes it. Gateways use a new certificate as soon as it is mounted, without a restart and without dropping
    /// connections. `tamis serve` reads `<name>/tls.crt` and `<name>/tls.key` below `--secrets`.
    pub secret_ref: LocalName,
}

/// Settings of the Kubernetes Service of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceSpec {
    /// The type of the Service. Defaults to `ClusterIP`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<ServiceType>,
    /// Annotations of the Service, for example to configure a load balancer.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub annotations: IndexMap<String, String>,
    /// The port on every node, for `NodePort` and `LoadBalancer`. By default Kubernetes chooses a free port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<u16>,
    /// The load balancer implementation, for `LoadBalancer`. Defaults to that of the cluster. It cannot be changed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_class: Option<String>,
    /// The networks from which clients may connect, for `LoadBalancer`: `203.0.113.0/24`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_balancer_source_ranges: Vec<String>,
    /// Whether a node forwards external connections to gateways on other nodes, for `NodePort` and `LoadBalancer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<TrafficPolicy>,
}

/// How the Service can be reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// From within the cluster.
    #[default]
    ClusterIP,
    /// Also at a port of every node.
    NodePort,
    /// Also through a load balancer.
    LoadBalancer,
}

/// Whether a node forwards external connections to other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrafficPolicy {
    /// The node forwards them; the default.
    Cluster,
    /// The node does not forward them, and keeps the client's address.
    Local,
}

/// Programs that services name. They are off by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandsSpec {
    /// Whether services may be programs (`command`, `appleScript`, `mcp: {command: [..]}`). A program runs as the user of the gateway and may read what that
    /// user may read. Only `tamis serve` runs programs; in a cluster `true` is an error.
    #[serde(default)]
    pub enabled: bool,
    /// Not implemented yet: the programs that may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Later>,
}

/// The addresses that gateways may call in addition to the public network: `10.1.0.0/16`, `192.0.2.7`, `api.internal`,
/// `*.example.com`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EgressSpec {
    /// Networks and hosts that may be called although they are not public.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Networks and hosts that must not be called. Takes precedence over `allow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// Minimum requirements for every exposition of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FloorsSpec {
    /// Callers must be authenticated: expositions with `access.anonymous` are rejected.
    #[serde(default)]
    pub access: bool,
    /// Every exposition must be `Enforced`.
    #[serde(default)]
    pub enforced: bool,
    /// Every filter of an `Enforced` exposition must be an allow-list: `retain` without globs, `select` if the output holds nothing but
    /// the payload, or, for text, `keep`. A filter with only `exclude` or `remove` is rejected, and so is
    /// `passthrough: true`. Set `enforced` as well to reject `Advisory` expositions.
    #[serde(default)]
    pub allow_lists: bool,
    /// The minimum content of an audit record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditMode>,
}

/// The granularity of metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsSpec {
    /// The most detailed label of the counters. Defaults to `Tool`.
    pub detail: MetricsDetail,
}

/// The most detailed label of the counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetricsDetail {
    /// One series per tool.
    #[default]
    Tool,
    /// One series per exposition.
    Exposition,
}

/// Where audit records are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupAuditSpec {
    /// The destination of audit records. Defaults to `Stdout`.
    pub sink: AuditSink,
}

/// The destination of audit records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AuditSink {
    /// Standard output, with the log.
    #[default]
    Stdout,
    /// Files, which may hold full outputs.
    File,
}

/// Traces of calls, sent to an OpenTelemetry collector. They hold names, sizes, times and statuses, but no arguments or
/// outputs of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TracingSpec {
    /// The base URL of a collector that accepts OTLP over HTTP: `http://otel-collector.observability:4318`.
    pub endpoint: String,
    /// How many calls of a million are traced if the caller has not decided. Defaults to all calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_rate_per_million: Option<u32>,
}

impl TracingSpec {
    /// Returns the sampling ratio, from 0 to 1, if the spec sets one.
    #[must_use]
    pub fn sampling(&self) -> Option<f64> {
        self.sampling_rate_per_million.map(|rate| f64::from(rate) / 1e6)
    }
}
