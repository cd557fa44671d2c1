//! Stage 10 for text: fits lines into the budget.

use std::borrow::Cow;
use std::ops::Range;

use super::finish::{List, Settings};
use super::row_weights::RowWeights;
use super::rows::{Part, Rows, summary_node};
use super::text_form::Around;
use super::{Failure, Run};
use crate::Structured;
use crate::answer::{Cut, Items, Output, Scale, cut_to};
use crate::fit::{Chosen, LineBudget, Measure, Strategy, both_ends, first_lines};
use crate::format::Format;
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
        let rows = Lines { settings: &settings, lines: &lines, around: None, weights, work: self.work };
        self.rows(&settings, &rows)
    }

    /// Encodes an object with text, within the budget: its lines are those of the text, and its other members stay. If
    /// these take more than half of the budget, the object is cut as any other.
    ///
    /// # Errors There is no chunk of the number that the call asks for.
    pub(super) fn lines_in(&mut self, around: &Around, text: &str, branch: &'p Branch) -> Result<Output, Failure> {
        let object = around.with(text);
        self.report.result_bytes = object.len();
        let object = match self.plain(Some(branch), object) {
            Ok(output) => return Ok(output),
            Err(object) => object,
        };
        let settings = self.settings(Some(branch));
        let bare = Output::json(settings.frame, around.with(""), Cut::default(), self.work);
        if settings.scale.share(settings.scale.measure(&bare)) > Scale::WHOLE / 2 {
            return self.json(object, List::None, Some(branch));
        }
        if !matches!(self.call.page, Page::Window { .. }) {
            let (format, written) = self.written_as(&settings, &object, 0..object.len());
            if let Ok(output) = self.measured(settings.scale, settings.output(format, written, Cut::default())) {
                self.call.page.of_one_chunk().map_err(Self::no_page)?;
                self.report.format = Some(format);
                return Ok(output);
            }
        }
        let lines = Numbered::new(text, self.work);
        let weights = RowWeights::new(settings.scale, lines.text(), lines.places(0), true);
        let rows = Lines { settings: &settings, lines: &lines, around: Some(around), weights, work: self.work };
        self.report.format = Some(Format::Json);
        self.rows(&settings, &rows)
    }
}

/// The lines of a text.
struct Lines<'r, 'p> {
    settings: &'r Settings<'p>,
    lines: &'r Numbered<'r>,
    /// What is around the text, if it is a member of an object.
    around: Option<&'r Around>,
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
        match self.around {
            Some(around) => around.with(&out),
            None => out,
        }
    }

    fn cut(&self, text: String, most: usize) -> String {
        match self.around {
            Some(around) => around.within(text, most),
            None => cut_to(&text, most),
        }
    }

    fn edges(&self) -> String {
        self.around.map_or_else(String::new, |around| around.with(""))
    }

    fn gap(&self, count: usize) -> Option<String> {
        Some(left_out(count))
    }

    /// Which lines of a whole text a budget leaves out, the text says itself.
    fn left_out(&self, part: &Part) -> Option<Items> {
        let all = 0..self.lines.len();
        Items::cut(part.len(), all.end).filter(|_| part.within.as_ref() != Some(&all))
    }

    fn structured(&self, _: &str, members: &str) -> Structured {
        match self.is_structured() {
            true => Structured::Text { members: members.to_owned() },
            false => Structured::None,
        }
    }

    fn is_structured(&self) -> bool {
        self.around.is_some() && self.settings.frame.structured
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
        let text = Cow::Borrowed(self.lines.text());
        match self.around {
            Some(Around { head, tail }) => ("raw", vec![Cow::Borrowed(head.as_str()), Cow::Borrowed(tail), text]),
            None => ("text", vec![text]),
        }
    }
}
