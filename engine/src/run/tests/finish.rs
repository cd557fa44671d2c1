use super::{advisory, enforced};
use crate::Structured;

const COMPACT: &str = r##"{"root":"","compact":{"header":"Issues ({{.Total}} total):","item":"  #{{.number}} {{.title}} [{{.state}}]",
    "footer":"Showing {{.Count}} of {{.Total}}, {{.Remaining}} more"},"maxItems":2}"##;
const ISSUES: &str = r#"[{"number":1,"title":"Fix crash","state":"open"},{"number":1.10,"title":"Add \"test\"","state":null},{"number":3}]"#;

#[test]
fn a_list_is_summed_up() {
    for case in [advisory(COMPACT), enforced(COMPACT)] {
        let filtered = case.run(ISSUES);
        let summary = "Issues (3 total):\n  #1 Fix crash [open]\n  #1.10 Add \"test\" []\nShowing 2 of 3, 1 more";
        assert_eq!(filtered.text, summary);
        let Structured::Json(json) = &filtered.structured else { panic!("{:?}", filtered.structured) };
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(value, serde_json::json!({"summary": summary, "_compact": true, "_original_items": 3}));
        assert_eq!(filtered.report.items_truncated_from, Some(3));
        assert_eq!(filtered.report.output_bytes, summary.len());
    }
}

#[test]
fn what_is_no_list_is_not_summed_up() {
    let filtered = advisory(COMPACT).run(r#"{"number":1}"#);
    assert_eq!((filtered.text.as_str(), filtered.structured), (r#"{"number":1}"#, Structured::Text));
    assert_eq!(filtered.report.compact_error.as_deref(), Some("the payload is not a list"));
    assert_eq!(enforced(COMPACT).refused(r#"{"number":1}"#).0, "compact", "templates hide what they do not print");
}

#[test]
fn a_budget_holds_and_only_the_lower_counts() {
    let filter = r#"{"root":"","exclude":["x"],"output":{"budget":{"bytes":30}}}"#;
    let input = r#"[{"a":1,"x":0},{"a":2},{"a":3},{"a":4},{"a":5}]"#;
    for (case, limit, text) in [
        (advisory(filter), 30, r#"[{"a":1},{"a":2},{"a":3}]"#),
        (enforced(filter).budget(20), 20, r#"[{"a":1},{"a":2}]"#),
        (advisory(filter).budget(1000), 30, r#"[{"a":1},{"a":2},{"a":3}]"#),
        (advisory(filter).budget(0), 30, r#"[{"a":1},{"a":2},{"a":3}]"#),
    ] {
        let filtered = case.run(input);
        assert_eq!(filtered.text, text);
        let budget = filtered.report.budget.expect("it was cut");
        assert_eq!((budget.limit, budget.original_bytes, budget.result_bytes), (limit, 41, text.len()));
        assert_eq!((filtered.report.result_bytes, filtered.report.output_bytes), (41, text.len()));
    }
    assert_eq!(advisory(filter).run("[]").report.budget, None);
}

#[test]
fn a_budget_trims_the_payload_wherever_it_is() {
    let filter = r#"{"root":"/d/items","exclude":["x"]}"#;
    let text = advisory(filter).budget(40).text(r#"{"n":3,"d":{"items":[{"a":"aaaa"},{"a":"bbbb"},{"a":"cccc"}]}}"#);
    assert_eq!(text, r#"{"n":3,"d":{"items":[{"a":"aaaa"}]}}"#);
}

#[test]
fn a_budget_counts_what_the_template_prints() {
    let case = enforced(COMPACT).budget(60);
    let cut = case.run(ISSUES);
    assert!(cut.text.len() <= 60, "{}", cut.text);
    // Fields that are not printed, however long, change nothing.
    let other = ISSUES.replace("\"number\":1,", &format!("\"number\":1,\"body\":\"{}\",", "x".repeat(500)));
    assert_eq!(case.run(&other).text, cut.text);
}

#[test]
fn a_budget_applies_where_no_branch_does() {
    let case = advisory(r#"[{"test":{"path":"/a","value":1},"retain":["/a"]}]"#).budget(8);
    assert_eq!(case.text("[1, 2, 3, 4, 5]"), "[1,2,3]");
    assert_eq!(advisory(r#"{"passthrough":true}"#).budget(8).text("[1, 2, 3, 4, 5]"), "[1,2,3]");
}

#[test]
fn schemas_say_what_enforced_answers_look_like() {
    let schema = |case: super::Case| case.program().output_schema();
    let select = r#"{"root":"/d","select":{"b":"b","a":"a"},"exclude":["b"]}"#;
    let item = serde_json::json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false});
    assert_eq!(schema(enforced(select)).map(|s| s["properties"]["d"]["anyOf"][0].clone()), Some(item));
    assert_eq!(
        schema(enforced(COMPACT)).map(|s| s["required"].clone()),
        Some(serde_json::json!(["summary", "_compact", "_original_items"]))
    );
    assert_eq!(schema(advisory(select)), None, "raw output may be asked for");
    assert_eq!(schema(enforced(r#"{"retain":["/a"]}"#)), None);
    assert_eq!(schema(enforced(r#"{"passthrough":true}"#)), None);
    let list = r#"[{"test":{"path":"/a","value":1},"root":"","select":{"a":"a"}},{"otherwise":true,"root":"","select":{"b":"b"}}]"#;
    assert_eq!(schema(enforced(list)).map(|s| s["anyOf"].as_array().map(Vec::len)), Some(Some(2)));
}
