//! One HTTP request: where it goes, what it may, how it is answered.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming as HttpIncoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, http};
use tokio_util::sync::CancellationToken;

use super::detached::Detached;
use super::guest::Guest;
use super::index::{self, Unlisted};
use super::reading::{self, Asked, Meaning, Read, Reader};
use super::stream::{self, Open};
use super::{Body, header_era, origin, session};
use crate::access::{self, Turned};
use crate::call::{self, Caller};
use crate::compute::NotRun;
use crate::dispatch::Task;
use crate::exposition::Exposition;
use crate::gateway::Gateway;
use crate::mcp::encode;
use crate::mcp::era::{self, BATCHES};
use crate::mcp::message::{self, Unreadable};
use crate::mcp::{Era, Incoming, RpcError, headers};
use crate::memory::{Buffer, Exhausted, Held, Reservation, arguments_need};
use crate::metrics::Rejection;
use crate::offload::{LIGHT_COPIED, LIGHT_READ, Work};
use crate::options::GatewayLimits;
use crate::refusals::Refused;
use crate::registry::{Slot, State};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
/// What is read, to be thrown away, of a body whose sender is not let in.
const DISCARDED: usize = 64 << 10;
/// How long that may take.
const DISCARDING: Duration = Duration::from_secs(1);
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Answers one request.
pub(super) async fn handle(
    gateway: &Arc<Gateway>,
    request: Request<HttpIncoming>,
    peer: IpAddr,
    shutdown: &CancellationToken,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let era = header_era(&parts.headers);
    if !origin::is_allowed(&parts.headers, &gateway.options.hostnames) {
        gateway.metrics.rejected(Rejection::Origin);
        let refused = Refused { peer: Some(peer), path: Some(parts.uri.path()), why: None };
        gateway.refusals.note(Rejection::Origin, None, refused);
        return plain(StatusCode::FORBIDDEN, "this Origin may not call");
    }
    if parts.uri.path() == "/" && matches!(parts.method, Method::GET | Method::HEAD) {
        return list(gateway, &parts, peer);
    }
    let Some(slot) = parts.uri.path().strip_prefix("/mcp/").and_then(|path| gateway.registry.find(path)) else {
        gateway.metrics.rejected(Rejection::Unknown);
        let refused = Refused { peer: Some(peer), path: Some(parts.uri.path()), why: None };
        gateway.refusals.note(Rejection::Unknown, None, refused);
        return turn_away(gateway, &parts.method, body, &RpcError::no_such_exposition(), era).await;
    };
    let state = slot.state();
    let exposition = match state.as_ref() {
        State::Serving(exposition) => exposition,
        State::Stopped(stopped) => {
            gateway.metrics.rejected(Rejection::Stopped);
            let why = format!("{}: {}", stopped.reason, stopped.message);
            let refused = Refused { peer: Some(peer), path: None, why: Some(&why) };
            gateway.refusals.note(Rejection::Stopped, Some(&slot.id), refused);
            return turn_away(gateway, &parts.method, body, &RpcError::unavailable(), era).await;
        }
    };
    // Before anything is read of the body or counted against a limit.
    let guest = match Guest::admit(gateway, &slot, exposition, &parts.headers) {
        Ok(guest) => guest,
        Err(Turned::Unauthorized) => {
            exposition.series.rejected(&gateway.metrics, Rejection::Unauthorized);
            let refused = Refused { peer: Some(peer), ..Refused::default() };
            gateway.refusals.note(Rejection::Unauthorized, Some(&slot.id), refused);
            // Whoever asks first whether to send a body is told not to.
            if !parts.headers.contains_key(header::EXPECT) {
                discard(body).await;
            }
            return refuse(None, &RpcError::unauthorized(), era);
        }
        Err(Turned::NoCallers) => {
            exposition.series.rejected(&gateway.metrics, Rejection::Stopped);
            let why = Some("SecretNotFound: the callers' keys are not there");
            gateway.refusals.note(Rejection::Stopped, Some(&slot.id), Refused { peer: Some(peer), path: None, why });
            return turn_away(gateway, &parts.method, body, &RpcError::unavailable(), era).await;
        }
    };
    let (headers, caller) = (&parts.headers, guest.caller(peer));
    let connection = Connection { gateway, slot: &slot, exposition, headers, guest, caller, shutdown };
    match parts.method {
        Method::POST => connection.post(body).await,
        Method::GET if era == Era::Legacy => connection.get(),
        _ => {
            let allowed = if era == Era::Legacy { "GET, POST" } else { "POST" };
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
            response
        }
    }
}

/// Answers `GET /`.
fn list(gateway: &Gateway, request: &http::request::Parts, peer: IpAddr) -> Response<Body> {
    if !origin::host_is_allowed(&request.headers, &request.uri, &gateway.options.hostnames) {
        gateway.metrics.rejected(Rejection::Origin);
        let refused = Refused { peer: Some(peer), path: Some("/"), why: Some("Host is no name of this gateway") };
        gateway.refusals.note(Rejection::Origin, None, refused);
        return plain(StatusCode::FORBIDDEN, "this Host may not be asked for a list; use an address of the gateway");
    }
    let mut response = match index::list(gateway, access::presented(&request.headers)) {
        Ok(list) => match held_by_strangers(gateway, &list) {
            Some(held) => Response::new(Body::from(held)),
            None => return refuse(None, &RpcError::exhausted(), Era::Modern),
        },
        Err(Unlisted::Unauthorized) => {
            gateway.metrics.rejected(Rejection::Unauthorized);
            let refused = Refused { peer: Some(peer), path: Some("/"), why: None };
            gateway.refusals.note(Rejection::Unauthorized, None, refused);
            return refuse(None, &RpcError::unauthorized(), Era::Modern);
        }
        Err(Unlisted::Busy) => {
            gateway.metrics.rejected(Rejection::Rate);
            gateway.refusals.note(Rejection::Rate, None, Refused { peer: Some(peer), path: Some("/"), why: None });
            return refuse(None, &RpcError::busy(429, "too many lists for keys in one second", 1), Era::Modern);
        }
    };
    // For a browser: data of this site, never a page, kept by nobody.
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    );
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

/// A copy of an answer for a sender that no exposition has admitted.
fn held_by_strangers(gateway: &Gateway, bytes: &[u8]) -> Option<Held> {
    let mut held = Reservation::try_open(&gateway.strangers)?;
    held.try_take(bytes.len() as u64).then(|| Held::new(bytes.to_vec(), held))
}

/// Throws a body away, so that its sender, done with sending, reads the answer. Whoever sends much or is slow gets it
/// with a closed connection.
async fn discard(mut body: HttpIncoming) {
    let mut left = DISCARDED;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARDING, reading).await;
}

/// Answers a request that nothing serves, under its own id: some clients wait for an answer that names it.
async fn turn_away(
    gateway: &Gateway,
    method: &Method,
    body: HttpIncoming,
    error: &RpcError,
    era: Era,
) -> Response<Body> {
    if method != Method::POST {
        return refuse(None, error, era);
    }
    let body = beginning(gateway, body).await;
    let id = std::str::from_utf8(&body).ok().and_then(|text| match message::parse(text) {
        Ok(Incoming::Request { id, .. }) => Some(id),
        Ok(_) => None,
        Err(Unreadable { id, .. }) => id,
    });
    refuse(id.map(|id| id.get().as_bytes()), error, era)
}

/// A body of which no more is read than is thrown away otherwise: all of it where it is short and comes at once, else
/// nothing. Its sender has not been let in, so that its memory is that of all strangers.
async fn beginning(gateway: &Gateway, mut body: HttpIncoming) -> Bytes {
    let fits = body.size_hint().lower() <= DISCARDED as u64;
    let held = if fits { Reservation::try_open(&gateway.strangers) } else { None };
    let Some(mut held) = held else {
        discard(body).await;
        return Bytes::new();
    };
    let reading = async {
        let mut all = Buffer::new(&mut held, None).await.ok()?;
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.ok()?.into_data() else { continue };
            if all.len() + piece.len() > DISCARDED {
                return None;
            }
            all.push(piece).await.ok()?;
        }
        Some(all.finish())
    };
    tokio::time::timeout(DISCARDING, reading).await.ok().flatten().unwrap_or_default()
}

/// Reads a body, no further than it may be long, into memory that has been reserved before: at once where its length is
/// stated, else as it comes.
async fn read(limits: &GatewayLimits, mut body: HttpIncoming, held: &mut Reservation) -> Result<Bytes, RpcError> {
    let too_large = || RpcError { status: 413, ..RpcError::invalid_request("the request is too large") };
    let stated = body.size_hint().exact();
    if stated.is_some_and(|stated| stated > limits.request_bytes as u64) {
        discard(body).await;
        return Err(too_large());
    }
    let reading = async {
        let mut all = Buffer::new(held, stated).await.map_err(|Exhausted| RpcError::exhausted())?;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| RpcError::invalid_request("the body did not arrive in full"))?;
            let Ok(piece) = frame.into_data() else { continue };
            if all.len() + piece.len() > limits.request_bytes {
                return Err(too_large());
            }
            all.push(piece).await.map_err(|Exhausted| RpcError::exhausted())?;
        }
        Ok(all.finish())
    };
    tokio::time::timeout(limits.body_timeout, reading).await.unwrap_or_else(|_| {
        Err(RpcError { status: 408, ..RpcError::invalid_request("the body did not arrive in time") })
    })
}

/// What the messages of one request share.
struct Connection<'a> {
    gateway: &'a Arc<Gateway>,
    slot: &'a Slot,
    exposition: &'a Arc<Exposition>,
    headers: &'a HeaderMap,
    guest: Guest,
    caller: Caller,
    shutdown: &'a CancellationToken,
}

impl Connection<'_> {
    /// Opens the legacy stream of notifications.
    fn get(self) -> Response<Body> {
        if !accepts(self.headers, "text/event-stream") {
            return plain(StatusCode::NOT_ACCEPTABLE, "GET answers text/event-stream");
        }
        match Open::new(self.gateway, self.exposition, &self.caller) {
            Some(open) => event_stream(stream::legacy(self.guest, self.slot.changes(), self.shutdown, open)),
            None => refuse(None, &RpcError::busy(503, "too many open streams", 5), Era::Legacy),
        }
    }

    async fn post(&self, body: HttpIncoming) -> Response<Body> {
        let era = header_era(self.headers);
        let rejected = |reason| self.exposition.series.rejected(&self.gateway.metrics, reason);
        if !is_json(self.headers) {
            rejected(Rejection::Protocol);
            return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json");
        }
        if !accepts(self.headers, "application/json") {
            rejected(Rejection::Protocol);
            return plain(StatusCode::NOT_ACCEPTABLE, "Accept must allow application/json and text/event-stream");
        }
        let read = match Reservation::open(&self.exposition.share).await {
            Ok(mut held) => read(&self.gateway.options.limits, body, &mut held).await.map(|body| (body, held)),
            Err(Exhausted) => Err(RpcError::exhausted()),
        };
        let (body, held) = match read {
            Ok(read) => read,
            Err(error) => {
                rejected(match error.status {
                    413 => Rejection::Size,
                    503 => Rejection::Memory,
                    _ => Rejection::Protocol,
                });
                return refuse(None, &error, era);
            }
        };
        let mut held = held;
        let read = match self.off_thread(&body, &mut held, reading::body).await {
            Ok(read) => read,
            Err(error) => {
                rejected(if error.status == 503 { Rejection::Memory } else { Rejection::Protocol });
                return refuse(None, &error, era);
            }
        };
        let answered = match read {
            Read::One(Ok(meaning)) => self.single(meaning, held).await,
            Read::One(Err(refusal)) => Err(refuse(refusal.id.as_deref(), &refusal.error, refusal.era)),
            Read::Batch(batch) => self.batch(batch, held).await,
        };
        answered.unwrap_or_else(|refused| {
            rejected(Rejection::Protocol);
            refused
        })
    }

    fn reader(&self) -> Reader<'_> {
        Reader {
            exposition: self.exposition,
            headers: self.headers,
            caller: &self.caller,
            is_traced: self.gateway.options.traces.is_some(),
            batch: self.gateway.options.limits.batch,
        }
    }

    /// Reads `source` here if it is short, else off the serving threads.
    ///
    /// # Errors
    /// There was no memory, or no turn in the time that a call may take.
    async fn off_thread<T: Send + 'static>(
        &self,
        source: &Bytes,
        held: &mut Reservation,
        read: fn(Reader<'_>, &Bytes) -> T,
    ) -> Result<T, RpcError> {
        if source.len() <= LIGHT_READ {
            return Ok(read(self.reader(), source));
        }
        let (exposition, headers) = (Arc::clone(self.exposition), self.headers.clone());
        let (source, caller) = (source.clone(), self.caller.clone());
        let Reader { is_traced, batch, .. } = self.reader();
        // Headers that repeat arguments are compared with these.
        let compares = exposition.service.contracts.values().any(|contract| !contract.param_headers.is_empty());
        let need = if compares { arguments_need(source.len()) } else { 0 };
        let deadline = Instant::now() + Duration::from_millis(exposition.limits.timeout_ms);
        let work = move |_: &dyn Fn() -> bool| {
            read(Reader { exposition: &exposition, headers: &headers, caller: &caller, is_traced, batch }, &source)
        };
        let offload = self.gateway.offload(&self.exposition.id);
        let done = offload.run(Work::Request, deadline, Some((held, need)), work).await;
        held.give(need);
        done.map_err(|not_run| match not_run {
            NotRun::Overdue => RpcError::busy(503, "the request could not be read in time", 1),
            NotRun::Exhausted => RpcError::exhausted(),
        })
    }

    /// Whose calls those of this request are.
    fn holder(&self) -> String {
        format!("{} {}", self.exposition.id, self.caller.name().unwrap_or_default())
    }

    /// Acts on a request of one message; the error is an answer too, to a message that was never acted upon.
    async fn single(&self, meaning: Meaning, mut held: Reservation) -> Result<Response<Body>, Response<Body>> {
        let Asked { id, era, is_handshake, task } = match meaning {
            Meaning::Accepted => return Ok(accepted()),
            Meaning::Cancel(request) => {
                if let Some(session) = session::named(self.headers) {
                    self.gateway.cancellable.cancel(session, &self.holder(), &request);
                }
                return Ok(accepted());
            }
            Meaning::Request(asked) => asked,
        };
        let refused = |error: &RpcError| refuse(Some(&id), error, era);
        match task {
            Err(error) if error.status == 200 => Ok(refused(&error)),
            Err(error) => Err(refused(&error)),
            Ok(Task::Answer(body)) => {
                if held.take(body.len() as u64).await.is_err() {
                    self.exposition.series.rejected(&self.gateway.metrics, Rejection::Memory);
                    return Ok(refused(&RpcError::exhausted()));
                }
                let mut response = json(StatusCode::OK, Held::new(body, held));
                if is_handshake && let Some(id) = session::issue() {
                    response.headers_mut().insert(session::SESSION, id);
                }
                Ok(response)
            }
            Ok(Task::Call(call)) => {
                Ok(self.call(call, held).await.map_or_else(|e| refused(&e), |b| json(StatusCode::OK, b)))
            }
            Ok(Task::Listen(listen)) => Ok(match Open::new(self.gateway, self.exposition, &self.caller) {
                Some(open) => {
                    let server = self.exposition.service.server_meta.clone();
                    let (guest, changes) = (self.guest.clone(), self.slot.changes());
                    event_stream(stream::modern(listen, server, guest, changes, self.shutdown, open))
                }
                None => refused(&RpcError::busy(503, "too many open streams", 5)),
            }),
        }
    }

    /// Memory for one message of a batch.
    async fn with_memory(&self) -> Result<Reservation, RpcError> {
        Reservation::open(&self.exposition.share).await.map_err(|Exhausted| {
            self.exposition.series.rejected(&self.gateway.metrics, Rejection::Memory);
            RpcError::exhausted()
        })
    }

    /// Makes a call. In the modern era a connection that closes drops this future and cancels the call; in the legacy
    /// era the call goes on until it is cancelled by its name.
    async fn call(&self, call: call::ToolCall, held: Reservation) -> Result<Held, RpcError> {
        if call.era == Era::Modern {
            return call::run(self.gateway, self.exposition, &call, held).await;
        }
        let (gateway, exposition) = (Arc::clone(self.gateway), Arc::clone(self.exposition));
        let session = session::named(self.headers).map(|session| (Box::<str>::from(session), self.holder()));
        let run = async move {
            let id = std::str::from_utf8(&call.id).unwrap_or_default();
            let Some(under_way) =
                session.as_ref().and_then(|(session, holder)| gateway.cancellable.begin(session, holder, id))
            else {
                return call::run(&gateway, &exposition, &call, held).await;
            };
            tokio::select! {
                answer = call::run(&gateway, &exposition, &call, held) => answer,
                () = under_way.cancelled.cancelled() => Err(RpcError::cancelled()),
            }
        };
        Detached::new(run, &self.gateway.detached).await
    }

    /// Answers a batch, which one legacy version has.
    async fn batch(
        &self,
        batch: Result<Vec<Bytes>, RpcError>,
        mut held: Reservation,
    ) -> Result<Response<Body>, Response<Body>> {
        let legacy = |error: &RpcError| refuse(None, error, Era::Legacy);
        let version = reading::version(self.headers).and_then(|header| match era::decide(header, None, None) {
            Era::Legacy => era::legacy_version(header),
            Era::Modern => Ok(""),
        });
        if version.map_err(|error| legacy(&error))? != BATCHES {
            return Err(legacy(&RpcError::invalid_request("this version has no batches")));
        }
        let batch = batch.map_err(|error| legacy(&error))?;
        let limit = self.gateway.options.limits.batch;
        if batch.is_empty() || batch.len() > limit {
            return Err(legacy(&RpcError::batch_size(limit)));
        }
        if headers::has_repeats(self.headers) {
            // One header cannot repeat several messages.
            return Err(legacy(&RpcError::header_mismatch("Mcp-Method and Mcp-Name belong to single messages")));
        }
        let answers = join_all(batch.into_iter().map(|message| self.one_of_batch(message))).await;
        let answers: Vec<_> = answers.into_iter().flatten().collect();
        if answers.is_empty() {
            return Ok(accepted());
        }
        // They are copied into one.
        let size = answers.iter().map(|answer| answer.bytes.len() + 1).sum::<usize>() + 1;
        let joined = if size <= LIGHT_COPIED {
            held.take(size as u64).await.map_err(|Exhausted| NotRun::Exhausted).map(|()| Held::list(answers))
        } else {
            let deadline = Instant::now() + Duration::from_millis(self.exposition.limits.timeout_ms);
            let need = Some((&mut held, size as u64));
            let offload = self.gateway.offload(&self.exposition.id);
            offload.run(Work::Answer, deadline, need, move |_| Held::list(answers)).await
        };
        Ok(match joined {
            Ok(all) => json(StatusCode::OK, all),
            Err(NotRun::Overdue) => legacy(&RpcError::busy(503, "the answers could not be joined in time", 1)),
            Err(NotRun::Exhausted) => {
                self.exposition.series.rejected(&self.gateway.metrics, Rejection::Memory);
                legacy(&RpcError::exhausted())
            }
        })
    }

    async fn one_of_batch(&self, message: Bytes) -> Option<Held> {
        let error = |id: Option<&[u8]>, error: &RpcError| Some(encode::error(id, error, Era::Legacy).into());
        // The message itself is held by the batch.
        let (read, room) = if message.len() <= LIGHT_READ {
            (reading::of_batch(self.reader(), &message), None)
        } else {
            let mut room = match self.with_memory().await {
                Ok(room) => room,
                Err(exhausted) => return error(None, &exhausted),
            };
            match self.off_thread(&message, &mut room, reading::of_batch).await {
                Ok(read) => (read, Some(room)),
                Err(not_read) => return error(None, &not_read),
            }
        };
        let (id, task) = match read? {
            Ok(Asked { id, task, .. }) => (id, task),
            Err(refusal) => return error(refusal.id.as_deref(), &refusal.error),
        };
        let task = match task {
            Ok(task) => task,
            Err(refused) => return error(Some(&id), &refused),
        };
        let room = match room {
            Some(room) => Ok(room),
            None => self.with_memory().await,
        };
        let answered = match (task, room) {
            (_, Err(exhausted)) => Err(exhausted),
            (Task::Answer(body), Ok(room)) => Ok(Held::new(body, room)),
            (Task::Call(call), Ok(room)) => self.call(call, room).await,
            (Task::Listen(_), Ok(_)) => Err(RpcError::method_not_found(Era::Legacy)),
        };
        answered.map_or_else(|refused| error(Some(&id), &refused), Some)
    }
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

fn json(status: StatusCode, body: impl Into<Held>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text.as_bytes().to_vec()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENTS);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    // Proxies that buffer answers would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn refuse(id: Option<&[u8]>, error: &RpcError, era: Era) -> Response<Body> {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, encode::error(id, error, era));
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
