//! Compiles the `mcp` source of a manifest: an MCP server and its pinned tools.

use indexmap::IndexMap;
use serde_json::Value;
use tamis_config::{Auth, AuthKind, Call, McpCall, McpSource, Reason, Risk, ServiceDocument, ServiceTool, Source};
use tamis_engine::JsonText;
use tamis_schema::Patterns;

use super::expose::Stop;
use super::service::{base_url, tool_name};
use super::{auth, schema};
use crate::origin::FieldPath;
use crate::resources::{ConfigurationPlanSpec, McpSpec, McpToolSpec, PlanHeadersSpec};
use crate::sink::DiagnosticSink;

/// The annotations that MCP defines as true or false (schema 2025-11-25, `ToolAnnotations`).
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// Headers that the protocol sets on requests to a server. `mcp-param-*` comes in addition.
const PROTOCOL_HEADERS: [&str; 7] =
    ["accept", "content-type", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"];

/// Checks the source and converts it for the gateway. Errors leave the result unspecified, because nothing is served then.
pub(super) fn compile(spec: &McpSpec, sink: &mut DiagnosticSink<'_>) -> (McpSource, IndexMap<String, ServiceTool>) {
    let McpSpec { url, auth: credential, follow, command: _, tools: _ } = spec;
    let follow = follow.unwrap_or(false);
    let at = FieldPath::spec(["mcp"]);
    base_url(url, &at.key("url"), "send a credential with `auth`", sink);
    let auth = credential.as_ref().map(|spec| {
        let at = at.key("auth");
        let auth = auth::compile(spec, &at, sink);
        if let Some((field, message, remedy)) = unsuitable(&auth) {
            sink.error(&at.key(field), message, remedy);
        }
        auth
    });
    let (mut inputs, mut outputs) = (Patterns::default(), Patterns::default());
    let mut tools = IndexMap::new();
    let at = at.key("tools");
    for (name, spec) in spec.pinned() {
        tools.insert(name.clone(), tool(name, spec, &at.key(name), (&mut inputs, &mut outputs), sink));
    }
    if tools.is_empty() && !follow {
        sink.warning(&at, "pins no tool, so there is none", "run `tamis import mcp` to pin the server's tools");
    }
    (McpSource { url: url.clone(), auth, follow }, tools)
}

fn tool(
    name: &str,
    spec: &McpToolSpec,
    at: &FieldPath,
    (inputs, outputs): (&mut Patterns, &mut Patterns),
    sink: &mut DiagnosticSink<'_>,
) -> ServiceTool {
    let McpToolSpec { title, description, input_schema, output_schema, annotations } = spec;
    tool_name(name, at, sink);
    schema::check_object(input_schema, &at.key("inputSchema"), inputs, sink);
    if let Some(output) = output_schema {
        schema::check(output, &at.key("outputSchema"), outputs, sink);
    }
    ServiceTool {
        title: title.clone(),
        description: description.clone(),
        input_schema: input_schema.clone(),
        output_schema: output_schema.clone(),
        response_type: None,
        risk: risk(annotations.as_ref(), &at.key("annotations"), sink),
        pagination: None,
        call: Call::Mcp(McpCall { tool: name.to_owned(), annotations: annotations.clone() }),
    }
}

/// Derives the risk of a call from the annotations.
fn risk(annotations: Option<&JsonText>, at: &FieldPath, sink: &mut DiagnosticSink<'_>) -> Risk {
    let parsed: Value = match annotations {
        Some(text) => serde_json::from_str(text.as_str()).unwrap_or_default(),
        None => Value::Object(serde_json::Map::new()),
    };
    if !parsed.is_object() {
        sink.error(at, "is not an object", "write the annotations that the server lists, or remove the field");
    }
    let mut hint = |name: &str| match parsed.get(name) {
        None => None,
        Some(Value::Bool(value)) => Some(*value),
        Some(_) => {
            sink.error(&at.key(name), "is neither true nor false", "write one, or remove the hint");
            None
        }
    };
    let [read_only, destructive, idempotent, _open_world] = HINTS.map(&mut hint);
    if parsed.get("title").is_some_and(|title| !title.is_string()) {
        sink.error(&at.key("title"), "is not a string", "write a display name, or remove it");
    }
    Risk::of_hints(read_only, destructive, idempotent)
}

/// Returns the field, message and remedy for authentication that requests to an MCP server cannot carry.
fn unsuitable(auth: &Auth) -> Option<(&'static str, &'static str, &'static str)> {
    if auth.kind == AuthKind::Body {
        return Some((
            "type",
            "a message to an MCP server has no place for type body",
            "use header, bearer, basic or query",
        ));
    }
    let name = auth.name.as_deref().filter(|_| auth.kind == AuthKind::Header)?.to_ascii_lowercase();
    let protocol = PROTOCOL_HEADERS.contains(&name.as_str()) || name.starts_with("mcp-param-");
    protocol.then_some((
        "name",
        "this header is part of the protocol",
        "name the header that the server's documentation names",
    ))
}

/// Stops an exposition whose ConfigurationPlan changes requests in a way that an MCP server's requests do not allow.
/// `document` is the service as the plan has modified it.
pub(super) fn check_plan(
    document: &ServiceDocument,
    plan: &ConfigurationPlanSpec,
    path: &FieldPath,
) -> Result<(), Stop> {
    let Source::Mcp(McpSource { url: _, auth, follow: _ }) = &document.source else { return Ok(()) };
    let stop = |message: String, remedy: &str| Err(Stop::new(Reason::InvalidManifest, path.clone(), message, remedy));
    if let Some(PlanHeadersSpec { set, remove, forward: _ }) = &plan.headers
        && !(set.is_empty() && remove.is_empty())
    {
        let message = "the plan changes `headers`, which is not implemented yet for `mcp`".to_owned();
        return stop(message, "remove `headers` from the plan, or use a plan without them");
    }
    match auth.as_ref().filter(|_| plan.auth.is_some()).and_then(unsuitable) {
        Some((field, message, remedy)) => stop(format!("the plan's `auth.{field}` cannot be used: {message}"), remedy),
        None => Ok(()),
    }
}
