//! Chooses items and forms for estimated weights (`filters.md`, "Choosing").

use std::fmt;
use std::str::FromStr;

use super::candidates::{Candidates, Form, Selection, View};
use super::hull::{best_step, steps_taken};
use super::{ends, greedy, knapsack};
use crate::work::Work;

/// How items are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// The exact optimum for weights that are rounded up to a 4,096th of the budget, and then as `Greedy` with what
    /// rounding leaves over. For lists of more than 1,024 forms the same as `Greedy`.
    Knapsack,
    /// The best step by value for its weight, again and again.
    Greedy,
    /// As `Greedy`, within a share of the budget for each group.
    Fair,
    /// From both ends.
    HeadTail,
}

impl Algorithm {
    /// All algorithms.
    pub(crate) const ALL: [Self; 4] = [Self::Knapsack, Self::Greedy, Self::Fair, Self::HeadTail];

    /// Returns the name of the algorithm in documents and reports.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Knapsack => "knapsack",
            Self::Greedy => "greedy",
            Self::Fair => "fair",
            Self::HeadTail => "head_tail",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Algorithm {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name).ok_or(())
    }
}

/// What may be chosen, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Problem<'c> {
    /// The items.
    pub(crate) candidates: &'c Candidates,
    /// How items are chosen.
    pub(crate) algorithm: Algorithm,
    /// Whether all items that are shown take the same form, as in a table.
    pub(crate) uniform: bool,
}

/// Chooses items and forms whose weights fit into `budget`. One item stays if there is any: if no form fits, the
/// lightest one.
///
/// With `uniform`, chooses for each form the best items, and takes the form of the greatest value.
///
/// The time is linear in the forms but for the sorting of steps, n log n; `knapsack` takes 4,096 operations for each
/// of at most 1,024 forms.
pub(crate) fn choose(problem: Problem<'_>, budget: u64, work: &Work<'_>) -> Selection {
    let Problem { candidates, algorithm, uniform } = problem;
    let forms = match uniform {
        false => vec![None],
        true => {
            let most = (0..candidates.len()).map(|item| candidates.forms(item).len()).max();
            (0..most.unwrap_or(0)).map(Some).collect()
        }
    };
    let mut best: Option<(Form, Selection)> = None;
    for only in forms {
        let selection = within(View { candidates, only }, algorithm, budget, work);
        let sum = selection.sum(candidates);
        if selection.shown() > 0 && best.as_ref().is_none_or(|(least, _)| is_better(sum, *least)) {
            best = Some((sum, selection));
        }
    }
    best.map_or_else(|| lightest(problem.all(), work), |(_, selection)| selection)
}

/// Returns whether a selection of value and weight `one` is better than that of `other`.
pub(super) fn is_better(one: Form, other: Form) -> bool {
    (one.value, other.weight) > (other.value, one.weight)
}

impl<'c> Problem<'c> {
    /// Returns all forms.
    pub(super) fn all(self) -> View<'c> {
        View { candidates: self.candidates, only: None }
    }

    /// Returns the forms that may change in `selection`: with `uniform`, only its own.
    pub(super) fn view(self, selection: &Selection) -> View<'c> {
        let shown = selection.iter().next().map(|(_, form)| form);
        View { candidates: self.candidates, only: shown.filter(|_| self.uniform) }
    }

    /// Returns what `selection` becomes when its steps are undone, worst first: for each step the item, and the form
    /// before the step.
    pub(super) fn undo(self, selection: &Selection, work: &Work<'_>) -> Vec<(usize, Option<usize>)> {
        let view = self.view(selection);
        if self.algorithm == Algorithm::HeadTail {
            let order = ends::Order::new(view, selection.sum(self.candidates).weight, work);
            return order
                .items()
                .rev()
                .filter(|item| selection.form(*item).is_some())
                .map(|item| (item, None))
                .collect();
        }
        let mut steps = steps_taken(view, selection, work);
        // Within an item the steps are in their order, and a later one never ranks above an earlier one.
        steps.sort_by(|a, b| b.cmp(a));
        let mut before = Selection::none(view.len());
        let undone = steps.iter().map(|step| {
            let item = step.item as usize;
            let from = before.form(item);
            before.set(item, Some(step.to as usize));
            (item, from)
        });
        let mut undone: Vec<_> = undone.collect();
        undone.reverse();
        undone
    }

    /// Returns the steps from `selection` on that add at most `room` to its weight.
    pub(super) fn further(self, selection: &Selection, room: u64, work: &'c Work<'c>) -> Further<'c> {
        let view = self.view(selection);
        let order = (self.algorithm == Algorithm::HeadTail).then(|| {
            let weight = selection.sum(self.candidates).weight;
            ends::Order::new(view, weight.saturating_add(room), work)
        });
        Further { view, order, room, work }
    }
}

/// The steps that could still be taken.
pub(super) struct Further<'c> {
    view: View<'c>,
    /// The items in the order of `head_tail`. Without it, the best step is the one that gains most for its weight.
    order: Option<ends::Order>,
    /// What a step may add to the weight: less than any step that did not fit.
    room: u64,
    work: &'c Work<'c>,
}

impl Further<'_> {
    /// Takes the best step that adds less than every step that did not fit, if `fits` returns `true` for the result.
    /// `fits` returns `None` when the run is interrupted. The time is linear in the forms.
    pub(super) fn step(&mut self, selection: &mut Selection, fits: impl FnOnce(&Selection) -> Option<bool>) -> Stepped {
        let of = |item: usize| {
            let _ = self.work.spend_unbounded(1);
            best_step(self.view, selection, item, self.room)
        };
        let best = match &self.order {
            None => (0..self.view.len()).filter_map(of).max(),
            Some(order) => order.items().find_map(of),
        };
        let Some(step) = best else { return Stepped::None };
        let item = step.item as usize;
        let before = selection.form(item);
        selection.set(item, Some(step.to as usize));
        match fits(selection) {
            Some(true) => {}
            Some(false) => {
                selection.set(item, before);
                self.room = step.added.saturating_sub(1);
            }
            None => return Stepped::Interrupted,
        }
        Stepped::Tried
    }
}

/// What became of a further step.
pub(super) enum Stepped {
    /// It was tried, and kept if it fits.
    Tried,
    /// There is none.
    None,
    /// The run was interrupted.
    Interrupted,
}

/// Returns the choice of an algorithm: nothing if no form fits.
fn within(view: View<'_>, algorithm: Algorithm, budget: u64, work: &Work<'_>) -> Selection {
    match algorithm {
        Algorithm::Knapsack if view.candidates.forms_in_all() <= knapsack::MOST_FORMS => {
            let mut selection = knapsack::knapsack(view, budget, work);
            // Rounded weights leave something over.
            let room = budget - selection.sum(view.candidates).weight;
            greedy::top_up(view, &mut selection, room, work);
            selection
        }
        Algorithm::Knapsack | Algorithm::Greedy => greedy::greedy(view, budget, work),
        Algorithm::Fair => greedy::fair(view, budget, work),
        Algorithm::HeadTail => ends::head_tail(view, budget, work),
    }
}

/// Returns the selection of the lightest form of all: of equal ones more value, then the earlier item.
pub(super) fn lightest(view: View<'_>, work: &Work<'_>) -> Selection {
    let forms = (0..view.len()).filter_map(|item| {
        let _ = work.spend_unbounded(1);
        view.lightest(item).map(|(number, form)| (item, number, form))
    });
    single(view, forms.min_by_key(|(_, _, form)| (form.weight, u64::MAX - form.value)))
}

/// Returns the selection of the item that is worth most in full, in its lightest form: it stays where no item fits,
/// and is cut.
pub(super) fn most_valuable(view: View<'_>, work: &Work<'_>) -> Selection {
    let items = (0..view.len()).filter_map(|item| {
        let _ = work.spend_unbounded(1);
        let (_, richest) = view.richest(item)?;
        let (number, form) = view.lightest(item)?;
        Some((item, number, Form { value: richest.value, weight: form.weight }))
    });
    single(view, items.min_by_key(|(_, _, form)| (u64::MAX - form.value, form.weight)))
}

fn single(view: View<'_>, chosen: Option<(usize, usize, Form)>) -> Selection {
    let mut selection = Selection::none(view.len());
    if let Some((item, number, _)) = chosen {
        selection.set(item, Some(number));
    }
    selection
}
