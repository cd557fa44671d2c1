//! Limits count the requests of all workers together: never one more than allowed, and none fewer.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use futures_util::future::join_all;
use serde_json::json;
use tamis_config::CallLimits;
use tamis_gateway::GatewayLimits;

use crate::support::until;
use crate::wire::{Era, TestEnv, Wire, message};

const WORKERS: usize = 8;
const MEMORY: &str = r#"tamis_memory_bytes{kind="held"}"#;

/// Calls an exposition on each connection at once. Returns how many answers had which status.
async fn statuses(env: &TestEnv, wires: &mut [Wire], name: &str) -> BTreeMap<u16, usize> {
    let calls = wires.iter_mut().map(|wire| wire.call(&env.running, name, Era::Modern));
    let mut counts = BTreeMap::new();
    for answered in join_all(calls).await {
        *counts.entry(answered.unwrap().0).or_default() += 1;
    }
    counts
}

/// Makes a call on each connection while the upstream holds back its answers, and releases them once `admitted` have come and
/// the others are refused.
async fn admits(env: &TestEnv, wires: &mut [Wire], name: &str, admitted: usize, refused: (u16, &str)) {
    let count = wires.len();
    let series =
        format!(r#"tamis_requests_rejected_total{{exposition="{name}",namespace="default",reason="{}"}}"#, refused.1);
    let before = env.running.metric(&series).await;
    let held = env.upstream.hold().await;
    let release = async {
        let rejected = (count - admitted) as u64;
        env.running.until_metric(&series, |value| value >= before + rejected).await;
        until("the admitted calls are in flight", || env.upstream.open() >= admitted).await;
        drop(held);
    };
    let (counts, ()) = tokio::join!(statuses(env, wires, name), release);
    assert_eq!(counts, [(200, admitted), (refused.0, count - admitted)].into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_of_an_exposition() {
    let env = TestEnv::new(WORKERS, GatewayLimits::default()).await;
    let mut document = env.document("api", None);
    document.limits = CallLimits { concurrent: Some(10), ..CallLimits::default() };
    let mut wires = env.wires(WORKERS, 8).await;
    env.apply([document]);
    for _ in 0..20 {
        admits(&env, &mut wires, "api", 10, (429, "concurrency")).await;
    }
    assert_eq!(env.upstream.peak.load(Ordering::SeqCst), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_of_the_gateway() {
    let env = TestEnv::new(WORKERS, GatewayLimits { calls: 16, ..GatewayLimits::default() }).await;
    let mut wires = env.wires(WORKERS, 8).await;
    // An exposition that is alone gets six eighths.
    for _ in 0..20 {
        admits(&env, &mut wires, "api", 12, (503, "calls")).await;
    }
    assert_eq!(env.upstream.peak.load(Ordering::SeqCst), 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_a_second() {
    const BURST: usize = 40;
    let env = TestEnv::new(WORKERS, GatewayLimits::default()).await;
    let mut wires = env.wires(WORKERS, 8).await;
    let mut document = env.document("api", None);
    document.limits = CallLimits { requests_per_second: Some(1), burst: Some(BURST as u32), ..CallLimits::default() };
    env.apply([document]);
    let began = Instant::now();
    let counts = statuses(&env, &mut wires, "api").await;
    let seconds = began.elapsed().as_secs() as usize + 1;
    let (admitted, refused) = (counts[&200], counts[&429]);
    assert_eq!(admitted + refused, wires.len());
    assert!((BURST..=BURST + seconds).contains(&admitted), "{admitted} in {seconds} s");
    assert_eq!(env.upstream.hits(), admitted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams() {
    let env = TestEnv::new(WORKERS, GatewayLimits { streams: 64, ..GatewayLimits::default() }).await;
    for _ in 0..5 {
        let mut wires = env.open(64).await;
        let opening = wires.iter_mut().map(|wire| {
            let params = json!({"notifications": {"toolsListChanged": true}});
            wire.send(message(&env.running, "api", Era::Modern, "subscriptions/listen", params))
        });
        let opened: Vec<_> = join_all(opening).await.into_iter().map(Result::unwrap).collect();
        let count = |status: u16| opened.iter().filter(|response| response.status() == status).count();
        // One caller has a quarter.
        assert_eq!((count(200), count(503)), (16, 48));
        drop((opened, wires));
        env.running.until_metric(MEMORY, |held| held == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    let limits = GatewayLimits { memory: 64 << 20, ..GatewayLimits::default() };
    let env = TestEnv::new(WORKERS, limits).await;
    env.upstream.json("/doc", format!("[\"{}\"]", "x".repeat(2 << 20)));
    let mut wires = env.wires(WORKERS, 8).await;
    for _ in 0..3 {
        let counts = statuses(&env, &mut wires, "api").await;
        assert!(counts.keys().all(|status| [200, 503].contains(status)), "{counts:?}");
        assert!(counts[&200] > 0, "{counts:?}");
        env.running.until_metric(MEMORY, |held| held == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_cancelled_from_the_connection_of_another_worker() {
    let env = TestEnv::new(2, GatewayLimits::default()).await;
    let mut wires = env.wires(2, 1).await;
    let (mut other, mut caller) = (wires.pop().unwrap(), wires.pop().unwrap());
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    let response = caller.send(message(&env.running, "api", Era::Legacy, "initialize", params)).await.unwrap();
    let session = response.headers()["mcp-session-id"].clone();
    crate::wire::read(response).await.unwrap();
    let with_session = |method: &str, params| {
        let mut request = message(&env.running, "api", Era::Legacy, method, params);
        request.headers_mut().insert("mcp-session-id", session.clone());
        request
    };
    let _held = env.upstream.hold().await;
    let calling = caller.ask(with_session("tools/call", json!({"name": "read"})));
    let cancelling = async {
        until("the call is in flight", || env.upstream.open() == 1).await;
        let mut request = with_session("notifications/cancelled", json!({"requestId": 1}));
        let notification = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        *request.body_mut() = notification.into();
        assert_eq!(other.ask(request).await.unwrap().0, 202);
    };
    let (answered, ()) = tokio::join!(calling, cancelling);
    let (status, answer) = answered.unwrap();
    assert_eq!((status, &answer["error"]["message"]), (200, &json!("the call was cancelled")), "{answer}");
    until("the upstream's request is given up", || env.upstream.open() == 0).await;
}
