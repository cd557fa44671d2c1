//! Divides a list into chunks.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::ops::Range;

use super::PageError;
use crate::work::Work;

/// The bytes that the numbers of a chunk's items may take in a line.
const NUMBERS_BYTES: usize = 60;

/// A list, or a window of it, divided into chunks: every item of the window is in exactly one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Division {
    /// The number of items of the whole list.
    total: usize,
    /// The items that are divided, by their numbers in the whole list.
    window: Range<usize>,
    /// The items of all chunks, chunk by chunk. Within a chunk they are in order, and never touch.
    ranges: Vec<Range<usize>>,
    /// For each chunk, the end of its ranges in `ranges`; at least one.
    ends: Vec<usize>,
}

/// The room that one answer has for a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// The budget without the text around the list, and without the line that a fetched chunk has in place of an index.
    /// That line names one run of consecutive items.
    pub(crate) capacity: u64,
    /// What each further run of items takes in that line.
    pub(crate) run: u64,
    /// What all further runs take, at most: of many runs the line gives the number of items alone.
    pub(crate) runs: u64,
    /// What each item takes less together with others than it weighs.
    pub(crate) less: u64,
    /// What all items of a chunk take less, at most.
    pub(crate) all_less: u64,
    /// The number of chunks, at most.
    pub(crate) most: usize,
}

impl From<u64> for Room {
    fn from(capacity: u64) -> Self {
        Self { capacity, run: 0, runs: 0, less: 0, all_less: 0, most: usize::MAX }
    }
}

/// Divides the items of `window`, which is a part of a list of `total` items.
///
/// Chunk 1 is what the answer shows: `shown`, in order, each once, all within the window. The other chunks take the
/// rest in the order of the list. Each takes as many items as `room` holds by their `weight`; an item that is heavier
/// than that is a chunk of its own. The number of chunks has no limit.
pub(crate) fn divide(
    total: usize,
    window: Range<usize>,
    shown: &[usize],
    weight: impl Fn(usize) -> u64,
    room: impl Into<Room>,
    work: &Work<'_>,
) -> Division {
    debug_assert!(shown.is_sorted_by(|a, b| a < b));
    let shown = shown.iter().map(|&item| item..item + 1);
    let room = Room { most: usize::MAX, ..room.into() };
    divide_runs(total, window, shown, weight, room, work).expect("the number of chunks has no limit")
}

/// Does the same as [`divide()`], where `shown` are runs of items, and an item may be one of any number: returns `None`
/// if there are more chunks than `room` says. `weight` is called for the items of the other chunks, in order.
pub(crate) fn divide_runs(
    total: usize,
    window: Range<usize>,
    shown: impl IntoIterator<Item = Range<usize>> + Clone,
    weight: impl Fn(usize) -> u64,
    room: Room,
    work: &Work<'_>,
) -> Option<Division> {
    let mut division = Division { total, window: window.clone(), ranges: Vec::new(), ends: Vec::new() };
    for run in shown.clone() {
        debug_assert!(window.start <= run.start && run.end <= window.end);
        if !work.spend_unbounded(1) {
            break;
        }
        division.push(run);
    }
    division.close();
    let (mut from, mut used, mut runs, mut items) = (window.start, 0_u64, 0_u64, 0_u64);
    for run in shown.into_iter().chain(std::iter::once(window.end..window.end)) {
        for item in from..run.start {
            if !work.spend_unbounded(1) {
                return Some(division);
            }
            let weight = weight(item);
            // The first item after some that the answer shows begins another run.
            let more = if item == from && division.is_open() { room.run } else { 0 };
            let numbers = runs.saturating_add(more).min(room.runs);
            let sum = used.checked_add(weight);
            let less = room.less.saturating_mul(items + 1).min(room.all_less);
            let fits =
                |sum: &u64| division.is_open() && sum.saturating_add(numbers).saturating_sub(less) <= room.capacity;
            let sum = sum.filter(fits);
            if sum.is_none() && division.is_open() {
                division.close();
                if division.chunks() >= room.most {
                    return None;
                }
            }
            (used, runs, items) = sum.map_or((weight, 0, 1), |sum| (sum, numbers, items + 1));
            division.push(item..item + 1);
        }
        from = run.end;
    }
    if division.is_open() {
        division.close();
    }
    Some(division)
}

impl Division {
    /// Returns whether the last chunk has items and may take more.
    fn is_open(&self) -> bool {
        self.ranges.len() > self.ends.last().copied().unwrap_or(0)
    }

    /// Adds a run of items to the last chunk.
    fn push(&mut self, run: Range<usize>) {
        let is_open = self.is_open();
        match self.ranges.last_mut().filter(|range| is_open && range.end == run.start) {
            Some(range) => range.end = run.end,
            None => self.ranges.push(run),
        }
    }

    /// Ends the last chunk.
    fn close(&mut self) {
        self.ends.push(self.ranges.len());
    }

    /// Returns the number of items of the whole list.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Returns the items that are divided, if these are not the whole list.
    pub(crate) fn window(&self) -> Option<Range<usize>> {
        (self.window != (0..self.total)).then(|| self.window.clone())
    }

    /// Returns the number of items that are divided.
    pub(crate) fn divided(&self) -> usize {
        self.window.len()
    }

    /// Returns the number of chunks, at least 1. With one chunk, nothing of the window is left out.
    pub(crate) fn chunks(&self) -> usize {
        self.ends.len()
    }

    /// Returns chunk 1: what the answer shows.
    pub(crate) fn shown(&self) -> Chunk<'_> {
        self.joined(0..1)
    }

    /// Returns a chunk by its number.
    ///
    /// # Errors There is no such chunk.
    pub(crate) fn chunk(&self, number: NonZeroUsize) -> Result<Chunk<'_>, PageError> {
        if number.get() > self.chunks() {
            return Err(PageError::Beyond { chunk: number, chunks: self.chunks() });
        }
        Ok(self.joined(number.get() - 1..number.get()))
    }

    /// Returns the items of several chunks, which are counted from 0. Beyond the last chunk there are none.
    pub(crate) fn joined(&self, chunks: Range<usize>) -> Chunk<'_> {
        let end = |chunk: usize| chunk.checked_sub(1).map_or(0, |before| self.ends[before.min(self.ends.len() - 1)]);
        Chunk { ranges: &self.ranges[end(chunks.start)..end(chunks.end)] }
    }

    /// Returns the `offset` at which the list continues after the answer: the answer shows the beginning of the
    /// window, and the list has more items.
    pub(crate) fn next(&self) -> Option<usize> {
        match self.shown().ranges {
            [shown] if shown.start == self.window.start && shown.end < self.total => Some(shown.end),
            _ => None,
        }
    }
}

/// The items of a chunk, or of several chunks one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk<'d> {
    ranges: &'d [Range<usize>],
}

impl<'d> Chunk<'d> {
    /// Returns the number of items.
    pub(crate) fn len(self) -> usize {
        self.ranges.iter().map(Range::len).sum()
    }

    /// Returns the numbers of the items, in the order of the list.
    pub(crate) fn items(self) -> impl DoubleEndedIterator<Item = usize> + Clone + 'd {
        self.ranges.iter().flat_map(Clone::clone)
    }

    /// Returns the runs of consecutive items; two of them may touch where one chunk ends and the next begins.
    pub(crate) fn ranges(self) -> &'d [Range<usize>] {
        self.ranges
    }

    /// Returns the first run of consecutive items.
    pub(super) fn first_run(self) -> Option<Range<usize>> {
        self.runs().next()
    }

    /// Returns the items if they are consecutive. Items that there are none of are not.
    pub(super) fn consecutive(self) -> Option<Range<usize>> {
        let mut runs = self.runs();
        runs.next().filter(|_| runs.next().is_none())
    }

    /// Returns the smallest range that holds all items.
    pub(super) fn span(self) -> Range<usize> {
        self.ranges.first().map_or(0, |range| range.start)..self.ranges.last().map_or(0, |range| range.end)
    }

    /// Returns the runs of consecutive items; where one chunk ends, a run may continue in the next.
    fn runs(self) -> impl Iterator<Item = Range<usize>> + 'd {
        let mut rest = self.ranges.iter().cloned().peekable();
        std::iter::from_fn(move || {
            let mut run = rest.next()?;
            while let Some(next) = rest.next_if(|next| next.start == run.end) {
                run.end = next.end;
            }
            Some(run)
        })
    }

    /// Returns the numbers of the items as text, `30-40,44`, if they fit into a line.
    pub(super) fn numbers(self) -> Option<String> {
        let mut out = String::new();
        for run in self.runs() {
            let comma = if out.is_empty() { "" } else { "," };
            // Writing to a string does not fail.
            let _ = match run.len() {
                1 => write!(out, "{comma}{}", run.start),
                _ => write!(out, "{comma}{}-{}", run.start, run.end - 1),
            };
            if out.len() > NUMBERS_BYTES {
                return None;
            }
        }
        (!out.is_empty()).then_some(out)
    }
}

#[cfg(test)]
#[path = "divide_tests.rs"]
mod tests;
