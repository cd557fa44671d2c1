//! The lines of a text that a budget shows.

use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::fit::{LineBudget, both_ends, first_lines};
use crate::text::{Numbered, PatternBudget, Patterns, left_out, lines};

fn patterns(expressions: &[&str]) -> Option<std::sync::Arc<Patterns>> {
    let expressions: Vec<String> = expressions.iter().map(|&expression| expression.to_owned()).collect();
    Patterns::compile("boost", &expressions, &mut PatternBudget::default(), &mut Vec::new())
}

/// What is left of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    text: String,
    lines: Vec<Range<usize>>,
    total: usize,
}

/// Cuts a text to so many bytes: to its first lines, or under `head_tail` to lines of both ends.
fn cut_to(text: &str, boost: Option<&[&str]>, limit: usize) -> Option<Shown> {
    let work = Work::unlimited();
    let numbered = Numbered::new(text, &work);
    let all = 0..numbered.len();
    let write = |rows: &[Range<usize>]| {
        let mut out = String::new();
        numbered.write(rows, Some(&all), None, &mut out);
        out
    };
    let weight = |_, place: &Range<usize>| place.len() as u64 + 1;
    let budget = LineBudget { limit: limit as u64, weight: &weight, most_bytes: limit };
    let mut measure = |rows: &[Range<usize>]| Some(write(rows).len() as u64);
    let chosen = match boost {
        None => first_lines(&numbered, &all, budget, &mut measure, &work),
        Some(boost) => both_ends(&numbered, &all, patterns(boost).as_deref(), budget, &mut measure, &work),
    };
    let (lines, measured) = chosen?;
    let text = write(&lines);
    assert_eq!(text.len() as u64, measured);
    Some(Shown { text, lines, total: numbered.len() })
}

fn cut(text: &str, boost: &[&str], limit: usize) -> Option<Shown> {
    cut_to(text, Some(boost), limit)
}

fn numbered(count: usize) -> String {
    (0..count).map(|i| format!("line number {i:04}\n")).collect()
}

#[test]
fn both_ends_stay_with_a_note_between_them() {
    let text = numbered(100);
    // Ten lines of 17 bytes; the note is one of them.
    let shown = cut(&text, &[], 170).unwrap();
    assert_eq!(shown.lines, [0..3, 94..100]);
    assert_eq!(shown.total, 100);
    let expected = "line number 0000\nline number 0001\nline number 0002\n... 91 more lines\nline number 0094\n";
    assert!(shown.text.starts_with(expected) && shown.text.ends_with("\nline number 0099"), "{}", shown.text);
    assert_eq!(cut(&text, &[], 17 * 100).map(|shown| shown.text), Some(text.trim_end().to_owned()));
    assert_eq!(cut(&text, &[], 16).map(|shown| shown.lines), None, "a line and the notes are larger");
}

#[test]
fn matching_lines_stay_first_and_the_latest_of_them() {
    let mut all: Vec<String> = numbered(100).lines().map(str::to_owned).collect();
    for i in [10, 20, 30, 40, 50, 60, 70] {
        all[i] = format!("ERROR in line {i:02}");
    }
    let text = all.join("\n");
    // Half of the limit is five lines, and the rest goes to the notes.
    assert_eq!(cut(&text, &["ERROR|panic"], 200).unwrap().lines, [30..31, 40..41, 50..51, 60..61, 70..71]);
    let shown = cut(&text, &["ERROR|panic"], 400).unwrap();
    assert_eq!(shown.lines, [0..2, 10..11, 20..21, 30..31, 40..41, 50..51, 60..61, 70..71, 94..100]);
}

#[test]
fn a_note_is_never_longer_than_the_single_line_that_it_stands_for() {
    let text = ["a fairly long first line", "x", "the last line of the text"].join("\n");
    let shown = cut(&text, &[], text.len() - 1);
    assert!(
        shown.as_ref().is_none_or(|shown| shown.lines.len() == 1 || !shown.text.contains("... 1 more line")),
        "{shown:?}"
    );
    let long = ["first", &"y".repeat(100), "last"].join("\n");
    assert_eq!(cut(&long, &[], 40).map(|shown| shown.text), Some("first\n... 1 more line\nlast".to_owned()));
}

#[test]
fn a_line_larger_than_the_limit_is_left_out() {
    let text = format!("{}\na\nb\nc", "x".repeat(10 << 20));
    assert_eq!(cut(&text, &["x"], 100).map(|shown| shown.text), Some("... 1 more line\na\nb\nc".to_owned()));
    assert_eq!(cut(&"x".repeat(1000), &[], 100), None);
}

proptest! {
    #[test]
    fn notes_and_lines_make_up_the_text(
        all in vec("[ab ]{0,12}|ERROR [a-z]{0,8}", 1..60),
        limit in 0_usize..400,
    ) {
        let text = all.join("\n");
        let shown = cut(&text, &["ERROR"], limit);
        prop_assert_eq!(&shown, &cut(&text, &["ERROR"], limit), "a second run");
        let Some(Shown { text: cut, lines: ranges, total }) = shown else { return Ok(()) };
        prop_assert!(cut.len() <= limit);
        // A text of an empty last line ends in a line end, which is dropped.
        let body = text.strip_suffix('\n').unwrap_or(&text);
        prop_assert_eq!(total, lines(body).count());
        let mut expected = Vec::new();
        let mut next = 0;
        for range in ranges.into_iter().chain(std::iter::once(total..total)) {
            if range.start > next {
                expected.push(left_out(range.start - next));
            }
            expected.extend(range.clone().map(|line| all[line].clone()));
            next = range.end;
        }
        prop_assert_eq!(cut, expected.join("\n"));
    }

    #[test]
    fn as_many_lines_as_fit_are_shown_from_the_beginning(
        all in vec("[ab ]{0,12}", 1..200), limit in 0_usize..800,
    ) {
        let text = all.join("\n");
        let shown = cut_to(&text, None, limit);
        let total = Numbered::new(&text, &Work::unlimited()).len();
        let size = |lines: usize| {
            let note = if lines < total { left_out(total - lines).len() + 1 } else { 0 };
            all[..lines].iter().map(|line| line.len() + 1).sum::<usize>() - 1 + note
        };
        // Of a text that fits not everything is shown: the caller knows that it does not.
        let most = (1..total).rev().find(|lines| size(*lines) <= limit);
        prop_assert_eq!(shown.map(|shown| shown.lines), most.map(|most| std::iter::once(0..most).collect::<Vec<_>>()));
    }
}
