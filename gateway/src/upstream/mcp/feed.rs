//! Reads what a server announces to one caller outside of calls: updates of resources, and log messages of the caller's session.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{HeaderMap, HeaderValue};
use tamis_engine::json::write_string;

use super::event_stream::{EventStream, MAX_EVENT, OPENING, StreamRequest};
use super::flight::{Asked, Flight, NotReady};
use super::message::{self, OfResources};
use super::wire::{Answered, Transport};
use super::{McpService, Server, StreamEnd, request};
use crate::feeds::{Announced, Feed, METHOD_NOT_FOUND, Verdict};
use crate::input::CannotAsk;
use crate::relay::{self, Kinds, Sent};
use crate::upstream::CallContext;

/// How long a server may take to answer a subscription.
const ANSWERING: Duration = Duration::from_secs(10);
/// Bytes of the answer to a subscription.
const MAX_ANSWER: u64 = 64 << 10;

/// Where announcements go.
struct Sink<'a> {
    feed: &'a Feed,
    /// Whether a resource is published now.
    published: &'a (dyn Fn(&str) -> bool + Sync),
}

impl McpService {
    /// Reads what the server announces to the caller of `context`, until no subscription needs it or the stream ends. `published`:
    /// whether a resource is published now.
    pub(in crate::upstream) async fn feed(
        &self,
        context: CallContext<'_>,
        feed: &Feed,
        published: &(dyn Fn(&str) -> bool + Sync),
    ) -> StreamEnd {
        let caller = context.caller_key().into();
        let Ok(authentication) = self.authenticate(context.credentials) else { return StreamEnd::Ended };
        let Ok(mut flight) = self.flight(&authentication, caller, context) else { return StreamEnd::Ended };
        // For two streams: one takes the place of the other. Their buffers are not given back.
        if flight.wire.context.memory.take(4 * MAX_EVENT as u64).await.is_err() {
            return StreamEnd::Ended;
        }
        let sink = Sink { feed, published };
        let known = tokio::time::timeout(OPENING, flight.server()).await;
        let Transport::Http(_) = flight.wire.transport else { return StreamEnd::Unsupported };
        match known {
            // A caller's own session is one of the legacy era, whatever else the server speaks.
            Ok(Ok(Server::Modern)) if flight.wire.context.session.is_none() => flight.listen_for(&sink).await,
            Ok(Ok(server)) => flight.feed_of_session(server, &sink).await,
            Ok(Err(NotReady::Refused(..) | NotReady::Failed(_))) | Err(_) => StreamEnd::Ended,
        }
    }
}

impl Flight<'_> {
    /// Reads answers to `subscriptions/listen`: a stream for the resources with a subscription, and another one when these change.
    async fn listen_for(&mut self, sink: &Sink<'_>) -> StreamEnd {
        let mut changes = sink.feed.changes();
        let mut before = None::<EventStream>;
        loop {
            changes.borrow_and_update();
            let wanted = sink.feed.wanted();
            if wanted.is_empty() {
                return StreamEnd::Ended;
            }
            let mut events = match Box::pin(self.open_listening(&wanted)).await {
                Ok(events) => events,
                Err(end) => return end,
            };
            // What is left of the stream before was sent before this one began.
            if let Some(mut before) = before.take() {
                while let Some(Some(event)) = before.next().now_or_never() {
                    sink.take_in(&event);
                }
            }
            sink.feed.set_open();
            loop {
                let next = events.next();
                tokio::pin!(next);
                let next = loop {
                    tokio::select! {
                        next = &mut next => break Some(next),
                        _ = changes.changed() => {
                            changes.borrow_and_update();
                            if sink.feed.wanted() != wanted {
                                break None;
                            }
                        }
                    }
                };
                match next {
                    Some(Some(event)) => match message::of_resources(&event) {
                        Some(OfResources::Accepted(uris)) => sink.settle(&wanted, &uris),
                        Some(OfResources::Updated(_)) | None => sink.take_in(&event),
                    },
                    Some(None) => return StreamEnd::Ended,
                    None => break,
                }
            }
            before = Some(events);
        }
    }

    async fn open_listening(&mut self, uris: &BTreeSet<Arc<str>>) -> Result<EventStream, StreamEnd> {
        let request = StreamRequest::listen(self.service.next_id(), &request::listen_to(uris));
        self.open_one(&request).await
    }

    /// Opens a stream in place of the one before. Its memory is that of both.
    async fn open_one(&mut self, request: &StreamRequest) -> Result<EventStream, StreamEnd> {
        let before = self.wire.context.memory.used();
        let events = EventStream::open(self, request).await?;
        self.wire.context.memory.shrink_to(before);
        Ok(events)
    }

    /// Reads the stream of the caller's legacy session, and subscribes in that session.
    async fn feed_of_session(&mut self, server: Server, sink: &Sink<'_>) -> StreamEnd {
        let (server, session) = match tokio::time::timeout(OPENING, self.in_session(server)).await {
            Ok(Ok(of)) => of,
            Ok(Err(NotReady::Refused(..) | NotReady::Failed(_))) | Err(_) => return StreamEnd::Ended,
        };
        let request = StreamRequest::of_session(server, session.as_ref());
        let end = match Box::pin(self.open_one(&request)).await {
            Ok(events) => {
                Box::pin(self.follow_session((server, session.as_ref()), events, &request.headers, sink)).await
            }
            Err(end) => end,
        };
        if let (StreamEnd::Ended, Some(session), true) = (end, &session, sink.feed.wants_stream()) {
            if self.wire.context.session.is_none() {
                self.check_session(server, session).await;
            } else if self.has_lost(server, session).await {
                // What the server kept in the session is gone, and the caller has to know.
                sink.feed.end_session();
            }
        }
        end
    }

    async fn follow_session(
        &mut self,
        of: (Server, Option<&HeaderValue>),
        mut events: EventStream,
        headers: &HeaderMap,
        sink: &Sink<'_>,
    ) -> StreamEnd {
        let (mut changes, mut subscribed) = (sink.feed.changes(), BTreeSet::new());
        self.subscribe_to(of, &mut subscribed, sink.feed).await;
        sink.feed.set_open();
        loop {
            let next = events.next();
            tokio::pin!(next);
            let received = loop {
                tokio::select! {
                    next = &mut next => break next,
                    _ = changes.changed() => {
                        changes.borrow_and_update();
                        self.subscribe_to(of, &mut subscribed, sink.feed).await;
                        if !sink.feed.wants_stream() {
                            // More may have ended while the server answered.
                            self.subscribe_to(of, &mut subscribed, sink.feed).await;
                            return StreamEnd::Ended;
                        }
                    }
                }
            };
            let Some(event) = received else { return StreamEnd::Ended };
            sink.take_in(&event);
            let asked = message::read(&event, 0, Kinds::default()).map(|received| received.asked);
            for asked in asked.unwrap_or_default() {
                if let Transport::Http(http) = self.wire.transport {
                    let answer = request::cannot_ask(&asked.id, CannotAsk::NotACall);
                    self.wire.answer(http, headers, answer).await;
                }
            }
        }
    }

    /// Subscribes to the resources of the feed, and ends the subscriptions to all others.
    async fn subscribe_to(
        &mut self,
        of: (Server, Option<&HeaderValue>),
        subscribed: &mut BTreeSet<Arc<str>>,
        feed: &Feed,
    ) {
        let wanted = feed.wanted();
        for uri in wanted.difference(subscribed).cloned().collect::<Vec<_>>() {
            let verdict = match self.ask_for(of, "resources/subscribe", &uri).await {
                Ok(()) => {
                    subscribed.insert(Arc::clone(&uri));
                    Verdict::Accepted
                }
                Err(code) => Verdict::Refused(code),
            };
            feed.settle(&uri, verdict);
        }
        for uri in subscribed.difference(&wanted).cloned().collect::<Vec<_>>() {
            subscribed.remove(&uri);
            let _ = self.ask_for(of, "resources/unsubscribe", &uri).await;
        }
    }

    /// Sends a request about a resource. Returns the code of its error.
    async fn ask_for(
        &mut self,
        (server, session): (Server, Option<&HeaderValue>),
        method: &'static str,
        uri: &str,
    ) -> Result<(), i64> {
        const INTERNAL: i64 = -32603;
        let mut params = br#""uri":"#.to_vec();
        write_string(uri, &mut params);
        let params = String::from_utf8(params).unwrap_or_default();
        let headers = HeaderMap::new();
        let asked = Asked { method, name: None, params: &params, headers: &headers, limit: MAX_ANSWER };
        let before = self.wire.context.memory.used();
        let answered = tokio::time::timeout(ANSWERING, Box::pin(self.send(server, session, asked))).await;
        self.wire.context.memory.shrink_to(before);
        match answered {
            Ok(Ok(Answered::Result(..))) => Ok(()),
            Ok(Ok(Answered::Error(error))) => Err(error.code),
            Ok(Ok(Answered::Refused { code, .. })) => Err(code.unwrap_or(INTERNAL)),
            Ok(Ok(Answered::Accepted) | Err(_)) | Err(_) => Err(INTERNAL),
        }
    }
}

impl Sink<'_> {
    /// Passes on what a message announces.
    fn take_in(&self, event: &Bytes) {
        if let Some(OfResources::Updated(uri)) = message::of_resources(event) {
            if (self.published)(&uri) {
                self.feed.announce(&Announced::Updated(uri.into()));
            }
            return;
        }
        let Ok(received) = message::read(event, 0, Kinds { progress: false, logs: true }) else { return };
        for sent in received.sent {
            if let Sent::Log { level, logger, data } = sent
                && let Some(message) = relay::log(level, logger.as_ref(), &data)
            {
                self.feed.announce(&Announced::Log(level, message.into()));
            }
        }
    }

    /// Notes which of these resources a server has accepted.
    fn settle(&self, wanted: &BTreeSet<Arc<str>>, accepted: &[String]) {
        for uri in wanted {
            let is_accepted = accepted.iter().any(|accepted| **accepted == **uri);
            let verdict = if is_accepted { Verdict::Accepted } else { Verdict::Refused(METHOD_NOT_FOUND) };
            self.feed.settle(uri, verdict);
        }
    }
}
