use serde_json::{Value, json};

use super::*;

const LEGACY: Server = Server::Legacy { version: "2025-06-18", has_sessions: true };

fn parsed(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn requests_have_what_their_era_asks_for() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tamis", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (params, expected) in [
        (call("a\"b", r#"{"n":1.0}"#), json!({"name": "a\"b", "arguments": {"n": 1.0}})),
        (list(None), json!({})),
        (list(Some("\u{1}\"")), json!({"cursor": "\u{1}\""})),
        (
            initialize(NEWEST_LEGACY, Capabilities::default()),
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": meta["io.modelcontextprotocol/clientInfo"]}),
        ),
    ] {
        let message = |params: &Value| json!({"jsonrpc": "2.0", "id": 7, "method": "m", "params": params});
        assert_eq!(parsed(&request(7, "m", &params, LEGACY)), message(&expected));
        let mut with_meta = expected.clone();
        with_meta["_meta"] = meta.clone();
        assert_eq!(parsed(&request(7, "m", &params, Server::Modern)), message(&with_meta));
    }
    let digits = String::from_utf8(request(7, "m", &call("t", r#"{"n":1.50}"#), LEGACY).to_vec()).unwrap();
    assert!(digits.contains("1.50"), "{digits}");
}

#[test]
fn other_messages_are_json_rpc() {
    assert_eq!(parsed(&INITIALIZED), json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert_eq!(parsed(&cancelled(7))["params"], json!({"requestId": 7}));
    let refused = parsed(&refusal(br#""a""#));
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("a"), &json!(-32601)));
}

#[test]
fn headers_repeat_the_body_in_the_modern_era() {
    let session = HeaderValue::from_static("s-1");
    let written = |server, session| {
        let headers = headers(server, session, "tools/call", Some("t\u{e9}"));
        let mut all: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        all.sort();
        all
    };
    assert_eq!(written(None, None), [""; 0]);
    let modern = ["mcp-method: tools/call", "mcp-name: =?base64?dMOp?=", "mcp-protocol-version: 2026-07-28"];
    assert_eq!(written(Some(Server::Modern), None), modern);
    assert_eq!(written(Some(LEGACY), Some(&session)), ["mcp-protocol-version: 2025-06-18", "mcp-session-id: s-1"]);
}

#[test]
fn values_that_a_header_cannot_hold_are_encoded() {
    for (text, expected) in [
        ("", ""),
        ("a b", "a b"),
        (" a", "=?base64?IGE=?="),
        ("a\t", "=?base64?YQk=?="),
        ("a\nb", "=?base64?YQpi?="),
        ("\u{e9}", "=?base64?w6k=?="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ("=?base64?", "=?base64?"),
    ] {
        assert_eq!(value(text).unwrap(), expected, "{text:?}");
    }
}

#[test]
fn what_a_caller_wants_is_asked_for_in_the_metadata() {
    let asked = |progress, level| ForCaller { progress, level, input: None };
    let sent =
        |asked, params: &str, server| parsed(&request_for(asked, 7, "m", params, server))["params"]["_meta"].clone();
    let level = "io.modelcontextprotocol/logLevel";
    for params in ["", r#""name":"t""#] {
        assert_eq!(sent(asked(true, Some(Level::Info)), params, LEGACY), json!({"progressToken": 7}));
        assert_eq!(sent(asked(false, Some(Level::Info)), params, LEGACY), Value::Null);
        let modern = sent(asked(true, Some(Level::Info)), params, Server::Modern);
        assert_eq!((&modern["progressToken"], &modern[level]), (&json!(7), &json!("info")));
        assert_eq!(modern["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        let modern = sent(asked(false, None), params, Server::Modern);
        assert_eq!((modern.get("progressToken"), modern.get(level)), (None, None));
    }
}

#[test]
fn answers_of_the_caller_go_to_modern_servers() {
    let text = Bytes::from_static(
        br#"{"inputResponses":{"a":{"n":1.10}},"requestState":"s","_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{},"x":1}}}"#,
    );
    let input = CallerInput::read(&serde_json::from_slice(&text).unwrap(), &text).unwrap().unwrap();
    let asked = ForCaller { input: Some(&input), ..ForCaller::default() };
    let modern = request_for(asked, 7, "m", &call("t", "{}"), Server::Modern);
    assert!(
        String::from_utf8_lossy(&modern).contains(r#""inputResponses":{"a":{"n":1.10}},"requestState":"s","_meta""#)
    );
    let modern = parsed(&modern);
    assert_eq!(modern["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"], json!({"roots": {}}));
    assert_eq!(
        parsed(&request_for(asked, 7, "m", &call("t", "{}"), LEGACY))["params"],
        json!({"name": "t", "arguments": {}})
    );
}
