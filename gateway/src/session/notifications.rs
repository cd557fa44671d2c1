//! The messages of a stream of notifications, in the order in which they are sent.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::dispatch::{Listen, list_changed, updated};
use crate::feeds::{Announced, Listener};
use crate::registry::{Changes, ListKind, Slot};

/// The notifications of a legacy session, or of a modern `subscriptions/listen`.
#[derive(Debug)]
pub(crate) struct Notifications {
    changes: watch::Receiver<Changes>,
    /// The changes that the client was notified of, or will be notified of next.
    seen: Changes,
    /// Changed lists that the client was not notified of yet.
    pending: VecDeque<ListKind>,
    shutdown: CancellationToken,
    /// The subscription, in the modern era, and the members that name the server.
    subscription: Option<(Listen, Arc<str>)>,
    /// What an MCP server announces to the client, if it may announce anything.
    announced: Option<Listener>,
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
    /// Follows the lists at `slot` until the address is removed, or until `shutdown`.
    pub(crate) fn new(slot: &Slot, shutdown: &CancellationToken, subscription: Option<(Listen, Arc<str>)>) -> Self {
        let changes = slot.changes();
        let seen = *changes.borrow();
        Self { changes, seen, pending: VecDeque::new(), shutdown: shutdown.clone(), subscription, announced: None }
    }

    /// Passes on what an MCP server announces to the client, too.
    pub(crate) fn with_announced(self, announced: Option<Listener>) -> Self {
        Self { announced, ..self }
    }

    /// The first message, in the modern era.
    pub(crate) fn acknowledgement(&self) -> Option<String> {
        self.subscription.as_ref().map(|(listen, _)| listen.acknowledgement())
    }

    /// Waits for the next notice. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Notice {
        loop {
            while let Some(list) = self.pending.pop_front() {
                match &self.subscription {
                    None => return Notice::Message(Cow::Borrowed(list_changed(list))),
                    Some((listen, _)) if listen.wants(list) => {
                        return Notice::Message(Cow::Owned(listen.changed(list)));
                    }
                    Some(_) => {}
                }
            }
            let changed = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => false,
                changed = self.changes.changed() => changed.is_ok(),
                announced = next_of(&mut self.announced) => match announced {
                    Announced::Log(_, message) => return Notice::Message(Cow::Owned(message.to_string())),
                    Announced::Updated(uri) => return Notice::Message(Cow::Owned(match &self.subscription {
                        None => updated(&uri, ""),
                        Some((listen, _)) => listen.updated(&uri),
                    })),
                    Announced::Ended => false,
                },
            };
            if !changed {
                return Notice::End(self.subscription.as_ref().map(|(listen, server)| listen.end(server)));
            }
            let now = *self.changes.borrow_and_update();
            self.pending.extend(now.since(self.seen));
            self.seen = now;
        }
    }
}

async fn next_of(announced: &mut Option<Listener>) -> Announced {
    match announced {
        Some(announced) => announced.next().await,
        None => std::future::pending().await,
    }
}
