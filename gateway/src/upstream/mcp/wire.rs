//! Sends one message and reads what the server answers: JSON, or a stream of events.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request};
use http_body_util::Full;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::Server;
use super::events::Connection;
use super::message::{self, RpcFault};
use super::program::Program;
use super::request::{SESSION, cancelled, cannot_ask};
use super::sse::{EventParser, TooLarge};
use super::watch::Announcements;
use crate::compute::NotRun;
use crate::hops;
use crate::input::CannotAsk;
use crate::mcp::era::LEGACY_VERSIONS;
use crate::mcp::headers::VERSION;
use crate::memory::Exhausted;
use crate::offload::{LIGHT_READ, Work};
use crate::relay::{Relay, ServerRequest};
use crate::upstream::auth::Authentication;
use crate::upstream::egress::Denied;
use crate::upstream::incoming::{BodyLimits, Fault, Incoming, fault, record_failure};
use crate::upstream::origin::Target;
use crate::upstream::pace::Turn;
use crate::upstream::returned::Search;
use crate::upstream::{CallContext, Client, UpstreamError};

/// Messages that may come before an answer, besides those to the caller.
const MAX_OTHERS: usize = 10_000;
/// Bytes that may come before an answer: other messages, and the frame of the stream.
const MAX_OTHER_BYTES: u64 = 4 << 20;
/// Bytes of messages to the caller that may come in addition.
pub(super) const MAX_RELAYED_BYTES: u64 = 256 << 20;
/// Bytes of an event that are not its data.
const FRAME: u64 = 128;
/// Requests of a server that are answered during one request of the gateway.
const MAX_ASKED: usize = 16;
/// What a message costs, however short it is, in bytes.
const PER_MESSAGE: usize = 512;
/// How long reading the body of an error, or refusing a server's request, may take.
const SHORT: Duration = Duration::from_secs(5);
/// How long telling a server that a call is not waited for any more may take.
const CANCELLING: Duration = Duration::from_secs(2);
/// Sessions that are ended at once, of all servers.
static ENDING: Semaphore = Semaphore::const_new(64);
/// Bytes of a session id.
const MAX_SESSION: usize = 1 << 10;

/// A connection to a server, for one call.
pub(super) struct Wire<'a> {
    pub(super) transport: Transport<'a>,
    pub(super) context: CallContext<'a>,
    /// Requests sent.
    pub(super) requests: u32,
    /// Whether the server has said that its list of tools changed.
    pub(super) list_changed: bool,
    /// Whether the request at hand is the call, so that messages of the server are for the caller.
    pub(super) is_call: bool,
    /// Where other announcements of the server go.
    pub(super) announcements: &'a Announcements,
}

/// How messages reach a server.
pub(super) enum Transport<'a> {
    /// As requests of HTTP.
    Http(Http<'a>),
    /// As requests of HTTP, and answers in a stream of events.
    Events(Http<'a>, Arc<Connection>),
    /// As lines to and from a program.
    Program(Box<Program<'a>>),
}

/// An endpoint of Streamable HTTP, with the credential of a call.
#[derive(Clone, Copy)]
pub(super) struct Http<'a> {
    pub(super) client: &'a Arc<Client>,
    pub(super) target: &'a Target,
    /// The headers of every request.
    pub(super) common: &'a HeaderMap,
    pub(super) authentication: &'a Authentication<'a>,
}

/// A message to be sent.
pub(super) struct Outgoing<'m> {
    /// The method, for traces.
    pub(super) method: &'static str,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The id of a request; none for a notification.
    pub(super) id: Option<u64>,
    /// Bytes that the answer may have.
    pub(super) limit: u64,
    /// The headers for answers to the server's own requests; none if it cannot have any.
    pub(super) refuse_with: Option<&'m HeaderMap>,
}

/// What a server answered to a message.
#[derive(Debug)]
pub(super) enum Answered {
    /// A notification was accepted.
    Accepted,
    /// The result of a request, as JSON, and the session that began with it.
    Result(Bytes, Option<HeaderValue>),
    /// A JSON-RPC error.
    Error(RpcFault),
    /// An error status.
    Refused {
        status: u16,
        /// The code of the JSON-RPC error in the body.
        code: Option<i64>,
        /// The beginning of the body.
        body: Bytes,
    },
}

impl<'a> Wire<'a> {
    /// Returns what passes messages of the server to the caller; none if nothing does.
    pub(super) fn relay(&self) -> Option<&'a Arc<Relay>> {
        self.context.relay.filter(|_| self.is_call)
    }

    /// Sends a message and reads the answer.
    ///
    /// # Errors
    /// [`Fault`].
    pub(super) async fn post(&mut self, outgoing: Outgoing<'_>) -> Result<Answered, Fault> {
        match &self.transport {
            Transport::Http(http) => self.post_http(*http, outgoing).await,
            Transport::Events(http, connection) => {
                let (http, connection) = (*http, Arc::clone(connection));
                Box::pin(self.post_events(http, &connection, outgoing)).await
            }
            Transport::Program(program) => {
                let process = program.attached()?;
                Box::pin(self.post_program(&process, outgoing)).await
            }
        }
    }

    async fn post_http(&mut self, http: Http<'_>, outgoing: Outgoing<'_>) -> Result<Answered, Fault> {
        let Outgoing { method, headers, body, id, limit, refuse_with } = outgoing;
        let mut incoming = Box::pin(self.send(http, method, &headers, body)).await?;
        let status = incoming.status();
        if status.is_redirection() {
            // The credential is meant for this server, and a pinned definition is that of this server.
            return Err(incoming.failed(Fault::refused("redirect", true)));
        }
        if !status.is_success() {
            return Box::pin(self.error_status(http, incoming)).await;
        }
        let Some(id) = id else {
            incoming.finish().await;
            return Ok(Answered::Accepted);
        };
        let session = match incoming.headers().get(SESSION) {
            Some(session) if session.len() > MAX_SESSION => {
                return Err(incoming.failed(malformed("has a session id of more than 1024 bytes")));
            }
            session => session.cloned(),
        };
        let reply = match kind(incoming.headers()) {
            Some(Body::Json) => {
                let (stated, needles) = (limit, http.authentication.needles.as_deref());
                let limits = BodyLimits { limit, stated, needles, memory: &mut *self.context.memory };
                let body = incoming.read(limits).await?;
                let received = self.read_message(body, id).await?;
                self.note(&received);
                received.answer.ok_or_else(|| malformed("holds no answer to the request"))?
            }
            Some(Body::Events) => Box::pin(self.stream(http, incoming, (id, limit), refuse_with)).await?,
            None => return Err(incoming.failed(malformed("is neither JSON nor a stream of events"))),
        };
        Ok(match reply {
            message::Reply::Result(result) => Answered::Result(result, session),
            message::Reply::Error(error) => Answered::Error(error),
        })
    }

    /// Sends a message.
    async fn send(
        &mut self,
        http: Http<'_>,
        method: &'static str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Incoming, Fault> {
        self.send_as(http, Method::POST, method, headers, body).await
    }

    /// Sends a message with a verb of HTTP. `GET` opens a stream.
    pub(super) async fn send_as(
        &mut self,
        http: Http<'_>,
        verb: Method,
        method: &'static str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Incoming, Fault> {
        let Http { client, target, common, authentication } = http;
        let (policy, transport) = client.direct();
        policy.check(target.origin()).map_err(|Denied| Fault::refused("egress", false))?;
        self.context.memory.take(body.len() as u64).await.map_err(|Exhausted| exhausted(false))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = verb.clone();
        *request.uri_mut() = path(target, authentication).ok_or_else(|| Fault::refused("connect", false))?.into();
        let all = request.headers_mut();
        *all = common.clone();
        all.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        if verb == Method::GET {
            all.remove(CONTENT_TYPE);
            all.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        }
        if let Some((name, value)) = &authentication.header {
            all.insert(name.clone(), value.clone());
        }
        if self.context.hops > 0 {
            all.insert(hops::HEADER, hops::next(self.context.hops));
        }
        let trace = self.context.trace;
        let mut span = trace.map(|trace| trace.request(&verb, target, Some(target.path()), self.requests));
        if let Some(span) = &mut span {
            span.mcp_method(method);
            span.inject(all);
        }
        self.requests += 1;
        let response = transport.send(target.origin(), request).await.map_err(|failed| {
            let fault = fault(&failed, false);
            record_failure(&mut span, &fault);
            fault
        })?;
        if let Some(span) = &mut span {
            span.answered(response.status());
        }
        Ok(Incoming::new(response, span))
    }

    pub(super) async fn error_status(&mut self, http: Http<'_>, incoming: Incoming) -> Result<Answered, Fault> {
        let status = incoming.status().as_u16();
        let time = self.context.bounds.deadline.min(Instant::now() + SHORT);
        let body = incoming.read_error(time.into(), self.context.memory).await;
        if http.authentication.needles.as_ref().is_some_and(|needles| Search::is_in(needles, &body)) {
            return Err(Fault::Final(UpstreamError::CredentialReturned));
        }
        let code = message::error_in(&body).map(|error| error.code);
        Ok(Answered::Refused { status, code, body })
    }

    /// Reads events until the answer to the request `id` comes.
    async fn stream(
        &mut self,
        http: Http<'_>,
        mut incoming: Incoming,
        (id, limit): (u64, u64),
        refuse_with: Option<&HeaderMap>,
    ) -> Result<message::Reply, Fault> {
        let mut pieces = incoming.pieces()?;
        let mut parser = EventParser::new(usize::try_from(limit).unwrap_or(usize::MAX));
        let mut search = http.authentication.needles.as_ref().map(|needles| Box::new(Search::new(needles)));
        let (mut bytes, mut others, mut asked, mut reserved) = (0_u64, 0_usize, 0_usize, 0_u64);
        let mut relayed = 0_u64;
        let mut turn = Turn::new();
        // Bytes of the event that is being received may become the answer. All others are none.
        while let Some(piece) = incoming.piece(&mut pieces).await? {
            if search.as_deref_mut().is_some_and(|search| search.feed(&piece)) {
                return Err(incoming.failed(Fault::Final(UpstreamError::CredentialReturned)));
            }
            bytes += piece.len() as u64;
            if bytes > limit.saturating_add(MAX_OTHER_BYTES + relayed) {
                return Err(incoming.failed(malformed("does not come within 4 MiB of other messages")));
            }
            if let Some(capacity) = parser.growth(piece.len()) {
                let (old, new) = (parser.capacity() as u64, capacity as u64);
                let more = new.saturating_sub(reserved);
                // The old buffer exists until it has been copied.
                self.context.memory.take(more + old).await.map_err(|Exhausted| exhausted(true))?;
                parser.grow(capacity);
                self.context.memory.release(old);
                reserved += more;
            }
            let mut rest = &piece[..];
            loop {
                let event = parser.next(&mut rest);
                let event =
                    event.map_err(|TooLarge| incoming.failed(Fault::Final(UpstreamError::TooLarge { limit })))?;
                let Some(event) = event else { break };
                turn.spend(event.len() + PER_MESSAGE).await;
                let length = event.len() as u64 + FRAME;
                let received = self.read_message(event.into(), id).await.map_err(|fault| incoming.failed(fault))?;
                self.note(&received);
                if let Some(answer) = received.answer {
                    incoming.finish().await;
                    return Ok(answer);
                }
                if let (Some(relay), false) = (self.relay(), received.sent.is_empty()) {
                    received.sent.iter().for_each(|sent| relay.take_in(sent));
                    relayed = (relayed + length).min(MAX_RELAYED_BYTES);
                } else {
                    others += 1;
                }
                others += received.others;
                if others > MAX_OTHERS {
                    return Err(incoming.failed(malformed("does not come within 10000 other messages")));
                }
                for request in received.asked {
                    asked += 1;
                    if asked > MAX_ASKED {
                        return Err(incoming.failed(malformed("does not come within 16 requests of the server")));
                    }
                    let Some(headers) = refuse_with else { continue };
                    if let Err(why) = self.ask(&request, headers) {
                        self.answer(http, headers, cannot_ask(&request.id, why)).await;
                    }
                }
                // The event is dropped. What the parser holds now came with this piece.
                self.context.memory.release(reserved);
                reserved = 0;
            }
        }
        Err(incoming.failed(Fault::Broken("reset")))
    }

    /// Notes what the server announces beside its answer.
    fn note(&mut self, received: &message::Received) {
        self.list_changed |= received.list_changed;
        self.announcements.note(received);
    }

    /// Passes a request of the server on to the caller. `headers` are those of the call.
    ///
    /// # Errors
    /// [`CannotAsk`].
    fn ask(&mut self, request: &ServerRequest, headers: &HeaderMap) -> Result<(), CannotAsk> {
        let Some(relay) = self.relay() else {
            return Err(if self.is_call { self.context.cannot_ask } else { CannotAsk::NotACall });
        };
        let asking = relay.asking().ok_or(self.context.cannot_ask)?;
        let stated = headers.get(VERSION).and_then(|version| version.to_str().ok());
        let version = LEGACY_VERSIONS.into_iter().find(|version| Some(*version) == stated).ok_or(CannotAsk::Method)?;
        let question = asking.write(request, version, headers.get(SESSION))?;
        // It is a part of the call until its end.
        if !self.context.memory.try_take(question.len() as u64) {
            return Err(CannotAsk::Memory);
        }
        relay.put_question(question);
        Ok(())
    }

    /// Answers a request of the server, so that it does not wait for the answer. Whether it takes the answer does not matter.
    pub(super) async fn answer(&mut self, http: Http<'_>, headers: &HeaderMap, answer: Bytes) {
        let sent = Box::pin(self.send(http, "response", headers, answer));
        if let Ok(Ok(incoming)) = tokio::time::timeout(SHORT, sent).await {
            incoming.finish().await;
        }
    }

    pub(super) async fn read_message(&self, text: Bytes, id: u64) -> Result<message::Received, Fault> {
        let (bytes, kinds) = (text.len(), self.relay().map(|relay| relay.kinds()).unwrap_or_default());
        let read = self.off_thread(bytes, move || message::read(&text, id, kinds)).await.map_err(Fault::Final)?;
        read.map_err(|message::Unreadable(reason)| malformed(reason))
    }

    /// Runs work on `bytes` bytes: here if they are few, otherwise off the serving threads.
    ///
    /// # Errors
    /// There was no time or no memory for it.
    pub(super) async fn off_thread<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, UpstreamError> {
        if bytes <= LIGHT_READ {
            return Ok(work());
        }
        let CallContext { offload, bounds, .. } = &self.context;
        let done = offload.run(Work::Upstream, bounds.deadline, None, move |_| work()).await;
        done.map_err(|not_run| match not_run {
            NotRun::Overdue => UpstreamError::Timeout { sent: true },
            NotRun::Exhausted => UpstreamError::Exhausted { sent: true },
        })
    }
}

impl Transport<'_> {
    /// Notifies a server that a call is not waited for any more. `headers` and `id` are those of the call.
    pub(super) fn cancel(&self, headers: &HeaderMap, id: u64) {
        match self {
            Self::Http(http) => http.cancel(headers, id),
            Self::Events(http, connection) => Http { target: connection.target(), ..*http }.cancel(headers, id),
            Self::Program(program) => program.cancel(id),
        }
    }

    /// Returns whether a server of this era has to be notified that a call is not waited for any more.
    pub(super) fn needs_cancel(&self, server: Server) -> bool {
        match self {
            // The end of the connection says so.
            Self::Http(_) => server != Server::Modern,
            Self::Events(..) | Self::Program(_) => true,
        }
    }

    /// Returns the program if it has ended.
    pub(super) fn ended(&self) -> Option<&Program<'_>> {
        match self {
            Self::Http(_) | Self::Events(..) => None,
            Self::Program(program) => Some(&**program).filter(|program| program.has_ended()),
        }
    }
}

impl Http<'_> {
    /// Returns what sends further messages with these headers, independent of the call; none if no request can have the credential.
    pub(super) fn letter(&self, headers: &HeaderMap) -> Option<Letter> {
        let Self { client, target, common, authentication } = self;
        let mut all = HeaderMap::clone(common);
        all.extend(authentication.header.clone());
        all.extend(headers.clone());
        let path = path(target, authentication)?;
        let (client, target) = (Arc::clone(client), Target::clone(target));
        Some(Letter { client, target, path, headers: all, runtime: Handle::try_current().ok() })
    }

    fn cancel(self, headers: &HeaderMap, id: u64) {
        if let Some(letter) = self.letter(headers) {
            letter.post(cancelled(id));
        }
    }
}

/// Sends messages whose answer does not matter.
pub(super) struct Letter {
    client: Arc<Client>,
    target: Target,
    path: PathAndQuery,
    headers: HeaderMap,
    /// Where it was written. A session may be dropped by a thread without a runtime, such as that of audit records.
    runtime: Option<Handle>,
}

/// Without the headers, which hold the credential.
impl fmt::Debug for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Letter(..)")
    }
}

impl Letter {
    /// Sends a message, and waits for a short time at most.
    pub(super) async fn send(&self, body: Bytes) {
        self.send_as(Method::POST, body).await;
    }

    async fn send_as(&self, verb: Method, body: Bytes) {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = verb;
        request.headers_mut().clone_from(&self.headers);
        *request.uri_mut() = self.path.clone().into();
        let (policy, http) = self.client.direct();
        if policy.check(self.target.origin()).is_ok() {
            let _ = tokio::time::timeout(CANCELLING, http.send(self.target.origin(), request)).await;
        }
    }

    /// Sends a message in the background.
    fn post(self, body: Bytes) {
        // Without a runtime the gateway is ending, and with it the connection.
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move { self.send(body).await });
    }

    /// Ends the session that the headers name, in the background. If too many are being ended, the server has to end this one by
    /// itself.
    pub(super) fn end_session(mut self) {
        let runtime = Handle::try_current().ok().or_else(|| self.runtime.take());
        let (Some(runtime), Ok(permit)) = (runtime, ENDING.try_acquire()) else { return };
        self.headers.remove(CONTENT_TYPE);
        runtime.spawn(async move {
            self.send_as(Method::DELETE, Bytes::new()).await;
            drop(permit);
        });
    }
}

/// Returns the path with its query, and the credential if that belongs there; none if no request can have it.
fn path(target: &Target, authentication: &Authentication<'_>) -> Option<PathAndQuery> {
    let path = target.path_and_query();
    match (&authentication.query, target.query()) {
        (None, _) => Some(path.clone()),
        (Some(pair), Some(query)) if !query.is_empty() => PathAndQuery::try_from(format!("{path}&{pair}")).ok(),
        (Some(pair), _) => PathAndQuery::try_from(format!("{}?{pair}", target.path())).ok(),
    }
}

/// The form of a body with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Json,
    Events,
}

/// Whether a body is a stream of events.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    kind(headers) == Some(Body::Events)
}

fn kind(headers: &HeaderMap) -> Option<Body> {
    let stated = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = stated.split(';').next().unwrap_or_default().trim();
    let is = |kind: &str| essence.eq_ignore_ascii_case(kind);
    match () {
        () if is("application/json") => Some(Body::Json),
        () if is("text/event-stream") => Some(Body::Events),
        () => None,
    }
}

/// Returns the fault of an answer that cannot be read.
pub(super) fn malformed(reason: &str) -> Fault {
    Fault::Final(UpstreamError::Malformed(reason.to_owned()))
}

fn exhausted(sent: bool) -> Fault {
    Fault::Final(UpstreamError::Exhausted { sent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_body_is_its_media_type() {
        for (stated, expected) in [
            ("application/json", Some(Body::Json)),
            ("Application/JSON; charset=utf-8", Some(Body::Json)),
            ("text/event-stream;charset=utf-8", Some(Body::Events)),
            ("application/jsonp", None),
            ("text/html", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, stated.parse().unwrap())]);
            assert_eq!(kind(&headers), expected, "{stated}");
        }
        assert_eq!(kind(&HeaderMap::new()), None);
    }
}
