//! Stage 10 for answers that are rows of text: chooses what is shown of them, with an index of the rest.
//!
//! Rows are the lines of a text, or the lines that `compact` renders of items. What they have in common with lists of
//! JSON is in `pages`; a list is in `super::list`.

use std::cell::OnceCell;
use std::num::NonZeroUsize;
use std::ops::Range;

use super::finish::{Settings, trimmed};
use super::row_weights::RowWeights;
use super::{Failure, Run};
use crate::answer::{Attempt, Cut, Items, Output, Scale, Size, cut_to, search};
use crate::fit::{Chosen, Measure};
use crate::json::{self, Node};
use crate::pages::{Chunk, Division, Index, ListId, ListSettings, Page, PageError, PageInputs, Summaries, divide_runs};
use crate::work::{Interrupted, Work};
use crate::{BudgetReport, Bytes, Call, Structured, Tokens};

/// The chunks that rows may have. A text of more, for a budget of a few lines, has one.
const MOST_CHUNKS: usize = 1 << 16;
/// The bytes from which on a text that is cut ends in dots.
const DOTTED: usize = 4;
/// The bytes of a row that a summary may read.
const SUMMARY_BYTES: usize = 4096;

/// What an answer shows.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// The numbers of the rows, in order, as ranges that do not touch.
    pub(super) rows: Vec<Range<usize>>,
    /// The rows that these were chosen from. `None`: nothing else belongs to the answer.
    pub(super) within: Option<Range<usize>>,
    pub(super) cut: Shortened,
}

/// How rows are cut that do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shortened {
    No,
    /// Each row to so many bytes.
    Rows(usize),
    /// The whole text to so many bytes.
    Text(usize),
}

impl Part {
    /// Returns the part with all rows of a range.
    fn all(rows: Range<usize>) -> Self {
        let rows = if rows.is_empty() { Vec::new() } else { vec![rows] };
        Self { rows, within: None, cut: Shortened::No }
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.iter().map(Range::len).sum()
    }

    fn is_cut(&self) -> bool {
        self.cut != Shortened::No
    }
}

/// The rows of a text.
pub(super) trait Rows {
    /// Returns the number of rows.
    fn len(&self) -> usize;

    /// Returns the places of the rows from number `first` on, in the text that the weights are of.
    fn places(&self, first: usize) -> Box<dyn Iterator<Item = Range<usize>> + '_>;

    fn weights(&self) -> &RowWeights<'_>;

    /// Writes a part; `cut` cuts a row that it shows.
    fn write(&self, part: &Part, cut: Option<&dyn Fn(&str) -> String>) -> String;

    /// Returns what an answer says about the rows that it leaves out, apart from an index.
    fn left_out(&self, part: &Part) -> Option<Items>;

    /// Returns the structured content of an answer; `members` are added to it.
    fn structured(&self, text: &str, members: &str) -> Structured;

    /// Returns whether answers have structured content.
    fn is_structured(&self) -> bool;

    /// Chooses the rows of `window` that are shown. `limit` is for the whole answer. Returns `None` if not even one fits,
    /// or if the run is interrupted.
    fn choose(&self, window: &Range<usize>, limit: u64, measure: Measure<'_>) -> Option<Chosen>;

    /// Returns the row of `window` that is cut where no row fits.
    fn stays(&self, window: &Range<usize>) -> usize;

    /// Returns what rows are called, and how chunks of them are summarized.
    fn summaries(&self) -> Summaries<'_>;

    /// Returns a row as a summary reads it.
    fn node(&self, row: usize) -> Node<'_>;

    /// Returns the name of the format, and the texts that the division of the list depends on.
    fn identity(&self) -> (&'static str, Vec<&str>);
}

/// Returns the beginning of a row as a JSON string for a summary.
pub(super) fn summary_node(row: &str) -> Node<'static> {
    Node::String(json::encode(&row[..row.floor_char_boundary(SUMMARY_BYTES)]).into())
}

/// An answer with a part of the rows.
struct Fitted {
    part: Part,
    /// What is shown, and how the rest is divided; `None` if there are too many chunks.
    division: Option<Division>,
    index: Option<String>,
    output: Output,
    size: Size,
}

impl<'p> Run<'p> {
    /// Answers with rows, or with the page of them that the call asks for.
    ///
    /// # Errors There is no chunk of the number that the call asks for.
    pub(super) fn rows(&mut self, settings: &Settings<'p>, rows: &dyn Rows) -> Result<Output, Failure> {
        let scale = settings.scale;
        let window = self.call.page.window(rows.len());
        let paging = Paging { call: self.call, work: self.work, settings, rows, list: OnceCell::new() };
        let more = self.call.inputs.window && window.end < rows.len();
        let whole = paging.output(&Part::all(window.clone()), more.then_some(window.end), None);
        let whole = match scale.fitting(&whole) {
            Some(size) => {
                self.call.page.of_one_chunk().map_err(Self::no_page)?;
                return Ok(self.finished(scale, whole, size));
            }
            None => whole,
        };
        let original = whole.bytes();
        drop(whole);
        let fitted = paging.fit(&window);
        let (fitted, list) = match (self.call.page, fitted) {
            // An interrupted run has no result.
            (_, None) => return Ok(Output::text(settings.frame, String::new(), Cut::default())),
            (Page::Chunk(number), Some(fitted)) if number.get() > 1 => {
                let Some(division) = fitted.division else {
                    return Err(Self::no_page(PageError::Beyond { chunk: number, chunks: 1 }));
                };
                let chunk = division.chunk(number).map_err(Self::no_page)?;
                self.report.chunks = Some(division.chunks());
                (paging.chunk(&division, number, chunk), true)
            }
            (_, Some(fitted)) => {
                let chunks = fitted.division.as_ref().map_or(1, Division::chunks);
                let list = chunks > 1 && paging.has_index();
                self.report.chunks = list.then_some(chunks);
                (fitted, list)
            }
        };
        self.report.list = list.then(|| paging.list_id().to_string());
        let Fitted { part, output, size, .. } = fitted;
        let left_out = part.within.as_ref().map_or(0, |within| within.len() - part.len());
        if left_out > 0 || part.is_cut() {
            self.report.budget = Some(BudgetReport {
                items_dropped: left_out,
                strings_truncated: if part.is_cut() { part.len().max(1) } else { 0 },
                exceeded: !scale.fits(size),
                ..trimmed(scale, size.bytes, original)
            });
        }
        Ok(self.finished(scale, output, size))
    }
}

/// One way to answer with rows.
struct Paging<'r, 'p> {
    call: &'r Call<'r>,
    work: &'r Work<'r>,
    settings: &'r Settings<'p>,
    rows: &'r dyn Rows,
    list: OnceCell<ListId>,
}

impl Paging<'_, '_> {
    fn scale(&self) -> &Scale<'_> {
        &self.settings.scale
    }

    /// Returns whether an answer that leaves something out may have an index.
    fn has_index(&self) -> bool {
        self.settings.frame.notice && self.call.inputs != PageInputs::NONE
    }

    /// Writes an answer.
    fn output(&self, part: &Part, next: Option<usize>, index: Option<&str>) -> Output {
        let text = match part.cut {
            Shortened::No => self.rows.write(part, None),
            Shortened::Rows(most) => self.rows.write(part, Some(&|row: &str| cut_to(row, most))),
            Shortened::Text(most) => cut_to(&self.rows.write(part, Some(&|row: &str| cut_to(row, most))), most),
        };
        let cut = Cut { items: self.rows.left_out(part), next, index, strings: part.is_cut(), ..Cut::default() };
        let frame = self.settings.frame;
        let structured =
            if self.rows.is_structured() { self.rows.structured(&text, &frame.members(cut)) } else { Structured::None };
        Output { text, notice: frame.notice(cut), structured }
    }

    /// Measures an answer without an index. Returns `None` if the run was interrupted.
    fn measure(&self, part: &Part) -> Option<u64> {
        let share = self.scale().share(self.scale().measure(&self.output(part, None, None)));
        (!self.work.is_interrupted()).then_some(share)
    }

    /// Returns the answer for a window of which not everything fits; `None` if the run was interrupted.
    fn fit(&self, window: &Range<usize>) -> Option<Fitted> {
        let mut reserved = if self.has_index() { self.index_by_weight(window)? } else { 0 };
        let mut best = None;
        for round in 0..3 {
            let limit = Scale::WHOLE.saturating_sub(reserved);
            let (part, measured) = self.choose(window, limit)?;
            let division = self.divide(window, &part.rows);
            let most = if measured > limit { Scale::WHOLE / 4 } else { Scale::WHOLE - measured };
            // After two rounds an index has to do with what is left.
            let index = match &division {
                Some(division) if self.has_index() && round < 2 => self.index(division, most.min(Scale::WHOLE / 4)),
                _ => None,
            };
            let used = index.as_ref().map_or(0, |index| self.index_share(index));
            let output = self.output(&part, None, index.as_deref());
            let size = self.scale().measure(&output);
            let share = self.scale().share(size);
            if self.work.is_interrupted() {
                return None;
            }
            let fitted = Fitted { part, division, index, output, size };
            if share <= Scale::WHOLE && (used + Scale::WHOLE / 32 >= reserved || round > 0) {
                return Some(fitted);
            }
            if share > Scale::WHOLE {
                reserved = if round == 0 { reserved + (share - Scale::WHOLE) + Scale::WHOLE / 256 } else { 0 };
            } else {
                reserved = used + Scale::WHOLE / 128;
            }
            best = Some(fitted);
        }
        best
    }

    /// Returns the share that an index takes, about: it is known only when it is written, and what it says depends on
    /// what is shown.
    fn index_by_weight(&self, window: &Range<usize>) -> Option<u64> {
        let mut by_weight = |rows: &[Range<usize>]| {
            let weight = rows.iter().fold(self.around(None), |sum, run| {
                let places = (run.start..).zip(self.rows.places(run.start)).take(run.len());
                places.fold(sum, |sum: u64, (row, place)| sum.saturating_add(self.rows.weights().of(row, &place)))
            });
            (!self.work.is_interrupted()).then_some(weight)
        };
        let rough = self.rows.choose(window, Scale::WHOLE - Scale::WHOLE / 16, &mut by_weight);
        if self.work.is_interrupted() {
            return None;
        }
        let one = self.rows.stays(window);
        let rows = rough.map_or_else(|| Part::all(one..one + 1).rows, |(rows, _)| rows);
        let division = self.divide(window, &rows);
        let index = division.and_then(|division| self.index(&division, Scale::WHOLE / 4));
        Some(index.map_or(0, |index| self.index_share(&index)))
    }

    /// Chooses what is shown of a window, and measures it. If not even one row fits, one is cut, and as a last resort the
    /// whole text. Returns `None` if the run was interrupted.
    fn choose(&self, window: &Range<usize>, limit: u64) -> Option<(Part, u64)> {
        let part = |rows: Vec<Range<usize>>| Part { rows, within: Some(window.clone()), cut: Shortened::No };
        if window.is_empty() {
            return self.shorten(&part(Vec::new()), limit);
        }
        let mut measure = |rows: &[Range<usize>]| self.measure(&part(rows.to_vec()));
        let chosen = self.rows.choose(window, limit, &mut measure);
        if self.work.is_interrupted() {
            return None;
        }
        match chosen {
            Some((rows, measured)) => Some((part(rows), measured)),
            None => {
                let one = self.rows.stays(window);
                let one = part(Part::all(one..one + 1).rows);
                match self.measure(&one)? {
                    measured if measured <= limit => Some((one, measured)),
                    _ => self.shorten(&one, limit),
                }
            }
        }
    }

    /// Cuts the rows of a part, which does not fit, to one common length; if that is not enough, the whole text. Returns
    /// `None` if the run was interrupted.
    fn shorten(&self, part: &Part, limit: u64) -> Option<(Part, u64)> {
        let mut lengths: Vec<usize> = part
            .rows
            .iter()
            .flat_map(|run| self.rows.places(run.start).take(run.len()))
            .map(|place| place.len())
            .collect();
        lengths.sort_unstable();
        let cut = |cut: Shortened| Part { cut, ..part.clone() };
        let around = self.output(&cut(Shortened::Rows(0)), None, None).bytes().0;
        let rows = self.search(limit, around + lengths.iter().sum::<usize>(), |bytes| {
            cut(Shortened::Rows(common(&lengths, bytes.saturating_sub(around))))
        })?;
        // A few characters of a row say nothing.
        if rows.1 <= limit && !matches!(rows.0.cut, Shortened::Rows(..DOTTED)) {
            return Some(rows);
        }
        let frame = self.output(&cut(Shortened::Text(0)), None, None).bytes().0;
        self.search(limit, around + 2 * DOTTED, |bytes| cut(Shortened::Text(bytes.saturating_sub(frame))))
    }

    /// Finds the largest part that measures at most `limit`, of those that `part` returns for a number of bytes.
    fn search(&self, limit: u64, over: usize, part: impl Fn(usize) -> Part) -> Option<(Part, u64)> {
        let attempt = |bytes: Bytes| {
            let part = part(bytes.0);
            let measured = self.measure(&part).ok_or(Interrupted)?;
            Ok::<_, Interrupted>(Attempt { answer: part, bytes, measured })
        };
        let measured = u128::from(attempt(Bytes(over)).ok()?.measured.max(1));
        let guess = (u128::from(limit) * over as u128).div_ceil(measured);
        let guess = Bytes(usize::try_from(guess).unwrap_or(usize::MAX));
        let Attempt { answer, measured, .. } = search(limit, Bytes(over.max(1)), guess, attempt).ok()?;
        Some((answer, measured))
    }

    /// Divides the rows of `window`, of which `shown` are in the answer.
    fn divide(&self, window: &Range<usize>, shown: &[Range<usize>]) -> Option<Division> {
        let is_run = matches!(shown, [run] if run.start == window.start);
        let room = Scale::WHOLE.saturating_sub(self.around(Some(is_run)));
        let weights = self.rows.weights();
        let places = std::cell::RefCell::new((window.start..).zip(self.rows.places(window.start)));
        // What stands in a chunk for the rows before this one, which are in the answer.
        let gaps = std::cell::RefCell::new(shown.iter().peekable());
        let weight = |row: usize| {
            let place = places.borrow_mut().find(|(number, _)| *number == row).map(|(_, place)| place);
            let weight = weights.of(row, &place.unwrap_or_default());
            let mut gaps = gaps.borrow_mut();
            while gaps.next_if(|run| run.end < row).is_some() {}
            let gap = gaps.next_if(|run| run.end == row).map_or(0, |run| self.gap(run.len()));
            weight.saturating_add(gap)
        };
        let shown = shown.iter().cloned();
        let limits = (weights.within(room).max(1), MOST_CHUNKS);
        divide_runs(self.rows.len(), window.clone(), shown, weight, limits, self.work)
    }

    /// Returns the share of the line that says how many rows are left out.
    fn gap(&self, count: usize) -> u64 {
        let note = format!("\n{}", crate::text::left_out(count));
        self.scale().share(self.added(&note, 0))
    }

    /// Returns the share of an answer without its rows, at most. `chunk` says whether it is a fetched chunk, and whether
    /// its rows are consecutive.
    fn around(&self, chunk: Option<bool>) -> u64 {
        let rows = self.rows.len();
        // Of all rows only their header and footer.
        let part = Part { cut: Shortened::Rows(0), ..Part::all(0..0) };
        let without = self.scale().share(self.scale().measure(&self.output(&part, None, None)));
        let Some(consecutive) = chunk.filter(|_| self.settings.frame.notice) else { return without };
        let numbers = if consecutive { format!("{rows}-{rows}") } else { "3-5,7,".repeat(10) };
        let line = format!("[chunks] chunk {rows} of {rows}, items {numbers} of {rows}. List 000000.");
        without.saturating_add(self.index_share(&line).min(Scale::WHOLE / 4))
    }

    /// Returns the index, if it has a form of at most `most`.
    fn index(&self, division: &Division, most: u64) -> Option<String> {
        self.about(division).text(&mut |text| self.index_share(text) <= most)
    }

    fn about<'i>(&'i self, division: &'i Division) -> About<'i> {
        let summaries = self.rows.summaries();
        About { paging: self, division, summaries }
    }

    /// Returns what a text takes of the budget as the index.
    fn index_share(&self, index: &str) -> u64 {
        self.scale().share(self.added(index, 1))
    }

    /// Returns the size that a text adds to an answer: to a text block, and to the structured content.
    fn added(&self, text: &str, line_end: usize) -> Size {
        let member = self.rows.is_structured().then(|| json::encode(text));
        let (text, around) = member.as_deref().map_or((text, (line_end, line_end)), |member| (member, (12, 6)));
        let tokens = self.scale().budget.tokens;
        let tokens = tokens.map(|_| Tokens(self.scale().count(text, Tokens(usize::MAX)).0 + around.1));
        Size { bytes: Bytes(text.len() + around.0), tokens }
    }

    /// Returns the id of the list and its division. It is computed once, since it takes a digest of all rows.
    fn list_id(&self) -> ListId {
        *self.list.get_or_init(|| {
            let Settings { scale, program, .. } = self.settings;
            let (format, texts) = self.rows.identity();
            let settings =
                ListSettings { budget: scale.budget, counter: scale.counter, format, strategy: &program.settings };
            ListId::new(&settings, texts, self.work)
        })
    }

    /// Returns the answer with one chunk, which is not the first.
    fn chunk(&self, division: &Division, number: NonZeroUsize, chunk: Chunk<'_>) -> Fitted {
        let part = Part { rows: chunk.ranges().to_vec(), within: None, cut: Shortened::No };
        let line = self.settings.frame.notice.then(|| self.about(division).fetched(number)).flatten();
        let fitted = |part: Part, line: Option<String>| {
            let output = self.output(&part, None, line.as_deref());
            let size = self.scale().measure(&output);
            Fitted { part, division: None, index: line, output, size }
        };
        let whole = fitted(part.clone(), line.clone());
        if self.scale().fits(whole.size) {
            return whole;
        }
        // Weights are estimates. What this chunk cannot show is then named by an index of its own.
        if let ([run], true) = (&*part.rows, self.call.inputs.window)
            && part.len() > 1
            && let Some(fitted) = self.fit(run)
        {
            return fitted;
        }
        for line in [line, None] {
            let limit = Scale::WHOLE - line.as_ref().map_or(0, |line| self.index_share(line));
            let Some((part, _)) = self.shorten(&part, limit) else { break };
            let cut = fitted(part, line);
            if self.scale().fits(cut.size) || cut.index.is_none() {
                return cut;
            }
        }
        whole
    }
}

/// What an index is written from.
struct About<'i> {
    paging: &'i Paging<'i, 'i>,
    division: &'i Division,
    summaries: Summaries<'i>,
}

impl About<'_> {
    fn with<T>(&self, write: impl FnOnce(&Index<'_>) -> T) -> T {
        let Self { paging, division, summaries } = *self;
        let summary = |chunk: Chunk<'_>| summaries.summary(chunk, |row| paging.rows.node(row), paging.work);
        let inputs = paging.call.inputs;
        let list = || paging.list_id();
        write(&Index { division, inputs, noun: summaries.noun, fewer: 0, summary: &summary, list: &list })
    }

    fn text(&self, fits: &mut dyn FnMut(&str) -> bool) -> Option<String> {
        self.with(|index| index.text(fits))
    }

    /// Returns the line of a fetched chunk.
    fn fetched(&self, number: NonZeroUsize) -> Option<String> {
        let fits = &mut |line: &str| self.paging.index_share(line) <= Scale::WHOLE / 4;
        self.with(|index| index.fetched(number, fits))
    }
}

/// Returns the length to which strings of these lengths, in ascending order, are cut to have at most `bytes` bytes
/// together.
fn common(lengths: &[usize], bytes: usize) -> usize {
    let mut left = bytes;
    for (number, length) in lengths.iter().enumerate() {
        let share = left / (lengths.len() - number);
        if *length > share {
            return share;
        }
        left -= length;
    }
    lengths.last().copied().unwrap_or(0)
}
