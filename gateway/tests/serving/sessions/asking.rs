//! What a server asks during a call.

use serde_json::{Value, json};

use super::{ALL, Asker, elicits, group, text};
use crate::relayed::{Talking, filtered};
use crate::support::{options, read, snapshot, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_asks_and_the_answer_reaches_it_through_any_gateway() {
    let (server, url) = Asker::start().await;
    let group = group(&url).await;
    let session = group.begin("advisory", ALL).await;
    let asks = json!([
        elicits(),
        {"id": "s\"1", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5, "x": "a\u{2028}b"}},
        {"id": -7, "method": "roots/list"},
    ]);
    let mut ids = Vec::new();
    for (caller, answerer) in [(0, 1), (1, 0), (1, 1)] {
        let mut call = session.call(caller, asks.clone()).await;
        for (asked, answer) in asks.as_array().unwrap().iter().zip([
            r#""result":{"action":"accept","content":{"n":1.50,"big":12345678901234567890,"e":"\u00e9"}}"#,
            r#""error":{"code":-1,"message":"User rejected"}"#,
            r#""result":{"roots":[{"uri":"file:///a"}]}"#,
        ]) {
            let question = call.next().await;
            assert_eq!(question["method"], asked["method"], "{question}");
            assert_eq!(question["params"], asked.get("params").cloned().unwrap_or_default(), "{question}");
            assert!(!question.to_string().contains("upstream-session"), "the server's session: {question}");
            let (status, body) = session.answer(answerer, &question["id"], answer).await;
            assert_eq!((status, &*body), (202, ""));
            ids.push(question["id"].clone());
        }
        let last = call.next().await;
        assert_eq!(last["id"], "c-1");
        let got = text(&last);
        // As the caller wrote it, under the ids of the server.
        for part in [
            r#"{"jsonrpc":"2.0","id":0,"result":{"action":"accept","content":{"n":1.50,"big":12345678901234567890,"e":"\u00e9"}}}"#,
            r#"{"jsonrpc":"2.0","id":"s\"1","error":{"code":-1,"message":"User rejected"}}"#,
            r#"{"jsonrpc":"2.0","id":-7,"result":{"roots":[{"uri":"file:///a"}]}}"#,
        ] {
            assert!(got.contains(part), "{part} in {got}");
        }
    }
    // A client never sees an id twice, and the server told apart no gateways.
    let distinct: std::collections::HashSet<_> = ids.iter().map(Value::to_string).collect();
    assert_eq!(distinct.len(), 9);
    let opened = server.sessions.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(opened, 3, "one for the session, and one of each gateway for lists");
    let calls = server.seen(Some("tools/call"));
    assert!(calls.iter().all(|(session, _)| *session == calls[0].0), "{calls:?}");
    let answers = server.seen(None);
    assert!(answers.len() == 9 && answers.iter().all(|(session, _)| *session == calls[0].0), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_has_one_of_the_server_with_what_its_client_declared() {
    let (server, url) = Asker::start().await;
    let group = group(&url).await;
    for (name, capabilities, declared) in [
        ("advisory", "{}", json!({})),
        (
            "advisory",
            r#"{"elicitation":{"form":{},"url":{}},"tasks":{}}"#,
            json!({"elicitation": {"form": {}, "url": {}}}),
        ),
        ("advisory", r#"{"sampling":{"tools":{}},"roots":[]}"#, json!({"sampling": {"tools": {}}})),
        ("enforced", ALL, json!({})),
    ] {
        let before = server.declared().len();
        let session = group.begin(name, capabilities).await;
        assert_eq!(session.plain(0).await.0, 200);
        assert_eq!(session.plain(1).await.0, 200);
        assert_eq!(server.declared()[before..], [declared], "{name} {capabilities}");
        let versions = server.seen(Some("initialize"));
        assert_eq!(versions.last().unwrap().1["params"]["protocolVersion"], "2025-06-18", "the caller's");
    }
    let calls = server.seen(Some("tools/call"));
    let sessions: std::collections::HashSet<_> = calls.iter().map(|(session, _)| session.as_str()).collect();
    assert_eq!((calls.len(), sessions.len()), (8, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_ask_is_told_so_at_once() {
    let (_server, url) = Asker::start().await;
    let group = group(&url).await;
    let url_mode = json!({"method": "elicitation/create", "params": {"mode": "url", "url": "https://a.example"}});
    let large = json!({"method": "elicitation/create", "params": {"message": "x".repeat(65 << 10)}});
    let long = json!({"id": "x".repeat(200), "method": "elicitation/create", "params": {}});
    for (name, capabilities, asked, code, why) in [
        ("advisory", "{}", elicits(), -32601, "has not declared"),
        ("advisory", r#"{"sampling":{}}"#, elicits(), -32601, "the capability elicitation"),
        ("advisory", r#"{"elicitation":{}}"#, url_mode, -32602, "this mode"),
        ("advisory", ALL, json!({"method": "ping"}), -32601, "of this method"),
        ("advisory", ALL, json!({"method": "tasks/list"}), -32601, "of this method"),
        ("advisory", ALL, large, -32602, "too large"),
        ("advisory", ALL, long, -32602, "too large"),
        ("enforced", ALL, elicits(), -32601, "enforces filters"),
    ] {
        let session = group.begin(name, capabilities).await;
        let begun = std::time::Instant::now();
        let answer = session.call(1, json!([asked])).await.next().await;
        assert!(begun.elapsed().as_secs() < 5, "{asked}");
        if name == "enforced" {
            // The answer of the tool is the server's data.
            assert!(!answer.to_string().contains("enforces filters"), "{answer}");
            continue;
        }
        let text: Value = serde_json::from_str(text(&answer)).unwrap();
        assert_eq!(text[0]["error"]["code"], code, "{asked}: {text}");
        assert!(text[0]["error"]["message"].as_str().unwrap().contains(why), "{asked}: {text}");
    }
    // Without a session of its own, and in an era that has no requests during a call.
    let running = &group.gateways[0];
    let arguments = json!({"name": "ask", "arguments": {"asks": [elicits()]}});
    let (_, legacy) = running.legacy("advisory", "tools/call", arguments.clone()).await;
    assert!(text(&legacy).contains("it has no session of its own"), "{legacy}");
    let (_, modern) = running.modern("advisory", "tools/call", arguments).await;
    assert!(text(&modern).contains("it speaks 2026-07-28, which has no requests during a call"), "{modern}");
}

/// Under `Enforced`, what a caller sees does not depend on what a server asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_server_asks_passes_under_enforced() {
    let (server, url) = Asker::start().await;
    let group = group(&url).await;
    let session = group.begin("enforced", ALL).await;
    let mut seen = Vec::new();
    for mark in ["hush-1", "hush-2-which-is-longer"] {
        for method in ["elicitation/create", "sampling/createMessage", "roots/list", "ping", mark] {
            let params = json!({"message": mark, "mode": mark, "_meta": {"progressToken": mark}, mark: mark});
            let arguments = json!({"asks": [{"id": mark, "method": method, "params": params}]});
            let params = json!({"name": "ask", "arguments": arguments, "_meta": {"progressToken": 7}});
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            let response = session.post(0, call.to_string()).await;
            let headers: Vec<_> =
                response.headers().iter().filter(|(name, _)| *name != "date").map(|pair| format!("{pair:?}")).collect();
            seen.push((response.status().as_u16(), headers, response.text().await.unwrap()));
        }
    }
    assert!(seen.iter().all(|each| *each == seen[0]), "{seen:?}");
    assert!(!seen[0].2.contains("hush"), "{seen:?}");
    let answers = server.seen(None);
    assert!(answers.len() == 10 && answers.iter().all(|(_, answer)| answer["error"]["code"] == -32601), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_requests_ends_the_call_and_nothing_else() {
    let (server, url) = Asker::start().await;
    let group = group(&url).await;
    let session = group.begin("advisory", ALL).await;
    let mut asked = elicits();
    asked["waits"] = json!(false);
    let call = |count: usize| {
        let asks: Vec<_> = (0..count)
            .map(|number| {
                let mut asked = asked.clone();
                asked["id"] = json!(format!("f-{number}"));
                asked
            })
            .collect();
        session.call(0, json!(asks))
    };
    // Sixteen pass, and none of them has to be answered.
    let mut passed = call(16).await;
    for _ in 0..16 {
        assert_eq!(passed.next().await["method"], "elicitation/create");
    }
    assert_eq!(text(&passed.next().await), "[]");
    let mut flooded = call(1_000).await;
    let last = loop {
        let message = flooded.next().await;
        if message.get("method").is_none() {
            break message;
        }
    };
    assert_eq!(last["result"]["isError"], true, "{last}");
    assert!(text(&last).contains("16 requests of the server"), "{last}");
    assert_eq!(session.plain(1).await.0, 200);
    assert_eq!(server.seen(None).len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_both_eras_is_spoken_to_in_that_of_the_caller() {
    let (server, url) = Asker::start().await;
    server.is_modern.store(true, std::sync::atomic::Ordering::SeqCst);
    let group = group(&url).await;
    let session = group.begin("advisory", ALL).await;
    let mut call = session.call(0, json!([elicits()])).await;
    let question = call.next().await;
    assert_eq!(session.answer(1, &question["id"], r#""result":{"action":"decline"}"#).await.0, 202);
    assert!(text(&call.next().await).contains("decline"));
    let calls = server.seen(Some("tools/call"));
    assert_eq!(calls[0].0, "upstream-session-0");
    // A caller that cannot be asked needs no session.
    let (id, _) = read(group.gateways[0].post("advisory", "{}").send().await.unwrap()).await;
    assert_eq!(id, 400);
    assert_eq!(group.begin("advisory", "{}").await.id.len(), 32);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_2026_07_28_alone_has_no_sessions() {
    let (_server, url) = Talking::start(|call| {
        let last = crate::relayed::answer(call, r#"{"content":[{"type":"text","text":"done"}]}"#);
        futures_util::stream::iter([last])
    })
    .await;
    let running = start(options()).await;
    let (service, document) = filtered("advisory", &url, tamis_engine::Enforcement::Advisory);
    assert_eq!(running.gateway.apply(&snapshot(&service, [document])).failed, []);
    for _ in 0..2 {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {}});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let response = running.post("advisory", message.to_string()).send().await.unwrap();
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        assert_eq!((response.status().as_u16(), id.len()), (200, 32));
        assert_eq!(running.call("advisory", "read", json!({})).await["isError"], false);
    }
}
