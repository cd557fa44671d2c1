//! A client with one connection, and a gateway whose workers tell which of them serves it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tamis_config::{Access, CredentialHandle, CredentialRef, ExpositionDocument};
use tamis_engine::Enforcement::Advisory;
use tamis_gateway::upstream::{Credentials, Secret};
use tamis_gateway::{Callers, GatewayLimits, Options};
use tokio::net::TcpStream;

use crate::support::{MODERN, Running, Upstream, exposition, service, snapshot, start, tool, with_workers};

pub(crate) const KEY: &str = "0123-alice-4567";
/// A Secret that has no key of these clients.
pub(crate) const OTHERS: &str = "others";
/// The Secret of the exposition `held`.
const HELD: &str = "held";

/// The protocol era of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// A message to an exposition.
pub(crate) fn message(
    running: &Running,
    name: &str,
    era: Era,
    method: &str,
    mut params: Value,
) -> Request<Full<Bytes>> {
    let mut request = Request::post(running.url(name))
        .header("host", running.address.to_string())
        .header("authorization", format!("Bearer {KEY}"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    match era {
        Era::Legacy => request = request.header("mcp-protocol-version", "2025-11-25"),
        Era::Modern => {
            request = request.header("mcp-protocol-version", MODERN).header("mcp-method", method);
            if let Some(name) = params["name"].as_str() {
                request = request.header("mcp-name", name);
            }
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
    }
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    request.body(message.to_string().into()).unwrap()
}

/// A call of the tool `read`.
pub(crate) fn call(running: &Running, name: &str, era: Era) -> Request<Full<Bytes>> {
    message(running, name, era, "tools/call", json!({"name": "read"}))
}

/// Reads a response to its end.
pub(crate) async fn read(response: Response<Incoming>) -> hyper::Result<(u16, Value)> {
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await?.to_bytes();
    let text = String::from_utf8_lossy(&bytes);
    Ok((status, serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned()))))
}

/// A connection over HTTP/1.1.
pub(crate) struct Wire {
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Wire {
    pub(crate) async fn open(running: &Running) -> Self {
        let stream = TcpStream::connect(running.address).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender }
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn ask(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<(u16, Value)> {
        read(self.send(request).await?).await
    }

    /// Calls the tool `read`.
    pub(crate) async fn call(&mut self, running: &Running, name: &str, era: Era) -> hyper::Result<(u16, Value)> {
        self.ask(call(running, name, era)).await
    }

    /// Opens a legacy stream of notifications, and reads its first event.
    pub(crate) async fn listen(&mut self, running: &Running, name: &str) -> Incoming {
        let request = Request::builder()
            .method(Method::GET)
            .uri(running.url(name))
            .header("host", running.address.to_string())
            .header("authorization", format!("Bearer {KEY}"))
            .header("accept", "text/event-stream");
        let response = self.send(request.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), ": open\n\n");
        body
    }

    /// Waits until the gateway closes the connection.
    pub(crate) async fn closed(mut self) {
        while self.sender.ready().await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}

/// A connection over HTTP/2.
pub(crate) async fn http2(running: &Running) -> http2::SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(running.address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Where threads wait while it is closed.
#[derive(Debug, Default)]
struct Barrier {
    is_closed: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicUsize,
}

impl Barrier {
    fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        drop(self.opened.wait_while(self.is_closed.lock().unwrap(), |is_closed| *is_closed).unwrap());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Opens a barrier when dropped.
pub(crate) struct Held(Arc<Barrier>);

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.is_closed.lock().unwrap() = false;
        self.0.opened.notify_all();
    }
}

/// Credentials that note which threads ask for them. The gateway asks for callers on the worker that serves the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Probe {
    /// The thread that asked last.
    last: Arc<Mutex<String>>,
    /// The folders of the threads below `/proc`.
    threads: Arc<Mutex<BTreeSet<PathBuf>>>,
    /// Where lookups of [`HELD`] wait, and with them the threads that make them.
    barrier: Arc<Barrier>,
}

impl Probe {
    /// Holds up every thread that serves a request to the exposition `held`, until the guard is dropped.
    pub(crate) fn hold(&self) -> Held {
        *self.barrier.is_closed.lock().unwrap() = true;
        Held(Arc::clone(&self.barrier))
    }

    /// The number of threads that are held up.
    pub(crate) fn held_up(&self) -> usize {
        self.barrier.waiting.load(Ordering::SeqCst)
    }

    /// The threads that served a request and still run.
    pub(crate) fn running(&self) -> usize {
        self.threads.lock().unwrap().iter().filter(|folder| folder.exists()).count()
    }

    /// The threads that served a request.
    pub(crate) fn threads(&self) -> usize {
        self.threads.lock().unwrap().len()
    }
}

impl Credentials for Probe {
    fn get(&self, _: &str, _: &CredentialRef) -> Option<Secret> {
        None
    }

    fn callers(&self, _: &str, secret: &str, _: Option<&CredentialHandle>) -> Option<Arc<Callers>> {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        // The admin port asks too, on another thread.
        if !thread.starts_with("tamis-worker-") {
            return None;
        }
        *self.last.lock().unwrap() = thread;
        self.threads
            .lock()
            .unwrap()
            .insert(std::path::Path::new("/proc").join(std::fs::read_link("/proc/thread-self").unwrap()));
        if secret == HELD {
            self.barrier.pass();
        }
        let key = if secret == OTHERS { "another" } else { KEY };
        let hex: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Arc::new(Callers::new(secret, [("alice", format!("sha256:{hex}"))]).unwrap()))
    }
}

/// A gateway with this many workers, an upstream, and two expositions of one tool `read`: `api`, and `held`, which holds up
/// its worker while [`Probe::hold`] says so.
pub(crate) struct TestEnv {
    pub(crate) upstream: Upstream,
    pub(crate) running: Running,
    pub(crate) probe: Probe,
}

impl TestEnv {
    pub(crate) async fn new(workers: usize, limits: GatewayLimits) -> Self {
        let upstream = Upstream::start().await;
        upstream.json("/doc", r#"{"a":"A","b":"B"}"#);
        let probe = Probe::default();
        let credentials = Arc::new(probe.clone());
        let running = start(Options { credentials, limits, ..with_workers(workers) }).await;
        let env = Self { upstream, running, probe };
        env.apply([env.document("api", None), env.held()]);
        env
    }

    /// An exposition of the tool `read`, with a filter.
    pub(crate) fn document(&self, name: &str, filter: Option<&str>) -> ExpositionDocument {
        let service = service(&self.upstream.base, &json!({"read": tool("/doc")}));
        let mut document = exposition(name, &service, Advisory, &[("read", filter)]);
        document.access = Some(Access::ApiKeys { secret: "partners".to_owned(), handle: None });
        document
    }

    /// The exposition `held`.
    pub(crate) fn held(&self) -> ExpositionDocument {
        let mut document = self.document("held", None);
        document.access = Some(Access::ApiKeys { secret: HELD.to_owned(), handle: None });
        document
    }

    /// Serves these and nothing else.
    pub(crate) fn apply(&self, documents: impl IntoIterator<Item = ExpositionDocument>) {
        let service = service(&self.upstream.base, &json!({"read": tool("/doc")}));
        assert_eq!(self.running.gateway.apply(&snapshot(&service, documents)).failed, []);
    }

    /// The name of the thread that serves a connection.
    pub(crate) async fn worker(&self, wire: &mut Wire) -> String {
        let request = message(&self.running, "api", Era::Legacy, "ping", json!({}));
        assert_eq!(wire.ask(request).await.unwrap().0, 200);
        self.probe.last.lock().unwrap().clone()
    }

    /// This many connections.
    pub(crate) async fn open(&self, count: usize) -> Vec<Wire> {
        let mut wires = Vec::with_capacity(count);
        for _ in 0..count {
            wires.push(Wire::open(&self.running).await);
        }
        wires
    }

    /// This many connections to each worker.
    pub(crate) async fn wires(&self, workers: usize, each: usize) -> Vec<Wire> {
        let expected: BTreeMap<String, usize> = (1..=workers).map(|n| (format!("tamis-worker-{n}"), each)).collect();
        let mut found = BTreeMap::new();
        // On a busy machine, a worker may not run for so long that it gets no connections for a while.
        for _ in 0..5 {
            let mut wires = self.open(workers * each).await;
            found = self.spread(&mut wires).await;
            if found == expected {
                return wires;
            }
            drop(wires);
            self.running.until_metric(r#"tamis_memory_bytes{kind="held"}"#, |held| held == 0).await;
        }
        panic!("uneven each time: {found:?}");
    }

    /// How many of these connections each worker serves.
    pub(crate) async fn spread(&self, wires: &mut [Wire]) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for wire in wires {
            *counts.entry(self.worker(wire).await).or_default() += 1;
        }
        counts
    }
}
