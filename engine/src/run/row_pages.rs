//! The parts of rows: what fits of them, how the rest is divided, and the index of that.

use std::cell::{OnceCell, RefCell};
use std::num::NonZeroUsize;
use std::ops::Range;

use super::finish::Settings;
use super::rows::{Part, Rows, Shortened};
use crate::answer::{Attempt, Cut, Output, Scale, Size, cut_to, search};
use crate::json;
use crate::pages::{Chunk, Division, Index, ListId, ListSettings, PageInputs, Room, Summaries, divide_runs};
use crate::work::{Interrupted, Work};
use crate::{Bytes, Call, Structured};

/// The chunks that rows may have. A text of more, for a budget of a few lines, has one.
pub(super) const MOST_CHUNKS: usize = 1 << 16;
/// The bytes from which on a text that is cut ends in dots.
const DOTTED: usize = 4;
/// Numbers of rows as they stand in the line of a chunk.
pub(super) const NUMBERS: &str = "30-40,44,";
/// How often these are in the longest line.
pub(super) const MOST_NUMBERS: usize = 7;

/// One way to answer with rows.
pub(super) struct Paging<'r, 'p> {
    call: &'r Call<'r>,
    work: &'r Work<'r>,
    settings: &'r Settings<'p>,
    rows: &'r dyn Rows,
    list: OnceCell<ListId>,
}

/// An answer with a part of the rows.
pub(super) struct Fitted {
    pub(super) part: Part,
    /// What is shown, and how the rest is divided; `None` if there are too many chunks.
    pub(super) division: Option<Division>,
    index: Option<String>,
    pub(super) output: Output,
    pub(super) size: Size,
}

impl<'r, 'p> Paging<'r, 'p> {
    pub(super) fn new(call: &'r Call<'r>, work: &'r Work<'r>, settings: &'r Settings<'p>, rows: &'r dyn Rows) -> Self {
        Self { call, work, settings, rows, list: OnceCell::new() }
    }

    fn scale(&self) -> &Scale<'_> {
        &self.settings.scale
    }

    /// Returns whether an answer that leaves something out may have an index.
    pub(super) fn has_index(&self) -> bool {
        self.settings.frame.notice && self.call.inputs != PageInputs::NONE
    }

    /// Writes an answer.
    pub(super) fn output(&self, part: &Part, next: Option<usize>, index: Option<&str>) -> Output {
        let text = match part.cut {
            Shortened::No => self.rows.write(part, None),
            Shortened::Rows(most) => self.rows.write(part, Some(&|row: &str| cut_to(row, most))),
            Shortened::Text(most) => self.rows.cut(self.rows.write(part, Some(&|row: &str| cut_to(row, most))), most),
        };
        let cut = Cut { items: self.rows.left_out(part), next, index, strings: part.is_cut(), ..Cut::default() };
        self.framed(text, cut)
    }

    /// Adds what an answer has besides its text.
    fn framed(&self, text: String, cut: Cut<'_>) -> Output {
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
    pub(super) fn fit(&self, window: &Range<usize>) -> Option<Fitted> {
        let has_rest = self.has_index() && !window.is_empty();
        let mut reserved = if has_rest { self.index_by_weight(window)? } else { 0 };
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
            // Without an index, an input that gives more is named if there is room for that.
            let next = if index.is_none() && self.has_index() { self.next(window, &part) } else { None };
            let mut output = self.output(&part, next, index.as_deref());
            let mut size = self.scale().measure(&output);
            if next.is_some() && !self.scale().fits(size) {
                output = self.output(&part, None, None);
                size = self.scale().measure(&output);
            }
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

    /// Returns the `offset` of the rows that follow those of `part`, if these are the first ones of `window`, an answer
    /// counts them, and the tool has that input.
    fn next(&self, window: &Range<usize>, part: &Part) -> Option<usize> {
        let end = match &*part.rows {
            [run] if run.start == window.start && run.end < self.rows.len() => run.end,
            _ => return None,
        };
        (self.call.inputs.window && self.rows.left_out(part).is_some()).then_some(end)
    }

    /// Returns the share that an index takes, about: it is known only when it is written, and what it says depends on
    /// what is shown.
    fn index_by_weight(&self, window: &Range<usize>) -> Option<u64> {
        let mut by_weight = |rows: &[Range<usize>]| {
            let weight = rows.iter().fold(self.around(false), |sum, run| {
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
        let room = Scale::WHOLE.saturating_sub(self.around(true)).saturating_sub(self.scale().rounding());
        let weights = self.rows.weights();
        let places = RefCell::new((window.start..).zip(self.rows.places(window.start)));
        // What stands in a chunk for the rows before this one, which are in the answer.
        let gaps = RefCell::new(shown.iter().peekable());
        let weight = |row: usize| {
            let place = places.borrow_mut().find(|(number, _)| *number == row).map(|(_, place)| place);
            let weight = weights.of(row, &place.unwrap_or_default());
            let mut gaps = gaps.borrow_mut();
            while gaps.next_if(|run| run.end < row).is_some() {}
            let gap = gaps.next_if(|run| run.end == row).map_or(0, |run| self.gap_share(run.len()));
            weight.saturating_add(gap)
        };
        let shown = shown.iter().cloned();
        let digits = "0".repeat(self.rows.len().to_string().len());
        let runs = self.numbers_share(&NUMBERS.repeat(MOST_NUMBERS));
        let run = self.numbers_share(&format!(",{digits}-{digits}")).min(runs);
        let room = Room { capacity: weights.within(room).max(1), run, runs, most: MOST_CHUNKS, ..Room::from(1) };
        divide_runs(self.rows.len(), window.clone(), shown, weight, room, self.work)
    }

    /// Returns the share of the line that says how many rows are left out.
    fn gap_share(&self, count: usize) -> u64 {
        let note = self.rows.gap(count).map(|gap| format!("\n{gap}"));
        // A line end takes two bytes in a JSON string.
        note.map_or(0, |note| self.added_share(&note, 1))
    }

    /// Returns the share of numbers of rows in a line.
    fn numbers_share(&self, numbers: &str) -> u64 {
        self.scale().text_share(numbers, (0, 0))
    }

    /// Returns the share of an answer without its rows, at most. `is_chunk` says whether it is a fetched chunk; its rows
    /// are then consecutive.
    fn around(&self, is_chunk: bool) -> u64 {
        let rows = self.rows.len();
        // The largest counts there are.
        let cut = Cut { items: self.rows.left_out(&Part::all(0..rows.saturating_sub(1))), ..Cut::default() };
        let without = self.scale().share(self.scale().measure(&self.framed(self.rows.edges(), cut)));
        if !is_chunk || !self.settings.frame.notice {
            return without;
        }
        let line = format!("[chunks] chunk {rows} of {rows}, items {rows}-{rows} of {rows}. List 000000.");
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
        self.added_share(index, 1)
    }

    /// Returns the share that a text adds to an answer: to a text block, and to the structured content.
    fn added_share(&self, text: &str, line_end: usize) -> u64 {
        let member = self.rows.is_structured().then(|| json::encode(text));
        let (text, around) = member.as_deref().map_or((text, (line_end, line_end)), |member| (member, (12, 6)));
        self.scale().text_share(text, around)
    }

    /// Returns the id of the list and its division. It is computed once, since it takes a digest of all rows.
    pub(super) fn list_id(&self) -> ListId {
        *self.list.get_or_init(|| {
            let Settings { scale, program, .. } = self.settings;
            let (format, texts) = self.rows.identity();
            let settings =
                ListSettings { budget: scale.budget, counter: scale.counter, format, strategy: &program.settings };
            ListId::new(&settings, texts.iter().map(|text| &**text), self.work)
        })
    }

    /// Returns the answer with one chunk, which is not the first.
    pub(super) fn chunk(&self, division: &Division, number: NonZeroUsize, chunk: Chunk<'_>) -> Fitted {
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
