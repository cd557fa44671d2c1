//! One call in flight: attempts, messages, the deadline.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method as HttpMethod, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;

use super::frames::{BadFrame, Frame, Frames};
use super::json::{self, NotWritten};
use super::request::{ENCODING, TIMEOUT, timeout};
use super::status::{self, Status};
use super::{GrpcService, Method};
use crate::hops;
use crate::memory::Exhausted;
use crate::offload::{LIGHT_READ, Work};
use crate::trace::RequestSpan;
use crate::upstream::auth::Authentication;
use crate::upstream::egress::Denied;
use crate::upstream::gunzip::{Gunzip, GunzipError};
use crate::upstream::http::extract::extract;
use crate::upstream::http::retry::{Decision, Failure, decide};
use crate::upstream::incoming::{Fault, fault, record_failure};
use crate::upstream::pace::{Paced, Turn};
use crate::upstream::returned::Search;
use crate::upstream::{CallContext, UpstreamError};

/// Bytes of gzip that are decoded at once.
const GUNZIP_PIECE: usize = 128;
/// The part of a call's time that is left for its filter when a stream does not end.
const RESERVED: u32 = 10;
/// The most time that is left for it.
const MOST_RESERVED: Duration = Duration::from_secs(1);

/// Why a stream was not read to its end.
const FILTER_IS_FULL: &str = "The stream was read up to `maxItems` of the filter, and may hold more.";
const NO_TIME: &str = "The stream did not end before the call's timeout. These are the messages that came until then.";

/// A request, and what has happened to it so far.
pub(super) struct Exchange<'a> {
    pub(super) service: &'a GrpcService,
    pub(super) method: &'a Method,
    pub(super) authentication: &'a Authentication<'a>,
    pub(super) context: CallContext<'a>,
    /// The message in its frame.
    pub(super) body: Bytes,
    /// Requests sent.
    pub(super) requests: u32,
    /// Why the stream was not read to its end.
    pub(super) cut: Option<&'static str>,
}

type Body = Paced<Incoming>;

/// An error, and whether another attempt may help.
type Failed = (Option<Failure>, UpstreamError);

impl Exchange<'_> {
    /// Returns the output.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(super) async fn answer(&mut self) -> Result<Bytes, UpstreamError> {
        let deadline = self.context.bounds.deadline;
        let answered = match deadline > Instant::now() {
            true => tokio::time::timeout_at(deadline.into(), self.attempts()).await,
            false => return Err(UpstreamError::Timeout { sent: false }),
        };
        let output = answered.unwrap_or(Err(UpstreamError::Timeout { sent: self.requests > 0 }))?;
        let Some(path) = &self.method.extract else { return Ok(output) };
        let found = extract(&output, path).map_err(UpstreamError::Malformed)?;
        found.ok_or_else(|| UpstreamError::Malformed(format!("has nothing at `{path}`, where `extract` looks")))
    }

    async fn attempts(&mut self) -> Result<Bytes, UpstreamError> {
        let mut attempt = 1;
        loop {
            let (failure, error) = match self.attempt().await {
                Ok(output) => return Ok(output),
                Err(failed) => failed,
            };
            let Some(failure) = failure else { return Err(error) };
            let left = self.context.bounds.deadline.saturating_duration_since(Instant::now());
            match decide(self.method.retry.as_ref(), self.method.idempotent, attempt, failure, left) {
                Decision::Stop => return Err(error),
                Decision::Wait(time) => tokio::time::sleep(time).await,
            }
            attempt += 1;
        }
    }

    /// Sends the request once. An error without a [`Failure`] is final.
    async fn attempt(&mut self) -> Result<Bytes, Failed> {
        let target = &self.method.target;
        let (policy, http) = self.service.client.direct();
        policy.check(target.origin()).map_err(|Denied| failed(Fault::refused("egress", false)))?;
        let mut span = self
            .context
            .trace
            .map(|trace| trace.request(&HttpMethod::POST, target, Some(target.path()), self.requests));
        let request = self.request(span.as_ref());
        self.requests += 1;
        let response = http.send_h2(target.origin(), request).await.map_err(|error| {
            let fault = fault(&error, false);
            record_failure(&mut span, &fault);
            failed(fault)
        })?;
        if let Some(span) = &mut span {
            span.answered(response.status());
        }
        let read = self.read(response, &mut span).await;
        if let (Err((_, error)), Some(span)) = (&read, &mut span) {
            span.failed(error.category());
        }
        read
    }

    fn request(&self, span: Option<&RequestSpan>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = HttpMethod::POST;
        *request.uri_mut() = self.method.target.path_and_query().clone().into();
        let mut headers = self.service.headers.clone();
        headers.insert(TIMEOUT, timeout(self.context.bounds.deadline));
        if let Some((name, value)) = &self.authentication.header {
            headers.insert(name.clone(), value.clone());
        }
        if self.context.hops > 0 {
            headers.insert(hops::HEADER, hops::next(self.context.hops));
        }
        if let Some(span) = span {
            span.inject(&mut headers);
        }
        *request.headers_mut() = headers;
        request
    }

    /// Reads the messages of an answer, and its status.
    async fn read(&mut self, response: Response<Body>, span: &mut Option<RequestSpan>) -> Result<Bytes, Failed> {
        let (head, mut body) = response.into_parts();
        if !head.status.is_success() {
            // A proxy or another server has answered.
            return Err(self.status_of_http(head.status.as_u16()));
        }
        let content_type = head.headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes).unwrap_or_default();
        if !content_type.starts_with(b"application/grpc") {
            return Err(malformed("is not one of gRPC"));
        }
        // An answer without messages may have its status in the head.
        if let Some(status) = status::read(&head.headers, &self.service.types) {
            return match status {
                Err(status) => Err(self.status(status, span)),
                Ok(()) if self.method.streams => Ok(Bytes::from_static(b"[]")),
                Ok(()) => Err(malformed("has no message")),
            };
        }
        let is_gzip = match head.headers.get(ENCODING).map(http::HeaderValue::as_bytes) {
            None | Some(b"identity") => false,
            Some(b"gzip") => true,
            Some(_) => return Err(malformed("is compressed in a way that was not asked for")),
        };
        let streams = self.method.streams;
        let (mut frames, mut out, mut count) = (Frames::default(), Vec::new(), 0_usize);
        if streams {
            out.push(b'[');
        }
        let most = self.context.most_messages.filter(|_| streams).unwrap_or(usize::MAX);
        let deadline = self.context.bounds.deadline;
        let left = deadline.saturating_duration_since(Instant::now());
        let end = deadline - (left / RESERVED).min(MOST_RESERVED);
        let trailers = loop {
            let frame = match streams && count > 0 {
                false => body.frame().await,
                // What has come until then is the answer.
                true => match tokio::time::timeout_at(end.into(), body.frame()).await {
                    Ok(frame) => frame,
                    Err(_) => {
                        self.cut = Some(NO_TIME);
                        break None;
                    }
                },
            };
            let Some(frame) = frame else { break Some(HeaderMap::new()) };
            let frame = frame.map_err(|_| failed(Fault::Broken("reset")))?;
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(other) => match other.into_trailers() {
                    Ok(trailers) => break Some(trailers),
                    Err(_) => continue,
                },
            };
            self.take(data.len()).await?;
            frames.push(&data);
            while let Some(frame) = frames.next(self.context.bounds.max_response_bytes).map_err(|bad| self.bad(bad))? {
                if count > 0 && !streams {
                    return Err(malformed("has more than one message"));
                }
                if count > 0 {
                    out.push(b',');
                }
                let taken = frame.message.len();
                out = self.write(frame, is_gzip, out).await?;
                self.context.memory.release(taken as u64);
                count += 1;
                if count == most {
                    break;
                }
            }
            // The filter reads no further: the rest of the stream is dropped.
            if count == most {
                self.cut = Some(FILTER_IS_FULL);
                break None;
            }
        };
        if let Some(trailers) = trailers {
            match status::read(&trailers, &self.service.types) {
                Some(Ok(())) => {}
                Some(Err(status)) => return Err(self.status(status, span)),
                None => return Err(malformed("ends without a status")),
            }
            if !frames.is_empty() {
                return Err(malformed("ends within a message"));
            }
        }
        if streams {
            out.push(b']');
        } else if count == 0 {
            return Err(malformed("has no message"));
        }
        if self.holds_credential(&out) {
            return Err((None, UpstreamError::CredentialReturned));
        }
        Ok(out.into())
    }

    /// Writes the JSON of a message behind `out`.
    async fn write(&mut self, frame: Frame, is_gzip: bool, mut out: Vec<u8>) -> Result<Vec<u8>, Failed> {
        let message = match frame.is_compressed {
            false => frame.message,
            true if is_gzip => self.decompress(&frame.message).await?,
            true => return Err(malformed("is compressed without saying how")),
        };
        let (types, number, limit) = (&self.service.types, self.method.output, self.context.bounds.max_response_bytes);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let before = out.len();
        let mut room = (4 * message.len()).max(4 << 10);
        loop {
            self.take(room).await?;
            let most = before.saturating_add(room);
            let written = if message.len() <= LIGHT_READ {
                json::write(types, number, &message, &mut out, most)
            } else {
                let (types, message, mut own) = (types.clone(), message.clone(), std::mem::take(&mut out));
                let work = move || {
                    let written = json::write(&types, number, &message, &mut own, most);
                    (written, own)
                };
                let CallContext { offload, bounds, .. } = &self.context;
                let done = offload.run(Work::Upstream, bounds.deadline, None, move |_| work()).await;
                let (written, own) = done.map_err(|not_run| {
                    let error = match not_run {
                        crate::compute::NotRun::Overdue => UpstreamError::Timeout { sent: true },
                        crate::compute::NotRun::Exhausted => UpstreamError::Exhausted { sent: true },
                    };
                    (None, error)
                })?;
                out = own;
                written
            };
            match written {
                Ok(()) if out.len() > limit => return Err(self.bad(BadFrame::TooLarge)),
                Ok(()) => {
                    self.context.memory.release(room.saturating_sub(out.len() - before) as u64);
                    return Ok(out);
                }
                Err(NotWritten::Malformed(reason)) => return Err(malformed(reason)),
                // What the list of records takes may be many times the JSON.
                Err(NotWritten::Full) if room / 64 > limit => return Err(self.bad(BadFrame::TooLarge)),
                Err(NotWritten::Full) => {
                    self.context.memory.release(room as u64);
                    out.truncate(before);
                    room *= 2;
                }
            }
        }
    }

    async fn decompress(&mut self, message: &[u8]) -> Result<Bytes, Failed> {
        let error = |error| match error {
            GunzipError::TooLarge => BadFrame::TooLarge,
            GunzipError::Malformed => BadFrame::Malformed,
        };
        let mut gunzip = Gunzip::new(self.context.bounds.max_response_bytes);
        let (mut turn, mut reserved) = (Turn::new(), 0);
        for piece in message.chunks(GUNZIP_PIECE) {
            let before = gunzip.decoded().len();
            gunzip.feed(piece).map_err(|bad| self.bad(error(bad)))?;
            turn.spend(4 * piece.len() + (gunzip.decoded().len() - before) / 2).await;
            let more = gunzip.capacity().saturating_sub(reserved);
            self.take(more).await?;
            reserved += more;
        }
        gunzip.finish().map_err(|bad| self.bad(error(bad)))
    }

    async fn take(&mut self, bytes: usize) -> Result<(), Failed> {
        let taken = self.context.memory.take(bytes as u64).await;
        taken.map_err(|Exhausted| (None, UpstreamError::Exhausted { sent: true }))
    }

    fn bad(&self, bad: BadFrame) -> Failed {
        match bad {
            BadFrame::TooLarge => (None, UpstreamError::TooLarge { limit: self.context.bounds.max_response_bytes }),
            BadFrame::Malformed => malformed("could not be decompressed, or has no messages of gRPC"),
        }
    }

    fn holds_credential(&self, text: &[u8]) -> bool {
        self.authentication.needles.as_ref().is_some_and(|needles| Search::is_in(needles, text))
    }

    /// Returns the error for a status of the server.
    fn status(&self, status: Status, span: &mut Option<RequestSpan>) -> Failed {
        let Status { name, http, body, retry_after, is_final } = status;
        if let Some(span) = span {
            span.failed(name);
        }
        if self.holds_credential(&body) {
            return (None, UpstreamError::CredentialReturned);
        }
        let mapped = self.method.errors.get(&http).cloned();
        let failure = Failure::Status { status: http, retry_after };
        ((!is_final).then_some(failure), UpstreamError::Status { status: http, mapped, body })
    }

    fn status_of_http(&self, status: u16) -> Failed {
        let mapped = self.method.errors.get(&status).cloned();
        let failure = Failure::Status { status, retry_after: None };
        (Some(failure), UpstreamError::Status { status, mapped, body: Bytes::new() })
    }
}

fn failed(fault: Fault) -> Failed {
    let failure = match &fault {
        Fault::Unsent(_) => Some(Failure::Unsent),
        Fault::Broken(_) => Some(Failure::Broken),
        Fault::Final(_) => None,
    };
    (failure, fault.into_error())
}

fn malformed(reason: &str) -> Failed {
    (None, UpstreamError::Malformed(reason.to_owned()))
}
