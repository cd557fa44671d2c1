//! What is known of a server: its era, its sessions, and which of its tools are withheld. Kept for each credential, since a
//! server may list other tools for another one, and a session belongs to who began it.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::header::HeaderValue;
use tokio::sync::Notify;

use super::Server;
use super::events::Connection;
use super::follow::Listed;
use super::pins::Verdict;
use super::wire::Letter;
use crate::mcp::level::Level;
use crate::recent::Recent;
use crate::upstream::auth::Authentication;

/// The most credentials of a service that are known at once. An exposition has one, and another one after each rotation.
const MAX_PEERS: usize = 1_024;
/// The most sessions for each credential.
const MAX_SESSIONS: usize = 1_024;
/// The most streams of events for each credential. Each is a connection.
const MAX_STREAMS: usize = 256;
/// How long callers do not wait for a server that did not open a session in time.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a comparison holds if the server does not say.
const VALID: Duration = Duration::from_secs(300);
/// How long a comparison holds at least, and at most, whatever the server says.
const VALID_BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3_600));

/// Returns how long a comparison holds, by the `ttlMs` of the list.
pub(super) fn validity(ttl_ms: Option<u64>) -> Duration {
    let (least, most) = VALID_BOUNDS;
    ttl_ms.map_or(VALID, |ttl| Duration::from_millis(ttl).clamp(least, most))
}

/// The credential that requests carry, for comparison only. Its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Identity {
    header: Option<HeaderValue>,
    query: Option<String>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

impl Identity {
    fn of(authentication: &Authentication<'_>) -> Self {
        let header = authentication.header.as_ref().map(|(_, value)| value.clone());
        Self { header, query: authentication.query.clone() }
    }
}

/// The peers of a service.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<Recent<Identity, Arc<Peer>>>);

impl Peers {
    /// Returns the peer for a credential. The one that was unused for longest goes if there are too many.
    pub(super) fn of(&self, authentication: &Authentication<'_>) -> Arc<Peer> {
        let mut known = self.lock();
        let identity = Identity::of(authentication);
        if let Some(peer) = known.used(&identity) {
            return Arc::clone(peer);
        }
        let peer = Arc::<Peer>::default();
        known.insert(identity, Arc::clone(&peer), MAX_PEERS);
        peer
    }

    /// Returns the peer for a credential, if there is one.
    pub(super) fn known(&self, authentication: &Authentication<'_>) -> Option<Arc<Peer>> {
        self.lock().get(&Identity::of(authentication)).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Recent<Identity, Arc<Peer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server, as one credential sees it.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// Locked while the server is asked for its era and its tools, so that one call asks for all.
    pub(super) asking: tokio::sync::Mutex<()>,
    /// Locked while a stream of events is opened, so that the calls of a caller open one.
    pub(super) opening: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    /// Wakes who waits for a list to be read, or for one that does not hold any more.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    server: Option<Server>,
    sessions: Recent<Arc<str>, Session>,
    /// The levels of log messages that the server was asked for in sessions that are not kept here.
    levels: Recent<Arc<str>, Level>,
    /// Until when no caller waits for the server to open a session, since it did not answer.
    silent_until: Option<Instant>,
    /// Whether a server of the modern era has refused a legacy handshake.
    is_modern_only: bool,
    /// The streams of callers, if the server speaks the transport of 2024-11-05.
    streams: Option<Recent<Arc<str>, Arc<Connection>>>,
    verdict: Option<Arc<Verdict>>,
    /// The tools of a server that is followed, as they were listed last.
    listed: Option<Arc<Listed>>,
    /// When the list of the comparison began to be read.
    listed_at: Option<Instant>,
    valid_until: Option<Instant>,
    /// When a comparison last ceased to hold before its time.
    expired_at: Option<Instant>,
    /// The level of log messages that a program was asked for.
    level: Option<Level>,
}

#[derive(Debug)]
struct Session {
    id: HeaderValue,
    /// The level of log messages that the server was asked for.
    level: Option<Level>,
    /// Ends the session on the server; none once the server has ended it.
    end: Option<Letter>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(letter) = self.end.take() {
            letter.end_session();
        }
    }
}

impl Peer {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the server, if it is known.
    pub(super) fn server(&self) -> Option<Server> {
        self.lock().server
    }

    /// Returns the server and the comparison of its tools, if that still holds.
    pub(super) fn ready(&self, now: Instant) -> Option<(Server, Arc<Verdict>)> {
        let state = self.lock();
        let verdict = state.verdict.as_ref().filter(|_| state.valid_until.is_some_and(|until| now < until))?;
        Some((state.server?, Arc::clone(verdict)))
    }

    /// Returns the last comparison, whether it still holds or not.
    pub(super) fn verdict(&self) -> Option<Arc<Verdict>> {
        self.lock().verdict.clone()
    }

    pub(super) fn set_server(&self, server: Server) {
        self.lock().server = Some(server);
    }

    /// Sets the comparison with a list that began to be read at `begun`, and holds for `validity` from then. Returns the last one.
    ///
    /// A list that was read while the server announced a change may be the one before the change, so it does not hold.
    pub(super) fn set_verdict(
        &self,
        verdict: &Arc<Verdict>,
        begun: Instant,
        validity: Duration,
    ) -> Option<Arc<Verdict>> {
        let mut state = self.lock();
        // Two lists may be read at once: by a call, and in the background.
        if state.listed_at.is_some_and(|listed| listed > begun) {
            return state.verdict.clone();
        }
        let holds = state.expired_at.is_none_or(|expired| expired < begun);
        state.listed_at = Some(begun);
        state.valid_until = holds.then(|| begun + validity);
        let before = state.verdict.replace(Arc::clone(verdict));
        drop(state);
        self.changed.notify_waiters();
        before
    }

    /// Sets the tools of a followed server, by a list that began to be read at `begun`. Returns whether they have changed.
    pub(super) fn set_listed(&self, listed: Listed, begun: Instant) -> bool {
        let mut state = self.lock();
        let is_older = state.listed_at.is_some_and(|listed| listed > begun);
        let changed = !is_older && state.listed.as_deref() != Some(&listed);
        if changed {
            state.listed = Some(Arc::new(listed));
        }
        changed
    }

    /// Returns the tools of a followed server, as they were listed last.
    pub(super) fn listed(&self) -> Option<Arc<Listed>> {
        self.lock().listed.clone()
    }

    /// Notes that the comparison does not hold any more. Its tools stay withheld until the next one.
    pub(super) fn expire(&self) {
        let mut state = self.lock();
        state.valid_until = None;
        state.expired_at = Some(Instant::now());
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits until the list should be read again: after this share of the time for which it holds, or as soon as it does not
    /// hold any more.
    pub(crate) async fn due(&self, share: f64) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let due = {
                let state = self.lock();
                let (Some(listed), Some(until)) = (state.listed_at, state.valid_until) else { return };
                listed + until.saturating_duration_since(listed).mul_f64(share)
            };
            if tokio::time::timeout_at(due.into(), changed).await.is_err() {
                return;
            }
        }
    }

    /// Waits until a list has been read that began to be read after `since`.
    pub(crate) async fn listed_after(&self, since: Instant) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.lock().listed_at.is_some_and(|listed| listed > since) {
                return;
            }
            changed.await;
        }
    }

    /// Forgets everything about the server except which tools are withheld.
    pub(super) fn forget(&self) {
        let mut state = self.lock();
        state.server = None;
        state.is_modern_only = false;
        state.sessions.clear();
        state.streams = None;
        state.valid_until = None;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns the session of a caller.
    pub(super) fn session(&self, caller: &str) -> Option<HeaderValue> {
        self.lock().sessions.used(caller).map(|session| session.id.clone())
    }

    /// Keeps the session of a caller. The one that was unused for longest goes if there are too many. `end` ends the session on the
    /// server when it is not kept any more.
    pub(super) fn keep_session(&self, caller: &Arc<str>, id: HeaderValue, end: Option<Letter>) {
        self.lock().sessions.insert(Arc::clone(caller), Session { id, level: None, end }, MAX_SESSIONS);
    }

    /// Notes that the server is asked for log messages of this level in a session; none for a program. Returns whether it was not
    /// asked for as much before. Calls with other levels share the session, so the least severe level is asked for.
    pub(super) fn lower_level(&self, caller: &Arc<str>, session: Option<&HeaderValue>, level: Level) -> bool {
        let mut state = self.lock();
        let state = &mut *state;
        let known = match session {
            None => &mut state.level,
            Some(id) => match state.sessions.get_mut(caller) {
                Some(session) if session.id == *id => &mut session.level,
                // The session travels with its caller.
                _ => {
                    let known = state.levels.used(caller).copied();
                    let is_lower = known.is_none_or(|known| level < known);
                    if is_lower {
                        state.levels.insert(Arc::clone(caller), level, MAX_SESSIONS);
                    }
                    return is_lower;
                }
            },
        };
        let is_lower = known.is_none_or(|known| level < known);
        if is_lower {
            *known = Some(level);
        }
        is_lower
    }

    /// Notes that the server did not answer in time when it was asked to open a session.
    pub(super) fn note_silent(&self, now: Instant) {
        self.lock().silent_until = Some(now + SILENCE);
    }

    /// Returns whether callers do not wait for the server to open a session.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        self.lock().silent_until.is_some_and(|until| now < until)
    }

    /// Notes that a server of the modern era has refused a legacy handshake.
    pub(super) fn note_modern_only(&self) {
        self.lock().is_modern_only = true;
    }

    /// Returns whether a server of the modern era has refused a legacy handshake.
    pub(super) fn is_modern_only(&self) -> bool {
        self.lock().is_modern_only
    }

    /// Returns whether the server speaks the transport of 2024-11-05.
    pub(super) fn has_streams(&self) -> bool {
        self.lock().streams.is_some()
    }

    /// Returns the stream of a caller, if it is open.
    pub(super) fn stream(&self, caller: &str) -> Option<Arc<Connection>> {
        let mut state = self.lock();
        let connection = state.streams.as_mut()?.used(caller)?;
        (!connection.has_ended()).then(|| Arc::clone(connection))
    }

    /// Keeps the stream of a caller. If there are too many, those that ended go, or else the one that was unused for longest.
    /// A call keeps its stream.
    pub(super) fn keep_stream(&self, caller: &Arc<str>, connection: &Arc<Connection>) {
        let mut state = self.lock();
        let streams = state.streams.get_or_insert_default();
        if streams.is_full_for(caller, MAX_STREAMS) {
            streams.retain(|stream| !stream.has_ended());
        }
        streams.insert(Arc::clone(caller), Arc::clone(connection), MAX_STREAMS);
    }

    /// Drops the session of a caller, which the server has ended, if it is still this one.
    pub(super) fn end_session(&self, caller: &str, id: &HeaderValue) {
        let mut state = self.lock();
        if state.sessions.get(caller).is_some_and(|session| session.id == *id)
            && let Some(mut session) = state.sessions.remove(caller)
        {
            session.end = None;
        }
    }
}

#[cfg(test)]
#[path = "tests/peers.rs"]
mod tests;
