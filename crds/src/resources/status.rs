//! What the operator says of each object. Only the operator writes it, and only what it has seen.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of an Exposition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExpositionStatus {
    /// `metadata.generation` of the object that this is said of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where MCP clients reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How many tools it publishes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<u32>,
    /// How many of them are unfiltered: no filter applies, or one that says `passthrough`. Absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfiltered: Option<u32>,
    /// The filter sets that are in use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["set"]))]
    pub filters: Vec<FilterSetStatus>,
    /// The GatewayGroup that publishes it, as `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_group: Option<String>,
    /// How much of the tools' output the filters have saved, in bytes, as in `93%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<String>,
    /// `Accepted`, `ResolvedRefs`, `Programmed`, and `Ready`, which sums them up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A filter set in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilterSetStatus {
    /// The set: `spec.name` of the ToolsFilters, or its `metadata.name` where it has none.
    pub set: String,
    /// How many of the published tools it filters.
    pub tools: u32,
}

/// What became of a GatewayGroup.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayGroupStatus {
    /// `metadata.generation` of the object that this is said of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many Expositions name the group and may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached_expositions: Option<u32>,
    /// How many of its gateways are ready. A pod counts when it has proved to the operator that it is a gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<u32>,
    /// Versions of its gateways, as they say themselves; two while one follows the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// Where clients reach the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `Accepted`, `ResolvedRefs`, and `Ready`, which sums them up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// What became of an object of the other kinds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceStatus {
    /// `metadata.generation` of the object that this is said of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Accepted`, `ResolvedRefs`, `Programmed` where they apply, and `Ready`, which sums them up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
