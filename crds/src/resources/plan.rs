//! `ConfigurationPlan`: what expositions share towards an upstream.

use indexmap::IndexMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AuthSpec, Later, ResourceStatus};

/// How the upstream of a service is reached by the expositions that name the plan: another endpoint, another credential,
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
    /// In the place of the manifest's `baseUrl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// In the place of the manifest's `auth`, of actions too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthSpec>,
    /// Changes to the headers of requests to the upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<PlanHeadersSpec>,
    /// Names of filter sets, in order, for expositions that give none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<String>>,
    /// Not implemented yet: certificates towards the upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Later>,
    /// How long calls may take, where the exposition's `limits` say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<PlanTimeoutsSpec>,
}

/// Changes to the headers of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanHeadersSpec {
    /// Headers with a fixed value, in the place of what the manifest says of them.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub set: IndexMap<String, String>,
    /// Headers of the manifest that are not sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Not implemented yet: headers of the caller that are passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Later>,
}

/// How long calls may take.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanTimeoutsSpec {
    /// One call, retries and pages included, with a unit: `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-tamis-unit" = "s"))]
    pub call: Option<String>,
}

impl ConfigurationPlanSpec {
    /// `timeouts.call` in milliseconds; none where it is absent or no duration.
    #[must_use]
    pub fn call_timeout_ms(&self) -> Option<u64> {
        super::exposition::duration_ms(self.timeouts.as_ref()?.call.as_deref()?)
    }
}
