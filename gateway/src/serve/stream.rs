//! Streams of notifications (server-sent events).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tamis_config::ExpositionId;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Body;
use super::guest::Guest;
use crate::call::Caller;
use crate::dispatch::{LIST_CHANGED, Listen};
use crate::exposition::Exposition;
use crate::gateway::Gateway;
use crate::memory;
use crate::metrics::Rejection;
use crate::shares::{Grant, Resource};

/// How often a silent stream says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often a stream asks whether its caller may still listen.
const ASK_AGAIN: Duration = Duration::from_secs(3);

/// The part of the gateway's streams that one caller of one exposition may have: one in four.
const OF_A_CALLER: usize = 4;

/// Streams by exposition and caller, a key's name or an address.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<HashMap<Listener, usize>>);

type Listener = (Arc<ExpositionId>, String);

/// A place among the open streams: of all, and of its caller's.
#[derive(Debug)]
pub(super) struct Open {
    gateway: Arc<Gateway>,
    listener: Listener,
    _streams: Grant,
    _memory: Grant,
}

impl Open {
    /// None where there are too many; that is counted.
    pub(super) fn new(gateway: &Arc<Gateway>, exposition: &Exposition, caller: &Caller) -> Option<Self> {
        let open = Self::reserve(gateway, exposition, caller);
        if open.is_none() {
            exposition.series.rejected(&gateway.metrics, Rejection::Streams);
        }
        open
    }

    fn reserve(gateway: &Arc<Gateway>, exposition: &Exposition, caller: &Caller) -> Option<Self> {
        let streams = exposition.share.take(Resource::Streams, 1).ok()?;
        let memory = exposition.share.take(Resource::Bytes, memory::STREAM).ok()?;
        let listener = (Arc::clone(&exposition.id), caller.listener());
        let most = (gateway.options.limits.streams / OF_A_CALLER).max(1);
        gateway.listeners.begin(&listener, most).then(|| Self {
            gateway: Arc::clone(gateway),
            listener,
            _streams: streams,
            _memory: memory,
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.gateway.listeners.end(&self.listener);
    }
}

impl Listeners {
    fn lock(&self) -> MutexGuard<'_, HashMap<Listener, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more, unless there are `most`.
    fn begin(&self, listener: &Listener, most: usize) -> bool {
        let mut open = self.lock();
        let count = open.entry(listener.clone()).or_default();
        let fits = *count < most;
        *count += usize::from(fits);
        fits
    }

    fn end(&self, listener: &Listener) {
        let mut open = self.lock();
        if let Some(count) = open.get_mut(listener) {
            *count -= 1;
            if *count == 0 {
                open.remove(listener);
            }
        }
    }
}

struct Events {
    first: Option<Bytes>,
    guest: Guest,
    changes: watch::Receiver<u64>,
    shutdown: CancellationToken,
    /// The subscription, in the modern era, and the members that name the server.
    listen: Option<(Listen, String)>,
    ended: bool,
    _open: Open,
}

/// The stream that a legacy `GET` opens.
pub(super) fn legacy(guest: Guest, changes: watch::Receiver<u64>, shutdown: &CancellationToken, open: Open) -> Body {
    // A comment, so that the headers are sent at once.
    events(Events {
        first: Some(Bytes::from_static(b": open\n\n")),
        changes,
        guest,
        shutdown: shutdown.clone(),
        listen: None,
        ended: false,
        _open: open,
    })
}

/// The stream that answers a modern `subscriptions/listen`.
pub(super) fn modern(
    listen: Listen,
    server_meta: String,
    guest: Guest,
    changes: watch::Receiver<u64>,
    shutdown: &CancellationToken,
    open: Open,
) -> Body {
    events(Events {
        first: Some(event(&listen.acknowledgement())),
        changes,
        guest,
        shutdown: shutdown.clone(),
        listen: Some((listen, server_meta)),
        ended: false,
        _open: open,
    })
}

fn events(events: Events) -> Body {
    Body::stream(stream::unfold(events, |mut events| async {
        let next = events.next().await?;
        Some((next, events))
    }))
}

impl Events {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.ended {
            return None;
        }
        let keep_alive = Instant::now() + KEEP_ALIVE;
        loop {
            let changed = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => Some(false),
                changed = self.changes.changed() => Some(changed.is_ok()),
                () = tokio::time::sleep_until(keep_alive.min(Instant::now() + ASK_AGAIN)) => None,
            };
            let changed = match changed {
                Some(false) => false,
                // A key that was withdrawn: the stream ends as it does when the gateway stops.
                _ if !self.guest.is_welcome() => false,
                None if Instant::now() < keep_alive => continue,
                None => return Some(Bytes::from_static(b": keep-alive\n\n")),
                Some(true) => true,
            };
            match (changed, &self.listen) {
                (true, None) => return Some(event(LIST_CHANGED)),
                (true, Some((listen, _))) if listen.tools => return Some(event(&listen.changed())),
                (true, Some(_)) => {}
                (false, None) => return None,
                (false, Some((listen, server))) => {
                    self.ended = true;
                    return Some(event(&listen.end(server)));
                }
            }
        }
    }
}

/// One event; JSON has no line ends of its own here.
fn event(message: &str) -> Bytes {
    format!("event: message\ndata: {message}\n\n").into()
}
