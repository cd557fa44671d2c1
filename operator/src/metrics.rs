//! What the operator counts, for Prometheus.

use std::time::Duration;

use prometheus::{
    Encoder as _, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use crate::object::Kind;

/// From a millisecond to ten seconds.
const RECONCILE: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// From ten milliseconds to five minutes: a rollout of gateways is among it.
const PROGRAMMED: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The operator's metrics. Its labels are kinds and outcomes: their number does not grow with what is in the cluster.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounterVec,
    durations: HistogramVec,
    programmed: Histogram,
    resources: IntGaugeVec,
    leader: IntGauge,
}

impl Metrics {
    /// All of them, at zero.
    ///
    /// # Errors
    /// A name is not one that Prometheus takes, or is there twice: a mistake in this file.
    pub fn new() -> prometheus::Result<Self> {
        let reconciles = IntCounterVec::new(
            Opts::new("tamis_reconcile_total", "Reconciliations, by kind of object and result."),
            &["kind", "result"],
        )?;
        let durations = HistogramVec::new(
            HistogramOpts::new("tamis_reconcile_duration_seconds", "Time that a reconciliation took.")
                .buckets(RECONCILE.to_vec()),
            &["kind"],
        )?;
        let programmed = Histogram::with_opts(
            HistogramOpts::new(
                "tamis_programmed_seconds",
                "Time from the change of an object until every ready gateway had loaded it.",
            )
            .buckets(PROGRAMMED.to_vec()),
        )?;
        let resources = IntGaugeVec::new(
            Opts::new("tamis_resources", "Objects, by kind and by whether they are accepted."),
            &["kind", "accepted"],
        )?;
        let leader = IntGauge::new("tamis_leader", "1 where this operator writes, 0 where it follows.")?;
        let registry = Registry::new();
        registry.register(Box::new(reconciles.clone()))?;
        registry.register(Box::new(durations.clone()))?;
        registry.register(Box::new(programmed.clone()))?;
        registry.register(Box::new(resources.clone()))?;
        registry.register(Box::new(leader.clone()))?;
        for kind in Kind::ALL {
            for accepted in ["true", "false"] {
                resources.with_label_values(&[kind.as_str(), accepted]).set(0);
            }
        }
        Ok(Self { registry, reconciles, durations, programmed, resources, leader })
    }

    /// A reconciliation of an object ended. `result`: `ok`, or the category of its error.
    pub fn reconciled(&self, kind: &'static str, result: &'static str, took: Duration) {
        self.reconciles.with_label_values(&[kind, result]).inc();
        self.durations.with_label_values(&[kind]).observe(took.as_secs_f64());
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

    /// Whether this operator writes.
    pub fn leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// All of them, as Prometheus reads them.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "metrics cannot be written");
        }
        text
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
        let text = String::from_utf8(metrics.render()).expect("text");
        for line in [
            r#"tamis_reconcile_total{kind="Exposition",result="ok"} 1"#,
            r#"tamis_reconcile_duration_seconds_bucket{kind="Exposition",le="0.005"} 1"#,
            r#"tamis_programmed_seconds_bucket{le="0.05"} 1"#,
            r#"tamis_resources{accepted="false",kind="ToolsFilters"} 1"#,
            r#"tamis_resources{accepted="true",kind="Exposition"} 0"#,
            "tamis_leader 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }
}
