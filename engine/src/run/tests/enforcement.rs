//! Both kinds of enforcement, and the limits.

use super::{advisory, bare, enforced};
use crate::{Enforcement, Input, Structured};

#[test]
fn an_empty_body_is_an_empty_object() {
    let filter = r#"{"retain":["/a"]}"#;
    for case in [advisory(filter), enforced(filter)] {
        let filtered = case.apply(Input::Json(b"")).unwrap();
        assert_eq!((filtered.text.as_str(), filtered.structured), ("{}", bare()));
    }
    assert_eq!(advisory(filter).run(" ").report.skipped, Some("not_json"));
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let mark = "\u{feff}";
    for case in [advisory(r#"{"root":"","select":{"a":"a"}}"#), enforced(r#"{"root":"","select":{"a":"a"}}"#)] {
        let filtered = case.run(&format!("{mark} {{\"a\": 1, \"b\": 2}}"));
        assert_eq!(filtered.text, r#"{"a":1}"#);
        assert_eq!((filtered.report.original_bytes, filtered.report.compact_bytes), (20, 13));
    }
    let passed = enforced(r#"{"passthrough":true}"#).run(&format!("{mark}{{\"a\": 1}}"));
    assert_eq!((passed.text.as_str(), passed.structured), ("{\"a\": 1}", bare()));
    assert_eq!(advisory(r#"{"retain":["/a"]}"#).text(mark), "{}");
    // Only one, and only there.
    assert_eq!(advisory(r#"{"retain":["/a"]}"#).run(&format!("{mark}{mark}{{}}")).report.skipped, Some("not_json"));
}

#[test]
fn raw_mode_gives_the_original_under_advisory_only() {
    let input = "{ \"a\" : null }";
    let filtered = advisory(r#"{"dropNulls":true}"#).raw().run(input);
    assert_eq!((filtered.text.as_str(), filtered.report.skipped), (input, Some("raw_mode")));
    assert_eq!((filtered.structured, filtered.report.applied), (bare(), false));
    assert_eq!(advisory(r#"{"dropNulls":true}"#).raw().run("text").structured, Structured::None);
    assert_eq!(enforced(r#"{"dropNulls":true}"#).raw().text(input), "{}");
}

#[test]
fn passthrough_gives_the_original_in_both() {
    for case in [advisory(r#"{"passthrough":true}"#), enforced(r#"{"passthrough":true}"#)] {
        for input in ["{ \"a\" : 1, \"a\":2 }", "not json", "[1", "\"s\""] {
            let filtered = case.run(input);
            assert_eq!((filtered.text.as_str(), filtered.report.skipped), (input, Some("passthrough")));
        }
    }
}

#[test]
fn limits_hold() {
    let filter = r#"{"retain":["/a"],"text":{"keep":["x"]}}"#;
    let limited = |mut case: super::Case| {
        case.options.limits.max_input_bytes = 20;
        case.options.limits.max_depth = 2;
        case
    };
    for (input, reason) in [
        ("{\"a\":1,\"bbbbbbbbbbbbb\":1}", "the output is larger than the 20 bytes that a filter takes"),
        ("{\"a\":[[1]]}", "the output is not JSON: nested too deep at byte 6"),
    ] {
        let filtered = limited(advisory(filter)).run(input);
        assert_eq!((filtered.text.as_str(), filtered.report.skipped), ("", Some("not_json")), "only `text` applies");
        assert_eq!(filtered.report.error.map(|e| e.message), Some(reason.to_owned()));
        assert_eq!(limited(enforced(filter)).refused(input), ("parse", reason.to_owned()));
    }
    assert_eq!(limited(enforced(filter)).text("{\"a\":[1],\"b\":{}}   "), r#"{"a":[1]}"#);
}

#[test]
fn a_scalar_is_a_document() {
    for input in ["1.0", "\"s\"", "null", "true"] {
        for case in [advisory(r#"{"dropNulls":true}"#), enforced(r#"{"dropNulls":true}"#)] {
            let filtered = case.run(input);
            assert_eq!((filtered.text.as_str(), filtered.structured), (input, bare()));
        }
    }
}

#[test]
fn both_baselines_are_reported() {
    let report = advisory(r#"{"retain":["/a"]}"#).run("{ \"a\" : [ 1 ], \"b\" : 2, \"b\" : 3 }\n").report;
    assert_eq!((report.original_bytes, report.compact_bytes), (34, "{\"a\":[1],\"b\":2,\"b\":3}".len()));
    assert_eq!((report.result_bytes, report.output_bytes), (9, 9));
}

#[test]
fn enforced_meta_is_the_same_whatever_was_removed() {
    let filter = r#"{"root":"","select":{"a":"a","zz":"zz"},"maxItems":2}"#;
    let small = enforced(filter).run(r#"[{"a":1},{"a":2}]"#);
    let large = enforced(filter).run(r#"[{"a":1,"b":"long secret"},{"a":2},{"a":3,"zz":1}]"#);
    assert_eq!(small.text, large.text);
    assert_eq!(small.report.meta(Enforcement::Enforced), large.report.meta(Enforcement::Enforced));
}
