//! The serving listener: HTTP connections, the endpoints behind them, and how both end.

mod accept;
mod admission;
mod announced;
mod auth;
mod body;
mod connections;
mod deadlines;
mod detached;
mod endpoint;
mod http;
mod incoming;
mod index;
mod linger;
mod mcp;
mod origin;
mod relayed;
mod request_body;
mod respond;
mod session_id;
mod signal;
mod stream;
mod tls;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Version};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::metrics::Rejection;
use crate::workers::Workers;

pub(crate) use accept::{Event, Listening, run};
pub(crate) use body::{Body, Cut};
pub(crate) use connections::Closed;
pub(crate) use incoming::RequestBody;
pub(crate) use index::Index;
pub(crate) use origin::{host_is_allowed, is_allowed as origin_is_allowed};
pub use tls::{Tls, TlsError, TlsFiles};

impl Gateway {
    /// Serves on `listener`, with TLS if the options have a certificate, until `shutdown`. Then lets calls in flight finish and
    /// completes streams. Returns when both are done, or after [`crate::GatewayLimits::drain`], which cuts what is left.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, shutdown: CancellationToken) {
        self.client.listens_on(&listener);
        let listening = Listening::serving(&self.options.limits, self.connections, self.options.tls.clone());
        let answer = {
            let (gateway, shutdown) = (Arc::clone(&self), shutdown.clone());
            move |request: Request<RequestBody>, peer: std::net::SocketAddr| {
                let (gateway, shutdown) = (Arc::clone(&gateway), shutdown.clone());
                let keeps = request.version() < Version::HTTP_2;
                async move {
                    let mut response = http::handle(&gateway, request, peer.ip(), &shutdown).await;
                    // Its client connects elsewhere before this gateway stops. HTTP/2 has GOAWAY for that.
                    if keeps && gateway.draining.load(Ordering::Relaxed) {
                        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    }
                    response
                }
            }
        };
        let note = {
            let gateway = Arc::clone(&self);
            move |event| match event {
                Event::Refused => gateway.metrics.rejected(Rejection::Connections),
                Event::Closed(why, count) => gateway.metrics.closed(why, count),
            }
        };
        let flag = async {
            shutdown.cancelled().await;
            self.begin_draining();
            std::future::pending::<()>().await;
        };
        let certificates = async {
            if let Some(tls) = &self.options.tls {
                tls.follow(&self.metrics, &shutdown).await;
            }
            std::future::pending::<()>().await;
        };
        let upstreams = async {
            self.watch_upstreams(&shutdown).await;
            std::future::pending::<()>().await;
        };
        let workers = Workers::start(self.options.workers);
        let stalled = || self.metrics.worker_stalls.inc();
        tokio::select! {
            () = run(listener, &shutdown, listening, &workers, note, answer) => {}
            () = workers.watch(stalled) => {}
            () = flag => {}
            () = certificates => {}
            () = upstreams => {}
        }
        // Calls whose clients disconnected, and then their records.
        self.detached.close();
        let (begun, limit) = (Instant::now(), self.options.limits.drain);
        if tokio::time::timeout(limit, self.detached.wait()).await.is_err() {
            tracing::warn!("drain timed out with calls in flight");
        }
        workers.stop().await;
        self.auditor.flush(limit.saturating_sub(begun.elapsed())).await;
    }
}
