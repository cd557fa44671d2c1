use std::num::NonZeroUsize;

use super::{Case, advisory, bare, enforced};
use crate::{Call, Filtered, Input, Page, PageInputs, Structured};

const TEXT: &str = r#"{"text":{"keep":["^E"],"onEmpty":"nothing"}}"#;
const BOTH: &str = r#"{"text":{"keep":["^E"]},"dropNulls":true}"#;

#[test]
fn text_is_cleaned() {
    for case in [advisory(TEXT), enforced(TEXT)] {
        for input in [Input::Text(b"I a\nE b\nI c\n"), Input::Json(b"I a\nE b\nI c\n")] {
            let filtered = case.apply(input).unwrap();
            assert_eq!((filtered.text.as_str(), &filtered.structured), ("E b\n", &Structured::None));
            assert!(filtered.report.applied && filtered.report.error.is_none() && filtered.report.skipped.is_none());
            assert_eq!((filtered.report.original_bytes, filtered.report.compact_bytes), (12, 12));
            assert_eq!((filtered.report.result_bytes, filtered.report.output_bytes), (4, 4));
        }
        assert_eq!(case.apply(Input::Text(b"")).unwrap().text, "nothing");
    }
}

#[test]
fn text_in_an_object_is_text() {
    for case in [advisory(TEXT), enforced(TEXT)] {
        let filtered = case.run(r#"{"raw":"I\nE \u0061\n"}"#);
        assert_eq!((filtered.text.as_str(), filtered.structured), ("E a\n", Structured::None));
    }
    let input = r#"{"_exit_code":1,"raw":"I\nE a","stderr":"secret","_text_filtered":false}"#;
    let filtered = advisory(TEXT).run(input);
    assert_eq!(filtered.text, r#"{"_exit_code":1,"raw":"E a","stderr":"secret","_text_filtered":false}"#);
    assert_eq!(filtered.structured, bare());
    assert_eq!(enforced(TEXT).text(input), "E a", "metadata goes");
    // With any other member, or without a string, the object is ordinary data.
    let drop = r#"{"dropNulls":true}"#;
    for (input, output) in [
        (r#"{"raw":"a","x":null}"#, r#"{"raw":"a"}"#),
        (r#"{"raw":null}"#, "{}"),
        (r#"{"raw":["a"]}"#, r#"{"raw":["a"]}"#),
    ] {
        assert_eq!(advisory(drop).text(input), output);
    }
}

#[test]
fn the_other_stages_skip_text() {
    for (input, skipped, text) in [
        ("E \u{1b}<html>", "not_json", "E \u{1b}<html>"),
        ("{\"a\":1", "not_json", ""),
        (r#"{"raw":"E x\nI"}"#, "raw_output", "E x"),
    ] {
        let filtered = advisory(BOTH).run(input);
        assert_eq!((filtered.text.as_str(), filtered.report.skipped), (text, Some(skipped)), "{input}");
        assert_eq!(filtered.structured, Structured::None);
        assert!(filtered.report.error.is_some() || !filtered.report.warnings.is_empty());
        assert_eq!(enforced(BOTH).refused(input).0, "parse");
    }
    assert!(matches!(enforced(BOTH).apply(Input::Text(b"E")), Err(refused) if refused.stage.as_str() == "parse"));
    // Without `text` it passes as it is.
    let filtered = advisory(r#"{"dropNulls":true}"#).run("plain");
    assert_eq!((filtered.text.as_str(), filtered.report.applied), ("plain", false));
}

#[test]
fn json_is_not_text() {
    assert_eq!(advisory(TEXT).text("{ \"a\" : 1 }"), r#"{"a":1}"#);
    assert_eq!(advisory(BOTH).text(r#"{"a":null}"#), "{}");
    // Under `Enforced` lines that happen to be JSON are lines all the same.
    assert_eq!(enforced(TEXT).text("\"secret\""), "nothing");
    assert_eq!(enforced(TEXT).text("[1,\nE]"), "E]");
}

#[test]
fn what_is_not_utf8_becomes_replacement_characters() {
    let filtered = advisory(TEXT).apply(Input::Text(b"E \xff\n")).unwrap();
    assert_eq!(filtered.text, "E \u{fffd}\n");
    let filtered = advisory(r#"{"dropNulls":true}"#).apply(Input::Json(b"{\"a\":\"\xff\"}")).unwrap();
    assert_eq!((filtered.text.as_str(), filtered.report.skipped), ("{\"a\":\"\u{fffd}\"}", Some("not_json")));
    assert!(enforced(r#"{"dropNulls":true}"#).apply(Input::Json(b"{\"a\":\"\xff\"}")).is_err());
}

/// The lines of the text in an object, without those that say what is left out.
fn raw_lines(filtered: &Filtered) -> Vec<String> {
    let object: serde_json::Value = serde_json::from_str(&filtered.text).expect("an object");
    let lines = object["raw"].as_str().unwrap_or_default().lines();
    lines.filter(|line| !line.starts_with("... ")).map(str::to_owned).collect()
}

fn asking(case: Case, page: Page) -> Case {
    Case { call: Call { page, inputs: PageInputs::ALL, ..case.call }, ..case }
}

/// An object with text, of which only the ends and the lines with errors are worth much.
fn log(members: &str) -> (String, Vec<String>) {
    let line = |n: usize| if n % 50 == 20 { format!("ERROR \"{n}\" broke") } else { format!("line {n}") };
    let lines: Vec<_> = (0..200).map(line).collect();
    let raw = serde_json::Value::from(lines.join("\n"));
    (format!(r#"{{"stderr":"","raw":{raw}{members}}}"#), lines)
}

#[test]
fn text_in_an_object_with_metadata_has_chunks_and_windows() {
    let (input, lines) = log(r#","_exit_code":0"#);
    for structured in ["always", "never"] {
        let filter = format!(r#"{{"text":{{}},"output":{{"structured":"{structured}","preset":"logs"}}}}"#);
        for limit in [|case: Case| case.budget(600), |case: Case| case.tokens(200), |case: Case| case.budget(5_000)] {
            let (mut seen, mut chunks) = (Vec::new(), 0);
            for number in 1.. {
                let page = Page::Chunk(NonZeroUsize::new(number).unwrap());
                let case = asking(limit(advisory(&filter)), page);
                let Ok(filtered) = case.apply(Input::Json(input.as_bytes())) else { break };
                let shown = raw_lines(&filtered);
                assert!(filtered.text.starts_with(r#"{"stderr":"","raw":""#), "{}", filtered.text);
                assert!(filtered.text.ends_with(r#"","_exit_code":0}"#), "{}", filtered.text);
                let object = filtered.structured.to_json(&filtered.text).unwrap_or_default();
                let bytes = (filtered.text.len() + filtered.notice.as_ref().map_or(0, String::len)).max(object.len());
                assert!(case.call.budget.bytes.is_none_or(|limit| bytes <= limit.0), "{bytes}: {filtered:?}");
                assert_eq!(
                    (structured == "always", filtered.text.contains("broke")),
                    (!object.is_empty(), number == 1)
                );
                assert_eq!(filtered.notice.is_some(), filtered.report.chunks.is_some());
                seen.extend(shown);
                chunks = number;
            }
            let mut all = lines.clone();
            seen.sort();
            all.sort();
            assert_eq!(seen, all);
            assert!(chunks > 1 || limit(advisory(&filter)).call.budget.bytes == Some(crate::Bytes(5_000)), "{chunks}");
        }
        let page = Page::Window { offset: 20, limit: NonZeroUsize::new(3) };
        let filtered = asking(advisory(&filter).budget(600), page).run(&input);
        assert_eq!(raw_lines(&filtered), lines[20..23]);
        assert_eq!(filtered.notice.as_deref(), Some("3 of 200 items shown, offset=23 for more"));
    }
}

#[test]
fn text_in_an_object_stays_json_in_any_budget() {
    let (small, _) = log(r#","_exit_code":0"#);
    let (large, _) = log(&format!(r#","_text_filtered":"{}""#, "x".repeat(3_000)));
    for input in [&small, &large] {
        for structured in ["always", "never"] {
            let filter = format!(r#"{{"text":{{}},"output":{{"structured":"{structured}","preset":"logs"}}}}"#);
            for limit in (1..150).chain([400, 5_500]) {
                for case in [advisory(&filter).budget(limit), advisory(&filter).tokens(limit)] {
                    let is_bytes = case.call.budget.bytes.is_some();
                    let filtered = asking(case, Page::All).run(input);
                    let object: serde_json::Value = serde_json::from_str(&filtered.text).expect("JSON");
                    assert!(object.is_object());
                    let exceeded = filtered.report.budget.as_ref().is_some_and(|budget| budget.exceeded);
                    assert!(exceeded || !is_bytes || filtered.text.len() <= limit, "{limit}: {}", filtered.text);
                    assert!(!exceeded || filtered.text.len() < 40, "{limit}: {}", filtered.text);
                }
            }
        }
    }
    let filtered = asking(advisory(r#"{"text":{}}"#).budget(400), Page::All).run(&large);
    assert!(filtered.text.contains("\"_text_filtered\":\"xxx"), "members that are large are cut: {}", filtered.text);
}
