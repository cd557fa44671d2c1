//! Connections that say nothing, in greater number than the process has file descriptors.

use anyhow::{Result, ensure};
use serde_json::json;
use tamis_tests::documents::Folder;
use tamis_tests::{Era, Gateway, Options, Rpc, Upstream};
use tokio::net::TcpStream;

#[tokio::test]
async fn idle_connections_exhaust_no_descriptors() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    let wrapper = ["sh", "-c", "ulimit -n 256 && exec \"$@\"", "sh"].map(str::to_owned).to_vec();
    let gateway = Gateway::with(folder.path(), &Options { wrapper, ..Options::default() }).await?;
    let address = gateway.url.trim_start_matches("http://").to_owned();
    let mut idle = Vec::new();
    for round in 0..3 {
        for _ in 0..100 {
            idle.push(TcpStream::connect(&address).await?);
        }
        // A new client is answered, by the upstream too, and so is the admin port.
        let client = Rpc::new(&gateway.endpoint("internal"), Era::Modern)?;
        let answer = client.call("get-issue", &json!({"owner": "o", "repo": "r", "number": 1})).await?;
        ensure!(answer.text_block()?.contains("Issue 1"), "round {round}: {}", answer.text);
        ensure!(gateway.admin("/livez").await? == "ok\n");
    }
    let evicted = gateway.metric("tamis_connections_closed_total", &["reason=\"evicted\""]).await?;
    ensure!(evicted >= 100.0, "{evicted} were closed");
    let log = gateway.log();
    let warnings = log.matches("connections are not accepted").count();
    ensure!(warnings <= 1, "{log}");
    Ok(())
}

/// Each worker has descriptors of its own.
#[tokio::test]
async fn workers_leave_descriptors_to_connections() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    let wrapper = ["sh", "-c", "ulimit -n 256 && exec \"$@\"", "sh"].map(str::to_owned).to_vec();
    let arguments = ["--workers", "100"].map(str::to_owned).to_vec();
    let gateway = Gateway::with(folder.path(), &Options { wrapper, arguments, ..Options::default() }).await?;
    for _ in 0..50 {
        let client = Rpc::new(&gateway.endpoint("internal"), Era::Modern)?;
        let answer = client.call("get-issue", &json!({"owner": "o", "repo": "r", "number": 1})).await?;
        ensure!(answer.text_block()?.contains("Issue 1"), "{}", answer.text);
    }
    // Every worker has served one of them.
    ensure!(gateway.threads("tamis-worker-")? == 16, "{}", gateway.log());
    ensure!(gateway.log().contains("fewer workers are started than wanted"), "{}", gateway.log());
    Ok(())
}
