mod choosing;
mod exactness;
mod forms;
mod lines;
mod ranking;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Candidates, Form, Problem, Selection};
use crate::work::Work;

/// An item with forms of these values and weights, from rich to poor.
type Item = Vec<(u64, u64)>;

fn candidates(items: &[Item]) -> Candidates {
    let mut candidates = Candidates::with_capacity(items.len(), 1);
    for item in items {
        candidates.push(item.iter().map(|&(value, weight)| Form { value, weight }));
    }
    candidates
}

/// The form of each item; `-` if it is left out.
fn shown(selection: &Selection, items: usize) -> String {
    (0..items).map(|item| selection.form(item).map_or("-".to_owned(), |form| form.to_string())).collect()
}

fn choose(problem: Problem<'_>, budget: u64) -> Selection {
    super::choose(problem, budget, &Work::unlimited())
}

/// Items of up to `forms` forms, with many ties.
fn items(items: impl Into<proptest::collection::SizeRange>, forms: usize) -> impl Strategy<Value = Vec<Item>> {
    let form = prop_oneof![(1_u64..8, 1_u64..8), (1_u64..2_000_000, 1_u64..3_000)];
    let forms = vec(form, 1..=forms).prop_map(|mut forms| {
        forms.sort_by_key(|(value, _)| std::cmp::Reverse(*value));
        forms
    });
    vec(forms, items)
}
