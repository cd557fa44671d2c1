use super::*;
use crate::input::{CannotAsk, InputKind};
use crate::seal::Keyring;
use crate::sealed::{CallerSession, Capabilities, Scope};

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn relay(token: Option<&str>, level: Option<Level>, enforcement: Enforcement) -> Option<Arc<Relay>> {
    Relay::new(&Wanted { token: token.map(bytes), level }, None, enforcement)
}

fn progress(progress: &str, total: Option<&str>, message: Option<&str>) -> Sent {
    Sent::Progress { progress: bytes(progress), total: total.map(bytes), message: message.map(bytes) }
}

fn log_of(level: Level, logger: Option<&str>, data: &str) -> Sent {
    Sent::Log { level, logger: logger.map(bytes), data: bytes(data) }
}

const HEAD: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":"#;

#[test]
fn a_caller_gets_what_it_wants_and_may_get() {
    use Enforcement::{Advisory, Enforced};
    for (token, level, enforcement, kinds) in [
        (None, None, Advisory, None),
        (None, Some(Level::Debug), Enforced, None),
        (Some("1"), None, Advisory, Some((true, false))),
        (None, Some(Level::Debug), Advisory, Some((false, true))),
        (Some("1"), Some(Level::Debug), Advisory, Some((true, true))),
        (Some("1"), Some(Level::Debug), Enforced, Some((true, false))),
    ] {
        let relay = relay(token, level, enforcement);
        let kinds = kinds.map(|(progress, logs)| Kinds { progress, logs });
        assert_eq!(relay.map(|relay| relay.kinds()), kinds, "{token:?} {level:?} {enforcement:?}");
    }
}

#[test]
fn progress_passes_with_its_digits_and_under_enforced_without_its_text() {
    let long = format!("\"{}\"", "x".repeat(MAX_TEXT));
    let digits = "1".repeat(MAX_NUMBER + 1);
    for (sent, advisory, enforced) in [
        (progress("1.50", None, None), Some("1.50}}"), Some("1.50}}")),
        (
            progress("1e2", Some("100.0"), Some(r#""a\u00e9""#)),
            Some(r#"1e2,"total":100.0,"message":"a\u00e9"}}"#),
            Some(r#"1e2,"total":100.0}}"#),
        ),
        (progress("1", None, Some(&long)), Some("1}}"), Some("1}}")),
        (progress("\"1\"", None, None), None, None),
        (progress("[1]", None, None), None, None),
        (progress("1", Some("\"secret\""), None), None, None),
        (progress("1", Some("{}"), None), None, None),
        (progress(&digits, None, None), None, None),
    ] {
        for (enforcement, expected) in [(Enforcement::Advisory, advisory), (Enforcement::Enforced, enforced)] {
            let relay = relay(Some("\"t\""), None, enforcement).unwrap();
            relay.take_in(&sent);
            let expected: Vec<_> = expected.map(|rest| format!("{HEAD}{rest}")).into_iter().collect();
            assert_eq!(relay.take_out(), expected, "{sent:?} {enforcement:?}");
            assert!(relay.take_out().is_empty());
        }
    }
}

#[test]
fn log_messages_pass_from_the_level_on_in_one_line() {
    let relay = relay(None, Some(Level::Warning), Enforcement::Advisory).unwrap();
    let long = format!("\"{}\"", "x".repeat(MAX_DATA));
    for sent in [
        log_of(Level::Notice, None, "1"),
        log_of(Level::Warning, Some("\"db\""), "{\"n\":\n 1.10,\r\n\"s\":\"a\\nb\"}"),
        log_of(Level::Emergency, Some(&long), "\"end\""),
        log_of(Level::Error, None, &long),
        progress("1", None, None),
    ] {
        relay.take_in(&sent);
    }
    let messages = relay.take_out();
    assert_eq!(
        messages,
        [
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"db","data":{"n":1.10,"s":"a\nb"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","data":"end"}}"#,
        ]
    );
}

#[test]
fn a_flood_keeps_the_newest_within_the_memory() {
    let relay = relay(Some("7"), Some(Level::Debug), Enforcement::Advisory).unwrap();
    let text = format!("\"{}\"", "x".repeat(1_000));
    for n in 0..100_000_u32 {
        relay.take_in(&progress(&n.to_string(), None, Some(&text)));
        relay.take_in(&log_of(Level::Info, None, &n.to_string()));
        if n % 1_000 == 0 {
            let state = relay.lock();
            let bytes = state.log_bytes + state.progress.iter().map(String::len).sum::<usize>();
            assert!(bytes as u64 <= relay.memory(), "{bytes}");
        }
    }
    let messages = relay.take_out();
    assert_eq!(messages.len(), MAX_WAITING + MAX_PROGRESS);
    assert!(messages[0].ends_with(r#""data":99968}}"#), "{}", messages[0]);
    let progress: Vec<_> =
        messages[MAX_WAITING..].iter().filter_map(|message| message.split_once(r#""progress":"#)).collect();
    assert!(progress.iter().zip(99_996..).all(|((_, rest), n)| rest.starts_with(&format!("{n},"))), "{progress:?}");
    // Large ones are bounded by their bytes.
    let data = format!("\"{}\"", "x".repeat(7_000));
    (0..10).for_each(|_| relay.take_in(&log_of(Level::Info, None, &data)));
    assert_eq!(relay.take_out().len(), 2);
}

#[test]
fn a_call_passes_a_bounded_number_of_bytes() {
    let relay = relay(None, Some(Level::Debug), Enforcement::Advisory).unwrap();
    let data = format!("\"{}\"", "x".repeat(MAX_DATA - 2));
    let mut bytes = 0;
    for _ in 0..10_000 {
        relay.take_in(&log_of(Level::Info, None, &data));
        bytes += relay.take_out().iter().map(String::len).sum::<usize>();
    }
    assert!((MAX_PASSED..MAX_PASSED + 2 * MAX_DATA).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn messages_are_due_at_once_and_then_after_an_interval() {
    let relay = relay(Some("7"), None, Enforcement::Enforced).unwrap();
    assert!(tokio::time::timeout(INTERVAL, relay.due()).await.is_err());
    relay.take_in(&progress("1", None, None));
    relay.due().await;
    let taken = Instant::now();
    assert_eq!(relay.take_out().len(), 1);
    // Nothing waits, although there was a notification.
    assert!(tokio::time::timeout(INTERVAL / 2, relay.due()).await.is_err());
    relay.take_in(&progress("2", None, None));
    relay.due().await;
    assert!(taken.elapsed() >= INTERVAL, "{:?}", taken.elapsed());
    // A waiting side is woken.
    relay.take_out();
    let waits = relay.due();
    let (waited, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(20), waits), async {
        tokio::time::sleep(INTERVAL / 2).await;
        relay.take_in(&progress("3", None, None));
    });
    assert!(waited.is_ok());
}

fn asking(capabilities: &str) -> Asking {
    let keyring = Arc::new(Keyring::of_the_process().unwrap());
    let capabilities = Capabilities::read(Some(serde_json::from_str(capabilities).unwrap()));
    let session = CallerSession { name: "s".into(), capabilities, server: None };
    Asking::new(&keyring, Scope::of("x"), &session, Duration::from_secs(1))
}

fn asks(kind: Option<InputKind>, params: Option<&str>) -> ServerRequest {
    ServerRequest { id: bytes("1"), kind, params: params.map(bytes) }
}

#[test]
fn a_request_is_one_line_with_its_digits_or_an_error() {
    let asking = asking(r#"{"elicitation":{},"roots":{}}"#);
    let written = |request: &ServerRequest| asking.write(request, "2025-11-25", None);
    use InputKind::{Elicitation, Roots, Sampling};
    for (params, expected) in [
        (None, "\"}"),
        (Some("{}"), "\",\"params\":{}}"),
        (Some("{\"n\": 1.50}"), "\",\"params\":{\"n\": 1.50}}"),
        (Some("{\"n\":\r\n1.50,\n\"s\":\"a\\nb\"}"), "\",\"params\":{\"n\":1.50,\"s\":\"a\\nb\"}}"),
    ] {
        let message = written(&asks(Some(Elicitation), params)).unwrap();
        let (head, rest) = message.split_once("elicitation/create").unwrap();
        assert!(head.starts_with(r#"{"jsonrpc":"2.0","id":"t."#) && head.ends_with(r#"","method":""#), "{message}");
        assert_eq!(rest, expected);
        assert_ne!(written(&asks(Some(Elicitation), params)).unwrap(), message, "each request has an id of its own");
    }
    let long = format!("{{\"x\":\"{}\"}}", "x".repeat(64 << 10));
    let deep = format!("{{\"x\":\n{}{}}}", "[".repeat(100), "]".repeat(100));
    for (request, expected) in [
        (asks(None, None), CannotAsk::Method),
        (asks(Some(Sampling), None), CannotAsk::Undeclared(Some(Sampling))),
        (asks(Some(Roots), Some(&long)), CannotAsk::TooLarge),
        (asks(Some(Roots), Some(&deep)), CannotAsk::TooLarge),
        (ServerRequest { id: bytes(&"1".repeat(129)), ..asks(Some(Roots), None) }, CannotAsk::TooLarge),
    ] {
        assert_eq!(written(&request), Err(expected));
    }
}

#[test]
fn a_caller_that_can_be_asked_has_a_relay_and_loses_no_request() {
    let none = Wanted { token: None, level: None };
    assert!(Relay::new(&none, Some(asking("{}")), Enforcement::Enforced).is_none());
    let relay = Relay::new(&none, Some(asking("{}")), Enforcement::Advisory).unwrap();
    assert!(relay.asking().is_some() && relay.kinds() == Kinds::default());
    (0..100).for_each(|number| relay.put_question(number.to_string()));
    assert_eq!(relay.take_out(), (0..100).map(|number| number.to_string()).collect::<Vec<_>>());
    assert!(relay.take_out().is_empty());
}
