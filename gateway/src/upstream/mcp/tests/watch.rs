use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::response::{IntoResponse as _, Response};
use http::StatusCode;

use super::fixture::{count, error, events, initialized, legacy, method, modern, result, service, text};
use crate::memory::Reservation;
use crate::upstream::http::tests::support::{Seen, Server, bounds, context, given, within};
use crate::upstream::mcp::peers::Peer;
use crate::upstream::mcp::pins::Verdict;
use crate::upstream::{StreamEnd, Upstream, UpstreamError};

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#;

async fn read_list(upstream: &Upstream, memory: &mut Reservation) -> Result<(), UpstreamError> {
    upstream.read_list(context(bounds(), given(), memory)).await
}

/// Reads the list, and then a stream to its end. Returns how it ended and how often it was opened.
async fn listen(upstream: &Upstream) -> (StreamEnd, usize) {
    let mut memory = Reservation::alone(8 << 20).unwrap();
    read_list(upstream, &mut memory).await.unwrap();
    let opened = AtomicUsize::new(0);
    let count = || _ = opened.fetch_add(1, Ordering::SeqCst);
    let end = upstream.listen(context(bounds(), given(), &mut memory), &count).await;
    assert!(memory.used() <= 256 << 10, "{}", memory.used());
    (end, opened.into_inner())
}

/// A modern server with this answer to `subscriptions/listen`.
async fn subscribing(answer: impl Fn(&Seen) -> Response + Send + Sync + 'static) -> Server {
    Server::start(move |seen: &Seen, number| match &*method(seen) {
        "subscriptions/listen" => answer(seen),
        _ => modern(|seen| result(seen, &text("x")))(seen, number),
    })
    .await
}

#[tokio::test]
async fn how_a_stream_ends_decides_whether_there_is_another() {
    type Case = (&'static str, fn(&Seen) -> Response, StreamEnd, usize);
    let cases: [Case; 7] = [
        ("no such method", |_| error(404, -32601), StreamEnd::Unsupported, 0),
        ("an error in JSON", |_| error(200, -32601), StreamEnd::Unsupported, 0),
        ("overload", |_| error(503, 0), StreamEnd::Ended, 0),
        ("no event", |_| events(&[]), StreamEnd::Ended, 0),
        ("one event", |_| events(&[CHANGED]), StreamEnd::Ended, 1),
        ("not JSON", |_| events(&["{"]), StreamEnd::Ended, 0),
        ("an event of a megabyte", |_| events(&[&"x".repeat(1 << 20)]), StreamEnd::Ended, 0),
    ];
    for (name, answer, end, opened) in cases {
        let server = subscribing(answer).await;
        assert_eq!(listen(&service(&server)).await, (end, opened), "{name}");
    }
}

#[tokio::test]
async fn a_flood_of_messages_ends_the_stream() {
    // More than a thousand messages within a minute, in fewer bytes than the limit on those.
    let server = subscribing(|_| events(&vec![PROGRESS; 5_000])).await;
    let begun = Instant::now();
    assert_eq!(listen(&service(&server)).await, (StreamEnd::Ended, 1));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_legacy_server_is_listened_to_in_a_session_of_the_background() {
    let server = Server::start(|seen: &Seen, number| match (seen.method.as_str(), seen.header("mcp-session-id")) {
        ("GET", Some(_)) => events(&[CHANGED]),
        ("GET", None) => StatusCode::BAD_REQUEST.into_response(),
        _ => legacy(|seen| result(seen, &text("x")))(seen, number),
    });
    let server = server.await;
    let upstream = service(&server);
    assert_eq!(listen(&upstream).await, (StreamEnd::Ended, 1));
    let get = server.seen().into_iter().find(|seen| seen.method == "GET").unwrap();
    assert_eq!((get.header("content-type"), get.body.len()), (None, 0));
    let begun = || server.seen().iter().filter(|seen| method_of(seen) == "initialize").count();
    assert_eq!(begun(), 1, "one session for the list and the stream");
    super::fixture::call(&upstream, "read").await.unwrap();
    assert_eq!(begun(), 2, "a caller has another one");
    // Without sessions, and without a stream.
    let server = Server::start(|seen: &Seen, number| match (seen.method.as_str(), &*method_of(seen)) {
        ("GET", _) => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        (_, "initialize") => initialized(seen),
        (_, "server/discover") => error(404, -32601),
        (_, "notifications/initialized") => StatusCode::ACCEPTED.into_response(),
        _ => modern(|seen| result(seen, &text("x")))(seen, number),
    })
    .await;
    assert_eq!(listen(&service(&server)).await, (StreamEnd::Unsupported, 0));
}

fn method_of(seen: &Seen) -> String {
    if seen.body.is_empty() { String::new() } else { method(seen) }
}

#[tokio::test]
async fn a_list_that_is_read_takes_no_longer_than_its_time() {
    for hangs in ["server/discover", "tools/list"] {
        let server = Server::start(move |seen: &Seen, number| {
            if method(seen) == hangs {
                return super::fixture::stream(axum::body::Body::from_stream(futures_util::stream::pending::<
                    Result<bytes::Bytes, std::convert::Infallible>,
                >()));
            }
            modern(|seen| result(seen, &text("x")))(seen, number)
        })
        .await;
        let mut memory = Reservation::alone(8 << 20).unwrap();
        let bounds = within(Duration::from_millis(200), 1 << 20);
        let failed = service(&server).read_list(context(bounds, given(), &mut memory)).await.unwrap_err();
        assert!(matches!(failed, UpstreamError::Timeout { sent: false }), "{hangs}: {failed:?}");
    }
}

#[tokio::test]
async fn a_followed_list_that_does_not_end_is_cut_and_what_was_read_is_published() {
    type Cursor = fn(usize) -> String;
    let large = format!(r#"{{"name":"large","inputSchema":{{"type":"object","$comment":"{}"}}}}"#, "x".repeat(5 << 20));
    let cases: [(&str, Cursor, &str, usize); 3] = [
        ("repeats a cursor", |_| "again".to_owned(), r#"{"name":"t","inputSchema":{"type":"object"}}"#, 3),
        ("has more than 200 pages", |page| page.to_string(), "", 200),
        ("has more than 4 MiB", |page| page.to_string(), &large, 1),
    ];
    for (why, cursor, tool, pages) in cases {
        let tool = tool.to_owned();
        let server = Server::start(move |seen: &Seen, number| match &*method(seen) {
            "tools/list" => {
                let name = format!(r#"{{"name":"t{number}","inputSchema":{{"type":"object"}}}}"#);
                let tool = if tool.is_empty() || tool.len() < 100 { &name } else { &tool };
                result(seen, &format!(r#"{{"tools":[{tool}],"nextCursor":"{}"}}"#, cursor(number)))
            }
            _ => modern(|seen| result(seen, &text("x")))(seen, number),
        })
        .await;
        let mut document = super::fixture::document(&server.url());
        document["source"]["mcp"]["follow"] = true.into();
        document["tools"] = serde_json::json!({});
        let upstream = super::fixture::upstream(&document);
        let mut memory = Reservation::alone(32 << 20).unwrap();
        read_list(&upstream, &mut memory).await.unwrap();
        let listed = upstream.listed(given()).unwrap();
        assert_eq!(listed.ended.map(|(ended, _)| ended), Some(why));
        assert!(count(&server, "tools/list") <= pages, "{why}: {}", count(&server, "tools/list"));
        assert_eq!(listed.tools.len(), if pages == 1 { 0 } else { count(&server, "tools/list") }, "{why}");
    }
}

#[tokio::test]
async fn a_list_is_due_before_it_expires_and_as_soon_as_a_change_is_announced() {
    let (peer, verdict, now) = (Arc::new(Peer::default()), Arc::<Verdict>::default(), Instant::now());
    peer.due(0.5).await;
    peer.set_verdict(&verdict, now, Duration::from_millis(200));
    peer.due(0.5).await;
    assert!((90..190).contains(&now.elapsed().as_millis()), "{:?}", now.elapsed());

    let later = Instant::now();
    peer.set_verdict(&verdict, later, Duration::from_secs(60));
    let waiting = Arc::clone(&peer);
    let due = tokio::spawn(async move { waiting.due(0.9).await });
    tokio::task::yield_now().await;
    // A list that began to be read before does not count.
    assert!(peer.set_verdict(&verdict, now, Duration::from_secs(60)).is_some());
    assert!(!due.is_finished());
    peer.expire();
    due.await.unwrap();
    // A list that was being read when the change was announced may be the one before it.
    peer.set_verdict(&verdict, Instant::now() - Duration::from_millis(1), Duration::from_secs(60));
    peer.due(0.9).await;
    peer.set_verdict(&verdict, Instant::now(), Duration::from_secs(60));
    assert!(tokio::time::timeout(Duration::from_millis(20), peer.due(0.9)).await.is_err());
}
