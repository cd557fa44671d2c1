//! JSON Pointers, parsed.

use super::Glob;

/// A strict JSON Pointer (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// As it was written.
    pub(crate) text: Box<str>,
    /// Its reference tokens, `~0` and `~1` resolved. None is the whole document.
    pub(crate) segments: Vec<Name>,
}

/// One reference token, and what it says to an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// The token, escapes resolved: the key in an object.
    pub(crate) text: Box<str>,
    /// What it is in an array.
    pub(crate) index: Index,
}

/// What a reference token is in an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Index {
    /// A number without leading zeros; one beyond `usize` is `usize::MAX`, which no array has.
    At(usize),
    /// `-`: behind the last element.
    End,
    /// Not an index.
    None,
}

impl Index {
    /// The element's number.
    pub(crate) fn number(self) -> Option<usize> {
        match self {
            Self::At(index) => Some(index),
            Self::End | Self::None => None,
        }
    }
}

impl Name {
    pub(crate) fn new(text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let index = match &*text {
            "-" => Index::End,
            "0" => Index::At(0),
            number if digits && !number.starts_with('0') => Index::At(number.parse().unwrap_or(usize::MAX)),
            _ => Index::None,
        };
        Self { text, index }
    }
}

/// One segment of a pointer of `retain` or `exclude`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// A member's name, or an index where there is an array.
    Name(Name),
    /// `*`: every element of an array, every member of an object.
    Any,
    /// A name with `*` in it: every member whose name matches. Like a name it maps over arrays.
    Glob(Glob),
    /// `**`: any number of members and elements, none too.
    Deep,
}

impl Segment {
    /// Whether this is the segment of the member `name` of an object.
    pub(crate) fn is_member(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => *own.text == *name,
            Self::Any | Self::Deep => true,
            Self::Glob(glob) => glob.matches(name),
        }
    }
}
