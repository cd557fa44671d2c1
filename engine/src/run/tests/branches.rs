use super::{advisory, enforced, table};

const LIST: &str = r#"[
    {"test":{"path":"/user/type","value":"Person"},"retain":["/user/person"],"patches":[{"op":"remove","path":"/user/person/ssn"}]},
    {"test":{"path":"/user/type","value":"Firm"},"retain":["/user/firm"]},
    {"test":{"path":"/v","value":1},"retain":["/v"]}
]"#;

#[test]
fn the_first_branch_whose_test_holds_applies() {
    let rows = [
        (r#"{"user":{"type":"Person","person":{"ssn":1,"n":2},"firm":3}}"#, r#"{"user":{"person":{"n":2}}}"#),
        (r#"{"user":{"type":"Firm","person":{"ssn":1},"firm":3},"v":1}"#, r#"{"user":{"firm":3}}"#),
        (r#"{"v":10E-1,"user":{"type":null}}"#, r#"{"v":10E-1}"#),
        // Of duplicates the last counts.
        (r#"{"v":2,"v":1,"x":0}"#, r#"{"v":1}"#),
    ];
    table(&advisory(LIST), &rows);
    table(&enforced(LIST), &rows);
}

#[test]
fn without_a_match_the_output_is_unchanged_or_refused() {
    for input in [r#"{"user":{"type":"Robot"},"v":2}"#, "[]", "{}", "1"] {
        let filtered = advisory(LIST).run(input);
        assert_eq!(filtered.text, input);
        assert_eq!((filtered.report.skipped, filtered.report.applied), (Some("no_branch"), false));
        assert_eq!(enforced(LIST).refused(input).0, "branch");
    }
}

#[test]
fn otherwise_takes_what_no_test_holds_for() {
    let list = r#"[{"test":{"path":"","value":{"a":[1,{"b":2}]}},"retain":["/a"]},{"otherwise":true,"retain":["/b"]}]"#;
    let rows = [(r#"{"a":[1.0,{"b":2e0}]}"#, r#"{"a":[1.0,{"b":2e0}]}"#), (r#"{"a":[1],"b":3}"#, r#"{"b":3}"#)];
    table(&advisory(list), &rows);
    table(&enforced(list), &rows);
}

#[test]
fn an_index_of_a_test_is_an_index() {
    let list = r#"[{"test":{"path":"/l/1","value":2},"retain":["/l"]},{"otherwise":true,"retain":["/o"]}]"#;
    let rows = [
        (r#"{"l":[1,2],"o":3}"#, r#"{"l":[1,2]}"#),
        (r#"{"l":[1],"o":3}"#, r#"{"o":3}"#),
        (r#"{"l":{"1":2},"o":3}"#, r#"{"l":{"1":2}}"#),
    ];
    table(&advisory(list), &rows);
}

#[test]
fn a_branch_can_let_the_output_pass() {
    let list = r#"[{"test":{"path":"/public","value":true},"passthrough":true},{"otherwise":true,"retain":["/id"]}]"#;
    let open = enforced(list).run(r#"{ "public": true, "x": 1 }"#);
    assert_eq!((open.text.as_str(), open.report.skipped), (r#"{ "public": true, "x": 1 }"#, Some("passthrough")));
    assert_eq!(enforced(list).text(r#"{"public":false,"x":1,"id":2}"#), r#"{"id":2}"#);
}

#[test]
fn text_goes_to_the_last_branch() {
    let list = r#"[{"test":{"path":"/v","value":1},"retain":["/v"]},{"otherwise":true,"text":{"keep":["^E"]}}]"#;
    assert_eq!(advisory(list).text("I a\nE b\n"), "E b\n");
}
