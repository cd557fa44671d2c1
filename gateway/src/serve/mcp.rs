//! The MCP endpoint of an exposition over HTTP: requests and batches by POST, the legacy stream of notifications by GET.
//! Refusals are JSON-RPC errors that carry the request's id, also for an unknown exposition: MCP clients match answers to
//! requests by id, and some wait forever for an answer without one.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use http::request::Parts;
use hyper::body::Incoming as HttpIncoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use super::admission::{self, Admitted, Refusal};
use super::auth::AuthContext;
use super::detached::Detached;
use super::reading::{self, Asked, Meaning, Read, Reader};
use super::request_body::{self, BodyError};
use super::respond::{self, events, json, plain};
use super::stream::{self, Open};
use super::{Body, header_era, session_id};
use crate::call::{self, Caller};
use crate::compute::NotRun;
use crate::dispatch::Task;
use crate::exposition::Exposition;
use crate::gateway::Gateway;
use crate::mcp::encode;
use crate::mcp::era::{self, BATCHES};
use crate::mcp::message::{self, Unreadable};
use crate::mcp::{Era, Incoming, RpcError, headers};
use crate::memory::{Exhausted, Held, Reservation, arguments_need};
use crate::metrics::Rejection;
use crate::offload::{LIGHT_COPIED, LIGHT_READ, Work};
use crate::registry::Slot;

/// Answers a request to the MCP endpoint of the exposition `name`.
pub(super) async fn answer(
    gateway: &Arc<Gateway>,
    name: &str,
    request: &Parts,
    body: HttpIncoming,
    peer: IpAddr,
    shutdown: &CancellationToken,
) -> Response<Body> {
    let era = header_era(&request.headers);
    let Admitted { slot, exposition, auth } = match admission::admit(gateway, name, request, peer) {
        Ok(admitted) => admitted,
        Err(refusal) => return refused(gateway, refusal, request, body, era).await,
    };
    let caller = auth.caller(peer);
    let exchange =
        Exchange { gateway, slot: &slot, exposition: &exposition, headers: &request.headers, auth, caller, shutdown };
    match request.method {
        Method::POST => exchange.post(body).await,
        Method::GET if era == Era::Legacy => exchange.get(),
        _ => {
            let allowed = if era == Era::Legacy { "GET, POST" } else { "POST" };
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
            response
        }
    }
}

/// Answers a request that was not admitted.
async fn refused(gateway: &Gateway, refusal: Refusal, request: &Parts, body: HttpIncoming, era: Era) -> Response<Body> {
    let error = match refusal {
        Refusal::Unknown => RpcError::no_such_exposition(),
        Refusal::Stopped => RpcError::unavailable(),
        Refusal::Unauthorized => {
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

/// What the messages of one request share.
struct Exchange<'a> {
    gateway: &'a Arc<Gateway>,
    slot: &'a Slot,
    exposition: &'a Arc<Exposition>,
    headers: &'a HeaderMap,
    auth: AuthContext,
    caller: Caller,
    shutdown: &'a CancellationToken,
}

impl Exchange<'_> {
    /// Opens the legacy stream of notifications.
    fn get(self) -> Response<Body> {
        if !accepts(self.headers, "text/event-stream") {
            return plain(StatusCode::NOT_ACCEPTABLE, "GET answers text/event-stream");
        }
        match Open::new(self.gateway, self.exposition, &self.caller) {
            Some(open) => events(stream::legacy(self.auth, self.slot.changes(), self.shutdown, open)),
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
                if let Some(session) = session_id::named(self.headers) {
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
                if is_handshake && let Some(id) = session_id::issue() {
                    response.headers_mut().insert(session_id::SESSION, id);
                }
                Ok(response)
            }
            Ok(Task::Call(call)) => {
                Ok(self.call(call, held).await.map_or_else(|e| refused(&e), |b| json(StatusCode::OK, b)))
            }
            Ok(Task::Listen(listen)) => Ok(match Open::new(self.gateway, self.exposition, &self.caller) {
                Some(open) => {
                    let server = self.exposition.service.server_meta.clone();
                    let (auth, changes) = (self.auth.clone(), self.slot.changes());
                    events(stream::modern(listen, server, auth, changes, self.shutdown, open))
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
        let session = session_id::named(self.headers).map(|session| (Box::<str>::from(session), self.holder()));
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
