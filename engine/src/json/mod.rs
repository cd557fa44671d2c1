//! JSON as the engine reads it: every RFC 8259 text that is valid UTF-8, kept byte for byte.
//!
//! [`parse`] returns a [`Node`], a tree whose leaves are spans of the input: what a filter keeps comes out with its
//! original digits, escapes and member order. [`write()`] drops insignificant whitespace and nothing else.

mod escape;
mod node;
mod number;
mod parse;
mod string;
#[cfg(test)]
mod tests;
mod text;
mod write;

pub use escape::{encoded_len, write_string};
pub use node::{Key, Kind, Member, Node};
pub use parse::{ParseError, ParseErrorKind, parse, values_allowed};
pub(crate) use string::decode_lossy;
pub use string::encode;
pub use text::{InvalidJson, JsonText};
pub use write::{compact_len, to_string, write};
pub(crate) use write::{compact_len_within, to_string_within, write_within};

pub(crate) use node::{by_key, dedupe, last_of_each};
pub(crate) use parse::{DEPTH_CEILING, Document, read};
pub(crate) use string::{decode as decode_string, decode_into as decode_string_into};
