//! Upstreams that never pause: the call ends, and other calls are served meanwhile.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::support::{Server, arguments, bounds, call, call_within, client, context, document, given, room, within};
use crate::upstream::transport::{MAX_HEAD, MAX_HEADERS, MAX_INFORMATIONAL};
use crate::upstream::{CallBounds, Client, Upstream, UpstreamError};

/// A server on threads of its own, which sends `head`, and then `again` as long as it is taken. Without any `again` it waits
/// until the connection is closed.
struct Flood {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Bytes that the other side, and what is between, have taken.
    taken: Arc<AtomicUsize>,
    /// Connections that have ended.
    ended: Arc<AtomicUsize>,
}

impl Flood {
    fn start(head: &[u8], again: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let flood = Self { address, connections: Arc::default(), taken: Arc::default(), ended: Arc::default() };
        let (connections, taken, ended) =
            (Arc::clone(&flood.connections), Arc::clone(&flood.taken), Arc::clone(&flood.ended));
        let (head, again) = (head.to_vec(), again.repeat((16 << 10) / again.len().max(1) + 1));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (taken, ended, head, again) = (Arc::clone(&taken), Arc::clone(&ended), head.clone(), again.clone());
                std::thread::spawn(move || {
                    send(stream.unwrap(), &head, &again, &taken);
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        flood
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn send(mut stream: TcpStream, head: &[u8], again: &[u8], taken: &AtomicUsize) {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request);
    if stream.write_all(head).is_err() {
        return;
    }
    while !again.is_empty() && stream.write_all(again).is_ok() {
        taken.fetch_add(again.len(), Ordering::SeqCst);
    }
    while stream.read(&mut request).is_ok_and(|read| read > 0) {}
}

const HINT: &[u8] = b"HTTP/1.1 103 Early Hints\r\n\r\n";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
/// What the buffers of a connection hold on this machine and any other, and some more.
const BUFFERED: usize = 32 << 20;

/// Calls through one client, so through one pool of connections.
pub(super) async fn call_by(client: &Arc<Client>, url: &str, bounds: CallBounds) -> Result<(), UpstreamError> {
    let upstream = Upstream::new(&Arc::new(document(url, None, json!({}))), Arc::clone(client)).unwrap();
    upstream.call("call", &arguments("{}"), context(bounds, given(), &mut room())).await.map(|_| ())
}

/// Four endless answers of a flood at `url` delay neither other calls nor the time limit of one more. `client` makes the client of
/// each; `taken` counts the bytes of the flood.
pub(super) async fn floods_delay_nothing(
    name: &str,
    (url, taken): (&str, &AtomicUsize),
    client: impl Fn() -> Arc<Client>,
    limit: Duration,
) {
    let (own, other) = (client(), Server::start(|_, _| "{}").await);
    let floods: Vec<_> = (0..4)
        .map(|_| {
            let (client, url) = (client(), url.to_owned());
            tokio::spawn(async move { call_by(&client, &url, within(Duration::from_secs(600), 1 << 40)).await })
        })
        .collect();
    while taken.load(Ordering::SeqCst) < 1 << 20 {
        tokio::task::yield_now().await;
    }
    for _ in 0..5 {
        call_by(&own, &other.url(), within(Duration::from_secs(120), 1 << 20)).await.unwrap();
    }
    let limited = call_by(&own, url, within(limit, 1 << 40)).await;
    assert!(matches!(limited, Err(UpstreamError::Timeout { sent: true })), "{name}: {limited:?}");
    assert!(floods.iter().all(|flooded| !flooded.is_finished()), "{name}");
    floods.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn informational_responses_are_counted() {
    let answer =
        |hints: u32| [HINT.repeat(hints as usize), b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec()].concat();
    let few = Flood::start(&answer(MAX_INFORMATIONAL), b"");
    assert_eq!(call(&document(&few.url(), None, json!({})), "{}").await.unwrap().output.bytes(), "{}");
    let many = Flood::start(&answer(MAX_INFORMATIONAL + 1), b"");
    let error = call(&document(&many.url(), None, json!({})), "{}").await.unwrap_err();
    assert_eq!(error.to_string(), "the upstream's answer sends more than 16 informational responses");
    assert_eq!(many.connections.load(Ordering::SeqCst), 1, "and the call is not repeated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_stream_of_informational_responses_ends_the_call_and_no_other() {
    let (flood, other) = (Flood::start(b"", HINT), Server::start(|_, _| "{}").await);
    let client = client();
    // As many as there are serving threads, and more.
    let floods: Vec<_> = (0..4)
        .map(|_| {
            let (client, url) = (Arc::clone(&client), flood.url());
            tokio::spawn(async move { call_by(&client, &url, within(Duration::from_secs(120), 1 << 20)).await })
        })
        .collect();
    call_by(&client, &other.url(), within(Duration::from_secs(120), 1 << 20)).await.unwrap();
    for flooded in floods {
        let error = flooded.await.unwrap().unwrap_err();
        assert!(matches!(&error, UpstreamError::Malformed(reason) if reason.contains("informational")), "{error:?}");
    }
    assert_eq!(flood.connections.load(Ordering::SeqCst), 4);
    // The connections are closed, which ends what the upstream can send.
    while flood.ended.load(Ordering::SeqCst) < 4 {
        tokio::task::yield_now().await;
    }
    let taken = flood.taken.load(Ordering::SeqCst);
    assert!(taken < 4 * BUFFERED, "{taken} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_small_chunks_keep_neither_the_time_limit_nor_other_calls_waiting() {
    for (name, head, again) in [
        ("one byte", CHUNKED, b"1\r\n \r\n".as_slice()),
        // Compressed members without content: 20 bytes in a chunk each.
        (
            "gzip",
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n",
            b"14\r\n\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0\r\n",
        ),
        // A skippable frame of zstd without content.
        (
            "zstd",
            b"HTTP/1.1 200 OK\r\ncontent-encoding: zstd\r\ntransfer-encoding: chunked\r\n\r\n",
            b"8\r\n\x50\x2a\x4d\x18\0\0\0\0\r\n",
        ),
    ] {
        let (flood, client) = (Flood::start(head, again), client());
        let limit = Duration::from_millis(300);
        floods_delay_nothing(name, (&flood.url(), &flood.taken), || Arc::clone(&client), limit).await;
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_said_to_be() {
    let head = |headers: usize, bytes: usize| {
        let mut head = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n".to_vec();
        for i in 1..headers {
            head.extend_from_slice(format!("x-{i}: {}\r\n", "v".repeat(bytes / headers)).as_bytes());
        }
        head.extend_from_slice(b"\r\n{}");
        head
    };
    for (headers, bytes, fits) in
        [(MAX_HEADERS, 0, true), (MAX_HEADERS + 1, 0, false), (2, MAX_HEAD - 1024, true), (2, 8 * MAX_HEAD, false)]
    {
        let server = Flood::start(&head(headers, bytes), b"");
        let result = call_within(&document(&server.url(), None, json!({})), "{}", bounds()).await;
        let expected = (!fits)
            .then(|| "the upstream's answer has more than 128 headers, or more than 65536 bytes of them".to_owned());
        assert_eq!(result.err().map(|error| error.to_string()), expected, "{headers} headers, {bytes} bytes");
        assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    }
}
