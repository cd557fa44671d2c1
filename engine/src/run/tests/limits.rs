//! The cost of hostile outputs and careless filters. If a stage were quadratic, these tests would take minutes.

use std::fmt::Write as _;

use super::{Case, advisory, enforced};
use crate::{CompileOptions, Input, ToolFilter, compile};

/// An object of many members, with one key twice: the fast path gives way.
fn wide(members: usize, value: &str) -> String {
    let mut out = String::from("{");
    for i in 0..members {
        let _ = write!(out, "\"k{i}\":{value},");
    }
    out + &format!("\"k0\":{value}}}")
}

fn list(items: usize, item: &str) -> String {
    format!("[{}]", vec![item; items].join(","))
}

#[test]
fn objects_with_many_members_take_linear_time() {
    let document = wide(60_000, r#"{"a":1,"b":2}"#);
    for case in [
        advisory(r#"{"retain":["/*/a"]}"#),
        advisory(r#"{"retain":["/*/a","/k0","/*/b/*"],"root":"","exclude":["b","/*/b"],"dropNulls":true}"#),
        enforced(r#"{"retain":["/*/a"],"patches":[{"op":"remove","path":"/k1/a"}]}"#),
        advisory(r#"{"exclude":["/*/a","/k7"]}"#),
        advisory(r#"{"select":{"x":"k1.a","y":"k2"},"exclude":["y"]}"#),
        advisory(
            r#"{"patches":[{"op":"remove","path":"/k1/a"},{"op":"test","path":"","value":{}},{"op":"remove","path":"/k2"}]}"#,
        ),
        advisory(r#"{"root":"/k5","dropEmpty":true}"#),
    ] {
        assert!(!case.text(&document).is_empty());
    }
    let template = r#"{"root":"/l","compact":{"item":"{{range .}}{{.a}}{{end}}{{.k9.b}}"}}"#;
    assert!(advisory(template).text(&format!("{{\"l\":[{document}]}}")).starts_with("111"));
}

#[test]
fn the_last_of_duplicates_counts_in_objects_of_any_size() {
    for more in [0, 40] {
        let mut document = String::from(r#"{"\u0061":{"x":1},"b":0,"#);
        (0..more).for_each(|i| document += &format!("\"m{i}\":0,"));
        document += r#""a":{"y":2}}"#;
        let case = advisory(r#"{"retain":["/a/x","/a/y","/b"]}"#);
        assert_eq!(case.text(&document), r#"{"\u0061":{"y":2},"b":0}"#);
        assert_eq!(case.run(&document).report.unresolved, ["/a/x"]);
    }
}

#[test]
fn lists_with_many_elements_take_linear_time() {
    let document = list(60_000, r#"{"a":[1,null,"x"],"b":""}"#);
    for filter in [
        r#"{"retain":["/a/0","/*/b","/7"],"dropEmpty":true}"#,
        r#"{"select":{"a":"a[*]","b":"b"},"exclude":["/a/1"],"output":{"budget":{"bytes":1000000}}}"#,
        r#"{"patches":[{"op":"remove","path":"/0"},{"op":"add","path":"/0","value":1},{"op":"move","from":"/3","path":"/1"}]}"#,
        r#"{"compact":{"header":"{{.Count}} of {{.Total}}","item":"{{.b}}{{len .a}}"},"output":{"budget":{"bytes":100000}}}"#,
        r#"{"output":{"budget":{"bytes":40}}}"#,
    ] {
        assert!(!advisory(filter).text(&document).is_empty(), "{filter}");
    }
}

#[test]
fn huge_numbers_and_strings_are_compared_as_they_are() {
    let digits = "9".repeat(1 << 20);
    let number = format!("1e{digits}");
    for (value, document, holds) in [
        (format!("10e{}8", &digits[1..]), number.clone(), true),
        (number.clone(), format!("-{number}"), false),
        (number.clone(), format!("1e-{digits}"), false),
        ("0e1".to_owned(), format!("0e-{digits}"), true),
        (format!("{digits}.0"), digits.clone(), true),
        ("1e1000000000".to_owned(), format!("0.{}1e1001048577", "0".repeat(1 << 20)), true),
    ] {
        let filter = format!(
            r#"{{"patches":[{{"op":"test","path":"","value":{value}}},{{"op":"add","path":"","value":"same"}}]}}"#
        );
        let text = advisory(&filter).text(&document);
        assert_eq!(text == "\"same\"", holds, "{}..", &document[..20]);
    }
}

#[test]
fn copies_are_bounded_over_all_operations() {
    // Under `Enforced` a sequence continues after a failure that decides nothing; its earlier copies still count.
    let part = |i: usize| format!(r#"{{"op":"copy","from":"/big","path":"/x{i}"}},{{"op":"remove","path":"/s/t{i}"}}"#);
    let parts: Vec<_> = (0..60).map(part).collect();
    let filter = format!(r#"{{"patches":[{},{{"op":"remove","path":"/s"}}]}}"#, parts.join(","));
    let mut case = enforced(&filter);
    case.options.limits.max_input_bytes = 10_000;
    let (stage, reason) = case.refused(&format!(r#"{{"s":[1],"big":"{}"}}"#, "x".repeat(1_000)));
    assert_eq!((stage, reason.contains("the copies together")), ("patches", true), "{reason}");
    assert!(case.text(r#"{"s":[1],"big":"x"}"#).ends_with(r#""x59":"x"}"#));
}

#[test]
fn select_cannot_multiply_an_output_beyond_the_limit() {
    let fields: Vec<_> = (0..100).map(|i| format!("\"f{i}\":\"a\"")).collect();
    let filter = format!(r#"{{"root":"","select":{{{}}}}}"#, fields.join(","));
    let limited = |mut case: Case| {
        case.options.limits.max_input_bytes = 20_000;
        case
    };
    let (small, large) = (r#"{"a":"x"}"#.to_owned(), format!(r#"{{"a":"{}"}}"#, "x".repeat(1_000)));
    let case = limited(enforced(&filter));
    assert!(case.text(&small).len() > 700);
    assert_eq!(case.refused(&large), ("select", "what `select` gives is larger than an output may be".to_owned()));
    let case = limited(advisory(&filter));
    assert_eq!(case.text(&large), large);
    for document in [&small, &large] {
        let fast = case.program().apply(Input::Json(document.as_bytes()), &case.call);
        assert_eq!(fast, case.apply(Input::Json(document.as_bytes())));
    }
    // Paths that share nothing cannot, however large the output.
    let apart = r#"{"root":"","select":{"a":"a","b":"l[0].b","c":"l[*].c","d":"l[1]"}}"#;
    assert!(
        !limited(advisory(r#"{"root":"","select":{"a":"a.b","b":"a.c"}}"#)).program().0.branches[0].select_multiplies
    );
    assert!(advisory(apart).program().0.branches[0].select_multiplies, "`l[*]` goes through `l[1]`");
}

#[test]
fn filters_are_bounded() {
    let many = |field: &str, entry: fn(usize) -> String| {
        format!(r#"{{"root":"","{field}":[{}]}}"#, (0..1_001).map(entry).collect::<Vec<_>>().join(","))
    };
    let deep = "/a".repeat(1_025);
    let fields: Vec<_> = (0..1_001).map(|i| format!("\"f{i}\":\"a\"")).collect();
    for (filter, field, message) in [
        (many("retain", |i| format!("\"/{i}\"")), "retain", "1001 entries"),
        (many("exclude", |i| format!("\"{i}\"")), "exclude", "1001 entries"),
        (many("patches", |i| format!("{{\"op\":\"remove\",\"path\":\"/{i}\"}}")), "patches", "1001 entries"),
        (format!(r#"{{"select":{{{}}}}}"#, fields.join(",")), "select", "1001 entries"),
        (format!("[{}]", vec![r#"{"passthrough":true,"otherwise":true}"#; 1_001].join(",")), "", "1001 entries"),
        (format!(r#"{{"retain":["{deep}"]}}"#), "retain[0]", "1025 segments"),
        (format!(r#"{{"exclude":["{deep}"]}}"#), "exclude[0]", "1025 segments"),
        (format!(r#"{{"root":"{deep}"}}"#), "root", "1025 segments"),
        (format!(r#"{{"patches":[{{"op":"remove","path":"{deep}"}}]}}"#), "patches[0].path", "1025 segments"),
        (format!(r#"{{"select":{{"a":"a{}"}}}}"#, ".a".repeat(2_000)), "select.a", "2000 dots and brackets"),
        (format!(r#"{{"select":{{"a":"a{}"}}}}"#, "[*]".repeat(2_000)), "select.a", "2000 dots and brackets"),
    ] {
        let spec: ToolFilter = serde_json::from_str(&filter).unwrap();
        let compiled = compile(&spec, &CompileOptions::default());
        let found = compiled.findings.iter().any(|f| f.field == field && f.message.contains(message));
        assert!(found && compiled.program.is_none(), "{field}: {:?}", compiled.findings);
    }
}
