use super::*;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn read_as(result: &str, declared: Option<ResponseType>) -> Result<ToolAnswer, &'static str> {
    read(&bytes(result), declared)
}

fn json(text: &str) -> Output {
    Output::Json(bytes(text))
}

fn text(text: &str) -> Output {
    Output::Text(bytes(text))
}

/// A result with these text blocks.
fn texts(texts: &[&str]) -> String {
    let blocks: Vec<_> =
        texts.iter().map(|text| format!(r#"{{"type":"text","text":{}}}"#, json::encode(text))).collect();
    format!(r#"{{"content":[{}]}}"#, blocks.join(","))
}

#[test]
fn the_payload_is_the_structured_content_or_else_the_text() {
    for (result, expected) in [
        (r#"{"structuredContent": {"n": 1.0, "b":"\u0061"} }"#.to_owned(), json(r#"{"n": 1.0, "b":"\u0061"}"#)),
        (
            r#"{"content":[{"type":"text","text":"x"}],"structuredContent":[12345678901234567890]}"#.to_owned(),
            json("[12345678901234567890]"),
        ),
        (r#"{"content":[{"type":"text","text":"x"}],"structuredContent":null}"#.to_owned(), text("x")),
        (texts(&[]), text("")),
        (texts(&["plain"]), text("plain")),
        (texts(&["two\nlines", "and one"]), text("two\nlines\nand one")),
        (texts(&["{\"a\": 1.0}"]), json("{\"a\": 1.0}")),
        (texts(&[" [1e400, \"\\ud800\"] "]), json(" [1e400, \"\\ud800\"] ")),
        (texts(&["{\"a\":1}", "[2]"]), json("[{\"a\":1},[2]]")),
        (texts(&["{\"a\":1}", "2"]), text("{\"a\":1}\n2")),
        (texts(&["7"]), text("7")),
        (texts(&["null"]), text("null")),
        (texts(&["{not json}"]), text("{not json}")),
        (texts(&["{\"a\":1} and more"]), text("{\"a\":1} and more")),
        (r#"{"resultType":"complete","isError":false,"content":[]}"#.to_owned(), text("")),
    ] {
        let read = read_as(&result, None);
        assert_eq!(read, Ok(ToolAnswer::Done { output: expected, media: vec![], meta: None }), "{result}");
    }
}

#[test]
fn what_the_tool_declares_decides() {
    let done = |output| Ok(ToolAnswer::Done { output, media: vec![], meta: None });
    assert_eq!(read_as(&texts(&["{\"a\":1}"]), Some(ResponseType::Text)), done(text("{\"a\":1}")));
    assert_eq!(read_as(r#"{"content":[],"structuredContent":{}}"#, Some(ResponseType::Text)), done(text("")));
    assert_eq!(read_as(&texts(&["7"]), Some(ResponseType::Object)), done(json("7")));
    assert_eq!(read_as(&texts(&["7", "8"]), Some(ResponseType::Array)), done(text("7\n8")));
}

#[test]
fn a_payload_that_needs_no_unescaping_is_not_copied() {
    for result in [
        r#"{"content":[],"structuredContent":{"a":1}}"#,
        r#"{"content":[{"type":"text","text":"plain"}]}"#,
        r#"{"content":[{"type":"text","text":"[1,2]"}]}"#,
    ] {
        let message = bytes(result);
        let Ok(ToolAnswer::Done { output, .. }) = read(&message, None) else { panic!("{result}") };
        assert!(message.as_ptr_range().contains(&output.bytes().as_ptr()), "{result}");
    }
}

#[test]
fn a_failure_has_its_text() {
    for (result, expected) in [
        (r#"{"content":[{"type":"text","text":"no\nway"},{"type":"text","text":"x"}],"isError":true}"#, "no\nway\nx"),
        (r#"{"structuredContent":{"error":1},"isError":true}"#, r#"{"error":1}"#),
        (r#"{"content":[{"type":"image","data":"","mimeType":"image/png"}],"isError":true}"#, ""),
    ] {
        assert_eq!(read_as(result, None), Ok(ToolAnswer::Failed(bytes(expected))), "{result}");
    }
}

#[test]
fn media_follow_as_they_were_written() {
    let image = r#"{"type":"image","data":"aGk=","mimeType":"image/png","annotations":{"priority":0.50}}"#;
    let link = "{\n \"type\" : \"resource_link\",\n \"uri\": \"a:b\" }";
    let unknown = r#"{"type":"hologram","data":"x"}"#;
    let result = format!(r#"{{"content":[{image},{{"type":"text","text":"t"}},{unknown},{link}]}}"#);
    let Ok(ToolAnswer::Done { output, media, .. }) = read_as(&result, None) else { panic!() };
    assert_eq!((output, media), (text("t"), vec![bytes(image), bytes(r#"{"type":"resource_link","uri":"a:b"}"#)]));
    let many = |count: usize| format!(r#"{{"content":[{}]}}"#, vec![image; count].join(","));
    let Ok(ToolAnswer::Done { media, .. }) = read_as(&many(64), None) else { panic!() };
    assert_eq!(media.len(), 64);
    assert_eq!(read_as(&many(65), None), Err("has more than 64 content blocks that are not text"));
}

#[test]
fn wrong_types_are_named_without_their_values() {
    for result in [
        "null",
        "[]",
        "\"secret\"",
        "7",
        "{}",
        r#"[{"content":[]}]"#,
        r#"{"content":"secret"}"#,
        r#"{"content":{}}"#,
        r#"{"content":[7]}"#,
        r#"{"content":[[]]}"#,
        r#"{"content":[{}]}"#,
        r#"{"content":[{"type":7}]}"#,
        r#"{"content":[{"type":"text"}]}"#,
        r#"{"content":[{"type":"text","text":["secret"]}]}"#,
        r#"{"content":[],"isError":"secret"}"#,
        r#"{"content":[],"isError":1}"#,
        r#"{"content":[],"resultType":"secret"}"#,
        r#"{"content":[],"resultType":"input_required"}"#,
        r#"{"content":[],"content":[]}"#,
    ] {
        let error = read_as(result, None).expect_err(result);
        assert!(!error.contains("secret"), "{result}: {error}");
    }
    let many = |count: usize| format!(r#"{{"content":[{}]}}"#, vec![r#"{"type":"x"}"#; count].join(","));
    assert!(read_as(&many(MAX_BLOCKS), None).is_ok());
    assert!(read_as(&many(MAX_BLOCKS + 1), None).is_err());
}

#[test]
fn metadata_comes_with_the_output_unless_the_call_failed() {
    let of = |more: &str| {
        Bytes::from(format!(r#"{{"structuredContent":{{}},"_meta":{{"a":1.0,"tamis.dev/filter":2}}{more}}}"#))
    };
    let Ok(ToolAnswer::Done { meta, .. }) = read(&of(""), None) else { panic!() };
    assert_eq!(meta.as_deref(), Some(&br#""a":1.0"#[..]));
    assert!(matches!(read(&of(r#","isError":true"#), None), Ok(ToolAnswer::Failed(_))));
    let without = Bytes::from_static(br#"{"structuredContent":{},"_meta":7}"#);
    assert!(matches!(read(&without, None), Ok(ToolAnswer::Done { meta: None, .. })));
}

#[test]
fn what_a_server_asks_for_is_a_part_of_the_message_in_one_line() {
    let asked = |requests: Option<&str>, state: Option<&str>| InputRequired::Asked {
        requests: requests.map(bytes),
        state: state.map(bytes),
    };
    for (members, expected) in [
        (r#""requestState":"\u00e9""#, asked(None, Some(r#""\u00e9""#))),
        (r#""inputRequests":{"a": {"n":1.10}}"#, asked(Some(r#"{"a": {"n":1.10}}"#), None)),
        ("\"inputRequests\":{\n\"a\":\r\n1.10},\"requestState\":\"s\"", asked(Some(r#"{"a":1.10}"#), Some("\"s\""))),
    ] {
        let result = format!(r#"{{"resultType":"input_required",{members}}}"#);
        let read = read_as(&result, None).unwrap();
        assert_eq!(read, ToolAnswer::InputRequired(expected), "{result}");
    }
    let large = format!(r#""inputRequests":{{"secret":"{}"}}"#, "x".repeat(MAX_REQUESTS));
    for members in [r#""inputRequests":[],"requestState":"secret""#, r#""requestState":7"#, r#""content":[]"#, &large] {
        let result = format!(r#"{{"resultType":"input_required",{members}}}"#);
        assert!(!read_as(&result, None).expect_err(members).contains("secret"));
    }
}
