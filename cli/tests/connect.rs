//! `tamis connect`, through the real binary: what it prints, what it writes, and what becomes of a user's file.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

const URL: &str = "http://127.0.0.1:8080/mcp/default/github-internal";
const DOCUMENTS: &str = "
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: s}
spec: {version: '1', http: {baseUrl: 'http://127.0.0.1:1', actions: {get: {method: GET, path: /a, description: A}}}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: open}
spec: {service: {name: s, version: '1'}, filters: []}
---
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: s, namespace: team-a}
spec: {version: '1', http: {baseUrl: 'http://127.0.0.1:1', actions: {get: {method: GET, path: /a, description: A}}}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: keyed.v1, namespace: team-a}
spec: {service: {name: s, version: '1'}, filters: [], access: {apiKeys: {secretRef: {name: partners}}}}
";

fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tamis"));
    let output =
        command.arg("connect").args(arguments).current_dir(folder).env("HOME", folder).env_remove("CODEX_HOME");
    let output = output.env_remove("XDG_CONFIG_HOME").env_remove("RUST_LOG").output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn the_block_that_is_printed_is_the_file_that_is_written() {
    for (client, file) in [
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("gemini-cli", ".gemini/settings.json"),
        ("codex", ".codex/config.toml"),
    ] {
        let home = folder();
        let arguments = [client, URL, "--key-env", "GITHUB_KEY"];
        let (code, block, advice) = run(home.path(), &arguments);
        assert_eq!(code, Some(0), "{advice}");
        assert!(block.contains(URL) && block.contains("github-internal"), "{block}");
        assert!(advice.contains(file) && advice.contains("--write"), "{client}: {advice}");
        assert_eq!(fs::read_dir(home.path()).expect("reads").count(), 0, "printing writes nothing");
        let (code, written, _) = run(home.path(), &[&arguments[..], &["--write"]].concat());
        assert_eq!(code, Some(0));
        assert!(written.contains("github-internal added"), "{written}");
        assert_eq!(fs::read_to_string(home.path().join(file)).expect("is written"), block, "{client}");
        let (code, again, _) = run(home.path(), &[&arguments[..], &["--write"]].concat());
        assert!(code == Some(0) && again.contains("nothing to do"), "{again}");
    }
}

#[test]
fn a_folder_gives_its_expositions() {
    let home = folder();
    fs::write(home.path().join("a.yaml"), DOCUMENTS).expect("writes");
    let read = |text: &str| serde_json::from_str::<Value>(text).expect("is JSON");
    let (code, block, advice) = run(home.path(), &["claude-code", "."]);
    assert_eq!(code, Some(0), "{advice}");
    let base = "http://127.0.0.1:8080/mcp";
    let keyed = json!({"type": "http", "url": format!("{base}/team-a/keyed.v1"), "headers": {"Authorization": "Bearer ${TAMIS_KEY}"}});
    let open = json!({"type": "http", "url": format!("{base}/default/open")});
    assert_eq!(read(&block), json!({"mcpServers": {"open": open, "team-a-keyed-v1": keyed}}));
    assert!(advice.contains("TAMIS_KEY"), "{advice}");
    let (_, block, _) = run(home.path(), &["claude-code", ".", "--exposition", "open", "--name", "mine"]);
    assert_eq!(read(&block), json!({"mcpServers": {"mine": open}}));

    let (code, block, message) = run(home.path(), &["claude-desktop", ".", "--exposition", "open"]);
    assert_eq!(code, Some(0), "{message}");
    let server = &read(&block)["mcpServers"]["open"];
    let path = home.path().canonicalize().expect("is there");
    assert_eq!(server["args"], json!(["serve", path, "--stdio", "--exposition", "default/open"]));
    let command = server["command"].as_str().expect("is text");
    assert!(Path::new(command).is_absolute() && command.ends_with("tamis"), "{command}");
}

#[test]
fn what_does_not_fit_together_is_said() {
    let home = folder();
    fs::write(home.path().join("a.yaml"), DOCUMENTS).expect("writes");
    fs::create_dir(home.path().join("empty")).expect("creates");
    let table: &[(&[&str], &str)] = &[
        (&["claude-desktop", URL], "needs the folder"),
        (&["cursor", URL, "--stdio"], "needs the folder"),
        (&["cursor", "http://127.0.0.1:8080/"], "/mcp/NAMESPACE/EXPOSITION"),
        (&["cursor", "http://"], "invalid URL"),
        (&["cursor", "no-such-folder"], "neither a URL nor a folder"),
        (&["cursor", "empty"], "has no Exposition"),
        (
            &["cursor", ".", "--exposition", "other"],
            "no exposition default/other; it serves default/open, team-a/keyed.v1",
        ),
        (&["cursor", ".", "--name", "one"], "choose one with --exposition"),
        (&["cursor", URL, "--name", "a b"], "--name"),
        (&["cursor", URL, "--exposition", "a"], "applies to folders only"),
    ];
    for (arguments, expected) in table {
        let (code, out, message) = run(home.path(), arguments);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{arguments:?}: {message}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    let (code, _, message) = run(home.path(), &["cursor", URL, "--key-env", "sk-secret-1"]);
    assert!(code == Some(2) && message.contains("not the key itself"), "{message}");
}

#[test]
fn a_file_is_kept_before_it_is_changed() {
    let home = folder();
    let file = home.path().join(".mcp.json");
    let before = "{\n  \"mcpServers\": {\"mine\": {\"command\": \"x\"}} // kept\n}\n";
    fs::write(&file, before).expect("writes");
    let (code, said, _) = run(home.path(), &["claude-code", URL, "--write"]);
    assert!(code == Some(0) && said.contains(".mcp.json.before-tamis"), "{said}");
    assert_eq!(fs::read_to_string(home.path().join(".mcp.json.before-tamis")).expect("is kept"), before);
    let once = fs::read_to_string(&file).expect("reads");
    assert!(
        once.contains("\"mine\": {\"command\": \"x\"}") && once.contains("// kept") && once.contains(URL),
        "{once}"
    );
    let other = URL.replace("8080", "9999");
    let (code, _, message) = run(home.path(), &["claude-code", &other, "--write"]);
    assert!(code == Some(1) && message.contains("is unchanged") && message.contains("--replace"), "{message}");
    assert_eq!(fs::read_to_string(&file).expect("reads"), once);
    let (code, _, message) = run(home.path(), &["claude-code", &other, "--write", "--replace"]);
    assert_eq!(code, Some(0), "{message}");
    assert_eq!(fs::read_to_string(home.path().join(".mcp.json.before-tamis.1")).expect("is kept"), once);
    fs::write(&file, "{ broken").expect("writes");
    let (code, _, message) = run(home.path(), &["claude-code", URL, "--write"]);
    assert!(code == Some(1) && message.contains("is unchanged"), "{message}");
    assert_eq!(fs::read_to_string(&file).expect("reads"), "{ broken");
    let rest = fs::read_dir(home.path()).expect("reads").filter_map(Result::ok);
    assert!(
        rest.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".tamis-")),
        "nothing is left over"
    );
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let home = folder();
    let real = home.path().join("dotfiles.json");
    fs::write(&real, "{}").expect("writes");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).expect("changes");
    symlink(&real, home.path().join(".mcp.json")).expect("links");
    let (code, _, message) = run(home.path(), &["claude-code", URL, "--write"]);
    assert_eq!(code, Some(0), "{message}");
    assert!(fs::symlink_metadata(home.path().join(".mcp.json")).expect("is there").is_symlink());
    assert!(fs::read_to_string(&real).expect("reads").contains(URL));
    let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    assert_eq!((mode(&real), mode(&home.path().join("dotfiles.json.before-tamis"))), (0o600, 0o600));
    fs::remove_file(&real).expect("removes");
    let (code, _, message) = run(home.path(), &["claude-code", URL, "--write"]);
    assert!(code == Some(1) && message.contains("cannot read"), "a link that leads nowhere stays: {message}");
}
