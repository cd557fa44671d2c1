//! Which outputs the fast path handles: otherwise its tests would compare the tree with itself.

use super::ISSUES;
use crate::work::Work;
use crate::{CompileOptions, Enforcement, compile};

fn takes(filter: &str, options: &CompileOptions, document: &str) -> bool {
    let compiled = compile(&serde_json::from_str(filter).unwrap(), options);
    let program = compiled.program.unwrap_or_else(|| panic!("{filter}: {:?}", compiled.findings));
    program.0.fast.run(&program.0.branches, document.as_bytes(), &Work::unlimited()).is_ok()
}

#[test]
fn ordinary_outputs() {
    let search = format!("{{\"total_count\": 16, \"incomplete_results\": false, \"items\": {ISSUES}}}");
    let one = ISSUES.lines().find(|line| line.starts_with('{')).unwrap().trim_end_matches(',');
    let advisory = CompileOptions::default();
    let enforced = CompileOptions { enforcement: Enforcement::Enforced, ..advisory };
    let select =
        r#""select": {"number": "number", "author": "user.login", "labels": "labels[*].name", "x": "assignees[0].id"}"#;
    for (filter, document) in [
        (format!("{{{select}, \"root\": \"\", \"dropNulls\": true, \"maxItems\": 3}}"), ISSUES),
        (format!("{{{select}, \"root\": \"/items\", \"dropEmpty\": true}}"), &search),
        (format!("{{{select}, \"root\": \"\", \"exclude\": [\"author\"]}}"), ISSUES),
        (r#"{"exclude": ["user", "/labels/url", "/reactions/*"], "root": ""}"#.into(), ISSUES),
        (r#"{"retain": ["/number", "/user/login", "/labels/name"]}"#.into(), ISSUES),
        (r#"{"retain": ["/items/*/number", "/items/0", "/total_count"], "maxItems": 1, "root": "/items"}"#.into(), &search),
        (r#"{"patches": [{"op": "remove", "path": "/user"}, {"op": "add", "path": "/kind", "value": "issue"}]}"#.into(), one),
        (r#"{"patches": [{"op": "remove", "path": "/items/0"}, {"op": "replace", "path": "/total_count", "value": 15}]}"#.into(), &search),
        (r#"{"retain": ["/number", "/title", "/user/login"], "patches": [{"op": "test", "path": "/0/number", "value": 1.0},
            {"op": "replace", "path": "/0/title", "value": "-"}, {"op": "remove", "path": "/0/user"}]}"#.into(), ISSUES),
        (r#"{"patches": [{"op": "remove", "path": "/0"}, {"op": "remove", "path": "/1"}, {"op": "add", "path": "/-", "value": []},
            {"op": "add", "path": "/0/a/", "value": {}}]}"#.into(), r#"[1,{"\u0061":{"b":1,"b":2}}, 3 ]"#),
        (r#"[{"test": {"path": "/total_count", "value": 1}, "root": "", "maxItems": 1}, {"otherwise": true, "root": "/items", "maxItems": 2}]"#.into(), &search),
        (r#"{"root": "/items", "dropNulls": true, "output": {"budget": {"bytes": 2000}}}"#.into(), &search),
        (r#"{"root": "/items", "compact": {"item": "{{.title}}"}}"#.into(), &search),
    ] {
        assert!(takes(&filter, &advisory, document), "{filter}");
        assert!(takes(&filter, &enforced, document), "{filter}");
    }
    for filter in
        [format!("{{{select}}}"), r#"{"maxItems": 3, "exclude": ["url"]}"#.into(), r#"{"dropNulls": true}"#.into()]
    {
        assert!(takes(&filter, &advisory, &search), "{filter}");
        assert!(takes(&filter, &advisory, one), "{filter}");
        assert!(takes(&filter, &advisory, ISSUES), "{filter}");
    }
}

#[test]
fn outputs_that_need_the_tree() {
    let options = CompileOptions::default();
    let digits = format!("[{}]", vec!["1"; 2000].join(","));
    for (filter, document) in [
        (r#"{"patches": [{"op": "remove", "path": "/0"}]}"#, digits.as_str()),
        (r#"{"select": {"a": "a"}}"#, r#"[{"a":1,"a":2}]"#),
        (r#"{"select": {"a": "a"}}"#, r#"[{"\u0061":1}]"#),
        (r#"{"select": {"a": "a"}}"#, r#"[{"b":1}]"#),
        (r#"{"select": {"a": "a"}}"#, "1"),
        (r#"{"exclude": ["a"]}"#, r#"[{"b":1,"b":2}]"#),
        (r#"{"exclude": ["a"]}"#, r#"{"raw":"text"}"#),
        (r#"{"exclude": ["a"]}"#, "[1,]"),
        (r#"{"patches": [{"op": "add", "path": "", "value": 1}]}"#, "{}"),
        (r#"{"patches": [{"op": "move", "from": "/a", "path": "/b"}]}"#, r#"{"a":1}"#),
        (r#"{"patches": [{"op": "replace", "path": "/a", "value": 1}]}"#, "{}"),
        (r#"{"patches": [{"op": "remove", "path": "/a/b"}]}"#, r#"{"a":[]}"#),
        (r#"{"root": "/a"}"#, "{}"),
    ] {
        assert!(!takes(filter, &options, document), "{filter} {document}");
    }
}
