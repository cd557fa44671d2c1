use super::*;

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn result(json: &str) -> Option<Reply> {
    Some(Reply::Result(text(json)))
}

fn error(code: i64, message: &str) -> Option<Reply> {
    Some(Reply::Error(RpcFault { code, message: text(message), required: None }))
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
        let read = read(&text(message), 7, Kinds::default()).unwrap();
        assert_eq!((read.answer, read.others, read.asked.len()), (answer, others, 0), "{message}");
    }
}

#[test]
fn requests_and_changes_of_the_list_are_told_apart() {
    let message = text(
        r#"[{"id":"a","method":"sampling/createMessage","params":{}},{"id":1,"method":"ping"},
            {"method":"notifications/tools/list_changed"},{"id":null,"method":"x"},{"id":{},"method":"x"}]"#,
    );
    let read = read(&message, 1, Kinds::default()).unwrap();
    let asks = |id: &str, kind, params: Option<&str>| ServerRequest { id: text(id), kind, params: params.map(text) };
    let asked = vec![asks("\"a\"", Some(InputKind::Sampling), Some("{}")), asks("1", None, None)];
    assert_eq!((read.asked, read.list_changed, read.others), (asked, true, 2));
    let long = format!(r#"{{"id":"{}","method":"ping"}}"#, "x".repeat(MAX_ID));
    assert_eq!(super::read(&text(&long), 1, Kinds::default()).unwrap().asked, []);
}

#[test]
fn what_is_not_json_is_said_without_a_part_of_it() {
    for broken in ["", "secret", "{", r#"{"id":7,"result":{}} secret"#, "\u{0}"] {
        assert_eq!(read(&text(broken), 7, Kinds::default()), Err(Unreadable("is not valid JSON")), "{broken}");
    }
    assert!(read(&Bytes::from_static(b"{\"id\":7,\"result\":\"\xff\"}"), 7, Kinds::default()).is_err());
    let batch = |count: usize| text(&format!("[{}1]", "1,".repeat(count - 1)));
    assert_eq!(read(&batch(1_000), 7, Kinds::default()).unwrap().others, 1_000);
    assert_eq!(read(&batch(1_001), 7, Kinds::default()), Err(Unreadable("holds a batch of more than 1000 messages")));
}

#[test]
fn the_error_in_a_body_is_found() {
    let fault = |code, message| Some(RpcFault { code, message: text(message), required: None });
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

#[test]
fn messages_about_single_resources_are_read() {
    let accepted = |uris: &[&str]| Some(OfResources::Accepted(uris.iter().map(|uri| (*uri).to_owned()).collect()));
    for (message, expected) in [
        (
            r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:\u00e9","_meta":{}}}"#,
            Some(OfResources::Updated("a:\u{e9}".to_owned())),
        ),
        (
            r#"{"method":"notifications\/resources\/updated","params":{"uri":"a:b"}}"#,
            Some(OfResources::Updated("a:b".to_owned())),
        ),
        (r#"{"method":"notifications/resources/updated","params":{"uri":7}}"#, None),
        (r#"{"method":"notifications/resources/updated"}"#, None),
        (r#"{"id":1,"method":"notifications/resources/updated","params":{"uri":"a:b"}}"#, None),
        (
            r#"{"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["a:b","c:d"]}}}"#,
            accepted(&["a:b", "c:d"]),
        ),
        (
            r#"{"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true}}}"#,
            accepted(&[]),
        ),
        (r#"{"method":"notifications/resources/list_changed","params":{"uri":"a:b"}}"#, None),
        ("[]", None),
        ("x", None),
    ] {
        assert_eq!(of_resources(message.as_bytes()), expected, "{message}");
    }
}

#[test]
fn the_capabilities_that_an_error_requires_are_read_in_one_line() {
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_REQUIRED));
    for (code, data, expected) in [
        (-32021, r#"{"requiredCapabilities":{"sampling":{"n":1.10}}}"#, Some(r#"{"sampling":{"n":1.10}}"#)),
        (-32021, "{\"requiredCapabilities\":{\n\"roots\":\r\n{}}}", Some(r#"{"roots":{}}"#)),
        (-32000, r#"{"requiredCapabilities":{"sampling":{}}}"#, None),
        (-32021, r#"{"requiredCapabilities":["sampling"]}"#, None),
        (-32021, r#"{"other":1}"#, None),
        (-32021, "7", None),
        (-32021, &format!(r#"{{"requiredCapabilities":{long}}}"#), None),
    ] {
        let body = format!(r#"{{"id":1,"error":{{"code":{code},"message":"m","data":{data}}}}}"#);
        assert_eq!(error_in(body.as_bytes()).unwrap().required, expected.map(text), "{code} {data:.60}");
    }
}

#[test]
fn progress_of_the_request_and_log_messages_are_for_the_caller() {
    let all = Kinds { progress: true, logs: true };
    let progress = |progress: &str, total: Option<&str>, message: Option<&str>| Sent::Progress {
        progress: text(progress),
        total: total.map(text),
        message: message.map(text),
    };
    let log = |level, logger: Option<&str>, data: &str| Sent::Log { level, logger: logger.map(text), data: text(data) };
    let of = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}"#)
    };
    for (message, expected) in [
        (of("progress", r#"{"progressToken":7,"progress":1.50}"#), Some(progress("1.50", None, None))),
        (
            of("progress", r#"{"progress":1,"total":2.0,"message":"a\u00e9","_meta":{"x":1},"progressToken":7}"#),
            Some(progress("1", Some("2.0"), Some(r#""a\u00e9""#))),
        ),
        (of("progress", r#"{"progressToken":7,"progress":1,"message":{"a":1}}"#), Some(progress("1", None, None))),
        (of("progress", r#"{"progressToken":8,"progress":1}"#), None),
        (of("progress", r#"{"progressToken":"7","progress":1}"#), None),
        (of("progress", r#"{"progress":1}"#), None),
        (of("progress", r#"{"progressToken":7}"#), None),
        (of("progress", "[7,1]"), None),
        (
            of("progress", r#"{"progressToken":7,"progress":1}"#).replace("s/p", "s\\/p"),
            Some(progress("1", None, None)),
        ),
        (
            of("message", r#"{"level":"error","logger":"db","data":{"n":1.0}}"#),
            Some(log(Level::Error, Some("\"db\""), r#"{"n":1.0}"#)),
        ),
        (of("message", r#"{"level":"debug","data":null}"#), Some(log(Level::Debug, None, "null"))),
        (of("message", r#"{"level":"fatal","data":1}"#), None),
        (of("message", r#"{"level":"error"}"#), None),
        (of("message", r#"["error",1,2]"#), None),
        (r#"{"method":"notifications/message"}"#.to_owned(), None),
        (of("resources/updated", r#"{"uri":"a:b"}"#), None),
    ] {
        let message = text(&message);
        let received = read(&message, 7, all).unwrap();
        assert_eq!(received.others, usize::from(expected.is_none()), "{message:?}");
        assert_eq!(received.sent, expected.clone().into_iter().collect::<Vec<_>>(), "{message:?}");
        let is_progress = matches!(expected, Some(Sent::Progress { .. }));
        if let Some(sent) = expected {
            assert_eq!(notification(&message), Some((is_progress.then_some(7), sent)), "{message:?}");
        }
        // Without a caller who wants it.
        let received = read(&message, 7, Kinds::default()).unwrap();
        assert_eq!((received.others, received.sent), (1, vec![]), "{message:?}");
    }
    let batch = text(&format!("[{},{}]", of("message", r#"{"level":"info","data":1}"#), r#"{"id":7,"result":{}}"#));
    let received = read(&batch, 7, all).unwrap();
    assert_eq!((received.sent.len(), received.answer.is_some(), received.others), (1, true, 0));
}
