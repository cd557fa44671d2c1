//! Writes the messages that go to a server, and their headers, in both eras. Pure.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tamis_engine::json::write_string;

use super::Server;
use crate::input::{CallerInput, CannotAsk};
use crate::mcp::era::{LEGACY_VERSIONS, MODERN_VERSIONS};
use crate::mcp::headers::{METHOD, NAME, VERSION};
use crate::mcp::level::Level;
use crate::sealed::Capabilities;

/// The header that carries the id of a legacy session.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// The version that a legacy handshake asks for, if no caller has asked for one.
pub(super) const NEWEST_LEGACY: &str = LEGACY_VERSIONS[LEGACY_VERSIONS.len() - 1];
/// The version of modern requests.
pub(super) const MODERN: &str = MODERN_VERSIONS[0];
/// This client, as the protocol describes one.
const CLIENT: &str = concat!(r#"{"name":"tamis","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// What the gateway asks of a server for the caller of a tool.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ForCaller<'a> {
    /// Whether the caller wants progress. The token is the request's id.
    pub(super) progress: bool,
    /// The least severe log messages that the caller wants. A legacy server is asked once for a session.
    pub(super) level: Option<Level>,
    /// What the caller can be asked for, and what it has answered. For modern servers.
    pub(super) input: Option<&'a CallerInput>,
}

/// Returns a request. `params` are the members of its parameters, as JSON without braces.
pub(super) fn request(id: u64, method: &str, params: &str, server: Server) -> Bytes {
    request_for(ForCaller::default(), id, method, params, server)
}

/// Returns a request like [`request`], for a caller.
pub(super) fn request_for(asked: ForCaller<'_>, id: u64, method: &str, params: &str, server: Server) -> Bytes {
    let ForCaller { progress, level, input } = asked;
    let mut out = Vec::with_capacity(params.len() + method.len() + 320);
    let mut put = |text: &str| out.extend_from_slice(text.as_bytes());
    put(r#"{"jsonrpc":"2.0","id":"#);
    put(&id.to_string());
    put(r#","method":""#);
    put(method);
    put(r#"","params":{"#);
    put(params);
    let is_modern = server == Server::Modern;
    let input = input.filter(|_| is_modern);
    if let Some(CallerInput { responses, state, .. }) = input {
        for (name, part) in [(r#","inputResponses":"#, responses), (r#","requestState":"#, state)] {
            if let Some(part) = part {
                put(name);
                put(std::str::from_utf8(part).unwrap_or("null"));
            }
        }
    }
    if is_modern || progress {
        put(if params.is_empty() { r#""_meta":{"# } else { r#","_meta":{"# });
        if progress {
            put(r#""progressToken":"#);
            put(&id.to_string());
        }
        if is_modern {
            put(if progress { "," } else { "" });
            put(r#""io.modelcontextprotocol/protocolVersion":""#);
            put(MODERN);
            put(r#"","io.modelcontextprotocol/clientInfo":"#);
            put(CLIENT);
            put(r#","io.modelcontextprotocol/clientCapabilities":{"#);
            put(input.map_or("", |input| &input.capabilities));
            put("}");
        }
        if let (true, Some(level)) = (is_modern, level) {
            put(r#","io.modelcontextprotocol/logLevel":""#);
            put(level.as_str());
            put("\"");
        }
        put("}");
    }
    put("}}");
    out.into()
}

/// Returns the members of the parameters of a call. `arguments` is a JSON object.
pub(super) fn call(tool: &str, arguments: &str) -> String {
    let mut out = Vec::with_capacity(tool.len() + arguments.len() + 32);
    out.extend_from_slice(br#""name":"#);
    write_string(tool, &mut out);
    out.extend_from_slice(br#","arguments":"#);
    out.extend_from_slice(arguments.as_bytes());
    String::from_utf8(out).unwrap_or_default()
}

/// Returns the members of the parameters of a list.
pub(super) fn list(cursor: Option<&str>) -> String {
    let Some(cursor) = cursor else { return String::new() };
    let mut out = br#""cursor":"#.to_vec();
    write_string(cursor, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Returns the members of the parameters of a legacy handshake for a client with these capabilities.
pub(super) fn initialize(version: &str, capabilities: Capabilities) -> String {
    let capabilities = capabilities.members();
    format!(r#""protocolVersion":"{version}","capabilities":{{{capabilities}}},"clientInfo":{CLIENT}"#)
}

/// Returns the members of the parameters of `logging/setLevel`.
pub(super) fn set_level(level: Level) -> String {
    format!(r#""level":"{}""#, level.as_str())
}

/// The members of the parameters of `subscriptions/listen`: changes of the lists.
pub(super) const LISTEN: &str =
    r#""notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}"#;

/// Returns the members of the parameters of `subscriptions/listen` for updates of resources.
pub(super) fn listen_to<'u>(uris: impl IntoIterator<Item = &'u Arc<str>>) -> String {
    let mut out = br#""notifications":{"resourceSubscriptions":["#.to_vec();
    for (index, uri) in uris.into_iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"" } else { b"," });
        write_string(uri, &mut out);
    }
    out.extend_from_slice(b"]}");
    String::from_utf8(out).unwrap_or_default()
}

/// The notification that ends a legacy handshake.
pub(super) const INITIALIZED: Bytes = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);

/// Returns the notification that a legacy request is not waited for any more.
pub(super) fn cancelled(id: u64) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#).into()
}

/// Returns the answer to a request of the server: the gateway has nothing that a server could ask for.
pub(super) fn refusal(id: &[u8]) -> Bytes {
    let mut out = br#"{"jsonrpc":"2.0","id":"#.to_vec();
    out.extend_from_slice(id);
    out.extend_from_slice(br#","error":{"code":-32601,"message":"the gateway answers no requests of servers"}}"#);
    out.into()
}

/// Returns the answer to a request of the server that does not reach the caller, with the reason.
pub(super) fn cannot_ask(id: &[u8], why: CannotAsk) -> Bytes {
    let mut out = br#"{"jsonrpc":"2.0","id":"#.to_vec();
    out.extend_from_slice(id);
    out.extend_from_slice(format!(r#","error":{{"code":{},"message":"{}"}}}}"#, why.code(), why.text()).as_bytes());
    out.into()
}

/// Returns the caller's answer to a request of the server. `member` is `result` or `error`.
pub(super) fn answer(id: &str, member: &str, value: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(id.len() + value.len() + 48);
    out.extend_from_slice(format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":"#).as_bytes());
    out.extend_from_slice(value);
    out.push(b'}');
    out.into()
}

/// Returns the headers of a message, besides those of every request. `server` is none for the legacy handshake, whose version
/// is in its body.
pub(super) fn headers(
    server: Option<Server>,
    session: Option<&HeaderValue>,
    method: &'static str,
    name: Option<&str>,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    match server {
        None => {}
        Some(Server::Modern) => {
            headers.insert(VERSION, HeaderValue::from_static(MODERN));
            headers.insert(METHOD, HeaderValue::from_static(method));
            if let Some(name) = name.and_then(value) {
                headers.insert(NAME, name);
            }
        }
        Some(Server::Legacy { version, .. }) => {
            headers.insert(VERSION, HeaderValue::from_static(version));
        }
    }
    if let Some(session) = session {
        headers.insert(SESSION, session.clone());
    }
    headers
}

/// Returns a text as the value of a header that repeats the body: as it is, or in base64 if a header cannot hold it.
pub(super) fn value(text: &str) -> Option<HeaderValue> {
    let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && text.trim_matches([' ', '\t']).len() == text.len()
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    let text = match plain {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("=?base64?{}?=", BASE64_STANDARD.encode(text))),
    };
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
#[path = "tests/request.rs"]
mod tests;
