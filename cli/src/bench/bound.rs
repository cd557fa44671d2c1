//! The greatest value that a budget could show if items could be divided: what a choice is compared with.

/// One way to show an item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Form {
    /// In millionths of an ordinary item.
    pub(super) value: u64,
    /// In tokens.
    pub(super) weight: f64,
}

/// A part of the way from nothing to the richest form of an item.
#[derive(Debug, Clone, Copy)]
struct Step {
    gain: f64,
    added: f64,
}

impl Step {
    /// Returns whether it gains more for its weight than `other`.
    fn is_denser(self, other: Self) -> bool {
        self.gain * other.added > other.gain * self.added
    }
}

/// Returns the value of the fractional optimum within `budget` tokens: no choice of whole items that weigh so much shows
/// more (Dantzig's bound, for several forms of an item).
///
/// `items` has the forms of each item, in any order.
pub(super) fn fractional_optimum(items: &[Vec<Form>], budget: f64) -> f64 {
    let mut steps: Vec<Step> = items.iter().flat_map(|forms| hull(forms)).collect();
    // Along the hull of one item the density falls, so its steps stay in their order.
    steps.sort_by(|a, b| (b.gain * a.added).total_cmp(&(a.gain * b.added)));
    let (mut value, mut left) = (0.0, budget);
    for Step { gain, added } in steps {
        if added > left {
            return value + gain * left.max(0.0) / added;
        }
        value += gain;
        left -= added;
    }
    value
}

/// Returns the steps along the upper hull of value over weight.
#[expect(clippy::cast_precision_loss, reason = "see `fractional_optimum`")]
fn hull(forms: &[Form]) -> Vec<Step> {
    let mut sorted: Vec<Form> = forms.to_vec();
    sorted.sort_by(|a, b| a.weight.total_cmp(&b.weight).then(a.value.cmp(&b.value)));
    let (mut at, mut steps) = (Form { value: 0, weight: 0.0 }, Vec::<Step>::new());
    for form in sorted {
        if form.value <= at.value {
            continue;
        }
        let mut step = Step { gain: (form.value - at.value) as f64, added: (form.weight - at.weight).max(1e-9) };
        while let Some(before) = steps.last().copied().filter(|before| step.is_denser(*before)) {
            step = Step { gain: step.gain + before.gain, added: step.added + before.added };
            steps.pop();
        }
        steps.push(step);
        at = form;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::{Form, fractional_optimum};

    fn forms(forms: &[(u64, f64)]) -> Vec<Form> {
        forms.iter().map(|&(value, weight)| Form { value, weight }).collect()
    }

    #[test]
    fn the_densest_steps_come_first() {
        let items = [forms(&[(10, 10.0)]), forms(&[(9, 3.0)]), forms(&[(8, 8.0), (6, 2.0)])];
        for (budget, best) in
            [(0.0, 0.0), (1.0, 3.0), (5.0, 15.0), (10.0, 20.0), (15.0, 25.0), (21.0, 27.0), (99.0, 27.0)]
        {
            let found = fractional_optimum(&items, budget);
            assert!((found - best).abs() < 1e-6, "{budget}: {found}");
        }
    }

    /// Every choice of whole forms is within the bound: all of them, for small lists.
    #[test]
    fn no_choice_of_whole_items_is_better() {
        let mut state = 7_u64;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % limit
        };
        for _ in 0..300 {
            let items: Vec<Vec<Form>> = (0..4)
                .map(|_| (0..3).map(|_| Form { value: below(50), weight: 1.0 + below(20) as f64 }).collect())
                .collect();
            let budget = below(60) as f64;
            let bound = fractional_optimum(&items, budget);
            for choice in 0..4_usize.pow(4) {
                let chosen =
                    items.iter().enumerate().filter_map(|(i, forms)| forms.get(choice / 4_usize.pow(i as u32) % 4));
                let (value, weight) = chosen.fold((0, 0.0), |(v, w), form| (v + form.value, w + form.weight));
                assert!(weight > budget || value as f64 <= bound + 1e-6, "{items:?} {budget}: {value} > {bound}");
            }
        }
    }
}
