use proptest::prelude::*;

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
    assert!(matches!(parse("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"), Ok(Incoming::Response { .. })));
    assert!(matches!(parse("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":null}"), Ok(Incoming::Response { .. })));
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

/// Members of messages and parameters, valid and not.
fn members() -> impl Strategy<Value = String> {
    let params = prop::collection::vec(
        prop_oneof![
            Just(r#""name":"t""#),
            Just(r#""name":1"#),
            Just(r#" "arguments" : {"a":[{"b":{}}]} "#),
            Just(r#""arguments":null"#),
            Just(r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","x":[[1]]}"#),
            Just(r#""_meta":[1,2]"#),
            Just(r#""_meta":7"#),
            Just(r#""n\u0061me":"u""#),
            Just(r#""other":1e999"#),
            Just(r#""other":{"#),
        ],
        0..4,
    );
    let params = params.prop_map(|members| format!("{{{}}}", members.join(",")));
    let params = prop_oneof![4 => params, 1 => Just("null".to_owned()), 1 => Just("[\"t\",{}]".to_owned()), 1 => Just("1".to_owned())];
    prop_oneof![
        3 => Just(r#""jsonrpc":"2.0""#.to_owned()),
        3 => Just(r#""id":1"#.to_owned()),
        3 => Just(r#""method":"tools/call""#.to_owned()),
        1 => Just(r#""method":null"#.to_owned()),
        1 => Just(r#""result":{}"#.to_owned()),
        1 => Just(r#""unknown":[{}]"#.to_owned()),
        5 => params.prop_map(|params| format!("\"params\":{params}")),
    ]
}

proptest! {
    #[test]
    fn one_pass_reads_what_two_passes_read(members in prop::collection::vec(members(), 0..6), cut in 0..400_usize) {
        let whole = format!("{{{}}}", members.join(","));
        let list = format!("[{}]", members.join(",").replace("\":", "\",").replace('{', "["));
        for text in [&whole, &whole[..cut.min(whole.len())], &list] {
            prop_assert_eq!(format!("{:?}", parse(text)), format!("{:?}", parse_twice(text)), "{}", text);
        }
    }
}
