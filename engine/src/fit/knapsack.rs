//! `knapsack`: the exact optimum, by dynamic programming over the weight.

use super::candidates::{Selection, View};
use crate::work::Work;

/// The parts of the budget to which weights are rounded up.
pub(super) const PARTS: u64 = 4096;
/// The forms of a list for which the optimum is computed. The time is [`PARTS`] operations for each form, and the
/// memory as many bits.
pub(super) const MOST_FORMS: usize = 2048;

/// Returns the selection of the greatest value among those whose weights, each rounded up to a 4,096th of `budget`,
/// fit into it; of equal ones that with less of these weights, then that with the earlier item, then that with the
/// richer form.
///
/// A budget of less than 4,096 is not divided: weights are then exact.
pub(super) fn knapsack(view: View<'_>, budget: u64, work: &Work<'_>) -> Selection {
    if budget == 0 {
        return Selection::none(view.len());
    }
    let parts = PARTS.min(budget);
    let weight = |weight: u64| u128::from(weight) * u128::from(parts);
    let weight = |own: u64| usize::try_from(weight(own).div_ceil(u128::from(budget))).unwrap_or(usize::MAX);
    let room = usize::try_from(parts).unwrap_or(0);
    // By room, the rank of the best selection of the items from `item` on that fits into it: more value, then less
    // weight. Weights are at most 4,096, so the ranks of selections add up.
    let scale = i64::try_from(2 * PARTS).unwrap_or(0);
    let rank = |value: u64, weight: usize| {
        let value = i64::try_from(value).unwrap_or(i64::MAX).saturating_mul(scale);
        value.saturating_sub_unsigned(weight as u64)
    };
    let mut best = vec![0_i64; room + 1];
    let mut without = best.clone();
    let mut taken = Taken::new(view.candidates.forms_in_all(), room + 1);
    // Backwards, so that the choice below begins with the earliest item.
    let mut row = view.candidates.forms_in_all();
    for item in (0..view.len()).rev() {
        without.copy_from_slice(&best);
        row -= view.candidates.forms(item).len();
        // From poor to rich, so that the richer of two equal forms is taken last, and stays.
        for (number, form) in view.forms(item).rev() {
            let weight = weight(form.weight);
            if weight > room || !work.spend_unbounded(1 + room / 8) {
                continue;
            }
            let rank = rank(form.value, weight);
            taken.mark(row + number, weight, best[weight..].iter_mut().zip(&without), |(best, without)| {
                let with = without.saturating_add(rank);
                let better = with >= *best;
                *best = if better { with } else { *best };
                better
            });
        }
    }
    let mut selection = Selection::none(view.len());
    let mut left = room;
    let mut row = 0;
    for item in 0..view.len() {
        let form = view.forms(item).find(|(number, _)| taken.has(row + number, left));
        if let Some((number, form)) = form {
            selection.set(item, Some(number));
            left -= weight(form.weight);
        }
        row += view.candidates.forms(item).len();
    }
    selection
}

/// By form and room, whether the form was taken: a bit each.
struct Taken {
    words: Vec<u64>,
    per_row: usize,
}

impl Taken {
    fn new(rows: usize, columns: usize) -> Self {
        let per_row = columns.div_ceil(64);
        Self { words: vec![0; rows * per_row], per_row }
    }

    /// Marks the columns of a row, from `start` on, for which `is_taken` holds.
    fn mark<T>(
        &mut self,
        row: usize,
        start: usize,
        cells: impl Iterator<Item = T>,
        mut is_taken: impl FnMut(T) -> bool,
    ) {
        let words = &mut self.words[row * self.per_row..(row + 1) * self.per_row];
        for (at, cell) in cells.enumerate().map(|(offset, cell)| (start + offset, cell)) {
            words[at / 64] |= u64::from(is_taken(cell)) << (at % 64);
        }
    }

    fn has(&self, row: usize, column: usize) -> bool {
        self.words[row * self.per_row + column / 64] >> (column % 64) & 1 == 1
    }
}
