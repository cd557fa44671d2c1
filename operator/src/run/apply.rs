//! Writing what was planned. Credentials come before the service documents, those before the expositions that name them,
//! and deletions last: a new base URL never meets an old token. A document that has no room is not withheld: what it
//! replaces may have been revoked, so that its exposition stops.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use tamis_config::carrier::{encode_exposition, encode_service};
use tamis_config::{
    CredentialHandle, Digest, ExpositionId, ExpositionPayload, FORMAT_VERSION, ServiceDocument, StopDocument, names,
};
use tamis_crds::ObjectName;

use super::pass::Item;
use super::shards::{self, Lacking, Rooms, SHARD_BYTES};
use super::write::{self, Failure, Owner};
use super::{Again, Operator};
use crate::leader::{Deposed, Permit};
use crate::object::{Kind, ObjectKey};
use crate::plan::{self, Document};
use crate::quota::{Exceeded, QUOTA_EXCEEDED, Wish};
use crate::verdict::{ConditionType, Finding, Wanted};
use crate::world::{ConfigObject, Held, World, shard_name};

/// Requests under way at once.
pub(super) const WRITERS: usize = 24;
/// How long a pass begins to write exposition documents: what comes meanwhile is planned after it.
const SLICE: Duration = Duration::from_millis(40);
/// Parts of service documents that are written in one pass, but at least those of one document.
const PARTS: usize = 32;
/// Before another look at what somebody else wrote at the same time.
const STALE: Duration = Duration::from_millis(50);
/// Before another try at what the API refused.
const FAILED: Duration = Duration::from_secs(2);
/// Before another look whether there is room now.
const FULL: Duration = Duration::from_secs(15);

/// Why a document cannot be written now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hindrance {
    /// Somebody wrote at the same time, or a value is another by now: the watch tells.
    Stale,
    /// Somebody else's object is in the way.
    Foreign(String),
    /// The group's shards are full.
    NoRoom,
    /// The namespace has used up a quota.
    Quota(Exceeded),
    /// This pass has written enough.
    Later,
    /// The API refused it; why is in the log.
    Refused(String),
}

impl Hindrance {
    fn of(failure: &Failure, object: String) -> Self {
        match failure {
            Failure::Stale | Failure::Deposed(_) => Self::Stale,
            Failure::Foreign => Self::Foreign(object),
            Failure::Api(_) => Self::Refused(object),
        }
    }

    /// What is said of the exposition; nothing where it is over in a moment.
    pub(super) fn finding(&self) -> Option<Finding> {
        let (reason, message) = match self {
            Self::Stale | Self::Later => return None,
            Self::Quota(exceeded) => (QUOTA_EXCEEDED.as_str(), exceeded.to_string()),
            Self::Foreign(object) => ("Conflict", format!("{object} is there and is not the operator's: remove it")),
            Self::NoRoom => {
                ("TooLarge", "the credentials of its group have no room left: use another group".to_owned())
            }
            Self::Refused(object) => ("Pending", format!("the API refuses {object}: the operator's log says why")),
        };
        Some(Finding { condition: ConditionType::Accepted, reason, message, is_error: true })
    }

    /// The category of the error, for the metrics; none where it is over in a moment.
    fn category(&self) -> Option<&'static str> {
        match self {
            Self::Stale | Self::Later => None,
            Self::Quota(_) => Some("quota"),
            Self::Foreign(_) => Some("conflict"),
            Self::NoRoom => Some("no_room"),
            Self::Refused(_) => Some("refused"),
        }
    }

    fn retry(&self) -> Duration {
        match self {
            Self::Stale | Self::Later => STALE,
            Self::NoRoom | Self::Quota(_) => FULL,
            Self::Foreign(_) | Self::Refused(_) => FAILED,
        }
    }

    /// Whether an exposition stops that is hindered so: what it has may have been revoked, and nobody knows for how long.
    fn stops(&self) -> bool {
        match self {
            Self::NoRoom | Self::Quota(_) => true,
            Self::Stale | Self::Later | Self::Foreign(_) | Self::Refused(_) => false,
        }
    }
}

/// What is known of credentials while shards are filled.
struct Credentials<'w> {
    world: &'w World,
    /// The group's namespace.
    namespace: &'w str,
}

impl shards::Values for Credentials<'_> {
    fn value(&self, handle: &CredentialHandle) -> Option<Vec<u8>> {
        self.world.secrets.value(handle)
    }

    fn user(&self, handle: &CredentialHandle) -> Option<&str> {
        self.world.configs.credential_user(self.namespace, handle)
    }
}

impl Operator {
    /// Writes what differs: credentials, then services, then expositions.
    pub(super) async fn write(&mut self, permit: &Permit, items: Vec<Item>) -> Result<(), Deposed> {
        let mut hindered: BTreeMap<ObjectName, Hindrance> = BTreeMap::new();
        let mut by_group: BTreeMap<ObjectName, Vec<&Item>> = BTreeMap::new();
        for item in &items {
            by_group.entry(item.owner.group.clone()).or_default().push(item);
        }
        let mut parts = 0;
        for group in by_group.values() {
            let Some(first) = group.first() else { continue };
            let without = self.credentials(permit, &first.owner, group).await?;
            hindered.extend(without);
            let without = self.services(permit, &first.owner, group, &mut parts).await?;
            for (exposition, why) in without {
                hindered.entry(exposition).or_insert(why);
            }
        }
        let mut ready = Vec::new();
        for item in items {
            match hindered.get(&item.exposition) {
                None => ready.push(item),
                Some(Hindrance::Later) => self.pending.insert(item.exposition.clone(), item),
                Some(why) if why.stops() => ready.extend(self.stopped(item, why)),
                Some(why) => self.not_written(item.exposition, why),
            }
        }
        self.expositions(permit, ready).await
    }

    /// The document that stops an exposition, since the one that was planned has no room.
    fn stopped(&mut self, item: Item, why: &Hindrance) -> Option<Item> {
        let Some(finding) = why.finding() else { return Some(item) };
        if let Some(category) = why.category() {
            self.metrics.failed(Kind::Exposition.as_str(), category);
        }
        let id = id(&item.exposition);
        let payload = ExpositionPayload::Stop(StopDocument {
            format_version: FORMAT_VERSION,
            id: id.clone(),
            reason: finding.reason.to_owned(),
            message: finding.message.clone(),
        });
        let Ok(spec) = encode_exposition(&item.owner.group.name, &payload) else {
            self.not_written(item.exposition, why);
            return None;
        };
        let key = ObjectKey { kind: Kind::Exposition, name: item.exposition.clone() };
        if let Some(judged) = self.verdicts.get_mut(&key) {
            let verdict = &mut judged.verdict;
            verdict.documents = vec![Wanted { group: item.owner.group.clone(), id, digest: spec.digest.clone() }];
            if let Some(exposed) = &mut verdict.exposed {
                exposed.stopped = true;
                exposed.serving_previous = None;
                exposed.tools = 0;
                exposed.filters.clear();
            }
            if !verdict.findings.contains(&finding) {
                verdict.findings.push(finding);
            }
        }
        self.again(why.retry(), Again::Exposition(item.exposition.clone()));
        let document = Document { spec, ..item.document };
        Some(Item { document, body: None, ..item })
    }

    /// Puts every value that the documents name into the group's shards. Gives the expositions whose values are not there.
    async fn credentials(
        &mut self,
        permit: &Permit,
        owner: &Owner,
        items: &[&Item],
    ) -> Result<BTreeMap<ObjectName, Hindrance>, Deposed> {
        let handles = |item: &&Item| {
            let namespace = item.exposition.namespace.clone();
            item.document.spec.credentials.clone().into_iter().map(move |handle| (handle, namespace.clone()))
        };
        let wanted: BTreeMap<CredentialHandle, String> = items.iter().flat_map(handles).collect();
        if wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let found: Vec<Option<Arc<Secret>>> = (0..names::CREDENTIAL_SHARDS)
            .map(|number| self.world.shards.get(&shard_name(&owner.group, number)).cloned())
            .collect();
        let there = |number: usize| found.get(number).and_then(|found| found.as_deref());
        // What belongs to a group of the same name that is gone goes with it.
        let own = |number: usize| there(number).filter(|secret| write::is_own(secret, owner));
        let rooms = Rooms { shard: SHARD_BYTES, share: self.quotas.credential_bytes };
        let known = Credentials { world: &self.world, namespace: &owner.group.namespace };
        let (writes, lacking) = shards::adding(&wanted, own, &known, rooms);
        let mut missing: HashMap<CredentialHandle, Hindrance> = HashMap::new();
        for lacking in lacking {
            match lacking {
                Lacking::Value(handle) => missing.insert(handle, Hindrance::Stale),
                Lacking::Room(handle) => {
                    tracing::error!(group = %owner.group, "the credentials of the group have no room left");
                    missing.insert(handle, Hindrance::NoRoom)
                }
                Lacking::Share(handle) => {
                    missing.insert(handle, Hindrance::Quota(Exceeded::CredentialBytes(rooms.share)))
                }
            };
        }
        for write in writes {
            let number = write.number;
            match write::shard(&self.client, permit, owner, number, write.data, there(number)).await {
                Ok(secret) => self.world.shard_applied(&shard_name(&owner.group, number), secret),
                Err(Failure::Deposed(deposed)) => return Err(deposed),
                Err(failure) => {
                    tracing::warn!(group = %owner.group, shard = number, "credentials not written: {failure}");
                    let name = format!("Secret {}", shard_name(&owner.group, number));
                    let why = Hindrance::of(&failure, name);
                    missing.extend(write.added.into_iter().map(|handle| (handle, why.clone())));
                }
            }
        }
        let lacks = |item: &&Item| {
            let why = item.document.spec.credentials.iter().find_map(|handle| missing.get(handle))?;
            Some((item.exposition.clone(), why.clone()))
        };
        Ok(items.iter().filter_map(lacks).collect())
    }

    /// Writes the parts of services that are not there. Gives the expositions whose service is not there.
    async fn services(
        &mut self,
        permit: &Permit,
        owner: &Owner,
        items: &[&Item],
        written: &mut usize,
    ) -> Result<BTreeMap<ObjectName, Hindrance>, Deposed> {
        let named = |item: &&Item| Some((item.document.spec.service.clone()?, item.body.clone()));
        let wanted: BTreeMap<Digest, Option<Arc<ServiceDocument>>> = items.iter().filter_map(named).collect();
        let namespace = owner.group.namespace.clone();
        let mut missing: HashMap<Digest, Hindrance> = HashMap::new();
        for (digest, body) in wanted {
            let there = self.world.configs.of_service(&namespace, &digest);
            let parts = there.first().and_then(|part| part.spec.as_ref()).map(|spec| spec.parts);
            let ours = there.iter().all(|part| part.ours && part.owner.as_ref() == Some(&owner.uid));
            if ours && parts.is_some_and(|parts| usize::try_from(parts) == Ok(there.len())) {
                continue;
            }
            if *written >= PARTS {
                missing.insert(digest, Hindrance::Later);
                continue;
            }
            let Some(document) = body.or_else(|| self.memory.documents.get(&digest).cloned()) else {
                missing.insert(digest, Hindrance::Stale);
                continue;
            };
            let specs = match encode_service(&owner.group.name, &document) {
                Ok(specs) => specs,
                Err(message) => {
                    tracing::error!(service = document.name, "service document not written: {message}");
                    missing.insert(digest, Hindrance::Refused("the service's document".to_owned()));
                    continue;
                }
            };
            let mut writes = Vec::new();
            for spec in specs {
                let name = ObjectName { namespace: namespace.clone(), name: names::service_object(&digest, spec.part) };
                let seen = self.world.configs.get(&name).cloned();
                let same = |seen: &ConfigObject| {
                    seen.ours && seen.owner.as_ref() == Some(&owner.uid) && seen.spec.as_ref() == Some(&spec)
                };
                if !seen.as_deref().is_some_and(same) {
                    writes.push((name, spec, seen));
                }
            }
            *written += writes.len();
            let client = &self.client;
            let mut results = stream::iter(writes)
                .map(|(name, spec, seen)| async move {
                    let written = write::config(client, permit, owner, &name, spec, seen.as_deref()).await;
                    (name, written)
                })
                .buffer_unordered(WRITERS)
                .boxed();
            while let Some((name, written)) = results.next().await {
                match written {
                    Ok(object) => drop(self.world.configs.put(object)),
                    Err(Failure::Deposed(deposed)) => return Err(deposed),
                    Err(failure) => {
                        tracing::warn!(%name, "service document not written: {failure}");
                        let why = Hindrance::of(&failure, format!("GatewayConfig {name}"));
                        missing.insert(digest.clone(), why);
                    }
                }
            }
        }
        let lacks = |item: &&Item| {
            let why = missing.get(item.document.spec.service.as_ref()?)?;
            Some((item.exposition.clone(), why.clone()))
        };
        Ok(items.iter().filter_map(lacks).collect())
    }

    /// Writes the documents of expositions, many at once, for as long as a pass may take; what is left waits again.
    async fn expositions(&mut self, permit: &Permit, items: Vec<Item>) -> Result<(), Deposed> {
        let mut writes = VecDeque::new();
        let mut others = Vec::new();
        let mut held: HashMap<String, Held> = HashMap::new();
        for item in items {
            let Some(item) = self.granted(item, &mut held) else { continue };
            let spec = &item.document.spec;
            let id = spec.exposition.clone().unwrap_or_else(|| id(&item.exposition));
            let group = item.document.group.clone();
            let name = ObjectName { namespace: group.namespace.clone(), name: names::exposition_object(&id) };
            let there = self.world.configs.get(&name).cloned();
            let same = there.as_ref().is_some_and(|there| {
                there.ours && there.owner.as_ref() == Some(&item.owner.uid) && there.spec.as_ref() == Some(spec)
            });
            let wanted = Wanted { group, id, digest: spec.digest.clone() };
            if same {
                self.written(&item.exposition, wanted, None);
                others.extend(self.others(&item.exposition, Some(&name)));
            } else {
                writes.push_back((item, name, there, wanted));
            }
        }
        let (client, permit_of) = (self.client.clone(), permit.clone());
        let queue = Arc::new(Mutex::new(writes));
        let (mut until, rest) = (None, Arc::clone(&queue));
        let feed = std::iter::from_fn(move || {
            let now = Instant::now();
            let begun = now < *until.get_or_insert(now + SLICE);
            begun.then(|| queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()).flatten()
        });
        let mut results = stream::iter(feed)
            .map(|(item, name, there, wanted)| {
                let (client, permit) = (client.clone(), permit_of.clone());
                async move {
                    let Item { exposition, owner, document, seen, .. } = item;
                    let written = write::config(&client, &permit, &owner, &name, document.spec, there.as_deref()).await;
                    (exposition, name, wanted, seen, written)
                }
            })
            .buffer_unordered(WRITERS)
            .boxed();
        let mut deposed = None;
        while let Some((exposition, name, wanted, seen, written)) = results.next().await {
            match written {
                Ok(object) => {
                    drop(self.world.configs.put(object));
                    self.written(&exposition, wanted, Some(seen));
                    others.extend(self.others(&exposition, Some(&name)));
                }
                Err(Failure::Deposed(error)) => deposed = Some(error),
                Err(failure) => {
                    if !matches!(failure, Failure::Stale) {
                        tracing::warn!(%exposition, "document not written: {failure}");
                    }
                    let why = Hindrance::of(&failure, format!("GatewayConfig {name}"));
                    self.not_written(exposition, &why);
                }
            }
        }
        drop(results);
        for (item, ..) in std::mem::take(&mut *rest.lock().unwrap_or_else(PoisonError::into_inner)) {
            self.pending.insert(item.exposition.clone(), item);
        }
        match deposed {
            Some(deposed) => Err(deposed),
            None => self.delete(permit, others).await,
        }
    }

    /// What the quotas of its namespace leave of a document: itself, the one that stops its exposition, or none.
    fn granted(&mut self, item: Item, held: &mut HashMap<String, Held>) -> Option<Item> {
        let namespace = &item.exposition.namespace;
        let held = held.entry(namespace.clone()).or_insert_with(|| self.world.configs.held(namespace));
        let name = names::exposition_object(&id(&item.exposition));
        let name = ObjectName { namespace: item.document.group.namespace.clone(), name };
        let before = self.world.configs.get(&name).map(|there| there.bytes());
        let wish = |item: &Item| Wish { before, bytes: item.document.spec.data.len() };
        let exceeded = match self.quotas.grant(held, wish(&item)) {
            Ok(()) => return Some(item),
            Err(exceeded) => exceeded,
        };
        let why = Hindrance::Quota(exceeded);
        match exceeded {
            // Not even a document that stops it.
            Exceeded::Expositions(_) => {
                self.not_written(item.exposition, &why);
                None
            }
            Exceeded::DocumentBytes(_) | Exceeded::CredentialBytes(_) | Exceeded::SourceBytes(_) => {
                held.documents += usize::from(before.is_none());
                self.stopped(item, &why)
            }
        }
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

    pub(super) fn detach(&mut self, before: &Wanted) {
        self.table.forget(&before.group, &before.id);
        if let Some(count) = self.attached.get_mut(&before.group) {
            *count = count.saturating_sub(1);
        }
        self.statuses.slowly(ObjectKey { kind: Kind::GatewayGroup, name: before.group.clone() });
    }

    fn not_written(&mut self, exposition: ObjectName, hindrance: &Hindrance) {
        if let Some(category) = hindrance.category() {
            self.metrics.failed(Kind::Exposition.as_str(), category);
        }
        let key = ObjectKey { kind: Kind::Exposition, name: exposition.clone() };
        if let (Some(judged), Some(finding)) = (self.verdicts.get_mut(&key), hindrance.finding()) {
            judged.verdict.unwritten = true;
            if !judged.verdict.findings.contains(&finding) {
                judged.verdict.findings.push(finding);
            }
        }
        self.world.dirty.status.insert(key);
        self.again(hindrance.retry(), Again::Exposition(exposition));
    }

    /// Deletes the documents of expositions that are not to be served any more.
    pub(super) async fn leave(&mut self, permit: &Permit, names: BTreeSet<ObjectName>) -> Result<(), Deposed> {
        let mut objects = Vec::new();
        for name in names {
            if let Some(before) = self.wanted.remove(&name) {
                self.detach(&before);
            }
            if self.world.is_gone(&name) {
                self.forget(&name);
            }
            objects.extend(self.others(&name, None));
        }
        self.delete(permit, objects).await
    }

    /// Forgets an exposition that is gone.
    fn forget(&mut self, name: &ObjectName) {
        self.link(name, BTreeSet::new());
        self.revise(&[name.clone()].into(), plan::Findings::new());
        self.uses.remove(name);
        self.memory.forget(name);
        self.verdicts.remove(&ObjectKey { kind: Kind::Exposition, name: name.clone() });
    }

    /// The objects of an exposition, but for the one that it should have.
    fn others(&self, exposition: &ObjectName, kept: Option<&ObjectName>) -> Vec<(ObjectName, Arc<ConfigObject>)> {
        let there = self.world.configs.of_exposition(&id(exposition)).into_iter();
        let others = there.filter(|object| Some(&object.name) != kept && object.ours);
        others.map(|object| (exposition.clone(), object)).collect()
    }

    /// Deletes objects of expositions, many at once.
    async fn delete(&mut self, permit: &Permit, objects: Vec<(ObjectName, Arc<ConfigObject>)>) -> Result<(), Deposed> {
        let (client, permit) = (self.client.clone(), permit.clone());
        let mut results = stream::iter(objects)
            .map(|(exposition, object)| {
                let (client, permit) = (client.clone(), permit.clone());
                async move {
                    let removed = write::remove(&client, &permit, &object).await;
                    (exposition, object, removed)
                }
            })
            .buffer_unordered(WRITERS)
            .boxed();
        let mut deposed = Ok(());
        while let Some((exposition, object, removed)) = results.next().await {
            match removed {
                Ok(()) => drop(self.world.configs.remove(&object.name, Some(&object.uid))),
                Err(Failure::Deposed(error)) => deposed = Err(error),
                Err(failure) => {
                    tracing::warn!(name = %object.name, "stale document not deleted: {failure}");
                    self.again(FAILED, Again::Exposition(exposition));
                }
            }
        }
        deposed
    }
}

fn id(name: &ObjectName) -> ExpositionId {
    ExpositionId { namespace: name.namespace.clone(), name: name.name.clone() }
}
