//! Standard input and output.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tamis_engine::Enforcement::Advisory;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::{MODERN, Page, Running, exposition, id, service, simple, snapshot, tool, until};

struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    input: WriteHalf<DuplexStream>,
    session: JoinHandle<bool>,
}

impl Client {
    fn new(running: &Running) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (output, input) = tokio::io::split(ours);
        let (read, write) = tokio::io::split(theirs);
        let gateway = Arc::clone(&running.gateway);
        let session = tokio::spawn(async move {
            gateway.serve_stdio(&id("api"), read, write, CancellationToken::new()).await.is_ok()
        });
        Self { lines: BufReader::new(output).lines(), input, session }
    }

    async fn send(&mut self, message: Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(5), self.lines.next_line()).await.expect("an answer");
        serde_json::from_str(&line.unwrap().expect("a line")).unwrap()
    }

    async fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        self.receive().await
    }
}

fn meta() -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}})
}

#[tokio::test]
async fn a_legacy_session_from_handshake_to_end_of_input() {
    let (upstream, running) = simple(Default::default()).await;
    let mut client = Client::new(&running);
    let answer = client.ask(0, "initialize", json!({"protocolVersion": "2025-06-18"})).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    assert_eq!(client.ask(1, "tools/list", json!({})).await["result"]["tools"][0]["name"], "read");
    let answer = client.ask(2, "tools/call", json!({"name": "read"})).await;
    assert_eq!(answer["result"]["structuredContent"]["name"], "x");
    client.input.write_all(b"nonsense\n\n").await.unwrap();
    assert_eq!(client.receive().await["error"]["code"], json!(-32700));
    // A cancelled call is not answered, and goes no further.
    let slow = Page { status: 200, kind: "application/json", body: "{}".into(), delay: Duration::from_secs(20) };
    upstream.page("/doc", slow);
    client.send(json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "read"}})).await;
    until("the call is under way", || upstream.hits() == 2).await;
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}})).await;
    until("the call went away", || upstream.open.load(std::sync::atomic::Ordering::SeqCst) == 0).await;
    assert_eq!(client.ask(4, "ping", json!({})).await["id"], 4);
    let service = service(&upstream.base, &json!({"other": tool("/doc")}));
    running.gateway.apply(&snapshot(&service, [exposition("api", &service, Advisory, &[("other", None)])]));
    assert_eq!(client.receive().await["method"], "notifications/tools/list_changed");
    client.input.shutdown().await.unwrap();
    assert!(client.session.await.unwrap());
}

#[tokio::test]
async fn a_modern_session_with_a_subscription() {
    let (upstream, running) = simple(Default::default()).await;
    let mut client = Client::new(&running);
    let answer = client.ask(1, "server/discover", json!({"_meta": meta()})).await;
    assert_eq!(answer["result"]["supportedVersions"], json!([MODERN]));
    let answer = client.ask(2, "tools/call", json!({"_meta": meta(), "name": "read"})).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    let mut old = meta();
    old["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    assert_eq!(client.ask(3, "tools/list", json!({"_meta": old})).await["error"]["code"], json!(-32022));
    let wanted = json!({"_meta": meta(), "notifications": {"toolsListChanged": true}});
    let acknowledged = client.ask(4, "subscriptions/listen", wanted).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let service = service(&upstream.base, &json!({"other": tool("/doc")}));
    running.gateway.apply(&snapshot(&service, [exposition("api", &service, Advisory, &[("other", None)])]));
    let changed = client.receive().await;
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 4);
    client.input.shutdown().await.unwrap();
    let end = client.receive().await;
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(4), &json!("complete")));
    assert!(client.session.await.unwrap());
}

#[tokio::test]
async fn a_deleted_exposition_ends_the_subscriptions_of_a_modern_session() {
    let (upstream, running) = simple(Default::default()).await;
    let service = service(&upstream.base, &json!({"other": tool("/doc")}));
    let mut client = Client::new(&running);
    for round in 0..2 {
        let (listen, list) = (10 * round + 1, 10 * round + 2);
        let wanted = json!({"_meta": meta(), "notifications": {"toolsListChanged": true}});
        let acknowledged = client.ask(listen, "subscriptions/listen", wanted.clone()).await;
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
        running.gateway.apply(&snapshot(&service, []));
        let end = client.receive().await;
        assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!(listen), &json!("complete")));
        for (method, params) in [("tools/list", json!({"_meta": meta()})), ("subscriptions/listen", wanted)] {
            let refused = client.ask(list, method, params).await;
            let error = json!({"code": -32000, "message": "no exposition at this address"});
            assert_eq!((&refused["id"], &refused["error"]), (&json!(list), &error));
        }
        running.gateway.apply(&snapshot(&service, [exposition("api", &service, Advisory, &[("other", None)])]));
        let listed = client.ask(list, "tools/list", json!({"_meta": meta()})).await;
        assert_eq!(listed["result"]["tools"][0]["name"], "other");
    }
    client.input.shutdown().await.unwrap();
    assert!(client.session.await.unwrap());
}

#[tokio::test]
async fn a_legacy_session_is_notified_of_a_deleted_exposition_and_of_its_return() {
    let (upstream, running) = simple(Default::default()).await;
    let service = service(&upstream.base, &json!({"other": tool("/doc")}));
    let mut client = Client::new(&running);
    client.ask(0, "initialize", json!({"protocolVersion": "2025-06-18"})).await;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    for _ in 0..2 {
        running.gateway.apply(&snapshot(&service, []));
        assert_eq!(client.receive().await, changed);
        let refused = client.ask(1, "tools/list", json!({})).await;
        assert_eq!(refused["error"], json!({"code": -32000, "message": "no exposition at this address"}));
        running.gateway.apply(&snapshot(&service, [exposition("api", &service, Advisory, &[("other", None)])]));
        // The notification and the answer come from different tasks.
        let messages = [client.ask(2, "tools/list", json!({})).await, client.receive().await];
        assert!(messages.contains(&changed), "{messages:?}");
        let names = messages.iter().map(|message| &message["result"]["tools"][0]["name"]);
        assert!(names.into_iter().any(|name| name == "other"), "{messages:?}");
    }
    client.input.shutdown().await.unwrap();
    assert!(client.session.await.unwrap());
}

#[tokio::test]
async fn a_line_that_is_too_long_is_refused_and_skipped() {
    let (_upstream, running) = simple(tamis_gateway::GatewayLimits { request_bytes: 200, ..Default::default() }).await;
    let mut client = Client::new(&running);
    client.send(json!("x".repeat(1_000))).await;
    assert_eq!(client.receive().await["error"]["code"], json!(-32600));
    assert_eq!(client.ask(1, "ping", json!({})).await["result"], json!({}));
    let unknown = id("nothing");
    let none =
        Arc::clone(&running.gateway).serve_stdio(&unknown, tokio::io::empty(), tokio::io::sink(), Default::default());
    assert!(none.await.is_err());
}

#[tokio::test]
async fn a_batch_is_answered_together_and_holds_up_no_line() {
    let (upstream, running) = simple(Default::default()).await;
    let mut client = Client::new(&running);
    client.send(json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])).await;
    assert_eq!(client.receive().await["error"]["code"], json!(-32600), "no version was negotiated");
    let answer = client.ask(0, "initialize", json!({"protocolVersion": "2025-03-26"})).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-03-26");
    let slow = Page { status: 200, kind: "application/json", body: "{}".into(), delay: Duration::from_secs(20) };
    upstream.page("/doc", slow);
    client
        .send(json!([
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read"}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "ping"},
            {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
        ]))
        .await;
    assert_eq!(client.ask(4, "ping", json!({})).await["id"], 4, "the next line is answered first");
    until("the call is in flight", || upstream.hits() == 1).await;
    // A batch can cancel, too.
    client
        .send(json!([
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        ]))
        .await;
    let answers = client.receive().await;
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 2, "a cancelled request is not answered: {answers:?}");
    assert_eq!((&answers[0]["id"], &answers[0]["result"]), (&json!(2), &json!({})));
    assert_eq!((&answers[1]["id"], &answers[1]["error"]["code"]), (&json!(3), &json!(-32600)));
    client.input.shutdown().await.unwrap();
    assert!(client.session.await.unwrap());
}

#[tokio::test]
async fn subscriptions_are_bounded_and_cancelled_by_id() {
    let limits = tamis_gateway::GatewayLimits { streams: 4, ..Default::default() };
    let (_upstream, running) = simple(limits).await;
    let mut client = Client::new(&running);
    let wanted = || json!({"_meta": meta(), "notifications": {"toolsListChanged": true}});
    let acknowledged = client.ask(1, "subscriptions/listen", wanted()).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let refused = client.ask(2, "subscriptions/listen", wanted()).await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(-32000)), "{refused}");
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    // Its place is free once the subscription has noticed.
    let mut answer = refused;
    for id in 3..1_000 {
        answer = client.ask(id, "subscriptions/listen", wanted()).await;
        if answer["error"].is_null() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(answer["method"], "notifications/subscriptions/acknowledged");
}
