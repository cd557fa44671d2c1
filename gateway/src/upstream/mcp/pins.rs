//! Compares the tools that a server lists with their pinned definitions. Pure.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tamis_config::{Call, McpCall, ServiceDocument, ServiceTool, same_annotations, same_json};
use tamis_engine::JsonText;

use super::follow::{Collection, Listed};

/// The most tools of a list that are read.
const MAX_TOOLS: usize = 1_000;

/// The parts of a definition that are compared, in the order of the bits of [`Difference`].
const PARTS: [&str; 5] = ["title", "description", "inputSchema", "outputSchema", "annotations"];

/// The tools of a document that are called on its server.
#[derive(Debug)]
pub(super) struct Pins {
    document: Arc<ServiceDocument>,
    /// Positions in the document, by the name on the server.
    by_name: HashMap<Box<str>, Vec<usize>>,
}

/// Why a tool is withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld {
    /// The server does not list the tool.
    Missing,
    /// The server lists the tool with another definition.
    Changed(Difference),
    /// The server lists the tool more than once.
    Repeated,
    /// The list could not be read to its end, and what was read does not have the tool.
    Unread(&'static str),
}

impl Withheld {
    /// The reasons, as metrics name them.
    pub(crate) const REASONS: [&'static str; 4] = ["changed", "excess", "invalid", "missing"];

    /// Returns the reason, as metrics name it.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing | Self::Unread(_) => "missing",
            Self::Changed(_) | Self::Repeated => "changed",
        }
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the server does not list it any more"),
            Self::Changed(difference) => write!(f, "the server lists it with another {difference} than the pinned one"),
            Self::Repeated => f.write_str("the server lists it more than once"),
            Self::Unread(why) => write!(f, "the server's list {why}, and the tool is not in the part that was read"),
        }
    }
}

/// The parts of a definition that differ: one bit for each of `title`, `description`, `inputSchema`, `outputSchema` and
/// `annotations`. `Display` names them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Difference(u8);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differs = |(bit, part): (usize, &'static str)| (self.0 & (1 << bit) != 0).then_some(part);
        let parts: Vec<_> = PARTS.into_iter().enumerate().filter_map(differs).collect();
        match parts.split_last() {
            Some((last, [])) => f.write_str(last),
            Some((last, before)) => write!(f, "{} and {last}", before.join(", ")),
            None => Ok(()),
        }
    }
}

/// The tools of a document that are withheld, by their position in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Verdict(HashMap<usize, Withheld>);

impl Verdict {
    pub(super) fn of(&self, position: usize) -> Option<Withheld> {
        self.0.get(&position).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A list that is being read, page by page.
#[derive(Debug)]
pub(super) struct Comparison {
    pins: Arc<Pins>,
    /// By position in the document.
    found: HashMap<usize, Option<Withheld>>,
    tools: usize,
    /// The tools themselves, if the server is followed.
    collection: Option<Box<Collection>>,
    /// Why the rest of the list is not read.
    ended: Option<&'static str>,
}

/// What a list says.
#[derive(Debug)]
pub(super) enum Compared {
    /// Which pinned tools are withheld.
    Pinned(Verdict),
    /// The tools to publish.
    Followed(Listed),
}

/// What follows a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PageEnd {
    /// The cursor of the next page.
    pub(super) next: Option<String>,
    /// How long the list is valid, in milliseconds.
    pub(super) ttl_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListResult<'a> {
    #[serde(borrow)]
    tools: &'a RawValue,
    #[serde(borrow, default)]
    next_cursor: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ttl_ms: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedTool<'a> {
    #[serde(borrow)]
    pub(super) name: &'a RawValue,
    #[serde(borrow, default)]
    pub(super) title: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) description: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) input_schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) output_schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) annotations: Option<&'a RawValue>,
}

impl Pins {
    pub(super) fn new(document: &Arc<ServiceDocument>) -> Self {
        let mut by_name: HashMap<Box<str>, Vec<usize>> = HashMap::new();
        for (position, tool) in document.tools.values().enumerate() {
            match &tool.call {
                Call::Mcp(McpCall { tool, annotations: _ }) => {
                    by_name.entry(tool.as_str().into()).or_default().push(position);
                }
                Call::Http(_) | Call::Grpc(_) | Call::Alias(_) | Call::Command(_) => {}
            }
        }
        Self { document: Arc::clone(document), by_name }
    }

    /// Returns the tool at a position in the document.
    pub(super) fn tool(&self, position: usize) -> Option<&ServiceTool> {
        self.document.tools.get_index(position).map(|(_, tool)| tool)
    }
}

impl Comparison {
    /// Begins to read a list. `follows`: its tools are published as they are listed.
    pub(super) fn new(pins: &Arc<Pins>, follows: bool) -> Self {
        let collection = follows.then(Box::<Collection>::default);
        Self { pins: Arc::clone(pins), found: HashMap::new(), tools: 0, collection, ended: None }
    }

    /// Compares the tools of a page, the result of `tools/list`.
    ///
    /// # Errors
    /// The page is not one: what is wrong, without a part of it.
    pub(super) fn page(&mut self, page: &Bytes) -> Result<PageEnd, &'static str> {
        const NO_LIST: &str = "is not a list of tools";
        let object = page.first() == Some(&b'{');
        let list: ListResult<'_> = serde_json::from_slice(page).ok().filter(|_| object).ok_or(NO_LIST)?;
        let mut json = serde_json::Deserializer::from_str(list.tools.get());
        json.deserialize_seq(Each(self)).map_err(|_| NO_LIST)?;
        let next = match list.next_cursor.map(super::text::string) {
            None => None,
            Some(Some(cursor)) => Some(String::from_utf8_lossy(&cursor).into_owned()),
            Some(None) => return Err("has a cursor that is not text"),
        };
        Ok(PageEnd {
            next: next.filter(|_| self.ended.is_none()),
            ttl_ms: list.ttl_ms.and_then(|ttl| ttl.get().parse().ok()),
        })
    }

    /// Ends the list before its end, for this reason.
    pub(super) fn end(&mut self, why: &'static str) {
        self.ended.get_or_insert(why);
    }

    fn tool(&mut self, raw: &RawValue) {
        self.tools += 1;
        if self.tools > MAX_TOOLS {
            self.end("has more than 1000 tools");
            return;
        }
        let listed = serde_json::from_str::<ListedTool<'_>>(raw.get()).ok().filter(|_| raw.get().starts_with('{'));
        if let Some(collection) = &mut self.collection {
            return collection.add(listed.as_ref());
        }
        // What is not a tool, or has no name, is none of the pinned ones.
        let Some(listed) = listed else { return };
        let Some(name) = super::text::string(listed.name) else { return };
        let name = std::str::from_utf8(&name).unwrap_or_default();
        let pins = Arc::clone(&self.pins);
        for position in pins.by_name.get(name).into_iter().flatten() {
            let Some((_, pinned)) = pins.document.tools.get_index(*position) else { continue };
            let found = match self.found.contains_key(position) {
                true => Some(Withheld::Repeated),
                false => difference(pinned, &listed),
            };
            self.found.insert(*position, found);
        }
    }

    /// Returns the pinned tools that are withheld, or the tools of a server that is followed.
    pub(super) fn finish(mut self) -> Compared {
        match self.collection.take() {
            None => Compared::Pinned(self.verdict()),
            Some(collection) => {
                let excess = self.tools.saturating_sub(MAX_TOOLS).max(1);
                Compared::Followed(collection.finish(self.ended.map(|why| (why, excess))))
            }
        }
    }

    fn verdict(self) -> Verdict {
        let Self { pins, found, tools: _, collection: _, ended } = self;
        let missing = ended.map_or(Withheld::Missing, Withheld::Unread);
        let positions = pins.by_name.values().flatten();
        let withheld =
            |position: &usize| found.get(position).copied().unwrap_or(Some(missing)).map(|why| (*position, why));
        Verdict(positions.filter_map(withheld).collect())
    }
}

/// Compares a tool with the one of the same name that a followed server lists now.
pub(super) fn since_listed(published: &ServiceTool, now: &ServiceTool) -> Option<Withheld> {
    changed([
        published.title == now.title,
        published.description == now.description,
        same_json(published.input_schema.as_str(), now.input_schema.as_str()),
        same_schema(
            published.output_schema.as_ref().map(JsonText::as_str),
            now.output_schema.as_ref().map(JsonText::as_str),
        ),
        same_annotations(annotations(published), annotations(now)),
    ])
}

/// Returns the annotations of a tool of an MCP server.
fn annotations(tool: &ServiceTool) -> Option<&str> {
    match &tool.call {
        Call::Mcp(McpCall { tool: _, annotations }) => annotations.as_ref().map(JsonText::as_str),
        Call::Http(_) | Call::Grpc(_) | Call::Alias(_) | Call::Command(_) => None,
    }
}

fn same_schema(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => same_json(one, other),
        _ => false,
    }
}

fn changed(same: [bool; PARTS.len()]) -> Option<Withheld> {
    let bits = same.iter().enumerate().filter(|(_, same)| !**same).fold(0, |bits, (bit, _)| bits | 1 << bit);
    (bits != 0).then_some(Withheld::Changed(Difference(bits)))
}

fn difference(pinned: &ServiceTool, listed: &ListedTool<'_>) -> Option<Withheld> {
    let text = |pinned: Option<&str>, listed: Option<&RawValue>| match (pinned, listed) {
        (None, None) => true,
        (Some(pinned), Some(listed)) => super::text::string(listed).is_some_and(|listed| listed == pinned),
        _ => false,
    };
    changed([
        text(pinned.title.as_deref(), listed.title),
        text(pinned.description.as_deref(), listed.description),
        same_schema(Some(pinned.input_schema.as_str()), listed.input_schema.map(RawValue::get)),
        same_schema(pinned.output_schema.as_ref().map(JsonText::as_str), listed.output_schema.map(RawValue::get)),
        same_annotations(annotations(pinned), listed.annotations.map(RawValue::get)),
    ])
}

/// Visits the tools of a list.
struct Each<'c>(&'c mut Comparison);

impl<'de> Visitor<'de> for Each<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(tool) = seq.next_element::<&RawValue>()? {
            self.0.tool(tool);
        }
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Err(E::custom("not a list"))
    }
}

#[cfg(test)]
#[path = "tests/pins.rs"]
mod tests;
