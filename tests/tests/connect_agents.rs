//! What `tamis connect --write` writes, read by the programs that it is for: Claude Code, Codex and Gemini CLI from npm. They
//! need no network and no login to say what they have read.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tamis_tests::{binary, tool};
use tempfile::TempDir;

const URL: &str = "http://127.0.0.1:9/mcp/default/github-partner";

/// Runs a program in a folder that is its home too; what it prints.
fn run(program: &Path, home: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(home).env("HOME", home).env_remove("CODEX_HOME").env_remove("XDG_CONFIG_HOME");
    let output = command.output().with_context(|| format!("{} does not start", program.display()))?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{} {arguments:?}: {said}", program.display());
    Ok(said)
}

fn agent(name: &str) -> Result<std::path::PathBuf> {
    tool(&format!("agents/node_modules/.bin/{name}")).context("run `cargo xtask agents`")
}

fn written(client: &str, key: &[&str]) -> Result<TempDir> {
    let home = tempfile::tempdir()?;
    run(&binary("tamis")?, home.path(), &[&["connect", client, URL, "--write"][..], key].concat())?;
    Ok(home)
}

#[test]
#[ignore = "needs 860 MB of agents: cargo xtask agents"]
fn agents_read_the_written_configuration() -> Result<()> {
    let key: &[&str] = &["--key-env", "GITHUB_KEY"];
    let home = written("claude-code", key)?;
    let said = run(&agent("claude")?, home.path(), &["mcp", "get", "github-partner"])?;
    for expected in ["Type: http", URL, "Authorization: Bearer ${GITHUB_KEY}"] {
        ensure!(said.contains(expected), "{expected}: {said}");
    }

    let home = written("codex", key)?;
    let said = run(&agent("codex")?, home.path(), &["mcp", "get", "github-partner", "--json"])?;
    let json = said.find('{').map(|from| &said[from..=said.rfind('}').unwrap_or(said.len() - 1)]);
    let server: Value = serde_json::from_str(json.context("no JSON")?)?;
    let transport = &server["transport"];
    ensure!(transport["type"] == "streamable_http" && transport["url"] == URL, "{server}");
    ensure!(transport["bearer_token_env_var"] == "GITHUB_KEY" && server["enabled"] == true, "{server}");

    let home = written("gemini-cli", key)?;
    let said = run(&agent("gemini")?, home.path(), &["mcp", "list"])?;
    ensure!(said.contains(&format!("github-partner: {URL} (http)")), "{said}");
    Ok(())
}

/// As processes that they start.
#[test]
#[ignore = "needs 860 MB of agents: cargo xtask agents"]
fn agents_read_the_command_to_start() -> Result<()> {
    let examples = tamis_tests::root().join("examples/quickstart");
    let examples = examples.to_str().context("not UTF-8")?;
    for (client, program, arguments) in [
        ("claude-code", "claude", &["mcp", "get", "github-internal"][..]),
        ("codex", "codex", &["mcp", "get", "github-internal"]),
        ("gemini-cli", "gemini", &["mcp", "list"]),
    ] {
        let home = tempfile::tempdir()?;
        let connect = ["connect", client, examples, "--exposition", "github-internal", "--stdio", "--write"];
        run(&binary("tamis")?, home.path(), &connect)?;
        let said = run(&agent(program)?, home.path(), arguments)?;
        ensure!(said.contains("--stdio --exposition default/github-internal"), "{client}: {said}");
        ensure!(said.contains("stdio"), "{client}: {said}");
    }
    Ok(())
}
