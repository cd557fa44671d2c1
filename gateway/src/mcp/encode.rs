//! Answers, written by hand into one buffer: the filtered text is escaped into the content block and, where it is JSON,
//! copied as it is into the structured content.

use serde_json::value::RawValue;

use super::{Era, RpcError};

/// A byte string that ends as JSON; [`String`] for what is rare, `Vec<u8>` where speed matters.
pub(crate) trait Sink {
    /// Appends text as it is.
    fn put(&mut self, text: &str);
}

impl Sink for String {
    fn put(&mut self, text: &str) {
        self.push_str(text);
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }
}

/// Writes `text` as a JSON string, quotes included.
pub(crate) fn string(out: &mut impl Sink, text: &str) {
    out.put("\"");
    escaped(out, text);
    out.put("\"");
}

/// Writes `text` with what a JSON string cannot hold escaped. Runs of plain bytes are copied at once.
pub(crate) fn escaped(out: &mut impl Sink, text: &str) {
    let bytes = text.as_bytes();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = next_special(bytes, at) {
        out.put(&text[copied..found]);
        match bytes[found] {
            b'"' => out.put("\\\""),
            b'\\' => out.put("\\\\"),
            b'\n' => out.put("\\n"),
            b'\r' => out.put("\\r"),
            b'\t' => out.put("\\t"),
            0x08 => out.put("\\b"),
            0x0c => out.put("\\f"),
            control => {
                const HEX: [&str; 16] =
                    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f"];
                out.put("\\u00");
                out.put(HEX[usize::from(control >> 4)]);
                out.put(HEX[usize::from(control & 15)]);
            }
        }
        at = found + 1;
        copied = at;
    }
    out.put(&text[copied..]);
}

/// The first byte at or after `at` that has to be escaped: `"`, `\` or a control. Eight bytes are looked at together.
fn next_special(bytes: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    while let Some(chunk) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        // The lowest marked byte is exact; a borrow can only mark bytes above a real one.
        let quote = word ^ (ONES * u64::from(b'"'));
        let slash = word ^ (ONES * u64::from(b'\\'));
        let marked = (quote.wrapping_sub(ONES) & !quote
            | slash.wrapping_sub(ONES) & !slash
            | word.wrapping_sub(ONES * 0x20) & !word)
            & HIGH;
        if marked != 0 {
            return Some(at + marked.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    bytes[at.min(bytes.len())..].iter().position(|b| matches!(b, b'"' | b'\\' | 0..0x20)).map(|i| at + i)
}

/// `{"jsonrpc":"2.0","id":ID,"result":`, to be closed by one `}`.
pub(crate) fn open_result(out: &mut Vec<u8>, id: &str) {
    out.put(r#"{"jsonrpc":"2.0","id":"#);
    out.put(id);
    out.put(r#","result":"#);
}

/// A complete answer whose result is `result`, a JSON text.
pub(crate) fn result(id: &str, result: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(result.len() + id.len() + 40);
    open_result(&mut out, id);
    out.put(result);
    out.put("}");
    out
}

/// A complete error answer. Without an id the legacy era says `null`, as JSON-RPC does; the modern era leaves it out.
pub(crate) fn error(id: Option<&RawValue>, error: &RpcError, era: Era) -> Vec<u8> {
    let mut out = Vec::with_capacity(160);
    out.put(r#"{"jsonrpc":"2.0","#);
    match (id, era) {
        (Some(id), _) => {
            out.put(r#""id":"#);
            out.put(id.get());
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

/// What a tool call answers, before it is put into an envelope.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolResult<'a> {
    /// The one text block.
    pub(crate) text: &'a str,
    /// A JSON text; none where the output is text.
    pub(crate) structured: Option<&'a str>,
    /// Whether the legacy era gets `{"result": ..}` even where this is an object: its output schema says so.
    pub(crate) wrap: bool,
    /// Whether the call failed.
    pub(crate) is_error: bool,
    /// A JSON text for `_meta["reshapr.io/filter"]`.
    pub(crate) filter: Option<&'a str>,
}

/// Writes the answer to a tool call. `server` is the modern era's `_meta` entry that names the server, as JSON members.
pub(crate) fn tool_result(id: &str, result: &ToolResult<'_>, era: Era, server: &str) -> Vec<u8> {
    let text = result.text;
    let structured = result.structured.unwrap_or_default();
    // JSON text grows by about an eighth when its quotes are escaped.
    let mut out = Vec::with_capacity(
        text.len() + text.len() / 4 + structured.len() + result.filter.map_or(0, str::len) + id.len() + 320,
    );
    open_result(&mut out, id);
    out.put(if era == Era::Modern { r#"{"resultType":"complete","content":["# } else { r#"{"content":["# });
    out.put(r#"{"type":"text","text":""#);
    escaped(&mut out, text);
    out.put(r#""}]"#);
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
            out.put(if server.is_empty() { r#""reshapr.io/filter":"# } else { r#","reshapr.io/filter":"# });
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
