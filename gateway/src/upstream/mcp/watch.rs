//! Reads the list of a server outside any call, and listens for its announcements that a list has changed.

use std::sync::Arc;

use http::Method;
use http::header::HeaderValue;
use tokio::sync::watch;

use super::event_stream::{EventStream, MAX_EVENT, OPENING, StreamRequest};
use super::flight::{Flight, NotReady};
use super::message::{self, Reply};
use super::peers::Peer;
use super::wire::Transport;
use super::{McpService, Server, request};
use crate::input::CannotAsk;
use crate::registry::{Changes, ListKind};
use crate::relay::Kinds;
use crate::upstream::{CallContext, CredentialScope, UpstreamError};

/// Whose legacy session the background uses. No caller has this name: those of callers begin with an exposition's.
pub(super) const CALLER: &str = "watch";
/// The code of an answer to a method that a server does not have.
const METHOD_NOT_FOUND: i64 = -32601;

/// How a stream of announcements ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// The server has none.
    Unsupported,
    /// It ended or broke, could not be opened, or had too many messages.
    Ended,
}

/// What a server announced of its lists of prompts and resources.
#[derive(Debug, Default)]
pub(crate) struct Announcements(watch::Sender<Changes>);

impl Announcements {
    /// Notes what a message announces.
    pub(super) fn note(&self, received: &message::Received) {
        let changed =
            [(ListKind::Prompts, received.prompts_changed), (ListKind::Resources, received.resources_changed)];
        for (list, _) in changed.into_iter().filter(|(_, changed)| *changed) {
            self.0.send_modify(|changes| changes.count(list));
        }
    }

    /// Subscribes to what is announced from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Changes> {
        self.0.subscribe()
    }
}

impl McpService {
    /// Subscribes to the changes of the server's prompts and resources.
    pub(in crate::upstream) fn announced(&self) -> watch::Receiver<Changes> {
        self.announcements.subscribe()
    }

    /// Returns what is known of the server with these credentials.
    ///
    /// # Errors
    /// The credential is missing or may not be used.
    pub(in crate::upstream) fn peer(&self, credentials: CredentialScope<'_>) -> Result<Arc<Peer>, UpstreamError> {
        Ok(self.peers.of(&self.authenticate(credentials)?))
    }

    /// Reads the server's list, and compares its tools. Calls do not wait for it.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(in crate::upstream) async fn read_list(&self, context: CallContext<'_>) -> Result<(), UpstreamError> {
        let authentication = self.authenticate(context.credentials)?;
        let deadline = context.bounds.deadline;
        let mut flight = self.flight(&authentication, CALLER.into(), context)?;
        let read = async {
            flight.attach().await?;
            flight.read().await
        };
        let read = tokio::time::timeout_at(deadline.into(), read).await;
        read.unwrap_or(Err(UpstreamError::Timeout { sent: false })).map(|_| ())
    }

    /// Opens a stream of announcements and reads it to its end. An announcement makes the comparison of the tools obsolete.
    /// `opened` is called as soon as no announcement can be missed any more.
    pub(in crate::upstream) async fn listen(&self, context: CallContext<'_>, opened: &(dyn Fn() + Sync)) -> StreamEnd {
        let Ok(authentication) = self.authenticate(context.credentials) else { return StreamEnd::Ended };
        let Ok(mut flight) = self.flight(&authentication, CALLER.into(), context) else { return StreamEnd::Ended };
        if flight.peer.has_streams() {
            return Box::pin(flight.listen_in_stream(opened)).await;
        }
        match flight.peer.server() {
            None => StreamEnd::Ended,
            Some(Server::Modern) => flight.subscribe(opened).await,
            Some(server @ Server::Legacy { .. }) => flight.stream_of_session(server, opened).await,
        }
    }
}

impl Flight<'_> {
    /// Reads the answer to `subscriptions/listen`.
    async fn subscribe(&mut self, opened: &(dyn Fn() + Sync)) -> StreamEnd {
        let request = StreamRequest::listen(self.service.next_id(), request::LISTEN);
        Box::pin(self.announcements(request, opened)).await
    }

    /// Reads the stream of a legacy session.
    async fn stream_of_session(&mut self, server: Server, opened: &(dyn Fn() + Sync)) -> StreamEnd {
        let session = match tokio::time::timeout(OPENING, self.session_of_lists(server)).await {
            Ok(Ok(session)) => session,
            Ok(Err(NotReady::Refused(..) | NotReady::Failed(_))) | Err(_) => return StreamEnd::Ended,
        };
        let request = StreamRequest::of_session(server, session.as_ref());
        let end = Box::pin(self.announcements(request, opened)).await;
        if end == StreamEnd::Ended
            && let Some(session) = &session
        {
            self.check_session(server, session).await;
        }
        end
    }

    /// Ends a session that the server does not know any more: the server may have ended it together with its stream.
    pub(super) async fn check_session(&mut self, server: Server, session: &HeaderValue) {
        if !self.knows(server, session).await {
            self.peer.end_session(&self.caller, session);
        }
    }

    async fn announcements(&mut self, request: StreamRequest, opened: &(dyn Fn() + Sync)) -> StreamEnd {
        let is_legacy = request.verb == Method::GET;
        let mut events = match EventStream::open(self, &request).await {
            Ok(events) => events,
            Err(end) => return end,
        };
        let StreamRequest { headers, id, .. } = request;
        let Transport::Http(http) = self.wire.transport else { return StreamEnd::Unsupported };
        // For good: the buffer of a stream is not given back.
        if self.wire.context.memory.take(2 * MAX_EVENT as u64).await.is_err() {
            return StreamEnd::Ended;
        }
        let mut is_open = is_legacy;
        if is_open {
            opened();
        }
        while let Some(event) = events.next().await {
            let Ok(received) = message::read(&event, id, Kinds::default()) else { return StreamEnd::Ended };
            match received.answer {
                Some(Reply::Error(error)) if error.code == METHOD_NOT_FOUND => return StreamEnd::Unsupported,
                Some(Reply::Error(_) | Reply::Result(_)) => return StreamEnd::Ended,
                None => {}
            }
            if !std::mem::replace(&mut is_open, true) {
                opened();
            }
            if received.list_changed {
                self.peer.expire();
            }
            self.wire.announcements.note(&received);
            if is_legacy {
                for asked in received.asked {
                    let answer = request::cannot_ask(&asked.id, CannotAsk::NotACall);
                    self.wire.answer(http, &headers, answer).await;
                }
            }
        }
        StreamEnd::Ended
    }
}
