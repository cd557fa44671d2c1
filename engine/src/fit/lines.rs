//! Text under `head_tail`: the lines that a budget shows.

use std::collections::VecDeque;
use std::ops::Range;

use super::candidates::{Candidates, Form, Selection};
use super::choose::{Algorithm, Problem};
use super::exact::exact;
use super::values::ORDINARY;
use crate::text::{Patterns, left_out, lines};
use crate::work::{Work, text_steps};

/// The text that is left, and which lines it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) text: String,
    /// The numbers of the lines, from 0, as ranges in their order.
    pub(crate) lines: Vec<Range<usize>>,
    /// The number of all lines.
    pub(crate) total: usize,
}

/// The limit of a text.
#[derive(Clone, Copy)]
pub(crate) struct LineBudget<'b> {
    /// What the measure of the text may be.
    pub(crate) limit: u64,
    /// About the measure of so many bytes. It grows with them.
    pub(crate) weight: &'b dyn Fn(usize) -> u64,
    /// The bytes that can fit at most: lines that are further from both ends, and do not match, are not considered.
    pub(crate) most_bytes: usize,
}

/// Cuts `text` to the lines that match `boost`, the latest first, up to half of the limit, and to lines of both ends,
/// 30 % from the front and 70 % from the end. A line in the place of others says how many they are. A line end at the
/// very end is dropped.
///
/// `measure` counts a text in the unit of the limit, with all that the answer adds to it; it returns `None` when the
/// run is interrupted. It is called as often as [`exact`] calls its measure. Returns `None` if not even one line fits.
///
/// The expressions are a stage of their own; if they exceed its steps, no line matches.
pub(crate) fn head_tail(
    text: &str,
    boost: Option<&Patterns>,
    budget: LineBudget<'_>,
    measure: &mut dyn FnMut(&str) -> Option<u64>,
    work: &Work<'_>,
) -> Option<Shown> {
    let LineBudget { limit, weight, most_bytes } = budget;
    let body = text.strip_suffix('\n').unwrap_or(text);
    work.begin_stage(text_steps(body.len()));
    let mut considered = Lines::new(body, boost, most_bytes, work);
    if work.end_stage() {
        considered = Lines::new(body, None, most_bytes, work);
    }
    let mut candidates = Candidates::with_capacity(considered.lines.len(), 1);
    for line in &considered.lines {
        let value = if line.matches { 2 * ORDINARY } else { ORDINARY };
        candidates.push([Form { value, weight: weight(line.place.len() + 1) }]);
    }
    let mut buffer = String::new();
    let mut written = |selection: &Selection| {
        buffer.clear();
        considered.write(selection, &mut buffer);
        measure(&buffer)
    };
    let problem = Problem { candidates: &candidates, algorithm: Algorithm::HeadTail, uniform: false };
    let fitted = exact(problem, limit, &mut written, work);
    fitted.measured.filter(|measured| *measured <= limit)?;
    buffer.clear();
    let lines = considered.write(&fitted.selection, &mut buffer);
    Some(Shown { text: buffer, lines, total: considered.total })
}

/// The lines that may be shown.
struct Lines<'t> {
    text: &'t str,
    lines: Vec<Line>,
    /// The number of all lines.
    total: usize,
}

struct Line {
    number: usize,
    place: Range<usize>,
    matches: bool,
}

impl<'t> Lines<'t> {
    /// Returns the lines of both ends, of `most` bytes each, and the last of the others that match, of as many bytes.
    fn new(text: &'t str, boost: Option<&Patterns>, most: usize, work: &Work<'_>) -> Self {
        let mut cache = boost.map(|boost| (boost, boost.cache()));
        let (mut near, mut matching, mut bytes) = (Vec::new(), VecDeque::new(), 0);
        let (mut total, mut start) = (0, 0);
        for line in lines(text) {
            if !work.spend_unbounded(1 + line.len() / 64) {
                break;
            }
            let matches = cache.as_mut().is_some_and(|(boost, cache)| boost.is_match(cache, line, work));
            let place = start..start + line.len();
            start = place.end + 1;
            let line = Line { number: total, place, matches };
            if line.place.start <= most || text.len() - line.place.end <= most {
                near.push(line);
            } else if matches {
                bytes += line.place.len() + 1;
                matching.push_back(line);
                while bytes > most
                    && let Some(first) = matching.pop_front()
                {
                    bytes -= first.place.len() + 1;
                }
            }
            total += 1;
        }
        near.extend(matching);
        near.sort_unstable_by_key(|line| line.number);
        Self { text, lines: near, total }
    }

    /// Appends what a selection shows. Returns the numbers of the lines. A single line that is no longer than the note
    /// about it is shown.
    fn write(&self, selection: &Selection, out: &mut String) -> Vec<Range<usize>> {
        let mut shown: Vec<Range<usize>> = Vec::new();
        // The next line that has not been written or counted: its number and place.
        let (mut next, mut at) = (0, 0);
        for (line, _) in selection.iter() {
            let Line { number, place, matches: _ } = &self.lines[line];
            self.gap((next, at), (*number, place.start), out, &mut shown);
            self.line(*number, place.clone(), out, &mut shown);
            (next, at) = (number + 1, place.end + 1);
        }
        self.gap((next, at), (self.total, self.text.len() + 1), out, &mut shown);
        shown
    }

    /// Writes what stands for the lines from one number and place to another.
    fn gap(&self, from: (usize, usize), to: (usize, usize), out: &mut String, shown: &mut Vec<Range<usize>>) {
        let count = to.0 - from.0;
        if count == 0 {
            return;
        }
        let note = left_out(count);
        let place = from.1..to.1 - 1;
        if count == 1 && place.len() <= note.len() {
            self.line(from.0, place, out, shown);
        } else {
            separate(out, from.0 == 0);
            out.push_str(&note);
        }
    }

    fn line(&self, number: usize, place: Range<usize>, out: &mut String, shown: &mut Vec<Range<usize>>) {
        separate(out, number == 0);
        out.push_str(&self.text[place]);
        match shown.last_mut().filter(|last| last.end == number) {
            Some(last) => last.end += 1,
            None => shown.push(number..number + 1),
        }
    }
}

/// Ends the line before, unless there is none.
fn separate(out: &mut String, first: bool) {
    if !first {
        out.push('\n');
    }
}
