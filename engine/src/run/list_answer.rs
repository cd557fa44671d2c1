//! Answers with a list: all of it, what a budget shows of it with its index, or one chunk.

use std::borrow::Cow;
use std::num::NonZeroUsize;

use super::finish::{Settings, trimmed};
use super::list::{Items, Listed};
use super::{Failure, Run};
use crate::answer::{self, Cut, Output};
use crate::pages::{Division, Page};
use crate::{BudgetReport, Bytes};

impl<'p> Run<'p> {
    /// Answers with a list, or with the page of it that the call asks for.
    pub(super) fn list(&mut self, settings: &Settings<'p>, items: &Items<'_>) -> Result<Output, Failure> {
        let window = self.call.page.window(items.len());
        let whole = window == (0..items.len());
        let (text, range) = if whole {
            (Cow::Borrowed(items.text()), items.range())
        } else {
            let (text, range) = items.only(window.clone());
            (Cow::Owned(text), range)
        };
        // Of a list that does not fit, another answer is made. An empty one is cut as it is.
        let (format, written, may_fit) = match window.is_empty() {
            true => {
                let (format, written) = self.written_as(settings, &text, range);
                (format, written, true)
            }
            false => self.written_within(settings, &text, range),
        };
        let cut = items.window_cut(&window, self.call.inputs);
        let output = settings.output(format, written, cut.with(None));
        let output = match if may_fit { self.measured(settings.scale, output) } else { Err(output) } {
            Ok(output) => {
                self.call.page.of_one_chunk().map_err(Self::no_page)?;
                self.report.format = Some(format);
                return Ok(output);
            }
            Err(output) => output,
        };
        let original = output.bytes();
        drop(output);
        if window.is_empty() {
            return Ok(self.shrunk(settings, &text, None, (format, cut.with(None)), original));
        }
        // An interrupted run has no result.
        let Some(listed) = self.fit_list(settings, items, &window) else {
            return Ok(Output::text(settings.frame, String::new(), Cut::default()));
        };
        match self.call.page {
            Page::Chunk(number) if number.get() > 1 => self.chunk(settings, items, &listed.division, number),
            Page::Chunk(_) | Page::All | Page::Window { .. } => Ok(self.shown(settings, items, listed, original)),
        }
    }

    /// Returns the answer with a part of a list.
    fn shown(&mut self, settings: &Settings<'p>, items: &Items<'_>, listed: Listed, original: Bytes) -> Output {
        let Listed { format, output, size, json, division, index, list, levels, value, cut } = listed;
        let shown = division.shown().len();
        self.report.chunks = (division.chunks() > 1 && list.is_some()).then_some(division.chunks());
        self.report.list = list.map(|list| list.to_string());
        self.report.levels = settings.levels(levels);
        self.report.format = Some(format);
        if !settings.scale.fits(size) {
            let place = answer::List { place: &items.place, total: items.before(), keeps_items: false };
            let output = self.shrunk(settings, &json, Some(place), (format, cut.with(index.as_deref())), original);
            if let Some(report) = &mut self.report.budget {
                let left = shown.saturating_sub(report.items_dropped);
                report.items_dropped += division.divided() - shown;
                self.report.levels.iter_mut().for_each(|(_, items)| *items = left.min(*items));
                self.report.levels.retain(|(_, items)| *items > 0);
            }
            return output;
        }
        self.report.value = Some(value);
        let items_dropped = division.divided() - shown;
        let report = trimmed(settings.scale, size.bytes, original);
        self.report.budget = Some(BudgetReport { items_dropped, ..report });
        self.finished(settings.scale, output, size)
    }

    /// Returns the answer with one chunk of a list.
    fn chunk(
        &mut self,
        settings: &Settings<'p>,
        items: &Items<'_>,
        division: &Division,
        number: NonZeroUsize,
    ) -> Result<Output, Failure> {
        let chunk = division.chunk(number).map_err(Self::no_page)?;
        let (text, range) = items.only(chunk.items());
        let line = self.chunk_line(settings, items, division, number);
        let cut = Cut { items: items.cut(chunk.len()), index: line.as_deref(), ..Cut::default() };
        let (format, written) = self.written_as(settings, &text, range);
        self.report.format = Some(format);
        self.report.chunks = Some(division.chunks());
        self.report.list = Some(self.list_id(settings, items).to_string());
        let output = settings.output(format, written, cut);
        let original = output.bytes();
        if let Ok(output) = self.measured(settings.scale, output) {
            return Ok(output);
        }
        let (first, last) = (chunk.items().next(), chunk.items().next_back());
        let run = first.zip(last).map(|(first, last)| first..last + 1).filter(|run| run.len() == chunk.len());
        // An item that does not fit takes a level that does. Of more items, weights are estimates: what this chunk cannot
        // show is then named by an index of its own, if the call can ask for it.
        let has_levels = settings.program.fit.levels.len() > 0;
        if let Some(run) = run.filter(|run| if run.len() == 1 { has_levels } else { self.call.inputs.window })
            && let Some(listed) = self.fit_list(settings, items, &run)
            && (run.len() > 1 || settings.scale.fits(listed.size))
        {
            let (chunks, list) = (self.report.chunks, self.report.list.take());
            let output = self.shown(settings, items, listed, original);
            self.report.chunks = self.report.chunks.or(chunks);
            self.report.list = self.report.list.take().or(list);
            return Ok(output);
        }
        // Otherwise strings are cut first: no other answer has the items of this chunk.
        let list = answer::List { place: &items.place, total: items.before(), keeps_items: true };
        let output = self.shrunk(settings, &text, Some(list), (format, cut), original);
        let is_empty = |report: &BudgetReport| report.items_dropped == chunk.len();
        if line.is_some() && self.report.budget.as_ref().is_some_and(is_empty) {
            // Without its line, the chunk may have room for an item.
            return Ok(self.shrunk(settings, &text, Some(list), (format, Cut { index: None, ..cut }), original));
        }
        Ok(output)
    }
}
