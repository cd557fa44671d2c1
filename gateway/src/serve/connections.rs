//! The connections of one listener: how many, from which peers, and which are closed to make room.
//!
//! [`Table`] decides and is pure. [`Connections`] is the lock around it, with the signals that end connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::deadlines::{Deadlines, Due};
use super::signal::{End, Signal};
use crate::workers::Load;

/// One in this many connections is closed at once when there is no room.
const EVICTED_PART: usize = 16;

/// Bounds of one listener's connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Concurrent connections.
    pub(super) connections: usize,
    /// How long a connection may be open without a request.
    pub(super) idle: Duration,
    /// How long a client may take to read an answer, without the time for its size.
    pub(super) answer: Duration,
    /// Bytes of an answer for which a client gets one more second.
    pub(super) rate: u32,
}

impl Bounds {
    /// Maximum number of connections from one address, so that none has all places. It is a large part, because behind a proxy
    /// all callers have one address.
    fn per_peer(&self) -> usize {
        (self.connections - self.connections / 4).max(1)
    }

    /// Interval of [`Connections::sweep`].
    pub(super) fn tick(&self) -> Duration {
        (self.idle / 4).clamp(self.answer / 32, self.answer / 6).max(Duration::from_millis(10))
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    peer: Peer,
    started: Instant,
    /// Whether there has been a request.
    has_begun: AtomicBool,
    /// Requests in flight, including streams.
    busy: AtomicU32,
    /// When the last request ended, or the connection was accepted, in milliseconds since `started`.
    idle_since: AtomicU64,
    deadlines: Deadlines,
    bounds: Bounds,
    /// What the worker that serves the connection has to do.
    load: Arc<Load>,
    /// Ends the connection.
    pub(super) signal: Signal,
}

/// The peer of a connection: an IPv4 address, or the /64 network that one IPv6 customer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Peer(IpAddr);

impl Peer {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                Self(std::net::Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
            v4 @ IpAddr::V4(_) => Self(v4),
        }
    }
}

impl Connection {
    fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }

    /// Returns whether there has been a request.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Begins a request.
    pub(super) fn begin(self: &Arc<Self>) -> Exchange {
        self.has_begun.store(true, Ordering::Relaxed);
        self.busy.fetch_add(1, Ordering::AcqRel);
        self.load.request_began();
        Exchange { connection: Arc::clone(self), due: None }
    }
}

/// A request, from its headers to the last byte of its answer.
#[derive(Debug)]
pub(super) struct Exchange {
    connection: Arc<Connection>,
    due: Option<Due>,
}

impl Exchange {
    /// Begins to write the answer, of this many bytes.
    pub(super) fn answered(&mut self, bytes: usize) {
        let Self { connection, due } = self;
        let bounds = connection.bounds;
        let time = bounds.answer + Duration::from_secs(bytes as u64 / u64::from(bounds.rate.max(1)));
        due.get_or_insert_with(|| connection.deadlines.begin(time, bounds.tick()));
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(due) = self.due {
            self.connection.deadlines.end(due);
        }
        self.connection.idle_since.store(self.connection.now(), Ordering::Relaxed);
        self.connection.busy.fetch_sub(1, Ordering::AcqRel);
        self.connection.load.request_ended();
    }
}

/// Why the gateway closed a connection. The label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// It was idle, and another connection took its place.
    Evicted,
    /// Its peer did not read an answer in time.
    Slow,
    /// It was idle for too long.
    Idle,
}

impl Closed {
    pub(crate) const ALL: [Self; 3] = [Self::Evicted, Self::Slow, Self::Idle];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::Slow => "slow",
            Self::Idle => "idle",
        }
    }
}

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Every connection has a request in flight.
    Full,
    /// Its peer has its maximum number of connections.
    Peer,
}

/// The open connections.
#[derive(Debug, Default)]
struct Table {
    open: HashMap<u64, Arc<Connection>>,
    peers: HashMap<Peer, usize>,
    next: u64,
}

impl Table {
    fn insert(&mut self, connection: Arc<Connection>) -> u64 {
        *self.peers.entry(connection.peer).or_default() += 1;
        self.next += 1;
        self.open.insert(self.next, connection);
        self.next
    }

    fn remove(&mut self, id: u64) -> Option<Arc<Connection>> {
        let connection = self.open.remove(&id)?;
        if let Some(count) = self.peers.get_mut(&connection.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&connection.peer);
            }
        }
        Some(connection)
    }

    /// Returns the idle connections to close first, at most `count`: the oldest of the peer that has the most, or of the peer
    /// `of`.
    fn idle(&self, count: usize, of: Option<Peer>) -> Vec<u64> {
        let candidates = self.open.iter().filter(|(_, connection)| of.is_none_or(|peer| peer == connection.peer));
        let mut idle: Vec<_> = candidates
            .filter(|(_, connection)| connection.is_idle())
            .map(|(id, connection)| {
                let others = self.peers.get(&connection.peer).copied().unwrap_or_default();
                (std::cmp::Reverse(others), connection.idle_since.load(Ordering::Relaxed), *id)
            })
            .collect();
        idle.sort_unstable();
        idle.into_iter().take(count).map(|(_, _, id)| id).collect()
    }
}

/// The connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    bounds: Bounds,
    started: Instant,
    table: Mutex<Table>,
}

/// A place among the connections, released when dropped.
#[derive(Debug)]
pub(super) struct Place {
    connections: Arc<Connections>,
    id: u64,
    pub(super) connection: Arc<Connection>,
}

impl Drop for Place {
    fn drop(&mut self) {
        // It may have been evicted.
        self.connections.table().remove(self.id);
    }
}

impl Connections {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, started: Instant::now(), table: Mutex::default() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection that the worker of `load` serves, and closes idle ones if there is no room. Returns how many were
    /// closed.
    ///
    /// # Errors
    /// [`Refused`] if there is no room, and no idle connection to close.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr, load: &Arc<Load>) -> (usize, Result<Place, Refused>) {
        let peer = Peer::of(address);
        let mut table = self.table();
        let mut evicted = 0;
        let of_peer = table.peers.get(&peer).copied().unwrap_or_default();
        let wanted = match (of_peer >= self.bounds.per_peer(), table.open.len() >= self.bounds.connections) {
            (true, _) => Some((Some(peer), Refused::Peer)),
            (false, true) => Some((None, Refused::Full)),
            (false, false) => None,
        };
        if let Some((of, refused)) = wanted {
            evicted = close(&mut table, self.bounds.connections.div_ceil(EVICTED_PART), of);
            if evicted == 0 {
                return (0, Err(refused));
            }
        }
        let connection = Arc::new(Connection {
            peer,
            started: self.started,
            has_begun: AtomicBool::new(false),
            busy: AtomicU32::new(0),
            idle_since: AtomicU64::new(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)),
            deadlines: Deadlines::default(),
            bounds: self.bounds,
            load: Arc::clone(load),
            signal: Signal::default(),
        });
        let id = table.insert(Arc::clone(&connection));
        (evicted, Ok(Place { connections: Arc::clone(self), id, connection }))
    }

    /// Closes idle connections because the process has no file descriptors left. Returns how many.
    pub(super) fn make_room(&self) -> usize {
        let mut table = self.table();
        let count = table.open.len().div_ceil(EVICTED_PART);
        close(&mut table, count, None)
    }

    /// Ends all connections.
    pub(super) fn end_all(&self, end: End) {
        for connection in self.table().open.values() {
            connection.signal.send(end);
        }
    }

    /// The number of open connections.
    pub(super) fn len(&self) -> usize {
        self.table().open.len()
    }

    /// Closes connections whose peers read too slowly, and those that were idle for too long. Called once a tick.
    pub(super) fn sweep(&self, closed: impl Fn(Closed)) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let longest = u64::try_from(self.bounds.idle.as_millis()).unwrap_or(u64::MAX);
        for connection in self.table().open.values() {
            if connection.deadlines.tick() {
                if connection.signal.get() != Some(End::Now) {
                    closed(Closed::Slow);
                }
                connection.signal.send(End::Now);
            } else if connection.is_idle()
                && now.saturating_sub(connection.idle_since.load(Ordering::Relaxed)) > longest
            {
                // A peer that ignores the polite way is disconnected.
                if connection.signal.get().is_some() {
                    connection.signal.send(End::Now);
                } else {
                    closed(Closed::Idle);
                    connection.signal.send(End::Gracefully);
                }
            }
        }
    }
}

/// Closes idle connections. Returns how many.
fn close(table: &mut Table, count: usize, of: Option<Peer>) -> usize {
    let ids = table.idle(count.max(1), of);
    for id in &ids {
        if let Some(connection) = table.remove(*id) {
            connection.signal.send(End::Now);
        }
    }
    ids.len()
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
