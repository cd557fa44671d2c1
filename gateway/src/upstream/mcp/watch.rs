//! Reads the list of a server outside any call, and listens for its announcements that a list has changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http::header::{HeaderMap, HeaderValue};
use tokio::sync::watch;

use super::flight::{Flight, NotReady};
use super::message::{self, Reply};
use super::peers::Peer;
use super::sse::EventParser;
use super::wire::{Transport, is_event_stream};
use super::{McpService, Server, request};
use crate::input::CannotAsk;
use crate::registry::{Changes, ListKind};
use crate::relay::Kinds;
use crate::upstream::incoming::Incoming;
use crate::upstream::{CallContext, CredentialScope, UpstreamError};

/// Whose legacy session the background uses. No caller has this name: those of callers begin with an exposition's.
pub(super) const CALLER: &str = "watch";
/// How long a server may take to open a stream.
pub(super) const OPENING: Duration = Duration::from_secs(10);
/// Bytes of an event. An announcement has no content.
pub(super) const MAX_EVENT: usize = 32 << 10;
/// Messages and bytes that a stream may have within [`WINDOW`].
const MAX_MESSAGES: u32 = 1_000;
const MAX_BYTES: usize = 1 << 20;
const WINDOW: Duration = Duration::from_secs(60);
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
        const METHOD: &str = "subscriptions/listen";
        let id = self.service.next_id();
        let headers = request::headers(Some(Server::Modern), None, METHOD, None);
        let body = request::request(id, METHOD, request::LISTEN, Server::Modern);
        let stream = Stream { verb: Method::POST, method: METHOD, headers, body, id };
        Box::pin(self.announcements(stream, opened)).await
    }

    /// Reads the stream of a legacy session.
    async fn stream_of_session(&mut self, server: Server, opened: &(dyn Fn() + Sync)) -> StreamEnd {
        let session = match tokio::time::timeout(OPENING, self.session_of_lists(server)).await {
            Ok(Ok(session)) => session,
            Ok(Err(NotReady::Refused(..) | NotReady::Failed(_))) | Err(_) => return StreamEnd::Ended,
        };
        const METHOD: &str = "GET";
        let headers = request::headers(Some(server), session.as_ref(), METHOD, None);
        // No message has this id, since they are counted from 1.
        let stream = Stream { verb: Method::GET, method: METHOD, headers, body: Bytes::new(), id: 0 };
        let end = Box::pin(self.announcements(stream, opened)).await;
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

    /// Opens a stream.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn open_events(&mut self, stream: &Stream) -> Result<Incoming, StreamEnd> {
        let Stream { verb, method, headers, body, id: _ } = stream;
        // A program announces changes on its standard output, which is read all the time.
        let Transport::Http(http) = self.wire.transport else { return Err(StreamEnd::Unsupported) };
        let sent = Box::pin(self.wire.send_as(http, verb.clone(), method, headers, body.clone()));
        let Ok(Ok(incoming)) = tokio::time::timeout(OPENING, sent).await else { return Err(StreamEnd::Ended) };
        let has_session = headers.contains_key(request::SESSION);
        match incoming.status().as_u16() {
            // The session has ended.
            400 | 404 if has_session => Err(StreamEnd::Ended),
            200 if is_event_stream(incoming.headers()) => Ok(incoming),
            // An answer in JSON is an error, or the end of a subscription that never began.
            200 | 400 | 404 | 405 | 406 | 501 => Err(StreamEnd::Unsupported),
            _ => Err(StreamEnd::Ended),
        }
    }

    async fn announcements(&mut self, stream: Stream, opened: &(dyn Fn() + Sync)) -> StreamEnd {
        let is_legacy = stream.verb == Method::GET;
        let mut incoming = match self.open_events(&stream).await {
            Ok(incoming) => incoming,
            Err(end) => return end,
        };
        let Stream { headers, id, .. } = stream;
        let Transport::Http(http) = self.wire.transport else { return StreamEnd::Unsupported };
        let Ok(mut pieces) = incoming.pieces() else { return StreamEnd::Unsupported };
        let mut parser = EventParser::new(MAX_EVENT);
        // For good: the buffer of a stream is not given back.
        if self.wire.context.memory.take(2 * MAX_EVENT as u64).await.is_err() {
            return StreamEnd::Ended;
        }
        let mut flood = Flood::new(Instant::now());
        let mut is_open = is_legacy;
        if is_open {
            opened();
        }
        while let Ok(Some(piece)) = incoming.piece(&mut pieces).await {
            if !flood.admits(0, piece.len(), Instant::now()) {
                return StreamEnd::Ended;
            }
            if let Some(capacity) = parser.growth(piece.len()) {
                parser.grow(capacity);
            }
            let mut rest = &piece[..];
            loop {
                let Ok(event) = parser.next(&mut rest) else { return StreamEnd::Ended };
                let Some(event) = event else { break };
                if !flood.admits(1, 0, Instant::now()) {
                    return StreamEnd::Ended;
                }
                let Ok(received) = message::read(&event.into(), id, Kinds::default()) else { return StreamEnd::Ended };
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
        }
        StreamEnd::Ended
    }
}

/// A request for a stream.
pub(super) struct Stream {
    pub(super) verb: Method,
    /// The method, for traces.
    pub(super) method: &'static str,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The id of the request.
    pub(super) id: u64,
}

/// Counts what a stream sends within a window of time.
#[derive(Debug)]
pub(super) struct Flood {
    since: Instant,
    messages: u32,
    bytes: usize,
}

impl Flood {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, messages: 0, bytes: 0 }
    }

    /// Counts messages and bytes. Returns whether there are not too many.
    pub(super) fn admits(&mut self, messages: u32, bytes: usize, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW {
            *self = Self::new(now);
        }
        self.messages += messages;
        self.bytes += bytes;
        self.messages <= MAX_MESSAGES && self.bytes <= MAX_BYTES
    }
}
