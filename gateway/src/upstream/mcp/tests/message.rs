use super::*;

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn result(json: &str) -> Option<Reply> {
    Some(Reply::Result(text(json)))
}

fn error(code: i64, message: &str) -> Option<Reply> {
    Some(Reply::Error(RpcFault { code, message: text(message) }))
}

#[test]
fn only_the_first_answer_to_the_request_counts() {
    for (message, answer, others) in [
        (r#"{"jsonrpc":"2.0","id":7,"result":{"a": 1.0}}"#, result(r#"{"a": 1.0}"#), 0),
        (r#" {"id":7,"result":null} "#, None, 1),
        (r#"{"id":7,"result":[1]}"#, result("[1]"), 0),
        (r#"{"id":8,"result":{}}"#, None, 1),
        (r#"{"id":"7","result":{}}"#, None, 1),
        (r#"{"id":7.0,"result":{}}"#, None, 1),
        (r#"{"id":null,"result":{}}"#, None, 1),
        (r#"{"id":7}"#, None, 1),
        (r#"{"result":{}}"#, None, 1),
        (r#"[{"id":8,"result":8},{"id":7,"result":1},{"id":7,"result":2},3]"#, result("1"), 3),
        (r#"{"id":7,"error":{"code":-32602,"message":"b\u0061d"}}"#, error(-32602, "bad"), 0),
        (r#"{"id":7,"error":{"code":"x","message":9},"result":{}}"#, error(0, ""), 0),
        (r#"{"id":7,"error":"broken"}"#, error(0, ""), 0),
        (r#"{"id":7,"error":[1,2]}"#, error(0, ""), 0),
        ("[]", None, 0),
        ("7", None, 1),
        (r#""text""#, None, 1),
        ("[[]]", None, 1),
        (r#"{"method":"notifications/progress","params":{}}"#, None, 1),
        (r#"{"id":7,"id":7,"result":{}}"#, None, 1),
    ] {
        let read = read(&text(message), 7).unwrap();
        assert_eq!((read.answer, read.others, read.asked.len()), (answer, others, 0), "{message}");
    }
}

#[test]
fn requests_and_changes_of_the_list_are_told_apart() {
    let message = text(
        r#"[{"id":"a","method":"sampling/createMessage","params":{}},{"id":1,"method":"ping"},
            {"method":"notifications/tools/list_changed"},{"id":null,"method":"x"},{"id":{},"method":"x"}]"#,
    );
    let read = read(&message, 1).unwrap();
    assert_eq!((read.asked, read.list_changed, read.others), (vec![text("\"a\""), text("1")], true, 2));
    let long = format!(r#"{{"id":"{}","method":"ping"}}"#, "x".repeat(MAX_ID));
    assert_eq!(super::read(&text(&long), 1).unwrap().asked, Vec::<Bytes>::new());
}

#[test]
fn what_is_not_json_is_said_without_a_part_of_it() {
    for broken in ["", "secret", "{", r#"{"id":7,"result":{}} secret"#, "\u{0}"] {
        assert_eq!(read(&text(broken), 7), Err(Unreadable("is not valid JSON")), "{broken}");
    }
    assert!(read(&Bytes::from_static(b"{\"id\":7,\"result\":\"\xff\"}"), 7).is_err());
    let batch = |count: usize| text(&format!("[{}1]", "1,".repeat(count - 1)));
    assert_eq!(read(&batch(1_000), 7).unwrap().others, 1_000);
    assert_eq!(read(&batch(1_001), 7), Err(Unreadable("holds a batch of more than 1000 messages")));
}

#[test]
fn the_error_in_a_body_is_found() {
    let fault = |code, message| Some(RpcFault { code, message: text(message) });
    for (body, expected) in [
        (r#"{"id":1,"error":{"code":-32022,"message":"m"}}"#, fault(-32022, "m")),
        (r#"{"id":null,"error":{"code":-32000,"message":"m"}}"#, fault(-32000, "m")),
        (r#"{"error":"unauthorized"}"#, fault(0, "")),
        ("<html>", None),
        ("[]", None),
        ("", None),
    ] {
        assert_eq!(error_in(body.as_bytes()), expected, "{body}");
    }
}
