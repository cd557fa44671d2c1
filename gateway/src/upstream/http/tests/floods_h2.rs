//! The same over HTTP/2: frames without end. And requests that the server says it has not processed.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::floods::{call_by, floods_delay_nothing};
use super::support::{arguments, context, document, given, room, within};
use super::tls::acceptor;
use crate::upstream::{Client, ClientOptions, Upstream, UpstreamError};

/// RFC 9113, 4.1: type, flags, stream, payload.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200`, of the static table.
const OK: &[u8] = b"\x88";
/// `:status: 103`, spelled out.
const HINT: &[u8] = b"\x08\x03103";

/// A server with a runtime of its own, on a thread of its own: it answers the first requests of each connection
/// with `heads`, and the last of them with `again` too, as long as that is taken.
struct Flood {
    url: String,
    pem: String,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    taken: Arc<AtomicUsize>,
}

impl Flood {
    async fn start(heads: Vec<Vec<u8>>, again: Vec<u8>) -> Self {
        let (acceptor, pem) = acceptor(&["h2"]);
        let (url, listening) = tokio::sync::oneshot::channel();
        let (connections, requests, taken): (Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let counters = (Arc::clone(&connections), Arc::clone(&requests), Arc::clone(&taken));
        let again = again.repeat((16 << 10) / again.len().max(1));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                url.send(format!("https://localhost:{}", listener.local_addr().unwrap().port())).unwrap();
                loop {
                    let (tcp, _) = listener.accept().await.unwrap();
                    counters.0.fetch_add(1, Ordering::SeqCst);
                    let (requests, taken) = (Arc::clone(&counters.1), Arc::clone(&counters.2));
                    tokio::spawn(serve(tcp, acceptor.clone(), heads.clone(), again.clone(), requests, taken));
                }
            });
        });
        Self { url: listening.await.unwrap(), pem, connections, requests, taken }
    }
}

/// Ends when the connection does.
async fn serve(
    tcp: tokio::net::TcpStream,
    acceptor: TlsAcceptor,
    heads: Vec<Vec<u8>>,
    again: Vec<u8>,
    requests: Arc<AtomicUsize>,
    taken: Arc<AtomicUsize>,
) -> Option<()> {
    let (mut reader, mut writer) = tokio::io::split(acceptor.accept(tcp).await.ok()?);
    writer.write_all(&[frame(SETTINGS, 0, 0, b""), frame(SETTINGS, ACK, 0, b"")].concat()).await.ok()?;
    let mut preface = [0; 24];
    reader.read_exact(&mut preface).await.ok()?;
    for head in heads {
        // Up to the request.
        loop {
            let mut header = [0; 9];
            reader.read_exact(&mut header).await.ok()?;
            let mut payload = vec![0; usize::from(u16::from_be_bytes([header[1], header[2]]))];
            reader.read_exact(&mut payload).await.ok()?;
            if header[3] == HEADERS {
                break;
            }
        }
        requests.fetch_add(1, Ordering::SeqCst);
        writer.write_all(&head).await.ok()?;
    }
    // What the other side sends is of no interest, but it must not be held up by it.
    let rest = tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    if again.is_empty() {
        rest.await.ok()?.ok()?;
        return None;
    }
    loop {
        writer.write_all(&again).await.ok()?;
        taken.fetch_add(again.len(), Ordering::SeqCst);
    }
}

fn trusting(flood: &Flood) -> Arc<Client> {
    let extra_roots = vec![flood.pem.clone().into_bytes()];
    Arc::new(Client::new(ClientOptions { extra_roots, ..ClientOptions::default() }, NonZero::<usize>::MIN).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_frames_keep_neither_the_time_limit_nor_other_calls_waiting() {
    for (name, head, again) in [
        ("informational", vec![], frame(HEADERS, END_HEADERS, 1, HINT)),
        ("ping", vec![], frame(PING, 0, 0, &[0; 8])),
        ("unknown", vec![], frame(0xbb, 0, 0, b"")),
    ] {
        let flood = Flood::start(vec![head], again).await;
        // A client each, so a connection each: more than there are serving threads.
        floods_delay_nothing(name, (&flood.url, &flood.taken), || trusting(&flood), Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn frames_that_say_little_end_the_connection() {
    for (name, head, again) in [
        ("continuation", frame(HEADERS, 0, 1, OK), frame(CONTINUATION, 0, 1, b"\x40\x01a\x01b")),
        ("empty continuation", frame(HEADERS, 0, 1, OK), frame(CONTINUATION, 0, 1, b"")),
        ("one byte of data", frame(HEADERS, END_HEADERS, 1, OK), frame(DATA, 0, 1, b" ")),
        ("empty data", frame(HEADERS, END_HEADERS, 1, OK), frame(DATA, 0, 1, b"")),
    ] {
        let flood = Flood::start(vec![head], again).await;
        let error =
            call_by(&trusting(&flood), &flood.url, within(Duration::from_secs(600), 1 << 40)).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Unreachable { reason: "reset", sent: true }), "{name}: {error:?}");
        // Once, and once more since a GET is repeated.
        assert_eq!(flood.connections.load(Ordering::SeqCst), 2, "{name}");
    }
}

#[tokio::test]
async fn a_request_that_the_server_has_not_processed_is_sent_again() {
    const REFUSED_STREAM: u8 = 7;
    const INTERNAL_ERROR: u8 = 2;
    let reset = |stream, error| frame(RESET, 0, stream, &[0, 0, 0, error]);
    let answer = |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, OK);
    let refused = |stream| reset(stream, REFUSED_STREAM);
    for (heads, requests, succeeds) in [
        (vec![refused(1), answer(3)], 2, true),
        (vec![refused(1), refused(3), answer(5)], 3, true),
        (vec![refused(1), refused(3), refused(5), answer(7)], 3, false),
        (vec![reset(1, INTERNAL_ERROR), answer(3)], 1, false),
    ] {
        let server = Flood::start(heads, vec![]).await;
        // A POST, which is not sent again where it may have been processed.
        let document = document(&server.url, None, json!({"call": {"http": {"method": "POST"}}}));
        let upstream = Upstream::new(&Arc::new(document), trusting(&server)).unwrap();
        let bounds = within(Duration::from_secs(120), 1 << 20);
        let result = upstream.call("call", &arguments("{}"), context(bounds, given(), &mut room())).await;
        assert_eq!((result.is_ok(), server.requests.load(Ordering::SeqCst)), (succeeds, requests), "{result:?}");
    }
}
