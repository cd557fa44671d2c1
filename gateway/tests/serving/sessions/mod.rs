//! Legacy sessions with an MCP server that has sessions of its own and asks its callers during calls, behind two gateways of a group.

mod answers;
mod asking;
mod ending;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tamis_config::Access;
use tamis_config::group_keys::{GroupKeys, RootKey};
use tamis_engine::Enforcement;
use tamis_gateway::{Keyring, Options};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};

use crate::keys::Keys;
use crate::mcp_servers::pinned;
use crate::support::{Running, exposition, options, snapshot, start};

const SESSION: &str = "mcp-session-id";
const TOOLS: &str = r#"[{"name":"ask","inputSchema":{"type":"object"}}]"#;

/// A legacy server with sessions. The argument `asks` of its tool says what it asks the caller for before it answers, as the method and
/// the parameters of requests; it answers with what it was answered.
#[derive(Clone, Default)]
struct Asker {
    state: Arc<Mutex<Life>>,
    sessions: Arc<AtomicUsize>,
    /// Whether it also speaks 2026-07-28.
    is_modern: Arc<AtomicBool>,
    /// Whether it answers nothing.
    hangs: Arc<AtomicBool>,
    /// The status of a request in a session that it does not know.
    unknown: Arc<AtomicUsize>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Life {
    /// The sessions that it knows.
    sessions: HashSet<String>,
    /// What it waits for, by session and id.
    waiting: HashMap<(String, String), oneshot::Sender<String>>,
    /// Every message, with its session.
    seen: Vec<(String, Value)>,
    /// The methods of HTTP of requests without a body, with their sessions.
    ended: Vec<String>,
}

impl Asker {
    async fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = Self { unknown: Arc::new(AtomicUsize::new(404)), ..Self::default() };
        server.serve(listener);
        (server, url)
    }

    fn serve(&self, listener: TcpListener) {
        let app = Router::new().fallback(serve).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    }

    /// Ends all its sessions.
    fn forget(&self) {
        self.state.lock().unwrap().sessions.clear();
    }

    /// The messages with this method, and their sessions. Answers have none.
    fn seen(&self, method: Option<&str>) -> Vec<(String, Value)> {
        let seen = &self.state.lock().unwrap().seen;
        seen.iter().filter(|(_, message)| message["method"].as_str() == method).cloned().collect()
    }

    /// The capabilities that handshakes declared, without those of the session in which lists are read.
    fn declared(&self) -> Vec<Value> {
        let all = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        let declared = |(_, message): (String, Value)| message["params"]["capabilities"].clone();
        self.seen(Some("initialize")).into_iter().map(declared).filter(|declared| *declared != all).collect()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Life) -> bool) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if holds(&self.state.lock().unwrap()) {
                    return;
                }
                changed.await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(20), wait).await.is_ok(), "never: {what}");
    }
}

async fn serve(State(server): State<Asker>, request: Request) -> Response {
    if server.hangs.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    let session = request.headers().get(SESSION).map(|id| id.to_str().unwrap().to_owned());
    let verb = request.method().clone();
    let body = axum::body::to_bytes(request.into_body(), 8 << 20).await.unwrap();
    if verb == "GET" {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let response = answer(&server, session, &body).await;
    server.changed.notify_waiters();
    response
}

async fn answer(server: &Asker, session: Option<String>, body: &Bytes) -> Response {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    let id = message["id"].clone();
    let reply = |result: Value| {
        let text = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        ([(header::CONTENT_TYPE, "application/json")], text).into_response()
    };
    let is_modern = server.is_modern.load(Ordering::SeqCst);
    server.state.lock().unwrap().seen.push((session.clone().unwrap_or_default(), message.clone()));
    match &*method {
        "server/discover" if is_modern => {
            return reply(json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}));
        }
        "server/discover" => return StatusCode::NOT_FOUND.into_response(),
        "initialize" => {
            let session = format!("upstream-session-{}", server.sessions.fetch_add(1, Ordering::SeqCst));
            server.state.lock().unwrap().sessions.insert(session.clone());
            let version = message["params"]["protocolVersion"].clone();
            let mut response = reply(json!({"protocolVersion": version, "capabilities": {}, "serverInfo": {}}));
            response.headers_mut().insert(SESSION, session.parse().unwrap());
            return response;
        }
        "tools/list" if is_modern && session.is_none() => {
            return reply(json!({"tools": serde_json::from_str::<Value>(TOOLS).unwrap(), "ttlMs": 300_000}));
        }
        _ => {}
    }
    let Some(session) = session.filter(|session| server.state.lock().unwrap().sessions.contains(session)) else {
        let status = u16::try_from(server.unknown.load(Ordering::SeqCst)).unwrap();
        return (StatusCode::from_u16(status).unwrap(), "no such session").into_response();
    };
    match &*method {
        "tools/list" => reply(json!({"tools": serde_json::from_str::<Value>(TOOLS).unwrap()})),
        "prompts/list" => reply(json!({"prompts": [{"name": session}]})),
        "ping" => reply(json!({})),
        "tools/call" => ask(server.clone(), session, message),
        "" if body.is_empty() => {
            let mut state = server.state.lock().unwrap();
            state.sessions.remove(&session);
            state.ended.push(session);
            StatusCode::OK.into_response()
        }
        "" => {
            // An answer. One that nothing waits for is taken, too.
            let key = (session, message["id"].to_string());
            if let Some(waiting) = server.state.lock().unwrap().waiting.remove(&key) {
                let _ = waiting.send(String::from_utf8_lossy(body).into_owned());
            }
            StatusCode::ACCEPTED.into_response()
        }
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

/// Asks what the call says, and answers with all answers.
fn ask(server: Asker, session: String, call: Value) -> Response {
    let asks: Vec<Value> = call["params"]["arguments"]["asks"].as_array().cloned().unwrap_or_default();
    let fails = call["params"]["arguments"]["fails"] == true;
    let events =
        stream::unfold((0, Vec::new(), None::<oneshot::Receiver<String>>), move |(number, mut answers, waits)| {
            let (server, session, call, asks) = (server.clone(), session.clone(), call.clone(), asks.clone());
            async move {
                if let Some(waits) = waits {
                    let answer = tokio::time::timeout(Duration::from_secs(30), waits).await.ok()?.ok()?;
                    answers.push(answer);
                }
                if number > asks.len() || fails && number == asks.len() {
                    return None;
                }
                let Some(asked) = asks.get(number) else {
                    let text = json!({"content": [{"type": "text", "text": format!("[{}]", answers.join(","))}]});
                    let last = json!({"jsonrpc": "2.0", "id": call["id"], "result": text});
                    return Some((format!("data: {last}\n\n"), (number + 1, answers, None)));
                };
                let id = asked.get("id").cloned().unwrap_or_else(|| json!(number));
                let message = json!({"jsonrpc": "2.0", "id": id, "method": asked["method"], "params": asked["params"]});
                let (sender, receiver) = oneshot::channel();
                server.state.lock().unwrap().waiting.insert((session, id.to_string()), sender);
                let waits = (asked["waits"] != false).then_some(receiver);
                Some((format!("data: {message}\n\n"), (number + 1, answers, waits)))
            }
        });
    let events = futures_util::StreamExt::map(events, Ok::<_, std::convert::Infallible>);
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

fn key(byte: u8) -> RootKey {
    RootKey::new([byte; 32])
}

/// Two gateways of a group, with the expositions `advisory`, `enforced` and `keyed` of the server.
struct Group {
    gateways: [Running; 2],
    keyring: Arc<Keyring>,
}

async fn group(url: &str) -> Group {
    let keyring = Arc::new(Keyring::new(&GroupKeys::new(key(1), key(2), 0)));
    let one = gateway(url, &keyring).await;
    Group { gateways: [one, gateway(url, &keyring).await], keyring }
}

async fn gateway(url: &str, keyring: &Arc<Keyring>) -> Running {
    let keys = Keys::named(&[("ada", "ada-key"), ("eve", "eve-key")]);
    let running = start(Options { keyring: Some(Arc::clone(keyring)), credentials: Arc::new(keys), ..options() }).await;
    let service = pinned(url, &serde_json::from_str(TOOLS).unwrap());
    let tools = [("ask", None)];
    let filtered = [("ask", Some(r#"{"root":"","select":{"a":"a"}}"#))];
    let mut keyed = exposition("keyed", &service, Enforcement::Advisory, &tools);
    keyed.access = Some(serde_json::from_value::<Access>(json!({"apiKeys": {"secret": "partners"}})).unwrap());
    let mut advisory = exposition("advisory", &service, Enforcement::Advisory, &tools);
    advisory.content.server_prompts = Some(tamis_config::NamePatterns::default());
    let documents = [
        advisory,
        exposition("other", &service, Enforcement::Advisory, &tools),
        exposition("enforced", &service, Enforcement::Enforced, &filtered),
        keyed,
    ];
    assert_eq!(running.gateway.apply(&snapshot(&service, documents)).failed, []);
    running
}

/// A client of an exposition, in a session.
#[derive(Clone)]
struct Session<'g> {
    name: &'static str,
    key: Option<&'static str>,
    id: String,
    group: &'g Group,
}

const ALL: &str = r#"{"elicitation":{},"sampling":{},"roots":{"listChanged":true}}"#;

impl Group {
    /// Begins a session at the first gateway.
    async fn begin(&self, name: &'static str, capabilities: &str) -> Session<'_> {
        self.begin_as(name, None, capabilities).await
    }

    async fn begin_as(&self, name: &'static str, key: Option<&'static str>, capabilities: &str) -> Session<'_> {
        let mut session = Session { name, key, id: String::new(), group: self };
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-06-18","capabilities":{capabilities},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
        );
        let response = session.post(0, body).await;
        assert_eq!(response.status(), 200);
        session.id = response.headers()[SESSION].to_str().unwrap().to_owned();
        session
    }
}

impl Session<'_> {
    async fn post(&self, gateway: usize, body: String) -> reqwest::Response {
        let mut request =
            self.group.gateways[gateway].post(self.name, body).header("mcp-protocol-version", "2025-06-18");
        if let Some(key) = self.key {
            request = request.bearer_auth(key);
        }
        if !self.id.is_empty() {
            request = request.header(SESSION, &self.id);
        }
        request.send().await.unwrap()
    }

    /// Calls the tool, which asks this.
    async fn call(&self, gateway: usize, asks: Value) -> Call {
        self.call_with(gateway, json!({"asks": asks})).await
    }

    async fn call_with(&self, gateway: usize, arguments: Value) -> Call {
        let params = json!({"name": "ask", "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": "c-1", "method": "tools/call", "params": params});
        let response = self.post(gateway, message.to_string()).await;
        Call { response, buffer: String::new() }
    }

    /// Answers a request. Returns the status and the body.
    async fn answer(&self, gateway: usize, id: &Value, rest: &str) -> (u16, String) {
        let response = self.post(gateway, format!(r#"{{"jsonrpc":"2.0","id":{id},{rest}}}"#)).await;
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// The text of a call that asks nothing.
    async fn plain(&self, gateway: usize) -> (u16, Value) {
        crate::support::read(self.call(gateway, json!([])).await.response).await
    }

    async fn delete(&self, gateway: usize) -> u16 {
        let running = &self.group.gateways[gateway];
        let mut request = running.http.delete(running.url(self.name)).header(SESSION, &self.id);
        if let Some(key) = self.key {
            request = request.bearer_auth(key);
        }
        request.send().await.unwrap().status().as_u16()
    }
}

/// A call in progress.
struct Call {
    response: reqwest::Response,
    buffer: String,
}

impl Call {
    /// The next message; the answer, if it came without a stream.
    async fn next(&mut self) -> Value {
        let is_stream = self.response.headers()["content-type"] == "text/event-stream";
        loop {
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.buffer = rest;
                if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data: ")) {
                    return serde_json::from_str(data).unwrap();
                }
                continue;
            }
            let chunk = tokio::time::timeout(Duration::from_secs(20), self.response.chunk()).await.unwrap().unwrap();
            match chunk {
                Some(chunk) => self.buffer.push_str(std::str::from_utf8(&chunk).unwrap()),
                None if is_stream => panic!("the stream ended: {}", self.buffer),
                None => return serde_json::from_str(&self.buffer).unwrap(),
            }
        }
    }
}

/// The text of the answer to a call.
fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {message}"))
}

fn elicits() -> Value {
    json!({"method": "elicitation/create", "params": {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}})
}
