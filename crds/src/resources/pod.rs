//! What of the pods of a `GatewayGroup` can be set.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What of the gateways' pods can be set: nothing here can give a pod more rights.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodSpec {
    /// The image; the operator's own default where absent. A group that names one is pinned to it: an update of the
    /// operator leaves its pods as they are until the group itself changes.
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
    /// Taints of nodes that they may run on all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<TolerationSpec>,
    /// How they are spread over zones, racks or nodes, in the place of the default: over zones, as far as that goes. Nodes
    /// of one zone are told apart by the operator anyway, as far as that goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["topologyKey"]))]
    pub topology_spread_constraints: Vec<SpreadSpec>,
    /// Their PriorityClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Variables of their environment, such as `RUST_LOG`. Values can be read by whoever may read the group: no secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Vec<EnvSpec>,
    /// Seconds that a gateway has to end: 45 by default, and at least that, since calls under way have 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<u32>,
}

/// A taint that is no hindrance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TolerationSpec {
    /// The taint's key; every taint where absent, with `operator: Exists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether the value counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// The taint's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The taint's effect; every one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// Seconds that a pod stays once the taint is there, for `NoExecute`; for ever where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<u32>,
}

/// Whether a taint's value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// The value is this one; the default.
    Equal,
    /// Any value.
    Exists,
}

/// What a taint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// No new pods.
    NoSchedule,
    /// New pods elsewhere, where that is possible.
    PreferNoSchedule,
    /// Pods that are there go too.
    NoExecute,
}

/// How pods are spread over one kind of place. Counted are the pods of the group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpreadSpec {
    /// The label of nodes that names the place: `topology.kubernetes.io/zone`, `kubernetes.io/hostname`.
    pub topology_key: String,
    /// By how many pods two places may differ; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_skew: Option<u32>,
    /// What happens where that cannot be kept; `ScheduleAnyway` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_unsatisfiable: Option<WhenUnsatisfiable>,
}

/// What happens to a pod that cannot be placed as wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenUnsatisfiable {
    /// It runs all the same.
    #[default]
    ScheduleAnyway,
    /// It waits.
    DoNotSchedule,
}

/// A variable of the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvSpec {
    /// Its name. Those that the operator and Kubernetes set are theirs.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl EnvSpec {
    /// Whether a name is one that Kubernetes or the operator sets, or changes what program runs.
    #[must_use]
    pub fn is_reserved(name: &str) -> bool {
        RESERVED_ENV.contains(&name) || RESERVED_ENV_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    }
}

/// Variables that a group cannot set.
pub(crate) const RESERVED_ENV: [&str; 6] = ["GROUP", "NAMESPACE", "POD_NAME", "POD_NAMESPACE", "KUBECONFIG", "PATH"];
/// Beginnings of such variables.
pub(crate) const RESERVED_ENV_PREFIXES: [&str; 2] = ["KUBERNETES_", "LD_"];

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
