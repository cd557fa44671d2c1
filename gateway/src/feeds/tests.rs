use std::net::{IpAddr, Ipv4Addr};

use http::header::HeaderValue;

use super::*;
use crate::sealed::{Capabilities, ServerSession};

const CALLER: Caller = Caller::Peer(IpAddr::V4(Ipv4Addr::LOCALHOST));

fn id(name: &str) -> Arc<ExpositionId> {
    Arc::new(ExpositionId { namespace: "n".to_owned(), name: name.to_owned() })
}

fn uris(feed: &Feed) -> Vec<String> {
    feed.wanted().iter().map(ToString::to_string).collect()
}

fn settle(feed: &Feed, uri: &str, verdict: Verdict) {
    feed.settle(&Arc::from(uri), verdict);
}

async fn said(feed: &Feed, uri: &str) -> Option<Verdict> {
    feed.verdict(uri, Duration::from_millis(10)).await
}

#[tokio::test]
async fn a_resource_is_wanted_until_its_last_subscription_ends() {
    let feeds = Feeds::default();
    let feed = feeds.of(&id("e"), &CALLER, None).unwrap();
    assert!(!feed.wants_stream());
    feed.add(&feeds, "s1", "a").unwrap();
    feed.add(&feeds, "s1", "a").unwrap();
    feed.add(&feeds, "s2", "a").unwrap();
    feed.add(&feeds, "s2", "b").unwrap();
    assert_eq!(uris(&feed), ["a", "b"]);
    feed.remove("s1", "a");
    feed.remove("s1", "unknown");
    assert_eq!(uris(&feed), ["a", "b"]);
    feed.remove("s2", "a");
    feed.remove("s2", "b");
    assert!(uris(&feed).is_empty() && !feed.wants_stream());
    assert!(feed.lock().subscribers.is_empty());
}

#[tokio::test]
async fn a_verdict_holds_while_its_stream_is_open() {
    let feeds = Feeds::default();
    let feed = feeds.of(&id("e"), &CALLER, None).unwrap();
    let mut listener = feed.join("s".to_owned(), None);
    for uri in ["a", "b"] {
        feed.add(&feeds, "s", uri).unwrap();
    }
    assert_eq!(said(&feed, "a").await, None);
    settle(&feed, "a", Verdict::Accepted);
    settle(&feed, "b", Verdict::Refused(-32002));
    settle(&feed, "unknown", Verdict::Accepted);
    assert_eq!(said(&feed, "a").await, Some(Verdict::Accepted));
    assert_eq!(said(&feed, "b").await, Some(Verdict::Refused(-32002)));
    assert_eq!(said(&feed, "unknown").await, None);
    // What was refused is not asked for again, until a client does.
    assert_eq!(uris(&feed), ["a"]);
    feed.add(&feeds, "s", "b").unwrap();
    assert_eq!(uris(&feed), ["a", "b"]);
    // After a stream was lost, an update may have been missed.
    feed.closed(false);
    assert_eq!(said(&feed, "a").await, None);
    settle(&feed, "b", Verdict::Accepted);
    settle(&feed, "a", Verdict::Accepted);
    assert_eq!(listener.next().await, Announced::Updated("a".into()));
    // A server without streams refuses everything.
    feed.closed(true);
    assert_eq!(said(&feed, "a").await, Some(Verdict::Refused(METHOD_NOT_FOUND)));
    feed.add(&feeds, "s", "c").unwrap();
    assert_eq!(said(&feed, "c").await, Some(Verdict::Refused(METHOD_NOT_FOUND)));
    // Until it is asked again.
    feed.opening();
    feed.add(&feeds, "s", "c").unwrap();
    assert_eq!(said(&feed, "c").await, None);
}

#[tokio::test]
async fn a_call_waits_for_a_stream_that_is_being_opened_and_for_no_other() {
    let feeds = Feeds::default();
    let feed = feeds.of(&id("e"), &CALLER, None).unwrap();
    let waits = |feed: Arc<Feed>| async move {
        let most = Duration::from_secs(60);
        tokio::time::timeout(Duration::from_millis(20), feed.opened(most)).await.is_err()
    };
    assert!(!waits(Arc::clone(&feed)).await, "nothing is wanted");
    let _listener = feed.join("s".to_owned(), Some(Level::Info));
    assert!(!waits(Arc::clone(&feed)).await, "nothing opens a stream");
    feed.lock().is_running = true;
    assert!(waits(Arc::clone(&feed)).await);
    feed.set_open();
    assert!(!waits(Arc::clone(&feed)).await, "it is open");
    feed.closed(false);
    assert!(!waits(Arc::clone(&feed)).await, "it has failed");
}

#[tokio::test]
async fn a_stream_gets_what_its_session_wants() {
    let feeds = Feeds::default();
    let feed = feeds.of(&id("e"), &CALLER, None).unwrap();
    let mut one = feed.join("one".to_owned(), Some(Level::Warning));
    let mut other = feed.join("other".to_owned(), None);
    assert!(feed.wants_stream());
    feed.add(&feeds, "one", "a").unwrap();
    feed.add(&feeds, "other", "b").unwrap();
    let log = |level| Announced::Log(level, "{}".into());
    for announced in [
        Announced::Updated("b".into()),
        log(Level::Info),
        Announced::Updated("c".into()),
        log(Level::Error),
        Announced::Updated("a".into()),
        Announced::Updated("b".into()),
    ] {
        feed.announce(&announced);
    }
    assert_eq!([one.next().await, one.next().await], [log(Level::Error), Announced::Updated("a".into())]);
    // Twice the same, before it was passed on, is once.
    assert_eq!(other.next().await, Announced::Updated("b".into()));
    feed.announce(&Announced::Updated("b".into()));
    assert_eq!(other.next().await, Announced::Updated("b".into()));
    // The level of a session without a stream is not kept here.
    feed.set_level("other", Level::Debug);
    feed.set_level("unknown", Level::Debug);
    feed.announce(&log(Level::Debug));
    assert_eq!(other.next().await, log(Level::Debug));
    assert_eq!(feed.lock().subscribers.len(), 2);
}

#[tokio::test]
async fn updates_wait_for_the_next_stream_and_log_messages_do_not() {
    let feeds = Feeds::default();
    let feed = feeds.of(&id("e"), &CALLER, None).unwrap();
    feed.add(&feeds, "s", "a").unwrap();
    feed.add(&feeds, "s", "b").unwrap();
    let log = |text: &str| Announced::Log(Level::Info, text.into());
    drop(feed.join("s".to_owned(), Some(Level::Info)));
    for announced in [log("{}"), Announced::Updated("b".into()), Announced::Updated("a".into())] {
        feed.announce(&announced);
    }
    feed.remove("s", "b");
    let mut listener = feed.join("s".to_owned(), None);
    assert_eq!(listener.next().await, Announced::Updated("a".into()));
    // Each announcement is for one of the streams of a session.
    let mut second = feed.join("s".to_owned(), None);
    feed.announce(&Announced::Updated("a".into()));
    assert_eq!(second.next().await, Announced::Updated("a".into()));
    assert!(tokio::time::timeout(Duration::from_millis(10), listener.next()).await.is_err());
    // A flood of log messages keeps the newest.
    let long = "x".repeat(MAX_LOG_BYTES / 2);
    (0..100).for_each(|n| feed.announce(&log(&n.to_string())));
    assert_eq!(listener.next().await, log(&(100 - MAX_LOGS).to_string()));
    (0..3).for_each(|_| feed.announce(&log(&long)));
    assert_eq!([listener.next().await, listener.next().await], [log(&long), log(&long)]);
    assert_eq!(feed.lock().subscribers["s"].log_bytes, 0);
}

#[tokio::test]
async fn a_session_stays_for_a_while_and_a_stream_does_not() {
    let feeds = Feeds::default();
    let feed = feeds.of(&id("e"), &CALLER, None).unwrap();
    let stream = feeds.name_stream();
    for name in ["session", &stream] {
        let listener = feed.join(name.to_owned(), None);
        feed.add(&feeds, name, "a").unwrap();
        drop(listener);
    }
    let names = |feed: &Feed| feed.lock().subscribers.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&feed), ["session"]);
    feed.lock().prune(Instant::now());
    assert_eq!(names(&feed), ["session"]);
    feed.lock().prune(Instant::now() + ABSENCE);
    assert!(names(&feed).is_empty() && !feed.wants_stream());
    // One that is open is present, and one without a subscription leaves nothing behind.
    let listener = feed.join("session".to_owned(), None);
    feed.lock().prune(Instant::now() + 2 * ABSENCE);
    assert_eq!(names(&feed), ["session"]);
    drop(listener);
    assert!(names(&feed).is_empty());
}

#[tokio::test]
async fn subscriptions_are_bounded_for_each_session_caller_and_exposition_and_for_all() {
    let feeds = Feeds::default();
    let caller = |n: usize| Caller::Key(format!("k{n}").into(), Ipv4Addr::LOCALHOST.into());
    // Fills the subscriptions of a caller, and returns what refuses the next one.
    let fill = |exposition: &Arc<ExpositionId>, caller: &Caller, sessions: usize| {
        let feed = feeds.of(exposition, caller, None).unwrap();
        (0..sessions)
            .flat_map(|session| (0..=OF_A_SESSION).map(move |n| (format!("s{session}"), format!("{session}:{n}"))))
            .map(|(session, uri)| feed.add(&feeds, &session, &uri))
            .filter_map(Result::err)
            .collect::<Vec<_>>()
    };
    let first = id("e0");
    assert_eq!(fill(&first, &caller(0), 1), [TooMany("the session")]);
    let refused = fill(&first, &caller(1), OF_A_CALLER / OF_A_SESSION + 1);
    assert_eq!(refused.last(), Some(&TooMany("the caller")));
    let refused: Vec<_> = (2..6).flat_map(|n| fill(&first, &caller(n), OF_A_CALLER / OF_A_SESSION)).collect();
    assert_eq!(refused.last(), Some(&TooMany("the exposition")));
    let refused: Vec<_> = (1..=OF_ALL / OF_AN_EXPOSITION)
        .flat_map(|n| (0..4).map(move |of| (id(&format!("e{n}")), of)))
        .flat_map(|(exposition, of)| fill(&exposition, &caller(of), OF_A_CALLER / OF_A_SESSION))
        .collect();
    assert_eq!(refused.last(), Some(&TooMany("the gateway")));
}

#[tokio::test]
async fn callers_with_feeds_are_bounded_and_unused_ones_make_room() {
    let feeds = Feeds::default();
    let caller = |n: usize| Caller::Key(format!("k{n}").into(), Ipv4Addr::LOCALHOST.into());
    let listeners: Vec<_> =
        (0..MAX_FEEDS).map(|n| feeds.of(&id("e"), &caller(n), None).unwrap().join("s".to_owned(), None)).collect();
    assert_eq!(feeds.of(&id("e"), &caller(MAX_FEEDS), None).unwrap_err(), TooMany("the gateway"));
    assert!(feeds.of(&id("e"), &caller(0), None).is_ok());
    drop(listeners);
    assert!(feeds.of(&id("e"), &caller(MAX_FEEDS), None).is_ok());
    assert_eq!(feeds.lock().len(), 1);
}

#[tokio::test]
async fn a_session_with_a_session_of_the_server_has_a_feed_of_its_own() {
    let feeds = Feeds::default();
    let session = |name: &str, id: Option<&'static str>| CallerSession {
        name: name.into(),
        capabilities: Capabilities::default(),
        server: Some(ServerSession { version: "2025-11-25", id: id.map(HeaderValue::from_static) }),
    };
    let of = |session: Option<&CallerSession>| feeds.of(&id("e"), &CALLER, session);
    let shared = of(None).unwrap();
    // A server without sessions is spoken to in none, so its callers share.
    assert!(Arc::ptr_eq(&shared, &of(Some(&session("a", None))).unwrap()));
    let own = of(Some(&session("a", Some("s-1")))).unwrap();
    assert!(!Arc::ptr_eq(&shared, &own) && own.session.is_some() && shared.session.is_none());
    assert!(Arc::ptr_eq(&own, &of(Some(&session("a", Some("s-1")))).unwrap()));
    assert!(!Arc::ptr_eq(&own, &of(Some(&session("b", Some("s-2")))).unwrap()));
    // All sessions of a caller together are bounded, in feeds and in subscriptions.
    let names: Vec<String> = (0..OF_A_CALLER).map(|n| format!("u:{n}")).collect();
    for (n, uri) in names.iter().enumerate() {
        let feed = if n % 2 == 0 { &own } else { &shared };
        feed.add(&feeds, &format!("s{}", n / OF_A_SESSION), uri).unwrap();
    }
    assert_eq!(own.add(&feeds, "other", "u:more"), Err(TooMany("the caller")));
    let kept: Vec<_> = (0..FEEDS_OF_A_CALLER)
        .map_while(|n| of(Some(&session(&format!("n{n}"), Some("s")))).ok())
        .map(|feed| feed.join("s".to_owned(), None))
        .collect();
    // `shared` and `own` are still used, and the feed of `b` has made room.
    assert_eq!(kept.len(), FEEDS_OF_A_CALLER - 2);
    assert_eq!(of(Some(&session("next", Some("s")))).unwrap_err(), TooMany("the caller"));
}
