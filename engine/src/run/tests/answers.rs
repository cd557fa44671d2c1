//! The frame of a value in an answer: the second text block, `_truncated`, `_pagination`, and their schema.

use serde_json::{Value, json};

use super::{advisory, enforced};
use crate::{Bytes, Input};

const SELECT: &str = r#"{"root":"","select":{"a":"a"},"maxItems":2}"#;
const LIST: &str = r#"[{"a":1,"b":0},{"a":2},{"a":3}]"#;

fn said(notice: &str, structured: &str) -> (Option<String>, Option<String>) {
    (Some(notice.to_owned()), Some(structured.to_owned()))
}

#[test]
fn a_list_that_is_cut_says_so_in_both() {
    for case in [advisory(SELECT), enforced(SELECT)] {
        assert_eq!(case.text(LIST), r#"[{"a":1},{"a":2}]"#, "the first block is the value alone");
        let structured = r#"{"result":[{"a":1},{"a":2}],"_truncated":{"shown":2,"total":3}}"#;
        assert_eq!(case.around(LIST), said("2 of 3 items shown", structured));
        let two = r#"[{"a":1},{"a":2}]"#;
        assert_eq!(case.around(two), (None, Some(format!(r#"{{"result":{two}}}"#))), "nothing is cut");
        assert_eq!(case.around(r#"{"a":1}"#), (None, Some(r#"{"a":1}"#.to_owned())));
    }
    let nested = r#"{"root":"/items","select":{"a":"a"},"maxItems":1}"#;
    let structured = r#"{"items":[{"a":1}],"_truncated":{"shown":1,"total":3}}"#;
    assert_eq!(enforced(nested).around(&format!(r#"{{"items":{LIST}}}"#)), said("1 of 3 items shown", structured));
    // A duplicate key makes the fast path give way: both executors agree.
    let twice = r#"[{"a":0,"a":1},{"a":2},{"a":3}]"#;
    assert_eq!(enforced(SELECT).around(twice), enforced(SELECT).around(LIST));
}

#[test]
fn the_total_is_that_before_max_items_whatever_a_budget_cuts_too() {
    for limit in 55..70 {
        let case = enforced(SELECT).budget(limit);
        let (notice, structured) = case.around(LIST);
        let one = r#"{"result":[{"a":1}],"_truncated":{"shown":1,"total":3}}"#;
        let two = r#"{"result":[{"a":1},{"a":2}],"_truncated":{"shown":2,"total":3}}"#;
        let fitting = if limit < two.len() { one } else { two };
        assert_eq!(structured.as_deref(), Some(fitting), "{limit}");
        assert_eq!(
            notice.as_deref(),
            Some(if limit < two.len() { "1 of 3 items shown" } else { "2 of 3 items shown" })
        );
    }
}

#[test]
fn nothing_is_cut_silently() {
    let long = format!(r#"{{"a":"{}","b":1}}"#, "x".repeat(300));
    let case = advisory("{}").budget(150);
    let (notice, structured) = case.around(&long);
    assert_eq!(notice.as_deref(), Some("long text shortened"));
    assert!(structured.unwrap().ends_with(r#","_truncated":{"strings":true}}"#));
    let numbers = format!(r#"{{"a":{{"b":[{}1]}}}}"#, "1,".repeat(300));
    let (notice, structured) = case.around(&numbers);
    assert_eq!(notice.as_deref(), Some("members left out"));
    assert!(structured.unwrap().ends_with(r#","_truncated":{"members":true}}"#));
    let text = "x".repeat(300);
    let cut = case.apply(Input::Text(text.as_bytes())).unwrap();
    assert_eq!(cut.notice.as_deref(), Some("long text shortened"));
    assert_eq!((cut.report.output_bytes, cut.report.budget.unwrap().result), (150, Bytes(150)));
    // Whole lines say it themselves.
    let lines = case.apply(Input::Text("line\n".repeat(100).as_bytes())).unwrap();
    assert!(lines.text.ends_with(" more lines") && lines.notice.is_none(), "{}", lines.text);
}

#[test]
fn a_filter_may_turn_the_notice_off() {
    let filter = r#"{"root":"","select":{"a":"a"},"maxItems":2,"output":{"notice":false}}"#;
    for case in [advisory(filter), enforced(filter)] {
        assert_eq!(case.around(LIST), (None, Some(r#"{"result":[{"a":1},{"a":2}]}"#.to_owned())));
        assert_eq!(case.run(LIST).report.items_truncated_from, Some(3), "the report says it");
    }
    let on = r#"{"root":"","select":{"a":"a"},"maxItems":2,"output":{"notice":true}}"#;
    assert_eq!(enforced(on).around(LIST), enforced(SELECT).around(LIST));
}

#[test]
fn pages_are_in_the_second_block_and_the_structured_content() {
    let pages = r#"{"pages":2,"next":{"cursor":"c"}}"#;
    let below = format!("_pagination: {pages}");
    let both = format!("2 of 3 items shown\n{below}");
    let cut = r#""_truncated":{"shown":2,"total":3}"#;
    for (case, input, notice, structured) in [
        (advisory("{}"), "{}", &below, format!("{{\"_pagination\":{pages}}}")),
        (advisory("{}"), r#"{"a":1.10}"#, &below, format!(r#"{{"a":1.10,"_pagination":{pages}}}"#)),
        (advisory("{}"), "[1,{}]", &below, format!(r#"{{"result":[1,{{}}],"_pagination":{pages}}}"#)),
        (enforced(SELECT), LIST, &both, format!(r#"{{"result":[{{"a":1}},{{"a":2}}],"_pagination":{pages},{cut}}}"#)),
        // To the byte, with white space.
        (advisory("{}").raw(), " { } ", &below, format!(" {{\"_pagination\":{pages}}}")),
        (advisory("{}").raw(), " {\"a\" : 1 }\n", &below, format!(r#" {{"a" : 1,"_pagination":{pages}}}"#)),
        (enforced(r#"{"passthrough":true}"#), "[ 1 ]", &below, format!(r#"{{"result":[ 1 ],"_pagination":{pages}}}"#)),
    ] {
        let case = case.pages(pages);
        assert_eq!(case.around(input), said(notice, &structured), "{input}");
        let program = case.program();
        let input = Input::Json(input.as_bytes());
        assert_eq!(program.apply(input, &case.call), program.apply_reference(input, &case.call));
    }
    let text = advisory("{}").pages(pages).apply(Input::Text(b"text")).unwrap();
    assert_eq!((text.text.as_str(), text.notice), ("text", Some(below)));
}

#[test]
fn no_member_name_occurs_twice_in_structured_content() {
    let pages = r#"{"pages":1}"#;
    for (input, structured) in [
        (r#"{"_pagination":7,"a":1.10}"#, r#"{"a":1.10,"_pagination":{"pages":1}}"#),
        (r#"{"_pagination":7}"#, r#"{"_pagination":{"pages":1}}"#),
        (r#"{"a":1,"_pag\u0069nation":{"x":[1]},"_truncated":0,"b":2}"#, r#"{"a":1,"b":2,"_pagination":{"pages":1}}"#),
        (
            r#"{"a":"\"_pagination\"","b":{"_pagination":1}}"#,
            r#"{"a":"\"_pagination\"","b":{"_pagination":1},"_pagination":{"pages":1}}"#,
        ),
        (r#"[{"_pagination":1}]"#, r#"{"result":[{"_pagination":1}],"_pagination":{"pages":1}}"#),
    ] {
        for case in [advisory("{}"), advisory("{}").raw(), advisory(r#"{"retain":["/*"]}"#)] {
            let case = case.pages(pages);
            // `retain` has no member to keep of an element.
            let expected = if case.filter.contains("retain") && input.starts_with('[') { continue } else { structured };
            assert_eq!(case.around(input).1.as_deref(), Some(expected), "{input}");
            assert_eq!(case.text(input), input, "the first block is the value");
        }
    }
    // Where nothing is added, `_pagination` is data like any other. What says that something was cut is only the answer's.
    for (input, structured) in [
        (r#"{"_pagination":7,"a":1}"#, r#"{"_pagination":7,"a":1}"#),
        (r#"{"_truncated":{"shown":1,"total":9},"a":1,"_chunks":"[chunks] 1/9"}"#, r#"{"a":1}"#),
        (r#"{"_pagination":7,"_\u0063hunks":1}"#, r#"{"_pagination":7}"#),
        (r#"{"a":{"_chunks":1}}"#, r#"{"a":{"_chunks":1}}"#),
    ] {
        for case in [advisory("{}"), advisory("{}").raw(), advisory(r#"{"retain":["/*"]}"#)] {
            assert_eq!(case.around(input), (None, Some(structured.to_owned())), "{input}");
            assert_eq!(case.text(input), input, "the first block is the value");
        }
    }
}

#[test]
fn a_budget_counts_what_the_gateway_attaches_to_the_byte() {
    let pages = r#"{"pages":2,"items":6,"next":{"offset":6}}"#;
    let input = r#"["aaaaaaaaaaaaaaaaaaaa","bbbbbbbbbbbbbbbbbbbb","cccccccccccccccccccc"]"#;
    let whole = format!(r#"{{"result":{input},"_pagination":{pages}}}"#);
    let case = |limit| advisory("{}").pages(pages).budget(limit);
    assert_eq!(case(whole.len()).around(input), said(&format!("_pagination: {pages}"), &whole));
    assert_eq!(case(whole.len()).run(input).report.budget, None);
    let cut = case(whole.len() - 1).run(input);
    let one = r#"["aaaaaaaaaaaaaaaaaaaa"]"#;
    assert_eq!(cut.text, one, "the notice takes the place of the second");
    let budget = cut.report.budget.unwrap();
    let structured = format!(r#"{{"result":{one},"_pagination":{pages},"_truncated":{{"shown":1,"total":3}}}}"#);
    assert_eq!((budget.original, budget.result), (Bytes(whole.len()), Bytes(structured.len())));
    assert_eq!(cut.structured.to_json(&cut.text), Some(structured));
    // A limit below the size of the frame: nothing but the frame is left, and the report says so.
    let none = case(20).run(input);
    assert_eq!((none.text.as_str(), none.report.budget.unwrap().exceeded), ("[]", true));
    assert_eq!(none.notice, Some(format!("0 of 3 items shown\n_pagination: {pages}")));
}

#[test]
fn schemas_describe_enforced_answers() {
    let pages = json!({"type": "object"});
    let schema = |case: super::Case| case.program().output_schema(Some(&pages), None);
    let properties = |schema: &Value| schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let select = schema(enforced(r#"{"root":"/d","select":{"b":"b","a":"a"},"exclude":["b"]}"#)).unwrap();
    let item = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false});
    assert_eq!(
        (properties(&select), &select["properties"]["d"]["anyOf"][0]),
        (vec!["d".into(), "_truncated".into(), "_chunks".into(), "_pagination".into()], &item)
    );
    let summary = r#"{"root":"","compact":{"item":"{{.a}}"}}"#;
    let summary = schema(enforced(summary)).unwrap();
    assert_eq!(summary["required"], json!(["summary", "_compact", "_original_items"]));
    assert!(properties(&summary).contains(&"_truncated".to_owned()));
    let whole = schema(enforced(SELECT)).unwrap();
    assert_eq!(
        (&whole["type"], whole["anyOf"].as_array().map(Vec::len)),
        (&json!("object"), Some(2)),
        "a list, or an object"
    );
    assert_eq!(properties(&whole["anyOf"][0]), ["a", "_truncated", "_chunks", "_pagination"]);
    assert_eq!(properties(&whole["anyOf"][1]), ["result", "_truncated", "_chunks", "_pagination"]);
    let quiet = r#"{"root":"","select":{"_pagination":"a"},"output":{"notice":false}}"#;
    let quiet = schema(enforced(quiet)).unwrap();
    assert_eq!(quiet["anyOf"][0]["properties"], json!({"_pagination": {}}), "what the filter gives may be anything");
    assert_eq!(schema(advisory(SELECT)), None, "raw output may be asked for");
    assert_eq!(schema(enforced(r#"{"retain":["/a"]}"#)), None);
    assert_eq!(schema(enforced(r#"{"passthrough":true}"#)), None);
    let list = r#"[{"test":{"path":"/a","value":1},"root":"","select":{"a":"a"}},{"otherwise":true,"root":"","select":{"b":"b"}}]"#;
    assert_eq!(schema(enforced(list)).map(|s| s["anyOf"].as_array().map(Vec::len)), Some(Some(4)));
}
