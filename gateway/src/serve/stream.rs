//! Streams of notifications over HTTP, as server-sent events.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tokio::time::Instant;

use super::Body;
use super::auth::{Access, AuthContext};
use super::body::Cut;
use crate::session::{Notice, Notifications, StreamPlace};

/// How often a silent stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How often a stream checks that its caller may still listen.
const CHECK_ACCESS: Duration = Duration::from_secs(3);

struct Events {
    first: Option<Bytes>,
    notifications: Notifications,
    auth: AuthContext,
    ended: bool,
    _place: StreamPlace,
}

/// The body of the response to a legacy `GET`, or to a modern `subscriptions/listen`.
pub(super) fn body(notifications: Notifications, auth: AuthContext, place: StreamPlace) -> Body {
    // A comment has the headers sent at once, even if nothing changes for long.
    let first = notifications.acknowledgement().map_or(Bytes::from_static(b": open\n\n"), |message| event(&message));
    let events = Events { first: Some(first), notifications, auth, ended: false, _place: place };
    Body::stream(stream::unfold(events, |mut events| async {
        let next = events.next().await?;
        Some((next, events))
    }))
}

impl Events {
    /// The next event. A stream whose caller may no longer listen is cut, without another event.
    async fn next(&mut self) -> Option<Result<Bytes, Cut>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        if self.ended {
            return None;
        }
        let keep_alive = Instant::now() + KEEP_ALIVE;
        loop {
            let notice = tokio::select! {
                biased;
                notice = self.notifications.next() => Some(notice),
                () = tokio::time::sleep_until(keep_alive.min(Instant::now() + CHECK_ACCESS)) => None,
            };
            match (self.auth.access(), notice) {
                (Access::Withdrawn, _) => {
                    self.ended = true;
                    return Some(Err(Cut::AccessWithdrawn));
                }
                (Access::Granted | Access::Removed, Some(Notice::End(last))) => {
                    self.ended = true;
                    return last.map(|message| Ok(event(&message)));
                }
                // The notice that follows is the end.
                (Access::Removed, Some(Notice::Message(_)) | None) => {}
                (Access::Granted, Some(Notice::Message(message))) => return Some(Ok(event(&message))),
                (Access::Granted, None) if Instant::now() < keep_alive => {}
                (Access::Granted, None) => return Some(Ok(Bytes::from_static(b": keep-alive\n\n"))),
            }
        }
    }
}

/// One event; JSON has no line ends of its own here.
pub(super) fn event(message: &str) -> Bytes {
    format!("event: message\ndata: {message}\n\n").into()
}
