//! The state that all walks over one document share.

use super::distinct::Distinct;
use super::marks::Marks;
use super::scan::{self, Scan, Stop, Tally, at};
use super::select::Slots;
use super::{emit, prune};
use crate::work::Work;
use prune::Rules;

/// One document, read once from front to back, and the output.
#[derive(Debug)]
pub(super) struct Run<'r> {
    pub(super) bytes: &'r [u8],
    pub(super) out: &'r mut Vec<u8>,
    pub(super) tally: Tally<'r>,
    pub(super) distinct: Distinct,
    pub(super) slots: Slots,
    /// By path or operation, whether it was met.
    pub(super) hits: Marks,
}

/// Adjacent members or elements that stay and have not been written yet: they are written together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kept {
    from: usize,
    to: usize,
    /// The whitespace before them, in bytes.
    blanks: usize,
}

impl Kept {
    /// Adds the bytes from `start` to `end`, before which there were `blanks` bytes of whitespace.
    #[inline(always)]
    pub(super) fn add(&mut self, start: usize, end: usize, blanks: usize) {
        if self.from == self.to {
            (self.from, self.blanks) = (start, blanks);
        }
        self.to = end;
    }
}

impl<'r> Run<'r> {
    pub(super) fn new(bytes: &'r [u8], out: &'r mut Vec<u8>, work: &'r Work<'r>) -> Self {
        Self {
            bytes,
            out,
            tally: Tally::new(work),
            distinct: Distinct::new(),
            slots: Slots::new(),
            hits: Marks::default(),
        }
    }

    #[inline(always)]
    pub(super) fn at(&self, pos: usize) -> u8 {
        at(self.bytes, pos)
    }

    #[inline(always)]
    pub(super) fn skip(&mut self, pos: usize, room: usize) -> Scan {
        scan::value(self.bytes, pos, room, &mut self.tally)
    }

    #[inline(always)]
    pub(super) fn copy(&mut self, rules: Rules, pos: usize, room: usize) -> Scan {
        if rules.any() {
            prune::copy(rules, self, pos, room)
        } else {
            emit::copy(self.bytes, pos, room, &mut self.tally, self.out)
        }
    }

    /// Reads the only value of the document, which `walk` takes from its first byte.
    pub(super) fn document(&mut self, walk: impl FnOnce(&mut Self, usize) -> Scan) -> Result<(), Stop> {
        let pos = scan::blanks(self.bytes, 0, &mut self.tally);
        let end = walk(self, pos)?;
        let end = scan::blanks(self.bytes, end, &mut self.tally);
        if end == self.bytes.len() { Ok(()) } else { Err(Stop::Invalid) }
    }

    /// Moves from an opening bracket to the first element or member. Without one, returns `false` and the position
    /// behind the closing bracket.
    #[inline(always)]
    pub(super) fn open(&mut self, pos: usize, close: u8) -> Scan<(usize, bool)> {
        let pos = scan::blanks(self.bytes, pos + 1, &mut self.tally);
        if self.at(pos) == close {
            return Ok((pos + 1, false));
        }
        self.tally.value()?;
        Ok((pos, true))
    }

    /// Moves from the opening quote of a key to its value. Also returns the end of the key, including the closing
    /// quote.
    #[inline(always)]
    pub(super) fn key(&mut self, pos: usize) -> Scan<(usize, usize)> {
        if self.at(pos) != b'"' {
            return Err(Stop::Invalid);
        }
        let end = scan::key(self.bytes, pos + 1)?;
        Ok((scan::colon(self.bytes, end, &mut self.tally)?, end))
    }

    #[inline(always)]
    pub(super) fn next(&mut self, pos: usize, close: u8) -> Scan<(usize, bool)> {
        scan::comma(self.bytes, pos, close, &mut self.tally)
    }

    /// Writes `kept`, adjacent members or elements, after a comma unless they are the first since `open`.
    pub(super) fn flush(&mut self, open: usize, kept: Kept) {
        if kept.from == kept.to {
            return;
        }
        if self.out.len() > open {
            self.out.push(b',');
        }
        let span = &self.bytes[kept.from..kept.to];
        if self.tally.blanks == kept.blanks {
            self.out.extend_from_slice(span);
        } else {
            emit::compact(span, self.out);
        }
    }

    /// Writes the beginning of a member: a comma unless it is the first since `open`, and its key.
    #[inline(always)]
    pub(super) fn member(&mut self, open: usize, key: std::ops::Range<usize>) {
        if self.out.len() > open {
            self.out.push(b',');
        }
        self.out.extend_from_slice(&self.bytes[key]);
        self.out.push(b':');
    }
}
