//! Writes statuses: one write per object at a time, and only if the status changes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::Value;
use tamis_config::Condition;
use tamis_crds::ObjectName;

use super::action::{Action, Failure, Fence, Request, StatusWrite};
use super::state::{ObjectVerdict, Requeue, State};
use crate::cluster_state::Object;
use crate::events::{Event, Regarding, events};
use crate::fair_queue::FairQueue;
use crate::object::{Kind, ObjectKey};
use crate::status::{self, Seen, StatusInput};
use crate::verdict::{Finding, PlanCondition, Verdict};

/// The most status writes in flight. A status that is computed later knows more.
const IN_FLIGHT: usize = 64;
/// How often to compute the status of an object that many expositions affect, such as a group or a shared service.
const SLOW: Duration = Duration::from_millis(250);
/// The delay after the API server refused a write.
const FAILED: Duration = Duration::from_secs(5);
/// The delay after another writer was faster.
const STALE: Duration = Duration::from_millis(100);
/// How long a new object may have missing references before its status reports them: the objects of a folder are
/// applied in any order.
const NEW: Duration = Duration::from_secs(2);

/// How long the status of an exposition rests after its upstream has changed. A server that comes and goes does not cause a write
/// each time.
const UPSTREAM: Duration = Duration::from_secs(10);

/// Statuses in flight, and objects that wait for one.
#[derive(Debug, Default)]
pub(super) struct Statuses {
    /// Objects whose status is to be computed; namespaces take turns.
    queue: FairQueue<ObjectKey, ()>,
    in_flight: HashMap<ObjectKey, InFlight>,
    /// Objects whose status is to be computed again when their write has ended.
    behind: HashSet<ObjectKey>,
    slow: BTreeSet<ObjectKey>,
    slow_at: Option<Instant>,
    /// Statuses that the API server did not store whole, because its definitions are of an older version. They are not
    /// written again.
    not_kept: BTreeMap<ObjectKey, Value>,
    /// New objects with missing references, and since when.
    dangling: BTreeMap<ObjectKey, Instant>,
    /// Expositions whose upstream has changed, and until when their statuses rest.
    resting: HashMap<ObjectKey, Instant>,
}

/// A status write in flight.
#[derive(Debug)]
struct InFlight {
    fence: Fence,
    status: Value,
    regarding: Regarding,
    /// The Events that accompany it.
    events: Vec<Event>,
}

impl Statuses {
    /// Marks an object that many others affect: its status is computed later, once for all of them.
    pub(super) fn slowly(&mut self, key: ObjectKey, now: Instant) {
        self.slow.insert(key);
        self.slow_at.get_or_insert(now + SLOW);
    }

    /// Returns how long to wait before the status of an exposition shows another state of its upstream; `None` to show it now.
    pub(super) fn rest_of(&mut self, key: &ObjectKey, now: Instant) -> Option<Duration> {
        self.resting.retain(|_, until| *until > now);
        match self.resting.get(key) {
            Some(until) => Some(until.saturating_duration_since(now)),
            None => {
                self.resting.insert(key.clone(), now + UPSTREAM);
                None
            }
        }
    }

    /// Marks an object whose status is to be computed.
    fn mark(&mut self, key: ObjectKey) {
        if self.in_flight.contains_key(&key) {
            self.behind.insert(key);
        } else {
            self.queue.insert(key, ());
        }
    }

    /// Returns the next object, if another write may be in flight.
    fn next(&mut self) -> Option<ObjectKey> {
        if self.in_flight.len() >= IN_FLIGHT {
            return None;
        }
        self.queue.next(|_| true).map(|(key, ())| key)
    }

    /// Returns whether objects that a new one refers to may still arrive. Its status then waits.
    fn may_come(&mut self, key: &ObjectKey, dangles: bool, now: Instant) -> bool {
        if !dangles {
            self.dangling.remove(key);
            return false;
        }
        let since = *self.dangling.entry(key.clone()).or_insert(now);
        now < since + NEW
    }

    fn ended(&mut self, key: &ObjectKey) -> Option<InFlight> {
        let ended = self.in_flight.remove(key);
        if let Some(key) = self.behind.take(key) {
            self.mark(key);
        }
        ended
    }
}

impl State {
    /// Writes the statuses of the marked objects, if they change.
    pub(super) fn write_statuses(&mut self, fence: Fence, time: Timestamp) {
        if self.statuses.slow_at.is_some_and(|at| at <= self.now) {
            self.statuses.slow_at = None;
            let slow = std::mem::take(&mut self.statuses.slow);
            if slow.iter().any(|key| key.kind == Kind::GatewayGroup) {
                self.judge_groups();
            }
            slow.into_iter().for_each(|key| self.statuses.mark(key));
        }
        let marked = std::mem::take(&mut self.cluster.dirty.status);
        let (own, shared): (BTreeSet<_>, BTreeSet<_>) =
            marked.into_iter().partition(|key| matches!(key.kind, Kind::Exposition | Kind::GatewayGroup));
        for key in shared {
            self.statuses.slowly(key, self.now);
        }
        own.into_iter().for_each(|key| self.statuses.mark(key));
        while let Some(key) = self.statuses.next() {
            if let Some((object, status, events)) = self.status_of(&key, time) {
                self.write_status(fence, key, &object, status, events);
            }
        }
    }

    /// Returns the status that an object should have, if it has another.
    fn status_of(&mut self, key: &ObjectKey, time: Timestamp) -> Option<(Arc<Object>, Value, Vec<Event>)> {
        let now = self.now;
        let Some(object) = self.cluster.get(key.kind, &key.name).cloned() else {
            self.statuses.dangling.remove(key);
            return None;
        };
        self.judge_unused(key, &object);
        if !crate::plan::owns_status_of(&self.cluster, &self.settings, &object) {
            return None;
        }
        let judged = self.verdicts.get(key).filter(|judged| judged.is_of(&object) && !object.deleting)?;
        let mut verdict: Verdict = judged.verdict.clone();
        let is_new = Seen::find(object.status.as_deref(), Condition::Ready).is_none();
        if self.statuses.may_come(key, is_new && (verdict.waits || dangles(&verdict)), now) {
            self.requeue_after(NEW, Requeue::Status(key.clone()));
            return None;
        }
        if !matches!(key.kind, Kind::Exposition | Kind::GatewayGroup) {
            // The planned documents, written or not: an older plan that is loaded says nothing about this one.
            let key_of = |name: &ObjectName| ObjectKey { kind: Kind::Exposition, name: name.clone() };
            let planned: Vec<&ObjectVerdict> =
                self.links.users(key).filter_map(|name| self.verdicts.get(&key_of(name))).collect();
            verdict.documents = planned.iter().flat_map(|judged| judged.verdict.documents.iter().cloned()).collect();
            verdict.paused = planned.iter().find_map(|judged| judged.verdict.paused.as_ref()).map(|_| {
                "An exposition that uses it is paused and may serve the version before; see the expositions".to_owned()
            });
        }
        let programmed = self.table.programmed(&verdict.documents, now);
        let wanted = self.required.get(&key.name).filter(|_| key.kind == Kind::Exposition);
        let saved = wanted.and_then(|wanted| self.table.saved(&wanted.group, &wanted.id));
        let upstream = wanted.and_then(|wanted| self.table.upstream(&wanted.group, &wanted.id));
        let input = StatusInput {
            kind: key.kind,
            generation: object.generation,
            previous: object.status.as_deref(),
            verdict: &verdict,
            programmed: &programmed,
            saved,
            upstream,
            now: time,
        };
        let status = status::desired(&input)?;
        if self.statuses.not_kept.get(key).is_some_and(|written| status::says(Some(written), &status)) {
            return None;
        }
        let events = events(object.status.as_deref(), &status, &verdict);
        Some((object, status, events))
    }

    /// Judges objects that are never planned: a ConfigurationPlan that no exposition names, and objects that cannot be
    /// read. Their findings concern their shape only.
    fn judge_unused(&mut self, key: &ObjectKey, object: &Object) {
        let alone = key.kind == Kind::ConfigurationPlan
            && !self.links.is_used(key)
            && crate::plan::owns_status_of(&self.cluster, &self.settings, object);
        let unplanned = alone || (object.is_unusable() && key.kind != Kind::Exposition);
        let known = self.verdicts.get(key).is_some_and(|judged| judged.is_of(object));
        if unplanned && !known {
            let findings = crate::plan::findings(&object.diagnostics, &[]);
            self.verdicts.insert(key.clone(), ObjectVerdict::of(object, Verdict { findings, ..Verdict::default() }));
        }
    }

    fn write_status(&mut self, fence: Fence, key: ObjectKey, object: &Object, status: Value, events: Vec<Event>) {
        let (uid, resource_version) = (object.uid.clone(), object.resource_version.clone());
        let regarding = Regarding { key: key.clone(), uid: uid.clone(), resource_version: resource_version.clone() };
        let merge = status::merging(object.status.as_deref(), &status);
        let is_unusable = object.is_unusable();
        let in_flight = InFlight { fence, status: status.clone(), regarding, events };
        self.statuses.in_flight.insert(key.clone(), in_flight);
        let write = StatusWrite { key, uid, resource_version, status, merge, is_unusable };
        self.write(fence, Request::Status(Box::new(write)));
    }

    /// Handles the result of a status write.
    pub(super) fn on_status_written(&mut self, key: ObjectKey, result: Result<Box<DynamicObject>, Failure>) {
        let Some(InFlight { fence, status, regarding, events }) = self.statuses.ended(&key) else { return };
        match result {
            Ok(object) => {
                if status::says(object.data.get("status"), &status) {
                    self.statuses.not_kept.remove(&key);
                } else if self.statuses.not_kept.insert(key.clone(), status).is_none() {
                    tracing::warn!(object = %key, "the definition of its kind is of an older version and drops fields of its status; apply the definitions of this version");
                }
                self.cluster.on_write_answered(key.kind, &object);
                if !events.is_empty() {
                    self.actions.push(Action::Publish(regarding, events));
                }
            }
            // The watch delivers the newer version.
            Err(Failure::Stale) => self.requeue_after(STALE, Requeue::Status(key)),
            Err(Failure::Deposed(_)) => {
                self.deposed(fence);
                self.requeue_after(STALE, Requeue::Status(key));
            }
            Err(Failure::Api(error)) => {
                self.metrics
                    .failed("Status", if matches!(error, kube::Error::Api(_)) { "refused" } else { "unreachable" });
                tracing::warn!(object = %key, "status not written: {error}");
                self.requeue_after(FAILED, Requeue::Status(key));
            }
        }
    }
}

/// Returns whether a referenced object does not exist.
fn dangles(verdict: &Verdict) -> bool {
    let missing = |finding: &Finding| {
        finding.is_error && finding.condition == PlanCondition::ResolvedRefs && finding.reason.is_absence()
    };
    verdict.findings.iter().any(missing)
}

#[cfg(test)]
mod tests {
    use tamis_config::Reason;
    use tamis_crds::ObjectName;

    use super::*;

    #[test]
    fn references_of_a_new_object_have_two_seconds_to_arrive() {
        let (mut statuses, now) = (Statuses::default(), Instant::now());
        let after = |ms| now + Duration::from_millis(ms);
        for (ms, dangles, waits) in [
            (0, true, true),
            (1_999, true, true),
            (2_000, true, false),
            (3_000, true, false),
            (3_500, false, false),
            (4_000, true, true),
        ] {
            assert_eq!(statuses.may_come(&key("a"), dangles, after(ms)), waits, "after {ms} ms");
        }
    }

    #[test]
    fn only_missing_references_dangle() {
        let error = |reason| Finding::error(reason, "");
        for (finding, expected) in [
            (error(Reason::ServiceNotFound), true),
            (error(Reason::FilterSetNotFound), true),
            (Finding::warning(Reason::ToolNotFound, ""), false),
            (error(Reason::RefNotPermitted), false),
            (error(Reason::InvalidFilter), false),
        ] {
            let verdict = Verdict { findings: vec![finding.clone()], ..Verdict::default() };
            assert_eq!(dangles(&verdict), expected, "{finding:?}");
        }
    }

    fn key(name: &str) -> ObjectKey {
        let name = ObjectName { namespace: "team".to_owned(), name: name.to_owned() };
        ObjectKey { kind: Kind::Exposition, name }
    }

    fn in_flight(name: &str) -> InFlight {
        let regarding = Regarding { key: key(name), uid: String::new(), resource_version: String::new() };
        InFlight { fence: Fence { term: 1, sleeps: 0 }, status: Value::Null, regarding, events: Vec::new() }
    }

    #[test]
    fn an_object_marked_during_its_write_is_computed_once_more() {
        let mut statuses = Statuses::default();
        for name in ["a", "b", "a"] {
            statuses.mark(key(name));
        }
        assert_eq!(statuses.next(), Some(key("a")));
        statuses.in_flight.insert(key("a"), in_flight("a"));
        statuses.mark(key("a"));
        statuses.mark(key("a"));
        assert_eq!([statuses.next(), statuses.next()], [Some(key("b")), None]);
        statuses.ended(&key("a"));
        assert_eq!([statuses.next(), statuses.next()], [Some(key("a")), None]);
        statuses.ended(&key("a"));
        assert_eq!(statuses.next(), None);
    }

    #[test]
    fn an_upstream_that_comes_and_goes_is_shown_every_ten_seconds() {
        let (mut statuses, now) = (Statuses::default(), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        for (seconds, name, rest) in [
            (0, "a", None),
            (1, "a", Some(9)),
            (1, "b", None),
            (9, "a", Some(1)),
            (10, "a", None),
            (19, "a", Some(1)),
            (40, "a", None),
        ] {
            let expected = rest.map(Duration::from_secs);
            assert_eq!(statuses.rest_of(&key(name), after(seconds)), expected, "{name} after {seconds} s");
        }
        assert_eq!(statuses.resting.len(), 1, "rests that are over are forgotten");
    }

    #[test]
    fn no_status_is_computed_while_too_many_are_in_flight() {
        let mut statuses = Statuses::default();
        statuses.in_flight.extend((0..IN_FLIGHT).map(|n| (key(&n.to_string()), in_flight(&n.to_string()))));
        statuses.mark(key("late"));
        assert_eq!(statuses.next(), None);
        statuses.ended(&key("0"));
        assert_eq!(statuses.next(), Some(key("late")));
    }
}
