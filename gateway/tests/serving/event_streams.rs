//! Servers of the transport of 2024-11-05: a stream of events that carries the answers, and an address for messages. A server
//! whose every byte a test chooses, its faults, and an exposition next to it that notices none of them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tamis_config::{NamePatterns, Source};
use tamis_engine::Enforcement;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::mcp_servers::pinned;
use crate::support::{Running, Upstream, exposition, options, service, snapshot, start, text, tool};
use crate::watching::Caller;

type Events = mpsc::UnboundedSender<Option<String>>;

/// What a server does otherwise.
#[derive(Debug, Clone, Default)]
struct Fault {
    /// What comes in place of the event `endpoint`.
    preamble: Option<String>,
    /// What `tools/call` has for an answer in the stream, with `ID` in place of the id; none for no answer. The stream ends at `END`.
    answer: Option<&'static str>,
    /// The status of `POST` to the address of messages.
    status: Option<u16>,
    /// Whether the server answers a message only after its answer was sent.
    is_late: bool,
}

#[derive(Debug, Clone, Default)]
struct Server {
    fault: Arc<Mutex<Fault>>,
    /// Open streams by session.
    streams: Arc<Mutex<HashMap<usize, Events>>>,
    opened: Arc<AtomicUsize>,
    /// Methods with the session that they came in.
    seen: Arc<Mutex<Vec<(usize, String)>>>,
}

fn two_tools() -> Value {
    json!([
        {"name": "read", "description": "Reads", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        {"name": "write", "description": "Writes", "inputSchema": {"type": "object"}},
    ])
}

impl Server {
    async fn start() -> (Self, String) {
        let server = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/sse", listener.local_addr().unwrap());
        let app = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (server, url)
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    fn count(&self, method: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|(_, seen)| seen == method).count()
    }

    /// Sends an event in all streams.
    fn send_all(&self, event: &str) {
        self.streams.lock().unwrap().values().for_each(|stream| drop(stream.send(Some(event.to_owned()))));
    }

    /// Ends all streams, as a restart does.
    fn end_all(&self) {
        self.streams.lock().unwrap().drain().for_each(|(_, stream)| drop(stream.send(None)));
    }
}

async fn answer(State(server): State<Server>, verb: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let fault = server.fault.lock().unwrap().clone();
    assert_eq!(headers.get_all("x-team").iter().collect::<Vec<_>>(), ["a"], "{verb} {uri}");
    if uri.path() == "/sse" {
        if verb != Method::GET {
            return (StatusCode::METHOD_NOT_ALLOWED, "POST is not for this").into_response();
        }
        assert_eq!(headers[header::ACCEPT], "text/event-stream");
        let session = server.opened.fetch_add(1, Ordering::SeqCst) + 1;
        let (sender, receiver) = mpsc::unbounded_channel();
        let preamble =
            fault.preamble.unwrap_or_else(|| format!("event: endpoint\r\ndata: /message?session={session}\r\n\r\n"));
        sender.send(Some(preamble)).unwrap();
        server.streams.lock().unwrap().insert(session, sender);
        let events = futures_util::stream::unfold(receiver, |mut receiver| async move {
            Some((Ok::<_, Infallible>(Bytes::from(receiver.recv().await??)), receiver))
        });
        return ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response();
    }
    let session: usize = uri.query().unwrap().strip_prefix("session=").unwrap().parse().unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let method = message["method"].as_str().unwrap_or("response").to_owned();
    server.seen.lock().unwrap().push((session, method.clone()));
    let Some(stream) = server.streams.lock().unwrap().get(&session).cloned() else {
        return (StatusCode::NOT_FOUND, "no such session").into_response();
    };
    if let (Some(status), "tools/call") = (fault.status, &*method) {
        return (StatusCode::from_u16(status).unwrap(), "failed").into_response();
    }
    let result = match &*method {
        "initialize" => {
            json!({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}})
        }
        "tools/list" => json!({"tools": two_tools()}),
        "prompts/list" => json!({"prompts": [{"name": "p"}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": format!("session {session}")}]}),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    let id = message["id"].to_string();
    let text = match (fault.answer, &*method) {
        (Some(answer), "tools/call") => answer.replace("ID", &id),
        _ => format!("event: message\ndata: {}\n\n", json!({"jsonrpc": "2.0", "id": message["id"], "result": result})),
    };
    let (text, ends) = match text.strip_suffix("END") {
        Some(text) => (text.to_owned(), true),
        None => (text, false),
    };
    let _ = stream.send(Some(text));
    if ends {
        let _ = stream.send(None);
    }
    if fault.is_late {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    StatusCode::ACCEPTED.into_response()
}

/// A gateway with the exposition `api` of the server, and `other` of an HTTP API.
async fn serving(url: &str) -> (Running, Upstream) {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"a":1}"#);
    let running = start(options()).await;
    let mut document = Arc::unwrap_or_clone(pinned(url, &two_tools()));
    document.name = "streams".to_owned();
    let Source::Mcp(source) = &mut document.source else { panic!("an MCP server") };
    source.headers.insert("X-Team".to_owned(), "a".to_owned());
    let streams = Arc::new(document);
    let other = service(&upstream.base, &json!({"get": tool("/doc")}));
    let mut api = exposition("api", &streams, Enforcement::Advisory, &[("read", None), ("write", None)]);
    api.limits.timeout_ms = 3_000;
    api.limits.max_response_bytes = 64 << 10;
    api.content.server_prompts = Some(NamePatterns::default());
    let mut all = snapshot(&other, [exposition("other", &other, Enforcement::Advisory, &[("get", None)])]);
    all.services.insert(streams.digest(), Arc::clone(&streams));
    all.expositions.insert(api.id.clone(), Arc::new(api));
    assert_eq!(running.gateway.apply(&all).failed, []);
    (running, upstream)
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_share_the_stream_of_their_caller() {
    let (server, url) = Server::start().await;
    let (running, _upstream) = serving(&url).await;
    until("the background has a stream", || server.count("tools/list") > 0).await;
    let calls = (0..20).map(|_| running.call("api", "read", json!({})));
    let answers = futures_util::future::join_all(calls).await;
    let first = text(&answers[0]).to_owned();
    assert!(answers.iter().all(|answer| text(answer) == first), "one stream for one caller: {answers:?}");
    assert_eq!((server.opened.load(Ordering::SeqCst), server.count("initialize")), (2, 2), "and one of the background");
    let (_, prompts) = running.modern("api", "prompts/list", json!({})).await;
    assert_eq!(prompts["result"]["prompts"][0]["name"], "p", "{prompts}");
    // A server that is restarted has other sessions.
    server.end_all();
    let answer = running.call("api", "read", json!({})).await;
    assert_eq!(answer["isError"], false, "{answer}");
    assert_ne!(text(&answer), first);
    // A server that forgets a session without ending its stream refuses the message, and the call is made again.
    let kept: Vec<Events> = server.streams.lock().unwrap().drain().map(|(_, stream)| stream).collect();
    let answer = running.call("api", "read", json!({})).await;
    assert_eq!(answer["isError"], false, "{answer}");
    drop(kept);
    // The program of the gateway ends the streams.
    running.shutdown.cancel();
    running.served.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announcements_in_the_stream_reach_callers() {
    let (server, url) = Server::start().await;
    let (running, _upstream) = serving(&url).await;
    until("the list is read", || server.count("tools/list") == 2).await;
    let mut caller = Caller::listen(&running, false).await;
    server.send_all("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}\n\n");
    caller.told_of("prompts", Duration::from_secs(10)).await.expect("a notification");
    // A changed list is read again, and a server's request is refused.
    server.send_all("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n");
    until("the list is read again", || server.count("tools/list") == 3).await;
    server.send_all("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n\n");
    until("it is refused", || server.count("response") == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_are_errors_of_the_server_alone() {
    let large: &'static str =
        Box::leak(format!("data: {{\"id\":ID,\"result\":\"{}\"}}\n\n", "x".repeat(100 << 10)).into_boxed_str());
    let other_id = "data: {\"id\":99999,\"result\":{}}\n\ndata: {\"id\":\"ID\",\"result\":{}}\n\ndata: []\n\n";
    let noise: &'static str =
        Box::leak("data: {\"method\":\"notifications/progress\"}\n\n".repeat(10_001).into_boxed_str());
    let comments: &'static str = Box::leak(format!(": {}\n\n", "x".repeat(1 << 20)).into_boxed_str());
    let good = "data: {\"id\":ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"fine\"}]}}\r\r";
    let message = |answer| Fault { answer: Some(answer), ..Fault::default() };
    let preamble = |text: &str| Fault { preamble: Some(text.to_owned()), ..Fault::default() };
    // The fault, and what the caller of a call that changes something gets.
    let table: Vec<(&str, Fault, &str)> = vec![
        ("an answer with line ends of its own", message(good), "fine"),
        ("an answer with comments before it", message(comments), "in time"),
        ("the answer of another call", message(other_id), "in time"),
        ("an answer that is too large", message(large), "larger"),
        ("no answer that is JSON", message("data: {\"id\":ID,\"result\":{\n\n"), "in time"),
        ("the end of the stream", message("END"), "reset"),
        ("a flood of notifications", message(noise), "too much that is no answer"),
        ("a refused message", Fault { status: Some(500), ..Fault::default() }, "500"),
        ("a redirected message", Fault { status: Some(307), ..Fault::default() }, ""),
        ("an answer before that to the message", Fault { is_late: true, ..Fault::default() }, "session"),
        ("no `endpoint`", preamble("data: {}\n\n"), "in time"),
        ("a message before `endpoint`", preamble("data: {}\n\nevent: endpoint\ndata: /message?session=1\n\n"), ""),
        ("an endless preamble", preamble(&": x\n".repeat(30_000)), "endpoint"),
        ("an endpoint of another host", preamble("event: endpoint\ndata: http://192.0.2.1/m\n\n"), "origin"),
        ("an endpoint of another port", preamble("event: endpoint\ndata: http://127.0.0.1:1/m\n\n"), "origin"),
        ("an endpoint that is no text", preamble("event: endpoint\ndata: \u{0}http://\n\n"), ""),
        ("a long endpoint", preamble(&format!("event: endpoint\ndata: /{}\n\n", "x".repeat(9_000))), ""),
    ];
    let mut wrong = Vec::new();
    for (what, fault, expected) in table {
        let (server, url) = Server::start().await;
        let is_preamble = fault.preamble.is_some();
        if is_preamble {
            server.set(fault.clone());
        }
        let (running, _upstream) = serving(&url).await;
        if !is_preamble {
            until(what, || server.count("tools/list") > 0).await;
            server.set(fault);
        }
        let begun = Instant::now();
        let (faulty, other) = tokio::join!(running.call("api", "write", json!({})), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let begun = Instant::now();
            let answer = running.call("other", "get", json!({})).await;
            (answer, begun.elapsed())
        });
        assert!(begun.elapsed() < Duration::from_secs(8), "{what}: {:?}", begun.elapsed());
        if !text(&faulty).contains(expected) {
            wrong.push(format!("{what}: {faulty}"));
        }
        assert!(!faulty.to_string().contains("secret"), "{what}: {faulty}");
        let works = ["fine", "session"].contains(&expected);
        if faulty["isError"] != json!(!works) {
            wrong.push(format!("{what}: {faulty}"));
        }
        assert_eq!(other.0["isError"], false, "{what}");
        assert!(other.1 < Duration::from_secs(2), "{what}: the other exposition took {:?}", other.1);
        let writes = server.count("tools/call");
        assert!(writes <= 1, "{what}: a call that changes something is made once, not {writes} times");
        // It works again as soon as the server does.
        server.set(Fault::default());
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let answer = running.call("api", "read", json!({})).await;
            if answer["isError"] == false {
                break;
            }
            assert!(Instant::now() < until, "{what}: {answer}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert_eq!(wrong, <[String; 0]>::default());
}
