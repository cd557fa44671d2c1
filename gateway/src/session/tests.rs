use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use serde_json::json;
use tamis_config::{Access, ExpositionDocument, FORMAT_VERSION, Reason, ServiceDocument};

use super::*;
use crate::gateway::Gateway;
use crate::upstream::LocalCredentials;
use crate::{Change, Options};

const MODERN: &str = "2026-07-28";
const BATCH_LIMIT: usize = 3;
/// The members of `params` that every modern request has.
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// An exposition with the tool `read`.
fn exposition() -> Target {
    let service: ServiceDocument = serde_json::from_str(
        &json!({
            "formatVersion": FORMAT_VERSION, "name": "s", "version": "1",
            "source": {"http": {"baseUrl": "https://a.example"}},
            "tools": {"read": {"inputSchema": {"type": "object"}, "call": {"http": {"method": "GET", "path": "/"}}}},
        })
        .to_string(),
    )
    .unwrap();
    let document: ExpositionDocument = serde_json::from_value(json!({
        "formatVersion": FORMAT_VERSION, "id": {"namespace": "team", "name": "a"}, "service": service.digest(),
        "enforcement": "Advisory", "tools": {"read": {}}, "access": Access::Anonymous,
    }))
    .unwrap();
    let gateway = Gateway::new(Options::new(Arc::new(LocalCredentials::new(None)))).unwrap();
    assert_eq!(gateway.update(&[Change::Serve(Arc::new(document), Arc::new(service))]).failed, []);
    Target::Exposition(Arc::clone(gateway.registry.find("team/a").unwrap().state().serving().unwrap()))
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair =
        |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    pairs.iter().map(pair).collect()
}

fn reader<'a>(target: Result<&'a Target, Unserved<'a>>, transport: Transport<'a>) -> Reader<'a> {
    const CALLER: Caller = Caller::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));
    Reader { target, transport, caller: &CALLER, is_traced: false, batch: BATCH_LIMIT }
}

fn shown(action: &Action) -> String {
    let era = |era: &Era| if *era == Era::Modern { "modern" } else { "legacy" };
    let id = |id: &Bytes| String::from_utf8(id.to_vec()).unwrap();
    match action {
        Action::Nothing => "nothing".to_owned(),
        Action::Cancel(id) => format!("cancel {id}"),
        Action::Respond(answer) => format!("respond to {} with {} {}", answer.id, answer.member, id(&answer.value)),
        Action::Refuse(Refusal { id: to, error, era: of }) => {
            let to = to.as_ref().map_or_else(|| "none".to_owned(), id);
            format!("{} error {} {} to {to}", era(of), error.code, error.status)
        }
        Action::Perform(Request { id: to, era: of, target: _, handshake, task }) => {
            let task = match task {
                Task::Answer(_) | Task::SetLevel(..) => "answer",
                Task::Call(_) => "call",
                Task::Listen(_) => "listen",
                Task::Subscribe(_) => "subscribe",
            };
            let negotiated =
                handshake.map(|handshake| format!(", negotiates {}", handshake.version)).unwrap_or_default();
            format!("{} {task} to {}{negotiated}", era(of), id(to))
        }
    }
}

fn shown_input(input: &Input) -> String {
    match input {
        Input::Message(action) => shown(action),
        Input::Batch(messages) => format!("batch of {}", messages.len()),
    }
}

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#)
}

fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{params}}}}}"#)
}

#[test]
fn each_transport_says_what_to_do_for_each_message() {
    let exposition = exposition();
    let with_meta = |params: &str| if params.is_empty() { META.to_owned() } else { format!("{params},{META}") };
    let listen = r#""notifications":{"toolsListChanged":true}"#;
    let unknown = META.replace(MODERN, "2031-01-01");
    let (call, cancel) = (r#""name":"read""#, r#""requestId":7"#);
    // The message; what to do over HTTP without headers, over HTTP with modern headers, and over standard input.
    let table: [(String, &str, &str, &str); 19] = [
        (request("ping", ""), "legacy answer to 1", "modern error -32602 400 to 1", "legacy answer to 1"),
        (
            request("ping", META),
            "modern error -32020 400 to 1",
            "modern error -32601 404 to 1",
            "modern error -32601 404 to 1",
        ),
        (request("tools/list", META), "modern error -32020 400 to 1", "modern answer to 1", "modern answer to 1"),
        (request("tools/call", call), "legacy call to 1", "modern error -32602 400 to 1", "legacy call to 1"),
        (
            request("tools/call", &with_meta(call)),
            "modern error -32020 400 to 1",
            "modern call to 1",
            "modern call to 1",
        ),
        (
            request("tools/call", r#""name":"none""#),
            "legacy error -32602 200 to 1",
            "modern error -32602 400 to 1",
            "legacy error -32602 200 to 1",
        ),
        (
            request("initialize", r#""protocolVersion":"2025-06-18""#),
            "legacy answer to 1, negotiates 2025-06-18",
            "modern error -32602 400 to 1",
            "legacy answer to 1, negotiates 2025-06-18",
        ),
        (
            request("initialize", r#""protocolVersion":"1999-01-01""#),
            "legacy answer to 1, negotiates 2025-11-25",
            "modern error -32602 400 to 1",
            "legacy answer to 1, negotiates 2025-11-25",
        ),
        (
            request("initialize", ""),
            "legacy error -32602 200 to 1",
            "modern error -32602 400 to 1",
            "legacy error -32602 200 to 1",
        ),
        (
            request("subscriptions/listen", &with_meta(listen)),
            "modern error -32020 400 to 1",
            "modern listen to 1",
            "modern listen to 1",
        ),
        (
            request("subscriptions/listen", listen),
            "legacy error -32601 200 to 1",
            "modern error -32602 400 to 1",
            "legacy error -32601 200 to 1",
        ),
        // Over HTTP, a modern client cancels by closing the response.
        (notification("notifications/cancelled", cancel), "cancel 7", "nothing", "cancel 7"),
        (
            notification("notifications/cancelled", &with_meta(cancel)),
            "legacy error -32020 400 to none",
            "nothing",
            "cancel 7",
        ),
        (notification("notifications/initialized", ""), "nothing", "nothing", "nothing"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(), "nothing", "modern error -32600 400 to none", "nothing"),
        (
            "{".to_owned(),
            "legacy error -32700 400 to none",
            "modern error -32700 400 to none",
            "legacy error -32700 400 to none",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#.to_owned(),
            "legacy error -32602 200 to 1",
            "modern error -32602 200 to 1",
            "legacy error -32602 200 to 1",
        ),
        (
            request("tools/list", &unknown),
            "modern error -32020 400 to 1",
            "modern error -32020 400 to 1",
            "modern error -32022 400 to 1",
        ),
        (
            request("server/discover", ""),
            "modern error -32602 400 to 1",
            "modern error -32602 400 to 1",
            "modern error -32602 400 to 1",
        ),
    ];
    for (message, plain, modern, stdio) in &table {
        let method = serde_json::from_str::<serde_json::Value>(message).ok();
        let method = method.as_ref().and_then(|message| message["method"].as_str()).unwrap_or("none");
        let mut modern_headers = headers(&[("mcp-protocol-version", MODERN), ("mcp-method", method)]);
        if method == "tools/call" {
            modern_headers.insert("mcp-name", HeaderValue::from_static("read"));
        }
        let none = HeaderMap::new();
        for (transport, expected) in [
            (Transport::Http(&none), plain),
            (Transport::Http(&modern_headers), modern),
            (Transport::Stdio(None), stdio),
            (Transport::Stdio(Some(BATCHES)), stdio),
            (Transport::Stdio(Some("2025-11-25")), stdio),
        ] {
            let input = read(reader(Ok(&exposition), transport), &Bytes::from(message.clone()));
            assert_eq!(shown_input(&input), *expected, "{transport:?}: {message}");
        }
    }
    for transport in [Transport::Http(&HeaderMap::new()), Transport::Stdio(None)] {
        let input = read(reader(Ok(&exposition), transport), &Bytes::from_static(b"\xff"));
        assert_eq!(shown_input(&input), "legacy error -32700 400 to none");
    }
}

#[test]
fn the_version_header_decides_over_http() {
    let exposition = exposition();
    for (version, expected) in [
        ("2025-06-18", "legacy answer to 1"),
        ("2025-11-25", "legacy answer to 1"),
        ("2023-01-01", "legacy error -32022 400 to 1"),
        ("soon", "legacy error -32022 400 to 1"),
        ("2031-01-01", "modern error -32602 400 to 1"),
    ] {
        let headers = headers(&[("mcp-protocol-version", version)]);
        let message = Bytes::from(request("ping", ""));
        let input = read(reader(Ok(&exposition), Transport::Http(&headers)), &message);
        assert_eq!(shown_input(&input), expected, "{version}");
    }
    let twice = headers(&[("mcp-protocol-version", "2025-06-18"), ("mcp-protocol-version", "2025-06-18")]);
    let input = read(reader(Ok(&exposition), Transport::Http(&twice)), &Bytes::from(request("ping", "")));
    assert_eq!(shown_input(&input), "legacy error -32020 400 to none");
}

#[test]
fn batches_belong_to_one_version_whatever_the_transport() {
    let exposition = exposition();
    let version = |version| headers(&[("mcp-protocol-version", version)]);
    let none = HeaderMap::new();
    let (with, without, modern, unknown) = (version(BATCHES), version("2025-06-18"), version(MODERN), version("soon"));
    let repeated = headers(&[("mcp-method", "ping")]);
    let ping = request("ping", "");
    let (invalid, broken) = ("legacy error -32600 400 to none", "legacy error -32700 400 to none");
    for (transport, batch, expected) in [
        // Over HTTP, a request without a version is one of the version that has batches.
        (Transport::Http(&none), format!("[{ping},{ping}]"), "batch of 2"),
        (Transport::Http(&with), format!("[{ping}]"), "batch of 1"),
        (Transport::Http(&without), format!("[{ping}]"), invalid),
        (Transport::Http(&modern), format!("[{ping}]"), invalid),
        (Transport::Http(&unknown), format!("[{ping}]"), "legacy error -32022 400 to none"),
        (Transport::Http(&repeated), format!("[{ping}]"), "legacy error -32020 400 to none"),
        (Transport::Stdio(None), format!("[{ping}]"), invalid),
        (Transport::Stdio(Some("2025-06-18")), format!("[{ping}]"), invalid),
        (Transport::Stdio(Some("2025-06-18")), "[1,".to_owned(), invalid),
        (Transport::Stdio(Some(BATCHES)), format!("[{ping},7,{ping}]"), "batch of 3"),
        (Transport::Stdio(Some(BATCHES)), format!("[{ping},{ping},{ping},{ping}]"), invalid),
        (Transport::Http(&with), format!("[{ping},{ping},{ping},{ping}]"), invalid),
        (Transport::Stdio(Some(BATCHES)), "[]".to_owned(), invalid),
        (Transport::Http(&with), "[]".to_owned(), invalid),
        (Transport::Stdio(Some(BATCHES)), "[1,".to_owned(), broken),
        (Transport::Http(&with), "[1,".to_owned(), broken),
    ] {
        let input = read(reader(Ok(&exposition), transport), &Bytes::from(batch.clone()));
        assert_eq!(shown_input(&input), expected, "{transport:?}: {batch}");
    }
}

#[test]
fn messages_of_a_batch_mean_the_same_over_each_transport() {
    let exposition = exposition();
    let none = HeaderMap::new();
    for (message, expected) in [
        (request("ping", ""), "legacy answer to 1"),
        (request("tools/call", r#""name":"read""#), "legacy call to 1"),
        // The version of the batch counts.
        (request("tools/call", &format!(r#""name":"read",{META}"#)), "legacy call to 1"),
        (request("server/discover", META), "legacy error -32601 200 to 1"),
        (request("subscriptions/listen", META), "legacy error -32601 200 to 1"),
        (request("initialize", r#""protocolVersion":"2025-03-26""#), "legacy error -32600 400 to 1"),
        (notification("notifications/cancelled", r#""requestId":"a""#), r#"cancel "a""#),
        (notification("notifications/initialized", ""), "nothing"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(), "nothing"),
        ("7".to_owned(), "legacy error -32600 400 to none"),
    ] {
        for transport in [Transport::Http(&none), Transport::Stdio(Some(BATCHES))] {
            let action = read_of_batch(reader(Ok(&exposition), transport), &Bytes::from(message.clone()));
            assert_eq!(shown(&action), expected, "{transport:?}: {message}");
        }
    }
    // A call does not get rid of the gateways that it has passed by being part of a batch.
    let passed = headers(&[("tamis-hops", "4")]);
    let call = Bytes::from(request("tools/call", r#""name":"read""#));
    let action = read_of_batch(reader(Ok(&exposition), Transport::Http(&passed)), &call);
    assert_eq!(shown(&action), "legacy error -32000 508 to 1");
}

#[test]
fn an_exposition_that_is_not_served_answers_requests_with_the_reason() {
    let stopped = Stopped { reason: Reason::ServiceNotFound, message: "service x".to_owned() };
    for (unserved, message, status) in [
        (Unserved::Stopped(&stopped), "not served: ServiceNotFound: service x", 503),
        (Unserved::Deleted, "no exposition at this address", 404),
    ] {
        let read = |message: String| read(reader(Err(unserved), Transport::Stdio(None)), &Bytes::from(message));
        let Input::Message(Action::Refuse(refusal)) = read(request("tools/list", "")) else { panic!("an error") };
        assert_eq!(refusal.error.message, message);
        assert_eq!(shown_input(&read(request("tools/list", META))), format!("modern error -32000 {status} to 1"));
        assert_eq!(shown_input(&read(notification("notifications/cancelled", r#""requestId":7"#))), "cancel 7");
    }
}
