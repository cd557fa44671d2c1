//! Servers that misbehave. Each costs a call its deadline or less, and no more memory than the call may have.

use std::convert::Infallible;
use std::io::Write as _;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::StatusCode;
use serde_json::json;

use super::fixture::{
    answer, call, call_within, count, document, events, initialized, json_body, legacy, message, method, methods,
    modern, result, service, text, upstream,
};
use crate::memory::Reservation;
use crate::upstream::UpstreamError;
use crate::upstream::http::tests::support::{Seen, Server, room, within};

/// The bytes that a call may have.
const LIMIT: u64 = 1 << 20;

/// A body that never ends, of this piece.
fn endless(piece: &'static str) -> Body {
    let piece = Bytes::from(piece.repeat(100));
    Body::from_stream(stream::repeat_with(move || Ok::<_, Infallible>(piece.clone())))
}

/// A body that never comes.
fn silent() -> Body {
    Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())
}

fn event_stream(body: Body) -> Response {
    super::fixture::stream(body)
}

/// Calls a tool with little time and memory. Returns the error.
async fn fails(server: &Server, tool: &str, time: Duration) -> UpstreamError {
    let mut memory = Reservation::alone(8 << 20).unwrap();
    let begun = Instant::now();
    let called = call_within(&service(server), tool, within(time, LIMIT), &mut memory).await;
    assert!(begun.elapsed() < time + Duration::from_secs(5), "{:?}", begun.elapsed());
    called.unwrap_err()
}

#[tokio::test]
async fn a_server_that_hangs_costs_the_time_of_the_call() {
    for (hangs, sent) in
        [("server/discover", false), ("initialize", false), ("tools/list", false), ("tools/call", true)]
    {
        let server = Server::start(move |seen: &Seen, number| {
            if method(seen) == hangs {
                return event_stream(silent());
            }
            legacy(|seen| result(seen, &text("x")))(seen, number)
        })
        .await;
        let failed = fails(&server, "write", Duration::from_millis(300)).await;
        assert!(matches!(failed, UpstreamError::Timeout { sent: was } if was == sent), "{hangs}: {failed:?}");
    }
    // A server that accepts connections and says nothing at all.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = upstream(&document(&format!("http://{}", listener.local_addr().unwrap())));
    let begun = Instant::now();
    let failed =
        call_within(&silent, "write", within(Duration::from_millis(300), LIMIT), &mut room()).await.unwrap_err();
    assert!(matches!(failed, UpstreamError::Timeout { sent: false }), "{failed:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_legacy_server_is_notified_that_a_call_is_over() {
    let server = Server::start(legacy(|_| event_stream(silent()))).await;
    let failed = fails(&server, "write", Duration::from_millis(300)).await;
    assert!(matches!(failed, UpstreamError::Timeout { sent: true }), "{failed:?}");
    // A caller that disconnects.
    let upstream = service(&server);
    assert!(tokio::time::timeout(Duration::from_millis(300), call(&upstream, "write")).await.is_err());
    for _ in 0..500 {
        if count(&server, "notifications/cancelled") == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(count(&server, "notifications/cancelled"), 2);
    let seen = server.seen();
    let of = |wanted: &str| seen.iter().find(|seen| method(seen) == wanted).unwrap();
    assert_eq!(message(of("notifications/cancelled"))["params"]["requestId"], message(of("tools/call"))["id"]);
    assert_eq!(of("notifications/cancelled").header("mcp-session-id"), Some("s4"));
}

#[tokio::test]
async fn a_stream_without_an_answer_has_an_end() {
    let progress = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":1}}\n\n";
    for (piece, expected) in [
        (": nothing\n", "4 MiB"),
        ("id: 7\n\n", "4 MiB"),
        (progress, "10000 other messages"),
        ("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n", "16 requests of the server"),
        ("data: {\"jsonrpc\":\"2.0\",\"id\":\"other\",\"result\":{}}\n\n", "10000 other messages"),
        ("data: [1,2,3,4,5,6,7,8,9,10]\n\n", "10000 other messages"),
        ("data: not json\n\n", "not valid JSON"),
    ] {
        for is_list in [false, true] {
            let server = Server::start(move |seen: &Seen, number| match &*method(seen) {
                "tools/list" if is_list => event_stream(endless(piece)),
                _ => modern(move |_| event_stream(endless(piece)))(seen, number),
            })
            .await;
            let failed = fails(&server, "write", Duration::from_secs(60)).await;
            assert!(failed.to_string().contains(expected), "{piece}: {failed:?}");
            assert_eq!((failed.sent(), count(&server, "tools/call")), (!is_list, usize::from(!is_list)));
        }
    }
}

#[tokio::test]
async fn a_million_progress_messages_before_an_answer_are_too_many() {
    let progress = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n";
    let server = Server::start(modern(move |seen| {
        let messages = stream::iter((0..1_000_000 / 100).map(move |_| Ok::<_, Infallible>(progress.repeat(100))));
        let last = stream::iter([Ok(format!("data: {}\n\n", answer(seen, &text("late"))))]);
        event_stream(Body::from_stream(futures_util::StreamExt::chain(messages, last)))
    }))
    .await;
    let failed = fails(&server, "write", Duration::from_secs(60)).await;
    assert!(failed.to_string().contains("10000 other messages"), "{failed:?}");
}

#[tokio::test]
async fn an_event_or_a_body_that_is_too_large_is_not_held() {
    for (form, open) in [
        ("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":\""),
        ("application/json", "{\"result\":\""),
    ] {
        let server = Server::start(modern(move |_| {
            let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(open.as_bytes()))]);
            let rest = stream::iter((0..1_600).map(|_| Ok(Bytes::from_static(&[b'x'; 64 << 10]))));
            let body = Body::from_stream(futures_util::StreamExt::chain(first, rest));
            ([("content-type", form)], body).into_response()
        }))
        .await;
        let failed = fails(&server, "write", Duration::from_secs(60)).await;
        assert!(matches!(failed, UpstreamError::TooLarge { limit: LIMIT }), "{form}: {failed:?}");
    }
}

#[tokio::test]
async fn a_bomb_is_not_inflated() {
    let zeros = |before: &str, after: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(before.as_bytes()).unwrap();
        for _ in 0..100 {
            encoder.write_all(&[b' '; 1 << 20]).unwrap();
        }
        encoder.write_all(after.as_bytes()).unwrap();
        Bytes::from(encoder.finish().unwrap())
    };
    for (form, bomb) in [
        ("application/json", zeros("{", "}")),
        ("text/event-stream", zeros("data: {", "}\n\n")),
        ("text/event-stream", zeros(": ", "\n\n")),
    ] {
        let (list_bomb, bytes) = (bomb.clone(), bomb.len());
        assert!(bytes < 1 << 20);
        for is_list in [false, true] {
            let (list_bomb, bomb) = (list_bomb.clone(), bomb.clone());
            let server = Server::start(move |seen: &Seen, number| {
                let explode = |body: &Bytes| {
                    ([("content-type", form), ("content-encoding", "gzip")], Body::from(body.clone())).into_response()
                };
                match &*method(seen) {
                    "tools/list" if is_list => explode(&list_bomb),
                    _ => modern(|_| explode(&bomb))(seen, number),
                }
            })
            .await;
            let failed = fails(&server, "write", Duration::from_secs(60)).await;
            let is_expected = match &failed {
                UpstreamError::TooLarge { .. } | UpstreamError::Malformed(_) => !is_list,
                UpstreamError::NotReady(_) | UpstreamError::Withheld(_) | UpstreamError::Exhausted { sent: false } => {
                    is_list
                }
                _ => false,
            };
            assert!(is_expected, "{form} {is_list}: {failed:?}");
        }
    }
}

#[tokio::test]
async fn a_compressed_stream_is_read_as_it_comes() {
    let server = Server::start(modern(|seen| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        write!(encoder, "data: {}\n\n", answer(seen, &text("packed"))).unwrap();
        encoder.flush().unwrap();
        // The stream stays open.
        let first = stream::iter([Ok::<_, Infallible>(Bytes::from(encoder.get_ref().clone()))]);
        let body = Body::from_stream(futures_util::StreamExt::chain(first, stream::pending()));
        ([("content-type", "text/event-stream"), ("content-encoding", "gzip")], body).into_response()
    }))
    .await;
    assert_eq!(call(&service(&server), "read").await.unwrap().output.bytes(), "packed");
}

#[tokio::test]
async fn a_stream_that_breaks_is_not_a_reason_to_execute_twice() {
    for (tool, calls) in [("write", 1), ("read", 2)] {
        let server = Server::start(modern(|_| events(&[r#"{"method":"notifications/progress"}"#]))).await;
        let failed = call(&service(&server), tool).await.unwrap_err();
        assert!(matches!(failed, UpstreamError::Unreachable { reason: "reset", sent: true }), "{failed:?}");
        assert_eq!(count(&server, "tools/call"), calls, "{tool}");
    }
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let other = Server::start(|_: &Seen, _| StatusCode::OK).await;
    for status in [301, 302, 303, 307, 308] {
        for redirects in ["server/discover", "tools/list", "tools/call"] {
            for to in [other.url(), "/elsewhere".to_owned(), "https://127.0.0.1/".to_owned()] {
                let server = Server::start(move |seen: &Seen, number| {
                    if method(seen) == redirects {
                        return (StatusCode::from_u16(status).unwrap(), [("location", to.clone())]).into_response();
                    }
                    modern(|seen| result(seen, &text("x")))(seen, number)
                })
                .await;
                let failed = call(&service(&server), "write").await.unwrap_err();
                assert!(matches!(failed, UpstreamError::Unreachable { reason: "redirect", .. }), "{failed:?}");
                assert_eq!(failed.sent(), redirects == "tools/call");
                assert_eq!(count(&server, redirects), 1);
            }
        }
    }
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn wrong_types_are_errors_without_their_values() {
    let bodies = [
        "",
        "null",
        "7",
        "\"secret\"",
        "[]",
        "{}",
        "secret",
        r#"{"result":"secret"}"#,
        r#"{"id":ID}"#,
        r#"{"id":ID,"result":null}"#,
        r#"{"id":ID,"result":"secret"}"#,
        r#"{"id":ID,"result":["secret"]}"#,
        r#"{"id":ID,"result":{"tools":"secret","protocolVersion":["secret"],"supportedVersions":"secret","content":"secret"}}"#,
        r#"{"id":ID,"result":{"tools":[["secret"],7,null],"content":[["secret"]],"structuredContent":7,"isError":"secret"}}"#,
    ];
    for at in ["server/discover", "initialize", "tools/list", "tools/call"] {
        for body in bodies {
            for form in ["application/json", "text/event-stream", "text/html", ""] {
                let server = Server::start(move |seen: &Seen, number| {
                    if method(seen) != at {
                        return legacy(|seen| result(seen, &text("x")))(seen, number);
                    }
                    let body = body.replace("ID", &message(seen)["id"].to_string());
                    let body = if form == "text/event-stream" { format!("data: {body}\n\n") } else { body };
                    ([("content-type", form)], body).into_response()
                })
                .await;
                let called = call(&service(&server), "write").await;
                if at == "server/discover" {
                    // Such a server may be one of the legacy era.
                    assert!(called.is_ok(), "{body} {form}: {called:?}");
                    continue;
                }
                let failed = called.expect_err(body);
                assert!(!failed.to_string().contains("secret"), "{at} {body} {form}: {failed}");
                assert_eq!(failed.sent(), at == "tools/call", "{at} {body} {form}: {failed:?}");
                assert!(count(&server, "tools/call") <= 1);
            }
        }
    }
}

#[tokio::test]
async fn answers_in_batches_count_by_their_id() {
    let server = Server::start(modern(|seen| {
        let id = &message(seen)["id"];
        json_body(format!(
            r#"[{{"id":999,"result":{}}},{},{{"id":{id},"result":{{"structuredContent":2}}}}]"#,
            text("other"),
            answer(seen, r#"{"structuredContent":1}"#)
        ))
    }))
    .await;
    assert_eq!(call(&service(&server), "read").await.unwrap().output.bytes(), "1");
}

#[tokio::test]
async fn a_list_without_an_end_is_given_up() {
    let server = Server::start(|seen: &Seen, number| match &*method(seen) {
        "initialize" => initialized(seen),
        "tools/list" => result(seen, &json!({"tools": [{"name": "n"}], "nextCursor": number.to_string()}).to_string()),
        _ => modern(|_| unreachable!())(seen, number),
    })
    .await;
    let failed = call(&service(&server), "read").await.unwrap_err();
    assert!(failed.to_string().contains("200 pages"), "{failed}");
    assert_eq!(methods(&server).len(), 201);
}
