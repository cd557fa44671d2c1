//! The results of an MCP server's lists, prompts, resources and completions, passed on as spans: what a caller gets are
//! slices of the server's message, without what the exposition does not publish. Pure.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tamis_config::NamePatterns;

use crate::dispatch::{OF_SERVER, cacheable_of};
use crate::exposition::{Content, Exposition, ServerMethod};
use crate::mcp::Era;
use crate::mcp::encode::{self, Sink as _};
use crate::mcp::message::{check_complete, string};

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

/// Writes the answer to the request `id` from the server's result.
///
/// # Errors
/// What is wrong with the result, without a part of it.
pub(crate) fn write(
    exposition: &Exposition,
    method: ServerMethod,
    (id, era): (&str, Era),
    result: &[u8],
) -> Result<Vec<u8>, &'static str> {
    let content = exposition.content().ok_or(NO_RESULT)?;
    let object = result.first() == Some(&b'{');
    let parsed: ServerResult<'_> = serde_json::from_slice(result).ok().filter(|_| object).ok_or(NO_RESULT)?;
    check_complete(parsed.result_type)?;
    let mut out = Vec::with_capacity(result.len() + id.len() + 512);
    encode::open_result(&mut out, id);
    out.put("{");
    match method {
        ServerMethod::ListPrompts | ServerMethod::ListResources | ServerMethod::ListTemplates => {
            let (member, entries, patterns) = match method {
                ServerMethod::ListPrompts => ("prompts", parsed.prompts, content.server_prompts()),
                ServerMethod::ListTemplates => {
                    ("resourceTemplates", parsed.resource_templates, content.server_resources())
                }
                _ => ("resources", parsed.resources, content.server_resources()),
            };
            let (entries, patterns) = (begins(entries, '[')?, patterns.ok_or(NO_RESULT)?);
            out.put("\"");
            out.put(member);
            out.put("\":[");
            let mut page = Page { content, exposition, patterns, out: &mut out, count: 0, too_many: false };
            let mut json = serde_json::Deserializer::from_str(entries.get());
            json.deserialize_seq(&mut page).map_err(|_| NO_RESULT)?;
            if page.too_many {
                return Err("is a page of more than 1000 entries");
            }
            out.put("]");
            if let Some(next) = parsed.next_cursor {
                let next = string(next).ok_or("has a cursor that is not text")?;
                if next.len() > MAX_CURSOR {
                    return Err("has a cursor of more than 4 KiB");
                }
                out.put(",\"nextCursor\":");
                encode::string(&mut out, &format!("{OF_SERVER}{next}"));
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
    if era == Era::Modern {
        out.put(&cacheable_of(exposition));
    }
    out.put("}}");
    Ok(out)
}

/// Returns a member that begins as a list or an object does.
fn begins(raw: Option<&RawValue>, start: char) -> Result<&RawValue, &'static str> {
    raw.filter(|raw| raw.get().starts_with(start)).ok_or(NO_RESULT)
}

/// A page of a server's list that is being written.
struct Page<'a> {
    content: &'a Content,
    exposition: &'a Exposition,
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
        let named = entry.uri_template.or(entry.uri).or(entry.name).and_then(string);
        let Some(name) = named else { return };
        let service = &self.exposition.service;
        let is_own = match (entry.uri_template, entry.uri) {
            (Some(_), _) => self.content.template_number(&name).is_some(),
            (None, Some(_)) => self.content.find(service, &name).is_some(),
            (None, None) => self.content.prompt(service, &name).is_some(),
        };
        if is_own || !self.patterns.selects(&name) {
            return;
        }
        if *written > 0 {
            self.out.put(",");
        }
        *written += 1;
        self.out.put(raw.get());
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
