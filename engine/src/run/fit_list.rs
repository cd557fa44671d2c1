//! Fits a window of a list into the budget: in the best of the formats, with the index of what it leaves out.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::RandomState;

use super::Run;
use super::finish::Settings;
use super::list::{Items, Listed, ShownCut, added};
use super::weigh::{Forms, Full, Nearness, Weigher};
use crate::answer::Scale;
use crate::fit::{self, Algorithm, Candidates, Problem, Selection};
use crate::format::Format;
use crate::pages::{Chunk, Division, Index, PageInputs};

/// The chunks of which the first estimate of an index has summaries.
const SUMMARIES: usize = 3;

/// One way to write a window of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    format: Format,
    /// Whether all items take the same form.
    uniform: bool,
}

/// One way to fit a window of a list into the budget.
pub(super) struct Fit<'r, 'p, 't> {
    pub(super) run: &'r Run<'p>,
    pub(super) settings: &'r Settings<'p>,
    pub(super) items: &'r Items<'t>,
    pub(super) window: Range<usize>,
    way: Way,
    /// The forms of the items in the window.
    forms: &'r Forms<'p, 't>,
    pub(super) candidates: Candidates,
    algorithm: Algorithm,
    /// Forms that were written: by item and form. An answer is written many times with most of the same items.
    written: RefCell<HashMap<(usize, usize), Box<str>, RandomState>>,
}

/// What a way shows, before its index is written.
struct Draft<'r, 'p, 't> {
    fit: Fit<'r, 'p, 't>,
    /// The share of the budget that is kept for the index.
    reserved: u64,
    selection: Selection,
    measured: u64,
}

impl Draft<'_, '_, '_> {
    /// Returns how good it is: whether it fits, and then the value that it shows, and how little it takes for that.
    fn rank(&self) -> (bool, u64, Reverse<u64>) {
        let fits = self.measured <= Scale::WHOLE.saturating_sub(self.reserved);
        (fits, self.selection.sum(&self.fit.candidates).value, Reverse(self.measured))
    }

    /// Returns the value below which no other draft is better.
    fn least(&self) -> u64 {
        let (fits, value, _) = self.rank();
        if fits { value } else { 0 }
    }
}

impl<'p> Run<'p> {
    /// Returns the answer for a window of a list of which not everything fits: in the format that keeps most value.
    /// Returns `None` if the run is interrupted.
    pub(super) fn fit_list(&self, settings: &Settings<'p>, items: &Items<'_>, window: &Range<usize>) -> Option<Listed> {
        let program = &settings.program.fit;
        let texts = items.texts(window.clone());
        let forms = |uniform| Forms::new(texts.iter().map(move |item| program.details(item, uniform, self.work)));
        let mixed = forms(false);
        // Items without comments have the same forms in both cases.
        let same = program.has_comments().then(|| forms(true));
        let list = Window {
            run: self,
            settings,
            items,
            window: window.clone(),
            mixed: &mixed,
            same: same.as_ref().unwrap_or(&mixed),
            values: program.values(texts, self.work),
            groups: program.groups(texts, self.work),
        };
        let formats = settings.formats;
        let mut ways: Vec<Way> = formats
            .iter()
            .flat_map(|&format| uniform(format, settings).iter().map(move |&uniform| Way { format, uniform }))
            .collect();
        let mut exceeding: Option<Listed> = None;
        while let Some(draft) = list.best_draft(&ways)? {
            let way = draft.fit.way;
            let listed = draft.complete()?;
            // A list that cannot be written this way is JSON, which is another format of the choice.
            if listed.format == way.format || !formats.contains(&listed.format) {
                if settings.scale.fits(listed.size) {
                    return Some(listed);
                }
                exceeding.get_or_insert(listed);
            }
            ways.retain(|other| *other != way);
        }
        exceeding
    }
}

/// A window of a list, and what its items are worth.
struct Window<'r, 'p, 't> {
    run: &'r Run<'p>,
    settings: &'r Settings<'p>,
    items: &'r Items<'t>,
    window: Range<usize>,
    /// The forms of the items, where each may take another one.
    mixed: &'r Forms<'p, 't>,
    /// The forms of the items, where all take the same one.
    same: &'r Forms<'p, 't>,
    values: Vec<u64>,
    groups: Option<Vec<u32>>,
}

impl<'r, 'p, 't> Window<'r, 'p, 't> {
    /// Returns the best draft of all `ways`, of equal ones the first. Returns `None` if the run is interrupted, and no
    /// draft if there is no way.
    fn best_draft(&self, ways: &[Way]) -> Option<Option<Draft<'r, 'p, 't>>> {
        let Self { run, settings, items, values, .. } = self;
        let texts = items.texts(self.window.clone());
        let mut best: Option<Draft<'r, 'p, 't>> = None;
        for ways in ways.chunk_by(|one, other| one.format == other.format) {
            let Some(Way { format, .. }) = ways.first().copied() else { continue };
            let full = Full::new(settings, items, texts, format, run.work);
            // Where JSON is a choice too, a list without rows is JSON: TOON would be larger.
            let worth = format == Format::Toon && settings.formats.contains(&Format::Json);
            let weigher = Weigher { settings, items, texts, values, format, full: &full, work: run.work };
            for way in ways {
                let (forms, candidates) = match way.uniform {
                    true => (self.same, weigher.uniform(self.same, worth)),
                    false => (self.mixed, (full.is_written || !worth).then(|| weigher.mixed(self.mixed))),
                };
                let Some(mut candidates) = candidates else { continue };
                if let Some(groups) = &self.groups {
                    candidates.set_groups(groups.clone());
                }
                let fit = Fit {
                    run,
                    settings,
                    items,
                    window: self.window.clone(),
                    way: *way,
                    forms,
                    algorithm: settings.program.fit.algorithm(&candidates),
                    candidates,
                    written: RefCell::default(),
                };
                let least = best.as_ref().map_or(0, Draft::least);
                let draft = fit.draft(least)?;
                if let Some(draft) = draft.filter(|draft| best.as_ref().is_none_or(|best| draft.rank() > best.rank())) {
                    best = Some(draft);
                }
            }
        }
        Some(best)
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

impl<'r, 'p, 't> Fit<'r, 'p, 't> {
    fn problem(&self) -> Problem<'_> {
        Problem { candidates: &self.candidates, algorithm: self.algorithm, uniform: self.way.uniform }
    }

    /// Chooses what is shown, with room for an index. Returns `None` if the run is interrupted, and no draft if its value
    /// would be below `least`: as the weights say, also if they are too large by a quarter.
    fn draft(self, least: u64) -> Option<Option<Draft<'r, 'p, 't>>> {
        // What an index takes is known only when it is written, and what it says depends on what is shown.
        let mut reserved = 0;
        if self.has_index() {
            let rough = fit::choose(self.problem(), Scale::WHOLE - Scale::WHOLE / 16, self.run.work);
            let division = self.divide_roughly(&rough);
            let fits = &mut |text: &str| self.index_share(text) <= Scale::WHOLE / 4;
            reserved = self.index(&rough, &division, SUMMARIES, fits).map_or(0, |index| self.index_share(&index));
        }
        let limit = Scale::WHOLE.saturating_sub(reserved);
        if least > 0 {
            let rough = fit::choose(self.problem(), limit + limit / 4, self.run.work);
            if rough.sum(&self.candidates).value < least {
                return Some(None);
            }
        }
        let (selection, measured) = self.choose(limit)?;
        Some(Some(Draft { fit: self, reserved, selection, measured }))
    }

    /// Chooses what is shown so that it takes at most `limit` of the budget, without its index. Returns it with the share
    /// that it takes, or `None` if the run is interrupted.
    fn choose(&self, limit: u64) -> Option<(Selection, u64)> {
        let mut measure = |selection: &Selection| self.measure(selection);
        let fitted = fit::exact(self.problem(), limit, &mut measure, self.run.work);
        Some((fitted.selection, fitted.measured?))
    }

    /// Returns how near the weights are.
    pub(super) fn nearness(&self) -> Nearness {
        let texts = self.items.texts(self.window.clone()).iter().copied();
        Nearness::of(&self.settings.scale, self.way.format, texts)
    }

    /// Returns whether an answer that leaves something out may have an index.
    fn has_index(&self) -> bool {
        self.settings.frame.notice && self.run.call.inputs != PageInputs::NONE
    }

    /// Returns the numbers of the items that are shown, in the list.
    pub(super) fn shown(&self, selection: &Selection) -> Vec<usize> {
        selection.iter().map(|(item, _)| self.window.start + item).collect()
    }

    /// Returns the document with what is shown, and where its list is.
    fn compose(&self, selection: &Selection) -> (String, Range<usize>) {
        let bytes = selection.iter().map(|(item, _)| self.items.text_of(self.window.start + item).len() + 1).sum();
        let mut written = self.written.borrow_mut();
        self.items.with(bytes, selection.iter(), |(item, form), out| match form {
            0 => out.push_str(self.items.text_of(self.window.start + item)),
            _ => out.push_str(written.entry((item, form)).or_insert_with(|| {
                let mut text = String::new();
                self.forms.details[item].write(form, &mut text, self.run.work);
                text.into()
            })),
        })
    }

    /// Writes a document in the format, or as JSON if it cannot be written so.
    pub(super) fn write(&self, json: &str, list: Range<usize>) -> Option<(Format, String)> {
        let written = self.settings.write(&[self.way.format], json, list)?;
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

    /// Returns the index, the largest that `fits`. `summaries` is the number of chunks that are read for their summary: the
    /// others repeat those.
    fn index(
        &self,
        selection: &Selection,
        division: &Division,
        summaries: usize,
        fits: &mut dyn FnMut(&str) -> bool,
    ) -> Option<String> {
        let work = self.run.work;
        let chunks = &self.settings.program.chunks;
        let read = RefCell::new(Vec::new());
        let summary = |chunk: Chunk<'_>| {
            let mut read = read.borrow_mut();
            if read.len() >= summaries {
                let next: String = read.remove(0);
                read.push(next.clone());
                return next;
            }
            let summary = chunks.summary_of(chunk, |item| self.items.text_of(item), work);
            if summaries < usize::MAX {
                read.push(summary.clone());
            }
            summary
        };
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
        let mut cut = self.cut(selection);
        let mut output = self.settings.output(format, text, cut.with(index.as_deref()));
        let mut size = self.settings.scale.measure(&output);
        if index.is_none() && self.has_index() && cut.next.is_some() && !self.settings.scale.fits(size) {
            // The selection was measured without `next`, since an index has it. An item must not go for it: the item would
            // be in no chunk.
            cut.next = None;
            output = self.settings.output(format, output.text, cut.with(None));
            size = self.settings.scale.measure(&output);
        }
        let mut levels = vec![0; self.settings.program.fit.levels.len()];
        for level in selection.iter().filter_map(|(item, form)| self.forms.details[item].level(form)) {
            levels[level] += 1;
        }
        let list = (division.chunks() > 1 && self.has_index()).then(|| self.run.list_id(self.settings, self.items));
        let value = selection.sum(&self.candidates).value;
        Some(Listed { format, output, size, json, division, index, list, levels, value, cut })
    }
}

impl Draft<'_, '_, '_> {
    /// Writes the answer with its index. Returns `None` if the run is interrupted.
    fn complete(self) -> Option<Listed> {
        let Self { fit, mut reserved, mut selection, mut measured } = self;
        let scale = fit.settings.scale;
        let mut best = None;
        for round in 0..3 {
            let limit = Scale::WHOLE.saturating_sub(reserved);
            if round > 0 {
                (selection, measured) = fit.choose(limit)?;
            }
            let division = fit.divide(&selection);
            let most = if measured > limit { Scale::WHOLE / 4 } else { Scale::WHOLE - measured };
            // After two rounds an index has to do with what is left.
            let index = if fit.has_index() && round < 2 {
                let fits = &mut |text: &str| fit.index_share(text) <= most.min(Scale::WHOLE / 4);
                fit.index(&selection, &division, usize::MAX, fits)
            } else {
                None
            };
            let listed = fit.listed(&selection, division, index)?;
            let share = scale.share(listed.size);
            let used = listed.index.as_ref().map_or(0, |index| fit.index_share(index));
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
}

/// Returns how many of the items that are shown have fewer fields than in the list.
fn fewer(selection: &Selection) -> usize {
    selection.iter().filter(|(_, form)| *form > 0).count()
}
