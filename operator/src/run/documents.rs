//! The stages of documents on their way to the API server: see [`super::pipeline`]. A document that has no room is not
//! withheld: what it replaces may have been revoked, so its exposition stops.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use tamis_config::carrier::{encode_exposition, encode_service};
use tamis_config::{CredentialHandle, ExpositionPayload, GatewayConfigSpec, StopDocument, names};
use tamis_crds::ObjectName;

use super::action::{Fence, Owner, Request};
use super::blocked::WriteBlocked;
use super::id;
use super::pipeline::{Active, Credentials, Item, Purpose, Shards, Stage, Target};
use super::readable::{self, ShardChange, ShardContent};
use super::shards::{self, Lacking, Rooms, SHARD_BYTES};
use super::state::{Requeue, State};
use crate::cluster_state::{ConfigObject, Held, shard_name};
use crate::object::{Kind, ObjectKey};
use crate::plan::{self, Document};
use crate::quota::{DocumentSize, Exceeded};
use crate::verdict::RequiredDocument;
use crate::watch::Watched;

impl State {
    /// Advances documents through their stages until they wait for an answer.
    pub(super) fn write_documents(&mut self, fence: Fence) {
        self.delete_released(fence);
        let sources = &self.sources;
        self.pipeline.admit(|namespace| sources.knows(&Watched::GroupSecrets, namespace), self.now);
        self.write_credentials(fence);
        self.write_services(fence);
        self.write_expositions(fence);
    }

    /// Puts every value that documents name into the shards of their group. Documents of one group share the writes, and
    /// documents whose values are readable already wait for none.
    fn write_credentials(&mut self, fence: Fence) {
        self.pipeline.forget_failed_shards(&self.cluster.shards);
        let mut groups: BTreeMap<ObjectName, Vec<usize>> = BTreeMap::new();
        for at in self.pipeline.at(&Stage::Credentials) {
            let readable = self.are_credentials_readable(&self.pipeline.active[at].item);
            let active = &mut self.pipeline.active[at];
            if readable {
                active.stage = Stage::Service;
            } else {
                groups.entry(active.item.owner.group.clone()).or_default().push(at);
            }
        }
        let mut blocked = Vec::new();
        for (group, positions) in groups {
            if !self.pipeline.writes_shards(&group) {
                self.write_shards(fence, &group, &positions, &mut blocked);
            }
        }
        self.block(blocked);
    }

    /// Returns whether gateways can read all credentials of a document, whatever becomes of the writes in flight.
    fn are_credentials_readable(&self, item: &Item) -> bool {
        let handles = &item.document.spec.credentials;
        if handles.is_empty() {
            return true;
        }
        let (shards, group) = (Shards::of(&self.cluster, &item.owner), &item.owner.group);
        let contents: Vec<ShardContent<'_>> = (0..names::CREDENTIAL_SHARDS)
            .map(|number| self.pipeline.shard(&shard_name(group, number), shards.own(number)))
            .collect();
        handles.iter().all(|handle| {
            let value = self.cluster.secrets.value(handle);
            value.is_some_and(|value| readable::is_readable(handle, &value, &contents))
        })
    }

    fn write_shards(
        &mut self,
        fence: Fence,
        group: &ObjectName,
        positions: &[usize],
        blocked: &mut Vec<(usize, WriteBlocked)>,
    ) {
        let Some(owner) = positions.first().map(|at| self.pipeline.active[*at].item.owner.clone()) else { return };
        let shards = Shards::of(&self.cluster, &owner);
        let wanted = self.pipeline.credentials(group);
        let rooms = Rooms { shard: SHARD_BYTES, share: self.quotas.credential_bytes };
        let known = Credentials { cluster: &self.cluster, namespace: &group.namespace };
        let (writes, lacking) = shards::adding(&wanted, |number| shards.own(number), &known, rooms);
        let mut missing: HashMap<CredentialHandle, WriteBlocked> = HashMap::new();
        for lacking in lacking {
            match lacking {
                Lacking::Value(handle) => missing.insert(handle, WriteBlocked::Stale),
                Lacking::Room(handle) => {
                    tracing::error!(%group, "the group's credentials have no room left");
                    missing.insert(handle, WriteBlocked::NoRoom)
                }
                Lacking::Share(handle) => {
                    missing.insert(handle, WriteBlocked::Quota(Exceeded::CredentialBytes(rooms.share)))
                }
            };
        }
        let mut written: HashMap<CredentialHandle, Target> = HashMap::new();
        for shards::ShardWrite { number, data, added } in writes {
            let name = shard_name(group, number);
            let seen = shards.there(number).cloned();
            if seen.as_ref().is_some_and(|seen| !owner.owns(seen)) {
                let why = WriteBlocked::Foreign(format!("Secret {name}"));
                missing.extend(added.into_iter().map(|handle| (handle, why.clone())));
                continue;
            }
            let target = Target::Shard(name);
            written.extend(added.iter().map(|handle| (handle.clone(), target.clone())));
            let change = ShardChange::new(seen.as_deref(), &data);
            self.pipeline.begins(target, Purpose::Shard { group: group.clone(), change }, fence);
            self.write(fence, Request::Shard { owner: owner.clone(), number, data, seen });
        }
        for at in positions {
            let active = &mut self.pipeline.active[*at];
            let handles = &active.item.document.spec.credentials;
            if let Some(why) = handles.iter().find_map(|handle| missing.get(handle)) {
                blocked.push((*at, why.clone()));
            } else {
                active.waits = handles.iter().filter_map(|handle| written.get(handle)).cloned().collect();
                active.stage = Stage::Service;
            }
        }
    }

    /// Writes the parts of service documents that are missing.
    fn write_services(&mut self, fence: Fence) {
        let mut blocked = Vec::new();
        for at in self.pipeline.at(&Stage::Service) {
            match self.service_stage(fence, at) {
                Ok(Some((stage, waits))) => {
                    let active = &mut self.pipeline.active[at];
                    (active.stage, active.waits) = (stage, waits);
                }
                // It waits for room.
                Ok(None) => {}
                Err(why) => blocked.push((at, why)),
            }
        }
        self.block(blocked);
    }

    /// Returns the next stage of a document that needs its service, and the writes that it waits for. Returns `None` if no
    /// more parts may be in flight.
    fn service_stage(&mut self, fence: Fence, at: usize) -> Result<Option<(Stage, HashSet<Target>)>, WriteBlocked> {
        let item = &self.pipeline.active[at].item;
        let (owner, namespace) = (item.owner.clone(), item.owner.group.namespace.clone());
        let Some(digest) = item.document.spec.service.clone() else {
            return Ok(Some((Stage::Document, HashSet::new())));
        };
        let there = self.cluster.configs.of_service(&namespace, &digest);
        // Parts that are being written for another document, or deleted because nothing used them.
        let mut waits = self.pipeline.parts(&namespace, &digest);
        let targets = there.iter().map(|part| Target::Config(part.name.clone()));
        waits.extend(targets.filter(|target| self.pipeline.is_in_flight(target)));
        if !waits.is_empty() {
            return Ok(Some((Stage::Service, waits)));
        }
        let parts = there.first().and_then(|part| part.spec.as_ref()).map(|spec| spec.parts);
        let own = there.iter().all(|part| part.is_managed && part.owner.as_ref() == Some(&owner.uid));
        if own && parts.is_some_and(|parts| usize::try_from(parts) == Ok(there.len())) {
            return Ok(Some((Stage::Document, waits)));
        }
        if !self.pipeline.has_room_for_parts() {
            return Ok(None);
        }
        let item = &self.pipeline.active[at].item;
        let document = item.body.clone().or_else(|| self.memory.documents.get(&digest).cloned());
        let document = document.ok_or(WriteBlocked::Stale)?;
        let specs = encode_service(&owner.group.name, &document).map_err(|error| {
            tracing::error!(service = document.name, "service document not encoded: {error}");
            WriteBlocked::Refused("the service's document".to_owned())
        })?;
        for spec in specs {
            let name = ObjectName { namespace: namespace.clone(), name: names::service_object(&digest, spec.part) };
            let seen = self.cluster.configs.get(&name).cloned();
            if seen.as_deref().is_some_and(|seen| is_same(seen, &owner, &spec)) {
                continue;
            }
            self.write_config(fence, &owner, name.clone(), spec, seen, Purpose::Part { digest: digest.clone() })?;
            waits.insert(Target::Config(name));
        }
        Ok(Some((Stage::Document, waits)))
    }

    /// Writes documents whose credentials and services are there.
    fn write_expositions(&mut self, fence: Fence) {
        let mut done = Vec::new();
        let mut blocked = Vec::new();
        for at in self.pipeline.at(&Stage::Document) {
            if let Err(why) = self.grant(at) {
                blocked.push((at, why));
                continue;
            }
            let Active { item, .. } = &self.pipeline.active[at];
            let (name, spec) = (item.target(), &item.document.spec);
            let target = Target::Config(name.clone());
            if self.pipeline.is_in_flight(&target) {
                self.pipeline.active[at].waits.insert(target);
                continue;
            }
            let id = spec.exposition.clone().unwrap_or_else(|| id(&item.exposition));
            let wanted = RequiredDocument { group: item.document.group.clone(), id, digest: spec.digest.clone() };
            let there = self.cluster.configs.get(&name).cloned();
            if there.as_deref().is_some_and(|there| is_same(there, &item.owner, spec)) {
                done.push((at, wanted));
                continue;
            }
            let (owner, spec, exposition) = (item.owner.clone(), spec.clone(), item.exposition.clone());
            match self.write_config(fence, &owner, name, spec, there, Purpose::Document { exposition }) {
                Ok(()) => {
                    let active = &mut self.pipeline.active[at];
                    active.stage = Stage::Writing(wanted);
                    active.waits.insert(target);
                }
                Err(why) => blocked.push((at, why)),
            }
        }
        // Both lists hold positions: the last go first.
        let mut gone: Vec<(usize, Result<RequiredDocument, WriteBlocked>)> =
            done.into_iter().map(|(at, wanted)| (at, Ok(wanted))).collect();
        gone.extend(blocked.into_iter().map(|(at, why)| (at, Err(why))));
        gone.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        for (at, result) in gone {
            let active = self.pipeline.active.remove(at);
            match result {
                Ok(wanted) => {
                    let name = active.item.target();
                    self.written(&active.item.exposition, wanted, None);
                    self.delete_others(fence, &active.item.exposition, Some(&name));
                }
                Err(why) => self.not_written(active.item.exposition, &why),
            }
        }
    }

    /// Emits the write of a GatewayConfig.
    fn write_config(
        &mut self,
        fence: Fence,
        owner: &Owner,
        name: ObjectName,
        spec: GatewayConfigSpec,
        seen: Option<Arc<ConfigObject>>,
        purpose: Purpose,
    ) -> Result<(), WriteBlocked> {
        if seen.as_ref().is_some_and(|seen| !seen.is_managed) {
            return Err(WriteBlocked::Foreign(format!("GatewayConfig {name}")));
        }
        self.pipeline.begins(Target::Config(name.clone()), purpose, fence);
        self.write(fence, Request::Config { owner: owner.clone(), name, spec: Box::new(spec), seen });
        Ok(())
    }

    /// Handles documents that are blocked: those that have to stop are replaced, the others are planned again later.
    fn block(&mut self, mut blocked: Vec<(usize, WriteBlocked)>) {
        blocked.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        for (at, why) in blocked {
            if why.stops() && self.stop(at, &why).is_ok() {
                continue;
            }
            let active = self.pipeline.active.remove(at);
            self.not_written(active.item.exposition, &why);
        }
    }

    /// Replaces a document by the one that stops its exposition, since the planned one has no room.
    fn stop(&mut self, at: usize, why: &WriteBlocked) -> Result<(), WriteBlocked> {
        let Some(finding) = why.finding() else { return Err(why.clone()) };
        let item = &self.pipeline.active[at].item;
        let (exposition, group) = (item.exposition.clone(), item.owner.group.clone());
        let id = id(&exposition);
        let payload = ExpositionPayload::Stop(StopDocument::new(id.clone(), finding.reason, finding.message.clone()));
        let spec = encode_exposition(&group.name, &payload).map_err(|_| why.clone())?;
        if let Some(category) = why.category() {
            self.metrics.failed(Kind::Exposition.as_str(), category);
        }
        let key = ObjectKey { kind: Kind::Exposition, name: exposition.clone() };
        if let Some(judged) = self.verdicts.get_mut(&key) {
            let verdict = &mut judged.verdict;
            verdict.documents = vec![RequiredDocument { group, id, digest: spec.digest.clone() }];
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
        self.requeue_after(why.retry(), Requeue::Exposition(exposition));
        let active = &mut self.pipeline.active[at];
        active.item.document = Document { spec, group: active.item.document.group.clone() };
        active.item.body = None;
        (active.stage, active.waits) = (Stage::Document, HashSet::new());
        Ok(())
    }

    /// Checks a document against the quotas of its namespace. One that exceeds them becomes the one that stops its
    /// exposition; if not even that fits, it is blocked.
    fn grant(&mut self, at: usize) -> Result<(), WriteBlocked> {
        let item = &self.pipeline.active[at].item;
        let mut held = self.held(&item.exposition.namespace);
        let before = self.cluster.configs.get(&item.target()).map(|there| there.bytes());
        match self.quotas.grant(&mut held, DocumentSize { before, bytes: item.document.spec.data.len() }) {
            Ok(()) => Ok(()),
            Err(exceeded @ Exceeded::Expositions(_)) => Err(WriteBlocked::Quota(exceeded)),
            Err(exceeded @ (Exceeded::DocumentBytes(_) | Exceeded::CredentialBytes(_) | Exceeded::SourceBytes(_))) => {
                self.stop(at, &WriteBlocked::Quota(exceeded))
            }
        }
    }

    /// Returns the number and bytes of a namespace's documents, including those in flight.
    fn held(&self, namespace: &str) -> Held {
        let mut held = self.cluster.configs.held(namespace);
        for Active { item, stage, .. } in &self.pipeline.active {
            if item.exposition.namespace != namespace || !matches!(stage, Stage::Writing(_)) {
                continue;
            }
            let before = self.cluster.configs.get(&item.target()).map(|there| there.bytes());
            held.documents += usize::from(before.is_none());
            held.bytes = held.bytes.saturating_sub(before.unwrap_or(0)) + item.document.spec.data.len();
        }
        held
    }

    /// Records the newest document of an exposition.
    pub(super) fn written(&mut self, exposition: &ObjectName, wanted: RequiredDocument, seen: Option<Instant>) {
        let changes = self.table.require(&wanted, seen, self.now);
        self.on_ack_changes(changes);
        let group = wanted.group.clone();
        let before = self.required.insert(exposition.clone(), wanted);
        if before.as_ref().map(|before| &before.group) != Some(&group) {
            *self.attached.entry(group.clone()).or_default() += 1;
            if let Some(before) = before {
                self.detach(&before);
            }
            self.statuses.slowly(ObjectKey { kind: Kind::GatewayGroup, name: group }, self.now);
        }
        self.mark_status(exposition);
    }

    fn detach(&mut self, before: &RequiredDocument) {
        self.table.forget(&before.group, &before.id);
        if let Some(count) = self.attached.get_mut(&before.group) {
            *count = count.saturating_sub(1);
        }
        self.statuses.slowly(ObjectKey { kind: Kind::GatewayGroup, name: before.group.clone() }, self.now);
    }

    pub(super) fn not_written(&mut self, exposition: ObjectName, why: &WriteBlocked) {
        if let Some(category) = why.category() {
            self.metrics.failed(Kind::Exposition.as_str(), category);
        }
        let key = ObjectKey { kind: Kind::Exposition, name: exposition.clone() };
        if let (Some(judged), Some(finding)) = (self.verdicts.get_mut(&key), why.finding()) {
            judged.verdict.unwritten = true;
            if !judged.verdict.findings.contains(&finding) {
                judged.verdict.findings.push(finding);
            }
        }
        self.cluster.dirty.status.insert(key);
        self.requeue_after(why.retry(), Requeue::Exposition(exposition));
    }

    /// Deletes the documents of expositions that are no longer served.
    fn delete_released(&mut self, fence: Fence) {
        let mut busy = Vec::new();
        while self.pipeline.has_room_for_removals()
            && let Some((name, ())) = self.pipeline.leaving.next(|_| true)
        {
            if self.pipeline.is_writing(&name) {
                busy.push(name);
                continue;
            }
            if let Some(before) = self.required.remove(&name) {
                self.detach(&before);
            }
            if self.cluster.is_gone(&name) {
                self.forget_exposition(&name);
            }
            self.delete_others(fence, &name, None);
        }
        for name in busy {
            self.pipeline.leaving.insert(name, ());
        }
    }

    fn forget_exposition(&mut self, name: &ObjectName) {
        self.link(name, BTreeSet::new());
        self.revise(&[name.clone()].into(), plan::Findings::new());
        self.links.forget(name);
        self.memory.forget(name);
        self.verdicts.remove(&ObjectKey { kind: Kind::Exposition, name: name.clone() });
    }

    /// Deletes the objects of an exposition, except the one that it should have.
    pub(super) fn delete_others(&mut self, fence: Fence, exposition: &ObjectName, kept: Option<&ObjectName>) {
        let there = self.cluster.configs.of_exposition(&id(exposition));
        for object in there.into_iter().filter(|object| Some(&object.name) != kept && object.is_managed) {
            if self.pipeline.is_in_flight(&Target::Config(object.name.clone())) {
                self.requeue_after(WriteBlocked::Stale.retry(), Requeue::Exposition(exposition.clone()));
            } else {
                self.delete(fence, object, Some(exposition.clone()));
            }
        }
    }

    pub(super) fn delete(&mut self, fence: Fence, object: Arc<ConfigObject>, exposition: Option<ObjectName>) {
        self.pipeline.begins(Target::Config(object.name.clone()), Purpose::Removal { exposition }, fence);
        self.write(fence, Request::Delete(object));
    }
}

/// Returns whether an object already is as it would be written.
fn is_same(there: &ConfigObject, owner: &Owner, spec: &GatewayConfigSpec) -> bool {
    there.is_managed && there.owner.as_ref() == Some(&owner.uid) && there.spec.as_ref() == Some(spec)
}
