//! `ConfigurationPlan`: how expositions reach an upstream.

use indexmap::IndexMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AuthSpec, Later, ResourceStatus};

/// How the expositions that name the plan reach the upstream of their service: another endpoint, another credential,
/// other headers.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tamis.dev",
    version = "v1alpha1",
    kind = "ConfigurationPlan",
    plural = "configurationplans",
    namespaced,
    shortname = "cplan",
    category = "tamis",
    status = "ResourceStatus",
    derive = "PartialEq",
    schema = "disabled",
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".spec.endpoint"),
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
pub struct ConfigurationPlanSpec {
    /// Replaces the manifest's `baseUrl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Replaces the manifest's `auth`, including that of single actions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthSpec>,
    /// Changes to the headers of upstream requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<PlanHeadersSpec>,
    /// Names of the filter sets to apply, in order, to expositions that set no `filters`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<String>>,
    /// Not implemented yet: TLS certificates for the upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Later>,
    /// Timeouts of calls, for expositions whose `limits` set none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<PlanTimeoutsSpec>,
}

/// Changes to the headers of upstream requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanHeadersSpec {
    /// Headers with a fixed value. They replace headers of the same name in the manifest.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub set: IndexMap<String, String>,
    /// Headers of the manifest to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Not implemented yet: headers of the caller to forward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Later>,
}

/// Timeouts of calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanTimeoutsSpec {
    /// The longest time for one call, retries and pages included, with a unit: `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tamis-unit" = "s"))]
    pub call: Option<String>,
}

impl ConfigurationPlanSpec {
    /// Returns `timeouts.call` in milliseconds, or `None` if it is absent or not a duration.
    #[must_use]
    pub fn call_timeout_ms(&self) -> Option<u64> {
        super::exposition::duration_ms(self.timeouts.as_ref()?.call.as_deref()?)
    }
}
