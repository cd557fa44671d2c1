//! The algorithms, for weights that add up.

use proptest::prelude::*;

use super::*;
use crate::fit::Algorithm;
use crate::fit::candidates::View;
use crate::fit::knapsack::knapsack;

/// The best of all selections that fit: more value, then less weight, then the earlier item, then the richer form.
/// `weight` gives the weight that counts.
fn exhaustive(items: &[Item], room: u64, weight: &dyn Fn(u64) -> u64) -> (u64, u64, Vec<Option<usize>>) {
    let Some((first, rest)) = items.split_first() else { return (0, 0, Vec::new()) };
    let mut best: Option<(u64, u64, Vec<Option<usize>>)> = None;
    let forms = first.iter().enumerate().map(|(form, &(value, own))| (Some(form), value, weight(own)));
    for (form, value, own) in forms.chain([(None, 0, 0)]).filter(|(_, _, own)| *own <= room) {
        let (below_value, below_weight, below) = exhaustive(rest, room - own, weight);
        let (value, own) = (value + below_value, own + below_weight);
        // What comes first, the richest form, stays.
        if best.as_ref().is_none_or(|(v, w, _)| value > *v || (value == *v && own < *w)) {
            let chosen = [form].into_iter().chain(below).collect();
            best = Some((value, own, chosen));
        }
    }
    best.expect("nothing always fits")
}

fn assert_knapsack_is_exact(items: &[Item], budget: u64) {
    let rounded = |weight: u64| if budget < 4096 { weight } else { (weight * 4096).div_ceil(budget) };
    let (value, weight, chosen) = exhaustive(items, budget.min(4096), &rounded);
    let candidates = candidates(items);
    let selection = knapsack(View { candidates: &candidates, only: None }, budget, &Work::unlimited());
    assert_eq!(selection.sum(&candidates).value, value);
    assert_eq!((0..items.len()).map(|item| selection.form(item)).collect::<Vec<_>>(), chosen);
    assert!(weight <= 4096 && selection.sum(&candidates).weight <= budget);
    // What rounding leaves over is used too.
    let problem = Problem { candidates: &candidates, algorithm: Algorithm::Knapsack, uniform: false };
    let topped_up = choose(problem, budget);
    assert!(topped_up.sum(&candidates).value >= value);
    assert!(budget >= 4096 || selection.shown() == 0 || topped_up == selection);
}

proptest! {
    #[test]
    fn knapsack_is_the_best_of_all_selections(items in items(0..7, 3), budget in 0_u64..12_000) {
        assert_knapsack_is_exact(&items, budget);
    }
}

proptest! {
    // The search goes through up to 16 million selections.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn knapsack_is_the_best_of_all_selections_of_twelve_items(items in items(12, 3), budget in 1_u64..9_000) {
        assert_knapsack_is_exact(&items, budget);
    }
}

/// The fractional optimum exceeds `bound` by no price for the weight: at a price, an item is worth its value less its
/// weight, and the budget its price. Every price gives an upper bound, and the least of them is the optimum.
fn fractional_optimum_is_at_most(bound: u64, items: &[Item], budget: u64) -> bool {
    let points: Vec<(i128, i128)> =
        items.iter().flatten().chain([&(0, 0)]).map(|&(v, w)| (i128::from(v), i128::from(w))).collect();
    let prices = points.iter().flat_map(|a| points.iter().map(move |b| (a.0 - b.0, a.1 - b.1)));
    let mut prices = prices.filter(|(value, weight)| *value > 0 && *weight > 0).chain([(0, 1)]);
    prices.any(|(value, weight)| {
        let surplus = |item: &Item| {
            let best = item.iter().map(|&(v, w)| i128::from(v) * weight - i128::from(w) * value).max();
            best.unwrap_or(0).max(0)
        };
        value * i128::from(budget) + items.iter().map(surplus).sum::<i128>() <= i128::from(bound) * weight
    })
}

proptest! {
    #[test]
    fn greedy_keeps_half_of_the_optimum_and_all_but_an_item_of_the_fractional_one(
        items in items(1..7, 3),
        budget in 1_u64..12_000,
    ) {
        let candidates = candidates(&items);
        let selection = choose(Problem { candidates: &candidates, algorithm: Algorithm::Greedy, uniform: false }, budget);
        // A form that does not fit alone is none.
        let items: Vec<Item> =
            items.into_iter().map(|item| item.into_iter().filter(|(_, weight)| *weight <= budget).collect()).collect();
        let (optimum, _, _) = exhaustive(&items, budget, &|weight| weight);
        let sum = selection.sum(&candidates);
        prop_assume!(optimum > 0);
        prop_assert!(sum.weight <= budget);
        prop_assert!(2 * sum.value >= optimum, "{} of {optimum}", sum.value);
        let most = items.iter().flatten().map(|(value, _)| *value).max().unwrap_or(0);
        prop_assert!(fractional_optimum_is_at_most(sum.value + most, &items, budget));
    }

    #[test]
    fn no_algorithm_exceeds_the_budget_unless_a_single_item_does(
        items in items(1..30, 4),
        groups in vec(0_u32..4, 30),
        budget in 0_u64..12_000,
        uniform: bool,
    ) {
        let mut candidates = candidates(&items);
        candidates.set_groups(groups[..items.len()].to_vec());
        for algorithm in Algorithm::ALL {
            let problem = Problem { candidates: &candidates, algorithm, uniform };
            let selection = choose(problem, budget);
            prop_assert_eq!(&selection, &choose(problem, budget), "a second run");
            prop_assert!(selection.shown() > 0);
            let least = items.iter().flatten().map(|(_, weight)| *weight).min().unwrap_or(0);
            let weight = selection.sum(&candidates).weight;
            prop_assert!(weight <= budget || (selection.shown() == 1 && weight == least && least > budget), "{algorithm}");
            let forms: Vec<usize> = selection.iter().map(|(_, form)| form).collect();
            prop_assert!(!uniform || forms.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", forms);
        }
    }
}

#[test]
fn what_each_algorithm_shows() {
    let plain = |values: &[u64]| -> Vec<Item> { values.iter().map(|&value| vec![(value, 10)]).collect() };
    let cases: [(Algorithm, Vec<Item>, u64, &str); 17] = [
        (Algorithm::Knapsack, plain(&[1, 2, 3, 4]), 20, "--00"),
        (Algorithm::Knapsack, plain(&[1, 1, 1, 1]), 20, "00--"),
        (Algorithm::Knapsack, plain(&[1]), 5, "0"),
        (Algorithm::Knapsack, plain(&[]), 5, ""),
        // The optimum: the two lighter items, not the densest one.
        (Algorithm::Knapsack, vec![vec![(60, 6)], vec![(45, 5)], vec![(45, 5)]], 10, "-00"),
        (Algorithm::Greedy, vec![vec![(60, 6)], vec![(45, 5)], vec![(45, 5)]], 10, "0--"),
        // One item alone is worth more than the denser one.
        (Algorithm::Greedy, vec![vec![(3, 1)], vec![(100, 100)]], 100, "-0"),
        (Algorithm::Greedy, plain(&[1, 2, 3, 4]), 25, "--00"),
        // All take a level before one is full: a level gives more for its weight.
        (Algorithm::Greedy, vec![vec![(10, 10), (7, 4)]; 4], 16, "1111"),
        (Algorithm::Greedy, vec![vec![(10, 10), (7, 4)]; 4], 22, "0111"),
        // A level on the line below its neighbours is passed over.
        (Algorithm::Greedy, vec![vec![(10, 10), (5, 9), (4, 4)]; 2], 14, "02"),
        (Algorithm::HeadTail, plain(&[1; 10]), 100, "0000000000"),
        (Algorithm::HeadTail, plain(&[1; 10]), 50, "0-----0000"),
        (Algorithm::HeadTail, plain(&[1; 10]), 10, "---------0"),
        // An item that is worth more than an ordinary one comes first, the latest first, up to half of the budget.
        (Algorithm::HeadTail, plain(&[1, 1, 2_000_000, 2_000_000, 1, 1, 1, 1]), 40, "--00--00"),
        (Algorithm::HeadTail, plain(&[1, 2_000_000, 2_000_000, 2_000_000, 1, 1, 1, 1]), 40, "--00--00"),
        // An item that is larger than the budget does not end its side.
        (Algorithm::HeadTail, vec![vec![(1, 500)], vec![(1, 10)], vec![(1, 10)], vec![(1, 10)]], 30, "-000"),
    ];
    for (algorithm, items, budget, expected) in cases {
        let candidates = candidates(&items);
        let problem = Problem { candidates: &candidates, algorithm, uniform: false };
        assert_eq!(shown(&choose(problem, budget), items.len()), expected, "{algorithm} {items:?} {budget}");
    }
}

#[test]
fn fair_gives_each_group_a_share_by_its_value() {
    let equal: Vec<Item> = vec![vec![(100, 10)]; 9];
    for (values, groups, budget, expected) in [
        // Three equal groups, three items of budget for each.
        (&equal, [0, 0, 0, 1, 1, 1, 2, 2, 2], 30, "0--0--0--"),
        (&equal, [0, 0, 0, 1, 1, 1, 2, 2, 2], 60, "00-00-00-"),
        // A group of six gets two thirds.
        (&equal, [0, 0, 0, 0, 0, 0, 1, 1, 1], 30, "00----0--"),
        // What a share leaves over goes to the best of all.
        (&equal, [0, 0, 0, 1, 1, 1, 2, 2, 2], 40, "00-0--0--"),
        // Where every share is too small for an item, the best items of all.
        (&equal, [0, 1, 2, 3, 4, 5, 6, 7, 8], 20, "00-------"),
    ] {
        let mut candidates = candidates(values);
        candidates.set_groups(groups.to_vec());
        let selection = choose(Problem { candidates: &candidates, algorithm: Algorithm::Fair, uniform: false }, budget);
        assert_eq!(shown(&selection, 9), expected, "{groups:?} {budget}");
    }
}

#[test]
fn a_table_takes_the_form_that_keeps_most_value() {
    for (items, budget, expected) in [
        (vec![vec![(10, 10), (7, 6), (4, 2)]; 4], 8, "2222"),
        (vec![vec![(10, 10), (7, 6), (4, 2)]; 4], 24, "1111"),
        (vec![vec![(10, 10), (7, 6), (4, 2)]; 4], 40, "0000"),
        // Of equal values the smaller weight wins.
        (vec![vec![(4, 4), (2, 1)], vec![(4, 4), (2, 1)]], 4, "11"),
        // An item without the form is left out.
        (vec![vec![(10, 10), (7, 2)], vec![(10, 10)], vec![(10, 10), (7, 2)]], 5, "1-1"),
    ] {
        let candidates = candidates(&items);
        for algorithm in [Algorithm::Knapsack, Algorithm::Greedy, Algorithm::Fair] {
            let selection = choose(Problem { candidates: &candidates, algorithm, uniform: true }, budget);
            assert_eq!(shown(&selection, items.len()), expected, "{algorithm} {items:?} {budget}");
        }
    }
}

#[test]
fn large_lists_take_steps_in_proportion_to_their_length() {
    let steps = |count: usize| {
        let items: Vec<Item> = (0..count).map(|i| vec![(1_000_000, 300 + i as u64 % 7), (400_000, 40)]).collect();
        let candidates = candidates(&items);
        Algorithm::ALL.map(|algorithm| {
            let work = Work::unlimited();
            let problem = Problem { candidates: &candidates, algorithm, uniform: false };
            super::super::choose(problem, 28_000, &work);
            work.used()
        })
    };
    let (small, large) = (steps(2_000), steps(20_000));
    for (small, large) in small.into_iter().zip(large) {
        assert!(large <= 11 * small, "{small} {large}");
    }
}
