use indexmap::IndexMap;

use super::*;
use crate::upstream::http::tests::support::arguments;

fn body(template: &str, secret: Option<&str>) -> Result<Option<Body>, InvalidService> {
    Body::parse("body", Some(template), secret, &|name| matches!(name, "a" | "b" | "n"))
}

fn written(template: &str, args: &str) -> Result<Option<String>, UpstreamError> {
    let (args, defaults) = (arguments(args), IndexMap::new());
    body(template, None).unwrap().unwrap().write(&Values::new(&args, &defaults), None)
}

#[test]
fn bodies() {
    let table = [
        // A place alone takes the JSON as the caller wrote it.
        (r#"{"x": "{a}"}"#, r#"{"a": 12345678901234567890}"#, r#"{"x":12345678901234567890}"#),
        (r#"{"x": "{a}"}"#, r#"{"a": 1.10}"#, r#"{"x":1.10}"#),
        (r#"{"x": "{a}"}"#, r#"{"a": {"k" : ["\ud800", null]}}"#, r#"{"x":{"k" : ["\ud800", null]}}"#),
        (r#"{"x": "{a}"}"#, r#"{"a": null}"#, r#"{"x":null}"#),
        (r#"{"x": "{a}"}"#, r#"{"a": "q\"uote"}"#, r#"{"x":"q\"uote"}"#),
        // In a text it is text, and stays in it.
        (
            r#"{"x": "to {a}!"}"#,
            r#"{"a": "\", \"admin\": true, \"y\": \""}"#,
            r#"{"x":"to \", \"admin\": true, \"y\": \"!"}"#,
        ),
        (r#"{"x": "é\n{a}"}"#, r#"{"a": "\u0000\n\\"}"#, r#"{"x":"é\n\u0000\n\\"}"#),
        (r#"{"x": "{a}-{b}"}"#, r#"{"a": 1.50, "b": true}"#, r#"{"x":"1.50-true"}"#),
        (r#"{"x": "in {a}"}"#, r#"{"a": ["p", 2]}"#, r#"{"x":"in p,2"}"#),
        (r#"{"x": "in {a}"}"#, "{}", r#"{"x":"in "}"#),
        // Absent members and elements go.
        (r#"{"x": "{a}", "y": "{b}", "z": 1}"#, "{}", r#"{"z":1}"#),
        (r#"{"z": 1, "x": "{a}", "y": "{b}"}"#, r#"{"b": 2}"#, r#"{"z":1,"y":2}"#),
        (r#"{"x": "{a}"}"#, "{}", "{}"),
        (r#"["{a}", "{b}", 3]"#, r#"{"b": 2}"#, "[2,3]"),
        (r#"{"x": {"y": ["{a}"]}}"#, "{}", r#"{"x":{"y":[]}}"#),
        // What is no place is as it was written.
        (
            r#"{"q": "query {viewer{login}}", "n": 1.10, "k": "{unknown}"}"#,
            "{}",
            r#"{"q": "query {viewer{login}}", "n": 1.10, "k": "{unknown}"}"#,
        ),
        (r#"{"{a}": "{a}"}"#, r#"{"a": 1}"#, r#"{"{a}":1}"#),
        (r#""{a}""#, r#"{"a": [1]}"#, "[1]"),
        ("[ 1 ]", "{}", "[ 1 ]"),
        ("7", "{}", "7"),
    ];
    for (template, args, expected) in table {
        assert_eq!(written(template, args).unwrap().as_deref(), Some(expected), "{template} {args}");
    }
    assert_eq!(written(r#""{a}""#, "{}").unwrap(), None);
}

#[test]
fn what_is_no_text_is_refused() {
    for (args, reason) in [
        (r#"{"a": {}}"#, "argument `a` is an object, which cannot be written as text"),
        (r#"{"a": [[1]]}"#, "argument `a` holds a list in a list, which cannot be written as text"),
        (r#"{"a": [null]}"#, "argument `a` holds null, which cannot be written as text"),
        (r#"{"a": "\ud800"}"#, "argument `a` is not valid Unicode text"),
    ] {
        assert_eq!(written(r#"{"x": "in {a}"}"#, args).unwrap_err().to_string(), reason);
    }
}

#[test]
fn authentication_adds_its_member() {
    let with = |template: Option<&str>| {
        let known = |name: &str| name == "a";
        let body = Body::parse("body", template, Some("k\"ey"), &known).unwrap().unwrap();
        let (args, defaults) = (arguments("{}"), IndexMap::new());
        body.write(&Values::new(&args, &defaults), Some("s\"ec")).unwrap().unwrap()
    };
    assert_eq!(with(None), r#"{"k\"ey":"s\"ec"}"#);
    assert_eq!(with(Some("{}")), r#"{"k\"ey":"s\"ec"}"#);
    assert_eq!(with(Some(r#"{"x": "{a}"}"#)), r#"{"k\"ey":"s\"ec"}"#);
    assert_eq!(with(Some(r#" {"x": 1} "#)), r#"{"x":1,"k\"ey":"s\"ec"}"#);
    // The manifest's own member of that name gives way.
    assert_eq!(with(Some(r#"{"k\"ey": "{a}", "x": 1}"#)), r#"{"x":1,"k\"ey":"s\"ec"}"#);
    for template in ["[1]", r#""{a}""#, "1"] {
        assert_eq!(body(template, Some("key")).unwrap_err().field, "body", "{template}");
    }
}
