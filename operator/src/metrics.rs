//! The operator's Prometheus metrics.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus::{
    Encoder as _, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use crate::object::Kind;

/// The buckets of reconciliations: from a millisecond to ten seconds.
const RECONCILE: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The buckets of the time to programmed: from ten milliseconds to five minutes, which covers a rollout of gateways.
const PROGRAMMED: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The values of the label `kind`: a service is compiled with its expositions, expositions, groups and statuses are
/// written.
const KINDS: [&str; 4] = ["Service", "Exposition", "GatewayGroup", "Status"];
/// The values of the label `result`: `ok`, or the category of an error.
const RESULTS: [&str; 7] = ["ok", "deposed", "refused", "unreachable", "conflict", "no_room", "random"];

/// The operator's metrics. The labels are kinds and results, so the number of series does not grow with the cluster.
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
    /// Creates all metrics, at zero.
    ///
    /// # Errors
    /// A name is invalid or registered twice: a mistake in this file.
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
        // Every series exists from the start: Prometheus does not see the increase of a counter that appears with its
        // first event.
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

    /// Records that a reconciliation of an object ended. `result`: `ok`, or the category of its error.
    pub fn reconciled(&self, kind: &'static str, result: &'static str, took: Duration) {
        self.reconciles.with_label_values(&[kind, result]).inc();
        self.durations.with_label_values(&[kind]).observe(took.as_secs_f64());
    }

    /// Records that an object could not be written. `result`: the category of the error.
    pub fn failed(&self, kind: &'static str, result: &'static str) {
        self.reconciles.with_label_values(&[kind, result]).inc();
    }

    /// Records that a change has been loaded everywhere, `after` it was seen.
    pub fn programmed(&self, after: Duration) {
        self.programmed.observe(after.as_secs_f64());
    }

    /// Sets the number of objects of a kind, accepted and refused.
    pub fn resources(&self, kind: Kind, accepted: usize, refused: usize) {
        for (label, count) in [("true", accepted), ("false", refused)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.resources.with_label_values(&[kind.as_str(), label]).set(count);
        }
    }

    /// Sets whether this operator writes. An operator that stops leading resets the numbers of objects: summed over
    /// operators, they would count twice.
    pub fn leader(&self, leads: bool) {
        if !leads && self.leader.get() != 0 {
            self.forget_resources();
        }
        self.leader.set(i64::from(leads));
    }

    /// Renders all metrics in the text format of Prometheus. `ready`: whether `/readyz` reports ready.
    #[must_use]
    pub fn render(&self, ready: bool) -> Vec<u8> {
        self.ready.set(i64::from(ready));
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "cannot render the metrics");
        }
        text
    }

    /// Renders every metric with every value of its labels, for the reference in the documentation.
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
    fn renders_the_recorded_values_and_resets_the_counts_of_a_former_leader() {
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
