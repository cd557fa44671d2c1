//! Sends spans to a collector over HTTP.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

use crate::upstream::error_chain;

/// How long one request to the collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of a collector's answer.
const ANSWER: usize = 64 << 10;

/// A collector, and whether it accepts spans. The log has the beginning and the end of a failure, not each failed
/// request.
#[derive(Debug)]
pub(super) struct Collector {
    http: reqwest::Client,
    runtime: Handle,
    endpoint: String,
    failing: AtomicBool,
}

impl Collector {
    /// Creates a client that uses the current runtime, because the thread that sends spans has none.
    ///
    /// # Errors
    /// The HTTP client cannot be created.
    pub(super) fn new(endpoint: &str) -> Result<Self, String> {
        let builder = || {
            reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .user_agent(concat!("tamis/", env!("CARGO_PKG_VERSION")))
                .timeout(TIMEOUT)
        };
        let http = with_system_roots(builder).map_err(|error| error_chain(&error))?;
        let endpoint = endpoint.to_owned();
        Ok(Self { http, runtime: Handle::current(), endpoint, failing: AtomicBool::new(false) })
    }

    fn note(&self, problem: Option<&str>) {
        let endpoint = &self.endpoint;
        match (problem, self.failing.swap(problem.is_some(), Ordering::Relaxed)) {
            (Some(reason), false) => {
                tracing::warn!(
                    endpoint,
                    reason,
                    "the collector takes no spans: they are dropped until it does, calls go on"
                );
            }
            (None, true) => tracing::info!(endpoint, "the collector takes spans again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let sent = self.runtime.spawn(send(self.http.clone(), request)).await?;
        match &sent {
            Ok(response) if response.status().is_success() => self.note(None),
            Ok(response) => self.note(Some(&format!("it answers {}", response.status()))),
            Err(error) => self.note(Some(&error_chain(error))),
        }
        Ok(sent?)
    }
}

/// Creates a client that trusts the system's certificate authorities.
fn with_system_roots(builder: impl Fn() -> reqwest::ClientBuilder) -> Result<reqwest::Client, reqwest::Error> {
    builder().build().or_else(|error| {
        // A machine without certificate authorities can still call plain HTTP; TLS then fails with its own reason.
        let fallback = builder().tls_certs_only([]).build()?;
        tracing::warn!(reason = %error_chain(&error), "the system has no certificate authorities; https will fail");
        Ok(fallback)
    })
}

async fn send(http: reqwest::Client, request: reqwest::Request) -> Result<Response<Bytes>, reqwest::Error> {
    let mut answer = http.execute(request).await.map_err(reqwest::Error::without_url)?;
    let mut body = BytesMut::new();
    while let Some(chunk) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
        if body.len() + chunk.len() > ANSWER {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    let mut response = Response::new(body.freeze());
    *response.status_mut() = answer.status();
    *response.headers_mut() = std::mem::take(answer.headers_mut());
    Ok(response)
}
