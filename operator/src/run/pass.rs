//! One pass: plan some of what is marked, write some of what is planned. Namespaces take turns in both, and a pass is short:
//! what comes meanwhile waits for one turn of each other namespace, however much these have to do. What is planned and not
//! written at once waits in a queue that is bounded in bytes: nothing more is planned for whom it holds too much.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PartialObjectMeta};
use tamis_config::ServiceDocument;
use tamis_crds::ObjectName;

use super::apply::WRITERS;
use super::pending::{Pending, Weighs};
use super::sources::Sources;
use super::throttle::Throttle;
use super::write::Owner;
use super::{Again, Judged, Operator};
use crate::leader::Permit;
use crate::object::{Kind, ObjectKey};
use crate::plan::{self, Document, Plan, Planned, Revised};
use crate::watch::Watched;
use crate::world::{Scope, ServiceKey};

/// How long a pass plans, but at least one turn.
const SLICE: Duration = Duration::from_millis(30);
/// What an exposition costs beside its filter sets, in bytes of these.
const EXPOSITION_COST: usize = 4 << 10;
/// Bytes of documents that may wait to be written, and of one namespace.
const PENDING_BYTES: usize = 32 << 20;
const PENDING_OF_ONE: usize = 4 << 20;
/// Documents taken to be written, and expositions taken away, in one pass.
const ITEMS: usize = 64;
/// Secrets that are asked for in one turn.
const PROBES: usize = WRITERS;

/// A document, and the exposition that it is of.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) exposition: ObjectName,
    pub(super) owner: Owner,
    pub(super) document: Document,
    /// The service document that it names.
    pub(super) body: Option<Arc<ServiceDocument>>,
    /// When the change was seen that led to it.
    pub(super) seen: Instant,
    /// Whether it comes of an edit of the exposition itself, or of a Secret.
    pub(super) urgent: bool,
}

impl Weighs for Item {
    fn bytes(&self) -> usize {
        EXPOSITION_COST + self.document.spec.data.len()
    }

    fn is_urgent(&self) -> bool {
        self.urgent
    }
}

/// Where work waits. They take turns.
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

/// What is planned in one turn.
enum Turn {
    Expositions(Lane, ServiceKey, Scope),
    Objects(ServiceKey, Option<ObjectName>),
}

impl Operator {
    pub(super) async fn pass(&mut self, permit: &Permit, now: Instant) {
        let began = Instant::now();
        for name in std::mem::take(&mut self.world.dirty.removed) {
            if self.world.is_gone(&name) {
                self.leaves(name);
            }
        }
        self.plan_marked(now).await;
        let items = self.next_items();
        let leaving: BTreeSet<_> =
            std::iter::from_fn(|| self.leaving.next(|_| true)).map(|(name, ())| name).take(ITEMS).collect();
        self.more = !self.leaving.is_empty() || self.has_turn() || !self.pending.is_empty();
        if items.is_empty() && leaving.is_empty() {
            // What is left waits for something that a watch tells.
            self.more = self.has_turn() && self.pending.bytes() < PENDING_BYTES;
            return;
        }
        let outcome = match self.write(permit, items).await {
            Ok(()) => self.leave(permit, leaving).await,
            deposed => deposed,
        };
        if outcome.is_err() {
            // What was not written is compared again by whoever leads next, perhaps this operator.
            self.leads = false;
        }
        self.metrics.reconciled("Exposition", if outcome.is_ok() { "ok" } else { "deposed" }, began.elapsed());
    }

    /// Marks an exposition whose documents are to be deleted.
    fn leaves(&mut self, name: ObjectName) {
        self.pending.remove(&name);
        self.leaving.insert(name, ());
    }

    /// Plans what is marked, turn by turn, as far as a pass goes.
    async fn plan_marked(&mut self, now: Instant) {
        let began = Instant::now();
        while began.elapsed() < SLICE && self.pending.bytes() < PENDING_BYTES {
            let turn = Instant::now();
            let namespace = match self.next_turn(turn) {
                Some(Turn::Expositions(lane, service, scope)) => {
                    let namespace = service.namespace.clone();
                    self.turn(lane, service, scope, now).await;
                    namespace
                }
                Some(Turn::Objects(service, after)) => {
                    let namespace = service.namespace.clone();
                    self.judge_own(service, after.as_ref());
                    namespace
                }
                None => return,
            };
            self.throttle.took(&namespace, turn.elapsed(), Instant::now());
        }
    }

    /// Whether something can be planned now.
    fn has_turn(&self) -> bool {
        let (dirty, now) = (&self.world.dirty, Instant::now());
        let may = |namespace: &str| may_plan(&self.sources, &self.pending, &self.throttle, now, namespace);
        [&dirty.urgent, &dirty.services, &dirty.backlog].into_iter().any(|lane| lane.has_turn(may))
            || dirty.objects.has_turn(|namespace| self.throttle.may(namespace, now))
    }

    fn next_turn(&mut self, now: Instant) -> Option<Turn> {
        for _ in 0..Lane::COUNT {
            let lane = self.lane;
            self.lane = lane.next();
            let (sources, pending, throttle) = (&self.sources, &self.pending, &self.throttle);
            let may = |namespace: &str| may_plan(sources, pending, throttle, now, namespace);
            let dirty = &mut self.world.dirty;
            let marked = match lane {
                Lane::Urgent => dirty.urgent.next(may),
                Lane::Edits => dirty.services.next(may),
                Lane::Backlog => dirty.backlog.next(may),
                Lane::Objects => match dirty.objects.next(|namespace| throttle.may(namespace, now)) {
                    Some((service, after)) => return Some(Turn::Objects(service, after)),
                    None => None,
                },
            };
            if let Some((service, scope)) = marked {
                return Some(Turn::Expositions(lane, service, scope));
            }
        }
        None
    }

    /// Puts back what was not planned.
    fn put_back(&mut self, lane: Lane, service: &ServiceKey, names: BTreeSet<ObjectName>) {
        for name in names {
            match lane {
                Lane::Urgent => self.world.dirty.edited(service.clone(), name),
                Lane::Edits | Lane::Backlog | Lane::Objects => self.world.dirty.exposition(service.clone(), name),
            }
        }
    }

    /// Plans a turn's expositions of a service; asks the API first about Secrets that are named and not labelled.
    async fn turn(&mut self, lane: Lane, service: ServiceKey, scope: Scope, now: Instant) {
        let began = Instant::now();
        if scope == Scope::All {
            // All are planned anew: what they ask for is remembered from here on.
            self.world.note_secrets(&service, &BTreeSet::new(), true);
        }
        let world = &self.world;
        let all = || world.members(&service).map(|members| members.expositions.clone()).unwrap_or_default();
        let weight = |name: &ObjectName| EXPOSITION_COST + plan::weight(world, &service, name);
        let (chunk, rest) = scope.split(all, weight, plan::TURN_BYTES);
        let seen = match &rest {
            Some(_) => self.seen.get(&service).copied(),
            None => self.seen.remove(&service),
        };
        let dirty = &mut self.world.dirty;
        if let Some(rest) = rest {
            match lane {
                Lane::Urgent => drop(dirty.urgent.insert(service.clone(), rest)),
                Lane::Edits => drop(dirty.services.insert(service.clone(), rest)),
                Lane::Backlog | Lane::Objects => drop(dirty.backlog.insert(service.clone(), rest)),
            }
        }
        dirty.compiled(&service, &chunk);
        let plan = plan::service(&mut self.world, &mut self.memory, &self.settings, &service, &chunk, now);
        self.world.note_secrets(&service, &plan.secrets, false);
        let unknown = plan.secrets.iter().filter(|name| self.world.secrets.wants_probe(name));
        let unknown: Vec<_> = unknown.take(PROBES).cloned().collect();
        if unknown.is_empty() {
            self.metrics.reconciled("Service", "ok", began.elapsed());
            self.take(&service, &chunk, plan, seen.unwrap_or(now), lane == Lane::Urgent);
        } else {
            self.probe(unknown).await;
            self.put_back(lane, &service, chunk);
        }
    }

    /// Judges some of a service's own objects.
    fn judge_own(&mut self, service: ServiceKey, after: Option<&ObjectName>) {
        let own = plan::own(&self.world, &mut self.memory, &self.settings, &service, after);
        for (key, verdict) in own.verdicts {
            let Some(object) = self.world.get(key.kind, &key.name) else { continue };
            let judged = Judged::of(object, verdict);
            self.verdicts.insert(key.clone(), judged);
            self.say_again(&key);
        }
        if let Some(next) = own.next {
            self.world.dirty.objects.insert(service, Some(next));
        }
    }

    /// Puts what parts of a service have said of an object together with what is said of the object itself.
    fn say_again(&mut self, key: &ObjectKey) {
        if let Some(judged) = self.verdicts.get_mut(key) {
            judged.verdict.findings = plan::merged(&judged.own, &self.said.of(key));
        }
        self.world.dirty.status.insert(key.clone());
    }

    /// Takes note of what some expositions have led to saying of other objects.
    pub(super) fn revise(&mut self, expositions: &BTreeSet<ObjectName>, said: plan::Findings) {
        let Revised { objects, again } = self.said.revise(expositions, said);
        for key in objects {
            self.say_again(&key);
        }
        for name in again {
            self.world.mark_exposition(&name);
        }
    }

    /// What is written in this pass.
    fn next_items(&mut self) -> Vec<Item> {
        let (mut items, mut later) = (Vec::new(), Vec::new());
        while items.len() < ITEMS
            && let Some((_, item)) = self.pending.next()
        {
            let knows = self.sources.knows(&Watched::GroupSecrets, &item.owner.group.namespace);
            if knows { &mut items } else { &mut later }.push(item);
        }
        for item in later {
            self.pending.insert(item.exposition.clone(), item);
        }
        items
    }

    /// Asks the API whether Secrets exist that do not take part. Gives those of which the answer is news.
    pub(super) async fn probe(&mut self, unknown: Vec<ObjectName>) -> Vec<ObjectName> {
        let client = self.client.clone();
        let answers: Vec<(ObjectName, bool)> = stream::iter(unknown)
            .map(|name| {
                let api: Api<Secret> = Api::namespaced(client.clone(), &name.namespace);
                async move {
                    let found: Result<Option<PartialObjectMeta<Secret>>, _> = api.get_metadata_opt(&name.name).await;
                    (name, matches!(found, Ok(Some(_))))
                }
            })
            .buffer_unordered(WRITERS)
            .collect()
            .await;
        answers
            .into_iter()
            .filter(|(name, exists)| self.world.secrets.probed(name, *exists))
            .map(|(name, _)| name)
            .collect()
    }

    /// Takes a plan over: verdicts at once, documents to be written.
    fn take(&mut self, key: &ServiceKey, chunk: &BTreeSet<ObjectName>, plan: Plan, seen: Instant, urgent: bool) {
        let Plan { expositions, services, verdicts, said, foreign, wake, secrets: _, sets } = plan;
        if let Some((wake, names)) = wake {
            self.later.entry(wake).or_default().extend(names.into_iter().map(Again::Exposition));
        }
        for digest in services.keys() {
            self.world.note_document(digest, key);
        }
        for (object, verdict) in verdicts {
            if let Some(found) = self.world.get(object.kind, &object.name) {
                let judged = Judged::of(found, verdict);
                self.world.dirty.status.insert(object.clone());
                self.verdicts.insert(object, judged);
            }
        }
        self.revise(chunk, said);
        // Who speaks for what they share may be another by now.
        self.world.mark_shared(key);
        for name in foreign {
            self.verdicts.remove(&ObjectKey { kind: Kind::Exposition, name });
        }
        for (name, planned) in expositions {
            let uses = plan::uses(&self.world, &name, sets.get(&name).map_or(&[], Vec::as_slice));
            self.link(&name, uses);
            match planned {
                Planned::Untouched => self.pending.remove(&name),
                Planned::Nothing => self.leaves(name),
                Planned::Document(document) => match self.owner(&document.group) {
                    Some(owner) => {
                        let body = document.spec.service.as_ref().and_then(|digest| services.get(digest)).cloned();
                        self.leaving.remove(&name);
                        let document = *document;
                        let item = Item { exposition: name.clone(), owner, document, body, seen, urgent };
                        self.pending.insert(name, item);
                    }
                    // The group went while we planned: it marks its expositions.
                    None => self.leaves(name),
                },
            }
        }
    }

    /// Remembers what an exposition uses.
    pub(super) fn link(&mut self, name: &ObjectName, uses: BTreeSet<ObjectKey>) {
        let before = self.uses.remove(name).unwrap_or_default();
        for key in before.difference(&uses) {
            if let Some(users) = self.users.get_mut(key) {
                users.remove(name);
                if users.is_empty() {
                    self.users.remove(key);
                }
            }
            self.world.dirty.status.insert(key.clone());
        }
        for key in uses.difference(&before) {
            self.users.entry(key.clone()).or_default().insert(name.clone());
            self.world.dirty.status.insert(key.clone());
        }
        self.uses.insert(name.clone(), uses);
    }

    pub(super) fn owner(&self, group: &ObjectName) -> Option<Owner> {
        let object = self.world.get(Kind::GatewayGroup, group)?;
        Some(Owner { group: group.clone(), uid: object.uid.clone() })
    }
}

/// Whether expositions of a namespace can be planned: its Secrets are known, not too much of it waits to be written, and it
/// does not rest.
fn may_plan(sources: &Sources, pending: &Pending<Item>, throttle: &Throttle, now: Instant, namespace: &str) -> bool {
    sources.knows(&Watched::Secrets, namespace)
        && pending.bytes_of(namespace) < PENDING_OF_ONE
        && throttle.may(namespace, now)
}
