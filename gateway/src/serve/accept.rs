//! Connections: how many, how slow they may be, how they end.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Body, Tls};
use crate::options::GatewayLimits;

/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 256;
/// Bytes of an HTTP/2 request's headers; HTTP/1 has hyper's own bound.
const HEADER_BYTES: u32 = 32 << 10;
/// How often a silent HTTP/2 peer is asked whether it is there.
const PING: Duration = Duration::from_secs(20);

/// Bounds of one listener.
#[derive(Debug, Clone)]
pub(crate) struct Listening {
    connections: usize,
    header_timeout: Duration,
    drain: Duration,
    tls: Option<Arc<Tls>>,
}

impl Listening {
    /// As the options say.
    pub(crate) fn of(limits: &GatewayLimits) -> Self {
        let &GatewayLimits { connections, header_timeout, drain, .. } = limits;
        Self { connections, header_timeout, drain, tls: None }
    }

    /// By TLS, where there is a certificate.
    pub(crate) fn with(self, tls: Option<Arc<Tls>>) -> Self {
        Self { tls, ..self }
    }
}

/// Accepts connections until `shutdown`, then lets each end what it has begun, for as long as `drain` allows.
/// Connections beyond the limit are closed at once and `refused` is told.
pub(crate) async fn run<F, A>(
    listener: TcpListener,
    shutdown: &CancellationToken,
    bounds: Listening,
    refused: impl Fn(),
    answer: F,
) where
    F: Fn(Request<Incoming>, SocketAddr) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(bounds.connections));
    let connections = TaskTracker::new();
    let abort = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(e) => {
                // Out of file descriptors, or a connection that was gone before it was accepted.
                tracing::warn!("connection not accepted: {e}");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            refused();
            continue;
        };
        let (answer, shutdown, abort) = (answer.clone(), shutdown.clone(), abort.clone());
        let (header_timeout, tls) = (bounds.header_timeout, bounds.tls.clone());
        connections.spawn(async move {
            tokio::select! {
                () = accepted_one(stream, peer, (header_timeout, tls), &shutdown, answer) => {}
                () = abort.cancelled() => {}
            }
            drop(place);
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(bounds.drain, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections were still busy when the time to end them was over");
        abort.cancel();
        connections.wait().await;
    }
}

async fn accepted_one<F, A>(
    stream: TcpStream,
    peer: SocketAddr,
    (header_timeout, tls): (Duration, Option<Arc<Tls>>),
    shutdown: &CancellationToken,
    answer: F,
) where
    F: Fn(Request<Incoming>, SocketAddr) -> A + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    // Answers are small and events smaller: neither waits for more to send.
    if let Err(e) = stream.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY not set: {e}");
    }
    let Some(tls) = tls else { return connection(stream, peer, header_timeout, shutdown, answer).await };
    let accepted = tokio::select! {
        accepted = tls.accept(stream) => accepted,
        () = shutdown.cancelled() => return,
    };
    match accepted {
        Ok(stream) => connection(stream, peer, header_timeout, shutdown, answer).await,
        Err(e) => tracing::debug!(%peer, "no TLS: {e}"),
    }
}

async fn connection<I, F, A>(
    stream: I,
    peer: SocketAddr,
    header_timeout: Duration,
    shutdown: &CancellationToken,
    answer: F,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>, SocketAddr) -> A + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let begun = Arc::new(AtomicBool::new(false));
    let service = {
        let begun = Arc::clone(&begun);
        service_fn(move |request| {
            begun.store(true, Ordering::Relaxed);
            let answering = answer(request, peer);
            async move { Ok::<_, Infallible>(answering.await) }
        })
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(header_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_BYTES);
    let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    // Hyper's timeout begins with the first request line; before that it tells HTTP/1 from HTTP/2, for as long as the
    // peer likes.
    let mut silent = std::pin::pin!(tokio::time::sleep(header_timeout));
    let mut watch = true;
    let mut ending = false;
    loop {
        tokio::select! {
            ended = serving.as_mut() => {
                if let Err(e) = ended {
                    tracing::debug!(%peer, "connection ended: {e}");
                }
                return;
            }
            () = silent.as_mut(), if watch => {
                watch = false;
                if !begun.load(Ordering::Relaxed) {
                    return;
                }
            }
            () = shutdown.cancelled(), if !ending => {
                ending = true;
                if !begun.load(Ordering::Relaxed) {
                    return;
                }
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}
