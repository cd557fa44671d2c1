//! Servers that are programs: published ones over standard input and output, and what is left of them at the end.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tamis_tests::documents::Folder;
use tamis_tests::{CLIENTS, Client, Gateway, Options, binary, root, tool, until};
use tokio::process::Command;

use crate::import::{Ran, import};
use crate::{names, text};

/// A variable of the gateway that no program gets unless a document names it.
const OTHER: (&str, &str) = ("SAMPLE_TOKEN", "hush-6b1f");
/// A credential of the gateway.
const CREDENTIAL: (&str, &str) = ("TAMIS_SECRET_SERVER_TOKEN", "t0ken-4c1d9a");

const GROUP: &str = "apiVersion: tamis.dev/v1alpha1\nkind: GatewayGroup\nmetadata: {name: default}\nspec: {commands: {enabled: true}}\n";

/// Returns the command of a published server in `tests/servers/bin`.
fn server(name: &str) -> Result<String> {
    tool("servers/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")?;
    let path = root().join("tests/servers/bin").join(name);
    Ok(path.to_str().context("the path is not UTF-8")?.to_owned())
}

fn exposition(name: &str, service: (&str, &str), more: &str) -> String {
    format!(
        "---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\nspec: {{service: {{name: {}, version: \"{}\"}}{more}}}\n",
        service.0, service.1
    )
}

/// The processes whose command line holds a text.
fn processes(text: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = std::process::id().to_string();
    let named = all.filter(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    });
    let numbers = named.filter_map(|entry| entry.file_name().into_string().ok());
    numbers.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own).collect()
}

fn options() -> Options {
    let variables = [OTHER, CREDENTIAL].map(|(name, value)| (name.to_owned(), value.to_owned()));
    Options { environment: variables.to_vec(), ..Options::default() }
}

/// Imports a published server into `NAME.yaml`.
async fn pin(folder: &Folder, name: &str, command: &[&str]) -> Result<Ran> {
    let file = format!("{name}.yaml");
    import(folder, &[&["-o", &file, "--name", name, "--version", "1", "--"], command].concat()).await
}

#[tokio::test]
async fn published_programs_are_imported_filtered_and_ended() -> Result<()> {
    let (folder, data) = (Folder::new()?, Folder::new()?);
    let notes = data.path().to_str().context("the path is not UTF-8")?;
    data.write("team.json", "{\"n\": 1.10}")?;
    let (time, files) = (server("mcp-server-time")?, server("mcp-server-filesystem")?);
    let everything = server("mcp-server-everything")?;
    for (name, command, tools) in [
        ("time", &[&*time, "--local-timezone=UTC"][..], "2 tools"),
        ("files", &[&*files, notes], "14 tools"),
        ("everything", &[&*everything, "stdio"], "13 tools"),
    ] {
        let ran = pin(&folder, name, command).await?;
        assert_eq!((ran.code, &*ran.out), (0, &*format!("{name}.yaml: {tools}\n")), "{}", ran.err);
    }
    until("ended after the import", || processes(notes).is_empty()).await?;
    let filters = "---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {name: time}\nspec:\n  name: short\n  service: {name: time, version: \"1\"}\n  enforcement: Enforced\n  filters:\n    convert_time: {root: \"\", select: {difference: time_difference}}\n";
    let documents = [
        GROUP.to_owned(),
        exposition(
            "time",
            ("time", "1"),
            ", filters: [short], tools: {include: [convert_time]}, limits: {timeout: 2m}",
        ),
        exposition("files", ("files", "1"), ", filters: [], limits: {timeout: 2m}"),
        exposition("everything", ("everything", "1"), ", filters: [], limits: {timeout: 2m}"),
        filters.to_owned(),
    ];
    folder.write("expositions.yaml", &documents.concat())?;
    let mut gateway = Gateway::with(folder.path(), &options()).await?;
    assert!(processes(notes).is_empty(), "nothing runs before it is called");
    for &(sdk, era) in CLIENTS {
        let said = format!("{sdk:?} {era:?}");
        let connect = async |name: &str| Client::connect(sdk, era, &gateway.target(name)).await.context(said.clone());
        let mut client = connect("time").await?;
        assert_eq!(names(&client.list().await?), ["convert_time"].into(), "{said}");
        let arguments = json!({"source_timezone": "UTC", "target_timezone": "Asia/Tokyo", "time": "12:00"});
        let result = client.result("convert_time", arguments).await?;
        assert_eq!(result["structuredContent"], json!({"difference": "+9.0h"}), "{said}: {result}");
        let mut client = connect("files").await?;
        let result = client.result("read_text_file", json!({"path": "team.json"})).await?;
        assert!(text(&result).contains("1.10"), "{said}: {result}");
        let refused = client.result("read_text_file", json!({"path": "/etc/passwd"})).await?;
        assert_eq!(refused["isError"], json!(true), "{said}: {refused}");
        let mut client = connect("everything").await?;
        let result = client.result("echo", json!({"message": "a\nb"})).await?;
        assert_eq!(text(&result), "Echo: a\nb", "{said}: {result}");
        let result = client.result("get-env", json!({})).await?;
        let seen = &result["structuredContent"];
        assert!(seen.get("PATH").is_some(), "{said}: {result}");
        for (name, value) in [OTHER, CREDENTIAL] {
            assert!(seen.get(name).is_none() && !result.to_string().contains(value), "{said}: {result}");
        }
    }
    let config = gateway.config().await?;
    let program = |name: &str| {
        let all = config["expositions"].as_array()?;
        Some(all.iter().find(|one| one["name"] == name)?["program"].clone())
    };
    for name in ["time", "files", "everything"] {
        let program = program(name).context("no program")?;
        assert_eq!((&program["running"], &program["starts"]), (&json!(1), &json!(1)), "{name}: {program}");
    }
    assert!(program("files").is_some_and(|program| program["errorBytes"].as_u64() > Some(0)), "{config}");
    assert!(!gateway.log().contains("Secure MCP Filesystem"), "standard error is not logged");
    let running = processes(notes);
    assert!(!running.is_empty());
    gateway.terminate()?;
    assert!(gateway.ended(Duration::from_secs(20)).await?.success());
    until("ended with the gateway", || processes(notes).is_empty()).await
}

#[tokio::test]
async fn a_program_runs_only_while_the_folder_enables_it() -> Result<()> {
    let (folder, data) = (Folder::new()?, Folder::new()?);
    let notes = data.path().to_str().context("the path is not UTF-8")?;
    pin(&folder, "files", &[&server("mcp-server-filesystem")?, notes]).await?;
    folder.write("exposition.yaml", &exposition("files", ("files", "1"), ", filters: [], limits: {timeout: 2m}"))?;
    // Without an exposition that can be served, `tamis serve` does not start.
    let mut command = Command::new(binary("tamis")?);
    let output = command
        .arg("serve")
        .arg(folder.path())
        .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .output()
        .await?;
    let said = String::from_utf8(output.stderr)?;
    assert!(!output.status.success() && said.contains("programs are not enabled; add a GatewayGroup with"), "{said}");

    folder.write("group.yaml", GROUP)?;
    let gateway = Gateway::start(folder.path()).await?;
    let (sdk, era) = CLIENTS[0];
    let call = async || {
        let mut client = Client::connect(sdk, era, &gateway.target("files")).await?;
        client.result("list_directory", json!({"path": "."})).await
    };
    call().await?;
    assert!(!processes(notes).is_empty());
    folder.replace("group.yaml", &GROUP.replace("true", "false"))?;
    until("ended with its permission", || processes(notes).is_empty()).await?;
    assert!(call().await.is_err());
    folder.replace("group.yaml", GROUP)?;
    let again = Instant::now() + Duration::from_secs(30);
    while call().await.is_err() {
        ensure!(Instant::now() < again, "it is not served again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    folder.remove("exposition.yaml")?;
    until("ended with its exposition", || processes(notes).is_empty()).await
}

#[tokio::test]
async fn an_impatient_stop_leaves_no_program_behind() -> Result<()> {
    let (folder, data) = (Folder::new()?, Folder::new()?);
    let notes = data.path().to_str().context("the path is not UTF-8")?;
    // Ignores the end of its input, and SIGTERM.
    let stubborn = format!("trap '' TERM; '{}' '{notes}'; while :; do sleep 1; done", server("mcp-server-filesystem")?);
    pin(&folder, "files", &["sh", "-c", &stubborn]).await?;
    until("ended after the import", || processes(notes).is_empty()).await?;
    folder.write(
        "exposition.yaml",
        &(GROUP.to_owned() + &exposition("files", ("files", "1"), ", filters: [], limits: {timeout: 2m}")),
    )?;
    let mut gateway = Gateway::start(folder.path()).await?;
    let (sdk, era) = CLIENTS[0];
    let mut client = Client::connect(sdk, era, &gateway.target("files")).await?;
    client.result("list_directory", json!({"path": "."})).await?;
    drop(client);
    assert!(!processes(notes).is_empty());
    gateway.terminate()?;
    until("stopping", || gateway.log().contains("stopping")).await?;
    gateway.terminate()?;
    gateway.ended(Duration::from_secs(2)).await?;
    until("killed", || processes(notes).is_empty()).await
}

#[tokio::test]
async fn an_import_compares_a_program_that_is_named_and_starts_no_other() -> Result<()> {
    let folder = Folder::new()?;
    let time = server("mcp-server-time")?;
    let command = [&*time, "--local-timezone=UTC"];
    let asked = async |arguments: &[&str]| import(&folder, &[arguments, &["--"], &command].concat()).await;
    let ran = asked(&["-o", ".", "--name", "time", "--env", "SAMPLE_TOKEN"]).await?;
    assert_eq!((ran.code, &*ran.out), (0, "./time.yaml: 2 tools\n"), "{}", ran.err);
    let path = folder.path().join("time.yaml");
    let written = fs::read_to_string(&path)?;
    assert!(written.contains("    env:\n      - SAMPLE_TOKEN\n") && !written.contains("t-1"), "{written}");
    assert_eq!(asked(&["-o", "time.yaml"]).await?.out, "time.yaml: 2 tools, no difference\n");
    // The file alone starts nothing.
    let ran = import(&folder, &["-o", "time.yaml"]).await?;
    assert!(ran.code == 1 && ran.err.contains("runs only if you name it") && ran.err.contains(&time), "{}", ran.err);
    let ran = import(&folder, &["-o", "time.yaml", "--", &time]).await?;
    assert!(ran.code == 1 && ran.err.contains("time.yaml is about"), "{}", ran.err);
    fs::write(&path, written.replace("Convert time between timezones", "Convert"))?;
    let ran = asked(&["-o", "time.yaml"]).await?;
    assert_eq!((ran.code, &*ran.out), (4, "changed  convert_time: description\n"), "{}", ran.err);
    let ran = asked(&["-o", "time.yaml", "--update"]).await?;
    assert!(ran.code == 0 && ran.out.ends_with("time.yaml: updated\n"), "{}{}", ran.out, ran.err);
    assert_eq!(fs::read_to_string(&path)?, written);
    Ok(())
}

#[tokio::test]
async fn a_program_that_cannot_be_asked_is_an_error_with_its_last_words() -> Result<()> {
    let folder = Folder::new()?;
    for (command, expected) in [
        (&["/nonexistent/program"][..], "cannot start /nonexistent/program"),
        (
            &["sh", "-c", "echo no such folder >&2; exit 3"],
            "the program has ended; its standard error ends with:\nno such folder",
        ),
        (
            &["sh", "-c", "read line; head -c 20000000 /dev/zero | tr '\\0' x; read line"],
            "writes a line of more than 16 MiB",
        ),
        (&["sh", "-c", "yes; read line"], "writes more than 10000 lines before its answer"),
    ] {
        let ran = import(&folder, &[&["-o", "s.yaml", "--"], command].concat()).await?;
        assert!(ran.code == 1 && ran.err.contains(expected), "{expected}: {}", ran.err);
        assert!(!folder.path().join("s.yaml").exists(), "{expected}");
    }
    Ok(())
}

/// The program is in a group of its own, which the signal of a terminal does not reach.
#[tokio::test]
async fn an_import_that_is_interrupted_ends_the_program() -> Result<()> {
    let folder = Folder::new()?;
    let mark = format!("sleep 30{}", std::process::id());
    let script = format!("{mark} & wait");
    let mut running = Command::new(binary("tamis")?)
        .args(["import", "mcp", "--", "sh", "-c", &script])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let sleeps = || processes(&mark.replace(' ', "\0"));
    until("started", || !sleeps().is_empty()).await?;
    let number = running.id().context("has ended")?.to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &number]).status()?.success());
    let status = tokio::time::timeout(Duration::from_secs(10), running.wait()).await??;
    assert_eq!(status.code(), Some(1));
    until("ended", || sleeps().is_empty()).await
}

/// `examples/mcp-program` is what the server lists.
#[tokio::test]
async fn the_example_is_what_the_program_lists() -> Result<()> {
    let folder = Folder::new()?;
    let time = server("mcp-server-time")?;
    let command = [&*time, "--local-timezone=UTC"];
    import(&folder, &[&["-o", "time.yaml", "--name", "time", "--"], &command[..]].concat()).await?;
    let written = fs::read_to_string(folder.path().join("time.yaml"))?;
    let example = fs::read_to_string(root().join("examples/mcp-program/time.yaml"))?;
    // A path is written in quotes.
    let written = written.replace(&format!("\"{time}\""), "mcp-server-time").replace(&time, "mcp-server-time");
    assert_eq!(written, example);
    Ok(())
}
