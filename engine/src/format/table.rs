//! `table`: a list of objects as one object of its columns and rows, in JSON.
//!
//! Every key is written once. It stays JSON, so it can be structured content, and its values stay as they are.

use std::ops::Range;

use super::distinct;
use super::fill::{self, Distinct};
use super::layout::{Duplicate, Kind, Layout, Layouts};
use super::rows::{Cells, Tables};
use super::scan::{at, opens_object, value};
use crate::work::Work;

/// Bytes between two polls of the interrupt.
const POLL: usize = 4096;

/// Returns the document with its payload as `{"columns":[names],"rows":[[values],..]}`.
///
/// The payload is a list of two or more objects. Either all have the same members, or `fill` is set, no member is
/// `null`, and at least half of the cells of the table are members; a cell that is none is `null`. Returns `None` for
/// every other payload, and if the run is interrupted.
///
/// The text is larger than `json` by at most half of it and 24 bytes. Time is linear in `json`.
pub(crate) fn encode(json: &str, payload: Range<usize>, fill: bool, work: &Work<'_>) -> Option<String> {
    encode_if(json, payload, fill, work, |_| true).map(|table| table.text)
}

/// A document with its payload as a table.
pub(super) struct Table {
    pub(super) text: String,
    /// Where in the text the rows begin, and where the last one ends.
    pub(super) rows: Vec<usize>,
}

/// As [`encode`], if `worth` accepts the bytes that the table has less than the document, nearly: keys may be written
/// with escapes here and without them there. Otherwise nothing is written.
pub(super) fn encode_if(
    json: &str,
    payload: Range<usize>,
    fill: bool,
    work: &Work<'_>,
    worth: impl Fn(isize) -> bool,
) -> Option<Table> {
    u32::try_from(json.len()).ok()?;
    match Items::read(json, payload.clone(), fill, work) {
        Ok(items) => items.filter(|items| worth(items.saved))?.write(json, payload, work),
        Err(Duplicate) => {
            let (json, payload) = distinct::keys(json, payload, work)?;
            let items = Items::read(&json, payload.clone(), fill, work).ok()?;
            items.filter(|items| worth(items.saved))?.write(&json, payload, work)
        }
    }
}

/// The items of a payload that can be a table.
struct Items<'a> {
    layouts: Layouts<'a>,
    columns: Layout,
    /// The number of items.
    count: usize,
    /// The bytes that the table has less than the list.
    saved: isize,
}

/// The bytes of a table without columns and rows.
const FRAME: &str = r#"{"columns":[],"rows":[]}"#;

impl<'a> Items<'a> {
    fn read(json: &'a str, payload: Range<usize>, fill: bool, work: &Work<'_>) -> Result<Option<Self>, Duplicate> {
        let bytes = json.as_bytes();
        if at(bytes, payload.start) != b'[' {
            return Ok(None);
        }
        let mut layouts = Layouts::new();
        let mut rows = Distinct::default();
        let (mut pos, mut count, mut has_null) = (payload.start, 0_usize, false);
        let (mut cells, mut key_bytes) = (0, 0);
        let (mut first, mut equal, mut polled) = (None, true, pos);
        loop {
            pos += 1;
            if !opens_object(bytes, pos) && (!fill || at(bytes, pos) != b'{') {
                return Ok(None);
            }
            let mut layout = Layout::EMPTY;
            while at(bytes, pos + 1) != b'}' && matches!(at(bytes, pos), b'{' | b',') {
                let (expected, end) = layouts.key(layout, json, pos + 1);
                has_null |= at(bytes, end + 1) == b'n';
                pos = value(bytes, end + 1);
                layout = layouts.push(layout, expected, Kind::PRIMITIVE);
            }
            // An empty object ends behind its bracket.
            pos += if at(bytes, pos) == b'{' { 2 } else { 1 };
            layouts.finish(layout)?;
            count += 1;
            cells += layouts.cells(layout);
            key_bytes += layouts.key_bytes(layout);
            rows.add(layout, 1, layouts.len());
            let (_, sorted) = *first.get_or_insert((layout, layouts.sorted(layout)));
            equal &= layouts.sorted(layout) == sorted;
            if pos - polled >= POLL {
                if !work.spend_unbounded(pos - polled) {
                    return Ok(None);
                }
                polled = pos;
            }
            if at(bytes, pos) != b',' {
                break;
            }
        }
        let columns = match first {
            Some((layout, _)) if equal => layout,
            _ if fill && !has_null => match fill::union(&mut layouts, rows.since(0)) {
                Some(union) if layouts.cells(union).saturating_mul(count) <= fill::most_cells(cells) => union,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let is_table = count > 1 && columns != Layout::EMPTY;
        let absent = layouts.cells(columns) * count - cells;
        let added = layouts.key_bytes(columns) + absent * ",null".len() + FRAME.len();
        Ok(is_table.then_some(Self { layouts, columns, count, saved: key_bytes as isize - added as isize }))
    }

    fn write(self, json: &str, payload: Range<usize>, work: &Work<'_>) -> Option<Table> {
        let bytes = json.as_bytes();
        let mut tables = Tables::new(json, &self.layouts);
        let table = tables.table(self.columns);
        let mut out = Vec::with_capacity(json.len());
        out.extend_from_slice(&bytes[..payload.start]);
        out.extend_from_slice(b"{\"columns\":[");
        tables.raw_names(table, &mut out);
        out.extend_from_slice(b"],\"rows\":[");
        let mut rows = Vec::with_capacity(self.count + 1);
        let (mut pos, mut polled) = (payload.start, 0);
        loop {
            rows.push(out.len());
            out.push(b'[');
            pos = tables.row(table, pos + 1, b',', &mut Verbatim, &mut out);
            out.push(b']');
            if out.len() - polled >= POLL {
                if !work.spend_unbounded(out.len() - polled) {
                    return None;
                }
                polled = out.len();
            }
            if at(bytes, pos) != b',' {
                break;
            }
            out.push(b',');
        }
        rows.push(out.len());
        out.extend_from_slice(b"]}");
        out.extend_from_slice(&bytes[payload.end..]);
        // Every part of it is a part of `json`, or ASCII.
        String::from_utf8(out).ok().map(|text| Table { text, rows })
    }
}

/// Writes values as they are.
struct Verbatim;

impl Cells for Verbatim {
    #[inline(always)]
    fn cell(&mut self, json: &str, pos: usize, out: &mut Vec<u8>) -> usize {
        let end = value(json.as_bytes(), pos);
        out.extend_from_slice(&json.as_bytes()[pos..end]);
        end
    }
}
