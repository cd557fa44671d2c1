// A field of `Authentication` is private.
#![allow(clippy::field_reassign_with_default)]

use http::header::AUTHORIZATION;

use super::*;

fn bearing(value: &str) -> Authentication<'static> {
    let mut authentication = Authentication::default();
    authentication.header = Some((AUTHORIZATION, value.parse().unwrap()));
    authentication
}

#[test]
fn each_credential_has_a_peer_and_the_oldest_goes() {
    let peers = Peers::default();
    let none = peers.of(&Authentication::default());
    let first = peers.of(&bearing("0"));
    assert!(Arc::ptr_eq(&first, &peers.of(&bearing("0"))) && !Arc::ptr_eq(&first, &none));
    let mut query = Authentication::default();
    query.query = Some("key=0".to_owned());
    assert!(!Arc::ptr_eq(&none, &peers.of(&query)));
    for number in 1..=MAX_PEERS {
        peers.of(&bearing(&number.to_string()));
    }
    assert_eq!(peers.lock().len(), MAX_PEERS);
    assert!(peers.known(&bearing("0")).is_none() && peers.known(&bearing("9")).is_some());
    assert!(!format!("{peers:?}").contains("key=0"));
}

#[test]
fn the_session_that_was_unused_for_longest_goes() {
    let peer = Peer::default();
    let name = |number: usize| Arc::<str>::from(number.to_string());
    let id = |number: usize| HeaderValue::from(number);
    for number in 0..MAX_SESSIONS {
        peer.keep_session(&name(number), id(number), None);
    }
    assert_eq!(peer.session("0"), Some(id(0)));
    peer.keep_session(&name(5), id(500), None);
    peer.keep_session(&name(MAX_SESSIONS), id(MAX_SESSIONS), None);
    assert_eq!((peer.session("1"), peer.session("0"), peer.session("5")), (None, Some(id(0)), Some(id(500))));
    assert_eq!(peer.lock().sessions.len(), MAX_SESSIONS);
    peer.end_session("5", &id(5));
    assert_eq!(peer.session("5"), Some(id(500)), "another session than the one that ended");
    peer.end_session("5", &id(500));
    assert_eq!(peer.session("5"), None);
    peer.set_server(Server::Modern);
    peer.forget();
    assert_eq!((peer.server(), peer.session("0")), (None, None));
}

#[test]
fn a_comparison_holds_for_its_time() {
    assert_eq!(validity(None), VALID);
    for (ttl, seconds) in [(0, 1), (1_000, 1), (90_000, 90), (u64::MAX, 3_600)] {
        assert_eq!(validity(Some(ttl)), Duration::from_secs(seconds), "{ttl}");
    }
    let (peer, now, verdict) = (Peer::default(), Instant::now(), Arc::<Verdict>::default());
    let later = now + Duration::from_secs(1);
    peer.set_server(Server::Modern);
    assert!(peer.ready(now).is_none());
    assert!(peer.set_verdict(&verdict, now, Duration::from_secs(1)).is_none());
    assert!(peer.ready(now).is_some() && peer.ready(later).is_none());
    peer.expire();
    assert!(peer.ready(now).is_none() && peer.verdict().is_some());
}
