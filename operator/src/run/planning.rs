//! Planning, turn by turn. Namespaces take turns, and so do the lanes of work, so that a change waits for one turn of
//! each other namespace, however much work these have. Planned documents wait in a queue that is bounded in bytes: a
//! namespace that fills its share is not planned until some of its documents are written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use tamis_crds::ObjectName;

use super::action::{Action, Owner, Probe, ProbePurpose};
use super::pipeline::{EXPOSITION_COST, Item, Pipeline};
use super::sources::Sources;
use super::state::{ObjectVerdict, Requeue, State};
use super::throttle::Throttle;
use crate::cluster_state::{Scope, ServiceKey};
use crate::object::{Kind, ObjectKey};
use crate::plan::{self, Plan, Planned, Revised};
use crate::watch::Watched;

/// The bytes of documents that may wait to be written, in total and of one namespace.
const PENDING_BYTES: usize = 32 << 20;
const PENDING_OF_ONE: usize = 4 << 20;
/// The maximum of Secrets that are probed in one turn.
const PROBES: usize = 24;

/// The queue in which work waits. The lanes take turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Lane {
    #[default]
    Urgent,
    Edits,
    Backlog,
    Objects,
}

impl Lane {
    const COUNT: usize = 4;

    fn next(self) -> Self {
        match self {
            Self::Urgent => Self::Edits,
            Self::Edits => Self::Backlog,
            Self::Backlog => Self::Objects,
            Self::Objects => Self::Urgent,
        }
    }
}

/// The state that decides which namespace and lane have the next turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    lane: Lane,
    pub(super) throttle: Throttle,
    /// Namespaces that wait for a probe of Secrets.
    probing: BTreeSet<String>,
    /// When the change was seen for which a service is marked.
    pub(super) seen: HashMap<ServiceKey, Instant>,
}

impl Turns {
    /// Returns whether expositions of a namespace can be planned: its Secrets and ConfigMaps are known, it has not filled
    /// its share of the queue, and it is not throttled. `awaiting`: the namespaces whose ConfigMaps are not known yet.
    fn may_plan(
        &self,
        (sources, awaiting): (&Sources, &BTreeSet<String>),
        pipeline: &Pipeline,
        now: Instant,
        namespace: &str,
    ) -> bool {
        sources.knows(&Watched::Secrets, namespace)
            && self.may_judge((sources, awaiting), now, namespace)
            && pipeline.pending.bytes_of(namespace) < PENDING_OF_ONE
            && !self.probing.contains(namespace)
    }

    /// Returns whether a service's own objects can be judged.
    fn may_judge(&self, (sources, awaiting): (&Sources, &BTreeSet<String>), now: Instant, namespace: &str) -> bool {
        sources.knows(&Watched::ConfigMaps, namespace)
            && !awaiting.contains(namespace)
            && self.throttle.may(namespace, now)
    }
}

/// The objects that each exposition uses, and the expositions that use each object.
#[derive(Debug, Default)]
pub(super) struct Links {
    uses: BTreeMap<ObjectName, BTreeSet<ObjectKey>>,
    users: HashMap<ObjectKey, BTreeSet<ObjectName>>,
}

impl Links {
    /// Returns the objects that an exposition uses.
    pub(super) fn uses(&self, exposition: &ObjectName) -> impl Iterator<Item = &ObjectKey> {
        self.uses.get(exposition).into_iter().flatten()
    }

    /// Returns the expositions that use an object.
    pub(super) fn users(&self, object: &ObjectKey) -> impl Iterator<Item = &ObjectName> {
        self.users.get(object).into_iter().flatten()
    }

    /// Returns whether an exposition uses an object.
    pub(super) fn is_used(&self, object: &ObjectKey) -> bool {
        self.users.contains_key(object)
    }

    /// Returns all known expositions.
    pub(super) fn expositions(&self) -> impl Iterator<Item = &ObjectName> {
        self.uses.keys()
    }

    pub(super) fn forget(&mut self, exposition: &ObjectName) {
        self.uses.remove(exposition);
    }

    /// Records the objects that an exposition uses. Returns the objects whose users have changed.
    fn set(&mut self, exposition: &ObjectName, uses: BTreeSet<ObjectKey>) -> Vec<ObjectKey> {
        let before = self.uses.remove(exposition).unwrap_or_default();
        let changed: Vec<ObjectKey> = before.symmetric_difference(&uses).cloned().collect();
        for key in before.difference(&uses) {
            if let Some(users) = self.users.get_mut(key) {
                users.remove(exposition);
                if users.is_empty() {
                    self.users.remove(key);
                }
            }
        }
        for key in uses.difference(&before) {
            self.users.entry(key.clone()).or_default().insert(exposition.clone());
        }
        self.uses.insert(exposition.clone(), uses);
        changed
    }
}

/// The work of a turn.
enum Planning {
    Expositions(Lane, ServiceKey, Scope),
    Objects(ServiceKey, Option<ObjectName>),
}

impl State {
    /// Plans the work that is next in turn. Returns its namespace.
    pub(super) fn plan_turn(&mut self, now: Instant) -> Option<String> {
        if self.fence().is_none() || self.pipeline.pending.bytes() >= PENDING_BYTES {
            return None;
        }
        self.now = now;
        match self.next_turn()? {
            Planning::Expositions(lane, service, scope) => {
                let namespace = service.namespace.clone();
                self.plan_expositions(lane, service, scope);
                Some(namespace)
            }
            Planning::Objects(service, after) => {
                let namespace = service.namespace.clone();
                self.judge_own(service, after.as_ref());
                Some(namespace)
            }
        }
    }

    /// Returns whether there is work that can be planned now.
    pub(super) fn can_plan(&self, now: Instant) -> bool {
        let dirty = &self.cluster.dirty;
        let awaiting = self.cluster.namespaces_awaiting_config_maps();
        let known = (&self.sources, &awaiting);
        let may = |namespace: &str| self.turns.may_plan(known, &self.pipeline, now, namespace);
        self.fence().is_some()
            && self.pipeline.pending.bytes() < PENDING_BYTES
            && ([&dirty.urgent, &dirty.services, &dirty.backlog].into_iter().any(|lane| lane.has_turn(may))
                || dirty.objects.has_turn(|namespace| self.turns.may_judge(known, now, namespace)))
    }

    fn next_turn(&mut self) -> Option<Planning> {
        let now = self.now;
        let awaiting = self.cluster.namespaces_awaiting_config_maps();
        for _ in 0..Lane::COUNT {
            let lane = self.turns.lane;
            self.turns.lane = lane.next();
            let (sources, pipeline, turns) = (&self.sources, &self.pipeline, &self.turns);
            let known = (sources, &awaiting);
            let may = |namespace: &str| turns.may_plan(known, pipeline, now, namespace);
            let dirty = &mut self.cluster.dirty;
            let marked = match lane {
                Lane::Urgent => dirty.urgent.next(may),
                Lane::Edits => dirty.services.next(may),
                Lane::Backlog => dirty.backlog.next(may),
                Lane::Objects => match dirty.objects.next(|namespace| turns.may_judge(known, now, namespace)) {
                    Some((service, after)) => return Some(Planning::Objects(service, after)),
                    None => None,
                },
            };
            if let Some((service, scope)) = marked {
                return Some(Planning::Expositions(lane, service, scope));
            }
        }
        None
    }

    /// Restores the marks of expositions that were not planned.
    pub(super) fn put_back(&mut self, lane: Lane, service: &ServiceKey, names: BTreeSet<ObjectName>) {
        for name in names {
            match lane {
                Lane::Urgent => self.cluster.dirty.edited(service.clone(), name),
                Lane::Edits | Lane::Backlog | Lane::Objects => self.cluster.dirty.exposition(service.clone(), name),
            }
        }
    }

    /// Plans expositions of a service for one turn. If it is unknown whether the Secrets that they name exist, the
    /// Secrets are probed first.
    fn plan_expositions(&mut self, lane: Lane, service: ServiceKey, scope: Scope) {
        if scope == Scope::All {
            // All expositions are planned, so the record of the Secrets that they ask for starts over.
            self.cluster.note_secrets(&service, &BTreeSet::new(), true);
        }
        let cluster = &self.cluster;
        let all = || cluster.members(&service).map(|members| members.expositions.clone()).unwrap_or_default();
        let weight = |name: &ObjectName| EXPOSITION_COST + plan::weight(cluster, &service, name);
        let (mut chunk, rest) = scope.split(all, weight, plan::TURN_BYTES);
        let seen = match &rest {
            Some(_) => self.turns.seen.get(&service).copied(),
            None => self.turns.seen.remove(&service),
        };
        let dirty = &mut self.cluster.dirty;
        if let Some(rest) = rest {
            match lane {
                Lane::Urgent => drop(dirty.urgent.insert(service.clone(), rest)),
                Lane::Edits => drop(dirty.services.insert(service.clone(), rest)),
                Lane::Backlog | Lane::Objects => drop(dirty.backlog.insert(service.clone(), rest)),
            }
        }
        for name in chunk.iter().filter(|name| self.pipeline.is_writing(name)).cloned().collect::<Vec<_>>() {
            let lane = if self.cluster.dirty.is_edited(&service, &name) { Lane::Urgent } else { lane };
            chunk.remove(&name);
            self.pipeline.defer(name, lane, service.clone());
            self.turns.seen.entry(service.clone()).or_insert(seen.unwrap_or(self.now));
        }
        if chunk.is_empty() {
            return;
        }
        self.cluster.dirty.compiled(&service, &chunk);
        let plan = plan::service(&mut self.cluster, &mut self.memory, &self.settings, &service, &chunk, self.now);
        self.cluster.note_secrets(&service, &plan.secrets, false);
        let unknown = plan.secrets.iter().filter(|name| self.cluster.secrets.needs_probe(name));
        let unknown: Vec<_> = unknown.take(PROBES).cloned().collect();
        if unknown.is_empty() {
            self.apply(&service, &chunk, plan, seen.unwrap_or(self.now), lane == Lane::Urgent);
        } else {
            self.turns.probing.insert(service.namespace.clone());
            let purpose = ProbePurpose::Plan(lane, service, chunk);
            self.actions.push(Action::Probe(Probe { names: unknown, purpose }));
        }
    }

    /// Handles the result of a probe.
    pub(super) fn on_probed(&mut self, purpose: ProbePurpose, answers: Vec<(ObjectName, bool)>) {
        let news: Vec<ObjectName> = answers
            .into_iter()
            .filter(|(name, exists)| self.cluster.secrets.probed(name, *exists))
            .map(|(name, _)| name)
            .collect();
        match purpose {
            ProbePurpose::Plan(lane, service, names) => {
                self.turns.probing.remove(&service.namespace);
                self.put_back(lane, &service, names);
            }
            ProbePurpose::Refresh => {
                self.sweeper.is_probing = false;
                for name in news {
                    self.cluster.secret_changed(&name);
                }
            }
        }
    }

    /// Judges some of a service's own objects.
    fn judge_own(&mut self, service: ServiceKey, after: Option<&ObjectName>) {
        let own = plan::own(&self.cluster, &mut self.memory, &self.settings, &service, after);
        for (key, verdict) in own.verdicts {
            let Some(object) = self.cluster.get(key.kind, &key.name) else { continue };
            let verdict = ObjectVerdict::of(object, verdict);
            self.verdicts.insert(key.clone(), verdict);
            self.merge_findings(&key);
        }
        if let Some(next) = own.next {
            self.cluster.dirty.objects.insert(service, Some(next));
        }
    }

    /// Merges the findings about an object itself with the findings of its users.
    fn merge_findings(&mut self, key: &ObjectKey) {
        if let Some(judged) = self.verdicts.get_mut(key) {
            judged.verdict.findings = plan::merged(&judged.own, &self.shared_findings.of(key));
        }
        self.cluster.dirty.status.insert(key.clone());
    }

    /// Records the findings about shared objects that planning some expositions has led to.
    pub(super) fn revise(&mut self, expositions: &BTreeSet<ObjectName>, said: plan::Findings) {
        let Revised { objects, again } = self.shared_findings.revise(expositions, said);
        for key in objects {
            self.merge_findings(&key);
        }
        for name in again {
            self.cluster.mark_exposition(&name);
        }
    }

    /// Applies a plan: verdicts take effect at once, and documents are queued.
    fn apply(&mut self, key: &ServiceKey, chunk: &BTreeSet<ObjectName>, plan: Plan, seen: Instant, urgent: bool) {
        let Plan { expositions, services, verdicts, said, foreign, wake, secrets: _, sets } = plan;
        if let Some((wake, names)) = wake {
            self.requeues.entry(wake).or_default().extend(names.into_iter().map(Requeue::Exposition));
        }
        for digest in services.keys() {
            self.cluster.note_document(digest, key);
        }
        for (object, verdict) in verdicts {
            if let Some(found) = self.cluster.get(object.kind, &object.name) {
                let verdict = ObjectVerdict::of(found, verdict);
                self.cluster.dirty.status.insert(object.clone());
                self.verdicts.insert(object, verdict);
            }
        }
        self.revise(chunk, said);
        // Another operator may be responsible for the shared objects by now.
        self.cluster.mark_shared(key);
        for name in foreign {
            self.verdicts.remove(&ObjectKey { kind: Kind::Exposition, name });
        }
        for (name, planned) in expositions {
            let uses = plan::uses(&self.cluster, &name, sets.get(&name).map_or(&[], Vec::as_slice));
            self.link(&name, uses);
            match planned {
                Planned::Untouched => self.pipeline.withdraw(&name),
                Planned::Nothing => self.pipeline.release(name),
                Planned::Document(document) => match self.owner(&document.group) {
                    Some(owner) => {
                        let body = document.spec.service.as_ref().and_then(|digest| services.get(digest)).cloned();
                        let document = *document;
                        self.pipeline.queue(Item { exposition: name, owner, document, body, seen, urgent });
                    }
                    // The group has been deleted meanwhile, which marks its expositions.
                    None => self.pipeline.release(name),
                },
            }
        }
    }

    /// Records the objects that an exposition uses, and marks their status.
    pub(super) fn link(&mut self, exposition: &ObjectName, uses: BTreeSet<ObjectKey>) {
        self.cluster.dirty.status.extend(self.links.set(exposition, uses));
    }

    pub(super) fn owner(&self, group: &ObjectName) -> Option<Owner> {
        let object = self.cluster.get(Kind::GatewayGroup, group)?;
        Some(Owner { group: group.clone(), uid: object.uid.clone() })
    }
}
