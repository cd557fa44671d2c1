//! Which worker gets a connection.

use std::collections::BTreeMap;

use tamis_gateway::GatewayLimits;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::support::until;
use crate::wire::{Era, TestEnv, Wire, call};

/// This many connections to each of four workers.
fn each(count: usize) -> BTreeMap<String, usize> {
    (1..=4).map(|number| (format!("tamis-worker-{number}"), count)).collect()
}

#[tokio::test]
async fn connections_are_spread_evenly_and_a_worker_that_lost_its_own_is_filled_up() {
    let env = TestEnv::new(4, GatewayLimits::default()).await;
    let mut kept = Vec::new();
    for mut wire in env.wires(4, 16).await {
        if env.worker(&mut wire).await != "tamis-worker-3" {
            kept.push(wire);
        }
    }
    assert_eq!(kept.len(), 48);
    // The worker learns of the end of its connections by itself. Until it has, others are filled up too.
    let mut probes = Vec::new();
    let mut filled = 0;
    while filled < 16 {
        let mut wire = Wire::open(&env.running).await;
        match env.worker(&mut wire).await.as_str() {
            "tamis-worker-3" => {
                filled += 1;
                kept.push(wire);
            }
            _ => probes.push(wire),
        }
        assert!(probes.len() < 16, "the worker is not filled up");
    }
    drop(probes);
    assert_eq!(env.spread(&mut kept).await, each(16));
}

#[tokio::test]
async fn connections_that_are_refused_or_never_speak_count_for_no_worker() {
    let env = TestEnv::new(4, GatewayLimits { connections: 16, ..GatewayLimits::default() }).await;
    let mut wires = env.wires(4, 3).await;
    let mut streams = Vec::new();
    for wire in &mut wires {
        streams.push(wire.listen(&env.running, "api").await);
    }
    // One address has twelve of sixteen connections.
    for _ in 0..33 {
        let mut refused = TcpStream::connect(env.running.address).await.unwrap();
        assert_eq!(refused.read(&mut [0]).await.unwrap_or(0), 0);
    }
    let rejected = r#"tamis_requests_rejected_total{exposition="",namespace="",reason="connections"}"#;
    assert_eq!(env.running.metric(rejected).await, 33);
    drop((streams, wires));
    env.running.until_metric(r#"tamis_memory_bytes{kind="held"}"#, |held| held == 0).await;
    // Each worker learns of the end of its connections by itself.
    while env.spread(&mut env.open(12).await).await != each(3) {}
}

/// A stream of notifications is a request in flight for as long as its client likes.
#[tokio::test]
async fn a_worker_with_an_open_stream_still_gets_connections() {
    let env = TestEnv::new(2, GatewayLimits::default()).await;
    let mut wire = Wire::open(&env.running).await;
    let listens = env.worker(&mut wire).await;
    let _stream = wire.listen(&env.running, "api").await;
    let mut wires = env.open(20).await;
    let spread = env.spread(&mut wires).await;
    assert!(spread[&listens] >= 8, "{spread:?}");
    // So does a worker with calls that last.
    let _held = env.upstream.hold().await;
    let mut calls = Vec::new();
    for mut wire in wires.drain(..4) {
        let request = call(&env.running, "api", Era::Modern);
        calls.push(tokio::spawn(async move { wire.ask(request).await.map(drop) }));
    }
    until("the calls are in flight", || env.upstream.open() == 4).await;
    let mut more = env.open(20).await;
    let spread = env.spread(&mut more).await;
    assert!(spread.values().all(|count| *count >= 6), "{spread:?}");
}
