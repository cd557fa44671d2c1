use super::*;
use crate::parse_document;

const MANIFEST: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: github}
spec:
  version: "1"
  http:
    baseUrl: https://api.example.com
    actions:
      list-issues:
        path: /issues
        response: {type: array}
      list-repos:
        path: /repos
        response: {type: array, filter: {maxItems: 3}}
"#;

fn set(resource: &str, name: &str, enforcement: &str, tools: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: {resource}}}\nspec:\n  {name}\n  service: {{name: github, version: \"1\"}}\n  \
         enforcement: {enforcement}\n  filters: {{{tools}}}\n"
    )
}

fn resources(documents: &[String]) -> Resources {
    let mut all = Resources::default();
    for document in documents {
        let parsed = parse_document("test.yaml", document.as_bytes());
        assert!(!parsed.is_broken(), "{:#?}", parsed.diagnostics);
        all.extend(&parsed.resources);
    }
    all
}

const TOOLS: &str = "list-issues: {retain: [/a]}";

#[test]
fn the_set_that_a_gateway_would_apply_is_found() {
    use Enforcement::{Advisory, Enforced};
    let manifest = MANIFEST.to_owned();
    let plain = set("a", "", "Advisory", TOOLS);
    let strict = set("b", "", "Enforced", TOOLS);
    let strict_other = set("b", "", "Enforced", "other: {retain: [/a]}");
    let partner = set("c", "name: partner", "Enforced", TOOLS);
    let array = Some(ResponseType::Array);
    for (documents, wanted, expected) in [
        (vec![plain.clone()], None, (Advisory, None, None)),
        (vec![plain.clone(), manifest.clone()], None, (Advisory, array, None)),
        (vec![plain.clone(), strict.clone()], None, (Enforced, None, None)),
        (vec![plain.clone(), strict_other], None, (Enforced, None, None)),
        (vec![plain.clone(), partner.clone()], None, (Advisory, None, None)),
        (vec![plain.clone(), partner.clone()], Some("partner"), (Enforced, None, Some("partner"))),
        (vec![plain.clone(), partner.clone()], Some("a"), (Advisory, None, None)),
        (vec![partner.clone()], None, (Enforced, None, Some("partner"))),
    ] {
        let resources = resources(&documents);
        let found = resources.filter_of("list-issues", wanted).expect("found");
        assert_eq!((found.enforcement, found.response_type, found.set), expected, "{documents:?} {wanted:?}");
    }
    let embedded = resources(&[manifest, plain]);
    let found = embedded.filter_of("list-repos", None).expect("found");
    let diagnostic = found.diagnose(&Finding::error("maxItems", "is wrong", "fix it"));
    assert_eq!(
        diagnostic.to_string(),
        "test.yaml:15:42: error: spec.http.actions.list-repos.response.filter.maxItems: is wrong; fix it"
    );
}

#[test]
fn what_cannot_be_found_says_what_to_do() {
    let partner = set("c", "name: partner", "Enforced", TOOLS);
    let internal = set("d", "name: internal", "Advisory", TOOLS);
    let resources = resources(&[partner, internal]);
    for (tool, wanted, message, remedy) in [
        (
            "list-issues",
            None,
            "several sets have a filter for `list-issues`: `internal`, `partner`",
            "choose one with --set",
        ),
        ("list-isues", None, "no filter names the tool `list-isues`", "did you mean `list-issues`?"),
        ("whoami", None, "no filter names the tool `whoami`", "there are filters for `list-issues`"),
        ("whoami", Some("partner"), "set `partner` has no filter for `whoami`", "it has filters for `list-issues`"),
        ("list-issues", Some("partners"), "set `partners` does not exist", "did you mean `partner`?"),
    ] {
        let found = resources.filter_of(tool, wanted).map(drop).expect_err(message);
        assert_eq!((found.message.as_str(), found.remedy.as_str()), (message, remedy));
    }
    let empty = Resources::default().filter_of("x", None).map(drop).expect_err("nothing there");
    assert_eq!(empty.remedy, "pass the file that defines the filter with -f");
}
