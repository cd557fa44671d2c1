//! The catalogue through the real binary: every entry is copied, validated and served, every tool is called, and what a model gets is
//! compared with `docs/catalog.md`.

#[path = "catalog/page.rs"]
mod page;
#[allow(dead_code, reason = "other tests use the rest")]
mod support;
#[path = "catalog/upstream.rs"]
mod upstream;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rmcp::model::{CallToolRequestParams, CallToolResult, Tool};
use serde_json::{Value, json};
use support::{Client, Served, connect};
use tamis_crds::{CompileEnv, compile, load};
use tamis_schema::{Document, Limits, Patterns};
use upstream::{Apis, Call, Entry, entries};

fn tamis(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tamis"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .output()
        .expect("runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Checks that `tamis validate` has no finding.
fn validates(path: &str, folder: &Path) {
    let output = tamis(&["validate", path], folder);
    let said = format!("{}{}", text(&output), String::from_utf8_lossy(&output.stderr));
    assert!(said.ends_with(" 0 errors, 0 warnings\n") && !said.contains("warning:"), "{said}");
}

#[test]
fn every_entry_is_copied_and_validates_without_a_finding() {
    let dir = tempfile::tempdir().expect("a folder");
    let listed = text(&tamis(&["import", "catalog"], dir.path()));
    for name in entries().keys() {
        let said = text(&tamis(&["import", "catalog", name, "-o", "services"], dir.path()));
        assert!(said.contains(&format!("wrote     services/{name}/{name}.yaml\n")), "{said}");
        validates(&format!("services/{name}"), dir.path());

        let loaded = load(&[dir.path().join("services").join(name)]);
        let compiled = compile(&loaded.resources, &CompileEnv::default());
        let findings: Vec<_> =
            loaded.diagnostics.iter().chain(&compiled.diagnostics).map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{name}: {findings:#?}");
        assert_eq!(compiled.snapshot.expositions.len(), 2, "{name} is published twice");
        assert!(compiled.snapshot.stopped.is_empty() && compiled.degraded.is_empty(), "{name}");
        let tools = format!(" tools: {}\n", tools_of(&entries()[name]).into_iter().collect::<Vec<_>>().join(", "));
        assert!(listed.contains(&tools) && listed.contains(&format!("{name}: ")), "{tools} {listed}");
    }
    // All of them in one folder too.
    validates("services", dir.path());
    let unknown = tamis(&["import", "catalog", "jira"], dir.path());
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("github, linear, notion, slack"), "{unknown:?}");
    assert_eq!(tamis(&["import", "catalog", "--force"], dir.path()).status.code(), Some(2));
}

fn tools_of(entry: &Entry) -> BTreeSet<String> {
    entry.calls.iter().map(|call| call.tool.clone()).collect()
}

/// Copies all entries, points each at the local APIs, and adds an exposition without filters for each.
fn services(folder: &Path, apis: &Apis, entries: &BTreeMap<String, Entry>) {
    let services = folder.join("services");
    for (name, entry) in entries {
        text(&tamis(&["import", "catalog", name, "-o", "services"], folder));
        let mut version = String::new();
        for set in ["internal", "partner"] {
            let file = services.join(name).join(format!("{set}.yaml"));
            let document = fs::read_to_string(&file).expect("is there");
            let line = format!("\n  filters: [{name}-{set}]\n");
            assert_eq!(document.matches(&line).count(), 1, "{}", file.display());
            let service = document.lines().find(|line| line.starts_with("  service: ")).expect("a service");
            version = service.to_owned();
            let planned = document.replace(&line, &format!("{line}  configurationPlan: {{name: local-{name}}}\n"));
            fs::write(&file, planned).expect("writes");
        }
        let url = apis.url(name);
        let more = format!(
            "apiVersion: tamis.dev/v1alpha1\nkind: ConfigurationPlan\nmetadata: {{name: local-{name}}}\nspec: {{endpoint: '{url}'}}\n---\n\
             apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}-open}}\nspec:\n{version}\n  filters: []\n  \
             configurationPlan: {{name: local-{name}}}\n"
        );
        fs::write(services.join(format!("local-{name}.yaml")), more).expect("writes");
        let secret = folder.join("secrets").join(name);
        fs::create_dir_all(&secret).expect("a folder");
        let value = entry.authorization.trim_start_matches("Bearer ");
        fs::write(secret.join(&entry.secret), value).expect("writes");
    }
}

async fn call(client: &Client, tool: &str, arguments: &Value) -> CallToolResult {
    let arguments = arguments.as_object().cloned().expect("an object");
    let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    client.call_tool(request).await.unwrap_or_else(|error| panic!("{tool}: {error}"))
}

/// What a model reads.
fn said(result: &CallToolResult) -> String {
    result.content.iter().filter_map(|content| content.as_text()).map(|text| text.text.as_str()).collect()
}

/// Checks what the API received.
fn check_request(apis: &Apis, name: &str, entry: &Entry, call: &Call) {
    let seen = apis.take();
    let [seen] = &seen[..] else { panic!("{name} {}: {seen:?}", call.tool) };
    assert_eq!(seen.request, call.request, "{name} {}", call.tool);
    let header = |name: &str| seen.headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!(header("authorization"), Some(&*entry.authorization), "{name} {}", call.tool);
    if name == "notion" {
        assert_eq!(header("notion-version"), Some("2022-06-28"));
    }
    let body: Value = if seen.body.is_empty() { Value::Null } else { serde_json::from_str(&seen.body).expect("JSON") };
    let body = if name == "linear" { body["variables"].clone() } else { body };
    let is_empty = |value: &Value| value.is_null() || *value == json!({});
    match &call.body {
        Some(expected) => assert_eq!(body, *expected, "{name} {}", call.tool),
        None => assert!(is_empty(&body), "{name} {}: {body}", call.tool),
    }
}

/// The paths of the filter that matched nothing. `Enforced` says nothing of them.
fn misses(result: &CallToolResult) -> BTreeSet<String> {
    let result = serde_json::to_value(result).expect("JSON");
    let report = &result["_meta"]["tamis.dev/filter"];
    assert_eq!(report["filter_error"], Value::Null, "{report}");
    let lists =
        ["filter_partial_miss", "filter_unresolved"].map(|key| report[key].as_array().cloned().unwrap_or_default());
    lists.concat().iter().map(|path| path.as_str().expect("a path").to_owned()).collect()
}

/// Checks that an answer conforms to the output schema of its tool.
fn conforms(tool: &Tool, result: &CallToolResult) {
    let schema = serde_json::to_string(tool.output_schema.as_ref().expect("a schema")).expect("JSON");
    let schema = tamis_schema::compile(&schema, &mut Patterns::default()).expect("compiles");
    let value = result.structured_content.as_ref().expect("structured content").to_string();
    let value = Document::parse(value, Limits::SCHEMA).expect("is JSON");
    schema.check(&value).unwrap_or_else(|error| panic!("{}: {error}", tool.name));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_calls_its_api_and_its_answer_is_filtered() {
    let entries = entries();
    let apis = Apis::start(&entries).await;
    let dir = tempfile::tempdir().expect("a folder");
    services(dir.path(), &apis, &entries);
    let secrets = dir.path().join("secrets");
    let served = Served::start(&dir.path().join("services"), &["--secrets", &secrets.to_string_lossy()]);
    let mut rows = Vec::new();
    for (name, entry) in &entries {
        let mut missed = BTreeSet::new();
        for set in ["internal", "partner"] {
            let client = connect(&served.url(&format!("{name}-{set}"))).await;
            let tools = client.list_all_tools().await.expect("a list");
            let listed: BTreeSet<String> = tools.iter().map(|tool| tool.name.to_string()).collect();
            if set == "internal" {
                assert_eq!(listed, tools_of(entry), "{name}: each tool has a call");
            }
            for one in entry.calls.iter().filter(|call| listed.contains(&call.tool)) {
                apis.take();
                let result = call(&client, &one.tool, &one.arguments).await;
                let shown = said(&result);
                assert_ne!(result.is_error, Some(true), "{name} {set} {}: {shown}", one.tool);
                check_request(&apis, name, entry, one);
                if set == "partner" {
                    let answer = serde_json::to_string(&result).expect("JSON");
                    let leak = entry.absent.iter().find(|text| answer.contains(*text));
                    assert_eq!(leak, None, "{name} {}: {answer}", one.tool);
                }
                missed.extend(misses(&result));
                rows.push(page::Row::new(name, set, one, &shown));
            }
            client.cancel().await.expect("ends");
        }
        // A misspelt path is missed like one that an answer lacks.
        assert_eq!(missed, entry.optional.iter().cloned().collect(), "{name}");
    }
    // Linear's payloads are invented, so they are compared with the schema. (GitHub's own examples miss required members.)
    let client = connect(&served.url("linear-open")).await;
    for tool in client.list_all_tools().await.expect("a list") {
        let one = entries["linear"].calls.iter().find(|call| call.tool == *tool.name).expect("has a call");
        conforms(&tool, &call(&client, &one.tool, &one.arguments).await);
    }
    client.cancel().await.expect("ends");
    page::compare(&rows);
}

/// Slack answers its own errors with status 200, and the newest message first.
#[tokio::test(flavor = "multi_thread")]
async fn slack_s_errors_reach_your_own_agents_and_budgets_keep_what_is_new() {
    let entries: BTreeMap<_, _> = entries().into_iter().filter(|(name, _)| name == "slack").collect();
    let apis = Apis::start(&entries).await;
    let dir = tempfile::tempdir().expect("a folder");
    services(dir.path(), &apis, &entries);
    let secrets = dir.path().join("secrets");
    let served = Served::start(&dir.path().join("services"), &["--secrets", &secrets.to_string_lossy()]);
    let (internal, partner) =
        (connect(&served.url("slack-internal")).await, connect(&served.url("slack-partner")).await);
    // Under a budget, the newest messages stay, which Slack sends first.
    let result = call(&internal, "get-channel-history", &json!({"channel": "C1", "_budget": 900})).await;
    let shown = said(&result);
    assert!(shown.contains("Rollout notes are in the wiki under Releases / 2.41") && shown.len() <= 900, "{shown}");
    let unknown = json!({"channel": "unknown"});
    let result = call(&internal, "get-channel-history", &unknown).await;
    assert_eq!(said(&result), r#"{"ok":false,"error":"channel_not_found"}"#);
    let result = call(&partner, "get-channel-history", &unknown).await;
    assert_eq!(result.is_error, Some(true));
    let answer = serde_json::to_string(&result).expect("JSON");
    assert!(!answer.contains("channel_not_found") && !answer.contains("db-7"), "{answer}");
}
