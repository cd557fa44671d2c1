//! The counters of an exposition and of its tools. They are registered at their first count, and removed with the
//! exposition.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use prometheus::{IntCounter, IntCounterVec};
use tamis_config::ExpositionId;
use tamis_engine::Stage;

use super::{CallSizes, Metrics, Outcome, Ratios, Rejection};
use crate::exposition::Toolset;

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

/// The counters of one tool of an exposition. Created by the tool's first call, since most tools are idle.
#[derive(Debug)]
pub(crate) struct ToolSeries {
    id: Arc<ExpositionId>,
    tool: Box<str>,
    /// Whether the tool is not published any more. The lock guards registration, which is rare.
    retired: Mutex<bool>,
    calls: [Lazy; OUTCOMES.len()],
    input: Lazy,
    output: Lazy,
    saved: Lazy,
    tokens: Lazy,
    saved_tokens: Lazy,
    missed: Lazy,
    errors: [Lazy; STAGES.len()],
    /// The ratios of the tool's sample.
    ratios: Ratios,
    /// When the tool was sampled last: seconds since the start of the sampler, and one; 0 if never.
    sampled: AtomicU32,
}

impl ToolSeries {
    pub(crate) fn new(id: &Arc<ExpositionId>, tool: &str) -> Self {
        Self {
            id: Arc::clone(id),
            tool: tool.into(),
            retired: Mutex::new(false),
            calls: Default::default(),
            input: Lazy::new(),
            output: Lazy::new(),
            saved: Lazy::new(),
            tokens: Lazy::new(),
            saved_tokens: Lazy::new(),
            missed: Lazy::new(),
            errors: Default::default(),
            ratios: Ratios::default(),
            sampled: AtomicU32::new(0),
        }
    }

    /// Returns counters that are never registered, for a call that outlives its tool.
    fn detached(id: &Arc<ExpositionId>) -> Self {
        Self { retired: Mutex::new(true), ..Self::new(id, "") }
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
        // Saved tokens may be counted later, but the series begins with the call.
        self.get(|c| &c.saved_tokens, &metrics.saved_tokens, None);
    }

    /// Counts the tokens that one call saved, as far as the tool's ratios say. [`Self::bytes`] comes first.
    pub(crate) fn add_saved_tokens(&self, sizes: &CallSizes) {
        if let Some(counter) = self.saved_tokens.get() {
            counter.inc_by(sizes.saved_tokens(&self.ratios) as u64);
        }
    }

    /// Returns the ratios of the tool's sample.
    pub(crate) fn ratios(&self) -> &Ratios {
        &self.ratios
    }

    /// Returns whether the tool was never sampled, or not for `interval`. `now` is the time since the sampler's start.
    pub(crate) fn is_sample_due(&self, now: Duration, interval: Duration) -> bool {
        is_due(self.sampled.load(Ordering::Relaxed), now, interval)
    }

    /// Says that the tool is sampled now. Returns false if another call has said so before.
    pub(crate) fn claim_sample(&self, now: Duration, interval: Duration) -> bool {
        let claim = |last| is_due(last, now, interval).then(|| stamp(now));
        self.sampled.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).is_ok()
    }

    /// Counts the tokens of one answer.
    pub(crate) fn tokens(&self, metrics: &Metrics, tokens: usize) {
        self.get(|c| &c.tokens, &metrics.tokens, None).inc_by(tokens as u64);
    }

    /// Returns the bytes counted so far.
    pub(crate) fn totals(&self) -> Totals {
        let read = |counter: &Lazy| counter.get().map_or(0, IntCounter::get);
        Totals { input: read(&self.input), output: read(&self.output) }
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
        self.tokens(metrics, 0);
        self.missed(metrics, 1);
        OUTCOMES.iter().for_each(|outcome| self.call(metrics, *outcome));
        STAGES.iter().for_each(|stage| self.error(metrics, *stage));
    }

    fn labels<'a>(&'a self, extra: Option<&'a str>) -> Vec<&'a str> {
        [self.id.namespace.as_str(), &self.id.name, &self.tool].into_iter().chain(extra).collect()
    }

    fn get(&self, cell: impl Fn(&Self) -> &Lazy, family: &IntCounterVec, extra: Option<&str>) -> &IntCounter {
        cell(self).get_or_init(|| {
            let retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
            if *retired { detached() } else { family.with_label_values(&self.labels(extra)) }
        })
    }

    /// Removes the tool's series. Calls in flight may still count into the counters that they hold.
    fn retire(&self, metrics: &Metrics) {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        *retired = true;
        // Removing a series that was never registered is an error that does not matter.
        let remove = |family: &IntCounterVec, extra| drop(family.remove_label_values(&self.labels(extra)));
        let Metrics { input, output, saved, tokens, saved_tokens, missed, .. } = metrics;
        for family in [input, output, saved, tokens, saved_tokens, missed] {
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

/// Returns the time of a sample as [`ToolSeries`] keeps it.
fn stamp(now: Duration) -> u32 {
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX).saturating_add(1)
}

fn is_due(last: u32, now: Duration, interval: Duration) -> bool {
    last == 0 || u64::from(stamp(now).saturating_sub(last)) >= interval.as_secs()
}

/// The counters of an exposition and of its tools. The versions of an exposition that replace each other share them.
#[derive(Debug)]
pub(crate) struct ExpositionSeries {
    id: Arc<ExpositionId>,
    /// Whether each tool has series of its own. To Prometheus, an empty label is an absent one.
    by_tool: bool,
    /// Created by the first rejection.
    rejected: OnceLock<Box<[Lazy; REJECTIONS.len()]>>,
    tools: Mutex<Published>,
}

/// The tools that may have series, and those that have.
#[derive(Debug)]
struct Published {
    /// The tools of the newest version; none once the exposition is removed.
    tools: Option<Arc<Toolset>>,
    /// By label.
    series: BTreeMap<Box<str>, Arc<ToolSeries>>,
}

impl ExpositionSeries {
    /// Creates the counters of an exposition that publishes `tools`.
    pub(crate) fn new(id: &Arc<ExpositionId>, by_tool: bool, tools: &Arc<Toolset>) -> Self {
        let tools = Mutex::new(Published { tools: Some(Arc::clone(tools)), series: BTreeMap::new() });
        Self { id: Arc::clone(id), by_tool, rejected: OnceLock::new(), tools }
    }

    fn tools(&self) -> MutexGuard<'_, Published> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counters of a tool. All versions that publish the tool get the same counters.
    pub(crate) fn tool(&self, name: &str) -> Arc<ToolSeries> {
        let mut published = self.tools();
        if !published.tools.as_ref().is_some_and(|tools| tools.contains(name)) {
            return Arc::new(ToolSeries::detached(&self.id));
        }
        let label = if self.by_tool { name } else { "" };
        if let Some(series) = published.series.get(label) {
            return Arc::clone(series);
        }
        let series = Arc::new(ToolSeries::new(&self.id, label));
        published.series.insert(label.into(), Arc::clone(&series));
        series
    }

    /// Admits the tools of a version that is about to be served. [`Self::retire_missing`] follows once it is.
    pub(crate) fn publish(&self, tools: &Arc<Toolset>) {
        self.tools().tools = Some(Arc::clone(tools));
    }

    /// Returns the bytes that the tools have counted so far.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.tools().series.values().for_each(|series| totals.add(series.totals()));
        totals
    }

    /// Removes the series of the tools that the newest version does not publish. Returns what they have counted.
    pub(crate) fn retire_missing(&self, metrics: &Metrics) -> Totals {
        let mut published = self.tools();
        let Published { tools, series } = &mut *published;
        let mut totals = Totals::default();
        series.retain(|label, series| {
            let stays = !self.by_tool || tools.as_ref().is_some_and(|tools| tools.contains(label));
            if !stays {
                series.retire(metrics);
                totals.add(series.totals());
            }
            stays
        });
        totals
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
        let counter = self.rejected.get_or_init(Box::default)[reason as usize].get_or_init(|| {
            let retired = self.tools().tools.is_none();
            if retired { detached() } else { metrics.rejected.with_label_values(&self.labels(reason)) }
        });
        counter.inc();
    }

    /// Removes all series, those of the tools too. Returns what the tools have counted.
    pub(crate) fn retire(&self, metrics: &Metrics) -> Totals {
        let mut published = self.tools();
        published.tools = None;
        for reason in REJECTIONS {
            drop(metrics.rejected.remove_label_values(&self.labels(reason)));
        }
        let mut totals = Totals::default();
        for series in std::mem::take(&mut published.series).into_values() {
            series.retire(metrics);
            totals.add(series.totals());
        }
        totals
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

const STAGES: [Stage; 10] = [
    Stage::Parse,
    Stage::Branch,
    Stage::Retain,
    Stage::Patches,
    Stage::Root,
    Stage::Select,
    Stage::Text,
    Stage::Budget,
    Stage::Format,
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
    fn saved_tokens_begin_and_end_with_their_tool() {
        let metrics = Metrics::new().unwrap();
        let id = Arc::new(ExpositionId { namespace: "n".to_owned(), name: "e".to_owned() });
        let series = ExpositionSeries::new(&id, true, &Arc::new(Toolset::named(["t"])));
        let tool = series.tool("t");
        let sizes =
            CallSizes { input: 700, output: 70, counted: None, vocabulary: None, factor: tamis_engine::Factor::ONE };
        let text = || String::from_utf8(metrics.render(GaugeValues::default())).unwrap();
        let line = "tamis_filter_saved_tokens_estimate_total{exposition=\"e\",namespace=\"n\",tool=\"t\"} ";
        tool.add_saved_tokens(&sizes);
        assert!(!text().contains(line), "{}", text());
        tool.bytes(&metrics, 700, 70);
        assert!(text().contains(&format!("{line}0\n")), "{}", text());
        tool.add_saved_tokens(&sizes);
        assert!(text().contains(&format!("{line}180\n")), "{}", text());
        series.retire(&metrics);
        // A sample that is counted later finds a series that is not exported.
        tool.add_saved_tokens(&sizes);
        assert!(!text().contains(line), "{}", text());
    }

    #[test]
    fn versions_share_counters_and_a_tool_that_is_gone_has_none() {
        let metrics = Metrics::new().unwrap();
        let id = Arc::new(ExpositionId { namespace: "n".to_owned(), name: "e".to_owned() });
        let series = ExpositionSeries::new(&id, true, &Arc::new(Toolset::named(["stays", "goes", "idle"])));
        let [stays, goes] = ["stays", "goes"].map(|tool| series.tool(tool));
        stays.bytes(&metrics, 100, 10);
        goes.bytes(&metrics, 5, 1);
        assert_eq!(series.totals(), Totals { input: 105, output: 11 });
        series.publish(&Arc::new(Toolset::named(["stays", "comes"])));
        series.tool("comes").bytes(&metrics, 7, 7);
        assert_eq!(series.retire_missing(&metrics), Totals { input: 5, output: 1 });
        // Calls of the previous version: of a tool that had counted, of one that had not, and of one that both versions have.
        goes.call(&metrics, Outcome::Ok);
        series.tool("idle").call(&metrics, Outcome::Ok);
        assert!(Arc::ptr_eq(&stays, &series.tool("stays")));
        assert_eq!(series.totals(), Totals { input: 107, output: 17 });
        let text = String::from_utf8(metrics.render(GaugeValues::default())).unwrap();
        let exported = |tool: &str| text.contains(&format!("tool=\"{tool}\""));
        assert_eq!(["stays", "comes", "goes", "idle"].map(exported), [true, true, false, false], "{text}");
    }

    #[test]
    fn tools_without_series_of_their_own_share_one() {
        let metrics = Metrics::new().unwrap();
        let id = Arc::new(ExpositionId { namespace: "n".to_owned(), name: "e".to_owned() });
        let series = ExpositionSeries::new(&id, false, &Arc::new(Toolset::named(["a", "b"])));
        let [a, b] = ["a", "b"].map(|tool| series.tool(tool));
        assert!(Arc::ptr_eq(&a, &b));
        a.bytes(&metrics, 3, 2);
        series.publish(&Arc::new(Toolset::named(["c"])));
        assert_eq!(series.retire_missing(&metrics), Totals::default());
        assert!(Arc::ptr_eq(&a, &series.tool("c")));
        assert_eq!(series.retire(&metrics), Totals { input: 3, output: 2 });
        assert_eq!(series.totals(), Totals::default());
    }

    #[test]
    fn a_call_that_outlives_its_exposition_registers_no_series() {
        let metrics = Metrics::new().unwrap();
        let id = Arc::new(ExpositionId { namespace: "n".to_owned(), name: "gone".to_owned() });
        let exposition = ExpositionSeries::new(&id, true, &Arc::new(Toolset::named(["t"])));
        let tool = exposition.tool("t");
        tool.call(&metrics, Outcome::Ok);
        exposition.rejected(&metrics, Rejection::Rate);
        let text = || String::from_utf8(metrics.render(GaugeValues::default())).unwrap();
        assert_eq!(text().matches("gone").count(), 2);
        exposition.retire(&metrics);
        assert_eq!(text().matches("gone").count(), 0);
        exposition.tool("t").call(&metrics, Outcome::Ok);
        tool.call(&metrics, Outcome::Ok);
        tool.call(&metrics, Outcome::Cancelled);
        exposition.rejected(&metrics, Rejection::Size);
        assert_eq!(text().matches("gone").count(), 0);
    }
}
