//! Reaches each bound, in both executors alike, and measures runs in steps.

use std::cell::Cell;
use std::fmt::Write as _;

use super::{Case, advisory, enforced};
use crate::{Input, Interrupted, Stage};

/// Runs both executors and compares them. Returns the stage that failed, and the reason.
fn failed(case: &Case, input: Input<'_>) -> Option<(Stage, String)> {
    let program = case.program();
    let (fast, tree) = (program.apply(input, &case.call), program.apply_reference(input, &case.call));
    assert_eq!(fast, tree, "{}", case.filter);
    let report = match fast {
        Ok(filtered) => filtered.report,
        Err(refused) => *refused.report,
    };
    let compact = report.compact_error.map(|reason| (Stage::Compact, reason));
    report.error.map(|error| (error.stage, error.message)).or(compact)
}

/// Asserts that a stage fails under both values of `enforcement`.
fn fails(filter: &str, document: &str, stage: Stage, reason: &str) {
    for case in [advisory(filter), enforced(filter)] {
        let (at, why) = failed(&case, Input::Json(document.as_bytes())).unwrap_or_else(|| panic!("{filter} passes"));
        assert_eq!(at, stage, "{filter}: {why}");
        assert!(why.contains(reason), "{why}");
    }
}

fn list(items: usize, item: &str) -> String {
    format!("[{}]", vec![item; items].join(","))
}

/// Returns paths that go through every level by its name or by `*`, so that all of them are followed at once.
fn crossing(levels: u32, below: &str) -> Vec<String> {
    let path = |bits: u32| {
        let way: String = (0..levels).map(|level| if bits >> level & 1 == 0 { "/a" } else { "/*" }).collect();
        format!("{way}{below}/x{bits}")
    };
    (0..1 << levels).map(path).collect()
}

#[test]
fn values_are_bounded_by_the_size() {
    let (good, bad) = (list(65_000, "1"), list(100_000, "1"));
    let filter = r#"{"root":"","exclude":["a"]}"#;
    for case in [advisory(filter), enforced(filter), advisory(r#"{"dropNulls":true}"#), advisory("{}")] {
        assert_eq!(failed(&case, Input::Json(good.as_bytes())), None);
    }
    fails(filter, &bad, Stage::Parse, "members and elements");
    fails(r#"{"retain":["/0"]}"#, &bad, Stage::Parse, "members and elements");
    // What goes to the caller as it came needs no tree.
    for case in [enforced(r#"{"passthrough":true}"#), advisory(r#"{"passthrough":true}"#)] {
        assert_eq!(failed(&case, Input::Json(bad.as_bytes())), None);
        assert_eq!(case.text(&bad), bad);
    }
}

#[test]
fn paths_that_lead_through_one_place_together_are_bounded() {
    let leaf = list(12_000, r#"{"y":1}"#);
    let document = format!("{}{leaf}{}", r#"{"a":"#.repeat(8), "}".repeat(8));
    let paths = serde_json::to_string(&crossing(8, "/*")).unwrap();
    fails(&format!(r#"{{"retain":{paths}}}"#), &document, Stage::Retain, "steps");
    fails(&format!(r#"{{"root":"","exclude":{paths}}}"#), &document, Stage::Select, "steps");
    // A few of them are nothing.
    let paths = serde_json::to_string(&crossing(3, "/*")).unwrap();
    let case = advisory(&format!(r#"{{"retain":{paths},"root":"","exclude":{paths}}}"#));
    assert_eq!(failed(&case, Input::Json(document.as_bytes())), None);
}

#[test]
fn a_stage_that_reaches_its_bound_leaves_its_input_unchanged() {
    let leaf = list(12_000, r#"{"y":1}"#);
    let document = format!("{}{leaf}{}", r#"{"a":"#.repeat(8), "}".repeat(8));
    let paths = serde_json::to_string(&crossing(8, "/*")).unwrap();
    assert_eq!(advisory(&format!(r#"{{"retain":{paths}}}"#)).text(&document), document);
    let doubled = format!(r#"{{"b":0,"l":{{"a":{{{}}}}}}}"#, vec![r#""a":1"#; 20_000].join(","));
    let tests = vec![r#"{"op":"test","path":"/l","value":{"a":{"a":1}}}"#; 300].join(",");
    let case = advisory(&format!(r#"{{"retain":["/l"],"patches":[{{"op":"remove","path":"/b"}},{tests}]}}"#));
    assert_eq!(failed(&case, Input::Json(doubled.as_bytes())).map(|(at, _)| at), Some(Stage::Patches));
    assert_eq!(case.text(&doubled), doubled.replace(r#""b":0,"#, ""));
}

#[test]
fn operations_and_tests_are_bounded() {
    // One key many times: nothing but looking at each says whether the value is the last.
    let doubled = format!(r#"{{"l":{{"a":{{{}}}}}}}"#, vec![r#""a":1"#; 20_000].join(","));
    let test = r#"{"path":"/l","value":{"a":{"a":2}}}"#;
    let branches: Vec<_> = (0..300).map(|i| format!(r#"{{"test":{test},"retain":["/b{i}"]}}"#)).collect();
    fails(&format!("[{}]", branches.join(",")), &doubled, Stage::Branch, "steps");
    let tests = vec![r#"{"op":"test","path":"/l","value":{"a":{"a":1}}}"#; 300].join(",");
    fails(&format!(r#"{{"patches":[{tests}]}}"#), &doubled, Stage::Patches, "steps");
}

#[test]
fn fields_times_items_are_bounded() {
    let fields: Vec<_> = (0..1000).map(|i| format!(r#""k{i}":"k{i}""#)).collect();
    let each: Vec<_> = (0..1000).map(|i| format!(r#""k{i}":"l[*].k{i}""#)).collect();
    let items = list(10_000, r#"{"k5":1}"#);
    fails(&format!(r#"{{"root":"","select":{{{}}}}}"#, fields.join(",")), &items, Stage::Select, "steps");
    let one = format!(r#"{{"l":{items}}}"#);
    fails(&format!(r#"{{"root":"","select":{{{}}}}}"#, each.join(",")), &one, Stage::Select, "steps");
    let few = format!(r#"{{"root":"","select":{{{}}}}}"#, fields[..40].join(","));
    assert_eq!(failed(&enforced(&few), Input::Json(items.as_bytes())), None);
}

#[test]
fn templates_are_bounded() {
    let document = format!("[{}]", list(3000, "1"));
    let filter = r#"{"root":"","compact":{"item":"{{range .}}{{range $}}{{if .}}{{end}}{{end}}{{end}}"}}"#;
    fails(filter, &document, Stage::Compact, "steps");
}

#[test]
fn expressions_are_bounded_and_end_soon() {
    let text = format!("{}\n", "01".repeat(60_000));
    let filter = r#"{"text":{"keep":["[01]*1[01]{15000}x"]}}"#;
    for case in [advisory(filter), enforced(filter)] {
        let Some((stage, reason)) = failed(&case, Input::Text(text.as_bytes())) else { panic!("it passes") };
        assert_eq!(stage, Stage::Text);
        assert!(reason.contains("expressions take more than"), "{reason}");
    }
    // A Unicode word boundary next to non-ASCII text: the steps of that search are counted before it starts.
    let text = format!("{}\u{e9}", "ab ".repeat(40_000));
    let case = enforced(r#"{"text":{"keep":["\\b[a-z]{400}x\\b"]}}"#);
    assert_eq!(failed(&case, Input::Text(text.as_bytes())).map(|(stage, _)| stage), Some(Stage::Text));
    let short = format!("{}\u{e9}\n", "ab ".repeat(40)).repeat(20);
    let case = enforced(r#"{"text":{"keep":["\\bab\\b"]}}"#);
    assert_eq!(failed(&case, Input::Text(short.as_bytes())), None);
}

/// Returns how often one run polls the interrupt: once in several thousand steps.
fn polls(case: &Case, input: Input<'_>) -> usize {
    let asked = Cell::new(0);
    let interrupt = || {
        asked.set(asked.get() + 1);
        false
    };
    let done = case.program().apply_until(input, &case.call, &interrupt);
    assert_eq!(done, Ok(case.program().apply(input, &case.call)), "{}", case.filter);
    asked.get()
}

/// An object of many members, one of them twice.
fn wide(members: usize) -> String {
    let mut out = String::from("{");
    for i in 0..members {
        let _ = write!(out, r#""k{i}":{{"a":{i},"b":null,"c":"some text"}},"#);
    }
    out + r#""k0":1}"#
}

#[test]
fn every_stage_can_be_interrupted_anywhere() {
    let json = wide(8000);
    let items = format!("[{}]", wide(8000));
    let text = "a line with \u{1b}[31mcolours\u{1b}[0m\r\n".repeat(10_000);
    let cases = [
        (r#"{"root":"","dropNulls":true}"#, &json),
        (r#"{"retain":["/*/a","/k1/b"],"root":"","exclude":["/*/b"],"dropEmpty":true}"#, &json),
        (r#"{"patches":[{"op":"remove","path":"/k7"},{"op":"copy","from":"","path":"/x"}]}"#, &json),
        (r#"{"root":"","select":{"a":"k7.a","b":"k9"},"output":{"budget":{"bytes":20}}}"#, &items),
        (r#"{"output":{"budget":{"bytes":4000}}}"#, &json),
        (r#"{"root":"","compact":{"item":"{{range .}}{{.}} {{end}}"}}"#, &items),
        (r#"[{"test":{"path":"/k9/a","value":1},"dropNulls":true},{"otherwise":true,"retain":["/*/c"]}]"#, &json),
        (r#"{"text":{"stripAnsi":true,"strip":["^b","c$"],"keep":["[a-z]+"],"dedup":true}}"#, &text),
    ];
    for (filter, document) in cases {
        for case in [advisory(filter), enforced(filter)] {
            let input = if std::ptr::eq(document, &text) { Input::Text } else { Input::Json }(document.as_bytes());
            let all = polls(&case, input);
            assert!(all >= 4, "{filter}: {all} polls");
            for last in 0..all {
                let asked = Cell::new(0);
                let interrupt = || {
                    asked.set(asked.get() + 1);
                    asked.get() > last
                };
                assert_eq!(case.program().apply_until(input, &case.call, &interrupt), Err(Interrupted), "{filter}");
                assert_eq!(asked.get(), last + 1, "{filter}: asked again");
            }
        }
    }
}

#[test]
fn light_runs_are_short_or_declined() {
    let case = advisory(r#"{"root":"","select":{"a":"a"},"dropNulls":true}"#);
    let program = case.program();
    let light = |items: usize, item: &str| {
        let document = list(items, item);
        let done = program.apply_light(Input::Json(document.as_bytes()), &case.call);
        if let Some(done) = &done {
            assert_eq!(*done, program.apply(Input::Json(document.as_bytes()), &case.call));
        }
        done.is_some()
    };
    assert!(light(1000, r#"{"a":"............................................................."}"#));
    assert!(!light(3000, r#"{"a":"............................................................."}"#));
    // A duplicate key leads to the tree.
    assert!(light(100, r#"{"a":"...............................","a":1}"#));
    assert!(!light(1000, r#"{"a":"...............................","a":1}"#));
    let patched = enforced(
        r#"{"retain":["/a","/b"],"patches":[{"op":"test","path":"/0/b","value":1},{"op":"remove","path":"/0/a"}]}"#,
    );
    let issues =
        list(1000, r#"{"a":"............................................................","b":1,"c":{"d":[]}}"#);
    let done = patched.program().apply_light(Input::Json(issues.as_bytes()), &patched.call);
    assert_eq!(done, Some(patched.program().apply(Input::Json(issues.as_bytes()), &patched.call)));
    let template =
        advisory(r#"{"root":"","compact":{"item":"{{range $}}{{range $}}{{range $}}{{end}}{{end}}{{end}}"}}"#);
    let nested = list(1, &list(200, "1"));
    assert_eq!(template.program().apply_light(Input::Json(nested.as_bytes()), &template.call), None);
}

#[test]
fn a_thousand_operations_and_a_thousand_paths_cost_steps_linear_in_the_document() {
    let removes: Vec<_> = (0..1000).map(|i| format!(r#"{{"op":"remove","path":"/k{}"}}"#, i * 7)).collect();
    let moves: Vec<_> = (0..1000).map(|i| format!(r#"{{"op":"move","from":"/k{}","path":"/m{i}"}}"#, i * 3)).collect();
    let sets: Vec<_> = (0..1000).map(|i| format!(r#"{{"op":"add","path":"/k{}/z","value":1}}"#, i * 5 + 1)).collect();
    let tests: Vec<_> = (0..1000).map(|_| r#"{"op":"test","path":"/k1","value":{"a":1}}"#.to_owned()).collect();
    let paths: Vec<_> = (0..1000).map(|i| format!(r#""/k{}/a""#, i * 7)).collect();
    let names: Vec<_> = (0..1000).map(|i| format!(r#""k{}""#, i * 7)).collect();
    let fields: Vec<_> = (0..1000).map(|i| format!(r#""f{i}":"k{}.a""#, i * 7)).collect();
    let tested: Vec<_> = (0..999)
        .map(|i| format!(r#"{{"test":{{"path":"/k{i}/b","value":1}},"retain":["/k0"]}}"#))
        .chain([r#"{"otherwise":true,"retain":["/k1"]}"#.to_owned()])
        .collect();
    // One operation on the same executor: a key that occurs twice leads to the tree, except where operations stream.
    let (streamed, tree) = (r#"{"op":"remove","path":"/k1"}"#, r#"{"op":"move","from":"/k1","path":"/m"}"#);
    let [streamed, tree] = [streamed, tree].map(|one| format!(r#"{{"patches":[{one}]}}"#));
    let filters = [
        (&streamed, format!(r#"{{"patches":[{}]}}"#, removes.join(","))),
        (&tree, format!(r#"{{"patches":[{}]}}"#, moves.join(","))),
        (&streamed, format!(r#"{{"patches":[{}]}}"#, sets.join(","))),
        (&tree, format!(r#"{{"patches":[{}]}}"#, tests.join(","))),
        (&tree, format!(r#"{{"retain":[{}]}}"#, paths.join(","))),
        (&tree, format!(r#"{{"exclude":[{}]}}"#, paths.join(","))),
        (&tree, format!(r#"{{"exclude":[{}]}}"#, names.join(","))),
        (&tree, format!(r#"{{"root":"","select":{{{}}}}}"#, fields.join(","))),
        (&tree, format!("[{}]", tested.join(","))),
    ];
    let shift = r#"{"op":"remove","path":"/3"},{"op":"add","path":"/1","value":0}"#;
    let shifting = format!(r#"{{"patches":[{}]}}"#, vec![shift; 500].join(","));
    let shift = format!(r#"{{"patches":[{shift}]}}"#);
    for size in [10_000, 40_000] {
        let document = wide(size);
        for (one, filter) in &filters {
            let one = polls(&advisory(one), Input::Json(document.as_bytes()));
            let many = polls(&advisory(filter), Input::Json(document.as_bytes()));
            assert!(many <= 2 * one + 8, "{size} members: {many} polls for a thousand, {one} for one: {filter:.60}");
        }
        let elements = list(size, r#"{"a":1,"a":2}"#);
        let one = polls(&advisory(&shift), Input::Json(elements.as_bytes()));
        let many = polls(&advisory(&shifting), Input::Json(elements.as_bytes()));
        assert!(many <= 2 * one + 8, "{size} elements: {many} polls for a thousand, {one} for one");
    }
}
