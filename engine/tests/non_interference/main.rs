//! `Enforced` is a security boundary: two outputs that differ only in what the filter removes give the caller
//! byte-identical answers, in text, structured content and `_meta`, and refusals alike.
//!
//! Documents are made in pairs from one tree, whose secret places hold a value of their own in each half, or
//! nothing. Filters are made so that they remove all secret places, in one of several ways, with other stages
//! around that. If `compile` warns that a filter tells the caller something, the test requires less: the filter may
//! tell it by succeeding or failing, and in no other way.

mod filters;
mod trees;

use std::cell::Cell;
use std::num::NonZeroUsize;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tamis_engine::{
    Budget, Bytes, Call, CompileOptions, Enforcement, Filtered, Format, Input, Page, PageInputs, Program, Refused,
    ResponseType, Tokens, ToolFilter, compile,
};

use filters::filter;
/// What the caller gets: text blocks, structured content, meta; or the one text of a refusal.
type Answer = (String, Option<String>, Option<String>, String);

fn answer(program: &Program, input: Input<'_>, call: &Call<'_>) -> Result<Answer, &'static str> {
    let reference = program.apply_reference(input, call);
    let fast = program.apply(input, call);
    assert_eq!(fast.is_ok(), reference.is_ok());
    if let (Ok(fast), Ok(reference)) = (&fast, &reference) {
        assert_eq!(
            (&fast.text, &fast.notice, &fast.structured),
            (&reference.text, &reference.notice, &reference.structured)
        );
    }
    match reference {
        Ok(Filtered { text, notice, structured, report }) => {
            let structured = structured.to_json(&text);
            Ok((text, notice, structured, report.meta(Enforcement::Enforced).into_owned()))
        }
        // The caller's mistake, about the list that the filter left.
        Err(Refused { page: Some(error), .. }) => Ok((error.to_string(), None, None, String::new())),
        Err(_) => Err(Refused::message(true)),
    }
}

/// The program of a filter, and whether `compile` says that it tells the caller something.
fn enforced(filter: &Value, response_type: Option<ResponseType>) -> Option<(Program, bool)> {
    let filter: ToolFilter = serde_json::from_value(filter.clone()).unwrap();
    let options = CompileOptions { enforcement: Enforcement::Enforced, response_type, ..CompileOptions::default() };
    let compiled = compile(&filter, &options);
    let tells = compiled.findings.iter().any(|finding| finding.message.contains("tells the caller"));
    compiled.program.map(|program| (program, tells))
}

/// What the caller asks for, and what the gateway attaches.
fn call() -> impl Strategy<Value = Call<'static>> {
    let pages = prop::sample::select(vec![r#"{"pages":2}"#, r#"{"pages":2,"items":40,"next":{"cursor":"c"}}"#]);
    let budget = (prop::option::weighted(0.3, 5..200_usize), prop::option::weighted(0.2, 5..80_usize));
    let formats = prop::sample::select(vec![&[Format::Table][..], &[Format::Toon], &Format::ALL]);
    let page = prop::sample::select(vec![
        Page::Chunk(NonZeroUsize::MIN),
        Page::Chunk(NonZeroUsize::MIN.saturating_add(1)),
        Page::Window { offset: 1, limit: None },
        Page::Window { offset: 0, limit: Some(NonZeroUsize::MIN) },
    ]);
    let inputs = prop::sample::select(vec![PageInputs::NONE, PageInputs::ALL]);
    let asked = (prop::option::weighted(0.2, formats), prop::option::weighted(0.2, page), inputs);
    (budget, prop::option::weighted(0.2, pages), asked).prop_map(
        |((bytes, tokens), pagination, (formats, page, inputs))| Call {
            budget: Budget { bytes: bytes.map(Bytes), tokens: tokens.map(Tokens) },
            pagination,
            formats,
            page: page.unwrap_or_default(),
            inputs,
            ..Call::default()
        },
    )
}

/// As many cases as `PROPTEST_CASES` says, or `cases`.
fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(cases),
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    }
}

#[test]
fn removed_values_change_nothing_that_the_caller_sees() {
    let (compared, answered, told, noticed) = (Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(0));
    let cases = filter().prop_flat_map(|filter| {
        let document = filter.document();
        (Just((filter.filter, filter.response_type)), document, call())
    });
    TestRunner::new(config(12_000))
        .run(&cases, |((filter, response_type), document, call)| {
            let Some((program, tells)) = enforced(&filter, response_type) else { return Ok(()) };
            let (left, right) = document.halves();
            let one = answer(&program, Input::Json(left.as_bytes()), &call);
            let two = answer(&program, Input::Json(right.as_bytes()), &call);
            let cut = one.as_ref().is_ok_and(|(_, notice, ..)| notice.as_ref().is_some_and(|n| !n.starts_with('_')));
            noticed.set(noticed.get() + usize::from(cut));
            if tells {
                told.set(told.get() + usize::from(one.is_ok() != two.is_ok()));
                if one.is_ok() != two.is_ok() {
                    return Ok(());
                }
            } else {
                compared.set(compared.get() + 1);
                answered.set(answered.get() + usize::from(one.is_ok()));
            }
            prop_assert_eq!(one, two, "{}\n{}\n{}", filter, left, right);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    // The property must not hold because nothing is ever answered, nor the warnings be about nothing.
    let (compared, answered, told, noticed) = (compared.get(), answered.get(), told.get(), noticed.get());
    println!(
        "{compared} pairs of documents compared, {answered} of them answered, {noticed} with a notice of what was cut; \
         {told} told apart with a warning"
    );
    assert!(compared > 1000 && answered > 500 && told > 0, "{answered} of {compared}, {told} told");
    assert!(noticed > 200, "{noticed} answers with a notice");
}

/// A line of each half.
type Pair = (Option<String>, Option<String>);

#[test]
fn removed_lines_change_nothing_that_the_caller_sees() {
    // Lines that are there in one half only, or another: their number is removed with them.
    let line = prop_oneof![
        2 => Just((Some("E shown".to_owned()), Some("E shown".to_owned()))),
        1 => Just((Some("E \u{1b}[1mbold".to_owned()), Some("E \u{1b}[1mbold".to_owned()))),
        3 => (prop::option::weighted(0.8, hidden()), prop::option::weighted(0.8, hidden())),
    ];
    let options = (any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(0..3));
    let cases = (prop::collection::vec(line, 0..6), options, any::<bool>(), prop::option::of(1..30_usize));
    TestRunner::new(config(1000))
        .run(&cases, |(lines, (strip, ansi, dedup, max), closed, budget)| {
            let mut filter =
                json!({"text": {"dedup": dedup, "maxLines": max, "stripAnsi": ansi, "onEmpty": "nothing"}});
            if strip {
                // All that does not begin so, said the other way round.
                filter["text"]["strip"] = json!(["^[^E]", "^$"]);
            } else {
                filter["text"]["keep"] = json!(["^E"]);
            }
            let (program, _) = enforced(&filter, None).unwrap();
            let half = |pick: fn(&Pair) -> &Option<String>| {
                let lines = lines.iter().filter_map(|line| pick(line).as_deref()).collect::<Vec<_>>();
                // Whether the last line is ended is not removed with it.
                lines.join("\n") + if closed { "\n" } else { "\nE last" }
            };
            let (left, right) = (half(|line| &line.0), half(|line| &line.1));
            let call = Call { budget: budget.map(Budget::bytes).unwrap_or_default(), ..Call::default() };
            // An empty body is `{}` unless it is declared to be text.
            let undeclared = !left.is_empty() && !right.is_empty();
            for declared in [false, true].into_iter().filter(|declared| *declared || undeclared) {
                let input = |text| if declared { Input::Text(text) } else { Input::Json(text) };
                let one = answer(&program, input(left.as_bytes()), &call);
                prop_assert!(one.is_ok());
                let two = answer(&program, input(right.as_bytes()), &call);
                prop_assert_eq!(one, two, "{} {:?}\n{:?}", filter, left, right);
            }
            // Text in a JSON object; its metadata is removed.
            let raw = |text: &str, stderr: &str| {
                json!({"_exit_code": stderr.len(), "stderr": stderr, "raw": text}).to_string()
            };
            let (left, right) = (raw(&left, "secret"), raw(&right, ""));
            let one = answer(&program, Input::Json(left.as_bytes()), &call);
            prop_assert_eq!(
                one,
                answer(&program, Input::Json(right.as_bytes()), &call),
                "{} {:?}\n{:?}",
                filter,
                left,
                right
            );
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn lines_beyond_the_limit_change_nothing_that_the_caller_sees() {
    let compared = Cell::new(0);
    // Equal or not, blank or not, of any length: all lines beyond the limit are removed, but for their number.
    let line =
        || prop::sample::select(vec!["E a", "E a", "E b", "E shown", "E", "E a line of some length", "E \u{1b}[1ma"]);
    let tail = prop::collection::vec((line(), line()), 0..6);
    let options = (any::<bool>(), any::<bool>(), any::<bool>(), 1..4_usize);
    let cases = (tail, options, any::<bool>(), prop::option::of(1..60_usize));
    TestRunner::new(config(1000))
        .run(&cases, |(tail, (strip, ansi, dedup, max), closed, budget)| {
            // As many lines as stay, no two alike; then one more, which is the same in both halves and ends the last.
            let head = (0..max).map(|i| format!("E shown {i}")).chain(["E cut".to_owned()]).collect::<Vec<_>>();
            let mut filter = json!({"text": {"dedup": dedup, "maxLines": max, "stripAnsi": ansi}});
            if strip {
                filter["text"]["strip"] = json!(["^[^E]", "^$"]);
            } else {
                filter["text"]["keep"] = json!(["^E"]);
            }
            let (program, _) = enforced(&filter, None).unwrap();
            let half = |pick: fn(&(&'static str, &'static str)) -> &'static str| {
                let lines = head.iter().map(String::as_str).chain(tail.iter().map(pick)).collect::<Vec<_>>();
                lines.join("\n") + if closed { "\n" } else { "" }
            };
            let (left, right) = (half(|line| line.0), half(|line| line.1));
            let call = Call { budget: budget.map(Budget::bytes).unwrap_or_default(), ..Call::default() };
            for declared in [false, true] {
                let input = |text| if declared { Input::Text(text) } else { Input::Json(text) };
                let one = answer(&program, input(left.as_bytes()), &call);
                let two = answer(&program, input(right.as_bytes()), &call);
                prop_assert!(one.is_ok());
                prop_assert_eq!(one, two, "{} {:?}\n{:?}", filter, left, right);
                compared.set(compared.get() + 1);
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    println!("{} pairs of texts compared", compared.get());
}

/// Lines that `keep` does not match; some make the output JSON by accident.
fn hidden() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["", "1", "true", "null", "\"E\"", "[\"E\"]", "{\"a\":\"E\"}", "\u{1b}[1mx", "é"])
            .prop_map(str::to_owned),
        "[a-z ]{0,12}",
    ]
}
