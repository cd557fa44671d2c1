//! How full chunks are: fetching them takes as few calls as a cheap estimate allows.

use std::num::NonZeroUsize;

use super::{Case, advisory};
use crate::json::{self, Node};
use crate::{Call, Estimate, Factor, Filtered, Format, Input, Page, PageInputs, TokenCounter, Tokenizer};

/// Words, numbers and marks, as a vocabulary counts them: a run of marks is one token.
#[derive(Debug)]
struct Marks;

impl Tokenizer for Marks {
    fn name(&self) -> &'static str {
        "marks"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str, _: usize, _: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        let kind = |c: char| (c.is_alphabetic(), c.is_numeric());
        let mut before = None;
        Some(text.chars().filter(|c| before.replace(kind(*c)) != Some(kind(*c))).count())
    }
}

/// The bytes of an answer, and its tokens without the factor.
fn size(filtered: &Filtered, counter: &TokenCounter<'_>) -> (usize, usize) {
    let tokens = |text: &str| counter.count(text, crate::Tokens(usize::MAX), &mut |_| true).unwrap().0;
    let notice = filtered.notice.as_deref().unwrap_or_default();
    let structured = filtered.structured.to_json(&filtered.text).unwrap_or_default();
    let blocks = (filtered.text.len() + notice.len(), tokens(&filtered.text) + tokens(notice));
    (blocks.0.max(structured.len()), blocks.1.max(tokens(&structured)))
}

/// How a chunk uses its budget: what it takes of it, and what it would take with `next`, both in percent.
fn used(case: &Case, filtered: &Filtered, next: &str) -> (usize, usize) {
    let counter = &case.call.counter;
    let (bytes, tokens) = size(filtered, counter);
    // The line of a chunk has the number of the item, perhaps of a run. Its numbers are not known beforehand.
    let next = format!("{next},100-100");
    let more = (next.len() + 24, counter.count(&next, crate::Tokens(usize::MAX), &mut |_| true).unwrap().0 + 1);
    let percent = |bytes: usize, tokens: usize| {
        let of = |size: usize, limit: Option<usize>| limit.map_or(0, |limit| size * 100 / limit);
        let budget = case.call.budget;
        of(bytes, budget.bytes.map(|bytes| bytes.0)).max(of(tokens, budget.tokens.map(|tokens| tokens.0)))
    };
    (percent(bytes, tokens), percent(bytes + more.0, tokens + more.1))
}

/// Checks the chunks of an answer, and returns how many there are; `None` if one of them is not full. `parts` returns the items, or lines, of a chunk.
fn check(case: &Case, input: Input<'_>, parts: impl Fn(&Filtered) -> Vec<String>) -> Option<usize> {
    let program = case.program();
    let get = |number: usize| {
        let page = Page::Chunk(NonZeroUsize::new(number).unwrap());
        program.apply(input, &Call { page, inputs: PageInputs::ALL, ..case.call }).ok()
    };
    let chunks: Vec<_> = (1..).map_while(get).collect();
    let shown: Vec<_> = chunks.iter().map(parts).collect();
    for (number, chunk) in chunks.iter().enumerate() {
        assert!(chunk.report.budget.is_none() || number == 0, "chunk {} is cut: {chunk:?}", number + 1);
        let Some(next) = shown.get(number + 1).filter(|_| number > 0).map(|items| &items[0]) else { continue };
        let (used, with_next) = used(case, chunk, next);
        assert!(used <= 100, "chunk {} of {}: {used} %", number + 1, chunks.len());
        if used < 80 && with_next <= 100 {
            println!("chunk {} of {}: {used} %, with the next {with_next} %: {chunk:?}", number + 1, chunks.len());
            return None;
        }
    }
    Some(chunks.len())
}

fn items(filtered: &Filtered) -> Vec<String> {
    let document = json::parse(filtered.text.as_bytes(), 64).unwrap();
    match (&document, document.get("rows")) {
        (_, Some(Node::Array(items))) | (Node::Array(items), None) => items.iter().map(json::to_string).collect(),
        _ => panic!("no list: {}", filtered.text),
    }
}

fn limited(filter: &str, (bytes, tokens): (Option<usize>, Option<usize>), factor: f64, exact: bool) -> Case {
    let case = bytes.into_iter().fold(advisory(filter), Case::budget);
    let mut case = tokens.into_iter().fold(case, Case::tokens);
    let tokenizer: &'static dyn Tokenizer = if exact { &Marks } else { &Estimate };
    case.call.counter = TokenCounter { tokenizer, factor: Factor::new(factor).unwrap() };
    case
}

const LIMITS: [(Option<usize>, Option<usize>, f64); 12] = [
    (Some(400), None, 1.0),
    (Some(600), None, 1.0),
    (Some(1_000), None, 1.0),
    (Some(5_000), None, 1.0),
    (None, Some(200), 1.0),
    (None, Some(500), 1.0),
    (None, Some(2_000), 1.0),
    (Some(400), Some(60), 0.2),
    (None, Some(60), 0.2),
    (None, Some(20), 0.05),
    (None, Some(300), 1.46),
    (Some(2_000), Some(400), 1.0),
];

#[test]
fn chunks_of_a_list_are_full() {
    let item = |n: usize| {
        let state = if (n * 7).is_multiple_of(3) { "open" } else { "closed" };
        let (folder, title) = (n * 13 % 30, n * 7919 % 100_000);
        format!(r#"{{"id":{n},"title":"t{title}","state":"{state}","path":"src/{folder}/f{n}.rs"}}"#)
    };
    let list = format!("[{}]", (0..200).map(item).collect::<Vec<_>>().join(","));
    let mut empty = Vec::new();
    for preset in ["diffs", "default"] {
        for format in [Format::Json, Format::Table] {
            for structured in ["always", "never"] {
                for (bytes, tokens, factor) in LIMITS {
                    for exact in [false, true] {
                        let preset =
                            if preset == "default" { String::new() } else { format!(r#","preset":"{preset}""#) };
                        let filter = format!(
                            r#"{{"root":"","output":{{"format":"{format}","structured":"{structured}"{preset}}}}}"#
                        );
                        let case = limited(&filter, (bytes, tokens), factor, exact);
                        let chunks = check(&case, Input::Json(list.as_bytes()), items);
                        if chunks.is_none() {
                            empty.push(format!("{filter} {bytes:?} {tokens:?} {factor} {exact}"));
                        }
                    }
                }
            }
        }
    }
    assert!(empty.is_empty(), "{empty:#?}");
}

#[test]
fn a_budget_that_holds_three_items_gives_three() {
    let item = |n: usize| format!(r#"{{"id":{n},"title":"{}"}}"#, "x".repeat(72));
    let list = format!("[{}]", (100..300).map(item).collect::<Vec<_>>().join(","));
    let case = limited(r#"{"root":"","output":{"preset":"diffs"}}"#, (Some(430), None), 1.0, false);
    let chunks = check(&case, Input::Json(list.as_bytes()), items);
    assert!(chunks.is_some_and(|chunks| chunks <= 70), "{chunks:?} chunks");
}

#[test]
fn chunks_of_a_text_are_full() {
    let line = |n: usize| if n % 41 == 7 { format!("ERROR {n} broke") } else { format!("line {n}") };
    let text = (0..600).map(line).collect::<Vec<_>>().join("\n");
    let lines = |filtered: &Filtered| {
        let gap = |line: &&str| !line.starts_with("... ");
        filtered.text.lines().filter(gap).map(str::to_owned).collect()
    };
    let mut empty = Vec::new();
    for preset in ["", r#","preset":"logs""#] {
        for (bytes, tokens, factor) in LIMITS.into_iter().chain([(Some(200), None, 1.0)]) {
            for exact in [false, true] {
                let filter = format!(r#"{{"text":{{"stripAnsi":true}},"output":{{"notice":true{preset}}}}}"#);
                let case = limited(&filter, (bytes, tokens), factor, exact);
                let chunks = check(&case, Input::Text(text.as_bytes()), lines);
                if chunks.is_none() {
                    empty.push(format!("{filter} {bytes:?} {tokens:?} {factor} {exact}"));
                }
            }
        }
    }
    assert!(empty.is_empty(), "{empty:#?}");
}
