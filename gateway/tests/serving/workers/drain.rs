//! A gateway that stops: what is in flight ends, every connection is closed, and every worker ends.

use std::time::Duration;

use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use tamis_gateway::GatewayLimits;
use tokio::net::TcpStream;

use crate::log::Log;
use crate::support::{at_workers, until};
use crate::wire::{Era, TestEnv, call, http2, read};

at_workers!(
    stopping_finishes_what_is_in_flight_on_every_worker,
    an_upstream_that_never_answers_holds_up_no_stop,
    a_gateway_that_is_dropped_ends_its_workers
);

/// A time that no step takes, in which a test that hangs fails.
const HANGS: Duration = Duration::from_secs(60);

async fn soon<F: Future>(what: &str, step: F) -> F::Output {
    tokio::time::timeout(HANGS, step).await.unwrap_or_else(|_| panic!("never: {what}"))
}

/// Waits until no thread runs that served a request. There was one for each worker.
async fn threads_end(env: &TestEnv, workers: usize) {
    assert_eq!(env.probe.threads(), workers);
    until("the threads of the workers end", || env.probe.running() == 0).await;
}

async fn stopping_finishes_what_is_in_flight_on_every_worker(workers: usize) {
    let mut env = TestEnv::new(workers, GatewayLimits::default()).await;
    let (mut first, mut rest) = (env.wires(workers, 1).await, env.wires(workers, 4).await);
    let (silent, mut idle) = (TcpStream::connect(env.running.address).await.unwrap(), rest.split_off(3 * workers));
    let mut streams = Vec::new();
    for wire in &mut first {
        streams.push(wire.listen(&env.running, "api").await);
    }
    let shared = http2(&env.running).await;
    let held = env.upstream.hold().await;
    let eras = [Era::Legacy, Era::Modern].into_iter().cycle();
    let calls = rest.iter_mut().zip(eras.clone()).map(|(wire, era)| wire.call(&env.running, "api", era));
    let of_one_connection = (0..2 * workers).zip(eras).map(|(_, era)| {
        let (mut sender, request) = (shared.clone(), call(&env.running, "api", era));
        async move { read(sender.send_request(request).await?).await }
    });
    let (calls, of_one_connection) = (join_all(calls), join_all(of_one_connection));
    let stopping = async {
        until("all are in flight", || env.upstream.open() == 5 * workers).await;
        env.running.shutdown.cancel();
        for wire in idle.drain(..) {
            soon("an idle connection is closed", wire.closed()).await;
        }
        for stream in streams {
            let ended = soon("a stream ends", stream.collect()).await;
            assert_eq!(ended.expect("it is complete").to_bytes(), "");
        }
        assert_eq!(env.upstream.open(), 5 * workers, "calls go on");
        drop(held);
    };
    let (calls, of_one_connection, ()) =
        soon("all are answered", async { tokio::join!(calls, of_one_connection, stopping) }).await;
    for answered in calls.into_iter().chain(of_one_connection) {
        let (status, answer) = answered.expect("no call is cut");
        assert_eq!((status, &answer["result"]["structuredContent"]["a"]), (200, &"A".into()), "{answer}");
    }
    drop(silent);
    soon("the gateway stops", &mut env.running.served).await.unwrap();
    threads_end(&env, workers).await;
}

async fn an_upstream_that_never_answers_holds_up_no_stop(workers: usize) {
    let limits = GatewayLimits { drain: Duration::from_millis(200), ..GatewayLimits::default() };
    let mut env = TestEnv::new(workers, limits).await;
    let mut wires = env.wires(workers, 2).await;
    let _held = env.upstream.hold().await;
    let eras = [Era::Legacy, Era::Modern].into_iter().cycle();
    let calls = join_all(wires.iter_mut().zip(eras).map(|(wire, era)| wire.call(&env.running, "api", era)));
    let stopping = async {
        until("all are in flight", || env.upstream.open() == 2 * workers).await;
        env.running.shutdown.cancel();
    };
    let (cut, ()) = soon("every connection is closed", async { tokio::join!(calls, stopping) }).await;
    assert!(cut.iter().all(Result::is_err), "{cut:?}");
    soon("the gateway stops", &mut env.running.served).await.unwrap();
    threads_end(&env, workers).await;
    until("the upstream's requests are given up", || env.upstream.open() == 0).await;
}

async fn a_gateway_that_is_dropped_ends_its_workers(workers: usize) {
    let env = TestEnv::new(workers, GatewayLimits::default()).await;
    let wires = env.wires(workers, 1).await;
    env.running.served.abort();
    for wire in wires {
        soon("a connection is closed", wire.closed()).await;
    }
    threads_end(&env, workers).await;
}

/// What a worker that is held up serves cannot be closed. The gateway stops without it.
#[tokio::test]
async fn a_worker_that_is_held_up_holds_up_no_stop() {
    let (log, _guard) = Log::start("info");
    let limits = GatewayLimits { drain: Duration::from_millis(200), ..GatewayLimits::default() };
    let mut env = TestEnv::new(2, limits).await;
    let mut wires = env.wires(2, 1).await;
    let held = env.probe.hold();
    let request = call(&env.running, "held", Era::Legacy);
    let mut stuck = wires.remove(0);
    let stuck = tokio::spawn(async move { stuck.ask(request).await });
    until("a worker is held up", || env.probe.held_up() == 1).await;
    env.running.shutdown.cancel();
    let stopped = soon("the gateway stops", &mut env.running.served).await;
    drop(held);
    stopped.unwrap();
    assert_eq!(log.lines("worker is held up and was left behind").len(), 1, "{}", log.text());
    soon("its connection is closed", stuck).await.unwrap().expect_err("it is cut");
    until("the threads of the workers end", || env.probe.running() == 0).await;
}
