//! Audit records of the real program: one for each answered call, in order, also when the process ends under load.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::{Era, Gateway, Options, Rpc, Upstream, binary};

/// Answered calls after which the gateway is stopped.
const CALLS: usize = 400;
const CLIENTS: usize = 6;

fn exposition(name: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\n\
         spec: {{service: {{name: tracker, version: 1.0.0}}, filters: []}}\n"
    )
}

/// The sizes of the answers to the calls of each exposition, in the order of the records.
fn recorded(log: &str, exposition: &str) -> Result<Vec<usize>> {
    let mut sizes = Vec::new();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
        if line["target"] == "audit" && line["exposition"] == exposition {
            ensure!(
                line["verdict"] == "ok" && line["result_hmac"].as_str().is_some_and(|hmac| hmac.len() == 64),
                "{line}"
            );
            sizes.push(line["result_bytes"].as_u64().and_then(|size| usize::try_from(size).ok()).context("no size")?);
        }
    }
    Ok(sizes)
}

/// Calls one after another, each with a longer answer, until the gateway is gone; the sizes of the answers.
async fn call_until_the_end(rpc: Rpc, answered: Arc<AtomicUsize>) -> Vec<usize> {
    let mut sizes = Vec::new();
    loop {
        let text = "x".repeat(sizes.len());
        let Ok(answer) = rpc.call("echo", &json!({"text": text})).await else { return sizes };
        assert_eq!(answer.status, 200, "{}", answer.text);
        sizes.push(answer.text.len());
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_stopped_under_load_has_a_record_of_every_answered_call() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    let names: Vec<String> = (0..CLIENTS).map(|number| format!("client-{number}")).collect();
    for name in &names {
        folder.write(&format!("{name}.yaml"), &exposition(name))?;
    }
    let arguments = ["--log-format", "json"].map(str::to_owned).to_vec();
    let mut gateway = Gateway::with(folder.path(), &Options { arguments, ..Options::default() }).await?;
    let answered = Arc::new(AtomicUsize::new(0));
    let mut clients = Vec::new();
    for (name, era) in names.iter().zip([Era::Legacy, Era::Modern].iter().cycle()) {
        let rpc = Rpc::new(&gateway.endpoint(name), *era)?;
        clients.push(tokio::spawn(call_until_the_end(rpc, Arc::clone(&answered))));
    }
    while answered.load(Ordering::Relaxed) < CALLS {
        ensure!(!clients.iter().any(tokio::task::JoinHandle::is_finished), "a call failed before the end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gateway.terminate()?;
    let status = gateway.ended(Duration::from_secs(60)).await?;
    ensure!(status.success(), "{status}");
    let log = gateway.log();
    for (name, client) in names.iter().zip(clients) {
        let sizes = client.await?;
        ensure!(sizes.is_sorted_by(|one, next| one < next), "{name}: {sizes:?}");
        let recorded = recorded(&log, name)?;
        ensure!(
            recorded == sizes,
            "{name}: {} answers, {} records\n{sizes:?}\n{recorded:?}",
            sizes.len(),
            recorded.len()
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_over_standard_input_has_a_record_of_every_answer_when_the_process_has_ended() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    folder.write("stdio.yaml", &exposition("stdio"))?;
    let log = folder.path().join("log");
    let mut process = Command::new(binary("tamis")?)
        .args(["--log-format", "json", "serve"])
        .arg(folder.path())
        .args(["--stdio", "--exposition", "stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log)?)
        .spawn()?;
    let (mut input, output) = (process.stdin.take().context("no input")?, process.stdout.take().context("no output")?);
    for number in 0..100 {
        let params = json!({"name": "echo", "arguments": {"text": "x".repeat(number)}});
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}))?;
    }
    drop(input);
    let mut sizes = Vec::new();
    for line in BufReader::new(output).lines() {
        sizes.push(line?.len());
    }
    ensure!(process.wait()?.success(), "{}", std::fs::read_to_string(&log)?);
    let mut recorded = recorded(&std::fs::read_to_string(&log)?, "stdio")?;
    // Calls of one client run at the same time: each is recorded as it ends, and answered a moment later.
    sizes.sort_unstable();
    recorded.sort_unstable();
    ensure!(sizes.len() == 100 && recorded == sizes, "{sizes:?}\n{recorded:?}");
    Ok(())
}
