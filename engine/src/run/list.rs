//! The list of an answer: chooses what is shown of it, and writes that.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use super::Run;
use super::finish::Settings;
use super::weigh::Weigher;
use crate::answer::{self, Cut, Output, Scale, Size};
use crate::fit::{self, Details, Problem, Selection};
use crate::format::Format;
use crate::json::{self, Node};
use crate::pages::{Chunk, Division, Index, ListId, ListSettings, PageInputs, divide};
use crate::stream;
use crate::work::Work;
use crate::{Bytes, Tokens};

/// The items of a list in a document that is compact JSON.
pub(super) struct Items<'t> {
    /// The document.
    text: &'t str,
    /// The positions of members and elements from the document to the list.
    pub(super) place: Cow<'t, [usize]>,
    /// Where the list is.
    range: Range<usize>,
    items: Vec<&'t str>,
    /// The length of the list before `maxItems`.
    before: usize,
    /// The id of the list, once it is needed.
    id: OnceCell<ListId>,
}

impl<'t> Items<'t> {
    /// Returns `None` if there is no list at `place`.
    pub(super) fn of(text: &'t str, place: Cow<'t, [usize]>, before: Option<usize>, work: &Work<'_>) -> Option<Self> {
        let range = stream::range(text, &place, work)?;
        let items: Vec<_> = stream::elements(text, range.clone(), work)?.into_iter().map(|item| &text[item]).collect();
        let before = before.unwrap_or(items.len());
        Some(Self { text, place, range, items, before, id: OnceCell::new() })
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the length of the list before `maxItems`.
    pub(super) fn before(&self) -> usize {
        self.before
    }

    /// Returns the document.
    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// Returns what an answer with all items of `window` leaves out.
    pub(super) fn window_cut(&self, window: &Range<usize>, inputs: PageInputs<'_>) -> ShownCut {
        let more = inputs.window && window.end < self.len();
        ShownCut { items: self.cut(window.len()), fewer: 0, next: more.then_some(window.end) }
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns the counts if an answer that shows `shown` items leaves some out.
    pub(super) fn cut(&self, shown: usize) -> Option<answer::Items> {
        answer::Items::cut(shown, self.before)
    }

    /// Returns the document with other items, of about `bytes` bytes, and where its list is. `write` appends an item to
    /// the text.
    pub(super) fn with<T>(
        &self,
        bytes: usize,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(T, &mut String),
    ) -> (String, Range<usize>) {
        let (head, tail) = (&self.text[..self.range.start], &self.text[self.range.end..]);
        let mut out = String::with_capacity(head.len() + bytes + tail.len() + 2);
        out.push_str(head);
        out.push('[');
        let open = out.len();
        for item in items {
            if out.len() > open {
                out.push(',');
            }
            write(item, &mut out);
        }
        out.push(']');
        let list = self.range.start..out.len();
        out.push_str(tail);
        (out, list)
    }

    /// Returns the document with these of its items, and where its list is.
    pub(super) fn only(&self, items: impl Iterator<Item = usize> + Clone) -> (String, Range<usize>) {
        let bytes = items.clone().map(|item| self.items[item].len() + 1).sum();
        self.with(bytes, items, |item, out| out.push_str(self.items[item]))
    }

    /// Returns an item as a tree. The item is JSON, so only an interrupted run has none.
    fn node(&self, item: usize, work: &Work<'_>) -> Node<'t> {
        json::read(self.items[item].as_bytes(), json::DEPTH_CEILING, usize::MAX, work)
            .map_or(Node::NULL, |read| read.node)
    }
}

/// An answer with a part of a list.
pub(super) struct Listed {
    pub(super) format: Format,
    pub(super) output: Output,
    pub(super) size: Size,
    /// The document that the answer shows, as JSON.
    pub(super) json: String,
    /// What is shown, and how the rest is divided.
    pub(super) division: Division,
    pub(super) index: Option<String>,
    pub(super) list: Option<ListId>,
    /// By level, how many items have it.
    pub(super) levels: Vec<usize>,
    pub(super) cut: ShownCut,
    /// The sum of the values of what is shown.
    value: u64,
}

/// What an answer with a part of a list leaves out.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShownCut {
    pub(super) items: Option<answer::Items>,
    pub(super) fewer: usize,
    pub(super) next: Option<usize>,
}

impl ShownCut {
    pub(super) fn with(self, index: Option<&str>) -> Cut<'_> {
        let Self { items, fewer, next } = self;
        Cut { items, fewer, next: next.filter(|_| index.is_none()), index, ..Cut::default() }
    }
}

/// The bytes and tokens of what an answer with one chunk has around its items, at most: the line of the chunk, the
/// counts, and the members of the structured content.
const LINE: Size = Size { bytes: Bytes(220), tokens: Some(Tokens(90)) };

/// One way to fit a window of a list into the budget.
struct Fit<'r, 'p, 't> {
    run: &'r Run<'p>,
    settings: &'r Settings<'p>,
    items: &'r Items<'t>,
    window: Range<usize>,
    format: Format,
    /// The forms of the items in the window.
    details: Vec<Details<'p, 't>>,
    problem: Problem<'r>,
}

impl<'p> Run<'p> {
    /// Returns the answer for a window of a list of which not everything fits: in the format that keeps most value.
    pub(super) fn fit_list(&self, settings: &Settings<'p>, items: &Items<'_>, window: &Range<usize>) -> Option<Listed> {
        let formats = settings.formats;
        let mut best: Option<Listed> = None;
        for &format in formats {
            for uniform in uniform(format, settings) {
                let listed = self.fit_format(settings, items, window, format, *uniform)?;
                // A list that cannot be written this way is JSON, which is another format of the choice.
                if listed.format != format && formats.contains(&listed.format) {
                    continue;
                }
                let fits = |listed: &Listed| settings.scale.fits(listed.size);
                let rank = |listed: &Listed| {
                    (fits(listed), listed.value, std::cmp::Reverse(settings.scale.share(listed.size)))
                };
                if best.as_ref().is_none_or(|best| rank(&listed) > rank(best)) {
                    best = Some(listed);
                }
            }
        }
        best
    }

    fn fit_format(
        &self,
        settings: &Settings<'p>,
        items: &Items<'_>,
        window: &Range<usize>,
        format: Format,
        uniform: bool,
    ) -> Option<Listed> {
        let Settings { program, scale, .. } = settings;
        let texts = &items.items[window.clone()];
        let details: Vec<_> = texts.iter().map(|item| program.fit.details(item, uniform, self.work)).collect();
        let values = program.fit.values(texts, self.work);
        let work = self.work;
        let weigher = Weigher { settings, items, details: &details, texts, format, uniform, work };
        let mut candidates = weigher.candidates(values);
        if let Some(groups) = program.fit.groups(texts, self.work) {
            candidates.set_groups(groups);
        }
        let algorithm = program.fit.algorithm(&candidates);
        let problem = Problem { candidates: &candidates, algorithm, uniform };
        let fit = Fit { run: self, settings, items, window: window.clone(), format, details, problem };
        // Bytes of JSON add up.
        fit.run(format == Format::Json && scale.budget.tokens.is_none())
    }
}

/// Returns whether all items take the same form, in each way that is tried.
fn uniform(format: Format, settings: &Settings<'_>) -> &'static [bool] {
    match format {
        _ if settings.program.fit.levels.len() == 0 => &[false],
        Format::Json => &[false],
        // Mixed items are no table.
        Format::Table => &[true],
        // Whether a list is a table in TOON depends on its items.
        Format::Toon => &[true, false],
    }
}

impl<'r> Fit<'r, '_, '_> {
    /// Returns `None` if the run was interrupted. `exact` says whether the weights are exact.
    fn run(self, exact: bool) -> Option<Listed> {
        let Settings { scale, .. } = self.settings;
        // What an index takes is known only when it is written, and what it says depends on what is shown.
        let mut reserved = 0;
        if self.has_index() {
            let rough = fit::choose(self.problem, Scale::WHOLE - Scale::WHOLE / 16, self.run.work);
            let division = self.divide(&rough, exact, 0);
            let index = self.index(&rough, &division, &mut |text| self.index_share(text) <= Scale::WHOLE / 4);
            reserved = index.map_or(0, |index| self.index_share(&index));
        }
        let mut best = None;
        for round in 0..3 {
            let limit = Scale::WHOLE.saturating_sub(reserved);
            let mut measure = |selection: &Selection| self.measure(selection);
            let fitted = fit::exact(self.problem, limit, &mut measure, self.run.work);
            let measured = fitted.measured?;
            let division = self.divide(&fitted.selection, exact, measured);
            let most = if measured > limit { Scale::WHOLE / 4 } else { Scale::WHOLE - measured };
            // After two rounds an index has to do with what is left.
            let index = if self.has_index() && round < 2 {
                let fits = &mut |text: &str| self.index_share(text) <= most.min(Scale::WHOLE / 4);
                self.index(&fitted.selection, &division, fits)
            } else {
                None
            };
            let listed = self.listed(&fitted.selection, division, index)?;
            let share = scale.share(listed.size);
            let used = listed.index.as_ref().map_or(0, |index| self.index_share(index));
            if measured > limit || (share <= Scale::WHOLE && (used + Scale::WHOLE / 32 >= reserved || round > 0)) {
                return Some(listed);
            }
            if share > Scale::WHOLE {
                reserved = if round == 0 { reserved + (share - Scale::WHOLE) + Scale::WHOLE / 256 } else { 0 };
            } else {
                reserved = used + Scale::WHOLE / 128;
            }
            best = Some(listed);
        }
        best
    }

    /// Returns whether an answer that leaves something out may have an index.
    fn has_index(&self) -> bool {
        self.settings.frame.notice && self.run.call.inputs != PageInputs::NONE
    }

    /// Returns the numbers of the items that are shown, in the list.
    fn shown(&self, selection: &Selection) -> Vec<usize> {
        selection.iter().map(|(item, _)| self.window.start + item).collect()
    }

    /// Returns the document with what is shown, and where its list is.
    fn compose(&self, selection: &Selection) -> (String, Range<usize>) {
        let bytes = selection.iter().map(|(item, _)| self.items.items[self.window.start + item].len() + 1).sum();
        self.items.with(bytes, selection.iter(), |(item, form), out| self.details[item].write(form, out, self.run.work))
    }

    /// Writes a document in the format, or as JSON if it cannot be written so.
    fn write(&self, json: &str, list: Range<usize>) -> Option<(Format, String)> {
        let written = self.settings.write(&[self.format], json, list)?;
        Some((written.format, written.text.into_owned()))
    }

    fn cut(&self, selection: &Selection) -> ShownCut {
        let shown = self.shown(selection);
        let end = self.window.start + shown.len();
        let is_prefix = shown.last().is_none_or(|last| last + 1 == end);
        ShownCut {
            items: self.items.cut(shown.len()),
            fewer: fewer(selection),
            next: (self.run.call.inputs.window && is_prefix && end < self.items.len()).then_some(end),
        }
    }

    /// Measures an answer without its index. Returns `None` if the run was interrupted.
    fn measure(&self, selection: &Selection) -> Option<u64> {
        let (json, list) = self.compose(selection);
        let (format, text) = self.write(&json, list)?;
        let cut = self.cut(selection);
        let cut = if self.has_index() { ShownCut { next: None, ..cut } } else { cut };
        let output = self.settings.output(format, text, cut.with(None));
        let share = self.settings.scale.share(self.settings.scale.measure(&output));
        (!self.run.work.is_interrupted()).then_some(share)
    }

    /// Divides the list. `exact` says whether the weights are exact, and `measured` is the share that `selection` takes: where
    /// that is more than its weights say, the items of the other chunks are heavier too.
    fn divide(&self, selection: &Selection, exact: bool, measured: u64) -> Division {
        let scale = self.settings.scale;
        let shown = self.shown(selection);
        let around = self.items.text.len() - self.items.range.len();
        let around = scale.share(Size { bytes: Bytes(around), tokens: Some(Tokens(around / 3)) });
        let room = Scale::WHOLE.saturating_sub(around).saturating_sub(scale.share(LINE));
        // Estimates may be too low by a little.
        let room = if exact { room } else { room / 16 * 15 };
        let sum = u128::from(selection.sum(self.problem.candidates).weight.max(1));
        let taken = u128::from(measured.saturating_sub(around)).max(sum);
        let weight = |item: usize| {
            let weight = u128::from(self.problem.candidates.forms(item - self.window.start)[0].weight);
            u64::try_from((weight * taken).div_ceil(sum)).unwrap_or(u64::MAX)
        };
        divide(self.items.len(), self.window.clone(), &shown, weight, room.max(1), self.run.work)
    }

    fn index(&self, selection: &Selection, division: &Division, fits: &mut dyn FnMut(&str) -> bool) -> Option<String> {
        let work = self.run.work;
        let chunks = &self.settings.program.chunks;
        let summary = |chunk: Chunk<'_>| chunks.summary(chunk, |item| self.items.node(item, work), work);
        let index = Index {
            division,
            inputs: self.run.call.inputs,
            noun: chunks.noun(),
            fewer: fewer(selection),
            summary: &summary,
            list: &|| self.run.list_id(self.settings, self.items),
        };
        index.text(fits)
    }

    /// Returns what an index takes of the budget, about.
    fn index_share(&self, index: &str) -> u64 {
        self.settings.scale.share(added(&self.settings.scale, index))
    }

    fn listed(&self, selection: &Selection, division: Division, index: Option<String>) -> Option<Listed> {
        let (json, list) = self.compose(selection);
        let (format, text) = self.write(&json, list)?;
        let cut = self.cut(selection);
        let output = self.settings.output(format, text, cut.with(index.as_deref()));
        let size = self.settings.scale.measure(&output);
        let mut levels = vec![0; self.settings.program.fit.levels.len()];
        for level in selection.iter().filter_map(|(item, form)| self.details[item].level(form)) {
            levels[level] += 1;
        }
        let list = (division.chunks() > 1 && self.has_index()).then(|| self.run.list_id(self.settings, self.items));
        let value = selection.sum(self.problem.candidates).value;
        Some(Listed { format, output, size, json, division, index, list, levels, cut, value })
    }
}

/// Returns how many of the items that are shown have fewer fields than in the list.
fn fewer(selection: &Selection) -> usize {
    selection.iter().filter(|(_, form)| *form > 0).count()
}

/// Returns the size that a text adds to an answer: to its second block, and to its structured content.
fn added(scale: &Scale<'_>, text: &str) -> Size {
    let member = json::encode(text);
    let tokens = scale.budget.tokens.map(|_| Tokens(scale.count(&member, Tokens(usize::MAX)).0 + 6));
    Size { bytes: Bytes(member.len() + 12), tokens }
}

impl<'p> Run<'p> {
    /// Returns the id of a list. It is computed once, since it takes a digest of all items.
    pub(super) fn list_id(&self, settings: &Settings<'p>, items: &Items<'_>) -> ListId {
        *items.id.get_or_init(|| {
            let formats: Vec<_> = settings.formats.iter().map(|format| format.as_str()).collect();
            let id = ListSettings {
                budget: settings.scale.budget,
                counter: settings.scale.counter,
                format: &formats.join(","),
                strategy: &settings.program.settings,
            };
            // What is around the list takes a part of the budget too.
            let around = [&items.text[..items.range.start], &items.text[items.range.end..]];
            ListId::new(&id, around.into_iter().chain(items.items.iter().copied()), self.work)
        })
    }

    /// Returns the line of a chunk.
    pub(super) fn chunk_line(
        &self,
        settings: &Settings<'p>,
        items: &Items<'_>,
        division: &Division,
        number: std::num::NonZeroUsize,
    ) -> Option<String> {
        if !settings.frame.notice {
            return None;
        }
        let index = Index {
            division,
            inputs: self.call.inputs,
            noun: settings.program.chunks.noun(),
            fewer: 0,
            summary: &|_| String::new(),
            list: &|| self.list_id(settings, items),
        };
        let scale = settings.scale;
        index.fetched(number, &mut |line| scale.share(added(&scale, line)) <= Scale::WHOLE / 4)
    }
}
