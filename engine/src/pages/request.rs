//! The page that a call asks for.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;

/// The inputs for pages that a tool advertises, and an index therefore names.
///
/// A tool that has an `offset` or `limit` of its own keeps it, and offers `chunk` alone. A tool that changes something
/// upstream offers none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageInputs<'a> {
    /// The advertised name of `chunk`: `_chunk` for a tool that has a `chunk` of its own.
    pub chunk: Option<&'a str>,
    /// Whether `offset` and `limit` are advertised.
    pub window: bool,
}

impl PageInputs<'_> {
    /// No inputs for pages.
    pub const NONE: Self = Self { chunk: None, window: false };
    /// `chunk`, `offset` and `limit`, by these names.
    pub const ALL: Self = Self { chunk: Some("chunk"), window: true };
}

impl Default for PageInputs<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

/// The values of a call's inputs for pages. A number beyond an `i64` is given as `i64::MAX` or `i64::MIN`; a value that
/// is no whole number is [`PageError::NotWhole`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// `chunk`
    pub chunk: Option<i64>,
    /// `offset`
    pub offset: Option<i64>,
    /// `limit`
    pub limit: Option<i64>,
}

/// The part of the filtered list that a call asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Page {
    /// The whole list, as far as it fits.
    #[default]
    All,
    /// One chunk of the answer that the same call without `chunk` has, from 1.
    Chunk(NonZeroUsize),
    /// Items by their numbers in the whole list, fitted again.
    Window {
        /// The number of the first item, from 0.
        offset: usize,
        /// The number of items; `None`: all that follow.
        limit: Option<NonZeroUsize>,
    },
}

impl Page {
    /// Returns the page that `request` describes.
    ///
    /// # Errors The request is wrong whatever the list is. Whether there is such a chunk is known only with the list:
    /// [`PageError::Beyond`].
    pub fn new(request: PageRequest) -> Result<Self, PageError> {
        let PageRequest { chunk, offset, limit } = request;
        let from = |input, least: i64, value: i64| {
            if value < least {
                return Err(PageError::Below { input, value, least });
            }
            Ok(usize::try_from(value).unwrap_or(usize::MAX))
        };
        let positive = |input, value| from(input, 1, value).map(|value| NonZeroUsize::MIN.saturating_add(value - 1));
        match (chunk, offset, limit) {
            (None, None, None) => Ok(Self::All),
            (Some(chunk), None, None) => positive(PageInput::Chunk, chunk).map(Self::Chunk),
            (None, offset, limit) => Ok(Self::Window {
                offset: offset.map_or(Ok(0), |offset| from(PageInput::Offset, 0, offset))?,
                limit: limit.map(|limit| positive(PageInput::Limit, limit)).transpose()?,
            }),
            (Some(_), Some(_), _) => Err(PageError::Together(PageInput::Offset)),
            (Some(_), None, Some(_)) => Err(PageError::Together(PageInput::Limit)),
        }
    }

    /// Returns an error if the page is none of an answer with one chunk.
    pub(crate) fn of_one_chunk(self) -> Result<(), PageError> {
        match self {
            Self::Chunk(chunk) if chunk.get() > 1 => Err(PageError::Beyond { chunk, chunks: 1 }),
            Self::Chunk(_) | Self::All | Self::Window { .. } => Ok(()),
        }
    }

    /// Returns the items that the page is about, of a list of `total` items. A window beyond the end is empty. A chunk
    /// is a part of the division of the whole list.
    pub(crate) fn window(self, total: usize) -> Range<usize> {
        match self {
            Self::All | Self::Chunk(_) => 0..total,
            Self::Window { offset, limit } => {
                let start = offset.min(total);
                start..limit.map_or(total, |limit| start.saturating_add(limit.get()).min(total))
            }
        }
    }
}

/// One of the inputs for pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageInput {
    /// `chunk`
    Chunk,
    /// `offset`
    Offset,
    /// `limit`
    Limit,
}

/// Why a call gets no page. [`PageError::message`] names the input and the values that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageError {
    /// The value is not a whole number.
    NotWhole(PageInput),
    /// The value is too small.
    Below {
        /// The input.
        input: PageInput,
        /// Its value.
        value: i64,
        /// The smallest value that it takes.
        least: i64,
    },
    /// `chunk` was given together with this input.
    Together(PageInput),
    /// There is no such chunk.
    Beyond {
        /// The chunk that the call asks for.
        chunk: NonZeroUsize,
        /// The number of chunks.
        chunks: usize,
    },
    /// The lines of a text have more chunks than are numbered.
    TooMany {
        /// The chunk that the call asks for.
        chunk: NonZeroUsize,
        /// The chunks that are numbered, at most.
        most: usize,
        /// Whether the tool has `offset` and `limit`.
        window: bool,
    },
}

impl PageInput {
    /// Returns the name of the input, where `chunk` is the advertised name of that one.
    fn name(self, chunk: &str) -> &str {
        match self {
            Self::Chunk => chunk,
            Self::Offset => "offset",
            Self::Limit => "limit",
        }
    }
}

impl PageError {
    /// Returns the error in one sentence without a full stop. `chunk` is the advertised name of that input.
    #[must_use]
    pub fn message(self, chunk: &str) -> String {
        match self {
            Self::NotWhole(input) => {
                let least = i64::from(input != PageInput::Offset);
                format!("`{}` is not a whole number; give a number from {least}", input.name(chunk))
            }
            Self::Below { input, value, least } => {
                let name = input.name(chunk);
                let absent = match input {
                    PageInput::Chunk => "the first chunk",
                    PageInput::Offset => "the beginning",
                    PageInput::Limit => "all that follow",
                };
                format!("`{name}` is {value}; give a number from {least}, or leave `{name}` out for {absent}")
            }
            Self::Together(input) => {
                let name = input.name(chunk);
                format!("`{chunk}` and `{name}` are given together; give `{chunk}` alone, or `offset` and `limit`")
            }
            Self::Beyond { chunk: asked, chunks: 1 } => {
                format!("`{chunk}` is {asked}, but the list has one chunk; give 1, or leave `{chunk}` out")
            }
            Self::TooMany { chunk: asked, most, window } => {
                let remedy = if window { "give `offset` and `limit`" } else { "raise the budget" };
                format!("`{chunk}` is {asked}, but chunks have no numbers where there are more than {most}; {remedy}")
            }
            Self::Beyond { chunk: asked, chunks } => {
                format!("`{chunk}` is {asked}, but the list has {chunks} chunks; give a number from 1 to {chunks}")
            }
        }
    }
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message("chunk"))
    }
}

impl std::error::Error for PageError {}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
