//! What a gateway is told when it starts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tamis_config::CallLimits;

use crate::admin::AdminToken;
use crate::seal::Keyring;
use crate::serve::Tls;
use crate::trace::Traces;
use crate::upstream::{ClientOptions, Credentials};

/// What a gateway is told when it starts.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where credentials towards upstreams come from.
    pub credentials: Arc<dyn Credentials>,
    /// How upstreams are reached, egress policy included.
    pub client: ClientOptions,
    /// Bounds on all expositions together.
    pub limits: GatewayLimits,
    /// Where full audit records go, one file a call. Without it an exposition that asks for them is not served.
    pub audit_dir: Option<PathBuf>,
    /// Whether an exposition without `access` is refused: so in a cluster, where loopback protects nothing.
    pub require_access: bool,
    /// Whether tools have series of their own; without, a tool's label is empty and its exposition's calls are counted
    /// together.
    pub tool_series: bool,
    /// Names under which browsers may reach the gateway: what `Origin` may say beside loopback.
    pub hostnames: Vec<String>,
    /// The certificate of the serving listener; none where it speaks plain HTTP.
    pub tls: Option<Arc<Tls>>,
    /// What `/config` and `/acks` want. None: the admin port is not reachable from elsewhere, `/config` is open and
    /// `/acks` is not there.
    pub admin_token: Option<Arc<AdminToken>>,
    /// The keys of the group that the gateway is of. None: it makes keys of its own, which end with the process.
    pub keyring: Option<Arc<Keyring>>,
    /// Where spans of calls go; none where calls are not traced.
    pub traces: Option<Traces>,
}

impl Options {
    /// The options of `tamis serve`.
    #[must_use]
    pub fn new(credentials: Arc<dyn Credentials>) -> Self {
        Self {
            credentials,
            client: ClientOptions::default(),
            limits: GatewayLimits::default(),
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

/// Bounds on all expositions together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Connections at once on a listener; more are closed as they come.
    pub connections: usize,
    /// Calls under way at once.
    pub calls: usize,
    /// Streams of notifications at once.
    pub streams: usize,
    /// Bytes that all calls and connections may hold at once.
    pub memory: u64,
    /// The largest `maxResponseBytes` that an exposition can have; a larger one counts as this.
    pub max_response_bytes: u64,
    /// The longest `timeout` that an exposition can have; a longer one counts as this.
    pub max_timeout: Duration,
    /// Bytes that the regular expressions of all filters may take once compiled. An exposition that would exceed this, or
    /// the next bound, is not loaded, and keeps what it had where that may stay.
    pub expressions: usize,
    /// The same of the filters of one namespace.
    pub namespace_expressions: usize,
    /// Bytes of a request's body.
    pub request_bytes: usize,
    /// Messages in a batch, where the version has batches.
    pub batch: usize,
    /// Time for the headers of a request to arrive, and for a kept connection to stay idle.
    pub header_timeout: Duration,
    /// Time for the body of a request to arrive.
    pub body_timeout: Duration,
    /// Time for an answer to be read by its caller, with one second more for each `answer_rate` bytes of it.
    pub answer_timeout: Duration,
    /// Bytes of an answer a second that its caller has to read once `answer_timeout` is over.
    pub answer_rate: u32,
    /// Time for calls under way to end when the gateway stops.
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
