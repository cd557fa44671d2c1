//! The `mcp` source of a `ServiceManifest`: an MCP server and its pinned tools.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::JsonText;

use super::{AuthSpec, SecretKeyRef};

/// An MCP server. Its tools are pinned: the gateway publishes a tool only while the server lists it as it is written here. With
/// `follow`, it publishes what the server lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpSpec {
    /// The server's endpoint. `https`, except for loopback and in-cluster names. Either this or `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How requests are authenticated: `header`, `bearer`, `basic` or `query`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthSpec>,
    /// Whether to publish the tools that the server lists at run time. `tools` is then empty. Default: false. Refused under
    /// `Enforced` and with CustomTools, which need pinned tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
    /// The program that is the server, and its arguments. No shell reads them. Only `tamis serve` runs programs, and only if the
    /// GatewayGroup has `commands: {enabled: true}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// The names of environment variables that are passed to the program, in addition to `PATH`, `HOME`, `USER`, `LOGNAME`,
    /// `TMPDIR`, `LANG` and `LC_*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Environment variables of the program whose values are in Secrets, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub secret_env: IndexMap<String, SecretKeyRef>,
    /// The server's tools by name. `tamis import mcp` writes them. Required unless `follow` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<IndexMap<String, McpToolSpec>>,
}

impl McpSpec {
    /// Returns the pinned tools by name.
    pub fn pinned(&self) -> impl Iterator<Item = (&String, &McpToolSpec)> {
        self.tools.iter().flatten()
    }
}

/// A pinned tool: what the server must list for the gateway to publish it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpToolSpec {
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does. The model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the arguments, which must be an object.
    pub input_schema: JsonText,
    /// The JSON Schema of the structured content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<JsonText>,
    /// The annotations of MCP. A tool changes something unless `readOnlyHint` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<JsonText>,
}
