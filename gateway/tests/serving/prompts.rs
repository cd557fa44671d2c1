//! Prompts and resources of the documents: callers choose the arguments, so they have the limits and the memory of calls.

use std::sync::Arc;

use serde_json::{Value, json};
use tamis_config::{ExpositionDocument, ServiceDocument};
use tamis_engine::Enforcement::{self, Advisory, Enforced};
use tamis_gateway::{GatewayLimits, Options};

use crate::support::{Running, exposition, options, service, snapshot, start, tool};

/// A service with a prompt of many placeholders, a short prompt and a resource of a kilobyte.
fn documents(enforcement: Enforcement) -> (Arc<ServiceDocument>, ExpositionDocument) {
    let mut with_content = ServiceDocument::clone(&service("http://127.0.0.1:9", &json!({"read": tool("/doc")})));
    let prompt = |text: String| json!({"description": "Repeats", "arguments": {"a": {}}, "messages": [{"role": "user", "text": text}]});
    let content = json!({
        "prompts": {"short": prompt("Say {a}".to_owned()), "long": prompt("{a}".repeat(80_000))},
        "resources": {"docs://one": {"info": {"name": "one"}, "content": {"text": "x".repeat(1_000)}}},
    });
    with_content.content = serde_json::from_value(content).unwrap();
    let service = Arc::new(with_content);
    let tools: &[_] =
        if enforcement == Advisory { &[("read", None)] } else { &[("read", Some(r#"{"root":"","retain":["/a"]}"#))] };
    let mut document = exposition("api", &service, enforcement, tools);
    document.content.prompts = vec!["short".to_owned(), "long".to_owned()];
    document.content.resources = vec!["docs://one".to_owned()];
    (service, document)
}

async fn running(limits: GatewayLimits, (service, document): (Arc<ServiceDocument>, ExpositionDocument)) -> Running {
    let running = start(Options { limits, ..options() }).await;
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    running
}

async fn get(running: &Running, name: &str, a: &str) -> Value {
    running.legacy("api", "prompts/get", json!({"name": name, "arguments": {"a": a}})).await.1
}

async fn read(running: &Running) -> Value {
    running.legacy("api", "resources/read", json!({"uri": "docs://one"})).await.1
}

#[tokio::test]
async fn they_are_answered_and_counted_under_both_enforcements() {
    for enforcement in [Advisory, Enforced] {
        let running = running(GatewayLimits::default(), documents(enforcement)).await;
        let answer = get(&running, "short", "hi").await;
        assert_eq!(answer["result"]["messages"][0]["content"]["text"], "Say hi", "{answer}");
        assert_eq!(answer["result"]["description"], "Repeats");
        assert_eq!(read(&running).await["result"]["contents"][0]["text"].as_str().unwrap().len(), 1_000);
        let answer = get(&running, "long", &"b".repeat(14)).await;
        assert_eq!(answer["error"]["message"], "the messages would be longer than 1048576 bytes");
        for (tool, outcome) in [
            ("documents:prompts/get", "ok"),
            ("documents:prompts/get", "invalid_arguments"),
            ("documents:resources/read", "ok"),
        ] {
            let labels = format!(r#"exposition="api",namespace="default",outcome="{outcome}",tool="{tool}""#);
            assert_eq!(running.metric(&format!("tamis_tool_calls_total{{{labels}}}")).await, 1, "{labels}");
        }
    }
}

#[tokio::test]
async fn the_limits_of_calls_hold_for_them() {
    let (service, mut document) = documents(Advisory);
    document.limits.output.bytes = Some(200);
    let running = running(GatewayLimits::default(), (Arc::clone(&service), document.clone())).await;
    assert!(get(&running, "short", "hi").await["result"].is_object());
    for answer in [get(&running, "short", &"b".repeat(200)).await, read(&running).await] {
        assert!(answer["error"]["message"].as_str().unwrap().contains("larger than 200 bytes"), "{answer}");
    }
    (document.limits.requests_per_second, document.limits.burst) = (Some(1), Some(1));
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    let mut refused = 0;
    for _ in 0..5 {
        let (status, _) = running.legacy("api", "prompts/get", json!({"name": "short"})).await;
        refused += usize::from(status == 429);
    }
    assert!(refused >= 1, "{refused} of 5");
}

/// A control character of a text takes six bytes as JSON, and these bytes are reserved before they are written.
#[tokio::test]
async fn memory_is_reserved_for_what_they_become() {
    let of = |memory| GatewayLimits { memory, ..GatewayLimits::default() };
    let escaped = "\0".repeat(13);
    let (service, document) = documents(Advisory);
    let small = running(of(6 << 20), (Arc::clone(&service), document.clone())).await;
    let answer = get(&small, "long", &escaped).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("does not fit into the memory"), "{answer}");
    let large = running(of(64 << 20), (service, document)).await;
    let answer = get(&large, "long", &escaped).await;
    assert_eq!(answer["result"]["messages"][0]["content"]["text"].as_str().unwrap().len(), 13 * 80_000);
    assert_eq!(large.metric(r#"tamis_offloaded_work_total{work="answer"}"#).await, 1, "not on a serving thread");
}
