//! Trying again, over real connections.

use std::time::{Duration, Instant};

use axum::response::IntoResponse as _;
use http::StatusCode;
use serde_json::{Value, json};

use super::support::{RawServer, Server, call, call_within, document, within};
use crate::upstream::UpstreamError;

fn answer() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec()
}

fn tool(method: &str, retry: Value) -> Value {
    json!({"call": {"http": {"method": method, "retry": retry}}})
}

#[tokio::test]
async fn listed_statuses_are_tried_again() {
    let server = Server::start(|_, n| match n {
        0 => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "0")]).into_response(),
        1 => (StatusCode::TOO_MANY_REQUESTS, "busy").into_response(),
        _ => "{}".into_response(),
    })
    .await;
    let retry = json!({"maxAttempts": 3, "backoffMs": 20, "retryOn": [429, 503]});
    let begun = Instant::now();
    let answer = call(&document(&server.url(), None, tool("POST", retry)), "{}").await.unwrap();
    assert_eq!((answer.requests, answer.status), (3, 200));
    assert!(begun.elapsed() >= Duration::from_millis(40), "no wait, then the second backoff");
    assert!(answer.elapsed <= begun.elapsed());
}

#[tokio::test]
async fn the_last_failure_is_the_result() {
    let server = Server::start(|_, n| (StatusCode::SERVICE_UNAVAILABLE, format!("{n}"))).await;
    let retry = json!({"maxAttempts": 2, "backoffMs": 1, "retryOn": [503]});
    let error = call(&document(&server.url(), None, tool("GET", retry)), "{}").await.unwrap_err();
    assert!(matches!(error, UpstreamError::Status { status: 503, body, .. } if body == "1"));
    let error = call(&document(&server.url(), None, tool("GET", Value::Null)), "{}").await.unwrap_err();
    assert!(matches!(error, UpstreamError::Status { status: 503, body, .. } if body == "2"));
}

#[tokio::test]
async fn no_wait_goes_beyond_the_deadline() {
    let server = Server::start(|_, _| (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "60")])).await;
    let retry = json!({"maxAttempts": 5, "backoffMs": 1, "retryOn": [429]});
    let begun = Instant::now();
    let error = call(&document(&server.url(), None, tool("GET", retry)), "{}").await.unwrap_err();
    assert!(matches!(error, UpstreamError::Status { status: 429, .. }), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_connection_that_breaks_is_mended_where_that_is_safe() {
    let cut = || b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec();
    let retry = json!({"maxAttempts": 3, "backoffMs": 1, "retryOn": []});
    // Method, retry, idempotent by its word, what the server does first, requests, success.
    let table = [
        ("GET", Value::Null, false, vec![], 2, true),
        ("GET", Value::Null, false, vec![vec![], vec![]], 2, false),
        ("GET", retry.clone(), false, vec![vec![], vec![]], 3, true),
        ("POST", Value::Null, false, vec![vec![]], 1, false),
        ("POST", retry.clone(), false, vec![vec![]], 1, false),
        ("POST", retry.clone(), true, vec![vec![]], 2, true),
        ("PUT", Value::Null, false, vec![vec![]], 2, true),
    ];
    for (method, retry, idempotent, mut answers, requests, succeeds) in table {
        if answers.is_empty() {
            answers.push(vec![]);
        }
        answers.push(answer());
        let server = RawServer::start(answers).await;
        let mut tool = tool(method, retry);
        tool["risk"] = json!({"idempotent": idempotent});
        let result = call(&document(&server.url(), None, tool), "{}").await;
        assert_eq!((result.is_ok(), server.requests()), (succeeds, requests), "{method} {result:?}");
        if let Err(error) = result {
            assert!(matches!(error, UpstreamError::Unreachable { reason: "reset", sent: true }), "{error:?}");
        }
    }
    // The head arrives, then half a body.
    let server = RawServer::start(vec![cut()]).await;
    let bounds = within(Duration::from_millis(300), 1 << 20);
    let error = call_within(&document(&server.url(), None, json!({})), "{}", bounds).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Timeout { sent: true }), "{error:?}");
}

#[tokio::test]
async fn half_a_body_is_no_answer() {
    for head in ["content-length: 9", "transfer-encoding: chunked"] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await.unwrap();
                let half = if head.starts_with('c') { "{" } else { "1\r\n{\r\n" };
                stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{half}").as_bytes()).await.unwrap();
            }
        });
        let error = call(&document(&url, None, json!({})), "{}").await.unwrap_err();
        assert!(matches!(error, UpstreamError::Unreachable { reason: "reset", sent: true }), "{head}: {error:?}");
        server.await.unwrap();
    }
}

#[tokio::test]
async fn what_was_not_sent_is_sent_again_whatever_it_is() {
    let address = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let retry = json!({"maxAttempts": 3, "backoffMs": 1, "retryOn": []});
    let document = document(&format!("http://{address}"), None, tool("POST", retry));
    let error = call(&document, "{}").await.unwrap_err();
    assert!(matches!(error, UpstreamError::Unreachable { reason: "connect", sent: false }), "{error:?}");
}
