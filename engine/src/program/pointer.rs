//! JSON Pointers, parsed.

use super::Glob;

/// A strict JSON Pointer (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// The pointer as written.
    pub(crate) text: Box<str>,
    /// Its reference tokens, with `~0` and `~1` resolved. Empty for the whole document.
    pub(crate) segments: Vec<Name>,
}

/// One reference token: a key in an object, and possibly an index in an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// The token with escapes resolved: the key in an object.
    pub(crate) text: Box<str>,
    /// The token as an index into an array.
    pub(crate) index: Index,
}

/// A reference token as an index into an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Index {
    /// A number without leading zeros. A number beyond `usize` becomes `usize::MAX`, which no array has.
    At(usize),
    /// `-`: the place behind the last element.
    End,
    /// The token is not an index.
    None,
}

impl Index {
    /// Returns the index of the element, if the token is a number.
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
    /// The name of a member, or an index where there is an array.
    Name(Name),
    /// `*`: every element of an array, every member of an object.
    Any,
    /// A name that contains `*`: every member whose name matches. Like a name it maps over arrays.
    Glob(Glob),
    /// `**`: any number of members and elements, including none.
    Deep,
}

impl Segment {
    /// Returns whether the segment matches the member `name` of an object.
    pub(crate) fn is_member(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => *own.text == *name,
            Self::Any | Self::Deep => true,
            Self::Glob(glob) => glob.matches(name),
        }
    }
}
