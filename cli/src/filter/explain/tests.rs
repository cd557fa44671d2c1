use tamis_engine::{Budget, BudgetSpec, CompactSpec, OutputSpec, TestSpec, TextSpec};

use super::*;

const ISSUES: &str = r#"{"total": 3, "debug": {"q": 1}, "items": [
    {"id": 1, "title": "One", "user": {"login": "ada", "id": 9}, "body": null},
    {"id": 2, "title": "Two", "user": {"login": "bob", "id": 8}, "body": "b"},
    {"id": 3, "title": "Three", "user": null, "body": ""}]}"#;

fn strings(list: &[&str]) -> Option<Vec<String>> {
    Some(list.iter().map(|&s| s.into()).collect())
}

fn select(pairs: &[(&str, &str)]) -> FilterSpec {
    let select = pairs.iter().map(|&(key, path)| (key.into(), path.into())).collect();
    FilterSpec { select: Some(select), ..FilterSpec::default() }
}

fn trace(filter: &ToolFilter, enforcement: Enforcement, input: &str, call: Call<'_>) -> Trace {
    let options = CompileOptions { enforcement, ..CompileOptions::default() };
    let input = Input::Json(input.as_bytes());
    let outcome = run(filter, &options, input, &call).expect("the filter compiles");
    explain(filter, &options, input, &call, &outcome)
}

fn single(spec: FilterSpec) -> ToolFilter {
    ToolFilter::Single(Box::new(spec))
}

/// Stage, items and notes of each row.
fn rows(trace: &Trace) -> Vec<(&str, Option<usize>, String)> {
    trace.rows.iter().map(|row| (row.stage, row.items, row.notes.join("; "))).collect()
}

#[test]
fn each_stage_says_what_went() {
    let filter = single(FilterSpec {
        max_items: Some(2),
        exclude: strings(&["id"]),
        drop_nulls: true,
        ..select(&[("id", "id"), ("title", "title"), ("by", "user.login"), ("body", "body"), ("gone", "x.y")])
    });
    let trace = trace(&filter, Enforcement::Advisory, ISSUES, Call::default());
    assert_eq!(trace.items, Some(3));
    assert_eq!(
        rows(&trace),
        [
            ("maxItems", Some(2), String::new()),
            ("select", Some(2), "/items/*/user; no item has: x.y".into()),
            ("exclude", Some(2), "/items/*/id".into()),
            ("dropNulls", Some(2), String::new()),
        ]
    );
    // Each row begins where the one before ended, and the last ends at the output.
    assert_eq!(trace.rows[0].before, trace.compact_bytes);
    for pair in trace.rows.windows(2) {
        assert_eq!(pair[0].after, Some(pair[1].before));
    }
    assert_eq!(trace.rows.last().and_then(|row| row.after), trace.output_bytes);
}

#[test]
fn the_payload_is_that_of_the_whole_filter() {
    // By `maxItems` alone the payload would be the list of assignees.
    let issue = r#"{"number": 1, "assignees": [{"login": "a"}, {"login": "b"}]}"#;
    let filter = single(FilterSpec { max_items: Some(1), ..select(&[("n", "number"), ("to", "assignees[*].login")]) });
    let trace = trace(&filter, Enforcement::Advisory, issue, Call::default());
    assert_eq!(trace.items, None);
    assert_eq!(trace.rows[0].before, trace.rows[0].after.expect("output"));
}

#[test]
fn budget_and_summary_come_last() {
    let filter = single(FilterSpec {
        compact: Some(Box::new(CompactSpec { header: None, item: Some("#{{.id}} {{.title}}".into()), footer: None })),
        output: Some(Box::new(OutputSpec {
            budget: Some(BudgetSpec { bytes: Some(70), tokens: None }),
            notice: Some(false),
            ..OutputSpec::default()
        })),
        ..FilterSpec::default()
    });
    let trace = trace(&filter, Enforcement::Advisory, ISSUES, Call::default());
    assert_eq!(rows(&trace), [("compact", None, String::new()), ("output.budget", None, "1 item left out".into())]);
    assert_eq!(trace.output_bytes, Some("#1 One\n#2 Two".len()));
}

#[test]
fn a_budget_of_the_call_is_a_stage_too() {
    let output = Some(Box::new(OutputSpec { notice: Some(false), ..OutputSpec::default() }));
    let filter = single(FilterSpec { root: Some("/items".into()), output, ..select(&[("id", "id")]) });
    let call = Call { budget: Budget::bytes(60), ..Call::default() };
    let trace = trace(&filter, Enforcement::Advisory, ISSUES, call);
    assert_eq!(rows(&trace)[1], ("output.budget", Some(2), "1 item left out".into()));
}

#[test]
fn under_enforced_siblings_go_and_a_failure_withholds() {
    let spec = FilterSpec { root: Some("/items".into()), ..select(&[("id", "id")]) };
    let good = trace(&single(spec.clone()), Enforcement::Enforced, ISSUES, Call::default());
    assert_eq!(
        rows(&good),
        [
            ("root", Some(3), "/total /debug".into()),
            ("select", Some(3), "/items/*/title /items/*/user /items/*/body".into()),
        ]
    );
    let bad = FilterSpec { root: Some("/items".into()), ..select(&[("x", "nothing")]) };
    let bad = trace(&single(bad), Enforcement::Enforced, ISSUES, Call::default());
    let last = bad.rows.last().expect("rows");
    assert!(last.failed && last.after.is_none() && bad.output_bytes.is_none(), "{bad:?}");
    let advisory = FilterSpec { root: Some("/items".into()), max_items: Some(1), ..select(&[("x", "nothing")]) };
    let advisory = trace(&single(advisory), Enforcement::Advisory, ISSUES, Call::default());
    // The stages of the payload fail as one: what `maxItems` took away is back.
    assert_eq!(advisory.rows[1].after, Some(advisory.compact_bytes));
    assert!(advisory.rows[1].failed);
}

#[test]
fn the_branch_that_applies_is_named() {
    let test =
        |value: &str| TestSpec { path: "/total".into(), value: tamis_engine::JsonText::parse(value).expect("JSON") };
    let branches = |last: bool| {
        ToolFilter::Branches(vec![
            FilterSpec { test: Some(Box::new(test("4"))), retain: strings(&["/debug"]), ..FilterSpec::default() },
            FilterSpec {
                test: (!last).then(|| Box::new(test("3.0"))),
                otherwise: last,
                retain: strings(&["/total"]),
                ..FilterSpec::default()
            },
        ])
    };
    for last in [false, true] {
        let trace = trace(&branches(last), Enforcement::Advisory, ISSUES, Call::default());
        assert_eq!(trace.notes, ["branch [1] applies"]);
        assert_eq!(rows(&trace), [("retain", None, "/debug /items".into())]);
    }
    let none = trace(&branches(false), Enforcement::Advisory, r#"{"total": 9}"#, Call::default());
    assert!(none.rows.is_empty());
    assert_eq!(none.notes.last().map(String::as_str), Some("no branch applies"));
}

#[test]
fn text_has_its_own_row() {
    let filter = single(FilterSpec {
        text: Some(Box::new(TextSpec { dedup: true, ..TextSpec::default() })),
        ..FilterSpec::default()
    });
    let trace = trace(&filter, Enforcement::Advisory, r#"{"raw": "a\na\na\na\na"}"#, Call::default());
    assert_eq!(trace.rows.len(), 1);
    assert_eq!(trace.output_bytes, Some("a (x5)".len()));
}

#[test]
fn long_lists_of_paths_are_shortened() {
    let before: Vec<String> = (0..20).map(|n| format!("/k{n}")).collect();
    let note = gone(&before, &[]).expect("all went");
    assert!(note.starts_with("/k0 /k1 ") && note.ends_with(" and 12 more"), "{note}");
    let nested = ["/a", "/a/b", "/a/b/c", "/d"].map(String::from);
    assert_eq!(gone(&nested, &["/d".into()]).as_deref(), Some("/a"));
    assert_eq!(gone(&nested, &["/a".into(), "/d".into()]).as_deref(), Some("/a/b"));
}
