//! Stage 10 for text: fits lines into the budget.

use std::convert::Infallible;

use memchr::memchr_iter;

use super::finish::{Fitted, Settings, trimmed};
use super::{Failure, Run};
use crate::answer::{self, Cut, Form, Output, Scale, Size, fit_text};
use crate::fit::{self, Strategy};
use crate::pages::Page;
use crate::program::Branch;
use crate::text::Patterns;
use crate::{BudgetReport, Bytes, Tokens};

/// Bytes of a line for each token, about: the first guess of what a line weighs.
const LINE_BYTES_PER_TOKEN: usize = 3;
/// More bytes than nearly all tokens have: what a budget in tokens can hold at most.
const MOST_BYTES_PER_TOKEN: usize = 32;

impl<'p> Run<'p> {
    /// Encodes text, within the budget. The items of a page are its lines.
    ///
    /// # Errors There is no chunk of the number that the call asks for.
    pub(super) fn lines(&mut self, text: String, branch: Option<&'p Branch>) -> Result<Output, Failure> {
        let settings = self.settings(branch);
        let Settings { frame, scale, program, .. } = settings;
        self.call.page.of_one_chunk().map_err(Self::no_page)?;
        let (text, cut) = match self.call.page {
            Page::All | Page::Chunk(_) => (text, Cut::default()),
            Page::Window { .. } => self.window_of_lines(&text),
        };
        let output = match self.measured(scale, Output::text(frame, text, cut)) {
            Ok(output) => return Ok(output),
            Err(output) => output,
        };
        let (text, original) = (output.text, frame.cost(0, Form::Text, cut).counted());
        // Which lines of a window a budget keeps, the text says itself.
        let cut = Cut::default();
        let original = Bytes(original.0 + text.len());
        if let Strategy::HeadTail { boost } = &program.fit.strategy
            && let Some(shown) = self.both_ends(&settings, &text, boost.as_deref(), cut)
        {
            let output = Output::text(frame, shown.text, cut);
            let size = scale.measure(&output);
            let items_dropped = shown.total - shown.lines.iter().map(ExactSizeIterator::len).sum::<usize>();
            self.report.budget = Some(BudgetReport { items_dropped, ..trimmed(scale, size.bytes, original) });
            return Ok(self.finished(scale, output, size));
        }
        let whole = frame.cost(text.len(), Form::Text, cut);
        let Ok(output) = self.fitted(scale, |limit| {
            let mut cut = cut;
            let Some(limit) = limit.filter(|limit| !whole.fits(*limit)) else {
                return Ok::<_, Infallible>(Fitted { output: Output::text(frame, text.clone(), cut), budget: None });
            };
            let room = |cut| limit.0.saturating_sub(frame.cost(0, Form::Text, cut).counted().0);
            let mut fitted = fit_text(&text, room(cut));
            cut.strings = fitted.as_ref().is_some_and(|fitted| fitted.shortened);
            if cut.strings {
                fitted = fit_text(&text, room(cut));
            }
            let text = fitted.map_or_else(|| text.clone(), |fitted| fitted.text);
            let after = frame.cost(text.len(), Form::Text, cut);
            let budget = BudgetReport {
                result: after.counted(),
                strings_truncated: usize::from(cut.strings),
                ..BudgetReport::new(limit, whole.counted())
            };
            Ok(Fitted { output: Output::text(frame, text, cut), budget: Some(budget) })
        });
        Ok(output)
    }

    /// Returns the lines that the call asks for, and what is left out.
    fn window_of_lines(&self, text: &str) -> (String, Cut<'static>) {
        let body = text.strip_suffix('\n').unwrap_or(text);
        let starts: Vec<usize> =
            std::iter::once(0).chain(memchr_iter(b'\n', body.as_bytes()).map(|at| at + 1)).collect();
        let window = self.call.page.window(starts.len());
        let start = starts.get(window.start).copied().unwrap_or(body.len());
        let end = starts.get(window.end).map_or(body.len(), |next| next - 1);
        let more = self.call.inputs.window && window.end < starts.len();
        let cut = Cut {
            items: answer::Items::cut(window.len(), starts.len()),
            next: more.then_some(window.end),
            ..Cut::default()
        };
        (body[start.min(end)..end].to_owned(), cut)
    }

    /// Returns the lines of both ends that fit, and those that match `boost`.
    fn both_ends(
        &self,
        settings: &Settings<'p>,
        text: &str,
        boost: Option<&Patterns>,
        cut: Cut<'_>,
    ) -> Option<fit::Shown> {
        let Settings { frame, scale, .. } = *settings;
        let tokens = |bytes: usize| scale.budget.tokens.map(|_| Tokens(bytes.div_ceil(LINE_BYTES_PER_TOKEN)));
        let weight = |bytes: usize| scale.share(Size { bytes: Bytes(bytes), tokens: tokens(bytes) });
        let most_bytes = [
            scale.budget.bytes.map_or(usize::MAX, |bytes| bytes.0),
            scale.budget.tokens.map_or(usize::MAX, |tokens| tokens.0.saturating_mul(MOST_BYTES_PER_TOKEN)),
        ];
        let most_bytes = most_bytes.into_iter().min().unwrap_or(usize::MAX);
        let budget = fit::LineBudget { limit: Scale::WHOLE, weight: &weight, most_bytes };
        let mut measure = |shown: &str| {
            let share = scale.share(scale.measure(&Output::text(frame, shown.to_owned(), cut)));
            (!self.work.is_interrupted()).then_some(share)
        };
        fit::head_tail(text, boost, budget, &mut measure, self.work)
    }
}
