//! The results of an MCP server's lists, prompts, resources and completions, passed on as spans: what a caller gets are
//! slices of the server's message, without what the exposition does not publish. Pure.

use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tamis_config::NamePatterns;

use crate::bundle::Member;
use crate::dispatch::OF_SERVER;
use crate::exposition::{Content, ContentList, Exposition, ServerMethod};
use crate::mcp::encode::{self, Sink as _};
use crate::mcp::message::{check_complete, string};
use crate::upstream::{InputRequired, asked};

/// What is wrong with a result that has not the members of its method.
const NO_RESULT: &str = "is not a result of the method";
/// The most entries of a page of a server's list.
const MAX_ENTRIES: usize = 1_000;
/// The most bytes of a server's cursor.
const MAX_CURSOR: usize = 4 << 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerResult<'a> {
    #[serde(borrow, default)]
    prompts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    resources: Option<&'a RawValue>,
    #[serde(borrow, default)]
    resource_templates: Option<&'a RawValue>,
    #[serde(borrow, default)]
    next_cursor: Option<&'a RawValue>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
    #[serde(borrow, default)]
    messages: Option<&'a RawValue>,
    #[serde(borrow, default)]
    contents: Option<&'a RawValue>,
    #[serde(borrow, default)]
    completion: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_requests: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uri_template: Option<&'a RawValue>,
}

/// What a server's result becomes.
#[derive(Debug)]
pub(crate) enum Written {
    /// The answer to the caller.
    Answer(Vec<u8>),
    /// The server asks the caller for input first.
    Asks(InputRequired),
}

/// Writes the answer to the request `id` from the server's result. `member`: the part of a bundle, if the request came through one.
/// `tail`: the members that end the result.
///
/// # Errors
/// What is wrong with the result, without a part of it.
pub(crate) fn write(
    (exposition, member): (&Exposition, Option<&Member>),
    method: ServerMethod,
    (id, tail): (&str, &str),
    result: &Bytes,
) -> Result<Written, &'static str> {
    let content = exposition.content().ok_or(NO_RESULT)?;
    let object = result.first() == Some(&b'{');
    let parsed: ServerResult<'_> = serde_json::from_slice(result).ok().filter(|_| object).ok_or(NO_RESULT)?;
    let may_ask = matches!(method, ServerMethod::GetPrompt | ServerMethod::ReadResource);
    if may_ask && parsed.result_type.is_some_and(|kind| kind.get() == r#""input_required""#) {
        return asked(result, parsed.input_requests, parsed.request_state).map(Written::Asks);
    }
    check_complete(parsed.result_type)?;
    let mut out = Vec::with_capacity(result.len() + id.len() + 512);
    encode::open_result(&mut out, id);
    out.put("{");
    match method {
        ServerMethod::ListPrompts | ServerMethod::ListResources | ServerMethod::ListTemplates => {
            let (list, entries) = match method {
                ServerMethod::ListPrompts => (ContentList::Prompts, parsed.prompts),
                ServerMethod::ListTemplates => (ContentList::Templates, parsed.resource_templates),
                _ => (ContentList::Resources, parsed.resources),
            };
            let (entries, patterns) = (begins(entries, '[')?, content.of_server(list).ok_or(NO_RESULT)?);
            out.put("\"");
            out.put(list.member());
            out.put("\":[");
            let mut page =
                Page { list, content, exposition, member, patterns, out: &mut out, count: 0, too_many: false };
            let mut json = serde_json::Deserializer::from_str(entries.get());
            json.deserialize_seq(&mut page).map_err(|_| NO_RESULT)?;
            if page.too_many {
                return Err("is a page of more than 1000 entries");
            }
            out.put("]");
            let next =
                parsed.next_cursor.map(|next| string(next).ok_or("has a cursor that is not text")).transpose()?;
            if next.as_ref().is_some_and(|next| next.len() > MAX_CURSOR) {
                return Err("has a cursor of more than 4 KiB");
            }
            let next = match (next, member) {
                (Some(next), None) => Some(format!("{OF_SERVER}{next}")),
                (Some(next), Some(member)) => Some(member.cursor(&next)),
                (None, member) => member.and_then(|member| member.next_cursor(list)),
            };
            if let Some(next) = next {
                out.put(",\"nextCursor\":");
                encode::string(&mut out, &next);
            }
        }
        ServerMethod::GetPrompt => {
            let messages = begins(parsed.messages, '[')?;
            if let Some(description) = parsed.description.filter(|raw| raw.get().starts_with('"')) {
                out.put("\"description\":");
                out.put(description.get());
                out.put(",");
            }
            out.put("\"messages\":");
            out.put(messages.get());
        }
        ServerMethod::ReadResource => {
            out.put("\"contents\":");
            out.put(begins(parsed.contents, '[')?.get());
        }
        ServerMethod::Complete => {
            out.put("\"completion\":");
            out.put(begins(parsed.completion, '{')?.get());
        }
    }
    out.put(tail);
    out.put("}}");
    Ok(Written::Answer(out))
}

/// Returns a member that begins as a list or an object does.
fn begins(raw: Option<&RawValue>, start: char) -> Result<&RawValue, &'static str> {
    raw.filter(|raw| raw.get().starts_with(start)).ok_or(NO_RESULT)
}

/// A page of a server's list that is being written.
struct Page<'a> {
    list: ContentList,
    content: &'a Content,
    exposition: &'a Exposition,
    /// The part of a bundle.
    member: Option<&'a Member>,
    patterns: &'a NamePatterns,
    out: &'a mut Vec<u8>,
    count: usize,
    too_many: bool,
}

impl Page<'_> {
    /// Writes an entry if it is published. One without a name is none, and the documents' own entries come first: a server
    /// cannot replace a prompt of the documents.
    fn entry(&mut self, raw: &RawValue, written: &mut usize) {
        let Some(entry) = serde_json::from_str::<Entry<'_>>(raw.get()).ok().filter(|_| raw.get().starts_with('{'))
        else {
            return;
        };
        let named = match self.list {
            ContentList::Prompts => entry.name,
            ContentList::Resources => entry.uri,
            ContentList::Templates => entry.uri_template,
        };
        let (Some(named), Some(name)) = (named, named.and_then(string)) else { return };
        let is_own = match self.list {
            ContentList::Resources => self.content.find(&self.exposition.service, &name).is_some(),
            list => self.content.has(list, &name),
        };
        let is_chosen = match self.list {
            ContentList::Resources => self.content.passes_resource(&name),
            ContentList::Prompts | ContentList::Templates => self.patterns.selects(&name),
        };
        if is_own || !is_chosen {
            return;
        }
        let bundled = match self.member.map(|member| member.name_of_server(self.list, &name)) {
            None => None,
            Some(None) => return,
            Some(name) => name,
        };
        if *written > 0 {
            self.out.put(",");
        }
        *written += 1;
        match bundled.filter(|bundled| **bundled != *name) {
            None => self.out.put(raw.get()),
            Some(bundled) => {
                // `named` is a slice of `raw`.
                let start = named.get().as_ptr().addr() - raw.get().as_ptr().addr();
                self.out.put(&raw.get()[..start]);
                encode::string(self.out, &bundled);
                self.out.put(&raw.get()[start + named.get().len()..]);
            }
        }
    }
}

impl<'de> Visitor<'de> for &mut Page<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut written = 0;
        while let Some(raw) = seq.next_element::<&RawValue>()? {
            self.count += 1;
            if self.count > MAX_ENTRIES {
                self.too_many = true;
            } else {
                self.entry(raw, &mut written);
            }
        }
        Ok(())
    }
}
