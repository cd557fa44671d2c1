//! Answers, written into one buffer without a tree: the filtered text is escaped into the content block and, if it is JSON,
//! copied unchanged into the structured content.

use tamis_engine::json;

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
    /// The first text block.
    pub(crate) text: &'a str,
    /// The second text block.
    pub(crate) notice: Option<&'a str>,
    /// The pieces of a JSON object, see [`tamis_engine::Structured::pieces`]; none if the output is text.
    pub(crate) structured: Option<[&'a str; 5]>,
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

impl ToolResult<'_> {
    /// Bytes of the answer that [`tool_result`] makes of this, at most.
    pub(crate) fn size(&self) -> usize {
        escaped(self.text) + self.notice.map_or(0, escaped) + self.copied() + FRAME
    }

    /// Bytes of what is copied as it is.
    fn copied(&self) -> usize {
        let structured = self.structured.map_or(0, |pieces| pieces.iter().map(|piece| piece.len()).sum());
        structured + self.filter.map_or(0, str::len)
    }
}

/// Writes the answer to a tool call. `server` is the modern era's `_meta` entry that names the server, as JSON members.
pub(crate) fn tool_result(id: &str, result: &ToolResult<'_>, era: Era, server: &str) -> Vec<u8> {
    let ToolResult { text, notice, structured, is_error, filter } = *result;
    // JSON text grows by about an eighth when its quotes are escaped.
    let grown = |text: &str| if text.len() > COUNTED { escaped(text) } else { text.len() + text.len() / 4 };
    let written = grown(text) + notice.map_or(0, grown) + result.copied();
    let mut out = Vec::with_capacity(written + id.len() + FRAME);
    open_result(&mut out, id);
    out.put(if era == Era::Modern { r#"{"resultType":"complete","content":["# } else { r#"{"content":["# });
    out.put(r#"{"type":"text","text":"#);
    string(&mut out, text);
    if let Some(notice) = notice {
        out.put(r#"},{"type":"text","text":"#);
        string(&mut out, notice);
    }
    out.put("}]");
    if let Some(pieces) = structured {
        out.put(r#","structuredContent":"#);
        pieces.iter().for_each(|piece| out.put(piece));
    }
    out.put(if is_error { r#","isError":true"# } else { r#","isError":false"# });
    let server = if era == Era::Modern { server } else { "" };
    if filter.is_some() || !server.is_empty() {
        out.put(r#","_meta":{"#);
        out.put(server);
        if let Some(filter) = filter {
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
