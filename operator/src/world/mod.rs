//! All that the operator knows of the cluster, and what each change of it leads to work for. Pure: changes and instants
//! come in, nothing goes out but marks.

mod configs;
mod dirty;
mod index;
mod object;
mod secrets;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use tamis_config::{CredentialHandle, ExpositionId, names};
use tamis_crds::ObjectName;

pub(crate) use configs::{Changed, ConfigObject, ConfigStore, is_older};
pub(crate) use dirty::{Dirty, Scope};
pub(crate) use index::Members;
pub(crate) use object::{Object, ServiceKey};
pub(crate) use secrets::SecretStore;

use crate::object::{Kind, ObjectKey};
use crate::watch::{Change, Source, Watched};

/// A namespace, as far as it matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamespaceFacts {
    pub(crate) labels: BTreeMap<String, String>,
    /// It is being deleted: what it holds goes in any order.
    pub(crate) terminating: bool,
}

/// All that is known.
#[derive(Debug, Default)]
pub(crate) struct World {
    objects: BTreeMap<Kind, HashMap<ObjectName, Arc<Object>>>,
    index: index::Index,
    pub(crate) configs: ConfigStore,
    pub(crate) secrets: SecretStore,
    /// Services whose compile asked for a Secret.
    pub(crate) secret_users: HashMap<ObjectName, BTreeSet<ServiceKey>>,
    /// Credential shards of groups, with what they hold.
    pub(crate) shards: HashMap<ObjectName, Arc<Secret>>,
    namespaces: HashMap<String, NamespaceFacts>,
    /// Default sets that are gone, and since when.
    gone: HashMap<ObjectName, Instant>,
    pub(crate) dirty: Dirty,
    /// Where expositions go that name no group.
    pub(crate) default_group: Option<ObjectName>,
}

impl World {
    pub(crate) fn new(default_group: Option<ObjectName>) -> Self {
        Self { default_group, ..Self::default() }
    }

    /// An object of one of our kinds.
    pub(crate) fn get(&self, kind: Kind, name: &ObjectName) -> Option<&Arc<Object>> {
        self.objects.get(&kind)?.get(name)
    }

    /// All objects of a kind.
    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.get(&kind).into_iter().flat_map(HashMap::values)
    }

    /// What binds to a service.
    pub(crate) fn members(&self, service: &ServiceKey) -> Option<&Members> {
        self.index.members(service)
    }

    /// Objects that cannot be read.
    pub(crate) fn unusable(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.index.unusable().filter_map(|key| self.get(key.kind, &key.name))
    }

    /// What is known of a namespace.
    pub(crate) fn namespace(&self, name: &str) -> Option<&NamespaceFacts> {
        self.namespaces.get(name)
    }

    /// Namespaces with objects that name Secrets.
    pub(crate) fn namespaces_with_secrets(&self) -> BTreeSet<String> {
        self.index.namespaces_with_secrets()
    }

    /// Takes note of a change.
    pub(crate) fn apply(&mut self, source: &Source, change: Change, now: Instant) {
        match (&source.watched, change) {
            (_, Change::Forbidden) => self.forbidden(source),
            (watched, Change::Applied(object)) => self.applied(watched, &object),
            (watched, Change::Deleted(object)) => {
                let (name, uid) = (named(&object), object.metadata.uid.as_deref());
                self.deleted(watched, &name, uid, now);
            }
            (watched, Change::Listed(objects)) => {
                let there: BTreeSet<ObjectName> = objects.iter().map(named).collect();
                for name in self.known(source) {
                    if !there.contains(&name) {
                        self.deleted(watched, &name, None, now);
                    }
                }
                if let Watched::Secrets = watched
                    && let Some(namespace) = &source.namespace
                    && self.secrets.permit(namespace)
                {
                    self.mark_namespace(namespace);
                }
                objects.iter().for_each(|object| self.applied(watched, object));
            }
        }
    }

    /// Everything that would be compiled or written anew: after a change of leader, say.
    pub(crate) fn mark_all(&mut self) {
        for service in self.index.services() {
            self.dirty.whole_service(service);
        }
        let gone: Vec<_> = self.configs.exposition_ids().cloned().collect();
        for id in gone {
            self.mark_config(&id);
        }
        let groups: Vec<_> = self.all(Kind::GatewayGroup).map(|group| group.key.name.clone()).collect();
        self.dirty.groups.extend(groups);
        let keys: Vec<_> = self.objects.values().flat_map(HashMap::values).map(|object| object.key.clone()).collect();
        self.dirty.status.extend(keys);
    }

    /// Since when a default set is gone; none where it is there, or was never a default set.
    pub(crate) fn gone_since(&mut self, set: &str, now: Instant) -> Option<Instant> {
        let (namespace, name) = set.split_once('/')?;
        let name = ObjectName { namespace: namespace.to_owned(), name: name.to_owned() };
        if self.get(Kind::ToolsFilters, &name).is_some() {
            return None;
        }
        // Known from a document of a former leader only: it may have gone a moment ago.
        Some(*self.gone.entry(name).or_insert(now))
    }

    /// Forgets what has been gone for long.
    pub(crate) fn forget_gone(&mut self, before: Instant) {
        self.gone.retain(|_, since| *since > before);
    }

    /// Marks an exposition for compiling.
    pub(crate) fn mark_exposition(&mut self, name: &ObjectName) {
        match self.get(Kind::Exposition, name).and_then(|object| object.services().pop()) {
            Some(service) => self.dirty.exposition(service, name.clone()),
            None => drop(self.dirty.removed.insert(name.clone())),
        }
    }

    fn mark_config(&mut self, id: &ExpositionId) {
        self.mark_exposition(&ObjectName { namespace: id.namespace.clone(), name: id.name.clone() });
    }

    /// Marks everything that a namespace holds.
    fn mark_namespace(&mut self, namespace: &str) {
        for service in self.index.services_of(namespace) {
            self.dirty.whole_service(service);
        }
    }

    fn mark_all_of(&mut self, expositions: BTreeSet<ObjectName>) {
        for name in expositions {
            self.mark_exposition(&name);
        }
    }

    fn applied(&mut self, watched: &Watched, object: &DynamicObject) {
        match watched {
            Watched::Kind(kind) => self.object_applied(*kind, object),
            Watched::Configs => {
                if let Some(config) = ConfigObject::read(object) {
                    let changed = self.configs.put(config);
                    self.configs_changed(changed);
                }
            }
            Watched::Secrets => {
                let Ok(secret) = object.clone().try_parse::<Secret>() else { return };
                let name = named(object);
                if self.secrets.put(name.clone(), &secret) {
                    self.secret_changed(&name);
                }
            }
            Watched::Shards => {
                let Ok(secret) = object.clone().try_parse::<Secret>() else { return };
                self.shard_applied(named(object), secret);
            }
            Watched::Namespaces => {
                let phase = object.data.pointer("/status/phase").and_then(serde_json::Value::as_str);
                let facts = NamespaceFacts {
                    labels: object.metadata.labels.clone().unwrap_or_default(),
                    terminating: phase == Some("Terminating") || object.metadata.deletion_timestamp.is_some(),
                };
                let name = object.metadata.name.clone().unwrap_or_default();
                if self.namespaces.get(&name) != Some(&facts) {
                    let expositions = self.index.expositions_in(&name);
                    self.namespaces.insert(name, facts);
                    self.mark_all_of(expositions);
                }
            }
        }
    }

    /// Takes note of a shard, from the watch or from an answer to a write of ours.
    pub(crate) fn shard_applied(&mut self, name: ObjectName, secret: Secret) {
        let version = |secret: &Secret| secret.metadata.resource_version.clone().unwrap_or_default();
        let before = self.shards.get(&name);
        if before.is_some_and(|before| {
            before.metadata.uid == secret.metadata.uid && is_older(&version(&secret), &version(before))
        }) {
            return;
        }
        if before.is_none_or(|before| before.data != secret.data) {
            self.mark_groups_in(&name.namespace);
        }
        if let Some(before) = self.shards.insert(name.clone(), Arc::new(secret)) {
            self.mark_users_of_lost(&name, &before);
        }
    }

    /// Marks the expositions that name a value which a shard holds no more: somebody else took it away.
    fn mark_users_of_lost(&mut self, name: &ObjectName, before: &Secret) {
        let there = self.shards.get(name).and_then(|secret| secret.data.as_ref());
        let held = before.data.iter().flatten().map(|(handle, _)| handle);
        let lost = held.filter(|handle| there.is_none_or(|there| !there.contains_key(*handle)));
        let lost: BTreeSet<_> = lost.map(|handle| CredentialHandle(handle.clone())).collect();
        for id in self.configs.users_of_credentials(&name.namespace, &lost) {
            self.mark_config(&id);
        }
    }

    fn mark_groups_in(&mut self, namespace: &str) {
        let groups = self.all(Kind::GatewayGroup).filter(|group| group.key.name.namespace == namespace);
        let groups: Vec<_> = groups.map(|group| group.key.name.clone()).collect();
        self.dirty.groups.extend(groups);
    }

    fn object_applied(&mut self, kind: Kind, object: &DynamicObject) {
        let key = ObjectKey { kind, name: named(object) };
        let before = self.get(kind, &key.name).cloned();
        let Some(read) = Object::read(kind, object, before.as_deref()) else { return };
        if let Some(before) = &before
            && before.uid == read.uid
            && is_older(&read.resource_version, &before.resource_version)
        {
            return;
        }
        let same_spec = before
            .as_ref()
            .is_some_and(|b| b.uid == read.uid && b.generation == read.generation && b.deleting == read.deleting);
        self.dirty.status.insert(key.clone());
        let read = Arc::new(read);
        if same_spec {
            self.objects.entry(kind).or_default().insert(key.name, read);
            return;
        }
        if let Some(before) = &before {
            self.touched(before);
            self.index.unlink(before, self.default_group.as_ref());
        }
        self.objects.entry(kind).or_default().insert(key.name, Arc::clone(&read));
        self.index.link(&read, self.default_group.as_ref());
        self.touched(&read);
        if kind == Kind::ToolsFilters {
            self.gone.remove(&read.key.name);
        }
    }

    /// Marks what an object, as it was or as it is, has a say in.
    fn touched(&mut self, object: &Object) {
        let name = &object.key.name;
        if object.is_unusable() {
            // What it would have said is not known, so it may concern everything there.
            self.mark_namespace(&name.namespace);
        }
        match object.key.kind {
            Kind::Exposition => {
                for service in object.services() {
                    self.dirty.exposition(service, name.clone());
                }
                self.dirty.removed.insert(name.clone());
                let groups = self.index.groups_of(name);
                self.dirty.groups.extend(groups);
            }
            Kind::ServiceManifest | Kind::CustomTools => {
                for service in object.services() {
                    self.dirty.whole_service(service);
                }
            }
            Kind::ToolsFilters => {
                for service in object.services() {
                    self.dirty.service(service.clone());
                    let set = object.resources.filters.first().and_then(|filters| filters.spec.name.clone());
                    for exposition in self.index.users_of_set(&service, set.as_deref()) {
                        self.dirty.exposition(service.clone(), exposition);
                    }
                }
            }
            Kind::ConfigurationPlan => {
                let users = self.index.users_of_plan(name);
                self.mark_all_of(users);
            }
            Kind::GatewayGroup => {
                self.dirty.groups.insert(name.clone());
                let users = self.index.users_of_group(name);
                self.mark_all_of(users);
            }
        }
    }

    fn deleted(&mut self, watched: &Watched, name: &ObjectName, uid: Option<&str>, now: Instant) {
        match watched {
            Watched::Kind(kind) => {
                let before = self.get(*kind, name).filter(|object| uid.is_none_or(|uid| uid == object.uid));
                let Some(before) = before.cloned() else { return };
                if let Some(objects) = self.objects.get_mut(kind) {
                    objects.remove(name);
                }
                self.index.unlink(&before, self.default_group.as_ref());
                self.touched(&before);
                if before.resources.filters.first().is_some_and(|set| set.spec.name.is_none()) {
                    self.gone.insert(name.clone(), now);
                }
            }
            Watched::Configs => {
                let changed = self.configs.remove(name, uid);
                self.configs_changed(changed);
            }
            Watched::Secrets => {
                if self.secrets.remove(name) {
                    self.secret_changed(name);
                }
            }
            Watched::Shards => {
                if let Some(before) = self.shards.remove(name) {
                    self.mark_users_of_lost(name, &before);
                }
                self.mark_groups_in(&name.namespace);
            }
            Watched::Namespaces => drop(self.namespaces.remove(&name.name)),
        }
    }

    fn forbidden(&mut self, source: &Source) {
        if let (Watched::Secrets, Some(namespace)) = (&source.watched, &source.namespace)
            && self.secrets.forbid(namespace)
        {
            self.mark_namespace(namespace);
        }
    }

    /// Marks what asked for a Secret.
    pub(crate) fn secret_changed(&mut self, name: &ObjectName) {
        for service in self.secret_users.get(name).cloned().unwrap_or_default() {
            self.dirty.whole_service(service);
        }
    }

    fn configs_changed(&mut self, changed: Changed) {
        for id in &changed.expositions {
            self.mark_config(id);
        }
        for (namespace, digest) in &changed.services {
            if self.configs.uses_service(namespace, digest) {
                self.index.mark_users_of_document(digest, &mut self.dirty);
            }
        }
    }

    /// Remembers which service a document came from, to write its parts again when one is lost.
    pub(crate) fn note_document(&mut self, digest: &tamis_config::Digest, service: &ServiceKey) {
        self.index.note_document(digest, service);
    }

    /// The names that are known of what a source tells of.
    fn known(&self, source: &Source) -> Vec<ObjectName> {
        let within = |name: &&ObjectName| source.namespace.as_ref().is_none_or(|ns| *ns == name.namespace);
        match &source.watched {
            Watched::Kind(kind) => {
                self.objects.get(kind).into_iter().flat_map(HashMap::keys).filter(within).cloned().collect()
            }
            Watched::Configs => self.configs.names().filter(within).cloned().collect(),
            Watched::Secrets => source.namespace.as_deref().map(|ns| self.secrets.names(ns)).unwrap_or_default(),
            Watched::Shards => self.shards.keys().filter(within).cloned().collect(),
            Watched::Namespaces => {
                let name = |name: &String| ObjectName { namespace: String::new(), name: name.clone() };
                self.namespaces.keys().map(name).collect()
            }
        }
    }
}

/// The name of the object that holds a group's shard.
pub(crate) fn shard_name(group: &ObjectName, shard: usize) -> ObjectName {
    ObjectName { namespace: group.namespace.clone(), name: names::credentials_secret(&group.name, shard) }
}

fn named(object: &DynamicObject) -> ObjectName {
    ObjectName {
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
    }
}
