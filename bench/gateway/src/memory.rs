//! Measures the memory of expositions, of idle connections and of calls in flight.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::call::{Call, Era};
use crate::client::{Protocol, Sender, once};
use crate::cores::{Cores, files_allow};
use crate::documents::{self, Sets};
use crate::process::Server;
use crate::servers::{HELD, HELD_SECONDS};

/// The memory of a process with a number of expositions, before any call.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Expositions {
    pub(crate) sets: Sets,
    pub(crate) count: usize,
    /// Private resident memory, in bytes.
    pub(crate) resident: u64,
    /// The growth for each exposition more than in the first row of the same kind, in bytes.
    pub(crate) each: Option<f64>,
    pub(crate) ready_seconds: f64,
}

/// The tools of each exposition.
pub(crate) const TOOLS: usize = 20;

/// Starts `tamis serve` with each number of expositions and reads its memory.
pub(crate) async fn expositions(cores: &Cores, tamis: &Path, sets: Sets, counts: &[usize]) -> Result<Vec<Expositions>> {
    let mut rows: Vec<Expositions> = Vec::new();
    for &count in counts {
        eprintln!("memory of {count} expositions, {}", sets.name());
        let folder = tempfile::tempdir()?;
        documents::expositions(folder.path(), count, TOOLS, sets)?;
        let start = Instant::now();
        let server = Server::tamis(cores, tamis, folder.path(), &["--log-level", "warn", "--workers", "1"]).await?;
        let ready_seconds = start.elapsed().as_secs_f64();
        settle().await;
        let resident = server.memory()?;
        let each = rows.first().map(|first| {
            resident.saturating_sub(first.resident) as f64 / count.saturating_sub(first.count).max(1) as f64
        });
        rows.push(Expositions { sets, count, resident, each, ready_seconds });
    }
    Ok(rows)
}

/// The memory of a process with idle connections.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Idle {
    pub(crate) connections: usize,
    /// Private resident memory for each connection that has made no call, in bytes.
    pub(crate) each_unused: f64,
    /// Private resident memory for each connection that has made one call, in bytes.
    pub(crate) each_used: f64,
}

/// A `tamis serve` that has made what the first calls allocate once, its upstream and its folders.
struct Warm {
    server: Server,
    /// Private resident memory, in bytes.
    before: u64,
    _upstream: Server,
    _folders: [TempDir; 2],
}

impl Warm {
    /// Starts it and makes 1,000 calls.
    async fn start(cores: &Cores, tamis: &Path, call: &Call) -> Result<Self> {
        let upstream = Server::own(&["upstream", "4"])?;
        let [folder, secrets] = [tempfile::tempdir()?, tempfile::tempdir()?];
        documents::calls(folder.path(), secrets.path(), upstream.port, &[4])?;
        let named = secrets.path().to_string_lossy();
        let options = ["--log-level", "warn", "--workers", "1", "--secrets", &named];
        let server = Server::tamis(cores, tamis, folder.path(), &options).await?;
        for _ in 0..1000 {
            let (status, body) = once(server.port, call).await?;
            call.check(status, &body)?;
        }
        settle().await;
        let before = server.memory()?;
        Ok(Self { server, before, _upstream: upstream, _folders: [folder, secrets] })
    }
}

/// What one address may open: the gateway refuses it more than three quarters of its connections.
const OF_ONE_ADDRESS: usize = 2_500;

/// How many connections make their call at the same time.
const CALLERS: usize = 16;

/// Opens connections to a `tamis serve`, and reads its memory before and after a call on each.
pub(crate) async fn idle(cores: &Cores, tamis: &Path, connections: usize) -> Result<Idle> {
    eprintln!("memory of {connections} idle connections");
    // The gateway keeps three eighths of its files for upstreams and itself.
    files_allow(&std::fs::read_to_string("/proc/self/limits")?, connections * 8 / 5)?;
    let call = Call::tool("/mcp/default/select".to_owned(), "items-4", Era::Legacy)?;
    let Warm { server, before, .. } = &Warm::start(cores, tamis, &call).await?;
    let mut senders = Vec::with_capacity(connections);
    for number in 0..connections {
        let host = u8::try_from(2 + number / OF_ONE_ADDRESS).context("too many connections")?;
        senders.push(Sender::http1_from(Ipv4Addr::new(127, 0, 0, host), server.port).await?);
    }
    settle().await;
    let unused = server.memory()?;
    let request = call.request(server.port, Protocol::Http1)?;
    // Several at a time: the gateway closes connections that are idle for a minute.
    let mut calling = JoinSet::new();
    let mut rest = senders.into_iter();
    for _ in 0..CALLERS {
        let mut part: Vec<Sender> = rest.by_ref().take(connections.div_ceil(CALLERS)).collect();
        let request = request.clone();
        calling.spawn_local(async move {
            for sender in &mut part {
                sender.call(request.clone()).await?;
            }
            anyhow::Ok(part)
        });
    }
    let senders = calling.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    settle().await;
    let used = server.memory()?;
    // Connections that the gateway closed in the meantime would make the others look small.
    let closed = senders.iter().flatten().filter(|sender| sender.is_closed()).count();
    ensure!(closed == 0, "the gateway closed {closed} of {connections} connections");
    let each = |resident: u64| resident.saturating_sub(*before) as f64 / connections as f64;
    Ok(Idle { connections, each_unused: each(unused), each_used: each(used) })
}

/// The memory of a process with calls in flight.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Held {
    pub(crate) calls: usize,
    pub(crate) seconds: u32,
    /// Private resident memory for each call in flight, with its connections to the caller and to the server, in bytes.
    pub(crate) each: f64,
}

/// Makes calls of an MCP server that take 30 s and report progress each second, all at once, and reads the memory of
/// `tamis serve` in between.
pub(crate) async fn held(cores: &Cores, tamis: &Path, calls: usize) -> Result<Held> {
    eprintln!("memory of {calls} calls in flight");
    // One to the caller and one to the server; the gateway keeps three eighths of its files for upstreams and itself.
    files_allow(&std::fs::read_to_string("/proc/self/limits")?, calls * 8 / 3)?;
    let first = Call::tool("/mcp/default/mcp-held".to_owned(), "items-4", Era::Legacy)?;
    let Warm { server, before, .. } = &Warm::start(cores, tamis, &first).await?;
    let request =
        Call::with_progress("/mcp/default/mcp-held".to_owned(), HELD)?.request(server.port, Protocol::Http1)?;
    let mut calling = JoinSet::new();
    for number in 0..calls {
        let host = u8::try_from(2 + number / STREAMS_OF_ONE_ADDRESS).context("too many calls")?;
        let mut sender = Sender::http1_from(Ipv4Addr::new(127, 0, 0, host), server.port).await?;
        let request = request.clone();
        calling.spawn_local(async move { sender.call(request).await });
    }
    tokio::time::sleep(Duration::from_secs(u64::from(HELD_SECONDS / 2))).await;
    let during = server.memory()?;
    ensure!(calling.try_join_next().is_none(), "a call ended early: fewer than {calls} were in flight");
    for length in calling.join_all().await {
        // Each event of progress has more than 100 bytes.
        ensure!(length? > 100 * HELD_SECONDS as usize, "an answer has no progress");
    }
    Ok(Held { calls, seconds: HELD_SECONDS, each: during.saturating_sub(*before) as f64 / calls as f64 })
}

/// What one address may have in flight as streams: the gateway refuses it more than 512.
const STREAMS_OF_ONE_ADDRESS: usize = 250;

/// Waits until a process has finished what it does after a change.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}
