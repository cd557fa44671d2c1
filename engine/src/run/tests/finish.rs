use super::{advisory, bare, enforced};
use crate::{Budget, Bytes, Structured, Tokens};

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
        let truncated = serde_json::json!({"shown": 2, "total": 3});
        assert_eq!(
            value,
            serde_json::json!({"summary": summary, "_compact": true, "_original_items": 3, "_truncated": truncated})
        );
        assert_eq!(filtered.report.items_truncated_from, Some(3));
        assert_eq!(filtered.notice.as_deref(), Some("2 of 3 items shown"));
        assert_eq!(filtered.report.output_bytes, summary.len() + "2 of 3 items shown".len());
    }
}

#[test]
fn a_payload_that_is_not_a_list_has_no_summary() {
    let filtered = advisory(COMPACT).run(r#"{"number":1}"#);
    assert_eq!((filtered.text.as_str(), filtered.structured), (r#"{"number":1}"#, bare()));
    assert_eq!((filtered.report.compact_error, filtered.report.error), (None, None), "nothing has failed");
    assert_eq!(filtered.report.warnings[0].message, "the payload is not a list");
    assert_eq!(enforced(COMPACT).refused(r#"{"number":1}"#).0, "compact", "templates hide what they do not print");
}

#[test]
fn a_trimmed_output_holds_only_the_memory_of_the_result() {
    let list = format!("[{}]", vec![format!(r#"{{"a":"{}","x":0}}"#, "y".repeat(200)); 5_000].join(","));
    for (case, most) in [
        (advisory(r#"{"root":"","exclude":["x"],"output":{"budget":{"bytes":1000}}}"#), 1_000),
        (advisory(r#"{"root":"","exclude":["x"]}"#).budget(1_000), 1_000),
        (advisory(r#"{"root":"","exclude":["x"]}"#), list.len()),
    ] {
        let filtered = case.run(&list);
        assert!(filtered.text.capacity() <= most, "{} bytes for {}", filtered.text.capacity(), filtered.text.len());
    }
}

#[test]
fn a_budget_holds_and_only_the_lower_counts() {
    let filter = |bytes: usize| format!(r#"{{"root":"","exclude":["x"],"output":{{"budget":{{"bytes":{bytes}}}}}}}"#);
    let item = |n: usize, x: &str| format!(r#"{{"a":"{}"{x}}}"#, n.to_string().repeat(20));
    let list = |items: usize, x| format!("[{}]", (1..=items).map(|n| item(n, x)).collect::<Vec<_>>().join(","));
    let cut = |items| format!(r#"{{"result":{},"_truncated":{{"shown":{items},"total":5}}}}"#, list(items, ""));
    let input = &list(5, r#","x":0"#);
    let (whole, three, two) = (list(5, "").len() + 11, cut(3), cut(2));
    assert_eq!((whole, three.len(), two.len()), (157, 134, 105));
    for (case, limit, structured) in [
        (advisory(&filter(134)), 134, &three),
        (advisory(&filter(133)), 133, &two),
        (enforced(&filter(134)).budget(105), 105, &two),
        (advisory(&filter(134)).budget(1000), 134, &three),
        (advisory(&filter(134)).budget(0), 134, &three),
    ] {
        let filtered = case.run(input);
        assert_eq!(filtered.structured.to_json(&filtered.text).as_ref(), Some(structured), "{limit}");
        let budget = filtered.report.budget.expect("it was cut");
        assert_eq!(
            (budget.limit, budget.original, budget.result),
            (Budget::bytes(limit), Bytes(whole), Bytes(structured.len()))
        );
        let notice = filtered.notice.expect("it was cut");
        assert_eq!(filtered.report.result_bytes, whole - 11);
        assert_eq!(filtered.report.output_bytes, filtered.text.len() + notice.len());
    }
    assert_eq!(advisory(&filter(134)).run("[]").report.budget, None);
}

#[test]
fn a_budget_trims_the_payload_wherever_it_is() {
    let filter = r#"{"root":"/d/items","exclude":["x"]}"#;
    let input =
        r#"{"n":3,"d":{"items":[{"a":"aaaaaaaaaaaaaaaaaaaaaaaa"},{"a":"bbbbbbbbbbbbbbbbbbbbbbbb"},{"a":"c"}]}}"#;
    // All items are worth the same, and the last is the smallest.
    let one = r#"{"n":3,"d":{"items":[{"a":"c"}]}"#;
    let text = advisory(filter).budget(one.len() + 1 + r#","_truncated":{"shown":1,"total":3}"#.len()).text(input);
    assert_eq!(text, format!("{one}}}"));
}

#[test]
fn a_budget_without_a_payload_stage_drops_whole_items() {
    let items: Vec<String> = (0..50).map(|n| format!(r#"{{"id":{n},"title":"title {n}"}}"#)).collect();
    for (name, filter) in [
        ("result", r#"{"output":{"budget":{"bytes":200}}}"#),
        ("items", r#"{"retain":["/items"],"output":{"budget":{"bytes":130}}}"#),
        ("data", r#"{"patches":[{"op":"remove","path":"/n"}],"output":{"budget":{"bytes":130}}}"#),
        ("rows", r#"{"dropNulls":true,"output":{"budget":{"bytes":130}}}"#),
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
        let data =
            |items: usize| format!(r#"{{"data":[{}]}}"#, vec![format!("\"{}\"", "a".repeat(40)); items].join(","));
        let (input, two, one) = (&data(3), data(2), data(1));
        let said = r#","_truncated":{"shown":1,"total":3}"#.len();
        assert_eq!(advisory(filter).budget(two.len()).text(input), one, "{filter}");
        assert_eq!(advisory(filter).budget(one.len() + said).text(input), one, "{filter}");
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
    let case = enforced(COMPACT).budget(160);
    let cut = case.run(ISSUES);
    assert!(cut.text.starts_with("Issues (3 total):\n  #1 Fix") && cut.report.budget.is_some(), "{}", cut.text);
    // Fields that are not printed, however long, change nothing.
    let other = ISSUES.replace("\"number\":1,", &format!("\"number\":1,\"body\":\"{}\",", "x".repeat(500)));
    assert_eq!(case.run(&other).text, cut.text);
}

#[test]
fn a_budget_applies_where_no_branch_does() {
    let said = r#"{"result":,"_truncated":{"shown":3,"total":40}}"#.len();
    let input = format!("[1, 2, 3{}]", ", 4".repeat(37));
    for filter in [r#"[{"test":{"path":"/a","value":1},"retain":["/a"]}]"#, r#"{"passthrough":true}"#] {
        assert_eq!(advisory(filter).budget(said + 8).text(&input), "[1,2,3]");
    }
}

#[test]
fn a_template_that_prints_nothing_is_reported() {
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

#[test]
fn a_budget_in_tokens_holds_and_is_nearly_used_up() {
    let items: Vec<_> = (0..400).map(|n| format!(r#"{{"number":{n},"title":"item {n} of the list","x":0}}"#)).collect();
    let input = format!("[{}]", items.join(","));
    let filter =
        |tokens: usize| format!(r#"{{"root":"","exclude":["x"],"output":{{"budget":{{"tokens":{tokens}}}}}}}"#);
    for (case, limit) in [
        (advisory(&filter(1000)), 1000),
        (enforced(&filter(1000)), 1000),
        (advisory(&filter(3000)).tokens(500), 500),
        (advisory(&filter(500)).tokens(3000), 500),
        (advisory("{}").tokens(500), 500),
        (advisory(r##"{"compact":{"item":"#{{.number}} {{.title}}"}}"##).tokens(300), 300),
    ] {
        let filtered = case.run(&input);
        let counted = filtered.report.tokens.expect("they were counted");
        assert_eq!((counted.tokenizer, counted.exact), ("estimate", false));
        assert!(counted.counted <= Tokens(limit) && counted.counted.0 * 100 >= limit * 97, "{counted:?} of {limit}");
        let budget = filtered.report.budget.expect("it was cut");
        assert_eq!((budget.limit, budget.exceeded), (Budget::tokens(limit), false));
        assert!(filtered.notice.is_some_and(|notice| notice.ends_with("of 400 items shown")));
    }
    let whole = advisory(&filter(1_000_000)).run(&input);
    assert_eq!((whole.report.budget, whole.notice), (None, None));
    assert!(whole.report.tokens.is_some());
    assert_eq!(advisory(r#"{"root":"","exclude":["x"]}"#).run(&input).report.tokens, None, "nothing asks for them");
}

#[test]
fn each_limit_of_a_budget_holds() {
    let input = format!("[{}]", vec![r#"{"a":"some words of a text"}"#; 300].join(","));
    for (bytes, tokens) in [(500, 5_000), (5_000, 100), (700, 200), (40, 1), (1, 40)] {
        let filtered = advisory("{}").budget(bytes).tokens(tokens).run(&input);
        let budget = filtered.report.budget.expect("it was cut");
        let counted = filtered.report.tokens.expect("they were counted").counted;
        let fits = budget.result <= Bytes(bytes) && counted <= Tokens(tokens);
        assert!(fits != budget.exceeded, "{bytes} {tokens}: {budget:?} {counted}");
        assert_eq!(budget.exceeded, bytes.min(tokens) == 1);
    }
}

#[test]
fn a_budget_in_tokens_cuts_text_too() {
    let input = "a line of a log\n".repeat(1_000);
    let case = advisory(r#"{"text":{"dedup":false}}"#).tokens(100);
    let filtered = case.apply(crate::Input::Text(input.as_bytes())).expect("advisory");
    assert!(filtered.text.ends_with("more lines"), "{}", filtered.text);
    assert!((97..=100).contains(&filtered.report.tokens.expect("counted").counted.0));
}
