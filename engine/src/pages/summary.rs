//! What the items of a list are called, and the summaries of its chunks.

use std::borrow::Cow;

use super::Chunk;
use super::plain::plain;
use super::presets::{self, PresetSummary};
use crate::json::{DEPTH_CEILING, Node};
use crate::template::{Meter, RenderError, Template, place};
use crate::work::{STEPS_PER_BYTE, Work};
use crate::{ChunksSpec, Finding, json};

/// The bytes of a summary.
const SUMMARY_BYTES: usize = 120;
/// The bytes of one value in a summary without a template.
const VALUE_BYTES: usize = 40;
/// The bytes that a template may print of a chunk: more than a summary has, since some characters are dropped.
const RENDERED_BYTES: usize = 4096;
/// Steps that a template may take on a chunk, whatever its size.
const STEPS: usize = 10_000;
/// What items are called that nothing names.
const ITEMS: &str = "items";
/// The bytes of a noun.
const NOUN_BYTES: usize = 40;

/// A compiled [`ChunksSpec`]. Immutable.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChunksProgram {
    noun: Option<Box<str>>,
    /// The filter's own template.
    summary: Option<Box<Template>>,
    /// The template of a preset, for a filter without one. Without either, a summary has no template.
    preset: Option<&'static PresetSummary>,
}

impl ChunksProgram {
    /// Compiles `output.chunks`. A line end at the very end of the template, which YAML's block style leaves, is
    /// dropped. An empty template gives indexes without summaries.
    ///
    /// # Errors Every mistake, each with the path of its field below the filter entry.
    pub(crate) fn compile(spec: &ChunksSpec) -> Result<Self, Vec<Finding>> {
        let ChunksSpec { noun, summary } = spec;
        let mut findings = Vec::new();
        if let Some((message, remedy)) = noun.as_deref().and_then(noun_problem) {
            findings.push(Finding::error("output.chunks.noun", message, remedy));
        }
        let template = summary.as_deref().and_then(|source| {
            let source = source.strip_suffix('\n').map_or(source, |line| line.strip_suffix('\r').unwrap_or(line));
            let template = Template::parse_over_items(source).map_err(|error| {
                let message = format!("at {}: {}", place(source, error.offset), error.message);
                findings.push(Finding::error("output.chunks.summary", message, error.remedy));
            });
            template.ok()
        });
        if !findings.is_empty() {
            return Err(findings);
        }
        Ok(Self { noun: noun.as_deref().map(Into::into), summary: template.map(Box::new), preset: None })
    }

    /// Returns the program with the summary of a preset, which counts if the filter gives none, not even an empty one.
    pub(crate) fn preset(mut self, preset: &str) -> Self {
        self.preset = presets::summary(preset);
        self
    }

    /// Returns the program with a name for the items, if it has none.
    pub(crate) fn called(mut self, noun: &str) -> Self {
        self.noun.get_or_insert_with(|| noun.into());
        self
    }

    /// Returns what the items are called.
    pub(crate) fn noun(&self) -> &str {
        self.of(ITEMS).noun
    }

    /// Returns the summaries of chunks of items that are called `noun` if the filter gives no name.
    pub(crate) fn of<'p>(&'p self, noun: &'p str) -> Summaries<'p> {
        let template = self.summary.as_deref().or_else(|| self.preset.map(|preset| &preset.template));
        Summaries { noun: self.noun.as_deref().unwrap_or(noun), template }
    }

    /// Returns the summaries of chunks of lines that `compact` renders. Only the filter's own template reads the items:
    /// that of a preset would show fields that the lines do not.
    pub(crate) fn of_lines(&self) -> Summaries<'_> {
        Summaries { template: self.summary.as_deref(), ..self.of(ITEMS) }
    }

    /// Returns whether the summaries of [`ChunksProgram::of_lines`] read the items.
    pub(crate) fn reads_items(&self) -> bool {
        self.summary.is_some()
    }

    /// Returns the members of an item that the functions of the filter's own template read, each once.
    pub(crate) fn item_fields(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.summary.iter().flat_map(|template| template.fields()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Returns the summary of a chunk of items, see [`Summaries::summary`].
    pub(crate) fn summary<'n>(&self, chunk: Chunk<'_>, item: impl Fn(usize) -> Node<'n>, work: &Work<'_>) -> String {
        self.of(ITEMS).summary(chunk, item, work)
    }

    /// As [`ChunksProgram::summary`], of items that are compact JSON: of each one only what the summary reads is parsed.
    pub(crate) fn summary_of<'n>(&self, chunk: Chunk<'_>, item: impl Fn(usize) -> &'n str, work: &Work<'_>) -> String {
        let parsed = |item: &'n str| {
            // The item is JSON, so only an interrupted run has none.
            json::read(item.as_bytes(), DEPTH_CEILING, usize::MAX, work).map_or(Node::NULL, |read| read.node)
        };
        let (None, Some(preset)) = (&self.summary, self.preset) else {
            return self.summary(chunk, |number| parsed(item(number)), work);
        };
        let (mut list, mut bytes) = (String::from("["), 2);
        for number in chunk.items() {
            let item = item(number);
            bytes += item.len() + 1;
            let open = list.len();
            if open > 1 {
                list.push(',');
            }
            if !preset.reads.as_ref().is_some_and(|reads| reads.keep(item, &mut list, work)) {
                list.push_str(item);
            }
        }
        list.push(']');
        match json::read(list.as_bytes(), DEPTH_CEILING, usize::MAX, work) {
            Ok(read) => rendered(&preset.template, &read.node, bytes, work),
            Err(_) => String::new(),
        }
    }
}

/// What the items of a list are called, and how its chunks are summarized.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summaries<'p> {
    pub(crate) noun: &'p str,
    template: Option<&'p Template>,
}

impl Summaries<'_> {
    /// Returns the summary of a chunk, a part of one line. `item` gives an item by its number: a document's item, or a
    /// line of text as a string.
    ///
    /// The work is linear in the bytes of the chunk: a template that takes more steps gives no summary.
    pub(crate) fn summary<'n>(self, chunk: Chunk<'_>, item: impl Fn(usize) -> Node<'n>, work: &Work<'_>) -> String {
        let Some(template) = self.template else {
            return self.first_and_last(chunk, item);
        };
        let items = Node::Array(chunk.items().map(item).collect());
        let bytes = json::compact_len_within(&items, work);
        rendered(template, &items, bytes, work)
    }

    /// Returns the summary without a template: the number of items, and the first and the last value of the first
    /// scalar member. Of a single item it is the value.
    fn first_and_last<'n>(self, chunk: Chunk<'_>, item: impl Fn(usize) -> Node<'n>) -> String {
        let mut numbers = chunk.items();
        let Some(first) = numbers.next().map(&item) else { return String::new() };
        let name = first_scalar(&first);
        let value = |item: &Node<'_>| {
            let value = match &name {
                Some(name) => item.get(name).and_then(scalar),
                None => scalar(item),
            };
            value.map(|value| plain(&value, VALUE_BYTES)).filter(|value| !value.is_empty())
        };
        let begin = value(&first);
        let Some(last) = numbers.next_back().map(&item) else { return begin.unwrap_or_default() };
        let mut about = format!("{} {}", chunk.len(), self.noun);
        match (begin, value(&last)) {
            (Some(begin), Some(end)) if begin != end => about = format!("{about}, {begin}..{end}"),
            (Some(one), _) | (None, Some(one)) => about = format!("{about}, {one}"),
            (None, None) => {}
        }
        plain(&about, SUMMARY_BYTES)
    }
}

/// Renders a summary of `items`, which have so many bytes.
fn rendered(template: &Template, items: &Node<'_>, bytes: usize, work: &Work<'_>) -> String {
    let steps = bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS);
    let mut text = String::new();
    match template.render(items, &mut text, &mut Meter::within(steps, RENDERED_BYTES, work)) {
        Ok(()) | Err(RenderError::TooLong { .. }) => plain(&text, SUMMARY_BYTES),
        Err(RenderError::TooManySteps) => String::new(),
    }
}

/// Returns the name of the first member of an object whose value is a scalar.
fn first_scalar(item: &Node<'_>) -> Option<String> {
    let member = item.as_object()?.iter().find(|member| scalar(&member.value).is_some())?;
    Some(member.key.decoded().into_owned())
}

/// Returns the text of a scalar other than `null`.
fn scalar<'n>(node: &'n Node<'_>) -> Option<Cow<'n, str>> {
    match node {
        Node::Scalar(raw) => (!node.is_null()).then_some(Cow::Borrowed(raw)),
        Node::String(_) => node.as_str(),
        Node::Array(_) | Node::Object(_) => None,
    }
}

/// Returns the problem of a noun and its remedy, if there is one.
fn noun_problem(noun: &str) -> Option<(String, &'static str)> {
    let remedy = "give what the items are called in a word or two, such as `diffs`";
    if noun.trim() != noun || noun.is_empty() {
        return Some(("is empty, or begins or ends with a space".to_owned(), remedy));
    }
    if noun.len() > NOUN_BYTES {
        return Some((format!("has {} bytes, at most {NOUN_BYTES} are allowed", noun.len()), remedy));
    }
    let other = noun.chars().find(|c| !(c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')))?;
    let remedy = "use letters, digits, spaces, `-` and `_`";
    Some((format!("contains `{}`", other.escape_debug()), remedy))
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
