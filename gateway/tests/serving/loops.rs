//! Calls that would reach the gateway itself, and what a log shows of removed data.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tamis_engine::Enforcement::{Advisory, Enforced};
use tokio::net::{TcpListener, TcpStream};

use crate::log::Log;
use crate::support::{Running, Upstream, exposition, options, service, snapshot, start, text, tool};

/// A tool whose upstream is the exposition `api` of a gateway, and which calls itself there.
fn recursive() -> Value {
    json!({
        "inputSchema": {"type": "object"},
        "call": {"http": {
            "method": "POST", "path": "/mcp/default/api",
            "request": {
                "headers": {"mcp-protocol-version": "2025-11-25"},
                "body": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "again", "arguments": {}}},
            },
        }},
    })
}

fn publish(running: &Running, base: &str) {
    let service = service(base, &json!({"again": recursive()}));
    let report =
        running.gateway.apply(&snapshot(&service, [exposition("api", &service, Advisory, &[("again", None)])]));
    assert_eq!(report.failed, []);
}

/// Another address of the gateway, as a Service or an Ingress is one.
async fn relay(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut from, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut to = TcpStream::connect(to).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            });
        }
    });
    address
}

async fn calls(running: &Running) -> f64 {
    let metrics = running.admin("/metrics").await.1;
    let lines = metrics.lines().filter(|line| line.starts_with("tamis_tool_calls_total{"));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

#[tokio::test]
async fn a_call_that_reaches_itself_ends() {
    let running = start(options()).await;
    let relay = relay(running.address).await;
    publish(&running, &format!("http://{relay}"));
    let result = running.call("api", "again", json!({})).await;
    assert!(result.to_string().contains("508"), "{result}");
    assert_eq!(calls(&running).await, 4.0);
}

#[tokio::test]
async fn a_gateway_does_not_call_its_own_ports() {
    let running = start(options()).await;
    let (serving, admin) = (running.address.port(), running.admin.port());
    for base in [
        format!("http://127.0.0.1:{serving}"),
        format!("http://localhost:{serving}"),
        format!("http://127.1.2.3:{admin}"),
        format!("http://[::ffff:127.0.0.1]:{admin}"),
        format!("http://0.0.0.0:{admin}"),
    ] {
        publish(&running, &base);
        let before = calls(&running).await;
        let result = running.call("api", "again", json!({})).await;
        assert_eq!(text(&result), "The upstream could not be reached: egress.", "{base}");
        assert_eq!(calls(&running).await, before + 1.0, "{base}");
    }
}

#[tokio::test]
async fn the_admin_port_is_closed_to_calls_of_gateways() {
    let running = start(options()).await;
    for path in ["/metrics", "/livez", "/config"] {
        let request = running.http.get(format!("http://{}{path}", running.admin)).header("tamis-hops", "1");
        assert_eq!(request.send().await.unwrap().status().as_u16(), 403, "{path}");
    }
}

#[tokio::test]
async fn every_request_to_an_upstream_counts_the_gateways() {
    let seen: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let log = Arc::clone(&seen);
    let app = axum::Router::new().fallback(move |headers: axum::http::HeaderMap| {
        let hops = headers.get("tamis-hops").map(|value| value.to_str().unwrap().to_owned());
        log.lock().unwrap().push(hops);
        async { "{}" }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let running = start(options()).await;
    publish(&running, &base);
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "again"}}).to_string();
    for (hops, sent) in
        [(None, Some("1")), (Some("0"), Some("1")), (Some("3"), Some("4")), (Some("4"), None), (Some("x"), None)]
    {
        let request = running.post("api", message.clone()).header("mcp-protocol-version", "2025-11-25");
        let request = hops.iter().fold(request, |request, hops| request.header("tamis-hops", *hops));
        let status = request.send().await.unwrap().status().as_u16();
        let sent_now = seen.lock().unwrap().pop();
        assert_eq!(sent_now, sent.map(|hops| Some(hops.to_owned())), "{hops:?}");
        assert_eq!(status, if sent.is_some() { 200 } else { 508 }, "{hops:?}");
        // A batch counts them as well, and answers for each of its calls.
        let request = running.post("api", format!("[{message}]"));
        let request = hops.iter().fold(request, |request, hops| request.header("tamis-hops", *hops));
        let status = request.send().await.unwrap().status().as_u16();
        assert_eq!(seen.lock().unwrap().pop(), sent.map(|hops| Some(hops.to_owned())), "{hops:?} in a batch");
        assert_eq!(status, 200);
    }
}

/// The audit records, without the time of each and what its call took.
async fn records(log: &Log, count: usize) -> Vec<String> {
    let without_time = |line: String| {
        let words = line.split(' ').skip(1).filter(|word| !word.starts_with("took_us="));
        words.collect::<Vec<_>>().join(" ")
    };
    log.records(count).await.into_iter().map(without_time).collect()
}

#[tokio::test]
async fn the_audit_record_tells_nothing_of_what_was_removed() {
    let (log, _guard) = Log::start("info");
    let upstream = Upstream::start().await;
    let running = start(options()).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let document = exposition("api", &service, Enforced, &[("read", Some(r#"{"retain":["/a"]}"#))]);
    running.gateway.apply(&snapshot(&service, [document]));
    for pin in ["1234", "9876"] {
        upstream.json("/doc", format!(r#"{{"a":1,"pin":"{pin}"}}"#));
        running.call("api", "read", json!({})).await;
    }
    upstream.json("/doc", r#"{"a":2,"pin":"1234"}"#);
    running.call("api", "read", json!({})).await;
    let records = records(&log, 3).await;
    assert_eq!(records[0], records[1], "they differ in what was removed only");
    assert_ne!(records[0], records[2], "what the caller got is another");
    let field =
        |name: &str| records[0].split_once(&format!("{name}=\"")).unwrap().1.split('"').next().unwrap().to_owned();
    assert_eq!((field("result_hmac").len(), field("hmac_key").len()), (64, 8), "{records:?}");
}
