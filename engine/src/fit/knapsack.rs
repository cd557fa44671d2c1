//! `knapsack`: the exact optimum, by dynamic programming over the weight.

use super::candidates::{Selection, View};
use crate::work::Work;

/// The parts of the budget to which weights are rounded up.
pub(super) const PARTS: u64 = 4096;
/// The forms of a list for which the optimum is computed. The time is [`PARTS`] operations for each form, and the
/// memory as many bits.
pub(super) const MOST_FORMS: usize = 1024;
/// The largest value of a form: the values of all forms and the weights fit into one number.
const MOST_VALUE: u64 = 1 << 39;

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
    let weight = |own: u64| {
        let rounded = (u128::from(own) * u128::from(parts)).div_ceil(u128::from(budget));
        usize::try_from(rounded).unwrap_or(usize::MAX)
    };
    let room = usize::try_from(parts).unwrap_or(0);
    let fitting = |item: usize| view.forms(item).map(|(_, form)| weight(form.weight)).filter(|weight| *weight <= room);
    // By item, the least room that the items before it may leave.
    let mut least = Vec::with_capacity(view.len() + 1);
    least.push(room);
    for item in 0..view.len() {
        let heaviest = fitting(item).max().unwrap_or(0);
        least.push(least[item].saturating_sub(heaviest));
    }
    // By room, the rank of the best selection of the items from `item` on that fits into it.
    let mut best = vec![0_i64; room + 1];
    let mut without = best.clone();
    let mut taken = Taken::new(view.candidates.forms_in_all(), room + 1);
    // Backwards, so that the choice below begins with the earliest item.
    let mut row = view.candidates.forms_in_all();
    for item in (0..view.len()).rev() {
        row -= view.candidates.forms(item).len();
        without[least[item + 1]..].copy_from_slice(&best[least[item + 1]..]);
        // From poor to rich, so that the richer of two equal forms is taken last, and stays.
        for (number, form) in view.forms(item).rev() {
            let weight = weight(form.weight);
            if weight > room || !work.spend_unbounded(1 + room / 16) {
                continue;
            }
            let from = weight.max(least[item]);
            let without = &without[from - weight..=room - weight];
            taken.improve(row + number, from, &mut best[from..], without, rank(form.value, weight));
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

/// Returns the rank of a form. The greater rank is better: more value, then less weight. Weights add up to at most
/// [`PARTS`], so ranks add up too.
fn rank(value: u64, weight: usize) -> i64 {
    let rank = u128::from(value.min(MOST_VALUE)) * u128::from(2 * PARTS);
    i64::try_from(rank).unwrap_or(i64::MAX).saturating_sub_unsigned(weight as u64)
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

    /// Raises each of `best` to the one of `without` plus `rank`, unless that is less, and marks the columns of `row`
    /// where it was not. `start` is the column of the first of `best`.
    fn improve(&mut self, row: usize, start: usize, best: &mut [i64], without: &[i64], rank: i64) {
        let words = &mut self.words[row * self.per_row..(row + 1) * self.per_row];
        let (mut best, mut without, mut column) = (best, without, start);
        while !best.is_empty() {
            let (word, shift) = (column / 64, column % 64);
            let (block, rest) = best.split_at_mut(best.len().min(64 - shift));
            let (before, later) = without.split_at(block.len());
            let mut bits = 0;
            for (at, (best, without)) in block.iter_mut().zip(before).enumerate() {
                let with = without + rank;
                bits |= u64::from(with >= *best) << at;
                *best = with.max(*best);
            }
            words[word] |= bits << shift;
            column += block.len();
            (best, without) = (rest, later);
        }
    }

    fn has(&self, row: usize, column: usize) -> bool {
        self.words[row * self.per_row + column / 64] >> (column % 64) & 1 == 1
    }
}
