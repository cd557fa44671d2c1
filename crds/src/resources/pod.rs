//! Settings of the pods of a `GatewayGroup`.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the gateways' pods. No setting can give a pod more rights.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSpec {
    /// The container image. Defaults to the operator's image. A group that sets an image is pinned to it: an update of the
    /// operator does not change its pods until the group itself changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// When the image is pulled. Defaults to `IfNotPresent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Names of the Secrets for pulling the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// Requests and limits of CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<PodResources>,
    /// Additional labels of the pods.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, String>,
    /// Additional annotations of the pods.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub annotations: IndexMap<String, String>,
    /// Labels that a node must have to run the pods.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub node_selector: IndexMap<String, String>,
    /// Taints of nodes that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<TolerationSpec>,
    /// How the pods are spread over zones, racks or nodes. By default they are spread over zones where possible. The operator
    /// always spreads pods of one zone over its nodes where possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["topologyKey"]))]
    pub topology_spread_constraints: Vec<SpreadSpec>,
    /// The PriorityClass of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Environment variables of the gateways, such as `RUST_LOG`. Every reader of the group can read the values: do not store
    /// secrets here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<EnvSpec>,
    /// Seconds that a gateway has for a graceful shutdown. Defaults to 45, which is also the minimum: calls in flight have 30
    /// seconds to finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<u32>,
}

/// A taint that the pods tolerate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TolerationSpec {
    /// The key of the taint. If absent, with `operator: Exists`, the pods tolerate every taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How the value is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// The value of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The effect of the taint. If absent, the pods tolerate every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// Seconds that a pod stays on the node once the taint exists, for `NoExecute`. If absent, the pod stays forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<u32>,
}

/// How the value of a taint is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// The value is equal; the default.
    Equal,
    /// Every value matches.
    Exists,
}

/// The effect of a taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// New pods are not scheduled on the node.
    NoSchedule,
    /// New pods are scheduled on other nodes if possible.
    PreferNoSchedule,
    /// New pods are not scheduled, and running pods are evicted.
    NoExecute,
}

/// How the group's pods are spread over one topology domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpreadSpec {
    /// The node label that names the domain: `topology.kubernetes.io/zone`, `kubernetes.io/hostname`.
    pub topology_key: String,
    /// The largest difference in pods between two domains. Defaults to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_skew: Option<u32>,
    /// What happens to a pod that would exceed `maxSkew`. Defaults to `ScheduleAnyway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_unsatisfiable: Option<WhenUnsatisfiable>,
}

/// What happens to a pod that would violate a spread constraint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenUnsatisfiable {
    /// The pod is scheduled nevertheless.
    #[default]
    ScheduleAnyway,
    /// The pod stays pending.
    DoNotSchedule,
}

/// An environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvSpec {
    /// The name. Names that Kubernetes or the operator set are reserved.
    pub name: String,
    /// The value.
    pub value: String,
}

impl EnvSpec {
    /// Returns whether Kubernetes or the operator sets this name, or the name changes which program runs.
    #[must_use]
    pub fn is_reserved(name: &str) -> bool {
        RESERVED_ENV.contains(&name) || RESERVED_ENV_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    }
}

/// Environment variables that a group cannot set.
pub(crate) const RESERVED_ENV: [&str; 6] = ["GROUP", "NAMESPACE", "POD_NAME", "POD_NAMESPACE", "KUBECONFIG", "PATH"];
/// Prefixes of environment variables that a group cannot set.
pub(crate) const RESERVED_ENV_PREFIXES: [&str; 2] = ["KUBERNETES_", "LD_"];

/// Resource requests and limits of the container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PodResources {
    /// The resources to reserve: `cpu`, `memory`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub requests: IndexMap<String, String>,
    /// The most that the container may use: `cpu`, `memory`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub limits: IndexMap<String, String>,
}
