//! Stage 10 for answers that are rows of text: chooses what is shown of them, with an index of the rest.
//!
//! Rows are the lines of a text (`super::lines`), or the lines that `compact` renders of items (`super::compact_rows`).
//! What they have in common with lists of JSON is in `pages`; a list is in `super::list`.

use std::borrow::Cow;
use std::ops::Range;

use super::finish::{Settings, trimmed};
use super::row_pages::{Fitted, MOST_CHUNKS, Paging};
use super::row_weights::RowWeights;
use super::{Failure, Run};
use crate::answer::{Cut, Items, Output, cut_to};
use crate::fit::{Chosen, Measure};
use crate::json::{self, Node};
use crate::pages::{Division, Page, PageError, Summaries};
use crate::{BudgetReport, Structured};

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
    pub(super) fn all(rows: Range<usize>) -> Self {
        let rows = if rows.is_empty() { Vec::new() } else { vec![rows] };
        Self { rows, within: None, cut: Shortened::No }
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.iter().map(Range::len).sum()
    }

    pub(super) fn is_cut(&self) -> bool {
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

    /// Cuts a text that was written to at most `most` bytes.
    fn cut(&self, text: String, most: usize) -> String {
        cut_to(&text, most)
    }

    /// Returns the text of an answer without its rows, at its longest.
    fn edges(&self) -> String;

    /// Returns the line that stands between two rows for `count` others that are left out.
    fn gap(&self, count: usize) -> Option<String>;

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
    fn identity(&self) -> (&'static str, Vec<Cow<'_, str>>);
}

/// Returns the beginning of a row as a JSON string for a summary.
pub(super) fn summary_node(row: &str) -> Node<'static> {
    Node::String(json::encode(&row[..row.floor_char_boundary(SUMMARY_BYTES)]).into())
}

impl<'p> Run<'p> {
    /// Answers with rows, or with the page of them that the call asks for.
    ///
    /// # Errors There is no chunk of the number that the call asks for.
    pub(super) fn rows(&mut self, settings: &Settings<'p>, rows: &dyn Rows) -> Result<Output, Failure> {
        let scale = settings.scale;
        let window = self.call.page.window(rows.len());
        let paging = Paging::new(self.call, self.work, settings, rows);
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
                    let window = self.call.inputs.window;
                    return Err(Self::no_page(PageError::TooMany { chunk: number, most: MOST_CHUNKS, window }));
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
