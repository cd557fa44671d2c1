//! `greedy` and `fair`: steps from form to form, the best first.

use std::collections::BinaryHeap;

use super::candidates::{Selection, View};
use super::hull::{Ladder, Next};
use crate::work::Work;

/// Takes steps by value gained for weight added, the best first, and skips those that do not fit into `budget`; or
/// begins with the most valuable form that fits, if that alone is worth more than all steps together.
///
/// The result is worth at least half of the optimum, and falls short of the optimum of the fractional problem (items
/// may be shown in part) by less than the value of one item. Both hold for the first step that does not fit: the
/// steps before it and a part of it are the fractional optimum.
pub(super) fn greedy(view: View<'_>, budget: u64, work: &Work<'_>) -> Selection {
    let mut selection = Selection::none(view.len());
    let ladder = Ladder::new(view, &selection, budget, work);
    fill(view, &ladder, &mut selection, 0..view.len(), budget, work);
    let Some((item, form, alone)) = most_valuable(view, budget, work) else { return selection };
    if alone <= selection.sum(view.candidates).value {
        return selection;
    }
    let mut selection = Selection::none(view.len());
    selection.set(item, Some(form));
    let room = budget - view.candidates.forms(item)[form].weight;
    fill(view, &ladder, &mut selection, (0..view.len()).filter(|other| *other != item), room, work);
    selection
}

/// Returns the form with the greatest value among those that fit into `budget`, with that value.
fn most_valuable(view: View<'_>, budget: u64, work: &Work<'_>) -> Option<(usize, usize, u64)> {
    let mut best: Option<(usize, usize, (u64, u64))> = None;
    for item in 0..view.len() {
        let _ = work.spend_unbounded(1);
        for (number, form) in view.forms(item).filter(|(_, form)| form.weight <= budget) {
            // The earlier item and the richer form come first, and stay.
            let rank = (form.value, u64::MAX - form.weight);
            if best.is_none_or(|(_, _, least)| rank > least) {
                best = Some((item, number, rank));
            }
        }
    }
    best.map(|(item, form, (value, _))| (item, form, value))
}

/// Gives each group a share of `budget` in proportion to the value of its items in full, takes steps within the
/// group, and gives the rest of all shares to the best steps of all.
pub(super) fn fair(view: View<'_>, budget: u64, work: &Work<'_>) -> Selection {
    let worth = |item: usize| view.richest(item).map_or(0, |(_, form)| u128::from(form.value));
    let mut by_group: Vec<u32> = (0..u32::try_from(view.len()).unwrap_or(u32::MAX)).collect();
    by_group.sort_by_key(|item| view.candidates.group(*item as usize));
    let total: u128 = (0..view.len()).map(worth).sum();
    let mut selection = Selection::none(view.len());
    let ladder = Ladder::new(view, &selection, budget, work);
    let mut left = budget;
    for group in by_group.chunk_by(|a, b| view.candidates.group(*a as usize) == view.candidates.group(*b as usize)) {
        let items = group.iter().map(|item| *item as usize);
        let share = u128::from(budget) * items.clone().map(worth).sum::<u128>() / total.max(1);
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        left -= share - fill(view, &ladder, &mut selection, items, share, work);
    }
    top_up(view, &mut selection, left, work);
    selection
}

/// Takes the steps from `selection` on that fit into `room`, the best first.
pub(super) fn top_up(view: View<'_>, selection: &mut Selection, room: u64, work: &Work<'_>) {
    let ladder = Ladder::new(view, selection, room, work);
    fill(view, &ladder, selection, 0..view.len(), room, work);
}

/// Takes the steps of `items` that fit into `room`, the best first. Returns the rest of `room`.
///
/// `ladder` holds the steps from what `selection` shows of `items`. Takes n log n comparisons.
fn fill(
    view: View<'_>,
    ladder: &Ladder,
    selection: &mut Selection,
    items: impl Iterator<Item = usize>,
    mut room: u64,
    work: &Work<'_>,
) -> u64 {
    let first: Vec<Next> = items.filter_map(|item| ladder.first(view, selection, item)).collect();
    let mut steps = BinaryHeap::from(first);
    // A step that does not fit ends its item: the richer forms weigh more.
    while ladder.lightest <= room
        && let Some(next) = steps.pop()
        && work.spend_unbounded(1)
    {
        if next.step.added > room {
            continue;
        }
        room -= next.step.added;
        selection.set(next.step.item as usize, Some(next.step.to as usize));
        steps.extend(ladder.after(view, selection, next));
    }
    room
}
