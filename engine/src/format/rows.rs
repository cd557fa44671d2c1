//! The rows of a table.
//!
//! A row mostly has its members in the order of the columns. It is then copied as it is read, each key compared with
//! that of its column. Where a key differs, what was written of the row is taken back: the places of its cells are
//! gathered by key first, and then copied in the order of the columns.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::keys::{Key, Span};
use super::layout::{Kind, Layout, Layouts, Member};
use super::literal::Literals;
use super::scan::{at, value};

/// Writes the cells of a row.
pub(super) trait Cells {
    /// Appends the value at `pos` of `json`, and returns the position behind it.
    fn cell(&mut self, json: &str, pos: usize, out: &mut Vec<u8>) -> usize;
}

/// A part of a row, in the order of the columns.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// A cell.
    Cell(Span),
    /// The beginning of an object whose members are columns.
    Open(Span),
    /// The end of such an object.
    Close,
}

/// The columns of one layout.
#[derive(Debug)]
struct Columns {
    layout: Layout,
    parts: Vec<Part>,
}

/// The columns of the tables of a document.
#[derive(Debug)]
pub(super) struct Tables<'s, 'a> {
    json: &'a str,
    layouts: &'s Layouts<'a>,
    /// By layout.
    columns: HashMap<Layout, usize, RandomState>,
    all: Vec<Columns>,
    /// Where the columns of a layout are: a cell by its number from the first one of the layout.
    places: HashMap<(Layout, Key), (usize, Kind), RandomState>,
    /// Where the cells of one row are in the document; 0 if the row lacks one.
    cells: Vec<u32>,
}

/// The number of a table's columns in [`Tables`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Table(usize);

impl<'s, 'a> Tables<'s, 'a> {
    pub(super) fn new(json: &'a str, layouts: &'s Layouts<'a>) -> Self {
        let (columns, all, places, cells) = Default::default();
        Self { json, layouts, columns, all, places, cells }
    }

    /// Returns the table with the columns of `layout`.
    pub(super) fn table(&mut self, layout: Layout) -> Table {
        if let Some(last) = self.all.last()
            && last.layout == layout
        {
            return Table(self.all.len() - 1);
        }
        if let Some(known) = self.columns.get(&layout) {
            return Table(*known);
        }
        let mut parts = Vec::with_capacity(self.layouts.cells(layout));
        self.parts(layout, &mut parts);
        self.columns.insert(layout, self.all.len());
        self.all.push(Columns { layout, parts });
        Table(self.all.len() - 1)
    }

    fn parts(&self, layout: Layout, parts: &mut Vec<Part>) {
        let mut members = Vec::new();
        self.layouts.members(layout, &mut members);
        for Member { key, kind } in members {
            let span = self.layouts.keys.span(key);
            match kind.layout() {
                None => parts.push(Part::Cell(span)),
                Some(group) => {
                    parts.push(Part::Open(span));
                    self.parts(group, parts);
                    parts.push(Part::Close);
                }
            }
        }
    }

    /// Appends the names of the columns: `a,b{c,d}`.
    pub(super) fn names(&self, table: Table, delimiter: u8, literals: &mut Literals, out: &mut Vec<u8>) {
        let mut first = true;
        for part in &self.all[table.0].parts {
            let span = match part {
                Part::Close => {
                    out.push(b'}');
                    continue;
                }
                Part::Cell(span) | Part::Open(span) => span,
            };
            if !std::mem::replace(&mut first, false) {
                out.push(delimiter);
            }
            literals.key(self.json, span.start as usize, out);
            if matches!(part, Part::Open(_)) {
                out.push(b'{');
                first = true;
            }
        }
    }

    /// Appends the names of the columns as a document has them: `"a","b"`. No column is a group.
    pub(super) fn raw_names(&self, table: Table, out: &mut Vec<u8>) {
        for (i, part) in self.all[table.0].parts.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            if let Part::Cell(span) | Part::Open(span) = part {
                out.extend_from_slice(span.of(self.json).as_bytes());
            }
        }
    }

    /// Appends the cells of the row that begins at `pos`, and returns the position behind it.
    #[inline(always)]
    pub(super) fn row(
        &mut self,
        table: Table,
        pos: usize,
        delimiter: u8,
        writer: &mut impl Cells,
        out: &mut Vec<u8>,
    ) -> usize {
        let before = out.len();
        if let Some(end) = self.in_order(table, pos, delimiter, writer, out) {
            return end;
        }
        out.truncate(before);
        self.by_key(table, pos, delimiter, writer, out)
    }

    /// Appends a row whose members are in the order of the columns. Returns `None` if they are not.
    #[inline(always)]
    fn in_order(
        &self,
        table: Table,
        pos: usize,
        delimiter: u8,
        writer: &mut impl Cells,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let bytes = self.json.as_bytes();
        // Behind the bracket, or behind the comma; or at the bracket that closes an object.
        let mut pos = pos + 1;
        let mut first = true;
        for part in &self.all[table.0].parts {
            match part {
                Part::Cell(key) => {
                    if !std::mem::replace(&mut first, false) {
                        out.push(delimiter);
                    }
                    match key.matched(bytes, pos) {
                        Some(end) => {
                            let end = writer.cell(self.json, end + 1, out);
                            pos = end + usize::from(at(bytes, end) == b',');
                        }
                        None => out.extend_from_slice(b"null"),
                    }
                }
                Part::Open(key) => {
                    // An object is in every row; its first cell writes the delimiter.
                    pos = key.matched(bytes, pos)? + 2;
                }
                Part::Close => {
                    if at(bytes, pos) != b'}' {
                        return None;
                    }
                    pos += 1;
                    pos += usize::from(at(bytes, pos) == b',');
                }
            }
        }
        // Members that are left are in another order.
        (at(bytes, pos) == b'}').then_some(pos + 1)
    }

    #[inline(never)]
    fn by_key(&mut self, table: Table, pos: usize, delimiter: u8, writer: &mut impl Cells, out: &mut Vec<u8>) -> usize {
        let layout = self.all[table.0].layout;
        let mut cells = std::mem::take(&mut self.cells);
        cells.clear();
        cells.resize(self.layouts.cells(layout), 0);
        let end = self.gather(layout, pos, &mut cells);
        for (i, cell) in cells.iter().enumerate() {
            if i > 0 {
                out.push(delimiter);
            }
            match *cell {
                0 => out.extend_from_slice(b"null"),
                cell => {
                    writer.cell(self.json, cell as usize, out);
                }
            }
        }
        self.cells = cells;
        end
    }

    /// Finds the cells of the object at `pos`, and returns the position behind it.
    fn gather(&mut self, layout: Layout, pos: usize, cells: &mut [u32]) -> usize {
        let bytes = self.json.as_bytes();
        let mut pos = pos;
        self.place(layout);
        loop {
            let end = super::scan::string(bytes, pos + 1);
            let key = self.layouts.keys.find(&self.json[pos + 1..end]);
            let place = key.and_then(|key| self.places.get(&(layout, key)).copied());
            pos = match place {
                Some((first, kind)) => match kind.layout() {
                    Some(group) => self.gather(group, end + 1, &mut cells[first..]),
                    None => {
                        cells[first] = (end + 1) as u32;
                        value(bytes, end + 1)
                    }
                },
                None => value(bytes, end + 1),
            };
            if at(bytes, pos) != b',' {
                return pos + 1;
            }
        }
    }

    /// Adds the places of a layout.
    fn place(&mut self, layout: Layout) {
        let mut members = Vec::new();
        if self.places.contains_key(&(layout, Key::NONE)) {
            return;
        }
        self.places.insert((layout, Key::NONE), (0, Kind::OTHER));
        self.layouts.members(layout, &mut members);
        let mut first = 0;
        for Member { key, kind } in members {
            self.places.insert((layout, key), (first, kind));
            first += kind.layout().map_or(1, |group| self.layouts.cells(group));
        }
    }
}
