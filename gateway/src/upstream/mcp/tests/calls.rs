use http::StatusCode;
use serde_json::json;

use super::fixture::{
    call, call_within, count, document, error, events, message, method, methods, modern, result, service, stream, text,
    upstream,
};
use crate::upstream::http::tests::support::{Server, TOKEN, arguments, bounds, context, given, room, within};
use crate::upstream::{Output, UpstreamError};
use std::time::Duration;

fn json_output(text: &str) -> Output {
    Output::Json(bytes::Bytes::copy_from_slice(text.as_bytes()))
}

#[tokio::test]
async fn a_modern_call_is_compared_first_and_then_sent_alone() {
    let server = Server::start(modern(|seen| result(seen, r#"{"structuredContent": {"n": 1.10}}"#))).await;
    let upstream = service(&server);
    let first = call(&upstream, "read").await.unwrap();
    assert_eq!((first.output, first.requests, first.status), (json_output(r#"{"n": 1.10}"#), 3, 200));
    assert_eq!(call(&upstream, "write").await.unwrap().requests, 1);
    assert_eq!(methods(&server), ["server/discover", "tools/list", "tools/call", "tools/call"]);
    for seen in server.seen() {
        assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(seen.header("mcp-method"), Some(&*method(&seen)));
        assert_eq!(seen.header("mcp-session-id"), None);
        assert_eq!(seen.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(seen.header("content-type"), Some("application/json"));
        assert_eq!(seen.header("tamis-hops"), Some("1"));
        let meta = &message(&seen)["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    }
    let sent = &server.seen()[2];
    assert_eq!(sent.header("mcp-name"), Some("read"));
    let body = String::from_utf8_lossy(&sent.body);
    assert!(body.contains(r#""name":"read","arguments":{"n":1.50},"#), "{body}");
    let ids: std::collections::BTreeSet<_> = server.seen().iter().map(|seen| message(seen)["id"].to_string()).collect();
    assert_eq!(ids.len(), 4, "each request has an id of its own");
}

#[tokio::test]
async fn an_answer_may_come_as_a_stream_of_events() {
    let server = Server::start(modern(|seen| {
        let id = &message(seen)["id"];
        events(&[
            "",
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#,
            &format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{"structuredContent":"other"}}}}"#),
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"structuredContent":[1.0]}}}}"#),
            &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"structuredContent":"again"}}}}"#),
        ])
    }))
    .await;
    let upstream = service(&server);
    for _ in 0..3 {
        assert_eq!(call(&upstream, "read").await.unwrap().output, json_output("[1.0]"));
    }
}

#[tokio::test]
async fn what_a_tool_reports_is_an_error_with_its_text() {
    let server = Server::start(modern(|seen| match message(seen)["params"]["name"].as_str() {
        Some("read") => result(seen, r#"{"content":[{"type":"text","text":"no such issue"}],"isError":true}"#),
        _ => error(200, -32603),
    }))
    .await;
    let upstream = service(&server);
    let failed = call(&upstream, "read").await.unwrap_err();
    assert!(matches!(&failed, UpstreamError::Tool { body } if body == "no such issue"), "{failed:?}");
    assert!(failed.sent() && !format!("{failed:?}").contains("issue"));
    // Its id is null, so it answers no request.
    let refused = call(&upstream, "write").await.unwrap_err();
    assert!(matches!(&refused, UpstreamError::Malformed(_)), "{refused:?}");
}

#[tokio::test]
async fn a_protocol_error_has_its_code_and_message() {
    let server = Server::start(modern(|seen| {
        let id = &message(seen)["id"];
        events(&[&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"bad"}}}}"#)])
    }))
    .await;
    let failed = call(&service(&server), "read").await.unwrap_err();
    assert!(matches!(&failed, UpstreamError::Rpc { code: -32602, message } if message == "bad"), "{failed:?}");
}

#[tokio::test]
async fn an_error_status_is_the_error_of_the_call() {
    for status in [401, 403, 429, 500, 503] {
        let server = Server::start(modern(move |_| error(status, -32000))).await;
        let failed = call(&service(&server), "read").await.unwrap_err();
        assert!(matches!(failed, UpstreamError::Status { status: got, .. } if got == status), "{failed:?}");
        assert_eq!(count(&server, "tools/call"), 1, "{status}");
    }
}

#[tokio::test]
async fn credentials_go_where_the_document_says_and_do_not_come_back() {
    for (auth, header) in [
        (json!({"type": "bearer"}), Some("authorization")),
        (json!({"type": "header", "name": "X-Key"}), Some("x-key")),
        (json!({"type": "query", "name": "key"}), None),
    ] {
        let server = Server::start(modern(|seen| match message(seen)["params"]["name"].as_str() {
            Some("read") => result(seen, &text(TOKEN)),
            _ => events(&[&super::fixture::answer(seen, &text("fine"))]),
        }))
        .await;
        let mut document = document(&server.url());
        document["source"]["mcp"]["auth"] = auth.clone();
        document["source"]["mcp"]["auth"]["credential"] = json!({"name": "api", "key": "token"});
        let upstream = upstream(&document);
        call(&upstream, "write").await.unwrap();
        let failed = call(&upstream, "read").await.unwrap_err();
        assert!(matches!(failed, UpstreamError::CredentialReturned), "{auth}: {failed:?}");
        for seen in server.seen() {
            match header {
                Some(header) => assert!(seen.header(header).unwrap().ends_with(TOKEN), "{auth}"),
                None => assert_eq!(seen.target(), "/?key=s3cr3t-t0ken%2F%2B%26%3D"),
            }
        }
    }
}

#[tokio::test]
async fn arguments_are_repeated_in_headers_where_the_schema_says() {
    let server = Server::start(move |seen: &_, number| match &*method(seen) {
        "tools/list" => {
            let schema = json!({"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"}, "n": {"type": "integer", "x-mcp-header": "N"},
                "deep": {"type": "object", "properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}},
                "absent": {"type": "string", "x-mcp-header": "Absent"},
            }});
            result(seen, &json!({"tools": [{"name": "read", "inputSchema": schema}]}).to_string())
        }
        _ => modern(|seen| result(seen, &text("x")))(seen, number),
    })
    .await;
    let mut document = document(&server.url());
    document["tools"]["read"]["inputSchema"] = json!({"type": "object", "properties": {
        "n": {"x-mcp-header": "N", "type": "integer"}, "region": {"type": "string", "x-mcp-header": "Region"},
        "deep": {"type": "object", "properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}},
        "absent": {"type": "string", "x-mcp-header": "Absent"},
    }});
    let given_arguments = arguments(r#"{"region": "\u00e9u", "n": 7, "deep": {"on": true}}"#);
    upstream(&document).call("read", &given_arguments, context(bounds(), given(), &mut room())).await.unwrap();
    let seen = server.seen().pop().unwrap();
    let headers = ["mcp-param-region", "mcp-param-n", "mcp-param-on", "mcp-param-absent"].map(|name| seen.header(name));
    assert_eq!(headers, [Some("=?base64?w6l1?="), Some("7"), Some("true"), None]);
}

#[tokio::test]
async fn an_answer_has_at_most_the_bytes_of_the_exposition() {
    for is_stream in [false, true] {
        let server = Server::start(modern(move |seen| {
            let body = super::fixture::answer(seen, &text(&"x".repeat(40_000)));
            if is_stream { stream(format!("data: {body}\n\n")) } else { super::fixture::json_body(body) }
        }))
        .await;
        let upstream = service(&server);
        for (limit, fits) in [(50_000, true), (40_000, false)] {
            let mut memory = room();
            let called = call_within(&upstream, "read", within(Duration::from_secs(20), limit), &mut memory).await;
            match called {
                Ok(answer) => assert!(fits && answer.output.bytes().len() == 40_000),
                Err(failed) => assert!(!fits && matches!(failed, UpstreamError::TooLarge { .. }), "{failed:?}"),
            }
        }
    }
}

#[tokio::test]
async fn images_come_beside_the_text() {
    let image = r#"{"type":"image","data":"aGk=","mimeType":"image/png"}"#;
    let server = Server::start(modern(move |seen| {
        result(seen, &format!(r#"{{"content":[{image},{{"type":"text","text":"{{\"a\":1}}"}}]}}"#))
    }))
    .await;
    let answer = call(&service(&server), "read").await.unwrap();
    assert_eq!(
        (answer.output, answer.media),
        (json_output(r#"{"a":1}"#), vec![bytes::Bytes::from_static(image.as_bytes())])
    );
    assert_eq!(StatusCode::OK.as_u16(), answer.status);
}
