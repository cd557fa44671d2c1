//! What a gateway holds for callers, and who gives way when it runs short.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tamis_config::{ExpositionId, ServiceDocument};
use tamis_engine::Enforcement::Advisory;
use tamis_gateway::{GatewayLimits, Options};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{
    Page, Running, Upstream, exposition, options, read, service, simple, snapshot, start, tool, until,
};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}"#;

const HELD: &str = r#"tamis_memory_bytes{kind="held"}"#;

/// Two expositions, `greedy` in a namespace of its own and `api`, of one service.
async fn two(limits: GatewayLimits) -> (Upstream, Running) {
    let upstream = Upstream::start().await;
    upstream.json("/doc", r#"{"id":1}"#);
    let running = start(Options { limits, ..options() }).await;
    let service = service(&upstream.base, &json!({"read": tool("/doc")}));
    let mut greedy = exposition("greedy", &service, Advisory, &[("read", None)]);
    greedy.id = ExpositionId { namespace: "other".to_owned(), name: "greedy".to_owned() };
    let modest = exposition("api", &service, Advisory, &[("read", None)]);
    assert_eq!(running.gateway.apply(&snapshot(&service, [greedy, modest])).failed, []);
    (upstream, running)
}

fn greedy(running: &Running) -> String {
    format!("http://{}/mcp/other/greedy", running.address)
}

/// A request as bytes.
fn raw(path: &str, more: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n\
         {more}Content-Length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn a_body_is_read_only_for_those_who_are_let_in() {
    let (_upstream, running) = simple(GatewayLimits::default()).await;
    let mut senders = Vec::new();
    for path in ["/mcp/default/none", "/", "/mcp/default/api/more"] {
        for _ in 0..10 {
            let mut stream = TcpStream::connect(running.address).await.unwrap();
            stream.write_all(raw(path, "", 4 << 20).as_bytes()).await.unwrap();
            stream.write_all(&[b' '; 256]).await.unwrap();
            senders.push(stream);
        }
    }
    for stream in &mut senders {
        // The answer comes although four megabytes are still to be sent.
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 404");
    }
    assert_eq!(running.metric(HELD).await, 0);
    // A short body is read for the id that the answer names.
    let (status, answer) = running.legacy("none", "ping", json!({})).await;
    assert_eq!((status, &answer["id"]), (404, &json!(1)));
}

#[tokio::test]
async fn a_client_that_is_still_sending_reads_the_refusal() {
    let (_upstream, running) = simple(GatewayLimits::default()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(raw("/mcp/default/none", "", 1 << 20).as_bytes()).await.unwrap();
    stream.write_all(&[b' '; 128 << 10]).await.unwrap();
    // The gateway has answered, and reads no more of the request.
    stream.readable().await.unwrap();
    for _ in 0..7 {
        stream.write_all(&[b' '; 128 << 10]).await.unwrap();
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "no other request is read here: {answer}");
}

#[tokio::test]
async fn a_stated_length_is_reserved_and_given_back() {
    let (_upstream, running) = two(GatewayLimits { memory: 16 << 20, ..GatewayLimits::default() }).await;
    let mut senders = Vec::new();
    // Each states two megabytes and sends next to nothing: of fourteen, one exposition gets six eighths.
    for _ in 0..6 {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(raw("/mcp/other/greedy", "", 2 << 20).as_bytes()).await.unwrap();
        stream.write_all(b"{").await.unwrap();
        senders.push(stream);
    }
    running.until_metric(HELD, |held| held >= 10 << 20).await;
    let response = running.http.post(greedy(&running)).header("content-type", "application/json");
    let response = response.body(vec![b' '; 2 << 20]).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (503, "1"));
    assert!(running.metric(HELD).await <= 14 << 20);
    for _ in 0..20 {
        running.call("api", "read", json!({})).await;
    }
    let refused = r#"tamis_requests_rejected_total{exposition="greedy",namespace="other",reason="memory"}"#;
    assert!(running.metric(refused).await >= 1);
    drop(senders);
    running.until_metric(HELD, |held| held == 0).await;
}

#[tokio::test]
async fn answers_count_until_they_are_written_and_have_to_be_read_in_time() {
    let limits = GatewayLimits {
        memory: 64 << 20,
        answer_timeout: Duration::from_secs(20),
        answer_rate: 64 << 20,
        ..GatewayLimits::default()
    };
    let (upstream, running) = two(limits).await;
    upstream.json("/doc", format!("[\"{}\"]", "x".repeat(2 << 20)));
    let mut slow = Vec::new();
    let mut refused = 0;
    for _ in 0..20 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let mut stream = socket.connect(running.address).await.unwrap();
        stream.write_all((raw("/mcp/other/greedy", "", CALL.len()) + CALL).as_bytes()).await.unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        match &first {
            b"HTTP/1.1 200" => slow.push(stream),
            b"HTTP/1.1 503" => refused += 1,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    // Sixteen megabytes of them fit in any case, and the rest is refused.
    assert!(slow.len() >= 4 && refused >= 1, "{} {refused}", slow.len());
    assert!(running.metric(HELD).await >= 8 << 20);
    upstream.json("/doc", r#"{"id":1}"#);
    running.call("api", "read", json!({})).await;
    // They are cut off, and what they held is there again.
    let closed = r#"tamis_connections_closed_total{reason="slow"}"#;
    running.until_metric(closed, |closed| closed == slow.len() as u64).await;
    running.until_metric(HELD, |held| held == 0).await;
    for stream in &mut slow {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok() && rest.len() < 4 << 20, "the answer was cut off");
    }
}

#[tokio::test]
async fn an_answer_beyond_the_memory_is_refused_before_it_is_read() {
    let limits = GatewayLimits { memory: 16 << 20, ..GatewayLimits::default() };
    let (upstream, running) = two(limits).await;
    upstream.json("/doc", format!("[\"{}\"]", "x".repeat(12 << 20)));
    let post = || running.post("api", CALL).header("mcp-protocol-version", "2025-11-25").send();
    // Nobody else has any memory, so that to try again cannot help.
    let response = post().await.unwrap();
    assert!(!response.headers().contains_key("retry-after"));
    let (status, answer) = read(response).await;
    assert_eq!((status, &answer["result"]["isError"]), (200, &json!(true)), "{answer}");
    assert!(answer.to_string().contains("does not fit into the memory"), "{answer}");
    assert_eq!(running.metric(r#"tamis_upstream_request_duration_seconds_count{code="exhausted"}"#).await, 1);
    // Whoever may have changed something is not invited to try again.
    let mut writes = tool("/doc");
    writes["call"]["http"]["method"] = json!("POST");
    writes["risk"] = json!({"mutating": true});
    let service = service(&upstream.base, &json!({"read": writes}));
    let document = exposition("api", &service, Advisory, &[("read", None)]);
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    let (status, answer) = read(post().await.unwrap()).await;
    assert_eq!((status, &answer["result"]["isError"]), (200, &json!(true)), "{answer}");
    assert!(answer.to_string().contains("The call was executed: do not repeat it."), "{answer}");
    running.until_metric(HELD, |held| held == 0).await;
}

#[tokio::test]
async fn a_resource_beyond_the_memory_is_an_error_that_is_not_repeated() {
    let upstream = Upstream::start().await;
    upstream.json("/doc", format!("[\"{}\"]", "x".repeat(12 << 20)));
    let limits = GatewayLimits { memory: 16 << 20, ..GatewayLimits::default() };
    let running = start(Options { limits, ..options() }).await;
    let mut with_template = ServiceDocument::clone(&service(&upstream.base, &json!({"read": tool("/doc")})));
    let mut read = tool("/doc");
    read["inputSchema"] = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    read["call"]["http"]["request"] = json!({"query": {"name": "{name}"}});
    let template = serde_json::from_value(json!({"info": {"name": "documents"}, "read": read})).unwrap();
    with_template.content.templates.insert("docs://{name}".to_owned(), template);
    let service = Arc::new(with_template);
    let mut document = exposition("api", &service, Advisory, &[("read", None)]);
    document.content.templates = vec!["docs://{name}".to_owned()];
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    let read_one = r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"docs://a"}}"#;
    let response = running.post("api", read_one).header("mcp-protocol-version", "2025-11-25").send().await.unwrap();
    assert!(!response.headers().contains_key("retry-after"));
    let (status, answer) = crate::support::read(response).await;
    assert!(status == 200 && answer["error"]["code"] == -32603, "{status} {answer}");
    assert!(answer.to_string().contains("does not fit into the memory"), "{answer}");
    running.until_metric(HELD, |held| held == 0).await;
}

#[tokio::test]
async fn ceilings_of_the_gateway_hold_whatever_a_document_says() {
    let limits = GatewayLimits {
        max_response_bytes: 1_000,
        max_timeout: Duration::from_millis(300),
        ..GatewayLimits::default()
    };
    let upstream = Upstream::start().await;
    upstream.json("/doc", format!("[\"{}\"]", "x".repeat(2_000)));
    let running = start(Options { limits, ..options() }).await;
    let tools = json!({"read": tool("/doc"), "slow": tool("/slow")});
    let service = service(&upstream.base, &tools);
    let mut document = exposition("api", &service, Advisory, &[("read", None), ("slow", None)]);
    document.limits.max_response_bytes = 1 << 30;
    document.limits.timeout_ms = 3_600_000;
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    let result = running.call("api", "read", json!({})).await;
    assert!(result.to_string().contains("larger than 1000 bytes"), "{result}");
    let slow = Page { status: 200, kind: "application/json", body: "{}".to_owned(), delay: Duration::from_secs(20) };
    upstream.page("/slow", slow);
    let result = running.call("api", "slow", json!({})).await;
    assert!(result.to_string().contains("did not answer in time"), "{result}");
}

/// Opens a stream from an address of loopback; its status.
async fn listen(url: &str, from: u8) -> (u16, reqwest::Response) {
    let client = reqwest::Client::builder().local_address(std::net::IpAddr::from([127, 0, 0, from])).build().unwrap();
    let response = client.get(url).header("accept", "text/event-stream").send().await.unwrap();
    (response.status().as_u16(), response)
}

#[tokio::test]
async fn streams_of_one_exposition_leave_some_to_others() {
    let (_upstream, running) = two(GatewayLimits { streams: 16, ..GatewayLimits::default() }).await;
    let (crowded, other) = (greedy(&running), running.url("api"));
    let mut open = Vec::new();
    let mut statuses = Vec::new();
    // A caller has a quarter, an exposition three quarters.
    for from in 2..6 {
        for _ in 0..5 {
            let (status, response) = listen(&crowded, from).await;
            statuses.push(status);
            open.push(response);
        }
    }
    let quarter = [200, 200, 200, 200, 503];
    assert_eq!(statuses, [quarter, quarter, quarter, [503; 5]].concat());
    let refused = r#"tamis_requests_rejected_total{exposition="greedy",namespace="other",reason="streams"}"#;
    assert_eq!(running.metric(refused).await, 8);
    let (status, response) = listen(&other, 9).await;
    assert_eq!(status, 200);
    let first = response.bytes_stream().next().await.unwrap().unwrap();
    assert_eq!(first, ": open\n\n");
    // What is closed is there again.
    open.truncate(3);
    for _ in 0..200 {
        let (status, _) = listen(&crowded, 5).await;
        if status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("streams are not given back");
}

#[tokio::test]
async fn calls_of_one_exposition_leave_some_to_others() {
    let (upstream, running) = two(GatewayLimits { calls: 8, ..GatewayLimits::default() }).await;
    let slow = Page { status: 200, kind: "application/json", body: "{}".to_owned(), delay: Duration::from_secs(60) };
    upstream.page("/doc", slow);
    let mut pending = Vec::new();
    for _ in 0..6 {
        let request = running.http.post(greedy(&running)).header("content-type", "application/json").body(CALL);
        pending.push(tokio::spawn(request.send()));
    }
    until("six are under way", || upstream.hits() == 6).await;
    let request = running.http.post(greedy(&running)).header("content-type", "application/json").body(CALL);
    assert_eq!(request.send().await.unwrap().status().as_u16(), 503);
    upstream.json("/doc", "{}");
    running.call("api", "read", json!({})).await;
    for call in pending {
        call.abort();
    }
}

#[tokio::test]
async fn idle_connections_of_both_versions_are_closed() {
    let limits = GatewayLimits { header_timeout: Duration::from_millis(200), ..GatewayLimits::default() };
    let (_upstream, running) = simple(limits).await;
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let request = client.post(running.url("api")).header("content-type", "application/json").body(ping);
    assert_eq!(request.send().await.unwrap().status().as_u16(), 200);
    running.until_metric(r#"tamis_connections_closed_total{reason="idle"}"#, |closed| closed >= 1).await;
}

#[tokio::test]
async fn idle_connections_give_way_to_new_ones() {
    let (_upstream, running) = simple(GatewayLimits { connections: 16, ..GatewayLimits::default() }).await;
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.push(TcpStream::connect(running.address).await.unwrap());
    }
    let (status, _): (u16, Value) = running.modern("api", "server/discover", json!({})).await;
    assert_eq!(status, 200);
    assert!(running.metric(r#"tamis_connections_closed_total{reason="evicted"}"#).await >= 34);
}
