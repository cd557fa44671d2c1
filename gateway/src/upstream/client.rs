//! The HTTP client that all services share.

use std::ffi::OsString;
use std::num::NonZero;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::egress::{EgressPolicy, Resolver};
use super::reserved::Reserved;
use super::transport::Transport;
use crate::programs::Programs;

/// The options of the shared client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Which addresses may be connected to.
    pub egress: EgressPolicy,
    /// Certificate authorities that are trusted in addition to the system's, each in PEM.
    pub extra_roots: Vec<Vec<u8>>,
    /// Time limit for establishing a connection, including TLS.
    pub connect_timeout: Duration,
    /// How many unused connections are kept.
    pub idle: IdleLimits,
    /// Whether upstreams may be programs, which run as the user of the gateway.
    pub programs: bool,
    /// The words that execute a program within limits: [`crate::programs::limiter`]. Without them, no program is run for
    /// single calls.
    pub limiter: Vec<OsString>,
}

/// How many unused connections to upstreams are kept, of all workers together.
///
/// A host that gets more calls at once than are kept for it is connected to again and again, which costs as much as a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleLimits {
    /// Connections to one host.
    pub per_host: usize,
    /// Connections to all hosts, without TLS.
    pub total: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            egress: EgressPolicy::standalone(),
            extra_roots: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            idle: IdleLimits { per_host: 256, total: 1_024 },
            programs: false,
            limiter: Vec::new(),
        }
    }
}

/// The client could not be created.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub struct ClientError(String);

/// Connections to upstreams, shared by all services of a gateway.
///
/// Reuses connections, uses HTTP/2 if the server offers it, and decompresses brotli and zstd. It keeps no cookies and
/// follows no redirect by itself (see `exchange`). It ignores proxies in the environment: a proxy would connect on
/// behalf of the call, around the egress policy.
#[derive(Debug)]
pub struct Client {
    options: ClientOptions,
    workers: NonZero<usize>,
    policy: Arc<EgressPolicy>,
    http: Transport,
    /// The transport for redirects to another origin: without loopback and without Services by name. Created when first
    /// needed.
    redirected: OnceLock<Option<(Arc<EgressPolicy>, Transport)>>,
    /// The programs that are upstreams, if any may be.
    programs: Option<Arc<Programs>>,
}

impl Client {
    /// Creates the client for so many workers, each of which has connections of its own.
    ///
    /// # Errors
    /// [`ClientError`] if an extra certificate authority cannot be parsed.
    pub fn new(options: ClientOptions, workers: NonZero<usize>) -> Result<Self, ClientError> {
        let policy = Arc::new(options.egress.clone());
        let http = build(&options, workers, &policy)?;
        let programs = options.programs.then(|| Arc::new(Programs::new(options.limiter.clone())));
        Ok(Self { options, workers, policy, http, redirected: OnceLock::new(), programs })
    }

    /// Forbids calls to a listener of this gateway.
    pub(crate) fn listens_on(&self, listener: &tokio::net::TcpListener) {
        if let Ok(address) = listener.local_addr() {
            self.policy.reserved().add_port(address.port());
        }
    }

    /// Returns the programs that are upstreams, if any may be.
    pub(crate) fn programs(&self) -> Option<&Arc<Programs>> {
        self.programs.as_ref()
    }

    /// Returns the addresses that calls may not reach.
    pub(crate) fn reserved(&self) -> &Reserved {
        self.policy.reserved()
    }

    /// Returns the addresses of a Service of the cluster, by its name; none if they cannot be resolved.
    pub(crate) async fn service_addresses(&self, name: &str) -> Option<Vec<std::net::IpAddr>> {
        self.policy.service_addresses(name).await?.ok()
    }

    /// Returns the policy and transport for destinations of a manifest.
    pub(super) fn direct(&self) -> (&EgressPolicy, &Transport) {
        (&self.policy, &self.http)
    }

    /// Returns the policy and transport for redirects to another origin; none if the transport cannot be created.
    pub(super) fn redirected(&self) -> Option<(&EgressPolicy, &Transport)> {
        if !self.policy.is_privileged() {
            return Some(self.direct());
        }
        let made = self.redirected.get_or_init(|| {
            let policy = Arc::new(self.policy.restricted());
            build(&self.options, self.workers, &policy).ok().map(|http| (policy, http))
        });
        made.as_ref().map(|(policy, http)| (policy.as_ref(), http))
    }
}

fn build(
    options: &ClientOptions,
    workers: NonZero<usize>,
    policy: &Arc<EgressPolicy>,
) -> Result<Transport, ClientError> {
    Transport::new(options, workers, Resolver(Arc::clone(policy))).map_err(ClientError)
}

/// Returns the text of an error and its causes.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
