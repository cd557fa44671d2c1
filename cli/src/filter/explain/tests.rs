use tamis_engine::{BudgetSpec, CompactSpec, FormatSpec, OutputSpec, PageRequest, TestSpec, TextSpec};

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

/// A list that is shorter as a table, with a long text in each item.
fn comments() -> String {
    let comment = |id| format!(r#"{{"identifier": {id}, "author": "ada", "text": "{}"}}"#, "words ".repeat(10));
    format!("[{}]", (0..30).map(comment).collect::<Vec<_>>().join(","))
}

fn output(spec: OutputSpec) -> FilterSpec {
    FilterSpec { root: Some(String::new()), output: Some(Box::new(spec)), ..FilterSpec::default() }
}

#[test]
fn formats_and_what_each_would_cost_are_a_row() {
    let format = |name: &str| Some(FormatSpec::One(name.into()));
    let auto = single(FilterSpec {
        exclude: strings(&["author"]),
        ..output(OutputSpec { format: format("auto"), ..OutputSpec::default() })
    });
    let trace = trace(&auto, Enforcement::Advisory, &comments(), Call::default());
    let [exclude, written] = &trace.rows[..] else { panic!("{trace:?}") };
    // What comes before the format is JSON, so it says what went.
    assert_eq!((exclude.stage, exclude.notes.join("; ")), ("exclude", "/*/author".to_owned()));
    assert_eq!((written.stage, written.items), ("output.format", Some(30)));
    assert_eq!(written.after, trace.output_bytes);
    let formats: Vec<_> = written.candidates.iter().map(|c| (c.format, c.written)).collect();
    assert_eq!(formats, [("json", "json"), ("table", "table"), ("toon", "toon")]);
    let [json, table, toon] = &written.candidates[..] else { panic!("{written:?}") };
    assert!(json.tokens > table.tokens && table.tokens >= toon.tokens, "{written:?}");
    assert_eq!(json.bytes, exclude.after.expect("an output"));
    assert_eq!(Some(toon.bytes.min(table.bytes)), written.after);
    assert!(written.notes[0].starts_with("json "), "{written:?}");
    assert!(written.notes[1].contains(" tokens (") && written.notes[1].ends_with(" % fewer)"), "{written:?}");
    assert!(written.notes[3].ends_with("chosen: at least a tenth fewer tokens than json"), "{written:?}");

    // A call's format takes the place of the filter's.
    let asked = Call { formats: Format::choice("table"), ..Call::default() };
    let trace = super::tests::trace(&auto, Enforcement::Advisory, &comments(), asked);
    let formats: Vec<_> = trace.rows[1].candidates.iter().map(|c| c.format).collect();
    assert_eq!(formats, ["json", "table"]);
    // Under a budget, the format that keeps most is written.
    let within = Call { budget: Budget::bytes(900), ..asked };
    let trace = super::tests::trace(&auto, Enforcement::Advisory, &comments(), within);
    assert_eq!((trace.rows[2].stage, trace.rows[2].notes[0].as_str()), ("output.budget", "as table"));
    // A document that is no table is JSON.
    let single = single(output(OutputSpec { format: format("table"), ..OutputSpec::default() }));
    let trace = super::tests::trace(&single, Enforcement::Advisory, r#"{"a": 1}"#, Call::default());
    assert_eq!(trace.rows[0].notes[1], "table cannot hold it");
    // Text has no format.
    let trace = super::tests::trace(&single, Enforcement::Advisory, r#"{"raw": "a"}"#, Call::default());
    assert_eq!(rows(&trace), []);
}

#[test]
fn levels_and_chunks_say_how_a_budget_was_met() {
    let levels = [("short".to_owned(), vec!["identifier".to_owned()])].into_iter().collect();
    let spec = OutputSpec {
        format: Some(FormatSpec::One("json".into())),
        budget: Some(BudgetSpec { bytes: Some(1_500), tokens: None }),
        levels: Some(levels),
        ..OutputSpec::default()
    };
    let call = Call { inputs: tamis_engine::PageInputs::ALL, ..Call::default() };
    let filter = single(output(spec));
    let explained = trace(&filter, Enforcement::Advisory, &comments(), call);
    let [budget, levels] = &explained.rows[..] else { panic!("{explained:?}") };
    assert_eq!((budget.stage, levels.stage), ("output.budget", "output.levels"));
    assert_eq!((budget.after, levels.before, levels.after), (explained.output_bytes, levels.before, budget.after));
    let shown = budget.items.expect("a list");
    let counts: Vec<usize> = levels.notes.iter().map(|n| n.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(counts.iter().sum::<usize>(), shown, "{levels:?}");
    assert!(levels.notes[0].ends_with("in full") && levels.notes[1].ends_with("as short"), "{levels:?}");

    let call = Call { budget: Budget::bytes(700), ..call };
    let without = single(output(OutputSpec::default()));
    let explained = trace(&without, Enforcement::Advisory, &comments(), call);
    let chunks = explained.rows.last().expect("rows");
    assert_eq!(chunks.stage, "output.chunks");
    assert!(chunks.notes[0].ends_with(" chunks") && chunks.notes[1].starts_with("list "), "{chunks:?}");
    // A page is shown by the same stage.
    let page = PageRequest { chunk: Some(2), ..PageRequest::default() };
    let page = Call { page: Page::new(page).expect("is a page"), ..call };
    let second = trace(&without, Enforcement::Advisory, &comments(), page);
    assert_eq!(second.rows[0].stage, "output.budget");
    assert_eq!(second.rows[0].after, second.output_bytes);
}

#[test]
fn the_rows_are_json_too() {
    let filter = single(output(OutputSpec { format: Some(FormatSpec::One("toon".into())), ..OutputSpec::default() }));
    let trace = trace(&filter, Enforcement::Advisory, &comments(), Call::default());
    let json = serde_json::to_value(&trace.rows).expect("is JSON");
    assert_eq!(json[0]["stage"], "output.format");
    assert_eq!(json[0]["bytes"], trace.rows[0].after.expect("an output"));
    assert_eq!(json[0]["candidates"][1]["format"], "toon");
    assert!(json[0]["candidates"][1]["tokens"].as_u64().is_some_and(|tokens| tokens > 100), "{json}");
}
