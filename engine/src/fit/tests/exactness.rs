//! Limits that are met exactly, although the measure is not the sum of the weights.

use proptest::prelude::*;

use super::*;
use crate::fit::choose::Stepped;
use crate::fit::{Algorithm, FURTHER, Fitted, exact, most_measures};

/// An answer of parts that influence each other: a frame, a ratio between weights and the measure, a noise that each
/// selection has of its own, and a discount where all items take the same form.
#[derive(Debug, Clone, Copy)]
struct Answer {
    frame: u64,
    percent: u64,
    noise: u64,
    discount: u64,
}

impl Answer {
    fn measure(self, selection: &Selection, candidates: &Candidates) -> u64 {
        let sum = selection.sum(candidates).weight * self.percent / 100;
        let mut forms = selection.iter().map(|(_, form)| form);
        let first = forms.next();
        let uniform = forms.all(|form| Some(form) == first);
        let noise = selection.iter().fold(7_u64, |hash, (item, form)| {
            (hash ^ (item as u64 * 31 + form as u64)).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
        });
        // A single item is measured by its weight alone, so that the lightest one has the smallest measure.
        let noise = if selection.shown() < 2 { 0 } else { noise % (1 + sum * self.noise / 100) };
        let discount = if uniform && selection.shown() > 1 { sum * self.discount / 100 } else { 0 };
        self.frame + sum + noise - discount
    }
}

fn answers() -> impl Strategy<Value = Answer> {
    let part = (0_u64..300, prop_oneof![Just(100_u64), 10_u64..250], prop_oneof![Just(0_u64), 0_u64..30], 0_u64..50);
    part.prop_map(|(frame, percent, noise, discount)| Answer { frame, percent, noise, discount })
}

/// Runs [`exact`], and returns what was measured on the way.
fn fit(problem: Problem<'_>, limit: u64, answer: Answer) -> (Fitted, Vec<(Selection, u64)>) {
    let mut log = Vec::new();
    let mut measure = |selection: &Selection| {
        let measured = answer.measure(selection, problem.candidates);
        log.push((selection.clone(), measured));
        Some(measured)
    };
    let fitted = exact(problem, limit, &mut measure, &Work::unlimited());
    (fitted, log)
}

proptest! {
    #[test]
    fn what_is_returned_fits_if_an_item_can(
        items in items(1..40, 3),
        groups in vec(0_u32..4, 40),
        answer in answers(),
        limit in 1_u64..12_000,
        uniform: bool,
    ) {
        let mut candidates = candidates(&items);
        candidates.set_groups(groups[..items.len()].to_vec());
        for algorithm in Algorithm::ALL {
            let problem = Problem { candidates: &candidates, algorithm, uniform };
            let (fitted, log) = fit(problem, limit, answer);
            prop_assert!(log.len() <= most_measures(candidates.forms_in_all()), "{}", log.len());
            prop_assert_eq!(&fit(problem, limit, answer), &(fitted.clone(), log.clone()), "a second run");
            let measured = answer.measure(&fitted.selection, &candidates);
            prop_assert_eq!(fitted.measured, Some(measured));
            prop_assert!(fitted.selection.shown() > 0);
            let least = items.iter().flatten().map(|(_, weight)| weight * answer.percent / 100).min().unwrap_or(0);
            prop_assert_eq!(measured <= limit, answer.frame + least <= limit, "{} {}", algorithm, measured);
            let forms: Vec<usize> = fitted.selection.iter().map(|(_, form)| form).collect();
            prop_assert!(!uniform || forms.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", forms);
            if measured <= limit {
                // Nothing better was tried that would have fitted.
                let better = |selection: &Selection| {
                    selection.sum(&candidates).value > fitted.selection.sum(&candidates).value
                };
                for (selection, measured) in &log {
                    prop_assert!(!better(selection) || *measured > limit, "{:?} would have fitted", selection);
                }
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_step_that_fits_is_left_where_weights_add_up(
        items in items(1..40, 3),
        limit in 1_u64..12_000,
        frame in 0_u64..4_000,
    ) {
        let candidates = candidates(&items);
        let answer = Answer { frame, percent: 100, noise: 0, discount: 0 };
        for algorithm in Algorithm::ALL {
            let problem = Problem { candidates: &candidates, algorithm, uniform: false };
            let (Fitted { selection, measured }, log) = fit(problem, limit, answer);
            let Some(room) = measured.and_then(|measured| limit.checked_sub(measured)) else { continue };
            let work = Work::unlimited();
            let mut further = problem.further(&selection, room, &work);
            let step = further.step(&mut selection.clone(), |_| Some(false));
            prop_assert!(log.len() >= FURTHER || matches!(step, Stepped::None), "{} {:?}", algorithm, selection);
        }
    }

    #[test]
    fn nearly_all_of_the_limit_is_used(
        weights in vec(20_u64..60, 300..600),
        answer in answers(),
        levels: bool,
    ) {
        let items: Vec<Item> = weights
            .into_iter()
            .map(|weight| if levels { vec![(1_000_000, weight), (400_000, weight / 3)] } else { vec![(1_000_000, weight)] })
            .collect();
        let answer = Answer { noise: answer.noise.min(1), discount: 0, ..answer };
        let candidates = candidates(&items);
        for algorithm in Algorithm::ALL {
            let problem = Problem { candidates: &candidates, algorithm, uniform: false };
            let (fitted, _) = fit(problem, 8_000, answer);
            let measured = fitted.measured.unwrap_or(0);
            prop_assert!(measured * 100 >= 8_000 * 97 || fitted.selection.is_complete(), "{algorithm} {measured}");
        }
    }
}

#[test]
fn a_sum_of_weights_needs_few_measures() {
    let items: Vec<Item> = (0..1_000).map(|i| vec![(1_000_000 - i * 700, 90 + i % 40), (400_000, 30)]).collect();
    let candidates = candidates(&items);
    let answer = Answer { frame: 120, percent: 30, noise: 0, discount: 0 };
    for algorithm in Algorithm::ALL {
        let (fitted, log) = fit(Problem { candidates: &candidates, algorithm, uniform: false }, 8_000, answer);
        let used = fitted.measured.unwrap_or(0);
        assert!((7_900..=8_000).contains(&used) && log.len() <= 4 + FURTHER, "{algorithm} {used} {}", log.len());
    }
}

#[test]
fn an_interrupted_measure_ends_the_search() {
    let items: Vec<Item> = vec![vec![(1, 10)]; 100];
    let candidates = candidates(&items);
    let problem = Problem { candidates: &candidates, algorithm: Algorithm::Greedy, uniform: false };
    for last in 0..30 {
        let mut count = 0;
        let mut measure = |selection: &Selection| {
            count += 1;
            (count <= last).then(|| 13 + selection.sum(&candidates).weight * 17 / 10)
        };
        let fitted = exact(problem, 300, &mut measure, &Work::unlimited());
        assert!(fitted.measured.is_none() || count <= last);
        assert!(count <= last + 1);
    }
}

#[test]
fn lists_that_give_no_hint() {
    let work = Work::unlimited();
    let alike: Vec<Item> = vec![vec![(1_000_000, 2)]; 10_000];
    let huge: Vec<Item> = (0..100).map(|i| vec![(1_000_000, if i == 40 { 10 << 20 } else { 50 })]).collect();
    let worthless: Vec<Item> = vec![vec![(0, 5), (0, 2)]; 50];
    for (items, limit, fits, least) in [
        (&alike, 1_000, true, 480),
        (&alike, 1, false, 1),
        (&huge, 1_000, true, 19),
        (&huge, 1 << 40, true, 100),
        (&worthless, 100, true, 1),
        (&Vec::new(), 100, true, 0),
        (&alike, 0, false, 1),
    ] {
        let candidates = candidates(items);
        for algorithm in Algorithm::ALL {
            let problem = Problem { candidates: &candidates, algorithm, uniform: false };
            let mut measure = |selection: &Selection| Some(2 + selection.sum(&candidates).weight);
            let fitted = exact(problem, limit, &mut measure, &work);
            let measured = fitted.measured.unwrap_or(u64::MAX);
            assert_eq!(measured <= limit, fits, "{algorithm} {limit}");
            let shown = fitted.selection.shown();
            assert!(shown >= least && (fits || shown == 1), "{algorithm} {limit} {shown}");
        }
    }
}
