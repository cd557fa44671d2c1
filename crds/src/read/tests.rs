//! Documents of every accepted form, and what becomes of them.

use super::*;
use crate::resources::{API_VERSION, Resource, ToolsFiltersSpec};

fn read(text: &str) -> ParsedFile {
    parse_document("dir/My Filters.yaml", text.as_bytes())
}

fn one_set(text: &str) -> Arc<Resource<ToolsFiltersSpec>> {
    let parsed = read(text);
    assert_eq!(parsed.diagnostics, [], "{text}");
    Arc::clone(&parsed.resources.filters[0])
}

/// A flat ToolsFilters with one filter.
fn flat(filter: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nservice: {{name: s, version: '1'}}\nfilters:\n  tool: {filter}\n"
    )
}

#[test]
fn spellings_of_the_seeds_are_our_names() {
    let table = [
        ("{jsonRetain: [/a]}", "{retain: [/a]}"),
        ("{jsonPatches: [{op: remove, path: /a}]}", "{patches: [{op: remove, path: /a}]}"),
        ("{max_items: 2, drop_nulls: true, drop_empty: true}", "{maxItems: 2, dropNulls: true, dropEmpty: true}"),
        (
            "{text_filter: {strip_ansi: true, max_lines: 3, on_empty: none}}",
            "{text: {stripAnsi: true, maxLines: 3, onEmpty: none}}",
        ),
        (
            "{text_filter: {strip_lines_matching: ['^#'], keep_lines_matching: [E], max_lines: 3}}",
            "{text: {strip: ['^#'], keep: [E], maxLines: 3}}",
        ),
        ("{compact: true}", "{dropEmpty: true}"),
        ("{compact: false, retain: [/a]}", "{retain: [/a]}"),
        ("{convertToToon: true}", "{output: {format: toon}}"),
        ("{convertToToon: true, output: {budget: {bytes: 1}}}", "{output: {budget: {bytes: 1}, format: toon}}"),
        ("{convertToToon: false, retain: [/a]}", "{retain: [/a]}"),
        ("[{json_retain: [/a], otherwise: true}]", "[{retain: [/a], otherwise: true}]"),
        // Names that authors choose are left alone.
        ("{select: {max_items: a.b_c}}", "{select: {\"max_items\": a.b_c}}"),
    ];
    for (theirs, ours) in table {
        assert_eq!(one_set(&flat(theirs)).spec, one_set(&flat(ours)).spec, "{theirs}");
    }
    let other_kind = flat("{retain: [/a]}").replace("ToolsFilters", "ToolsOutputFilters");
    assert_eq!(one_set(&other_kind).spec, one_set(&flat("{retain: [/a]}")).spec);
}

#[test]
fn the_flat_form_is_named_after_its_file() {
    let two = format!("{}---\n{}", flat("{retain: [/a]}"), flat("{retain: [/b]}"));
    let names: Vec<_> = read(&two).resources.filters.iter().map(|f| (f.name.to_string(), f.unnamed)).collect();
    assert_eq!(names, [("default/my-filters".to_owned(), true), ("default/my-filters-2".to_owned(), true)]);
    let named = flat("{retain: [/a]}").replace("service:", "metadata: {name: own, namespace: team}\nservice:");
    assert_eq!(one_set(&named).name.to_string(), "team/own");
}

#[test]
fn constants_keep_their_digits() {
    let set = one_set(&flat(
        "{patches: [{op: add, path: /a, value: {big: 12345678901234567890, price: 1.10, list: [1e400, \"no\", ~, true]}}]}",
    ));
    let tamis_engine::ToolFilter::Single(filter) = &*set.spec.filters["tool"] else { panic!("one filter") };
    let value = filter.patches.as_ref().unwrap()[0].value.as_ref().unwrap();
    assert_eq!(value.as_str(), r#"{"big":12345678901234567890,"price":1.10,"list":[1e400,"no",null,true]}"#);
}

#[test]
fn anchors_and_merge_keys_share_filters() {
    let text = "apiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nservice: {name: s, version: '1'}\nfilters:\n  one: &one \
                {retain: [/a], maxItems: 5}\n  two: *one\n  three: {<<: *one, maxItems: 9}\n";
    let filters = &one_set(text).spec.filters;
    assert_eq!(filters["one"], filters["two"]);
    let tamis_engine::ToolFilter::Single(three) = &*filters["three"] else { panic!("one filter") };
    assert_eq!((three.max_items, three.retain.as_deref()), (Some(9), Some(&["/a".to_owned()][..])));
}

#[test]
fn kimbaps_manifest_is_a_service_manifest() {
    let theirs = "name: GitHub API\nversion: 2.1.0\nbase_url: https://api.github.com\nauth: {type: header, header_name: X-Key, \
                  credential_ref: team/github.token}\nactions:\n  list:\n    path: /a\n    args: [{name: a_b, type: string}]\n    \
                  request: {query: {q: \"{a_b}\"}}\n    response: {filter: {max_items: 2}, compact: {item: x}, text_filter: {dedup: \
                  true}}\n    error_mapping: {404: gone}\n    retry: {max_attempts: 2, backoff_ms: 5, retry_on: [429]}\n    \
                  pagination: {type: cursor, max_pages: 3, next_path: next}\n";
    let ours = "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: github-api}\nspec:\n  name: GitHub API\n  \
                version: 2.1.0\n  http:\n    baseUrl: https://api.github.com\n    auth: {type: header, name: X-Key, secretRef: {name: \
                team/github, key: token}}\n    actions:\n      list:\n        path: /a\n        args: {a_b: {type: string}}\n        \
                request: {query: {q: \"{a_b}\"}}\n        response: {filter: {maxItems: 2, compact: {item: x}, text: {dedup: \
                true}}}\n        errorMapping: {\"404\": gone}\n        retry: {maxAttempts: 2, backoffMs: 5, retryOn: [429]}\n        \
                pagination: {type: cursor, maxPages: 3, nextPath: next}\n";
    let (theirs, ours) = (read(theirs), read(ours));
    assert_eq!((&theirs.diagnostics, &ours.diagnostics), (&vec![], &vec![]));
    assert_eq!(theirs.resources.manifests[0].spec, ours.resources.manifests[0].spec);
    assert_eq!(theirs.resources.manifests[0].name, ours.resources.manifests[0].name);
}

#[test]
fn kimbaps_programs_are_a_service_manifest() {
    let theirs = read(include_str!("kimbap_command.yaml"));
    let ours = read(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: hub}\nspec:\n  name: hub\n  version: 1.0.0\n  \
         description: A hub's command line\n  command:\n    executable: hub\n    jsonFlag: --output json\n    limits: {timeout: 30s}\n    \
         envInject: {HUB_COLOR: '0'}\n    env: ['HUB_*', EDITOR]\n    workingDir: /srv/repo\n    successCodes: [0, 2]\n    secretEnv: \
         {KIMBAP_CREDENTIAL_HUB_API_TOKEN: {name: hub, key: api-token}}\n    actions:\n      list-issues:\n        command: [issue, list, \
         --all]\n        description: Issues\n        warnings: [Slow]\n        successCodes: [0, 1]\n        jsonFlag: none\n        \
         idempotent: true\n        args:\n          repo_name: {type: string, required: true, style: positional}\n          state: {type: \
         string, enum: [open, closed], default: open}\n          with_comments: {type: boolean, style: boolean}\n          draft: {type: \
         boolean, style: flag}\n          labels: {type: array, style: json}\n          where: {type: object, style: json}\n        \
         response: {type: array, filter: {select: {id: id}, maxItems: 5, compact: {item: '#{{.id}}'}}}\n        risk: {level: low}\n      \
         status:\n        command: [status]\n        args: {}\n        response: {type: text, filter: {text: {maxLines: 5, onEmpty: \
         ok}}}\n        risk: {level: medium}\n",
    );
    let said: Vec<_> = theirs.diagnostics.iter().map(ToString::to_string).collect();
    assert!(said.iter().all(|line| line.contains("warning: ") && line.contains("has no effect here")), "{said:#?}");
    assert_eq!((said.len(), &ours.diagnostics), (3, &vec![]));
    assert_eq!(theirs.resources.manifests[0].spec, ours.resources.manifests[0].spec);
    assert_eq!(theirs.resources.manifests[0].name, ours.resources.manifests[0].name);
}

#[test]
fn kimbaps_scripts_are_a_service_manifest() {
    let theirs = read(include_str!("kimbap_applescript.yaml"));
    let ours = read(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {name: notes}\nspec:\n  name: notes\n  version: 1.0.0\n  \
         description: Notes of this Mac\n  appleScript:\n    actions:\n      list-notes:\n        description: Notes of a folder\n        \
         idempotent: true\n        inlineScript: {language: jxa, timeout: 12s, source: 'JSON.stringify({ok: true})'}\n        args:\n          \
         folder: {type: string, required: true}\n          ids: {type: array}\n          limit: {type: integer, default: 20}\n        \
         response: {type: object}\n        risk: {level: low}\n",
    );
    let said: Vec<_> = theirs.diagnostics.iter().map(ToString::to_string).collect();
    let fields = ["approval_ref", "audit_ref"]
        .map(|name| format!("actions.list-notes.inline_script.{name}: has no effect here"));
    assert!(said.len() == 2 && said.iter().zip(&fields).all(|(line, field)| line.contains(field)), "{said:#?}");
    assert_eq!(ours.diagnostics, vec![]);
    assert_eq!(theirs.resources.manifests[0].spec, ours.resources.manifests[0].spec);
}

#[test]
fn what_kimbaps_programs_cannot_have_is_said_at_its_field() {
    let command =
        |fields: &str| format!("name: n\nversion: 1.0.0\nadapter: command\n{fields}\nactions: {{a: {{command: b}}}}\n");
    let action = |fields: &str| {
        format!(
            "name: n\nversion: 1.0.0\nadapter: command\ncommand_spec: {{executable: x}}\nactions: {{a: {{command: b, {fields}}}}}\n"
        )
    };
    let script = |fields: &str| {
        format!("name: n\nversion: 1.0.0\nadapter: applescript\ntarget_app: Notes\nactions: {{a: {{{fields}}}}}\n")
    };
    for (text, expected) in [
        (command("command_spec: {}"), "error: command_spec: names no `executable`; add it"),
        (
            command("base_url: https://a.example\ncommand_spec: {executable: x}"),
            "error: base_url: has no meaning for a program",
        ),
        (
            command("target_app: Notes\ncommand_spec: {executable: x}"),
            "error: target_app: has no meaning for a program",
        ),
        (
            command("command_spec: {executable: x, merge_stderr: true}"),
            "error: command_spec.merge_stderr: is not possible",
        ),
        (
            command("command_spec: {executable: x, exeutable: y}"),
            "error: exeutable: unknown field; did you mean `executable`?",
        ),
        (
            command("command_spec: {executable: x}\nauth: {type: header, header_name: A, credential_ref: b}"),
            "error: auth: has no place in a command line",
        ),
        (action("method: GET"), "error: actions.a.method: has no meaning for a program"),
        (action("pagination: {type: offset}"), "error: actions.a.pagination: has no meaning for a program"),
        (
            action("auth: {type: bearer, credential_ref: b}"),
            "error: actions.a.auth: has no meaning for one action of a program",
        ),
        (action("aliases: [c]"), "warning: actions.a.aliases: has no effect here"),
        (script("command: list-notes"), "error: actions.a.command: names a script that is a part of kimbap's program"),
        (script("inline_script: {source: '1'}, retry: {}"), "unknown field"),
        (
            "name: n\nversion: 1.0.0\nbase_url: https://a.example\ncommand_spec: {}\nactions: {}\n".to_owned(),
            "error: command_spec: has no meaning for an HTTP API",
        ),
        (
            "name: n\nversion: 1.0.0\nadapter: shell\nactions: {}\n".to_owned(),
            "error: adapter: unknown adapter; use http, command or",
        ),
    ] {
        let said: Vec<_> = read(&text).diagnostics.iter().map(ToString::to_string).collect();
        assert!(said.iter().any(|line| line.contains(expected)), "{text}\n{expected}\n{said:#?}");
    }
}

#[test]
fn what_kubectl_prints_is_read() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: tamis.dev/v1alpha1\n  kind: Exposition\n  metadata: {name: a, \
                uid: 1-2, generation: 3, managedFields: []}\n  spec: {service: {name: s, version: '1'}}\n  status: {tools: 4}\n";
    let parsed = read(text);
    assert_eq!((parsed.diagnostics, parsed.resources.expositions.len()), (vec![], 1));
}

#[test]
fn a_credential_in_the_wrong_place_is_not_printed() {
    let secret = "ghp_0123456789";
    let manifests = [
        format!("spec: {{version: '1', http: {{baseUrl: 'https://u:{secret}@h', actions: {{}}}}}}"),
        format!(
            "spec: {{version: '1', http: {{baseUrl: 'https://h', auth: {{type: bearer, secretRef: {secret}}}, actions: {{}}}}}}"
        ),
        format!("spec: {{version: '1', http: {{baseUrl: 'https://h', auth: {secret}, actions: {{}}}}}}"),
        format!(
            "spec: {{version: '1', http: {{baseUrl: 'https://h', auth: {{type: bearer, token: {secret}}}, actions: {{}}}}}}"
        ),
    ];
    for spec in manifests {
        let parsed =
            read(&format!("apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: a}}\n{spec}\n"));
        let loaded = crate::Loaded {
            resources: parsed.resources.clone(),
            diagnostics: parsed.diagnostics.clone(),
            files: vec![parsed],
        };
        let said = crate::diagnose(&loaded);
        assert!(said.iter().any(Diagnostic::is_error), "{spec}");
        assert!(!said.iter().any(|d| d.to_string().contains(secret)), "{said:#?}");
    }
}

#[test]
fn the_schema_covers_the_examples() {
    let schema = document_schema();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut kinds = std::collections::BTreeMap::new();
    for folder in ["quickstart", "notion", "slack", "seeds"] {
        for path in crate::documents(&examples.join(folder)) {
            let bytes = std::fs::read(&path).expect("reads");
            for document in as_written(&path.to_string_lossy(), &bytes) {
                *kinds.entry(document["kind"].as_str().unwrap_or("kimbap").to_owned()).or_insert(0) += 1;
                assert!(validator.is_valid(&document), "{}: {document:#}", path.display());
            }
        }
    }
    assert_eq!(kinds.keys().collect::<Vec<_>>(), ["Exposition", "ServiceManifest", "ToolsFilters", "kimbap"]);
    assert!(kinds.values().all(|count| *count > 0) && kinds["ServiceManifest"] >= 4, "{kinds:?}");
    let kimbap = include_bytes!("kimbap_full.yaml");
    let programs = [&include_bytes!("kimbap_command.yaml")[..], include_bytes!("kimbap_applescript.yaml")];
    for document in programs.into_iter().chain([&kimbap[..]]).flat_map(|bytes| as_written("kimbap.yaml", bytes)) {
        assert!(validator.is_valid(&document), "{document:#}");
    }
    let good = [
        (
            "ToolsOutputFilters, jsonRetain",
            flat("{jsonRetain: [/a], max_items: 3, compact: true, convertToToon: false}"),
        ),
        ("a list of branches", flat("[{test: {path: /a, value: 1}, retain: [/a]}, {otherwise: true, retain: [/b]}]")),
    ];
    for (what, text) in good {
        assert!(as_written("a.yaml", text.as_bytes()).iter().all(|d| validator.is_valid(d)), "{what}: {text}");
    }
    let bad = [
        ("a flat form with a spec", format!("{}spec: {{}}\n", flat("{retain: [/a]}"))),
        ("a field of nobody", flat("{retian: [/a]}")),
        ("kimbap's, misspelled", String::from_utf8_lossy(kimbap).replace("max_attempts", "max_atempts")),
        ("an unknown kind", flat("{retain: [/a]}").replace("kind: ToolsFilters", "kind: ToolFilters")),
    ];
    for (what, text) in bad {
        assert!(!as_written("a.yaml", text.as_bytes()).iter().all(|d| validator.is_valid(d)), "{what}: {text}");
    }
}

/// The documents of a text, before anything in them is renamed or moved.
fn as_written(file: &str, bytes: &[u8]) -> Vec<serde_json::Value> {
    crate::yaml::parse(&file.into(), bytes).expect("is in order").iter().map(plain).collect()
}

/// The document as its author wrote it.
pub(crate) fn plain(node: &crate::yaml::Node) -> serde_json::Value {
    use crate::yaml::{Resolved, Value};
    match &node.value {
        Value::List(items) => items.iter().map(plain).collect(),
        Value::Scalar(scalar) => match &scalar.resolved {
            Resolved::Text | Resolved::NotJson => (&*scalar.source).into(),
            Resolved::Bool(value) => (*value).into(),
            Resolved::Number(number) => serde_json::from_str(number).unwrap(),
            Resolved::Null => serde_json::Value::Null,
        },
        Value::Map(entries) => {
            let mut members = serde_json::Map::new();
            for entry in entries {
                match (entry.spelling(), plain(&entry.value)) {
                    (Some(name), value) => drop(members.insert(name.to_owned(), value)),
                    (None, serde_json::Value::Object(inner)) => members.extend(inner),
                    (None, _) => {}
                }
            }
            members.into()
        }
    }
}

#[test]
fn an_object_that_cannot_be_read_is_still_known() {
    let service = serde_json::json!({"name": "s", "version": "1"});
    // Kind and spec; the service and the set that can be told.
    let table = [
        ("ToolsFilters", serde_json::json!({"service": service, "name": "n", "filters": 5}), Some("s 1"), Some("n")),
        ("ToolsFilters", serde_json::json!({"service": service, "filters": 5}), Some("s 1"), None),
        ("ToolsFilters", serde_json::json!({"service": {"name": "s"}, "filters": {}}), None, None),
        ("ToolsFilters", serde_json::json!({"service": service, "name": ["n"], "filters": {}}), Some("s 1"), None),
        ("Exposition", serde_json::json!({"service": service, "nonsense": 1}), Some("s 1"), None),
        ("CustomTools", serde_json::json!({"service": service}), Some("s 1"), None),
        ("ServiceManifest", serde_json::json!({"name": "s", "version": "1", "http": 5}), Some("s 1"), None),
        ("ServiceManifest", serde_json::json!({"version": "1", "http": 5}), Some("x 1"), None),
        ("ServiceManifest", serde_json::json!({"http": 5}), None, None),
        ("ConfigurationPlan", serde_json::json!({"nonsense": 1}), None, None),
        ("GatewayGroup", serde_json::json!({"nonsense": 1}), None, None),
    ];
    for (kind, spec, service, set) in table {
        let object = serde_json::json!({
            "apiVersion": "tamis.dev/v1alpha1", "kind": kind, "metadata": {"name": "x", "namespace": "n"}, "spec": spec,
        });
        let read = crate::read_object(&object);
        let [unusable] = &read.resources.unusable[..] else { panic!("{read:#?}") };
        assert_eq!(*read.file, *format!("{kind} n/x"));
        assert_eq!((unusable.kind.as_deref(), unusable.set.as_deref()), (Some(kind), set), "{object}");
        assert_eq!(unusable.name.as_ref().map(ToString::to_string).as_deref(), Some("n/x"));
        let found = unusable.service.as_ref().map(|s| format!("{} {}", s.name, s.version));
        assert_eq!(found.as_deref(), service, "{object}");
        assert!(read.resources.is_empty() && !unusable.message.is_empty());
    }
}

#[test]
fn an_object_is_json_whatever_its_text_holds() {
    // A key longer than YAML takes in one line, a control character, what YAML 1.1 takes for a boolean.
    let key = "k".repeat(2_000);
    let object = serde_json::json!({
        "apiVersion": "tamis.dev/v1alpha1", "kind": "ToolsFilters", "metadata": {"name": "x", "namespace": "n"},
        "spec": {"service": {"name": "s", "version": "1.10"}, "filters": {"on": {"patches": [
            {"op": "add", "path": "/a", "value": {key.clone(): "\u{7f}\u{1}", "y": "no"}},
        ]}}},
    });
    let read = crate::read_object(&object);
    assert_eq!(read.diagnostics, []);
    let set = &read.resources.filters[0].spec;
    assert_eq!(set.service.version, "1.10");
    let filter = serde_json::to_value(&set.filters["on"]).unwrap();
    assert_eq!(filter["patches"][0]["value"][&key], "\u{7f}\u{1}");
}

/// Files have either group; the API has ours.
#[test]
fn documents_of_reshapr_are_read_from_files_without_a_word() {
    let text = |version: &str| {
        format!(
            "apiVersion: {version}\nkind: ToolsFilters\nmetadata: {{name: a}}\nspec: {{service: {{name: s, version: '1'}}, filters: {{}}}}\n"
        )
    };
    for (version, read) in
        [(API_VERSION, true), ("reshapr.io/v1alpha1", true), ("reshapr.io/v1", false), ("tamis.dev/v1", false)]
    {
        let parsed = parse_document("a.yaml", text(version).as_bytes());
        assert_eq!((parsed.resources.filters.len() == 1, parsed.is_broken()), (read, !read), "{version}");
        let ours = parse_document("a.yaml", text(API_VERSION).as_bytes());
        assert_eq!(parsed.diagnostics == ours.diagnostics, read, "{version}");
    }
    let object = serde_json::json!({
        "apiVersion": "reshapr.io/v1alpha1", "kind": "ToolsFilters", "metadata": {"name": "a", "namespace": "n"},
        "spec": {"service": {"name": "s", "version": "1"}, "filters": {}},
    });
    assert!(super::read_object(&object).is_broken());
}
