//! Stage 10 for text: fits lines into the budget.

use std::borrow::Cow;
use std::ops::Range;

use super::finish::Settings;
use super::row_weights::RowWeights;
use super::rows::{Part, Rows, summary_node};
use super::{Failure, Run};
use crate::Structured;
use crate::answer::{Cut, Items, Output};
use crate::fit::{Chosen, LineBudget, Measure, Strategy, both_ends, first_lines};
use crate::json::Node;
use crate::pages::{Page, Summaries};
use crate::program::Branch;
use crate::text::{Numbered, left_out};
use crate::work::Work;

/// More bytes than nearly all tokens have: what a budget in tokens can hold at most.
const MOST_BYTES_PER_TOKEN: usize = 32;
/// What the items of a text are called.
const NOUN: &str = "lines";

impl<'p> Run<'p> {
    /// Encodes text, within the budget. The items of a page are its lines.
    ///
    /// # Errors There is no chunk of the number that the call asks for.
    pub(super) fn lines(&mut self, text: String, branch: Option<&'p Branch>) -> Result<Output, Failure> {
        let settings = self.settings(branch);
        let text = match self.call.page {
            Page::Window { .. } => text,
            Page::All | Page::Chunk(_) => {
                match self.measured(settings.scale, Output::text(settings.frame, text, Cut::default())) {
                    Ok(output) => {
                        self.call.page.of_one_chunk().map_err(Self::no_page)?;
                        return Ok(output);
                    }
                    Err(output) => output.text,
                }
            }
        };
        let lines = Numbered::new(&text, self.work);
        let weights = RowWeights::new(settings.scale, lines.text(), lines.places(0), false);
        let rows = Lines { settings: &settings, lines: &lines, weights, work: self.work };
        self.rows(&settings, &rows)
    }
}

/// The lines of a text.
struct Lines<'r, 'p> {
    settings: &'r Settings<'p>,
    lines: &'r Numbered<'r>,
    weights: RowWeights<'r>,
    work: &'r Work<'r>,
}

impl Rows for Lines<'_, '_> {
    fn len(&self) -> usize {
        self.lines.len()
    }

    fn places(&self, first: usize) -> Box<dyn Iterator<Item = Range<usize>> + '_> {
        Box::new(self.lines.places(first))
    }

    fn weights(&self) -> &RowWeights<'_> {
        &self.weights
    }

    fn write(&self, part: &Part, cut: Option<&dyn Fn(&str) -> String>) -> String {
        let mut out = String::new();
        self.lines.write(&part.rows, part.within.as_ref(), cut, &mut out);
        out
    }

    fn edges(&self) -> String {
        String::new()
    }

    fn gap(&self, count: usize) -> Option<String> {
        Some(left_out(count))
    }

    /// Which lines of a whole text a budget leaves out, the text says itself.
    fn left_out(&self, part: &Part) -> Option<Items> {
        let all = 0..self.lines.len();
        Items::cut(part.len(), all.end).filter(|_| part.within.as_ref() != Some(&all))
    }

    fn structured(&self, _: &str, _: &str) -> Structured {
        Structured::None
    }

    fn is_structured(&self) -> bool {
        false
    }

    fn choose(&self, window: &Range<usize>, limit: u64, measure: Measure<'_>) -> Option<Chosen> {
        let Settings { scale, program, .. } = self.settings;
        let most_bytes = [
            scale.budget.bytes.map_or(usize::MAX, |bytes| bytes.0),
            scale.budget.tokens.map_or(usize::MAX, |tokens| tokens.0.saturating_mul(MOST_BYTES_PER_TOKEN)),
        ];
        let most_bytes = most_bytes.into_iter().min().unwrap_or(usize::MAX);
        let weight = |number: usize, place: &Range<usize>| self.weights.of(number, place);
        let budget = LineBudget { limit, weight: &weight, most_bytes };
        match &program.fit.strategy {
            Strategy::HeadTail { boost } => both_ends(self.lines, window, boost.as_deref(), budget, measure, self.work),
            _ => first_lines(self.lines, window, budget, measure, self.work),
        }
    }

    fn stays(&self, window: &Range<usize>) -> usize {
        window.start
    }

    fn summaries(&self) -> Summaries<'_> {
        self.settings.program.chunks.of(NOUN)
    }

    fn node(&self, row: usize) -> Node<'_> {
        summary_node(&self.lines.text()[self.lines.place(row)])
    }

    fn identity(&self) -> (&'static str, Vec<Cow<'_, str>>) {
        ("text", vec![Cow::Borrowed(self.lines.text())])
    }
}
