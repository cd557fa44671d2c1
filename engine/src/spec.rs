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

/// Budget and format of the answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// `json`; `toon` and `auto` are not implemented yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The largest output; a caller can only lower it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetSpec>,
    /// `false`: the answer does not say what `maxItems` and the budget leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<bool>,
    /// Not implemented yet: which items are worth most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// Not implemented yet: named field sets of a lower detail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<IndexMap<String, Vec<String>>>,
}

/// A limit on the answer: the larger of its text blocks and its structured content counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetSpec {
    /// In bytes of UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// In tokens; not implemented yet.
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
