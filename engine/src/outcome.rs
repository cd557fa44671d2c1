//! What one application of a program takes and gives.

use std::fmt;

use serde::Serialize;

use crate::budget::{Form, RESULT};

/// One tool output, as the source of the tool declares it.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// Meant to be JSON. Empty is `{}`; `{"raw": "..."}` is text; what does not parse is treated as
    /// output that is not JSON.
    Json(&'a [u8]),
    /// Declared text (`response.type: text`).
    Text(&'a [u8]),
}

impl<'a> Input<'a> {
    /// The output as it came.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Json(bytes) | Self::Text(bytes) => bytes,
        }
    }
}

/// A size, or a limit, in bytes of UTF-8.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the caller of the tool asked for with the reserved inputs, and what the gateway adds to the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Call<'a> {
    /// `_output_mode: raw`. Under `Enforced` the gateway refuses it before the call; here it has no effect there.
    pub raw: bool,
    /// `_budget`; can only lower the filter's own. 0 is none.
    pub budget: Option<Bytes>,
    /// The JSON of `_pagination`, where the gateway fetched pages. A budget counts it.
    pub pagination: Option<&'a str>,
}

/// The stage that failed or was left out; also the label of `tamis_filter_errors_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The output is not JSON, or beyond a limit.
    Parse,
    /// No branch matches.
    Branch,
    /// Stage 2.
    Retain,
    /// Stage 3.
    Patches,
    /// Stage 4.
    Root,
    /// Stages 5 to 8.
    Select,
    /// Stage 9.
    Text,
    /// Stage 10.
    Budget,
    /// Stage 11, `compact`.
    Compact,
}

impl Stage {
    /// The name in metrics, reports and messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Branch => "branch",
            Self::Retain => "retain",
            Self::Patches => "patches",
            Self::Root => "root",
            Self::Select => "select",
            Self::Text => "text",
            Self::Budget => "budget",
            Self::Compact => "compact",
        }
    }
}

/// A stage that did not do all its author wanted. Under `Enforced` the message never goes to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub stage: Stage,
    /// What happened; names fields of the filter, never values of the output.
    pub message: String,
}

/// The structured content of a result: an object, where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Structured {
    /// The first text block is JSON: its value where that is an object, else `{"result": value}`; and further members,
    /// with commas between them.
    Text {
        /// `_pagination` and `_truncated`, as JSON; empty where the answer has neither.
        members: String,
    },
    /// A JSON object of its own: the summary of `compact`, or a value without the members that `_pagination` and
    /// `_truncated` replace.
    Json(String),
    /// The output is text; there is none.
    None,
}

impl Structured {
    /// The JSON object in pieces, to be written one after the other. `text` is the first text block of the same result.
    #[must_use]
    pub fn pieces<'a>(&'a self, text: &'a str) -> Option<[&'a str; 5]> {
        let members = match self {
            Self::None => return None,
            Self::Json(json) => return Some([json, "", "", "", ""]),
            Self::Text { members } => members.as_str(),
        };
        let comma = if members.is_empty() { "" } else { "," };
        if Form::of(text) == Form::Wrapped {
            return Some([RESULT, text, comma, members, "}"]);
        }
        // What is left of an object without its closing brace ends in the opening one where the object is empty.
        let open = text.trim_ascii_end().strip_suffix('}').unwrap_or(text).trim_ascii_end();
        let comma = if open.trim_ascii_start() == "{" { "" } else { comma };
        Some([open, comma, members, "}", ""])
    }

    /// The JSON object as one text.
    #[must_use]
    pub fn to_json(&self, text: &str) -> Option<String> {
        self.pieces(text).map(|pieces| pieces.concat())
    }
}

/// What the model gets, and what happened on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Filtered {
    /// The first text block: the value, and nothing else.
    pub text: String,
    /// The second text block: what was cut, and `_pagination`.
    pub notice: Option<String>,
    /// The structured content.
    pub structured: Structured,
    /// Sizes and what was missed.
    pub report: Report,
}

/// An `Enforced` filter that could not be applied in full: no data.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// The stage that failed.
    pub stage: Stage,
    /// For log, metrics and audit; never for the caller. Boxed, since results should be small.
    pub report: Box<Report>,
}

/// What the filter did (seed kimbap: "Filter metrics"). For the whole of it see [`Report::meta`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Whether the filter ran and produced the output.
    pub applied: bool,
    /// Bytes as they came.
    pub original_bytes: usize,
    /// The same document as compact JSON; equals `original_bytes` for text.
    pub compact_bytes: usize,
    /// Bytes after stages 1 to 9, as compact JSON or text.
    pub result_bytes: usize,
    /// Bytes of the text blocks.
    pub output_bytes: usize,
    /// The list's length before `maxItems`, where it was longer.
    pub items_truncated_from: Option<usize>,
    /// `select` paths that no item has, in the order of their declaration.
    pub partial_miss: Vec<String>,
    /// Pointers of `retain` and of `remove` that resolved nowhere.
    pub unresolved: Vec<String>,
    /// Why no structural stage ran: `raw_output`, `raw_mode`, `no_branch`, `not_json`, `passthrough`.
    pub skipped: Option<&'static str>,
    /// The first failed stage among 1 to 9.
    pub error: Option<Warning>,
    /// Everything else worth saying.
    pub warnings: Vec<Warning>,
    /// Set when the budget made the output smaller.
    pub budget: Option<BudgetReport>,
    /// Why `compact` was not rendered.
    pub compact_error: Option<String>,
}

/// What the budget did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetReport {
    /// The limit that held.
    pub limit: Bytes,
    /// What the answer would have cost: the larger of its text blocks and its structured content.
    pub original: Bytes,
    /// What it costs.
    pub result: Bytes,
    /// Items left out of the list.
    pub items_dropped: usize,
    /// Strings that were shortened.
    pub strings_truncated: usize,
    /// Members and elements left out elsewhere than in the list: the last resort.
    pub members_dropped: usize,
    /// Whether even the smallest valid answer is larger than the limit.
    pub exceeded: bool,
}
