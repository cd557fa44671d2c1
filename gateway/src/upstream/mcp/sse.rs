//! Parses a stream of server-sent events as it arrives (WHATWG HTML, 9.2.6).
//!
//! Only the data of message events is kept, in one buffer that does not grow beyond a limit. Comments, ids, retry times and
//! events of other types take no memory.

use memchr::memchr2;

use super::program::{Kind as Recipient, Lost, Skim};

/// The longest field name that is looked at. All others are skipped.
const LONGEST_NAME: usize = "event".len();
/// The type of the events that hold messages.
const MESSAGE: &[u8] = b"message";

/// A parser that is fed piece by piece.
#[derive(Debug)]
pub(super) struct EventParser {
    line: Line,
    /// Whether the last byte was a carriage return, which a line feed may follow.
    after_return: bool,
    /// Whether the next byte may be the byte order mark.
    mark: Option<usize>,
    data: Vec<u8>,
    has_data: bool,
    kind: Kind,
    limit: usize,
    /// The type of the events that are kept, if it is not `message`.
    wanted: Option<&'static [u8]>,
    /// Finds out for whom an event is while it arrives.
    skim: Option<Skimmed>,
}

/// What is known of an event without its data.
#[derive(Debug, Default)]
struct Skimmed {
    skim: Skim,
    length: u64,
    lost: Option<Lost>,
}

/// The part of a line that has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Within the name of a field: its bytes, and their number.
    Name([u8; LONGEST_NAME], usize),
    /// Just after the colon, where one space is dropped.
    Colon(Field),
    /// Within the value.
    Value(Field),
}

const START: Line = Line::Name([0; LONGEST_NAME], 0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Other,
}

/// The type of an event, as far as it has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The beginning of the type that is kept, of this length.
    Message(usize),
    Other,
}

/// An event has more data than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

impl EventParser {
    /// Makes a parser for events with at most `limit` bytes of data.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            line: START,
            after_return: false,
            mark: Some(0),
            data: Vec::new(),
            has_data: false,
            kind: Kind::Message(0),
            limit,
            wanted: None,
            skim: None,
        }
    }

    /// Makes a parser for events of one type, which they have to name.
    pub(super) fn of_kind(wanted: &'static [u8], limit: usize) -> Self {
        Self { wanted: Some(wanted), ..Self::new(limit) }
    }

    /// Makes a parser that skips events that are too large, and says for whom each event is: [`Self::skimmed`].
    pub(super) fn skimming() -> Self {
        Self { skim: Some(Skimmed::default()), ..Self::new(0) }
    }

    /// Sets how many bytes of data events may have from now on.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns for whom the event is that has just ended, the bytes that it had, and why its data was not kept.
    pub(super) fn skimmed(&mut self) -> (Recipient, u64, Option<Lost>) {
        let Skimmed { skim, length, lost } = self.skim.take().unwrap_or_default();
        self.skim = Some(Skimmed::default());
        (skim.end(), length, lost)
    }

    /// Drops the data of the event that is being received.
    pub(super) fn lose(&mut self, why: Lost) {
        if let Some(skimmed) = &mut self.skim {
            skimmed.lost.get_or_insert(why);
            self.data = Vec::new();
        }
    }

    /// Returns whether nothing is kept of what is being received.
    pub(super) fn keeps_nothing(&self) -> bool {
        self.data.is_empty()
    }

    fn is_lost(&self) -> bool {
        self.skim.as_ref().is_some_and(|skimmed| skimmed.lost.is_some())
    }

    /// Returns the capacity that the buffer has to grow to before `piece` bytes more are parsed; `None` if it need not.
    pub(super) fn growth(&self, piece: usize) -> Option<usize> {
        if self.is_lost() {
            return None;
        }
        // A line that ends adds a line feed, which is no more than the end that it had.
        let needed = (self.data.len() + piece + 1).min(self.limit);
        (needed > self.data.capacity()).then(|| needed.max((2 * self.data.len()).min(self.limit)))
    }

    /// Returns the bytes that are allocated.
    pub(super) fn capacity(&self) -> usize {
        self.data.capacity()
    }

    /// Grows the buffer to this capacity.
    pub(super) fn grow(&mut self, capacity: usize) {
        self.data.reserve_exact(capacity.saturating_sub(self.data.len()));
    }

    /// Parses the beginning of `input`, up to the end of an event with data, and removes it. Returns the data of the event;
    /// `None` if all of the input was parsed and no event ended.
    ///
    /// # Errors
    /// [`TooLarge`]; nothing can be parsed after that.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, TooLarge> {
        self.skip_mark(input);
        while let Some(&first) = input.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                *input = &input[1..];
                continue;
            }
            let end = memchr2(b'\n', b'\r', input);
            let text = &input[..end.unwrap_or(input.len())];
            self.text(text)?;
            let Some(end) = end else {
                *input = &[];
                break;
            };
            self.after_return = input[end] == b'\r';
            *input = &input[end + 1..];
            if let Some(event) = self.end_of_line()? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Skips a byte order mark at the beginning of the stream.
    fn skip_mark(&mut self, input: &mut &[u8]) {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        while let (Some(at), Some(first)) = (self.mark, input.first()) {
            if *first != MARK[at] {
                // A part of a mark is the beginning of a field's name that is not known.
                if at > 0 {
                    self.line = Line::Value(Field::Other);
                }
                self.mark = None;
                return;
            }
            *input = &input[1..];
            self.mark = Some(at + 1).filter(|at| *at < MARK.len());
        }
    }

    /// Reads a part of a line.
    fn text(&mut self, mut text: &[u8]) -> Result<(), TooLarge> {
        while let Some(&first) = text.first() {
            match self.line {
                Line::Name(mut name, length) => {
                    text = &text[1..];
                    self.line = if first == b':' {
                        Line::Colon(field(&name[..length]))
                    } else if let Some(place) = name.get_mut(length) {
                        *place = first;
                        Line::Name(name, length + 1)
                    } else {
                        Line::Value(Field::Other)
                    };
                    self.begin_value()?;
                }
                Line::Colon(field) => {
                    self.line = Line::Value(field);
                    if first == b' ' {
                        text = &text[1..];
                    }
                }
                Line::Value(Field::Data) => {
                    self.append(text)?;
                    return Ok(());
                }
                Line::Value(Field::Event) => {
                    let wanted = self.wanted.unwrap_or(MESSAGE);
                    self.kind = match self.kind {
                        Kind::Message(read) if wanted[read..].starts_with(text) => Kind::Message(read + text.len()),
                        _ => Kind::Other,
                    };
                    return Ok(());
                }
                Line::Value(Field::Other) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Notes that the value of a field begins, if it does.
    fn begin_value(&mut self) -> Result<(), TooLarge> {
        match self.line {
            Line::Colon(Field::Data) if self.has_data => self.append(b"\n")?,
            Line::Colon(Field::Data) => self.has_data = true,
            Line::Colon(Field::Event) => self.kind = Kind::Message(0),
            _ => {}
        }
        Ok(())
    }

    fn append(&mut self, text: &[u8]) -> Result<(), TooLarge> {
        if let Some(Skimmed { skim, length, lost }) = &mut self.skim {
            skim.feed(text);
            *length += text.len() as u64;
            if lost.is_none() && *length > self.limit as u64 {
                self.lose(Lost::TooLarge);
            }
            if self.is_lost() {
                return Ok(());
            }
        }
        if self.data.len() + text.len() > self.limit {
            return Err(TooLarge);
        }
        // Exactly, if the caller has not made room: a second event of one piece.
        self.data.reserve_exact(if self.data.capacity() - self.data.len() < text.len() { text.len() } else { 0 });
        self.data.extend_from_slice(text);
        Ok(())
    }

    /// Ends a line. Returns the data of the event that ends with it.
    fn end_of_line(&mut self) -> Result<Option<Vec<u8>>, TooLarge> {
        match std::mem::replace(&mut self.line, START) {
            Line::Name(_, 0) => {
                let kind = std::mem::replace(&mut self.kind, Kind::Message(0));
                self.has_data = false;
                let is_wanted = match (kind, self.wanted) {
                    (Kind::Message(read), None) => read == 0 || read == MESSAGE.len(),
                    (Kind::Message(read), Some(wanted)) => read == wanted.len(),
                    (Kind::Other, _) => false,
                };
                if is_wanted && (!self.data.is_empty() || self.is_lost()) {
                    return Ok(Some(std::mem::take(&mut self.data)));
                }
                self.data.clear();
                if self.skim.is_some() {
                    self.skim = Some(Skimmed::default());
                }
            }
            // A name without a colon is a field with an empty value.
            Line::Name(name, length) => {
                self.line = Line::Colon(field(&name[..length]));
                self.begin_value()?;
                self.line = START;
            }
            Line::Colon(_) | Line::Value(_) => {}
        }
        Ok(None)
    }
}

fn field(name: &[u8]) -> Field {
    match name {
        b"data" => Field::Data,
        b"event" => Field::Event,
        _ => Field::Other,
    }
}

#[cfg(test)]
#[path = "tests/sse.rs"]
mod tests;
