//! A stream of events in which a server announces something, and the bounds of what it may send there.

use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes};
use http::Method;
use http::header::{HeaderMap, HeaderValue};

use super::flight::Flight;
use super::sse::EventParser;
use super::wire::{Transport, is_event_stream};
use super::{Server, StreamEnd, request};
use crate::upstream::incoming::{Incoming, Pieces};

/// How long a server may take to open a stream.
pub(super) const OPENING: Duration = Duration::from_secs(10);
/// Bytes of an event. An announcement has no content.
pub(super) const MAX_EVENT: usize = 32 << 10;
/// Messages and bytes that a stream may have within [`WINDOW`].
const MAX_MESSAGES: u32 = 1_000;
const MAX_BYTES: usize = 1 << 20;
const WINDOW: Duration = Duration::from_secs(60);

/// A request that opens a stream.
pub(super) struct StreamRequest {
    pub(super) verb: Method,
    /// The method, for traces.
    method: &'static str,
    pub(super) headers: HeaderMap,
    body: Bytes,
    /// The id of the request.
    pub(super) id: u64,
}

impl StreamRequest {
    /// Requests the stream of a legacy session.
    pub(super) fn of_session(server: Server, session: Option<&HeaderValue>) -> Self {
        const METHOD: &str = "GET";
        let headers = request::headers(Some(server), session, METHOD, None);
        // No message has this id, since they are counted from 1.
        Self { verb: Method::GET, method: METHOD, headers, body: Bytes::new(), id: 0 }
    }

    /// Requests the answer to `subscriptions/listen`.
    pub(super) fn listen(id: u64, params: &str) -> Self {
        const METHOD: &str = "subscriptions/listen";
        let headers = request::headers(Some(Server::Modern), None, METHOD, None);
        let body = request::request(id, METHOD, params, Server::Modern);
        Self { verb: Method::POST, method: METHOD, headers, body, id }
    }
}

/// An open stream.
pub(super) struct EventStream {
    incoming: Incoming,
    pieces: Pieces,
    /// What has been received and not parsed.
    received: Bytes,
    parser: EventParser,
    flood: Flood,
}

impl EventStream {
    /// Opens a stream.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn open(flight: &mut Flight<'_>, request: &StreamRequest) -> Result<Self, StreamEnd> {
        let StreamRequest { verb, method, headers, body, id: _ } = request;
        // A program announces changes on its standard output, which is read all the time.
        let Transport::Http(http) = flight.wire.transport else { return Err(StreamEnd::Unsupported) };
        let sent = Box::pin(flight.wire.send_as(http, verb.clone(), method, headers, body.clone()));
        let Ok(Ok(mut incoming)) = tokio::time::timeout(OPENING, sent).await else { return Err(StreamEnd::Ended) };
        let has_session = headers.contains_key(request::SESSION);
        match incoming.status().as_u16() {
            // The session has ended.
            400 | 404 if has_session => return Err(StreamEnd::Ended),
            200 if is_event_stream(incoming.headers()) => {}
            // An answer in JSON is an error, or the end of a subscription that never began.
            200 | 400 | 404 | 405 | 406 | 501 => return Err(StreamEnd::Unsupported),
            _ => return Err(StreamEnd::Ended),
        }
        let pieces = incoming.pieces().map_err(|_| StreamEnd::Unsupported)?;
        let (parser, flood) = (EventParser::new(MAX_EVENT), Flood::new(Instant::now()));
        Ok(Self { incoming, pieces, received: Bytes::new(), parser, flood })
    }

    /// Returns the next event; none at the end of the stream, or if it has too many.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            let mut rest = &self.received[..];
            let event = self.parser.next(&mut rest).ok()?;
            self.received.advance(self.received.len() - rest.len());
            if let Some(event) = event {
                return self.flood.admits(1, 0, Instant::now()).then(|| event.into());
            }
            self.received = self.incoming.piece(&mut self.pieces).await.ok()??;
            if !self.flood.admits(0, self.received.len(), Instant::now()) {
                return None;
            }
            if let Some(capacity) = self.parser.growth(self.received.len()) {
                self.parser.grow(capacity);
            }
        }
    }
}

/// Counts what a stream sends within a window of time.
#[derive(Debug)]
struct Flood {
    since: Instant,
    messages: u32,
    bytes: usize,
}

impl Flood {
    fn new(now: Instant) -> Self {
        Self { since: now, messages: 0, bytes: 0 }
    }

    /// Counts messages and bytes. Returns whether there are not too many.
    fn admits(&mut self, messages: u32, bytes: usize, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW {
            *self = Self::new(now);
        }
        self.messages += messages;
        self.bytes += bytes;
        self.messages <= MAX_MESSAGES && self.bytes <= MAX_BYTES
    }
}
