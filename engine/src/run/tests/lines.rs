//! Text that is larger than its budget: the lines that are shown, and the chunks with the others.

use std::num::NonZeroUsize;
use std::ops::Range;

use proptest::prelude::*;

use super::{Case, advisory, enforced};
use crate::text::left_out;
use crate::{Call, Enforcement, Filtered, Input, Page, PageError, PageInputs, Refused, Tokens};

const HEAD_TAIL: &str = r#"{"text":{},"output":{"strategy":{"name":"head_tail","boost":["ERROR"]}}}"#;

fn asking(case: Case, page: Page) -> Case {
    Case { call: Call { page, inputs: PageInputs::ALL, ..case.call }, ..case }
}

fn chunk(number: usize) -> Page {
    Page::Chunk(NonZeroUsize::new(number).unwrap())
}

fn window(offset: usize, limit: usize) -> Page {
    Page::Window { offset, limit: NonZeroUsize::new(limit) }
}

fn apply(case: &Case, text: &str) -> Result<Filtered, Refused> {
    case.apply(Input::Text(text.as_bytes()))
}

fn numbered(lines: Range<usize>) -> String {
    lines.map(|n| format!("line number {n:04}")).collect::<Vec<_>>().join("\n")
}

/// All chunks, one after the other.
fn chunks(case: impl Fn() -> Case, text: &str) -> Vec<Filtered> {
    let mut all = Vec::new();
    loop {
        match apply(&asking(case(), chunk(all.len() + 1)), text) {
            Ok(filtered) => all.push(filtered),
            Err(refused) => {
                let (asked, last) = (NonZeroUsize::new(all.len() + 1).unwrap(), all.len());
                assert_eq!(refused.page, Some(PageError::Beyond { chunk: asked, chunks: last }));
                return all;
            }
        }
    }
}

#[test]
fn text_is_cut_at_lines_then_at_characters() {
    let filter = r#"{"text":{},"output":{"notice":false}}"#;
    for (text, limit, want) in [
        ("a\nb\n", 4, "a\nb\n"),
        ("one\ntwo\nthree\nfour\n", 18, "one\ntwo\nthree\nfour"),
        ("one\ntwo\nthree\nfour\n", 17, "one\n... 3 more..."),
        ("one\ntwo\nthree\nfour\n", 19, "one\ntwo\nthree\nfour\n"),
        ("one\ntwo\nthree\nfour four four\n", 24, "one\ntwo\n... 2 more lines"),
        ("one\ntwo\nthree\nfour four four\n", 23, "one\n... 3 more lines"),
        ("one long line and no other", 10, "one lon..."),
        ("one long line\nand another", 21, "on...\n... 1 more line"),
        ("one long line\nand another", 12, "one long ..."),
        ("\u{e9}\u{e9}\u{e9}", 5, "\u{e9}..."),
        ("\u{e9}\u{e9}\u{e9}", 3, "\u{e9}"),
        ("abc", 1, "a"),
    ] {
        for case in [advisory(filter), enforced(filter)] {
            assert_eq!(apply(&case.budget(limit), text).unwrap().text, want, "{text:?} in {limit}");
        }
    }
}

#[test]
fn the_index_of_a_text_names_its_lines() {
    let text = numbered(0..400);
    let filter = r#"{"text":{}}"#;
    for of in [advisory, enforced] {
        let case = || of(filter).budget(2_000);
        let first = apply(&asking(case(), Page::All), &text).unwrap();
        let shown = first.text.lines().count() - 1;
        assert_eq!(first.text, format!("{}\n{}", numbered(0..shown), left_out(400 - shown)));
        let index = first.notice.as_deref().expect("an index");
        let last = shown - 1;
        assert!(
            index.starts_with(&format!(
                "[chunks] {shown}/400 lines in {} chunks:\nchunk 1 (offset=0, limit={shown}): {shown} lines, \
                 line number 0000..line number {last:04} << returned in this response\n\
                 chunk 2 (offset={shown}, limit=",
                first.report.chunks.unwrap()
            )),
            "{index}"
        );
        assert!(first.text.len() + index.len() <= 2_000, "{index}");
        assert!(index.ends_with(&format!("List {}.", first.report.list.as_ref().unwrap())), "{index}");
        let all = chunks(case, &text);
        assert_eq!(Some(all.len()), first.report.chunks);
        assert_eq!((&all[0].text, &all[0].notice), (&first.text, &first.notice), "chunk 1 is the answer");
        let mut next = shown;
        for (number, fetched) in (2..).zip(&all[1..]) {
            let count = fetched.text.lines().count();
            assert_eq!(fetched.text, numbered(next..next + count));
            let want = format!(
                "{count} of 400 items shown\n[chunks] chunk {number} of {}, items {next}-{} of 400. List {}.",
                all.len(),
                next + count - 1,
                first.report.list.as_ref().unwrap()
            );
            assert_eq!(fetched.notice.as_deref(), Some(&*want));
            let index = format!("chunk {number} (offset={next}, limit={count}): ");
            assert!(first.notice.as_ref().unwrap().contains(&index), "{index}");
            next += count;
        }
        assert_eq!(next, 400);
    }
}

#[test]
fn a_window_of_a_text_has_the_numbers_of_the_whole() {
    let text = numbered(0..50) + "\n";
    let get = |page, budget| {
        let filtered = apply(&asking(advisory("{}").budget(budget), page), &text).unwrap();
        (filtered.text, filtered.notice.unwrap_or_default())
    };
    assert_eq!(get(window(48, 9), 0), (numbered(48..50), "2 of 50 items shown".to_owned()));
    assert_eq!(get(window(3, 2), 0), (numbered(3..5), "2 of 50 items shown, offset=5 for more".to_owned()));
    assert_eq!(get(window(50, 1), 0), (String::new(), "0 of 50 items shown".to_owned()));
    assert_eq!(get(window(0, 50), 0), (numbered(0..50), String::new()));
    let (text, notice) = get(window(10, 30), 500);
    let shown = text.lines().count() - 1;
    assert_eq!(text, format!("{}\n{}", numbered(10..10 + shown), left_out(30 - shown)));
    let (counts, index) = notice.split_once('\n').unwrap();
    assert_eq!(counts, format!("{shown} of 50 items shown"));
    assert!(index.starts_with(&format!("[chunks] {shown}/30 lines (items 10-39 of 50)")), "{index}");
    assert!(index.contains(&format!("(offset={}, limit=", 10 + shown)) || index.contains("offset="), "{index}");
}

#[test]
fn a_chunk_of_both_ends_says_where_lines_are_missing() {
    let mut lines: Vec<String> = (0..80).map(|n| format!("line number {n:04} of the log")).collect();
    lines[40] = "ERROR in line 40".to_owned();
    let case = || advisory(HEAD_TAIL).budget(900);
    let all = chunks(case, &lines.join("\n"));
    let first = &all[0];
    assert!(first.text.contains("\nERROR in line 40\n") && first.text.ends_with(&lines[79]), "{}", first.text);
    let around = all[1..].iter().find(|chunk| chunk.text.contains(&lines[39])).unwrap();
    let expected = format!("{}\n... 1 more line\n{}", lines[39], lines[41]);
    assert!(around.text.contains(&expected), "{}", around.text);
    let notice = around.notice.as_deref().unwrap();
    assert!(notice.contains("-39,41-"), "{notice}");
}

#[test]
fn a_line_that_does_not_fit_is_a_chunk_of_its_own_and_is_cut() {
    let long = "x".repeat(10 << 20);
    let text = format!("{}\n{long}\n{}", numbered(0..20), numbered(21..40));
    for filter in ["{}", HEAD_TAIL] {
        let case = || advisory(filter).budget(600);
        let all = chunks(case, &text);
        let cut: Vec<&Filtered> = all.iter().filter(|chunk| chunk.text.contains("xxx")).collect();
        let [cut] = cut[..] else { panic!("{} chunks with the line", cut.len()) };
        assert!(cut.text.ends_with("xxx...") && cut.text.lines().count() == 1, "{}", cut.text);
        let notice = cut.notice.as_deref().unwrap();
        assert!(notice.contains("1 of 40 items shown, long text shortened\n[chunks] chunk "), "{notice}");
        assert!(notice.contains(", item 20 of 40."), "{notice}");
        let size = cut.text.len() + notice.len();
        assert!((570..=600).contains(&size), "{size}");
    }
}

#[test]
fn a_text_that_fits_has_one_chunk() {
    let case = |page| asking(advisory(r#"{"text":{}}"#).budget(100), page);
    assert_eq!(apply(&case(chunk(1)), "a\nb\n").unwrap().text, "a\nb\n");
    let beyond = apply(&case(chunk(2)), "a\nb\n").unwrap_err();
    assert_eq!(
        beyond.page.unwrap().message("chunk"),
        "`chunk` is 2, but the list has one chunk; give 1, or leave `chunk` out"
    );
    let text = numbered(0..99);
    let beyond = apply(&case(chunk(999)), &text).unwrap_err().page.unwrap().message("chunk");
    let chunks = apply(&case(Page::All), &text).unwrap().report.chunks.unwrap();
    assert_eq!(beyond, format!("`chunk` is 999, but the list has {chunks} chunks; give a number from 1 to {chunks}"));
}

#[test]
fn without_inputs_a_cut_text_has_no_index() {
    let filtered = apply(&advisory("{}").budget(300), &numbered(0..99)).unwrap();
    assert_eq!((filtered.notice, filtered.report.chunks, filtered.report.list), (None, None, None));
    let dropped = filtered.report.budget.unwrap().items_dropped;
    assert!(filtered.text.ends_with(&left_out(dropped)), "{}", filtered.text);
}

#[test]
fn long_texts_of_any_lines_take_time_by_their_size() {
    let dense = "\u{4e2d}\u{6587}#@!0Zz9".repeat(20);
    let mixed: Vec<String> =
        (0..4_000).map(|n| if n % 1_500 < 200 { format!("{n} {dense}") } else { format!("line {n}") }).collect();
    for text in ["\n".repeat(1 << 20), "a\n".repeat(1 << 19), "x".repeat(1 << 20), mixed.join("\n")] {
        for filter in ["{}", HEAD_TAIL] {
            for (bytes, tokens) in [(Some(1), None), (Some(4_000), None), (None, Some(2_000)), (None, Some(1))] {
                let case = bytes.into_iter().fold(advisory(filter), Case::budget);
                let case = asking(tokens.into_iter().fold(case, Case::tokens), Page::All);
                let work = crate::work::Work::at_most(text.len() * 40 + 4_000_000);
                let done = case.program().run(Input::Text(text.as_bytes()), &case.call, &work);
                let filtered =
                    done.unwrap_or_else(|_| panic!("{} bytes, {filter}, {bytes:?}, {tokens:?}", text.len())).unwrap();
                let counted = filtered.report.tokens.map_or(Tokens(0), |tokens| tokens.counted);
                let fits = filtered.report.output_bytes <= bytes.unwrap_or(usize::MAX)
                    && counted.0 <= tokens.unwrap_or(usize::MAX);
                assert!(fits || filtered.text.is_empty(), "{bytes:?} {tokens:?}: {filtered:?}");
            }
        }
    }
}

/// A budget with one limit or both.
fn budgets() -> impl Strategy<Value = (Option<usize>, Option<usize>)> {
    prop_oneof![
        (1_usize..900).prop_map(|bytes| (Some(bytes), None)),
        (1_usize..300).prop_map(|tokens| (None, Some(tokens))),
        (1_usize..900, 1_usize..300).prop_map(|(bytes, tokens)| (Some(bytes), Some(tokens))),
    ]
}

proptest! {
    #[test]
    fn the_chunks_of_a_text_hold_each_line_once(
        words in prop::collection::vec("([a-z ]{0,9}|ERROR [a-z]{0,40}|\u{e9}[0-9\"]{60,90}|)", 1..120),
        (bytes, tokens) in budgets(), head_tail: bool, is_enforced: bool, noticed: bool,
    ) {
        // Numbers make each line another one.
        let lines: Vec<String> = words.iter().enumerate().map(|(n, words)| format!("{n:03}:{words}")).collect();
        let text = lines.join("\n");
        let strategy = if head_tail { r#","strategy":{"name":"head_tail","boost":["ERROR"]}"# } else { "" };
        let filter = format!(r#"{{"text":{{}},"output":{{"notice":{noticed}{strategy}}}}}"#);
        let case = || {
            let case = if is_enforced { enforced(&filter) } else { advisory(&filter) };
            let case = bytes.into_iter().fold(case, Case::budget);
            tokens.into_iter().fold(case, Case::tokens)
        };
        let all = chunks(case, &text);
        let mut seen = vec![0; lines.len()];
        let mut cut = 0;
        for (number, Filtered { text, notice, report, .. }) in (1..).zip(&all) {
            let exceeded = report.budget.as_ref().is_some_and(|budget| budget.exceeded);
            let said = format!("chunk {number} of {}: {text:?} {notice:?} {report:?}", all.len());
            prop_assert!(exceeded || bytes.is_none_or(|limit| report.output_bytes <= limit), "{}", said);
            let counted = report.tokens.map_or(0, |tokens| tokens.counted.0);
            prop_assert!(exceeded || tokens.is_none_or(|limit| counted <= limit), "{}", said);
            prop_assert!(!exceeded || text.is_empty(), "{}", said);
            if report.budget.as_ref().is_some_and(|budget| budget.strings_truncated > 0) {
                // One line is in this chunk, and not all of it.
                cut += 1;
                continue;
            }
            for line in text.lines().filter(|line| !line.starts_with("... ")) {
                let line: usize = line[..3].parse().unwrap();
                prop_assert!(text.lines().any(|shown| shown == lines[line]), "{}", said);
                seen[line] += 1;
            }
            if let Some(index) = notice.as_deref().filter(|_| number == 1 && all.len() > 1) {
                prop_assert!(index.is_empty() || index.contains("[chunks]") || index == "long text shortened", "{}", said);
            }
        }
        prop_assert!(seen.iter().all(|times| *times <= 1), "{:?}", seen);
        // Every line that no chunk shows in full is one that was cut.
        prop_assert_eq!(seen.iter().filter(|times| **times == 0).count(), cut);
        let again = chunks(case, &text);
        prop_assert!(all.iter().zip(&again).all(|(one, two)| one.text == two.text && one.notice == two.notice));
    }
}

#[test]
fn enforced_and_advisory_answers_are_the_same() {
    let text = numbered(0..200);
    for page in [Page::All, chunk(2), chunk(3), window(7, 90)] {
        let answer = |case: Case| apply(&asking(case.tokens(300), page), &text).unwrap();
        let (one, other) = (answer(advisory(HEAD_TAIL)), answer(enforced(HEAD_TAIL)));
        assert_eq!((one.text, one.notice), (other.text, other.notice));
    }
    assert_eq!(enforced(HEAD_TAIL).program().enforcement(), Enforcement::Enforced);
}

#[test]
fn a_chunk_of_more_chunks_than_have_numbers_is_an_error_that_names_other_inputs() {
    let text = format!("{}\n", "x".repeat(24)).repeat(66_000);
    let case = advisory(r#"{"text":{},"output":{"notice":false}}"#).budget(45);
    let refused = apply(&asking(case, chunk(2)), &text).unwrap_err();
    let error = refused.page.expect("the caller's mistake");
    assert!(matches!(error, PageError::TooMany { window: true, .. }), "{error:?}");
    assert!(error.to_string().ends_with("give `offset` and `limit`"), "{error}");
}
