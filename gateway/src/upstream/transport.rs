//! HTTP/1.1 and HTTP/2 towards upstreams: bounds on what comes before a body, and decompression.

use std::error::Error;
use std::num::NonZero;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{MapOk, TryFutureExt as _};
use http::header::{ACCEPT, HeaderValue, USER_AGENT};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::ext::on_informational;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Notify;
use tower_http::decompression::{Decompression, DecompressionBody};
use tower_service::Service;

use super::ClientOptions;
use super::connect::Connector;
use super::egress::Resolver;
use super::pace::Paced;
use crate::workers;

/// Informational responses (1xx) that may come before a response, in HTTP/1.1.
pub(super) const MAX_INFORMATIONAL: u32 = 16;
/// Header lines of a response, in HTTP/1.1.
pub(super) const MAX_HEADERS: usize = 128;
/// Bytes of a response's head in HTTP/1.1, and of one read.
pub(super) const MAX_HEAD: usize = 64 << 10;
/// How often a request is sent once more where the server says that it has processed nothing of it.
const MAX_REPEATS: u32 = 2;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("tamis/", env!("CARGO_PKG_VERSION")));

/// Connections, reused by the worker that made them. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    /// By the number of the worker: a call and its connection are on the same thread.
    http: Arc<[legacy::Client<Connector, Full<Bytes>>]>,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum Failed {
    /// The connection, or what came on it.
    Http(legacy::Error),
    /// More informational responses than are waited for.
    Informational,
}

/// A response whose body has not been read.
pub(super) struct Received {
    head: http::response::Parts,
    body: Pin<Box<DecompressionBody<Paced<Incoming>>>>,
}

impl Transport {
    /// # Errors
    /// What is wrong with a certificate authority.
    pub(super) fn new(options: &ClientOptions, workers: NonZero<usize>, resolver: Resolver) -> Result<Self, String> {
        let connector = Connector::new(resolver, &options.extra_roots, options.connect_timeout)?;
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(options.max_idle_per_host.div_ceil(workers.get()))
            .pool_idle_timeout(Duration::from_secs(90))
            .http1_max_headers(MAX_HEADERS)
            .http1_max_buf_size(MAX_HEAD)
            .http2_adaptive_window(true)
            .http2_keep_alive_interval(Duration::from_secs(30))
            .http2_keep_alive_timeout(Duration::from_secs(10));
        // One more than workers, for what runs on other threads.
        Ok(Self { http: (0..=workers.get()).map(|_| builder.build(connector.clone())).collect() })
    }

    /// Sends a request, and once more where the server has processed nothing of it.
    ///
    /// # Errors
    /// [`Failed`].
    pub(super) async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Received, Failed> {
        let headers = request.headers_mut();
        headers.entry(USER_AGENT).or_insert(AGENT);
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        let mut repeats = 0;
        loop {
            match self.send_once(request.clone()).await {
                Err(Failed::Http(error)) if repeats < MAX_REPEATS && is_unprocessed(&error) => repeats += 1,
                other => return other,
            }
        }
    }

    async fn send_once(&self, mut request: Request<Full<Bytes>>) -> Result<Received, Failed> {
        let informational = Arc::new(Informational::default());
        let counter = Arc::clone(&informational);
        on_informational(&mut request, move |_| counter.count());
        // gzip is decoded by `gunzip`: this decoder ends at the first member.
        let mut decompression = Decompression::new(self.clone()).no_gzip().no_deflate();
        let response = tokio::select! {
            biased;
            () = informational.exceeded.notified() => return Err(Failed::Informational),
            response = decompression.call(request) => response.map_err(Failed::Http)?,
        };
        let (head, body) = response.into_parts();
        Ok(Received { head, body: Box::pin(body) })
    }
}

impl Service<Request<Full<Bytes>>> for Transport {
    type Response = Response<Paced<Incoming>>;
    type Error = legacy::Error;
    type Future = MapOk<legacy::ResponseFuture, fn(Response<Incoming>) -> Self::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), legacy::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let http = self.http.get(workers::current()).or(self.http.first());
        http.expect("at least one").request(request).map_ok(|response| response.map(Paced::new))
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

impl Received {
    pub(super) fn status(&self) -> StatusCode {
        self.head.status
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The length of the body, where it is stated and the body is not decompressed.
    pub(super) fn content_length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next piece of the body.
    ///
    /// # Errors
    /// hyper's where the connection breaks, otherwise a decompressor's.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Box<dyn Error + Send + Sync>> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}
