//! Autoscaling and disruption budgets of a `GatewayGroup`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Share;

/// Scales the number of gateways with the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AutoscalingSpec {
    /// The smallest number of gateways.
    pub min_replicas: u32,
    /// The largest number of gateways.
    pub max_replicas: u32,
    /// The target CPU utilization, in percent of the requested CPU. Defaults to 70.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cpu_utilization: Option<u32>,
    /// The target memory utilization, in percent of the requested memory. By default memory is not considered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_memory_utilization: Option<u32>,
    /// How fast the number of gateways changes. Defaults to the behavior of Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<ScalingBehavior>,
}

/// How fast the number of gateways changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalingBehavior {
    /// Rules for scaling up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// Rules for scaling down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// How fast the number of gateways changes in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalingRules {
    /// Seconds to look back, so that a short peak or lull changes nothing. Defaults to 0 for `scaleUp` and 300 for
    /// `scaleDown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stabilization_window_seconds: Option<u32>,
    /// Which policy applies if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<SelectPolicy>,
    /// The largest changes within a period.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<ScalingPolicy>,
}

/// Which policy applies if there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectPolicy {
    /// The policy that allows the largest change; the default.
    Max,
    /// The policy that allows the smallest change.
    Min,
    /// No policy: the number does not change in this direction.
    Disabled,
}

/// The largest change within a period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalingPolicy {
    /// The unit of `value`.
    #[serde(rename = "type")]
    pub type_: ScalingUnit,
    /// The number of gateways, or the percentage of them.
    pub value: u32,
    /// The period, in seconds.
    pub period_seconds: u32,
}

/// The unit of a scaling policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScalingUnit {
    /// Gateways.
    Pods,
    /// Percent of the current gateways.
    Percent,
}

/// How many gateways may be unavailable at once: set one of the two fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DisruptionBudgetSpec {
    /// The largest number of unavailable gateways: a number or a percentage, as in `25%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Share>,
    /// The smallest number of available gateways: a number or a percentage, as in `75%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<Share>,
}
