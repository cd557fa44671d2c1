//! Session ids of the legacy era: names that a client gets with the handshake, and nothing behind them.
//!
//! Published clients need one: the Python SDK and rmcp open the stream on which `list_changed` comes only with a session
//! id, and `notifications/cancelled` names a call by a small number that every client counts up from, so that the id is
//! what ties it to its sender. No state is kept for an id: any well-formed one is good at any replica, none is asked
//! for, and since nothing is there to be ended, DELETE is refused.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use tokio_util::sync::CancellationToken;

/// The header that carries the id.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Hex digits of an id: 128 bits that nobody guesses.
const DIGITS: usize = 32;
/// Bytes of a request's id that are remembered; a longer one cannot be cancelled.
const LONGEST_REQUEST: usize = 64;

/// A fresh id; none where the system gives no random numbers.
pub(super) fn issue() -> Option<HeaderValue> {
    let mut bytes = [0; DIGITS / 2];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    let mut id = String::with_capacity(DIGITS);
    for byte in bytes {
        let _ = write!(id, "{byte:02x}");
    }
    HeaderValue::from_str(&id).ok()
}

/// The id that a request names, if it is one of ours by its shape.
pub(super) fn named(headers: &HeaderMap) -> Option<&str> {
    let id = headers.get(SESSION)?.to_str().ok()?;
    (id.len() == DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(id)
}

/// Calls under way, by what a client cancels them with.
#[derive(Debug, Default)]
pub(crate) struct Cancellable(Mutex<HashMap<Key, CancellationToken>>);

/// A session, whose it is (exposition and caller), and the JSON text of a request's id. An id that has leaked cancels
/// nothing of another caller's.
type Key = (Box<str>, Box<str>, Box<str>);

/// One call under way; it is forgotten when this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay<'a> {
    calls: &'a Cancellable,
    key: Key,
    /// Set off by the client.
    pub(super) cancelled: CancellationToken,
}

impl Cancellable {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a call. None where its client could not name it: an id that is in use, or very long.
    pub(super) fn begin(&self, session: &str, holder: &str, request: &str) -> Option<UnderWay<'_>> {
        if request.len() > LONGEST_REQUEST {
            return None;
        }
        let key: Key = (session.into(), holder.into(), request.into());
        let cancelled = CancellationToken::new();
        match self.lock().entry(key.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(free) => free.insert(cancelled.clone()),
        };
        Some(UnderWay { calls: self, key, cancelled })
    }

    /// Cancels a call of a session, if it is under way.
    pub(super) fn cancel(&self, session: &str, holder: &str, request: &str) {
        if let Some(call) = self.lock().get(&(session.into(), holder.into(), request.into())) {
            call.cancel();
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_fresh_and_known_by_their_shape() {
        let (one, other) = (issue().unwrap(), issue().unwrap());
        assert_ne!(one, other);
        let headers = HeaderMap::from_iter([(SESSION, one.clone())]);
        assert_eq!(named(&headers), one.to_str().ok());
        for strange in ["", "abc", "g0000000000000000000000000000000", "../../../../../../../../../../.."] {
            let headers = HeaderMap::from_iter([(SESSION, HeaderValue::from_static(strange))]);
            assert_eq!(named(&headers), None, "{strange}");
        }
        assert_eq!(named(&HeaderMap::new()), None);
    }

    #[test]
    fn only_the_session_that_called_cancels() {
        let calls = Cancellable::default();
        let mine = calls.begin("a", "x", "1").unwrap();
        let yours = calls.begin("b", "x", "1").unwrap();
        calls.cancel("b", "x", "2");
        calls.cancel("c", "x", "1");
        calls.cancel("a", "y", "1");
        assert!(!mine.cancelled.is_cancelled() && !yours.cancelled.is_cancelled());
        calls.cancel("a", "x", "1");
        assert!(mine.cancelled.is_cancelled() && !yours.cancelled.is_cancelled());
    }

    #[test]
    fn a_call_is_forgotten_at_its_end() {
        let calls = Cancellable::default();
        let call = calls.begin("a", "x", "1").unwrap();
        assert!(calls.begin("a", "x", "1").is_none(), "an id in use names one call");
        drop(call);
        assert!(calls.lock().is_empty());
        assert!(calls.begin("a", "x", &"1".repeat(LONGEST_REQUEST + 1)).is_none());
        assert!(calls.lock().is_empty());
    }
}
