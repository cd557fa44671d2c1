//! TOON 4.4: writes a document by its shape.
//!
//! The text is that of the reference encoder, with two differences: numbers keep their digits, and members keep the
//! order of the document, where JavaScript moves keys that are whole numbers to the front.

use std::ops::Range;

use super::distinct;
use super::literal::{Delimiter, Literals};
use super::rows::{Table, Tables};
use super::scan::{at, opens_object};
use super::shape::{Container, Form, Shape, Stop};
use crate::work::Work;

/// How TOON is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToonOptions {
    /// Spaces for each level.
    pub indent: usize,
    /// What stands between values.
    pub delimiter: Delimiter,
}

impl Default for ToonOptions {
    fn default() -> Self {
        Self { indent: 1, delimiter: Delimiter::Comma }
    }
}

/// Why a document is not written as TOON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrepresentable {
    /// A string or a key has half of a surrogate pair, which TOON cannot hold.
    LoneSurrogate,
    /// The text would have more than four times the bytes, and more than 64 KiB in addition.
    TooLarge,
    /// The run is interrupted.
    Interrupted,
}

impl std::fmt::Display for Unrepresentable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::LoneSurrogate => "a string has half of a surrogate pair, which TOON cannot hold",
            Self::TooLarge => "TOON would be more than four times as large: every level of nesting indents every line",
            Self::Interrupted => "the filter was interrupted",
        })
    }
}

/// Bytes that TOON may have for each byte of JSON.
const GROWTH: usize = 4;
/// Bytes that TOON may have in addition, so that no small document is too large.
const ALLOWANCE: usize = 64 << 10;

/// Returns the most bytes that TOON may have for `bytes` bytes of JSON.
///
/// Real documents become smaller, or a few percent larger. But every level of nesting costs a space or more in every
/// line, so that the elements of a list in a thousand lists would be a thousand spaces each.
pub(crate) fn most(bytes: usize) -> usize {
    bytes.saturating_mul(GROWTH).saturating_add(ALLOWANCE)
}

/// A document as TOON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toon {
    pub(crate) text: String,
    /// The bytes of the text that indent its lines.
    pub(crate) indentation: usize,
    /// Where in the text the elements of the payload begin, and where the last one ends, if the payload is an array.
    pub(super) elements: Vec<usize>,
}

/// Returns compact JSON as TOON. `payload` is the range of its payload. With `fill`, rows of a table in the payload have
/// `null` for what their item lacks.
///
/// The text has at most [`most`] bytes. Time is linear in `json`.
///
/// # Errors
/// See [`Unrepresentable`].
pub(crate) fn encode(
    json: &str,
    payload: Range<usize>,
    fill: bool,
    options: &ToonOptions,
    work: &Work<'_>,
) -> Result<String, Unrepresentable> {
    let toon = encode_if(json, payload, fill, options, work, |_| true)?;
    toon.map(|toon| toon.text).ok_or(Unrepresentable::Interrupted)
}

/// As [`encode`], if `worth` accepts the shape of the document. Otherwise nothing is written.
pub(super) fn encode_if(
    json: &str,
    payload: Range<usize>,
    fill: bool,
    options: &ToonOptions,
    work: &Work<'_>,
    worth: impl Fn(&Shape<'_>) -> bool,
) -> Result<Option<Toon>, Unrepresentable> {
    let filled = |payload: &Range<usize>| if fill { payload.clone() } else { 0..0 };
    if u32::try_from(json.len()).is_err() {
        return Err(Unrepresentable::TooLarge);
    }
    match Shape::of(json, filled(&payload), work) {
        Ok(shape) => worth(&shape).then(|| write(json, &shape, payload, options, work)).transpose(),
        Err(Stop::Duplicate) => {
            let (json, payload) = distinct::keys(json, payload, work).ok_or(Unrepresentable::Interrupted)?;
            let shape = Shape::of(&json, filled(&payload), work).map_err(|stop| match stop {
                Stop::LoneSurrogate => Unrepresentable::LoneSurrogate,
                // No key occurs twice.
                Stop::Duplicate | Stop::Interrupted => Unrepresentable::Interrupted,
            })?;
            worth(&shape).then(|| write(&json, &shape, payload, options, work)).transpose()
        }
        Err(Stop::LoneSurrogate) => Err(Unrepresentable::LoneSurrogate),
        Err(Stop::Interrupted) => Err(Unrepresentable::Interrupted),
    }
}

fn write(
    json: &str,
    shape: &Shape<'_>,
    payload: Range<usize>,
    options: &ToonOptions,
    work: &Work<'_>,
) -> Result<Toon, Unrepresentable> {
    let mut writer = Writer {
        json,
        bytes: json.as_bytes(),
        containers: shape.containers.iter(),
        tables: Tables::new(json, &shape.layouts),
        literals: Literals::new(options.delimiter),
        options: *options,
        // Without tables, TOON is up to a seventh larger than JSON.
        out: Vec::with_capacity(json.len() + json.len() / 7),
        indentation: 0,
        payload: if payload.is_empty() { usize::MAX } else { payload.start },
        elements: Vec::new(),
        most: most(json.len()),
        polled: 0,
        work,
    };
    writer.document()?;
    if writer.out.len() > writer.most {
        return Err(Unrepresentable::TooLarge);
    }
    // Every part of it is a part of `json`, or ASCII.
    let text = String::from_utf8(writer.out).expect("it has no other bytes");
    Ok(Toon { text, indentation: writer.indentation, elements: writer.elements })
}

struct Writer<'s, 'a, 'w> {
    json: &'a str,
    bytes: &'a [u8],
    /// The forms of the arrays and objects that follow.
    containers: std::slice::Iter<'s, Container>,
    tables: Tables<'s, 'a>,
    literals: Literals,
    options: ToonOptions,
    out: Vec<u8>,
    indentation: usize,
    /// Where the payload begins.
    payload: usize,
    /// See [`Toon::elements`].
    elements: Vec<usize>,
    most: usize,
    /// The bytes that were written when the interrupt was polled.
    polled: usize,
    work: &'w Work<'w>,
}

/// Where a member of an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On a line of its own.
    Line,
    /// Behind the hyphen of a list item.
    Item,
}

type Written<T = usize> = Result<T, Unrepresentable>;

impl Writer<'_, '_, '_> {
    fn document(&mut self) -> Written<()> {
        match at(self.bytes, 0) {
            b'{' if opens_object(self.bytes, 0) => match self.keyed(0) {
                Some(Container { form: Form::Table(layout), count }) => {
                    let table = self.tables.table(layout);
                    self.header(count, true);
                    self.columns(table);
                    self.keyed_rows(0, table, 1)?;
                }
                _ => {
                    self.members(0, 0, Place::Line)?;
                }
            },
            b'{' => {}
            b'[' if at(self.bytes, 1) == b']' => self.out.extend_from_slice(b"[]"),
            b'[' => {
                self.array(0, 0)?;
            }
            _ => self.literals.document(self.json, 0, &mut self.out),
        }
        Ok(())
    }

    /// Begins a line.
    #[inline(always)]
    fn line(&mut self, depth: usize) -> Written<()> {
        const LINE: &[u8; 32] = b"\n                               ";
        let indent = depth * self.options.indent;
        self.indentation += indent;
        if indent < LINE.len() && !self.out.is_empty() {
            self.out.extend_from_slice(LINE);
            self.out.truncate(self.out.len() - (LINE.len() - 1) + indent);
        } else {
            if !self.out.is_empty() {
                self.out.push(b'\n');
            }
            self.out.resize(self.out.len() + indent, b' ');
        }
        let written = self.out.len() - self.polled;
        if written >= 4096 {
            self.poll(written)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn poll(&mut self, written: usize) -> Written<()> {
        self.polled = self.out.len();
        if self.out.len() > self.most {
            Err(Unrepresentable::TooLarge)
        } else if self.work.spend_unbounded(written) {
            Ok(())
        } else {
            Err(Unrepresentable::Interrupted)
        }
    }

    /// Returns the form of the next array or object that has one.
    fn next(&mut self) -> Container {
        *self.containers.next().expect("the shape has a form for each of them")
    }

    /// Returns the form of the object at `pos` if it has one: objects that do not begin with an object have none.
    #[inline(always)]
    fn keyed(&mut self, pos: usize) -> Option<Container> {
        let first = super::scan::string(self.bytes, pos + 1) + 1;
        if opens_object(self.bytes, first) { Some(self.next()) } else { None }
    }

    /// Writes `[count]`, or `[count:]` for an object.
    fn header(&mut self, count: u32, keyed: bool) {
        self.out.push(b'[');
        decimal(count, &mut self.out);
        if keyed {
            self.out.push(b':');
        }
        self.out.extend_from_slice(self.options.delimiter.in_header());
        self.out.push(b']');
    }

    /// Writes `{a,b}:`
    fn columns(&mut self, table: Table) {
        self.out.push(b'{');
        self.tables.names(table, self.options.delimiter.byte(), &mut self.literals, &mut self.out);
        self.out.extend_from_slice(b"}:");
    }

    #[inline(always)]
    fn row(&mut self, pos: usize, table: Table) -> usize {
        self.tables.row(table, pos, self.options.delimiter.byte(), &mut self.literals, &mut self.out)
    }

    /// Writes the array at `pos`, which is not empty, behind its key. Its content is deeper than `depth`.
    fn array(&mut self, pos: usize, depth: usize) -> Written {
        let Container { form, count } = self.next();
        self.header(count, false);
        let is_payload = pos == self.payload;
        let end = match form {
            Form::Inline => {
                self.out.extend_from_slice(b": ");
                self.cells(pos, is_payload)
            }
            Form::Table(layout) => {
                let table = self.tables.table(layout);
                self.columns(table);
                let mut pos = pos;
                loop {
                    self.element(is_payload);
                    self.line(depth + 1)?;
                    pos = self.row(pos + 1, table);
                    if at(self.bytes, pos) != b',' {
                        break pos + 1;
                    }
                }
            }
            Form::Lines => {
                self.out.push(b':');
                self.items(pos, depth + 1, is_payload)?
            }
        };
        self.element(is_payload);
        Ok(end)
    }

    /// Notes that an element begins here, or that the last one ends, if it `is_payload` whose elements these are.
    #[inline(always)]
    fn element(&mut self, is_payload: bool) {
        if is_payload {
            self.elements.push(self.out.len());
        }
    }

    /// Writes the elements of an array of primitive values.
    fn cells(&mut self, mut pos: usize, is_payload: bool) -> usize {
        let delimiter = self.options.delimiter.byte();
        loop {
            self.element(is_payload);
            pos = self.literals.value(self.json, pos + 1, &mut self.out);
            if at(self.bytes, pos) != b',' {
                return pos + 1;
            }
            self.out.push(delimiter);
        }
    }

    /// Writes the elements of the array at `pos` as list items.
    fn items(&mut self, mut pos: usize, depth: usize, is_payload: bool) -> Written {
        loop {
            self.element(is_payload);
            pos += 1;
            self.line(depth)?;
            self.out.push(b'-');
            pos = match at(self.bytes, pos) {
                b'{' if at(self.bytes, pos + 1) == b'}' => pos + 2,
                b'{' => {
                    self.out.push(b' ');
                    self.members(pos, depth + 1, Place::Item)?
                }
                b'[' if at(self.bytes, pos + 1) == b']' => {
                    self.out.push(b' ');
                    self.header(0, false);
                    self.out.push(b':');
                    pos + 2
                }
                b'[' => {
                    self.out.push(b' ');
                    self.array(pos, depth)?
                }
                _ => {
                    self.out.push(b' ');
                    self.literals.value(self.json, pos, &mut self.out)
                }
            };
            if at(self.bytes, pos) != b',' {
                return Ok(pos + 1);
            }
        }
    }

    /// Writes the members of the object at `pos`, which is not empty; the first one at `place`.
    fn members(&mut self, mut pos: usize, depth: usize, mut place: Place) -> Written {
        loop {
            if place == Place::Line {
                self.line(depth)?;
            }
            place = Place::Line;
            pos = self.literals.key(self.json, pos + 1, &mut self.out) + 1;
            pos = match at(self.bytes, pos) {
                b'{' => self.object(pos, depth)?,
                b'[' if at(self.bytes, pos + 1) == b']' => {
                    self.out.extend_from_slice(b": []");
                    pos + 2
                }
                b'[' => self.array(pos, depth)?,
                _ => {
                    self.out.extend_from_slice(b": ");
                    self.literals.value(self.json, pos, &mut self.out)
                }
            };
            if at(self.bytes, pos) != b',' {
                return Ok(pos + 1);
            }
        }
    }

    /// Writes the object at `pos` behind its key, which stands at `depth`.
    fn object(&mut self, pos: usize, depth: usize) -> Written {
        if !opens_object(self.bytes, pos) {
            self.out.push(b':');
            return Ok(pos + 2);
        }
        if let Some(Container { form: Form::Table(layout), count }) = self.keyed(pos) {
            let table = self.tables.table(layout);
            self.header(count, true);
            self.columns(table);
            return self.keyed_rows(pos, table, depth + 1);
        }
        self.out.push(b':');
        self.members(pos, depth + 1, Place::Line)
    }

    /// Writes the members of the object at `pos` as rows with a key.
    fn keyed_rows(&mut self, mut pos: usize, table: Table, depth: usize) -> Written {
        loop {
            self.line(depth)?;
            pos = self.literals.key(self.json, pos + 1, &mut self.out) + 1;
            self.out.extend_from_slice(b": ");
            pos = self.row(pos, table);
            if at(self.bytes, pos) != b',' {
                return Ok(pos + 1);
            }
        }
    }
}

/// Appends a number in decimal.
fn decimal(number: u32, out: &mut Vec<u8>) {
    let mut digits = [0; 10];
    let (mut rest, mut from) = (number, digits.len());
    loop {
        from -= 1;
        digits[from] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[from..]);
}
