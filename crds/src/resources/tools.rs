//! `CustomTools`: aliases of tools, with their own names, schemas and arguments.

use indexmap::IndexMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::JsonText;

use super::{ResourceStatus, ServiceRef};

/// Additional tools of a service. Each one wraps a tool of the service's manifest.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tamis.dev",
    version = "v1alpha1",
    kind = "CustomTools",
    plural = "customtools",
    namespaced,
    shortname = "ct",
    category = "tamis",
    status = "ResourceStatus",
    derive = "PartialEq",
    schema = "disabled",
    selectable = ".spec.service.name",
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service.name"),
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
pub struct CustomToolsSpec {
    /// The service whose tools they wrap. Every Exposition of the service publishes them, subject to its `tools`.
    pub service: ServiceRef,
    /// Tools by name.
    pub custom_tools: IndexMap<String, CustomToolSpec>,
}

/// A tool that wraps another tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomToolSpec {
    /// The tool to call. Filters are looked up by the alias first, then by this name.
    pub tool: String,
    /// A display name. Defaults to the wrapped tool's title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does. Defaults to the wrapped tool's description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the arguments, which must be an object. Defaults to the wrapped tool's schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<JsonText>,
    /// Arguments for the wrapped tool: values, or strings in which `{name}` stands for an argument of the alias. If absent,
    /// the alias passes its own arguments on under their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<IndexMap<String, JsonText>>,
}
