//! Follows `docs/quickstart-kubernetes.md` word by word against a real API server.
//!
//! A fence's info string says what is done with it. `sh` is run, all of them in one shell that ends at the first command
//! that fails; `sh fails` must fail. `text output` is what the `sh` before it prints: column widths, ages, times and digests
//! aside, and `...` stands for any lines. `yaml` is from a file of `examples/kubernetes/`, comments aside. Other text
//! is only read. Nothing is changed on the way but port numbers, since several tests run at once.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tamis_tests::cluster::Cluster;
use tamis_tests::documents::fences;
use tamis_tests::{Port, binary, root, tool};
use tokio::process::Command;

const PAGE: &str = "docs/quickstart-kubernetes.md";
/// The ports that the page uses: of the upstream, the gateway, its admin listener and the operator's.
const PORTS: [&str; 4] = ["7070", "8080", "9090", "9091"];
/// Begins each block's output.
const MARK: &str = "@@@ block ";
/// Fifteen seconds on an idle machine; a loaded one has taken four times that.
const PATIENCE: Duration = Duration::from_secs(240);

/// What is run, and what the page says that it prints.
struct Block {
    line: usize,
    commands: String,
    fails: bool,
    shown: Option<String>,
}

/// Documents that the page shows, by line.
type Documents = Vec<(usize, String)>;

#[tokio::test(flavor = "multi_thread")]
async fn the_quickstart_does_what_it_says() -> Result<()> {
    let page = fs::read_to_string(root().join(PAGE)).context(PAGE)?;
    let (blocks, documents) = read(&page)?;
    assert!(blocks.len() > 15 && documents.len() > 1, "{} commands, {} documents", blocks.len(), documents.len());
    let examples = examples()?;
    for (line, document) in documents {
        assert!(examples.contains(&document), "{PAGE}:{line}: no file of examples/kubernetes has this");
    }

    let cluster = Cluster::start().await?;
    let folder = tempfile::tempdir()?;
    let reserved = PORTS.iter().map(|_| Port::reserve()).collect::<Result<Vec<_>>>()?;
    let ports: Vec<(&str, String)> =
        PORTS.into_iter().zip(reserved.iter().map(|port| port.number().to_string())).collect();
    for part in ["deploy", "examples/payloads", "examples/kubernetes"] {
        copy(&root().join(part), &folder.path().join(part), &ports)?;
    }
    let script = script(&blocks, &ports);
    let printed = run(&script, &cluster, folder.path()).await?;
    // Which command took how long: shown where the test fails.
    for mark in printed.lines().filter(|line| line.starts_with(MARK)) {
        println!("{mark}");
    }
    let printed = ports
        .iter()
        .fold(printed, |text, (ours, free)| text.replace(&format!("127.0.0.1:{free}"), &format!("127.0.0.1:{ours}")));

    let outputs: Vec<&str> = printed.split(MARK).skip(1).collect();
    let wrong: Vec<String> =
        blocks.iter().enumerate().filter_map(|(index, block)| wrong(block, outputs.get(index))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

/// What there is to run in a page, and the documents that it shows.
fn read(page: &str) -> Result<(Vec<Block>, Documents)> {
    let (mut blocks, mut documents) = (Vec::<Block>::new(), Documents::new());
    for (line, info, body) in fences(page) {
        match info {
            "sh" | "sh fails" => {
                blocks.push(Block { line, commands: body, fails: info == "sh fails", shown: None });
            }
            "text output" => {
                let last = blocks.last_mut().filter(|block| block.shown.is_none());
                last.with_context(|| format!("{PAGE}:{line}: nothing prints this"))?.shown = Some(body);
            }
            "yaml" => documents.push((line, body)),
            _ => bail!("{PAGE}:{line}: what is a fence `{info}`?"),
        }
    }
    Ok((blocks, documents))
}

/// All files of `examples/kubernetes/`, without their comments.
fn examples() -> Result<String> {
    let mut text = String::new();
    let folder = root().join("examples/kubernetes");
    for folder in [folder.clone(), folder.join("team-a")] {
        for entry in fs::read_dir(folder)? {
            let file = entry?.path();
            if file.extension().is_some_and(|extension| extension == "yaml") {
                let content = fs::read_to_string(file)?;
                let lines = content.lines().filter(|line| !line.trim_start().starts_with('#'));
                text.extend(lines.flat_map(|line| [line, "\n"]));
            }
        }
    }
    Ok(text)
}

fn with_ports(text: &str, ports: &[(&str, String)]) -> String {
    ports.iter().fold(text.to_owned(), |text, (ours, free)| text.replace(ours, free))
}

fn copy(from: &Path, to: &Path, ports: &[(&str, String)]) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target, ports)?;
        } else if entry.path().extension().is_some_and(|extension| extension == "yaml") {
            fs::write(target, with_ports(&fs::read_to_string(entry.path())?, ports))?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn script(blocks: &[Block], ports: &[(&str, String)]) -> String {
    // What runs in the background ends with the shell.
    let mut script = "set -eu -o pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n".to_owned();
    for block in blocks {
        let commands = with_ports(&block.commands, ports);
        let Block { line, fails, .. } = block;
        script += &format!("printf '\\n{MARK}%s, after %s s\\n' {line} $SECONDS\n");
        if *fails {
            script += &format!("if {{\n{commands}}}; then\necho 'did not fail'\nexit 1\nfi\n");
        } else {
            script += &commands;
        }
    }
    script
}

/// What the script prints, to both streams.
async fn run(script: &str, cluster: &Cluster, folder: &Path) -> Result<String> {
    let file = folder.join("commands.sh");
    fs::write(&file, script)?;
    let tamis = binary("tamis")?;
    let python = tool("python2/bin/python3")?;
    let own = [Some(cluster.tools()), tamis.parent(), python.parent()];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = own.into_iter().flatten().map(Path::to_owned).chain(std::env::split_paths(&path));
    let mut command = Command::new("bash");
    command.arg("-c").arg("exec 2>&1; source \"$0\"").arg(&file).current_dir(folder);
    command.env("PATH", std::env::join_paths(path)?).env("KUBECONFIG", cluster.kubeconfig()).env("HOME", folder);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let output =
        tokio::time::timeout(PATIENCE, child.wait_with_output()).await.context("the page takes too long")??;
    let printed = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        let logs = ["operator", "gateway"].map(|name| {
            let log = fs::read_to_string(folder.join(format!("tamis-quickstart/{name}.log"))).unwrap_or_default();
            format!("--- {name} logged:\n{log}")
        });
        bail!("{}: the commands printed\n{printed}\n{}", output.status, logs.join("\n"));
    }
    ensure!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(printed)
}

/// How what was printed differs from what the page shows.
fn wrong(block: &Block, printed: Option<&&str>) -> Option<String> {
    let (_line, printed) = printed.and_then(|printed| printed.split_once('\n')).unwrap_or_default();
    let shown = block.shown.as_deref()?;
    let lines = |text: &str| text.trim_end().lines().map(comparable).collect::<Vec<_>>();
    let same = matches(&lines(shown), &lines(printed));
    (!same).then(|| format!("{PAGE}:{}: prints\n{}\nand not\n{shown}", block.line, printed.trim_end()))
}

/// Whether lines are as shown, where `...` stands for any number of lines.
fn matches(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "..." => (0..=printed.len()).any(|skip| matches(rest, &printed[skip..])),
        Some((first, rest)) => printed.split_first().is_some_and(|(line, after)| line == first && matches(rest, after)),
    }
}

/// A line without what differs from run to run.
fn comparable(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        if is_age(word) {
            return "AGE".to_owned();
        }
        if word.parse::<jiff::Timestamp>().is_ok() {
            return "TIME".to_owned();
        }
        let parts = word.split('-').map(|part| if is_digest(part) { "DIGEST" } else { part });
        parts.collect::<Vec<_>>().join("-")
    });
    words.collect::<Vec<_>>().join(" ")
}

/// `3s`, `2m10s`, `5m`.
fn is_age(word: &str) -> bool {
    let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    matches!(shape.replace("00", "0").replace("00", "0").as_str(), "0s" | "0m" | "0m0s")
}

/// What a document is called by; it differs with the port of the upstream.
fn is_digest(text: &str) -> bool {
    text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[test]
fn what_differs_from_run_to_run_is_not_compared() {
    let line = |text: &str| comparable(text);
    assert_eq!(line("a   True    3s"), line("a True  2m10s"));
    assert_eq!(line("a 2026-11-22T09:00:00Z"), line("a  2026-11-22T10:31:07Z"));
    assert_eq!(line(&format!("a-{}-0", "1f".repeat(20))), line(&format!("a-{}-0", "e0".repeat(20))));
    assert_ne!(line("a True 3s"), line("a False 3s"));
    let lines = |text: &str| text.lines().map(comparable).collect::<Vec<_>>();
    assert!(matches(&lines("a\n...\nd"), &lines("a\nb\nc\nd")) && matches(&lines("a\n..."), &lines("a")));
    assert!(!matches(&lines("a\n...\nd"), &lines("a\nb\nc")) && !matches(&lines("a"), &lines("a\nb")));
}
