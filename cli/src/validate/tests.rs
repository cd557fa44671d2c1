//! `validate` on folders.

use tamis_crds::load;

use super::*;

const SERVICE: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: github}
spec:
  version: 1.0.0
  http:
    baseUrl: https://api.github.com
    actions: {list-issues: {path: /issues, response: {type: array}}}
---
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: github}
spec:
  service: {name: github, version: 1.0.0}
  filters: {list-issues: {select: {number: number, by: user.login}}}
"#;
const EXPOSITION: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: github}
spec: {service: {name: github, version: 1.0.0}}
"#;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn loaded(files: &[(&str, &str)]) -> Loaded {
    load(&[folder(files).path().to_owned()])
}

#[test]
fn what_a_broken_file_may_hold_is_not_missed() {
    let whole = loaded(&[("a.yaml", EXPOSITION)]);
    assert_eq!(diagnose(&whole).len(), 1, "the service is not there");
    let broken = loaded(&[("a.yaml", EXPOSITION), ("b.yaml", "spec: [")]);
    let found = diagnose(&broken);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].file.ends_with("b.yaml"), "{found:#?}");
}

#[test]
fn findings_are_counted() {
    let loaded = loaded(&[("a.yaml", SERVICE), ("b.yaml", EXPOSITION), (".hidden.yaml", "["), ("notes.txt", "[")]);
    assert_eq!(summary(&loaded, &diagnose(&loaded)), "2 files, 3 documents: 0 errors, 0 warnings");
}

#[test]
fn json_output_is_the_findings() {
    let found = diagnose(&loaded(&[("a.json", "{\n \"kind\": 1,}")]));
    let json: serde_json::Value = serde_json::from_str(&json(&found, None, &[]).unwrap()).unwrap();
    assert_eq!(json["diagnostics"][0]["severity"], "error");
    assert_eq!(json["diagnostics"][0]["line"], 2);
    assert!(json.get("samples").is_none());
}

#[test]
fn a_sample_goes_through_the_filter_of_its_exposition_or_of_its_set() {
    let sample = br#"[{"number": 1, "user": {"login": "a"}, "body": "long"}]"#;
    for (files, user) in [
        (&[("a.yaml", SERVICE), ("b.yaml", EXPOSITION)][..], "exposition default/github"),
        (&[("a.yaml", SERVICE)], "filter set default/github"),
    ] {
        let resources = loaded(files).resources;
        let ran = sample::run(&resources, None, sample).unwrap();
        assert_eq!(ran.len(), 1);
        assert_eq!((ran[0].used_by.as_str(), ran[0].output_bytes, &ran[0].error), (user, Some(23), &None));
        let unknown = sample::run(&resources, Some("list-repos"), sample).unwrap_err();
        assert_eq!(unknown.to_string(), "the documents have no filter for tool `list-repos`; they filter list-issues");
    }
}

#[test]
fn the_cost_of_reserved_inputs_is_that_of_the_lists_with_and_without_them() {
    let costs = |output: &str| {
        let exposition = EXPOSITION.replace("version: 1.0.0}}", &format!("version: 1.0.0}}, {output}}}"));
        cost::of(&loaded(&[("a.yaml", SERVICE), ("b.yaml", &exposition)]).resources)
    };
    let default = costs("limits: {timeout: 5s}");
    let [cost::Cost { exposition, tools, tokenizer, tokens_are, list, without_reserved_inputs, reserved_inputs }] =
        &default[..]
    else {
        panic!("{default:?}")
    };
    assert_eq!((exposition.as_str(), *tools, *tokenizer, *tokens_are), ("default/github", 1, "o200k_base", None));
    assert_eq!(list.bytes, without_reserved_inputs.bytes + reserved_inputs.bytes);
    assert_eq!(list.tokens, without_reserved_inputs.tokens + reserved_inputs.tokens);
    assert!((40..80).contains(&reserved_inputs.tokens), "{default:?}");
    assert!(cost::remedy(&default).is_some_and(|remedy| remedy.contains("inputs: []")));

    let none = costs("output: {inputs: []}");
    assert_eq!(none[0].list, none[0].without_reserved_inputs);
    assert_eq!(none[0].without_reserved_inputs, *without_reserved_inputs);
    assert_eq!(cost::remedy(&none), None);
    assert!(none[0].to_string().ends_with("no reserved inputs"), "{}", none[0]);

    let more = costs("output: {inputs: [_format, _budget_tokens, chunk, offset, limit]}");
    assert!(more[0].reserved_inputs.tokens > reserved_inputs.tokens, "{more:?}");
    let estimate = costs("tokens: {tokenizer: o200k_base, factor: 2}");
    assert_eq!(estimate[0].list.tokens, 2 * list.tokens);
    assert_eq!(estimate[0].tokens_are, Some("estimate"));
}

#[test]
fn a_long_list_of_tools_is_a_warning() {
    let action = |index: usize| format!("      t{index}: {{method: GET, path: /{index}}}\n");
    let many = |count: usize, text: &str| {
        let service = "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: s}\nspec:\n  version: '1'\n  http:\n    baseUrl: https://a.example\n    actions:\n";
        let actions: String = (0..count).map(action).collect();
        let long = format!("      long: {{method: GET, path: /, description: '{text}'}}\n");
        let exposition = "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: e}\nspec:\n  service: {name: s, version: '1'}\n  filters: []\n  output: {inputs: []}\n";
        let files = format!("{service}{actions}{long}---\n{exposition}");
        let resources = loaded(&[("a.yaml", &files)]).resources;
        let found = cost::warnings(&resources, &cost::of(&resources));
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(many(99, ""), [""; 0]);
    let found = many(100, "");
    assert!(found[0].contains(": warning: spec.tools: 101 tools are listed in "), "{found:?}");
    assert!(found[0].ends_with("more than 100 tools or 100000 bytes; name those that callers need in `tools.include`"));
    assert_eq!(many(1, &"x".repeat(100_000)).len(), 1);
}
