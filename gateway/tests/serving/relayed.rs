//! What an MCP server sends while a call runs: what reaches which caller, and what a flood or a slow reader costs.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tamis_config::ExpositionDocument;
use tamis_engine::Enforcement::{self, Advisory, Enforced};
use tamis_gateway::{GatewayLimits, Options};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::mcp_servers::pinned;
use crate::support::{MODERN, Running, Upstream, exposition, id, options, service, snapshot, start, text, tool, until};

/// What no caller of an enforced exposition may see.
pub(crate) const MARK: &str = "hush-4d1e";
const TOOLS: &str = r#"[{"name":"read","inputSchema":{"type":"object"}}]"#;

type Events = stream::BoxStream<'static, Result<String, Infallible>>;
type Script = Arc<dyn Fn(&Value) -> Events + Send + Sync>;

/// A modern server that answers calls with events that a test chooses.
#[derive(Clone)]
pub(crate) struct Talking {
    script: Script,
    /// The calls that it got.
    pub(crate) calls: Arc<Mutex<Vec<Value>>>,
}

impl Talking {
    pub(crate) async fn start<S>(script: impl Fn(&Value) -> S + Send + Sync + 'static) -> (Self, String)
    where
        S: Stream<Item = String> + Send + 'static,
    {
        let script: Script = Arc::new(move |call| script(call).map(|event| Ok(format!("data: {event}\n\n"))).boxed());
        let server = Self { script, calls: Arc::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let app = Router::new().fallback(talk).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (server, url)
    }
}

async fn talk(State(server): State<Talking>, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap();
    let result = match message["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}),
        "tools/list" => json!({"tools": serde_json::from_str::<Value>(TOOLS).unwrap(), "ttlMs": 300_000}),
        "tools/call" => {
            let events = (server.script)(&message);
            server.calls.lock().unwrap().push(message);
            return ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response();
        }
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]);
    ([(header::CONTENT_TYPE, "application/json")], answer).into_response()
}

/// Progress of a call, with these further members.
pub(crate) fn progress(call: &Value, members: &str) -> String {
    let token = &call["params"]["_meta"]["progressToken"];
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},{members}}}}}"#)
}

fn log(level: &str, data: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","logger":"{MARK}","data":{data}}}}}"#
    )
}

pub(crate) fn answer(call: &Value, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, call["id"])
}

/// Everything that a server can send during a call, with data in each place that has room for some.
fn everything(call: &Value) -> impl Stream<Item = String> + use<> {
    let marked = format!("\"{MARK}\"");
    let result = format!(
        r#"{{"content":[{{"type":"text","text":"{{\"a\":1.50,\"b\":\"{MARK}\"}}"}}],"_meta":{{"note":{marked},"tamis.dev/filter":{marked},"io.modelcontextprotocol/serverInfo":{marked}}}}}"#
    );
    let now = vec![
        progress(call, &format!(r#""progress":1.50,"total":10.0,"message":{marked},"_meta":{{"x":{marked}}}"#)),
        progress(call, &format!(r#""progress":2,"total":{marked}"#)),
        log("debug", &marked),
        log("error", &format!(r#"{{"n":1.10,"b":{marked}}}"#)),
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":{marked}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/{MARK}","params":{{"x":{marked}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":{marked},"method":"sampling/createMessage","params":{{"x":{marked}}}}}"#),
    ];
    let last = answer(call, &result);
    // The messages arrive before the answer exists.
    stream::iter(now).chain(stream::once(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        last
    }))
}

pub(crate) fn filtered(
    name: &str,
    url: &str,
    enforcement: Enforcement,
) -> (Arc<tamis_config::ServiceDocument>, ExpositionDocument) {
    let service = pinned(url, &serde_json::from_str(TOOLS).unwrap());
    let document = exposition(name, &service, enforcement, &[("read", Some(r#"{"root":"","select":{"a":"a"}}"#))]);
    (service, document)
}

pub(crate) async fn both(running: &Running, url: &str) {
    let (service, advisory) = filtered("advisory", url, Advisory);
    let (_, enforced) = filtered("enforced", url, Enforced);
    assert_eq!(running.gateway.apply(&snapshot(&service, [advisory, enforced])).failed, []);
}

/// A call in an era, with further metadata.
pub(crate) fn request(running: &Running, name: &str, is_modern: bool, meta: &Value) -> reqwest::RequestBuilder {
    let mut params = json!({"name": "read", "arguments": {}, "_meta": meta});
    if is_modern {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}, "sampling": {}});
    }
    let message = json!({"jsonrpc": "2.0", "id": "c-1", "method": "tools/call", "params": params}).to_string();
    let request = running.post(name, message);
    match is_modern {
        true => {
            request.header("mcp-protocol-version", MODERN).header("mcp-method", "tools/call").header("mcp-name", "read")
        }
        false => request.header("mcp-protocol-version", "2025-11-25"),
    }
}

/// The form of a response, and the messages in it, as they were written.
pub(crate) async fn messages(response: reqwest::Response) -> (String, Vec<String>) {
    assert_eq!(response.status(), 200);
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    let body = response.text().await.unwrap();
    if kind == "application/json" {
        return (kind, vec![body]);
    }
    let events = body.split_terminator("\n\n").filter(|event| !event.starts_with(':'));
    let data = events.map(|event| event.strip_prefix("event: message\ndata: ").expect("an event").to_owned());
    (kind, data.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_passes_under_enforced_without_its_text_and_nothing_else_does() {
    let (server, url) = Talking::start(everything).await;
    let running = start(options()).await;
    both(&running, &url).await;
    for is_modern in [true, false] {
        for token in [json!("t\u{e9}"), json!(7)] {
            let meta = json!({"progressToken": token, "io.modelcontextprotocol/logLevel": "debug"});
            let (kind, enforced) =
                messages(request(&running, "enforced", is_modern, &meta).send().await.unwrap()).await;
            assert_eq!((kind.as_str(), enforced.len()), ("text/event-stream", 2), "{enforced:?}");
            assert!(!enforced.concat().contains(MARK), "{enforced:?}");
            let expected = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1.50,"total":10.0}}}}"#
            );
            assert_eq!(enforced[0], expected);
            let last: Value = serde_json::from_str(&enforced[1]).unwrap();
            assert_eq!((&last["id"], text(&last["result"])), (&json!("c-1"), r#"{"a":1.50}"#));

            let (_, advisory) = messages(request(&running, "advisory", is_modern, &meta).send().await.unwrap()).await;
            let progressed = advisory.iter().find(|message| message.contains("notifications/progress")).unwrap();
            assert_eq!(*progressed, expected.replace("}}", &format!(r#","message":"{MARK}"}}}}"#)), "{advisory:?}");
            // A legacy session gets the log messages of the level that it has set, and this one has set none.
            let logs = advisory.iter().filter(|message| message.contains("notifications/message")).count();
            assert_eq!(logs, if is_modern { 2 } else { 0 }, "{advisory:?}");
            let last: Value = serde_json::from_str(advisory.last().unwrap()).unwrap();
            assert_eq!(text(&last["result"]), r#"{"a":1.50}"#);
            let meta = &last["result"]["_meta"];
            assert_eq!(
                (&meta["note"], &meta["tamis.dev/filter"]["filter_applied"]),
                (&json!(MARK), &json!(true)),
                "{last}"
            );
            assert_ne!(meta["io.modelcontextprotocol/serverInfo"], json!(MARK));
            assert!(!advisory.concat().contains("resources/updated") && !advisory.concat().contains("createMessage"));
        }
    }
    let calls = server.calls.lock().unwrap();
    let levels = calls.iter().map(|call| call["params"]["_meta"]["io.modelcontextprotocol/logLevel"].clone());
    assert_eq!(levels.filter(|level| *level == "debug").count(), 2, "an enforced exposition asks for no log messages");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_wants_nothing_gets_json() {
    let (server, url) = Talking::start(everything).await;
    let running = start(options()).await;
    both(&running, &url).await;
    for name in ["advisory", "enforced"] {
        for is_modern in [true, false] {
            for (meta, accept) in [
                (json!({}), "application/json, text/event-stream"),
                (json!({"progressToken": {"not": "valid"}}), "application/json, text/event-stream"),
                (json!({"progressToken": 1}), "application/json"),
            ] {
                let mut request = request(&running, name, is_modern, &meta).build().unwrap();
                request.headers_mut().insert("accept", accept.parse().unwrap());
                let (kind, answer) = messages(running.http.execute(request).await.unwrap()).await;
                assert_eq!((kind.as_str(), answer.len()), ("application/json", 1), "{name} {meta} {accept}");
                assert!(answer[0].contains("1.50"), "{answer:?}");
                assert_eq!(answer[0].contains(MARK), name == "advisory", "{answer:?}");
            }
        }
    }
    assert!(server.calls.lock().unwrap().iter().all(|call| call["params"]["_meta"].get("progressToken").is_none()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_first_is_json_and_a_tool_over_http_has_no_progress() {
    let (_, url) =
        Talking::start(|call: &Value| stream::iter([answer(call, r#"{"structuredContent":{"a":1}}"#)])).await;
    let running = start(options()).await;
    both(&running, &url).await;
    let meta = json!({"progressToken": 1});
    for is_modern in [true, false] {
        let (kind, answer) = messages(request(&running, "enforced", is_modern, &meta).send().await.unwrap()).await;
        assert_eq!(kind, "application/json", "{answer:?}");
    }
    let http = Upstream::start().await;
    http.json("/doc", "{}");
    let service = service(&http.base, &json!({"read": tool("/doc")}));
    let document = exposition("api", &service, Advisory, &[("read", None)]);
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    let (kind, _) = messages(request(&running, "api", true, &meta).send().await.unwrap()).await;
    assert_eq!(kind, "application/json");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legacy_session_gets_the_log_messages_of_its_level() {
    let (_, url) = Talking::start(everything).await;
    let running = start(options()).await;
    both(&running, &url).await;
    let ask = async |name: &str, session: Option<&str>, method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let request = running.post(name, message).header("mcp-protocol-version", "2025-11-25");
        let request = match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        };
        request.send().await.unwrap()
    };
    for (name, expected) in [("advisory", [0, 1, 2]), ("enforced", [0, 0, 0])] {
        let begun = ask(name, None, "initialize", json!({"protocolVersion": "2025-11-25"})).await;
        let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let begun: Value = begun.json().await.unwrap();
        let has_logs = begun["result"]["capabilities"].get("logging").is_some();
        assert_eq!(has_logs, name == "advisory");
        for (level, expected) in [None, Some("warning"), Some("debug")].into_iter().zip(expected) {
            if let Some(level) = level {
                let set = ask(name, Some(&session), "logging/setLevel", json!({"level": level})).await;
                assert_eq!(set.json::<Value>().await.unwrap()["result"], json!({}));
            }
            let call = json!({"name": "read", "arguments": {}});
            let (_, got) = messages(ask(name, Some(&session), "tools/call", call.clone()).await).await;
            let logs = got.iter().filter(|message| message.contains("notifications/message")).count();
            assert_eq!(logs, expected, "{name} {level:?}: {got:?}");
            assert_eq!(got.len(), expected + 1, "no caller wants progress");
            // Another session has set no level.
            let (kind, _) = messages(ask(name, Some(&"0".repeat(32)), "tools/call", call).await).await;
            assert_eq!(kind, "application/json");
        }
        let refused = ask(name, Some(&session), "logging/setLevel", json!({"level": "loud"})).await;
        assert_eq!(refused.json::<Value>().await.unwrap()["error"]["code"], -32602);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_over_standard_output_gets_progress_between_its_answers() {
    let (_, url) = Talking::start(everything).await;
    let running = start(options()).await;
    both(&running, &url).await;
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (output, mut input) = tokio::io::split(ours);
    let (read, write) = tokio::io::split(theirs);
    let gateway = Arc::clone(&running.gateway);
    tokio::spawn(async move { gateway.serve_stdio(&id("advisory"), read, write, CancellationToken::new()).await });
    let mut lines = BufReader::new(output).lines();
    for message in [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "error"}}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "read", "_meta": {"progressToken": "p"}}}),
    ] {
        input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    let mut got: Vec<Value> = Vec::new();
    while got.last().is_none_or(|message| message["id"] != 2) {
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await.expect("a line");
        got.push(serde_json::from_str(&line.unwrap().unwrap()).unwrap());
    }
    let methods: Vec<_> = got.iter().map(|message| message["method"].as_str().unwrap_or("answer")).collect();
    assert_eq!(methods, ["answer", "answer", "notifications/message", "notifications/progress", "answer"], "{got:?}");
    assert_eq!(got[3]["params"], json!({"progressToken": "p", "progress": 1.5, "total": 10.0, "message": MARK}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_passes_through_a_bundle() {
    let (_, url) = Talking::start(everything).await;
    let running = start(options()).await;
    let (service, document) = filtered("api", &url, Enforced);
    let bundle = crate::bundles::bundle(&[("api", "")]);
    assert_eq!(running.gateway.apply(&crate::bundles::with(snapshot(&service, [document]), [bundle])).failed, []);
    let (kind, got) =
        messages(request(&running, "all", true, &json!({"progressToken": 1})).send().await.unwrap()).await;
    assert_eq!((kind.as_str(), got.len()), ("text/event-stream", 2), "{got:?}");
    assert!(!got.concat().contains(MARK), "{got:?}");
}

/// Calls that a test holds: each sends progress at once, and the answer when the test says so.
async fn held() -> (String, mpsc::UnboundedSender<()>, Arc<Mutex<usize>>) {
    let (release, releases) = mpsc::unbounded_channel::<()>();
    let releases = Arc::new(tokio::sync::Mutex::new(releases));
    let dropped = Arc::new(Mutex::new(0));
    struct Counted(Arc<Mutex<usize>>);
    impl Drop for Counted {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let ended = Arc::clone(&dropped);
    let (_, url) = Talking::start(move |call: &Value| {
        let (first, last) = (progress(call, r#""progress":1"#), answer(call, r#"{"structuredContent":{"a":1}}"#));
        let (releases, counted) = (Arc::clone(&releases), Counted(Arc::clone(&ended)));
        stream::iter([first]).chain(stream::once(async move {
            let _counted = counted;
            releases.lock().await.recv().await;
            last
        }))
    })
    .await;
    (url, release, dropped)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_caller_that_disconnects_ends_the_call_and_a_legacy_one_does_not() {
    let (url, release, dropped) = held().await;
    let running = start(options()).await;
    both(&running, &url).await;
    let ok = |name: &str, outcome: &str| {
        format!(r#"tamis_tool_calls_total{{exposition="{name}",namespace="default",outcome="{outcome}",tool="read"}}"#)
    };
    for (is_modern, outcome) in [(true, "cancelled"), (false, "ok")] {
        let response = request(&running, "enforced", is_modern, &json!({"progressToken": 1})).send().await.unwrap();
        let mut stream = response.bytes_stream();
        let first =
            tokio::time::timeout(Duration::from_secs(20), stream.next()).await.expect("progress, before the answer");
        assert!(String::from_utf8_lossy(&first.unwrap().unwrap()).contains(r#""progress":1"#));
        drop(stream);
        if is_modern {
            until("the upstream's stream ends", || *dropped.lock().unwrap() == 1).await;
        } else {
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(*dropped.lock().unwrap(), 1, "the call goes on");
            release.send(()).unwrap();
        }
        running.until_metric(&ok("enforced", outcome), |count| count == 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_does_not_read_holds_nothing_up_and_is_closed() {
    let large = "x".repeat(24 << 20);
    let (_, url) = Talking::start(move |call: &Value| {
        let result = format!(r#"{{"structuredContent":{{"a":"{large}"}}}}"#);
        let (first, last) = (progress(call, r#""progress":1"#), answer(call, &result));
        stream::iter([first]).chain(stream::once(async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            last
        }))
    })
    .await;
    let limits = GatewayLimits {
        answer_timeout: Duration::from_secs(1),
        answer_rate: 100 << 20,
        max_response_bytes: 64 << 20,
        ..GatewayLimits::default()
    };
    let running = start(Options { limits, ..options() }).await;
    let (service, mut document) = filtered("enforced", &url, Enforced);
    document.limits.max_response_bytes = 64 << 20;
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    let request = request(&running, "enforced", false, &json!({"progressToken": 1})).build().unwrap();
    let body = request.body().unwrap().as_bytes().unwrap();
    let mut client = TcpStream::connect(running.address).await.unwrap();
    let head = format!(
        "POST /mcp/default/enforced HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-11-25\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(body).await.unwrap();
    let mut piece = [0; 64];
    let _ = client.read(&mut piece).await.unwrap();
    let ok = r#"tamis_tool_calls_total{exposition="enforced",namespace="default",outcome="ok",tool="read"}"#;
    running.until_metric(ok, |count| count == 1).await;
    running.until_metric(r#"tamis_connections_closed_total{reason="slow"}"#, |count| count == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_messages_slows_no_other_exposition_and_the_newest_arrives() {
    let (_, url) = Talking::start(|call: &Value| {
        let flood = vec![progress(call, r#""progress":1"#); 1_000].join("\n\ndata: ");
        let flood = std::iter::repeat_n(flood, 200).chain([progress(call, r#""progress":999999"#)]);
        let last = answer(call, r#"{"structuredContent":{"a":1}}"#);
        stream::iter(flood).chain(stream::iter([last]))
    })
    .await;
    let running = start(options()).await;
    let http = Upstream::start().await;
    http.json("/doc", "{}");
    let other = service(&http.base, &json!({"read": tool("/doc")}));
    let (service, mut document) = filtered("flooded", &url, Enforced);
    document.limits.timeout_ms = 120_000;
    let mut snapshot = snapshot(&service, [document]);
    snapshot.services.insert(other.digest(), Arc::clone(&other));
    let quiet = exposition("quiet", &other, Advisory, &[("read", None)]);
    snapshot.expositions.insert(quiet.id.clone(), Arc::new(quiet));
    assert_eq!(running.gateway.apply(&snapshot).failed, []);

    let flooded = messages(request(&running, "flooded", true, &json!({"progressToken": 1})).send().await.unwrap());
    let mut flooded = std::pin::pin!(flooded);
    let (mut slowest, mut calls) = (Duration::ZERO, 0);
    let (kind, got) = loop {
        let begun = Instant::now();
        tokio::select! {
            biased;
            got = &mut flooded => break got,
            result = running.call("quiet", "read", json!({})) => assert_eq!(result["isError"], false),
        }
        slowest = slowest.max(begun.elapsed());
        calls += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(kind, "text/event-stream");
    assert!(got[got.len() - 2].contains(r#""progress":999999}"#), "{:?}", &got[got.len() - 2..]);
    assert!(got.len() < 1_000, "{} messages", got.len());
    // As in the tests of floods over HTTP: a turn of the reader is short.
    assert!(calls > 10 && slowest < Duration::from_secs(2), "{calls} calls, the slowest took {slowest:?}");
}
