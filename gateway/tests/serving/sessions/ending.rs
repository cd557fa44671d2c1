//! How sessions begin where the server cannot be reached, and how they end.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;
use tamis_config::group_keys::GroupKeys;
use tokio::net::TcpListener;

use super::{ALL, Asker, Session, elicits, group, key, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_the_server_ends_ends_at_every_gateway_and_begins_again() {
    for status in [404, 400] {
        let (server, url) = Asker::start().await;
        server.unknown.store(status, Ordering::SeqCst);
        let group = group(&url).await;
        let session = group.begin("advisory", ALL).await;
        assert_eq!(session.plain(0).await.0, 200);
        server.forget();
        for gateway in [0, 1, 0] {
            let (status, answer) = session.plain(gateway).await;
            assert_eq!(
                (status, &answer["error"]["code"], &answer["id"]),
                (404, &json!(-32001), &json!("c-1")),
                "{answer}"
            );
        }
        // Nothing was executed again, and the client starts over.
        let calls = server.seen(Some("tools/call")).len();
        assert_eq!(calls, 3, "a gateway that knows it does not ask again");
        let session = group.begin("advisory", ALL).await;
        assert_eq!((session.plain(1).await.0, session.plain(0).await.0), (200, 200));
        // Callers without a session of their own notice nothing: theirs is reopened.
        assert_eq!(group.gateways[0].call("advisory", "ask", json!({})).await["isError"], false);
        server.forget();
        if status == 404 {
            assert_eq!(group.gateways[0].call("advisory", "ask", json!({})).await["isError"], false);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_of_a_call_is_not_the_end_of_its_session() {
    let (server, url) = Asker::start().await;
    let group = group(&url).await;
    let session = group.begin("advisory", ALL).await;
    let mut call = session.call(0, json!([elicits()])).await;
    let question = call.next().await["id"].clone();
    // The session ends while the call waits for its caller.
    server.forget();
    let (status, body) = session.answer(1, &question, r#""result":{"action":"accept"}"#).await;
    assert_eq!(status, 404, "{body}");
    assert_eq!(session.plain(1).await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delete_ends_the_session_of_the_server() {
    let (server, url) = Asker::start().await;
    let group = group(&url).await;
    let (session, other) = (group.begin("advisory", ALL).await, group.begin("advisory", ALL).await);
    assert_eq!(session.plain(0).await.0, 200);
    let of_server = server.seen(Some("tools/call"))[0].0.clone();
    assert_eq!(session.delete(1).await, 204);
    server.until("the session ends", |life| life.ended == [of_server.clone()]).await;
    assert_eq!((session.plain(1).await.0, session.plain(0).await.0), (404, 404));
    assert_eq!((session.delete(1).await, other.plain(0).await.0), (404, 200));
    // What the gateway answers by itself, and the stream of notifications, end too.
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    assert_eq!(session.post(1, list.to_owned()).await.status(), 404);
    assert_eq!(other.post(1, list.to_owned()).await.status(), 200);
    for (session, expected) in [(&session, 404), (&other, 200)] {
        let running = &group.gateways[1];
        let get = running.http.get(running.url("advisory")).header("accept", "text/event-stream");
        assert_eq!(get.header(super::SESSION, &session.id).send().await.unwrap().status(), expected);
    }
    // A client that begins another session while it still names the last one.
    let again = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{}}}"#;
    assert_eq!(session.post(1, again.to_owned()).await.status(), 200);
    // A session without one of a server has nothing to end, and a foreign one is not ended.
    let plain = Session { id: other.id[..32].to_owned(), ..other.clone() };
    assert_eq!(plain.delete(0).await, 405);
    let elsewhere = Session { name: "other", ..other.clone() };
    assert_eq!((elsewhere.delete(0).await, other.plain(0).await.0), (404, 200));
    assert_eq!(server.state.lock().unwrap().ended.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_rotated_without_a_restart() {
    let (_server, url) = Asker::start().await;
    let group = group(&url).await;
    let session = group.begin("advisory", ALL).await;
    let keys = GroupKeys::new(key(1), key(2), 0).rotate(key(3), 1);
    group.keyring.set(Some(&keys));
    assert_eq!(session.plain(1).await.0, 200);
    let newer = group.begin("advisory", ALL).await;
    group.keyring.set(None);
    assert_eq!(newer.plain(0).await.0, 503);
    group.keyring.set(Some(&keys.rotate(key(4), 2)));
    assert_eq!((session.plain(0).await.0, newer.plain(0).await.0), (404, 200), "the key of the first is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_server_holds_up_no_handshake_and_asks_when_it_is_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let group = group(&format!("http://{address}/mcp")).await;
    let begun = Instant::now();
    let session = group.begin("advisory", ALL).await;
    assert!(begun.elapsed() < Duration::from_secs(10));
    // A client without capabilities for input gets an id without a sealed part.
    assert_eq!(group.begin("advisory", "{}").await.id.len(), 32);
    let server = Asker::default();
    server.unknown.store(404, Ordering::SeqCst);
    server.serve(TcpListener::bind(address).await.unwrap());
    // The request carries the session, which only the first gateway knows.
    let mut call = session.call(0, json!([elicits()])).await;
    let question = call.next().await["id"].clone();
    assert_eq!(session.answer(1, &question, r#""result":{"action":"accept"}"#).await.0, 202);
    assert!(text(&call.next().await).contains("accept"));
    assert_eq!(session.plain(0).await.0, 200);
    let calls = server.seen(Some("tools/call"));
    assert_eq!(calls[0].0, calls[1].0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_holds_up_one_handshake_for_two_seconds() {
    let (server, url) = Asker::start().await;
    server.hangs.store(true, Ordering::SeqCst);
    let group = group(&url).await;
    let begun = Instant::now();
    group.begin("advisory", ALL).await;
    let first = begun.elapsed();
    assert!(first < Duration::from_secs(10), "{first:?}");
    let begun = Instant::now();
    for _ in 0..20 {
        group.begin("advisory", ALL).await;
    }
    // Two seconds each would be forty.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_opens_a_bounded_number_of_sessions() {
    let (server, url) = Asker::start().await;
    let group = group(&url).await;
    let (mut sealed, begun) = (0, Instant::now());
    for _ in 0..150 {
        let session = group.begin("advisory", "{}").await;
        sealed += usize::from(session.id.len() > 32);
        if session.id.len() == 32 {
            assert_eq!(session.plain(0).await.0, 200);
        }
    }
    // Within a minute. One more session is for all other handshakes, and one of each gateway for lists.
    let opened = server.sessions.load(Ordering::SeqCst);
    let is_slow = begun.elapsed() > Duration::from_secs(60);
    assert!(is_slow || sealed == 120 && opened <= 123, "{sealed} {opened}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_are_those_of_the_session() {
    let (server, url) = Asker::start().await;
    let group = group(&url).await;
    let session = group.begin("advisory", ALL).await;
    assert_eq!(session.plain(0).await.0, 200);
    let of_server = server.seen(Some("tools/call"))[0].0.clone();
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"prompts/list"}"#;
    for gateway in [0, 1] {
        let (status, answer) = crate::support::read(session.post(gateway, list.to_owned()).await).await;
        assert_eq!((status, &answer["result"]["prompts"][0]["name"]), (200, &json!(of_server)), "{answer}");
    }
    server.forget();
    let (status, answer) = crate::support::read(session.post(1, list.to_owned()).await).await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!(-32001)), "{answer}");
    assert_eq!(session.plain(1).await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_asked_any_more_once_the_exposition_is_enforced() {
    let (server, url) = Asker::start().await;
    let group = group(&url).await;
    let session = group.begin("advisory", ALL).await;
    let mut call = session.call(0, json!([elicits()])).await;
    let question = call.next().await["id"].clone();
    let service = crate::mcp_servers::pinned(&url, &serde_json::from_str(super::TOOLS).unwrap());
    let filtered = [("ask", Some(r#"{"root":"","select":{"a":"a"}}"#))];
    let enforced = crate::support::exposition("advisory", &service, tamis_engine::Enforcement::Enforced, &filtered);
    for running in &group.gateways {
        running.gateway.apply(&crate::support::snapshot(&service, [enforced.clone()]));
    }
    let (status, body) = session.answer(1, &question, r#""result":{"action":"accept"}"#).await;
    assert_eq!(status, 400, "{body}");
    let mut again = session.call(1, json!([elicits()])).await;
    assert!(!again.next().await.to_string().contains("elicitation"));
    let answers = server.seen(None);
    assert!(answers.len() == 1 && answers[0].1["error"]["code"] == -32601, "{answers:?}");
}
