//! What is said of a filter: field, sentence, remedy.

use super::{CompileOptions, Enforcement, ResponseType, compile};
use crate::{Severity, ToolFilter};

/// All but what is said of every filter under `Enforced` that is no allow-list, see [`enforced_without_an_allow_list`].
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
            (r#"{"output":{"budget":{}}}"#, &["output.budget: sets no limit, give `bytes`, or remove `budget`"]),
            // Not implemented yet.
            (
                r#"{"dropNulls":true,"output":{"format":"toon"}}"#,
                &["output.format: `toon` is not implemented yet, use `json` until then"],
            ),
            (
                r#"{"dropNulls":true,"output":{"format":"auto"}}"#,
                &["output.format: `auto` is not implemented yet, use `json` until then"],
            ),
            (r#"{"dropNulls":true,"output":{"format":"xml"}}"#, &["output.format: `xml` is no format, use `json`"]),
            (
                r#"{"output":{"budget":{"tokens":9}}}"#,
                &[
                    "output.budget.tokens: is not implemented yet, use `output.budget.bytes`, at about 3.5 bytes a token",
                ],
            ),
            (
                r#"{"dropNulls":true,"output":{"strategy":"default","levels":{}}}"#,
                &[
                    "output.strategy: is not implemented yet, remove it: a budget trims items from the end",
                    "output.levels: is not implemented yet, use `select` to keep fewer fields",
                ],
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
                &["[0].otherwise: stands beside `test`, keep one of them"],
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

#[test]
fn warnings() {
    check(
        Severity::Warning,
        &advisory(),
        &[
            (r#"{}"#, &["passthrough: has no stage: the output passes as it is, say so with `passthrough: true`"]),
            // Paths that do nothing.
            (
                r#"{"retain":["/a","/a/b"]}"#,
                &["retain[1]: is kept already by `retain[0]` (`/a`), remove one of the two paths"],
            ),
            (
                r#"{"retain":["/a/b","/*"]}"#,
                &["retain[0]: is kept already by `retain[1]` (`/*`), remove one of the two paths"],
            ),
            (
                r#"{"retain":["/a","/a"]}"#,
                &["retain[1]: is kept already by `retain[0]` (`/a`), remove one of the two paths"],
            ),
            (r#"{"retain":["/a/"]}"#, &["retain[0]: `/a/` names a member whose key is empty, remove the last `/`"]),
            (r#"{"exclude":["a","a"]}"#, &["exclude[1]: `a` is there twice, remove one"]),
            (
                r#"{"exclude":["/a/b","/a"]}"#,
                &["exclude[0]: is dropped already by `exclude[1]` (`/a`), remove one of the two"],
            ),
            (
                r#"{"exclude":["user.email"]}"#,
                &[
                    "exclude[0]: `user.email` is the name of one member with dots in it, not a path, write `/user/email` to drop the nested one, `/user.email` for that name",
                ],
            ),
            (
                r#"{"select":{"by":"user"},"exclude":["user"]}"#,
                &[
                    "exclude[0]: `user` is not among the keys that `select` gives, remove it: `select` keeps nothing else",
                ],
            ),
            (
                r#"{"select":{"by":"/user/login"}}"#,
                &["select.by: `/user/login` is the name of one member here, not a pointer, write `user.login`"],
            ),
            // Patches that can never apply after retain.
            (
                r#"{"retain":["/a"],"patches":[{"op":"replace","path":"/b","value":1}]}"#,
                &[
                    "patches[0]: can never apply: `retain` drops `/b`, add the path to `retain`, or remove the operation",
                ],
            ),
            (
                r#"{"retain":["/a"],"patches":[{"op":"remove","path":"/b/c"}]}"#,
                &["patches[0]: does nothing: `retain` has dropped `/b/c` already, remove the operation"],
            ),
            (
                r#"{"retain":["/a"],"patches":[{"op":"test","path":"/b","value":1}]}"#,
                &[
                    "patches[0]: can never apply: `retain` drops `/b`, add the path to `retain`, or remove the operation",
                ],
            ),
            (
                r#"{"retain":["/a"],"patches":[{"op":"copy","from":"/b","path":"/c"}]}"#,
                &[
                    "patches[0]: can never apply: `retain` drops `/b`, add the path to `retain`, or remove the operation",
                ],
            ),
            (
                r#"{"retain":["/a"],"patches":[{"op":"add","path":"/b/c","value":1}]}"#,
                &[
                    "patches[0]: can never apply: `retain` drops what `/b/c` is in, add the path to `retain`, or remove the operation",
                ],
            ),
            (r#"{"retain":["/a"],"root":"/b"}"#, &["root: `/b` is not among what `retain` keeps, add it to `retain`"]),
            // Those that can.
            (
                r#"{"retain":["/a","/i/name"],"patches":[{"op":"add","path":"/b","value":{}},{"op":"add","path":"/b/c","value":1},
                {"op":"remove","path":"/a/x"},{"op":"replace","path":"/i/0/name","value":1},{"op":"remove","path":"/i/0"}]}"#,
                &[],
            ),
            (r#"{"retain":["/u/a"],"patches":[{"op":"add","path":"/u/b","value":1}]}"#, &[]),
            (
                r#"{"patches":[{"op":"move","from":"/a","path":"/a"}]}"#,
                &["patches[0]: moves a value onto itself, remove the operation"],
            ),
            (
                r#"{"patches":[{"op":"remove","path":""}]}"#,
                &["patches[0]: removes the whole document, which leaves `null`, name what to remove"],
            ),
            (
                r#"{"patches":[{"op":"remove","path":"/l/-"}]}"#,
                &[
                    "patches[0]: `-` is the place behind the last element, where nothing is, give the index of an element",
                ],
            ),
            (
                r#"{"patches":[{"op":"remove","path":"/l/*/x"}]}"#,
                &[
                    "patches[0].path: `*` is an ordinary key here, use `retain` or `exclude` to reach every element, or an index for one",
                ],
            ),
            (
                r#"{"patches":[{"op":"remove","path":"/a","value":1}]}"#,
                &["patches[0].value: `remove` takes no value, remove it"],
            ),
            // Shadowed branches.
            (
                r#"[{"test":{"path":"/a","value":1},"retain":["/a"]},{"test":{"path":"/a","value":1.0},"retain":["/b"]}]"#,
                &["[1].test: is that of branch 0, so this branch never applies, remove it, or change one of the tests"],
            ),
        ],
    );
}

#[test]
fn enforced_is_stricter() {
    let options = enforced();
    check(
        Severity::Error,
        &options,
        &[
            ("{}", &["passthrough: has no stage: the output passes as it is, say so with `passthrough: true`"]),
            (
                r#"{"select":{"a":"a"}}"#,
                &[
                    "select: needs `root` under `Enforced`: the payload is named there, not guessed, add `root: \"\"` for the whole document or the pointer of the payload, or declare `response.type`",
                ],
            ),
            (
                r#"{"root":"","exclude":["user.email"]}"#,
                &[
                    "exclude[0]: `user.email` is the name of one member with dots in it, not a path, write `/user/email` to drop the nested one, `/user.email` for that name",
                ],
            ),
        ],
    );
    assert_eq!(findings(r#"{"maxItems":1,"exclude":["a"]}"#, &options).len(), 2);
    assert_eq!(findings(r#"{"maxItems":0,"dropNulls":true}"#, &options), []);
    let declared = CompileOptions { response_type: Some(ResponseType::Array), ..options };
    assert_eq!(findings(r#"{"select":{"a":"a"}}"#, &declared), []);
    check(
        Severity::Warning,
        &options,
        &[
            (
                r#"[{"test":{"path":"/a","value":1},"retain":["/a"]}]"#,
                &[
                    "[0]: outputs that no branch matches become errors, add a last branch with `otherwise: true` if they should pass",
                ],
            ),
            (
                r#"{"retain":["/a"],"text":{"stripAnsi":true}}"#,
                &[
                    "text: never applies: under `Enforced`, output that is not JSON is an error when the filter has other stages, remove `text`, or the other stages",
                ],
            ),
            (
                r#"{"patches":[{"op":"add","path":"/u/x","value":{"y":null}},{"op":"add","path":"/x","value":null}],"dropEmpty":true}"#,
                &[
                    "patches[0]: reads what is there, and writes what `dropNulls` or `dropEmpty` drops: whether it succeeds tells the caller about it, remove the operation",
                ],
            ),
            (
                r#"{"patches":[{"op":"replace","path":"/u","value":null},{"op":"replace","path":"/v","value":""}],"dropNulls":true}"#,
                &[
                    "patches[0]: reads what is there, and writes what `dropNulls` or `dropEmpty` drops: whether it succeeds tells the caller about it, remove the operation",
                ],
            ),
            (
                r#"{"root":"/l","maxItems":2,"patches":[{"op":"remove","path":"/l/1/a"},{"op":"remove","path":"/l/2/a"},{"op":"remove","path":"/l/9"}]}"#,
                &[
                    "patches[1]: reads an element that `maxItems` drops, or `select` where it is not an object: whether it succeeds tells the caller about it, remove the operation",
                ],
            ),
            (
                r#"{"root":"/l","select":{"a":"a"},"patches":[{"op":"remove","path":"/l/0/a"}]}"#,
                &[
                    "patches[0]: reads an element that `maxItems` drops, or `select` where it is not an object: whether it succeeds tells the caller about it, remove the operation",
                ],
            ),
            (
                r#"{"patches":[{"op":"test","path":"/s/x","value":1},{"op":"remove","path":"/s"}]}"#,
                &[
                    "patches[0]: reads what patches[1] removes: whether it succeeds tells the caller about it, remove one of the two operations",
                ],
            ),
        ],
    );
}

#[test]
fn declared_types_that_contradict_the_stages() {
    let with =
        |enforcement, response_type| CompileOptions { enforcement, response_type: Some(response_type), ..advisory() };
    let text =
        "retain: the output is declared to be text, which only `text` works on, use `text`, or change `response.type`";
    check(Severity::Warning, &with(Enforcement::Advisory, ResponseType::Text), &[(r#"{"retain":["/a"]}"#, &[text])]);
    check(Severity::Error, &with(Enforcement::Enforced, ResponseType::Text), &[(r#"{"retain":["/a"]}"#, &[text])]);
    let object = with(Enforcement::Advisory, ResponseType::Object);
    check(
        Severity::Warning,
        &object,
        &[
            (
                r#"{"maxItems":3}"#,
                &["maxItems: does nothing: the output is declared to be an object, name the list with `root`"],
            ),
            (
                r#"{"compact":{"item":"x"}}"#,
                &["compact: needs a list, and the output is declared to be an object, name the list with `root`"],
            ),
            (r#"{"maxItems":3,"root":"/items"}"#, &[]),
        ],
    );
}

#[test]
fn enforced_without_an_allow_list() {
    let remedy = "name what may pass with `select` or `retain`";
    let passes = "passes everything that the filter does not name, also a member that the upstream adds later";
    for (filter, expected) in [
        (r#"{"root":"","exclude":["a"]}"#, format!("exclude: {passes}, {remedy}")),
        (r#"{"patches":[{"op":"remove","path":"/a"}]}"#, format!("patches: {passes}, {remedy}")),
        (r#"{"dropNulls":true}"#, format!("dropNulls: {passes}, {remedy}")),
        (r#"{"root":"","maxItems":3,"exclude":["a"]}"#, format!("exclude: {passes}, {remedy}")),
        (r#"{"retain":[""]}"#, format!("retain: {passes}, {remedy}")),
        (r#"{"retain":["/*/*"]}"#, format!("retain: {passes}, {remedy}")),
        (
            r#"{"retain":["/a","/**/b"]}"#,
            "retain[1]: keeps whatever matches, also a member that the upstream adds later: it is no allow-list, name what may pass without `**` and without a `*` in a name".to_owned(),
        ),
        (
            r#"{"text":{"strip":["a"]}}"#,
            "text: passes every line that it does not name, also of a kind that the upstream adds later, name the lines that may pass with `text.keep`".to_owned(),
        ),
    ] {
        assert_eq!(all_findings(filter, &enforced()), [(Severity::Warning, expected)], "{filter}");
        let told = all_findings(filter, &advisory());
        assert!(told.iter().all(|(_, text)| !text.contains("the upstream adds later")), "{told:?}");
    }
    let is_allow_list = |filter: &str| {
        let compiled = compile(&serde_json::from_str(filter).unwrap(), &enforced());
        compiled.program.unwrap_or_else(|| panic!("{filter}: {:?}", compiled.findings)).is_allow_list()
    };
    for filter in [
        r#"{"root":"","select":{"a":"a"}}"#,
        r#"{"root":"/x","select":{"a":"a"},"exclude":["b"]}"#,
        r#"{"retain":["/a","/items/*/b","/user/*"],"dropNulls":true}"#,
        r#"{"retain":["/**/a"],"root":"","select":{"a":"a"}}"#,
        r#"{"text":{"keep":["^E"]}}"#,
        r#"[{"test":{"path":"/a","value":1},"retain":["/a"]},{"otherwise":true,"retain":["/b"]}]"#,
    ] {
        assert!(is_allow_list(filter), "{filter}");
        assert!(!all_findings(filter, &enforced()).iter().any(|(_, text)| text.contains("adds later")), "{filter}");
    }
    for filter in [
        r#"{"passthrough":true}"#,
        r#"{"root":"","exclude":["a"]}"#,
        r#"{"retain":["/a_*"]}"#,
        r#"{"retain":["/**/a"],"root":"/items","select":{"a":"a"}}"#,
        r#"[{"test":{"path":"/a","value":1},"retain":["/a"]},{"otherwise":true,"passthrough":true}]"#,
    ] {
        assert!(!is_allow_list(filter), "{filter}");
    }
}

#[test]
fn a_template_names_what_is_there() {
    let cases: &[(&str, &[&str])] = &[
        (
            r#"{"root":"","select":{"title":"title"},"compact":{"item":"{{.titel}} {{.title}} {{.titel}}"}}"#,
            &[
                "compact.item: `.titel` is not among the keys that `select` gives, so it prints nothing, name one of those keys, or add the field to `select`",
            ],
        ),
        (
            r#"{"root":"","exclude":["*_url","/user","/**/id","/a/b"],"compact":{"item":"{{.html_url}} {{.user.login}} {{.id}} {{.a.b}}"}}"#,
            &[
                "compact.item: `.html_url` is dropped by `exclude`, so it prints nothing, remove it from the template, or from `exclude`",
                "compact.item: `.user` is dropped by `exclude`, so it prints nothing, remove it from the template, or from `exclude`",
                "compact.item: `.id` is dropped by `exclude`, so it prints nothing, remove it from the template, or from `exclude`",
            ],
        ),
        (
            r#"{"retain":["/items/title","/items/*/id"],"root":"/items","compact":{"item":"{{.titel}}{{.title}}{{.id}}"}}"#,
            &[
                "compact.item: `.titel` is not among what `retain` keeps, so it prints nothing, add it to `retain`, or remove it from the template",
            ],
        ),
        (r#"{"retain":["/items"],"root":"/items","compact":{"item":"{{.titel}}"}}"#, &[]),
        (r#"{"retain":["/**/x"],"root":"/items","compact":{"item":"{{.titel}}"}}"#, &[]),
        (r#"{"retain":["/items/0"],"root":"/items","compact":{"item":"{{.titel}}"}}"#, &[]),
        (
            r#"{"retain":["/a"],"root":"","patches":[{"op":"add","path":"/0/titel","value":1}],"compact":{"item":"{{.titel}}"}}"#,
            &[],
        ),
    ];
    check(Severity::Warning, &advisory(), cases);
    check(Severity::Warning, &enforced(), &cases[..2]);
    // Where the list is found by its shape, it is the document or a member of it.
    check(
        Severity::Warning,
        &advisory(),
        &[
            (r#"{"retain":["/items/title"],"compact":{"item":"{{.title}}"}}"#, &[]),
            (r#"{"retain":["/title"],"compact":{"item":"{{.titel}}"}}"#, &[]),
            (
                r#"{"retain":["/items/title"],"compact":{"item":"{{.titel}}"}}"#,
                &[
                    "compact.item: `.titel` is not among what `retain` keeps, so it prints nothing, add it to `retain`, or remove it from the template",
                ],
            ),
        ],
    );
}

#[test]
fn globs_are_few() {
    let list = |entry: &str, count: usize| {
        let entries: Vec<_> = (0..count).map(|i| format!("{entry}{i}")).collect();
        serde_json::json!({"root": "", "exclude": entries, "retain": entries}).to_string()
    };
    for (entry, most, what) in [("/*a", 64, "segments with a `*` in them"), ("/**/a", 16, "segments `**`")] {
        assert!(findings(&list(entry, most), &advisory()).iter().all(|(severity, _)| *severity == Severity::Warning));
        let told = findings(&list(entry, most + 1), &advisory());
        for field in ["retain", "exclude"] {
            let message = format!("{field}: has {} {what}, at most {most} are allowed", most + 1);
            assert!(
                told.iter().any(|(severity, text)| *severity == Severity::Error && text.starts_with(&message)),
                "{told:?}"
            );
        }
    }
    check(
        Severity::Warning,
        &advisory(),
        &[
            (
                r#"{"exclude":["*_url","html_url"]}"#,
                &["exclude[1]: is dropped already by `exclude[0]` (`*_url`), remove one of the two"],
            ),
            (
                r#"{"exclude":["a","/a/b"]}"#,
                &["exclude[1]: is dropped already by `exclude[0]` (`a`), remove one of the two"],
            ),
            (
                r#"{"select":{"a":"a"},"exclude":["*_url"]}"#,
                &[
                    "exclude[0]: `*_url` is not among the keys that `select` gives, remove it: `select` keeps nothing else",
                ],
            ),
            (r#"{"exclude":["/**/**/url"]}"#, &[]),
        ],
    );
    check(
        Severity::Error,
        &advisory(),
        &[(
            r#"{"select":{"a_url":"a","b_url":"b"},"exclude":["*_url"]}"#,
            &["exclude: drops every field that `select` keeps, remove the fields to keep from `exclude`"],
        )],
    );
}
