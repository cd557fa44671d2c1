//! The metrics of a gateway. A call uses counters that its tool holds. A series begins with its first call, and is
//! removed with its exposition.

mod saved_tokens;
mod series;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use prometheus::{
    Encoder as _, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder,
};
use tamis_config::ExpositionId;
use tamis_tokens::Vocabulary;

use crate::offload::Work;
use crate::serve::Closed;
use crate::upstream::Withheld;

pub(crate) use saved_tokens::{CallSizes, Ratios};
pub(crate) use series::{ExpositionSeries, ToolSeries, Totals};

/// How a tool call ended; the label of `tamis_tool_calls_total` and the verdict in an audit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An answer went to the caller.
    Ok,
    /// The arguments were invalid; nothing was sent.
    InvalidArguments,
    /// The upstream answered with an error.
    UpstreamError,
    /// The upstream did not answer in time, or the output could not be filtered in time.
    Timeout,
    /// An `Enforced` filter could not be applied.
    Refused,
    /// The caller disconnected or cancelled the call.
    Cancelled,
    /// The gateway failed.
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

/// Why a request was rejected before it became a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rejection {
    /// `limits.requestsPerSecond`.
    Rate,
    /// `limits.concurrent`.
    Concurrency,
    /// The gateway's limit on calls.
    Calls,
    /// The gateway's limit on connections.
    Connections,
    /// The gateway's limit on streams, or a caller's part of it.
    Streams,
    /// The gateway's memory.
    Memory,
    /// The request is too large.
    Size,
    /// `Origin`.
    Origin,
    /// No exposition at that address.
    Unknown,
    /// The exposition is stopped.
    Stopped,
    /// Not JSON-RPC, a wrong header, an unknown version.
    Protocol,
    /// No key of a caller.
    Unauthorized,
}

impl Rejection {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::Calls => "calls",
            Self::Connections => "connections",
            Self::Streams => "streams",
            Self::Memory => "memory",
            Self::Size => "size",
            Self::Origin => "origin",
            Self::Unknown => "unknown",
            Self::Stopped => "stopped",
            Self::Protocol => "protocol",
            Self::Unauthorized => "unauthorized",
        }
    }
}

/// All metrics of one gateway, in their own registry.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    calls: IntCounterVec,
    input: IntCounterVec,
    output: IntCounterVec,
    saved: IntCounterVec,
    tokens: IntCounterVec,
    saved_tokens: IntCounterVec,
    /// The size of the sample by which saved tokens are estimated.
    pub(crate) sample: SampleCounters,
    errors: IntCounterVec,
    missed: IntCounterVec,
    rejected: IntCounterVec,
    closed: IntCounterVec,
    memory: IntGaugeVec,
    offloaded: IntCounterVec,
    /// `tamis_worker_stalls_total`.
    pub(crate) worker_stalls: IntCounter,
    reloads: IntCounterVec,
    tls_reloads: IntCounterVec,
    upstream_duration: HistogramVec,
    /// The series of `200`, which nearly all calls use.
    upstream_ok: Histogram,
    /// `tamis_filter_duration_seconds`.
    pub(crate) filter_duration: Histogram,
    /// `tamis_tool_call_duration_seconds`.
    pub(crate) call_duration: Histogram,
    /// `tamis_config_reload_duration_seconds`.
    pub(crate) reload_duration: Histogram,
    /// `tamis_config_expositions`.
    pub(crate) expositions: IntGauge,
    /// `tamis_config_failing_watches`.
    pub(crate) failing_watches: IntGauge,
    not_loaded: IntGaugeVec,
    withheld: IntGaugeVec,
    /// A vector without labels, so that there is no series without a certificate.
    tls_expires: IntGaugeVec,
    ready: IntGauge,
}

/// The size of the sample by which saved tokens are estimated, by vocabulary.
#[derive(Debug, Clone)]
pub(crate) struct SampleCounters {
    bytes: IntCounterVec,
    tokens: IntCounterVec,
}

impl SampleCounters {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            let vec = IntCounterVec::new(Opts::new(name, help), &["tokenizer"])?;
            registry.register(Box::new(vec.clone()))?;
            Ok::<_, prometheus::Error>(vec)
        };
        let counters = Self {
            bytes: counter(
                "tamis_filter_token_sample_bytes_total",
                "Bytes of outputs that were counted, outside of calls, to estimate saved tokens. 0 if no vocabulary is \
                 loaded; the estimate is then a token for 3.5 bytes.",
            )?,
            tokens: counter(
                "tamis_filter_token_sample_tokens_total",
                "Tokens of the bytes in tamis_filter_token_sample_bytes_total.",
            )?,
        };
        for vocabulary in [Vocabulary::O200kBase, Vocabulary::Cl100kBase] {
            counters.add(vocabulary, 0, 0);
        }
        Ok(counters)
    }

    /// Counts a text of the sample.
    pub(crate) fn add(&self, vocabulary: Vocabulary, bytes: usize, tokens: usize) {
        let label = [vocabulary.name().as_str()];
        self.bytes.with_label_values(&label).inc_by(bytes as u64);
        self.tokens.with_label_values(&label).inc_by(tokens as u64);
    }
}

/// The values of gauges that are read at each scrape.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GaugeValues {
    /// Whether the gateway is ready for traffic.
    pub(crate) ready: bool,
    /// Bytes that calls and connections may hold.
    pub(crate) memory: u64,
    /// Bytes that calls hold.
    pub(crate) memory_held: u64,
    /// Bytes that are reserved for connections.
    pub(crate) memory_set_aside: u64,
    /// Expositions whose newest document was refused.
    pub(crate) refused: usize,
    /// Expositions whose newest document waits for a service or a credential.
    pub(crate) waiting: usize,
    /// Whether the folder of `tamis serve` has an error.
    pub(crate) broken: bool,
    /// When the certificate of the serving port expires, in seconds since 1970; none without a certificate.
    pub(crate) tls_expires: Option<i64>,
}

/// Why a request to an upstream has no status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoStatus {
    /// The upstream did not answer in time.
    Timeout,
    /// Its answer exceeds the limit.
    TooLarge,
    /// There was no memory for its answer.
    Exhausted,
    /// Its answer is malformed, or contains the credential of the call.
    Malformed,
    /// It is a program, and ended without success.
    Exit,
    /// There was no connection.
    Unreachable,
    /// Nothing was sent.
    NotSent,
}

impl NoStatus {
    const ALL: [Self; 7] =
        [Self::Timeout, Self::TooLarge, Self::Exhausted, Self::Malformed, Self::Exit, Self::Unreachable, Self::NotSent];

    fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::TooLarge => "too_large",
            Self::Exhausted => "exhausted",
            Self::Malformed => "malformed",
            Self::Exit => "exit",
            Self::Unreachable => "unreachable",
            Self::NotSent => "not_sent",
        }
    }
}

/// Returns the label of a status. An upstream may answer with any number, so only registered ones have their own label.
fn code_of(status: u16) -> String {
    let registered = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).is_some();
    if registered { status.to_string() } else { format!("{}xx", status / 100) }
}

const RELOADS: [&str; 3] = ["applied", "partial", "failed"];
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
            Opts::new(
                "tamis_requests_rejected_total",
                "Requests rejected before they became a call. The exposition is empty if the request matched none.",
            ),
            &["namespace", "exposition", "reason"],
        )?;
        let closed = IntCounterVec::new(
            Opts::new(
                "tamis_connections_closed_total",
                "Connections closed by the gateway: idle and evicted in favour of a new one, too slow to read an answer, or idle \
                 for too long.",
            ),
            &["reason"],
        )?;
        let memory = IntGaugeVec::new(
            Opts::new(
                "tamis_memory_bytes",
                "Memory for calls: the budget, the part in use, and the part reserved for connections.",
            ),
            &["kind"],
        )?;
        let offloaded = IntCounterVec::new(
            Opts::new(
                "tamis_offloaded_work_total",
                "Work of calls that ran outside the serving threads because its estimate exceeded 100 microseconds, by kind.",
            ),
            &["work"],
        )?;
        let worker_stalls = IntCounter::new(
            "tamis_worker_stalls_total",
            "How often a thread that serves connections ran none of its tasks for half a second.",
        )?;
        let reloads = IntCounterVec::new(
            Opts::new("tamis_config_reloads_total", "Configuration reloads, by result."),
            &["result"],
        )?;
        let tls_reloads = IntCounterVec::new(
            Opts::new("tamis_tls_reloads_total", "Reloads of the serving port's certificate, by result."),
            &["result"],
        )?;
        let tls_expires = IntGaugeVec::new(
            Opts::new(
                "tamis_tls_certificate_expiry_timestamp_seconds",
                "When the certificate of the serving port expires, in seconds since 1970. Absent if the port serves without TLS.",
            ),
            &[],
        )?;
        let upstream_duration = HistogramVec::new(
            HistogramOpts::new(
                "tamis_upstream_request_duration_seconds",
                "Duration of upstream requests, including retries, by HTTP status: the class of an unregistered status, or \
                 a word if there was no status.",
            )
            .buckets(MILLIS.to_vec()),
            &["code"],
        )?;
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let not_loaded = IntGaugeVec::new(
            Opts::new(
                "tamis_config_not_loaded",
                "Expositions that do not serve their newest document, by reason. `broken` is 1 while the folder of \
                 `tamis serve` has an error.",
            ),
            &["reason"],
        )?;
        let withheld = IntGaugeVec::new(
            Opts::new(
                "tamis_tools_withheld",
                "Tools that are not called because their MCP server does not list them as they are pinned, by reason.",
            ),
            &["namespace", "exposition", "reason"],
        )?;
        let build = IntGaugeVec::new(
            Opts::new("tamis_build_info", "Always 1; the label has the version of Tamis."),
            &["version"],
        )?;
        let started = Gauge::new("process_start_time_seconds", "Start time of the process, in seconds since 1970.")?;
        registry.register(Box::new(rejected.clone()))?;
        registry.register(Box::new(closed.clone()))?;
        registry.register(Box::new(memory.clone()))?;
        registry.register(Box::new(offloaded.clone()))?;
        registry.register(Box::new(worker_stalls.clone()))?;
        registry.register(Box::new(reloads.clone()))?;
        registry.register(Box::new(tls_reloads.clone()))?;
        registry.register(Box::new(tls_expires.clone()))?;
        registry.register(Box::new(upstream_duration.clone()))?;
        registry.register(Box::new(not_loaded.clone()))?;
        registry.register(Box::new(withheld.clone()))?;
        registry.register(Box::new(build.clone()))?;
        registry.register(Box::new(started.clone()))?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        started.set(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64());
        // These series exist from the start: Prometheus sees no increase in a series that appears after the first
        // scrape.
        for reason in Closed::ALL {
            closed.with_label_values(&[reason.as_str()]);
        }
        for work in Work::ALL {
            offloaded.with_label_values(&[work.as_str()]);
        }
        for result in RELOADS {
            reloads.with_label_values(&[result]);
        }
        Ok(Self {
            calls: counter("tamis_tool_calls_total", "Tool calls, by outcome.", &["outcome"])?,
            input: counter(
                "tamis_filter_input_bytes_total",
                "Bytes of upstream outputs before filtering, after decompression.",
                &[],
            )?,
            output: counter("tamis_filter_output_bytes_total", "Bytes of the text blocks returned to models.", &[])?,
            saved: counter(
                "tamis_filter_saved_bytes_total",
                "Bytes that filters kept from models: input minus output of each call. A call whose output grew adds \
                 nothing.",
                &[],
            )?,
            tokens: counter(
                "tamis_filter_output_tokens_total",
                "Tokens of the answers to models, where a limit in tokens had them counted; an estimate where the \
                 exposition's tokenizer or factor makes it one.",
                &[],
            )?,
            saved_tokens: counter(
                "tamis_filter_saved_tokens_estimate_total",
                "Estimate of the tokens that filters kept from models: the bytes of each call, by the ratios of a small \
                 sample of outputs.",
                &[],
            )?,
            sample: SampleCounters::new(&registry)?,
            errors: counter("tamis_filter_errors_total", "Failed filter stages.", &["stage"])?,
            missed: counter(
                "tamis_filter_missed_paths_total",
                "Filter paths that no item of an output had. Usually the upstream has changed.",
                &[],
            )?,
            filter_duration: histogram("tamis_filter_duration_seconds", "Duration of filtering.", &MICROS)?,
            call_duration: histogram(
                "tamis_tool_call_duration_seconds",
                "Duration of a tool call, including the upstream.",
                &MILLIS,
            )?,
            reload_duration: histogram(
                "tamis_config_reload_duration_seconds",
                "Duration of swapping the expositions of a reload.",
                &MILLIS,
            )?,
            expositions: gauge("tamis_config_expositions", "Expositions that the gateway serves.")?,
            failing_watches: gauge(
                "tamis_config_failing_watches",
                "Watches of the Kubernetes API that currently fail, so that changes do not arrive.",
            )?,
            ready: gauge("tamis_ready", "1 if /readyz reports ready, otherwise 0.")?,
            rejected,
            closed,
            memory,
            offloaded,
            worker_stalls,
            reloads,
            tls_reloads,
            upstream_ok: upstream_duration.with_label_values(&["200"]),
            upstream_duration,
            not_loaded,
            withheld,
            tls_expires,
            registry,
        })
    }

    /// Counts a reload of the configuration.
    pub(crate) fn reloaded(&self, result: &str) {
        self.reloads.with_label_values(&[result]).inc();
    }

    /// Counts a reload of the certificate.
    pub(crate) fn tls_reloaded(&self, result: &str) {
        self.tls_reloads.with_label_values(&[result]).inc();
    }

    /// Counts a request that was rejected before its exposition was known.
    pub(crate) fn rejected(&self, reason: Rejection) {
        self.rejected.with_label_values(&["", "", reason.as_str()]).inc();
    }

    /// Counts connections that the gateway closed.
    pub(crate) fn closed(&self, why: Closed, count: usize) {
        self.closed.with_label_values(&[why.as_str()]).inc_by(count as u64);
    }

    /// Counts work that runs outside the serving threads.
    pub(crate) fn offloaded(&self, work: Work) {
        self.offloaded.with_label_values(&[work.as_str()]).inc();
    }

    /// Observes the time spent upstream, by status, or by the reason why there is none.
    pub(crate) fn upstream(&self, code: Result<u16, NoStatus>, took: Duration) {
        let took = took.as_secs_f64();
        match code {
            Ok(200) => self.upstream_ok.observe(took),
            Ok(status) => self.upstream_duration.with_label_values(&[code_of(status).as_str()]).observe(took),
            Err(word) => self.upstream_duration.with_label_values(&[word.as_str()]).observe(took),
        }
    }

    /// Sets how many tools are withheld, for each exposition that withholds any.
    pub(crate) fn withheld<'a>(&self, tools: impl Iterator<Item = (&'a ExpositionId, Vec<&'static str>)>) {
        self.withheld.reset();
        for (id, reasons) in tools {
            for reason in Withheld::REASONS {
                let count = reasons.iter().filter(|found| **found == reason).count();
                if count > 0 {
                    let gauge = self.withheld.with_label_values(&[id.namespace.as_str(), &id.name, reason]);
                    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
                }
            }
        }
    }

    /// Returns the metrics in the text format of Prometheus, with the current values of the gauges.
    pub(crate) fn render(&self, values: GaugeValues) -> Vec<u8> {
        self.ready.set(i64::from(values.ready));
        for (kind, bytes) in
            [("budget", values.memory), ("held", values.memory_held), ("connections", values.memory_set_aside)]
        {
            self.memory.with_label_values(&[kind]).set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (reason, number) in [
            ("refused", count(values.refused)),
            ("waiting", count(values.waiting)),
            ("broken", i64::from(values.broken)),
        ] {
            self.not_loaded.with_label_values(&[reason]).set(number);
        }
        if let Some(end) = values.tls_expires {
            self.tls_expires.with_label_values::<&str>(&[]).set(end);
        }
        let mut text = Vec::new();
        // Writing to memory does not fail, and the names are valid.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut text);
        text
    }
}

/// Returns every metric of a gateway, with every value of the labels whose values the gateway defines. For the
/// reference in the documentation.
///
/// # Panics
/// Never: the names are constants.
#[must_use]
pub fn every_metric() -> String {
    let metrics = Metrics::new().expect("the names are good");
    let id = std::sync::Arc::new(ExpositionId { namespace: "namespace".to_owned(), name: "exposition".to_owned() });
    ToolSeries::new(&id, "tool").everything(&metrics);
    ExpositionSeries::new(&id, true, &std::sync::Arc::default()).everything(&metrics);
    for word in NoStatus::ALL {
        metrics.upstream(Err(word), Duration::ZERO);
    }
    for result in ["applied", "failed"] {
        metrics.tls_reloaded(result);
    }
    metrics.withheld([(&*id, Withheld::REASONS.to_vec())].into_iter());
    let values = GaugeValues { tls_expires: Some(0), ..GaugeValues::default() };
    String::from_utf8_lossy(&metrics.render(values)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_status_labels_is_bounded() {
        assert_eq!(code_of(404), "404");
        assert_eq!(code_of(299), "2xx");
        assert_eq!(code_of(999), "9xx");
        let codes: std::collections::BTreeSet<_> = (100..1000).map(code_of).collect();
        assert!(codes.len() < 80, "{}", codes.len());
    }

    #[test]
    fn gauges_have_the_values_of_the_last_scrape() {
        let metrics = Metrics::new().unwrap();
        let text = |values| String::from_utf8(metrics.render(values)).unwrap();
        let bad = text(GaugeValues { ready: false, refused: 2, waiting: 1, broken: true, ..GaugeValues::default() });
        for line in [
            "tamis_ready 0",
            r#"tamis_config_not_loaded{reason="refused"} 2"#,
            r#"tamis_config_not_loaded{reason="waiting"} 1"#,
            r#"tamis_config_not_loaded{reason="broken"} 1"#,
            r#"tamis_config_reloads_total{result="failed"} 0"#,
        ] {
            assert!(bad.lines().any(|l| l == line), "{line} is not in\n{bad}");
        }
        assert!(!bad.contains("tamis_tls_certificate"), "{bad}");
        let good = text(GaugeValues { ready: true, tls_expires: Some(1_927_670_400), ..GaugeValues::default() });
        assert!(good.contains("tamis_ready 1\n") && good.contains(r#"{reason="refused"} 0"#), "{good}");
        assert!(good.contains("tamis_tls_certificate_expiry_timestamp_seconds 1927670400\n"), "{good}");
    }
}
