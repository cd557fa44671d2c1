//! The state of the cluster as the watches report it, and the work that each change leads to. Pure: changes and
//! instants come in, and marks are the only result.

mod config_maps;
mod configs;
mod dirty;
#[cfg(test)]
pub(crate) mod fixture;
mod index;
mod invalidation;
mod object;
mod secrets;
mod source_quota;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::DynamicObject;
use tamis_config::{CredentialHandle, names};
use tamis_crds::ObjectName;
use tamis_crds::cluster::SecretRole;

pub(crate) use config_maps::ConfigMapStore;
pub(crate) use configs::{Changed, ConfigObject, ConfigStore, Held, is_older};
pub(crate) use dirty::{Dirty, Scope};
pub(crate) use index::Members;
pub(crate) use object::{Object, ServiceKey};
pub(crate) use secrets::SecretStore;

use crate::object::{Kind, ObjectKey};
use crate::quota::{Exceeded, Quotas};
use crate::watch::{Change, Source, Watched};
use crate::watched_object::{Packed, WatchedObject};

/// The facts about a namespace that compilation depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamespaceFacts {
    pub(crate) labels: BTreeMap<String, String>,
    /// Whether the namespace is being deleted: its objects go in any order.
    pub(crate) terminating: bool,
}

/// The state of the cluster as the operator knows it, and the work that its changes lead to.
#[derive(Default)]
pub(crate) struct ClusterState {
    objects: BTreeMap<Kind, HashMap<ObjectName, Arc<Object>>>,
    index: index::Index,
    pub(crate) configs: ConfigStore,
    pub(crate) secrets: SecretStore,
    pub(crate) config_maps: ConfigMapStore,
    /// The services whose compilation asked for each Secret.
    secret_users: HashMap<ObjectName, BTreeSet<ServiceKey>>,
    /// The Secrets that the compilation of each service asked for.
    asked: HashMap<ServiceKey, BTreeSet<ObjectName>>,
    /// The credential shards of groups, with their content.
    pub(crate) shards: HashMap<ObjectName, Arc<Secret>>,
    /// The `resourceVersion` of each Secret with a group's token or keys.
    own_secrets: HashMap<ObjectName, String>,
    namespaces: HashMap<String, NamespaceFacts>,
    /// Namespaces that the operator may not read. `None` stands for all.
    hidden: BTreeSet<Option<String>>,
    /// Deleted default filter sets.
    gone: HashMap<ObjectName, Gone>,
    pub(crate) dirty: Dirty,
    /// The group of expositions that name none.
    pub(crate) default_group: Option<ObjectName>,
    /// The namespaces that the operator reconciles. All if empty. Nothing is known about other namespaces, so an
    /// unknown object there may exist.
    scope: BTreeSet<String>,
    /// Whether the set of required watches may have changed.
    pub(crate) watches_changed: bool,
    /// The quota of source bytes of each namespace.
    source_quota: source_quota::SourceQuota,
}

/// A deleted default filter set.
#[derive(Debug, Clone)]
struct Gone {
    since: Instant,
    service: ServiceKey,
}

impl std::fmt::Debug for ClusterState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Shards hold values.
        f.debug_struct("ClusterState").field("dirty", &self.dirty).finish_non_exhaustive()
    }
}

impl ClusterState {
    /// Creates an empty state. `scope`: the namespaces that the operator reconciles; all if empty.
    pub(crate) fn new(default_group: Option<ObjectName>, scope: &[String], quotas: Quotas) -> Self {
        let source_quota = source_quota::SourceQuota::new(quotas.source_bytes);
        let scope = scope.iter().cloned().collect();
        Self { default_group, scope, watches_changed: true, source_quota, ..Self::default() }
    }

    /// Returns what to list again, since refused objects may fit into their quota now.
    pub(crate) fn sources_to_relist(&mut self, now: Instant) -> BTreeSet<Watched> {
        self.source_quota.sources_to_relist(now)
    }

    /// Returns whether the operator reconciles a namespace, so that an object that it does not know does not exist.
    pub(crate) fn is_in_scope(&self, namespace: &str) -> bool {
        self.scope.is_empty() || self.scope.contains(namespace)
    }

    /// Returns an object of one of Tamis' kinds.
    pub(crate) fn get(&self, kind: Kind, name: &ObjectName) -> Option<&Arc<Object>> {
        self.objects.get(&kind)?.get(name)
    }

    /// Returns all objects of a kind.
    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.get(&kind).into_iter().flat_map(HashMap::values)
    }

    /// Returns the objects that describe, bind to or publish a service.
    pub(crate) fn members(&self, service: &ServiceKey) -> Option<&Members> {
        self.index.members(service)
    }

    /// Returns the expositions that name a ConfigurationPlan.
    pub(crate) fn users_of_plan(&self, plan: &ObjectName) -> BTreeSet<ObjectName> {
        self.index.users_of_plan(plan)
    }

    /// Returns the unusable objects.
    pub(crate) fn unusable(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.index.unusable().filter_map(|key| self.get(key.kind, &key.name))
    }

    /// Returns the known facts about a namespace.
    pub(crate) fn namespace(&self, name: &str) -> Option<&NamespaceFacts> {
        self.namespaces.get(name)
    }

    /// Returns whether the operator may read a namespace.
    pub(crate) fn may_read_namespace(&self, name: &str) -> bool {
        !self.hidden.contains(&None) && !self.hidden.contains(&Some(name.to_owned()))
    }

    /// Returns whether there is a namespace that the operator may not read.
    pub(crate) fn hides_namespaces(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Returns the namespaces with objects that name Secrets.
    pub(crate) fn namespaces_with_secrets(&self) -> BTreeSet<String> {
        self.index.namespaces_with_secrets()
    }

    /// Returns the namespaces with manifests that name ConfigMaps.
    pub(crate) fn namespaces_with_config_maps(&self) -> BTreeSet<String> {
        self.index.namespaces_with_config_maps()
    }

    /// Returns the namespaces whose manifests name ConfigMaps, none of which is known yet.
    pub(crate) fn namespaces_awaiting_config_maps(&self) -> BTreeSet<String> {
        let mut namespaces = self.index.namespaces_with_config_maps();
        namespaces.retain(|namespace| !self.config_maps.knows(namespace));
        namespaces
    }

    /// Applies a change, and marks the work that it leads to.
    pub(crate) fn apply(&mut self, source: &Source, change: Change, now: Instant) {
        match (&source.watched, change) {
            (_, Change::Forbidden) => self.forbidden(source),
            (watched, Change::Applied(object)) => self.applied(watched, &object),
            (watched, Change::Deleted(object)) => {
                let (name, uid) = (named(&object), object.metadata.uid.as_deref());
                self.deleted(watched, &name, uid, now);
            }
            (watched, Change::Listed(objects)) => {
                let there: BTreeSet<ObjectName> = objects.iter().map(|object| named(object)).collect();
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
                if let Watched::ConfigMaps = watched
                    && let Some(namespace) = &source.namespace
                    && self.config_maps.permit(namespace)
                {
                    self.mark_users_of_config_maps(namespace);
                }
                if let Watched::Namespaces = watched
                    && self.hidden.remove(&source.namespace)
                {
                    self.mark_groups();
                }
                objects.iter().for_each(|object| self.applied(watched, object));
            }
        }
    }

    /// Applies the API server's answer to a write. The watch may be ahead of it: an answer restores no deleted object,
    /// and replaces no other object of the same name.
    pub(crate) fn on_write_answered(&mut self, kind: Kind, object: &DynamicObject) {
        let known = self.get(kind, &named(object));
        if known.is_some_and(|known| Some(&known.uid) == object.metadata.uid.as_ref()) {
            self.object_applied(kind, object, None);
        }
    }

    /// Returns since when a filter set that a served document names is gone. Returns `None` if it exists.
    pub(crate) fn gone_since(&mut self, set: &str, service: &ServiceKey, now: Instant) -> Option<Instant> {
        let (namespace, name) = set.split_once('/')?;
        let name = ObjectName { namespace: namespace.to_owned(), name: name.to_owned() };
        if self.get(Kind::ToolsFilters, &name).is_some() {
            return None;
        }
        // Only a document of a former leader names the set: it may have gone a moment ago.
        Some(self.gone.entry(name).or_insert_with(|| Gone { since: now, service: service.clone() }).since)
    }

    /// Returns the deleted default sets of a service, and since when each is gone.
    pub(crate) fn gone_of(&self, service: &ServiceKey) -> Vec<(String, Instant)> {
        let gone = self.gone.iter().filter(|(_, gone)| gone.service == *service);
        gone.map(|(name, gone)| (name.to_string(), gone.since)).collect()
    }

    /// Forgets sets that went before `gone_before`, and facts that nothing refers to any more.
    pub(crate) fn forget(&mut self, gone_before: Instant) {
        let namespaces = &self.namespaces;
        let terminating = |namespace: &str| namespaces.get(namespace).is_some_and(|facts| facts.terminating);
        self.gone.retain(|name, gone| gone.since > gone_before || terminating(&name.namespace));
        let used = self.configs.used_services();
        self.index.forget_documents(|digest| used.contains(digest));
        let unused: Vec<_> = self.asked.keys().filter(|key| self.members(key).is_none()).cloned().collect();
        for key in unused {
            self.note_secrets(&key, &BTreeSet::new(), true);
        }
        let users = &self.secret_users;
        self.secrets.forget_probes(|name| users.contains_key(name));
    }

    /// Forgets the Secrets of a source that is not watched any more.
    pub(crate) fn forget_source(&mut self, source: &Source) {
        let Some(namespace) = &source.namespace else { return };
        match source.watched {
            Watched::Secrets => {
                for name in self.secrets.names(namespace) {
                    self.secrets.remove(&name);
                }
            }
            Watched::ConfigMaps => {
                self.drop_config_maps(namespace);
                self.config_maps.forget(namespace);
            }
            Watched::GroupSecrets => {
                self.shards.retain(|name, _| name.namespace != *namespace);
                self.own_secrets.retain(|name, _| name.namespace != *namespace);
            }
            Watched::Kind(_) | Watched::Configs | Watched::Namespaces => {}
        }
    }

    /// Records which Secrets the compilation of a service asked for. `whole`: they are those of all its expositions,
    /// and replace the earlier ones.
    pub(crate) fn note_secrets(&mut self, service: &ServiceKey, secrets: &BTreeSet<ObjectName>, whole: bool) {
        let asked = self.asked.entry(service.clone()).or_default();
        for name in secrets.difference(asked) {
            self.secret_users.entry(name.clone()).or_default().insert(service.clone());
        }
        if !whole {
            asked.extend(secrets.iter().cloned());
            return;
        }
        for name in asked.difference(secrets) {
            if let Some(users) = self.secret_users.get_mut(name) {
                users.remove(service);
                if users.is_empty() {
                    self.secret_users.remove(name);
                }
            }
        }
        *asked = secrets.clone();
        if secrets.is_empty() {
            self.asked.remove(service);
        }
    }

    /// Returns whether an exposition does not exist, as opposed to being outside the operator's namespaces.
    pub(crate) fn is_gone(&self, exposition: &ObjectName) -> bool {
        self.is_in_scope(&exposition.namespace) && self.get(Kind::Exposition, exposition).is_none()
    }

    fn applied(&mut self, watched: &Watched, object: &WatchedObject) {
        match watched {
            Watched::Kind(kind) => self.object_applied(*kind, object, object.spec()),
            Watched::Configs => {
                if let Some(config) = ConfigObject::read(object) {
                    let changed = self.configs.put(config);
                    self.configs_changed(&changed);
                }
            }
            Watched::Secrets => {
                let Ok(secret) = DynamicObject::clone(object).try_parse::<Secret>() else { return };
                let name = named(object);
                let before = self.secrets.role(&name);
                if self.secrets.put(name.clone(), &secret) {
                    match (before, self.secrets.role(&name)) {
                        (Some(SecretRole::Callers), Some(SecretRole::Callers)) => self.callers_changed(&name),
                        _ => self.secret_changed(&name),
                    }
                }
            }
            Watched::ConfigMaps => {
                if let Ok(map) = DynamicObject::clone(object).try_parse::<ConfigMap>() {
                    self.config_map_applied(&named(object), map);
                }
            }
            Watched::GroupSecrets => {
                let name = named(object);
                if let Some(group) = group_of_own_secret(&name) {
                    let version = object.metadata.resource_version.clone().unwrap_or_default();
                    if self.own_secrets.insert(name, version.clone()) != Some(version) {
                        self.dirty.groups.insert(group);
                    }
                } else if let Ok(secret) = DynamicObject::clone(object).try_parse::<Secret>() {
                    self.shard_applied(&name, secret);
                }
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

    /// Stores a shard, from the watch or from the answer to a write.
    pub(crate) fn shard_applied(&mut self, name: &ObjectName, secret: Secret) {
        let version = |secret: &Secret| secret.metadata.resource_version.clone().unwrap_or_default();
        let before = self.shards.get(name);
        if before.is_some_and(|before| {
            before.metadata.uid == secret.metadata.uid && is_older(&version(&secret), &version(before))
        }) {
            return;
        }
        let before = self.shards.insert(name.clone(), Arc::new(secret));
        let after = self.shards.get(name).cloned();
        self.shard_lost(&name.namespace, before.as_deref(), after.as_deref());
    }

    /// Marks the expositions whose values a shard has lost, or holds with another content. Scans all documents, but
    /// only if another writer has changed a shard: the operator itself removes only unused values.
    fn shard_lost(&mut self, namespace: &str, before: Option<&Secret>, after: Option<&Secret>) {
        let data = |secret: Option<&'_ Secret>| secret.and_then(|secret| secret.data.clone()).unwrap_or_default();
        let after = data(after);
        let lost = data(before).into_iter().filter(|(handle, value)| after.get(handle) != Some(value));
        let lost: BTreeSet<_> = lost
            .map(|(handle, _)| CredentialHandle(handle))
            .filter(|handle| self.configs.uses_credential(namespace, handle))
            .collect();
        for id in self.configs.users_of_credentials(namespace, &lost) {
            self.mark_config(&id);
        }
    }

    fn object_applied(&mut self, kind: Kind, object: &DynamicObject, packed: Option<&Arc<Packed>>) {
        let key = ObjectKey { kind, name: named(object) };
        let before = self.get(kind, &key.name).cloned();
        let Some(read) = Object::read(kind, object, packed, before.as_deref()) else { return };
        if let Some(before) = &before
            && before.uid == read.uid
            && is_older(&read.resource_version, &before.resource_version)
        {
            return;
        }
        let held = before.as_ref().map_or(0, |before| before.bytes);
        let read = match self.source_quota.grant(&Watched::Kind(kind), &key.name.namespace, held, read.bytes) {
            true => read,
            false => read.refuse(Exceeded::SourceBytes(self.source_quota.limit())),
        };
        let same_spec = before
            .as_ref()
            .is_some_and(|b| b.uid == read.uid && b.generation == read.generation && b.deleting == read.deleting);
        let same_spec = same_spec
            && before.as_ref().is_some_and(|before| before.paused == read.paused && before.refused == read.refused);
        self.dirty.status.insert(key.clone());
        let read = Arc::new(read);
        if same_spec {
            self.objects.entry(kind).or_default().insert(key.name, read);
            return;
        }
        self.watches_changed |= watches(&read) || before.as_deref().is_some_and(watches);
        if let Some(before) = &before {
            self.touched(before);
            self.index.unlink(before, self.default_group.as_ref());
        }
        self.objects.entry(kind).or_default().insert(key.name, Arc::clone(&read));
        self.index.link(&read, self.default_group.as_ref());
        self.touched(&read);
        if let (Kind::GatewayGroup, Some(before)) = (kind, &before)
            && may_stop(before, &read)
        {
            let users = self.index.users_of_group(&read.key.name);
            self.mark_edited(users);
        }
        if kind == Kind::ToolsFilters {
            self.gone.remove(&read.key.name);
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
                self.source_quota.grant(watched, &name.namespace, before.bytes, 0);
                self.index.unlink(&before, self.default_group.as_ref());
                self.touched(&before);
                self.watches_changed |= watches(&before);
                let set = before.resources.filters.first().filter(|set| set.spec.name.is_none());
                if let Some(service) = set.and_then(|_| before.services().pop()) {
                    self.gone.insert(name.clone(), Gone { since: now, service });
                }
            }
            Watched::Configs => {
                let changed = self.configs.remove(name, uid);
                self.configs_changed(&changed);
            }
            Watched::Secrets => {
                if self.secrets.remove(name) {
                    self.secret_changed(name);
                }
            }
            Watched::ConfigMaps => {
                if self.config_map_dropped(name) {
                    self.config_map_changed(name);
                }
            }
            Watched::GroupSecrets => {
                if self.own_secrets.remove(name).is_some() {
                    self.dirty.groups.extend(group_of_own_secret(name));
                }
                let before = self.shards.get(name).cloned();
                if uid.is_none_or(|uid| before.as_ref().and_then(|b| b.metadata.uid.as_deref()) == Some(uid)) {
                    self.shards.remove(name);
                    self.shard_lost(&name.namespace, before.as_deref(), None);
                }
            }
            Watched::Namespaces => drop(self.namespaces.remove(&name.name)),
        }
    }

    fn forbidden(&mut self, source: &Source) {
        if let Watched::Namespaces = source.watched
            && self.hidden.insert(source.namespace.clone())
        {
            // The labels may have changed by now, and the old ones must not keep admitting expositions.
            for name in self.known(source) {
                self.namespaces.remove(&name.name);
            }
            let hidden = |namespace: &String| source.namespace.as_ref().is_none_or(|name| name == namespace);
            for namespace in self.index.namespaces().into_iter().filter(hidden) {
                self.mark_namespace(&namespace);
            }
            self.mark_groups();
        }
        if let (Watched::Secrets, Some(namespace)) = (&source.watched, &source.namespace)
            && self.secrets.forbid(namespace)
        {
            self.mark_namespace(namespace);
        }
        if let (Watched::ConfigMaps, Some(namespace)) = (&source.watched, &source.namespace)
            && self.config_maps.forbid(namespace)
        {
            // What the owner has taken back is not kept.
            self.drop_config_maps(namespace);
            self.mark_users_of_config_maps(namespace);
        }
    }

    /// Stores a ConfigMap that the quota of its namespace admits.
    fn config_map_applied(&mut self, name: &ObjectName, object: ConfigMap) {
        let held = self.config_maps.bytes(name);
        let Some(map) = config_maps::read(name, object) else {
            if self.config_map_dropped(name) {
                self.config_map_changed(name);
            }
            return;
        };
        let is_granted = self.source_quota.grant(&Watched::ConfigMaps, &name.namespace, held, map.bytes());
        let is_changed = match is_granted {
            true => self.config_maps.put(map),
            false => {
                let exceeded = Exceeded::SourceBytes(self.source_quota.limit());
                self.config_maps.refuse(name.clone(), exceeded.what())
            }
        };
        if is_changed {
            self.config_map_changed(name);
        }
    }

    /// Removes a ConfigMap. Returns whether it was known.
    fn config_map_dropped(&mut self, name: &ObjectName) -> bool {
        self.source_quota.grant(&Watched::ConfigMaps, &name.namespace, self.config_maps.bytes(name), 0);
        self.config_maps.remove(name)
    }

    fn drop_config_maps(&mut self, namespace: &str) {
        for name in self.config_maps.names(namespace) {
            self.config_map_dropped(&name);
        }
    }

    /// Records which service a document came from, so that a lost part is written again.
    pub(crate) fn note_document(&mut self, digest: &tamis_config::Digest, service: &ServiceKey) {
        self.index.note_document(digest, service);
    }

    /// Returns the names of the known objects of a source.
    fn known(&self, source: &Source) -> Vec<ObjectName> {
        let within = |name: &&ObjectName| source.namespace.as_ref().is_none_or(|ns| *ns == name.namespace);
        match &source.watched {
            Watched::Kind(kind) => {
                self.objects.get(kind).into_iter().flat_map(HashMap::keys).filter(within).cloned().collect()
            }
            Watched::Configs => self.configs.names().filter(within).cloned().collect(),
            Watched::Secrets => source.namespace.as_deref().map(|ns| self.secrets.names(ns)).unwrap_or_default(),
            Watched::ConfigMaps => source.namespace.as_deref().map(|ns| self.config_maps.names(ns)).unwrap_or_default(),
            Watched::GroupSecrets => {
                self.shards.keys().chain(self.own_secrets.keys()).filter(within).cloned().collect()
            }
            Watched::Namespaces => {
                let name = |name: &String| ObjectName { namespace: String::new(), name: name.clone() };
                let within = |name: &&String| source.namespace.as_ref().is_none_or(|one| one == *name);
                self.namespaces.keys().filter(within).map(name).collect()
            }
        }
    }
}

/// Returns whether an edit of a group may stop expositions: its requirements, namespaces, egress or ceilings have
/// changed.
fn may_stop(before: &Object, after: &Object) -> bool {
    let limits = |object: &Object| {
        let spec = &object.resources.groups.first()?.spec;
        let ceilings = (spec.response_ceiling(), spec.timeout_ceiling_ms());
        Some((spec.require, spec.allowed_namespaces.clone(), spec.egress.clone(), ceilings))
    };
    limits(before) != limits(after)
}

/// Returns whether an object affects which Secrets and ConfigMaps are watched.
fn watches(object: &Object) -> bool {
    object.names_secrets || object.config_maps().next().is_some() || object.key.kind == Kind::GatewayGroup
}

/// Returns the name of the Secret of a group's shard.
pub(crate) fn shard_name(group: &ObjectName, shard: usize) -> ObjectName {
    ObjectName { namespace: group.namespace.clone(), name: names::credentials_secret(&group.name, shard) }
}

/// Returns the group whose token or keys a Secret of this name holds.
fn group_of_own_secret(secret: &ObjectName) -> Option<ObjectName> {
    let name = names::group_of_own_secret(&secret.name)?.to_owned();
    Some(ObjectName { namespace: secret.namespace.clone(), name })
}

fn named(object: &DynamicObject) -> ObjectName {
    ObjectName {
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
    }
}
