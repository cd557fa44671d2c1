//! Errors and warnings under `Enforced`.

use super::*;

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
