//! MCP servers that a test scripts, and services that call them.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde_json::{Value, json};
use tamis_config::ServiceDocument;

use crate::memory::Reservation;
use crate::upstream::http::tests::support::{Seen, Server, arguments, bounds, client, context, given, room};
use crate::upstream::{Answer, CallBounds, Upstream, UpstreamError};

pub(super) const LEGACY: &str = "2025-11-25";

/// A service with the tools `read`, which only reads, and `write`.
pub(super) fn document(url: &str) -> Value {
    let tool = |name: &str, mutating: bool| json!({"inputSchema": {"type": "object"}, "risk": {"mutating": mutating}, "call": {"mcp": {"tool": name}}});
    json!({
        "formatVersion": 3, "name": "test", "version": "1.0.0", "source": {"mcp": {"url": url}},
        "tools": {"read": tool("read", false), "write": tool("write", true)},
    })
}

pub(super) fn upstream(document: &Value) -> Upstream {
    let document: ServiceDocument = serde_json::from_str(&document.to_string()).unwrap();
    Upstream::new(&Arc::new(document), client()).unwrap()
}

pub(super) fn service(server: &Server) -> Upstream {
    upstream(&document(&server.url()))
}

pub(super) async fn call(upstream: &Upstream, tool: &str) -> Result<Answer, UpstreamError> {
    call_within(upstream, tool, bounds(), &mut room()).await
}

pub(super) async fn call_within(
    upstream: &Upstream,
    tool: &str,
    bounds: CallBounds,
    memory: &mut Reservation,
) -> Result<Answer, UpstreamError> {
    upstream.call(tool, &arguments(r#"{"n":1.50}"#), context(bounds, given(), memory)).await
}

/// The tools as the honest server lists them.
pub(super) fn tools() -> Value {
    json!([{"name": "read", "inputSchema": {"type": "object"}}, {"name": "write", "inputSchema": {"type": "object"}}])
}

/// What was asked for: the method of the message, or of HTTP where there is no message.
pub(super) fn method(seen: &Seen) -> String {
    if seen.body.is_empty() {
        return seen.method.to_string();
    }
    message(seen)["method"].as_str().unwrap_or("response").to_owned()
}

pub(super) fn message(seen: &Seen) -> Value {
    serde_json::from_slice(&seen.body).unwrap()
}

/// The methods that a server got, in order.
pub(super) fn methods(server: &Server) -> Vec<String> {
    server.seen().iter().map(method).collect()
}

pub(super) fn count(server: &Server, wanted: &str) -> usize {
    methods(server).iter().filter(|method| *method == wanted).count()
}

/// An answer with this result, a JSON text.
pub(super) fn answer(seen: &Seen, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message(seen)["id"])
}

pub(super) fn json_body(text: impl Into<Body>) -> Response {
    ([("content-type", "application/json")], text.into()).into_response()
}

pub(super) fn result(seen: &Seen, result: &str) -> Response {
    json_body(answer(seen, result))
}

/// A stream of these events.
pub(super) fn events(events: &[&str]) -> Response {
    stream(events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>())
}

pub(super) fn stream(body: impl Into<Body>) -> Response {
    ([("content-type", "text/event-stream")], body.into()).into_response()
}

pub(super) fn error(status: u16, code: i64) -> Response {
    let body = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"no"}}}}"#);
    (StatusCode::from_u16(status).unwrap(), [("content-type", "application/json")], body).into_response()
}

/// A result with this text.
pub(super) fn text(text: &str) -> String {
    json!({"content": [{"type": "text", "text": text}]}).to_string()
}

/// A modern server that answers calls with `call`.
pub(super) fn modern(call: impl Fn(&Seen) -> Response) -> impl Fn(&Seen, usize) -> Response {
    move |seen, _| match &*method(seen) {
        "server/discover" => result(seen, r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#),
        "tools/list" => result(seen, &json!({"tools": tools(), "ttlMs": 300_000, "cacheScope": "public"}).to_string()),
        "tools/call" => call(seen),
        _ => error(404, -32601),
    }
}

/// A legacy server that answers calls with `call`, and begins a session for each handshake.
pub(super) fn legacy(call: impl Fn(&Seen) -> Response) -> impl Fn(&Seen, usize) -> Response {
    move |seen, number| match &*method(seen) {
        "initialize" => {
            let mut response = initialized(seen);
            response.headers_mut().insert("mcp-session-id", format!("s{number}").parse().unwrap());
            response
        }
        method if !method.starts_with("server/") && seen.header("mcp-session-id").is_none() => error(400, -32000),
        "notifications/initialized" | "notifications/cancelled" | "response" => StatusCode::ACCEPTED.into_response(),
        "tools/list" => result(seen, &json!({"tools": tools()}).to_string()),
        "tools/call" => call(seen),
        "ping" => result(seen, "{}"),
        _ => (StatusCode::BAD_REQUEST, "Bad Request: Server not initialized").into_response(),
    }
}

pub(super) fn initialized(seen: &Seen) -> Response {
    let info = json!({"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    result(seen, &info.to_string())
}
