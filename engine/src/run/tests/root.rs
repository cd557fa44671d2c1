use super::{advisory, enforced, table};
use crate::ResponseType::{Array, Object};

#[test]
fn siblings_stay_under_advisory_and_go_under_enforced() {
    let filter = r#"{"root":"/data/items","select":{"a":"a"}}"#;
    let input = r#"{"t":1,"data":{"p":null,"items":[{"a":1,"b":2}],"n":3},"u":4}"#;
    assert_eq!(advisory(filter).text(input), r#"{"t":1,"data":{"p":null,"items":[{"a":1}],"n":3},"u":4}"#);
    assert_eq!(enforced(filter).text(input), r#"{"data":{"items":[{"a":1}]}}"#);
}

#[test]
fn siblings_that_retain_names_stay() {
    let filter = r#"{"retain":["/items","/total"],"root":"/items","select":{"a":"a"}}"#;
    let input = r#"{"total":9,"items":[{"a":1,"b":2}],"secret":4}"#;
    assert_eq!(enforced(filter).text(input), r#"{"total":9,"items":[{"a":1}]}"#);
}

#[test]
fn root_is_a_strict_pointer() {
    let rows = [
        (r#"[0,{"*":[{"a":1,"b":2}]}]"#, r#"[{"*":[{"a":1}]}]"#),
        // Duplicates: the last value at the first place.
        (r#"[0,{"*":5,"*":{"a":1,"b":2}}]"#, r#"[{"*":{"a":1}}]"#),
    ];
    table(&enforced(r#"{"root":"/1/*","select":{"a":"a"}}"#), &rows);
    let advisory_rows = [(r#"[0,{"*":[{"a":1,"b":2}]}]"#, r#"[0,{"*":[{"a":1}]}]"#)];
    table(&advisory(r#"{"root":"/1/*","select":{"a":"a"}}"#), &advisory_rows);
}

#[test]
fn an_unresolved_root_is_a_failed_stage() {
    let filter = r#"{"root":"/x/y","exclude":["a"],"dropNulls":true}"#;
    for input in [r#"{"a":1,"n":null}"#, r#"{"x":[{"y":1}]}"#, r#"{"x":1}"#, "[]", "0"] {
        let filtered = advisory(filter).run(input);
        assert_eq!(filtered.text, input);
        let error = filtered.report.error.expect(input);
        assert_eq!((error.stage.as_str(), error.message.as_str()), ("root", "`/x/y` does not resolve"));
        assert_eq!(enforced(filter).refused(input).0, "root");
    }
}

#[test]
fn the_declared_type_decides() {
    let filter = r#"{"exclude":["a"]}"#;
    let input = r#"{"a":1,"items":[{"a":2,"b":3}]}"#;
    assert_eq!(advisory(filter).response(Object).text(input), r#"{"items":[{"a":2,"b":3}]}"#);
    assert_eq!(enforced(filter).response(Object).text(input), r#"{"items":[{"a":2,"b":3}]}"#);
    assert_eq!(advisory(filter).response(Array).text(input), r#"{"a":1,"items":[{"b":3}]}"#);
    assert_eq!(enforced(filter).response(Array).refused(input).0, "root");
    for case in [advisory(filter).response(Array), enforced(filter).response(Array)] {
        assert_eq!(case.text(r#"[{"a":1,"b":2}]"#), r#"[{"b":2}]"#);
    }
    assert_eq!(advisory(filter).response(Array).run(r#"{"a":1}"#).report.error.map(|e| e.stage.as_str()), Some("root"));
    // `root` comes before the type.
    assert_eq!(enforced(r#"{"root":"/items","exclude":["a"]}"#).response(Array).text(input), r#"{"items":[{"b":3}]}"#);
}

#[test]
fn without_anything_declared_the_payload_is_detected() {
    let select = r#"{"select":{"n":"number","t":"title"}}"#;
    table(
        &advisory(select),
        &[
            // Names in their order, then the first list.
            (r#"{"data":[{"number":1}],"items":[{"number":2,"x":3}]}"#, r#"{"data":[{"number":1}],"items":[{"n":2}]}"#),
            (r#"{"data":[{"number":1,"x":0}],"result":5}"#, r#"{"data":[{"n":1}],"result":5}"#),
            (
                r#"{"o":1,"nodes":[{"number":1,"x":0}],"more":[{"number":2}]}"#,
                r#"{"o":1,"nodes":[{"n":1}],"more":[{"number":2}]}"#,
            ),
            // More paths resolve in the document: a single issue with assignees.
            (r#"{"number":1,"title":"t","assignees":[{"login":"a"}]}"#, r#"{"n":1,"t":"t"}"#),
            (r#"{"number":1,"title":"t","items":[{"number":2}]}"#, r#"{"n":1,"t":"t"}"#),
            // A tie goes to the list.
            (r#"{"number":1,"nodes":[{"number":2,"x":0}]}"#, r#"{"number":1,"nodes":[{"n":2}]}"#),
            // In a list the first object counts, not a scalar before it.
            (r#"{"nodes":["s",{"number":2,"x":0}]}"#, r#"{"nodes":["s",{"n":2}]}"#),
            // An empty list under one of the names wins; another has to tie.
            (r#"{"number":1,"items":[]}"#, r#"{"number":1,"items":[]}"#),
            (r#"{"number":1,"x":2,"nodes":[]}"#, r#"{"n":1}"#),
            (r#"{"number":1,"x":2}"#, r#"{"n":1}"#),
            // A document that is an array is itself the payload.
            (r#"[{"number":1,"items":[{"number":2}]}]"#, r#"[{"n":1}]"#),
        ],
    );
    table(
        &advisory(r#"{"exclude":["secret","/user/email"]}"#),
        &[
            (r#"{"secret":1,"user":{"email":2},"tags":[{"secret":3}]}"#, r#"{"user":{},"tags":[{"secret":3}]}"#),
            (r#"{"user":{"email":2},"tags":["x"]}"#, r#"{"user":{},"tags":["x"]}"#),
            (r#"{"id":1,"rows":[{"secret":2,"v":3}]}"#, r#"{"id":1,"rows":[{"v":3}]}"#),
        ],
    );
}

#[test]
fn enforced_detects_nothing() {
    assert_eq!(enforced(r#"{"dropNulls":true}"#).text(r#"{"a":null,"items":[{"b":null}]}"#), r#"{"items":[{}]}"#);
    assert_eq!(advisory(r#"{"dropNulls":true}"#).text(r#"{"a":null,"items":[{"b":null}]}"#), r#"{"items":[{}]}"#);
}

#[test]
fn drops_alone_act_on_the_whole_document() {
    let input = r#"{"name":"Alice","roles":["admin"],"tags":[],"no":null}"#;
    for (drop, expected) in [
        (r#""dropEmpty":true"#, r#"{"name":"Alice","roles":["admin"]}"#),
        (r#""dropNulls":true"#, r#"{"name":"Alice","roles":["admin"],"tags":[]}"#),
        (r#""dropEmpty":true,"maxItems":0"#, r#"{"name":"Alice","roles":["admin"]}"#),
        // A stage that works on items makes them the payload.
        (r#""dropEmpty":true,"maxItems":1"#, r#"{"name":"Alice","roles":["admin"],"tags":[],"no":null}"#),
    ] {
        let filter = format!("{{{drop}}}");
        assert_eq!(advisory(&filter).text(input), expected, "{filter}");
        if !drop.contains(":1") {
            assert_eq!(advisory(&filter).response(Array).text(input), expected, "{filter}");
            assert_eq!(enforced(&filter).text(input), expected, "{filter}");
        }
    }
    // A summary is of the list that `maxItems` would shorten.
    let filter = r#"{"dropNulls":true,"compact":{"item":"{{.n}}{{len .x}}","header":"{{.Total}}"}}"#;
    assert_eq!(advisory(filter).text(r#"{"a":null,"rows":[{"n":1,"x":null},{"n":2,"x":[3]}]}"#), "2\n10\n21");
}

#[test]
fn metadata_survives_select_under_advisory() {
    let input = r#"{"name":"a","id":1,"_exit_code":0,"stderr":"warn","_text_filtered":false,"x":{"stderr":1}}"#;
    for (filter, expected) in [
        (r#"{"select":{"n":"name"}}"#, r#"{"n":"a","_exit_code":0,"stderr":"warn","_text_filtered":false}"#),
        (r#"{"select":{"n":"name"},"exclude":["stderr","_exit_code","_text_filtered"]}"#, r#"{"n":"a"}"#),
        (r#"{"select":{"stderr":"name"},"exclude":["/_text_filtered"]}"#, r#"{"stderr":"a","_exit_code":0}"#),
        // Nothing else takes it away but what names it.
        (r#"{"exclude":["stderr","x","id","name"]}"#, r#"{"_exit_code":0,"_text_filtered":false}"#),
    ] {
        assert_eq!(advisory(filter).text(input), expected, "{filter}");
    }
    let filter = r#"{"root":"","select":{"n":"name"}}"#;
    assert_eq!(enforced(filter).text(input), r#"{"n":"a"}"#);
    // Of an item of a list it is data.
    assert_eq!(advisory(filter).text(r#"[{"name":"a","stderr":"b"}]"#), r#"[{"n":"a"}]"#);
    assert_eq!(
        advisory(r#"{"select":{"n":"name"},"dropEmpty":true}"#).text(r#"{"name":"a","stderr":""}"#),
        r#"{"n":"a","stderr":""}"#
    );
}
