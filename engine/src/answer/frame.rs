//! The frame of an answer: what is added to the value, and what the whole answer costs.

use std::fmt::Write as _;

use crate::Bytes;
use crate::json::encode;

/// The member of the structured content that describes the pages.
pub(crate) const PAGINATION: &str = "_pagination";
/// The member of the structured content that reports a cut.
pub(crate) const TRUNCATED: &str = "_truncated";
/// The member of the structured content that has the index of what is left out.
pub(crate) const CHUNKS: &str = "_chunks";
/// The members that an answer adds to structured content.
pub(crate) const ADDED: [&str; 3] = [PAGINATION, TRUNCATED, CHUNKS];
/// Those of them that say what the answer leaves out. An upstream's members of these names would pass for them, so they
/// are never in structured content.
pub(crate) const OWN: [&str; 2] = [TRUNCATED, CHUNKS];

/// What an answer and an index say of items at a poorer level.
pub(crate) const FEWER: &str = "with fewer fields";

/// The additions to a value: a second text block, and members of the structured content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// The JSON of `_pagination`.
    pub(crate) pagination: Option<&'a str>,
    /// Whether the answer reports cuts.
    pub(crate) notice: bool,
    /// Whether an answer that is JSON has structured content.
    pub(crate) structured: bool,
}

/// What an answer leaves out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cut<'a> {
    /// The items of the list, if some of them are not shown.
    pub(crate) items: Option<Items>,
    /// How many items that are shown have fewer fields than in the list.
    pub(crate) fewer: usize,
    /// The `offset` of the items after those that are shown, if the tool has that input and no index names it.
    pub(crate) next: Option<usize>,
    /// The index of what is left out.
    pub(crate) index: Option<&'a str>,
    /// Whether strings are shortened.
    pub(crate) strings: bool,
    /// Whether members, or elements of other lists, are left out.
    pub(crate) members: bool,
}

/// How many items of a list are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Items {
    /// The number of items in the answer.
    pub(crate) shown: usize,
    /// The number of items before `maxItems`.
    pub(crate) total: usize,
}

impl Items {
    /// Returns the counts if some items are not shown.
    pub(crate) fn cut(shown: usize, total: usize) -> Option<Self> {
        (shown < total).then_some(Self { shown, total })
    }
}

/// How a value becomes the structured content. Its size is that of the object before members are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The value is an object.
    Object,
    /// The value is any other JSON value, and becomes the member `result`.
    Wrapped,
}

impl Form {
    /// Returns the form of a JSON value. `json` is compact, or the original.
    pub(crate) fn of(json: &str) -> Self {
        if json.trim_ascii_start().starts_with('{') { Self::Object } else { Self::Wrapped }
    }
}

/// The beginning of the object that wraps a value that is not an object.
pub(crate) const RESULT: &str = "{\"result\":";

impl Frame<'_> {
    /// Returns the second text block: a line about what was cut, the index of what is left out, and a line about the
    /// pages.
    pub(crate) fn notice(&self, cut: Cut<'_>) -> Option<String> {
        let mut out = String::new();
        let Cut { items, fewer, next, index, strings, members } = cut;
        if self.notice {
            let mut part = |part: std::fmt::Arguments<'_>| {
                out.push_str(if out.is_empty() { "" } else { ", " });
                // Writing to a string does not fail.
                let _ = out.write_fmt(part);
            };
            if let Some(Items { shown, total }) = items {
                part(format_args!("{shown} of {total} items shown"));
            }
            if let Some(next) = next {
                part(format_args!("offset={next} for more"));
            }
            if fewer > 0 && !index.is_some_and(|index| index.contains(FEWER)) {
                part(format_args!("{fewer} {FEWER}"));
            }
            for (_, what) in
                [(strings, "long text shortened"), (members, "members left out")].iter().filter(|(is, _)| *is)
            {
                part(format_args!("{what}"));
            }
        }
        if let Some(index) = index {
            out.push_str(if out.is_empty() { "" } else { "\n" });
            out.push_str(index);
        }
        if let Some(pagination) = self.pagination {
            out.push_str(if out.is_empty() { "" } else { "\n" });
            let _ = write!(out, "{PAGINATION}: {pagination}");
        }
        (!out.is_empty()).then_some(out)
    }

    /// Returns the members that are added to the structured content, with commas between them.
    pub(crate) fn members(&self, cut: Cut<'_>) -> String {
        let mut out = String::new();
        if let Some(pagination) = self.pagination {
            let _ = write!(out, "\"{PAGINATION}\":{pagination}");
        }
        let Cut { items, fewer, next: _, index, strings, members } = cut;
        if self.notice && (items.is_some() || fewer > 0 || strings || members) {
            out.push_str(if out.is_empty() { "" } else { "," });
            let _ = write!(out, "\"{TRUNCATED}\":{{");
            let open = out.len();
            if let Some(Items { shown, total }) = items {
                let _ = write!(out, "\"shown\":{shown},\"total\":{total}");
            }
            if fewer > 0 {
                let comma = if out.len() == open { "" } else { "," };
                let _ = write!(out, "{comma}\"fewer\":{fewer}");
            }
            for (_, what) in [(strings, "strings"), (members, "members")].iter().filter(|(is, _)| *is) {
                out.push_str(if out.len() == open { "" } else { "," });
                let _ = write!(out, "\"{what}\":true");
            }
            out.push('}');
        }
        if let Some(index) = index {
            out.push_str(if out.is_empty() { "" } else { "," });
            let _ = write!(out, "\"{CHUNKS}\":{}", encode(index));
        }
        out
    }

    /// Returns the cost of an answer: of its text blocks and of its structured content. `text` is the size of the
    /// first block.
    ///
    /// A member that one of the frame's replaces is counted along with the replacement, as in the first text block.
    pub(crate) fn cost(&self, text: usize, form: Form, cut: Cut<'_>) -> Cost {
        let object = match form {
            _ if !self.structured => None,
            Form::Object => Some(text),
            Form::Wrapped => Some(RESULT.len() + text + 1),
        };
        let members = self.members(cut).len();
        let comma = usize::from(members > 0 && object.is_some_and(|bytes| bytes > "{}".len()));
        Cost {
            blocks: Bytes(text + self.notice(cut).map_or(0, |notice| notice.len())),
            structured: Bytes(object.map_or(0, |bytes| bytes + comma + members)),
        }
    }
}

/// The cost of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    /// The text blocks.
    pub(crate) blocks: Bytes,
    /// The structured content.
    pub(crate) structured: Bytes,
}

impl Cost {
    /// Returns the cost that counts against a limit: the larger of the two.
    pub(crate) fn counted(self) -> Bytes {
        self.blocks.max(self.structured)
    }

    /// Returns whether an answer of this cost fits into `limit`. All limits are compared here.
    pub(crate) fn fits(self, limit: Bytes) -> bool {
        self.counted() <= limit
    }
}
