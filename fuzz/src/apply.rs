//! The fast path and the tree give the same answer, report and failure: the first byte picks a filter and its enforcement,
//! the rest is the document.

use std::sync::LazyLock;

use tamis_engine::{Call, CompileOptions, Enforcement, Input, Program, ResponseType, ToolFilter, compile};

const FILTERS: [&str; 20] = [
    r#"{"select": {"x": "a", "y": "b.c", "z": "l[*].a", "w": "l[0]"}, "dropNulls": true, "maxItems": 3, "root": ""}"#,
    r#"{"select": {"x": "a", "y": "b"}}"#,
    r#"{"select": {"x": "a", "y": "b"}, "exclude": ["x", "/y/c"], "dropEmpty": true, "root": "/items"}"#,
    r#"{"exclude": ["a", "/b/c", "/l/*/a", "/l/0"], "root": ""}"#,
    r#"{"exclude": ["a"], "dropEmpty": true}"#,
    r#"{"dropNulls": true, "root": "/data/0"}"#,
    r#"{"retain": ["/a", "/b/c", "/items/a", "/items/*/b", "/items/0", "/*/l"]}"#,
    r#"{"retain": ["/items/a", "/items/b"], "root": "/items", "maxItems": 1}"#,
    r#"{"patches": [{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/b/c"}, {"op": "remove", "path": "/l/0"}]}"#,
    r#"{"patches": [{"op": "replace", "path": "/a", "value": {"b": 1}}, {"op": "add", "path": "/b/c", "value": [null]}]}"#,
    r#"[{"test": {"path": "/a", "value": 1}, "retain": ["/b"]}, {"otherwise": true, "retain": ["/a"]}]"#,
    r#"{"maxItems": 1, "output": {"budget": {"bytes": 40}}}"#,
    r#"{"root": "", "compact": {"item": "{{.a}}{{.b}}"}}"#,
    r#"{"passthrough": true}"#,
    r#"{"retain": ["/items/0/a", "/items/*/l/1/b", "/l/0/1/c"], "root": "/items", "select": {"a": "a"}}"#,
    r#"{"retain": ["/items/0/a", "/b/1/l/0"], "root": "/items/0"}"#,
    r#"{"root": "", "dropEmpty": true}"#,
    r#"{"patches": [{"op": "add", "path": "/a", "value": 1}, {"op": "add", "path": "/b/c", "value": 2}, {"op": "remove", "path": "/l"}]}"#,
    r#"{"retain": ["/a", "/b/c", "/l/*/a", "/0"], "patches": [{"op": "test", "path": "/a", "value": 1},
        {"op": "replace", "path": "/b/c", "value": "x"}, {"op": "remove", "path": "/l/0/a"}, {"op": "remove", "path": "/b"}]}"#,
    r#"{"patches": [{"op": "remove", "path": "/0"}, {"op": "add", "path": "/-", "value": {"a": {}}}, {"op": "remove", "path": "/0/a"},
        {"op": "test", "path": "/0/b/c", "value": null}, {"op": "add", "path": "/0/b/d", "value": 1}]}"#,
];

static PROGRAMS: LazyLock<Vec<Program>> = LazyLock::new(|| {
    let types = [None, Some(ResponseType::Object), Some(ResponseType::Array)];
    let mut programs = Vec::new();
    for filter in FILTERS {
        let filter: ToolFilter = serde_json::from_str(filter).unwrap();
        for enforcement in [Enforcement::Advisory, Enforcement::Enforced] {
            for response_type in types {
                let options = CompileOptions { enforcement, response_type, ..CompileOptions::default() };
                programs.extend(compile(&filter, &options).program);
            }
        }
    }
    programs
});

pub(crate) fn run(data: &[u8]) {
    let Some((&which, document)) = data.split_first() else { return };
    let program = &PROGRAMS[usize::from(which) % PROGRAMS.len()];
    let input = Input::Json(document);
    assert_eq!(program.apply(input, &Call::default()), program.apply_reference(input, &Call::default()));
}
