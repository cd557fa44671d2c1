//! Counts with a memo are those without.

use proptest::prelude::*;

use super::super::{Boundary, Tokenizer};
use super::{LEAST, LONGEST, MOST, Memo};
use crate::work::Work;

/// Counts runs of letters and digits, and all other characters.
#[derive(Debug)]
struct Runs;

impl Tokenizer for Runs {
    fn name(&self) -> &'static str {
        "runs"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str, most: usize, keep_going: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        if !keep_going(text.len()) {
            return None;
        }
        let mut before = None;
        let begins = text.chars().filter(|c| {
            let begins = !c.is_ascii_alphanumeric() || !before.is_some_and(|b: char| b.is_ascii_alphanumeric());
            before = Some(*c);
            begins
        });
        Some(begins.take(most.saturating_add(1)).count())
    }

    fn boundary(&self) -> Option<Boundary> {
        Some(|text, at| !text.as_bytes()[at].is_ascii_alphanumeric())
    }
}

/// Counts all characters, and knows no boundary.
#[derive(Debug)]
struct Characters;

impl Tokenizer for Characters {
    fn name(&self) -> &'static str {
        "characters"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str, _: usize, _: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        Some(text.chars().count())
    }
}

fn direct(tokenizer: &dyn Tokenizer, text: &str) -> usize {
    tokenizer.count(text, usize::MAX, &mut |_| true).expect("goes on")
}

fn list(items: impl Iterator<Item = usize>) -> String {
    let items: Vec<_> =
        items.map(|n| format!(r#"{{"id":{n},"name":"item {n} of a list","size":{}}}"#, n * n)).collect();
    format!("[{}]", items.join(","))
}

proptest! {
    #[test]
    fn a_memo_changes_no_count(
        texts in prop::collection::vec(("[a-z0-9,:\" é{}]{0,400}", 0..4_usize), 1..8),
        most in prop_oneof![Just(usize::MAX), 0..300_usize],
    ) {
        let (memo, work) = (Memo::default(), Work::unlimited());
        for (text, times) in texts {
            for text in [text.repeat(times), format!("{{{text}}}")] {
                let counted = memo.count(&Runs, &text, most, &work).expect("nothing interrupts");
                let want = direct(&Runs, &text);
                prop_assert!(counted == want || (counted > most && want > most), "{} {}", counted, want);
                prop_assert_eq!(memo.count(&Characters, &text, most, &work), Some(text.chars().count()));
            }
        }
    }
}

#[test]
fn what_was_counted_is_not_counted_again() {
    let (memo, work) = (Memo::default(), Work::unlimited());
    let text = list(0..500);
    memo.count(&Runs, &text, usize::MAX, &work);
    let first = memo.counted_bytes();
    assert_eq!(first, text.len());
    for (other, most) in [
        (text.clone(), 0),
        (format!(r#"{{"result":{text}}}"#), 400),
        (list(0..501), 400),
        (list((0..500).filter(|n| *n != 77)), 400),
        (list((0..500).filter(|n| n % 2 == 0)), text.len() / 2),
    ] {
        let before = memo.counted_bytes();
        assert_eq!(memo.count(&Runs, &other, usize::MAX, &work), Some(direct(&Runs, &other)));
        let counted = memo.counted_bytes() - before;
        assert!(counted <= most, "{counted} {most}");
    }
}

#[test]
fn a_memo_is_bounded() {
    let (memo, work) = (Memo::default(), Work::unlimited());
    let text = list(0..200_000);
    assert!(text.len() > 2 * MOST);
    assert_eq!(memo.count(&Runs, &text, usize::MAX, &work), Some(direct(&Runs, &text)));
    assert!(memo.bytes.get() <= MOST);
    assert!(memo.bytes.get() > MOST - LONGEST - LEAST);
    // A text without a place to divide is one part.
    let blob = "x".repeat(3 * LONGEST);
    let before = memo.bytes.get();
    assert_eq!(memo.count(&Runs, &blob, usize::MAX, &work), Some(1));
    assert_eq!(memo.bytes.get(), before);
}

#[test]
fn an_interrupt_ends_the_count() {
    let work = Work::at_most(1000);
    assert_eq!(Memo::default().count(&Runs, &list(0..1000), usize::MAX, &work), None);
    assert!(work.is_interrupted());
}

#[test]
fn debug_shows_no_content() {
    let memo = Memo::default();
    memo.count(&Runs, "a secret", usize::MAX, &Work::unlimited());
    assert_eq!(format!("{memo:?}"), "1 parts of 72 bytes");
}
