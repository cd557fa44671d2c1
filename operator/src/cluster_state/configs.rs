//! The GatewayConfigs of the cluster.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use kube::api::{DynamicObject, ObjectMeta};
use tamis_config::carrier::decode_exposition;
use tamis_config::{CredentialHandle, Digest, ExpositionId, ExpositionPayload, GatewayConfigSpec, PayloadKind, names};
use tamis_crds::ObjectName;

use super::object::is_managed;

/// A GatewayConfig as the operator last saw it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfigObject {
    pub(crate) name: ObjectName,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    /// Whether a Tamis operator wrote it, by its label.
    pub(crate) is_managed: bool,
    /// The uid of the GatewayGroup that owns it.
    pub(crate) owner: Option<String>,
    /// `None` if it cannot be read: then it has to be written again.
    pub(crate) spec: Option<GatewayConfigSpec>,
    /// The exposition that its labels name, if it cannot be read.
    pub(crate) labelled: Option<ExpositionId>,
    /// The last readable version, if it cannot be read any more: gateways still serve that version.
    pub(crate) last: Option<GatewayConfigSpec>,
}

impl ConfigObject {
    /// Reads an object from the API.
    pub(crate) fn read(object: &DynamicObject) -> Option<Self> {
        let spec = object.data.get("spec").and_then(|spec| serde_json::from_value(spec.clone()).ok());
        Self::new(&object.metadata, spec)
    }

    pub(crate) fn new(metadata: &ObjectMeta, mut spec: Option<GatewayConfigSpec>) -> Option<Self> {
        if let Some(spec) = &mut spec {
            complete(spec);
        }
        let owners = metadata.owner_references.iter().flatten();
        let owner = owners.filter(|owner| owner.kind == "GatewayGroup").map(|owner| owner.uid.clone()).next();
        let labelled = if spec.is_none() { labelled(metadata) } else { None };
        Some(Self {
            name: ObjectName { namespace: metadata.namespace.clone()?, name: metadata.name.clone()? },
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            is_managed: is_managed(metadata.labels.as_ref()),
            owner,
            spec,
            labelled,
            last: None,
        })
    }

    fn exposition(&self) -> Option<&ExpositionId> {
        match &self.spec {
            Some(spec) => spec.exposition.as_ref().filter(|_| spec.kind == PayloadKind::Exposition),
            None => self.labelled.as_ref(),
        }
    }

    /// Returns the group whose gateways load it.
    pub(crate) fn group(&self) -> Option<ObjectName> {
        let name = self.last_readable()?.gateway_group.clone();
        Some(ObjectName { namespace: self.name.namespace.clone(), name })
    }

    /// Returns the current spec, or the last readable one.
    pub(crate) fn last_readable(&self) -> Option<&GatewayConfigSpec> {
        self.spec.as_ref().or(self.last.as_ref())
    }

    /// Returns the length of the payload in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.last_readable().map_or(0, |spec| spec.data.len())
    }

    fn service(&self) -> Option<&Digest> {
        self.spec.as_ref().filter(|spec| spec.kind == PayloadKind::Service).map(|spec| &spec.digest)
    }
}

/// Returns the exposition that the labels of a managed object name.
fn labelled(metadata: &ObjectMeta) -> Option<ExpositionId> {
    let labels = metadata.labels.as_ref().filter(|labels| is_managed(Some(labels)))?;
    let label = |name: &str| labels.get(name).cloned();
    Some(ExpositionId { namespace: label(names::EXPOSITION_NAMESPACE_LABEL)?, name: label(names::EXPOSITION_LABEL)? })
}

/// Fills in the service and the credentials that the payload names, if the API server has dropped the fields: a CRD of
/// an older version does not know them, and objects in use would be taken for unused.
fn complete(spec: &mut GatewayConfigSpec) {
    if spec.kind != PayloadKind::Exposition || spec.service.is_some() {
        return;
    }
    match decode_exposition(spec) {
        Ok(ExpositionPayload::Serve(document)) => {
            spec.credentials = document.handles();
            spec.service = Some(document.service);
        }
        Ok(ExpositionPayload::Bundle(document)) => spec.credentials = document.handle().cloned().into_iter().collect(),
        Ok(ExpositionPayload::Stop(_)) | Err(_) => {}
    }
}

/// The expositions and services that a change of the store affects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Expositions whose object has changed.
    pub(crate) expositions: Vec<ExpositionId>,
    /// Service documents of a namespace that lost or changed a part.
    pub(crate) services: Vec<(String, Digest)>,
}

/// All GatewayConfigs, indexed by what they use.
#[derive(Debug, Default)]
pub(crate) struct ConfigStore {
    objects: HashMap<ObjectName, Arc<ConfigObject>>,
    expositions: HashMap<ExpositionId, BTreeSet<ObjectName>>,
    services: HashMap<(String, Digest), BTreeSet<ObjectName>>,
    service_users: HashMap<(String, Digest), usize>,
    credential_users: HashMap<(String, CredentialHandle), Users>,
    held: HashMap<String, Held>,
}

/// The documents that name a credential value.
#[derive(Debug)]
struct Users {
    count: usize,
    /// The namespace of the expositions: a Secret is used in its own namespace only.
    namespace: String,
}

/// The part of all GatewayConfigs that belongs to a namespace's expositions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// The number of objects.
    pub(crate) documents: usize,
    /// Bytes of their payloads, as the API stores them.
    pub(crate) bytes: usize,
}

impl ConfigStore {
    pub(crate) fn get(&self, name: &ObjectName) -> Option<&Arc<ConfigObject>> {
        self.objects.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &ObjectName> {
        self.objects.keys()
    }

    /// Returns all objects of an exposition.
    pub(crate) fn of_exposition(&self, id: &ExpositionId) -> Vec<Arc<ConfigObject>> {
        self.expositions.get(id).into_iter().flatten().filter_map(|name| self.get(name).cloned()).collect()
    }

    /// Returns all parts of a service document in a namespace.
    pub(crate) fn of_service(&self, namespace: &str, digest: &Digest) -> Vec<Arc<ConfigObject>> {
        let names = self.services.get(&(namespace.to_owned(), digest.clone()));
        names.into_iter().flatten().filter_map(|name| self.get(name).cloned()).collect()
    }

    /// Returns whether an exposition's object in the namespace names the service document.
    pub(crate) fn uses_service(&self, namespace: &str, digest: &Digest) -> bool {
        self.service_users.contains_key(&(namespace.to_owned(), digest.clone()))
    }

    /// Returns whether an exposition's object in the namespace names the value.
    pub(crate) fn uses_credential(&self, namespace: &str, handle: &CredentialHandle) -> bool {
        self.credential_users.contains_key(&(namespace.to_owned(), handle.clone()))
    }

    /// Returns the namespace of the expositions whose objects in the group's namespace name the value.
    pub(crate) fn credential_user(&self, namespace: &str, handle: &CredentialHandle) -> Option<&str> {
        let users = self.credential_users.get(&(namespace.to_owned(), handle.clone()))?;
        Some(&users.namespace)
    }

    /// Returns what the objects of a namespace's expositions take up, in all groups together.
    pub(crate) fn held(&self, namespace: &str) -> Held {
        self.held.get(namespace).copied().unwrap_or_default()
    }

    /// Returns the expositions whose objects in the namespace name one of the values. Scans all objects.
    pub(crate) fn users_of_credentials(
        &self,
        namespace: &str,
        handles: &BTreeSet<CredentialHandle>,
    ) -> Vec<ExpositionId> {
        if handles.is_empty() {
            return Vec::new();
        }
        let there = self.objects.values().filter(|object| object.name.namespace == namespace);
        let naming = there.filter(|object| {
            object.last_readable().is_some_and(|spec| spec.credentials.iter().any(|handle| handles.contains(handle)))
        });
        naming.filter_map(|object| object.exposition().cloned()).collect()
    }

    /// Returns the service documents that an exposition's object names.
    pub(crate) fn used_services(&self) -> BTreeSet<Digest> {
        self.service_users.keys().map(|(_, digest)| digest.clone()).collect()
    }

    /// Returns the service documents that no exposition's object names.
    pub(crate) fn unused_services(&self) -> Vec<(String, Digest)> {
        self.services.keys().filter(|key| !self.service_users.contains_key(key)).cloned().collect()
    }

    /// Returns the expositions that have an object.
    pub(crate) fn exposition_ids(&self) -> impl Iterator<Item = &ExpositionId> {
        self.expositions.keys()
    }

    /// Stores an object. A version older than the known one is ignored: the answer to a write may arrive before the
    /// watch delivers an earlier version.
    pub(crate) fn put(&mut self, mut object: ConfigObject) -> Changed {
        let before = self.objects.get(&object.name).cloned();
        if let Some(before) = before.as_deref().filter(|before| before.uid == object.uid && object.spec.is_none()) {
            object.last = before.last_readable().cloned();
        }
        if let Some(before) = &before {
            let older = before.uid == object.uid && is_older(&object.resource_version, &before.resource_version);
            if older || **before == object {
                return Changed::default();
            }
        }
        let changed = changed(before.as_deref(), Some(&object));
        if let Some(before) = &before {
            self.unlink(before);
        }
        self.link(&object);
        self.objects.insert(object.name.clone(), Arc::new(object));
        changed
    }

    /// Removes an object, unless another object has the name by now.
    pub(crate) fn remove(&mut self, name: &ObjectName, uid: Option<&str>) -> Changed {
        let Some(before) = self.objects.get(name).filter(|o| uid.is_none_or(|uid| uid == o.uid)).cloned() else {
            return Changed::default();
        };
        self.objects.remove(name);
        self.unlink(&before);
        changed(Some(&before), None)
    }

    fn link(&mut self, object: &ConfigObject) {
        let namespace = || object.name.namespace.clone();
        if let Some(id) = object.exposition() {
            self.expositions.entry(id.clone()).or_default().insert(object.name.clone());
            let spec = object.last_readable().into_iter();
            for digest in spec.clone().filter_map(|spec| spec.service.as_ref()) {
                *self.service_users.entry((namespace(), digest.clone())).or_default() += 1;
            }
            for handle in spec.flat_map(|spec| &spec.credentials) {
                let users = self.credential_users.entry((namespace(), handle.clone()));
                users.or_insert_with(|| Users { count: 0, namespace: id.namespace.clone() }).count += 1;
            }
            let held = self.held.entry(id.namespace.clone()).or_default();
            held.documents += 1;
            held.bytes += object.bytes();
        }
        if let Some(digest) = object.service() {
            self.services.entry((namespace(), digest.clone())).or_default().insert(object.name.clone());
        }
    }

    fn unlink(&mut self, object: &ConfigObject) {
        let namespace = || object.name.namespace.clone();
        if let Some(id) = object.exposition() {
            leave(&mut self.expositions, id, &object.name);
            let spec = object.last_readable().into_iter();
            for digest in spec.clone().filter_map(|spec| spec.service.as_ref()) {
                count_down(&mut self.service_users, &(namespace(), digest.clone()));
            }
            for handle in spec.flat_map(|spec| &spec.credentials) {
                let key = (namespace(), handle.clone());
                if let Some(users) = self.credential_users.get_mut(&key) {
                    users.count -= 1;
                    if users.count == 0 {
                        self.credential_users.remove(&key);
                    }
                }
            }
            if let Some(held) = self.held.get_mut(&id.namespace) {
                held.documents -= 1;
                held.bytes -= object.bytes();
                if held.documents == 0 {
                    self.held.remove(&id.namespace);
                }
            }
        }
        if let Some(digest) = object.service() {
            leave(&mut self.services, &(namespace(), digest.clone()), &object.name);
        }
    }
}

fn changed(before: Option<&ConfigObject>, after: Option<&ConfigObject>) -> Changed {
    let both = || [before, after].into_iter().flatten();
    let mut expositions: Vec<_> = both().filter_map(|o| o.exposition().cloned()).collect();
    expositions.dedup();
    let mut services: Vec<_> = both().filter_map(|o| Some((o.name.namespace.clone(), o.service()?.clone()))).collect();
    services.dedup();
    Changed { expositions, services }
}

fn leave<K: Eq + Hash>(map: &mut HashMap<K, BTreeSet<ObjectName>>, key: &K, name: &ObjectName) {
    if let Some(names) = map.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            map.remove(key);
        }
    }
}

fn count_down<K: Eq + Hash>(map: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = map.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            map.remove(key);
        }
    }
}

/// Returns whether a `resourceVersion` of an object is older than another. Versions that are not numbers have no order.
pub(crate) fn is_older(version: &str, than: &str) -> bool {
    matches!((version.parse::<u64>(), than.parse::<u64>()), (Ok(a), Ok(b)) if a < b)
}

#[cfg(test)]
mod tests {
    use tamis_config::carrier::encode_exposition;
    use tamis_config::{ExpositionPayload, Reason, StopDocument};

    use super::*;

    fn id(name: &str) -> ExpositionId {
        ExpositionId { namespace: "team".to_owned(), name: name.to_owned() }
    }

    fn object(name: &str, version: &str, service: &str) -> ConfigObject {
        let stop =
            StopDocument { format_version: 1, id: id(name), reason: Reason::Stopped, message: version.to_owned() };
        let mut spec = encode_exposition("g", &ExpositionPayload::Stop(stop)).expect("is small");
        spec.service = Some(Digest(service.to_owned()));
        ConfigObject {
            name: ObjectName { namespace: "gw".to_owned(), name: name.to_owned() },
            uid: "u".to_owned(),
            resource_version: version.to_owned(),
            is_managed: true,
            owner: None,
            spec: Some(spec),
            labelled: None,
            last: None,
        }
    }

    #[test]
    fn an_object_that_becomes_unreadable_keeps_its_exposition_and_its_references() {
        let mut store = ConfigStore::default();
        let readable = object("a", "1", "one");
        store.put(readable.clone());
        for version in ["2", "3"] {
            let resource_version = version.to_owned();
            let spoilt = ConfigObject { spec: None, labelled: Some(id("a")), resource_version, ..readable.clone() };
            assert_eq!(store.put(spoilt).expositions, [id("a")], "version {version}");
            let object = store.get(&readable.name).expect("is there");
            assert!(object.spec.is_none());
            assert_eq!(object.last_readable(), readable.spec.as_ref());
            assert!(store.uses_service("gw", &Digest("one".to_owned())));
            assert_eq!(store.of_exposition(&id("a")).len(), 1);
        }
        // Another object of the same name has no last readable version.
        let another = ConfigObject { uid: "v".to_owned(), spec: None, ..object("a", "4", "one") };
        store.put(another);
        assert_eq!(store.get(&readable.name).expect("is there").last_readable(), None);
        assert!(!store.uses_service("gw", &Digest("one".to_owned())));
    }

    #[test]
    fn the_labels_name_the_exposition_of_an_unreadable_object() {
        let labels = |manager: &str| {
            let all = [
                ("app.kubernetes.io/managed-by", manager),
                (names::EXPOSITION_LABEL, "a"),
                (names::EXPOSITION_NAMESPACE_LABEL, "team"),
            ];
            all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let of = |labels| {
            let (name, namespace) = (Some("x".to_owned()), Some("gw".to_owned()));
            let metadata = ObjectMeta { name, namespace, labels: Some(labels), ..ObjectMeta::default() };
            ConfigObject::new(&metadata, None).expect("has a name").exposition().cloned()
        };
        assert_eq!(of(labels(names::MANAGED_BY)), Some(id("a")));
        assert_eq!(of(labels("helm")), None);
        assert_eq!(of(std::collections::BTreeMap::new()), None);
    }

    #[test]
    fn ignores_versions_that_the_watch_delivers_late() {
        let mut store = ConfigStore::default();
        assert_eq!(store.put(object("a", "9", "one")).expositions, [id("a")]);
        assert_eq!(store.put(object("a", "10", "two")).expositions, [id("a")]);
        assert_eq!(store.put(object("a", "9", "one")), Changed::default());
        assert_eq!(store.put(object("a", "10", "two")), Changed::default());
        let name = object("a", "1", "").name;
        assert_eq!(store.remove(&name, Some("of one before")), Changed::default());
        assert_eq!(store.names().count(), 1);
        let recreated = ConfigObject { uid: "v".to_owned(), ..object("a", "3", "one") };
        assert_eq!(store.put(recreated).expositions, [id("a")]);
    }

    #[test]
    fn finds_the_expositions_that_use_a_value() {
        let mut store = ConfigStore::default();
        let handle = |text: &str| CredentialHandle(text.to_owned());
        for (name, value) in [("a", "one"), ("b", "two"), ("c", "one")] {
            let mut object = object(name, "1", "service");
            object.spec.as_mut().expect("is readable").credentials = vec![handle(value)];
            store.put(object);
        }
        let users = |namespace: &str, values: &[&str]| {
            let users = store.users_of_credentials(namespace, &values.iter().map(|value| handle(value)).collect());
            users.into_iter().collect::<BTreeSet<_>>()
        };
        assert_eq!(users("gw", &["one", "three"]), [id("a"), id("c")].into());
        assert_eq!(users("gw", &["three"]), [].into());
        assert_eq!(users("other", &["one"]), [].into());
    }

    #[test]
    fn a_service_is_used_as_long_as_one_object_names_it() {
        let mut store = ConfigStore::default();
        let used = |store: &ConfigStore, name: &str| store.uses_service("gw", &Digest(name.to_owned()));
        store.put(object("a", "1", "one"));
        store.put(object("b", "2", "one"));
        store.put(object("a", "3", "two"));
        assert!(used(&store, "one") && used(&store, "two"));
        store.remove(&object("b", "2", "one").name, Some("u"));
        assert!(!used(&store, "one") && used(&store, "two"));
        assert_eq!(store.of_exposition(&id("b")), []);
    }
}
