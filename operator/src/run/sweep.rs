//! Deletes unused objects after a grace period: an edit that is reverted finds its documents again, and a gateway that is
//! slow to read can still complete what it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tamis_config::{CredentialHandle, Digest};
use tamis_crds::ObjectName;

use super::action::{Action, Fence, Probe, ProbePurpose, Request};
use super::pipeline::{Purpose, Shards, Target};
use super::readable::ShardChange;
use super::shards;
use super::state::State;
use crate::cluster_state::shard_name;
use crate::object::Kind;

/// How long an unused object is kept.
const GRACE: Duration = Duration::from_secs(30);
/// The interval between two sweeps.
const EVERY: Duration = Duration::from_secs(10);
/// The maximum of parts of service documents that are deleted in one sweep, and the pause before the next sweep if there
/// are more.
const PARTS: usize = 32;
const SOON: Duration = Duration::from_millis(500);
/// The maximum of Secrets that are probed at a time.
const PROBES: usize = 48;

/// The unused objects, and since when they are unused.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    next: Option<Instant>,
    services: BTreeMap<(String, Digest), Instant>,
    credentials: BTreeMap<(String, String), Instant>,
    /// The last Secret that was probed.
    probed: Option<ObjectName>,
    /// Whether a probe is in flight.
    pub(super) is_probing: bool,
}

impl State {
    /// Sweeps when a sweep is due.
    pub(super) fn sweep(&mut self, fence: Fence) {
        let now = self.now;
        if self.sweeper.next.is_some_and(|next| now < next) {
            return;
        }
        self.sweeper.next = Some(now + EVERY);
        self.cluster.forget(now.checked_sub(GRACE * 2).unwrap_or(now));
        self.turns.throttle.forget(now);
        self.forget_gone();
        self.sweep_services(fence);
        self.sweep_credentials(fence);
        self.sweep_orphans();
        self.probe_again();
        self.count();
    }

    /// Deletes service documents that no document names.
    fn sweep_services(&mut self, fence: Fence) {
        let now = self.now;
        let foreign = self.foreign_namespaces();
        let unused = self.cluster.configs.unused_services().into_iter();
        let unused: BTreeSet<_> = unused
            .filter(|(namespace, _)| !foreign.contains(namespace))
            .filter(|(namespace, digest)| !self.pipeline.needs_service(namespace, digest))
            .collect();
        self.sweeper.services.retain(|key, _| unused.contains(key));
        let mut deleted = 0;
        for (namespace, digest) in unused {
            if deleted >= PARTS {
                self.sweeper.next = Some(now + SOON);
                break;
            }
            let since = *self.sweeper.services.entry((namespace.clone(), digest.clone())).or_insert(now);
            if now < since + GRACE {
                continue;
            }
            for part in self.cluster.configs.of_service(&namespace, &digest).into_iter().filter(|part| part.is_managed)
            {
                if !self.pipeline.is_in_flight(&Target::Config(part.name.clone())) {
                    self.delete(fence, part, None);
                    deleted += 1;
                }
            }
        }
        let used: BTreeSet<Digest> = self.cluster.configs.used_services();
        self.memory.documents.retain(|digest, _| used.contains(digest));
    }

    /// Removes values that no document names from the shards.
    fn sweep_credentials(&mut self, fence: Fence) {
        let now = self.now;
        let groups = self.cluster.all(Kind::GatewayGroup).map(|group| group.key.name.clone());
        let groups: Vec<ObjectName> = groups.filter(|group| self.manages_group(group)).collect();
        let mut unused = BTreeSet::new();
        for group in groups {
            let Some(owner) = self.owner(&group) else { continue };
            let shards = Shards::of(&self.cluster, &owner);
            let needed = self.pipeline.credentials(&group);
            let (configs, credentials) = (&self.cluster.configs, &mut self.sweeper.credentials);
            let writes = shards::sweeping(
                |number| shards.own(number),
                |handle: &CredentialHandle| {
                    if configs.uses_credential(&group.namespace, handle) || needed.contains_key(handle) {
                        return true;
                    }
                    let key = (group.namespace.clone(), handle.0.clone());
                    unused.insert(key.clone());
                    now < *credentials.entry(key).or_insert(now) + GRACE
                },
            );
            if self.pipeline.writes_shards(&group) {
                continue;
            }
            for shards::ShardWrite { number, data, added: _ } in writes {
                let target = Target::Shard(shard_name(&group, number));
                let seen = shards.there(number).cloned();
                let change = ShardChange::new(seen.as_deref(), &data);
                self.pipeline.begins(target, Purpose::Shard { group: group.clone(), change }, fence);
                self.write(fence, Request::Shard { owner: owner.clone(), number, data, seen });
            }
        }
        self.sweeper.credentials.retain(|key, _| unused.contains(key));
    }

    /// Marks the documents of deleted expositions, in case a deletion was missed.
    fn sweep_orphans(&mut self) {
        let orphans: Vec<ObjectName> = self
            .cluster
            .configs
            .exposition_ids()
            .map(|id| ObjectName { namespace: id.namespace.clone(), name: id.name.clone() })
            .filter(|name| self.cluster.is_gone(name))
            .collect();
        self.cluster.dirty.removed.extend(orphans);
    }

    /// Probes Secrets that are missing or have no label again, some at a time: no watch covers them.
    fn probe_again(&mut self) {
        if self.sweeper.is_probing {
            return;
        }
        let names = self.cluster.secrets.next_probes(self.sweeper.probed.as_ref(), PROBES);
        self.sweeper.probed = names.last().cloned();
        if !names.is_empty() {
            self.sweeper.is_probing = true;
            self.actions.push(Action::Probe(Probe { names, purpose: ProbePurpose::Refresh }));
        }
    }

    /// Counts objects by kind for the metrics.
    fn count(&mut self) {
        for kind in Kind::ALL {
            let (mut accepted, mut refused) = (0, 0);
            for object in self.cluster.all(kind) {
                let fails = self.verdicts.get(&object.key).is_some_and(|judged| {
                    judged
                        .verdict
                        .findings
                        .iter()
                        .any(|f| f.is_error && f.condition == crate::verdict::PlanCondition::Accepted)
                });
                if fails { refused += 1 } else { accepted += 1 }
            }
            self.metrics.resources(kind, accepted, refused);
        }
    }
}
