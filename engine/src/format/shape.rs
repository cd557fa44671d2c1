//! The shape of a document: the form that TOON gives to each array and object.
//!
//! Whether a list is a table is known at its end, and whether an object is a column of a table depends on all rows. So
//! the shape is found in one pass from the leaves up: an object is known by the number of its [`Layout`] when it ends,
//! and the list around it compares nothing but these numbers. What the second pass needs is one [`Form`] for each array
//! that is not empty, and for each object that begins with an object, in the order of the document; tables need none
//! for anything in them.
//!
//! Time is linear in the document: each key is compared with one or two expected keys, or looked up once, and the members
//! of a layout are sorted once, when it is new. Memory is 12 bytes for a form, and some 200 bytes for each member of a
//! layout: little where objects are alike, and linear in the document where no two are.

use std::ops::Range;

use super::fill::{self, Distinct};
use super::layout::{Duplicate, Kind, Layout, Layouts};
use super::scan::{at, has_lone_surrogate, opens_object, quote_or_escape, string, word};
use crate::work::Work;

/// Bytes between two polls of the interrupt.
const POLL: usize = 4096;

/// How an array or an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Each element or member on lines of its own.
    Lines,
    /// Primitive values on one line.
    Inline,
    /// Rows with the columns of this layout.
    Table(Layout),
}

/// The form of an array or an object, and the number of its elements or members.
#[derive(Debug, Clone, Copy)]
pub(super) struct Container {
    pub(super) form: Form,
    pub(super) count: u32,
}

impl Container {
    /// The entry of a container whose end has not been read.
    const OPEN: Self = Self { form: Form::Lines, count: 0 };
}

/// Why a document has no shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// An object has two members with the same key.
    Duplicate,
    /// A string or a key has half of a surrogate pair.
    LoneSurrogate,
    /// The run is interrupted.
    Interrupted,
}

impl From<Duplicate> for Stop {
    fn from(_: Duplicate) -> Self {
        Self::Duplicate
    }
}

/// The shape of a document.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    pub(super) layouts: Layouts<'a>,
    pub(super) containers: Vec<Container>,
}

impl<'a> Shape<'a> {
    /// Returns the shape of `json`. In arrays within `fill`, a row may lack columns.
    ///
    /// # Errors
    /// See [`Stop`].
    pub(super) fn of(json: &'a str, fill: Range<usize>, work: &Work<'_>) -> Result<Self, Stop> {
        let mut pass = Pass {
            json,
            fill,
            shape: Self { layouts: Layouts::new(), containers: Vec::new() },
            rows: Distinct::default(),
            lists: 0,
            polled: 0,
            work,
        };
        pass.value(0, Parent::Other)?;
        Ok(pass.shape)
    }
}

impl Shape<'_> {
    /// Returns whether TOON writes a part of the document without repeating keys or quotes for every value: a table, or
    /// the elements of an array on one line.
    pub(super) fn has_rows(&self) -> bool {
        self.containers.iter().any(|container| match container.form {
            Form::Lines => false,
            Form::Inline => container.count > 1,
            Form::Table(_) => true,
        })
    }
}

/// What a value is in. An array or an object in an array has no header that could be that of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parent {
    Array,
    Other,
}

struct Pass<'a, 'w> {
    json: &'a str,
    fill: Range<usize>,
    shape: Shape<'a>,
    /// The layouts of the rows of the open arrays that may be filled.
    rows: Distinct,
    /// The number of arrays so far that may be filled.
    lists: u32,
    /// The position at which the interrupt was polled.
    polled: usize,
    work: &'w Work<'w>,
}

impl Pass<'_, '_> {
    /// Reads the value at `pos`. Returns the position behind it, and its kind.
    #[inline(always)]
    fn value(&mut self, pos: usize, parent: Parent) -> Result<(usize, Kind), Stop> {
        let bytes = self.json.as_bytes();
        match at(bytes, pos) {
            b'"' => {
                let stop = quote_or_escape(bytes, pos + 1);
                if at(bytes, stop) == b'"' {
                    return Ok((stop + 1, Kind::PRIMITIVE));
                }
                Ok((self.escaped(pos)?, Kind::PRIMITIVE))
            }
            b'{' => self.object(pos, parent),
            b'[' => self.array(pos, parent),
            _ => Ok((word(bytes, pos), Kind::PRIMITIVE)),
        }
    }

    /// Returns the position behind the string at `pos`, which has escapes.
    #[inline(never)]
    fn escaped(&self, pos: usize) -> Result<usize, Stop> {
        let bytes = self.json.as_bytes();
        let end = string(bytes, pos);
        if has_lone_surrogate(bytes, quote_or_escape(bytes, pos + 1), end) { Err(Stop::LoneSurrogate) } else { Ok(end) }
    }

    #[inline(always)]
    fn poll(&mut self, pos: usize) -> Result<(), Stop> {
        if pos - self.polled < POLL {
            return Ok(());
        }
        let steps = pos - self.polled;
        self.polled = pos;
        if self.work.spend_unbounded(steps) { Ok(()) } else { Err(Stop::Interrupted) }
    }

    #[inline(never)]
    fn object(&mut self, start: usize, parent: Parent) -> Result<(usize, Kind), Stop> {
        let bytes = self.json.as_bytes();
        if at(bytes, start + 1) == b'}' {
            return Ok((start + 2, Kind::OTHER));
        }
        let mut layout = Layout::EMPTY;
        let (mut pos, mut count) = (start, 0);
        let mut keyed: Option<(usize, Rows)> = None;
        loop {
            let (expected, end) = self.shape.layouts.key(layout, self.json, pos + 1);
            if expected.is_other() && self.json.as_bytes()[pos + 1..end].contains(&b'\\') {
                self.escaped(pos + 1)?;
            }
            // Behind the colon.
            pos = end + 1;
            if count == 0 && parent == Parent::Other && opens_object(bytes, pos) {
                keyed = Some((self.shape.containers.len(), Rows::default()));
                self.shape.containers.push(Container::OPEN);
            }
            count += 1;
            let (end, kind) = self.value(pos, Parent::Other)?;
            if let Some((_, rows)) = &mut keyed {
                rows.add(kind, &self.shape.layouts);
            }
            layout = self.shape.layouts.push(layout, expected, kind);
            pos = end;
            self.poll(pos)?;
            if at(bytes, pos) != b',' {
                break;
            }
        }
        let kind = self.shape.layouts.finish(layout)?;
        if let Some((number, rows)) = keyed {
            let form = match rows.first() {
                Some(layout) if count > 1 && rows.equal => {
                    self.shape.containers.truncate(number + 1);
                    Form::Table(layout)
                }
                _ => Form::Lines,
            };
            self.shape.containers[number] = Container { form, count };
        }
        Ok((pos + 1, kind))
    }

    #[inline(never)]
    fn array(&mut self, start: usize, parent: Parent) -> Result<(usize, Kind), Stop> {
        let bytes = self.json.as_bytes();
        if at(bytes, start + 1) == b']' {
            return Ok((start + 2, Kind::OTHER));
        }
        let number = self.shape.containers.len();
        self.shape.containers.push(Container::OPEN);
        let first_row = self.rows.len();
        let fills = parent == Parent::Other && self.fill.contains(&start);
        self.lists += u32::from(fills);
        let list = self.lists;
        let (mut primitive, mut rows) = (true, Rows::default());
        let (mut pos, mut count, mut cells) = (start, 0, 0);
        loop {
            let (end, kind) = self.value(pos + 1, Parent::Array)?;
            count += 1;
            primitive &= kind == Kind::PRIMITIVE;
            rows.add(kind, &self.shape.layouts);
            if fills
                && rows.all
                && let Some(layout) = kind.layout()
            {
                cells += self.shape.layouts.cells(layout);
                self.rows.add(layout, list, self.shape.layouts.len());
            }
            pos = end;
            self.poll(pos)?;
            if at(bytes, pos) != b',' {
                break;
            }
        }
        let form = match rows.first() {
            _ if primitive => Form::Inline,
            Some(layout) if parent == Parent::Other && rows.equal => Form::Table(layout),
            Some(_) if fills => {
                let most = fill::most_cells(cells);
                match fill::union(&mut self.shape.layouts, self.rows.since(first_row)) {
                    Some(union) if self.shape.layouts.cells(union).saturating_mul(count as usize) <= most => {
                        Form::Table(union)
                    }
                    _ => Form::Lines,
                }
            }
            _ => Form::Lines,
        };
        self.rows.truncate(first_row);
        if matches!(form, Form::Table(_)) {
            self.shape.containers.truncate(number + 1);
        }
        self.shape.containers[number] = Container { form, count };
        Ok((pos + 1, Kind::OTHER))
    }
}

/// What the values of a list have in common, as far as they can be rows.
#[derive(Debug, Clone, Copy)]
struct Rows {
    first: Option<(Layout, Layout)>,
    /// Whether all are objects whose cells can be those of a table.
    all: bool,
    /// Whether, in addition, all have the same members.
    equal: bool,
}

impl Default for Rows {
    fn default() -> Self {
        Self { first: None, all: true, equal: true }
    }
}

impl Rows {
    #[inline(always)]
    fn add(&mut self, kind: Kind, layouts: &Layouts<'_>) {
        if !self.all {
            return;
        }
        match (kind.layout(), self.first) {
            (None, _) => (self.all, self.equal) = (false, false),
            (Some(layout), None) => self.first = Some((layout, layouts.sorted(layout))),
            (Some(layout), Some((first, sorted))) => {
                self.equal &= layout == first || layouts.sorted(layout) == sorted;
            }
        }
    }

    /// Returns the layout of the first row, if all values are rows.
    fn first(&self) -> Option<Layout> {
        if self.all { self.first.map(|(layout, _)| layout) } else { None }
    }
}
