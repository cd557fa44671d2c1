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
use super::auth::{Access, AuthContext};
use super::body::Cut;
use crate::call::Caller;
use crate::dispatch::{LIST_CHANGED, Listen};
use crate::exposition::Exposition;
use crate::gateway::Gateway;
use crate::memory;
use crate::metrics::Rejection;
use crate::shares::{Grant, Resource};

/// How often a silent stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often a stream checks that its caller may still listen.
const CHECK_ACCESS: Duration = Duration::from_secs(3);

/// One caller of one exposition may have one in this many of the gateway's streams.
const OF_A_CALLER: usize = 4;

/// The number of open streams by exposition and caller (a key's name or an address).
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<HashMap<Listener, usize>>);

type Listener = (Arc<ExpositionId>, String);

/// A place among the open streams of the gateway and of a caller.
#[derive(Debug)]
pub(super) struct Open {
    gateway: Arc<Gateway>,
    listener: Listener,
    _streams: Grant,
    _memory: Grant,
}

impl Open {
    /// Takes a place; none, and counted as a rejection, if there are too many streams.
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

    /// Counts one more stream, unless there are `most` already.
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
    auth: AuthContext,
    changes: watch::Receiver<u64>,
    shutdown: CancellationToken,
    /// The subscription, in the modern era, and the members that name the server.
    listen: Option<(Listen, String)>,
    ended: bool,
    _open: Open,
}

/// The stream that a legacy `GET` opens.
pub(super) fn legacy(
    auth: AuthContext,
    changes: watch::Receiver<u64>,
    shutdown: &CancellationToken,
    open: Open,
) -> Body {
    // A comment, so that the headers are sent at once.
    events(Events {
        first: Some(Bytes::from_static(b": open\n\n")),
        changes,
        auth,
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
    auth: AuthContext,
    changes: watch::Receiver<u64>,
    shutdown: &CancellationToken,
    open: Open,
) -> Body {
    events(Events {
        first: Some(event(&listen.acknowledgement())),
        changes,
        auth,
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

/// Why a stream looks at its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    /// The list of tools changed.
    Changed,
    /// It is time to check the caller's access, and perhaps to show that the stream is alive.
    Tick,
    /// The gateway stops, or the exposition was removed.
    Ended,
}

impl Events {
    /// The next event. A stream whose caller may no longer listen is cut, without another event. A stream that has told all
    /// that there was ends, in the modern era with the answer to its request.
    async fn next(&mut self) -> Option<Result<Bytes, Cut>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        if self.ended {
            return None;
        }
        let keep_alive = Instant::now() + KEEP_ALIVE;
        loop {
            let wake = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => Wake::Ended,
                changed = self.changes.changed() => if changed.is_ok() { Wake::Changed } else { Wake::Ended },
                () = tokio::time::sleep_until(keep_alive.min(Instant::now() + CHECK_ACCESS)) => Wake::Tick,
            };
            let wake = match self.auth.access() {
                Access::Granted => wake,
                Access::Removed => Wake::Ended,
                Access::Withdrawn => {
                    self.ended = true;
                    return Some(Err(Cut::AccessWithdrawn));
                }
            };
            match wake {
                Wake::Tick if Instant::now() < keep_alive => {}
                Wake::Tick => return Some(Ok(Bytes::from_static(b": keep-alive\n\n"))),
                Wake::Changed => match &self.listen {
                    None => return Some(Ok(event(LIST_CHANGED))),
                    Some((listen, _)) if listen.tools => return Some(Ok(event(&listen.changed()))),
                    Some(_) => {}
                },
                Wake::Ended => {
                    self.ended = true;
                    let (listen, server) = self.listen.as_ref()?;
                    return Some(Ok(event(&listen.end(server))));
                }
            }
        }
    }
}

/// One event; JSON has no line ends of its own here.
fn event(message: &str) -> Bytes {
    format!("event: message\ndata: {message}\n\n").into()
}
