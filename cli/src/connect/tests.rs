//! What each client's file becomes.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use serde_json::{Value, json};

use super::client::{Client, Server, Transport};
use super::merge::merge;

const URL: &str = "http://127.0.0.1:8080/mcp/default/github";

fn http(name: &str, key: Option<&str>) -> Server {
    let transport = Transport::Http { url: URL.to_owned(), key: key.map(str::to_owned) };
    Server { name: name.to_owned(), transport }
}

fn stdio(name: &str) -> Server {
    let args = ["serve", "/a folder", "--stdio"].map(str::to_owned).to_vec();
    Server { name: name.to_owned(), transport: Transport::Stdio { command: "/bin/tamis".to_owned(), args } }
}

fn fresh(client: Client, server: Server) -> String {
    merge(client, "", &[server], false).expect("merges").expect("changes")
}

#[test]
fn each_client_gets_the_form_that_it_documents() {
    let table = [
        (
            Client::ClaudeCode,
            json!({"mcpServers": {"g": {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${K_1}"}}}}),
        ),
        (Client::Cursor, json!({"mcpServers": {"g": {"url": URL, "headers": {"Authorization": "Bearer ${env:K_1}"}}}})),
        (
            Client::GeminiCli,
            json!({"mcpServers": {"g": {"httpUrl": URL, "headers": {"Authorization": "Bearer $K_1"}}}}),
        ),
        (
            Client::Vscode,
            json!({
                "servers": {"g": {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${input:k-1}"}}},
                "inputs": [{"type": "promptString", "id": "k-1", "description": "K_1", "password": true}],
            }),
        ),
    ];
    for (client, expected) in table {
        let text = fresh(client, http("g", Some("K_1")));
        assert_eq!(serde_json::from_str::<Value>(&text).expect("is JSON"), expected, "{client:?}");
        let plain = fresh(client, http("g", None));
        assert!(!plain.contains("headers") && !plain.contains("inputs"), "{plain}");
    }
    let codex = format!("[mcp_servers.g]\nurl = \"{URL}\"\nbearer_token_env_var = \"K_1\"\n");
    assert_eq!(fresh(Client::Codex, http("g", Some("K_1"))), codex);
    let process = json!({"command": "/bin/tamis", "args": ["serve", "/a folder", "--stdio"]});
    let desktop: Value = serde_json::from_str(&fresh(Client::ClaudeDesktop, stdio("g"))).expect("is JSON");
    assert_eq!(desktop, json!({"mcpServers": {"g": process}}));
    let codex = "[mcp_servers.g]\ncommand = \"/bin/tamis\"\nargs = [\"serve\", \"/a folder\", \"--stdio\"]\n";
    assert_eq!(fresh(Client::Codex, stdio("g")), codex);
    assert_eq!(
        serde_json::from_str::<Value>(&fresh(Client::Vscode, stdio("g"))).expect("is JSON")["servers"]["g"]["type"],
        "stdio"
    );
}

/// Servers that are there, comments, order, indentation and line ends stay.
#[test]
fn everything_else_in_a_file_stays() {
    let jsonc = "// mine\r\n{\r\n\t\"theme\": \"dark\", // why not\r\n\t\"mcpServers\": {\r\n\t\t\"other\": { \"command\": \"x\" },\r\n\t},\r\n\t\"n\": 1.10\r\n}\r\n";
    let merged = merge(Client::GeminiCli, jsonc, &[http("g", None)], false).expect("merges").expect("changes");
    for part in
        ["// mine\r\n", "\"theme\": \"dark\", // why not\r\n", "\"other\": { \"command\": \"x\" }", "\"n\": 1.10\r\n"]
    {
        assert!(merged.contains(part), "{part:?} is lost: {merged}");
    }
    assert!(!merged.replace("\r\n", "").contains('\n'), "{merged:?}");
    assert!(merged.contains(&format!("\"httpUrl\": \"{URL}\"")));
    let toml = "# mine\nmodel = \"o\"  # why\n\n[mcp_servers.other]\ncommand = \"x\"\n\n[tui]\nnotifications = true\n";
    let merged = merge(Client::Codex, toml, &[http("g", None)], false).expect("merges").expect("changes");
    for part in toml.split_inclusive("\n\n") {
        assert!(merged.contains(part.trim_end()), "{part:?} is lost: {merged}");
    }
    assert!(merged.contains(&format!("[mcp_servers.g]\nurl = \"{URL}\"\n")), "{merged}");
    let inline = "mcp_servers = { other = { command = \"x\" } }\n";
    let merged = merge(Client::Codex, inline, &[http("g", None)], false).expect("merges").expect("changes");
    let read: toml_edit::DocumentMut = merged.parse().expect("is TOML");
    assert_eq!(read["mcp_servers"]["g"]["url"].as_str(), Some(URL), "{merged}");
    assert_eq!(read["mcp_servers"]["other"]["command"].as_str(), Some("x"), "{merged}");
    let marked = merge(Client::Cursor, "\u{feff}{}", &[http("g", None)], false).expect("merges").expect("changes");
    assert!(marked.starts_with("\u{feff}{"), "{marked}");
}

#[test]
fn what_is_there_already_is_left_alone_and_what_differs_is_not_lost_unasked() {
    for client in Client::value_variants() {
        for server in [http("g", Some("KEY")), stdio("g")] {
            let first = fresh(*client, server.clone());
            assert_eq!(
                merge(*client, &first, std::slice::from_ref(&server), false).expect("merges"),
                None,
                "{client:?}"
            );
            let other = Server {
                transport: Transport::Http { url: "http://127.0.0.1:1/mcp/a/b".to_owned(), key: None },
                ..server
            };
            let error = merge(*client, &first, std::slice::from_ref(&other), false).expect_err("differs").to_string();
            assert!(error.contains("--replace"), "{error}");
            let replaced =
                merge(*client, &first, std::slice::from_ref(&other), true).expect("merges").expect("changes");
            assert_eq!(merge(*client, &replaced, &[other], false).expect("merges"), None, "{replaced}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_refused() {
    let json = [
        "[]",
        "{",
        "nonsense",
        "{\"mcpServers\": []}",
        "{\"mcpServers\": {}, \"mcpServers\": {}}",
        "{\"mcpServers\": null}",
        "{'mcpServers': {}}",
    ];
    for text in json {
        assert!(merge(Client::Cursor, text, &[http("g", None)], false).is_err(), "{text}");
    }
    assert!(merge(Client::Vscode, "{\"inputs\": {}}", &[http("g", Some("K"))], false).is_err());
    for text in ["= 1", "mcp_servers = 1", "[mcp_servers]\n[mcp_servers]"] {
        let error = merge(Client::Codex, text, &[http("g", None)], false).expect_err(text);
        assert!(!format!("{error:#}").contains('\n'), "{error:#}");
    }
}

#[test]
fn every_client_has_its_file() {
    let variable = |name: &str| match name {
        "HOME" => Some(PathBuf::from("/home/a")),
        "APPDATA" => Some(PathBuf::from("/roaming")),
        _ => None,
    };
    let file = |client: Client, system| client.file(system, variable);
    let desktop = "Claude/claude_desktop_config.json";
    for (client, system, expected) in [
        (Client::ClaudeCode, "linux", ".mcp.json".to_owned()),
        (Client::Cursor, "linux", ".cursor/mcp.json".to_owned()),
        (Client::Vscode, "linux", ".vscode/mcp.json".to_owned()),
        (Client::GeminiCli, "linux", ".gemini/settings.json".to_owned()),
        (Client::Codex, "linux", "/home/a/.codex/config.toml".to_owned()),
        (Client::ClaudeDesktop, "linux", format!("/home/a/.config/{desktop}")),
        (Client::ClaudeDesktop, "macos", format!("/home/a/Library/Application Support/{desktop}")),
        (Client::ClaudeDesktop, "windows", format!("/roaming/{desktop}")),
    ] {
        assert_eq!(file(client, system).as_deref(), Some(Path::new(&expected)), "{client:?} {system}");
    }
    assert_eq!(Client::Codex.file("linux", |_| None), None);
}
