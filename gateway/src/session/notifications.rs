//! The messages of a stream of notifications, in the order in which they are sent.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::dispatch::{LIST_CHANGED, Listen};
use crate::registry::Slot;

/// The notifications of a legacy session, or of a modern `subscriptions/listen`.
#[derive(Debug)]
pub(crate) struct Notifications {
    changes: watch::Receiver<u64>,
    shutdown: CancellationToken,
    /// The subscription, in the modern era, and the members that name the server.
    subscription: Option<(Listen, Arc<str>)>,
}

/// The next thing that a stream of notifications has to say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A message.
    Message(Cow<'static, str>),
    /// The stream is complete, in the modern era with this answer to its request.
    End(Option<String>),
}

impl Notifications {
    /// Follows the tools at `slot` until they are removed, or until `shutdown`.
    pub(crate) fn new(slot: &Slot, shutdown: &CancellationToken, subscription: Option<(Listen, Arc<str>)>) -> Self {
        Self { changes: slot.changes(), shutdown: shutdown.clone(), subscription }
    }

    /// The first message, in the modern era.
    pub(crate) fn acknowledgement(&self) -> Option<String> {
        self.subscription.as_ref().map(|(listen, _)| listen.acknowledgement())
    }

    /// Waits for the next notice. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Notice {
        loop {
            let changed = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => false,
                changed = self.changes.changed() => changed.is_ok(),
            };
            match (&self.subscription, changed) {
                (None, true) => return Notice::Message(Cow::Borrowed(LIST_CHANGED)),
                (Some((listen, _)), true) if listen.tools => return Notice::Message(Cow::Owned(listen.changed())),
                (Some(_), true) => {}
                (subscription, false) => {
                    return Notice::End(subscription.as_ref().map(|(listen, server)| listen.end(server)));
                }
            }
        }
    }
}
