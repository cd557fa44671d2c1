use super::{advisory, enforced, table};

fn patch(operations: &str) -> String {
    format!("{{\"patches\":[{operations}]}}")
}

/// Operations, input, output: those that apply.
const CASES: &[(&str, &str, &str)] = &[
    // In order, each on what the one before it left.
    (
        r#"{"op":"add","path":"/b","value":{"c":1}},{"op":"move","from":"/b/c","path":"/d"},{"op":"remove","path":"/a"}"#,
        r#"{"a":0}"#,
        r#"{"b":{},"d":1}"#,
    ),
    (r#"{"op":"add","path":"/b","value":1.10}"#, r#"{"a":0,"b":1}"#, r#"{"a":0,"b":1.10}"#),
    (r#"{"op":"add","path":"/x~1y","value":" \ud800"}"#, "{}", r#"{"x/y":" \ud800"}"#),
    (r#"{"op":"add","path":"/l/1","value":9}"#, r#"{"l":[1,2]}"#, r#"{"l":[1,9,2]}"#),
    (r#"{"op":"add","path":"/l/2","value":9}"#, r#"{"l":[1,2]}"#, r#"{"l":[1,2,9]}"#),
    (r#"{"op":"add","path":"/l/-","value":9}"#, r#"{"l":[1,2]}"#, r#"{"l":[1,2,9]}"#),
    (r#"{"op":"add","path":"","value":[1]}"#, r#"{"l":0}"#, "[1]"),
    (r#"{"op":"replace","path":"/a","value":null}"#, r#"{"a":0,"b":1}"#, r#"{"a":null,"b":1}"#),
    (r#"{"op":"replace","path":"/l/0","value":{}}"#, r#"{"l":[1,2]}"#, r#"{"l":[{},2]}"#),
    (r#"{"op":"copy","from":"/a","path":"/b"}"#, r#"{"a":[1.0]}"#, r#"{"a":[1.0],"b":[1.0]}"#),
    (r#"{"op":"move","from":"/l/0","path":"/l/1"}"#, r#"{"l":[1,2,3]}"#, r#"{"l":[2,1,3]}"#),
    (r#"{"op":"move","from":"/a","path":"/a"}"#, r#"{"a":1}"#, r#"{"a":1}"#),
    (r#"{"op":"remove","path":""}"#, r#"{"a":1}"#, "null"),
    // `remove` of an absent value, or below an absent member, a null or a scalar, succeeds.
    (r#"{"op":"remove","path":"/a"}"#, "{}", "{}"),
    (r#"{"op":"remove","path":"/a/b/c"}"#, "{}", "{}"),
    (r#"{"op":"remove","path":"/a/b"}"#, r#"{"a":null}"#, r#"{"a":null}"#),
    (r#"{"op":"remove","path":"/a/b"}"#, r#"{"a":"s"}"#, r#"{"a":"s"}"#),
    (r#"{"op":"remove","path":"/l/5"}"#, r#"{"l":[1]}"#, r#"{"l":[1]}"#),
    (r#"{"op":"remove","path":"/l/-"}"#, r#"{"l":[1]}"#, r#"{"l":[1]}"#),
    (r#"{"op":"remove","path":"/l/5/x"}"#, r#"{"l":[1]}"#, r#"{"l":[1]}"#),
    (
        r#"{"op":"remove","path":"/a"},{"op":"remove","path":"/nope"},{"op":"remove","path":"/c"}"#,
        r#"{"a":1,"b":2,"c":3}"#,
        r#"{"b":2}"#,
    ),
    // `*` is an ordinary key.
    (r#"{"op":"remove","path":"/*"}"#, r#"{"*":1,"a":2}"#, r#"{"a":2}"#),
    // Duplicates in an object that a path enters; elsewhere they stay.
    (r#"{"op":"remove","path":"/b"}"#, r#"{"a":1,"b":0,"a":2,"c":{"x":1,"x":2}}"#, r#"{"a":2,"c":{"x":1,"x":2}}"#),
    (r#"{"op":"replace","path":"/a","value":9}"#, r#"{"a":1,"b":0,"\u0061":2}"#, r#"{"a":9,"b":0}"#),
    // Numbers are equal when their values are, objects without regard to order.
    (
        r#"{"op":"test","path":"/n","value":10e-1},{"op":"test","path":"/o","value":{"b":[2],"a":1}},{"op":"remove","path":"/n"}"#,
        r#"{"n":1,"o":{"a":1.0,"b":[2.0]}}"#,
        r#"{"o":{"a":1.0,"b":[2.0]}}"#,
    ),
];

#[test]
fn operations_apply_in_order() {
    for (operations, input, expected) in CASES {
        table(&advisory(&patch(operations)), &[(input, expected)]);
        table(&enforced(&patch(operations)), &[(input, expected)]);
    }
}

/// Operations, input, why the last of them cannot apply.
const FAILING: &[(&str, &str, &str)] = &[
    (r#"{"op":"replace","path":"/a","value":1}"#, "{}", "patches[0]: `/a` does not exist"),
    (r#"{"op":"replace","path":"/l/1","value":1}"#, r#"{"l":[0]}"#, "patches[0]: `/l/1` does not exist"),
    (r#"{"op":"replace","path":"/l/-","value":1}"#, r#"{"l":[0]}"#, "patches[0]: `/l/-` does not exist"),
    (r#"{"op":"add","path":"/a/b","value":1}"#, "{}", "patches[0]: what `/a/b` is in does not exist"),
    (r#"{"op":"add","path":"/a/b","value":1}"#, r#"{"a":"x"}"#, "patches[0]: what `/a/b` is in is a string"),
    (r#"{"op":"add","path":"/l/2","value":1}"#, r#"{"l":[0]}"#, "patches[0]: `/l/2` is beyond the end of the list"),
    (r#"{"op":"add","path":"/l/x","value":1}"#, r#"{"l":[0]}"#, "patches[0]: `/l/x` goes by a name into a list"),
    (r#"{"op":"add","path":"/l/01","value":1}"#, r#"{"l":[0]}"#, "patches[0]: `/l/01` goes by a name into a list"),
    (r#"{"op":"remove","path":"/l/x"}"#, r#"{"l":[{"x":1}]}"#, "patches[0]: `/l/x` goes by a name into a list"),
    (r#"{"op":"remove","path":"/l/x/y"}"#, r#"{"l":[{"x":1}]}"#, "patches[0]: `/l/x/y` goes by a name into a list"),
    (r#"{"op":"copy","from":"/a","path":"/b"}"#, "{}", "patches[0]: `/a` does not exist"),
    (r#"{"op":"move","from":"/a","path":"/b"}"#, "{}", "patches[0]: `/a` does not exist"),
    (
        r#"{"op":"remove","path":"/a"},{"op":"move","from":"/b","path":"/c/d"}"#,
        r#"{"a":1,"b":2}"#,
        "patches[1]: what `/c/d` is in does not exist",
    ),
];

#[test]
fn a_failing_operation_undoes_those_before_it_or_refuses() {
    for (operations, input, reason) in FAILING {
        let filtered = advisory(&patch(operations)).run(input);
        assert_eq!(filtered.text, *input);
        let error = filtered.report.error.expect(operations);
        assert_eq!((error.stage.as_str(), error.message.as_str()), ("patches", *reason));
        assert!(!filtered.report.applied && filtered.report.unresolved.is_empty());
        assert_eq!(enforced(&patch(operations)).refused(input), ("patches", (*reason).to_owned()));
    }
}

#[test]
fn a_failing_stage_passes_its_input_on() {
    let filter = r#"{"retain":["/a"],"patches":[{"op":"remove","path":"/a/x"},{"op":"replace","path":"/n","value":1}],
        "dropNulls":true}"#;
    let filtered = advisory(filter).run(r#"{"a":{"x":1,"y":null},"b":2}"#);
    assert_eq!(filtered.text, r#"{"a":{"x":1}}"#, "retain before it and dropNulls after it applied");
    assert!(filtered.report.applied && filtered.report.error.is_some());
}

#[test]
fn a_failing_test_stops_the_sequence() {
    let operations = r#"{"op":"remove","path":"/a"},{"op":"test","path":"/b","value":9},{"op":"remove","path":"/b"}"#;
    let filtered = advisory(&patch(operations)).run(r#"{"a":1,"b":2}"#);
    assert_eq!(filtered.text, r#"{"b":2}"#, "what came before stays applied");
    assert_eq!(filtered.report.error, None);
    assert_eq!(filtered.report.warnings.len(), 1);
    assert!(filtered.report.warnings[0].message.starts_with("patches[1]: the test does not hold"));
    let refused = enforced(&patch(operations)).refused(r#"{"a":1,"b":2}"#);
    assert_eq!(refused, ("patches", "patches[1]: the test does not hold".to_owned()));
}

#[test]
fn a_test_on_an_unresolved_path_fails() {
    for input in ["{}", r#"{"l":[1]}"#, "5"] {
        let case = advisory(&patch(r#"{"op":"test","path":"/l/3","value":null},{"op":"add","path":"","value":0}"#));
        assert_eq!(case.text(input), input);
    }
}

#[test]
fn a_remove_that_finds_nothing_is_reported() {
    let case = advisory(&patch(r#"{"op":"remove","path":"/a/b"},{"op":"remove","path":"/c"}"#));
    assert_eq!(case.run(r#"{"c":1}"#).report.unresolved, ["/a/b"]);
}

#[test]
fn documents_do_not_grow_without_bound() {
    let doubling: Vec<_> = (0..40).map(|i| format!(r#"{{"op":"copy","from":"","path":"/x{i}"}}"#)).collect();
    let doubling = doubling.join(",");
    let filtered = advisory(&patch(&doubling)).run(r#"{"a":"0123456789"}"#);
    assert_eq!(filtered.text, r#"{"a":"0123456789"}"#);
    assert!(filtered.report.error.is_some_and(|e| e.message.contains("larger than an output may be")));
    let deeper = vec![r#"{"op":"copy","from":"","path":"/x"}"#; 200].join(",");
    let mut case = advisory(&patch(&deeper));
    case.options.limits.max_input_bytes = usize::MAX;
    case.options.limits.max_depth = 20;
    let error = case.run("{}").report.error.expect("too deep");
    assert!(error.message.contains("nested too deep"), "{}", error.message);
}

#[test]
fn under_enforced_a_remove_within_what_is_removed_later_decides_nothing() {
    let operations = r#"{"op":"remove","path":"/s/a"},{"op":"remove","path":"/t"},{"op":"remove","path":"/s"}"#;
    let case = enforced(&patch(operations));
    for secret in [r#"{"a":1}"#, "[1]", "null", "true", "[{\"a\":1}]"] {
        assert_eq!(case.text(&format!("{{\"s\":{secret},\"k\":1}}")), r#"{"k":1}"#);
    }
    // Unless something between them looks there.
    let copied = r#"{"op":"remove","path":"/s/a"},{"op":"copy","from":"/s","path":"/u"},{"op":"remove","path":"/s"}"#;
    assert_eq!(enforced(&patch(copied)).refused(r#"{"s":[1]}"#).0, "patches");
}

#[test]
fn under_enforced_a_member_that_is_set_comes_last_wherever_it_was() {
    let operations = r#"{"op":"add","path":"/a","value":0},{"op":"copy","from":"/k","path":"/b"}"#;
    for (input, kept) in [
        (r#"{"k":1}"#, r#"{"k":1,"a":0,"b":1}"#),
        (r#"{"a":5,"b":6,"k":1}"#, r#"{"a":0,"b":1,"k":1}"#),
        (r#"{"\u0061":5,"k":1,"a":6}"#, r#"{"\u0061":0,"k":1,"b":1}"#),
    ] {
        assert_eq!(advisory(&patch(operations)).text(input), kept);
        assert_eq!(enforced(&patch(operations)).text(input), r#"{"k":1,"a":0,"b":1}"#);
    }
}
