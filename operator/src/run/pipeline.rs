//! Documents on their way to the API server: what waits for a turn, what waits for a write, and which writes are in
//! flight. Pure.
//!
//! A document passes the stages in order: its credentials are there, its service is there, it is written, and then what
//! it replaces elsewhere is deleted. It names the writes that it waits for, and moves on when the last of them is
//! answered. So a new base URL never meets an old token. A document whose credentials are all readable for certain waits
//! for no shard: see [`super::readable`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::Secret;
use tamis_config::{CredentialHandle, Digest, ServiceDocument, names};
use tamis_crds::ObjectName;

use super::action::{Fence, Owner};
use super::pending::{Pending, Weighs};
use super::planning::Lane;
use super::readable::{Reported, ShardChange, ShardContent};
use crate::cluster_state::{ClusterState, ServiceKey};
use crate::fair_queue::FairQueue;
use crate::plan::Document;
use crate::verdict::RequiredDocument;
use crate::watch::{Change, Message, Watched};

/// Documents that are being written or wait for a write, and those of one namespace.
const ACTIVE: usize = 64;
const ACTIVE_OF_ONE: usize = 32;
/// Parts of service documents in flight, but at least those of one document.
const PARTS: usize = 32;
/// The cost of an exposition in addition to its filter sets, in bytes of those.
pub(super) const EXPOSITION_COST: usize = 4 << 10;

/// A document that is to be written.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) exposition: ObjectName,
    pub(super) owner: Owner,
    pub(super) document: Document,
    /// The service document that it names.
    pub(super) body: Option<Arc<ServiceDocument>>,
    /// When the change that led to it was seen.
    pub(super) seen: Instant,
    /// Whether it comes from an edit that may revoke something.
    pub(super) urgent: bool,
}

impl Item {
    /// The name of its GatewayConfig.
    pub(super) fn target(&self) -> ObjectName {
        let id = self.document.spec.exposition.clone().unwrap_or_else(|| super::id(&self.exposition));
        ObjectName { namespace: self.document.group.namespace.clone(), name: names::exposition_object(&id) }
    }
}

impl Weighs for Item {
    fn bytes(&self) -> usize {
        EXPOSITION_COST + self.document.spec.data.len()
    }

    fn is_urgent(&self) -> bool {
        self.urgent
    }
}

/// What a document needs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    Credentials,
    Service,
    Document,
    /// Its own write is in flight.
    Writing(RequiredDocument),
}

/// A document that has had its turn.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) item: Item,
    pub(super) stage: Stage,
    /// The writes that have to be answered before the stage begins.
    pub(super) waits: HashSet<Target>,
    pub(super) since: Instant,
}

impl Active {
    /// Returns whether it is at a stage and waits for no write.
    fn is_at(&self, stage: &Stage) -> bool {
        self.waits.is_empty() && self.stage == *stage
    }
}

/// An object that is written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Target {
    Shard(ObjectName),
    Config(ObjectName),
}

/// A write that has not been answered.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) purpose: Purpose,
    pub(super) fence: Fence,
    /// Whether the watch has listed all objects since: the list knows more than the answer.
    pub(super) is_listed: bool,
    /// The last message of the watch about the object since then. It is read after the answer.
    pub(super) reported: Option<Message>,
}

/// An exposition that is planned when the writes of its documents are answered.
#[derive(Debug)]
pub(super) struct Deferred {
    pub(super) exposition: ObjectName,
    pub(super) lane: Lane,
    pub(super) service: ServiceKey,
}

/// What a write is for.
#[derive(Debug)]
pub(super) enum Purpose {
    Shard {
        group: ObjectName,
        change: ShardChange,
    },
    Part {
        digest: Digest,
    },
    Document {
        exposition: ObjectName,
    },
    /// The deletion of a document of an exposition, or of a service document that nothing uses.
    Removal {
        exposition: Option<ObjectName>,
    },
}

impl Purpose {
    fn exposition(&self) -> Option<&ObjectName> {
        match self {
            Self::Document { exposition } => Some(exposition),
            Self::Removal { exposition } => exposition.as_ref(),
            Self::Shard { .. } | Self::Part { .. } => None,
        }
    }
}

/// Documents on their way to the API server.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    /// Documents that wait for their turn.
    pub(super) pending: Pending<Item>,
    /// Expositions whose documents are to be deleted.
    pub(super) leaving: FairQueue<ObjectName, ()>,
    /// In the order in which they had their turn.
    pub(super) active: Vec<Active>,
    in_flight: HashMap<Target, InFlight>,
    /// How many writes are in flight that concern an exposition's own documents.
    writing: HashMap<ObjectName, usize>,
    /// Expositions to be planned when those are answered: a plan compares with what is there.
    deferred: BTreeMap<ObjectName, (Lane, ServiceKey)>,
    /// The shards whose last write failed, and the versions that those writes would have replaced. Whether they did is not
    /// known until another version is seen.
    failed_shards: HashMap<ObjectName, String>,
}

impl Pipeline {
    /// Forgets all documents that are not in flight. A new leader compares everything.
    pub(super) fn begin(&mut self) {
        let Self { pending, leaving, active, in_flight: _, writing: _, deferred, failed_shards: _ } = self;
        (*pending, *leaving) = (Pending::default(), FairQueue::default());
        active.clear();
        deferred.clear();
    }

    /// Queues a document, in place of an earlier one of the exposition.
    pub(super) fn queue(&mut self, item: Item) {
        self.leaving.remove(&item.exposition);
        self.withdraw(&item.exposition);
        self.pending.insert(item.exposition.clone(), item);
    }

    /// Queues the deletion of an exposition's documents.
    pub(super) fn release(&mut self, exposition: ObjectName) {
        self.withdraw(&exposition);
        self.leaving.insert(exposition, ());
    }

    /// Drops the documents of an exposition that wait. A write in flight cannot be taken back.
    pub(super) fn withdraw(&mut self, exposition: &ObjectName) {
        self.pending.remove(exposition);
        self.active.retain(|active| active.item.exposition != *exposition || matches!(active.stage, Stage::Writing(_)));
    }

    /// Gives waiting documents their turn, as far as there are places. `knows`: whether the shards of a group's namespace
    /// are known.
    pub(super) fn admit(&mut self, knows: impl Fn(&str) -> bool, now: Instant) {
        let mut of: HashMap<String, usize> = HashMap::new();
        for active in &self.active {
            *of.entry(active.item.exposition.namespace.clone()).or_default() += 1;
        }
        let mut unknown = Vec::new();
        while self.active.len() < ACTIVE && unknown.len() < ACTIVE {
            let may = |namespace: &str| of.get(namespace).is_none_or(|count| *count < ACTIVE_OF_ONE);
            let Some((exposition, item)) = self.pending.next(may) else { break };
            if !knows(&item.owner.group.namespace) {
                unknown.push(item);
                continue;
            }
            *of.entry(exposition.namespace).or_default() += 1;
            self.active.push(Active { item, stage: Stage::Credentials, waits: HashSet::new(), since: now });
        }
        for item in unknown {
            self.pending.insert(item.exposition.clone(), item);
        }
    }

    /// The positions of documents that can begin a stage.
    pub(super) fn at(&self, stage: &Stage) -> Vec<usize> {
        (0..self.active.len()).filter(|at| self.active[*at].is_at(stage)).collect()
    }

    /// Removes active documents by their positions, and returns them.
    pub(super) fn take(&mut self, mut positions: Vec<usize>) -> Vec<Active> {
        positions.sort_unstable();
        positions.into_iter().rev().map(|at| self.active.remove(at)).collect()
    }

    /// Notes that a write begins.
    pub(super) fn begins(&mut self, target: Target, purpose: Purpose, fence: Fence) {
        if let Some(exposition) = purpose.exposition() {
            *self.writing.entry(exposition.clone()).or_default() += 1;
        }
        self.in_flight.insert(target, InFlight { purpose, fence, is_listed: false, reported: None });
    }

    /// Notes that a write was answered. Returns the write, and the exposition to plan now.
    pub(super) fn ends(&mut self, target: &Target) -> Option<(InFlight, Option<Deferred>)> {
        let ended = self.in_flight.remove(target)?;
        let mut planned = None;
        if let Some(exposition) = ended.purpose.exposition()
            && let Some(count) = self.writing.get_mut(exposition)
        {
            *count -= 1;
            if *count == 0 {
                self.writing.remove(exposition);
                let deferred = self.deferred.remove(exposition);
                planned = deferred.map(|(lane, service)| Deferred { exposition: exposition.clone(), lane, service });
            }
        }
        Some((ended, planned))
    }

    pub(super) fn is_in_flight(&self, target: &Target) -> bool {
        self.in_flight.contains_key(target)
    }

    /// Whether documents of an exposition are being written or deleted.
    pub(super) fn is_writing(&self, exposition: &ObjectName) -> bool {
        self.writing.contains_key(exposition)
    }

    /// Plans an exposition when the writes of its documents are answered.
    pub(super) fn defer(&mut self, exposition: ObjectName, lane: Lane, service: ServiceKey) {
        let lane = match self.deferred.get(&exposition) {
            Some((Lane::Urgent, _)) => Lane::Urgent,
            _ => lane,
        };
        self.deferred.insert(exposition, (lane, service));
    }

    /// Returns whether a shard of the group is being written. New values wait until the answer says what it holds.
    pub(super) fn writes_shards(&self, group: &ObjectName) -> bool {
        self.in_flight.values().any(|write| matches!(&write.purpose, Purpose::Shard { group: of, .. } if of == group))
    }

    /// Notes that the write of a shard failed. `change`: what it would have changed.
    pub(super) fn shard_failed(&mut self, name: &ObjectName, change: ShardChange) {
        if let Some(replaced) = change.into_replaced() {
            self.failed_shards.insert(name.clone(), replaced);
        }
    }

    /// Forgets the failed writes of shards that have another version by now.
    pub(super) fn forget_failed_shards(&mut self, shards: &HashMap<ObjectName, Arc<Secret>>) {
        self.failed_shards.retain(|name, version| {
            shards.get(name).is_some_and(|secret| secret.metadata.resource_version.as_ref() == Some(version))
        });
    }

    /// Combines what the watch and the answers to writes say about a shard. `seen`: the version seen last, if the group owns
    /// it.
    pub(super) fn shard<'s>(&'s self, name: &ObjectName, seen: Option<&'s Secret>) -> ShardContent<'s> {
        let write = self.in_flight.get(&Target::Shard(name.clone()));
        let change = write.and_then(|write| match &write.purpose {
            Purpose::Shard { change, .. } => Some(change),
            Purpose::Part { .. } | Purpose::Document { .. } | Purpose::Removal { .. } => None,
        });
        let reported = match write.and_then(|write| write.reported.as_ref()).map(|message| &message.change) {
            None => Reported::Nothing,
            Some(Change::Applied(object)) => {
                object.metadata.resource_version.as_deref().map_or(Reported::Gone, Reported::Version)
            }
            Some(Change::Deleted(_) | Change::Listed(_) | Change::Forbidden) => Reported::Gone,
        };
        ShardContent::new(seen, change, reported, self.failed_shards.get(name).map(String::as_str))
    }

    /// The parts of a service document that are being written.
    pub(super) fn parts(&self, namespace: &str, digest: &Digest) -> HashSet<Target> {
        let is_part = |target: &Target, write: &InFlight| match (target, &write.purpose) {
            (Target::Config(name), Purpose::Part { digest: of }) => name.namespace == namespace && of == digest,
            _ => false,
        };
        self.in_flight
            .iter()
            .filter(|(target, write)| is_part(target, write))
            .map(|(target, _)| target.clone())
            .collect()
    }

    /// Whether another service document can be written now.
    pub(super) fn has_room_for_parts(&self) -> bool {
        self.in_flight.values().filter(|write| matches!(write.purpose, Purpose::Part { .. })).count() < PARTS
    }

    /// Whether another exposition's documents can be deleted now.
    pub(super) fn has_room_for_removals(&self) -> bool {
        self.in_flight.values().filter(|write| matches!(write.purpose, Purpose::Removal { .. })).count() < ACTIVE
    }

    /// Returns the credentials that active documents of a group name, and the namespace that needs each. They must not give
    /// way to others, even if no document at the API server names them yet.
    pub(super) fn credentials(&self, group: &ObjectName) -> BTreeMap<CredentialHandle, String> {
        let of = self.active.iter().map(|active| &active.item).filter(|item| item.owner.group == *group);
        of.flat_map(|item| {
            let namespace = &item.exposition.namespace;
            item.document.spec.credentials.iter().map(move |handle| (handle.clone(), namespace.clone()))
        })
        .collect()
    }

    /// Whether an active document needs a service document.
    pub(super) fn needs_service(&self, namespace: &str, digest: &Digest) -> bool {
        self.active.iter().any(|active| {
            active.item.document.group.namespace == namespace
                && active.item.document.spec.service.as_ref() == Some(digest)
        })
    }

    /// Holds back a watch's message about an object until the object's write is answered, because the answer belongs before
    /// it. Returns the message if it can be read now.
    pub(super) fn keep(&mut self, message: Message) -> Option<Message> {
        let target: fn(ObjectName) -> Target = match message.source.watched {
            Watched::Configs => Target::Config,
            Watched::GroupSecrets => Target::Shard,
            Watched::Kind(_) | Watched::Secrets | Watched::ConfigMaps | Watched::Namespaces => return Some(message),
        };
        let object = match &message.change {
            Change::Applied(object) | Change::Deleted(object) => object,
            Change::Forbidden => return Some(message),
            Change::Listed(_) => {
                for (key, write) in &mut self.in_flight {
                    let (Target::Shard(name) | Target::Config(name)) = key;
                    let within = message.source.namespace.as_ref().is_none_or(|within| *within == name.namespace);
                    if *key == target(name.clone()) && within {
                        (write.is_listed, write.reported) = (true, None);
                    }
                }
                return Some(message);
            }
        };
        let metadata = &object.metadata;
        let name = ObjectName {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        };
        match self.in_flight.get_mut(&target(name)) {
            Some(write) => {
                write.reported = Some(message);
                None
            }
            None => Some(message),
        }
    }
}

/// The values and users of credentials, for [`super::shards::adding`].
pub(super) struct Credentials<'w> {
    pub(super) cluster: &'w ClusterState,
    /// The group's namespace.
    pub(super) namespace: &'w str,
}

impl super::shards::Values for Credentials<'_> {
    fn value(&self, handle: &CredentialHandle) -> Option<Vec<u8>> {
        self.cluster.secrets.value(handle)
    }

    fn user(&self, handle: &CredentialHandle) -> Option<&str> {
        self.cluster.configs.credential_user(self.namespace, handle)
    }
}

/// The shards of a group as last seen. Those of an earlier group of the name do not count: they are deleted with it.
pub(super) struct Shards {
    found: Vec<Option<Arc<Secret>>>,
    owner: Owner,
}

impl Shards {
    pub(super) fn of(cluster: &ClusterState, owner: &Owner) -> Self {
        let shard = |number| cluster.shards.get(&crate::cluster_state::shard_name(&owner.group, number)).cloned();
        Self { found: (0..names::CREDENTIAL_SHARDS).map(shard).collect(), owner: owner.clone() }
    }

    /// Returns a shard that the group owns.
    pub(super) fn own(&self, number: usize) -> Option<&Secret> {
        self.found.get(number)?.as_deref().filter(|secret| self.owner.owns(secret))
    }

    /// Returns the Secret with the name of a shard, whichever group owns it.
    pub(super) fn there(&self, number: usize) -> Option<&Arc<Secret>> {
        self.found.get(number)?.as_ref()
    }
}
