//! What the operator counts, for Prometheus.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::{
    Encoder as _, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use crate::object::Kind;

/// From a millisecond to ten seconds.
const RECONCILE: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// From ten milliseconds to five minutes: a rollout of gateways is among it.
const PROGRAMMED: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// What is reconciled: services are compiled with their expositions, expositions and groups written, status said.
const KINDS: [&str; 4] = ["Service", "Exposition", "GatewayGroup", "Status"];
/// How that ends: `ok`, or the category of an error.
const RESULTS: [&str; 7] = ["ok", "deposed", "refused", "unreachable", "conflict", "no_room", "random"];

/// The operator's metrics. Its labels are kinds and outcomes: their number does not grow with what is in the cluster.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounterVec,
    durations: HistogramVec,
    programmed: Histogram,
    resources: IntGaugeVec,
    leader: IntGauge,
    ready: IntGauge,
}

impl Metrics {
    /// All of them, at zero.
    ///
    /// # Errors
    /// A name is not one that Prometheus takes, or is there twice: a mistake in this file.
    pub fn new() -> prometheus::Result<Self> {
        let reconciles = IntCounterVec::new(
            Opts::new(
                "tamis_reconcile_total",
                "Reconciliations, by kind and result. Service: compiling a service with its expositions. Exposition: writing \
                 its document. GatewayGroup: the objects of a group. Status: the status of an object. Statuses are \
                 counted only if they fail.",
            ),
            &["kind", "result"],
        )?;
        let durations = HistogramVec::new(
            HistogramOpts::new(
                "tamis_reconcile_duration_seconds",
                "Duration of a reconciliation. An exposition's starts when its document is taken from the queue and ends with \
                 the API server's answer.",
            )
            .buckets(RECONCILE.to_vec()),
            &["kind"],
        )?;
        let programmed = Histogram::with_opts(
            HistogramOpts::new(
                "tamis_programmed_seconds",
                "Time from when the operator saw a change until every ready gateway had loaded it.",
            )
            .buckets(PROGRAMMED.to_vec()),
        )?;
        let resources = IntGaugeVec::new(
            Opts::new(
                "tamis_resources",
                "Objects, by kind and by whether their condition Accepted is true. The leader counts them every ten \
                 seconds; other operators report 0.",
            ),
            &["kind", "accepted"],
        )?;
        let leader = IntGauge::new("tamis_leader", "1 if this operator leads and writes, 0 if it stands by.")?;
        let registry = Registry::new();
        registry.register(Box::new(reconciles.clone()))?;
        registry.register(Box::new(durations.clone()))?;
        registry.register(Box::new(programmed.clone()))?;
        registry.register(Box::new(resources.clone()))?;
        registry.register(Box::new(leader.clone()))?;
        let ready = IntGauge::new("tamis_ready", "1 if /readyz reports ready, otherwise 0.")?;
        let build = IntGaugeVec::new(
            Opts::new("tamis_build_info", "Always 1; the label has the version of Tamis."),
            &["version"],
        )?;
        let started = Gauge::new("process_start_time_seconds", "Start time of the process, in seconds since 1970.")?;
        registry.register(Box::new(ready.clone()))?;
        registry.register(Box::new(build.clone()))?;
        registry.register(Box::new(started.clone()))?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        started.set(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64());
        // There from the start: what comes later than the first look is not seen to have risen.
        for kind in KINDS {
            for result in RESULTS {
                reconciles.with_label_values(&[kind, result]);
            }
        }
        let metrics = Self { registry, reconciles, durations, programmed, resources, leader, ready };
        metrics.forget_resources();
        Ok(metrics)
    }

    fn forget_resources(&self) {
        for kind in Kind::ALL {
            self.resources(kind, 0, 0);
        }
    }

    /// A reconciliation of an object ended. `result`: `ok`, or the category of its error.
    pub fn reconciled(&self, kind: &'static str, result: &'static str, took: Duration) {
        self.reconciles.with_label_values(&[kind, result]).inc();
        self.durations.with_label_values(&[kind]).observe(took.as_secs_f64());
    }

    /// A single object could not be written. `result`: the category of the error.
    pub fn failed(&self, kind: &'static str, result: &'static str) {
        self.reconciles.with_label_values(&[kind, result]).inc();
    }

    /// A change has been loaded everywhere, so long after it was made.
    pub fn programmed(&self, after: Duration) {
        self.programmed.observe(after.as_secs_f64());
    }

    /// How many objects of a kind there are.
    pub fn resources(&self, kind: Kind, accepted: usize, refused: usize) {
        for (label, count) in [("true", accepted), ("false", refused)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.resources.with_label_values(&[kind.as_str(), label]).set(count);
        }
    }

    /// Whether this operator writes. One that does so no more knows no numbers of objects: added up over operators they
    /// would be there twice.
    pub fn leader(&self, leads: bool) {
        if !leads && self.leader.get() != 0 {
            self.forget_resources();
        }
        self.leader.set(i64::from(leads));
    }

    /// All of them, as Prometheus reads them. `ready`: what `/readyz` says.
    #[must_use]
    pub fn render(&self, ready: bool) -> Vec<u8> {
        self.ready.set(i64::from(ready));
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "metrics cannot be written");
        }
        text
    }

    /// What `/metrics` can say: every metric, with every value of its labels. For the reference in the documentation.
    ///
    /// # Panics
    /// Never: the names are constants.
    #[must_use]
    pub fn everything() -> String {
        let metrics = Self::new().expect("the names are good");
        for kind in KINDS {
            metrics.durations.with_label_values(&[kind]);
        }
        String::from_utf8_lossy(&metrics.render(true)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_what_prometheus_reads() {
        let metrics = Metrics::new().expect("the names are good");
        metrics.reconciled("Exposition", "ok", Duration::from_millis(3));
        metrics.programmed(Duration::from_millis(40));
        metrics.resources(Kind::ToolsFilters, 3, 1);
        metrics.leader(true);
        let text = || String::from_utf8(metrics.render(true)).expect("text");
        let leading = text();
        for line in [
            r#"tamis_reconcile_total{kind="Exposition",result="ok"} 1"#,
            r#"tamis_reconcile_duration_seconds_bucket{kind="Exposition",le="0.005"} 1"#,
            r#"tamis_programmed_seconds_bucket{le="0.05"} 1"#,
            r#"tamis_resources{accepted="false",kind="ToolsFilters"} 1"#,
            r#"tamis_resources{accepted="true",kind="Exposition"} 0"#,
            r#"tamis_reconcile_total{kind="GatewayGroup",result="refused"} 0"#,
            "tamis_leader 1",
            "tamis_ready 1",
        ] {
            assert!(leading.lines().any(|l| l == line), "{line} is not in\n{leading}");
        }
        metrics.leader(false);
        let following = text();
        assert!(following.contains(r#"tamis_resources{accepted="true",kind="ToolsFilters"} 0"#), "{following}");
    }
}
