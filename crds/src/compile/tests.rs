//! Compile, from documents.

use super::*;
use crate::parse_document;

/// The resources of one text, which must be in order.
fn resources(text: &str) -> Resources {
    let parsed = parse_document("test.yaml", text.as_bytes());
    assert!(!parsed.is_broken(), "{:#?}", parsed.diagnostics);
    parsed.resources
}

/// What is said about one text.
fn said(compilation: &Compilation) -> Vec<String> {
    compilation.diagnostics.iter().map(ToString::to_string).collect()
}

/// The documents of `contract.md`, without what later work brings.
const CONTRACT: &str = r##"
apiVersion: reshapr.io/v1alpha1
kind: ServiceManifest
metadata: {name: github, namespace: team-a}
spec:
  name: github
  version: 1.0.0
  description: Issues and repositories
  http:
    baseUrl: https://api.github.com
    auth: {type: bearer, secretRef: {name: github, key: token}}
    actions:
      list-issues:
        description: Issues of a repository
        method: GET
        path: /repos/{owner}/{repo}/issues
        args:
          owner: {type: string, required: true}
          repo: {type: string, required: true}
          state: {type: string, enum: [open, closed, all], default: open}
        request: {pathParams: {owner: "{owner}", repo: "{repo}"}, query: {state: "{state}"}}
        response: {type: array, filter: {select: {number: number, by: user.login}, maxItems: 25, dropNulls: true}}
      get-issue: {path: /issue}
      get-log: {path: /log, response: {type: text}}
      whoami: {path: /user}
      delete-all: {path: /everything, method: DELETE}
---
apiVersion: reshapr.io/v1alpha1
kind: ToolsFilters
metadata: {name: github-partner, namespace: team-a}
spec:
  name: partner
  service: {name: github, version: 1.0.0}
  enforcement: Enforced
  filters:
    list-issues:
      root: ""
      select: {number: number, title: title, by: user.login, labels: "labels[*].name"}
      exclude: [body_html]
      maxItems: 25
      dropNulls: true
      compact: {item: "#{{.number}} {{.title}}"}
    get-issue:
    - test: {path: /state, value: closed}
      retain: [/number, /state]
    - otherwise: true
      retain: [/number, /title, /body, /user/login]
      patches: [{op: add, path: /source, value: github}]
    get-log:
      text: {stripAnsi: true, keep: ["^E"], maxLines: 200}
    whoami: {passthrough: true}
---
apiVersion: reshapr.io/v1alpha1
kind: Exposition
metadata: {name: github-partner, namespace: team-a}
spec:
  service: {name: github, version: 1.0.0}
  tools: {include: ["*-*", whoami], exclude: []}
  filters: [partner]
  access: {anonymous: true}
  limits: {requestsPerSecond: 50, burst: 100, concurrent: 32, timeout: 30s, maxResponseBytes: 16Mi}
  audit: {mode: Digest}
"##;

#[test]
fn the_documents_of_the_contract_compile() {
    let compilation = compile(&resources(CONTRACT), &CompileEnv::default());
    assert_eq!(
        said(&compilation),
        [
            "test.yaml:39:17: warning: spec.filters.list-issues.exclude[0]: `body_html` is not among the keys that `select` \
             gives, remove it: `select` keeps nothing else",
            "test.yaml:59:3: warning: spec.filters: not published, since no filter set names them: delete-all, name each in \
             a set, with `passthrough: true` where all of it may pass"
        ]
    );
    let id = ExpositionId { namespace: "team-a".into(), name: "github-partner".into() };
    let exposition = &compilation.snapshot.expositions[&id];
    assert_eq!(exposition.tools.keys().collect::<Vec<_>>(), ["list-issues", "get-issue", "get-log", "whoami"]);
    assert_eq!(exposition.limits.max_response_bytes, 16 << 20);
    let service = &compilation.snapshot.services[&exposition.service];
    assert_eq!(
        service.tools["list-issues"].input_schema.as_str(),
        r#"{"type":"object","properties":{"owner":{"type":"string"},"repo":{"type":"string"},"state":{"type":"string","enum":["open","closed","all"],"default":"open"}},"required":["owner","repo"],"additionalProperties":false}"#
    );
}

#[test]
fn the_seed_documents_compile_as_they_stand() {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/seeds");
    for (folder, exposition, tools) in [
        ("reshapr", "github-graphql", &["get_user_with_latest_followers"][..]),
        ("reshapr-conditional", "register", &["get_user_with_latest_followers"]),
        ("kimbap", "github", &["list-issues", "summarise-issues"]),
    ] {
        let loaded = crate::load(&[seeds.join(folder)]);
        assert_eq!(loaded.diagnostics, [], "{folder}");
        let compilation = compile(&loaded.resources, &CompileEnv::default());
        assert_eq!(said(&compilation), Vec::<String>::new(), "{folder}");
        let id = ExpositionId { namespace: "default".into(), name: exposition.into() };
        let document = &compilation.snapshot.expositions[&id];
        assert_eq!(document.tools.keys().collect::<Vec<_>>(), tools, "{folder}");
        assert!(document.tools.values().all(|tool| tool.filter.is_some()), "{folder}");
    }
}
