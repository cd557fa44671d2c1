use std::sync::atomic::AtomicUsize;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::*;
use crate::upstream::client::{ClientOptions, IdleLimits};
use crate::upstream::egress::{EgressPolicy, Resolver};
use crate::upstream::origin::Origin;
use crate::upstream::transport::{Failed, Transport};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const LATER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";

/// What an upstream does after a request.
#[derive(Debug, Clone, Copy)]
enum Then {
    /// Reads the next request.
    Next,
    /// Closes the connection, without having said so.
    Close,
}

/// An upstream that counts its connections and its requests.
struct Upstream {
    origin: Origin,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
}

impl Upstream {
    /// Answers every request with `answer`.
    async fn start(answer: &'static [u8], then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let upstream = Self {
            origin: Origin::of(&url).unwrap(),
            connections: Arc::default(),
            requests: Arc::default(),
            open: Arc::default(),
        };
        let (connections, requests, open) =
            (Arc::clone(&upstream.connections), Arc::clone(&upstream.requests), Arc::clone(&upstream.open));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::SeqCst);
                open.fetch_add(1, Ordering::SeqCst);
                let (requests, open) = (Arc::clone(&requests), Arc::clone(&open));
                tokio::spawn(async move {
                    serve(stream, answer, then, &requests).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        upstream
    }

    fn counts(&self) -> (usize, usize) {
        (self.connections.load(Ordering::SeqCst), self.requests.load(Ordering::SeqCst))
    }

    async fn has_open(&self, connections: usize) {
        while self.open.load(Ordering::SeqCst) != connections {
            tokio::task::yield_now().await;
        }
    }
}

async fn serve(mut stream: TcpStream, answer: &[u8], then: Then, requests: &AtomicUsize) {
    let mut read = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut read).await {
        if !read.ends_with(b"\r\n\r\n") {
            continue;
        }
        read.clear();
        requests.fetch_add(1, Ordering::SeqCst);
        stream.write_all(answer).await.unwrap();
        if let Then::Close = then {
            return;
        }
    }
}

fn transport(max_idle: usize) -> Transport {
    limited_transport(max_idle, 1_024)
}

fn limited_transport(per_host: usize, total: usize) -> Transport {
    let options = ClientOptions { idle: IdleLimits { per_host, total }, ..ClientOptions::default() };
    Transport::new(&options, std::num::NonZero::<usize>::MIN, Resolver(Arc::new(EgressPolicy::standalone()))).unwrap()
}

fn request(origin: &Origin) -> Request<Full<Bytes>> {
    Request::get("/").header("host", origin.header()).body(Full::default()).unwrap()
}

/// Sends a request and reads the answer.
async fn exchange(transport: &Transport, upstream: &Upstream) -> Result<Vec<u8>, Failed> {
    let mut received = transport.send(&upstream.origin, request(&upstream.origin)).await?;
    let mut body = Vec::new();
    while let Some(chunk) = received.chunk().await.map_err(Failed::Broken)? {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[tokio::test]
async fn a_connection_serves_one_call_after_the_other() {
    let (upstream, transport) = (Upstream::start(OK, Then::Next).await, transport(64));
    for _ in 0..100 {
        assert_eq!(exchange(&transport, &upstream).await.unwrap(), b"ok");
    }
    assert_eq!(upstream.counts(), (1, 100));
}

#[tokio::test]
async fn calls_at_once_have_a_connection_each_and_so_many_are_kept() {
    let (upstream, transport) = (Upstream::start(OK, Then::Next).await, transport(3));
    let all = futures_util::future::join_all((0..10).map(|_| exchange(&transport, &upstream))).await;
    assert!(all.into_iter().all(|answer| answer.unwrap() == b"ok"));
    assert_eq!(upstream.counts(), (10, 10));
    upstream.has_open(3).await;
    drop(transport);
    upstream.has_open(0).await;
}

#[tokio::test]
async fn the_host_with_the_most_connections_loses_them_to_others() {
    let hosts = futures_util::future::join_all((0..5).map(|_| Upstream::start(OK, Then::Next))).await;
    let transport = limited_transport(8, 10);
    for (at, calls) in [(0, 8), (1, 3), (2, 2), (3, 1), (4, 1)] {
        let all = futures_util::future::join_all((0..calls).map(|_| exchange(&transport, &hosts[at]))).await;
        assert!(all.into_iter().all(|answer| answer.unwrap() == b"ok"));
    }
    for (host, open) in hosts.iter().zip([3, 3, 2, 1, 1]) {
        host.has_open(open).await;
    }
    for host in &hosts {
        let before = host.counts();
        assert_eq!(exchange(&transport, host).await.unwrap(), b"ok");
        assert_eq!(host.counts(), (before.0, before.1 + 1), "no further connection");
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_while_it_was_unused_fails_no_call() {
    let (upstream, transport) = (Upstream::start(OK, Then::Close).await, transport(64));
    for i in 1..=50 {
        assert_eq!(exchange(&transport, &upstream).await.unwrap(), b"ok");
        upstream.has_open(0).await;
        assert_eq!(upstream.counts(), (i, i));
    }
}

#[tokio::test]
async fn an_answer_that_says_so_ends_its_connection() {
    let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let (upstream, transport) = (Upstream::start(answer, Then::Next).await, transport(64));
    for i in 1..=2 {
        assert_eq!(exchange(&transport, &upstream).await.unwrap(), b"ok");
        assert_eq!(upstream.counts(), (i, i));
        upstream.has_open(0).await;
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection() {
    let (upstream, transport) = (Upstream::start(LATER, Then::Next).await, transport(64));
    let mut received = transport.send(&upstream.origin, request(&upstream.origin)).await.unwrap();
    upstream.has_open(1).await;
    let mut chunk = Box::pin(received.chunk());
    assert!(futures_util::poll!(&mut chunk).is_pending());
    drop(chunk);
    drop(received);
    upstream.has_open(0).await;
    // Before the head of the answer, too.
    let (upstream, transport) = (Upstream::start(b"", Then::Next).await, transport);
    let mut sending = Box::pin(transport.send(&upstream.origin, request(&upstream.origin)));
    while upstream.counts() != (1, 1) {
        assert!(futures_util::poll!(&mut sending).is_pending());
        tokio::task::yield_now().await;
    }
    drop(sending);
    upstream.has_open(0).await;
}

#[tokio::test]
async fn an_answer_that_is_cut_is_an_error_and_its_connection_is_not_used_again() {
    let (upstream, transport) = (Upstream::start(LATER, Then::Close).await, transport(64));
    for i in 1..=2 {
        assert!(matches!(exchange(&transport, &upstream).await, Err(Failed::Broken(_))));
        assert_eq!(upstream.counts(), (i, i));
    }
}

#[tokio::test]
async fn unused_connections_are_looked_at_until_there_are_none() {
    let pool = Pool::new(4, 4);
    let authority = Authority::from_static("upstream:80");
    let mut peers = Vec::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for _ in 0..2 {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let paced = crate::upstream::pace::Paced::new(stream);
        let io = hyper_rustls::MaybeHttpsStream::Http(hyper_util::rt::TokioIo::new(paced));
        pool.put(authority.clone(), Connection::new(io).await.unwrap());
        peers.push(listener.accept().await.unwrap().0);
    }
    assert!(pool.is_swept.load(Ordering::Relaxed));
    assert!(pool.close_unusable(), "both are open");
    peers.pop();
    while pool.idle().connections[&authority].len() == 2 {
        tokio::task::yield_now().await;
        assert!(pool.close_unusable());
    }
    assert!(pool.take(&authority).is_some());
    assert!(pool.take(&authority).is_none());
    assert!(!pool.close_unusable() && pool.idle().connections.is_empty());
    assert_eq!(pool.idle().count, 0);
}
