//! The lines of a text that a budget shows: the first ones, or under `head_tail` those of both ends.

use std::collections::VecDeque;
use std::ops::Range;

use super::candidates::{Candidates, Form, Selection};
use super::choose::{Algorithm, Problem};
use super::exact::exact;
use super::values::ORDINARY;
use crate::text::{Numbered, Patterns, left_out};
use crate::work::{Work, text_steps};

/// The lines of each end, and those in between that match, that are considered at most. A text whose budget holds more
/// lines has very short ones.
const CONSIDERED: usize = 1 << 14;
/// The measures that look for the most lines. Further ones only look for any number that fits.
const ATTEMPTS: usize = 10;

/// The limit of a text.
#[derive(Clone, Copy)]
pub(crate) struct LineBudget<'b> {
    /// What the measure of the text may be.
    pub(crate) limit: u64,
    /// About the measure of a line: of its number and place.
    pub(crate) weight: &'b dyn Fn(usize, &Range<usize>) -> u64,
    /// The bytes that can fit at most: lines that are further from both ends, and do not match, are not considered.
    pub(crate) most_bytes: usize,
}

/// The numbers of the lines that are shown, in order as ranges that do not touch, and their measure.
pub(crate) type Chosen = (Vec<Range<usize>>, u64);

/// Measures the text with these lines, in the unit of the limit, with all that the answer adds to it. Returns `None`
/// if the run is interrupted.
pub(crate) type Measure<'m> = &'m mut dyn FnMut(&[Range<usize>]) -> Option<u64>;

/// Chooses as many lines as fit from the beginning of `window`, of which not all fit. Returns `None` if not even one
/// line fits, or if the run is interrupted.
///
/// The time is linear in the lines that fit. The text is measured a dozen times, and more often only where the weights
/// are wrong by orders of magnitude.
pub(crate) fn first_lines(
    lines: &Numbered<'_>,
    window: &Range<usize>,
    budget: LineBudget<'_>,
    measure: Measure<'_>,
    work: &Work<'_>,
) -> Option<Chosen> {
    let LineBudget { limit, weight, most_bytes: _ } = budget;
    // The lines from the beginning that weigh at most `room`, at least `least` and at most `most` of them.
    let prefix = |room: u64, least: usize, most: usize| {
        let (mut count, mut sum) = (0, 0_u64);
        for (number, place) in (window.start..).zip(lines.places(window.start)).take(most) {
            let more = sum.saturating_add(weight(number, &place));
            if !work.spend_unbounded(1) || (more > room && count >= least) {
                break;
            }
            (count, sum) = (count + 1, more);
        }
        (count, sum)
    };
    let (mut fits, mut over) = (0, window.len());
    let (mut best, mut room) = (None, limit);
    for round in 1.. {
        if over - fits <= 1 || (best.is_some() && round > ATTEMPTS) {
            break;
        }
        let (count, sum) = match round {
            ..=ATTEMPTS => prefix(room, fits + 1, over - 1),
            _ => prefix(0, over / 2, over - 1),
        };
        let rows = window.start..window.start + count;
        let measured = measure(std::slice::from_ref(&rows))?;
        if measured <= limit {
            (fits, best) = (count, Some((vec![rows], measured)));
        } else {
            over = count;
        }
        let corrected = u128::from(sum) * u128::from(limit) / u128::from(measured.max(1));
        room = u64::try_from(corrected).unwrap_or(u64::MAX);
    }
    best
}

/// Chooses the lines of `window` that match `boost`, the latest first, up to half of the limit, and lines of both ends,
/// 30 % from the front and 70 % from the end. A single line that is no longer than the note about it is shown. Returns
/// `None` if not even one line fits, or if the run is interrupted.
///
/// `measure` is called as often as [`exact`] calls its measure. The expressions are a stage of their own; if they
/// exceed its steps, no line matches.
pub(crate) fn both_ends(
    lines: &Numbered<'_>,
    window: &Range<usize>,
    boost: Option<&Patterns>,
    budget: LineBudget<'_>,
    measure: Measure<'_>,
    work: &Work<'_>,
) -> Option<Chosen> {
    let LineBudget { limit, weight, most_bytes } = budget;
    work.begin_stage(text_steps(lines.text().len()));
    let mut considered = consider(lines, window, boost, most_bytes, work);
    if work.end_stage() {
        considered = consider(lines, window, None, most_bytes, work);
    }
    let mut candidates = Candidates::with_capacity(considered.len(), 1);
    for Line { number, place, matches } in &considered {
        let value = if *matches { 2 * ORDINARY } else { ORDINARY };
        candidates.push([Form { value, weight: weight(*number, place) }]);
    }
    let rows = |selection: &Selection| shown(lines, window, selection.iter().map(|(line, _)| &considered[line]));
    let mut measured = |selection: &Selection| measure(&rows(selection));
    let problem = Problem { candidates: &candidates, algorithm: Algorithm::HeadTail, uniform: false };
    let fitted = exact(problem, limit, &mut measured, work);
    let measured = fitted.measured.filter(|measured| *measured <= limit)?;
    Some((rows(&fitted.selection), measured))
}

/// A line that may be shown.
struct Line {
    number: usize,
    place: Range<usize>,
    matches: bool,
}

/// Returns the lines of both ends, of `most` bytes each, and the last of the others that match, of as many bytes.
fn consider(
    lines: &Numbered<'_>,
    window: &Range<usize>,
    boost: Option<&Patterns>,
    most: usize,
    work: &Work<'_>,
) -> Vec<Line> {
    let mut cache = boost.map(|boost| (boost, boost.cache()));
    let (mut near, mut matching, mut bytes) = (Vec::new(), VecDeque::new(), 0);
    let all = lines.place_of(window);
    for (number, place) in (window.start..).zip(lines.places(window.start)).take(window.len()) {
        if !work.spend_unbounded(1 + place.len() / 64) {
            break;
        }
        let matches =
            cache.as_mut().is_some_and(|(boost, cache)| boost.is_match(cache, &lines.text()[place.clone()], work));
        let from_front = place.start - all.start <= most && number - window.start < CONSIDERED;
        let from_end = all.end - place.end <= most && window.end - number <= CONSIDERED;
        let line = Line { number, place, matches };
        if from_front || from_end {
            near.push(line);
        } else if matches {
            bytes += line.place.len() + 1;
            matching.push_back(line);
            while (bytes > most || matching.len() > CONSIDERED)
                && let Some(first) = matching.pop_front()
            {
                bytes -= first.place.len() + 1;
            }
        }
    }
    near.extend(matching);
    near.sort_unstable_by_key(|line| line.number);
    near
}

/// Returns the numbers of the lines that are shown where `chosen` are: also single ones between them that are no longer
/// than the note about them.
fn shown<'l>(lines: &Numbered<'_>, window: &Range<usize>, chosen: impl Iterator<Item = &'l Line>) -> Vec<Range<usize>> {
    let mut shown: Vec<Range<usize>> = Vec::new();
    let mut show = |run: Range<usize>| match shown.last_mut().filter(|last| last.end == run.start) {
        Some(last) => last.end = run.end,
        None => shown.push(run),
    };
    let mut next = window.start;
    for number in chosen.map(|line| line.number).chain([window.end]) {
        if number == next + 1 && lines.place(next).len() <= left_out(1).len() {
            show(next..number);
        }
        if number < window.end {
            show(number..number + 1);
        }
        next = number + 1;
    }
    shown
}
