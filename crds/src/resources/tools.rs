//! `CustomTools`: tools under names, schemas and arguments of one's own.

use indexmap::IndexMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::JsonText;

use super::{ResourceStatus, ServiceRef};

/// Further tools of a service, each made of one that its manifest has.
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
    /// The service whose tools they are made of. Every exposition of it publishes them, as its `tools` allows.
    pub service: ServiceRef,
    /// Name to tool.
    pub custom_tools: IndexMap<String, CustomToolSpec>,
}

/// A tool made of another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomToolSpec {
    /// The tool that is called. Filters are looked up under the alias first, then under this name.
    pub tool: String,
    /// A name for people; the tool's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does; the tool's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of its arguments, an object; the tool's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<JsonText>,
    /// Arguments of the tool: values, or texts in which `{name}` stands for an argument of the alias. The alias' own
    /// arguments are passed on under their names where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<IndexMap<String, JsonText>>,
}
