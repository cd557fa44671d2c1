//! `Enforced` through every channel of `serve`: HTTP and standard input and output, both eras, text with each option,
//! pages of each kind, and random filters. Of two series of upstream answers that differ only in what the filters remove, one
//! goes through one gateway and one through another: callers get the same bytes, and the logs, audit records and metrics say
//! the same but for numbers.

mod pairs;
mod random;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use pairs::{TOOLS, masked, series, shown};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::{Era, Gateway, Options, Rpc, Upstream, binary};

/// A service with these actions, and an exposition of it under these filters, each indented for its place.
fn manifest(upstream: &Upstream, actions: &str, filters: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: s}}\nspec:\n  version: '1'\n  http:\n    baseUrl: {}\n    \
         actions:\n{actions}---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: f}}\nspec:\n  service: {{name: s, \
         version: '1'}}\n  enforcement: Enforced\n  filters:\n{filters}---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: \
         {{name: e}}\nspec: {{service: {{name: s, version: '1'}}}}\n",
        upstream.url,
    )
}

/// `tamis serve --stdio` of the exposition.
struct Session {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    era: Era,
    log: std::path::PathBuf,
}

impl Session {
    fn start(folder: &Path, log: &Path, era: Era) -> Result<Self> {
        let mut process = Command::new(binary("tamis")?)
            .arg("serve")
            .arg(folder)
            .args(["--stdio", "--exposition", "e"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(log)?)
            .spawn()?;
        let input = process.stdin.take().context("no input")?;
        let output = BufReader::new(process.stdout.take().context("no output")?);
        let mut session = Self { process, input, output, era, log: log.to_owned() };
        if era == Era::Legacy {
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
            session.ask("initialize", params)?;
            writeln!(session.input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        }
        Ok(session)
    }

    fn ask(&mut self, method: &str, mut params: Value) -> Result<String> {
        if self.era == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "tamis-tests", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        writeln!(self.input, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    /// Ends it, and gives all that it has logged.
    fn end(self) -> Result<String> {
        let Self { mut process, input, output: _output, era: _, log } = self;
        drop(input);
        process.wait()?;
        Ok(std::fs::read_to_string(log)?)
    }
}

/// All channels to one half of the documents.
struct Half {
    gateway: Gateway,
    http: Vec<Rpc>,
    stdio: Vec<Session>,
}

impl Half {
    async fn start(folder: &Path, logs: &Path, name: &str) -> Result<Self> {
        let gateway = Gateway::with(folder, &Options::default()).await?;
        let eras = [Era::Legacy, Era::Modern];
        let http = eras.iter().map(|era| Rpc::new(&gateway.endpoint("e"), *era)).collect::<Result<_>>()?;
        let stdio = eras.iter().map(|era| Session::start(folder, &logs.join(format!("{name}-{era:?}")), *era));
        let stdio = stdio.collect::<Result<_>>()?;
        Ok(Self { gateway, http, stdio })
    }

    /// What each channel answers.
    async fn call(&mut self, tool: &str) -> Result<Vec<String>> {
        let mut answers = Vec::new();
        for rpc in &self.http {
            answers.push(shown(&rpc.call(tool, &json!({})).await?));
        }
        for session in &mut self.stdio {
            answers.push(session.ask("tools/call", json!({"name": tool, "arguments": {}}))?);
        }
        Ok(answers)
    }

    /// The series of all metrics; the lines of all logs, sorted, each run of digits and hexadecimal digits masked.
    async fn recorded(mut self) -> Result<(BTreeSet<String>, Vec<String>)> {
        let metrics = self.gateway.admin("/metrics").await?;
        let series = series(&metrics).map(str::to_owned).collect();
        self.gateway.terminate()?;
        self.gateway.ended(Duration::from_secs(30)).await?;
        let mut logs = self.gateway.log();
        for session in self.stdio {
            logs += &session.end()?;
        }
        assert!(!metrics.contains("REMOVED") && !logs.contains("REMOVED"), "{metrics}\n{logs}");
        let mut lines: Vec<String> = logs.lines().map(masked).collect();
        lines.sort();
        Ok((series, lines))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_data_shows_in_no_channel_and_no_record() -> Result<()> {
    let upstream = Upstream::start().await?;
    let (folder, logs) = (Folder::new()?, Folder::new()?);
    let (actions, filters) = pairs::yaml();
    folder.write("all.yaml", &manifest(&upstream, &actions, &filters))?;
    let mut halves = [
        Half::start(folder.path(), logs.path(), "left").await?,
        Half::start(folder.path(), logs.path(), "right").await?,
    ];
    let mut runner = TestRunner::deterministic();
    let (mut compared, mut answered) = (0, 0);
    for _ in 0..25 {
        for (tool, kind, _, filter) in TOOLS {
            let (one, other) = pairs::pairs(tool, *kind).new_tree(&mut runner).map_err(anyhow::Error::msg)?.current();
            let mut answers = Vec::new();
            for (half, document) in halves.iter_mut().zip([&one, &other]) {
                upstream.set_document(200, document);
                answers.push(half.call(tool).await?);
            }
            assert_eq!(answers[0], answers[1], "{tool} {filter}\n{one}\n{other}");
            assert!(answers[0].iter().all(|answer| !answer.contains("REMOVED")), "{tool} {answers:?}");
            compared += answers[0].len();
            answered += answers[0].iter().filter(|answer| !answer.contains("withheld")).count();
        }
    }
    println!("{compared} pairs of answers compared, {answered} of them hold data");
    assert!(answered * 2 > compared, "{answered} of {compared}");
    same_records(halves).await
}

/// What both halves have recorded is the same.
async fn same_records(halves: [Half; 2]) -> Result<()> {
    let [left, right] = halves;
    let (left, right) = (left.recorded().await?, right.recorded().await?);
    let differ: Vec<_> = left.0.symmetric_difference(&right.0).collect();
    assert!(differ.is_empty(), "series of metrics that only one half has: {differ:#?}");
    assert_eq!(left.1, right.1, "the lines of the logs");
    assert!(left.1.iter().any(|line| line.contains("tool call")), "there are audit records: {:?}", left.1);
    Ok(())
}
