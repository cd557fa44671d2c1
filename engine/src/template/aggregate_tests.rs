use proptest::prelude::*;

use super::super::{Meter, Template};
use super::{PATH_BYTES, VALUE_BYTES};
use crate::json;

const ITEMS: &str = r#"[
    {"n": 7, "at": "2026-11-02", "state": "open", "labels": [{"name": "bug"}, {"name": "p1"}],
     "file": {"path": "src/app/a.rs"}, "plus": 1.10, "yes": true},
    {"n": 52, "at": "2026-10-30", "state": "closed", "labels": [{"name": "bug"}],
     "file": {"path": "src/app/b.rs"}, "plus": 2.2, "yes": false},
    {"n": -3, "at": "2026-11-01", "state": "open", "labels": [],
     "file": {"path": "docs/c.md"}, "plus": -12, "yes": true},
    {"n": null, "state": "open", "labels": "odd", "file": null, "plus": "3"},
    "text", 5, null, [{"n": 60}]
]"#;

fn render(source: &str, items: &str) -> Result<String, String> {
    let template = Template::parse_over_items(source).map_err(|e| e.to_string())?;
    let items = json::parse(items.as_bytes(), 16).expect("valid");
    let mut out = String::new();
    template.render(&items, &mut out, &mut Meter::default()).map_err(|e| e.to_string())?;
    Ok(out)
}

fn check(items: &str, cases: &[(&str, &str)]) {
    for (source, want) in cases {
        assert_eq!(render(source, items).as_deref(), Ok(*want), "{source}");
    }
}

#[test]
fn functions_over_items_read_the_values_at_a_path() {
    check(
        ITEMS,
        &[
            ("{{counts .state}}", "open 3, closed 1"),
            ("{{counts .labels.name}}", "bug 2, p1 1"),
            ("{{counts .yes}}", "true 2, false 1"),
            ("{{counts .}}", "text 1, 5 1"),
            ("{{range .n}}", "-3..60"),
            ("{{range .at}}", "2026-10-30..2026-11-02"),
            ("{{sum .n}}", "116"),
            ("{{sum .plus}}", "-8.70"),
            ("{{paths .file.path}}", "src/app/*, docs/c.md"),
            ("{{counts .none}}{{range .none}}{{sum .none}}{{paths .none}}", ""),
            ("{{counts .state.deeper}}", ""),
            ("{{counts (index . 0).labels.name}}", "bug 1, p1 1"),
        ],
    );
}

#[test]
fn functions_over_items_are_functions() {
    check(
        ITEMS,
        &[
            ("{{len .}} items, {{paths .file.path}} — {{(range .n)}}", "8 items, src/app/*, docs/c.md — -3..60"),
            ("{{.state | counts | printf \"%.4s\"}}", "open"),
            ("{{range .n | printf \"<%s>\"}}", "<-3..60>"),
            ("{{$n := range $.n}}{{$n}}", "-3..60"),
            ("{{if range .n}}yes{{end}}", "yes"),
            ("{{with (counts .state)}}{{.}}{{end}}", "open 3, closed 1"),
            // A loop over the items; in it, `range` is a loop as everywhere, and `(range ..)` the function.
            ("{{range .}}{{.n}};{{end}}", "7;52;-3;;;;;;"),
            ("{{range $i, $x := .}}{{if lt $i 2}}{{range .labels}}{{.name}},{{end}}{{end}}{{end}}", "bug,p1,bug,"),
            ("{{range .}}{{(range .labels.name)}};{{break}}{{end}}", "bug..p1;"),
            ("{{range .}}{{counts $.state}}{{break}}{{end}}", "open 3, closed 1"),
        ],
    );
}

#[test]
fn paths_are_as_deep_as_three_folders_hold_them() {
    let paths = |paths: &[&str]| {
        let items: Vec<String> = paths.iter().map(|path| format!("{{\"p\":{}}}", json::encode(path))).collect();
        render("{{paths .p}}", &format!("[{}]", items.join(","))).expect("renders")
    };
    assert_eq!(paths(&["src/a/x.rs", "src/a/y.rs"]), "src/a/*");
    assert_eq!(paths(&["README.md"]), "README.md");
    assert_eq!(paths(&["a", "b", "c", "d"]), "*");
    assert_eq!(paths(&["/etc/a", "/etc/b", "/", "/usr/lib/x"]), "/etc/*, /, /usr/lib/x");
    assert_eq!(paths(&["a/1/x", "a/1/y", "a/2/x", "a/2/y", "a/3/x", "a/4/x"]), "a/*");
    // Ties in the order of the list.
    assert_eq!(paths(&["b/x", "a/x", "a/y", "b/y", "c/x"]), "b/*, a/*, c/x");
    assert_eq!(paths(&["a/x", "b/x", "b/y", "c/x", "d/x", "d/y", "d/z", "e/x"]), "d/*, b/*, a/x and 2 more");
    // No folder is deeper than eight.
    assert_eq!(paths(&["1/2/3/4/5/6/7/8/9/x", "1/2/3/4/5/6/7/8/10/x"]), "1/2/3/4/5/6/7/8/*");
    let long = paths(&["x".repeat(500).as_str()]);
    assert_eq!((long.len(), long.ends_with("x...")), (PATH_BYTES, true));
}

#[test]
fn counts_name_five_values() {
    let list = "[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"f\",\"g\",\"e\",1,\"1\"]";
    assert_eq!(render("{{counts .}}", list).expect("renders"), "e 2, f 2, 1 2, a 1, b 1 and 3 more");
    let long = render("{{counts .}} {{range .}}{{end}}{{(range .)}}", &json_list(&["x".repeat(100)])).expect("renders");
    let short = "x".repeat(VALUE_BYTES - 3) + "...";
    assert_eq!(long, format!("{short} 1 {short}"));
}

fn json_list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| json::encode(text)).collect();
    format!("[{}]", texts.join(","))
}

#[test]
fn ranges_and_sums_are_exact() {
    check("[9007199254740993, 9007199254740992, 1e400, -0, 0.0]", &[("{{(range .)}}", "-0..1e400"), ("{{sum .}}", "")]);
    check("[9007199254740993, 9007199254740992]", &[("{{sum .}}", "18014398509481985")]);
    check("[0.1, 0.2, -0.25]", &[("{{sum .}}", "0.05")]);
    check("[-0.5, -0.25]", &[("{{sum .}}", "-0.75")]);
    check("[-0]", &[("{{sum .}}", "0"), ("{{(range .)}}", "-0")]);
    check("[1, 1.0]", &[("{{(range .)}}", "1"), ("{{sum .}}", "2.0")]);
    check("[0.1234567890]", &[("{{sum .}}", "")]);
    check("[1E2]", &[("{{sum .}}", "")]);
    check("[99999999999999999999999999999999999999999]", &[("{{sum .}}", "")]);
    check("[99999999999999999999999999999, 99999999999999999999999999999]", &[("{{sum .}}", "")]);
    check("[12345678901234567890123456789]", &[("{{sum .}}", "12345678901234567890123456789")]);
    check("[true, \"b\", \"a\"]", &[("{{(range .)}}", "a..b"), ("{{sum .}}", "")]);
    check("[\"a\", 3]", &[("{{(range .)}}", "3"), ("{{sum .}}", "3")]);
}

#[test]
fn mistakes_over_items_name_the_remedy() {
    let cases = [
        (
            "{{.title}}",
            "at byte 2: the list of items has no field .title, \
             write {{counts .title}}, or {{range .}}{{.title}}{{end}}",
        ),
        (
            "{{counts .a}} {{len $.b.c}}",
            "at byte 20: the list of items has no field .b, write {{counts .b}}, or {{range .}}{{.b}}{{end}}",
        ),
        (
            "{{range $x := .a}}{{end}}",
            "at byte 14: the list of items has no field .a, write {{counts .a}}, or {{range .}}{{.a}}{{end}}",
        ),
        ("{{sum}}", "at byte 2: sum has 0 arguments, it takes one value"),
        ("{{counts .a .b}}", "at byte 2: counts has 2 arguments, it takes one value"),
        ("{{range .a}}{{end}}", "at byte 12: an {{end}} ends nothing, remove it"),
        ("{{print counts}}", "at byte 8: the function counts is an argument, put the call in parentheses: (counts ..)"),
        (
            "{{upper .a}}",
            "at byte 2: the function upper is not known, a field is written .upper; functions are and, or, not, eq, ne, \
             lt, le, gt, ge, len, index, print, println, printf, paths, range, counts, sum",
        ),
    ];
    for (source, want) in cases {
        assert_eq!(render(source, "[]"), Err(want.to_owned()), "{source}");
    }
    // Elsewhere they are not known.
    for source in ["{{paths .a}}", "{{counts .a}}", "{{sum .a}}", "{{(range .a)}}", "{{range .a}}"] {
        assert!(Template::parse(source).is_err(), "{source}");
    }
    assert!(Template::parse("{{range .a}}{{end}}").is_ok());
}

#[test]
fn the_fields_that_are_read_are_known() {
    let template =
        Template::parse_over_items("{{len .}} {{paths .a.b}} {{.c | sum}} {{range .}}{{.d}}{{end}}{{range $.e}}")
            .expect("parses");
    assert_eq!(template.fields().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "c", "e"]);
}

/// Pieces of templates over items.
fn any_template() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{{",
        "}}",
        "{{range ",
        "{{if ",
        "{{with ",
        "{{end}}",
        "{{else}}",
        "paths",
        "range",
        "counts",
        "sum",
        "len",
        "print",
        ".",
        "$",
        ".n",
        ".labels.name",
        ".file.path",
        "$.state",
        " ",
        "|",
        "(",
        ")",
        "$x",
        ":=",
        "text",
        "{{counts .state}}",
        "{{sum .plus}}",
        "{{range .n}}",
        "{{range .}}",
        "{{(range .at)}}",
    ]);
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_template_over_items_panics(source in any_template()) {
        if let Err(error) = Template::parse_over_items(&source) {
            prop_assert!(error.offset <= source.len() && !error.remedy.is_empty());
        } else {
            let _ = render(&source, ITEMS);
        }
    }

    #[test]
    fn counts_and_sums_are_those_of_the_values(values in prop::collection::vec((-1000_i64..1000, 0_usize..12), 0..60)) {
        let items: Vec<String> = values.iter().map(|(n, kind)| format!("{{\"n\":{n},\"k\":\"k{kind}\"}}")).collect();
        let items = format!("[{}]", items.join(","));
        let sum: i64 = values.iter().map(|(n, _)| n).sum();
        let want = if values.is_empty() { String::new() } else { sum.to_string() };
        prop_assert_eq!(render("{{sum .n}}", &items), Ok(want));
        let least = values.iter().map(|(n, _)| n).min();
        let most = values.iter().map(|(n, _)| n).max();
        let want = least.zip(most).map(|(a, b)| if a == b { a.to_string() } else { format!("{a}..{b}") });
        prop_assert_eq!(render("{{range .n}}", &items), Ok(want.unwrap_or_default()));
        // The counts that are named, and those that are not, are all values.
        let counts = render("{{counts .k}}", &items).expect("renders");
        let (named, more) = counts.split_once(" and ").unwrap_or((&counts, "0 more"));
        let named: Vec<usize> = named.split(", ").filter_map(|entry| entry.split_once(' ')?.1.parse().ok()).collect();
        prop_assert!(named.is_sorted_by(|a, b| a >= b) && named.len() <= 5);
        let more: usize = more.strip_suffix(" more").and_then(|more| more.parse().ok()).expect("a number");
        prop_assert_eq!(named.iter().sum::<usize>() + more, values.len());
    }
}
