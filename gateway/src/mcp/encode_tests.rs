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

const SERVER: &str = r#""io.modelcontextprotocol/serverInfo":{"name":"t","version":"1"}"#;

/// Writes the answer to a tool call, and checks that its buffers have the measured sizes.
fn written(id: &str, result: ToolResult, era: Era, server: &str) -> (Chain, Vec<u8>) {
    let (memory, measured) = (result.memory(), result.measure());
    let written = measured.written(id, server);
    let (most, len) = (written + memory, written + measured.moved.unwrap_or(0));
    let chain = tool_result(id, measured, era, server);
    assert!(chain.len() <= len && chain.memory() <= most, "{} {len}, {} {most}", chain.len(), chain.memory());
    let bytes = chain.buffers().collect::<Vec<_>>().concat();
    (chain, bytes)
}

/// Writes the same answer into one buffer, with `serde_json`'s strings.
fn reference(id: &str, result: &ToolResult, era: Era, server: &str) -> String {
    let ToolResult { text, notice, media, structured, is_error, filter, meta } = result;
    let block = |text: &str| format!(r#"{{"type":"text","text":{}}}"#, serde_json::to_string(text).unwrap());
    let kind = if era == Era::Modern { r#""resultType":"complete","# } else { "" };
    let notice = notice.as_deref().map_or(String::new(), |notice| format!(",{}", block(notice)));
    let object = structured.to_json(text).map_or(String::new(), |json| format!(r#","structuredContent":{json}"#));
    let mut metas = Vec::new();
    metas.extend(Some(server.to_owned()).filter(|server| era == Era::Modern && !server.is_empty()));
    metas.extend(filter.as_ref().map(|filter| format!(r#""tamis.dev/filter":{filter}"#)));
    metas.extend(meta.as_ref().map(|meta| String::from_utf8_lossy(meta).into_owned()));
    let meta = if metas.is_empty() { String::new() } else { format!(r#","_meta":{{{}}}"#, metas.join(",")) };
    let text = block(text);
    let media: String = media.iter().map(|block| format!(",{}", String::from_utf8_lossy(block))).collect();
    let result = format!(r#"{{{kind}"content":[{text}{notice}{media}]{object},"isError":{is_error}{meta}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

#[test]
fn both_eras_get_two_blocks_and_an_object() {
    for (era, result_type) in [(Era::Legacy, None), (Era::Modern, Some("complete"))] {
        let result = ToolResult {
            text: "[1]".to_owned(),
            notice: Some("1 of 2 items shown\n\"x\"".to_owned()),
            media: vec![],
            structured: Structured::Text { members: r#""_truncated":{"shown":1,"total":2}"#.to_owned() },
            is_error: false,
            filter: None,
            meta: None,
        };
        let answer: Value = serde_json::from_slice(&written("1", result, era, "").1).unwrap();
        let answer = &answer["result"];
        let blocks = json!([{"type": "text", "text": "[1]"}, {"type": "text", "text": "1 of 2 items shown\n\"x\""}]);
        assert_eq!(answer["content"], blocks);
        let object = json!({"result": [1], "_truncated": {"shown": 1, "total": 2}});
        assert_eq!(answer["structuredContent"], object);
        assert_eq!(answer.get("resultType").and_then(Value::as_str), result_type);
    }
}

#[test]
fn large_structured_content_is_the_buffer_of_the_filter() {
    let own = Structured::Json(format!("{{\"a\":\"{}\"}}", "y".repeat(MOVED)));
    let text = || Structured::Text { members: String::new() };
    for (length, structured, buffers) in [
        (MOVED - 8, text(), 1),
        (MOVED - 7, text(), 3),
        (10 * MOVED, text(), 3),
        (10 * MOVED, Structured::None, 1),
        (10, own, 3),
    ] {
        let text = format!("{{\"a\":\"{}\"}}\n", "x".repeat(length));
        let place = match &structured {
            Structured::Json(json) => json.as_ptr(),
            Structured::Text { .. } | Structured::None => text.as_ptr(),
        };
        let result =
            ToolResult { text, notice: None, media: vec![], structured, is_error: false, filter: None, meta: None };
        let expected = reference("1", &result, Era::Modern, SERVER);
        let (chain, bytes) = written("1", result, Era::Modern, SERVER);
        assert!(bytes == expected.as_bytes(), "{length}");
        assert_eq!(chain.buffers().count(), buffers, "{length}");
        assert_eq!(chain.buffers().any(|buffer| buffer.as_ptr() == place), buffers == 3, "{length}");
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
    fn an_answer_is_what_one_buffer_would_be(
        unit in ".{1,40}", times in 1..2_000_usize, form in 0..5_u8, notice in proptest::option::of(".{0,40}"),
        members in "(\"_truncated\":[0-9]{1,3})?", media in 0..3_usize, filter: bool, meta: bool, is_error: bool, modern: bool, server: bool,
        id in "[1-9][0-9]{0,9}|\"[a-z]{0,30}\"",
    ) {
        let string = serde_json::to_string(&unit.repeat(times)).unwrap();
        let (text, structured) = match form {
            0 => (unit.repeat(times), Structured::None),
            1 => (format!("[{string}]"), Structured::Text { members }),
            2 => (format!(" {{ \"a\": {string} }}\n"), Structured::Text { members }),
            3 => (" { } ".to_owned(), Structured::Text { members }),
            _ => (unit, Structured::Json(format!("{{\"a\":{string}}}"))),
        };
        let era = if modern { Era::Modern } else { Era::Legacy };
        let server = if server { SERVER } else { "" };
        let filter = filter.then(|| r#"{"applied":true}"#.into());
        let media = vec![Bytes::from_static(br#"{"type":"image"}"#); media];
        let meta = meta.then(|| Bytes::from_static(br#""a":1.0"#));
        let result = ToolResult { text, notice, media, structured, is_error, filter, meta };
        let expected = reference(&id, &result, era, server);
        let (_, bytes) = written(&id, result, era, server);
        prop_assert!(bytes == expected.as_bytes(), "{} {expected}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_text_round_trips_through_the_envelope(
        text in ".{0,200}", control in proptest::collection::vec(any::<char>(), 0..64), failed: bool, modern: bool
    ) {
        let text: String = text.chars().chain(control).collect();
        let era = if modern { Era::Modern } else { Era::Legacy };
        let result = ToolResult {
            text: text.clone(),
            notice: None,
            media: vec![],
            structured: Structured::None,
            is_error: failed,
            filter: Some("{\"applied\":true}".into()),
            meta: None,
        };
        let body: Value = serde_json::from_slice(&written("7", result, era, SERVER).1).unwrap();
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
