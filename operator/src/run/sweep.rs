//! What nobody uses any more goes, after a while: an edit that is taken back finds what it needs, and a gateway that is
//! slow to read can still complete what it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use tamis_config::{Digest, names};
use tamis_crds::ObjectName;

use super::write::{self, Failure};
use super::{Operator, shards};
use crate::leader::Permit;
use crate::object::Kind;
use crate::world::shard_name;

/// How long something stays that is not used.
const GRACE: Duration = Duration::from_secs(30);
/// How often is looked.
const EVERY: Duration = Duration::from_secs(10);
/// How long deletions may hold up everything else, and when the next of them follow.
const SLICE: Duration = Duration::from_millis(50);
const SOON: Duration = Duration::from_millis(500);
/// Secrets that are asked for at a time.
const PROBES: usize = 48;

/// Since when what is unused.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    next: Option<Instant>,
    services: BTreeMap<(String, Digest), Instant>,
    credentials: BTreeMap<(String, String), Instant>,
    /// The last Secret that was asked for.
    probed: Option<ObjectName>,
}

impl Operator {
    pub(super) async fn sweep(&mut self, permit: &Permit, now: Instant) {
        if self.sweeper.next.is_some_and(|next| now < next) {
            return;
        }
        self.sweeper.next = Some(now + EVERY);
        self.world.forget(now.checked_sub(GRACE * 2).unwrap_or(now));
        self.throttle.forget(now);
        self.forget_gone();
        self.sweep_services(permit, now).await;
        self.sweep_credentials(permit, now).await;
        self.sweep_orphans();
        self.probe_again().await;
        self.count();
    }

    /// Service documents that no document names.
    async fn sweep_services(&mut self, permit: &Permit, now: Instant) {
        let foreign = self.foreign_namespaces();
        let unused = self.world.configs.unused_services().into_iter();
        let unused: BTreeSet<_> = unused.filter(|(namespace, _)| !foreign.contains(namespace)).collect();
        self.sweeper.services.retain(|key, _| unused.contains(key));
        let began = Instant::now();
        for (namespace, digest) in unused {
            if began.elapsed() > SLICE {
                self.sweeper.next = Some(now + SOON);
                break;
            }
            let since = *self.sweeper.services.entry((namespace.clone(), digest.clone())).or_insert(now);
            if now < since + GRACE {
                continue;
            }
            for part in self.world.configs.of_service(&namespace, &digest).into_iter().filter(|part| part.ours) {
                match write::remove(&self.client, permit, &part).await {
                    Ok(()) => drop(self.world.configs.remove(&part.name, Some(&part.uid))),
                    Err(Failure::Deposed(_)) => return,
                    Err(failure) => tracing::warn!(name = %part.name, "unused document not deleted: {failure}"),
                }
            }
        }
        let used: BTreeSet<Digest> = self.world.configs.used_services();
        self.memory.documents.retain(|digest, _| used.contains(digest));
    }

    /// Values that no document names.
    async fn sweep_credentials(&mut self, permit: &Permit, now: Instant) {
        let groups = self.world.all(Kind::GatewayGroup).map(|g| g.key.name.clone());
        let groups: Vec<ObjectName> = groups.filter(|group| self.is_ours(group)).collect();
        let mut unused = BTreeSet::new();
        for group in groups {
            let Some(owner) = self.owner(&group) else { continue };
            let found: Vec<Option<Arc<Secret>>> = (0..names::CREDENTIAL_SHARDS)
                .map(|number| self.world.shards.get(&shard_name(&group, number)).cloned())
                .map(|secret| secret.filter(|secret| write::is_own(secret, &owner)))
                .collect();
            let shard = |number: usize| found.get(number).and_then(|found| found.as_deref());
            let (configs, credentials) = (&self.world.configs, &mut self.sweeper.credentials);
            let mut is_used = |handle: &tamis_config::CredentialHandle| {
                if configs.uses_credential(&group.namespace, handle) {
                    return true;
                }
                let key = (group.namespace.clone(), handle.0.clone());
                unused.insert(key.clone());
                now < *credentials.entry(key).or_insert(now) + GRACE
            };
            let writes = {
                let cell = std::cell::RefCell::new(&mut is_used);
                shards::sweeping(shard, |handle| (cell.borrow_mut())(handle))
            };
            for shards::ShardWrite { number, data, .. } in writes {
                match write::shard(&self.client, permit, &owner, number, data, shard(number)).await {
                    Ok(secret) => self.world.shard_applied(&shard_name(&group, number), secret),
                    Err(Failure::Deposed(_)) => return,
                    Err(failure) => tracing::warn!(%group, shard = number, "unused credentials stay: {failure}"),
                }
            }
        }
        self.sweeper.credentials.retain(|key, _| unused.contains(key));
    }

    /// Documents of groups that are gone, and of expositions that nobody has told us of.
    fn sweep_orphans(&mut self) {
        let orphans: Vec<ObjectName> = self
            .world
            .configs
            .exposition_ids()
            .map(|id| ObjectName { namespace: id.namespace.clone(), name: id.name.clone() })
            .filter(|name| self.world.is_gone(name))
            .collect();
        self.world.dirty.removed.extend(orphans);
    }

    /// Secrets that are missing, or do not take part, come and go without a word: what is said of them is looked at again,
    /// some at a time.
    async fn probe_again(&mut self) {
        let asked = self.world.secrets.asked_for(self.sweeper.probed.as_ref(), PROBES);
        self.sweeper.probed = asked.last().cloned();
        for name in self.probe(asked).await {
            self.world.secret_changed(&name);
        }
    }

    /// Objects by kind, for the metrics.
    fn count(&mut self) {
        for kind in Kind::ALL {
            let (mut accepted, mut refused) = (0, 0);
            for object in self.world.all(kind) {
                let fails = self.verdicts.get(&object.key).is_some_and(|judged| {
                    judged
                        .verdict
                        .findings
                        .iter()
                        .any(|f| f.is_error && f.condition == crate::verdict::ConditionType::Accepted)
                });
                if fails { refused += 1 } else { accepted += 1 }
            }
            self.metrics.resources(kind, accepted, refused);
        }
    }
}
