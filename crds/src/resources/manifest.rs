//! `ServiceManifest`: describes an API and its tools.

use std::sync::Arc;

use indexmap::IndexMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamis_engine::{JsonText, ResponseType, ToolFilter};

use super::openapi::{overridden, override_of};
use super::{
    AppleScriptSpec, CommandSpec, ConfigMapKeyRef, GraphQlSpec, GrpcSpec, Later, McpSpec, OpenApiSpec, OverrideSpec,
    ResourceStatus, SecretKeyRef,
};

/// Describes an API and its tools. Set exactly one of `http`, `command`, `appleScript`, `openapi`, `graphql`, `grpc`, `mcp`
/// and `llm`. `grpc` and `llm` are not implemented yet.
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
    /// The name by which other resources refer to the service. Defaults to `metadata.name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version by which other resources refer to the service; a string, so quote `"1.0"`.
    pub version: String,
    /// The purpose of the service. Clients show it to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// An HTTP API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSpec>,
    /// A program, under `tamis serve` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandSpec>,
    /// Scripts, under `tamis serve` on macOS only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apple_script: Option<AppleScriptSpec>,
    /// An OpenAPI document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openapi: Option<OpenApiSpec>,
    /// A GraphQL API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphql: Option<GraphQlSpec>,
    /// A gRPC server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcSpec>,
    /// An MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpSpec>,
    /// Not implemented yet: a model provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<Later>,
}

/// The source that a manifest names. Compiling a manifest, looking up its filters and counting its tools match on it, so a
/// new source does not compile until each of them handles it.
#[derive(Debug, Clone, Copy)]
pub enum SourceSpec<'m> {
    /// `http`: an HTTP API.
    Http(&'m HttpSpec),
    /// `mcp`: an MCP server.
    Mcp(&'m McpSpec),
    /// `openapi`: an OpenAPI document.
    OpenApi(&'m OpenApiSpec),
    /// `graphql`: a GraphQL API.
    GraphQl(&'m GraphQlSpec),
    /// `command`: a program.
    Command(&'m CommandSpec),
    /// `appleScript`: scripts.
    AppleScript(&'m AppleScriptSpec),
    /// `grpc`: a gRPC server.
    Grpc(&'m GrpcSpec),
}

impl ServiceManifestSpec {
    /// Returns the source; `None` if the manifest names none. A manifest that names several is invalid, and the first one is
    /// returned.
    #[must_use]
    pub fn source(&self) -> Option<SourceSpec<'_>> {
        // Names every field, so that one that becomes a source does not compile until it is returned.
        let Self { name: _, version: _, description: _, http, command, apple_script, openapi, graphql, grpc, mcp, llm } =
            self;
        let unset: [&Option<Later>; 1] = [llm];
        if let Some(later) = unset.into_iter().flatten().next() {
            match *later {}
        }
        let (http, mcp) = (http.as_ref().map(SourceSpec::Http), mcp.as_ref().map(SourceSpec::Mcp));
        let graphql = graphql.as_ref().map(SourceSpec::GraphQl);
        let command = command.as_ref().map(SourceSpec::Command);
        let programs = command.or(apple_script.as_ref().map(SourceSpec::AppleScript));
        let grpc = grpc.as_ref().map(SourceSpec::Grpc);
        http.or(mcp).or(openapi.as_ref().map(SourceSpec::OpenApi)).or(graphql).or(grpc).or(programs)
    }

    /// Returns the keys of ConfigMaps that the manifest names.
    pub fn config_maps(&self) -> impl Iterator<Item = &ConfigMapKeyRef> {
        let openapi = self.openapi.iter().filter_map(|openapi| openapi.config_map_ref.as_ref());
        let grpc = self.grpc.iter().filter_map(|grpc| grpc.config_map_ref.as_ref());
        openapi.chain(self.graphql.iter().flat_map(GraphQlSpec::config_maps)).chain(grpc)
    }

    /// Returns the sources that the manifest names.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &'static str> {
        let named = [
            ("http", self.http.is_some()),
            ("mcp", self.mcp.is_some()),
            ("openapi", self.openapi.is_some()),
            ("graphql", self.graphql.is_some()),
            ("command", self.command.is_some()),
            ("appleScript", self.apple_script.is_some()),
            ("grpc", self.grpc.is_some()),
        ];
        named.into_iter().filter(|(_, is_named)| *is_named).map(|(name, _)| name)
    }
}

impl<'m> SourceSpec<'m> {
    /// Returns the name of the source's field.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Mcp(_) => "mcp",
            Self::OpenApi(_) => "openapi",
            Self::GraphQl(_) => "graphql",
            Self::Grpc(_) => "grpc",
            Self::Command(_) => "command",
            Self::AppleScript(_) => "appleScript",
        }
    }

    /// Returns `overrides` of a source whose tools come from a document, with the name of the source's field.
    #[must_use]
    pub fn overrides(self) -> Option<(&'static str, &'m IndexMap<String, OverrideSpec>)> {
        match self {
            Self::Http(_) | Self::Mcp(_) | Self::Command(_) | Self::AppleScript(_) => None,
            Self::OpenApi(openapi) => Some(("openapi", &openapi.overrides)),
            Self::GraphQl(graphql) => Some(("graphql", &graphql.overrides)),
            Self::Grpc(grpc) => Some(("grpc", &grpc.overrides)),
        }
    }

    /// Returns the tools that the manifest itself names, in its order. Those of a document have names of which the manifest knows
    /// only the ones in `overrides`.
    pub fn tools(self) -> impl Iterator<Item = &'m str> {
        let own: Box<dyn Iterator<Item = &'m String>> = match self {
            Self::Http(http) => Box::new(http.actions.keys()),
            Self::Mcp(mcp) => Box::new(mcp.tools.iter().flat_map(IndexMap::keys)),
            Self::Command(command) => Box::new(command.actions.keys()),
            Self::AppleScript(scripts) => Box::new(scripts.actions.keys()),
            Self::OpenApi(_) | Self::GraphQl(_) | Self::Grpc(_) => Box::new(std::iter::empty()),
        };
        let overrides = self.overrides().map(|(_, overrides)| overridden(overrides));
        own.map(String::as_str).chain(overrides.into_iter().flatten())
    }

    /// Returns how the answers of a tool are read and filtered; `None` if the manifest does not say.
    #[must_use]
    pub fn response(self, tool: &str) -> Option<&'m ResponseSpec> {
        match self {
            Self::Http(http) => http.actions.get(tool)?.response.as_ref(),
            Self::Mcp(_) => None,
            Self::Command(command) => command.actions.get(tool)?.response.as_ref(),
            Self::AppleScript(scripts) => scripts.actions.get(tool)?.response.as_ref(),
            Self::OpenApi(_) | Self::GraphQl(_) | Self::Grpc(_) => {
                override_of(self.overrides()?.1, tool)?.1.response.as_ref()
            }
        }
    }
}

/// An HTTP API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpSpec {
    /// Scheme, host, port and path prefix. `https`, except for loopback and in-cluster names.
    pub base_url: String,
    /// How requests are authenticated. Actions can override it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthSpec>,
    /// Actions by tool name.
    pub actions: IndexMap<String, ActionSpec>,
}

/// How a request is authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthSpec {
    /// Where the credential is sent.
    #[serde(rename = "type")]
    pub kind: AuthType,
    /// The name of the header, query parameter or top-level body member, for `header`, `query` and `body`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Text before the credential in a header, for example `"Token "`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The user name for `basic`. Without it the credential is `user:password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The Secret that holds the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretKeyRef>,
}

/// Where a credential is sent.
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
    /// No authentication. In an action, it turns the service's authentication off.
    None,
}

/// One tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionSpec {
    /// A display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does. The model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the model should beware of. Appended to the description.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The HTTP method. Defaults to `GET`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path below the base URL. `{name}` stands for a path parameter or an argument.
    pub path: String,
    /// Arguments by name. Names that begin with `_` are reserved.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub args: IndexMap<String, ArgSpec>,
    /// Where the arguments are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestSpec>,
    /// How the answer is read and filtered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseSpec>,
    /// How much harm a call can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<RiskSpec>,
    /// Whether a repeated call has no further effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Overrides the authentication of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthSpec>,
    /// When a failed request is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetrySpec>,
    /// How the gateway fetches further pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pagination: Option<PaginationSpec>,
    /// The text that the caller receives, by status code.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub error_mapping: IndexMap<String, String>,
    /// Other names in kimbap's own command line. Ignored here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArgSpec {
    /// The JSON type.
    #[serde(rename = "type")]
    pub kind: ArgType,
    /// The purpose of the argument. The model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether every call must have the argument.
    #[serde(default)]
    pub required: bool,
    /// The value that is sent if a call omits the argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<JsonText>,
    /// The allowed values.
    #[serde(rename = "enum", default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<JsonText>>,
    /// The elements of an `array`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<ItemsSpec>,
    /// How an `array` is encoded in a query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub style: Option<ArgStyle>,
}

/// The elements of an `array` argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemsSpec {
    /// The JSON type of the elements.
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

/// How a list is encoded in a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArgStyle {
    /// `a=1&a=2`.
    Repeat,
    /// `a=1,2`.
    Comma,
}

/// Where the arguments are sent. `{name}` stands for an argument. A query parameter, header or body member that consists
/// of a single argument is omitted if the call omits that argument.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestSpec {
    /// Values for the `{name}` placeholders of the path.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub path_params: IndexMap<String, String>,
    /// Query parameters.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub query: IndexMap<String, String>,
    /// Headers.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
    /// A JSON body. A string that consists of exactly `{name}` becomes the argument's own JSON value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<JsonText>,
}

/// How the answer is read and filtered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResponseSpec {
    /// The dotted path of the output in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract: Option<String>,
    /// The shape of the output.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ResponseType>,
    /// The default filter of the tool. Every filter set that names the tool replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Arc<ToolFilter>>,
}

/// How much harm a call can do. It determines the MCP annotations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RiskSpec {
    /// Mutating calls of level `high` or `critical` are marked destructive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<RiskLevel>,
    /// Whether a call changes state. Defaults to `true` for every method but `GET` and `HEAD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutating: Option<bool>,
}

/// How much harm a call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RiskLevel {
    /// Next to no harm.
    Low,
    /// Harm that can be undone.
    Medium,
    /// Harm that cannot be undone.
    High,
    /// Severe harm.
    Critical,
}

/// When a failed request is sent again. The backoff is linear, and `Retry-After` is honoured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetrySpec {
    /// The number of attempts, the first included: 1 to 10.
    pub max_attempts: u32,
    /// Milliseconds before the second attempt; twice that before the third. Defaults to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// Status codes that are retried. Defaults to 429, 502, 503 and 504.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<u16>>,
}

/// How the gateway fetches further pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PaginationSpec {
    /// The kind of pagination.
    #[serde(rename = "type")]
    pub kind: PageType,
    /// The number of pages that one call may fetch. Defaults to 10; at most 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pages: Option<u32>,
    /// The dotted path of the next cursor in an answer. Required for `cursor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_path: Option<String>,
}

/// The kind of pagination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PageType {
    /// Query parameters `cursor` and `limit`.
    Cursor,
    /// Query parameters `offset` and `limit`.
    Offset,
}
