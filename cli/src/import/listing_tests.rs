use super::*;

fn tool(name: &str) -> String {
    format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#)
}

fn left_out(json: &str) -> String {
    let found = listing([json]);
    assert!(found.tools.is_empty(), "{json}: {found:?}");
    let [LeftOut { tool, reason }] = &found.left_out[..] else { panic!("{json}: {found:?}") };
    format!("{tool}: {reason}")
}

#[test]
fn tools_that_cannot_be_pinned_are_left_out_with_the_reason() {
    let long = "x".repeat(65);
    let rows = [
        (tool("two words"), "two words: is not a valid tool name"),
        (tool(&long), "is not a valid tool name"),
        (tool(""), ": is not a valid tool name"),
        (r#"{"name":"a"}"#.to_owned(), "a: inputSchema: is missing"),
        (r#"{"inputSchema":{}}"#.to_owned(), "has no name"),
        (r#"{"name":7,"inputSchema":{}}"#.to_owned(), "has no name"),
        ("[]".to_owned(), "has no name"),
        (r#"{"name":"a","inputSchema":{"type":"string"}}"#.to_owned(), "a: inputSchema: is not an object schema"),
        (
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"$ref":"https://example.com/x"}}}}"#
                .to_owned(),
            "a: inputSchema.properties.x",
        ),
        (
            r#"{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"$ref":"https://example.com/x"}}"#
                .to_owned(),
            "a: outputSchema",
        ),
        (
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"x":{"pattern":"(?=x)"}}}}"#.to_owned(),
            "a: inputSchema.properties.x.pattern",
        ),
        (r#"{"name":"a","inputSchema":{"type":"object","type":"object"}}"#.to_owned(), "member `type` occurs twice"),
        (
            r#"{"name":"a","inputSchema":{"type":"object"},"annotations":[]}"#.to_owned(),
            "a: annotations: is not an object",
        ),
        (
            r#"{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":1}}"#.to_owned(),
            "a: annotations.readOnlyHint: is neither true nor false",
        ),
        (r#"{"name":"a","title":1,"inputSchema":{"type":"object"}}"#.to_owned(), "a: title"),
    ];
    for (json, reason) in rows {
        let said = left_out(&json);
        assert!(said.contains(reason), "{json}: {said}");
    }
}

#[test]
fn the_limits_are_reached() {
    let many: Vec<String> = (0..MAX_TOOLS + 2).map(|n| tool(&format!("t{n:04}"))).collect();
    let found = listing(many.iter().map(String::as_str));
    assert_eq!(found.tools.len(), MAX_TOOLS);
    assert!(found.left_out[0].reason.contains("2 more than the limit"), "{:?}", found.left_out);

    let description = "x".repeat(3 << 20);
    let large =
        |name: &str| format!(r#"{{"name":"{name}","description":"{description}","inputSchema":{{"type":"object"}}}}"#);
    let (first, second) = (large("a"), large("b"));
    let found = listing([&*first, &*second]);
    assert_eq!(found.tools.keys().collect::<Vec<_>>(), ["a"]);
    assert!(found.left_out[0].reason.contains("1 more than"), "{:?}", found.left_out);
}

#[test]
fn order_is_by_name_and_a_name_that_occurs_twice_is_ambiguous() {
    let found = listing([&*tool("b"), &tool("twice"), &tool("a"), &tool("twice"), &tool("twice")]);
    assert_eq!(found.tools.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(found.left_out, [LeftOut { tool: "twice".into(), reason: "is listed more than once".into() }]);
}

#[test]
fn only_what_is_pinned_is_kept() {
    let json = r#"{"icons":[],"annotations":{"x":1},"name":"a","_meta":{},"inputSchema":{"type":"object","z":1.0},"title":"T"}"#;
    let found = listing([json]);
    let expected = r#"{"title":"T","inputSchema":{"type":"object","z":1.0},"annotations":{"x":1}}"#;
    assert_eq!(*found.tools["a"].tree(), Tree::parse(expected).expect("is JSON"));
}
