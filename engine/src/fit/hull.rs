//! The steps from form to form of an item, by value gained over weight added.

use std::cmp::{Ordering, Reverse};

use super::candidates::{Form, Selection, View};
use crate::work::Work;

/// One step: an item goes from one form, or from nothing, to a richer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) item: u32,
    /// The number of the form after the step.
    pub(super) to: u32,
    /// The value that the step adds.
    pub(super) gain: u64,
    /// The weight that the step adds.
    pub(super) added: u64,
}

impl Step {
    fn new(item: usize, to: u32, before: Form, after: Form) -> Self {
        Self { item: index(item), to, gain: after.value - before.value, added: after.weight - before.weight }
    }
}

// The greater step is taken first: more value for the weight, then more value, then less weight, then the earlier item.
impl Ord for Step {
    fn cmp(&self, other: &Self) -> Ordering {
        let product = |gain: u64, added: u64| u128::from(gain) * u128::from(added);
        product(self.gain, other.added)
            .cmp(&product(other.gain, self.added))
            .then(self.gain.cmp(&other.gain))
            .then(other.added.cmp(&self.added))
            .then(other.item.cmp(&self.item))
            .then(other.to.cmp(&self.to))
    }
}

impl PartialOrd for Step {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Finds the corners of the upper hull of value over weight, from light to heavy: the forms to which steps lead.
///
/// Between two corners every other form gives less value for its weight than a mixture of the two. Each corner gains
/// less for its weight than the one before, or, unless `strict`, as much.
fn corners(forms: impl Iterator<Item = (usize, Form)>, start: Form, strict: bool, out: &mut Vec<(usize, Form)>) {
    out.clear();
    out.extend(forms.filter(|(_, form)| form.weight > start.weight && form.value > start.value));
    // Of equal forms the richer, which has the smaller number, comes last and replaces the other.
    out.sort_unstable_by_key(|(number, form)| (form.weight, form.value, Reverse(*number)));
    let mut kept = 0;
    for at in 0..out.len() {
        let next = out[at];
        while kept > 0 {
            let before = if kept > 1 { out[kept - 2].1 } else { start };
            if is_corner(before, out[kept - 1].1, next.1, strict) {
                break;
            }
            kept -= 1;
        }
        if kept == 0 || next.1.value > out[kept - 1].1.value {
            out[kept] = next;
            kept += 1;
        }
    }
    out.truncate(kept);
}

/// Returns whether `middle` stays a corner before `next`, which weighs no less.
fn is_corner(before: Form, middle: Form, next: Form, strict: bool) -> bool {
    if next.value <= middle.value {
        return next.value < middle.value || next.weight > middle.weight;
    }
    let (gain, added) = (middle.value - before.value, middle.weight - before.weight);
    let (next_gain, next_added) = (next.value - middle.value, next.weight - middle.weight);
    let (first, second) = (u128::from(gain) * u128::from(next_added), u128::from(next_gain) * u128::from(added));
    first > second || (first == second && !strict)
}

/// The steps that lead from a selection to the richest forms.
#[derive(Debug)]
pub(super) struct Ladder {
    /// The numbers of the forms to which the steps lead, item by item.
    forms: Vec<u32>,
    /// By item, the end of its steps.
    ends: Vec<u32>,
    /// The least weight that a step adds.
    pub(super) lightest: u64,
}

/// A step that can be taken now, and its position in the ladder. The greatest is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Next {
    pub(super) step: Step,
    at: u32,
}

impl Ladder {
    /// Finds the steps from `selection`, as if there were no forms that add more than `room` to it.
    pub(super) fn new(view: View<'_>, selection: &Selection, room: u64, work: &Work<'_>) -> Self {
        let (forms, ends) = (Vec::with_capacity(view.len()), Vec::with_capacity(view.len()));
        let mut ladder = Self { forms, ends, lightest: u64::MAX };
        let mut buffer = Vec::new();
        for item in 0..view.len() {
            let _ = work.spend_unbounded(1 + view.candidates.forms(item).len());
            let now = selection.form(item);
            let start = form_of(view, item, now);
            let richer = view.forms(item).filter(|(number, _)| now.is_none_or(|now| *number < now));
            let fitting = richer.filter(|(_, form)| form.weight.saturating_sub(start.weight) <= room);
            corners(fitting, start, false, &mut buffer);
            let mut before = start;
            for &(number, form) in &buffer {
                ladder.lightest = ladder.lightest.min(form.weight - before.weight);
                ladder.forms.push(index(number));
                before = form;
            }
            ladder.ends.push(index(ladder.forms.len()));
        }
        ladder
    }

    /// Returns the first step of an item, from what `selection` shows of it.
    pub(super) fn first(&self, view: View<'_>, selection: &Selection, item: usize) -> Option<Next> {
        let at = item.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.step(view, selection, item, at)
    }

    /// Returns the step after `next`, which `selection` has taken.
    pub(super) fn after(&self, view: View<'_>, selection: &Selection, next: Next) -> Option<Next> {
        self.step(view, selection, next.step.item as usize, next.at + 1)
    }

    fn step(&self, view: View<'_>, selection: &Selection, item: usize, at: u32) -> Option<Next> {
        let to = if at < self.ends[item] { self.forms[at as usize] } else { return None };
        let before = form_of(view, item, selection.form(item));
        let after = view.candidates.forms(item)[to as usize];
        Some(Next { step: Step::new(item, to, before, after), at })
    }
}

/// Returns the step of an item that gains most for its weight, from what `selection` shows of it, among those that add
/// at most `room`.
pub(super) fn best_step(view: View<'_>, selection: &Selection, item: usize, room: u64) -> Option<Step> {
    let now = selection.form(item);
    let start = form_of(view, item, now);
    let richer = view.forms(item).filter(|(number, _)| now.is_none_or(|now| *number < now));
    let gaining = richer.filter(|(_, form)| form.value > start.value && form.weight > start.weight);
    let fitting = gaining.filter(|(_, form)| form.weight - start.weight <= room);
    fitting.map(|(number, form)| Step::new(item, index(number), start, form)).max()
}

/// Returns the steps that lead to what `selection` shows. Each step of an item ranks below the one before.
pub(super) fn steps_taken(view: View<'_>, selection: &Selection, work: &Work<'_>) -> Vec<Step> {
    let (mut steps, mut buffer) = (Vec::with_capacity(selection.shown()), Vec::new());
    for (item, shown) in selection.iter() {
        let _ = work.spend_unbounded(1 + view.candidates.forms(item).len());
        let last = view.candidates.forms(item)[shown];
        let poorer = |form: Form| form.weight < last.weight && form.value < last.value;
        let forms = view.forms(item).filter(|(number, form)| *number == shown || poorer(*form));
        corners(forms, NOTHING, true, &mut buffer);
        if buffer.is_empty() {
            // A form that is worth nothing is no corner.
            buffer.push((shown, last));
        }
        let mut before = NOTHING;
        for &(to, form) in &buffer {
            steps.push(Step::new(item, index(to), before, form));
            before = form;
        }
    }
    steps
}

/// The value and weight of an item that is left out.
const NOTHING: Form = Form { value: 0, weight: 0 };

fn form_of(view: View<'_>, item: usize, form: Option<usize>) -> Form {
    form.map_or(NOTHING, |form| view.candidates.forms(item)[form])
}

/// Returns a position as it is stored. There are fewer forms than bytes in a document.
fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
