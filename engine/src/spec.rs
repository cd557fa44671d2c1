//! A filter as documents declare it: plain data, nothing checked beyond its shape.
//!
//! Spellings of the seed documents (`max_items`, `jsonRetain`, ..) are turned into these names by
//! the loader; here each field has one name.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::JsonText;

/// The entry of one tool in `filters`: one filter, or a list of branches of which the first whose
/// `test` holds applies (seed: "Conditional filtering").
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ToolFilter {
    /// One filter for every output.
    Single(Box<FilterSpec>),
    /// Branches, each with `test` or, the last, `otherwise: true`.
    Branches(Vec<FilterSpec>),
}

impl Default for ToolFilter {
    fn default() -> Self {
        Self::Single(Box::default())
    }
}

// By hand: an untagged enum would answer every mistake with "did not match any variant".
impl<'de> Deserialize<'de> for ToolFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = ToolFilter;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a filter object or a list of branches")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolFilter, A::Error> {
                FilterSpec::deserialize(MapAccessDeserializer::new(map)).map(|f| ToolFilter::Single(Box::new(f)))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<ToolFilter, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(ToolFilter::Branches)
            }
        }
        deserializer.deserialize_any(Entry)
    }
}

/// One filter, or one branch of a list. Stages run in the order of the fields below.
// Documents hold many filters, and most have few stages, so the large fields are boxed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilterSpec {
    /// List form only: this branch applies when the test holds on the original output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Box<TestSpec>>,
    /// List form only: the last branch, which applies when no other does.
    #[serde(default, skip_serializing_if = "is_false")]
    pub otherwise: bool,
    /// Publishes the tool under `Enforced` with its output as it is. Excludes every other field.
    #[serde(default, skip_serializing_if = "is_false")]
    pub passthrough: bool,
    /// JSON Pointers of the branches to keep; `*` matches every element or member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retain: Option<Vec<String>>,
    /// JSON Patch operations (RFC 6902), applied in order after `retain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patches: Option<Vec<PatchSpec>>,
    /// JSON Pointer of the payload; without it the payload is detected (`Advisory`) or the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Keeps the first elements of a list payload; 0 is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<i64>,
    /// Output key to source path, in the order in which members come out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<IndexMap<String, String>>,
    /// Top-level names of the item to drop after `select`; an entry that begins with `/` drops deeper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// Drops members whose value is null, at every depth of the payload.
    #[serde(default, skip_serializing_if = "is_false")]
    pub drop_nulls: bool,
    /// Drops members whose value is null, `""`, `[]` or `{}`, from the leaves up.
    #[serde(default, skip_serializing_if = "is_false")]
    pub drop_empty: bool,
    /// Cleans outputs that are text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Box<TextSpec>>,
    /// Budget and format of what the model gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<OutputSpec>>,
    /// Renders a list as a text summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact: Option<Box<CompactSpec>>,
}

/// RFC 6902 `test`: the value at `path` equals `value`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestSpec {
    /// A strict JSON Pointer (RFC 6901) into the original output.
    pub path: String,
    /// The value to find there; numbers are equal when their values are.
    pub value: JsonText,
}

/// One JSON Patch operation. Loosely typed, so that every mistake in it can be named at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchSpec {
    /// `add`, `remove`, `replace`, `move`, `copy` or `test`.
    pub op: String,
    /// Where the operation works, a strict JSON Pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The source of `move` and `copy`, a strict JSON Pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The value of `add`, `replace` and `test`; `null` is a value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub value: Option<JsonText>,
}

/// How text output is cleaned (seed kimbap: `text_filter`). Lines are what `\n` ends; `\r\n` and a lone `\r` end
/// them too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TextSpec {
    /// Removes ANSI escape sequences.
    #[serde(default, skip_serializing_if = "is_false")]
    pub strip_ansi: bool,
    /// Regular expressions; lines that match one are dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strip: Vec<String>,
    /// Regular expressions; where given, only lines that match one stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// Joins adjacent equal lines into one, `line (x3)`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dedup: bool,
    /// Keeps the first lines; a last line says how many were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_lines: Option<i64>,
    /// What to say when nothing is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_empty: Option<String>,
}

/// Budget and format of the answer (seed 002).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// Settings for a kind of list, in a word: `issues`, `pulls`, `merge_requests`, `diffs`, `comments`, `discussions`
    /// or `logs`. Fields that the filter gives itself win.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// `json`, `table`, `toon`, `auto`, or a list of the first three to choose from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<FormatSpec>,
    /// When the answer has structured content: `always`, `schema` (where the tool has an output schema) or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<String>,
    /// `false`: the answer does not say what `maxItems` and the budget leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<bool>,
    /// Reserved inputs that the tool advertises in addition: `_format`, `_budget_tokens`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// The largest output; a caller can only lower it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetSpec>,
    /// Which items are worth most: a name, or an object with a name and settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategySpec>,
    /// How items are chosen: `knapsack`, `greedy`, `fair` or `head_tail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Levels of detail by name, from rich to poor: the names or pointers that an item keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<IndexMap<String, Vec<String>>>,
    /// The index of what is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<ChunksSpec>,
    /// How TOON is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toon: Option<ToonSpec>,
}

/// One format, or several to choose from.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum FormatSpec {
    /// A format, or `auto`.
    One(String),
    /// The formats to choose from.
    Of(Vec<String>),
}

// By hand, as for `ToolFilter`.
impl<'de> Deserialize<'de> for FormatSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = FormatSpec;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a format or a list of names")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<FormatSpec, E> {
                Ok(FormatSpec::One(name.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<FormatSpec, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(FormatSpec::Of)
            }
        }
        deserializer.deserialize_any(Entry)
    }
}

/// The strategy of a budget: its name, or its name and settings.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StrategySpec {
    /// `default`, `element_count`, `cascading`, `size_proportional`, `thread_level` or `head_tail`.
    Name(String),
    /// The same, with settings.
    With(Box<StrategyFields>),
}

// By hand, as for `ToolFilter`.
impl<'de> Deserialize<'de> for StrategySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = StrategySpec;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a strategy or an object with `name`")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<StrategySpec, E> {
                Ok(StrategySpec::Name(name.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StrategySpec, A::Error> {
                StrategyFields::deserialize(MapAccessDeserializer::new(map))
                    .map(|with| StrategySpec::With(Box::new(with)))
            }
        }
        deserializer.deserialize_any(Entry)
    }
}

/// A strategy and its settings. Fields of the item are names, or JSON Pointers within the filtered item.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategyFields {
    /// `default`, `element_count`, `cascading`, `size_proportional`, `thread_level` or `head_tail`.
    pub name: String,
    /// The field whose value names an item's group: `fair` shares the budget between groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// `cascading`: where the newest item is, `last` (the default) or `first`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<String>,
    /// `size_proportional`: the field with the path of the file; `path` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `size_proportional`: file patterns and their weights, from 0 to 1; the first that matches counts. In place of
    /// the patterns that the documentation lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<IndexMap<String, f64>>,
    /// `thread_level`: the field that says whether a thread is resolved; `resolved` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// `thread_level`: the field with the list of comments; `comments` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comments: Option<String>,
    /// `head_tail`: regular expressions of the lines or items that are worth more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boost: Option<Vec<String>>,
}

/// The index of the items that an answer leaves out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChunksSpec {
    /// What the items are called; `items` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noun: Option<String>,
    /// The template of a chunk's summary, in Go `text/template` syntax; the dot is the list of its items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// How TOON is written (TOON specification 4.4).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToonSpec {
    /// Spaces for each level; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indent: Option<i64>,
    /// What stands between values: `comma` (the default), `tab` or `pipe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<String>,
}

/// A limit on the answer: the larger of its text blocks and its structured content counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetSpec {
    /// In bytes of UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// In tokens of the exposition's tokenizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<i64>,
}

/// A text summary of a list, in Go `text/template` syntax (seed kimbap: `response.compact`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompactSpec {
    /// Printed first; `.Total`, `.Count` and `.Remaining` are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Printed once an item; the item is the dot. Required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Printed last; `.Total`, `.Count` and `.Remaining` are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub footer: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JsonText>, D::Error> {
    JsonText::deserialize(deserializer).map(Some)
}
