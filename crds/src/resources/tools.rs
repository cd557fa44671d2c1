//! `CustomTools`: tools under names, schemas and arguments of one's own.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::JsonText;

use super::ServiceRef;

/// Further tools of a service, each made of one that its manifest has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
