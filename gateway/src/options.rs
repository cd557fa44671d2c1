//! The options of a gateway.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tamis_config::CallLimits;

use crate::admin::AdminToken;
use crate::audit::AuditLog;
use crate::seal::Keyring;
use crate::serve::Tls;
use crate::trace::Traces;
use crate::upstream::{ClientOptions, Credentials};
use crate::workers::available_cores;

/// The options with which a gateway starts.
#[derive(Debug, Clone)]
pub struct Options {
    /// The source of credentials for upstreams and of callers' keys.
    pub credentials: Arc<dyn Credentials>,
    /// How upstreams are reached, including the egress policy.
    pub client: ClientOptions,
    /// Limits on all expositions together.
    pub limits: GatewayLimits,
    /// Threads that serve connections, each with connections to upstreams of its own.
    pub workers: NonZero<usize>,
    /// How audit records are logged.
    pub audit_log: AuditLog,
    /// The folder for full audit records, one file for each call. Without it, an exposition that asks for full records
    /// is not served.
    pub audit_dir: Option<PathBuf>,
    /// Whether an exposition without `access` is refused. Set in a cluster, where the listener is not on loopback.
    pub require_access: bool,
    /// Whether each tool has its own series. Otherwise the label `tool` is empty, and the calls of an exposition are
    /// counted together.
    pub tool_series: bool,
    /// The host names, other than loopback, that browsers may have in `Origin`.
    pub hostnames: Vec<String>,
    /// The certificate of the serving listener; none for plain HTTP.
    pub tls: Option<Arc<Tls>>,
    /// The token that `/config` and `/acks` require. Without one, `/config` is open and `/acks` does not exist: the
    /// admin port must then not be reachable from other machines.
    pub admin_token: Option<Arc<AdminToken>>,
    /// The keys of the gateway's group. Without them, the gateway generates keys that last as long as the process.
    pub keyring: Option<Arc<Keyring>>,
    /// Where spans of calls are sent; none if calls are not traced.
    pub traces: Option<Traces>,
}

impl Options {
    /// Returns the options of `tamis serve`.
    #[must_use]
    pub fn new(credentials: Arc<dyn Credentials>) -> Self {
        Self {
            credentials,
            client: ClientOptions::default(),
            limits: GatewayLimits::default(),
            workers: available_cores(),
            audit_log: AuditLog::default(),
            audit_dir: None,
            require_access: false,
            tool_series: true,
            hostnames: Vec::new(),
            tls: None,
            admin_token: None,
            keyring: None,
            traces: None,
        }
    }
}

/// Limits on all expositions together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Concurrent connections on a listener; further ones are closed as they arrive.
    pub connections: usize,
    /// Calls in flight.
    pub calls: usize,
    /// Concurrent streams of notifications.
    pub streams: usize,
    /// Bytes that all calls and connections may hold.
    pub memory: u64,
    /// The largest `maxResponseBytes` of an exposition. A larger value is reduced to this.
    pub max_response_bytes: u64,
    /// The longest `timeout` of an exposition. A longer one is reduced to this.
    pub max_timeout: Duration,
    /// Bytes of the compiled regular expressions of all filters. An exposition that would exceed this limit, or the
    /// next one, is not loaded, and keeps its previous version if that may stay.
    pub expressions: usize,
    /// Bytes of the compiled regular expressions of one namespace's filters.
    pub namespace_expressions: usize,
    /// Bytes of a request's body.
    pub request_bytes: usize,
    /// Messages in a batch, in protocol versions that have batches.
    pub batch: usize,
    /// Time for the headers of a request to arrive, and for a kept connection to stay idle.
    pub header_timeout: Duration,
    /// Time for the body of a request to arrive.
    pub body_timeout: Duration,
    /// Time for the caller to read an answer, plus one second for each `answer_rate` bytes of it.
    pub answer_timeout: Duration,
    /// Bytes a second at which the caller has to read an answer after `answer_timeout`.
    pub answer_rate: u32,
    /// Time for calls in flight to end when the gateway stops.
    pub drain: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            calls: 4_096,
            streams: 2_048,
            memory: 1 << 30,
            max_response_bytes: CallLimits::MAX_RESPONSE_BYTES_CEILING,
            max_timeout: Duration::from_millis(CallLimits::TIMEOUT_MS_CEILING),
            expressions: 64 << 20,
            namespace_expressions: 16 << 20,
            request_bytes: 4 << 20,
            batch: 32,
            header_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
            answer_timeout: Duration::from_secs(30),
            answer_rate: 64 << 10,
            drain: Duration::from_secs(30),
        }
    }
}
