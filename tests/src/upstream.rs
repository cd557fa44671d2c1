//! A sample API, on loopback by default, that counts requests and abandoned requests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Any free port of it.
const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Run by a request to `/trigger`.
type Trigger = Box<dyn Fn(&str) + Send + Sync>;

/// Counts of requests.
#[derive(Default)]
struct Counts {
    trigger: Option<Trigger>,
    document: Mutex<(u16, String)>,
    calls: AtomicUsize,
    waiting: AtomicUsize,
    abandoned: AtomicUsize,
}

/// A running upstream; it stops when dropped.
pub struct Upstream {
    /// Where it listens, `http://ADDRESS:PORT`.
    pub url: String,
    counts: Arc<Counts>,
    server: JoinHandle<()>,
}

impl Upstream {
    /// Starts on a free port of loopback.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start() -> Result<Self> {
        Self::with(LOOPBACK.into(), None).await
    }

    /// Starts on an address of this machine, or on all: a sample API that pods reach.
    ///
    /// # Errors
    /// The address is not one of this machine, or the port is taken.
    pub async fn start_on(address: SocketAddr) -> Result<Self> {
        Self::with(address, None).await
    }

    /// Starts with something to be done by each request to `/trigger/NAME`, for the name.
    ///
    /// # Errors
    /// No port is free.
    pub async fn with_trigger(trigger: impl Fn(&str) + Send + Sync + 'static) -> Result<Self> {
        Self::with(LOOPBACK.into(), Some(Box::new(trigger))).await
    }

    async fn with(address: SocketAddr, hook: Option<Trigger>) -> Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let counts = Arc::new(Counts { trigger: hook, ..Counts::default() });
        let router = Router::new()
            .route("/repos/{owner}/{repo}/issues", get(issues))
            .route("/repos/{owner}/{repo}/issues/{number}", get(issue))
            .route("/slow/{ms}", get(slow))
            .route("/status/{code}", get(status))
            .route("/log", get(log))
            .route("/echo", post(echo))
            .route("/text/{text}", get(text))
            .route("/{id}/data", get(data))
            .route("/trigger/{name}", post(trigger))
            .route("/document", get(document))
            .with_state(Arc::clone(&counts));
        let server = tokio::spawn(async move {
            // Only an error of the listener ends this, and then the test's calls fail.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { url, counts, server })
    }

    /// Requests so far.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.counts.calls.load(Ordering::SeqCst)
    }

    /// What `/document` answers from now on.
    pub fn set_document(&self, status: u16, text: &str) {
        *self.counts.document.lock().unwrap_or_else(PoisonError::into_inner) = (status, text.to_owned());
    }

    /// Returns the number of requests to `/slow` whose caller disconnected.
    #[must_use]
    pub fn abandoned(&self) -> usize {
        self.counts.abandoned.load(Ordering::SeqCst)
    }

    /// Returns the number of requests to `/slow` in flight.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.counts.waiting.load(Ordering::SeqCst)
    }
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// One issue in the shape of GitHub's, with what a model should not see in `token` and `user.email`.
fn sample(number: u64) -> Value {
    json!({
        "number": number,
        "title": format!("Issue {number}"),
        "state": if number.is_multiple_of(2) { "open" } else { "closed" },
        "body": null,
        "token": format!("REMOVED-{number}"),
        "user": {"login": "ada", "email": "REMOVED@example.com"},
        "labels": [{"name": "bug", "color": "f00"}, {"name": "help", "color": "0f0"}],
        "id": 9_007_199_254_740_993_u64,
    })
}

async fn issues(State(counts): State<Arc<Counts>>, uri: Uri) -> impl IntoResponse {
    counts.calls.fetch_add(1, Ordering::SeqCst);
    let wanted = uri.query().and_then(|query| query.strip_prefix("state=")).unwrap_or("all");
    let all = (1..=4).map(sample).filter(|issue| wanted == "all" || issue["state"] == wanted);
    body_json(&Value::Array(all.collect()))
}

async fn issue(
    State(counts): State<Arc<Counts>>,
    Path((_, _, number)): Path<(String, String, u64)>,
) -> impl IntoResponse {
    counts.calls.fetch_add(1, Ordering::SeqCst);
    body_json(&sample(number))
}

/// Counts a caller as gone unless the answer was made.
struct Waiting(Arc<Counts>, bool);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        if !self.1 {
            self.0.abandoned.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn slow(State(counts): State<Arc<Counts>>, Path(ms): Path<u64>) -> impl IntoResponse {
    counts.calls.fetch_add(1, Ordering::SeqCst);
    counts.waiting.fetch_add(1, Ordering::SeqCst);
    let mut waiting = Waiting(counts, false);
    tokio::time::sleep(Duration::from_millis(ms)).await;
    waiting.1 = true;
    body_json(&json!({"waited": ms}))
}

async fn status(State(counts): State<Arc<Counts>>, Path(code): Path<u16>) -> impl IntoResponse {
    counts.calls.fetch_add(1, Ordering::SeqCst);
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, body_json(&json!({"message": "REMOVED by the upstream"})))
}

async fn log(State(counts): State<Arc<Counts>>) -> impl IntoResponse {
    counts.calls.fetch_add(1, Ordering::SeqCst);
    ([(header::CONTENT_TYPE, "text/plain")], "\u{1b}[31mE first\u{1b}[0m\r\nI second\nE third\n")
}

async fn echo(State(counts): State<Arc<Counts>>, headers: HeaderMap, body: Bytes) -> impl IntoResponse {
    counts.calls.fetch_add(1, Ordering::SeqCst);
    let seen: serde_json::Map<String, Value> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), json!(String::from_utf8_lossy(value.as_bytes()))))
        .collect();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    body_json(&json!({"headers": seen, "body": body}))
}

async fn text(State(counts): State<Arc<Counts>>, Path(text): Path<String>) -> impl IntoResponse {
    counts.calls.fetch_add(1, Ordering::SeqCst);
    ([(header::CONTENT_TYPE, "text/plain")], text)
}

async fn data(State(counts): State<Arc<Counts>>, Path(id): Path<String>) -> impl IntoResponse {
    counts.calls.fetch_add(1, Ordering::SeqCst);
    let data = format!("Data for ID: {id}");
    body_json(&json!({"id": id, "templateTest": true, "data": data}))
}

async fn trigger(State(counts): State<Arc<Counts>>, Path(name): Path<String>) -> impl IntoResponse {
    counts.calls.fetch_add(1, Ordering::SeqCst);
    counts.trigger.iter().for_each(|trigger| trigger(&name));
    body_json(&json!({"triggered": counts.trigger.is_some()}))
}

async fn document(State(counts): State<Arc<Counts>>) -> impl IntoResponse {
    counts.calls.fetch_add(1, Ordering::SeqCst);
    let (status, text) = counts.document.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, [(header::CONTENT_TYPE, "application/json")], text)
}

fn body_json(value: &Value) -> impl IntoResponse + use<> {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string())
}
