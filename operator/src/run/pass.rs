//! One pass: plan what is marked, write what differs. Credentials come before the service documents, those before the
//! expositions that name them, and deletions last: a new base URL never meets an old token.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PartialObjectMeta};
use tamis_config::carrier::encode_service;
use tamis_config::{Digest, ExpositionId, ServiceDocument, names};
use tamis_crds::ObjectName;

use super::shards::{self, Lacking};
use super::write::{self, Failure, Owner};
use super::{Again, Operator};
use crate::leader::Permit;
use crate::object::{Kind, ObjectKey};
use crate::plan::{self, Document, Plan, Planned};
use crate::verdict::{ConditionType, Finding, Wanted};
use crate::watch::Watched;
use crate::world::{Scope, ServiceKey, shard_name};

/// Requests under way at once.
const WRITERS: usize = 24;
/// Services planned in one pass: what comes meanwhile waits no longer than these take.
const SERVICES: usize = 64;
/// Before another look at what somebody else wrote at the same time.
const STALE: Duration = Duration::from_millis(50);
/// Before another try at what the API refused.
const FAILED: Duration = Duration::from_secs(2);

/// A document, and the exposition that it is of.
struct Item {
    exposition: ObjectName,
    owner: Owner,
    document: Document,
}

impl Operator {
    pub(super) async fn pass(&mut self, permit: &Permit, now: Instant) {
        let mut items = Vec::new();
        let mut services = BTreeMap::new();
        let mut leaving = BTreeSet::new();
        let mut seen: Option<Instant> = None;
        for (key, scope) in self.take_services() {
            let began = Instant::now();
            let plan = self.plan(&key, &scope, now).await;
            let first = self.seen.remove(&key).unwrap_or(now);
            seen = Some(seen.map_or(first, |seen| seen.min(first)));
            self.metrics.reconciled("Service", "ok", began.elapsed());
            self.take(&key, plan, &mut items, &mut services, &mut leaving);
        }
        for name in std::mem::take(&mut self.world.dirty.removed) {
            if self.world.get(Kind::Exposition, &name).is_none() {
                leaving.insert(name);
            }
        }
        let began = Instant::now();
        let outcome = self.write(permit, items, &services, seen.unwrap_or(now)).await;
        let outcome = match outcome {
            Ok(()) => self.leave(permit, leaving).await,
            deposed => deposed,
        };
        if outcome.is_err() {
            // What was not written is compared again by whoever leads next, perhaps this operator.
            self.leads = None;
        }
        self.metrics.reconciled("Exposition", if outcome.is_ok() { "ok" } else { "deposed" }, began.elapsed());
    }

    /// Some of the services that are marked, whose Secrets are known.
    fn take_services(&mut self) -> Vec<(ServiceKey, Scope)> {
        let marked = &self.world.dirty.services;
        let known = |key: &&ServiceKey| self.sources.knows(&Watched::Secrets, &key.namespace);
        let keys: Vec<ServiceKey> = marked.keys().filter(known).take(SERVICES).cloned().collect();
        keys.into_iter().filter_map(|key| self.world.dirty.services.remove_entry(&key)).collect()
    }

    /// Plans one service; asks the API first about Secrets that are named and not labelled.
    async fn plan(&mut self, key: &ServiceKey, scope: &Scope, now: Instant) -> Plan {
        let mut scope = scope.clone();
        loop {
            let plan = plan::service(&mut self.world, &mut self.memory, &self.settings, key, &scope, now);
            for secret in &plan.secrets {
                self.world.secret_users.entry(secret.clone()).or_default().insert(key.clone());
            }
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
            let before = self.verdicts.get(key).map(|(_, before)| before.findings.as_slice()).unwrap_or_default();
            before != verdict.findings
        })
    }

    async fn probe(&mut self, unknown: Vec<ObjectName>) {
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
        for (name, exists) in answers {
            self.world.secrets.probed(&name, exists);
        }
    }

    /// Takes a plan over: verdicts at once, documents to be written.
    fn take(
        &mut self,
        key: &ServiceKey,
        plan: Plan,
        items: &mut Vec<Item>,
        services: &mut BTreeMap<Digest, Arc<ServiceDocument>>,
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
                let generation = found.generation;
                self.world.dirty.status.insert(object.clone());
                self.verdicts.insert(object, (generation, verdict));
            }
        }
        for (name, planned) in plan.expositions {
            let uses = plan::uses(&self.world, &name, plan.sets.get(&name).map_or(&[], Vec::as_slice));
            self.link(&name, uses);
            match planned {
                Planned::Untouched => {}
                Planned::Nothing => drop(leaving.insert(name)),
                Planned::Document(document) => match self.owner(&document.group) {
                    Some(owner) => items.push(Item { exposition: name, owner, document: *document }),
                    // The group went while we planned: it marks its expositions.
                    None => drop(leaving.insert(name)),
                },
            }
        }
        services.extend(plan.services);
    }

    /// Remembers what an exposition uses.
    fn link(&mut self, name: &ObjectName, uses: BTreeSet<ObjectKey>) {
        let before = self.uses.insert(name.clone(), uses.clone()).unwrap_or_default();
        for key in before.difference(&uses) {
            if let Some(users) = self.users.get_mut(key) {
                users.remove(name);
            }
            self.world.dirty.status.insert(key.clone());
        }
        for key in uses.difference(&before) {
            self.users.entry(key.clone()).or_default().insert(name.clone());
            self.world.dirty.status.insert(key.clone());
        }
    }

    pub(super) fn owner(&self, group: &ObjectName) -> Option<Owner> {
        let object = self.world.get(Kind::GatewayGroup, group)?;
        Some(Owner { group: group.clone(), uid: object.uid.clone() })
    }

    /// Writes what differs: credentials, then services, then expositions.
    async fn write(
        &mut self,
        permit: &Permit,
        items: Vec<Item>,
        services: &BTreeMap<Digest, Arc<ServiceDocument>>,
        seen: Instant,
    ) -> Result<(), crate::leader::Deposed> {
        let mut failed: BTreeSet<ObjectName> = BTreeSet::new();
        let mut by_group: BTreeMap<ObjectName, Vec<usize>> = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            by_group.entry(item.owner.group.clone()).or_default().push(index);
        }
        for indices in by_group.values() {
            let group: Vec<&Item> = indices.iter().map(|index| &items[*index]).collect();
            let Some(first) = group.first() else { continue };
            if !self.sources.knows(&Watched::Shards, &first.owner.group.namespace) {
                // Its shards are known in a moment.
                for item in &group {
                    failed.insert(item.exposition.clone());
                }
                continue;
            }
            let without = self.credentials(permit, &first.owner, &group).await?;
            failed.extend(without);
            let without = self.services(permit, &first.owner, &group, services).await?;
            failed.extend(without);
        }
        let (ready, waiting): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| !failed.contains(&item.exposition));
        for item in waiting {
            self.again(STALE, Again::Exposition(item.exposition));
        }
        self.expositions(permit, ready, seen).await
    }

    /// Puts every value that the documents name into the group's shards. Gives the expositions whose values are not there.
    async fn credentials(
        &mut self,
        permit: &Permit,
        owner: &Owner,
        items: &[&Item],
    ) -> Result<BTreeSet<ObjectName>, crate::leader::Deposed> {
        let wanted: BTreeSet<_> = items.iter().flat_map(|item| item.document.spec.credentials.clone()).collect();
        if wanted.is_empty() {
            return Ok(BTreeSet::new());
        }
        let found: Vec<Option<Arc<Secret>>> = (0..names::CREDENTIAL_SHARDS)
            .map(|number| self.world.shards.get(&shard_name(&owner.group, number)).cloned())
            .collect();
        let shard = |number: usize| found.get(number).and_then(|found| found.as_deref());
        let (writes, lacking) = shards::adding(&wanted, shard, |handle| self.world.secrets.value(handle));
        let mut missing: BTreeSet<_> = lacking
            .into_iter()
            .map(|lacking| match lacking {
                Lacking::Value(handle) => handle,
                Lacking::Room(handle) => {
                    tracing::error!(group = %owner.group, "the credentials of the group have no room left");
                    handle
                }
            })
            .collect();
        for (number, data) in writes {
            let handles: Vec<String> = data.keys().cloned().collect();
            match write::shard(&self.client, permit, owner, number, data, shard(number)).await {
                Ok(secret) => self.world.shard_applied(shard_name(&owner.group, number), secret),
                Err(Failure::Deposed(deposed)) => return Err(deposed),
                Err(failure) => {
                    tracing::warn!(group = %owner.group, shard = number, "credentials not written: {failure}");
                    missing.extend(handles.into_iter().map(tamis_config::CredentialHandle));
                }
            }
        }
        let lacks = |item: &&&Item| item.document.spec.credentials.iter().any(|handle| missing.contains(handle));
        Ok(items.iter().filter(lacks).map(|item| item.exposition.clone()).collect())
    }

    /// Writes the parts of services that are not there. Gives the expositions whose service is not there.
    async fn services(
        &mut self,
        permit: &Permit,
        owner: &Owner,
        items: &[&Item],
        services: &BTreeMap<Digest, Arc<ServiceDocument>>,
    ) -> Result<BTreeSet<ObjectName>, crate::leader::Deposed> {
        let wanted: BTreeSet<&Digest> = items.iter().filter_map(|item| item.document.spec.service.as_ref()).collect();
        let namespace = owner.group.namespace.clone();
        let mut missing = BTreeSet::new();
        for digest in wanted {
            let there = self.world.configs.of_service(&namespace, digest);
            let parts = there.first().and_then(|part| part.spec.as_ref()).map(|spec| spec.parts);
            let ours = there.iter().all(|part| part.ours && part.owner.as_ref() == Some(&owner.uid));
            if ours && parts.is_some_and(|parts| usize::try_from(parts) == Ok(there.len())) {
                continue;
            }
            let document = services.get(digest).or_else(|| self.memory.documents.get(digest));
            let Some(document) = document else {
                missing.insert(digest.clone());
                continue;
            };
            let specs = match encode_service(&owner.group.name, document) {
                Ok(specs) => specs,
                Err(message) => {
                    tracing::error!(service = document.name, "service document not written: {message}");
                    missing.insert(digest.clone());
                    continue;
                }
            };
            for spec in specs {
                let name = ObjectName { namespace: namespace.clone(), name: names::service_object(digest, spec.part) };
                let seen = self.world.configs.get(&name).cloned();
                let same = |seen: &crate::world::ConfigObject| {
                    seen.ours && seen.owner.as_ref() == Some(&owner.uid) && seen.spec.as_ref() == Some(&spec)
                };
                if seen.as_deref().is_some_and(same) {
                    continue;
                }
                match write::config(&self.client, permit, owner, &name, spec, seen.as_deref()).await {
                    Ok(object) => drop(self.world.configs.put(object)),
                    Err(Failure::Deposed(deposed)) => return Err(deposed),
                    Err(failure) => {
                        tracing::warn!(%name, "service document not written: {failure}");
                        missing.insert(digest.clone());
                    }
                }
            }
        }
        let lacks = |item: &&&Item| item.document.spec.service.as_ref().is_some_and(|digest| missing.contains(digest));
        Ok(items.iter().filter(lacks).map(|item| item.exposition.clone()).collect())
    }

    /// Writes the documents of expositions, many at once.
    async fn expositions(
        &mut self,
        permit: &Permit,
        items: Vec<Item>,
        seen: Instant,
    ) -> Result<(), crate::leader::Deposed> {
        let mut writes = Vec::new();
        for item in items {
            let Document { group, spec } = &item.document;
            let id = spec.exposition.clone().unwrap_or_else(|| id(&item.exposition));
            let name = ObjectName { namespace: group.namespace.clone(), name: names::exposition_object(&id) };
            let there = self.world.configs.get(&name).cloned();
            let same = there.as_ref().is_some_and(|there| {
                there.ours && there.owner.as_ref() == Some(&item.owner.uid) && there.spec.as_ref() == Some(spec)
            });
            let wanted = Wanted { group: group.clone(), id, digest: spec.digest.clone() };
            if same {
                self.written(&item.exposition, wanted, None);
                self.remove_others(permit, &item.exposition, Some(&name)).await?;
            } else {
                writes.push((item, name, there, wanted));
            }
        }
        let (client, permit_of) = (self.client.clone(), permit.clone());
        let mut results = stream::iter(writes)
            .map(|(item, name, there, wanted)| {
                let (client, permit) = (client.clone(), permit_of.clone());
                async move {
                    let Item { exposition, owner, document } = item;
                    let written = write::config(&client, &permit, &owner, &name, document.spec, there.as_deref()).await;
                    (exposition, name, wanted, written)
                }
            })
            .buffer_unordered(WRITERS)
            .boxed();
        let mut deposed = None;
        let mut placed = Vec::new();
        while let Some((exposition, name, wanted, written)) = results.next().await {
            match written {
                Ok(object) => {
                    drop(self.world.configs.put(object));
                    self.written(&exposition, wanted, Some(seen));
                    placed.push((exposition, name));
                }
                Err(Failure::Deposed(error)) => deposed = Some(error),
                Err(failure) => self.not_written(exposition, &name, &failure),
            }
        }
        drop(results);
        for (exposition, name) in placed {
            self.remove_others(permit, &exposition, Some(&name)).await?;
        }
        deposed.map_or(Ok(()), Err)
    }

    fn written(&mut self, exposition: &ObjectName, wanted: Wanted, seen: Option<Instant>) {
        let touched = self.table.want(&wanted, seen, Instant::now());
        self.touched(touched);
        let group = wanted.group.clone();
        let before = self.wanted.insert(exposition.clone(), wanted);
        if before.as_ref().map(|before| &before.group) != Some(&group) {
            *self.attached.entry(group.clone()).or_default() += 1;
            if let Some(before) = before {
                self.detach(&before);
            }
            self.statuses.slowly(ObjectKey { kind: Kind::GatewayGroup, name: group });
        }
        self.mark_status(exposition);
    }

    fn detach(&mut self, before: &Wanted) {
        self.table.forget(&before.group, &before.id);
        if let Some(count) = self.attached.get_mut(&before.group) {
            *count = count.saturating_sub(1);
        }
        self.statuses.slowly(ObjectKey { kind: Kind::GatewayGroup, name: before.group.clone() });
    }

    fn not_written(&mut self, exposition: ObjectName, name: &ObjectName, failure: &Failure) {
        let after = if matches!(failure, Failure::Stale) { STALE } else { FAILED };
        if !matches!(failure, Failure::Stale) {
            tracing::warn!(%exposition, "document not written: {failure}");
            let key = ObjectKey { kind: Kind::Exposition, name: exposition.clone() };
            if let Some((_, verdict)) = self.verdicts.get_mut(&key) {
                verdict.findings.push(Finding {
                    condition: ConditionType::Accepted,
                    reason: "Conflict",
                    message: format!("GatewayConfig {name} cannot be written: {failure}; remove it or rename this"),
                    is_error: true,
                });
            }
            self.world.dirty.status.insert(key);
        }
        self.again(after, Again::Exposition(exposition));
    }

    /// Deletes the documents of expositions that are not to be served any more.
    async fn leave(&mut self, permit: &Permit, names: BTreeSet<ObjectName>) -> Result<(), crate::leader::Deposed> {
        for name in names {
            if let Some(before) = self.wanted.remove(&name) {
                self.detach(&before);
            }
            if self.world.get(Kind::Exposition, &name).is_none() {
                self.link(&name, BTreeSet::new());
                self.uses.remove(&name);
                self.verdicts.remove(&ObjectKey { kind: Kind::Exposition, name: name.clone() });
            }
            self.remove_others(permit, &name, None).await?;
        }
        Ok(())
    }

    /// Deletes the objects of an exposition, but for the one that it should have.
    async fn remove_others(
        &mut self,
        permit: &Permit,
        exposition: &ObjectName,
        kept: Option<&ObjectName>,
    ) -> Result<(), crate::leader::Deposed> {
        for object in self.world.configs.of_exposition(&id(exposition)) {
            if Some(&object.name) == kept || !object.ours {
                continue;
            }
            match write::remove(&self.client, permit, &object).await {
                Ok(()) => drop(self.world.configs.remove(&object.name, Some(&object.uid))),
                Err(Failure::Deposed(deposed)) => return Err(deposed),
                Err(failure) => {
                    tracing::warn!(name = %object.name, "stale document not deleted: {failure}");
                    self.again(FAILED, Again::Exposition(exposition.clone()));
                }
            }
        }
        Ok(())
    }
}

fn id(name: &ObjectName) -> ExpositionId {
    ExpositionId { namespace: name.namespace.clone(), name: name.name.clone() }
}
