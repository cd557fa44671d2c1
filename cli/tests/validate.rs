//! `tamis validate` and `tamis schema`, through the real binary: what goes where, and exit codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const VERSION: &str = "tamis.dev/v1alpha1";

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_tamis")).args(arguments).env_remove("RUST_LOG").output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

fn example(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    path.to_string_lossy().into_owned()
}

#[test]
fn every_example_is_in_order() {
    for name in
        ["quickstart", "kubernetes", "notion", "slack", "seeds/reshapr", "seeds/reshapr-conditional", "seeds/kimbap"]
    {
        let (code, said, summary) = run(&["validate", &example(name)]);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{name}");
        assert!(summary.trim_end().ends_with("0 errors, 0 warnings"), "{name}: {summary}");
    }
}

/// Whether there is a place for full records is said to `serve`, so files alone are not wrong.
#[test]
fn a_full_audit_is_in_order_until_it_is_served() {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, text) in [("github.yaml", ""), ("github-internal.yaml", "  audit: {mode: Full}\n")] {
        let source = fs::read_to_string(Path::new(&example("quickstart")).join(name)).expect("reads");
        fs::write(dir.path().join(name), format!("{}\n{text}", source.trim_end())).expect("writes");
    }
    let (code, said, summary) = run(&["validate", dir.path().to_str().expect("is text")]);
    assert_eq!((code, said.as_str()), (Some(0), ""), "{summary}");
}

#[test]
fn documents_of_other_products_become_documents_that_a_cluster_takes() {
    for (from, folder, kinds) in [
        ("reshapr", "seeds/reshapr", &["ServiceManifest", "ToolsFilters", "Exposition"][..]),
        ("kimbap", "seeds/kimbap", &["ServiceManifest"]),
    ] {
        let (code, said, findings) =
            run(&["import", from, &example(folder), "--namespace", "team-a", "--output", "json"]);
        assert_eq!((code, findings.as_str()), (Some(0), ""));
        let list: serde_json::Value = serde_json::from_str(&said).expect("is JSON");
        for item in list["items"].as_array().expect("a list") {
            assert_eq!(
                (item["apiVersion"].as_str(), item["metadata"]["namespace"].as_str()),
                (Some(VERSION), Some("team-a"))
            );
        }
        for kind in kinds {
            assert!(said.contains(&format!("\"kind\": \"{kind}\"")), "{kind}: {said}");
        }
        // What is written is read again, and says the same.
        let (_, yaml, _) = run(&["import", from, &example(folder), "--namespace", "team-a"]);
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("imported.yaml");
        fs::write(&file, &yaml).expect("writes");
        let (code, again, _) = run(&["import", from, file.to_str().expect("is text")]);
        assert_eq!((code, again), (Some(0), yaml));
    }
    let (code, said, findings) = run(&["import", "reshapr", "/no/such/file"]);
    assert_eq!((code, said.as_str()), (Some(1), ""));
    assert!(findings.contains("/no/such/file") && findings.contains("nothing written"), "{findings}");
    assert_eq!(run(&["import", "other", "."]).0, Some(2));
}

#[test]
fn findings_are_lines_or_json_and_errors_are_code_1() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("a.yaml");
    let path = file.to_str().expect("is text");
    let exposition = "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {name: a}\nspec:\n  ";
    let error = format!("{exposition}service: {{name: s, version: '1'}}\n  limits: {{timeout: 30}}\n");
    let warning = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    for (text, code, severity, field, line) in
        [(error.as_str(), 1, "error", "spec.limits.timeout", 6), (warning, 0, "warning", "", 1)]
    {
        fs::write(&file, text).expect("writes");
        let (found, said, _) = run(&["validate", path]);
        assert_eq!((found, said.lines().count()), (Some(code), 1), "{said}");
        assert!(said.starts_with(&format!("{path}:{line}:")) && said.contains(&format!(": {severity}: ")), "{said}");
        let (found, said, other) = run(&["validate", path, "--output", "json"]);
        assert_eq!((found, other.as_str()), (Some(code), ""));
        let json: serde_json::Value = serde_json::from_str(&said).expect("is JSON");
        let one = &json["diagnostics"][0];
        let keys: Vec<_> = one.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, ["severity", "file", "line", "column", "field", "message", "remedy", "reason"]);
        assert_eq!((one["severity"].as_str(), one["field"].as_str()), (Some(severity), Some(field)));
        assert_eq!((one["file"].as_str(), one["line"].as_u64()), (Some(path), Some(line)));
        assert_eq!(json.as_object().map(serde_json::Map::len), Some(1));
    }
    let (code, said, _) = run(&["validate", "/no/such/place"]);
    assert_eq!(code, Some(1));
    assert_eq!(said, "/no/such/place:1:1: error: no such file or folder; check the path\n");
    assert_eq!(run(&["validate"]).0, Some(2));
}

#[test]
fn the_schema_is_json_on_standard_output() {
    let (code, said, other) = run(&["schema"]);
    assert_eq!((code, other.as_str()), (Some(0), ""));
    let schema: serde_json::Value = serde_json::from_str(&said).expect("is JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(
        schema["anyOf"].as_array().map(Vec::len),
        Some(13),
        "eight kinds, and the five forms of documents of others"
    );
}
