//! What must not get through: removed data, too much of anything.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tamis_engine::Enforcement::{Advisory, Enforced};
use tamis_gateway::{GatewayLimits, Options};

use crate::log::Log;
use crate::support::{Page, Running, Upstream, exposition, options, service, simple, snapshot, start, tool, until};

/// All of an answer that a caller can see, but for the date.
async fn seen(running: &Running, tool: &str, modern: bool) -> (u16, Vec<(String, String)>, String) {
    let params = json!({"name": tool});
    let request = if modern {
        running.modern_request("api", "tools/call", params)
    } else {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        running.post("api", message.to_string())
    };
    let response = request.send().await.unwrap();
    let headers = response
        .headers()
        .iter()
        .filter(|(name, _)| name.as_str() != "date")
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    (response.status().as_u16(), headers, response.text().await.unwrap())
}

/// A document with something in each place that the filters below remove, or nothing.
fn document() -> impl Strategy<Value = Value> {
    let hidden = || {
        proptest::option::of(prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,40}".prop_map(Value::from),
            proptest::collection::vec(any::<u8>(), 0..4).prop_map(|v| json!({"deep": v})),
        ])
    };
    (hidden(), hidden(), hidden()).prop_map(|(a, b, c)| {
        let mut items = [json!({"id": 1, "name": "n"}), json!({"id": 2, "name": "m"})];
        for (value, item) in [a, b].into_iter().zip(&mut items) {
            if let Some(value) = value {
                item["secret"] = value;
            }
        }
        let mut document = json!({"items": items});
        if let Some(value) = c {
            document["total"] = value;
        }
        document
    })
}

#[test]
fn enforced_answers_do_not_depend_on_what_is_removed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (upstream, running) = runtime.block_on(async {
        let upstream = Upstream::start().await;
        let running = start(options()).await;
        let tools = json!({"select": tool("/doc"), "retain": tool("/doc"), "fails": tool("/doc")});
        let service = service(&upstream.base, &tools);
        let filters = [
            ("select", Some(r#"{"root":"/items","select":{"id":"id","name":"name"}}"#)),
            ("retain", Some(r#"{"retain":["/items/id","/items/name"]}"#)),
            ("fails", Some(r#"{"retain":["/items/id"],"root":"/none","select":{"a":"a"}}"#)),
        ];
        let report = running.gateway.apply(&snapshot(&service, [exposition("api", &service, Enforced, &filters)]));
        assert_eq!(report.failed, []);
        (upstream, running)
    });
    let mut runner = TestRunner::new(Config { cases: 24, ..Config::default() });
    runner
        .run(&(document(), document()), |(one, other)| {
            runtime.block_on(async {
                for tool in ["select", "retain", "fails"] {
                    for modern in [false, true] {
                        upstream.json("/doc", one.to_string());
                        let first = seen(&running, tool, modern).await;
                        upstream.json("/doc", other.to_string());
                        prop_assert_eq!(&first, &seen(&running, tool, modern).await, "{} {} {}", tool, &one, &other);
                        prop_assert_eq!(first.0, 200);
                    }
                }
                Ok(())
            })
        })
        .unwrap();
}

#[tokio::test]
async fn no_payload_reaches_the_log() {
    const SECRET: &str = "hunter2-a5f1";
    let log = Log::of_all("trace");
    let upstream = Upstream::start().await;
    upstream.json("/doc", format!(r#"{{"a":1,"secret":"{SECRET}"}}"#));
    upstream.json("/broken", format!(r#"{{"secret":"{SECRET}""#));
    let error = Page { status: 500, kind: "text/plain", body: SECRET.to_owned(), delay: Duration::ZERO };
    upstream.page("/error", error);
    let running = start(options()).await;
    let tools = json!({"ok": tool("/doc"), "broken": tool("/broken"), "error": tool("/error"), "miss": tool("/doc")});
    let service = service(&upstream.base, &tools);
    let keep = Some(r#"{"retain":["/a"]}"#);
    let miss = Some(r#"{"root":"/secret/deep","select":{"x":"y"}}"#);
    let filters = [("ok", keep), ("broken", keep), ("error", keep), ("miss", miss)];
    let expositions = [Advisory, Enforced].map(|enforcement| {
        exposition(if enforcement == Advisory { "log-open" } else { "log-closed" }, &service, enforcement, &filters)
    });
    assert_eq!(running.gateway.apply(&snapshot(&service, expositions)).failed, []);
    for name in ["log-open", "log-closed"] {
        for tool in ["ok", "broken", "error", "miss"] {
            running.call(name, tool, json!({})).await;
        }
        running.call(name, "ok", json!({"state": SECRET})).await;
        running.legacy(name, "tools/call", json!({"name": "unknown"})).await;
    }
    let metrics = running.admin("/metrics").await.1;
    until("every call has a record", || log.text().matches("verdict").count() >= 10).await;
    let logged = log.text();
    assert!(logged.contains("log-closed"), "{logged}");
    for (place, text) in [("log", &logged), ("metrics", &metrics)] {
        assert!(!text.contains(SECRET), "in the {place}: {text}");
    }
}

#[tokio::test]
async fn requests_that_are_too_large_or_too_slow_are_turned_away() {
    let limits = GatewayLimits {
        request_bytes: 1_000,
        body_timeout: Duration::from_millis(100),
        header_timeout: Duration::from_millis(200),
        ..GatewayLimits::default()
    };
    let (_upstream, running) = simple(limits).await;
    let response = running.post("api", " ".repeat(1_001)).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 413);
    let parts = futures_util::stream::iter([Ok::<_, std::io::Error>(vec![b' '; 600]), Ok(vec![b' '; 600])]);
    let response = running.post("api", reqwest::Body::wrap_stream(parts)).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 413);
    let never = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let response = running.post("api", reqwest::Body::wrap_stream(never)).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 408);
    for beginning in [&b""[..], b"PRI * HT", b"POST /mcp/default/api HTTP/1.1\r\nHost: x\r\n"] {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut slow = tokio::net::TcpStream::connect(running.address).await.unwrap();
        slow.write_all(beginning).await.unwrap();
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(3), slow.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "{:?} is held open", String::from_utf8_lossy(beginning));
    }
    for beginning in [&b""[..], b"POST /mcp/default/api HTTP/1.1\r\nHost: x\r\n"] {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut slow = tokio::net::TcpStream::connect(running.address).await.unwrap();
        slow.write_all(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        slow.write_all(beginning).await.unwrap();
        let mut answer = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(20), slow.read_to_end(&mut answer)).await;
        assert!(closed.is_ok(), "{:?} is held open after a request", String::from_utf8_lossy(beginning));
        assert!(answer.starts_with(b"HTTP/1.1 404"), "{}", String::from_utf8_lossy(&answer));
    }
    let metrics = running.admin("/metrics").await.1;
    let size = "tamis_requests_rejected_total{exposition=\"api\",namespace=\"default\",reason=\"size\"} 2";
    assert!(metrics.contains(size), "{metrics}");
}

#[tokio::test]
async fn connections_and_calls_at_once_are_bounded() {
    let (upstream, running) = simple(GatewayLimits { connections: 2, ..GatewayLimits::default() }).await;
    // Streams: a connection with nothing under way would give way to a newer one.
    let mut streams = Vec::new();
    for _ in 0..2 {
        let client = reqwest::Client::new();
        streams.push(client.get(running.url("api")).header("accept", "text/event-stream").send().await.unwrap());
    }
    assert!(running.post("api", "{}").send().await.is_err());
    assert!(running.admin("/metrics").await.1.contains("reason=\"connections\"} 1"));
    drop(streams);
    let mut served = false;
    for _ in 0..200 {
        served = running.post("api", "{}").send().await.is_ok();
        if served {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(served);
    let slow = Page { status: 200, kind: "application/json", body: "{}".into(), delay: Duration::from_millis(500) };
    upstream.page("/doc", slow);
    let running = start(Options { limits: GatewayLimits { calls: 1, ..Default::default() }, ..options() }).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    running.gateway.apply(&snapshot(&service, [exposition("api", &service, Advisory, &[("read", None)])]));
    let hits = upstream.hits();
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;
    let first = tokio::spawn(running.post("api", message).send());
    until("the first is under way", || upstream.hits() == hits + 1).await;
    let (status, answer) = running.legacy("api", "tools/call", json!({"name": "read"})).await;
    assert_eq!((status, &answer["error"]["code"]), (503, &json!(-32000)), "{answer}");
    assert_eq!(first.await.unwrap().unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn an_exposition_has_a_rate_and_a_number_of_calls() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", "{}");
    let running = start(options()).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let mut document = exposition("api", &service, Advisory, &[("read", None)]);
    document.limits.requests_per_second = Some(1);
    document.limits.burst = Some(2);
    running.gateway.apply(&snapshot(&service, [document.clone()]));
    for _ in 0..2 {
        running.call("api", "read", json!({})).await;
    }
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;
    let response = running.post("api", message).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 429);
    assert!(response.headers().contains_key("retry-after"));
    // A reload that leaves the limits alone gives no new burst.
    document.tools.get_mut("read").unwrap().filter = Some(crate::support::filter(r#"{"dropNulls":true}"#));
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).changed.len(), 1);
    assert_eq!(running.post("api", message).send().await.unwrap().status().as_u16(), 429);
    assert_eq!(upstream.hits(), 2);
    let metrics = running.admin("/metrics").await.1;
    let rate = "tamis_requests_rejected_total{exposition=\"api\",namespace=\"default\",reason=\"rate\"} 2";
    assert!(metrics.contains(rate), "{metrics}");
}
