//! Streams of notifications (server-sent events).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Body;
use super::guest::Guest;
use crate::dispatch::{LIST_CHANGED, Listen};
use crate::gateway::Gateway;

/// How often a silent stream says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often a stream asks whether its caller may still listen.
const ASK_AGAIN: Duration = Duration::from_secs(3);

/// A place among the open streams.
pub(super) struct Open(Arc<Gateway>);

impl Open {
    /// None where there are too many.
    pub(super) fn new(gateway: &Arc<Gateway>) -> Option<Self> {
        let open = Self(Arc::clone(gateway));
        let others = gateway.streams_open.fetch_add(1, Ordering::Relaxed);
        (others < gateway.options.limits.streams).then_some(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.streams_open.fetch_sub(1, Ordering::Relaxed);
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
pub(super) fn legacy(guest: Guest, shutdown: &CancellationToken, open: Open) -> Body {
    // A comment, so that the headers are sent at once.
    events(Events {
        first: Some(Bytes::from_static(b": open\n\n")),
        changes: guest.changes(),
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
    shutdown: &CancellationToken,
    open: Open,
) -> Body {
    events(Events {
        first: Some(event(&listen.acknowledgement())),
        changes: guest.changes(),
        guest,
        shutdown: shutdown.clone(),
        listen: Some((listen, server_meta)),
        ended: false,
        _open: open,
    })
}

fn events(events: Events) -> Body {
    Body::Stream(Box::pin(stream::unfold(events, |mut events| async {
        let next = events.next().await?;
        Some((next, events))
    })))
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
