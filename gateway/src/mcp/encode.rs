//! Answers, written into one buffer without a tree: the filtered text is escaped into the content block and, if it is JSON,
//! copied unchanged into the structured content.

use tamis_engine::{Structured, json};

use super::{Era, RpcError};

/// A buffer for JSON: [`String`] for what is rare, `Vec<u8>` where speed matters.
pub(crate) trait Sink {
    /// Appends text unchanged.
    fn put(&mut self, text: &str);

    /// Appends `text` as a JSON string, quotes included.
    fn put_string(&mut self, text: &str);
}

impl Sink for String {
    fn put(&mut self, text: &str) {
        self.push_str(text);
    }

    fn put_string(&mut self, text: &str) {
        self.push_str(&json::encode(text));
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }

    fn put_string(&mut self, text: &str) {
        json::write_string(text, self);
    }
}

/// Writes `text` as a JSON string, quotes included.
pub(crate) fn string(out: &mut impl Sink, text: &str) {
    out.put_string(text);
}

/// Writes `{"jsonrpc":"2.0","id":ID,"result":`, which one `}` closes.
pub(crate) fn open_result(out: &mut Vec<u8>, id: &str) {
    out.put(r#"{"jsonrpc":"2.0","id":"#);
    out.put(id);
    out.put(r#","result":"#);
}

/// Returns a complete answer with the result `result`, a JSON text.
pub(crate) fn result(id: &str, result: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(result.len() + id.len() + 40);
    open_result(&mut out, id);
    out.put(result);
    out.put("}");
    out
}

/// Returns a complete error answer. `id` is the request's, as JSON. Without one, the legacy era has `null`, as JSON-RPC requires,
/// and the modern era omits the member.
pub(crate) fn error(id: Option<&[u8]>, error: &RpcError, era: Era) -> Vec<u8> {
    let mut out = Vec::with_capacity(160);
    out.put(r#"{"jsonrpc":"2.0","#);
    match (id, era) {
        (Some(id), _) => {
            out.put(r#""id":"#);
            out.extend_from_slice(id);
            out.put(",");
        }
        (None, Era::Legacy) => out.put(r#""id":null,"#),
        (None, Era::Modern) => {}
    }
    out.put(r#""error":{"code":"#);
    out.put(&error.code.to_string());
    out.put(r#","message":"#);
    string(&mut out, &error.message);
    if let Some(data) = &error.data {
        out.put(r#","data":"#);
        out.put(data);
    }
    out.put("}}");
    out
}

/// The result of a tool call, without its envelope.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolResult<'a> {
    /// The text block.
    pub(crate) text: &'a str,
    /// A JSON text; none if the output is text.
    pub(crate) structured: Option<&'a str>,
    /// Whether the legacy era gets `{"result": ..}` even for an object, because the output schema says so.
    pub(crate) wrap: bool,
    /// Whether the call failed.
    pub(crate) is_error: bool,
    /// A JSON text for `_meta["tamis.dev/filter"]`.
    pub(crate) filter: Option<&'a str>,
}

/// Texts above this many bytes are looked through for what escaping adds, so that the answer's buffer is made once.
const COUNTED: usize = 16 << 10;
/// What the answer has beside its parts, at most, but for the request's id and the server's name.
const FRAME: usize = 320;

/// Bytes that a text takes in JSON, without its quotes; for short ones a bound.
fn escaped(text: &str) -> usize {
    if text.len() <= COUNTED {
        return text.len() * 6;
    }
    let more = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..0x20 | 0x7f => 5,
        _ => 0,
    };
    text.len() + text.as_bytes().iter().map(more).sum::<usize>()
}

/// Bytes of the answer that [`tool_result`] makes of these, at most.
pub(crate) fn result_size(text: &str, structured: &Structured, filter: Option<&str>) -> usize {
    let copied = match structured {
        Structured::Text => text.len(),
        Structured::Json(json) => json.len(),
        Structured::None => 0,
    };
    escaped(text) + copied + filter.map_or(0, str::len) + FRAME
}

/// Writes the answer to a tool call. `server` is the modern era's `_meta` entry that names the server, as JSON members.
pub(crate) fn tool_result(id: &str, result: &ToolResult<'_>, era: Era, server: &str) -> Vec<u8> {
    let text = result.text;
    let structured = result.structured.unwrap_or_default();
    // JSON text grows by about an eighth when its quotes are escaped.
    let escaped = if text.len() > COUNTED { escaped(text) } else { text.len() + text.len() / 4 };
    let mut out = Vec::with_capacity(escaped + structured.len() + result.filter.map_or(0, str::len) + id.len() + FRAME);
    open_result(&mut out, id);
    out.put(if era == Era::Modern { r#"{"resultType":"complete","content":["# } else { r#"{"content":["# });
    out.put(r#"{"type":"text","text":"#);
    string(&mut out, text);
    out.put("}]");
    if result.structured.is_some() {
        // Clients of the legacy era refuse a structured content that is not an object.
        let wrap = era == Era::Legacy && (result.wrap || !structured.trim_ascii_start().starts_with('{'));
        out.put(if wrap { r#","structuredContent":{"result":"# } else { r#","structuredContent":"# });
        out.put(structured);
        out.put(if wrap { "}" } else { "" });
    }
    out.put(if result.is_error { r#","isError":true"# } else { r#","isError":false"# });
    let server = if era == Era::Modern { server } else { "" };
    if result.filter.is_some() || !server.is_empty() {
        out.put(r#","_meta":{"#);
        out.put(server);
        if let Some(filter) = result.filter {
            out.put(if server.is_empty() { r#""tamis.dev/filter":"# } else { r#","tamis.dev/filter":"# });
            out.put(filter);
        }
        out.put("}");
    }
    out.put("}}");
    out
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
