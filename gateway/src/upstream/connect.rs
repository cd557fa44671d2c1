//! Connections to upstreams: names by the egress policy, TCP in turns, TLS where the URL says so.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tower_service::Service;

use super::client::error_chain;
use super::egress::Resolver;
use super::pace::Paced;

/// Any error.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// When further attempts to connect begin, counted from the first. A packet filter that learns a moment too late where
/// a Service of the cluster is keeps dropping the packets of the first attempt, retransmitted ones included, because
/// they belong to a flow that it has seen. A further attempt has another local port, so it is another flow.
const FURTHER_ATTEMPTS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

/// A TCP connection that is read in turns.
type Tcp = TokioIo<Paced<TcpStream>>;

/// A connection, encrypted or not.
pub(super) type Stream = MaybeHttpsStream<Tcp>;

/// Makes connections; each within a time, TLS included.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    https: HttpsConnector<TcpConnector>,
    timeout: Duration,
}

impl Connector {
    /// Trusts the system's certificate authorities, and `extra_roots`, each in PEM.
    ///
    /// # Errors
    /// What is wrong with a certificate authority.
    pub(super) fn new(resolver: Resolver, extra_roots: &[Vec<u8>], timeout: Duration) -> Result<Self, String> {
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(60)));
        // The addresses of a name share this time; `timeout` bounds all of them and TLS.
        tcp.set_connect_timeout(Some(timeout));
        let tls = tls(extra_roots)?;
        Ok(Self { https: HttpsConnector::from((TcpConnector(tcp), Arc::new(tls))), timeout })
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(cx)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(self.timeout, self.https.call(target));
        Box::pin(
            async move { connecting.await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into())) },
        )
    }
}

/// Makes TCP connections that are read in turns.
#[derive(Debug, Clone)]
struct TcpConnector(HttpConnector<Resolver>);

impl Service<Uri> for TcpConnector {
    type Response = Tcp;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Tcp, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let mut tcp = self.0.clone();
        Box::pin(async move {
            let connected = first_of(|| tcp.call(target.clone()), &FURTHER_ATTEMPTS).await?;
            Ok(TokioIo::new(Paced::new(connected.into_inner())))
        })
    }
}

/// Begins an attempt, and a further one at each of `times`, counted from the first, while none has ended. Returns the
/// result of the first attempt that ends, and drops the others.
async fn first_of<F: Future>(mut attempt: impl FnMut() -> F, times: &[Duration]) -> F::Output {
    let begun = tokio::time::Instant::now();
    let mut attempts = FuturesUnordered::from_iter([attempt()]);
    for &time in times {
        tokio::select! {
            biased;
            ended = attempts.select_next_some() => return ended,
            () = tokio::time::sleep_until(begun + time) => attempts.push(attempt()),
        }
    }
    attempts.select_next_some().await
}

/// HTTP/2 is asked for first. A machine without certificate authorities can still call plain HTTP; TLS then fails with
/// its own reason.
fn tls(extra_roots: &[Vec<u8>]) -> Result<ClientConfig, String> {
    let mut roots = Vec::new();
    for pem in extra_roots {
        for root in CertificateDer::pem_slice_iter(pem) {
            roots.push(root.map_err(|error| error_chain(&error))?);
        }
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error_chain(&error))?;
    let builder = match Verifier::new_with_extra_roots(roots.iter().cloned(), provider) {
        Ok(verifier) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)),
        Err(missing) => {
            let mut only = RootCertStore::empty();
            for root in roots {
                only.add(root).map_err(|error| error_chain(&error))?;
            }
            tracing::warn!(reason = %error_chain(&missing), "the system has no certificate authorities; https will fail");
            builder.with_root_certificates(only)
        }
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
#[path = "tests/connect.rs"]
mod tests;
