//! The counters of an exposition and of its tools. They are registered at their first count, and removed with the
//! exposition.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use prometheus::{IntCounter, IntCounterVec};
use tamis_config::ExpositionId;
use tamis_engine::Stage;

use super::{Metrics, Outcome, Rejection};

/// A counter that is registered when it is first needed.
type Lazy = OnceLock<IntCounter>;

/// Returns an unregistered counter for a call that outlives its exposition. Another exposition may have the name by
/// now.
fn detached() -> IntCounter {
    IntCounter::new("detached", "Of an exposition that is gone.").expect("a valid name")
}

/// Bytes of outputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// From upstreams.
    pub(crate) input: u64,
    /// To callers.
    pub(crate) output: u64,
}

impl Totals {
    /// Adds others.
    pub(crate) fn add(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
    }
}

/// The counters of one tool of an exposition. Small until the first call, since most tools are idle.
#[derive(Debug)]
pub(crate) struct ToolSeries {
    id: Arc<ExpositionId>,
    tool: Box<str>,
    /// Whether the exposition was removed. The lock guards registration, which is rare.
    retired: Mutex<bool>,
    counters: OnceLock<Box<Counters>>,
}

#[derive(Debug, Default)]
struct Counters {
    calls: [Lazy; OUTCOMES.len()],
    input: Lazy,
    output: Lazy,
    saved: Lazy,
    missed: Lazy,
    errors: [Lazy; STAGES.len()],
}

impl ToolSeries {
    pub(crate) fn new(id: &Arc<ExpositionId>, tool: &str) -> Self {
        Self { id: Arc::clone(id), tool: tool.into(), retired: Mutex::new(false), counters: OnceLock::new() }
    }

    /// Counts one call.
    pub(crate) fn call(&self, metrics: &Metrics, outcome: Outcome) {
        self.get(|c| &c.calls[outcome as usize], &metrics.calls, Some(outcome.as_str())).inc();
    }

    /// Counts the bytes of one filtered output.
    pub(crate) fn bytes(&self, metrics: &Metrics, input: usize, output: usize) {
        self.get(|c| &c.input, &metrics.input, None).inc_by(input as u64);
        self.get(|c| &c.output, &metrics.output, None).inc_by(output as u64);
        self.get(|c| &c.saved, &metrics.saved, None).inc_by(input.saturating_sub(output) as u64);
    }

    /// Returns the bytes counted so far.
    pub(crate) fn totals(&self) -> Totals {
        let read = |counter: &Lazy| counter.get().map_or(0, IntCounter::get);
        self.counters.get().map_or_else(Totals::default, |c| Totals { input: read(&c.input), output: read(&c.output) })
    }

    /// Counts a failed stage.
    pub(crate) fn error(&self, metrics: &Metrics, stage: Stage) {
        self.get(|c| &c.errors[stage as usize], &metrics.errors, Some(stage.as_str())).inc();
    }

    /// Counts paths that no item had.
    pub(crate) fn missed(&self, metrics: &Metrics, paths: usize) {
        if paths > 0 {
            self.get(|c| &c.missed, &metrics.missed, None).inc_by(paths as u64);
        }
    }

    /// Registers every series.
    pub(super) fn everything(&self, metrics: &Metrics) {
        self.bytes(metrics, 0, 0);
        self.missed(metrics, 1);
        OUTCOMES.iter().for_each(|outcome| self.call(metrics, *outcome));
        STAGES.iter().for_each(|stage| self.error(metrics, *stage));
    }

    fn labels<'a>(&'a self, extra: Option<&'a str>) -> Vec<&'a str> {
        [self.id.namespace.as_str(), &self.id.name, &self.tool].into_iter().chain(extra).collect()
    }

    fn get(&self, cell: impl Fn(&Counters) -> &Lazy, family: &IntCounterVec, extra: Option<&str>) -> &IntCounter {
        cell(self.counters.get_or_init(Box::default)).get_or_init(|| {
            let retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
            if *retired { detached() } else { family.with_label_values(&self.labels(extra)) }
        })
    }

    /// Removes the tool's series. Calls in flight may still count into the counters that they hold.
    pub(crate) fn retire(&self, metrics: &Metrics) {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        *retired = true;
        // Removing a series that was never registered is an error that does not matter.
        let remove = |family: &IntCounterVec, extra| drop(family.remove_label_values(&self.labels(extra)));
        for family in [&metrics.input, &metrics.output, &metrics.saved, &metrics.missed] {
            remove(family, None);
        }
        for outcome in OUTCOMES {
            remove(&metrics.calls, Some(outcome.as_str()));
        }
        for stage in STAGES {
            remove(&metrics.errors, Some(stage.as_str()));
        }
    }
}

/// The counters of an exposition as a whole.
#[derive(Debug)]
pub(crate) struct ExpositionSeries {
    id: Arc<ExpositionId>,
    retired: Mutex<bool>,
    rejected: [Lazy; REJECTIONS.len()],
}

impl ExpositionSeries {
    pub(crate) fn new(id: &Arc<ExpositionId>) -> Self {
        Self { id: Arc::clone(id), retired: Mutex::new(false), rejected: Default::default() }
    }

    /// Registers every series.
    pub(super) fn everything(&self, metrics: &Metrics) {
        REJECTIONS.iter().for_each(|reason| self.rejected(metrics, *reason));
    }

    fn labels(&self, reason: Rejection) -> [&str; 3] {
        [&self.id.namespace, &self.id.name, reason.as_str()]
    }

    /// Counts a rejected request.
    pub(crate) fn rejected(&self, metrics: &Metrics, reason: Rejection) {
        let counter = self.rejected[reason as usize].get_or_init(|| {
            let retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
            if *retired { detached() } else { metrics.rejected.with_label_values(&self.labels(reason)) }
        });
        counter.inc();
    }

    /// Removes the series.
    pub(crate) fn retire(&self, metrics: &Metrics) {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        *retired = true;
        for reason in REJECTIONS {
            drop(metrics.rejected.remove_label_values(&self.labels(reason)));
        }
    }
}

const OUTCOMES: [Outcome; 7] = [
    Outcome::Ok,
    Outcome::InvalidArguments,
    Outcome::UpstreamError,
    Outcome::Timeout,
    Outcome::Refused,
    Outcome::Cancelled,
    Outcome::Error,
];

const STAGES: [Stage; 9] = [
    Stage::Parse,
    Stage::Branch,
    Stage::Retain,
    Stage::Patches,
    Stage::Root,
    Stage::Select,
    Stage::Text,
    Stage::Budget,
    Stage::Compact,
];

const REJECTIONS: [Rejection; 12] = [
    Rejection::Rate,
    Rejection::Concurrency,
    Rejection::Calls,
    Rejection::Connections,
    Rejection::Streams,
    Rejection::Memory,
    Rejection::Size,
    Rejection::Origin,
    Rejection::Unknown,
    Rejection::Stopped,
    Rejection::Protocol,
    Rejection::Unauthorized,
];

#[cfg(test)]
mod tests {
    use super::super::GaugeValues;
    use super::*;

    #[test]
    fn every_value_is_at_its_index() {
        assert!(OUTCOMES.iter().enumerate().all(|(at, outcome)| *outcome as usize == at));
        assert!(STAGES.iter().enumerate().all(|(at, stage)| *stage as usize == at));
        assert!(REJECTIONS.iter().enumerate().all(|(at, reason)| *reason as usize == at));
    }

    #[test]
    fn a_call_that_outlives_its_exposition_registers_no_series() {
        let metrics = Metrics::new().unwrap();
        let id = Arc::new(ExpositionId { namespace: "n".to_owned(), name: "gone".to_owned() });
        let (tool, exposition) = (ToolSeries::new(&id, "t"), ExpositionSeries::new(&id));
        tool.call(&metrics, Outcome::Ok);
        exposition.rejected(&metrics, Rejection::Rate);
        let text = || String::from_utf8(metrics.render(GaugeValues::default())).unwrap();
        assert_eq!(text().matches("gone").count(), 2);
        tool.retire(&metrics);
        exposition.retire(&metrics);
        assert_eq!(text().matches("gone").count(), 0);
        tool.call(&metrics, Outcome::Ok);
        tool.call(&metrics, Outcome::Cancelled);
        exposition.rejected(&metrics, Rejection::Size);
        assert_eq!(text().matches("gone").count(), 0);
    }
}
