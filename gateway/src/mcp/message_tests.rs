use super::*;

fn error(text: &str) -> (Option<&str>, i32, u16) {
    let refused = parse(text).map(|_| ()).unwrap_err();
    (refused.id.map(RawValue::get), refused.error.code, refused.error.status)
}

#[test]
fn malformed_messages_are_refused_with_their_code() {
    let long_id = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{}\",\"method\":\"x\"}}", "x".repeat(1 << 10));
    let cases = [
        ("", None, -32700),
        ("{", None, -32700),
        ("{\"jsonrpc\":\"2.0\"", None, -32700),
        ("nonsense", None, -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"} trailing", None, -32700),
        ("1", None, -32600),
        ("[\"2.0\",1,\"ping\"]", None, -32600),
        ("{}", None, -32600),
        ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"x\"}", Some("1"), -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"x\"}", None, -32600),
        (long_id.as_str(), None, -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}", None, -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", None, -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"x\"}", None, -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1}", Some("1"), -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"x\",\"params\":[1]}", Some("\"a\""), -32602),
        ("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"x\",\"params\":{\"_meta\":1}}", Some("\"a\""), -32602),
    ];
    for (text, id, code) in cases {
        let (found, got, _) = error(text);
        assert_eq!((found, got), (id, code), "{text}");
    }
}

#[test]
fn requests_notifications_and_responses_are_told_apart() {
    let request = "{\"jsonrpc\":\"2.0\",\"id\":\"x\\u0041\",\"method\":\"tools\\/call\",\"params\":{\"name\":\"t\",\
                   \"arguments\":{\"n\":12345678901234567890.10}}}";
    let Ok(Incoming::Request { id, method, params }) = parse(request) else { panic!("a request") };
    assert_eq!((id.get(), method.as_ref()), ("\"x\\u0041\"", "tools/call"));
    assert_eq!(params.arguments.unwrap().get(), "{\"n\":12345678901234567890.10}");
    let notification = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
    assert!(matches!(parse(notification), Ok(Incoming::Notification { .. })));
    assert!(matches!(parse("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"), Ok(Incoming::Response)));
    assert!(matches!(parse("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":null}"), Ok(Incoming::Response)));
}

#[test]
fn the_version_in_meta_is_read() {
    let text = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{\
                \"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"progressToken\":1}}}";
    let Ok(Incoming::Request { params, .. }) = parse(text) else { panic!("a request") };
    assert_eq!(params.meta_version().as_deref(), Some("2026-07-28"));
}

#[test]
fn a_batch_is_a_list_of_raw_messages() {
    assert!(batch("{}", 2).is_none());
    assert_eq!(batch(" [1, {}]", 2).unwrap().unwrap().len(), 2);
    for broken in ["[1,", "[1] x", "[1,2,3,4,"] {
        assert_eq!(batch(broken, 2).unwrap().unwrap_err().code, -32700, "{broken}");
    }
    let long = format!("[{}1]", "1,".repeat(10_000));
    assert_eq!(batch(&long, 2).unwrap().unwrap().len(), 3, "enough to know that it is too long");
}

#[test]
fn an_id_is_short_since_every_answer_repeats_it() {
    let with = |len: usize| format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(len - 2));
    assert!(matches!(parse(&with(ID_BYTES)), Ok(Incoming::Request { .. })));
    let long = with(ID_BYTES + 1);
    let Err(Unreadable { id, error }) = parse(&long) else { panic!("too long") };
    assert_eq!((id.map(RawValue::get), error.status), (None, 400));
}
