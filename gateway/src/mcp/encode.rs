//! Answers, written without a tree: the filtered text is escaped into the content block and, if it is JSON, becomes the
//! structured content unchanged. Large structured content is not copied: the filter's own buffer becomes a part of the
//! answer.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use tamis_engine::{Parts, Structured, json};

use super::{Era, RpcError};
use crate::memory::Chain;

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

/// Returns `{"name":..,"version":..}`, as servers say who they are.
pub(crate) fn server_info(name: &str, version: &str) -> String {
    let mut out = String::from("{\"name\":");
    string(&mut out, name);
    out.push_str(",\"version\":");
    string(&mut out, version);
    out.push('}');
    out
}

/// Returns the member of a modern `_meta` that names the server, from its [`server_info`].
pub(crate) fn server_meta(info: &str) -> Arc<str> {
    format!("\"io.modelcontextprotocol/serverInfo\":{info}").into()
}

/// Writes an entry of `contents`, as `resources/read` returns them. `content` is its member, `text` or `blob`, and the text of it.
pub(crate) fn resource(out: &mut impl Sink, uri: &str, mime_type: Option<&str>, content: (&str, &str)) {
    let (member, text) = content;
    out.put("{\"uri\":");
    string(out, uri);
    if let Some(mime_type) = mime_type {
        out.put(",\"mimeType\":");
        string(out, mime_type);
    }
    out.put(",\"");
    out.put(member);
    out.put("\":");
    string(out, text);
    out.put("}");
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

/// Returns a complete answer that asks a modern caller for input. The parts are JSON, and `server` is as in [`tool_result`].
pub(crate) fn input_required(id: &str, requests: Option<&[u8]>, state: Option<&[u8]>, server: &str) -> Vec<u8> {
    let parts = requests.map_or(0, <[u8]>::len) + state.map_or(0, <[u8]>::len);
    let mut out = Vec::with_capacity(parts + id.len() + server.len() + 160);
    open_result(&mut out, id);
    out.put(r#"{"resultType":"input_required""#);
    for (name, part) in [(r#","inputRequests":"#, requests), (r#","requestState":"#, state)] {
        if let Some(part) = part {
            out.put(name);
            out.extend_from_slice(part);
        }
    }
    out.put(r#","_meta":{"#);
    out.put(server);
    out.put("}}}");
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
#[derive(Debug)]
pub(crate) struct ToolResult {
    /// The first text block.
    pub(crate) text: String,
    /// The second text block.
    pub(crate) notice: Option<String>,
    /// The blocks that follow the text, as JSON.
    pub(crate) media: Vec<Bytes>,
    /// The structured content, which may be derived from `text`.
    pub(crate) structured: Structured,
    /// Whether the call failed.
    pub(crate) is_error: bool,
    /// A JSON text for `_meta["tamis.dev/filter"]`.
    pub(crate) filter: Option<Cow<'static, str>>,
    /// Members of the upstream's `_meta`, as JSON without braces.
    pub(crate) meta: Option<Bytes>,
}

/// Structured content of at least this many bytes becomes a buffer of its own. For less, one more buffer costs as much as
/// the copy (`docs/decisions/0039-answers-as-chains.md`).
const MOVED: usize = 16 << 10;
/// Maximum bytes of an answer before the rest of its structured content, without its variable parts.
const HEAD: usize = 192;
/// Maximum bytes of an answer after that, without its variable parts.
const TAIL: usize = 64;

impl ToolResult {
    /// Returns the result of a call that failed.
    pub(crate) fn error(message: String) -> Self {
        Self {
            text: message,
            notice: None,
            media: Vec::new(),
            structured: Structured::None,
            is_error: true,
            filter: None,
            meta: None,
        }
    }

    /// Returns the bytes of the parts that grow with the output.
    pub(crate) fn len(&self) -> usize {
        let copied = self.media.iter().chain(&self.meta).map(Bytes::len).sum::<usize>();
        self.text.len() + self.json().map_or(0, String::len) + copied
    }

    /// Returns the memory of those parts in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.text.capacity() + self.json().map_or(0, String::capacity)
    }

    /// Returns the structured content, if it is not derived from the text.
    fn json(&self) -> Option<&String> {
        match &self.structured {
            Structured::Json(json) => Some(json),
            Structured::Text { .. } | Structured::None => None,
        }
    }

    /// Measures the result, to allocate its buffers once.
    pub(crate) fn measure(self) -> Measured {
        let Self { text, notice, media, structured, is_error: _, filter, meta } = &self;
        let media = media.iter().map(|block| block.len() + 1).sum::<usize>();
        let blocks = json::encoded_len(text) + notice.as_deref().map_or(0, json::encoded_len) + media;
        let metas = filter.as_ref().map_or(0, |filter| filter.len()) + meta.as_ref().map_or(0, |meta| meta.len() + 1);
        let (mut head, mut tail) = (HEAD + blocks, TAIL + metas);
        let mut moved = None;
        if let Some(Parts { open: _, json, rest }) = structured.parts(text) {
            tail += rest.iter().map(|part| part.len()).sum::<usize>();
            if json.len() < MOVED {
                head += json.len();
            } else {
                moved = Some(json.len());
            }
        }
        Measured { result: self, head, moved, tail }
    }
}

/// A result, and the sizes of the buffers that its answer needs.
#[derive(Debug)]
pub(crate) struct Measured {
    result: ToolResult,
    head: usize,
    /// The length of the structured content that becomes a buffer as it is.
    moved: Option<usize>,
    tail: usize,
}

impl Measured {
    /// Returns the number of bytes that are written for the answer, at most. `id` and `server` are those of
    /// [`tool_result`].
    pub(crate) fn written(&self, id: &str, server: &str) -> usize {
        self.head + self.tail + id.len() + server.len()
    }

    /// Returns the memory of the result.
    pub(crate) fn memory(&self) -> usize {
        self.result.memory()
    }
}

/// Writes the answer to a tool call. `server` is the modern era's `_meta` entry that names the server, as JSON members.
pub(crate) fn tool_result(id: &str, measured: Measured, era: Era, server: &str) -> Chain {
    let Measured { result, head, moved, tail } = measured;
    let ToolResult { text, notice, media, structured, is_error, filter, meta } = result;
    let tail = tail + server.len();
    let mut out = Vec::with_capacity(head + id.len() + if moved.is_none() { tail } else { 0 });
    open_result(&mut out, id);
    out.put(if era == Era::Modern { r#"{"resultType":"complete","content":["# } else { r#"{"content":["# });
    out.put(r#"{"type":"text","text":"#);
    string(&mut out, &text);
    if let Some(notice) = &notice {
        out.put(r#"},{"type":"text","text":"#);
        string(&mut out, notice);
    }
    out.put("}");
    for block in &media {
        out.put(",");
        out.extend_from_slice(block);
    }
    out.put("]");
    let close = |out: &mut Vec<u8>, rest: [&str; 3]| {
        rest.iter().for_each(|part| out.put(part));
        out.put(if is_error { r#","isError":true"# } else { r#","isError":false"# });
        let server = if era == Era::Modern { server } else { "" };
        if filter.is_some() || meta.is_some() || !server.is_empty() {
            out.put(r#","_meta":{"#);
            out.put(server);
            if let Some(filter) = &filter {
                out.put(if server.is_empty() { r#""tamis.dev/filter":"# } else { r#","tamis.dev/filter":"# });
                out.put(filter);
            }
            if let Some(meta) = &meta {
                out.put(if server.is_empty() && filter.is_none() { "" } else { "," });
                out.extend_from_slice(meta);
            }
            out.put("}");
        }
        out.put("}}");
    };
    let Some(Parts { open, json, rest }) = structured.parts(&text) else {
        close(&mut out, [""; 3]);
        return out.into();
    };
    out.put(r#","structuredContent":"#);
    out.put(open);
    let Some(length) = moved else {
        out.put(json);
        close(&mut out, rest);
        return out.into();
    };
    let mut last = Vec::with_capacity(tail);
    close(&mut last, rest);
    let mut json = match structured {
        Structured::Json(json) => json,
        Structured::Text { .. } | Structured::None => text,
    };
    json.truncate(length);
    let mut chain = Chain::from(out);
    chain.push(json.into_bytes());
    chain.push(last);
    chain
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
