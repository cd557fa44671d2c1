//! Compiles the `mcp` source of a manifest: an MCP server and its pinned tools.

use indexmap::IndexMap;
use serde_json::Value;
use tamis_config::{
    Auth, AuthKind, Call, McpCall, McpSource, ProgramSource, Reason, Risk, ServiceDocument, ServiceTool, Source,
};
use tamis_engine::JsonText;
use tamis_schema::Patterns;

use super::CompileEnv;
use super::environment::{self, Environment};
use super::expose::Stop;
use super::service::{base_url, tool_name};
use super::{auth, schema};
use crate::origin::FieldPath;
use crate::resources::{AuthSpec, ConfigurationPlanSpec, GatewayGroupSpec, McpSpec, McpToolSpec, SecretKeyRef};
use crate::sink::DiagnosticSink;

/// The annotations that MCP defines as true or false (schema 2025-11-25, `ToolAnnotations`).
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// Headers that the protocol sets on requests to a server. `mcp-param-*` comes in addition.
const PROTOCOL_HEADERS: [&str; 7] =
    ["accept", "content-type", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"];

/// Checks the source and converts it for the gateway. Errors leave the result unspecified, because nothing is served then.
pub(super) fn compile(
    spec: &McpSpec,
    env: &CompileEnv<'_>,
    sink: &mut DiagnosticSink<'_>,
) -> (Source, IndexMap<String, ServiceTool>) {
    let McpSpec { url, auth, follow, command, env: variables, secret_env, tools: _ } = spec;
    let follow = follow.unwrap_or(false);
    let at = FieldPath::spec(["mcp"]);
    let source = match (url, command) {
        (Some(url), None) => {
            for (field, is_set) in [("env", !variables.is_empty()), ("secretEnv", !secret_env.is_empty())] {
                if is_set {
                    sink.error(&at.key(field), "is for a program", "set `command` in place of `url`, or remove it");
                }
            }
            Source::Mcp(server(url, auth.as_ref(), follow, &at, sink))
        }
        (url, Some(command)) => {
            if url.is_some() {
                sink.error(&at.key("command"), "and `url` are mutually exclusive", "remove one of them");
            }
            if auth.is_some() {
                let remedy = "give the program its credential in `secretEnv`, or remove it";
                sink.error(&at.key("auth"), "is for `url`", remedy);
            }
            if follow {
                sink.error(&at.key("follow"), "is for `url`", "pin the program's tools with `tamis import mcp`");
            }
            if env.cluster.is_some() {
                let message = "is a program, and only `tamis serve` runs programs: in a cluster it would run next to the \
                               gateway's token and the credentials of every exposition of its group";
                let remedy = "run the program as a server of its own, and set its `url`";
                sink.because(Reason::UnsupportedSource).error(&at.key("command"), message, remedy);
            }
            Source::Program(program(command, variables, secret_env, &at, sink))
        }
        (None, None) => {
            sink.error(&at, "has neither `url` nor `command`", "set `url` to the server's endpoint");
            Source::Mcp(McpSource { url: String::new(), auth: None, follow, headers: IndexMap::new() })
        }
    };
    let (mut inputs, mut outputs) = (Patterns::default(), Patterns::default());
    let mut tools = IndexMap::new();
    let at = at.key("tools");
    for (name, spec) in spec.pinned() {
        tools.insert(name.clone(), tool(name, spec, &at.key(name), (&mut inputs, &mut outputs), sink));
    }
    if tools.is_empty() && !follow && !sink.failed {
        sink.warning(&at, "pins no tool, so there is none", "run `tamis import mcp` to pin the server's tools");
    }
    (source, tools)
}

fn server(
    url: &str,
    auth: Option<&AuthSpec>,
    follow: bool,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> McpSource {
    base_url(url, &at.key("url"), "send a credential with `auth`", sink);
    let auth = auth.map(|spec| {
        let at = at.key("auth");
        let auth = auth::compile(spec, &at, sink);
        if let Some((field, message, remedy)) = unsuitable(&auth) {
            sink.error(&at.key(field), message, remedy);
        }
        auth
    });
    McpSource { url: url.to_owned(), auth, follow, headers: IndexMap::new() }
}

fn program(
    command: &[String],
    variables: &[String],
    secret_env: &IndexMap<String, SecretKeyRef>,
    at: &FieldPath,
    sink: &mut DiagnosticSink<'_>,
) -> ProgramSource {
    let path = at.key("command");
    if command.first().is_none_or(|program| program.trim().is_empty()) {
        sink.error(&path, "names no program", "write [PROGRAM, ARGUMENT, ..]");
    }
    environment::words(command, &path, sink);
    let secret_env = Environment { env: variables, inject: None, secret_env, patterns: false }.check(at, sink);
    ProgramSource { command: command.to_vec(), env: variables.to_vec(), secret_env }
}

/// Stops an exposition whose service is a program, unless programs may run.
pub(super) fn check_program(
    document: &ServiceDocument,
    group: Option<&GatewayGroupSpec>,
    is_served: bool,
    path: &FieldPath,
) -> Result<(), Stop> {
    let (Source::Program(_) | Source::Command(_)) = &document.source else { return Ok(()) };
    if is_served || group.is_some_and(GatewayGroupSpec::enables_programs) {
        return Ok(());
    }
    let message = "the service is a program, and programs are not enabled";
    let remedy = match group {
        Some(_) => "set `commands: {enabled: true}` in the GatewayGroup, if the program may do what you may do",
        None => "add a GatewayGroup with `commands: {enabled: true}`, if the program may do what you may do",
    };
    Err(Stop::new(Reason::UnsupportedSource, path.clone(), message, remedy))
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

/// Returns whether the protocol sets a header, given in lower case, on requests to a server.
fn is_of_protocol(name: &str) -> bool {
    PROTOCOL_HEADERS.contains(&name) || name.starts_with("mcp-param-")
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
    is_of_protocol(&name).then_some((
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
    let Source::Mcp(McpSource { auth, headers, .. }) = &document.source else { return Ok(()) };
    let stop = |message: String, remedy: &str| Err(Stop::new(Reason::InvalidManifest, path.clone(), message, remedy));
    if let Some(name) = headers.keys().find(|name| is_of_protocol(&name.to_ascii_lowercase())) {
        let message =
            format!("the plan's `headers.set` cannot have {name} for `mcp`: this header is part of the protocol");
        return stop(message, "remove the header from the plan, or use a plan without it");
    }
    match auth.as_ref().filter(|_| plan.auth.is_some()).and_then(unsuitable) {
        Some((field, message, remedy)) => stop(format!("the plan's `auth.{field}` cannot be used: {message}"), remedy),
        None => Ok(()),
    }
}
