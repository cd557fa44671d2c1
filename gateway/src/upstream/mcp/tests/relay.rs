//! What a server sends during a call.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tamis_engine::Enforcement;

use super::fixture::{
    answer, count, events, legacy, message, method, modern, result, service, stream as event_stream, text,
};
use crate::mcp::level::Level;
use crate::memory::Reservation;
use crate::relay::{Relay, Wanted};
use crate::upstream::http::tests::support::{Seen, Server, arguments, bounds, context, given, room};
use crate::upstream::{Answer, CallContext, Upstream, UpstreamError};

fn relay(level: Option<Level>) -> Arc<Relay> {
    Relay::new(&Wanted { token: Some(Bytes::from_static(b"\"mine\"")), level }, None, Enforcement::Advisory).unwrap()
}

async fn call(
    upstream: &Upstream,
    relay: Option<&Arc<Relay>>,
    memory: &mut Reservation,
) -> Result<Answer, UpstreamError> {
    let context = CallContext { relay, ..context(bounds(), given(), memory) };
    upstream.call("read", &arguments("{}"), context).await
}

fn progress(token: &Value, n: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{n}}}}}"#
    )
}

fn log(level: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":1}}}}"#)
}

/// Answers a call after progress of this and of another call, and two log messages.
fn talks(seen: &Seen) -> axum::response::Response {
    let token = message(seen)["params"]["_meta"]["progressToken"].clone();
    events(&[
        &progress(&json!(999_999), "7"),
        &progress(&token, "1.50"),
        &log("info"),
        &log("error"),
        &answer(seen, &text("done")),
    ])
}

#[tokio::test]
async fn progress_and_log_messages_reach_the_relay_in_both_eras() {
    for is_legacy in [false, true] {
        let server = match is_legacy {
            true => Server::start(legacy(talks)).await,
            false => Server::start(modern(talks)).await,
        };
        let (upstream, relay) = (service(&server), relay(Some(Level::Warning)));
        call(&upstream, Some(&relay), &mut room()).await.unwrap();
        let messages = relay.take_out();
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(messages[0].contains(r#""level":"error""#), "{messages:?}");
        assert!(messages[1].contains(r#""progressToken":"mine","progress":1.50}"#), "{messages:?}");
        let sent = server.seen().into_iter().rfind(|seen| method(seen) == "tools/call").unwrap();
        let meta = &message(&sent)["params"]["_meta"];
        assert_eq!(meta["progressToken"], message(&sent)["id"]);
        let level = if is_legacy { Value::Null } else { json!("warning") };
        assert_eq!(meta["io.modelcontextprotocol/logLevel"], level);
    }
}

#[tokio::test]
async fn a_server_is_asked_only_for_what_the_caller_wants() {
    let server = Server::start(legacy(|seen| result(seen, &text("x")))).await;
    let upstream = service(&server);
    call(&upstream, None, &mut room()).await.unwrap();
    assert_eq!(message(server.seen().last().unwrap())["params"].get("_meta"), None);
    assert_eq!(count(&server, "logging/setLevel"), 0);
    call(&upstream, Some(&relay(None)), &mut room()).await.unwrap();
    assert_eq!(count(&server, "logging/setLevel"), 0);
}

#[tokio::test]
async fn a_legacy_session_is_asked_for_the_least_severe_level_once() {
    let server = Server::start(legacy(|seen| result(seen, &text("x")))).await;
    let upstream = service(&server);
    for level in [Level::Error, Level::Error, Level::Alert, Level::Info, Level::Warning, Level::Info] {
        call(&upstream, Some(&relay(Some(level))), &mut room()).await.unwrap();
    }
    let seen = server.seen();
    let levels = seen.iter().filter(|seen| method(seen) == "logging/setLevel").map(message);
    // The server refuses it, which does not matter.
    assert_eq!(
        levels.map(|message| message["params"].clone()).collect::<Vec<_>>(),
        [json!({"level": "error"}), json!({"level": "info"})]
    );
    assert!(
        seen.iter()
            .filter(|seen| method(seen) == "logging/setLevel")
            .all(|seen| seen.header("mcp-session-id") == Some("s4"))
    );
}

#[tokio::test]
async fn a_million_messages_cost_a_call_no_memory_and_the_newest_is_kept() {
    let server = Server::start(modern(|seen| {
        let token = message(seen)["params"]["_meta"]["progressToken"].clone();
        let events = format!("data: {}\n\n", progress(&token, "1")).repeat(1_000);
        let newest = format!("data: {}\n\n", progress(&token, "999999"));
        let messages = std::iter::repeat_n(events, 1_000).chain([newest]).map(Ok::<_, Infallible>);
        let last = stream::iter([Ok(format!("data: {}\n\n", answer(seen, &text("late"))))]);
        event_stream(Body::from_stream(stream::iter(messages).chain(last)))
    }))
    .await;
    let (upstream, relay) = (service(&server), relay(None));
    let mut memory = Reservation::alone(1 << 20).unwrap();
    let context = CallContext {
        relay: Some(&relay),
        ..context(
            crate::upstream::http::tests::support::within(std::time::Duration::from_secs(280), 100_000),
            given(),
            &mut memory,
        )
    };
    upstream.call("read", &arguments("{}"), context).await.unwrap();
    let messages = relay.take_out();
    assert_eq!(messages.len(), 4);
    assert!(messages[3].contains(r#""progress":999999}"#), "{messages:?}");
}
