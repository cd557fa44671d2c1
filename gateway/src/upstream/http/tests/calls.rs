//! Calls over a real connection.

use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::IntoResponse as _;
use base64::Engine as _;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::support::{
    Given, RawServer, Server, TOKEN, arguments, bounds, call, call_within, client, context, document, given, room,
    schema, upstream, within,
};
use crate::upstream::{Client, ClientOptions, CredentialScope, EgressPolicy, Output, Upstream, UpstreamError};

fn bearer() -> Option<serde_json::Value> {
    Some(json!({"type": "bearer", "credential": {"name": "github", "key": "token"}}))
}

#[tokio::test]
async fn a_get_has_its_path_query_and_bearer() {
    let server = Server::start(|_, _| r#"[{"id": 12345678901234567890, "price": 1.10}]"#).await;
    let tool = json!({
        "inputSchema": schema(&["owner", "state", "labels", "page"]),
        "call": {"http": {
            "path": "/repos/{owner}/issues", "defaults": {"state": "open"},
            "request": {"query": {"state": "{state}", "labels": "{labels}", "page": "{page}"}},
        }},
    });
    let document = document(&format!("{}/api/v1/", server.url()), bearer(), tool);
    let answer = call(&document, r#"{"owner": "o w+n", "labels": ["a b", "c&d"]}"#).await.unwrap();
    assert_eq!(answer.output.bytes(), r#"[{"id": 12345678901234567890, "price": 1.10}]"#);
    assert!(matches!(answer.output, Output::Json(_)));
    assert_eq!((answer.status, answer.requests), (200, 1));
    let seen = server.only();
    assert_eq!(seen.target(), "/api/v1/repos/o%20w%2Bn/issues?state=open&labels=a%20b&labels=c%26d");
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    assert_eq!(seen.header("user-agent"), Some(concat!("tamis/", env!("CARGO_PKG_VERSION"))));
}

fn auth(kind: &str, more: Value) -> Option<Value> {
    let mut auth = json!({"type": kind, "credential": {"name": "n", "key": "k"}});
    auth.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Some(auth)
}

#[tokio::test]
async fn every_kind_of_authentication_has_its_place() {
    let basic = |pair: &str| format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(pair));
    let encoded = "s3cr3t-t0ken%2F%2B%26%3D";
    let table = [
        (auth("bearer", json!({})), "authorization", format!("Bearer {TOKEN}"), "/p?q=1", ""),
        (auth("header", json!({"name": "X-Key"})), "x-key", TOKEN.to_owned(), "/p?q=1", ""),
        (auth("header", json!({"name": "X-Key", "prefix": "Token "})), "x-key", format!("Token {TOKEN}"), "/p?q=1", ""),
        (auth("basic", json!({"username": "me"})), "authorization", basic(&format!("me:{TOKEN}")), "/p?q=1", ""),
        (auth("basic", json!({})), "authorization", basic(TOKEN), "/p?q=1", ""),
        (
            auth("query", json!({"name": "api key"})),
            "x-none",
            String::new(),
            &format!("/p?q=1&api%20key={encoded}"),
            "",
        ),
        (
            auth("body", json!({"name": "token"})),
            "x-none",
            String::new(),
            "/p?q=1",
            r#"{"x":1,"token":"s3cr3t-t0ken/+&="}"#,
        ),
        (None, "authorization", String::new(), "/p?q=1", ""),
    ];
    for (auth, header, value, target, body) in table {
        let server = Server::start(|_, _| "{}").await;
        let mut http = json!({"method": "POST", "path": "/p", "request": {"query": {"q": "1"}}});
        if !body.is_empty() {
            http["request"]["body"] = json!({"x": 1});
        }
        let document = document(&server.url(), auth.clone(), json!({"call": {"http": http}}));
        call(&document, "{}").await.unwrap();
        let seen = server.only();
        assert_eq!((seen.header(header).unwrap_or(""), seen.target()), (value.as_str(), target), "{auth:?}");
        assert_eq!(seen.body, body, "{auth:?}");
        assert_eq!((seen.method.as_str(), seen.header("content-length").unwrap()), ("POST", &*body.len().to_string()));
    }
}

#[tokio::test]
async fn a_tool_can_switch_authentication_off_or_change_it() {
    let server = Server::start(|_, _| "{}").await;
    for tool in [json!({"type": "none"}), auth("header", json!({"name": "X-Other"})).unwrap()] {
        let document = document(&server.url(), bearer(), json!({"call": {"http": {"auth": tool}}}));
        call(&document, "{}").await.unwrap();
    }
    let seen = server.seen();
    assert_eq!((seen[0].header("authorization"), seen[0].header("x-other")), (None, None));
    assert_eq!((seen[1].header("authorization"), seen[1].header("x-other")), (None, Some(TOKEN)));
}

#[tokio::test]
async fn a_credential_that_cannot_be_sent_stops_the_call() {
    let server = Server::start(|_, _| "{}").await;
    for kind in ["bearer", "basic", "query", "body"] {
        let document = document(&server.url(), auth(kind, json!({"name": "x"})), json!({}));
        for value in ["", "a\nb", "a\rX: y", "a\0", "\u{85}"] {
            let upstream = upstream(&document).unwrap();
            let scope = CredentialScope { store: &Given(value), ..given() };
            let error =
                upstream.call("call", &arguments("{}"), context(bounds(), scope, &mut room())).await.unwrap_err();
            assert_eq!(error.to_string(), "credential `n` key `k` is not available", "{kind} {value:?}");
        }
    }
    let absent = Some(json!({"type": "bearer", "credential": {"name": "absent", "key": "k"}}));
    let error = call(&document(&server.url(), absent, json!({})), "{}").await.unwrap_err();
    assert!(matches!(error, UpstreamError::Credential(c) if c.name == "absent"));
    assert_eq!(server.seen().len(), 0);
}

#[test]
fn documents_that_cannot_be_called() {
    let base = "https://h.example";
    let table = [
        (document("h.example", None, json!({})), "source.http.baseUrl: is not a URL; write https://HOST"),
        (document("ftp://h", None, json!({})), "source.http.baseUrl: must begin with https:// or http://"),
        (
            document("https://u:p@h", None, json!({})),
            "source.http.baseUrl: must not hold a user or a password; use `auth`",
        ),
        (
            document("https://h/?a=b", None, json!({})),
            "source.http.baseUrl: must not hold a query or a fragment; put parameters in `request.query`",
        ),
        (document(base, auth("header", json!({})), json!({})), "tools.call.call.http.auth: needs a `name`"),
        (document(base, auth("query", json!({"name": ""})), json!({})), "tools.call.call.http.auth: needs a `name`"),
        (
            document(base, auth("header", json!({"name": "Host"})), json!({})),
            "tools.call.call.http.auth: `Host` is set by the gateway",
        ),
        (document(base, Some(json!({"type": "bearer"})), json!({})), "tools.call.call.http.auth: needs a credential"),
        (
            document(base, auth("basic", json!({"username": "a:b"})), json!({})),
            "tools.call.call.http.auth: has a `username` with a colon, which Basic cannot carry",
        ),
        (
            document(base, auth("body", json!({"name": "t"})), json!({"call": {"http": {"request": {"body": [1]}}}})),
            "tools.call.call.http.request.body: must be an object, since authentication adds a member to it",
        ),
    ];
    let client = client();
    for (document, error) in table {
        assert_eq!(Upstream::new(&Arc::new(document.clone()), client.clone()).unwrap_err().to_string(), error);
    }
}

fn compressed(coding: &str, text: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    match coding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        "br" => {
            let mut out = Vec::new();
            brotli::CompressorWriter::new(&mut out, 4096, 5, 20).write_all(text).unwrap();
            out
        }
        _ => zstd::encode_all(text, 0).unwrap(),
    }
}

#[tokio::test]
async fn compressed_answers_are_unpacked_and_bombs_are_not() {
    for coding in ["gzip", "br", "zstd"] {
        let text = format!("[{}1]", "1, ".repeat(10_000));
        let small = compressed(coding, text.as_bytes());
        let bomb = compressed(coding, &vec![b' '; 16 << 20]);
        assert!(bomb.len() < 1 << 20);
        let server = Server::start(move |seen, n| {
            assert!(seen.header("accept-encoding").unwrap().contains(coding));
            let body = match n {
                0 => small.clone(),
                1 => bomb.clone(),
                _ => b"not compressed".to_vec(),
            };
            ([("content-encoding", coding)], body)
        })
        .await;
        let document = document(&server.url(), None, json!({}));
        assert_eq!(call(&document, "{}").await.unwrap().output.bytes(), text.as_str(), "{coding}");
        let error = call(&document, "{}").await.unwrap_err();
        assert!(matches!(error, UpstreamError::TooLarge { limit: 1_048_576 }), "{coding}: {error:?}");
        let error = call(&document, "{}").await.unwrap_err();
        assert_eq!(error.to_string(), "the upstream's answer could not be decompressed", "{coding}");
    }
}

#[tokio::test]
async fn all_members_of_a_gzip_answer_are_read() {
    let server = Server::start(|_, n| {
        let members = [compressed("gzip", b"[1,"), compressed("gzip", b"2,3]")].concat();
        let status = if n == 0 { http::StatusCode::OK } else { http::StatusCode::BAD_REQUEST };
        (status, [("content-encoding", "GZIP")], members)
    })
    .await;
    let document = document(&server.url(), None, json!({}));
    assert_eq!(call(&document, "{}").await.unwrap().output.bytes(), "[1,2,3]");
    let Err(UpstreamError::Status { body, .. }) = call(&document, "{}").await else { panic!("an error status") };
    assert_eq!(body, "[1,2,3]");
}

#[tokio::test]
async fn a_coding_that_was_not_asked_for_is_an_error() {
    let server = Server::start(|_, _| ([("content-encoding", "deflate")], "x")).await;
    let error = call(&document(&server.url(), None, json!({})), "{}").await.unwrap_err();
    assert_eq!(error.to_string(), "the upstream's answer has a content encoding that was not asked for");
}

#[tokio::test]
async fn no_more_is_read_than_allowed() {
    let server = Server::start(|_, _| "x".repeat(1_000)).await;
    let document_ = document(&server.url(), None, json!({}));
    let limited = |limit| call_within(&document_, "{}", within(Duration::from_secs(20), limit));
    assert_eq!(limited(1_000).await.unwrap().output.bytes().len(), 1_000);
    assert!(matches!(limited(999).await.unwrap_err(), UpstreamError::TooLarge { limit: 999 }));

    // What is announced is not waited for.
    let claims = RawServer::start(vec![b"HTTP/1.1 200 OK\r\ncontent-length: 5000000\r\n\r\nx".to_vec()]).await;
    let begun = Instant::now();
    let error = call(&document(&claims.url(), None, json!({})), "{}").await.unwrap_err();
    assert!(matches!(error, UpstreamError::TooLarge { .. }) && begun.elapsed() < Duration::from_secs(5));

    // Without a length, in many pieces that never end.
    let endless = Server::start(|_, _| {
        let pieces = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 4096])));
        axum::body::Body::from_stream(pieces)
    })
    .await;
    let error = call(&document(&endless.url(), None, json!({})), "{}").await.unwrap_err();
    assert!(matches!(error, UpstreamError::TooLarge { limit: 1_048_576 }), "{error:?}");
}

#[tokio::test]
async fn chunked_answers_come_whole() {
    let server = Server::start(|_, _| {
        let pieces = ["[1,", " 2, ", "3]"].map(|p| Ok::<_, std::io::Error>(Bytes::from_static(p.as_bytes())));
        axum::body::Body::from_stream(futures_util::stream::iter(pieces))
    })
    .await;
    let answer = call(&document(&server.url(), None, json!({})), "{}").await.unwrap();
    assert_eq!(answer.output.bytes(), "[1, 2, 3]");
}

#[tokio::test]
async fn time_is_limited() {
    // Made before the clock runs.
    client();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow = Server::start(|_, _| {
        let pieces = futures_util::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
        });
        axum::body::Body::from_stream(pieces)
    })
    .await;
    for url in [format!("http://{}", silent.local_addr().unwrap()), slow.url()] {
        let begun = Instant::now();
        let bounds = within(Duration::from_millis(200), 1 << 20);
        let error = call_within(&document(&url, None, json!({})), "{}", bounds).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Timeout { sent: true }), "{error:?}");
        assert!((190..5_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    }
    let past = within(Duration::ZERO, 1 << 20);
    let error = call_within(&document(&slow.url(), None, json!({})), "{}", past).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Timeout { sent: false }));
    assert_eq!(slow.seen().len(), 1);
}

#[tokio::test]
async fn error_statuses_are_mapped() {
    let server = Server::start(|seen, _| {
        let status: u16 = seen.uri.path()[1..].parse().unwrap();
        (StatusCode::from_u16(status).unwrap(), "e".repeat(100_000))
    })
    .await;
    for (status, mapped) in [(404, Some("No such issue")), (500, None), (304, None)] {
        let http = json!({"path": format!("/{status}"), "errorMapping": {"404": "No such issue"}});
        let error = call(&document(&server.url(), bearer(), json!({"call": {"http": http}})), "{}").await.unwrap_err();
        assert_eq!(error.to_string(), format!("the upstream answered {status}"));
        let UpstreamError::Status { status: got, mapped: text, body } = error else { panic!("{error:?}") };
        assert_eq!((got, text.as_deref()), (status, mapped));
        assert_eq!(body.len(), if status == 304 { 0 } else { 64 << 10 });
    }
}

#[tokio::test]
async fn nothing_of_an_answer_is_in_debug() {
    let server = Server::start(|_, n| (StatusCode::from_u16([200, 500][n]).unwrap(), r#"{"payload": 1}"#)).await;
    let document = document(&server.url(), bearer(), json!({}));
    let answer = call(&document, "{}").await.unwrap();
    assert!(format!("{answer:?}").starts_with(
        "Answer { output: Json(14 bytes), media: 0, meta: None, errors: None, pages: None, cut: None, status: 200, \
         requests: 1,"
    ));
    let error = call(&document, "{}").await.unwrap_err();
    assert_eq!(format!("{error:?}"), "status(sent: true): the upstream answered 500 with 14 bytes");
}

#[tokio::test]
async fn empty_text_and_extracted_answers() {
    let server = Server::start(|seen, _| match seen.uri.path() {
        "/empty" => StatusCode::NO_CONTENT.into_response(),
        "/html" => ([("content-type", "text/html")], "<p>").into_response(),
        _ => r#"{"data": {"list": [1.10, {"a": "\u0041"}]}}"#.into_response(),
    })
    .await;
    let answer = |tool: Value| {
        let document = document(&server.url(), None, tool);
        async move { call(&document, "{}").await.map_err(|e| e.to_string()) }
    };
    let empty = answer(json!({"call": {"http": {"path": "/empty", "extract": "a.b"}}})).await.unwrap();
    assert_eq!((empty.status, empty.output.bytes().len()), (204, 0));
    let html = answer(json!({"call": {"http": {"path": "/html"}}})).await.unwrap();
    assert!(matches!(html.output, Output::Json(_)), "the filter's enforcement judges what is not JSON");
    let text =
        answer(json!({"call": {"http": {"path": "/html", "extract": "a"}}, "responseType": "text"})).await.unwrap();
    assert_eq!(text.output, Output::Text(Bytes::from_static(b"<p>")));
    let list = answer(json!({"call": {"http": {"extract": "data.list"}}})).await.unwrap();
    assert_eq!(list.output.bytes(), r#"[1.10, {"a": "\u0041"}]"#);
    let missing = answer(json!({"call": {"http": {"extract": "data.items"}}})).await.unwrap_err();
    assert_eq!(missing, "the upstream's answer has nothing at `data.items`, where `extract` looks");
    let error = answer(json!({"call": {"http": {"path": "/html", "extract": "a"}}})).await.unwrap_err();
    assert_eq!(error, "the upstream's answer is not valid JSON (line 1, column 1)");
}

#[tokio::test]
async fn connections_are_reused_and_calls_can_be_spawned() {
    let server = RawServer::start(vec![b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec(); 3]).await;
    let document = document(&server.url(), None, json!({}));
    let upstream = std::sync::Arc::new(upstream(&document).unwrap());
    for _ in 0..3 {
        let upstream = upstream.clone();
        let call =
            async move { upstream.call("call", &arguments("{}"), context(bounds(), given(), &mut room())).await };
        assert_eq!(tokio::spawn(call).await.unwrap().unwrap().output.bytes(), "{}");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_unknown_tool_is_named() {
    let upstream = upstream(&document("https://h.example", None, json!({}))).unwrap();
    let error = upstream.call("other", &arguments("{}"), context(bounds(), given(), &mut room())).await.unwrap_err();
    assert_eq!(error.to_string(), "the service has no tool `other`");
}

#[tokio::test]
async fn what_egress_forbids_is_not_connected_to() {
    let server = Server::start(|_, _| "{}").await;
    let port = server.address.port();
    let egress = EgressPolicy { allow_loopback: false, ..EgressPolicy::standalone() };
    let client = std::sync::Arc::new(
        Client::new(ClientOptions { egress, ..ClientOptions::default() }, NonZero::<usize>::MIN).unwrap(),
    );
    for host in ["127.0.0.1", "localhost", "[::1]", "2130706433", "169.254.169.254"] {
        let document = document(&format!("http://{host}:{port}"), bearer(), json!({}));
        let upstream = Upstream::new(&Arc::new(document.clone()), client.clone()).unwrap();
        let error = upstream.call("call", &arguments("{}"), context(bounds(), given(), &mut room())).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Unreachable { reason: "egress", sent: false }), "{host}: {error:?}");
    }
    assert_eq!(server.seen().len(), 0);
    // By name, where loopback is allowed.
    call(&document(&format!("http://localhost:{port}"), None, json!({})), "{}").await.unwrap();
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn failures_have_a_category() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let plain = Server::start(|_, _| "{}").await;
    for (url, category, sent) in [
        (format!("http://{closed}"), "connect", false),
        (format!("https://{}", plain.address), "tls", false),
        // Longer than a name can be: no resolver is asked.
        (format!("http://{}.invalid", "x".repeat(64)), "dns", false),
    ] {
        let error = call(&document(&url, auth("query", json!({"name": "key"})), json!({})), "{}").await.unwrap_err();
        let UpstreamError::Unreachable { reason, sent: was_sent } = &error else { panic!("{error:?}") };
        assert_eq!((*reason, *was_sent), (category, sent), "{url}");
        assert_eq!((error.category(), error.sent()), (category, sent), "{url}");
        assert!(!format!("{error:?} {error}").contains("s3cr3t"));
    }
}

#[tokio::test]
async fn a_credential_that_is_too_long_for_a_query_is_not_sent() {
    let server = Server::start(|_, _| "{}").await;
    let upstream = upstream(&document(&server.url(), auth("query", json!({"name": "key"})), json!({}))).unwrap();
    for (length, sent) in [((4 << 10) - "key=".len(), true), ((4 << 10) - "key=".len() + 1, false), (70_000, false)] {
        let store = Given(Box::leak("s".repeat(length).into_boxed_str()));
        let scope = CredentialScope { store: &store, ..given() };
        let result = upstream.call("call", &arguments("{}"), context(bounds(), scope, &mut room())).await;
        assert_eq!(result.is_ok(), sent, "{length}");
        assert!(sent || matches!(result, Err(UpstreamError::Credential(_))), "{length}");
    }
    assert_eq!(server.seen().len(), 1);
}
