//! HTTP/1.1 and HTTP/2 towards upstreams: bounds on what comes before a body, and decompression.

use std::error::Error;
use std::future::{Ready, ready};
use std::num::NonZero;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, HeaderValue};
use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body as _, Incoming};
use hyper::ext::on_informational;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Notify;
use tower_http::decompression::{Decompression, DecompressionBody};
use tower_service::Service;

use super::connect::{BoxError, Connector};
use super::egress::Resolver;
use super::origin::Origin;
use super::pace::Paced;
use super::pool::{Connection, MAX_IDLE, Pool, PooledBody, Unanswered};
use super::{ClientOptions, IdleLimits};
use crate::workers;

/// Informational responses (1xx) that may come before a response, in HTTP/1.1.
pub(super) const MAX_INFORMATIONAL: u32 = 16;
/// Header lines of a response, in HTTP/1.1.
pub(super) const MAX_HEADERS: usize = 128;
/// Bytes of a response's head in HTTP/1.1, and of one read.
pub(super) const MAX_HEAD: usize = 64 << 10;
/// Bytes of the head and of the trailers of a response that is HTTP/2 always.
const MAX_H2_HEAD: u32 = 64 << 10;
/// How often a request is sent once more where the server says that it has processed nothing of it.
const MAX_REPEATS: u32 = 2;
/// Unused connections to one host with TLS, which are not limited in total.
const SECURE_IDLE: usize = 64;

/// The `User-Agent` of requests.
pub(super) const AGENT: HeaderValue = HeaderValue::from_static(concat!("tamis/", env!("CARGO_PKG_VERSION")));

/// Connections, reused by the worker that made them.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    connector: Connector,
    /// By the number of the worker: a call and its connection are on the same thread.
    workers: Arc<[Connections]>,
}

/// The connections of one worker.
#[derive(Debug)]
struct Connections {
    /// To plain HTTP, which is always HTTP/1.1.
    plain: Arc<Pool>,
    /// To HTTPS, where the server chooses HTTP/2 or HTTP/1.1.
    secure: legacy::Client<Connector, Full<Bytes>>,
    /// To what is HTTP/2 always, with or without TLS.
    h2: legacy::Client<Connector, Full<Bytes>>,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum Failed {
    /// There is no connection.
    Connect(BoxError),
    /// The connection ended before any of the request was sent.
    Unsent(BoxError),
    /// The connection, or what came on it, failed after the request may have been sent.
    Broken(BoxError),
    /// More informational responses than are waited for.
    Informational,
}

impl From<legacy::Error> for Failed {
    fn from(error: legacy::Error) -> Self {
        let mut causes = std::iter::successors(error.source(), |&cause| cause.source());
        let is_canceled = causes.any(|cause| cause.downcast_ref().is_some_and(hyper::Error::is_canceled));
        match error.is_connect() {
            true => Self::Connect(error.into()),
            false if is_canceled => Self::Unsent(error.into()),
            false => Self::Broken(error.into()),
        }
    }
}

/// A response whose body has not been read.
pub(super) struct Received {
    head: http::response::Parts,
    body: ResponseBody,
}

/// A body as it comes from the connection.
type Wire = Paced<Either<PooledBody, Incoming>>;

enum ResponseBody {
    /// As it comes; gzip included, which is decoded by `gunzip`, because the other decoder ends at the first member.
    Received(Wire),
    /// Decompressed.
    Decoded(Pin<Box<DecompressionBody<Wire>>>),
}

impl Transport {
    /// # Errors
    /// What is wrong with a certificate authority.
    pub(super) fn new(options: &ClientOptions, workers: NonZero<usize>, resolver: Resolver) -> Result<Self, String> {
        let connector = Connector::new(resolver, &options.extra_roots, options.connect_timeout)?;
        let IdleLimits { per_host, total } = options.idle;
        let [per_host, total, secure] = [per_host, total, per_host.min(SECURE_IDLE)].map(|n| n.div_ceil(workers.get()));
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(secure)
            .pool_idle_timeout(MAX_IDLE)
            .http1_max_headers(MAX_HEADERS)
            .http1_max_buf_size(MAX_HEAD)
            .http2_adaptive_window(true)
            .http2_keep_alive_interval(Duration::from_secs(30))
            .http2_keep_alive_timeout(Duration::from_secs(10));
        let mut only = builder.clone();
        only.http2_only(true).http2_max_header_list_size(MAX_H2_HEAD);
        // One more than workers, for what runs on other threads.
        let workers = (0..=workers.get())
            .map(|_| Connections {
                plain: Pool::new(per_host, total),
                secure: builder.build(connector.clone()),
                h2: only.build(connector.clone()),
            })
            .collect();
        Ok(Self { connector, workers })
    }

    /// Sends a request, whose URI is a path with its query, and once more where the server has processed nothing of it.
    ///
    /// # Errors
    /// [`Failed`].
    pub(super) async fn send(&self, origin: &Origin, request: Request<Full<Bytes>>) -> Result<Received, Failed> {
        // A client may be shared with a gateway that has more workers.
        let Some(Connections { plain, secure, h2: _ }) = self.workers.get(workers::current()).or(self.workers.first())
        else {
            return Err(Failed::Connect("there are no workers".into()));
        };
        // What is rare, or large beside the rest, has a buffer of its own: a future is moved whole into the one that awaits it.
        if origin.is_https() {
            let sent = Box::pin(Self::send_shared(secure, origin, request)).await?;
            Received::new(sent.map(Either::Right)).await
        } else {
            self.send_plain(plain, origin, request).await
        }
    }

    async fn send_plain(
        &self,
        pool: &Arc<Pool>,
        origin: &Origin,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Received, Failed> {
        loop {
            let used = pool.take(origin.authority());
            let is_used = used.is_some();
            let mut connection = match used {
                Some(connection) => connection,
                None => Box::pin(self.connect(origin)).await?,
            };
            match connection.send(request).await {
                Ok(response) => {
                    let body = |incoming| Either::Left(PooledBody::new(incoming, connection, pool, origin.authority()));
                    return Received::new(response.map(body)).await;
                }
                // The server may have closed a connection that lay unused.
                Err(Unanswered::Unsent(_, Some(unsent))) if is_used => request = *unsent,
                Err(Unanswered::Unsent(error, _)) => return Err(Failed::Unsent(error.into())),
                Err(Unanswered::Broken(error)) => return Err(Failed::Broken(error.into())),
                Err(Unanswered::Informational) => return Err(Failed::Informational),
            }
        }
    }

    async fn connect(&self, origin: &Origin) -> Result<Connection, Failed> {
        let uri = origin.absolute(PathAndQuery::from_static("/"));
        let stream = self.connector.clone().call(uri).await.map_err(Failed::Connect)?;
        Connection::new(stream).await.map_err(|error| Failed::Connect(error.into()))
    }

    /// Sends a request over HTTP/2, and once more where the server has processed nothing of it. The body is neither decompressed
    /// nor bounded, and has trailers.
    ///
    /// # Errors
    /// [`Failed`].
    pub(super) async fn send_h2(
        &self,
        origin: &Origin,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Paced<Incoming>>, Failed> {
        let Some(Connections { h2, .. }) = self.workers.get(workers::current()).or(self.workers.first()) else {
            return Err(Failed::Connect("there are no workers".into()));
        };
        let sent = Box::pin(Self::send_shared(h2, origin, request)).await?;
        Ok(sent.map(Paced::new))
    }

    async fn send_shared(
        client: &legacy::Client<Connector, Full<Bytes>>,
        origin: &Origin,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failed> {
        if let Some(path) = request.uri().path_and_query().cloned() {
            *request.uri_mut() = origin.absolute(path);
        }
        let mut repeats = 0;
        loop {
            let mut request = request.clone();
            let informational = Arc::new(Informational::default());
            let counter = Arc::clone(&informational);
            on_informational(&mut request, move |_| counter.count());
            let sent = tokio::select! {
                biased;
                () = informational.exceeded.notified() => return Err(Failed::Informational),
                sent = client.request(request) => sent,
            };
            match sent {
                Ok(response) => return Ok(response),
                Err(error) if repeats < MAX_REPEATS && is_unprocessed(&error) => repeats += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Informational responses to one request. hyper reads on whatever they are, so the request ends by being dropped.
#[derive(Debug, Default)]
struct Informational {
    seen: AtomicU32,
    exceeded: Notify,
}

impl Informational {
    fn count(&self) {
        if self.seen.fetch_add(1, Ordering::Relaxed) == MAX_INFORMATIONAL {
            self.exceeded.notify_one();
        }
    }
}

/// Whether the server says that it has processed nothing of the request (RFC 9113, 8.7).
fn is_unprocessed(error: &legacy::Error) -> bool {
    let cause = error.source().and_then(Error::source).and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.filter(|error| error.is_remote()).is_some_and(|error| {
        (error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR))
            || (error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}

/// The decoder wraps a client. This one has its response already.
struct Answered(Option<Response<Wire>>);

impl Service<Request<()>> for Answered {
    type Response = Response<Wire>;
    type Error = &'static str;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(self.0.take().ok_or("the response was taken before"))
    }
}

impl Received {
    async fn new(response: Response<Either<PooledBody, Incoming>>) -> Result<Self, Failed> {
        let response = response.map(Paced::new);
        let is_decoded_here = |coding: &HeaderValue| {
            [b"br".as_slice(), b"zstd"].iter().any(|name| coding.as_bytes().eq_ignore_ascii_case(name))
        };
        if response.headers().get(CONTENT_ENCODING).is_some_and(is_decoded_here) {
            return Box::pin(Self::decoded(response)).await;
        }
        let (head, body) = response.into_parts();
        Ok(Self { head, body: ResponseBody::Received(body) })
    }

    async fn decoded(response: Response<Wire>) -> Result<Self, Failed> {
        let mut decompression = Decompression::new(Answered(Some(response))).no_gzip().no_deflate();
        let decoded = decompression.call(Request::new(())).await.map_err(|error| Failed::Broken(error.into()))?;
        let (head, body) = decoded.into_parts();
        Ok(Self { head, body: ResponseBody::Decoded(Box::pin(body)) })
    }

    pub(super) fn status(&self) -> StatusCode {
        self.head.status
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The length of the body, where it is stated and the body is not decompressed.
    pub(super) fn content_length(&self) -> Option<u64> {
        match &self.body {
            ResponseBody::Received(body) => body.size_hint().exact(),
            ResponseBody::Decoded(_) => None,
        }
    }

    /// The next piece of the body.
    ///
    /// # Errors
    /// hyper's where the connection breaks, otherwise a decompressor's.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, BoxError> {
        loop {
            let frame = match &mut self.body {
                ResponseBody::Received(body) => body.frame().await,
                ResponseBody::Decoded(body) => body.frame().await,
            };
            let Some(frame) = frame else { return Ok(None) };
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
    }
}
