//! Values as spans of the bytes, for patches: only the containers on the way to an operation are split into parts.
//! Those that are known before the first operation are split in the pass that validates the document.

use std::fmt;
use std::ops::Range;

use super::distinct::Distinct;
use super::emit;
use super::scan::{self, Scan, Stop, Tally, at};
use crate::json::{self, DEPTH_CEILING, Key, Kind, Member, Node, dedupe};
use crate::program::Trie;
use crate::run::{Editable, Entered, Value, View};
use crate::work::Work;

/// Members for which an object has room at first.
const USUAL_MEMBERS: usize = 16;

/// The values that every document may have.
const DENSE_VALUES: usize = 512;
/// The bytes of a document for each further value. The limit keeps the parts at a small multiple of the document, also
/// while a list of them grows.
const BYTES_PER_VALUE: usize = 8;

/// A JSON value as written: a span of the document, or the value of an operation.
pub(super) struct Span<'a> {
    bytes: &'a [u8],
    /// The parts of a container that has been split already.
    parts: Option<Box<Parts<'a>>>,
}

/// The parts of a container as written.
enum Parts<'a> {
    Object {
        members: Vec<Member<'a, Span<'a>>>,
        /// Whether no two keys are equal, as far as that was found without resolving escapes.
        distinct: bool,
    },
    List(Vec<Span<'a>>),
}

impl<'a> Span<'a> {
    /// Returns a valid JSON value that has not been split.
    pub(super) const fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, parts: None }
    }

    /// Splits a container; `None` for a scalar.
    fn split(self, work: &Work<'_>) -> Option<Parts<'a>> {
        if let Some(parts) = self.parts {
            return Some(*parts);
        }
        let mut reader = Reader { bytes: self.bytes, tally: Tally::new(work), most_values: usize::MAX };
        let parts = match at(self.bytes, 0) {
            b'{' => reader.members(0, DEPTH_CEILING, &Trie::default()),
            b'[' => reader.elements(0, DEPTH_CEILING, &Trie::default()),
            _ => return None,
        };
        // The span is valid JSON, so only an interruption ends the scan early: the run then has no result.
        parts.ok().map(|(parts, _)| parts)
    }
}

// Debug shows no content: spans hold payloads.
impl fmt::Debug for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

impl<'a> Value<'a> for Span<'a> {
    const NULL: Self = Self::whole(b"null");
    const EMPTY_OBJECT: Self = Self::whole(b"{}");

    fn enter(self, work: &Work<'_>) -> Entered<'a, Self> {
        let bytes = self.bytes;
        match self.split(work) {
            None => Entered::Scalar(Self::whole(bytes)),
            Some(Parts::List(elements)) => Entered::List(elements),
            Some(Parts::Object { mut members, distinct }) => {
                if !distinct {
                    dedupe(&mut members, work);
                }
                Entered::Object(members)
            }
        }
    }

    fn kind(&self) -> Kind {
        match at(self.bytes, 0) {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b't' | b'f' => Kind::Boolean,
            b'n' => Kind::Null,
            _ => Kind::Number,
        }
    }

    fn equals(&self, other: &Node<'_>, work: &Work<'_>) -> bool {
        let nested = |kind| matches!(kind, Kind::Object | Kind::Array).then_some(kind);
        // A container that can only differ is not parsed.
        nested(self.kind()) == nested(other.kind())
            && json::read(self.bytes, DEPTH_CEILING, usize::MAX, work)
                .is_ok_and(|document| document.node.equals_within(other, work))
    }
}

/// Reads a document once, validates it, and splits containers.
pub(super) struct Reader<'a, 'w> {
    bytes: &'a [u8],
    pub(super) tally: Tally<'w>,
    /// The values of a document that is read. Others are left to the tree.
    most_values: usize,
}

impl<'a, 'w> Reader<'a, 'w> {
    pub(super) fn new(bytes: &'a [u8], work: &'w Work<'w>) -> Self {
        let most_values = DENSE_VALUES + bytes.len() / BYTES_PER_VALUE;
        Self { bytes, tally: Tally::new(work), most_values }
    }

    /// Reads the whole document, and splits the containers in which `paths` continue.
    pub(super) fn document(&mut self, depth: usize, paths: &Trie) -> Result<Span<'a>, Stop> {
        let start = scan::blanks(self.bytes, 0, &mut self.tally);
        let (document, end) = self.value(start, depth, paths)?;
        let end = scan::blanks(self.bytes, end, &mut self.tally);
        if end == self.bytes.len() { Ok(document) } else { Err(Stop::Invalid) }
    }

    fn value(&mut self, pos: usize, room: usize, paths: &Trie) -> Scan<(Span<'a>, usize)> {
        let (parts, end) = match at(self.bytes, pos) {
            b'{' if !paths.names.is_empty() => self.members(pos, room, paths)?,
            b'[' if !paths.names.is_empty() => self.elements(pos, room, paths)?,
            _ => return self.whole(pos, room),
        };
        Ok((Span { bytes: &self.bytes[pos..end], parts: Some(Box::new(parts)) }, end))
    }

    fn whole(&mut self, pos: usize, room: usize) -> Scan<(Span<'a>, usize)> {
        let end = scan::value(self.bytes, pos, room, &mut self.tally)?;
        Ok((Span::whole(&self.bytes[pos..end]), end))
    }

    fn elements(&mut self, pos: usize, room: usize, paths: &Trie) -> Scan<(Parts<'a>, usize)> {
        let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
        let (mut pos, mut more) = self.open(pos, b']')?;
        let mut elements = Vec::new();
        let indexed = paths.names.iter().filter_map(|(name, below)| Some((name.index.number()?, below)));
        let mut indexed: Vec<_> = indexed.filter(|(_, below)| !below.names.is_empty()).collect();
        indexed.sort_unstable_by_key(|(index, _)| *index);
        let mut indexed = indexed.into_iter().peekable();
        while more {
            let (element, end) = match indexed.next_if(|(index, _)| *index == elements.len()) {
                Some((_, below)) => self.value(pos, room, below)?,
                None => self.whole(pos, room)?,
            };
            elements.push(element);
            (pos, more) = self.next(end, b']')?;
        }
        Ok((Parts::List(elements), pos))
    }

    fn members(&mut self, pos: usize, room: usize, paths: &Trie) -> Scan<(Parts<'a>, usize)> {
        let room = room.checked_sub(1).ok_or(Stop::Invalid)?;
        let (mut pos, mut more) = self.open(pos, b'}')?;
        let mut members = Vec::with_capacity(if more { USUAL_MEMBERS } else { 0 });
        let mut keys = Distinct::new();
        let mark = keys.enter();
        let mut escapes = false;
        while more {
            if at(self.bytes, pos) != b'"' {
                return Err(Stop::Invalid);
            }
            let end = scan::string(self.bytes, pos + 1)?;
            let key = str::from_utf8(&self.bytes[pos..end]).map_err(|_| Stop::Invalid)?;
            let plain = &self.bytes[pos + 1..end - 1];
            keys.add(plain);
            // The value of a key with an escape is split when an operation enters it.
            escapes |= memchr::memchr(b'\\', plain).is_some();
            let start = scan::colon(self.bytes, end, &mut self.tally)?;
            let (value, end) = match paths.named(plain).next() {
                Some((_, below)) => self.value(start, room, below)?,
                None => self.whole(start, room)?,
            };
            members.push(Member { key: Key::from_raw(key), value });
            (pos, more) = self.next(end, b'}')?;
        }
        // Keys that differ as written can be equal only through escapes.
        let distinct = keys.leave(mark, 0) && !escapes;
        Ok((Parts::Object { members, distinct }, pos))
    }

    /// Moves from an opening bracket to the first element or member, or behind the closing bracket if there is none.
    fn open(&mut self, pos: usize, close: u8) -> Scan<(usize, bool)> {
        let pos = scan::blanks(self.bytes, pos + 1, &mut self.tally);
        if at(self.bytes, pos) == close {
            return Ok((pos + 1, false));
        }
        self.tally.value()?;
        Ok((pos, true))
    }

    fn next(&mut self, pos: usize, close: u8) -> Scan<(usize, bool)> {
        if self.tally.values > self.most_values {
            return Err(Stop::Bail);
        }
        scan::comma(self.bytes, pos, close, &mut self.tally)
    }
}

/// Appends `document`, without insignificant whitespace. `source` contains its spans; `blanks` tells whether there is
/// whitespace in them.
pub(super) fn write(document: &Editable<'_, Span<'_>>, source: &[u8], blanks: bool, out: &mut Vec<u8>) {
    let mut writer = Writer { source, blanks, out, run: 0..0 };
    writer.value(View::Edited(document));
    writer.flush();
}

/// Writes what follows in the source as it was written with one copy.
struct Writer<'w> {
    source: &'w [u8],
    blanks: bool,
    out: &'w mut Vec<u8>,
    /// The part of the source that is to be written next.
    run: Range<usize>,
}

impl Writer<'_> {
    fn flush(&mut self) {
        self.out.extend_from_slice(&self.source[std::mem::take(&mut self.run)]);
    }

    fn punctuation(&mut self, byte: u8) {
        if !self.run.is_empty() && at(self.source, self.run.end) == byte {
            self.run.end += 1;
        } else {
            self.flush();
            self.out.push(byte);
        }
    }

    fn part(&mut self, part: &[u8]) {
        // Allocations do not overlap: an address within the source belongs to a part of it.
        let from = part.as_ptr().addr().wrapping_sub(self.source.as_ptr().addr());
        let to = from.saturating_add(part.len());
        let inside = to <= self.source.len();
        if inside && from == self.run.end && !self.run.is_empty() {
            self.run.end = to;
            return;
        }
        self.flush();
        if inside {
            self.run = from..to;
        } else {
            self.out.extend_from_slice(part);
        }
    }

    fn value(&mut self, value: View<'_, '_, Span<'_>>) {
        match value {
            View::Untouched(span) | View::Edited(Editable::Untouched(span)) => {
                if self.blanks && matches!(span.bytes.first(), Some(b'{' | b'[')) {
                    self.flush();
                    emit::compact(span.bytes, self.out);
                } else {
                    self.part(span.bytes);
                }
            }
            View::Edited(Editable::Object(object)) => {
                self.punctuation(b'{');
                for (number, (key, value)) in object.iter().enumerate() {
                    if number > 0 {
                        self.punctuation(b',');
                    }
                    self.part(key.raw().as_bytes());
                    self.punctuation(b':');
                    self.value(value);
                }
                self.punctuation(b'}');
            }
            View::Edited(Editable::List(list)) => {
                self.punctuation(b'[');
                for (number, value) in list.iter().enumerate() {
                    if number > 0 {
                        self.punctuation(b',');
                    }
                    self.value(value);
                }
                self.punctuation(b']');
            }
        }
    }
}
