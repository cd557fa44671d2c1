//! What a new user meets in the first hour, through the real binary.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{Served, audience, connect, documents, start_upstream, text_of};
use crate::{replace, until};
use serde_json::Value;

fn tamis(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tamis"));
    command.args(arguments).env_remove("RUST_LOG").env_remove("NO_COLOR");
    command
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    said(&tamis(arguments).output().expect("runs"))
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn with_input(arguments: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut command = tamis(arguments);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    // A command that refuses its arguments does not read.
    let _ = child.stdin.take().expect("is piped").write_all(input.as_bytes());
    said(&child.wait_with_output().expect("ends"))
}

/// The files that lie in folders of real projects.
fn clutter(dir: &Path) {
    let (_, schema, _) = run(&["schema"]);
    for (name, text) in [
        ("tamis.schema.json", schema.as_str()),
        ("package.json", r#"{"name": "mine", "version": "1.0.0", "dependencies": {}}"#),
        ("values.yaml", "replicaCount: 1\nservice: {type: ClusterIP, port: 80}\n"),
        ("docker-compose.yml", "services: {web: {image: nginx}}\n"),
    ] {
        fs::write(dir.join(name), text).expect("writes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_other_programs_may_lie_in_the_folder() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    clutter(dir.path());
    let served = Served::start(dir.path(), &[]);
    assert_eq!(text_of(&connect(&served.url("a")).await, "get").await, r#"{"x":1}"#);
    let log = served.log();
    assert_eq!(log.matches("no Tamis document").count(), 1, "{log}");
    assert!(log.contains("docker-compose.yml") && log.contains("and 3 others"), "{log}");
    let path = dir.path().to_str().expect("is text");
    let (code, found, summary) = run(&["validate", path]);
    assert_eq!((code, found.lines().count()), (Some(0), 1), "{found}");
    assert!(summary.contains("0 errors, 1 warning"), "{summary}");
    // A misspelt document is no file of another program.
    fs::write(dir.path().join("b.yaml"), "kidn: Exposition\nmetadata: {name: b}\nspec: {}\n").expect("writes");
    let (code, found, _) = run(&["validate", path]);
    assert!(code == Some(1) && found.contains("b.yaml:1:1: error: "), "{found}");
}

#[test]
fn a_folder_of_other_programs_files_alone_serves_nothing_and_says_what_helps() {
    let dir = tempfile::tempdir().expect("a folder");
    clutter(dir.path());
    let (code, _, message) = run(&["serve", dir.path().to_str().expect("is text")]);
    assert!(code == Some(1) && message.contains("has no Exposition; `tamis init DIR`"), "{message}");
}

#[test]
fn a_misspelt_log_level_is_refused_with_the_accepted_ones() {
    for arguments in [&["--log-level", "infoo", "schema"][..], &["schema", "--log-level", "info,tamis_gateway=loud"]] {
        let (code, out, message) = run(arguments);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{message}");
        assert!(message.contains("off, error, warn, info, debug, trace"), "{message}");
    }
    let output = tamis(&["schema"]).env("RUST_LOG", "verbose").output().expect("runs");
    assert_eq!(output.status.code(), Some(2), "the variable is not believed either");
}

#[test]
fn findings_are_json_where_logs_are() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), 1, "/x");
    fs::write(dir.path().join("broken.yaml"), "kind: [").expect("writes");
    fs::write(dir.path().join("other.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n").expect("writes");
    fs::write(dir.path().join("a.yaml"), "").expect("writes");
    let path = dir.path().to_str().expect("is text");
    let (code, _, lines) = run(&["serve", path, "--log-format", "json"]);
    assert_eq!(code, Some(1), "{lines}");
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"))).collect();
    let broken = events.iter().find(|event| event["line"] == 2).unwrap_or_else(|| panic!("{lines}"));
    assert_eq!((&broken["level"], &broken["column"]), (&"ERROR".into(), &1.into()), "{broken}");
    assert!(broken["file"].as_str().is_some_and(|file| file.ends_with("broken.yaml")), "{broken}");
    assert!(events.iter().any(|event| event["level"] == "WARN" && event["remedy"] != ""), "{lines}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().to_str().expect("is text");
    // More findings than a pipe holds.
    let documents = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n".repeat(4_000);
    fs::write(dir.path().join("a.yaml"), documents).expect("writes");
    for arguments in [
        &["schema"][..],
        &["crds", "--policies"],
        &["crds", "--policies", "--output", "json"],
        &["completions", "bash"],
        &["validate", path],
        &["validate", path, "--output", "json"],
    ] {
        let mut child = tamis(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        let mut reader = BufReader::with_capacity(16, child.stdout.take().expect("is piped"));
        reader.read_line(&mut line).expect("reads");
        drop(reader);
        let (code, _, message) = said(&child.wait_with_output().expect("ends"));
        assert_eq!(code, Some(0), "{arguments:?}: {message}");
        assert!(!message.contains("panicked") && !message.contains("pipe"), "{arguments:?}: {message}");
    }
}

#[test]
fn standard_input_is_a_file_called_minus() {
    let set = audience("/x");
    let (code, found, _) = with_input(&["validate", "-"], &set);
    assert!(code == Some(1) && found.starts_with("-:") && found.contains("error: "), "the service is missing: {found}");
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), 1, "/x");
    let service = dir.path().join("s.yaml");
    let service = service.to_str().expect("is text");
    let (code, found, summary) = with_input(&["validate", "-", service, "-", service], &set);
    assert_eq!((code, found.as_str()), (Some(0), ""), "{summary}");
    assert!(summary.contains("2 files, 3 documents: 0 errors"), "{summary}");
    let answer = dir.path().join("answer.json");
    fs::write(&answer, r#"{"x": 1, "y": 2}"#).expect("writes");
    let answer = answer.to_str().expect("is text");
    let (code, out, message) = with_input(&["filter", "-f", "-", "--tool", "get", answer], &set);
    assert_eq!((code, out.as_str()), (Some(0), r#"{"x":1}"#), "{message}");
    let (code, _, message) = with_input(&["filter", "-f", "-", "--tool", "get"], &set);
    assert!(code == Some(2) && message.contains("name a file for one of them"), "{message}");
    let (code, _, message) = with_input(&["validate", "-"], "kind: Exposition\n");
    assert_eq!(code, Some(1), "{message}");
}

#[test]
fn a_sample_needs_no_manifest_as_filter_needs_none() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), 1, "/x");
    let set = dir.path().join("a.yaml");
    let sample = dir.path().join("answer.txt");
    fs::write(&sample, r#"{"x": 1, "y": 2}"#).expect("writes");
    let (set, sample) = (set.to_str().expect("is text"), sample.to_str().expect("is text"));
    let (code, out, message) = run(&["validate", set, "--sample", sample]);
    assert_eq!(code, Some(0), "{out}{message}");
    assert!(out.contains("filter set default/a, tool get: 16 bytes become 7"), "{out}");
    assert!(message.contains("references are not checked"), "{message}");
    assert_eq!(run(&["filter", "-f", set, "--tool", "get", sample]).0, Some(0));
    let (code, out, _) = run(&["validate", set]);
    assert!(code == Some(1) && out.contains("service"), "without a sample everything is checked: {out}");
    // With the manifest, everything is checked.
    let path = dir.path().to_str().expect("is text");
    let (code, out, message) = run(&["validate", path, "--sample", sample]);
    assert!(code == Some(0) && out.contains("exposition default/a"), "{out}{message}");
    assert!(!message.contains("references are not checked"), "{message}");
}

#[test]
fn findings_are_coloured_where_asked() {
    let error = ("kind: Exposition\n", "\x1b[1;31merror:\x1b[0m");
    let warning = ("apiVersion: v1\nkind: ConfigMap\n", "\x1b[1;33mwarning:\x1b[0m");
    for (document, expected) in [error, warning] {
        let (_, always, _) = with_input(&["validate", "-", "--color", "always"], document);
        assert!(always.contains(expected), "{always:?}");
        for choice in ["never", "auto"] {
            let (_, plain, _) = with_input(&["validate", "-", "--color", choice], document);
            assert!(!plain.contains('\x1b') && !plain.is_empty(), "{plain:?}");
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("a.yaml"), error.0).expect("writes");
    let (_, _, served) = run(&["serve", dir.path().to_str().expect("is text"), "--color", "always"]);
    assert!(served.contains(error.1), "{served:?}");
    let (code, _, filtered) =
        with_input(&["filter", "-f", dir.path().to_str().expect("is text"), "--tool", "a", "--color", "always"], "");
    assert!(code == Some(2) && filtered.contains(error.1), "{filtered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_logs_what_became_of_it() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    let served = Served::start(dir.path(), &[]);
    let applied = || served.log().matches("configuration applied").count();
    assert_eq!(applied(), 1, "{}", served.log());
    let path = dir.path().join("a.yaml");
    replace(&path, "kind: [");
    until("the error", async || served.log().contains("configuration not applied as a whole")).await;
    assert_eq!(applied(), 1, "a reload that fails is not applied: {}", served.log());
    let metrics = served.admin("/metrics").await;
    assert!(metrics.contains("tamis_config_reloads_total{result=\"failed\"} 1"), "{metrics}");
    assert!(metrics.contains("tamis_config_reloads_total{result=\"applied\"} 1"), "{metrics}");
    replace(&path, &audience("/x"));
    until("the recovery", async || served.log().contains("configuration applied; its errors are resolved")).await;
    assert!(served.admin("/config").await.contains(r#""lastError":null"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_credentials_are_reported_and_the_remedy_works() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    let manifest = dir.path().join("s.yaml");
    let text = fs::read_to_string(&manifest).expect("reads");
    let auth = "    auth: {type: bearer, secretRef: {name: up-stream, key: token}}\n    actions:";
    fs::write(&manifest, text.replace("    actions:", auth)).expect("writes");
    let keyed =
        audience("/x").replace("filters: [a]", "filters: [a], access: {apiKeys: {secretRef: {name: partners}}}");
    fs::write(dir.path().join("a.yaml"), keyed).expect("writes");

    let served = Served::start(dir.path(), &[]);
    let log = served.log();
    assert!(log.contains("Enforced, credentials missing") || log.contains("Advisory, credentials missing"), "{log}");
    for expected in [
        "nobody can call it: the Secret partners with the callers' keys is missing",
        "TAMIS_SECRET_PARTNERS_ROBOT",
        "get, slow cannot be called: the credential up-stream/token is missing",
        "TAMIS_SECRET_UP_STREAM_TOKEN",
        "--secrets DIR",
    ] {
        assert!(log.contains(expected), "`{expected}` is not in the log: {log}");
        for path in ["/config", "/readyz"] {
            let answer = served.admin(path).await;
            assert!(answer.contains(expected), "`{expected}` is not in {path}: {answer}");
        }
    }
    drop(served);

    // `printf %s key-r | sha256sum`
    let digest = "sha256:4b9bd234a5e35c4500cf1f9a78f5d24d027a6033b70d89332b20a1e9280aa713";
    let mut command =
        tamis(&["serve", dir.path().to_str().expect("is text"), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.env("TAMIS_SECRET_PARTNERS_ROBOT", digest).env("TAMIS_SECRET_UP_STREAM_TOKEN", "t");
    let mut child = command.stderr(Stdio::piped()).spawn().expect("starts");
    let mut log = String::new();
    for line in BufReader::new(child.stderr.take().expect("is piped")).lines().map_while(Result::ok) {
        log += &format!("{line}\n");
        if line.contains("/metrics") {
            break;
        }
    }
    child.kill().expect("is there");
    child.wait().expect("ends");
    assert!(!log.contains("missing") && log.contains("2 tools"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_init_writes_is_served_as_it_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = tamis(&["init"]).current_dir(dir.path()).output().expect("runs");
    let (code, out, message) = said(&output);
    assert_eq!((code, message.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("tamis serve tamis") && out.contains("tamis/service.yaml"), "{out}");
    let folder = dir.path().join("tamis");
    let served = Served::start(&folder, &[]);
    let listed = connect(&served.url("github")).await.list_all_tools().await.expect("lists");
    let names: Vec<_> = listed.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(names, ["list-issues", "get-issue"]);
    assert!(!served.log().contains("WARN") && !served.log().contains("ERROR"), "{}", served.log());
    let output = tamis(&["init"]).current_dir(dir.path()).output().expect("runs");
    assert!(said(&output).2.contains("exists, so nothing was written"), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_remedy_for_a_full_audit_works() {
    let dir = tempfile::tempdir().expect("a folder");
    documents(dir.path(), start_upstream(), "/x");
    let full = audience("/x").replace("filters: [a]", "filters: [a], audit: {mode: Full}");
    fs::write(dir.path().join("a.yaml"), full).expect("writes");
    let path = dir.path().to_str().expect("is text");
    let (code, _, message) = run(&["serve", path]);
    assert!(code == Some(1) && message.contains("pass `--audit-dir DIR` to `tamis serve`"), "{message}");
    let records = tempfile::tempdir().expect("a folder");
    let served = Served::start(dir.path(), &["--audit-dir", records.path().to_str().expect("is text")]);
    assert_eq!(text_of(&connect(&served.url("a")).await, "get").await, r#"{"x":1}"#);
    until("the record", async || fs::read_dir(records.path()).expect("reads").count() > 0).await;
}
