//! Answers that are not those of the caller that was asked.

use serde_json::{Value, json};

use super::{ALL, Asker, Session, elicits, group, text};

const ACCEPT: &str = r#""result":{"action":"accept"}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_session_that_was_asked_answers_and_only_once() {
    let (server, url) = Asker::start().await;
    let group = group(&url).await;
    let ada = group.begin_as("keyed", Some("ada-key"), ALL).await;
    let eve = group.begin_as("keyed", Some("eve-key"), ALL).await;
    let again = group.begin_as("keyed", Some("ada-key"), ALL).await;
    let anonymous = group.begin("advisory", ALL).await;
    let mut call = ada.call(0, json!([elicits()])).await;
    let question = call.next().await["id"].clone();
    let id = question.as_str().unwrap();
    let changed = |at: usize| {
        let mut bytes = id.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        json!(String::from_utf8(bytes).unwrap())
    };
    // Of another session of the same caller, of another caller, of another exposition.
    for session in [&again, &eve, &anonymous] {
        assert_eq!(session.answer(0, &question, ACCEPT).await.0, 400);
    }
    // In the stolen session of another caller, with that caller's own key, and with none.
    let stolen = Session { key: Some("eve-key"), ..ada.clone() };
    assert_eq!(stolen.answer(0, &question, ACCEPT).await.0, 404);
    let keyless = Session { key: None, ..ada.clone() };
    assert_eq!(keyless.answer(0, &question, ACCEPT).await.0, 401);
    let elsewhere = Session { name: "advisory", key: None, ..ada.clone() };
    assert_eq!(elsewhere.answer(0, &question, ACCEPT).await.0, 404);
    let sessionless = Session { id: String::new(), ..ada.clone() };
    assert_eq!(sessionless.answer(0, &question, ACCEPT).await.0, 400);
    let plain = Session { id: ada.id[..32].to_owned(), ..ada.clone() };
    assert_eq!(plain.answer(0, &question, ACCEPT).await.0, 400);
    // Ids that no gateway issued.
    for forged in
        [json!("t."), json!("t.AAAA"), changed(2), changed(20), changed(id.len() - 3), json!(format!("{id}{id}"))]
    {
        assert_eq!(ada.answer(0, &forged, ACCEPT).await.0, 400, "{forged}");
    }
    assert_eq!(ada.answer(0, &json!(format!("t.{}", "A".repeat(2_000))), ACCEPT).await.0, 400);
    // Answers to other ids mean nothing to the gateway.
    for other in [json!(0), json!("c-1"), Value::Null] {
        assert!([202, 400].contains(&ada.answer(0, &other, ACCEPT).await.0), "{other}");
    }
    // Answers of a wrong form.
    for broken in [
        r#""result":7"#,
        r#""result":null"#,
        r#""result":[{}]"#,
        r#""error":"no""#,
        r#""result":{},"error":{}"#,
        r#""x":1"#,
        r#""result":{"a":}"#,
    ] {
        assert_eq!(ada.answer(0, &question, broken).await.0, 400, "{broken}");
    }
    let huge = format!(r#""result":{{"x":"{}"}}"#, "x".repeat(5 << 20));
    assert_eq!(ada.answer(0, &question, &huge).await.0, 413);
    assert_eq!(server.seen(None), [], "the server got none of them");
    // The caller itself, once. At another gateway, the server gets it again and knows no such request.
    assert_eq!(ada.answer(1, &question, ACCEPT).await.0, 202);
    assert_eq!(ada.answer(1, &question, ACCEPT).await.0, 400);
    assert!(text(&call.next().await).contains("accept"));
    assert_eq!(ada.answer(1, &question, ACCEPT).await.0, 400, "after the end of the call");
    assert_eq!(server.seen(None).len(), 1);
    assert_eq!(ada.answer(0, &question, ACCEPT).await.0, 202);
    let answers = server.seen(None);
    assert!(answers.len() == 2 && answers.iter().all(|(session, _)| *session == answers[0].0), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_answer_is_read_off_the_serving_threads_and_passes() {
    let (_server, url) = Asker::start().await;
    let group = group(&url).await;
    let session = group.begin("advisory", ALL).await;
    let mut call = session.call(0, json!([elicits()])).await;
    let question = call.next().await["id"].clone();
    let long = "y".repeat(1 << 20);
    let answer = format!(r#""result":{{"action":"accept","content":{{"text":"{long}"}}}}"#);
    assert_eq!(session.answer(1, &question, &answer).await.0, 202);
    assert!(text(&call.next().await).contains(&long));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_the_server_does_not_take_may_be_given_again() {
    let (server, url) = Asker::start().await;
    let group = group(&url).await;
    let session = group.begin("advisory", ALL).await;
    let mut call = session.call(0, json!([elicits()])).await;
    let question = call.next().await["id"].clone();
    server.hangs.store(true, std::sync::atomic::Ordering::SeqCst);
    let (status, body) = session.answer(1, &question, ACCEPT).await;
    assert_eq!(status, 502, "{body}");
    assert!(body.contains("did not answer in time"), "{body}");
    server.hangs.store(false, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(session.answer(1, &question, ACCEPT).await.0, 202);
    assert!(text(&call.next().await).contains("accept"));
}
