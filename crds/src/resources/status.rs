//! The status that the operator writes. Only the operator writes it, and only what it has observed.

use std::collections::BTreeSet;

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as StatusCondition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The observed state of an Exposition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExpositionStatus {
    /// `metadata.generation` of the object that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The URL for MCP clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Where calls go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamStatus>,
    /// The number of published tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<u32>,
    /// The number of published tools without a filter, or with `passthrough`. Absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfiltered: Option<u32>,
    /// The filter sets in use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["set"]))]
    pub filters: Vec<FilterSetStatus>,
    /// The GatewayGroup that publishes the exposition, as `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_group: Option<String>,
    /// The percentage of the tools' output, in bytes, that the filters have removed, as in `93%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<String>,
    /// `Accepted`, `ResolvedRefs`, `Programmed`, and `Ready`, which summarizes them; for an MCP server also `Upstream`, which is
    /// not a part of `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<StatusCondition>,
}

/// Where the calls of an exposition go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamStatus {
    /// The base URL of an HTTP API, or the endpoint of an MCP server.
    pub url: String,
    /// The ConfigurationPlan that changed the address. Absent if the address is that of the ServiceManifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

/// A filter set in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilterSetStatus {
    /// The set: `spec.name` of the ToolsFilters, or `metadata.name` if it has no `spec.name`.
    pub set: String,
    /// The number of published tools that the set filters.
    pub tools: u32,
}

/// The observed state of a GatewayGroup.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayGroupStatus {
    /// `metadata.generation` of the object that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of Expositions that name the group and are allowed to use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached_expositions: Option<u32>,
    /// The number of ready gateways. A pod counts once it has proved to the operator that it is a gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<u32>,
    /// The versions that the gateways report; two during a rollout.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// The URL under which clients reach the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `Accepted`, `ResolvedRefs`, and `Ready`, which summarizes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<StatusCondition>,
}

/// The observed state of an object of another kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceStatus {
    /// `metadata.generation` of the object that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Accepted`, `ResolvedRefs` and `Programmed` where they apply, and `Ready`, which summarizes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<StatusCondition>,
}

/// Returns the names of the fields of a status, from the schema of its type.
#[must_use]
pub fn status_fields<S: JsonSchema>() -> BTreeSet<String> {
    let schema = schemars::schema_for!(S).to_value();
    schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn written<S: Serialize>(status: &S) -> BTreeSet<String> {
        let status = serde_json::to_value(status).unwrap();
        status.as_object().unwrap().keys().cloned().collect()
    }

    /// The statuses are whole: a new field does not compile until it is listed here.
    #[test]
    fn the_schema_names_every_field_that_is_written() {
        let conditions = vec![StatusCondition {
            last_transition_time: "2026-01-02T03:04:05Z".parse().map(Time).unwrap(),
            message: String::new(),
            observed_generation: None,
            reason: String::new(),
            status: String::new(),
            type_: String::new(),
        }];
        let exposition = ExpositionStatus {
            observed_generation: Some(1),
            url: Some(String::new()),
            upstream: Some(UpstreamStatus::default()),
            tools: Some(1),
            unfiltered: Some(1),
            filters: vec![FilterSetStatus::default()],
            gateway_group: Some(String::new()),
            saved: Some(String::new()),
            conditions: conditions.clone(),
        };
        assert_eq!(status_fields::<ExpositionStatus>(), written(&exposition));
        let group = GatewayGroupStatus {
            observed_generation: Some(1),
            attached_expositions: Some(1),
            ready_replicas: Some(1),
            versions: vec![String::new()],
            url: Some(String::new()),
            conditions: conditions.clone(),
        };
        assert_eq!(status_fields::<GatewayGroupStatus>(), written(&group));
        let resource = ResourceStatus { observed_generation: Some(1), conditions };
        assert_eq!(status_fields::<ResourceStatus>(), written(&resource));
    }
}
