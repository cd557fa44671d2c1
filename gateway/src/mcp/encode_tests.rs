use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn every_control_quote_and_backslash_is_escaped_at_every_offset() {
    for special in (0u8..0x20).chain([b'"', b'\\', 0x7f]) {
        for before in 0..20 {
            for after in 0..10 {
                let text = format!("{}{}{}", "x".repeat(before), char::from(special), "é".repeat(after));
                let mut out = String::new();
                string(&mut out, &text);
                assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
            }
        }
    }
}

#[test]
fn both_eras_get_two_blocks_and_an_object() {
    let pieces = ["{\"result\":", "[1]", ",", "\"_truncated\":{\"shown\":1,\"total\":2}", "}"];
    let result = ToolResult {
        text: "[1]",
        notice: Some("1 of 2 items shown\n\"x\""),
        structured: Some(pieces),
        is_error: false,
        filter: None,
    };
    for (era, result_type) in [(Era::Legacy, None), (Era::Modern, Some("complete"))] {
        let written = tool_result("1", &result, era, "");
        assert!(written.len() <= result.size());
        let answer: Value = serde_json::from_slice(&written).unwrap();
        let answer = &answer["result"];
        let blocks = json!([{"type": "text", "text": "[1]"}, {"type": "text", "text": "1 of 2 items shown\n\"x\""}]);
        assert_eq!(answer["content"], blocks);
        let object = json!({"result": [1], "_truncated": {"shown": 1, "total": 2}});
        assert_eq!(answer["structuredContent"], object);
        assert_eq!(answer.get("resultType").and_then(Value::as_str), result_type);
    }
}

#[test]
fn errors_carry_code_data_and_the_id_as_the_era_wants() {
    let busy = RpcError { data: Some("{\"a\":[1]}".to_owned()), ..RpcError::busy(429, "a \"limit\"", 1) };
    let with_id: Value = serde_json::from_slice(&error(Some(b"\"x\""), &busy, Era::Modern)).unwrap();
    let expected = json!({"code": -32000, "message": "a \"limit\"", "data": {"a": [1]}});
    assert_eq!(with_id, json!({"jsonrpc": "2.0", "id": "x", "error": expected}));
    let legacy: Value = serde_json::from_slice(&error(None, &busy, Era::Legacy)).unwrap();
    assert_eq!(legacy, json!({"jsonrpc": "2.0", "id": null, "error": expected}));
    let modern: Value = serde_json::from_slice(&error(None, &busy, Era::Modern)).unwrap();
    assert_eq!(modern, json!({"jsonrpc": "2.0", "error": expected}));
}

proptest! {
    #[test]
    fn any_text_round_trips_through_the_envelope(
        text in ".{0,200}", control in proptest::collection::vec(any::<char>(), 0..64), failed: bool, modern: bool
    ) {
        let text: String = text.chars().chain(control).collect();
        let era = if modern { Era::Modern } else { Era::Legacy };
        let result = ToolResult { text: &text, notice: None, structured: None, is_error: failed, filter: Some("{\"applied\":true}") };
        let server = "\"io.modelcontextprotocol/serverInfo\":{\"name\":\"t\",\"version\":\"1\"}";
        let body: Value = serde_json::from_slice(&tool_result("7", &result, era, server)).unwrap();
        prop_assert_eq!(&body["result"]["content"], &json!([{"type": "text", "text": text}]));
        prop_assert_eq!(&body["result"]["isError"], &json!(failed));
        prop_assert_eq!(&body["result"]["_meta"]["tamis.dev/filter"], &json!({"applied": true}));
        prop_assert_eq!(body["result"].get("structuredContent"), None);
    }

    #[test]
    fn escaping_agrees_with_serde_json(text in proptest::collection::vec(any::<char>(), 0..300)) {
        let text: String = text.into_iter().collect();
        let mut out = Vec::new();
        string(&mut out, &text);
        let expected = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(&String::from_utf8(out).unwrap(), &expected);
        let mut rare = String::new();
        string(&mut rare, &text);
        prop_assert_eq!(rare, expected);
    }
}
