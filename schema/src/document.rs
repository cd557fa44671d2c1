//! A JSON text and a flat index of its values.
//!
//! The index has one [`Entry`] of 16 bytes for each value and each key, so it takes at most eight times the size of
//! the text. A general tree takes up to sixty times the size of the text for a list of short elements. The index of a short
//! text is not allocated.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use smallvec::SmallVec;

/// Limits on a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size of the text in bytes.
    pub bytes: usize,
    /// The nesting of lists and objects.
    pub depth: usize,
}

impl Limits {
    /// The limits on a schema, and on the constants of a manifest.
    pub const SCHEMA: Self = Self { bytes: 16 << 20, depth: 128 };
}

/// Why a text is rejected. Never shows a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text is larger than allowed.
    #[error("the JSON text is larger than {0} bytes")]
    TooLarge(usize),
    /// The text is nested deeper than allowed.
    #[error("the JSON text is nested deeper than {0} levels")]
    TooDeep(usize),
    /// An object has a key twice, in any spelling. Holds the name of the key, shortened.
    #[error("the key `{0}` is there twice in one object")]
    DuplicateKey(String),
    /// A number exceeds the range of a double.
    #[error("a number is beyond the range of a double")]
    NumberRange,
    /// An escape stands for half of a surrogate pair.
    #[error("a string holds half of a surrogate pair")]
    LoneSurrogate,
    /// The text is not JSON.
    #[error("the text is not valid JSON at byte {0}")]
    Malformed(usize),
}

/// One value or key: its place in the text, and the place of the next one in the index.
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u32,
    end: u32,
    /// The index of the entry behind the value and everything in it.
    next: u32,
    /// The number of elements of a list, or members of an object.
    count: u32,
}

/// The type of a value in JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// A list.
    Array,
    /// An object.
    Object,
}

/// The entries of a text. An object with five scalar members has eleven.
type Entries = SmallVec<[Entry; 12]>;

/// A parsed JSON text.
#[derive(Clone)]
pub struct Document<'a> {
    text: Cow<'a, str>,
    entries: Entries,
}

impl std::fmt::Debug for Document<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Document({} bytes)", self.text.len())
    }
}

impl<'a> Document<'a> {
    /// Parses one JSON value. Rejects what parsers treat differently: duplicate keys at any depth and in any
    /// spelling, numbers beyond a double, lone surrogates.
    ///
    /// # Errors [`ParseError`].
    pub fn parse(text: impl Into<Cow<'a, str>>, limits: Limits) -> Result<Self, ParseError> {
        let text = text.into();
        let fits = u32::try_from(text.len()).is_ok_and(|length| length < u32::MAX);
        if text.len() > limits.bytes || !fits {
            return Err(ParseError::TooLarge(limits.bytes));
        }
        let mut reader = Reader { text: &text, bytes: text.as_bytes(), at: 0, entries: Entries::new(), limits };
        reader.value(0)?;
        reader.space();
        if reader.at < reader.bytes.len() {
            return Err(ParseError::Malformed(reader.at));
        }
        let entries = reader.entries;
        Ok(Self { text, entries })
    }

    /// Returns the value of the whole text.
    #[must_use]
    pub fn root(&self) -> Value<'_> {
        Value { document: self, at: 0 }
    }

    /// Returns the size of the text in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn value(&self, at: usize) -> Value<'_> {
        Value { document: self, at }
    }
}

/// A value of a document, or a key, which is a string.
#[derive(Clone, Copy)]
pub struct Value<'d> {
    document: &'d Document<'d>,
    at: usize,
}

impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.kind())
    }
}

impl<'d> Value<'d> {
    fn entry(self) -> Entry {
        self.document.entries[self.at]
    }

    /// Returns the place of the value in the document's index.
    pub(crate) fn at(self) -> usize {
        self.at
    }

    /// Returns the value at another place of the same document.
    pub(crate) fn sibling(self, at: usize) -> Self {
        Self { at, ..self }
    }

    /// Returns the text of the value as written.
    #[must_use]
    pub fn raw(self) -> &'d str {
        &self.document.text[self.place()]
    }

    /// Returns the place of the value in the text of its document.
    #[must_use]
    pub fn place(self) -> Range<usize> {
        let Entry { start, end, .. } = self.entry();
        start as usize..end as usize
    }

    /// Returns the type of the value.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self.raw().as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// Returns the number of elements of a list, or members of an object.
    #[must_use]
    pub fn count(self) -> usize {
        self.entry().count as usize
    }

    /// Returns the text of a string.
    #[must_use]
    pub fn as_str(self) -> Option<Cow<'d, str>> {
        let raw = self.raw();
        raw.starts_with('"').then(|| unescaped(&raw[1..raw.len() - 1]))
    }

    /// Returns the elements of a list.
    pub fn elements(self) -> impl Iterator<Item = Value<'d>> {
        let count = if self.kind() == Kind::Array { self.count() } else { 0 };
        let mut at = self.at + 1;
        (0..count).map(move |_| {
            let element = Value { document: self.document, at };
            at = element.entry().next as usize;
            element
        })
    }

    /// Returns the keys and values of the members of an object.
    pub fn members(self) -> impl Iterator<Item = (Value<'d>, Value<'d>)> {
        let count = if self.kind() == Kind::Object { self.count() } else { 0 };
        let mut at = self.at + 1;
        (0..count).map(move |_| {
            let key = Value { document: self.document, at };
            let value = Value { document: self.document, at: at + 1 };
            at = value.entry().next as usize;
            (key, value)
        })
    }

    /// Returns the member with the given name.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Value<'d>> {
        self.members().find(|(key, _)| key.is(name)).map(|(_, value)| value)
    }

    /// Returns whether the value is a string equal to `text`.
    #[must_use]
    pub fn is(self, text: &str) -> bool {
        self.as_str().is_some_and(|own| own == text)
    }

    /// Returns whether the value is a number equal to the number in `text`.
    #[must_use]
    pub fn is_number(self, text: &str) -> bool {
        let numbers = crate::decimal::Decimal::parse(self.raw()).zip(crate::decimal::Decimal::parse(text));
        self.kind() == Kind::Number && numbers.is_some_and(|(own, other)| own.cmp(&other).is_eq())
    }
}

/// Resolves the escapes of a validated string.
fn unescaped(inner: &str) -> Cow<'_, str> {
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = rest.as_bytes().get(at + 1).copied().unwrap_or(b'\\');
        rest = rest.get(at + 2..).unwrap_or_default();
        match escape {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let high = hex(rest);
                rest = rest.get(4..).unwrap_or_default();
                let code = if (0xd800..0xdc00).contains(&high) {
                    let low = hex(rest.get(2..).unwrap_or_default());
                    rest = rest.get(6..).unwrap_or_default();
                    0x1_0000 + ((high - 0xd800) << 10) + low.wrapping_sub(0xdc00)
                } else {
                    high
                };
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            other => out.push(char::from(other)),
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Returns the value of four hex digits; 0 if there are none.
fn hex(text: &str) -> u32 {
    text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

/// The keys of an object with at most this many members are compared with each other, which takes no allocation.
const COMPARED: usize = 8;

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    entries: Entries,
    limits: Limits,
}

impl Reader<'_> {
    fn malformed<T>(&self) -> Result<T, ParseError> {
        Err(ParseError::Malformed(self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Opens an entry at the current byte.
    fn open(&mut self) -> usize {
        let start = narrow(self.at);
        self.entries.push(Entry { start, end: 0, next: 0, count: 0 });
        self.entries.len() - 1
    }

    fn close(&mut self, entry: usize, count: usize) {
        let next = narrow(self.entries.len());
        let end = narrow(self.at);
        self.entries[entry] = Entry { end, next, count: narrow(count), ..self.entries[entry] };
    }

    fn value(&mut self, depth: usize) -> Result<(), ParseError> {
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.malformed(),
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), ParseError> {
        let entry = self.enter(depth)?;
        let mut count = 0;
        self.space();
        if self.peek() != Some(b']') {
            loop {
                self.value(depth + 1)?;
                count += 1;
                self.space();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b']') => break,
                    _ => return self.malformed(),
                }
            }
        }
        self.at += 1;
        self.close(entry, count);
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), ParseError> {
        let entry = self.enter(depth)?;
        let mut count = 0;
        self.space();
        if self.peek() != Some(b'}') {
            loop {
                self.space();
                if self.peek() != Some(b'"') {
                    return self.malformed();
                }
                self.string()?;
                self.space();
                if self.peek() != Some(b':') {
                    return self.malformed();
                }
                self.at += 1;
                self.value(depth + 1)?;
                count += 1;
                self.space();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b'}') => break,
                    _ => return self.malformed(),
                }
            }
        }
        self.at += 1;
        self.close(entry, count);
        self.distinct(entry)
    }

    fn enter(&mut self, depth: usize) -> Result<usize, ParseError> {
        if depth >= self.limits.depth {
            return Err(ParseError::TooDeep(self.limits.depth));
        }
        let entry = self.open();
        self.at += 1;
        Ok(entry)
    }

    /// Returns an error if the object has a key twice.
    fn distinct(&self, object: usize) -> Result<(), ParseError> {
        let Entry { count, .. } = self.entries[object];
        if count < 2 {
            return Ok(());
        }
        let mut at = object + 1;
        let mut keys = (0..count).map(|_| {
            let Entry { start, end, .. } = self.entries[at];
            at = self.entries[at + 1].next as usize;
            unescaped(&self.text[start as usize + 1..end as usize - 1])
        });
        let twice = if count as usize <= COMPARED {
            let mut seen: SmallVec<[Cow<'_, str>; COMPARED]> = SmallVec::new();
            keys.find(|key| {
                let is_seen = seen.contains(key);
                seen.push(key.clone());
                is_seen
            })
        } else {
            let mut seen = HashSet::with_capacity(count as usize);
            keys.find(|key| !seen.insert(key.clone()))
        };
        twice.map_or(Ok(()), |key| Err(ParseError::DuplicateKey(clipped(&key))))
    }

    fn string(&mut self) -> Result<(), ParseError> {
        let entry = self.open();
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..0x20) | None => return self.malformed(),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        self.close(entry, 0);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), ParseError> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                let code = self.four()?;
                if (0xdc00..0xe000).contains(&code) {
                    return Err(ParseError::LoneSurrogate);
                }
                if (0xd800..0xdc00).contains(&code) {
                    if self.bytes.get(self.at..self.at + 2) != Some(br"\u") {
                        return Err(ParseError::LoneSurrogate);
                    }
                    self.at += 2;
                    if !(0xdc00..0xe000).contains(&self.four()?) {
                        return Err(ParseError::LoneSurrogate);
                    }
                }
            }
            _ => return self.malformed(),
        }
        Ok(())
    }

    fn four(&mut self) -> Result<u32, ParseError> {
        let digits = self.bytes.get(self.at..self.at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else { return self.malformed() };
        let code = digits.iter().fold(0, |code, digit| code << 4 | char::from(*digit).to_digit(16).unwrap_or(0));
        self.at += 4;
        Ok(code)
    }

    fn number(&mut self) -> Result<(), ParseError> {
        let entry = self.open();
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
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
        if !self.text[start..self.at].parse::<f64>().is_ok_and(f64::is_finite) {
            return Err(ParseError::NumberRange);
        }
        self.close(entry, 0);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { self.malformed() } else { Ok(()) }
    }

    fn word(&mut self, word: &str) -> Result<(), ParseError> {
        let entry = self.open();
        if !self.text[self.at..].starts_with(word) {
            return self.malformed();
        }
        self.at += word.len();
        self.close(entry, 0);
        Ok(())
    }
}

/// Converts a place in a text that is shorter than 4 GiB.
fn narrow(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// Returns a name that a caller chose, short enough for a message and without control characters.
pub(crate) fn clipped(name: &str) -> String {
    const SHOWN: usize = 64;
    let mut out: String = name.chars().take(SHOWN).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if name.chars().nth(SHOWN).is_some() {
        out.push_str("...");
    }
    out
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
