//! Status: written beside everything else, one request an object at a time, and only where it says something else.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tamis_crds::ObjectName;
use tokio::sync::Semaphore;

use super::{Again, Done, Judged, Operator};
use crate::events::{Event, Regarding, events};
use crate::fair::Fair;
use crate::leader::Permit;
use crate::object::{Kind, ObjectKey};
use crate::status::{self, Seen, StatusInput};
use crate::verdict::{ConditionType, Finding, Verdict};
use crate::watch;

/// Requests under way at once.
const WRITERS: usize = 16;
/// Statuses that are made before there is a place to write them: what is made later says what is known later.
const MADE: usize = 64;
/// How often what many expositions have a say in is looked at: a group's count, a shared service's state.
const SLOW: Duration = Duration::from_millis(250);
/// Before another try at what the API refused.
const FAILED: Duration = Duration::from_secs(5);
/// What a folder applies comes in any order: of a new object it is not said at once that what it names is not there.
const NEW: Duration = Duration::from_secs(2);
/// The field manager of status.
const MANAGER: &str = "tamis-operator";

/// Requests under way, and what waits.
#[derive(Debug)]
pub(super) struct Statuses {
    writers: Arc<Semaphore>,
    /// To be looked at; namespaces take turns.
    queue: Fair<ObjectKey, ()>,
    in_flight: HashSet<ObjectKey>,
    /// To be looked at again when what is under way has ended.
    behind: HashSet<ObjectKey>,
    slow: BTreeSet<ObjectKey>,
    slow_at: Option<Instant>,
    /// What was said of an object and not kept, since its definition is of an older version: it is not said again.
    not_kept: BTreeMap<ObjectKey, Value>,
    /// New objects that name what is not there, and since when that is known.
    dangling: BTreeMap<ObjectKey, Instant>,
}

impl Default for Statuses {
    fn default() -> Self {
        Self {
            writers: Arc::new(Semaphore::new(WRITERS)),
            queue: Fair::default(),
            in_flight: HashSet::new(),
            behind: HashSet::new(),
            slow: BTreeSet::new(),
            slow_at: None,
            not_kept: BTreeMap::new(),
            dangling: BTreeMap::new(),
        }
    }
}

impl Statuses {
    /// Marks an object that many others have a say in.
    pub(super) fn slowly(&mut self, key: ObjectKey) {
        self.slow.insert(key);
        self.slow_at.get_or_insert_with(|| Instant::now() + SLOW);
    }

    /// Puts an object among those to be looked at.
    fn mark(&mut self, key: ObjectKey) {
        if self.in_flight.contains(&key) {
            self.behind.insert(key);
        } else {
            self.queue.insert(key, ());
        }
    }

    /// The next one to be looked at, if there is room for its status.
    fn next(&mut self) -> Option<ObjectKey> {
        if self.in_flight.len() >= MADE {
            return None;
        }
        self.queue.next(|_| true).map(|(key, ())| key)
    }

    /// Whether what a new object names may still come: then nothing is said of it yet.
    fn may_come(&mut self, key: &ObjectKey, dangles: bool, now: Instant) -> bool {
        if !dangles {
            self.dangling.remove(key);
            return false;
        }
        let since = *self.dangling.entry(key.clone()).or_insert(now);
        now < since + NEW
    }

    fn ended(&mut self, key: &ObjectKey) {
        self.in_flight.remove(key);
        if let Some(key) = self.behind.take(key) {
            self.mark(key);
        }
    }
}

/// A status that was written, or not.
#[derive(Debug)]
pub(super) struct Written {
    key: ObjectKey,
    /// What was said.
    status: Value,
    result: Result<Box<DynamicObject>, Failure>,
}

/// Why a status was not written.
#[derive(Debug)]
pub(super) enum Failure {
    /// The object is another by now, or gone: the watch tells.
    Stale,
    /// Another operator leads.
    Deposed,
    /// Anything else.
    Api(kube::Error),
}

impl Operator {
    /// Writes what is marked and says something else than it does.
    pub(super) fn write_statuses(&mut self, permit: &Permit, now: Instant) {
        if self.statuses.slow_at.is_some_and(|at| at <= now) {
            self.statuses.slow_at = None;
            let slow = std::mem::take(&mut self.statuses.slow);
            if slow.iter().any(|key| key.kind == Kind::GatewayGroup) {
                self.judge_groups();
            }
            slow.into_iter().for_each(|key| self.statuses.mark(key));
        }
        let marked = std::mem::take(&mut self.world.dirty.status);
        let (own, shared): (BTreeSet<_>, BTreeSet<_>) =
            marked.into_iter().partition(|key| matches!(key.kind, Kind::Exposition | Kind::GatewayGroup));
        for key in shared {
            self.statuses.slowly(key);
        }
        own.into_iter().for_each(|key| self.statuses.mark(key));
        while let Some(key) = self.statuses.next() {
            if let Some((object, status, events)) = self.status_of(&key, now) {
                self.statuses.in_flight.insert(key.clone());
                self.write_status(permit.clone(), key, &object, &status, events);
            }
        }
    }

    /// What the status should be, where it is not.
    fn status_of(&mut self, key: &ObjectKey, now: Instant) -> Option<(Arc<crate::world::Object>, Value, Vec<Event>)> {
        let Some(object) = self.world.get(key.kind, &key.name).cloned() else {
            self.statuses.dangling.remove(key);
            return None;
        };
        self.judge_unused(key, &object);
        if !crate::plan::speaks_of(&self.world, &self.settings, &object) {
            return None;
        }
        let judged = self.verdicts.get(key).filter(|judged| judged.is_of(&object) && !object.deleting)?;
        let mut verdict: Verdict = judged.verdict.clone();
        let is_new = Seen::find(object.status.as_deref(), status::READY).is_none();
        if self.statuses.may_come(key, is_new && (verdict.waits || dangles(&verdict)), now) {
            self.again(NEW, Again::Status(key.clone()));
            return None;
        }
        if !matches!(key.kind, Kind::Exposition | Kind::GatewayGroup) {
            // What is planned for them, written or not: what was loaded of an older plan says nothing of this one.
            let users = self.users.get(key).into_iter().flatten();
            let key = |name: &ObjectName| ObjectKey { kind: Kind::Exposition, name: name.clone() };
            let planned: Vec<&Judged> = users.filter_map(|name| self.verdicts.get(&key(name))).collect();
            verdict.documents = planned.iter().flat_map(|judged| judged.verdict.documents.iter().cloned()).collect();
            verdict.paused = planned.iter().find_map(|judged| judged.verdict.paused.as_ref()).map(|_| {
                "An exposition that uses it is paused, and may serve what was before; see the expositions".to_owned()
            });
        }
        let programmed = self.table.programmed(&verdict.documents, now);
        let wanted = self.wanted.get(&key.name).filter(|_| key.kind == Kind::Exposition);
        let saved = wanted.and_then(|wanted| self.table.saved(&wanted.group, &wanted.id));
        let input = StatusInput {
            kind: key.kind,
            generation: object.generation,
            previous: object.status.as_deref(),
            verdict: &verdict,
            programmed: &programmed,
            saved,
            now: jiff::Timestamp::now(),
        };
        let status = status::desired(&input)?;
        if self.statuses.not_kept.get(key).is_some_and(|said| status::says(Some(said), &status)) {
            return None;
        }
        let events = events(object.status.as_deref(), &status, &verdict);
        Some((object, status, events))
    }

    /// A plan that no exposition names, or an object that cannot be read, is never planned: what is wrong with its shape
    /// is all that there is to say.
    fn judge_unused(&mut self, key: &ObjectKey, object: &crate::world::Object) {
        let alone = key.kind == Kind::ConfigurationPlan
            && !self.users.contains_key(key)
            && crate::plan::speaks_of(&self.world, &self.settings, object);
        let unplanned = alone || (object.is_unusable() && key.kind != Kind::Exposition);
        let known = self.verdicts.get(key).is_some_and(|judged| judged.is_of(object));
        if unplanned && !known {
            let findings = crate::plan::findings(&object.diagnostics, &[]);
            self.verdicts.insert(key.clone(), Judged::of(object, Verdict { findings, ..Verdict::default() }));
        }
    }

    fn write_status(
        &self,
        permit: Permit,
        key: ObjectKey,
        object: &crate::world::Object,
        status: &Value,
        events: Vec<Event>,
    ) {
        let resource = watch::resource_of(key.kind);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &key.name.namespace, &resource);
        let body = |status: Value| {
            json!({
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {
                    "name": key.name.name,
                    "namespace": key.name.namespace,
                    "uid": object.uid,
                    "resourceVersion": object.resource_version,
                },
                "status": status,
            })
        };
        let (apply, merge) = (body(status.clone()), body(status::merging(object.status.as_deref(), status)));
        let status = status.clone();
        let unusable = object.is_unusable();
        let regarding =
            Regarding { key: key.clone(), uid: object.uid.clone(), resource_version: object.resource_version.clone() };
        let publisher = self.events.clone();
        let (writers, done) = (Arc::clone(&self.statuses.writers), self.done.clone());
        tokio::spawn(async move {
            let _place = writers.acquire().await;
            let merging = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            let merge = Patch::Merge(&merge);
            let name = &key.name.name;
            // Server-side apply wants to understand the whole object as it is. Nobody understands one that is malformed,
            // and a definition of an older version does not know all fields of the status.
            let written = if unusable {
                permit.write(api.patch_status(name, &merging, &merge)).await
            } else {
                let applying = PatchParams::apply(MANAGER).force();
                match permit.write(api.patch_status(name, &applying, &Patch::Apply(&apply))).await {
                    Ok(Err(kube::Error::Api(said))) if said.message.contains("failed to create typed") => {
                        permit.write(api.patch_status(name, &merging, &merge)).await
                    }
                    written => written,
                }
            };
            let result = match written {
                Err(_) => Err(Failure::Deposed),
                Ok(Ok(object)) => {
                    publisher.publish(regarding, events);
                    Ok(Box::new(object))
                }
                Ok(Err(kube::Error::Api(status))) if status.is_conflict() || status.is_not_found() => {
                    Err(Failure::Stale)
                }
                Ok(Err(error)) => Err(Failure::Api(error)),
            };
            // Nobody listens any more when the operator ends.
            let _ = done.send(Done::Status(Written { key, status, result }));
        });
    }

    pub(super) fn status_written(&mut self, written: Written) {
        let Written { key, status, result } = written;
        self.statuses.ended(&key);
        match result {
            Ok(object) => {
                if status::says(object.data.get("status"), &status) {
                    self.statuses.not_kept.remove(&key);
                } else if self.statuses.not_kept.insert(key.clone(), status).is_none() {
                    tracing::warn!(object = %key, "its definition does not know all of its status: apply that of this version");
                }
                self.world.answered(key.kind, &object);
            }
            // The watch tells what it is by now.
            Err(Failure::Stale) => self.again(Duration::from_millis(100), Again::Status(key)),
            Err(Failure::Deposed) => self.leads = false,
            Err(Failure::Api(error)) => {
                self.metrics
                    .failed("Status", if matches!(error, kube::Error::Api(_)) { "refused" } else { "unreachable" });
                tracing::warn!(object = %key, "status not written: {error}");
                self.again(FAILED, Again::Status(key));
            }
        }
    }
}

/// Whether something that is named is not there.
fn dangles(verdict: &Verdict) -> bool {
    let missing = |finding: &Finding| {
        finding.is_error && finding.condition == ConditionType::ResolvedRefs && finding.reason.ends_with("NotFound")
    };
    verdict.findings.iter().any(missing)
}

#[cfg(test)]
mod tests {
    use tamis_crds::ObjectName;

    use super::*;

    #[test]
    fn what_a_new_object_names_has_two_seconds_to_come() {
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
    fn only_what_is_missing_dangles() {
        let finding = |condition, reason, is_error| Finding { condition, reason, message: String::new(), is_error };
        for (finding, expected) in [
            (finding(ConditionType::ResolvedRefs, "ServiceNotFound", true), true),
            (finding(ConditionType::ResolvedRefs, "FilterSetNotFound", true), true),
            (finding(ConditionType::ResolvedRefs, "ToolNotFound", false), false),
            (finding(ConditionType::ResolvedRefs, "RefNotPermitted", true), false),
            (finding(ConditionType::Accepted, "InvalidFilter", true), false),
        ] {
            let verdict = Verdict { findings: vec![finding.clone()], ..Verdict::default() };
            assert_eq!(dangles(&verdict), expected, "{finding:?}");
        }
    }

    fn key(name: &str) -> ObjectKey {
        let name = ObjectName { namespace: "team".to_owned(), name: name.to_owned() };
        ObjectKey { kind: Kind::Exposition, name }
    }

    #[test]
    fn what_is_marked_while_it_is_written_is_looked_at_once_more_after_that() {
        let mut statuses = Statuses::default();
        for name in ["a", "b", "a"] {
            statuses.mark(key(name));
        }
        assert_eq!(statuses.next(), Some(key("a")));
        statuses.in_flight.insert(key("a"));
        statuses.mark(key("a"));
        statuses.mark(key("a"));
        assert_eq!([statuses.next(), statuses.next()], [Some(key("b")), None]);
        statuses.ended(&key("a"));
        assert_eq!([statuses.next(), statuses.next()], [Some(key("a")), None]);
        statuses.ended(&key("a"));
        assert_eq!(statuses.next(), None);
    }

    #[test]
    fn no_more_is_made_than_can_be_written_soon() {
        let mut statuses = Statuses::default();
        statuses.in_flight.extend((0..MADE).map(|n| key(&n.to_string())));
        statuses.mark(key("late"));
        assert_eq!(statuses.next(), None);
        statuses.ended(&key("0"));
        assert_eq!(statuses.next(), Some(key("late")));
    }
}
