//! The result of a tool call, read as spans: what becomes the output of the call is a slice of the message, with its digits,
//! escapes and member order, unless it has to be unescaped.

mod meta;

use std::fmt;

use bytes::{BufMut as _, Bytes, BytesMut};
use memchr::memchr2;
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tamis_engine::{ResponseType, json};

use super::text::string_of;
use crate::mcp::message::check_complete;
use crate::upstream::{InputRequired, Output};

/// The most content blocks of a result.
const MAX_BLOCKS: usize = 10_000;
/// The most blocks that follow the text.
const MAX_MEDIA: usize = 64;
/// How deep a block that follows the text may be nested.
const MAX_DEPTH: usize = 64;
/// Bytes of what a server may ask a caller for.
const MAX_REQUESTS: usize = 256 << 10;
/// The types of the blocks that follow the text.
const MEDIA: [&str; 4] = ["image", "audio", "resource_link", "resource"];

/// What a tool returned.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolAnswer {
    /// The output, and the content blocks that are not text, as JSON in one line each.
    Done {
        /// The payload.
        output: Output,
        /// Images, audio, links and embedded resources.
        media: Vec<Bytes>,
        /// Members of the server's `_meta`, as JSON without braces, in one line; none if there are none that may pass.
        meta: Option<Bytes>,
    },
    /// The server wants input of the caller.
    InputRequired(InputRequired),
    /// The tool failed (`isError`). Holds its text.
    Failed(Bytes),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    structured_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_requests: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_state: Option<&'a RawValue>,
    #[serde(rename = "_meta", borrow, default)]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: &'a RawValue,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

/// Reads the result of a call of a tool that is declared to return `declared`.
///
/// The payload is the structured content if there is any, otherwise the text blocks: one that holds a JSON object or list is
/// that JSON, several that all do are a list of them, and all others are text, joined by line feeds. A tool that is declared
/// to return text always returns its text blocks.
///
/// # Errors
/// What is wrong with the result, without a part of it.
pub(super) fn read(result: &Bytes, declared: Option<ResponseType>) -> Result<ToolAnswer, &'static str> {
    const NO_RESULT: &str = "is not the result of a tool call";
    let object = result.first() == Some(&b'{');
    let parsed = serde_json::from_slice(result).ok().filter(|_| object).ok_or(NO_RESULT)?;
    let ToolResult { content, structured_content, is_error, result_type, input_requests, request_state, meta } = parsed;
    if result_type.is_some_and(|kind| kind.get() == r#""input_required""#) {
        return asked(result, input_requests, request_state).map(ToolAnswer::InputRequired);
    }
    check_complete(result_type)?;
    let failed = match is_error.map(RawValue::get) {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err("has an `isError` that is not a boolean"),
    };
    if content.is_none() && structured_content.is_none() {
        return Err("has neither `content` nor `structuredContent`");
    }
    let Content { texts, media } = match content {
        Some(content) => Content::read(result, content)?,
        None => Content::default(),
    };
    if failed {
        let text = match (structured_content, texts.is_empty()) {
            (Some(structured), true) => result.slice_ref(structured.get().as_bytes()),
            _ => joined(&texts, "", "\n", ""),
        };
        return Ok(ToolAnswer::Failed(text));
    }
    let output = match (structured_content, declared) {
        (_, Some(ResponseType::Text)) => Output::Text(joined(&texts, "", "\n", "")),
        (Some(structured), _) => Output::Json(result.slice_ref(structured.get().as_bytes())),
        (None, declared) => of_texts(texts, declared.is_some()),
    };
    Ok(ToolAnswer::Done { output, media, meta: meta.and_then(meta::members) })
}

/// Reads what a result asks for. `requests` and `state` are parts of `message`.
///
/// # Errors
/// What is wrong with it, without a part of it.
pub(crate) fn asked(
    message: &Bytes,
    requests: Option<&RawValue>,
    state: Option<&RawValue>,
) -> Result<InputRequired, &'static str> {
    const INVALID: &str = "asks for input in a form that is not valid";
    let is = |raw: Option<&RawValue>, first| raw.is_none_or(|raw| raw.get().starts_with(first));
    let too_large = requests.is_some_and(|raw| raw.get().len() > MAX_REQUESTS);
    if !is(requests, '{') || !is(state, '"') || (requests.is_none() && state.is_none()) || too_large {
        return Err(INVALID);
    }
    let requests = requests.map(|raw| one_line(message, raw).ok_or(INVALID)).transpose()?;
    let state = state.map(|raw| message.slice_ref(raw.get().as_bytes()));
    Ok(InputRequired::Asked { requests, state })
}

/// Returns the output of text blocks. `is_json`: the tool is declared to return JSON.
fn of_texts(mut texts: Vec<Bytes>, is_json: bool) -> Output {
    match &mut texts[..] {
        [] => Output::Text(Bytes::new()),
        [one] if is_json || holds_json(one) => Output::Json(std::mem::take(one)),
        many if many.len() > 1 && many.iter().all(|text| holds_json(text)) => Output::Json(joined(many, "[", ",", "]")),
        texts => Output::Text(joined(texts, "", "\n", "")),
    }
}

/// Whether a text is a JSON object or list. A number or a word is text: many tools return one that is no JSON.
fn holds_json(text: &[u8]) -> bool {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'[')) && serde_json::from_slice::<&RawValue>(text).is_ok()
}

fn joined(texts: &[Bytes], open: &str, separator: &str, close: &str) -> Bytes {
    if let ([one], true) = (texts, open.is_empty()) {
        return one.clone();
    }
    let length = texts.iter().map(|text| text.len() + separator.len()).sum::<usize>() + open.len() + close.len();
    let mut out = BytesMut::with_capacity(length);
    out.put_slice(open.as_bytes());
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            out.put_slice(separator.as_bytes());
        }
        out.put_slice(text);
    }
    out.put_slice(close.as_bytes());
    out.freeze()
}

/// The content blocks of a result.
#[derive(Default)]
struct Content {
    texts: Vec<Bytes>,
    media: Vec<Bytes>,
}

impl Content {
    /// Reads `content`, a part of `message`. Blocks of unknown types are dropped.
    fn read(message: &Bytes, content: &RawValue) -> Result<Self, &'static str> {
        const NO_BLOCKS: &str = "has a `content` that is not a list of at most 10000 content blocks";
        let mut found = Self::default();
        let blocks = serde_json::from_str(content.get()).map(|Blocks(blocks)| blocks).map_err(|_| NO_BLOCKS)?;
        for raw in blocks {
            const NO_BLOCK: &str = "has a content block that is not valid";
            let object = raw.get().starts_with('{');
            let block: Block<'_> = serde_json::from_str(raw.get()).ok().filter(|_| object).ok_or(NO_BLOCK)?;
            let kind = super::text::string(block.kind).ok_or(NO_BLOCK)?;
            match &kind[..] {
                b"text" => {
                    let text = block.text.and_then(|text| string_of(message, text));
                    found.texts.push(text.ok_or(NO_BLOCK)?);
                }
                kind if MEDIA.iter().any(|known| known.as_bytes() == kind) => {
                    if found.media.len() == MAX_MEDIA {
                        return Err("has more than 64 content blocks that are not text");
                    }
                    found.media.push(one_line(message, raw).ok_or(NO_BLOCK)?);
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Returns a value of `message` in one line, since answers over standard output are lines.
fn one_line(message: &Bytes, raw: &RawValue) -> Option<Bytes> {
    let text = raw.get();
    if memchr2(b'\n', b'\r', text.as_bytes()).is_none() {
        return Some(message.slice_ref(text.as_bytes()));
    }
    json::parse(text.as_bytes(), MAX_DEPTH).ok().map(|node| json::to_string(&node).into())
}

/// At most [`MAX_BLOCKS`] blocks.
struct Blocks<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Blocks<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Blocks<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Blocks<'de>, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = seq.next_element()? {
                    if blocks.len() == MAX_BLOCKS {
                        return Err(de::Error::custom("too many"));
                    }
                    blocks.push(block);
                }
                Ok(Blocks(blocks))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

#[cfg(test)]
#[path = "tests/result.rs"]
mod tests;
