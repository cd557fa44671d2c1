//! Who may call: keys, their rotation, and what is one caller's alone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tamis_config::{Access, CallLimits, CredentialHandle, ExpositionDocument, Snapshot};
use tamis_engine::Enforcement::{Advisory, Enforced};
use tamis_gateway::Options;

use crate::keys::{HANDLE, Keys};
use crate::log::Log;
use crate::support::{
    MODERN, Page, Running, Upstream, exposition, options, read, service, snapshot, start, tool, until,
};

const ALICE: &str = "0123-alice-4567";
const BOB: &str = "89ab-bob-cdef";

fn api_keys() -> Option<Access> {
    Some(Access::ApiKeys { secret: "partners".to_owned(), handle: Some(CredentialHandle(HANDLE.to_owned())) })
}

/// An exposition `api` for Alice and Bob.
async fn serve(keys: &Keys, change: impl FnOnce(&mut ExpositionDocument)) -> (Upstream, Running) {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"a":1}"#);
    let running = start(Options { require_access: true, ..Options::new(Arc::new(keys.clone())) }).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let mut document = exposition("api", &service, Advisory, &[("read", None)]);
    document.access = api_keys();
    change(&mut document);
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    (upstream, running)
}

fn call(running: &Running, modern: bool) -> RequestBuilder {
    let params = json!({"name": "read"});
    if modern {
        return running.modern_request("api", "tools/call", params);
    }
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string();
    running.post("api", message).header("mcp-protocol-version", "2025-11-25")
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_key_is_good_in_either_place_and_either_era() {
    let keys = Keys::of(&[("alice", ALICE), ("bob", BOB)]);
    let (upstream, running) = serve(&keys, |_| {}).await;
    for modern in [false, true] {
        for key in [ALICE, BOB] {
            let forms = [call(&running, modern).bearer_auth(key), call(&running, modern).header("X-API-Key", key)];
            for request in forms {
                let (status, answer) = read(request.send().await.unwrap()).await;
                assert_eq!((status, &answer["result"]["structuredContent"]), (200, &json!({"a": 1})), "{answer}");
            }
        }
    }
    assert_eq!(upstream.hits(), 8);
    let list = running.modern_request("api", "tools/list", json!({})).bearer_auth(ALICE);
    let (_, answer) = read(list.send().await.unwrap()).await;
    assert_eq!(answer["result"]["cacheScope"], "private", "one caller's");
}

#[tokio::test]
async fn whoever_has_no_key_learns_that_and_nothing_else() {
    let keys = Keys::of(&[("alice", ALICE)]);
    let limits = CallLimits { requests_per_second: Some(1), burst: Some(1), ..CallLimits::default() };
    let (upstream, running) = serve(&keys, |document| document.limits = limits).await;
    let stranger = |request: RequestBuilder, form: usize| match form {
        0 => request,
        1 => request.bearer_auth("wrong"),
        2 => request.header("x-api-key", "wrong"),
        3 => request.bearer_auth(ALICE).header("x-api-key", "wrong"),
        4 => request.bearer_auth(format!("{ALICE}{}", "x".repeat(600))),
        _ => request.basic_auth("alice", Some(ALICE)),
    };
    let mut refused = 0;
    for form in 0..6 {
        let plain = || running.http.request(reqwest::Method::DELETE, running.url("api"));
        let requests = [
            call(&running, false),
            call(&running, true),
            running.modern_request("api", "server/discover", json!({})),
            running.post("api", "not JSON at all"),
            running.post("api", "[]").header("content-type", "text/plain"),
            running.http.get(running.url("api")).header("accept", "text/event-stream"),
            running.http.get(running.url("api")).header("mcp-protocol-version", MODERN),
            plain(),
            // Larger than what is read of it: the answer comes all the same.
            running.post("api", "x".repeat(300 << 10)),
        ];
        for request in requests {
            let response = stranger(request, form).send().await.unwrap();
            assert_eq!(response.headers()["www-authenticate"], "Bearer");
            assert_eq!(response.headers()["content-type"], "application/json");
            let (status, answer) = read(response).await;
            assert_eq!((status, &answer["jsonrpc"], &answer["id"]), (401, &json!("2.0"), &Value::Null), "{answer}");
            assert_eq!(answer["error"]["code"], json!(-32000));
            refused += 1;
        }
    }
    assert_eq!(upstream.hits(), 0);
    assert_eq!(status(call(&running, false).bearer_auth(ALICE)).await, 200, "no limit was charged");
    let delete = running.http.delete(running.url("api")).bearer_auth(ALICE);
    assert_eq!(status(delete).await, 405, "there is nothing to end");
    let metrics = running.admin("/metrics").await.1;
    let line = format!(
        "tamis_requests_rejected_total{{exposition=\"api\",namespace=\"default\",reason=\"unauthorized\"}} {refused}"
    );
    assert!(metrics.contains(&line), "{metrics}");
    assert!(!metrics.contains("alice"), "no label holds a caller");
}

#[tokio::test]
async fn nobody_is_let_in_where_nobody_is_named() {
    let keys = Keys::of(&[]);
    let (_upstream, running) = serve(&keys, |_| {}).await;
    assert_eq!(status(call(&running, true).bearer_auth(ALICE)).await, 401);
    keys.remove();
    for request in [call(&running, true).bearer_auth(ALICE), call(&running, true)] {
        let (status, answer) = read(request.send().await.unwrap()).await;
        assert_eq!(status, 503);
        assert_eq!(answer["error"]["message"], json!("the exposition is not available"), "{answer}");
    }
    keys.set(&[("alice", ALICE)]);
    assert_eq!(status(call(&running, true).bearer_auth(ALICE)).await, 200);
}

#[tokio::test]
async fn keys_rotate_while_calls_and_streams_are_under_way() {
    let keys = Keys::of(&[("alice", ALICE), ("bob", BOB)]);
    let (upstream, running) = serve(&keys, |_| {}).await;
    let listen = |key: &'static str, modern: bool| {
        let request = if modern {
            running.modern_request("api", "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))
        } else {
            running.http.get(running.url("api")).header("accept", "text/event-stream")
        };
        async move { request.bearer_auth(key).send().await.unwrap().bytes_stream() }
    };
    let mut ending = [listen(ALICE, false).await, listen(ALICE, true).await];
    let mut staying = [listen(BOB, false).await, listen(BOB, true).await];
    for stream in ending.iter_mut().chain(&mut staying) {
        stream.next().await.unwrap().unwrap();
    }
    let slow = Page { status: 200, kind: "application/json", body: "{}".to_owned(), delay: Duration::from_millis(300) };
    upstream.page("/doc", slow);
    let under_way = tokio::spawn(call(&running, true).bearer_auth(ALICE).send());
    until("the call reached the upstream", || upstream.hits() == 1).await;

    keys.set(&[("alice", "another"), ("bob", BOB)]);
    assert_eq!(status(call(&running, false).bearer_auth(ALICE)).await, 401, "at once");
    assert_eq!(under_way.await.unwrap().unwrap().status().as_u16(), 200, "what has begun ends");
    assert_eq!(status(call(&running, false).bearer_auth("another")).await, 200);
    for stream in &mut ending {
        let next = tokio::time::timeout(Duration::from_secs(5), stream.next()).await.expect("within seconds");
        assert!(matches!(next, Some(Err(_))), "a stream without a key is cut, without another event: {next:?}");
    }
    for stream in &mut staying {
        let waited = tokio::time::timeout(Duration::from_millis(200), stream.next()).await;
        assert!(waited.is_err(), "Bob still listens");
    }
    // The streams of an exposition that is removed are complete.
    running.gateway.apply(&Snapshot::default());
    for stream in &mut staying {
        let rest = async { while stream.next().await.transpose().expect("the stream is not cut").is_some() {} };
        tokio::time::timeout(Duration::from_secs(1), rest).await.expect("the stream ends with its exposition");
    }
}

#[tokio::test]
async fn an_anonymous_stream_is_cut_when_the_exposition_requires_keys() {
    let keys = Keys::of(&[("alice", ALICE)]);
    let (upstream, running) = serve(&keys, |document| document.access = Some(Access::Anonymous)).await;
    let get = running.http.get(running.url("api")).header("accept", "text/event-stream");
    let mut stream = get.send().await.unwrap().bytes_stream();
    stream.next().await.unwrap().unwrap();
    let service = service(&upstream.base, &json!({"read": tool("/doc"), "more": tool("/doc")}));
    let mut document = exposition("api", &service, Advisory, &[("read", None), ("more", None)]);
    document.access = api_keys();
    running.gateway.apply(&snapshot(&service, [document]));
    let next = tokio::time::timeout(Duration::from_secs(2), stream.next()).await.expect("with the change");
    assert!(matches!(next, Some(Err(_))), "the stream is cut, and tells of no change: {next:?}");
}

#[tokio::test]
async fn a_sealed_cursor_is_its_caller_s() {
    let keys = Keys::of(&[("alice", ALICE), ("bob", BOB)]);
    let upstream = Upstream::start().await;
    upstream.json("/pages", json!({"items": [{"n": 1}], "next": "two"}).to_string());
    upstream.json("/pages?cursor=two", json!({"items": [{"n": 2}]}).to_string());
    let mut paged = tool("/pages");
    paged["pagination"] = json!({"type": "cursor", "maxPages": 1, "nextPath": "next"});
    paged["call"]["http"]["extract"] = json!("items");
    let service = service(&upstream.base, &json!({"pages": paged}));
    let mut document = exposition("api", &service, Enforced, &[("pages", Some(r#"{"root":"","select":{"n":"n"}}"#))]);
    document.access = api_keys();
    let running = start(Options::new(Arc::new(keys))).await;
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    let page = async |key: &str, arguments: Value| {
        let params = json!({"name": "pages", "arguments": arguments});
        let request = running.modern_request("api", "tools/call", params).bearer_auth(key);
        read(request.send().await.unwrap()).await.1["result"].clone()
    };
    let cursor = |result: &Value| result["structuredContent"]["_pagination"]["next"].clone();
    let (hers, his) = (cursor(&page(ALICE, json!({})).await), cursor(&page(BOB, json!({})).await));
    assert!(hers["cursor"].is_string(), "{hers}");
    assert_ne!(hers, his);
    let stolen = page(BOB, hers.clone()).await;
    assert_eq!(stolen["isError"], json!(true), "{stolen}");
    assert!(stolen.to_string().contains("not one that this tool returned"), "{stolen}");
    let next = page(ALICE, hers).await;
    assert_eq!(next["isError"], json!(false), "{next}");
}

#[tokio::test]
async fn a_session_cancels_nothing_of_another_caller() {
    let keys = Keys::of(&[("alice", ALICE), ("bob", BOB)]);
    let (upstream, running) = serve(&keys, |_| {}).await;
    let page = Page { status: 200, kind: "application/json", body: "{}".to_owned(), delay: Duration::from_secs(1) };
    upstream.page("/doc", page);
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let response = running.post("api", message).bearer_auth(ALICE).send().await.unwrap();
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let cancel = async |key: &str| {
        let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
        let request = running.post("api", message.to_string()).bearer_auth(key).header("mcp-session-id", &session);
        assert_eq!(status(request).await, 202);
    };
    for (canceller, outcome) in [(BOB, "result"), (ALICE, "error")] {
        let before = upstream.hits();
        let request = call(&running, false).bearer_auth(ALICE).header("mcp-session-id", &session);
        let calling = tokio::spawn(request.send());
        until("the call reached the upstream", || upstream.hits() > before).await;
        cancel(canceller).await;
        let (_, answer) = read(calling.await.unwrap().unwrap()).await;
        assert!(answer[outcome].is_object(), "cancelled by {canceller}: {answer}");
    }
}

#[tokio::test]
async fn records_name_the_caller_and_nothing_holds_a_key() {
    let (log, _guard) = Log::start("trace");
    let keys = Keys::of(&[("alice", ALICE)]);
    let (_upstream, running) = serve(&keys, |_| {}).await;
    assert_eq!(status(call(&running, true).bearer_auth(ALICE)).await, 200);
    assert_eq!(status(call(&running, false).header("x-api-key", ALICE)).await, 200);
    let stranger = call(&running, true).bearer_auth("wrong-key-5f3c").send().await.unwrap();
    let told = stranger.text().await.unwrap();
    let held = || log.text();
    until("both records are written", || held().matches("caller=key:alice@127.0.0.1").count() == 2).await;
    let config = running.admin("/config").await.1;
    let everything = format!("{}{told}{config}{}{:?}", held(), running.admin("/metrics").await.1, running.gateway);
    for secret in [ALICE, "wrong-key-5f3c"] {
        let digest = Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert!(!everything.contains(secret) && !everything.contains(&digest), "{everything}");
    }
}

#[tokio::test]
async fn beyond_loopback_keys_are_access() {
    let upstream = Upstream::start().await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let mut document = exposition("api", &service, Advisory, &[("read", None)]);
    document.access = api_keys();
    let running = start(options()).await;
    let snapshot = snapshot(&service, [document]);
    assert_eq!(running.gateway.check_listen("0.0.0.0:8080".parse().unwrap(), &snapshot, false), Ok(()));
}
