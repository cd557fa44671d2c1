//! The one HTTP client that all services share.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::egress::{EgressPolicy, Resolver};
use super::reserved::Reserved;
use super::transport::Transport;

/// How the shared client behaves.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Which addresses may be connected to.
    pub egress: EgressPolicy,
    /// Certificate authorities that are trusted beside the system's, each in PEM.
    pub extra_roots: Vec<Vec<u8>>,
    /// How long a connection may take to be made, TLS included.
    pub connect_timeout: Duration,
    /// Idle connections that are kept for each host.
    pub max_idle_per_host: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            egress: EgressPolicy::standalone(),
            extra_roots: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            max_idle_per_host: 64,
        }
    }
}

/// The client could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub struct ClientError(String);

/// Connections to upstreams, shared by all services of a gateway.
///
/// Reuses connections, speaks HTTP/2 where the server offers it, decompresses brotli and zstd. Keeps no cookies,
/// follows no redirect by itself (see `exchange`), and takes no proxy from the environment: what a call may reach is
/// what the egress policy says, and a proxy would connect on its behalf.
#[derive(Debug)]
pub struct Client {
    options: ClientOptions,
    policy: Arc<EgressPolicy>,
    http: Transport,
    /// For where an upstream redirects to: never loopback, never a Service by its name. Made when first needed.
    redirected: OnceLock<Option<(Arc<EgressPolicy>, Transport)>>,
}

impl Client {
    /// Makes the client.
    ///
    /// # Errors
    /// [`ClientError`] where an extra certificate authority cannot be read.
    pub fn new(options: ClientOptions) -> Result<Self, ClientError> {
        let policy = Arc::new(options.egress.clone());
        let http = build(&options, &policy)?;
        Ok(Self { options, policy, http, redirected: OnceLock::new() })
    }

    /// Keeps calls away from a listener of this gateway.
    pub(crate) fn listens_on(&self, listener: &tokio::net::TcpListener) {
        if let Ok(address) = listener.local_addr() {
            self.policy.reserved().add_port(address.port());
        }
    }

    /// What calls are kept away from.
    pub(crate) fn reserved(&self) -> &Reserved {
        self.policy.reserved()
    }

    /// The addresses of a Service of the cluster, by its name. None where they cannot be had.
    pub(crate) async fn service_addresses(&self, name: &str) -> Option<Vec<std::net::IpAddr>> {
        self.policy.service_addresses(name).await?.ok()
    }

    /// For what a manifest names.
    pub(super) fn direct(&self) -> (&EgressPolicy, &Transport) {
        (&self.policy, &self.http)
    }

    /// For another origin that an upstream redirects to. None where the client cannot be made.
    pub(super) fn redirected(&self) -> Option<(&EgressPolicy, &Transport)> {
        if !self.policy.is_privileged() {
            return Some(self.direct());
        }
        let made = self.redirected.get_or_init(|| {
            let policy = Arc::new(self.policy.restricted());
            build(&self.options, &policy).ok().map(|http| (policy, http))
        });
        made.as_ref().map(|(policy, http)| (policy.as_ref(), http))
    }
}

fn build(options: &ClientOptions, policy: &Arc<EgressPolicy>) -> Result<Transport, ClientError> {
    Transport::new(options, Resolver(Arc::clone(policy))).map_err(ClientError)
}

/// An error and what it comes from.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
