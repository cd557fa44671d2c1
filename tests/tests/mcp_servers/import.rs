//! `tamis import mcp`: what it writes, compares and refuses.

use std::fs;
use std::process::Output;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tamis_tests::binary;
use tamis_tests::documents::Folder;
use tokio::process::Command;

use crate::Everything;
use crate::fixture::{Behaviour, Server, tool};

/// What a run printed, and its exit code.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs `tamis import mcp` in a folder.
pub(crate) async fn import(folder: &Folder, arguments: &[&str]) -> Result<Ran> {
    run(folder, &[&["import", "mcp"], arguments].concat()).await
}

async fn run(folder: &Folder, arguments: &[&str]) -> Result<Ran> {
    let mut command = Command::new(binary("tamis")?);
    command.args(arguments).current_dir(folder.path()).env("SAMPLE_TOKEN", "t-1");
    let Output { status, stdout, stderr } = command.output().await?;
    let code = status.code().context("was killed")?;
    Ok(Ran { code, out: String::from_utf8(stdout)?, err: String::from_utf8(stderr)? })
}

#[tokio::test]
async fn a_legacy_server_is_pinned_and_compared() -> Result<()> {
    let (everything, folder) = (Everything::start().await?, Folder::new()?);
    let url = everything.url();
    let ran = import(&folder, &[&url, "-o", "."]).await?;
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "./everything.yaml: 13 tools\n", ""));
    let written = fs::read_to_string(folder.path().join("everything.yaml"))?;
    let example = fs::read_to_string(tamis_tests::root().join("examples/mcp/everything.yaml"))?;
    assert_eq!(written, example.replace("http://127.0.0.1:3001/mcp", &url), "the example is what the server lists");
    let ran = run(&folder, &["validate", "."]).await?;
    assert_eq!((ran.code, ran.err.as_str()), (0, "1 file, 1 document: 0 errors, 0 warnings\n"), "{}", ran.out);
    // Again, and by the address in the file.
    for arguments in [&[&*url, "-o", "."][..], &["-o", "everything.yaml"]] {
        let ran = import(&folder, arguments).await?;
        assert!(
            ran.code == 0 && ran.out.ends_with("everything.yaml: 13 tools, no difference\n"),
            "{}{}",
            ran.out,
            ran.err
        );
    }
    let printed = import(&folder, &[&url, "--name", "other", "--version", "9", "--output", "json"]).await?;
    let document: Value = serde_json::from_str(&printed.out)?;
    assert_eq!((&document["metadata"]["name"], &document["spec"]["version"]), (&json!("other"), &json!("9")));
    Ok(())
}

#[tokio::test]
async fn differences_are_told_and_accepted() -> Result<()> {
    let folder = Folder::new()?;
    let behaviour = Behaviour { tools: vec![tool("b", "one"), tool("a", "one")], ..Behaviour::default() };
    let server = Server::start(behaviour).await?;
    let ran = import(&folder, &[&server.url, "-o", "s.yaml"]).await?;
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "s.yaml: 2 tools\n", ""));
    let path = folder.path().join("s.yaml");
    let written = fs::read_to_string(&path)?;
    assert!(written.contains("maximum: 1.10\n") && written.find("      a:") < written.find("      b:"), "{written}");
    let mine =
        written.replace("kind:", "# Mine.\nkind:").replace("    url:", "    # The address.\n    url:") + "# The end.\n";
    fs::write(&path, &mine)?;

    server.change(|behaviour| behaviour.tools = vec![tool("c", "one"), tool("a", "two")]);
    let ran = import(&folder, &["-o", "s.yaml"]).await?;
    assert_eq!((ran.code, ran.out.as_str()), (4, "changed  a: description\nremoved  b\nadded    c\n"), "{}", ran.err);
    assert_eq!(fs::read_to_string(&path)?, mine, "nothing is written");
    let ran = import(&folder, &["-o", "s.yaml", "--output", "json"]).await?;
    let expected = json!({"file": "s.yaml", "added": ["c"], "removed": ["b"], "leftOut": [], "updated": false,
                          "changed": [{"tool": "a", "parts": ["description"]}]});
    assert_eq!((ran.code, serde_json::from_str::<Value>(&ran.out)?), (4, expected));

    let ran = import(&folder, &["-o", "s.yaml", "--update"]).await?;
    let expected = "changed  a: description\n  - description: one\n  + description: two\nremoved  b\nadded    c\ns.yaml: updated\n";
    assert_eq!((ran.code, ran.out.as_str()), (0, expected), "{}", ran.err);
    let updated = fs::read_to_string(&path)?;
    let tools = mine.find("    tools:").context("no tools")?;
    assert!(updated.starts_with(&mine[..tools]) && updated.ends_with("\n# The end.\n"), "{updated}");
    assert_eq!(import(&folder, &["-o", "s.yaml"]).await?.out, "s.yaml: 2 tools, no difference\n");
    let ran = import(&folder, &[&server.url, "-o", "s.yaml", "--force"]).await?;
    assert_eq!((ran.code, ran.out.as_str()), (0, "s.yaml: 2 tools\n"));
    assert!(!fs::read_to_string(&path)?.contains("# Mine."));
    Ok(())
}

#[tokio::test]
async fn tools_that_cannot_be_pinned_are_left_out() -> Result<()> {
    let folder = Folder::new()?;
    let network =
        r#"{"name":"net","inputSchema":{"type":"object","properties":{"x":{"$ref":"https://example.com/x"}}}}"#;
    let tools = vec![tool("a", "one"), tool("two words", "one"), network.to_owned(), tool("b", "x"), tool("b", "y")];
    let server = Server::start(Behaviour { tools, ..Behaviour::default() }).await?;
    let ran = import(&folder, &[&server.url, "-o", "s.yaml"]).await?;
    assert_eq!((ran.code, ran.out.as_str()), (0, "s.yaml: 1 tool\n"));
    let lines: Vec<&str> = ran.err.lines().collect();
    assert!(lines.len() == 3 && lines.iter().all(|line| line.starts_with("warning: left out ")), "{}", ran.err);
    assert!(lines[0].contains("two words: is not a valid tool name"), "{}", ran.err);
    assert!(lines[1].contains("net: inputSchema.properties.x"), "{}", ran.err);
    assert!(lines[2].contains("b: is listed more than once"), "{}", ran.err);
    Ok(())
}

#[tokio::test]
async fn a_server_that_cannot_be_asked_is_an_error_and_nothing_is_written() -> Result<()> {
    let folder = Folder::new()?;
    let one = || Behaviour { tools: vec![tool("a", "one")], ..Behaviour::default() };
    let cases = [
        (Behaviour { token: Some("t-1".to_owned()), ..one() }, "name a credential with --bearer-env"),
        (Behaviour { endless: true, ..one() }, "the server's list does not end"),
        (Behaviour { unbounded: true, ..one() }, "the server's list has more than 200 pages"),
        (
            Behaviour { redirect: Some("http://127.0.0.1:1/elsewhere".to_owned()), ..one() },
            "redirects to http://127.0.0.1:1/elsewhere",
        ),
        (Behaviour { padding: 17 << 20, ..one() }, "has more than 16 MiB"),
    ];
    for (behaviour, expected) in cases {
        let server = Server::start(behaviour).await?;
        let ran = import(&folder, &[&server.url, "-o", "s.yaml"]).await?;
        assert!(ran.code == 1 && ran.err.contains(expected), "{expected}: {}", ran.err);
        assert!(!folder.path().join("s.yaml").exists(), "{expected}");
    }
    let ran = import(&folder, &["http://127.0.0.1:1/mcp"]).await?;
    assert!(ran.code == 1 && ran.err.contains("cannot reach the server"), "{}", ran.err);
    // Nothing is sent to an address that no manifest may name.
    let ran = import(&folder, &["http://example.com/mcp"]).await?;
    assert!(ran.code == 1 && ran.err.contains("http is allowed for loopback"), "{}", ran.err);
    assert_eq!(import(&folder, &[]).await?.code, 2);

    let server = Server::start(Behaviour { token: Some("t-1".to_owned()), ..one() }).await?;
    let ran = import(&folder, &[&server.url, "--bearer-env", "SAMPLE_TOKEN", "-o", "s.yaml"]).await?;
    assert_eq!((ran.code, ran.out.as_str()), (0, "s.yaml: 1 tool\n"), "{}", ran.err);
    let written = fs::read_to_string(folder.path().join("s.yaml"))?;
    assert!(
        written.contains("secretRef:\n        name: fixture\n        key: token\n") && !written.contains("t-1"),
        "{written}"
    );
    // A file that pins something else stays.
    fs::write(folder.path().join("s.yaml"), "a: file of mine\n")?;
    let ran = import(&folder, &[&server.url, "--bearer-env", "SAMPLE_TOKEN", "-o", "s.yaml"]).await?;
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert_eq!(fs::read_to_string(folder.path().join("s.yaml"))?, "a: file of mine\n");
    Ok(())
}

/// A server that answers an unknown request with a page speaks the legacy era.
#[tokio::test]
async fn a_server_that_does_not_know_the_modern_era_is_asked_in_the_other() -> Result<()> {
    let folder = Folder::new()?;
    let page = Some("<html>405</html>".to_owned());
    let server = Server::start(Behaviour { tools: vec![tool("a", "one")], page, ..Behaviour::default() }).await?;
    let ran = import(&folder, &[&server.url, "-o", "."]).await?;
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "./old.yaml: 1 tool\n", ""));
    Ok(())
}
