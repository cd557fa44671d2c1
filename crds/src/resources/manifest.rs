//! `ServiceManifest`: what can be called.

use std::sync::Arc;

use indexmap::IndexMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::{JsonText, ResponseType, ToolFilter};

use super::{Later, ResourceStatus, SecretKeyRef};

/// What can be called: exactly one of `http`, `command`, `appleScript`, `openapi`, `graphql`, `grpc`, `mcp`, `llm`, of
/// which `http` is implemented yet.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tamis.dev",
    version = "v1alpha1",
    kind = "ServiceManifest",
    plural = "servicemanifests",
    namespaced,
    shortname = "sm",
    category = "tamis",
    status = "ResourceStatus",
    derive = "PartialEq",
    schema = "disabled",
    selectable = ".spec.name",
    selectable = ".spec.version",
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.name"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
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
pub struct ServiceManifestSpec {
    /// What others bind to; `metadata.name` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What others bind to; a string, so quote `"1.0"`.
    pub version: String,
    /// What the service is for; clients show it to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// An HTTP API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSpec>,
    /// Not implemented yet: programs on the gateway's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Later>,
    /// Not implemented yet: scripts on macOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apple_script: Option<Later>,
    /// Not implemented yet: an OpenAPI document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openapi: Option<Later>,
    /// Not implemented yet: a GraphQL schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphql: Option<Later>,
    /// Not implemented yet: gRPC descriptors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<Later>,
    /// Not implemented yet: an upstream MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Later>,
    /// Not implemented yet: a model provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<Later>,
}

/// An HTTP API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpSpec {
    /// Scheme, host, port and path prefix. `https`, except for loopback and in-cluster names.
    pub base_url: String,
    /// How calls are authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthSpec>,
    /// Tool name to action.
    pub actions: IndexMap<String, ActionSpec>,
}

/// How a request is authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthSpec {
    /// Where the credential goes.
    #[serde(rename = "type")]
    pub kind: AuthType,
    /// The header, query parameter or top-level body member, for `header`, `query` and `body`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Put before the credential in a header, for example `"Token "`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The user of `basic`; without it the credential is `user:password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretKeyRef>,
}

/// Where a credential goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthType {
    /// A header of any name.
    Header,
    /// `Authorization: Bearer`.
    Bearer,
    /// `Authorization: Basic`.
    Basic,
    /// A query parameter.
    Query,
    /// A top-level member of a JSON body.
    Body,
    /// No authentication; switches the service's off for one action.
    None,
}

/// One tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionSpec {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does; the model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the model should beware of; follows the description.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// `GET`, `POST`, .. ; `GET` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path below the base URL; `{name}` stands for a path parameter or an argument.
    pub path: String,
    /// Argument name to what it takes. Names that begin with `_` are reserved.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub args: IndexMap<String, ArgSpec>,
    /// Where the arguments go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestSpec>,
    /// What comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseSpec>,
    /// What a call may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<RiskSpec>,
    /// Whether a repeated call changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Overrides the service's authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthSpec>,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetrySpec>,
    /// How to fetch further pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pagination: Option<PaginationSpec>,
    /// Status code to the text that the caller gets for it.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub error_mapping: IndexMap<String, String>,
    /// Has no effect here: other names of kimbap's own command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Not implemented yet: the arguments of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Later>,
    /// Not implemented yet: how a program is asked for JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_flag: Option<Later>,
    /// Not implemented yet: exit codes of a program that are no failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_codes: Option<Later>,
    /// Not implemented yet: a script for macOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline_script: Option<Later>,
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArgSpec {
    /// Its JSON type.
    #[serde(rename = "type")]
    pub kind: ArgType,
    /// What it is for; the model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether a call must have it.
    #[serde(default)]
    pub required: bool,
    /// What is sent where a call leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<JsonText>,
    /// The values it takes.
    #[serde(rename = "enum", default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<JsonText>>,
    /// Elements of an `array`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<ItemsSpec>,
    /// How an `array` is written into a query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<ArgStyle>,
}

/// Elements of an `array` argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemsSpec {
    /// Their JSON type.
    #[serde(rename = "type")]
    pub kind: ArgType,
}

/// A JSON type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArgType {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list.
    Array,
    /// An object of any members.
    Object,
}

/// How a list is written into a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArgStyle {
    /// `a=1&a=2`.
    Repeat,
    /// `a=1,2`.
    Comma,
}

/// Where the arguments go. `{name}` stands for an argument; a query parameter, header or body member that is exactly one
/// argument which a call leaves out is left out too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestSpec {
    /// Values of the path's `{name}`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub path_params: IndexMap<String, String>,
    /// Query parameters.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub query: IndexMap<String, String>,
    /// Headers.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
    /// A JSON body. A string in it that is exactly `{name}` becomes the argument's own JSON value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<JsonText>,
}

/// What comes back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResponseSpec {
    /// Dotted path into the answer: what is below it is the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract: Option<String>,
    /// The shape of the output.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ResponseType>,
    /// The tool's default filter; it gives way to every set that names the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Arc<ToolFilter>>,
}

/// What a call may do; becomes the MCP annotations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RiskSpec {
    /// `high` and `critical` calls that change something are marked destructive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<RiskLevel>,
    /// Whether a call changes something; by default every method but `GET` and `HEAD` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutating: Option<bool>,
}

/// How much harm a call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RiskLevel {
    /// Next to none.
    Low,
    /// Some, which can be undone.
    Medium,
    /// Some that cannot be undone.
    High,
    /// Much.
    Critical,
}

/// When a failed request is sent again: linear backoff, `Retry-After` honoured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetrySpec {
    /// Attempts in all, the first included; 1 to 10.
    pub max_attempts: u32,
    /// Milliseconds before the second attempt, twice that before the third; 1000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// Status codes worth another attempt; 429, 502, 503 and 504 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<u16>>,
}

/// How the gateway fetches further pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PaginationSpec {
    /// By cursor or by offset.
    #[serde(rename = "type")]
    pub kind: PageType,
    /// Pages that one call may fetch; 10 by default, 100 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pages: Option<u32>,
    /// Dotted path of the next cursor in an answer; `cursor` needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_path: Option<String>,
}

/// The parameter that moves on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PageType {
    /// Query parameters `cursor` and `limit`.
    Cursor,
    /// Query parameters `offset` and `limit`.
    Offset,
}
