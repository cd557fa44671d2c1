use tamis_config::group_keys::{GroupKeys, RootKey};

use super::*;

fn key(byte: u8) -> RootKey {
    RootKey::new([byte; 32])
}

fn keys() -> GroupKeys {
    GroupKeys::new(key(1), key(2), 0)
}

fn scope(text: &str) -> Scope {
    Scope::of(text)
}

const NAME: &str = "0123456789abcdef0123456789abcdef";
const VERSION: &str = "2025-11-25";

fn session(id: Option<&str>) -> CallerSession {
    let id = id.map(|id| HeaderValue::from_str(id).unwrap());
    let server = Some(ServerSession { version: VERSION, id });
    CallerSession { name: NAME.into(), capabilities: Capabilities::ALL, server }
}

fn question(session: QuestionSession, id: &str) -> Question {
    Question { nonce: 7, expires: 1_000, version: "2025-06-18", session, id: id.to_owned() }
}

#[test]
fn a_session_is_opened_by_every_gateway_of_the_group() {
    let scope = scope("team/a https://a.example/mcp ada lovelace");
    let later = CallerSession { server: None, ..session(None) };
    let none = CallerSession { capabilities: Capabilities::default(), ..session(Some("x")) };
    for session in [session(Some("1f-7")), session(Some(&"x".repeat(MAX_SESSION))), session(None), later, none] {
        let token = session.seal(&Keyring::new(&keys()), &scope).unwrap();
        assert!(token.len() <= 1_600, "{}", token.len());
        assert_eq!(CallerSession::open(&Keyring::new(&keys()), &scope, NAME, &token).unwrap(), session);
        // A gateway that has seen the next rotation, and one that has not.
        let rotated = keys().rotate(key(3), 1);
        assert_eq!(CallerSession::open(&Keyring::new(&rotated), &scope, NAME, &token).unwrap(), session);
        let newer = session.seal(&Keyring::new(&rotated), &scope).unwrap();
        assert_eq!(CallerSession::open(&Keyring::new(&keys()), &scope, NAME, &newer).unwrap(), session);
        // Its key is gone.
        let twice = rotated.rotate(key(4), 2);
        assert_eq!(CallerSession::open(&Keyring::new(&twice), &scope, NAME, &token), Err(SealError::Invalid));
    }
    assert_eq!(session(None).seal(&Keyring::default(), &scope), Err(SealError::NoKeys));
    assert_eq!(CallerSession::open(&Keyring::default(), &scope, NAME, "x"), Err(SealError::NoKeys));
}

#[test]
fn a_session_id_of_a_server_that_no_header_repeats_is_not_sealed() {
    let scope = scope("s");
    for id in ["", "-", "a b", " ", &"x".repeat(MAX_SESSION + 1)] {
        assert_eq!(session(Some(id)).seal(&Keyring::new(&keys()), &scope), Err(SealError::Invalid), "{id}");
    }
    let mut opaque = session(None);
    opaque.server = Some(ServerSession { version: VERSION, id: HeaderValue::from_bytes(b"\xff").ok() });
    assert_eq!(opaque.seal(&Keyring::new(&keys()), &scope), Err(SealError::Invalid));
}

#[test]
fn an_id_opens_nothing_else_than_what_it_was_given_for() {
    let (keyring, mine) = (Keyring::new(&keys()), scope("team/a https://a.example/mcp ada"));
    let token = session(Some("id")).seal(&keyring, &mine).unwrap();
    let invalid = Err(SealError::Invalid);
    for other in
        ["team/a https://a.example/mcp eve", "team/b https://a.example/mcp ada", "team/a https://b.example/mcp ada"]
    {
        assert_eq!(CallerSession::open(&keyring, &scope(other), NAME, &token), invalid, "{other}");
    }
    let name = NAME.replace('0', "1");
    assert_eq!(CallerSession::open(&keyring, &mine, &name, &token), invalid, "another name");
    for broken in
        ["", ".", "%", &token[1..], &token[..token.len() - 4], &format!("{token}AAAA"), &token.replace('A', "B")]
    {
        if broken != token {
            assert_eq!(CallerSession::open(&keyring, &mine, NAME, broken), invalid, "{broken}");
        }
    }
    // A cursor of a tool, and a request, are not sessions, and the reverse.
    let cursor = keyring.seal("team/a read ada", &format!("{NAME} 37 {VERSION} id")).unwrap();
    assert_eq!(CallerSession::open(&keyring, &mine, NAME, &cursor), invalid);
    let asked = question(QuestionSession::Known, "1").seal(&keyring, &mine, NAME).unwrap();
    assert_eq!(CallerSession::open(&keyring, &mine, NAME, asked.strip_prefix(PREFIX).unwrap()), invalid);
    assert_eq!(Question::open(&keyring, &mine, NAME, &format!("{PREFIX}{token}")), Err(SealError::Invalid));
}

#[test]
fn a_request_is_answered_in_its_session_only() {
    let (keyring, mine) = (Keyring::new(&keys()), scope("team/a https://a.example/mcp ada"));
    let other = QuestionSession::Other(HeaderValue::from_static("later-1"));
    for (session, id) in [
        (QuestionSession::None, "0"),
        (QuestionSession::Known, r#""a b\u0020c""#),
        (other.clone(), "-1.50"),
        (other, &format!("\"{}\"", "x".repeat(126))),
    ] {
        let question = question(session, id);
        let asked = question.seal(&keyring, &mine, NAME).unwrap();
        assert!(
            asked.len() <= 1_000 && asked.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
        );
        assert_eq!(Question::open(&keyring, &mine, NAME, &asked).unwrap(), question);
        let invalid = Err(SealError::Invalid);
        assert_eq!(Question::open(&keyring, &mine, &NAME.replace('0', "1"), &asked), invalid, "another session");
        assert_eq!(Question::open(&keyring, &scope("team/a https://a.example/mcp eve"), NAME, &asked), invalid);
        assert_eq!(Question::open(&keyring, &mine, NAME, asked.strip_prefix(PREFIX).unwrap()), invalid);
        assert_eq!(Question::open(&keyring, &mine, NAME, &format!("{asked}{}", "A".repeat(1_000))), invalid);
    }
    assert_eq!(question(QuestionSession::None, "1").seal(&Keyring::default(), &mine, NAME), Err(SealError::NoKeys));
}

#[test]
fn what_would_not_come_back_is_not_asked() {
    let (keyring, scope) = (Keyring::new(&keys()), scope("s"));
    let long = HeaderValue::from_str(&"x".repeat(MAX_SESSION)).unwrap();
    for (session, id) in [
        (QuestionSession::None, format!("\"{}\"", "x".repeat(127))),
        (QuestionSession::Other(long), "1".to_owned()),
        (QuestionSession::Other(HeaderValue::from_static("=")), "1".to_owned()),
        (QuestionSession::Other(HeaderValue::from_static("a b")), "1".to_owned()),
    ] {
        assert_eq!(question(session, &id).seal(&keyring, &scope, NAME), Err(SealError::Invalid), "{id}");
    }
}

#[test]
fn a_request_ends_with_its_call_whatever_the_clocks_say() {
    let question = question(QuestionSession::None, "1");
    for (now, is_past) in [(0, false), (1_000, false), (1_060, false), (1_061, true), (u64::MAX, true)] {
        assert_eq!(question.is_past(now), is_past, "{now}");
    }
    assert!(!Question { expires: u64::MAX, ..question }.is_past(u64::MAX));
}
