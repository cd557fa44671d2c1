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
    assert_eq!((filtered.report.compact_error, filtered.report.error), (None, None), "nothing has failed");
    assert_eq!(filtered.report.warnings[0].message, "the payload is not a list");
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
fn a_budget_without_a_payload_stage_drops_whole_items() {
    let items: Vec<String> = (0..50).map(|n| format!(r#"{{"id":{n},"title":"title {n}"}}"#)).collect();
    for (name, filter) in [
        ("result", r#"{"output":{"budget":{"bytes":200}}}"#),
        ("items", r#"{"retain":["/items"],"output":{"budget":{"bytes":90}}}"#),
        ("data", r#"{"patches":[{"op":"remove","path":"/n"}],"output":{"budget":{"bytes":90}}}"#),
        ("rows", r#"{"dropNulls":true,"output":{"budget":{"bytes":90}}}"#),
    ] {
        let input = format!(r#"{{"n":50,"{name}":[{}]}}"#, items.join(","));
        let filtered = advisory(filter).run(&input);
        let value: serde_json::Value = serde_json::from_str(&filtered.text).unwrap();
        let shown = value[name].as_array().unwrap();
        assert!(!shown.is_empty() && shown.iter().all(|item| item["title"].is_string()), "{}", filtered.text);
        let budget = filtered.report.budget.expect("it was cut");
        assert_eq!((budget.items_dropped, budget.members_dropped), (50 - shown.len(), 0), "{name}");
    }
    // The caller's budget finds them too, where no filter applies.
    let branch = r#"[{"test":{"path":"/a","value":1},"retain":["/a"]}]"#;
    for filter in [branch, r#"{"passthrough":true}"#, "{}"] {
        assert_eq!(advisory(filter).budget(18).text(r#"{"data":[1,2,3,4,5,6]}"#), r#"{"data":[1,2,3,4]}"#, "{filter}");
    }
}

#[test]
fn a_filter_without_stages_applies_nothing() {
    for filter in ["{}", r#"{"maxItems":0,"exclude":[],"patches":[]}"#] {
        for input in [r#"{"a":1}"#, "text", r#"{"raw":"text"}"#] {
            let report = advisory(filter).run(input).report;
            assert_eq!((report.applied, report.skipped, report.error), (false, Some("no_stage"), None), "{input}");
        }
    }
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

#[test]
fn a_template_that_prints_nothing_is_said() {
    let run = |item: &str, input: &str| {
        let filter =
            serde_json::json!({"root": "", "exclude": ["x"], "compact": {"header": "h", "item": item}}).to_string();
        let report = enforced(&filter).run(input).report;
        let missed = report.unresolved.iter().any(|path| path == "compact.item");
        let warned = report.warnings.iter().any(|w| w.message == "`compact.item` printed nothing of any item");
        assert_eq!(missed, warned);
        missed
    };
    let items = r#"[{"title":"a","x":1},{"title":"b","none":null,"x":2}]"#;
    assert!(run("{{.titel}}", items));
    assert!(run("- {{.titel}}{{.none}}", items));
    assert!(run("{{if .title}}{{end}}", items));
    assert!(!run("- {{.titel}} {{.title}}", items));
    assert!(!run("an item", items));
    assert!(!run("{{.titel}}", "[]"));
}
