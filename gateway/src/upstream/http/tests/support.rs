//! A real HTTP server on loopback, and services that call it.

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::serve::Listener;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri};
use serde_json::{Value, json};
use tamis_config::{CredentialRef, ExpositionId, ServiceDocument};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::compute::Compute;
use crate::input::CannotAsk;
use crate::memory::Reservation;
use crate::metrics::Metrics;
use crate::offload::Offload;
use crate::upstream::{
    Answer, Arguments, CallBounds, CallContext, Client, ClientOptions, CredentialScope, Credentials, Handles,
    InvalidService, Secret, Upstream, UpstreamError,
};

pub(crate) const TOKEN: &str = "s3cr3t-t0ken/+&=";

/// What the server got.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) version: http::Version,
}

impl Seen {
    pub(crate) fn target(&self) -> &str {
        self.uri.path_and_query().map_or("", |t| t.as_str())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().unwrap())
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    /// `answer` gets each request and its number, from 0.
    pub(crate) async fn start<R: IntoResponse + 'static>(
        answer: impl Fn(&Seen, usize) -> R + Send + Sync + 'static,
    ) -> Self {
        Self::listen(tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(), answer)
    }

    /// The same over another transport.
    pub(crate) fn listen<R: IntoResponse + 'static>(
        listener: impl Listener<Addr = SocketAddr>,
        answer: impl Fn(&Seen, usize) -> R + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
        let app = Router::new().fallback(move |request: Request<Body>| {
            let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
            async move {
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
                let one =
                    Seen { method: parts.method, uri: parts.uri, headers: parts.headers, body, version: parts.version };
                let number = {
                    let mut log = log.lock().unwrap();
                    log.push(one.clone());
                    log.len() - 1
                };
                answer(&one, number).into_response()
            }
        });
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, seen, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Credentials of tests: one value for every name but `absent`.
#[derive(Debug)]
pub(crate) struct Given(pub(crate) &'static str);

impl Credentials for Given {
    fn get(&self, _: &str, credential: &CredentialRef) -> Option<Secret> {
        (credential.name != "absent").then(|| Secret::new(self.0))
    }
}

/// The token for every name, as an exposition without handles reads it.
pub(crate) fn given() -> CredentialScope<'static> {
    static BY_NAME: LazyLock<Handles> = LazyLock::new(Handles::default);
    CredentialScope { store: &Given(TOKEN), namespace: "default", handles: &BY_NAME }
}

/// A service document with one tool, `call`. `tool` is merged over what a plain GET of `/` has.
pub(crate) fn document(base: &str, auth: Option<Value>, tool: Value) -> ServiceDocument {
    let mut call = json!({"inputSchema": {"type": "object"}, "call": {"http": {"method": "GET", "path": "/"}}});
    merge(&mut call, tool);
    let mut source = json!({"baseUrl": base});
    if let Some(auth) = auth {
        source["auth"] = auth;
    }
    let document = json!({
        "formatVersion": 1, "name": "test", "version": "1.0.0",
        "source": {"http": source}, "tools": {"call": call},
    });
    // By its text, as documents travel: a `Value` has no raw JSON in it.
    serde_json::from_str(&document.to_string()).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// An input schema with these arguments.
pub(crate) fn schema(names: &[&str]) -> Value {
    let properties: serde_json::Map<_, _> = names.iter().map(|n| ((*n).to_owned(), json!({}))).collect();
    json!({"type": "object", "properties": properties})
}

pub(crate) fn upstream(document: &ServiceDocument) -> Result<Upstream, InvalidService> {
    Upstream::new(&Arc::new(document.clone()), client())
}

thread_local! {
    // Reading the system's certificates takes its time, and a test is a thread with a runtime of its own.
    static CLIENT: Arc<Client> = Arc::new(Client::new(ClientOptions::default(), NonZero::<usize>::MIN).unwrap());
}

pub(crate) fn client() -> Arc<Client> {
    CLIENT.with(Arc::clone)
}

pub(crate) fn arguments(json: &str) -> Arguments {
    serde_json::from_str(json).unwrap()
}

/// Memory for one call.
pub(crate) fn room() -> Reservation {
    Reservation::alone(1 << 30).unwrap()
}

pub(crate) fn bounds() -> CallBounds {
    within(Duration::from_secs(20), 1 << 20)
}

pub(crate) fn within(time: Duration, max_response_bytes: u64) -> CallBounds {
    CallBounds { deadline: Instant::now() + time, max_response_bytes, detect_list: true }
}

/// A call from no other gateway, without a trace.
pub(crate) fn context<'a>(
    bounds: CallBounds,
    credentials: CredentialScope<'a>,
    memory: &'a mut Reservation,
) -> CallContext<'a> {
    static POOL: LazyLock<(Arc<Compute>, Metrics, ExpositionId)> = LazyLock::new(|| {
        let id = ExpositionId { namespace: "default".to_owned(), name: "test".to_owned() };
        (Arc::default(), Metrics::new().unwrap(), id)
    });
    let offload = Offload::new(&POOL.0, &POOL.1, &POOL.2);
    CallContext {
        bounds,
        hops: 0,
        credentials,
        caller: None,
        through: None,
        trace: None,
        relay: None,
        input: None,
        session: None,
        cannot_ask: CannotAsk::NotACall,
        query: None,
        most_messages: None,
        offload,
        memory,
    }
}

/// Calls the document's tool.
pub(crate) async fn call(document: &ServiceDocument, json: &str) -> Result<Answer, UpstreamError> {
    call_within(document, json, bounds()).await
}

pub(crate) async fn call_within(
    document: &ServiceDocument,
    json: &str,
    bounds: CallBounds,
) -> Result<Answer, UpstreamError> {
    upstream(document).unwrap().call("call", &arguments(json), context(bounds, given(), &mut room())).await
}

/// A server that answers each request with the next of some bytes, and closes the connection where they are empty or
/// there are no more.
pub(crate) struct RawServer {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl RawServer {
    pub(crate) async fn start(answers: Vec<Vec<u8>>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let counters = (Arc::clone(&connections), Arc::clone(&requests));
        let task = tokio::spawn(async move {
            let answers = Arc::new(answers);
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                counters.0.fetch_add(1, Ordering::SeqCst);
                let (answers, requests) = (Arc::clone(&answers), Arc::clone(&counters.1));
                tokio::spawn(async move {
                    while read_head(&mut stream).await {
                        match answers.get(requests.fetch_add(1, Ordering::SeqCst)) {
                            Some(answer) if !answer.is_empty() => stream.write_all(answer).await.unwrap(),
                            _ => return,
                        }
                    }
                });
            }
        });
        Self { address, connections, requests, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_head(stream: &mut tokio::net::TcpStream) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return false,
        }
    }
    true
}
