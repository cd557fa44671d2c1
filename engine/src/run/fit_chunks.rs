//! Divides what an answer leaves out of a list, by the weights of the items.

use super::fit_list::Fit;
use super::list::added;
use super::row_pages::{MOST_NUMBERS, NUMBERS};
use super::weigh::Nearness;
use crate::answer::{self, Cut, Scale};
use crate::pages::{Division, Room, divide};

/// The items of a chunk that are measured, at most.
const PROBED: usize = 256;

/// The tokens that an item takes less in a list than by itself, at most.
const MET: u128 = 2;

/// What the items of chunks take of the budget.
struct Rest {
    room: Room,
    /// What items take that weigh `sum`, if that is more.
    taken: u64,
    sum: u64,
}

impl Fit<'_, '_, '_> {
    /// Divides the list, of which an answer shows `selection`.
    pub(super) fn divide(&self, selection: &crate::fit::Selection) -> Division {
        self.divided(selection, true)
    }

    /// Divides the list as [`Self::divide`] does, but takes the weights of items for what they take. So a chunk may not
    /// fit: only the size of an index is learned from it.
    pub(super) fn divide_roughly(&self, selection: &crate::fit::Selection) -> Division {
        self.divided(selection, false)
    }

    fn divided(&self, selection: &crate::fit::Selection, is_measured: bool) -> Division {
        let shown = self.shown(selection);
        let Rest { room, taken, sum } = self.rest(&shown, is_measured);
        let weight = |item: usize| {
            let weight = (u128::from(self.weight(item)) * u128::from(taken)).div_ceil(u128::from(sum));
            u64::try_from(weight).unwrap_or(u64::MAX)
        };
        divide(self.items.len(), self.window.clone(), &shown, weight, room, self.run.work)
    }

    /// Returns what an item weighs in full.
    fn weight(&self, item: usize) -> u64 {
        self.candidates.forms(item - self.window.start)[0].weight
    }

    /// Measures an answer with one item, and if `is_measured` is set one with about as many as a chunk has, to learn what
    /// chunks take besides the weights of their items.
    fn rest(&self, shown: &[usize], is_measured: bool) -> Rest {
        let scale = self.settings.scale;
        let mut left = shown.iter().copied().peekable();
        let others = self.window.clone().filter(|item| left.next_if_eq(item).is_none());
        // A heavy item is not counted to its end.
        let probe: Vec<usize> = others.filter(|item| self.weight(*item) <= Scale::WHOLE / 2).take(PROBED).collect();
        let line = self.line();
        let line = line.as_deref();
        let Some(one) = probe.first().map(std::slice::from_ref) else {
            let capacity = Scale::WHOLE.saturating_sub(line.map_or(0, |line| scale.share(added(&scale, line))));
            return Rest { room: Room::from(capacity.max(1)), taken: 1, sum: 1 };
        };
        let of_one = |line| self.measured(one, line).saturating_sub(self.weight(one[0]));
        let without = of_one(None).saturating_add(Scale::WHOLE / 4);
        // A line that takes more than a quarter of the budget is left out.
        let around = of_one(line).min(without);
        let around_all = around.saturating_add(scale.rounding());
        let nearness = self.nearness();
        let capacity = Scale::WHOLE.saturating_sub(around_all);
        let capacity = match nearness {
            Nearness::Exact => capacity,
            Nearness::Each => capacity / 32 * 31,
            Nearness::Estimated => capacity / 16 * 15,
        };
        let numbers = |text: &str| scale.text_share(text, (0, 0));
        let digits = "0".repeat(self.items.len().to_string().len());
        let runs = numbers(&NUMBERS.repeat(MOST_NUMBERS)).min(without.saturating_sub(around));
        let run = numbers(&format!(",{digits}-{digits}")).min(runs);
        let room = Room { run, runs, ..Room::from(capacity.max(1)) };
        let (mut sum, mut items) = (0_u64, 0);
        for item in &probe {
            let more = sum.saturating_add(self.weight(*item));
            if more > capacity {
                break;
            }
            (sum, items) = (more, items + 1);
        }
        let rest = Rest { room, taken: 1, sum: 1 };
        if nearness == Nearness::Exact || items < 2 || !is_measured {
            return rest;
        }
        let taken = self.measured(&probe[..items], line).saturating_sub(around);
        match nearness {
            _ if taken > sum => Rest { taken, sum: sum.max(1), ..rest },
            Nearness::Each => {
                // At most the tokens that two items share where they meet. What is more is the form of these items, such
                // as a table, and other chunks may have none.
                let all_less = sum - taken;
                let less = (all_less / items as u64).min(scale.tokens_share(MET, 1));
                Rest { room: Room { less, all_less, ..room }, ..rest }
            }
            Nearness::Exact | Nearness::Estimated => rest,
        }
    }

    /// Returns the share that an answer with these items takes, with the line of a chunk.
    fn measured(&self, items: &[usize], line: Option<&str>) -> u64 {
        let (json, list) = self.items.only(items.iter().copied());
        // An interrupted run has no result.
        let Some((format, text)) = self.write(&json, list) else { return Scale::WHOLE };
        let total = self.items.before();
        let shown = self.items.len().min(total.saturating_sub(1));
        let cut = Cut { items: Some(answer::Items { shown, total }), index: line, ..Cut::default() };
        self.settings.scale.answer_share(&self.settings.output(format, text, cut))
    }

    /// Returns the line of a chunk with one run of items, at its longest, if answers have it.
    fn line(&self) -> Option<String> {
        let all = self.items.len();
        let line = || format!("[chunks] chunk {all} of {all}, items {all}-{all} of {all}. List 000000.");
        self.settings.frame.notice.then(line)
    }
}
