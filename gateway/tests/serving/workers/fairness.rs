//! A connection with much to do leaves its worker to the others. Everything here runs on one worker, and is counted rather than
//! timed.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use serde_json::json;
use tamis_gateway::GatewayLimits;
use tokio::task::JoinHandle;

use crate::support::until;
use crate::wire::{Era, KEY, TestEnv, Wire, call, http2, message, read};

/// Concurrent requests that the gateway allows on one HTTP/2 connection.
const STREAMS: usize = 256;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// Connections of others, which ask for nothing but the worker.
struct Others(Vec<TcpStream>);

impl Others {
    fn connect(env: &TestEnv) -> Self {
        let mut others = Self((0..50).map(|_| TcpStream::connect(env.running.address).unwrap()).collect());
        others.ask();
        others.0.iter_mut().for_each(|stream| {
            assert!(stream.read(&mut [0; 4 << 10]).unwrap() > 0);
            stream.set_nonblocking(true).unwrap();
        });
        others
    }

    fn ask(&mut self) {
        for stream in &mut self.0 {
            let head = format!(
                "POST /mcp/default/api HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{PING}",
                PING.len()
            );
            stream.write_all(head.as_bytes()).unwrap();
        }
    }

    /// How many have an answer that is there to read.
    fn answered(&mut self) -> usize {
        self.0.iter_mut().filter_map(|stream| stream.read(&mut [0; 4 << 10]).ok()).filter(|read| *read > 0).count()
    }
}

/// Holds up the worker until the answers to all calls of a flood, and a request of each other connection, have come to it. It
/// then has all of them to do at once.
async fn let_everything_arrive(
    env: &Arc<TestEnv>,
    in_flight: usize,
    others: &mut Others,
    flood: impl AsyncFnOnce() -> Flood,
) -> Flood {
    let mut blocking = Wire::open(&env.running).await;
    let gate = env.upstream.hold().await;
    let flood = flood().await;
    until("the flood is in flight", || env.upstream.open() == in_flight).await;
    let barrier = env.probe.hold();
    let request = call(&env.running, "held", Era::Legacy);
    tokio::spawn(async move { blocking.ask(request).await });
    until("the worker is held up", || env.probe.held_up() == 1).await;
    drop(gate);
    until("the upstream has answered", || env.upstream.open() == 0).await;
    others.ask();
    drop(barrier);
    flood
}

/// Calls of one connection, and how many are answered.
struct Flood {
    task: JoinHandle<()>,
    done: Arc<AtomicUsize>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_calls_of_one_http_2_connection_do_not_starve_the_others() {
    const CALLS: usize = 1_000;
    let env = Arc::new(TestEnv::new(1, GatewayLimits::default()).await);
    let mut others = Others::connect(&env);
    let flood = async || {
        let sender = http2(&env.running).await;
        let done = Arc::<AtomicUsize>::default();
        let mut calls: FuturesUnordered<_> = (0..CALLS)
            .map(|_| {
                let (mut sender, request) = (sender.clone(), call(&env.running, "api", Era::Modern));
                async move {
                    sender.ready().await?;
                    read(sender.send_request(request).await?).await
                }
            })
            .collect();
        let count = Arc::clone(&done);
        let task = tokio::spawn(async move {
            while let Some(answered) = calls.next().await {
                assert_eq!(answered.unwrap().0, 200);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Flood { task, done }
    };
    let Flood { task, done } = let_everything_arrive(&env, STREAMS, &mut others, flood).await;
    until("those in flight are answered", || done.load(Ordering::SeqCst) >= STREAMS).await;
    assert_eq!(others.answered(), 50, "before the calls that came with them");
    task.await.unwrap();
    assert_eq!(done.load(Ordering::SeqCst), CALLS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_a_thousand_calls_does_not_starve_the_others() {
    const CALLS: usize = 1_000;
    let env = Arc::new(TestEnv::new(1, GatewayLimits { batch: CALLS, ..GatewayLimits::default() }).await);
    let mut others = Others::connect(&env);
    let flood = async || {
        let mut wire = Wire::open(&env.running).await;
        let one = |id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "read"}});
        let mut request = message(&env.running, "api", Era::Legacy, "ping", json!({}));
        request.headers_mut().insert("mcp-protocol-version", "2025-03-26".parse().unwrap());
        *request.body_mut() = json!((0..CALLS).map(one).collect::<Vec<_>>()).to_string().into();
        let task = tokio::spawn(async move {
            let (status, answers) = wire.ask(request).await.unwrap();
            assert_eq!((status, answers.as_array().map(Vec::len)), (200, Some(CALLS)));
        });
        Flood { task, done: Arc::default() }
    };
    let Flood { task, .. } = let_everything_arrive(&env, CALLS, &mut others, flood).await;
    task.await.unwrap();
    assert_eq!(others.answered(), 50, "before the batch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_answers_leave_the_worker_to_others() {
    const LARGE: usize = 6;
    let env = Arc::new(TestEnv::new(1, GatewayLimits::default()).await);
    let items = vec![json!({"name": "a \"quoted\" name", "more": [1, 2, 3]}); 40_000];
    env.upstream.json("/doc", json!({"items": items}).to_string());
    let filter = r#"{"retain":["/items/name"],"patches":[{"op":"add","path":"/version","value":1}]}"#;
    env.apply([env.document("api", Some(filter))]);
    let calls = env.open(LARGE).await.into_iter().map(|mut wire| {
        let request = call(&env.running, "api", Era::Modern);
        async move { assert_eq!(wire.ask(request).await.unwrap().0, 200) }
    });
    let calls = tokio::spawn(join_all(calls));
    let mut wire = Wire::open(&env.running).await;
    until("all are in flight", || env.upstream.hits() == LARGE).await;
    let mut pings = 0;
    while !calls.is_finished() {
        let (status, _) = wire.ask(message(&env.running, "api", Era::Legacy, "ping", json!({}))).await.unwrap();
        assert_eq!(status, 200);
        pings += 1;
    }
    // On the worker itself, there would be room for one between two of them.
    assert!(pings > 4 * LARGE, "{pings}");
    calls.await.unwrap();
}
