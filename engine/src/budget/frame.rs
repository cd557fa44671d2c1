//! What stands around a value in an answer, and what the whole answer costs.

use std::fmt::Write as _;

use crate::Bytes;

/// The member of the structured content that names the pages.
pub(crate) const PAGINATION: &str = "_pagination";
/// The member of the structured content that reports a cut.
pub(crate) const TRUNCATED: &str = "_truncated";

/// What is added to a value: a second text block, and members of the structured content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// The JSON of `_pagination`.
    pub(crate) pagination: Option<&'a str>,
    /// Whether cuts are reported.
    pub(crate) notice: bool,
}

/// What an answer leaves out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The list, where some of its items are not shown.
    pub(crate) items: Option<Items>,
    /// Strings are shortened.
    pub(crate) strings: bool,
    /// Members, or elements of other lists, are left out.
    pub(crate) members: bool,
}

/// The items of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Items {
    /// Those in the answer.
    pub(crate) shown: usize,
    /// Those before `maxItems`.
    pub(crate) total: usize,
}

impl Items {
    /// The items of a list of which some are not shown.
    pub(crate) fn cut(shown: usize, total: usize) -> Option<Self> {
        (shown < total).then_some(Self { shown, total })
    }
}

/// How a value becomes the structured content, with the bytes of the object before members are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The value is text: there is none.
    Text,
    /// The value is an object.
    Object,
    /// The value is another JSON value, and becomes the member `result`.
    Wrapped,
    /// An object of so many bytes that holds the value.
    Summary(usize),
}

impl Form {
    /// What a JSON value becomes. `json` is compact, or as it came.
    pub(crate) fn of(json: &str) -> Self {
        if json.trim_ascii_start().starts_with('{') { Self::Object } else { Self::Wrapped }
    }
}

/// The name of the member that holds what is no object, with what stands before the value.
pub(crate) const RESULT: &str = "{\"result\":";

impl Frame<'_> {
    /// The second text block: what was cut, then the pages, a line each.
    pub(crate) fn notice(&self, cut: Cut) -> Option<String> {
        let mut out = String::new();
        if self.notice {
            let Cut { items, strings, members } = cut;
            if let Some(Items { shown, total }) = items {
                // Writing to a string does not fail.
                let _ = write!(out, "{shown} of {total} items shown");
            }
            for (_, what) in
                [(strings, "long text shortened"), (members, "members left out")].iter().filter(|(is, _)| *is)
            {
                out.push_str(if out.is_empty() { "" } else { ", " });
                out.push_str(what);
            }
        }
        if let Some(pagination) = self.pagination {
            out.push_str(if out.is_empty() { "" } else { "\n" });
            let _ = write!(out, "{PAGINATION}: {pagination}");
        }
        (!out.is_empty()).then_some(out)
    }

    /// The members of the structured content, with commas between them.
    pub(crate) fn members(&self, cut: Cut) -> String {
        let mut out = String::new();
        if let Some(pagination) = self.pagination {
            let _ = write!(out, "\"{PAGINATION}\":{pagination}");
        }
        if self.notice && cut != Cut::default() {
            let Cut { items, strings, members } = cut;
            out.push_str(if out.is_empty() { "" } else { "," });
            let _ = write!(out, "\"{TRUNCATED}\":{{");
            let open = out.len();
            if let Some(Items { shown, total }) = items {
                let _ = write!(out, "\"shown\":{shown},\"total\":{total}");
            }
            for (_, what) in [(strings, "strings"), (members, "members")].iter().filter(|(is, _)| *is) {
                out.push_str(if out.len() == open { "" } else { "," });
                let _ = write!(out, "\"{what}\":true");
            }
            out.push('}');
        }
        out
    }

    /// What an answer costs: the larger of its text blocks and its structured content. `text` is the first block's bytes.
    ///
    /// A member that gives way to one of the frame's is counted with it, as in the first text block.
    pub(crate) fn cost(&self, text: usize, form: Form, cut: Cut) -> Cost {
        let object = match form {
            Form::Text => None,
            Form::Object => Some(text),
            Form::Wrapped => Some(RESULT.len() + text + 1),
            Form::Summary(bytes) => Some(bytes),
        };
        let members = self.members(cut).len();
        let comma = usize::from(members > 0 && object.is_some_and(|bytes| bytes > "{}".len()));
        Cost {
            blocks: Bytes(text + self.notice(cut).map_or(0, |notice| notice.len())),
            structured: Bytes(object.map_or(0, |bytes| bytes + comma + members)),
        }
    }
}

/// What an answer costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cost {
    /// The text blocks.
    pub(crate) blocks: Bytes,
    /// The structured content.
    pub(crate) structured: Bytes,
}

impl Cost {
    /// What a limit is compared with.
    pub(crate) fn counted(self) -> Bytes {
        self.blocks.max(self.structured)
    }

    /// Whether an answer of that cost keeps within `limit`: the one place where a limit is compared.
    pub(crate) fn fits(self, limit: Bytes) -> bool {
        self.counted() <= limit
    }
}
