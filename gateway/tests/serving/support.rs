//! A real upstream, a gateway in this process and a real client.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tamis_config::{
    Access, CallLimits, Digest, ExpositionDocument, ExpositionId, ExpositionTool, FORMAT_VERSION, ServiceDocument,
    Snapshot,
};
use tamis_engine::{Enforcement, ToolFilter};
use tamis_gateway::upstream::LocalCredentials;
use tamis_gateway::{Gateway, GatewayLimits, Options};
use tokio::net::TcpListener;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio_util::sync::CancellationToken;

pub(crate) const MODERN: &str = "2026-07-28";

/// Declares a test at 1, 2 and 8 workers for each of these functions, which take the number of workers.
macro_rules! at_workers {
    ($($test:ident),+ $(,)?) => {$(
        mod $test {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn with_1() {
                super::$test(1).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn with_2() {
                super::$test(2).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn with_8() {
                super::$test(8).await;
            }
        }
    )+};
}
pub(crate) use at_workers;

/// What the upstream answers at a path.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) body: String,
    pub(crate) delay: Duration,
}

/// A real HTTP server whose answers a test sets.
#[derive(Debug, Clone)]
pub(crate) struct Upstream {
    pub(crate) base: String,
    pages: Arc<Mutex<HashMap<String, Page>>>,
    pub(crate) hits: Arc<AtomicUsize>,
    /// Requests that are being answered.
    pub(crate) open: Arc<AtomicUsize>,
    /// The most requests that were being answered at once.
    pub(crate) peak: Arc<AtomicUsize>,
    /// Locked for writing while answers are held back.
    gate: Arc<RwLock<()>>,
    pub(crate) queries: Arc<Mutex<Vec<String>>>,
}

struct Leaving(Arc<AtomicUsize>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Self {
            base: format!("http://{}", listener.local_addr().unwrap()),
            pages: Arc::default(),
            hits: Arc::default(),
            open: Arc::default(),
            peak: Arc::default(),
            gate: Arc::default(),
            queries: Arc::default(),
        };
        let app = Router::new().fallback(answer).with_state(upstream.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        upstream
    }

    pub(crate) fn page(&self, path: &str, page: Page) {
        self.pages.lock().unwrap().insert(path.to_owned(), page);
    }

    pub(crate) fn json(&self, path: &str, body: impl Into<String>) {
        let page = Page { status: 200, kind: "application/json", body: body.into(), delay: Duration::ZERO };
        self.page(path, page);
    }

    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Holds back every answer until the guard is dropped.
    pub(crate) async fn hold(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.gate).write_owned().await
    }
}

async fn answer(State(upstream): State<Upstream>, request: Request) -> Response {
    upstream.hits.fetch_add(1, Ordering::SeqCst);
    let open = upstream.open.fetch_add(1, Ordering::SeqCst) + 1;
    upstream.peak.fetch_max(open, Ordering::SeqCst);
    let _leaving = Leaving(Arc::clone(&upstream.open));
    let query = request.uri().query().unwrap_or_default().to_owned();
    upstream.queries.lock().unwrap().push(query.clone());
    let path = request.uri().path();
    let page = {
        let pages = upstream.pages.lock().unwrap();
        pages.get(&format!("{path}?{query}")).or_else(|| pages.get(path)).cloned()
    };
    let Some(page) = page else { return StatusCode::NOT_FOUND.into_response() };
    tokio::time::sleep(page.delay).await;
    drop(upstream.gate.read().await);
    (StatusCode::from_u16(page.status).unwrap(), [(header::CONTENT_TYPE, page.kind)], page.body).into_response()
}

/// A service whose tools are given as JSON.
pub(crate) fn service(base: &str, tools: &Value) -> Arc<ServiceDocument> {
    let document = json!({
        "formatVersion": FORMAT_VERSION, "name": "sample", "version": "1.0.0", "description": "A sample",
        "source": {"http": {"baseUrl": base}}, "tools": tools,
    });
    Arc::new(serde_json::from_str(&document.to_string()).unwrap())
}

/// A tool that gets `path`, with one optional argument `state`.
pub(crate) fn tool(path: &str) -> Value {
    json!({
        "description": "Reads",
        "inputSchema": {
            "type": "object", "additionalProperties": false,
            "properties": {"state": {"type": "string", "enum": ["open", "closed"]}},
        },
        "call": {"http": {"method": "GET", "path": path, "request": {"query": {"state": "{state}"}}}},
    })
}

pub(crate) fn filter(text: &str) -> Arc<ToolFilter> {
    serde_json::from_str(text).unwrap()
}

pub(crate) fn id(name: &str) -> ExpositionId {
    ExpositionId { namespace: "default".to_owned(), name: name.to_owned() }
}

/// An exposition of all tools that have an entry here: a filter in JSON, or none.
pub(crate) fn exposition(
    name: &str,
    service: &ServiceDocument,
    enforcement: Enforcement,
    tools: &[(&str, Option<&str>)],
) -> ExpositionDocument {
    let tools = tools.iter().map(|(name, text)| {
        let tool = ExpositionTool { filter: text.map(filter), filter_set: None, query: None };
        ((*name).to_owned(), tool)
    });
    ExpositionDocument {
        format_version: FORMAT_VERSION,
        id: id(name),
        service: service.digest(),
        enforcement,
        tools: tools.collect(),
        credentials: Default::default(),
        access: Some(Access::Anonymous),
        limits: CallLimits::default(),
        audit: tamis_config::Audit::Digest,
        tokens: tamis_config::TokenSettings::default(),
        inputs: None,
        list_ttl_ms: 0,
        follow: None,
        content: Default::default(),
    }
}

pub(crate) fn snapshot(
    service: &Arc<ServiceDocument>,
    expositions: impl IntoIterator<Item = ExpositionDocument>,
) -> Snapshot {
    let digest: Digest = service.digest();
    Snapshot {
        services: [(digest, Arc::clone(service))].into(),
        expositions: expositions.into_iter().map(|e| (e.id.clone(), Arc::new(e))).collect(),
        ..Snapshot::default()
    }
}

/// A gateway that listens.
pub(crate) struct Running {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) served: tokio::task::JoinHandle<()>,
    pub(crate) http: reqwest::Client,
}

pub(crate) fn options() -> Options {
    Options::new(Arc::new(LocalCredentials::new(None)))
}

/// The options of a gateway with this many workers.
pub(crate) fn with_workers(workers: usize) -> Options {
    Options { workers: NonZero::new(workers).unwrap(), ..options() }
}

pub(crate) async fn start(options: Options) -> Running {
    let gateway = Gateway::new(options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let admin_listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, admin) = (listener.local_addr().unwrap(), admin_listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let served = tokio::spawn(Arc::clone(&gateway).serve(listener, shutdown.clone()));
    tokio::spawn(Arc::clone(&gateway).serve_admin(admin_listener, shutdown.clone()));
    Running { gateway, address, admin, shutdown, served, http: reqwest::Client::new() }
}

/// A gateway with one Advisory exposition `api` of one unfiltered tool `read` at `/doc`.
pub(crate) async fn simple(limits: GatewayLimits) -> (Upstream, Running) {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{ "id": 12345678901234567890, "name": "x" }"#);
    let running = start(Options { limits, ..options() }).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let document = exposition("api", &service, Enforcement::Advisory, &[("read", None)]);
    let report = running.gateway.apply(&snapshot(&service, [document]));
    assert_eq!(report.failed, []);
    (upstream, running)
}

impl Running {
    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/mcp/default/{name}", self.address)
    }

    /// A POST with the headers that every client sends.
    pub(crate) fn post(&self, name: &str, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        self.http
            .post(self.url(name))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(body)
    }

    /// A legacy request's status and answer.
    pub(crate) async fn legacy(&self, name: &str, method: &str, params: Value) -> (u16, Value) {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        read(self.post(name, message).header("mcp-protocol-version", "2025-11-25").send().await.unwrap()).await
    }

    pub(crate) fn modern_request(&self, name: &str, method: &str, mut params: Value) -> reqwest::RequestBuilder {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {},
        });
        let named = params.get("name").or(params.get("uri")).and_then(Value::as_str).map(str::to_owned);
        let message = json!({"jsonrpc": "2.0", "id": "m-1", "method": method, "params": params}).to_string();
        let request = self.post(name, message).header("mcp-protocol-version", MODERN).header("mcp-method", method);
        match named {
            Some(named) => request.header("mcp-name", named),
            None => request,
        }
    }

    pub(crate) async fn modern(&self, name: &str, method: &str, params: Value) -> (u16, Value) {
        read(self.modern_request(name, method, params).send().await.unwrap()).await
    }

    pub(crate) async fn call(&self, name: &str, tool: &str, arguments: Value) -> Value {
        let (status, answer) = self.legacy(name, "tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert_eq!(status, 200, "{answer}");
        answer["result"].clone()
    }

    /// The value of a series, 0 where it is not there.
    pub(crate) async fn metric(&self, series: &str) -> u64 {
        let text = self.admin("/metrics").await.1;
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    }

    /// Waits until a series has a value that holds.
    pub(crate) async fn until_metric(&self, series: &str, holds: impl Fn(u64) -> bool) {
        for _ in 0..10_000 {
            if holds(self.metric(series).await) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{series} is {}", self.metric(series).await);
    }

    pub(crate) async fn admin(&self, path: &str) -> (u16, String) {
        let response = self.http.get(format!("http://{}{path}", self.admin)).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }
}

pub(crate) async fn read(response: reqwest::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// The text blocks of a result.
pub(crate) fn blocks(result: &Value) -> Vec<&str> {
    let blocks = result["content"].as_array().unwrap_or_else(|| panic!("no content: {result}"));
    blocks.iter().map(|block| block["text"].as_str().unwrap()).collect()
}

/// The one text block of a result.
pub(crate) fn text(result: &Value) -> &str {
    let [text] = blocks(result)[..] else { panic!("not one text block: {result}") };
    text
}

/// Waits until `holds`, or fails.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}
