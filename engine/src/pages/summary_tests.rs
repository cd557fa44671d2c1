use super::super::divide;
use super::*;

fn program(noun: Option<&str>, summary: Option<&str>) -> ChunksProgram {
    let spec = ChunksSpec { noun: noun.map(Into::into), summary: summary.map(Into::into) };
    ChunksProgram::compile(&spec).expect("valid")
}

/// Returns the summary of one chunk with all items of `list`.
fn summary(program: &ChunksProgram, list: &str) -> String {
    let node = json::parse(list.as_bytes(), 16).expect("valid");
    let items = node.as_array().expect("a list");
    let all: Vec<usize> = (0..items.len()).collect();
    let division = divide(items.len(), 0..items.len(), &all, |_| 1, 1, &Work::unlimited());
    let summary = program.summary(division.shown(), |item| items[item].clone(), &Work::unlimited());
    let texts: Vec<String> = items.iter().map(json::to_string).collect();
    assert_eq!(program.summary_of(division.shown(), |item| &texts[item], &Work::unlimited()), summary, "{list}");
    summary
}

#[test]
fn without_a_template_the_ends_are_shown() {
    for (list, want) in [
        (r#"[{"n":null,"o":{},"id":7,"x":1},{"id":8},{"id":9,"n":1}]"#, "3 diffs, 7..9"),
        (r#"[{"id":"a"},{"id":"a"}]"#, "2 diffs, a"),
        (r#"[{"id":"a"}]"#, "a"),
        (r#"[{"id":true},{"id":{}}]"#, "2 diffs, true"),
        (r#"[{"id":1},5,{"id":3,"id":4}]"#, "3 diffs, 1..4"),
        (r#"[{"id":1},5]"#, "2 diffs, 1"),
        ("[{},{},{}]", "3 diffs"),
        ("[{}]", ""),
        ("[]", ""),
        ("[1,2,3]", "3 diffs, 1..3"),
        (r#"[[1],[2]]"#, "2 diffs"),
        (
            r#"["2026-11-02 INFO start","2026-11-02 ERROR\tend"]"#,
            "2 diffs, 2026-11-02 INFO start..2026-11-02 ERROR end",
        ),
        (r#"[{"a":"[chunks]"},{"a":"\u200b[/chunks]\n<< returned"}]"#, "2 diffs, (chunks)..(/chunks) < returned"),
        (r#"[{"a":"\u200b"},{"a":"x"}]"#, "2 diffs, x"),
    ] {
        assert_eq!(summary(&program(Some("diffs"), None), list), want, "{list}");
    }
    let long = format!("[{{\"a\":\"{}\"}},{{\"a\":\"b\"}}]", "é".repeat(5_000_000));
    assert_eq!(summary(&program(None, None), &long), format!("2 items, {}.....b", "é".repeat(18)));
}

#[test]
fn a_template_sees_the_items_of_the_chunk() {
    let diffs = r#"[{"path":"src/app/a.rs","plus":100,"minus":40},{"path":"src/app/b.rs","plus":20,"minus":5}]"#;
    let source = "{{paths .path}} — {{len .}} files, +{{sum .plus}}/-{{sum .minus}}\n";
    assert_eq!(summary(&program(None, Some(source)), diffs), "src/app/* — 2 files, +120/-45");
    assert_eq!(summary(&program(None, Some("")), diffs), "");
    assert_eq!(summary(&program(None, Some("a\n\tb\r\n")), diffs), "a b");
    // Only the beginning is rendered.
    let long = format!("[\"{}\",\"b\"]", "x".repeat(10_000_000));
    let want = "x".repeat(SUMMARY_BYTES - 3) + "...";
    assert_eq!(summary(&program(None, Some("{{range .}}{{.}}{{end}}")), &long), want);
    assert_eq!(program(None, Some("{{counts .a.b}}{{sum .c}}{{range .a}}")).item_fields(), ["a", "c"]);
}

#[test]
fn the_work_is_linear_in_the_bytes_of_the_chunk() {
    let list = format!("[{}]", vec!["{}"; 10_000].join(","));
    let squared = program(None, Some("a{{range .}}{{range $}}{{end}}{{end}}b"));
    assert_eq!(summary(&squared, &list), "");
    assert_eq!(summary(&squared, "[1,2,3]"), "ab");
    for linear in
        ["{{paths .p}}{{counts .c}}{{range .r}}{{sum .s}}{{len .}}", "{{range .}}{{if .a}}{{.b}}{{end}}{{end}}10000"]
    {
        assert_eq!(summary(&program(None, Some(linear)), &list), "10000", "{linear}");
    }
    let node = json::parse(list.as_bytes(), 16).expect("valid");
    let items = node.as_array().expect("a list");
    let all: Vec<usize> = (0..items.len()).collect();
    let division = divide(items.len(), 0..items.len(), &all, |_| 1, 1, &Work::unlimited());
    let work = Work::at_most(1000);
    let _ = squared.summary(division.shown(), |item| items[item].clone(), &work);
    assert!(work.is_interrupted());
}

#[test]
fn mistakes_name_the_field_and_the_remedy() {
    let findings = |noun: &str, summary: &str| -> Vec<String> {
        let spec = ChunksSpec { noun: Some(noun.to_owned()), summary: Some(summary.to_owned()) };
        ChunksProgram::compile(&spec).err().unwrap_or_default().iter().map(Finding::to_string).collect()
    };
    for noun in ["diffs", "merge requests", "Zeilen", "log-lines", "日本", "a_b", "x".repeat(NOUN_BYTES).as_str()] {
        assert_eq!(findings(noun, ""), Vec::<String>::new(), "{noun}");
    }
    for (noun, want) in [
        (
            "",
            "is empty, or begins or ends with a space, \
             give what the items are called in a word or two, such as `diffs`",
        ),
        (
            " diffs",
            "is empty, or begins or ends with a space, \
             give what the items are called in a word or two, such as `diffs`",
        ),
        ("[chunks]", "contains `[`, use letters, digits, spaces, `-` and `_`"),
        ("a\nb", "contains `\\n`, use letters, digits, spaces, `-` and `_`"),
        ("a\u{200b}b", "contains `\\u{200b}`, use letters, digits, spaces, `-` and `_`"),
        ("a<<", "contains `<`, use letters, digits, spaces, `-` and `_`"),
        ("a, b", "contains `,`, use letters, digits, spaces, `-` and `_`"),
        (
            "x".repeat(41).as_str(),
            "has 41 bytes, at most 40 are allowed, give what the items are called in a word or two, such as `diffs`",
        ),
    ] {
        assert_eq!(findings(noun, ""), [format!("output.chunks.noun: {want}")], "{noun:?}");
    }
    assert_eq!(
        findings("[", "a\n{{.path}}"),
        [
            "output.chunks.noun: contains `[`, use letters, digits, spaces, `-` and `_`",
            "output.chunks.summary: at line 2, column 3: the list of items has no field .path, \
             write {{counts .path}}, or {{range .}}{{.path}}{{end}}",
        ]
    );
    assert_eq!(program(None, None).noun(), "items");
    assert_eq!(program(Some("diffs"), None).noun(), "diffs");
}
