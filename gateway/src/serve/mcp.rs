//! The MCP endpoint of an exposition or a bundle over HTTP: requests and batches by POST, the legacy stream of notifications by GET.
//! Refusals are JSON-RPC errors that carry the request's id, also for an unknown exposition: MCP clients match answers to
//! requests by id, and some wait forever for an answer without one.

mod sessions;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::join_all;
use http::request::Parts;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use super::admission::{self, Admitted};
use super::auth::AuthContext;
use super::detached::Detached;
use super::incoming::RequestBody;
use super::relayed::{self, Events, Reading, Running};
use super::request_body::{self, BodyError};
use super::respond::{self, events, json, plain};
use super::{Body, session_id, stream};
use crate::call::{self, Caller};
use crate::compute::NotRun;
use crate::dispatch::Task;
use crate::gateway::Gateway;
use crate::mcp::message::{self, Unreadable};
use crate::mcp::{Era, Incoming, RpcError, encode};
use crate::memory::{Exhausted, Held, Reservation, arguments_need};
use crate::metrics::Rejection;
use crate::offload::{LIGHT_READ, Work};
use crate::registry::Slot;
use crate::relay::Relay;
use crate::session::{self, Action, Input, Notifications, Reader, Refusal, Request, StreamPlace, Transport, in_flight};
use crate::target::Target;

/// Answers a request to the MCP endpoint of the exposition `name`.
pub(super) async fn answer(
    gateway: &Arc<Gateway>,
    name: &str,
    request: &Parts,
    body: RequestBody,
    peer: IpAddr,
    shutdown: &CancellationToken,
) -> Response<Body> {
    let era = Transport::Http(&request.headers).era(None);
    let Admitted { slot, target, auth } = match admission::admit(gateway, name, request, peer) {
        Ok(admitted) => admitted,
        Err(refusal) => return refused(gateway, refusal, request, body, era).await,
    };
    let caller = auth.caller(peer);
    let admitted =
        McpRequest { gateway, slot: &slot, target: &target, headers: &request.headers, auth, caller, shutdown };
    match request.method {
        Method::POST => admitted.post(body, era).await,
        Method::GET if era == Era::Legacy => admitted.get(),
        Method::DELETE if era == Era::Legacy => admitted.delete(),
        _ => {
            let allowed = if era == Era::Legacy { "GET, POST" } else { "POST" };
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
            response
        }
    }
}

/// Answers a request that was not admitted.
async fn refused(
    gateway: &Gateway,
    denied: admission::Denied,
    request: &Parts,
    body: RequestBody,
    era: Era,
) -> Response<Body> {
    let error = match denied {
        admission::Denied::Unknown => RpcError::no_such_exposition(),
        admission::Denied::Stopped => RpcError::unavailable(),
        admission::Denied::Unauthorized => {
            request_body::discard(&request.headers, body).await;
            return refuse(None, &RpcError::unauthorized(), era);
        }
    };
    if request.method != Method::POST {
        return refuse(None, &error, era);
    }
    let body = request_body::peek(gateway, body).await;
    let id = std::str::from_utf8(&body).ok().and_then(|text| match message::parse(text) {
        Ok(Incoming::Request { id, .. }) => Some(id),
        Ok(_) => None,
        Err(Unreadable { id, .. }) => id,
    });
    refuse(id.map(|id| id.get().as_bytes()), &error, era)
}

/// An admitted request, with everything that its messages share.
pub(super) struct McpRequest<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    slot: &'a Slot,
    pub(super) target: &'a Target,
    headers: &'a HeaderMap,
    auth: AuthContext,
    pub(super) caller: Caller,
    shutdown: &'a CancellationToken,
}

impl McpRequest<'_> {
    /// Opens the legacy stream of notifications.
    fn get(self) -> Response<Body> {
        if !accepts(self.headers, "text/event-stream") {
            return plain(StatusCode::NOT_ACCEPTABLE, "GET answers text/event-stream");
        }
        match self.check_session().and_then(|()| StreamPlace::take(self.gateway, self.target, &self.caller)) {
            Ok(place) => {
                let notifications = Notifications::new(self.slot, self.shutdown, None).with_announced(self.join());
                events(stream::body(notifications, self.auth, place))
            }
            Err(error) => refuse(None, &error, Era::Legacy),
        }
    }

    /// Answers the message or the batch in the body. `era` is what the headers say of it.
    async fn post(&self, body: RequestBody, era: Era) -> Response<Body> {
        let rejected = |reason| self.target.series().rejected(&self.gateway.metrics, reason);
        if !is_json(self.headers) {
            rejected(Rejection::Protocol);
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json");
        }
        if !accepts(self.headers, "application/json") {
            rejected(Rejection::Protocol);
            return plain(StatusCode::NOT_ACCEPTABLE, "Accept must allow application/json and text/event-stream");
        }
        let read = match Reservation::open(self.target.share()).await {
            Ok(mut held) => {
                let limits = &self.gateway.options.limits;
                request_body::read(limits, body, &mut held).await.map(|body| (body, held))
            }
            Err(Exhausted) => Err(BodyError::Exhausted),
        };
        let (body, mut held) = match read {
            Ok(read) => read,
            Err(error) => {
                let (reason, error) = unread(error);
                rejected(reason);
                return refuse(None, &error, era);
            }
        };
        let input = match self.off_thread(&body, &mut held, session::read).await {
            Ok(input) => input,
            Err(error) => {
                rejected(if error.status == 503 { Rejection::Memory } else { Rejection::Protocol });
                return refuse(None, &error, era);
            }
        };
        match input {
            Input::Message(action) => self.act(action, held).await,
            Input::Batch(messages) => self.batch(messages, held).await,
        }
    }

    fn reader(&self) -> Reader<'_> {
        Reader {
            target: Ok(self.target),
            transport: Transport::Http(self.headers),
            caller: &self.caller,
            is_traced: self.gateway.options.traces.is_some(),
            batch: self.gateway.options.limits.batch,
        }
    }

    /// Reads `source`, off the serving threads if it is long.
    ///
    /// # Errors
    /// There was no memory for it, or no thread in the time that a call may take.
    async fn off_thread<T: Send + 'static>(
        &self,
        source: &Bytes,
        held: &mut Reservation,
        read: fn(Reader<'_>, &Bytes) -> T,
    ) -> Result<T, RpcError> {
        if source.len() <= LIGHT_READ {
            return Ok(read(self.reader(), source));
        }
        let (target, headers) = (self.target.clone(), self.headers.clone());
        let (source, caller) = (source.clone(), self.caller.clone());
        let Reader { is_traced, batch, .. } = self.reader();
        // Headers that repeat arguments are compared with these.
        let need = if target.has_param_headers() { arguments_need(source.len()) } else { 0 };
        let deadline = Instant::now() + target.timeout();
        let work = move |_: &dyn Fn() -> bool| {
            let (target, transport) = (Ok(&target), Transport::Http(&headers));
            read(Reader { target, transport, caller: &caller, is_traced, batch }, &source)
        };
        let offload = self.gateway.offload(self.target.id());
        let done = offload.run(Work::Request, deadline, Some((held, need)), work).await;
        held.release(need);
        done.map_err(|not_run| match not_run {
            NotRun::Overdue => RpcError::busy(503, "the request could not be read in time", 1),
            NotRun::Exhausted => RpcError::exhausted(),
        })
    }

    /// The session that requests are registered under, if the client names one: only the caller who was given the session
    /// id can cancel its requests.
    pub(super) fn session(&self) -> Option<String> {
        let id = session_id::named(self.headers)?;
        Some(format!("{id} {} {}", self.target.id(), self.caller.name().unwrap_or_default()))
    }

    /// Acts on a single message.
    async fn act(&self, action: Action, mut held: Reservation) -> Response<Body> {
        let Request { id, era, target, handshake, task } = match action {
            Action::Nothing => return accepted(),
            Action::Cancel(id) => {
                self.cancel(&id);
                return accepted();
            }
            Action::Respond(answer) => {
                let taken = self.respond(&answer, &mut held).await;
                return taken.map_or_else(|error| refuse(None, &error, Era::Legacy), |()| accepted());
            }
            Action::Refuse(Refusal { id, error, era }) => {
                // An error that is answered in band is no violation of the protocol.
                if error.status != 200 {
                    self.target.series().rejected(&self.gateway.metrics, Rejection::Protocol);
                }
                return refuse(id.as_deref(), &error, era);
            }
            Action::Perform(request) => request,
        };
        let refused = |error: &RpcError| refuse(Some(&id), error, era);
        if era == Era::Legacy
            && handshake.is_none()
            && let Err(ended) = self.check_session()
        {
            return refused(&ended);
        }
        match task {
            Task::Answer(body) => {
                let before = held.used();
                let session = match handshake {
                    Some(handshake) => Box::pin(self.begin(handshake, &mut held)).await,
                    None => None,
                };
                held.shrink_to(before);
                if held.take(body.len() as u64).await.is_err() {
                    target.series().rejected(&self.gateway.metrics, Rejection::Memory);
                    return refused(&RpcError::exhausted());
                }
                let mut response = json(StatusCode::OK, Held::new(body, held));
                if let Some(id) = session {
                    response.headers_mut().insert(session_id::HEADER, id);
                }
                response
            }
            Task::SetLevel(level, body) => {
                self.set_level(level);
                json(StatusCode::OK, body)
            }
            Task::Call(mut call) => {
                match self.caller_session_of(&call) {
                    Ok(session) => call.session = session,
                    Err(error) => return refused(&error),
                }
                if let Some(relay) = self.relay(&call) {
                    if era == Era::Legacy && relay.level().is_some() {
                        self.opened(call.session.as_deref()).await;
                    }
                    return self.relayed(call, relay, held).await;
                }
                self.call(call, held).await.map_or_else(|error| refused(&error), |body| json(StatusCode::OK, body))
            }
            Task::Listen(mut listen) => {
                let place = StreamPlace::take(self.gateway, &target, &self.caller);
                let begun = match place {
                    Ok(place) => Box::pin(self.listen(&mut listen)).await.map(|announced| (place, announced)),
                    Err(error) => Err(error),
                };
                match begun {
                    Ok((place, announced)) => {
                        let subscription = (listen, Arc::clone(target.server_meta()));
                        let notifications = Notifications::new(self.slot, self.shutdown, Some(subscription));
                        events(stream::body(notifications.with_announced(announced), self.auth.clone(), place))
                    }
                    Err(error) => refused(&error),
                }
            }
            Task::Subscribe(wanted) => match Box::pin(self.subscribe(&wanted)).await {
                Ok(()) => json(StatusCode::OK, encode::result(id_text(&id), "{}")),
                Err(error) => refused(&error),
            },
        }
    }

    fn cancel(&self, id: &str) {
        if let Some(session) = self.session() {
            self.gateway.in_flight.cancel(&session, id);
        }
    }

    /// Memory for one message of a batch.
    async fn with_memory(&self) -> Result<Reservation, RpcError> {
        Reservation::open(self.target.share()).await.map_err(|Exhausted| {
            self.target.series().rejected(&self.gateway.metrics, Rejection::Memory);
            RpcError::exhausted()
        })
    }

    /// Returns what passes messages of the server to the caller; none if the caller wants none, or cannot read them.
    fn relay(&self, call: &call::ToolCall) -> Option<Arc<Relay>> {
        let levels = &self.gateway.levels;
        let level = || levels.is_used().then(|| self.session()).flatten().and_then(|session| levels.get(&session));
        call.relay(level, || self.asking(call)).filter(|_| accepts(self.headers, "text/event-stream"))
    }

    /// Makes a call whose caller wants messages of the server.
    async fn relayed(&self, call: call::ToolCall, relay: Arc<Relay>, held: Reservation) -> Response<Body> {
        let (id, era) = (call.id.clone(), call.era);
        let (gateway, passes) = (Arc::clone(self.gateway), Arc::clone(&relay));
        let registered = match era {
            Era::Modern => None,
            Era::Legacy => self.session().and_then(|session| gateway.in_flight.begin(&session, call.id())),
        };
        let run = async move {
            tokio::select! {
                answer = call::run(&gateway, &call, Some(&passes), held) => answer,
                () = in_flight::cancelled(registered.as_ref()) => Err(RpcError::cancelled()),
            }
        };
        let reading = Arc::<Reading>::default();
        let mut running = Running::start(run, era, Arc::downgrade(&reading), &self.gateway.detached);
        tokio::select! {
            biased;
            outcome = &mut running => {
                outcome.map_or_else(|error| refuse(Some(&id), &error, era), |body| json(StatusCode::OK, body))
            }
            () = relay.due() => {
                events(relayed::body(Events { relay, running, id, era, auth: self.auth.clone() }, reading))
            }
        }
    }

    /// Makes a call. In the modern era, a closed connection drops this future and so cancels the call. In the legacy era, the
    /// call goes on until its client cancels it by its id.
    async fn call(&self, call: call::ToolCall, held: Reservation) -> Result<Held, RpcError> {
        if call.era == Era::Modern {
            return Box::pin(call::run(self.gateway, &call, None, held)).await;
        }
        let gateway = Arc::clone(self.gateway);
        let registered = self.session().and_then(|session| gateway.in_flight.begin(&session, call.id()));
        let run = async move {
            tokio::select! {
                answer = call::run(&gateway, &call, None, held) => answer,
                () = in_flight::cancelled(registered.as_ref()) => Err(RpcError::cancelled()),
            }
        };
        Detached::new(run, &self.gateway.detached).await
    }

    /// Answers the messages of a batch together. `_held` is the memory of the messages.
    async fn batch(&self, messages: Vec<Bytes>, _held: Reservation) -> Response<Body> {
        let answers = join_all(messages.into_iter().map(|message| self.one_of_batch(message))).await;
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        if answers.is_empty() {
            return accepted();
        }
        json(StatusCode::OK, Held::list(answers))
    }

    /// The answer to a message of a batch, if it gets one.
    async fn one_of_batch(&self, message: Bytes) -> Option<Held> {
        let refusal = |id, error| Some(Refusal { id, error, era: Era::Legacy }.encode().into());
        // The message itself is held by the batch.
        let (action, room) = if message.len() <= LIGHT_READ {
            (session::read_of_batch(self.reader(), &message), None)
        } else {
            let mut room = match self.with_memory().await {
                Ok(room) => room,
                Err(exhausted) => return refusal(None, exhausted),
            };
            match self.off_thread(&message, &mut room, session::read_of_batch).await {
                Ok(action) => (action, Some(room)),
                Err(not_read) => return refusal(None, not_read),
            }
        };
        let (id, task) = match action {
            Action::Nothing => return None,
            Action::Cancel(id) => {
                self.cancel(&id);
                return None;
            }
            Action::Respond(answer) => {
                let mut room = match room {
                    Some(room) => room,
                    None => self.with_memory().await.ok()?,
                };
                let taken = self.respond(&answer, &mut room).await;
                return taken.err().and_then(|error| refusal(None, error));
            }
            Action::Refuse(refusal) => return Some(refusal.encode().into()),
            Action::Perform(Request { id, era: _, target: _, handshake: _, task }) => (id, task),
        };
        let room = match room {
            Some(room) => Ok(room),
            None => self.with_memory().await,
        };
        let answered = match (task, room) {
            (_, Err(exhausted)) => Err(exhausted),
            (Task::Answer(body), Ok(room)) => Ok(Held::new(body, room)),
            (Task::SetLevel(level, body), Ok(room)) => {
                self.set_level(level);
                Ok(Held::new(body, room))
            }
            (Task::Call(mut call), Ok(room)) => match self.caller_session_of(&call) {
                Ok(session) => {
                    call.session = session;
                    self.call(call, room).await
                }
                Err(error) => Err(error),
            },
            (Task::Listen(_), Ok(_)) => Err(RpcError::method_not_found(Era::Legacy)),
            (Task::Subscribe(wanted), Ok(room)) => {
                let subscribed = Box::pin(self.subscribe(&wanted)).await;
                subscribed.map(|()| Held::new(encode::result(id_text(&id), "{}"), room))
            }
        };
        answered.map_or_else(|error| refusal(Some(id), error), Some)
    }
}

/// Returns a request's id as text. It was checked when the request was read.
fn id_text(id: &Bytes) -> &str {
    std::str::from_utf8(id).unwrap_or("null")
}

fn is_json(headers: &HeaderMap) -> bool {
    let essence =
        |value: &str| value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json");
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(essence)
}

/// Whether `Accept` allows `wanted`. None at all allows everything, as HTTP has it.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    let kind = wanted.split('/').next().unwrap_or_default();
    values.peek().is_none()
        || values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|range| {
            let range = range.split(';').next().unwrap_or_default().trim();
            range == "*/*"
                || range.eq_ignore_ascii_case(wanted)
                || range.strip_suffix("/*").is_some_and(|major| major.eq_ignore_ascii_case(kind))
        })
}

fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// The reason to count, and the error to answer with, for a body that was not read.
fn unread(error: BodyError) -> (Rejection, RpcError) {
    let invalid = |status, message| RpcError { status, ..RpcError::invalid_request(message) };
    match error {
        BodyError::TooLarge => (Rejection::Size, invalid(413, "the request is too large")),
        BodyError::TimedOut => (Rejection::Protocol, invalid(408, "the body did not arrive in time")),
        BodyError::Incomplete => (Rejection::Protocol, invalid(400, "the body did not arrive in full")),
        BodyError::Exhausted => (Rejection::Memory, RpcError::exhausted()),
    }
}

fn refuse(id: Option<&[u8]>, error: &RpcError, era: Era) -> Response<Body> {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, encode::error(id, error, era));
    if let Some(seconds) = error.retry_after {
        response = respond::retry_after(response, seconds);
    }
    if status == StatusCode::UNAUTHORIZED {
        response = respond::challenge(response);
    }
    response
}
