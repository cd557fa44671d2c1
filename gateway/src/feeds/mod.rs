//! What an MCP server announces to one caller outside of calls: updates of resources that the caller has subscribed to, and log
//! messages of the caller's legacy session.
//!
//! ```text
//! mod   subscriptions, and what is passed on to them
//! task  keeps a stream of the server open while a subscription needs it
//! ```
//!
//! A [`Feed`] belongs to one session with the server: to a session of a caller where the server's session id travels in its id
//! (`sealed`), and otherwise to a caller of an exposition. The gateway that a client subscribed at keeps the subscription, and no
//! other replica knows it.

mod task;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tamis_config::ExpositionId;
use tokio::sync::{Semaphore, watch};

use crate::call::Caller;
use crate::gateway::Gateway;
use crate::mcp::level::Level;
use crate::sealed::CallerSession;

/// Bytes of the URI of a subscription.
pub(crate) const MAX_URI: usize = 2 << 10;
/// Subscriptions of one session or stream.
pub(crate) const OF_A_SESSION: usize = 64;
/// Subscriptions of all sessions and streams of one caller of one exposition.
const OF_A_CALLER: usize = 256;
/// Subscriptions of all callers of one exposition.
const OF_AN_EXPOSITION: usize = 1_024;
/// Subscriptions of all expositions.
const OF_ALL: usize = 8_192;
/// Feeds of all callers.
const MAX_FEEDS: usize = 4_096;
/// Feeds of one caller of one exposition: each may take one of the [`STREAMS`].
const FEEDS_OF_A_CALLER: usize = 64;
/// Streams of servers that are open at once.
const STREAMS: usize = 256;
/// Log messages that wait for a session, and their bytes. The oldest are dropped beyond that.
const MAX_LOGS: usize = 32;
const MAX_LOG_BYTES: usize = 16 << 10;
/// How long a session keeps its subscriptions while it has no stream open.
const ABSENCE: Duration = Duration::from_secs(300);

/// The beginning of the names of streams of modern clients.
const STREAM_NAME: &str = "listen ";

/// The feeds of a gateway.
#[derive(Debug)]
pub(crate) struct Feeds {
    feeds: Mutex<HashMap<Key, Arc<Feed>>>,
    streams: Semaphore,
    /// Counts the streams of modern clients.
    listeners: AtomicU64,
}

/// The exposition, the caller, and the name of the caller's session, which is empty where callers share the server's.
type Key = (Arc<ExpositionId>, String, Box<str>);

impl Default for Feeds {
    fn default() -> Self {
        Self { feeds: Mutex::default(), streams: Semaphore::new(STREAMS), listeners: AtomicU64::new(0) }
    }
}

/// There are too many subscriptions. Holds whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany(pub(crate) &'static str);

impl Feeds {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Arc<Feed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the feed of a caller of an exposition, or of a session of the caller that has a session of the server for itself.
    ///
    /// # Errors
    /// [`TooMany`] callers have one, or the caller has too many.
    pub(crate) fn of(
        &self,
        id: &Arc<ExpositionId>,
        caller: &Caller,
        session: Option<&CallerSession>,
    ) -> Result<Arc<Feed>, TooMany> {
        let key = key(id, caller, session);
        let mut feeds = self.lock();
        if let Some(feed) = feeds.get(&key) {
            return Ok(Arc::clone(feed));
        }
        let of_caller = |feeds: &HashMap<Key, Arc<Feed>>| {
            feeds.keys().filter(|(exposition, caller, _)| (exposition, caller) == (&key.0, &key.1)).count()
        };
        if feeds.len() >= MAX_FEEDS || of_caller(&feeds) >= FEEDS_OF_A_CALLER {
            let now = Instant::now();
            feeds.retain(|_, feed| Arc::strong_count(feed) > 1 || feed.is_used(now));
            if feeds.len() >= MAX_FEEDS {
                return Err(TooMany("the gateway"));
            }
            if of_caller(&feeds) >= FEEDS_OF_A_CALLER {
                return Err(TooMany("the caller"));
            }
        }
        let session = session.filter(|session| has_own(session)).cloned();
        let feed = Arc::new(Feed::new(Arc::clone(id), caller.clone(), session));
        feeds.insert(key, Arc::clone(&feed));
        Ok(feed)
    }

    /// Returns the feed of a caller or of its session, if there is one.
    pub(crate) fn known(
        &self,
        id: &Arc<ExpositionId>,
        caller: &Caller,
        session: Option<&CallerSession>,
    ) -> Option<Arc<Feed>> {
        self.lock().get(&key(id, caller, session)).cloned()
    }

    /// Checks that a caller, its exposition, and all together, may have more subscriptions.
    fn check(&self, id: &ExpositionId, caller: &Caller) -> Result<(), TooMany> {
        let (mut all, mut own, mut of_caller) = (0, 0, 0);
        let listener = caller.listener();
        for ((exposition, caller, _), feed) in &*self.lock() {
            let count = feed.lock().count();
            all += count;
            if **exposition == *id {
                own += count;
                of_caller += if *caller == listener { count } else { 0 };
            }
        }
        match () {
            () if of_caller >= OF_A_CALLER => Err(TooMany("the caller")),
            () if own >= OF_AN_EXPOSITION => Err(TooMany("the exposition")),
            () if all >= OF_ALL => Err(TooMany("the gateway")),
            () => Ok(()),
        }
    }

    /// Returns a name for a stream of a modern client. No session has such a name.
    pub(crate) fn name_stream(&self) -> String {
        format!("{STREAM_NAME}{}", self.listeners.fetch_add(1, Ordering::Relaxed))
    }
}

/// Returns whether a session of a caller has a session of the server for itself.
fn has_own(session: &CallerSession) -> bool {
    session.server.as_ref().is_some_and(|server| server.id.is_some())
}

fn key(id: &Arc<ExpositionId>, caller: &Caller, session: Option<&CallerSession>) -> Key {
    let own = session.filter(|session| has_own(session)).map(|session| session.name.clone());
    (Arc::clone(id), caller.listener(), own.unwrap_or_default())
}

/// What a server announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Announced {
    /// A resource was updated.
    Updated(Arc<str>),
    /// A log message, as a complete notification.
    Log(Level, Arc<str>),
    /// The server has ended the session.
    Ended,
}

/// What a server said to a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It announces updates.
    Accepted,
    /// It answered with an error of this code.
    Refused(i64),
    /// It accepted the subscription in a stream that has ended.
    Lost,
}

/// The subscriptions of one caller of one exposition, or of one of its sessions, and the stream of the server that they need.
#[derive(Debug)]
pub(crate) struct Feed {
    id: Arc<ExpositionId>,
    caller: Caller,
    /// The session of the caller that has a session of the server for itself.
    session: Option<CallerSession>,
    state: Mutex<State>,
    /// Notified of every change of the subscriptions, and of every answer of the server to one.
    changed: watch::Sender<()>,
    /// Notified when something waits for a stream.
    arrived: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// By session, or by the name of a stream.
    subscribers: HashMap<Box<str>, Subscriber>,
    verdicts: HashMap<Arc<str>, Verdict>,
    /// Whether a stream of the server is open.
    is_open: bool,
    /// Whether the last stream of the server ended, or could not be opened.
    has_failed: bool,
    /// Whether the server has no such streams, as far as is known. It is asked again after a while.
    is_unsupported: bool,
    /// Whether a task keeps the stream.
    is_running: bool,
    /// Whether the server has ended the session, which belongs to one session of the caller.
    has_ended: bool,
}

/// A legacy session, or a stream of a modern client.
#[derive(Debug)]
struct Subscriber {
    uris: BTreeSet<Arc<str>>,
    /// The least severe log messages that the session wants.
    level: Option<Level>,
    /// Streams to the client.
    open: usize,
    /// When it was used last.
    seen: Instant,
    /// Resources that were updated, in order. Each is there once, so there are no more than subscriptions.
    updated: VecDeque<Arc<str>>,
    /// Log messages, the oldest first.
    logs: VecDeque<(Level, Arc<str>)>,
    log_bytes: usize,
}

impl Subscriber {
    fn new(now: Instant) -> Self {
        let (updated, logs) = (VecDeque::new(), VecDeque::new());
        Self { uris: BTreeSet::new(), level: None, open: 0, seen: now, updated, logs, log_bytes: 0 }
    }

    /// Keeps an announcement, if the session or stream wants it. Log messages are for a stream that is open. An update waits for the
    /// next one.
    fn take_in(&mut self, announced: &Announced) {
        match announced {
            Announced::Updated(uri) => {
                if self.uris.contains(uri) && !self.updated.contains(uri) {
                    self.updated.push_back(Arc::clone(uri));
                }
            }
            Announced::Log(level, message) => {
                if self.open == 0 || self.level.is_none_or(|least| *level < least) {
                    return;
                }
                self.log_bytes += message.len();
                self.logs.push_back((*level, Arc::clone(message)));
                while self.logs.len() > MAX_LOGS || self.log_bytes > MAX_LOG_BYTES {
                    let Some((_, oldest)) = self.logs.pop_front() else { break };
                    self.log_bytes -= oldest.len();
                }
            }
            // The state says so to every stream.
            Announced::Ended => {}
        }
    }

    /// Returns what waits, and removes it: each announcement is for one stream of the session.
    fn take_out(&mut self) -> Option<Announced> {
        if let Some((level, message)) = self.logs.pop_front() {
            self.log_bytes -= message.len();
            return Some(Announced::Log(level, message));
        }
        self.updated.pop_front().map(Announced::Updated)
    }

    fn is_present(&self, now: Instant) -> bool {
        self.open > 0 || now.saturating_duration_since(self.seen) < ABSENCE
    }
}

impl State {
    fn count(&self) -> usize {
        self.subscribers.values().map(|subscriber| subscriber.uris.len()).sum()
    }

    fn subscriber(&mut self, name: &str, now: Instant) -> &mut Subscriber {
        let subscriber = self.subscribers.entry(name.into()).or_insert_with(|| Subscriber::new(now));
        subscriber.seen = now;
        subscriber
    }

    /// Forgets the subscribers that have been absent for too long.
    fn prune(&mut self, now: Instant) {
        self.subscribers.retain(|_, subscriber| subscriber.is_present(now));
        self.prune_verdicts();
    }

    /// Forgets a subscriber that has neither a stream nor a subscription.
    fn forget_if_idle(&mut self, name: &str) {
        if self.subscribers.get(name).is_some_and(|subscriber| subscriber.open == 0 && subscriber.uris.is_empty()) {
            self.subscribers.remove(name);
        }
        self.prune_verdicts();
    }

    fn prune_verdicts(&mut self) {
        let Self { subscribers, verdicts, .. } = self;
        verdicts.retain(|uri, _| subscribers.values().any(|subscriber| subscriber.uris.contains(uri)));
    }

    /// Returns whether a subscription or a level needs a stream of the server.
    fn wants_stream(&self) -> bool {
        if self.has_ended {
            return false;
        }
        let wants = |subscriber: &Subscriber| {
            !subscriber.uris.is_empty() || (subscriber.level.is_some() && subscriber.open > 0)
        };
        self.subscribers.values().any(wants)
    }
}

impl Feed {
    fn new(id: Arc<ExpositionId>, caller: Caller, session: Option<CallerSession>) -> Self {
        let (changed, arrived) = (watch::Sender::new(()), watch::Sender::new(()));
        Self { id, caller, session, state: Mutex::default(), changed, arrived }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_used(&self, now: Instant) -> bool {
        let mut state = self.lock();
        state.prune(now);
        state.is_running || !state.subscribers.is_empty()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changed.send_replace(());
        changed
    }

    /// Subscribes a session or a stream to a resource. A verdict of the server follows.
    ///
    /// # Errors
    /// [`TooMany`].
    pub(crate) fn add(&self, feeds: &Feeds, name: &str, uri: &str) -> Result<(), TooMany> {
        let is_new = {
            let state = self.lock();
            let of_session = state.subscribers.get(name).map_or(0, |subscriber| subscriber.uris.len());
            let is_new = state.subscribers.get(name).is_none_or(|subscriber| !subscriber.uris.contains(uri));
            if is_new && of_session >= OF_A_SESSION {
                return Err(TooMany("the session"));
            }
            is_new
        };
        if is_new {
            feeds.check(&self.id, &self.caller)?;
        }
        self.change(|state| {
            // What was refused before may be accepted now.
            if matches!(state.verdicts.get(uri), Some(Verdict::Refused(_))) {
                state.verdicts.remove(uri);
            }
            state.subscriber(name, Instant::now()).uris.insert(uri.into());
            if state.is_unsupported {
                state.verdicts.insert(uri.into(), Verdict::Refused(METHOD_NOT_FOUND));
            }
        });
        Ok(())
    }

    /// Ends the subscription of a session or a stream to a resource.
    pub(crate) fn remove(&self, name: &str, uri: &str) {
        self.change(|state| {
            if let Some(subscriber) = state.subscribers.get_mut(name) {
                subscriber.uris.remove(uri);
                subscriber.updated.retain(|updated| **updated != *uri);
            }
            state.forget_if_idle(name);
        });
    }

    /// Sets the level of log messages of a session, if the session has a stream or a subscription.
    pub(crate) fn set_level(&self, name: &str, level: Level) {
        self.change(|state| {
            if let Some(subscriber) = state.subscribers.get_mut(name) {
                subscriber.level = Some(level);
            }
        });
    }

    /// Returns what passes announcements to a stream of a session, or to a stream by itself. `level`: that of the session.
    pub(crate) fn join(self: &Arc<Self>, name: String, level: Option<Level>) -> Listener {
        let arrived = self.arrived.subscribe();
        self.change(|state| {
            let subscriber = state.subscriber(&name, Instant::now());
            subscriber.open += 1;
            subscriber.level = level.or(subscriber.level);
        });
        Listener { feed: Arc::clone(self), name, arrived }
    }

    /// Notes that no task keeps the stream any more, unless one is needed. Returns whether the task is over.
    fn stop_if_unwanted(&self) -> bool {
        let mut state = self.lock();
        if !state.wants_stream() {
            state.is_running = false;
        }
        !state.is_running
    }

    /// Starts the task that keeps a stream of the server, if one is needed and no task runs.
    pub(crate) fn start(self: &Arc<Self>, gateway: &Arc<Gateway>) {
        {
            let mut state = self.lock();
            if state.is_running || !state.wants_stream() {
                return;
            }
            state.is_running = true;
        }
        tokio::spawn(task::run(Arc::clone(gateway), task::Running::new(self)));
    }

    /// Waits for what the server says to a subscription; none if it says nothing in time.
    pub(crate) async fn verdict(&self, uri: &str, within: Duration) -> Option<Verdict> {
        let mut changed = self.changed.subscribe();
        let said = async {
            loop {
                changed.borrow_and_update();
                if let Some(verdict @ (Verdict::Accepted | Verdict::Refused(_))) = self.lock().verdicts.get(uri) {
                    return *verdict;
                }
                // The sender lives as long as the feed.
                let _ = changed.changed().await;
            }
        };
        tokio::time::timeout(within, said).await.ok()
    }

    /// Waits until a stream of the server is open, if one is needed and the server has any.
    pub(crate) async fn opened(&self, within: Duration) {
        let mut changed = self.changed.subscribe();
        let opened = async {
            loop {
                changed.borrow_and_update();
                {
                    let state = self.lock();
                    if state.is_open || state.has_failed || !state.is_running || !state.wants_stream() {
                        return;
                    }
                }
                let _ = changed.changed().await;
            }
        };
        let _ = tokio::time::timeout(within, opened).await;
    }
}

/// For the side that reads the server's stream.
impl Feed {
    /// Returns the resources that have a subscription and that the server has not refused.
    pub(crate) fn wanted(&self) -> BTreeSet<Arc<str>> {
        let state = self.lock();
        let uris = state.subscribers.values().flat_map(|subscriber| &subscriber.uris);
        uris.filter(|uri| !matches!(state.verdicts.get(*uri), Some(Verdict::Refused(_)))).cloned().collect()
    }

    /// Returns whether a subscription or a level needs a stream of the server.
    pub(crate) fn wants_stream(&self) -> bool {
        self.lock().wants_stream()
    }

    /// Subscribes to changes of the subscriptions.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Notes that a stream of the server is about to be opened.
    fn opening(&self) {
        self.change(|state| state.is_unsupported = false);
    }

    /// Notes that a stream of the server is open.
    pub(crate) fn set_open(&self) {
        self.change(|state| (state.is_open, state.has_failed) = (true, false));
    }

    /// Notes what the server said to a subscription. After a stream was lost, an update may have been missed.
    pub(crate) fn settle(&self, uri: &Arc<str>, verdict: Verdict) {
        let before = self.change(|state| {
            let is_wanted = state.subscribers.values().any(|subscriber| subscriber.uris.contains(uri));
            if is_wanted { state.verdicts.insert(Arc::clone(uri), verdict) } else { None }
        });
        if (before, verdict) == (Some(Verdict::Lost), Verdict::Accepted) {
            self.announce(&Announced::Updated(Arc::clone(uri)));
        }
    }

    /// Passes an announcement on to the sessions and streams that want it.
    pub(crate) fn announce(&self, announced: &Announced) {
        self.lock().subscribers.values_mut().for_each(|subscriber| subscriber.take_in(announced));
        self.arrived.send_replace(());
    }

    /// Notes that the server has ended the session of the caller's session. The streams of that session end, and its
    /// subscriptions are refused.
    pub(crate) fn end_session(&self) {
        self.change(|state| {
            state.has_ended = true;
            let State { subscribers, verdicts, .. } = state;
            for uri in subscribers.values().flat_map(|subscriber| &subscriber.uris) {
                verdicts.insert(Arc::clone(uri), Verdict::Refused(SESSION_ENDED));
            }
        });
        self.arrived.send_replace(());
    }

    fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// Notes that the stream of the server has ended. `is_unsupported`: the server has no such streams.
    fn closed(&self, is_unsupported: bool) {
        self.change(|state| {
            (state.is_open, state.has_failed) = (false, state.wants_stream());
            state.is_unsupported = is_unsupported;
            let State { subscribers, verdicts, .. } = state;
            verdicts.values_mut().filter(|verdict| **verdict == Verdict::Accepted).for_each(|v| *v = Verdict::Lost);
            if is_unsupported {
                for uri in subscribers.values().flat_map(|subscriber| &subscriber.uris) {
                    verdicts.insert(Arc::clone(uri), Verdict::Refused(METHOD_NOT_FOUND));
                }
            }
        });
    }
}

/// The code of an answer in a session that has ended.
const SESSION_ENDED: i64 = -32001;
/// The code of an answer to a method that a server does not have.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// Passes announcements to one stream. Dropping it ends the subscriptions of a stream; those of a session stay for a while.
#[derive(Debug)]
pub(crate) struct Listener {
    feed: Arc<Feed>,
    name: String,
    arrived: watch::Receiver<()>,
}

impl Listener {
    /// Waits for the next announcement that the session or the stream wants. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Announced {
        loop {
            self.arrived.borrow_and_update();
            let waiting = self.feed.lock().subscribers.get_mut(&*self.name).and_then(Subscriber::take_out);
            if let Some(announced) = waiting {
                return announced;
            }
            if self.feed.has_ended() {
                return Announced::Ended;
            }
            // The sender lives as long as the feed.
            let _ = self.arrived.changed().await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.feed.change(|state| {
            if let Some(subscriber) = state.subscribers.get_mut(&*self.name) {
                subscriber.open -= 1;
                subscriber.seen = Instant::now();
                if subscriber.open == 0 {
                    subscriber.logs.clear();
                    subscriber.log_bytes = 0;
                }
                if self.name.starts_with(STREAM_NAME) {
                    subscriber.uris.clear();
                }
            }
            state.forget_if_idle(&self.name);
        });
    }
}

#[cfg(test)]
mod tests;
