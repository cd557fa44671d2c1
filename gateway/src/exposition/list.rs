//! `tools/list`: every tool is serialised once, and pages are slices of that text.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tamis_config::{Call, McpCall, ServiceTool};

use super::{Tool, schema};
use crate::service::{Service, declared_input};

/// Maximum tools on one page.
pub(crate) const PAGE: usize = 250;

/// The tools of an exposition as they are listed.
#[derive(Debug)]
pub(crate) struct ToolList {
    fragments: Fragments,
    names: Vec<String>,
}

/// Tools in JSON, separated by commas, and the end of each.
#[derive(Debug, Default)]
struct Fragments {
    text: String,
    ends: Vec<usize>,
}

impl Fragments {
    fn push(&mut self, tool: &Value) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
        self.text.push_str(&tool.to_string());
        self.ends.push(self.text.len());
    }
}

/// One page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page<'a> {
    /// Tools in JSON, separated by commas, without the list's brackets.
    pub(crate) tools: Cow<'a, str>,
    /// The cursor of the next page.
    pub(crate) next: Option<String>,
}

impl ToolList {
    /// Returns a list of other entries than tools, each with the name that cursors have.
    pub(super) fn of(entries: Vec<(String, Value)>) -> Self {
        let mut fragments = Fragments::default();
        entries.iter().for_each(|(_, entry)| fragments.push(entry));
        Self { fragments, names: entries.into_iter().map(|(name, _)| name).collect() }
    }

    pub(super) fn build(service: &Service, tools: &IndexMap<String, Tool>) -> Self {
        let mut fragments = Fragments::default();
        for (name, tool) in tools {
            fragments.push(&describe(name, &service.document.tools[name], tool));
        }
        Self { fragments, names: tools.keys().cloned().collect() }
    }

    /// Returns the page at `cursor`, or the first page without one. Returns none for a cursor that names no tool of
    /// this list.
    ///
    /// A cursor is the name of a page's first tool, so it stays valid across a reload that keeps the tool.
    pub(crate) fn page(&self, cursor: Option<&str>) -> Option<Page<'_>> {
        let fragments = &self.fragments;
        let first = self.first(cursor)?;
        let last = (first + PAGE).min(self.names.len());
        let start = if first == 0 { 0 } else { fragments.ends[first - 1] + 1 };
        let end = if last == 0 { 0 } else { fragments.ends[last - 1] };
        let next = self.names.get(last).map(|name| BASE64_URL_SAFE_NO_PAD.encode(name));
        Some(Page { tools: Cow::Borrowed(&fragments.text[start..end]), next })
    }

    /// Returns the page at `cursor` as [`Self::page`] does, without the tools that are `left_out`.
    pub(crate) fn page_without(&self, cursor: Option<&str>, left_out: impl Fn(&str) -> bool) -> Option<Page<'_>> {
        let first = self.first(cursor)?;
        let mut listed = (first..self.names.len()).filter(|number| !left_out(&self.names[*number]));
        let mut tools = String::new();
        for number in listed.by_ref().take(PAGE) {
            if !tools.is_empty() {
                tools.push(',');
            }
            let start = number.checked_sub(1).map_or(0, |before| self.fragments.ends[before] + 1);
            tools.push_str(&self.fragments.text[start..self.fragments.ends[number]]);
        }
        let next = listed.next().map(|number| BASE64_URL_SAFE_NO_PAD.encode(&self.names[number]));
        Some(Page { tools: Cow::Owned(tools), next })
    }

    /// Appends the entry of a tool, by its position, with another name in place of its own.
    pub(crate) fn push_as(&self, number: usize, name: &str, out: &mut String) {
        let start = number.checked_sub(1).map_or(0, |before| self.fragments.ends[before] + 1);
        let entry = &self.fragments.text[start..self.fragments.ends[number]];
        // Every entry of a tool or a prompt begins with its name.
        let rest = entry.strip_prefix(&opening(&self.names[number])).unwrap_or("}");
        out.push_str(&opening(name));
        out.push_str(rest);
    }

    /// Appends the entry at a position as it is.
    pub(crate) fn push(&self, number: usize, out: &mut String) {
        let start = number.checked_sub(1).map_or(0, |before| self.fragments.ends[before] + 1);
        out.push_str(&self.fragments.text[start..self.fragments.ends[number]]);
    }

    /// Returns the names of the entries: of tools and prompts, or the URIs of resources.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of the tool that a page begins with.
    fn first(&self, cursor: Option<&str>) -> Option<usize> {
        match cursor {
            None | Some("") => Some(0),
            Some(cursor) => {
                let name = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?;
                self.names.iter().position(|n| n.as_bytes() == name)
            }
        }
    }
}

/// Returns the beginning of the entry of a tool, up to the end of its name.
fn opening(name: &str) -> String {
    format!("{{\"name\":{}", json!(name))
}

/// Returns a digest that is equal for equal lists, without building the list.
pub(super) fn digest(service: &Service, tools: &IndexMap<String, Tool>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for (name, tool) in tools {
        hash.update(name);
        hash.update([0]);
        hash.update(service.contracts[name].listed);
        for (_, name) in tool.reserved.advertised() {
            hash.update(name);
            hash.update([0]);
        }
        hash.update([0]);
        if let Some(output) = tool.output_schema(&service.document.tools[name]) {
            hash.update(output.to_string());
        }
    }
    hash.finalize().into()
}

/// Returns a tool as it is listed.
pub(super) fn describe(name: &str, declared: &ServiceTool, tool: &Tool) -> Value {
    let mut entry = json!({"name": name});
    if let Some(title) = &declared.title {
        entry["title"] = json!(title);
    }
    if let Some(description) = &declared.description {
        entry["description"] = json!(description);
    }
    // The schema was parsed when the service was loaded, so parsing does not fail.
    let input = declared_input(declared).unwrap_or_else(|_| json!({"type": "object"}));
    entry["inputSchema"] = schema::input(input, &tool.reserved);
    if let Some(output) = tool.output_schema(declared) {
        entry["outputSchema"] = output;
    }
    let risk = declared.risk;
    let mut annotations = pinned_annotations(declared);
    annotations.insert("readOnlyHint".to_owned(), json!(!risk.mutating));
    annotations.insert("destructiveHint".to_owned(), json!(risk.destructive));
    annotations.insert("idempotentHint".to_owned(), json!(risk.idempotent));
    entry["annotations"] = Value::Object(annotations);
    entry
}

/// Returns the annotations that an MCP server gives its tool.
fn pinned_annotations(declared: &ServiceTool) -> Map<String, Value> {
    match &declared.call {
        Call::Mcp(McpCall { tool: _, annotations: Some(annotations) }) => {
            serde_json::from_str(annotations.as_str()).unwrap_or_default()
        }
        Call::Mcp(_) | Call::Http(_) | Call::Grpc(_) | Call::Alias(_) | Call::Command(_) => Map::new(),
    }
}
