//! Measures calls a second and latency.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::process::Server;
use crate::targets::{Call, load_folder};

/// The result of one measurement of one target.
struct Measured {
    /// Latency of each call, sorted.
    latencies: Vec<Duration>,
    /// CPU time of the target.
    cpu: Duration,
    /// Bytes of the last answer.
    answer: usize,
}

/// Runs all measurements and prints the tables.
pub(crate) async fn run(tamis: &Path, sizes: &[usize], rounds: usize, calls: usize, connections: usize) -> Result<()> {
    let upstream = Server::own(&["upstream"])?;
    let proxy = Server::own(&["proxy", &format!("http://127.0.0.1:{}", upstream.port)])?;
    let folder = tempfile::tempdir()?;
    load_folder(folder.path(), upstream.port, sizes)?;
    let patience = Duration::from_secs(20);
    let gateway = Server::tamis(tamis, folder.path(), &[], patience).await?;
    // Traces every call; the receiver discards the spans.
    let collector = format!("http://127.0.0.1:{}", upstream.port);
    let traced = Server::tamis(tamis, folder.path(), &["--otlp-endpoint", &collector], patience).await?;
    println!(
        "{rounds} rounds of {calls} calls; medians of the rounds; latency with 1 connection, calls a second of the"
    );
    println!("target's own CPU time with {connections} connections\n");
    println!(
        "{:>5}  {:<12} {:>9} {:>12} {:>8} {:>9} {:>9} {:>10} {:>10}",
        "kB", "target", "answer B", "calls/s/core", "of proxy", "p50 us", "p99 us", "+p50 us", "+p99 us"
    );
    for &kb in sizes {
        let targets: [(&str, &Server, Call); 5] = [
            ("upstream", &upstream, Call::get(kb)),
            ("proxy", &proxy, Call::get(kb)),
            ("tamis plain", &gateway, Call::tool("plain", kb)),
            ("tamis filter", &gateway, Call::tool("filtered", kb)),
            ("tamis traced", &traced, Call::tool("filtered", kb)),
        ];
        for (_, server, call) in &targets {
            measure(server, call, calls / 10, connections).await?;
        }
        let mut rows: Vec<Vec<(f64, f64, f64, usize)>> = vec![Vec::new(); targets.len()];
        for _ in 0..rounds {
            for (row, (_, server, call)) in rows.iter_mut().zip(&targets) {
                let busy = measure(server, call, calls, connections).await?;
                let calm = measure(server, call, calls / 2, 1).await?;
                let rate = calls as f64 / busy.cpu.as_secs_f64().max(0.001);
                row.push((rate, micros(&calm.latencies, 50), micros(&calm.latencies, 99), calm.answer));
            }
        }
        let middle = |row: &[(f64, f64, f64, usize)]| {
            (
                median(row.iter().map(|m| m.0)),
                median(row.iter().map(|m| m.1)),
                median(row.iter().map(|m| m.2)),
                row[0].3,
            )
        };
        let reference = middle(&rows[1]);
        for (row, (name, _, _)) in rows.iter().zip(&targets) {
            let (rate, p50, p99, answer) = middle(row);
            println!(
                "{kb:>5}  {name:<12} {answer:>9} {rate:>12.0} {:>7.0}% {p50:>9.0} {p99:>9.0} {:>10.0} {:>10.0}",
                100.0 * rate / reference.0,
                p50 - reference.1,
                p99 - reference.2
            );
        }
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn micros(sorted: &[Duration], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100].as_secs_f64() * 1e6
}

/// Makes `calls` calls over `connections` connections, each in a closed loop.
async fn measure(server: &Server, call: &Call, calls: usize, connections: usize) -> Result<Measured> {
    let before = server.cpu()?;
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..connections {
        workers.spawn(worker(server.port, call.clone(), calls.div_ceil(connections)));
    }
    let (mut latencies, mut answer) = (Vec::with_capacity(calls), 0);
    while let Some(done) = workers.join_next().await {
        let (mut some, size) = done??;
        latencies.append(&mut some);
        answer = size;
    }
    latencies.sort_unstable();
    Ok(Measured { latencies, cpu: server.cpu()?.saturating_sub(before), answer })
}

async fn worker(port: u16, call: Call, calls: usize) -> Result<(Vec<Duration>, usize)> {
    let mut sender = connect(port).await?;
    let (mut latencies, mut answer) = (Vec::with_capacity(calls), 0);
    for _ in 0..calls {
        let start = Instant::now();
        answer = send(&mut sender, port, &call).await?;
        latencies.push(start.elapsed());
    }
    Ok((latencies, answer))
}

async fn connect(port: u16) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Makes one call and returns the size of the answer. Fails unless the call succeeded.
async fn send(sender: &mut SendRequest<Full<Bytes>>, port: u16, call: &Call) -> Result<usize> {
    let mut request = Request::builder().uri(&call.path).header(header::HOST, format!("127.0.0.1:{port}"));
    if !call.body.is_empty() {
        request = request
            .method("POST")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2025-06-18");
    }
    sender.ready().await?;
    let response = sender.send_request(request.body(Full::new(call.body.clone()))?).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    ensure!(status.is_success(), "{} answered {status}: {}", call.path, String::from_utf8_lossy(&body));
    if !call.body.is_empty() {
        let head = body.get(..body.len().min(4096)).context("empty answer")?;
        ensure!(
            !contains(head, b"\"isError\":true") && !contains(head, b"\"error\":"),
            "{} failed: {}",
            call.path,
            String::from_utf8_lossy(head)
        );
    }
    Ok(body.len())
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|w| w == needle)
}
