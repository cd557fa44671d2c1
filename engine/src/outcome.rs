//! Input and result of one application of a program.

use std::fmt;

use serde::Serialize;

use crate::answer::{Form, RESULT};
use crate::{Format, Page, PageError, PageInputs, TokenCounter, Tokens};

/// One tool output, of the kind that the tool declares.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// The output is meant to be JSON. An empty output counts as `{}`, and `{"raw": "..."}` as text. An output that
    /// does not parse is treated as output that is not JSON.
    Json(&'a [u8]),
    /// The output is declared to be text (`response.type: text`).
    Text(&'a [u8]),
}

impl<'a> Input<'a> {
    /// Returns the original bytes.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Json(bytes) | Self::Text(bytes) => bytes,
        }
    }
}

/// A size or a limit, in bytes of UTF-8.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The limits on an answer; each limit that is set is met. The larger of its text blocks and its structured content
/// counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    /// The limit in bytes.
    pub bytes: Option<Bytes>,
    /// The limit in tokens.
    pub tokens: Option<Tokens>,
}

impl Budget {
    /// Returns a budget in bytes alone.
    #[must_use]
    pub fn bytes(bytes: usize) -> Self {
        Self { bytes: Some(Bytes(bytes)), tokens: None }
    }

    /// Returns a budget in tokens alone.
    #[must_use]
    pub fn tokens(tokens: usize) -> Self {
        Self { bytes: None, tokens: Some(Tokens(tokens)) }
    }

    /// Returns whether there is no limit.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Returns the smaller limit of each unit.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        let bytes = self.bytes.into_iter().chain(other.bytes).min();
        let tokens = self.tokens.into_iter().chain(other.tokens).min();
        Self { bytes, tokens }
    }
}

/// One call of the tool: the caller's reserved inputs, and what the gateway adds to the answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Call<'a> {
    /// `_output_mode: raw`. Under `Enforced` the gateway refuses it before the call, and the engine ignores it.
    pub raw: bool,
    /// `_budget`, `_budget_tokens` and the exposition's limits: can only lower the filter's own budget.
    pub budget: Budget,
    /// The exposition's tokenizer. It counts what a limit in tokens asks for, and nothing else.
    pub counter: TokenCounter<'a>,
    /// The JSON of `_pagination`, if the gateway fetched pages. A budget counts it.
    pub pagination: Option<&'a str>,
    /// `_format`: the formats to choose from, in place of the filter's.
    pub formats: Option<&'static [Format]>,
    /// `chunk`, or `offset` and `limit`: the part of the list to show.
    pub page: Page,
    /// The inputs for pages that the tool advertises. An answer that leaves items out has an index that names them.
    pub inputs: PageInputs<'a>,
}

impl Call<'_> {
    /// Returns whether the call asks for something else than the output as it is.
    pub(crate) fn shapes(&self) -> bool {
        !self.budget.is_none() || self.formats.is_some() || self.page != Page::All
    }
}

/// The stage that failed or was left out; also the label of `tamis_filter_errors_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The output is not JSON, or exceeds a limit.
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
    /// Stage 11, `output.format`.
    Format,
    /// Stage 11, `compact`.
    Compact,
}

impl Stage {
    /// Returns the name of the stage in metrics, reports and messages.
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
            Self::Format => "format",
            Self::Compact => "compact",
        }
    }
}

/// A stage that did less than its author asked for. Under `Enforced` the message never reaches the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The stage.
    pub stage: Stage,
    /// What happened. Names fields of the filter, never values of the output.
    pub message: String,
}

/// The structured content of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Structured {
    /// The first text block is JSON. The structured content is its value if that is an object, else `{"result":
    /// value}`, with further members appended.
    Text {
        /// `_pagination` and `_truncated` as JSON, with a comma between them; empty if the answer has neither.
        members: String,
    },
    /// A separate JSON object: the summary of `compact`, or a value without the members that `_pagination` and
    /// `_truncated` replace.
    Json(String),
    /// There is none: the output is text.
    None,
}

impl Structured {
    /// Returns the JSON object in parts. `text` is the first text block of the same result.
    #[must_use]
    pub fn parts<'a>(&'a self, text: &'a str) -> Option<Parts<'a>> {
        let members = match self {
            Self::None => return None,
            Self::Json(json) => return Some(Parts { open: "", json, rest: [""; 3] }),
            Self::Text { members } => members.as_str(),
        };
        let comma = if members.is_empty() { "" } else { "," };
        if Form::of(text) == Form::Wrapped {
            return Some(Parts { open: RESULT, json: text, rest: [comma, members, "}"] });
        }
        // The object without its closing brace ends in the opening brace if the object is empty.
        let json = text.trim_ascii_end().strip_suffix('}').unwrap_or(text).trim_ascii_end();
        let comma = if json.trim_ascii_start() == "{" { "" } else { comma };
        Some(Parts { open: "", json, rest: [comma, members, "}"] })
    }

    /// Returns the JSON object as one text.
    #[must_use]
    pub fn to_json(&self, text: &str) -> Option<String> {
        self.parts(text)
            .map(|Parts { open, json, rest: [comma, members, end] }| [open, json, comma, members, end].concat())
    }
}

/// The JSON object of a structured content, in parts that are written in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'a> {
    /// Comes before `json`.
    pub open: &'static str,
    /// The beginning of the first text block, or of the text in [`Structured::Json`]. All long parts of the object are
    /// in it, so an owner of that text need not copy it.
    pub json: &'a str,
    /// Comes after `json`.
    pub rest: [&'a str; 3],
}

/// A filtered output, and the report of how it was filtered.
#[derive(Debug, Clone, PartialEq)]
pub struct Filtered {
    /// The first text block: the filtered value, and nothing else.
    pub text: String,
    /// The second text block: what was cut, and `_pagination`.
    pub notice: Option<String>,
    /// The structured content.
    pub structured: Structured,
    /// Sizes, missed paths and failures.
    pub report: Report,
}

/// The refusal of an `Enforced` filter that could not be applied in full. It carries no data.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// The stage that failed.
    pub stage: Stage,
    /// The report for logs, metrics and audit; never for the caller. Boxed to keep results small.
    pub report: Box<Report>,
    /// Set if there is no chunk of the number that the call asks for. This is the caller's mistake, and no failed stage:
    /// the error names the range.
    pub page: Option<PageError>,
}

/// What the filter did (seed kimbap: "Filter metrics"). [`Report::meta`] writes it as JSON.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Whether the filter ran and produced the output.
    pub applied: bool,
    /// Bytes of the original output.
    pub original_bytes: usize,
    /// Bytes of the original document as compact JSON; equals `original_bytes` for text.
    pub compact_bytes: usize,
    /// Bytes after stages 1 to 9, as compact JSON or text.
    pub result_bytes: usize,
    /// Bytes of the text blocks.
    pub output_bytes: usize,
    /// The list's length before `maxItems`, if `maxItems` shortened it.
    pub items_truncated_from: Option<usize>,
    /// `select` paths that resolve in no item, in the order of their declaration.
    pub partial_miss: Vec<String>,
    /// Pointers of `retain`, `exclude` and `remove` that resolve nowhere.
    pub unresolved: Vec<String>,
    /// Why no structural stage ran: `raw_output`, `raw_mode`, `no_branch`, `no_stage`, `not_json` or `passthrough`.
    pub skipped: Option<&'static str>,
    /// The first of the stages 1 to 9 that failed.
    pub error: Option<Warning>,
    /// All other warnings.
    pub warnings: Vec<Warning>,
    /// The tokens of the answer, if a limit in tokens asked for them.
    pub tokens: Option<TokenReport>,
    /// The format of the first text block; `None` for text.
    pub format: Option<Format>,
    /// How many of the items that are shown have which level of detail, without those in full.
    pub levels: Vec<(Box<str>, usize)>,
    /// The value of the items that are shown, in the unit of [`ItemForm::value`](crate::ItemForm::value), if a budget chose
    /// items of a list and none of them was cut.
    pub value: Option<u64>,
    /// Into how many chunks the list is divided, if the answer leaves items out and the tool has inputs for pages.
    pub chunks: Option<usize>,
    /// The id of the list and of its division into chunks.
    pub list: Option<String>,
    /// Set if the budget made the output smaller.
    pub budget: Option<BudgetReport>,
    /// Why `compact` was not rendered.
    pub compact_error: Option<String>,
}

/// The tokens of an answer: the larger of its text blocks and its structured content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenReport {
    /// The count.
    pub counted: Tokens,
    /// The name of the tokenizer.
    pub tokenizer: &'static str,
    /// Whether the count is that of a vocabulary. Otherwise it is an estimate.
    pub exact: bool,
}

/// The effect of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetReport {
    /// The limits that applied.
    pub limit: Budget,
    /// The bytes of the answer before it was trimmed: the larger of its text blocks and its structured content.
    pub original: Bytes,
    /// The bytes of the answer after it was trimmed. Its tokens are in [`Report::tokens`].
    pub result: Bytes,
    /// Items left out of the list.
    pub items_dropped: usize,
    /// Strings that were shortened.
    pub strings_truncated: usize,
    /// Members, and elements outside the list, that were left out: the last resort.
    pub members_dropped: usize,
    /// Whether even the smallest valid answer is larger than a limit.
    pub exceeded: bool,
}
