//! Documents change while they are served.

use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::documents::{Folder, INTERNAL, manifest};
use tamis_tests::{CLIENTS, Client, Era, Gateway, Options, Rpc, Sdk, Upstream};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Changes while others call; `TAMIS_TEST_RELOADS` sets another number.
const RELOADS: usize = 200;

/// A filter under which each issue has one member, named after the version.
fn version(number: usize) -> String {
    INTERNAL.replace(
        "select: {number: number, title: title, by: user.login, labels: \"labels[*].name\"}",
        &format!("select: {{v{number}: number}}"),
    )
}

/// The version that an answer was filtered by; all of the answer by one.
fn seen(text: &str) -> Result<usize> {
    let issues: Vec<Value> = serde_json::from_str(text)?;
    ensure!(issues.len() == 4, "not all issues: {text}");
    let mut versions = issues.iter().map(|issue| {
        let members = issue.as_object().context("an object")?;
        ensure!(members.len() == 1, "more than the filter lets pass: {text}");
        let name = members.keys().next().context("a member")?;
        Ok(name.strip_prefix('v').context("a version")?.parse::<usize>()?)
    });
    let first = versions.next().context("an issue")??;
    for version in versions {
        ensure!(version? == first, "two versions in one answer: {text}");
    }
    Ok(first)
}

async fn issues(rpc: &Rpc) -> Result<usize> {
    seen(&rpc.call("list-issues", &json!({"owner": "o", "repo": "r"})).await?.text_block()?)
}

/// Waits until calls are filtered by a version; how long it took.
async fn shows(rpc: &Rpc, version: usize) -> Result<Duration> {
    let began = Instant::now();
    while issues(rpc).await? != version {
        ensure!(began.elapsed() < Duration::from_secs(10), "version {version} does not appear");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(began.elapsed())
}

/// Declares a test of the program at 1, 2 and 8 workers for each of these functions.
macro_rules! at_workers {
    ($($test:ident),+ $(,)?) => {$(
        mod $test {
            #[tokio::test(flavor = "multi_thread")]
            async fn with_1() -> super::Result<()> {
                super::$test(1).await
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn with_2() -> super::Result<()> {
                super::$test(2).await
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn with_8() -> super::Result<()> {
                super::$test(8).await
            }
        }
    )+};
}

at_workers!(no_call_fails_or_mixes_while_files_change, sigterm_finishes_calls_in_flight);

/// The options of a gateway with this many workers.
fn with_workers(workers: usize) -> Options {
    Options { arguments: vec!["--workers".to_owned(), workers.to_string()], ..Options::default() }
}

async fn no_call_fails_or_mixes_while_files_change(workers: usize) -> Result<()> {
    let reloads = match std::env::var("TAMIS_TEST_RELOADS") {
        Ok(number) => number.parse()?,
        Err(_) => RELOADS,
    };
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    folder.write("internal.yaml", &version(0))?;
    let gateway = Gateway::with(folder.path(), &with_workers(workers)).await?;
    let endpoint = gateway.endpoint("internal");

    let written = Arc::new(AtomicUsize::new(0));
    let shown = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    // Each has a connection of its own.
    for era in [Era::Legacy, Era::Modern].into_iter().cycle().take(workers.max(4)) {
        let rpc = Rpc::new(&endpoint, era)?;
        let (written, shown, done) = (Arc::clone(&written), Arc::clone(&shown), Arc::clone(&done));
        callers.push(tokio::spawn(async move {
            let mut calls = 0_usize;
            while !done.load(Ordering::SeqCst) {
                let from = shown.load(Ordering::SeqCst);
                let version = issues(&rpc).await?;
                let to = written.load(Ordering::SeqCst);
                ensure!((from..=to).contains(&version), "version {version} while {from} to {to} were served");
                calls += 1;
            }
            anyhow::Ok(calls)
        }));
    }

    let rpc = Rpc::new(&endpoint, Era::Modern)?;
    let mut delays = Vec::new();
    for number in 1..=reloads {
        written.store(number, Ordering::SeqCst);
        // As editors save: in place, or to a temporary file that is renamed.
        if number % 2 == 0 {
            folder.write("internal.yaml", &version(number))?;
        } else {
            folder.replace("internal.yaml", &version(number))?;
        }
        delays.push(shows(&rpc, number).await?);
        shown.store(number, Ordering::SeqCst);
    }
    done.store(true, Ordering::SeqCst);
    let mut calls = 0;
    for caller in callers {
        calls += caller.await??;
    }
    delays.sort_unstable();
    let (median, slowest) = (delays[delays.len() / 2], delays[delays.len() - 1]);
    println!("{reloads} reloads under {calls} calls: visible after {median:?} (median), {slowest:?} (slowest)");
    assert!(calls > reloads, "only {calls} calls ran during the reloads");
    Ok(())
}

#[tokio::test]
async fn a_broken_edit_keeps_the_previous_version_and_is_reported() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    folder.write("internal.yaml", &version(1))?;
    let gateway = Gateway::start(folder.path()).await?;
    let rpc = Rpc::new(&gateway.endpoint("internal"), Era::Modern)?;
    let breaks: [(&str, String); 5] = [
        ("not YAML", "kind: [".to_owned()),
        ("emptied", String::new()),
        ("cut off", version(2).split_inclusive("select: {").next().unwrap_or_default().to_owned()),
        ("an unknown field", version(2).replace("dropNulls", "dropNils")),
        ("a filter that cannot be", version(2).replace("    get-issue:", "      maxItems: -1\n    get-issue:")),
    ];
    for (step, (name, text)) in breaks.iter().enumerate() {
        let failed = failures(&gateway).await?;
        folder.write("internal.yaml", text)?;
        let began = Instant::now();
        while failures(&gateway).await? == failed {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "{name}: no failed reload is counted\n{}",
                gateway.log()
            );
            assert_eq!(issues(&rpc).await.context(*name)?, step + 1, "{name}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(issues(&rpc).await.context(*name)?, step + 1, "{name}");
        assert!(gateway.config().await?.to_string().contains("internal.yaml"), "{name}: {}", gateway.config().await?);
        assert!(gateway.log().contains("internal.yaml"), "{name}: {}", gateway.log());
        folder.write("internal.yaml", &version(step + 2))?;
        shows(&rpc, step + 2).await.context(*name)?;
        assert!(!gateway.config().await?.to_string().contains("internal.yaml:"), "{name}: {}", gateway.config().await?);
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_reference_stops_only_its_exposition() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    folder.write("internal.yaml", &version(1))?;
    let gateway = Gateway::start(folder.path()).await?;
    let [internal, partner] = ["internal", "partner"].map(|name| Rpc::new(&gateway.endpoint(name), Era::Modern));
    let (internal, partner) = (internal?, partner?);
    let list = |rpc: Rpc| async move { rpc.send(rpc.request("tools/list", json!({}))).await };
    folder.write("internal.yaml", &version(2).replace("filters: [internal]", "filters: [nothing]"))?;
    let began = Instant::now();
    while list(internal.clone()).await?.status == 200 {
        assert!(began.elapsed() < Duration::from_secs(10), "is still served");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stopped = list(internal.clone()).await?;
    assert_eq!(stopped.status, 503);
    assert!(stopped.text.contains("not available") && !stopped.text.contains("FilterSet"), "{}", stopped.text);
    assert_eq!(list(partner.clone()).await?.status, 200);
    folder.write("internal.yaml", &version(3))?;
    while list(internal.clone()).await?.status != 200 {
        assert!(began.elapsed() < Duration::from_secs(20), "does not recover");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(issues(&internal).await?, 3);
    Ok(())
}

#[tokio::test]
async fn a_half_written_file_is_not_loaded() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    folder.write("internal.yaml", &version(1))?;
    let gateway = Gateway::start(folder.path()).await?;
    let rpc = Rpc::new(&gateway.endpoint("internal"), Era::Modern)?;
    // The first half is valid YAML, without the exposition.
    let text = version(2);
    let (first, second) = text.split_at(text.find("---").context("two documents")?);
    let mut file = std::fs::File::create(folder.path().join("internal.yaml"))?;
    for half in [first, second] {
        file.write_all(half.as_bytes())?;
        file.flush()?;
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(400) {
            let seen = issues(&rpc).await?;
            assert!(seen == 1 || half == second, "{seen}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    drop(file);
    shows(&rpc, 2).await?;
    Ok(())
}

/// Returns the number of failed reloads.
async fn failures(gateway: &Gateway) -> Result<f64> {
    let all = gateway.metric("tamis_config_reloads_total", &[]).await?;
    Ok(all - gateway.metric("tamis_config_reloads_total", &["result=\"applied\""]).await?)
}

#[tokio::test]
async fn deleting_a_file_removes_its_exposition() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    let gateway = Gateway::start(folder.path()).await?;
    let partner = Rpc::new(&gateway.endpoint("partner"), Era::Modern)?;
    let status = || async { anyhow::Ok(partner.send(partner.request("tools/list", json!({}))).await?.status) };
    assert_eq!(status().await?, 200);
    folder.remove("partner.yaml")?;
    let began = Instant::now();
    while status().await? != 404 {
        assert!(began.elapsed() < Duration::from_secs(10), "is still served");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let internal = Rpc::new(&gateway.endpoint("internal"), Era::Modern)?;
    assert_eq!(internal.send(internal.request("tools/list", json!({}))).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn clients_of_a_deleted_exposition_get_an_error() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    let gateway = Gateway::start(folder.path()).await?;
    let mut clients = Vec::new();
    for &(sdk, era) in CLIENTS {
        clients.push((sdk, era, Client::connect(sdk, era, &gateway.target("partner")).await?));
    }
    folder.remove("partner.yaml")?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    for (sdk, era, client) in &mut clients {
        let call = client.call("list-issues", json!({"owner": "o", "repo": "r"}));
        let answer = tokio::time::timeout(Duration::from_secs(120), call).await;
        let answer = answer.with_context(|| format!("{sdk:?} {era:?}: the call hangs"))?;
        // A client that gives up entirely also fails, although not with Tamis' error.
        ensure!(!matches!(answer, Ok(Ok(_))), "{sdk:?} {era:?}: {answer:?}");
    }
    Ok(())
}

/// A cut stream is no graceful end: the client learns that it has to subscribe again, and then that it needs a key.
#[tokio::test]
async fn a_client_whose_access_ends_loses_its_subscription() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    let digest = format!("sha256:{}", "0".repeat(64));
    let environment = vec![("TAMIS_SECRET_PARTNERS_ALICE".to_owned(), digest)];
    let gateway = Gateway::with(folder.path(), &Options { environment, ..Options::default() }).await?;
    let target = gateway.target("internal");
    let mut client = Client::connect(Sdk::Python2, Era::Modern, &target).await?;
    client.watch().await?;
    let keyed = INTERNAL
        .replace("  filters: [internal]", "  filters: [internal]\n  access: {apiKeys: {secretRef: {name: partners}}}");
    let (changed, written) =
        tokio::join!(client.changed(Duration::from_secs(50)), async { folder.replace("internal.yaml", &keyed) });
    written?;
    let lost = format!("{:#}", changed.err().context("the subscription continues")?);
    ensure!(lost.contains("SubscriptionLost"), "{lost}");
    let refused = Client::connect(Sdk::Python2, Era::Modern, &target).await.err().context("no key is needed")?;
    ensure!(format!("{refused:#}").contains("API key required"), "{refused:#}");
    Ok(())
}

#[tokio::test]
async fn clients_are_notified_of_a_changed_list() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    let gateway = Gateway::start(folder.path()).await?;
    for (step, &(sdk, era)) in CLIENTS.iter().enumerate() {
        let mut client = Client::connect(sdk, era, &gateway.target("internal")).await?;
        client.watch().await?;
        let before = client.list().await?.len();
        // A legacy client opens its stream after the handshake, without telling when.
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.changed(Duration::ZERO).await?;

        // Another filter's fields are no change of the list.
        folder.replace(
            "partner.yaml",
            &tamis_tests::documents::PARTNER.replace("[/never]", &format!("[/never{step}]")),
        )?;
        assert!(!client.changed(Duration::from_millis(500)).await?, "{sdk:?} {era:?}: nothing of its own changed");

        let changed = manifest(&upstream).replace("      echo:", &format!("      echo{step}:"));
        let added =
            changed.replace("      get-log:", "      more:\n        method: GET\n        path: /log\n      get-log:");
        folder.replace("manifest.yaml", if step % 2 == 0 { &added } else { &changed })?;
        assert!(client.changed(Duration::from_secs(10)).await?, "{sdk:?} {era:?}: was not told");
        let after = client.list().await?.len();
        assert_ne!(before, after, "{sdk:?} {era:?}");
    }
    Ok(())
}

#[tokio::test]
async fn stdio_clients_are_notified_of_a_changed_list() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    let tamis = tamis_tests::binary("tamis")?.to_string_lossy().into_owned();
    let path = folder.path().to_string_lossy().into_owned();
    let words = [tamis.as_str(), "serve", &path, "--stdio", "--exposition", "internal"];
    let target = tamis_tests::Target::Command(words.map(str::to_owned).to_vec());
    for &(sdk, era) in CLIENTS {
        folder.replace("manifest.yaml", &manifest(&upstream))?;
        let mut client = Client::connect(sdk, era, &target).await?;
        client.watch().await?;
        assert_eq!(client.list().await?.len(), 6, "{sdk:?} {era:?}");
        let issue = client.result("get-issue", json!({"owner": "o", "repo": "r", "number": 3})).await?;
        assert_eq!(issue["structuredContent"]["title"], json!("Issue 3"), "{sdk:?} {era:?}");
        folder.replace("manifest.yaml", &manifest(&upstream).replace("      echo:", "      speak:"))?;
        assert!(client.changed(Duration::from_secs(10)).await?, "{sdk:?} {era:?}: was not told");
        if sdk == Sdk::Rmcp {
            assert!(client.cancel("slow", json!({"ms": 20_000}), Duration::from_millis(200)).await?);
        }
    }
    Ok(())
}

/// A session of `tamis serve --stdio`, line by line.
struct Lines {
    _process: Child,
    input: ChildStdin,
    output: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl Lines {
    fn start(folder: &Folder, exposition: &str) -> Result<Self> {
        let mut process = Command::new(tamis_tests::binary("tamis")?)
            .arg("serve")
            .arg(folder.path())
            .args(["--stdio", "--exposition", exposition])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = process.stdin.take().context("no input")?;
        let output = BufReader::new(process.stdout.take().context("no output")?).lines();
        Ok(Self { _process: process, input, output })
    }

    async fn receive(&mut self) -> Result<Value> {
        let line = tokio::time::timeout(Duration::from_secs(10), self.output.next_line()).await??;
        Ok(serde_json::from_str(&line.context("the session ended")?)?)
    }

    async fn ask(&mut self, id: usize, method: &str, params: Value) -> Result<Value> {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.input.write_all(format!("{message}\n").as_bytes()).await?;
        self.receive().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stdio_session_serves_its_exposition_again_after_a_deletion() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    let mut session = Lines::start(&folder, "internal")?;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listen = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
    let list = json!({"_meta": meta});
    let acknowledged = session.ask(1, "subscriptions/listen", listen).await?;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");

    folder.remove("internal.yaml")?;
    let end = session.receive().await?;
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(1), &json!("complete")), "{end}");
    let refused = session.ask(2, "tools/list", list.clone()).await?;
    let error = json!({"code": -32000, "message": "no exposition at this address"});
    assert_eq!((&refused["id"], &refused["error"]), (&json!(2), &error), "as over HTTP");

    folder.write("internal.yaml", INTERNAL)?;
    let began = Instant::now();
    let mut listed = session.ask(3, "tools/list", list.clone()).await?;
    while listed["error"] == error {
        ensure!(began.elapsed() < Duration::from_secs(10), "the exposition does not come back");
        tokio::time::sleep(Duration::from_millis(1)).await;
        listed = session.ask(3, "tools/list", list.clone()).await?;
    }
    assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(6), "{listed}");
    Ok(())
}

async fn sigterm_finishes_calls_in_flight(workers: usize) -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    let mut gateway = Gateway::with(folder.path(), &with_workers(workers)).await?;
    let eras = [Era::Legacy, Era::Modern].into_iter().cycle().take(2 * workers);
    let clients: Vec<_> = eras.map(|era| Rpc::new(&gateway.endpoint("internal"), era)).collect::<Result<_>>()?;
    let calls: Vec<_> = clients
        .into_iter()
        .map(|rpc| tokio::spawn(async move { rpc.call("slow", &json!({"ms": 1500})).await?.text_block() }))
        .collect();
    while upstream.calls() < 2 * workers {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(gateway.threads("tamis-worker-")?, workers);
    gateway.terminate()?;
    for call in calls {
        assert_eq!(call.await??, r#"{"waited":1500}"#);
    }
    let status = gateway.ended(Duration::from_secs(10)).await?;
    assert!(status.success(), "{status}\n{}", gateway.log());
    Ok(())
}
