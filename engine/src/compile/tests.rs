//! The findings about filters: field, message, remedy.

mod enforced;
mod fitting;
mod warnings;

use super::{CompileOptions, Enforcement, ResponseType, compile};
use crate::{Severity, ToolFilter};

/// Returns the findings without those about filters that are not allow-lists, see [`enforced_without_an_allow_list`].
fn findings(filter: &str, options: &CompileOptions) -> Vec<(Severity, String)> {
    let mut findings = all_findings(filter, options);
    findings.retain(|(_, text)| !text.contains("the upstream adds later"));
    findings
}

fn all_findings(filter: &str, options: &CompileOptions) -> Vec<(Severity, String)> {
    let filter: ToolFilter = serde_json::from_str(filter).unwrap_or_else(|e| panic!("{filter}: {e}"));
    let compiled = compile(&filter, options);
    let errors = compiled.findings.iter().any(|f| f.severity == Severity::Error);
    assert_eq!(compiled.program.is_none(), errors, "a program exactly where there is no error");
    compiled.findings.iter().map(|f| (f.severity, f.to_string())).collect()
}

fn advisory() -> CompileOptions {
    CompileOptions::default()
}

fn enforced() -> CompileOptions {
    CompileOptions { enforcement: Enforcement::Enforced, ..CompileOptions::default() }
}

/// Checks that a filter gives exactly these findings of one severity.
fn check(severity: Severity, options: &CompileOptions, cases: &[(&str, &[&str])]) {
    for (filter, expected) in cases {
        let actual = findings(filter, options);
        let expected: Vec<_> = expected.iter().map(|text| (severity, (*text).to_owned())).collect();
        assert_eq!(actual, expected, "{filter}");
    }
}

#[test]
fn errors() {
    check(
        Severity::Error,
        &advisory(),
        &[
            // Pointers.
            (
                r#"{"retain":["user"]}"#,
                &["retain[0]: `user` is no JSON Pointer: it does not begin with `/`, write `/user`"],
            ),
            (
                r#"{"retain":["a.b[0].c"]}"#,
                &["retain[0]: `a.b[0].c` is no JSON Pointer: it does not begin with `/`, write `/a/b/0/c`"],
            ),
            (
                r#"{"retain":["$.a[*].b"]}"#,
                &["retain[0]: `$.a[*].b` is no JSON Pointer: it does not begin with `/`, write `/a/*/b`"],
            ),
            (
                r##"{"retain":["#/a/b"]}"##,
                &["retain[0]: `#/a/b` is no JSON Pointer: it does not begin with `/`, write `/a/b`"],
            ),
            (
                r#"{"retain":["/a/b~x"]}"#,
                &[
                    "retain[0]: segment 2 (`b~x`) has `~x`, which is no escape, write `~0` for `~`, `~1` for `/`, `~2` for `*`",
                ],
            ),
            (
                r#"{"retain":["/a~"]}"#,
                &[
                    "retain[0]: segment 1 (`a~`) has `~ at the end`, which is no escape, write `~0` for `~`, `~1` for `/`, `~2` for `*`",
                ],
            ),
            (
                r#"{"root":"/a/~2"}"#,
                &[
                    "root: segment 2 (`~2`) has `~2`, which only `retain` and `exclude` know, write `*`, which is an ordinary key here",
                ],
            ),
            (
                r#"{"exclude":["/a~3"]}"#,
                &[
                    "exclude[0]: segment 1 (`a~3`) has `~3`, which is no escape, write `~0` for `~`, `~1` for `/`, `~2` for `*`",
                ],
            ),
            (
                r#"{"retain":[]}"#,
                &["retain: is empty, which would keep nothing, name what to keep, or remove `retain`"],
            ),
            // Patches.
            (
                r#"{"patches":[{"op":"Remove","path":"/a"}]}"#,
                &["patches[0].op: `Remove` is no operation, did you mean `remove`?"],
            ),
            (
                r#"{"patches":[{"op":"delete","path":"/a"}]}"#,
                &["patches[0].op: `delete` is no operation, did you mean `remove`?"],
            ),
            (
                r#"{"patches":[{"op":"repalce","path":"/a","value":1}]}"#,
                &["patches[0].op: `repalce` is no operation, did you mean `replace`?"],
            ),
            (
                r#"{"patches":[{"op":"frobnicate","path":"/a"}]}"#,
                &[
                    "patches[0].op: `frobnicate` is no operation, use one of `add`, `remove`, `replace`, `move`, `copy`, `test`",
                ],
            ),
            (
                r#"{"patches":[{"op":"remove"}]}"#,
                &["patches[0].path: is missing, give a JSON Pointer, such as `/user/email`"],
            ),
            (
                r#"{"patches":[{"op":"add","path":"/a"}]}"#,
                &["patches[0].value: is missing: `add` needs it, give a value; `null` is one"],
            ),
            (
                r#"{"patches":[{"op":"copy","path":"/a"}]}"#,
                &["patches[0].from: is missing, give a JSON Pointer, such as `/user/email`"],
            ),
            (
                r#"{"patches":[{"op":"remove","path":"/a","from":"/b"}]}"#,
                &["patches[0].from: `remove` takes no `from`, remove it, or use `move` or `copy`"],
            ),
            (
                r#"{"patches":[{"op":"move","from":"/a","path":"/a/b"}]}"#,
                &["patches[0]: moves `/a` into itself, move it elsewhere, or `copy` it"],
            ),
            // Payload.
            (r#"{"maxItems":-1}"#, &["maxItems: -1 is negative, give the number of items to keep, or 0 for no limit"]),
            (
                r#"{"select":{}}"#,
                &["select: is empty, which would keep nothing, name the fields to keep, or remove `select`"],
            ),
            (r#"{"select":{"":"a"}}"#, &["select[\"\"]: the output key is empty, give the member a name"]),
            (
                r#"{"select":{"a":""}}"#,
                &["select.a: the source path is empty, name the member to take, such as `user.login`"],
            ),
            (
                r#"{"select":{"a b":"x..y"}}"#,
                &[
                    "select[\"a b\"]: `x..y` has an empty name, write names with dots between them, `[n]` for an element, `[*]` for all, `\\.` for a dot in a name",
                ],
            ),
            (
                r#"{"select":{"a":"x[-1]"}}"#,
                &["select.a: `[-1]` in `x[-1]` is no index, write `[0]` for the first element, `[*]` for all"],
            ),
            (
                r#"{"select":{"a":"[0].x"}}"#,
                &["select.a: `[0].x` begins with an index, begin with the name of a member: items are objects"],
            ),
            (
                r#"{"exclude":[""]}"#,
                &["exclude[0]: the name is empty, name the member to drop (`/` drops the one whose key is empty)"],
            ),
            (
                r#"{"select":{"a":"a"},"exclude":["a"]}"#,
                &["exclude: drops every field that `select` keeps, remove the fields to keep from `exclude`"],
            ),
            // Text, output, compact.
            (
                r#"{"text":{"maxLines":-2}}"#,
                &["text.maxLines: is negative, give the number of lines to keep, or 0 for no limit"],
            ),
            (
                r#"{"output":{"budget":{"bytes":0}}}"#,
                &["output.budget.bytes: 0 is no budget, give a positive number, or remove it for no limit"],
            ),
            (
                r#"{"output":{"budget":{}}}"#,
                &["output.budget: sets no limit, give `bytes` or `tokens`, or remove `budget`"],
            ),
            (
                r#"{"dropNulls":true,"output":{"format":"xml"}}"#,
                &[
                    "output.format: `xml` is no format, use `json`, `table`, `toon`, `auto`, or a list of the first three",
                ],
            ),
            (
                r#"{"dropNulls":true,"output":{"format":["json","auto"]}}"#,
                &[
                    "output.format: `auto` chooses from all formats, and cannot be in a list, write `format: auto`, or name the formats to choose from",
                ],
            ),
            (
                r#"{"dropNulls":true,"output":{"format":["toon","toon"],"structured":"often","toon":{"indent":0,"delimiter":";"}}}"#,
                &[
                    "output.format: `toon` is there twice, name each format once",
                    "output.structured: `often` is not known, use `always`, `schema` (where the tool has an output schema) or `never`",
                    "output.toon.indent: 0 is no number of spaces, give a number from 1 to 8",
                    "output.toon.delimiter: `;` is no delimiter, use `comma`, `tab` or `pipe`",
                ],
            ),
            (
                r#"{"dropNulls":true,"output":{"inputs":["chunk"],"format":[]}}"#,
                &[
                    "output.format: the list is empty, use `json`, `table`, `toon`, `auto`, or a list of the first three",
                    "output.inputs[0]: `chunk` is no input that a filter adds, name `_format` or `_budget_tokens`",
                ],
            ),
            (
                r#"{"output":{"budget":{"tokens":-1}}}"#,
                &["output.budget.tokens: -1 is no budget, give a positive number, or remove it for no limit"],
            ),
            // Forms.
            (
                r#"{"retain":["/a"],"test":{"path":"/a","value":1}}"#,
                &["test: belongs to the list form, make the filter a list of branches, or remove `test`"],
            ),
            (
                r#"{"retain":["/a"],"otherwise":true}"#,
                &["otherwise: belongs to the list form, make the filter a list of branches, or remove `otherwise`"],
            ),
            (
                r#"{"retain":["/a"],"passthrough":true}"#,
                &["passthrough: excludes every other stage, remove `passthrough`, or the stages"],
            ),
            ("[]", &[": the list of branches is empty, write at least one branch, or one filter without a list"]),
            (
                r#"[{"retain":["/a"]}]"#,
                &["[0].test: is missing: a branch needs it, add `test`, or `otherwise: true` on this last branch"],
            ),
            (
                r#"[{"otherwise":true,"retain":["/a"]},{"test":{"path":"a","value":1},"retain":["b"]}]"#,
                &[
                    "[0].otherwise: is not on the last branch: those after it never apply, move this branch to the end",
                    "[1].test.path: `a` is no JSON Pointer: it does not begin with `/`, write `/a`",
                ],
            ),
            (
                r#"[{"otherwise":true,"test":{"path":"/a","value":1},"retain":["/a"]}]"#,
                &["[0].otherwise: cannot be combined with `test`, keep one of them"],
            ),
        ],
    );
}

#[test]
fn errors_are_found_all_at_once_in_the_order_of_the_fields() {
    let filter = r##"{"retain":["a"],"patches":[{"op":"add"},{"op":"x","path":"y"}],"root":"z","maxItems":-1,
        "select":{"k":"."},"exclude":["/~"],"text":{"maxLines":-1},"output":{"format":"toon"},"compact":{"header":"{{"}}"##;
    let fields: Vec<_> = findings(filter, &advisory())
        .into_iter()
        .map(|(_, text)| text.split(": ").next().unwrap().to_owned())
        .collect();
    assert_eq!(
        fields,
        [
            "retain[0]",
            "patches[0].path",
            "patches[0].value",
            "patches[1].op",
            "patches[1].path",
            "root",
            "maxItems",
            "select.k",
            "exclude[0]",
            "text.maxLines",
            "output.format",
            "compact.header",
            "compact.item",
        ]
    );
}
