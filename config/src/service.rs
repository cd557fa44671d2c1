//! What can be called: one service, its tools and how each is converted into a request.

use std::fmt;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tamis_engine::{JsonText, ResponseType};

use crate::{CommandCall, CommandSource, GrpcCall, GrpcSource, RequestTemplate, ServiceContent};

/// SHA-256 of a service document's JSON, in lower-case hex: its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Digest(pub String);

impl Digest {
    /// The digest of bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One service, complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceDocument {
    /// The lowest format version that expresses the document: [`crate::lowest_service_version`].
    pub format_version: u32,
    /// The name others bind to.
    pub name: String,
    /// The version others bind to, a string.
    pub version: String,
    /// What the service is for; becomes the MCP server's instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where calls go.
    pub source: Source,
    /// The tools, in the order in which the manifest declares them.
    pub tools: IndexMap<String, ServiceTool>,
    /// Prompts and resources that do not come from the source.
    #[serde(default, skip_serializing_if = "ServiceContent::is_empty")]
    pub content: ServiceContent,
}

impl ServiceDocument {
    /// The digest that names this document.
    ///
    /// # Panics
    /// Never: the types serialise to JSON without failure.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let json = serde_json::to_vec(self).expect("documents serialise");
        Digest::of(&json)
    }

    /// Returns the tool of this name, or the read of the resource template of this name. A tool's name has no brace, and a
    /// URI template has one.
    #[must_use]
    pub fn callable(&self, name: &str) -> Option<&ServiceTool> {
        self.tools.get(name).or_else(|| self.content.templates.get(name).map(|template| &template.read))
    }

    /// Returns every URL to which calls of the service's tools connect. Egress policies check these.
    #[must_use]
    pub fn destinations(&self) -> Vec<&str> {
        match &self.source {
            Source::Http(HttpSource { base_url, auth: _ }) => vec![base_url],
            Source::Mcp(McpSource { url, .. }) => vec![url],
            Source::Grpc(GrpcSource { endpoint, .. }) => vec![endpoint],
            // What a program connects to is not known.
            Source::Program(_) | Source::Command(_) => Vec::new(),
        }
    }

    /// Returns the MCP server whose tools gateways publish as it lists them; `None` for every other service.
    #[must_use]
    pub fn followed(&self) -> Option<&McpSource> {
        match &self.source {
            Source::Mcp(source) if source.follow => Some(source),
            Source::Http(_) | Source::Mcp(_) | Source::Grpc(_) | Source::Program(_) | Source::Command(_) => None,
        }
    }

    /// Returns the tool whose call a call of `tool` makes: the tool itself, or the one that it is an alias of. `None`
    /// for an alias of a tool that is not there, or that is an alias itself.
    #[must_use]
    pub fn called<'d>(&'d self, tool: &'d ServiceTool) -> Option<&'d ServiceTool> {
        match tool.alias() {
            None => Some(tool),
            Some(alias) => self.tools.get(&alias.tool).filter(|tool| tool.alias().is_none()),
        }
    }

    /// Returns the credential that calls of one of the service's tools send, with the request that carries it, or
    /// `None` for a tool without one. An alias sends what the tool behind it sends.
    #[must_use]
    pub fn sent_credential<'d>(&'d self, tool: &'d ServiceTool) -> Option<SentCredential<'d>> {
        match (&self.source, &self.called(tool)?.call) {
            (Source::Http(source), Call::Http(call)) => {
                let HttpSource { base_url, auth: _ } = source;
                let HttpCall {
                    method: _,
                    path,
                    defaults: _,
                    request,
                    extract: _,
                    auth: _,
                    retry: _,
                    error_mapping: _,
                    graphql: _,
                } = &**call;
                let RequestTemplate {
                    path_params: _,
                    query: _,
                    headers,
                    cookies,
                    body: _,
                    form: _,
                    form_styles: _,
                    parts: _,
                    content: _,
                    styles: _,
                    separators: _,
                    objects: _,
                } = request;
                let auth = source.auth_of(call)?;
                let credential = auth.credential.as_ref()?;
                Some(SentCredential { auth, credential, base_url, path, headers, has_cookies: !cookies.is_empty() })
            }
            (Source::Mcp(source), Call::Mcp(_)) => source.sent_credential(),
            (Source::Grpc(source), Call::Grpc(call)) => source.sent_credential(call),
            // A document whose calls are not of the kind of its source is not loaded. A program gets its credentials when it starts.
            (Source::Http(_) | Source::Mcp(_) | Source::Grpc(_) | Source::Program(_) | Source::Command(_), _) => None,
        }
    }
}

impl ServiceDocument {
    /// Returns the credentials without which a tool cannot be called: the one that its calls send, or those that the program
    /// gets.
    #[must_use]
    pub fn credentials<'d>(&'d self, tool: &'d ServiceTool) -> Vec<&'d CredentialRef> {
        match &self.source {
            Source::Program(ProgramSource { command: _, env: _, secret_env })
            | Source::Command(CommandSource { secret_env, .. }) => secret_env.values().collect(),
            Source::Http(_) | Source::Mcp(_) | Source::Grpc(_) => {
                self.sent_credential(tool).map(|sent| sent.credential).into_iter().collect()
            }
        }
    }
}

/// A credential that a call sends, and the request that carries it: what its owner's rules are compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SentCredential<'d> {
    /// How it is sent.
    pub auth: &'d Auth,
    /// Where its value is.
    pub credential: &'d CredentialRef,
    /// Where the request goes.
    pub base_url: &'d str,
    /// The path below that, with templates.
    pub path: &'d str,
    /// Other headers of the request, with templates.
    pub headers: &'d IndexMap<String, String>,
    /// Whether arguments make cookies of the request.
    pub has_cookies: bool,
}

/// The kind of service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Source {
    /// An HTTP API.
    Http(HttpSource),
    /// An MCP server.
    Mcp(McpSource),
    /// A gRPC server.
    Grpc(GrpcSource),
    /// An MCP server that is a program. Only `tamis serve` runs programs.
    Program(ProgramSource),
    /// A program that is started for each call. Only `tamis serve` runs programs.
    Command(CommandSource),
}

/// An MCP server that is a program, which speaks over its standard input and output. Its tools are pinned as those of an
/// [`McpSource`] are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProgramSource {
    /// The program and its arguments. No shell reads them.
    pub command: Vec<String>,
    /// The names of variables that the program gets from the gateway's environment, in addition to those that every program gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Variables whose values are credentials.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub secret_env: IndexMap<String, CredentialRef>,
}

/// An MCP server. Its tools are pinned: a tool of the document is called only while the server lists it with the
/// definition that the document holds. With `follow`, the document of the operator holds no tools, and gateways publish those
/// that the server lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpSource {
    /// The server's endpoint. `https`, except loopback and in-cluster names.
    pub url: String,
    /// How requests are authenticated: `header`, `bearer`, `basic` or `query`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Whether to publish the tools that the server lists at run time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
    /// Further headers of every request, from a ConfigurationPlan. Their values are fixed.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
}

impl McpSource {
    /// Returns the credential that requests send, with the request that carries it; `None` without one. Every tool sends the
    /// same.
    #[must_use]
    pub fn sent_credential(&self) -> Option<SentCredential<'_>> {
        let Self { url, auth, follow: _, headers } = self;
        let auth = auth.as_ref().filter(|auth| auth.kind != AuthKind::None)?;
        let credential = auth.credential.as_ref()?;
        Some(SentCredential { auth, credential, base_url: url, path: "", headers, has_cookies: false })
    }
}

/// An HTTP API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpSource {
    /// Scheme, host, port and path prefix. `https`, except loopback and in-cluster names.
    pub base_url: String,
    /// How calls are authenticated unless the tool says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
}

impl HttpSource {
    /// Returns how a call is authenticated: as the call says, or else as the service says. `None` without
    /// authentication.
    #[must_use]
    pub fn auth_of<'d>(&'d self, call: &'d HttpCall) -> Option<&'d Auth> {
        call.auth.as_ref().or(self.auth.as_ref()).filter(|auth| auth.kind != AuthKind::None)
    }
}

/// How a request is authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Auth {
    /// Where the credential goes.
    #[serde(rename = "type")]
    pub kind: AuthKind,
    /// The header, query parameter or top-level body member, for `header`, `query` and `body`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Put before the credential in a header, for example `Token `.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The user of `basic`. Without it the credential is `user:password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The credential; absent for `none` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<CredentialRef>,
}

/// Where a credential goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthKind {
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
    /// No authentication; switches the service's off for one tool.
    None,
}

/// A credential by name; its value never is in a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CredentialRef {
    /// The Secret's name.
    pub name: String,
    /// The key in it.
    pub key: String,
}

/// One tool of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServiceTool {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does; the manifest's warnings are part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema (2020-12) of the arguments, an object, without the reserved inputs.
    pub input_schema: JsonText,
    /// JSON Schema of the unfiltered output, where the source declares one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<JsonText>,
    /// Declared shape of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_type: Option<ResponseType>,
    /// What a call may do.
    #[serde(default)]
    pub risk: Risk,
    /// How the gateway fetches further pages. An alias has the pagination of the tool that it calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pagination: Option<Pagination>,
    /// What a call of the tool does.
    pub call: Call,
}

impl ServiceTool {
    /// Returns the tool that this one is an alias of, or `None` for a tool with a call of its own.
    #[must_use]
    pub fn alias(&self) -> Option<&Alias> {
        match &self.call {
            Call::Http(_) | Call::Mcp(_) | Call::Grpc(_) | Call::Command(_) => None,
            Call::Alias(alias) => Some(alias),
        }
    }
}

/// What a call of a tool does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Call {
    /// Sends HTTP requests.
    Http(Box<HttpCall>),
    /// Calls another tool of the service.
    Alias(Alias),
    /// Calls a tool of an MCP server.
    Mcp(McpCall),
    /// Runs a program.
    Command(Box<CommandCall>),
    /// Calls a method of a gRPC server.
    Grpc(Box<GrpcCall>),
}

/// A call of a tool of an MCP server. Title, description, input schema and output schema that the server must list are
/// those of the [`ServiceTool`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpCall {
    /// The tool's name on the server.
    pub tool: String,
    /// The annotations that the server must list, as pinned; absent if it must list none. [`Risk`] is derived from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<JsonText>,
}

/// A call of another tool of the service, under a name and with arguments of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Alias {
    /// The tool that is called. It is not an alias itself, and its input schema validates the arguments that it gets.
    pub tool: String,
    /// The arguments of that tool: JSON values whose strings are templates, as in a body. Absent, the arguments of the
    /// alias are passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<IndexMap<String, JsonText>>,
}

/// What a call may do; becomes the MCP annotations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Risk {
    /// Changes something upstream (`readOnlyHint: false`).
    #[serde(default)]
    pub mutating: bool,
    /// May destroy something upstream (`destructiveHint`).
    #[serde(default)]
    pub destructive: bool,
    /// A repeated call changes nothing more (`idempotentHint`).
    #[serde(default)]
    pub idempotent: bool,
}

impl Risk {
    /// Derives the risk from the hints of an MCP tool. The defaults are those of MCP: without a hint, a tool may destroy
    /// something.
    #[must_use]
    pub fn of_hints(read_only: Option<bool>, destructive: Option<bool>, idempotent: Option<bool>) -> Self {
        let mutating = read_only != Some(true);
        Self {
            mutating,
            destructive: mutating && destructive != Some(false),
            idempotent: idempotent.unwrap_or(!mutating),
        }
    }
}

/// One HTTP action, ready to be rendered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpCall {
    /// `GET`, `POST`, ..
    pub method: String,
    /// Path below the base URL, with `{name}` for each of `request.path_params` (or arguments).
    pub path: String,
    /// Defaults of arguments that the caller left out.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub defaults: IndexMap<String, JsonText>,
    /// Where arguments go.
    #[serde(default)]
    pub request: RequestTemplate,
    /// Dotted path into the answer: what is below it is the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract: Option<String>,
    /// Overrides the service's authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Status code to the text that the caller gets for it.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub error_mapping: IndexMap<u16, String>,
    /// Set if the call is a GraphQL request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphql: Option<GraphQlCall>,
}

/// What makes an HTTP call a GraphQL request. The body is `{"query": .., "variables": {..}}`, and the template of the body gives all
/// of it but the query, which is constant: an argument is never a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GraphQlCall {
    /// The text of one operation with the fragments that it uses. An exposition whose filter reads less has another text:
    /// [`crate::ExpositionTool::query`].
    pub query: String,
    /// The name, in answers, of the operation's only root field. Its value is the output. Absent for an operation with several
    /// root fields, whose output is all of `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// When a failed request is sent again. Linear backoff; `Retry-After` is honoured, up to 120 s.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// Attempts in all, the first included.
    pub max_attempts: u32,
    /// Milliseconds before the second attempt; twice that before the third.
    pub backoff_ms: u64,
    /// Status codes worth another attempt.
    pub retry_on: Vec<u16>,
}

/// How the gateway fetches further pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pagination {
    /// By cursor or by offset.
    #[serde(rename = "type")]
    pub kind: PaginationKind,
    /// Pages a call may fetch, 10 by default, 100 at most.
    pub max_pages: u32,
    /// Dotted path of the next cursor in an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_path: Option<String>,
}

/// The parameter that says where a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaginationKind {
    /// Query parameters `cursor` and `limit`.
    Cursor,
    /// Query parameters `offset` and `limit`.
    Offset,
}

impl PaginationKind {
    /// Returns the argument, and the query parameter, that says where a page begins.
    #[must_use]
    pub fn argument(self) -> &'static str {
        match self {
            Self::Cursor => "cursor",
            Self::Offset => "offset",
        }
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
