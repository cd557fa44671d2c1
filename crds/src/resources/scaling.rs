//! How many gateways a `GatewayGroup` has, and how many may be away.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Share;

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
    /// Percent of the requested memory that is aimed at too; not looked at by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_memory_utilization: Option<u32>,
    /// How fast the number changes; what Kubernetes does by default where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<ScalingBehavior>,
}

/// How fast the number of gateways changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalingBehavior {
    /// When there are to be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// When there are to be fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// How fast the number changes in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalingRules {
    /// Seconds to look back, so that a short peak or lull changes nothing; 0 upwards and 300 downwards by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stabilization_window_seconds: Option<u32>,
    /// Which of several policies counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<SelectPolicy>,
    /// The most that may change in some time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<ScalingPolicy>,
}

/// Which of several policies counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectPolicy {
    /// The one that changes most; the default.
    Max,
    /// The one that changes least.
    Min,
    /// None: the number does not change in this direction.
    Disabled,
}

/// The most that may change in some time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScalingPolicy {
    /// What `value` counts.
    #[serde(rename = "type")]
    pub type_: ScalingUnit,
    /// So many gateways, or percent of them.
    pub value: u32,
    /// In so many seconds.
    pub period_seconds: u32,
}

/// What a policy counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScalingUnit {
    /// Gateways.
    Pods,
    /// Percent of the gateways that there are.
    Percent,
}

/// How many gateways may be away at once: one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DisruptionBudgetSpec {
    /// At most so many are away: a number, or a share as in `25%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Share>,
    /// At least so many stay: a number, or a share as in `75%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<Share>,
}
