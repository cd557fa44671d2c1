//! The lines that `compact` renders, as rows: which of them a budget shows.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use super::finish::Settings;
use super::row_weights::RowWeights;
use super::rows::{Part, Rows, Shortened, summary_node};
use crate::Structured;
use crate::answer::Items;
use crate::fit::{Candidates, Chosen, Form, Measure, Problem, Selection, exact};
use crate::json::{self, Node};
use crate::pages::Summaries;
use crate::template::{CompactProgram, Counts, Meter, RenderError, Rendered, structured};
use crate::work::Work;

/// The lines of a summary. A strategy, and a summary that the filter names, read the items; everything else sees the
/// lines alone, since the templates hide what they do not print.
pub(super) struct CompactRows<'r, 'p, 'a> {
    settings: &'r Settings<'p>,
    program: &'p CompactProgram,
    lines: &'r Rendered,
    items: &'r [Node<'a>],
    /// The number of items before `maxItems`.
    total: usize,
    /// The bytes of the original output.
    original: usize,
    weights: OnceCell<RowWeights<'r>>,
    /// What the items of the last window are worth.
    worth: RefCell<Option<(Range<usize>, Rc<Worth>)>>,
    /// The limit that header or footer reached.
    failed: Cell<Option<RenderError>>,
    work: &'r Work<'r>,
}

/// What items are worth.
struct Worth {
    values: Vec<u64>,
    groups: Option<Vec<u32>>,
}

impl<'r, 'p, 'a> CompactRows<'r, 'p, 'a> {
    pub(super) fn new(
        settings: &'r Settings<'p>,
        program: &'p CompactProgram,
        lines: &'r Rendered,
        (items, total): (&'r [Node<'a>], usize),
        original: usize,
        work: &'r Work<'r>,
    ) -> Self {
        Self {
            settings,
            program,
            lines,
            items,
            total,
            original,
            weights: OnceCell::new(),
            worth: RefCell::new(None),
            failed: Cell::new(None),
            work,
        }
    }

    /// Returns the limit that header or footer reached, if they did.
    pub(super) fn failed(&self) -> Option<RenderError> {
        self.failed.get()
    }

    fn around(&self, lines: Option<&str>, counts: Counts) -> String {
        let mut meter = Meter::of(self.original, self.work);
        self.program.around(lines, counts, &mut meter).unwrap_or_else(|error| {
            self.failed.set(Some(error));
            String::new()
        })
    }

    /// Returns what the items of `window` are worth.
    fn worth(&self, window: &Range<usize>) -> Rc<Worth> {
        if let Some((of, worth)) = &*self.worth.borrow()
            && of == window
        {
            return Rc::clone(worth);
        }
        let program = &self.settings.program.fit;
        let items: Vec<String> = match program.reads_items() {
            true => self.items[window.clone()].iter().map(|item| json::to_string_within(item, self.work)).collect(),
            false => Vec::new(),
        };
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let lines = || window.clone().map(|row| self.lines.line(row)).collect::<Vec<_>>();
        let values = match program.strategy.reads_items() {
            true => program.values(&items, self.work),
            false => program.values(&lines(), self.work),
        };
        let worth = Rc::new(Worth { values, groups: program.groups(&items, self.work) });
        *self.worth.borrow_mut() = Some((window.clone(), Rc::clone(&worth)));
        worth
    }
}

impl Rows for CompactRows<'_, '_, '_> {
    fn len(&self) -> usize {
        self.lines.len()
    }

    fn places(&self, first: usize) -> Box<dyn Iterator<Item = Range<usize>> + '_> {
        Box::new((first..self.lines.len()).map(|row| self.lines.place(row)))
    }

    fn weights(&self) -> &RowWeights<'_> {
        self.weights.get_or_init(|| {
            RowWeights::new(self.settings.scale, self.lines.text(), self.places(0), self.is_structured())
        })
    }

    fn write(&self, part: &Part, cut: Option<&dyn Fn(&str) -> String>) -> String {
        // Where header and footer alone are too large, no item is shown.
        if let Shortened::Text(_) = part.cut {
            return self.around(None, Counts::of(self.total, 0));
        }
        let counts = Counts::of(self.total, part.len());
        let mut lines = String::new();
        for run in &part.rows {
            let open = if lines.is_empty() { "" } else { "\n" };
            lines.push_str(open);
            match cut {
                None => lines
                    .push_str(&self.lines.text()[self.lines.place(run.start).start..self.lines.place(run.end - 1).end]),
                Some(cut) => {
                    let cut: Vec<String> = run.clone().map(|row| cut(self.lines.line(row))).collect();
                    lines.push_str(&cut.join("\n"));
                }
            }
        }
        self.around((part.len() > 0).then_some(&lines), counts)
    }

    fn edges(&self) -> String {
        let count = self.lines.len().saturating_sub(1);
        self.around(None, Counts { total: self.total, count, remaining: self.total })
    }

    fn gap(&self, _: usize) -> Option<String> {
        None
    }

    fn left_out(&self, part: &Part) -> Option<Items> {
        let shown = if let Shortened::Text(_) = part.cut { 0 } else { part.len() };
        Items::cut(shown, self.total)
    }

    fn structured(&self, text: &str, members: &str) -> Structured {
        Structured::Json(structured(text, self.total, members))
    }

    fn is_structured(&self) -> bool {
        self.settings.frame.structured
    }

    fn choose(&self, window: &Range<usize>, limit: u64, measure: Measure<'_>) -> Option<Chosen> {
        let program = &self.settings.program.fit;
        let worth = self.worth(window);
        let mut candidates = Candidates::with_capacity(window.len(), 1);
        for (row, value) in window.clone().zip(&worth.values) {
            candidates.push([Form { value: *value, weight: self.weights().of(row, &self.lines.place(row)) }]);
        }
        if let Some(groups) = &worth.groups {
            candidates.set_groups(groups.clone());
        }
        let rows = |selection: &Selection| runs(selection.iter().map(|(item, _)| window.start + item));
        let mut measured = |selection: &Selection| measure(&rows(selection));
        let algorithm = program.algorithm(&candidates);
        let problem = Problem { candidates: &candidates, algorithm, uniform: false };
        let fitted = exact(problem, limit, &mut measured, self.work);
        let measured = fitted.measured.filter(|measured| *measured <= limit)?;
        Some((rows(&fitted.selection), measured))
    }

    /// The row that is worth most, of equal ones the one that weighs least.
    fn stays(&self, window: &Range<usize>) -> usize {
        let worth = self.worth(window);
        let rows = window.clone().zip(&worth.values);
        let rank =
            |(row, value): &(usize, &u64)| (u64::MAX - **value, self.weights().of(*row, &self.lines.place(*row)));
        rows.min_by_key(rank).map_or(window.start, |(row, _)| row)
    }

    fn summaries(&self) -> Summaries<'_> {
        self.settings.program.chunks.of_lines()
    }

    fn node(&self, row: usize) -> Node<'_> {
        if self.settings.program.chunks.reads_items() {
            return self.items[row].clone();
        }
        summary_node(self.lines.line(row))
    }

    fn identity(&self) -> (&'static str, Vec<Cow<'_, str>>) {
        let all = 0..self.lines.len();
        let lines = all.clone().map(|row| Cow::Borrowed(self.lines.line(row)));
        let edges = [Cow::Owned(self.edges())].into_iter();
        // Fields that are not printed may decide what is shown.
        let worth = self.settings.program.fit.reads_items().then(|| self.worth(&all));
        let worth = worth.map(|worth| {
            let groups = worth.groups.iter().flatten().map(|group| u64::from(*group));
            Cow::Owned(worth.values.iter().copied().chain(groups).map(|value| format!("{value},")).collect())
        });
        ("compact", edges.chain(lines).chain(worth).collect())
    }
}

/// Returns numbers, which ascend, as ranges that do not touch.
fn runs(numbers: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for number in numbers {
        match runs.last_mut().filter(|run| run.end == number) {
            Some(run) => run.end = number + 1,
            None => runs.push(number..number + 1),
        }
    }
    runs
}
