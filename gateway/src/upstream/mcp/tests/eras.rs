use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::response::IntoResponse as _;
use http::StatusCode;
use serde_json::json;

use super::fixture::{
    LEGACY, call, count, error, events, initialized, legacy, message, method, methods, modern, result, service, text,
};
use crate::call::Caller;
use crate::upstream::UpstreamError;
use crate::upstream::http::tests::support::{Seen, Server, arguments, bounds, context, given, room};
use tamis_config::ExpositionId;

fn said(answer: &crate::upstream::Answer) -> String {
    String::from_utf8_lossy(answer.output.bytes()).into_owned()
}

#[tokio::test]
async fn a_legacy_server_gets_one_session_for_each_caller() {
    let server = Server::start(legacy(|seen| result(seen, &text(seen.header("mcp-session-id").unwrap())))).await;
    let upstream = service(&server);
    assert_eq!(said(&call(&upstream, "read").await.unwrap()), "s4");
    assert_eq!(said(&call(&upstream, "read").await.unwrap()), "s4");
    // The list is read in a session that belongs to no caller.
    let handshake = ["initialize", "notifications/initialized"];
    let expected = [&["server/discover"][..], &handshake, &["tools/list"], &handshake, &["tools/call"; 2]].concat();
    assert_eq!(methods(&server), expected);
    let seen = server.seen();
    assert_eq!(seen[1].header("mcp-protocol-version"), None, "the body names it");
    assert_eq!(message(&seen[1])["params"]["protocolVersion"], LEGACY);
    let after = seen[2..].iter().filter(|seen| method(seen) != "initialize");
    assert!(after.into_iter().all(|seen| seen.header("mcp-protocol-version") == Some(LEGACY)));
    assert!(seen[1..].iter().all(|seen| seen.header("mcp-method").is_none()));
    assert_eq!(message(&seen[6])["params"].get("_meta"), None);
    // Some servers list a tool only to clients that can be asked for what it needs. No caller has declared that here.
    let declared = |number: usize| message(&seen[number])["params"]["capabilities"].clone();
    assert_eq!((declared(1), declared(4)), (json!({"elicitation": {}, "sampling": {}, "roots": {}}), json!({})));

    let other = Caller::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut memory = room();
    let context = context(bounds(), given(), &mut memory);
    let context = crate::upstream::CallContext { caller: Some(&other), ..context };
    let answer = upstream.call("read", &arguments("{}"), context).await.unwrap();
    assert_eq!((said(&answer), count(&server, "tools/list")), ("s8".to_owned(), 1));
    // A caller of the same name is another one if it comes through a bundle.
    let bundle = ExpositionId { namespace: "default".to_owned(), name: "bundle".to_owned() };
    for expected in ["s11", "s11"] {
        let mut memory = room();
        let context = crate::upstream::http::tests::support::context(bounds(), given(), &mut memory);
        let context = crate::upstream::CallContext { caller: Some(&other), through: Some(&bundle), ..context };
        let answer = upstream.call("read", &arguments("{}"), context).await.unwrap();
        assert_eq!(said(&answer), expected);
    }
}

#[tokio::test]
async fn a_legacy_server_may_have_no_sessions() {
    let server = Server::start(|seen: &Seen, _| match &*method(seen) {
        "initialize" => initialized(seen),
        "notifications/initialized" => StatusCode::ACCEPTED.into_response(),
        "tools/list" => result(seen, &json!({"tools": super::fixture::tools()}).to_string()),
        "tools/call" => result(seen, &text("x")),
        _ => error(200, -32601),
    })
    .await;
    let upstream = service(&server);
    for _ in 0..2 {
        assert_eq!(said(&call(&upstream, "write").await.unwrap()), "x");
    }
    assert_eq!(count(&server, "initialize"), 1);
}

#[tokio::test]
async fn a_session_that_ended_begins_again_once() {
    for (status, tool, executed, succeeds) in [
        // The server has lost the session, so it has processed nothing.
        (404, "write", 1, true),
        (404, "read", 1, true),
        // It may have processed the call: only what changes nothing is sent again.
        (400, "write", 0, false),
        (400, "read", 1, true),
    ] {
        let runs = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&runs);
        let lost = AtomicBool::new(false);
        let server = Server::start(legacy(move |seen| {
            if message(seen)["params"]["arguments"] == json!({}) {
                return result(seen, &text("before"));
            }
            if !lost.swap(true, Ordering::SeqCst) {
                return error(status, -32001);
            }
            counter.fetch_add(1, Ordering::SeqCst);
            result(seen, &text("done"))
        }))
        .await;
        let upstream = service(&server);
        let mut memory = room();
        upstream.call("read", &arguments("{}"), context(bounds(), given(), &mut memory)).await.unwrap();
        let called = call(&upstream, tool).await;
        assert_eq!(called.is_ok(), succeeds, "{status} {tool}: {called:?}");
        assert_eq!(runs.load(Ordering::SeqCst), executed, "{status} {tool}");
        // The next call has a session in any case, and the tools were compared again.
        assert!(call(&upstream, "write").await.is_ok());
        assert_eq!((count(&server, "initialize"), count(&server, "tools/list")), (3, 2), "{status} {tool}");
    }
}

#[tokio::test]
async fn a_session_that_ends_at_each_call_is_not_begun_for_ever() {
    let server = Server::start(legacy(|_| error(404, -32001))).await;
    let failed = call(&service(&server), "write").await.unwrap_err();
    assert!(matches!(failed, UpstreamError::Status { status: 404, .. }), "{failed:?}");
    assert_eq!((count(&server, "tools/call"), count(&server, "initialize")), (2, 3));
}

#[tokio::test]
async fn a_server_may_change_its_era() {
    let is_modern = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&is_modern);
    let server = Server::start(move |seen: &Seen, number| {
        if now.load(Ordering::SeqCst) {
            if seen.header("mcp-protocol-version") != Some("2026-07-28") {
                return error(400, -32022);
            }
            return modern(|seen| result(seen, &text("modern")))(seen, number);
        }
        legacy(|seen| result(seen, &text("legacy")))(seen, number)
    })
    .await;
    let upstream = service(&server);
    for (era, expected) in [(false, "legacy"), (true, "modern"), (false, "legacy"), (true, "modern")] {
        is_modern.store(era, Ordering::SeqCst);
        // A legacy server refuses what it does not know with 400, which a call that changes something may have come to.
        let answer = call(&upstream, if era { "write" } else { "read" }).await;
        assert_eq!(answer.map(|answer| said(&answer)).unwrap(), expected);
    }
}

#[tokio::test]
async fn requests_of_the_server_are_refused_without_a_wait() {
    let server = Server::start(legacy(|seen| {
        events(&[
            r#"{"jsonrpc":"2.0","id":"q-1","method":"sampling/createMessage","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
            &super::fixture::answer(seen, &text("done")),
        ])
    }))
    .await;
    assert_eq!(said(&call(&service(&server), "write").await.unwrap()), "done");
    let refused: Vec<_> = server.seen().into_iter().filter(|seen| method(seen) == "response").collect();
    assert_eq!(refused.len(), 2);
    for (seen, id) in refused.iter().zip([json!("q-1"), json!(7)]) {
        assert_eq!((&message(seen)["id"], &message(seen)["error"]["code"]), (&id, &json!(-32601)));
        assert_eq!(seen.header("mcp-session-id"), Some("s4"));
    }
}

#[tokio::test]
async fn a_version_that_is_not_known_is_not_spoken() {
    for version in [json!("2031-01-01"), json!(7), json!(null), json!("2026-07-28")] {
        let server = Server::start(move |seen: &Seen, _| match &*method(seen) {
            "initialize" => result(seen, &json!({"protocolVersion": version}).to_string()),
            _ => error(404, -32601),
        })
        .await;
        let failed = call(&service(&server), "write").await.unwrap_err();
        assert!(matches!(&failed, UpstreamError::NotReady(_)) && !failed.sent(), "{failed:?}");
        assert!(failed.to_string().contains("protocol version"), "{failed}");
    }
}

#[tokio::test]
async fn who_is_turned_away_is_not_asked_in_another_era() {
    for status in [401, 403, 429] {
        let server = Server::start(move |_: &Seen, _| StatusCode::from_u16(status).unwrap()).await;
        let failed = call(&service(&server), "read").await.unwrap_err();
        let UpstreamError::NotReady(inner) = &failed else { panic!("{failed:?}") };
        assert!(matches!(**inner, UpstreamError::Status { status: got, .. } if got == status), "{failed:?}");
        assert_eq!(methods(&server), ["server/discover"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_on_the_server_whichever_thread_drops_it() {
    let server = Server::start(legacy(|seen| result(seen, &text("x")))).await;
    let upstream = service(&server);
    call(&upstream, "read").await.unwrap();
    std::thread::spawn(move || drop(upstream)).join().unwrap();
    for _ in 0..2_000 {
        if count(&server, "DELETE") == 2 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{:?}", methods(&server));
}
