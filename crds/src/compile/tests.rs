//! Compile, from documents.

use std::fmt::Write as _;

use tamis_config::Call;
use tamis_engine::ToolFilter;

use super::*;
use crate::parse_document;

mod answers;
mod bounds;
mod bundle;
mod cluster;
mod command;
mod config_maps;
mod content;
mod derived;
mod expanded;
mod floors;
mod graphql;
mod keep_or_stop;
mod manifests;
mod mcp;
mod openapi;
mod pause;
mod programs;
mod refused;
mod world;

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
apiVersion: tamis.dev/v1alpha1
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
apiVersion: tamis.dev/v1alpha1
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
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: github-partner, namespace: team-a}
spec:
  service: {name: github, version: 1.0.0}
  tools: {include: ["*-*", whoami], exclude: []}
  filters: [partner]
  access: {anonymous: true}
  limits: {requestsPerSecond: 50, burst: 100, concurrent: 32, timeout: 30s, maxResponseBytes: 16Mi}
  lists: {ttl: 1m30s}
  audit: {mode: Digest}
"##;

#[test]
fn the_documents_of_the_contract_compile() {
    let compilation = compile(&resources(CONTRACT), &CompileEnv::default());
    assert_eq!(
        said(&compilation),
        [
            "test.yaml:39:17: warning: spec.filters.list-issues.exclude[0]: `body_html` is not among the keys that `select` \
             gives; remove it: `select` keeps nothing else",
            "test.yaml:59:3: warning: spec.filters: not published because no filter set names them: delete-all; name each \
             tool in a filter set, with `passthrough: true` if its whole output may pass"
        ]
    );
    let id = ExpositionId { namespace: "team-a".into(), name: "github-partner".into() };
    let exposition = &compilation.snapshot.expositions[&id];
    assert_eq!(exposition.tools.keys().collect::<Vec<_>>(), ["list-issues", "get-issue", "get-log", "whoami"]);
    assert_eq!(exposition.limits.max_response_bytes, 16 << 20);
    assert_eq!(exposition.list_ttl_ms, 90_000);
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

const SERVICE: &str = "
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: s}
spec:
  version: '1'
  http:
    baseUrl: https://example.com
    actions:
      plain: {path: /a}
      embedded: {path: /b, response: {filter: {retain: [/embedded]}}}
      create: {path: /c, method: POST}
";

/// `SERVICE`, and one document a kind and spec.
fn with(documents: &[(&str, &str, &str)]) -> String {
    let mut text = SERVICE.to_owned();
    for (kind, name, spec) in documents {
        let _ = write!(
            text,
            "---\napiVersion: tamis.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{{}{spec}}}\n",
            if *kind == "GatewayGroup" { "" } else { "service: {name: s, version: '1'}, " }
        );
    }
    text
}

fn id() -> ExpositionId {
    ExpositionId { namespace: "default".into(), name: "e".into() }
}

/// The tools of exposition `e`, each with where its filter comes from; or why it is stopped.
fn published(compilation: &Compilation) -> String {
    if let Some(stopped) = compilation.snapshot.stopped.get(&id()) {
        return stopped.reason.as_str().to_owned();
    }
    let exposition = &compilation.snapshot.expositions[&id()];
    let tools = exposition.tools.iter().map(|(tool, t)| format!("{tool}={}", t.filter_set.as_deref().unwrap_or("-")));
    format!("{:?} {}", exposition.enforcement, tools.collect::<Vec<_>>().join(" "))
}

#[test]
fn which_sets_apply_and_with_which_enforcement() {
    const A: (&str, &str, &str) = ("ToolsFilters", "a", "filters: {plain: {retain: [/a]}}");
    const B: (&str, &str, &str) = ("ToolsFilters", "b", "filters: {plain: {retain: [/b]}, embedded: {retain: [/b]}}");
    const NAMED: (&str, &str, &str) = ("ToolsFilters", "n", "name: named, filters: {plain: {retain: [/n]}}");
    const STRICT: (&str, &str, &str) = (
        "ToolsFilters",
        "z",
        "name: strict, enforcement: Enforced, filters: {plain: {retain: [/z]}, create: {passthrough: true}}",
    );
    let all = [B, A, NAMED, STRICT];
    let table = [
        ("", "Advisory plain=default/a embedded=default/b create=-"),
        ("filters: []", "Advisory plain=- embedded=- create=-"),
        ("filters: [named]", "Advisory plain=default/n embedded=manifest create=-"),
        ("filters: [named, strict]", "Enforced plain=default/z embedded=manifest create=default/z"),
        ("filters: [named], enforcement: Enforced", "Enforced plain=default/n embedded=manifest"),
        ("filters: [], enforcement: Enforced", "Enforced "),
        ("filters: [named, named]", "Conflict"),
        ("filters: [name]", "FilterSetNotFound"),
        ("tools: {include: ['*e*'], exclude: [c*]}", "Advisory embedded=default/b"),
        ("tools: {include: [plain]}", "Advisory plain=default/a"),
        ("tools: {include: [plane]}", "ToolNotFound"),
        ("tools: {exclude: [plane]}", "ToolNotFound"),
        ("access: {anonymous: false}", "AccessRequired"),
        ("access: {}", "AccessRequired"),
        ("audit: {mode: Full}", "Conflict"),
        ("gatewayGroup: {name: public}", "GatewayGroupNotFound"),
    ];
    for (spec, expected) in table {
        let mut documents = all.to_vec();
        documents.push(("Exposition", "e", spec));
        let compilation = compile(&resources(&with(&documents)), &CompileEnv::default());
        assert_eq!(published(&compilation), expected, "{spec}");
    }
}

#[test]
fn a_group_sets_floors() {
    let table = [
        ("require: {enforced: true}", "", "BelowGroupFloor"),
        ("require: {enforced: true}", "enforcement: Enforced", "Enforced embedded=manifest"),
        ("require: {access: true}", "", "BelowGroupFloor"),
        ("require: {access: true}", "access: {anonymous: true}", "BelowGroupFloor"),
        ("require: {audit: Full}, audit: {sink: File}", "", "BelowGroupFloor"),
        ("audit: {sink: File}", "audit: {mode: Full}", "Advisory plain=- embedded=manifest create=-"),
        ("", "limits: {maxResponseBytes: 64Mi, timeout: 5m}", "Advisory plain=- embedded=manifest create=-"),
        ("", "limits: {maxResponseBytes: 65Mi}", "BelowGroupFloor"),
        ("", "limits: {timeout: 301s}", "BelowGroupFloor"),
        ("maxResponseBytes: 1Mi", "", "BelowGroupFloor"),
        ("maxResponseBytes: 1Gi", "limits: {maxResponseBytes: 1Gi}", "Advisory plain=- embedded=manifest create=-"),
        ("maxTimeout: 1h", "limits: {timeout: 1h}", "Advisory plain=- embedded=manifest create=-"),
        ("maxTimeout: 20s", "limits: {timeout: 21s}", "BelowGroupFloor"),
    ];
    for (group, exposition, expected) in table {
        // By its name, as the namespace's default, and as the only one.
        for (name, reference) in [("public", "gatewayGroup: {name: public}, "), ("default", ""), ("other", "")] {
            let exposition = format!("{reference}{exposition}");
            let documents = [("GatewayGroup", name, group), ("Exposition", "e", exposition.as_str())];
            let compilation = compile(&resources(&with(&documents)), &CompileEnv::default());
            assert_eq!(published(&compilation), expected, "{name} {group} {exposition}");
        }
    }
    let elsewhere =
        with(&[("GatewayGroup", "g", ""), ("Exposition", "e", "gatewayGroup: {name: g, namespace: other}")])
            .replace("metadata: {name: g}", "metadata: {name: g, namespace: other}");
    assert_eq!(published(&compile(&resources(&elsewhere), &CompileEnv::default())), "RefNotPermitted");
    let open =
        elsewhere.replace("namespace: other}\nspec: {}", "namespace: other}\nspec: {allowedNamespaces: {from: All}}");
    assert_eq!(
        published(&compile(&resources(&open), &CompileEnv::default())),
        "Advisory plain=- embedded=manifest create=-"
    );
    // Files say nothing of the labels of namespaces.
    let selector = open.replace("{from: All}", "{from: Selector, selector: {matchLabels: {}}}");
    let compilation = compile(&resources(&selector), &CompileEnv::default());
    assert_eq!(published(&compilation), "RefNotPermitted");
    assert!(said(&compilation)[0].contains("namespaces have labels in a cluster only"), "{:?}", said(&compilation));
}

#[test]
fn a_group_of_another_namespace_is_not_suggested() {
    let table = [("publi", "did you mean `public`?"), ("secre", "create it, or remove the field")];
    for (name, remedy) in table {
        let exposition = format!("gatewayGroup: {{name: {name}}}, filters: []");
        let text = with(&[
            ("GatewayGroup", "public", ""),
            ("GatewayGroup", "secret", ""),
            ("Exposition", "e", exposition.as_str()),
        ]);
        let text = text.replace("metadata: {name: secret}", "metadata: {name: secret, namespace: other}");
        let compilation = compile(&resources(&text), &CompileEnv::default());
        let said = said(&compilation);
        assert!(said.iter().any(|line| line.contains(remedy)), "{name}: {said:?}");
    }
}

#[test]
fn what_is_broken_keeps_its_last_good_form_and_nothing_else_waits() {
    let set = |filter: &str, more: &str| {
        let spec = format!("filters: {{plain: {filter}, create: {{retain: [/c]}}}}");
        let exposition = format!("tools: {{include: [plain, create]}}{more}");
        with(&[("ToolsFilters", "a", &spec), ("Exposition", "e", &exposition)])
    };
    let good = compile(&resources(&set("{retain: [/a]}", "")), &CompileEnv::default()).snapshot;
    let again = |text: &str, previous: &Snapshot| {
        compile(&resources(text), &CompileEnv { previous: Some(previous), ..CompileEnv::default() })
    };
    let filter = |compilation: &Compilation| compilation.snapshot.expositions[&id()].tools["plain"].filter.clone();

    // A filter that does not compile: its last good one, while the rest is today's.
    let kept = again(&set("{retain: [a]}", ", limits: {concurrent: 3}"), &good);
    assert_eq!(filter(&kept), good.expositions[&id()].tools["plain"].filter);
    assert_eq!(kept.snapshot.expositions[&id()].limits.concurrent, Some(3));
    assert_eq!(kept.degraded[&id()], [Degraded::PreviousFilter("plain".into())]);
    assert!(kept.has_errors());

    // Under another enforcement it was another promise.
    let stricter = again(&set("{retain: [a]}", ", enforcement: Enforced"), &good);
    assert_eq!(published(&stricter), "Enforced create=default/a");
    assert_eq!(stricter.degraded[&id()], [Degraded::Unpublished("plain".into())]);

    // A filter that has never compiled publishes nothing.
    let never = again(&set("{retain: [a]}", ""), &Snapshot::default());
    assert_eq!(published(&never), "Advisory create=default/a");

    // An invalid manifest: the last good service.
    let broken = set("{retain: [/a]}", ", access: {anonymous: true}").replace("path: /a", "path: '/a/{nobody}'");
    let kept = again(&broken, &good);
    assert_eq!(kept.degraded[&id()], [Degraded::PreviousService]);
    assert_eq!(kept.snapshot.expositions[&id()].service, good.expositions[&id()].service);
    assert!(kept.snapshot.expositions[&id()].access.is_some());
    assert_eq!(published(&again(&broken, &Snapshot::default())), "InvalidManifest");

    // What is gone stops, whatever was served before.
    let gone = set("{retain: [/a]}", "").replace("version: '1'\n", "version: '2'\n");
    assert_eq!(published(&again(&gone, &good)), "ServiceNotFound");
}

#[test]
fn a_filter_is_not_blamed_for_a_tool_that_is_not_there() {
    const EARLY: &str = "the service is not there yet";
    let table = [
        // The shape of the answer decides about it, and the service would say that.
        (EARLY, "select: {a: a}", "spec.service ServiceNotFound"),
        ("the tool is not there yet", "select: {a: a}", "spec.filters.plain ToolNotFound"),
        ("both are there", "select: {a: a}", "spec.filters.plain.select InvalidFilter"),
        // Wrong whatever the tool answers.
        (EARLY, "retain: [a]", "spec.service ServiceNotFound, spec.filters.plain.retain[0] InvalidFilter"),
        (EARLY, "maxItems: -1", "spec.service ServiceNotFound, spec.filters.plain.maxItems InvalidFilter"),
    ];
    for (what, filter, expected) in table {
        let spec = format!("enforcement: Enforced, filters: {{plain: {{{filter}}}}}");
        let text = with(&[("ToolsFilters", "a", &spec)]);
        let text = match what {
            EARLY => text.replace("version: '1'\n", "version: '2'\n"),
            "both are there" => text,
            _ => text.replace("plain: {path", "other: {path"),
        };
        let compilation = compile(&resources(&text), &CompileEnv::default());
        let errors = compilation.diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
        let errors: Vec<_> = errors.map(|d| format!("{} {}", d.field, d.reason.as_str())).collect();
        assert_eq!(errors.join(", "), expected, "{what}: {filter}");
    }
}

#[test]
fn the_expressions_of_a_set_are_bounded_together() {
    let service: String = (0..40).fold(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: s}\nspec:\n  name: s\n  version: 1.0.0\n  http:\n    baseUrl: https://x.example\n    actions:\n".into(),
        |mut text, tool| {
            let _ = writeln!(text, "      t{tool}: {{path: /x, response: {{type: text}}}}");
            text
        },
    );
    let mut set = "---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {name: f}\nspec:\n  service: {name: s, version: 1.0.0}\n  filters:\n".to_owned();
    for tool in 0..40 {
        let patterns: Vec<_> = (0..8).map(|i| format!(r"'x{tool}y\d{{40}}{i}'")).collect();
        let _ = writeln!(set, "    t{tool}: {{text: {{keep: [{}]}}}}", patterns.join(", "));
    }
    let compilation = compile(&resources(&(service + &set)), &CompileEnv::default());
    let errors: Vec<_> = compilation.diagnostics.iter().filter(|d| d.is_error()).map(ToString::to_string).collect();
    let named = |error: &&String| error.contains("text.keep[") && error.contains("filter set take more than 8192 KiB");
    assert!(errors.iter().filter(named).count() > 10, "{errors:#?}");
    assert!(errors.iter().all(|error| error.contains("8192 KiB")), "{errors:#?}");
}

#[test]
fn patterns_of_tool_names() {
    let table = [
        ("*", "", true),
        ("", "a", false),
        ("a*c", "abc", true),
        ("a*c", "ab", false),
        ("*-*", "list-issues", true),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("*a*b", "xaybzb", true),
        ("**", "a", true),
        ("a", "A", false),
    ];
    for (pattern, text, expected) in table {
        assert_eq!(tamis_config::matches_pattern(pattern, text), expected, "{pattern} {text}");
    }
}

/// Ten thousand expositions are an ordinary folder: reading and compiling them again has to be quick. Run by hand, with
/// `--release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn ten_thousand_expositions() {
    let mut text = with(&[("ToolsFilters", "a", "filters: {plain: {retain: [/a]}}")]);
    for n in 0..10_000 {
        let _ = write!(
            text,
            "---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: e{n}}}\nspec: {{service: {{name: s, version: '1'}}}}\n"
        );
    }
    let begun = std::time::Instant::now();
    let resources = resources(&text);
    let read = begun.elapsed();
    let compilation = compile(&resources, &CompileEnv::default());
    println!("{} bytes read in {read:?}, compiled in {:?}", text.len(), begun.elapsed() - read);
    assert_eq!(compilation.snapshot.expositions.len(), 10_000);
}
