//! Counters and histograms. A call touches handles that its tool holds; a series is born with its first call and dies
//! with its exposition.

mod series;

use std::time::Duration;

use prometheus::{
    Encoder as _, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

pub(crate) use series::{ExpositionSeries, ToolSeries, Totals};

/// How a tool call ended; the label of `tamis_tool_calls_total` and the verdict in an audit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An answer went to the caller.
    Ok,
    /// The arguments did not fit; nothing was sent.
    InvalidArguments,
    /// The upstream answered with an error.
    UpstreamError,
    /// The upstream did not answer in time.
    Timeout,
    /// An `Enforced` filter could not be applied.
    Refused,
    /// The caller went away.
    Cancelled,
    /// Something here broke.
    Error,
}

impl Outcome {
    /// The name in metrics and audit records.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::InvalidArguments => "invalid_arguments",
            Self::UpstreamError => "upstream_error",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}

/// Why a request was turned away before it became a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// `limits.requestsPerSecond`.
    Rate,
    /// `limits.concurrent`.
    Concurrency,
    /// The gateway's own number of calls.
    Calls,
    /// The gateway's own number of connections.
    Connections,
    /// The request is too large.
    Size,
    /// `Origin`.
    Origin,
    /// Nothing at that address.
    Unknown,
    /// The exposition is stopped.
    Stopped,
    /// Not JSON-RPC, a wrong header, an unknown version.
    Protocol,
    /// No key of a caller.
    Unauthorized,
}

impl Rejection {
    fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::Calls => "calls",
            Self::Connections => "connections",
            Self::Size => "size",
            Self::Origin => "origin",
            Self::Unknown => "unknown",
            Self::Stopped => "stopped",
            Self::Protocol => "protocol",
            Self::Unauthorized => "unauthorized",
        }
    }
}

/// All metrics of one gateway, in a registry of its own.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    calls: IntCounterVec,
    input: IntCounterVec,
    output: IntCounterVec,
    saved: IntCounterVec,
    errors: IntCounterVec,
    missed: IntCounterVec,
    rejected: IntCounterVec,
    reloads: IntCounterVec,
    tls_reloads: IntCounterVec,
    upstream_duration: HistogramVec,
    /// The one that nearly all calls need.
    upstream_ok: Histogram,
    /// `tamis_filter_duration_seconds`.
    pub(crate) filter_duration: Histogram,
    /// `tamis_tool_call_duration_seconds`.
    pub(crate) call_duration: Histogram,
    /// `tamis_config_reload_duration_seconds`.
    pub(crate) reload_duration: Histogram,
    /// `tamis_config_expositions`.
    pub(crate) expositions: IntGauge,
}

const TOOL: [&str; 3] = ["namespace", "exposition", "tool"];
const MILLIS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
const MICROS: [f64; 13] = [5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 5e-2, 2.5e-1];

impl Metrics {
    /// # Errors
    /// Never in practice: the names are constants, and each is registered once.
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, extra: &[&str]| {
            let labels: Vec<&str> = TOOL.iter().chain(extra).copied().collect();
            let vec = IntCounterVec::new(Opts::new(name, help), &labels)?;
            registry.register(Box::new(vec.clone()))?;
            Ok::<_, prometheus::Error>(vec)
        };
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            let histogram = Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?;
            registry.register(Box::new(histogram.clone()))?;
            Ok::<_, prometheus::Error>(histogram)
        };
        let rejected = IntCounterVec::new(
            Opts::new("tamis_requests_rejected_total", "Requests turned away before they became a call."),
            &["namespace", "exposition", "reason"],
        )?;
        let reloads = IntCounterVec::new(
            Opts::new("tamis_config_reloads_total", "Configurations that were offered, by result."),
            &["result"],
        )?;
        let tls_reloads = IntCounterVec::new(
            Opts::new("tamis_tls_reloads_total", "New certificates of the serving port, by result."),
            &["result"],
        )?;
        let upstream_duration = HistogramVec::new(
            HistogramOpts::new("tamis_upstream_request_duration_seconds", "Time spent upstream, retries included.")
                .buckets(MILLIS.to_vec()),
            &["code"],
        )?;
        let expositions = IntGauge::new("tamis_config_expositions", "Expositions that are loaded.")?;
        registry.register(Box::new(rejected.clone()))?;
        registry.register(Box::new(reloads.clone()))?;
        registry.register(Box::new(tls_reloads.clone()))?;
        registry.register(Box::new(upstream_duration.clone()))?;
        registry.register(Box::new(expositions.clone()))?;
        Ok(Self {
            calls: counter("tamis_tool_calls_total", "Tool calls, by outcome.", &["outcome"])?,
            input: counter("tamis_filter_input_bytes_total", "Bytes that upstreams answered.", &[])?,
            output: counter("tamis_filter_output_bytes_total", "Bytes of the text that callers got.", &[])?,
            saved: counter("tamis_filter_saved_bytes_total", "Bytes that filters kept from callers.", &[])?,
            errors: counter("tamis_filter_errors_total", "Filter stages that failed.", &["stage"])?,
            missed: counter("tamis_filter_missed_paths_total", "Filter paths that no output had.", &[])?,
            filter_duration: histogram("tamis_filter_duration_seconds", "Time in the filter.", &MICROS)?,
            call_duration: histogram("tamis_tool_call_duration_seconds", "Time of a tool call.", &MILLIS)?,
            reload_duration: histogram("tamis_config_reload_duration_seconds", "Time to load a change.", &MILLIS)?,
            rejected,
            reloads,
            tls_reloads,
            upstream_ok: upstream_duration.with_label_values(&["200"]),
            upstream_duration,
            expositions,
            registry,
        })
    }

    /// Counts a configuration that was offered.
    pub(crate) fn reloaded(&self, result: &str) {
        self.reloads.with_label_values(&[result]).inc();
    }

    /// Counts a certificate that was offered.
    pub(crate) fn tls_reloaded(&self, result: &str) {
        self.tls_reloads.with_label_values(&[result]).inc();
    }

    /// Counts a request that was turned away before its exposition was known.
    pub(crate) fn rejected(&self, reason: Rejection) {
        self.rejected.with_label_values(&["", "", reason.as_str()]).inc();
    }

    /// Time spent upstream, by status, or by a word of ours where there was none.
    pub(crate) fn upstream(&self, code: Result<u16, &str>, took: Duration) {
        match code {
            Ok(200) => self.upstream_ok.observe(took.as_secs_f64()),
            Ok(status) => self.upstream_duration.with_label_values(&[&status.to_string()]).observe(took.as_secs_f64()),
            Err(word) => self.upstream_duration.with_label_values(&[word]).observe(took.as_secs_f64()),
        }
    }

    /// The text format of Prometheus.
    pub(crate) fn render(&self) -> Vec<u8> {
        let mut text = Vec::new();
        // Writing to memory does not fail, and the names are valid.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        text
    }
}
