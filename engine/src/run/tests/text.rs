use super::{advisory, bare, enforced};
use crate::{Input, Structured};

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
