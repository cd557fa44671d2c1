//! Stages 10 and 11, for both executors: fit an output and its frame into the budget, and write it.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;

use super::list::Items;
use super::summary::NoSummary;
use super::{Failure, Run, root};
use crate::answer::{self, Attempt, Cut, Form, Frame, Output, Scale, Size, fit_json, search};
use crate::format::{Format, choice};
use crate::json::{self, Node, to_string_within};
use crate::pages::{Page, PageError};
use crate::program::{Branch, OutputProgram, StructuredMode};
use crate::stream;
use crate::{Budget, BudgetReport, Bytes, Stage, Tokens};

/// Where a budget finds the items.
#[derive(Debug, Clone, Copy)]
pub(super) enum List<'p> {
    /// At this place, if there is a list. The number is its length before `maxItems`; `None` means its present
    /// length.
    At(&'p [usize], Option<usize>),
    /// Where `maxItems` would find them.
    Detect,
    /// Nowhere: the output is not a list.
    None,
}

impl<'p> List<'p> {
    /// Returns where the list of a filtered document is. `payload` is the place of its payload, with the number of items
    /// before `maxItems` if it is a list.
    pub(super) fn of(branch: &Branch, payload: Option<&'p (root::Place, Option<usize>)>) -> Self {
        match payload {
            Some((place, Some(total))) => Self::At(place, Some(*total)),
            _ if branch.detects_list => Self::Detect,
            // No stage looked for a payload: a document that is a list is trimmed as one.
            _ => Self::At(&[], None),
        }
    }
}

/// An answer that was made for one limit in bytes.
pub(super) struct Fitted {
    pub(super) output: Output,
    /// Set if it was trimmed.
    pub(super) budget: Option<BudgetReport>,
}

/// Returns the report of an answer that was trimmed to `result` bytes, and fits.
pub(super) fn trimmed(scale: Scale<'_>, result: Bytes, original: Bytes) -> BudgetReport {
    BudgetReport { limit: scale.budget, result, ..BudgetReport::new(result, original) }
}

/// How an answer is made.
#[derive(Clone, Copy)]
pub(super) struct Settings<'p> {
    pub(super) program: &'p OutputProgram,
    pub(super) frame: Frame<'p>,
    pub(super) scale: Scale<'p>,
    /// The formats to choose from.
    pub(super) formats: &'p [Format],
    /// Whether `null` in a row stands for an absent member.
    pub(super) fill: bool,
}

impl<'p> Settings<'p> {
    /// Writes a document in the best of `formats`. `payload` is where its payload is. Returns `None` if the run is
    /// interrupted.
    pub(super) fn write<'t>(
        &self,
        formats: &[Format],
        text: &'t str,
        payload: Range<usize>,
    ) -> Option<choice::Written<'t>> {
        choice::write(text, payload, &self.request(formats), self.scale.counter, self.scale.work)
    }

    /// As [`Settings::write`], for a document that is of no use unless it is within the budget. Returns it with whether it
    /// may be.
    fn write_within<'t>(&self, text: &'t str, payload: Range<usize>) -> Option<(choice::Written<'t>, bool)> {
        let most = self.scale.budget.tokens.unwrap_or(Tokens(usize::MAX));
        let request = choice::Request { most, limit: Some(self.scale.budget), ..self.request(self.formats) };
        let written = choice::write(text, payload, &request, self.scale.counter, self.scale.work)?;
        let may_fit = written.tokens.is_none_or(|tokens| tokens <= most);
        Some((written, may_fit))
    }

    /// Returns how a document is written in one of `formats`.
    pub(super) fn request<'f>(&self, formats: &'f [Format]) -> choice::Request<'f> {
        let most = self.scale.most();
        choice::Request { formats, toon: self.program.toon, fill: self.fill, most, limit: None }
    }

    /// Returns the report of levels. `items` has the number of items for each level.
    pub(super) fn levels(&self, items: impl IntoIterator<Item = usize>) -> Vec<(Box<str>, usize)> {
        let levels = self.program.fit.levels.iter().map(|level| level.name().into());
        levels.zip(items).filter(|(_, items)| *items > 0).collect()
    }

    /// Adds its frame to a document in a format.
    pub(super) fn output(&self, format: Format, text: String, cut: Cut<'_>) -> Output {
        match format {
            Format::Json | Format::Table => Output::json(self.frame, text, cut, self.scale.work),
            Format::Toon => Output::text(self.frame, text, cut),
        }
    }
}

impl<'p> Run<'p> {
    /// Returns how the answer is made. `branch` is `None` for an output that passes unchanged.
    pub(super) fn settings(&self, branch: Option<&'p Branch>) -> Settings<'p> {
        let program = branch.map_or(&*self.plan.unfiltered, |branch| &*branch.output);
        let Budget { bytes, tokens } = self.call.budget;
        let asked = Budget { bytes: bytes.filter(|bytes| bytes.0 > 0), tokens: tokens.filter(|tokens| tokens.0 > 0) };
        Settings {
            program,
            frame: Frame {
                pagination: self.call.pagination,
                notice: program.notice,
                structured: match program.structured {
                    StructuredMode::Always => true,
                    StructuredMode::Schema => self.plan.has_schema,
                    StructuredMode::Never => false,
                },
            },
            scale: Scale { budget: program.budget.tightest(asked), counter: self.call.counter, work: self.work },
            formats: self.call.formats.unwrap_or(&program.formats),
            fill: branch.is_some_and(|branch| branch.drop_nulls),
        }
    }

    /// Takes over an answer that fits, or that is the smallest there is.
    pub(super) fn finished(&mut self, scale: Scale<'_>, output: Output, size: Size) -> Output {
        self.report.output_bytes = output.block_bytes();
        self.report.tokens = scale.report(&output, size);
        output
    }

    /// Measures an answer. Returns the answer as an error if it does not fit.
    pub(super) fn measured(&mut self, scale: Scale<'_>, output: Output) -> Result<Output, Output> {
        match scale.fitting(&output) {
            Some(size) => Ok(self.finished(scale, output, size)),
            None => Err(output),
        }
    }

    /// Finds the best answer within the budget. `attempt` makes the answer for a limit in bytes, if there is one.
    pub(super) fn fitted<E>(
        &mut self,
        scale: Scale<'_>,
        attempt: impl Fn(Option<Bytes>) -> Result<Fitted, E>,
    ) -> Result<Output, E> {
        let measured = |answer: Fitted| {
            let size = scale.measure(&answer.output);
            Attempt { bytes: size.bytes, measured: scale.share(size), answer: (answer, size) }
        };
        let whole = measured(attempt(scale.budget.bytes)?);
        let found = if whole.measured <= Scale::WHOLE {
            whole
        } else {
            let guess = scale.guess(&whole.answer.0.output, whole.answer.1);
            search(Scale::WHOLE, whole.bytes, guess, |limit| attempt(Some(limit)).map(measured))?
        };
        let (Fitted { output, budget }, size) = found.answer;
        let exceeded = found.measured > Scale::WHOLE;
        self.report.budget =
            budget.map(|budget| BudgetReport { limit: scale.budget, result: size.bytes, exceeded, ..budget });
        Ok(self.finished(scale, output, size))
    }

    /// Returns the output byte for byte. `is_json` says whether it was parsed as JSON.
    pub(super) fn verbatim(&mut self, text: String, is_json: bool) -> Output {
        let Settings { frame, scale, .. } = self.settings(None);
        self.report.result_bytes = text.len();
        let output = if is_json {
            Output::json(frame, text, Cut::default(), self.work)
        } else {
            Output::text(frame, text, Cut::default())
        };
        let size = Size { bytes: Bytes(0), tokens: None };
        self.finished(scale, output, size)
    }

    /// Adds its frame to a document that has been written. Returns the document as an error if there is more to do than
    /// that.
    pub(super) fn written(&mut self, branch: &'p Branch, text: String) -> Result<Output, String> {
        if branch.compact.is_some() { Err(text) } else { self.plain(Some(branch), text) }
    }

    /// Returns the answer with the whole document, if it is JSON and fits.
    pub(super) fn plain(&mut self, branch: Option<&'p Branch>, text: String) -> Result<Output, String> {
        let settings = self.settings(branch);
        let Settings { frame, scale, .. } = settings;
        if *settings.formats != [Format::Json] || self.call.page != Page::All {
            return Err(text);
        }
        // If `maxItems` left something out, it shows as many items as it may.
        let items = self.report.items_truncated_from.zip(branch.and_then(|branch| branch.max_items));
        let cut = Cut { items: items.and_then(|(total, shown)| answer::Items::cut(shown, total)), ..Cut::default() };
        let fits = |limit| frame.cost(text.len(), Form::of(&text), cut).fits(limit);
        if !scale.budget.bytes.is_none_or(fits) {
            return Err(text);
        }
        self.measured(scale, Output::json(frame, text, cut, self.work)).map_err(|output| output.text)
    }

    /// Encodes a document. `payload` is the place of its payload, with the number of items before `maxItems` if it is
    /// a list.
    pub(super) fn encode(
        &mut self,
        branch: &'p Branch,
        mut document: Node<'_>,
        payload: Option<&(root::Place, Option<usize>)>,
    ) -> Result<Output, Failure> {
        if let Some(compact) = &branch.compact {
            match self.summary(compact, branch, &mut document, payload) {
                Ok(output) => return Ok(output),
                Err(NoSummary::NoPage(failure)) => return Err(failure),
                // Without the templates, fields that they do not print would show.
                Err(reason) if self.enforced() => return Err(Failure::new(Stage::Compact, reason.as_str())),
                Err(NoSummary::NoList) => self.warn(Stage::Compact, NoSummary::NoList.as_str()),
                Err(NoSummary::Failed(reason)) => self.report.compact_error = Some(reason),
            }
        }
        let text = to_string_within(&document, self.work);
        // A list that is fitted takes the memory that the tree had.
        drop(document);
        self.json(text, List::of(branch, payload), Some(branch))
    }

    /// Writes a document, which is compact JSON, within the budget.
    ///
    /// # Errors There is no chunk of the number that the call asks for.
    pub(super) fn json(&mut self, text: String, list: List<'_>, branch: Option<&'p Branch>) -> Result<Output, Failure> {
        match self.plain(branch, text) {
            Ok(output) => Ok(output),
            Err(text) => self.shaped(text, list, branch),
        }
    }

    /// As [`Run::json`], for a document that is not the answer as it is: it is too large, or the call or the filter asks for
    /// a page or for another format.
    pub(super) fn shaped(
        &mut self,
        text: String,
        list: List<'_>,
        branch: Option<&'p Branch>,
    ) -> Result<Output, Failure> {
        let (text, place, before) = match list {
            List::At(place, total) => (text, Some(Cow::Borrowed(place)), total),
            List::Detect => self.detected(text),
            List::None => (text, None, None),
        };
        let settings = self.settings(branch);
        let payload = place.as_deref().and_then(|place| stream::range(&text, place, self.work));
        match place.and_then(|place| Items::of(&text, place, before, self.work)) {
            Some(items) => self.list(&settings, &items),
            None => self.value(&settings, &text, payload.unwrap_or(0..text.len())),
        }
    }

    /// Returns the document with the place of its list, where nothing names it. Of equal keys at the top only the last
    /// stays.
    fn detected(&self, text: String) -> (String, Option<Cow<'static, [usize]>>, Option<usize>) {
        let Ok(read) = json::read(text.as_bytes(), json::DEPTH_CEILING, usize::MAX, self.work) else {
            return (text, None, None);
        };
        let mut document = read.node;
        let place = root::list(&mut document, self.work);
        (to_string_within(&document, self.work), place.map(Cow::Owned), None)
    }

    /// Writes a document in the best of the formats.
    pub(super) fn written_as(
        &mut self,
        settings: &Settings<'p>,
        text: &str,
        payload: Range<usize>,
    ) -> (Format, String) {
        self.taken(settings.write(settings.formats, text, payload))
    }

    /// Writes a document in the best of the formats, for an answer that is of no use unless it fits. Returns whether it may
    /// fit.
    pub(super) fn written_within(
        &mut self,
        settings: &Settings<'p>,
        text: &str,
        payload: Range<usize>,
    ) -> (Format, String, bool) {
        let (written, may_fit) = settings.write_within(text, payload).unzip();
        let (format, text) = self.taken(written);
        (format, text, may_fit.unwrap_or_default())
    }

    /// Takes over a document that was written, with why it is not TOON.
    fn taken(&mut self, written: Option<choice::Written<'_>>) -> (Format, String) {
        // An interrupted run has no result.
        let Some(written) = written else { return (Format::Json, String::new()) };
        if let Some(why) = written.not_toon {
            self.warn(Stage::Format, why.to_string());
        }
        (written.format, written.text.into_owned())
    }

    /// Answers with a value that is no list: as it is, in the first level that fits, or cut.
    fn value(&mut self, settings: &Settings<'p>, text: &str, payload: Range<usize>) -> Result<Output, Failure> {
        self.call.page.of_one_chunk().map_err(Self::no_page)?;
        let (format, written) = self.written_as(settings, text, payload.clone());
        self.report.format = Some(format);
        let output = settings.output(format, written, Cut::default());
        let output = match self.measured(settings.scale, output) {
            Ok(output) => return Ok(output),
            Err(output) => output,
        };
        let original = output.bytes();
        drop(output);
        let (head, tail) = (&text[..payload.start], &text[payload.end..]);
        let details = settings.program.fit.details(&text[payload.clone()], true, self.work);
        let one_of = |level| settings.levels((0..).map(|number| usize::from(Some(number) == level)));
        let (mut poorest, mut poorest_form) = (Cow::Borrowed(text), 0);
        let mut cut = Cut::default();
        for form in 1..details.len() {
            let mut shown = head.to_owned();
            details.write(form, &mut shown, self.work);
            let payload = payload.start..shown.len();
            if !details.shows(&shown[payload.clone()]) {
                continue;
            }
            shown.push_str(tail);
            cut.fewer = 1;
            let (format, written) = self.written_as(settings, &shown, payload);
            if let Ok(output) = self.measured(settings.scale, settings.output(format, written, cut)) {
                self.report.format = Some(format);
                self.report.levels = one_of(details.level(form));
                self.report.budget = Some(trimmed(settings.scale, output.bytes(), original));
                return Ok(output);
            }
            (poorest, poorest_form) = (Cow::Owned(shown), form);
        }
        self.report.levels = one_of(details.level(poorest_form));
        Ok(self.shrunk(settings, &poorest, None, (format, cut), original))
    }

    /// Cuts strings of a document until its answer fits, and then members and elements. `list` is the list that items
    /// were left out of; `said` is the cut that is reported in any case.
    pub(super) fn shrunk(
        &mut self,
        settings: &Settings<'p>,
        text: &str,
        list: Option<answer::List<'_>>,
        (format, said): (Format, Cut<'_>),
        original: Bytes,
    ) -> Output {
        let Ok(read) = json::read(text.as_bytes(), json::DEPTH_CEILING, usize::MAX, self.work) else {
            return Output::text(settings.frame, String::new(), said);
        };
        let document = read.node;
        // TOON has no structured content, and as JSON it may be larger or smaller.
        let frame = Frame { structured: settings.frame.structured && format != Format::Toon, ..settings.frame };
        let Ok(output) = self.fitted(settings.scale, |limit| {
            let mut shown = Cow::Borrowed(&document);
            let (cut, budget) = fit_json(&mut shown, list, (text.len(), limit), (&frame, said), self.work);
            let json = to_string_within(&shown, self.work);
            // An interrupted run has no result.
            let (format, text) = match settings.write(&[format], &json, 0..json.len()) {
                Some(written) => (written.format, written.text.into_owned()),
                None => (Format::Json, String::new()),
            };
            Ok::<_, Infallible>(Fitted { output: settings.output(format, text, cut), budget })
        });
        // What was left out before counts as trimmed, also where nothing more had to go.
        let report = self.report.budget.take().unwrap_or_else(|| trimmed(settings.scale, output.bytes(), original));
        self.report.budget = Some(BudgetReport { original, ..report });
        output
    }

    /// Returns the error of a call for a page that there is not.
    pub(super) fn no_page(error: PageError) -> Failure {
        Failure { page: Some(error), ..Failure::new(Stage::Budget, error.to_string()) }
    }
}
