//! Clients that send what no client should, to hold up a worker, to unbalance the workers, or to take what others need.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Full;
use hyper::client::conn::http2::SendRequest;
use tamis_gateway::GatewayLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::until;
use crate::wire::{Era, KEY, TestEnv, Wire, call, http2, message};

const MEMORY: &str = r#"tamis_memory_bytes{kind="held"}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;

/// A request with further header lines, and a body of this length to follow.
fn head(path: &str, more: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n\
         {more}Content-Length: {length}\r\n\r\n"
    )
}

/// Sends these bytes on a connection of its own.
async fn sent(env: &TestEnv, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(env.running.address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    stream
}

/// Reads until the gateway closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
    // A reset is an end, too.
    let _ = read.expect("the connection is closed");
    String::from_utf8_lossy(&rest).into_owned()
}

/// Reads until there is this text.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(text) {
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "{text}: {}", String::from_utf8_lossy(&read));
    }
    String::from_utf8_lossy(&read).into_owned()
}

#[tokio::test]
async fn connections_that_send_slowly_unbalance_no_workers() {
    let limits =
        GatewayLimits { connections: 64, header_timeout: Duration::from_millis(400), ..GatewayLimits::default() };
    let env = TestEnv::new(4, limits).await;
    let mut slow = Vec::new();
    // Half of them begin a request. One address gets 48 connections at most, and the idle ones of them give way.
    for number in 0..100 {
        let begun = if number % 2 == 0 { "" } else { "POST /mcp/default/api HTTP/1.1\r\nHost: x\r\n" };
        slow.push(sent(&env, begun).await);
        if number % 10 == 0 {
            let mut wire = Wire::open(&env.running).await;
            assert_eq!(wire.call(&env.running, "api", Era::Modern).await.unwrap().0, 200);
        }
    }
    for mut stream in slow {
        rest(&mut stream).await;
    }
    // Each worker learns of the end of its connections by itself.
    while env.spread(&mut env.open(16).await).await.values().ne([4, 4, 4, 4].iter()) {}
}

#[tokio::test]
async fn a_client_that_closes_its_side_leaves_nothing_behind() {
    let env = TestEnv::new(2, GatewayLimits::default()).await;
    let held = env.upstream.hold().await;
    let mut streams = Vec::new();
    for modern in [false, true, false, true] {
        let version = if modern {
            "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: read\r\n"
        } else {
            ""
        };
        let meta = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let body = if modern { CALL.replace("}}", meta) } else { CALL.to_owned() };
        streams.push(sent(&env, &(head("/mcp/default/api", version, body.len()) + &body)).await);
    }
    until("the calls are in flight", || env.upstream.open() == 4).await;
    for stream in &mut streams {
        stream.shutdown().await.unwrap();
        assert_eq!(rest(stream).await, "");
    }
    // As with a closed connection: a modern call is cancelled, a legacy call goes on.
    until("the modern calls are given up", || env.upstream.open() == 2).await;
    drop(held);
    env.running.until_metric(MEMORY, |held| held == 0).await;
    let (legacy, modern) = ("outcome=\"ok\"", "outcome=\"cancelled\"");
    let metrics = env.running.admin("/metrics").await.1;
    for outcome in [legacy, modern] {
        let series =
            format!(r#"tamis_tool_calls_total{{exposition="api",namespace="default",{outcome},tool="read"}} 2"#);
        assert!(metrics.contains(&series), "{series} in {metrics}");
    }
}

/// A refusal that comes before the end of its request keeps the connection for a moment, so that the client can read it. Such a
/// connection counts as an idle one.
#[tokio::test]
async fn connections_that_send_on_after_a_refusal_give_way_and_end() {
    let env = TestEnv::new(2, GatewayLimits { connections: 16, ..GatewayLimits::default() }).await;
    let mut sending = Vec::new();
    for _ in 0..12 {
        let mut stream = sent(&env, &head("/mcp/default/none", "", 1 << 30)).await;
        stream.write_all(&[b' '; 128 << 10]).await.unwrap();
        assert!(read_until(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 404"));
        sending.push(stream);
    }
    // One address has twelve connections.
    let mut wire = Wire::open(&env.running).await;
    assert_eq!(wire.call(&env.running, "api", Era::Modern).await.unwrap().0, 200);
    // None of them can be kept by sending on, whatever it sends: of the gigabyte, some megabytes are read.
    for stream in &mut sending {
        while stream.write_all(&[b' '; 64 << 10]).await.is_ok() {}
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_turn() {
    let env = TestEnv::new(1, GatewayLimits::default()).await;
    let one = |body: &str| head("/mcp/default/api", "", body.len()) + body;
    let mut stream = sent(&env, &(one(CALL).repeat(50) + &one(PING).repeat(200) + &one("{"))).await;
    let mut other = Wire::open(&env.running).await;
    assert_eq!(other.call(&env.running, "api", Era::Modern).await.unwrap().0, 200);
    let answers = read_until(&mut stream, "HTTP/1.1 400").await;
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 250);
    assert_eq!(answers.matches(r#""isError":false"#).count(), 50);
    assert!(env.upstream.peak.load(Ordering::SeqCst) <= 2, "one connection has one call at once");
}

/// Opens a hundred streams with a call each, and resets them after `wait`.
async fn open_and_reset(env: &TestEnv, sender: &SendRequest<Full<Bytes>>, era: Era, wait: Duration) {
    let opened = (0..100).map(|_| {
        let (mut sender, request) = (sender.clone(), call(&env.running, "api", era));
        async move {
            // The gateway may have closed the connection by now.
            if sender.ready().await.is_ok() {
                let answer = sender.send_request(request);
                tokio::time::sleep(wait).await;
                drop(answer);
            }
        }
    });
    join_all(opened).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_opened_and_reset_take_no_more_than_calls_may() {
    let env = TestEnv::new(2, GatewayLimits { calls: 16, ..GatewayLimits::default() }).await;
    let mut other = Wire::open(&env.running).await;
    let held = env.upstream.hold().await;
    let peak = || env.upstream.peak.load(Ordering::SeqCst);
    for era in [Era::Legacy, Era::Modern] {
        let mut sender = http2(&env.running).await;
        for burst in 0..20 {
            open_and_reset(&env, &sender, era, Duration::from_millis(burst % 2 * 20)).await;
            // The gateway closes a connection that resets too much.
            if sender.ready().await.is_err() {
                sender = http2(&env.running).await;
            }
        }
        let (status, _) = other.ask(message(&env.running, "api", era, "tools/list", Default::default())).await.unwrap();
        assert_eq!(status, 200);
    }
    // A legacy call goes on without its stream, unless it was reset before the gateway read it.
    // An exposition that is alone gets six eighths of the calls.
    for _ in 0..100 {
        if peak() < 12 {
            open_and_reset(&env, &http2(&env.running).await, Era::Legacy, Duration::from_millis(100)).await;
        }
    }
    drop(held);
    env.running.until_metric(MEMORY, |held| held == 0).await;
    assert_eq!(peak(), 12);
    assert_eq!(other.call(&env.running, "api", Era::Legacy).await.unwrap().0, 200);
}

#[tokio::test]
async fn a_body_is_asked_for_only_if_it_will_be_read() {
    let env = TestEnv::new(2, GatewayLimits::default()).await;
    let mut asked = sent(&env, &head("/mcp/default/api", "Expect: 100-continue\r\n", PING.len())).await;
    assert_eq!(read_until(&mut asked, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    asked.write_all(PING.as_bytes()).await.unwrap();
    assert!(read_until(&mut asked, "\"result\"").await.starts_with("HTTP/1.1 200"));
    let mut refused = sent(&env, &head("/", "Expect: 100-continue\r\n", 1 << 30)).await;
    assert!(read_until(&mut refused, "\r\n\r\n").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn a_connection_is_upgraded_to_nothing() {
    let env = TestEnv::new(2, GatewayLimits::default()).await;
    for more in [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
    ] {
        let mut stream = sent(&env, &(head("/mcp/default/api", more, PING.len()) + PING)).await;
        assert!(read_until(&mut stream, "\"result\"").await.starts_with("HTTP/1.1 200"), "{more}");
    }
    let connect = format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", env.running.address);
    let mut stream = sent(&env, &connect).await;
    assert!(read_until(&mut stream, "\r\n\r\n").await.starts_with("HTTP/1.1 404"));
}
