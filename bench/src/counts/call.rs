//! A call through a whole gateway over its standard input and output, to a real upstream that counts.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread;

use allocation_counter::AllocationInfo;
use serde_json::json;
use tamis_config::{ExpositionDocument, ExpositionId, FORMAT_VERSION, ServiceDocument, Snapshot};
use tamis_gateway::upstream::LocalCredentials;
use tamis_gateway::{Gateway, Options};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf};
use tokio_util::sync::CancellationToken;

use crate::payload;

/// Calls before the counted ones, to open connections and fill tables.
const WARM: usize = 20;
/// Counted calls. Their minimum is recorded, because a timer or a growing table adds to some of them.
const COUNTED: usize = 50;
/// Sizes of answers. Each is small enough for one read.
const ANSWERS: [usize; 2] = [2_000, 12_000];

/// The numbers of reads and writes.
#[derive(Debug, Default)]
struct Tally {
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Tally {
    fn now(&self) -> [u64; 2] {
        [self.reads.load(Ordering::SeqCst), self.writes.load(Ordering::SeqCst)]
    }
}

/// A stream that counts the reads and writes that moved bytes.
#[derive(Debug)]
struct Counted(DuplexStream, Arc<Tally>);

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.0).poll_read(cx, buf);
        self.1.reads.fetch_add(u64::from(polled.is_ready()), Ordering::SeqCst);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.0).poll_write(cx, buf);
        self.1.writes.fetch_add(u64::from(polled.is_ready()), Ordering::SeqCst);
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Starts a server on its own threads that answers every request with `body` and counts the reads of a request. Returns
/// its URL.
fn upstream(body: Vec<u8>, tally: Arc<Tally>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (body, tally) = (body.clone(), Arc::clone(&tally));
            thread::spawn(move || answer(stream.expect("a connection"), &body, &tally));
        }
    });
    url
}

fn answer(mut stream: TcpStream, body: &[u8], tally: &Tally) {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len())
            .into_bytes();
    answer.extend_from_slice(body);
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        tally.reads.fetch_add(1, Ordering::SeqCst);
        head.extend_from_slice(&buffer[..read]);
        // A GET has no body.
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            stream.write_all(&answer).expect("the gateway reads");
        }
    }
}

fn documents(url: &str) -> Snapshot {
    let service = json!({
        "formatVersion": FORMAT_VERSION, "name": "issues", "version": "1",
        "source": {"http": {"baseUrl": url}},
        "tools": {"list": {
            "inputSchema": {"type": "object", "properties": {"state": {"type": "string"}}},
            "call": {"http": {"method": "GET", "path": "/issues", "request": {"query": {"state": "{state}"}}}},
        }},
    });
    let service: ServiceDocument = serde_json::from_str(&service.to_string()).expect("a service");
    let filter = json!({"root": "", "select": {"number": "number", "title": "title", "by": "user.login"}});
    let exposition = json!({
        "formatVersion": FORMAT_VERSION, "id": id(), "service": service.digest(), "enforcement": "Enforced",
        "tools": {"list": {"filter": filter}}, "access": "anonymous",
    });
    let exposition: ExpositionDocument = serde_json::from_str(&exposition.to_string()).expect("an exposition");
    Snapshot {
        services: [(service.digest(), Arc::new(service))].into(),
        expositions: [(id(), Arc::new(exposition))].into(),
        ..Snapshot::default()
    }
}

fn id() -> ExpositionId {
    ExpositionId { namespace: "default".to_owned(), name: "issues".to_owned() }
}

/// Makes one call: a line in, a line out. Allocates nothing itself.
async fn call(client: &mut DuplexStream, line: &[u8], buffer: &mut [u8]) -> usize {
    client.write_all(line).await.expect("the gateway reads");
    let mut filled = 0;
    while !buffer[..filled].ends_with(b"\n") {
        filled += client.read(&mut buffer[filled..]).await.expect("the gateway answers");
    }
    filled
}

/// Returns the minimum over some calls.
#[derive(Debug)]
struct Least {
    allocations: u64,
    bytes: u64,
    reads: u64,
    writes: u64,
    upstream: u64,
    answered: usize,
    input: usize,
}

/// Returns the counts of calls. Of the bytes that a call allocates, only those that a larger answer adds are recorded:
/// the others are the sizes of the gateway's own types, which change with every field.
pub(super) fn table() -> String {
    let calls = ANSWERS.map(least);
    let mut out = String::from("\na call of a tool, from standard input to HTTP and back\n");
    for Least { allocations, bytes: _, reads, writes, upstream, answered, input } in &calls {
        writeln!(
            out,
            "{input} bytes of issues, {answered} bytes of an answer: {allocations} allocations, {reads} reads of the client, \
             {writes} writes to it, {upstream} reads of a request at the upstream"
        )
        .expect("memory");
    }
    let [small, large] = calls;
    let (input, bytes) = (large.input - small.input, large.bytes - small.bytes);
    writeln!(out, "{input} bytes more of issues: {bytes} bytes more are allocated").expect("memory");
    out
}

fn least(size: usize) -> Least {
    let body = payload::issues(size);
    let issues = body.len();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (at_upstream, at_client) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
    let url = upstream(body, Arc::clone(&at_upstream));
    let gateway = Gateway::new(Options::new(Arc::new(LocalCredentials::new(None)))).expect("a gateway");
    let report = gateway.apply(&documents(&url));
    assert!(report.failed.is_empty(), "{report:?}");
    let (mut client, server) = tokio::io::duplex(1 << 20);
    let (input, output) = tokio::io::split(Counted(server, Arc::clone(&at_client)));
    let session = async move { gateway.serve_stdio(&id(), input, output, CancellationToken::new()).await };
    let session = runtime.spawn(session);
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "list", "arguments": {"state": "open"}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let line = format!("{line}\n").into_bytes();
    let mut buffer = vec![0; 1 << 16];
    let mut answered = 0;
    for _ in 0..WARM {
        answered = runtime.block_on(call(&mut client, &line, &mut buffer));
    }
    let text = String::from_utf8_lossy(&buffer[..answered]).into_owned();
    assert!(text.contains("result") && !text.contains("isError\":true"), "{text}");
    let counted =
        (0..COUNTED).map(|_| {
            let before = [at_client.now(), at_upstream.now()];
            let AllocationInfo {
                count_total,
                bytes_total,
                bytes_max: _,
                count_current: _,
                count_max: _,
                bytes_current: _,
            } = allocation_counter::measure(|| {
                runtime.block_on(call(&mut client, &line, &mut buffer));
            });
            let after = [at_client.now(), at_upstream.now()];
            let [reads, writes] = [0, 1].map(|which| after[0][which] - before[0][which]);
            [count_total, bytes_total, reads, writes, after[1][0] - before[1][0]]
        });
    let counted: Vec<[u64; 5]> = counted.collect();
    let least: [u64; 5] = std::array::from_fn(|column| counted.iter().map(|row| row[column]).min().expect("a call"));
    drop(client);
    runtime.block_on(session).expect("ends").expect("no error");
    let [allocations, bytes, reads, writes, upstream] = least;
    Least { allocations, bytes, reads, writes, upstream, answered, input: issues }
}
