//! Requests in flight, by the ids with which their clients cancel them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Maximum bytes of a request's id that is remembered. A request with a longer id cannot be cancelled.
const LONGEST_ID: usize = 64;

/// The requests in flight.
#[derive(Debug, Default)]
pub(crate) struct InFlight(Mutex<HashMap<Key, CancellationToken>>);

/// A session and its owner, and the JSON text of a request's id. The owner is part of the key so that a session id that
/// leaked cancels nothing of another caller.
type Key = (Box<str>, Box<str>);

/// A request in flight, forgotten when this is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    requests: Arc<InFlight>,
    key: Key,
    /// Cancelled by the client.
    cancelled: CancellationToken,
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a request. Returns none if its client could not name it: its id is in use, or very long.
    pub(crate) fn begin(self: &Arc<Self>, session: &str, id: &str) -> Option<Registered> {
        if id.len() > LONGEST_ID {
            return None;
        }
        let key: Key = (session.into(), id.into());
        let cancelled = CancellationToken::new();
        match self.lock().entry(key.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(free) => free.insert(cancelled.clone()),
        };
        Some(Registered { requests: Arc::clone(self), key, cancelled })
    }

    /// Cancels a request of a session, if it is in flight.
    pub(crate) fn cancel(&self, session: &str, id: &str) {
        if let Some(cancelled) = self.lock().get(&(session.into(), id.into())) {
            cancelled.cancel();
        }
    }
}

/// Waits until a client cancels its request. Waits forever for a request that is not registered.
pub(crate) async fn cancelled(request: Option<&Registered>) {
    match request {
        Some(request) => request.cancelled.cancelled().await,
        None => std::future::pending().await,
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.requests.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_session_that_sent_a_request_cancels_it() {
        let requests = Arc::<InFlight>::default();
        let mine = requests.begin("a", "1").unwrap();
        let yours = requests.begin("b", "1").unwrap();
        requests.cancel("b", "2");
        requests.cancel("c", "1");
        assert!(!mine.cancelled.is_cancelled() && !yours.cancelled.is_cancelled());
        requests.cancel("a", "1");
        assert!(mine.cancelled.is_cancelled() && !yours.cancelled.is_cancelled());
    }

    #[test]
    fn a_request_is_forgotten_at_its_end() {
        let requests = Arc::<InFlight>::default();
        let request = requests.begin("a", "1").unwrap();
        assert!(requests.begin("a", "1").is_none(), "an id in use names one request");
        drop(request);
        assert!(requests.lock().is_empty());
        assert!(requests.begin("a", &"1".repeat(LONGEST_ID + 1)).is_none());
        assert!(requests.lock().is_empty());
    }
}
