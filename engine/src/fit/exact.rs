//! Meets a limit exactly, although weights are estimates (`filters.md`, "Exactness").

use super::candidates::{Form, Selection};
use super::choose::{Problem, Stepped, choose, is_better, lightest, most_valuable};
use crate::work::Work;

/// The choices that are made and measured before single steps are.
pub(crate) const ROUNDS: usize = 4;
/// The further steps that are tried in the end.
pub(crate) const FURTHER: usize = 16;
/// The use of the limit, in percent, with which a choice is good enough.
const ENOUGH: u64 = 97;

/// A selection, and what it was measured to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fitted {
    pub(crate) selection: Selection,
    /// The measure of the selection; `None` if the run was interrupted.
    pub(crate) measured: Option<u64>,
}

/// Chooses items and forms whose measure is at most `limit`.
///
/// `measure` writes the answer with a selection, and counts all of it in the unit of `limit`; it returns `None` when
/// the run is interrupted. What it measures does not have to be the sum of the weights, nor to grow with the selection.
///
/// 1. Up to [`ROUNDS`] times: choose, measure, and correct the budget of the choice by the ratio of the two.
/// 2. If the best choice uses less than 97 % of the limit, or exceeds it, steps of the choice that exceeds it least
///    are undone, worst first: twice as many each time until the rest fits, and then as few as possible, by halving.
/// 3. Then the lightest form alone. If that does not fit, the result is the lightest form of the most valuable item,
///    which exceeds the limit, and which the caller cuts.
/// 4. Up to [`FURTHER`] further steps are tried, the best first. Each that fits is kept. A step is not tried if its
///    weight exceeds the rest of the limit by more than a quarter of it and a 512th of the limit, or if a step of no
///    more weight did not fit.
///
/// So the result fits if the lightest form fits alone. The number of measures is at most [`most_measures`].
pub(crate) fn exact(
    problem: Problem<'_>,
    limit: u64,
    measure: &mut dyn FnMut(&Selection) -> Option<u64>,
    work: &Work<'_>,
) -> Fitted {
    let mut search = Search { problem, limit, measure, work, best: None, over: None };
    match search.run() {
        Some(()) => {}
        None => {
            let selection =
                search.best.map_or_else(|| Selection::none(problem.candidates.len()), |best| best.selection);
            return Fitted { selection, measured: None };
        }
    }
    match search.best {
        Some(Measured { selection, measured, sum: _ }) => Fitted { selection, measured: Some(measured) },
        None => {
            let selection = most_valuable(problem.all(), work);
            let measured = (search.measure)(&selection);
            Fitted { selection, measured }
        }
    }
}

/// Returns how often [`exact`] measures at most, for candidates of `forms` forms in all.
#[cfg(test)]
pub(crate) fn most_measures(forms: usize) -> usize {
    // Growing and halving each take a measure for each power of two of the steps.
    let undo = 2 * (forms + 1).next_power_of_two().ilog2() as usize;
    // Two single forms.
    ROUNDS + undo + 2 + FURTHER
}

#[derive(Debug, Clone)]
struct Measured {
    selection: Selection,
    sum: Form,
    measured: u64,
}

struct Search<'s> {
    problem: Problem<'s>,
    limit: u64,
    measure: &'s mut dyn FnMut(&Selection) -> Option<u64>,
    work: &'s Work<'s>,
    /// The best selection that fits.
    best: Option<Measured>,
    /// The selection that exceeds the limit least.
    over: Option<Measured>,
}

impl Search<'_> {
    /// Returns `None` if the run was interrupted.
    fn run(&mut self) -> Option<()> {
        self.rounds()?;
        let enough = |best: &Measured| best.selection.is_complete() || self.is_used(best.measured);
        if !self.best.as_ref().is_some_and(enough)
            && let Some(over) = self.over.take()
        {
            self.undo(&over)?;
        }
        if self.best.is_none() {
            self.try_out(lightest(self.problem.all(), self.work))?;
        }
        self.further()
    }

    /// Measures `selection`, and keeps it if it is the best so far on its side of the limit. Returns the measure.
    fn try_out(&mut self, selection: Selection) -> Option<u64> {
        let measured = (self.measure)(&selection)?;
        let sum = selection.sum(self.problem.candidates);
        let found = Measured { selection, sum, measured };
        if measured > self.limit {
            if self.over.as_ref().is_none_or(|over| measured < over.measured) {
                self.over = Some(found);
            }
        } else if self.best.as_ref().is_none_or(|best| is_better(sum, best.sum)) {
            self.best = Some(found);
        }
        Some(measured)
    }

    /// Returns whether nearly all of the limit is used.
    fn is_used(&self, measured: u64) -> bool {
        u128::from(measured) * 100 >= u128::from(self.limit) * u128::from(ENOUGH)
    }

    fn rounds(&mut self) -> Option<()> {
        // Aim a little below the limit: a choice that exceeds it has to be undone step by step.
        let aim = self.limit - self.limit / 128;
        let mut budget = self.limit;
        // Budgets whose choices fit, and do not fit.
        let (mut below, mut above) = (0, u64::MAX);
        let mut tried: Vec<Form> = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let selection = choose(self.problem, budget, self.work);
            let (sum, complete) = (selection.sum(self.problem.candidates), selection.is_complete());
            if tried.contains(&sum) {
                break;
            }
            tried.push(sum);
            let measured = self.try_out(selection)?;
            let fits = measured <= self.limit;
            if fits && (complete || self.is_used(measured)) {
                break;
            }
            if fits {
                below = below.max(budget);
            } else {
                above = above.min(budget);
            }
            let corrected = u128::from(sum.weight) * u128::from(aim) / u128::from(measured.max(1));
            budget = u64::try_from(corrected).unwrap_or(u64::MAX);
            if fits && budget <= below {
                // By the ratio of this choice, no larger one fits.
                break;
            }
            if budget <= below || budget >= above {
                // The ratio differs between choices.
                budget = below + (above - below) / 2;
            }
        }
        Some(())
    }

    /// Undoes steps of `over` until the rest fits: twice as many each time, and then as few as possible. One item
    /// stays. Takes two measures for each power of two of the steps.
    fn undo(&mut self, over: &Measured) -> Option<()> {
        let steps = self.problem.undo(&over.selection, self.work);
        let without = |count: usize| {
            let mut selection = over.selection.clone();
            for &(item, form) in &steps[..count] {
                selection.set(item, form);
            }
            selection
        };
        // `fits` steps are enough and `exceeds` are too few, as far as more steps make the answer smaller.
        let (mut exceeds, mut fits) = (0, steps.len());
        let mut count = 1;
        while count < steps.len() {
            if self.try_out(without(count))? <= self.limit {
                fits = count;
                break;
            }
            exceeds = count;
            count *= 2;
        }
        while exceeds + 1 < fits {
            let middle = exceeds + (fits - exceeds) / 2;
            if self.try_out(without(middle))? <= self.limit {
                fits = middle;
            } else {
                exceeds = middle;
            }
        }
        Some(())
    }

    /// Tries further steps from the best selection.
    fn further(&mut self) -> Option<()> {
        let Some(best) = &mut self.best else { return Some(()) };
        if best.selection.is_complete() {
            return Some(());
        }
        // The weight that the rest of the limit stands for, and a little more: the weight of a single step may be too
        // large by a quarter, and the answer says less about what it leaves out. A sum below the measure says nothing
        // about a step, since the difference may be what surrounds the items.
        let rest = self.limit - best.measured;
        let rest =
            u128::from(rest + rest / 4 + self.limit / 512) * u128::from(best.sum.weight.max(best.measured).max(1));
        let room = u64::try_from(rest.div_ceil(u128::from(best.measured.max(1)))).unwrap_or(u64::MAX);
        let mut steps = self.problem.further(&best.selection, room, self.work);
        for _ in 0..FURTHER {
            let mut measured = best.measured;
            let fits = |selection: &Selection| {
                let count = (self.measure)(selection)?;
                if count <= self.limit {
                    measured = count;
                }
                Some(count <= self.limit)
            };
            match steps.step(&mut best.selection, fits) {
                Stepped::Tried => best.measured = measured,
                Stepped::None => break,
                Stepped::Interrupted => return None,
            }
        }
        Some(())
    }
}
