//! The validating parser.

use std::borrow::Cow;
use std::fmt;

use super::{Key, Member, Node};
use crate::work::Work;

/// The nesting that is accepted at most, whatever the limit: parsing, writing and dropping recurse.
pub(crate) const DEPTH_CEILING: usize = 1024;

/// The reason why a text is not JSON, and the place. It never holds a part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseError {
    /// The reason.
    pub kind: ParseErrorKind,
    /// The offset of the byte at which the mistake was noticed.
    pub offset: usize,
}

/// The reason why a text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// It is not valid UTF-8.
    Utf8,
    /// It ends within a value.
    UnexpectedEnd,
    /// It has a character that is not allowed at its place.
    UnexpectedCharacter,
    /// A string contains a control character that is not escaped.
    ControlCharacter,
    /// A string contains an unknown escape.
    Escape,
    /// A number is not an RFC 8259 number (`01`, `1.`, `+1`).
    Number,
    /// Arrays and objects are nested deeper than the limit.
    TooDeep,
    /// Something follows the value.
    TrailingData,
    /// It has more values than [`values_allowed`].
    TooManyValues,
    /// The run was interrupted: the caller no longer waits.
    Interrupted,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ParseErrorKind::Utf8 => "not UTF-8",
            ParseErrorKind::UnexpectedEnd => "ends within a value",
            ParseErrorKind::UnexpectedCharacter => "unexpected character",
            ParseErrorKind::ControlCharacter => "control character in a string",
            ParseErrorKind::Escape => "unknown escape in a string",
            ParseErrorKind::Number => "malformed number",
            ParseErrorKind::TooDeep => "nested too deep",
            ParseErrorKind::TrailingData => "data after the value",
            ParseErrorKind::TooManyValues => "too many values for its size",
            ParseErrorKind::Interrupted => "interrupted",
        };
        write!(f, "{what} at byte {}", self.offset)
    }
}

impl std::error::Error for ParseError {}

/// Parses one RFC 8259 text in UTF-8 without byte order mark, with arrays and objects nested at most `max_depth`
/// deep.
///
/// Everything that the RFC allows is accepted, including what other parsers reject: lone surrogate escapes, numbers
/// beyond `f64`, duplicate keys.
///
/// # Errors [`ParseError`] for any other input.
pub fn parse(input: &[u8], max_depth: usize) -> Result<Node<'_>, ParseError> {
    read(input, max_depth, usize::MAX, &Work::unlimited()).map(|document| document.node)
}

/// The members and elements that every document may have.
const VALUES: usize = 65_536;
/// The bytes of a document for each further member or element.
const BYTES_PER_VALUE: usize = 8;

/// Returns the number of members and elements that an output of `bytes` bytes may have. The limit keeps the tree at a
/// small multiple of that size ([`crate::Program::memory`]).
#[must_use]
pub fn values_allowed(bytes: usize) -> usize {
    VALUES + bytes / BYTES_PER_VALUE
}

/// A parsed document.
pub(crate) struct Document<'a> {
    pub(crate) node: Node<'a>,
    /// Its size without insignificant whitespace.
    pub(crate) compact_len: usize,
}

/// As [`parse`], for a document of at most `values` members and elements.
pub(crate) fn read<'a>(
    input: &'a [u8],
    max_depth: usize,
    values: usize,
    work: &Work<'_>,
) -> Result<Document<'a>, ParseError> {
    let text = match simdutf8::basic::from_utf8(input) {
        Ok(text) => text,
        Err(_) => {
            let offset = simdutf8::compat::from_utf8(input).map_or_else(|e| e.valid_up_to(), str::len);
            return Err(ParseError { kind: ParseErrorKind::Utf8, offset });
        }
    };
    let mut parser = Parser { text, bytes: text.as_bytes(), at: 0, blanks: 0, values, work };
    let node = parser.value(max_depth.min(DEPTH_CEILING))?;
    parser.whitespace();
    if parser.at < parser.bytes.len() {
        return Err(parser.error(ParseErrorKind::TrailingData));
    }
    Ok(Document { node, compact_len: input.len() - parser.blanks })
}

/// Reserves space for one more value. Long lists grow in smaller steps than `push` takes: a document needs most of
/// its memory while its longest list grows.
fn grow<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() && list.len() >= 1024 {
        list.reserve_exact(list.len() / 4);
    }
}

/// Frees spare capacity.
fn trim<T>(list: &mut Vec<T>) {
    if list.capacity() - list.len() > list.len() / 4 {
        list.shrink_to_fit();
    }
}

struct Parser<'a, 'w> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Bytes of insignificant whitespace so far.
    blanks: usize,
    /// Members and elements that may still follow.
    values: usize,
    work: &'w Work<'w>,
}

impl<'a> Parser<'a, '_> {
    fn error(&self, kind: ParseErrorKind) -> ParseError {
        ParseError { kind, offset: self.at }
    }

    /// Returns the error for a byte that is not allowed here.
    fn unexpected(&self) -> ParseError {
        let end = self.at >= self.bytes.len();
        self.error(if end { ParseErrorKind::UnexpectedEnd } else { ParseErrorKind::UnexpectedCharacter })
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn whitespace(&mut self) {
        let start = self.at;
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
        self.blanks += self.at - start;
    }

    /// Counts a member or an element.
    fn count(&mut self) -> Result<(), ParseError> {
        self.values = self.values.checked_sub(1).ok_or(self.error(ParseErrorKind::TooManyValues))?;
        if self.work.spend_unbounded(1) { Ok(()) } else { Err(self.error(ParseErrorKind::Interrupted)) }
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>, ParseError> {
        self.whitespace();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Node::String(Cow::Borrowed(self.string()?))),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'n') => self.literal("null"),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            _ => Err(self.unexpected()),
        }
    }

    fn enter(&mut self, depth: usize) -> Result<usize, ParseError> {
        let below = depth.checked_sub(1).ok_or(self.error(ParseErrorKind::TooDeep))?;
        self.at += 1;
        self.whitespace();
        Ok(below)
    }

    fn array(&mut self, depth: usize) -> Result<Node<'a>, ParseError> {
        let below = self.enter(depth)?;
        let mut elements = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Node::Array(elements));
        }
        loop {
            self.count()?;
            grow(&mut elements);
            elements.push(self.value(below)?);
            self.whitespace();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.unexpected()),
            }
        }
        self.at += 1;
        trim(&mut elements);
        Ok(Node::Array(elements))
    }

    fn object(&mut self, depth: usize) -> Result<Node<'a>, ParseError> {
        let below = self.enter(depth)?;
        let mut members = Vec::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Node::Object(members));
        }
        loop {
            self.whitespace();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let key = Key::from_raw(self.string()?);
            self.whitespace();
            if self.peek() != Some(b':') {
                return Err(self.unexpected());
            }
            self.at += 1;
            self.count()?;
            grow(&mut members);
            members.push(Member { key, value: self.value(below)? });
            self.whitespace();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.unexpected()),
            }
        }
        self.at += 1;
        trim(&mut members);
        Ok(Node::Object(members))
    }

    /// Parses the string that begins at the current quote, and returns it with its quotes.
    fn string(&mut self) -> Result<&'a str, ParseError> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..0x20) => return Err(self.error(ParseErrorKind::ControlCharacter)),
                Some(_) => self.at += 1,
                None => return Err(self.error(ParseErrorKind::UnexpectedEnd)),
            }
        }
        self.at += 1;
        Ok(&self.text[start..self.at])
    }

    fn escape(&mut self) -> Result<(), ParseError> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    match self.peek() {
                        Some(digit) if digit.is_ascii_hexdigit() => self.at += 1,
                        Some(_) => return Err(self.error(ParseErrorKind::Escape)),
                        None => return Err(self.error(ParseErrorKind::UnexpectedEnd)),
                    }
                }
            }
            Some(_) => return Err(self.error(ParseErrorKind::Escape)),
            None => return Err(self.error(ParseErrorKind::UnexpectedEnd)),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Node<'a>, ParseError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if self.peek().is_some_and(|b| b.is_ascii_digit()) {
                return Err(self.error(ParseErrorKind::Number));
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Node::Scalar(&self.text[start..self.at]))
    }

    fn digits(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        match self.peek() {
            _ if self.at > start => Ok(()),
            None => Err(self.error(ParseErrorKind::UnexpectedEnd)),
            Some(_) => Err(self.error(ParseErrorKind::Number)),
        }
    }

    fn literal(&mut self, word: &'static str) -> Result<Node<'a>, ParseError> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                return Err(self.unexpected());
            }
            self.at += 1;
        }
        Ok(Node::Scalar(word))
    }
}
