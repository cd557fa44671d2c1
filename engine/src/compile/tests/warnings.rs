//! Filters that compile with warnings.

use super::*;

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
            // Patches that can apply.
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
