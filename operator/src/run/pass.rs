//! One pass: plan what is marked, write what differs. What is planned and not written at once waits in a queue, so that
//! an edit is not behind ten thousand documents of a cold start, and the task never writes for long without listening.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PartialObjectMeta};
use tamis_config::ServiceDocument;
use tamis_crds::ObjectName;

use super::apply::WRITERS;
use super::write::Owner;
use super::{Again, Judged, Operator};
use crate::leader::Permit;
use crate::object::{Kind, ObjectKey};
use crate::plan::{self, Document, Plan, Planned};
use crate::watch::Watched;
use crate::world::{Scope, ServiceKey};

/// Services planned in one pass: what comes meanwhile waits no longer than these take.
const SERVICES: usize = 64;
/// Documents written, and expositions taken away, in one pass.
const ITEMS: usize = 512;

/// A document, and the exposition that it is of.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) exposition: ObjectName,
    service: ServiceKey,
    pub(super) owner: Owner,
    pub(super) document: Document,
    /// The service document that it names.
    pub(super) body: Option<Arc<ServiceDocument>>,
    /// When the change was seen that led to it.
    pub(super) seen: Instant,
}

impl Operator {
    pub(super) async fn pass(&mut self, permit: &Permit, now: Instant) {
        let began = Instant::now();
        let (mut items, mut leaving) = (Vec::new(), BTreeSet::new());
        self.more = false;
        self.plan_marked(now, &mut items, &mut leaving).await;
        for name in std::mem::take(&mut self.world.dirty.removed) {
            if self.world.is_gone(&name) {
                leaving.insert(name);
            }
        }
        for name in items.iter().map(|item| &item.exposition).chain(&leaving) {
            self.pending.remove(name);
        }
        let items = self.next_items(items);
        if let Some(first) = leaving.iter().nth(ITEMS).cloned() {
            self.more = true;
            for name in leaving.split_off(&first) {
                self.world.mark_exposition(&name);
            }
        }
        if items.is_empty() && leaving.is_empty() {
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

    /// Plans services that are marked and whose Secrets are known: edits first, then what has waited since the start.
    async fn plan_marked(&mut self, now: Instant, items: &mut Vec<Item>, leaving: &mut BTreeSet<ObjectName>) {
        for backlog in [false, true] {
            let dirty = &self.world.dirty;
            let marked = if backlog { &dirty.backlog } else { &dirty.services };
            let known = |key: &&ServiceKey| self.sources.knows(&Watched::Secrets, &key.namespace);
            let keys: Vec<ServiceKey> = marked.keys().filter(known).take(SERVICES + 1).cloned().collect();
            let mut planned = 0;
            for key in keys {
                let waiting = if backlog { self.pending.len() } else { 0 };
                if planned == SERVICES || items.len() + waiting >= ITEMS {
                    self.more = true;
                    return;
                }
                let dirty = &mut self.world.dirty;
                let marked = if backlog { &mut dirty.backlog } else { &mut dirty.services };
                let Some(scope) = marked.remove(&key) else { continue };
                planned += 1;
                let began = Instant::now();
                let plan = self.plan(&key, &scope, now).await;
                let seen = self.seen.remove(&key).unwrap_or(now);
                self.metrics.reconciled("Service", "ok", began.elapsed());
                self.take(&key, plan, seen, items, leaving);
            }
        }
    }

    /// What is written in this pass: of what was just planned, then of what waits. Which of these is marked again is
    /// planned again first.
    fn next_items(&mut self, planned: Vec<Item>) -> Vec<Item> {
        let (mut items, mut later) = (Vec::new(), Vec::new());
        for item in planned {
            let knows = self.sources.knows(&Watched::GroupSecrets, &item.owner.group.namespace);
            if knows && items.len() < ITEMS { &mut items } else { &mut later }.push(item);
        }
        let fits = |item: &&Item| {
            !self.world.dirty.has(&item.service, &item.exposition)
                && self.sources.knows(&Watched::GroupSecrets, &item.owner.group.namespace)
        };
        let room = ITEMS - items.len();
        let mut names: Vec<_> =
            self.pending.values().filter(fits).take(room + 1).map(|item| item.exposition.clone()).collect();
        self.more |= names.len() > room || later.iter().any(|item| fits(&item));
        names.truncate(room);
        items.extend(names.iter().filter_map(|name| self.pending.remove(name)));
        self.pending.extend(later.into_iter().map(|item| (item.exposition.clone(), item)));
        items
    }

    /// Plans one service; asks the API first about Secrets that are named and not labelled.
    async fn plan(&mut self, key: &ServiceKey, scope: &Scope, now: Instant) -> Plan {
        let mut scope = scope.clone();
        loop {
            let plan = plan::service(&mut self.world, &mut self.memory, &self.settings, key, &scope, now);
            self.world.note_secrets(key, &plan.secrets, scope == Scope::All);
            let unknown: Vec<_> =
                plan.secrets.iter().filter(|name| self.world.secrets.wants_probe(name)).cloned().collect();
            if !unknown.is_empty() {
                self.probe(unknown).await;
                continue;
            }
            if scope != Scope::All && self.says_otherwise(&plan) {
                // What is said of the service's own objects comes from all its expositions together.
                scope = Scope::All;
                continue;
            }
            return plan;
        }
    }

    /// Whether a plan of some expositions says something else of an object that others use too.
    fn says_otherwise(&self, plan: &Plan) -> bool {
        plan.verdicts.iter().filter(|(key, _)| key.kind != Kind::Exposition).any(|(key, verdict)| {
            let before = self.verdicts.get(key).map(|before| before.verdict.findings.as_slice()).unwrap_or_default();
            before != verdict.findings
        })
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
    fn take(
        &mut self,
        key: &ServiceKey,
        plan: Plan,
        seen: Instant,
        items: &mut Vec<Item>,
        leaving: &mut BTreeSet<ObjectName>,
    ) {
        if let Some((wake, names)) = plan.wake {
            self.later.entry(wake).or_default().extend(names.into_iter().map(Again::Exposition));
        }
        for digest in plan.services.keys() {
            self.world.note_document(digest, key);
        }
        for (object, verdict) in plan.verdicts {
            if let Some(found) = self.world.get(object.kind, &object.name) {
                let judged = Judged::of(found, verdict);
                self.world.dirty.status.insert(object.clone());
                self.verdicts.insert(object, judged);
            }
        }
        for key in plan.unsaid {
            self.verdicts.remove(&key);
        }
        for name in plan.foreign {
            self.verdicts.remove(&ObjectKey { kind: Kind::Exposition, name });
        }
        for (name, planned) in plan.expositions {
            let uses = plan::uses(&self.world, &name, plan.sets.get(&name).map_or(&[], Vec::as_slice));
            self.link(&name, uses);
            match planned {
                Planned::Untouched => {}
                Planned::Nothing => drop(leaving.insert(name)),
                Planned::Document(document) => match self.owner(&document.group) {
                    Some(owner) => {
                        let body = document.spec.service.as_ref().and_then(|digest| plan.services.get(digest)).cloned();
                        let (service, document) = (key.clone(), *document);
                        items.push(Item { exposition: name, service, owner, document, body, seen });
                    }
                    // The group went while we planned: it marks its expositions.
                    None => drop(leaving.insert(name)),
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
