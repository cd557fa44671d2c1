//! The limits of a bundle come on top of those of its parts, and what is counted and recorded is the part's.

use std::time::Duration;

use serde_json::{Value, json};
use tamis_config::{BundleDocument, BundleLimits, CallLimits, ExpositionDocument, OutputLimits};

use super::{bundle, part, tools, with};
use crate::log::Log;
use crate::support::{Page, Running, Upstream, blocks, options, service, snapshot, start, text, until};

/// A bundle of the part `one`, each with limits.
async fn serve(own: CallLimits, bundled: BundleLimits) -> (Upstream, Running) {
    let upstream = Upstream::start().await;
    upstream.json("/doc", json!({"items": "x".repeat(400)}).to_string());
    let running = start(options()).await;
    let service = service(&upstream.base, &tools(&["get"]));
    let one = ExpositionDocument { limits: own, ..part("one", &service, &["get"]) };
    let all = BundleDocument { limits: bundled, ..bundle(&[("one", "a_")]) };
    assert_eq!(running.gateway.apply(&with(snapshot(&service, [one]), [all])).failed, []);
    (upstream, running)
}

async fn status(running: &Running, address: &str, tool: &str) -> (u16, Value) {
    running.modern(address, "tools/call", json!({"name": tool})).await
}

fn rejected(exposition: &str, reason: &str) -> String {
    format!("tamis_requests_rejected_total{{exposition=\"{exposition}\",namespace=\"default\",reason=\"{reason}\"}}")
}

#[tokio::test]
async fn the_stricter_rate_counts() {
    let rate = |burst: Option<u32>| (burst.map(|_| 1), burst);
    // The bursts of the part and of the bundle; how many calls pass through the bundle, and who refuses the next one.
    for (own, bundled, passes, refuses) in [
        (Some(1), Some(3), 1, "one"),
        (Some(3), Some(1), 1, "all"),
        (None, Some(2), 2, "all"),
        (Some(2), None, 2, "one"),
    ] {
        let (own, bundled) = (rate(own), rate(bundled));
        let own = CallLimits { requests_per_second: own.0, burst: own.1, ..CallLimits::default() };
        let bundled = BundleLimits { requests_per_second: bundled.0, burst: bundled.1, ..BundleLimits::default() };
        let (upstream, running) = serve(own, bundled).await;
        for _ in 0..passes {
            assert_eq!(status(&running, "all", "a_get").await.0, 200);
        }
        assert_eq!(status(&running, "all", "a_get").await.0, 429);
        assert_eq!(upstream.hits(), passes);
        for name in ["one", "all"] {
            assert_eq!(running.metric(&rejected(name, "rate")).await, u64::from(name == refuses), "{name}");
        }
    }
}

#[tokio::test]
async fn calls_at_once_are_counted_for_both() {
    let bundled = BundleLimits { concurrent: Some(1), ..BundleLimits::default() };
    let own = CallLimits { concurrent: Some(2), ..CallLimits::default() };
    let (upstream, running) = serve(own, bundled).await;
    let held = upstream.hold().await;
    let call = |address: &str, tool: &str| {
        tokio::spawn(running.modern_request(address, "tools/call", json!({"name": tool})).send())
    };
    let first = call("all", "a_get");
    until("the call reached the upstream", || upstream.hits() == 1).await;
    assert_eq!(status(&running, "all", "a_get").await.0, 429, "the bundle's limit");
    let second = call("one", "get");
    until("the part has room", || upstream.hits() == 2).await;
    assert_eq!(status(&running, "one", "get").await.0, 429, "the call through the bundle counts for the part");
    drop(held);
    for call in [first, second] {
        assert_eq!(call.await.unwrap().unwrap().status().as_u16(), 200);
    }
    assert_eq!(running.metric(&rejected("all", "concurrency")).await, 1);
    assert_eq!(running.metric(&rejected("one", "concurrency")).await, 1);
}

#[tokio::test]
async fn the_stricter_timeout_and_size_count() {
    let millis = |ms: u64| CallLimits { timeout_ms: ms, ..CallLimits::default() };
    let slow = Page { status: 200, kind: "application/json", body: "{}".to_owned(), delay: Duration::from_secs(1) };
    for (own, bundled) in [(60_000, Some(200)), (200, Some(60_000)), (200, None)] {
        let (upstream, running) =
            serve(millis(own), BundleLimits { timeout_ms: bundled, ..BundleLimits::default() }).await;
        upstream.page("/doc", slow.clone());
        let (_, answer) = status(&running, "all", "a_get").await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let timed_out =
            "tamis_tool_calls_total{exposition=\"one\",namespace=\"default\",outcome=\"timeout\",tool=\"get\"}";
        assert_eq!(running.metric(timed_out).await, 1);
    }
    // The bound of the part, that of the bundle, and whether 400 bytes fit.
    for (own, bundled, fits) in
        [(16 << 20, Some(100), false), (100, Some(1 << 20), false), (1 << 20, Some(1 << 20), true)]
    {
        let own = CallLimits { max_response_bytes: own, ..CallLimits::default() };
        let (_upstream, running) =
            serve(own, BundleLimits { max_response_bytes: bundled, ..BundleLimits::default() }).await;
        let (_, answer) = status(&running, "all", "a_get").await;
        assert_eq!(answer["result"]["isError"], !fits, "{answer}");
    }
}

#[tokio::test]
async fn the_stricter_limit_on_answers_counts() {
    let bytes = |bytes: u64| OutputLimits { bytes: Some(bytes), tokens: None };
    let tokens = |tokens: u64| OutputLimits { bytes: None, tokens: Some(tokens) };
    let none = OutputLimits::default();
    // The limits of the part and of the bundle, and the most bytes of an answer. The upstream's has 412.
    for (own, bundled, most) in [
        (none, bytes(200), 200),
        (bytes(200), bytes(5_000), 200),
        (bytes(5_000), bytes(200), 200),
        (none, tokens(20), 300),
    ] {
        let own = CallLimits { output: own, ..CallLimits::default() };
        let (_upstream, running) = serve(own, BundleLimits { output: bundled, ..BundleLimits::default() }).await;
        let through = running.call("all", "a_get", json!({})).await;
        let sent: usize = blocks(&through).iter().map(|block| block.len()).sum();
        assert!(sent <= most, "{bundled:?}: {through}");
    }
    // A limit of the bundle is none of the part's own address.
    let (_upstream, running) =
        serve(CallLimits::default(), BundleLimits { output: bytes(200), ..BundleLimits::default() }).await;
    assert!(text(&running.call("one", "get", json!({})).await).len() > 400);
}

#[tokio::test]
async fn calls_count_for_the_part_and_records_name_the_bundle() {
    let (log, _guard) = Log::start("info");
    let (_upstream, running) = serve(CallLimits::default(), BundleLimits::default()).await;
    running.call("all", "a_get", json!({})).await;
    running.call("one", "get", json!({})).await;
    let records = log.records(2).await;
    assert!(records[0].contains(r#"exposition="one" bundle="all" tool="get""#), "{records:?}");
    assert!(records[1].contains(r#"exposition="one" tool="get""#), "{records:?}");
    let metrics = running.admin("/metrics").await.1;
    let calls = "tamis_tool_calls_total{exposition=\"one\",namespace=\"default\",outcome=\"ok\",tool=\"get\"} 2";
    assert!(metrics.contains(calls), "{metrics}");
    assert!(!metrics.contains("exposition=\"all\""), "{metrics}");
}
