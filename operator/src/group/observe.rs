//! Watches the objects of groups and keeps them in stores.

use std::fmt::{self, Debug};
use std::future::ready;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::stream::{BoxStream, SelectAll};
use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::store::{Store, Writer};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tamis_config::{names, watch_backoff};
use tamis_crds::ObjectName;

use super::child::ChildKind;

/// A change of a group's objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change {
    /// An object of this group has changed: the group has to be reconciled.
    Children(ObjectName),
    /// A pod or a ReplicaSet of this group has changed: [`super::pods`] may return another result.
    Pods(ObjectName),
    /// A store was filled, at the start or after the API server was unavailable: anything may have changed.
    All,
}

/// The objects of groups as the watches deliver them. Clones share the stores.
#[derive(Clone)]
pub struct Observed {
    children: Vec<(ChildKind, Part<DynamicObject>)>,
    replica_sets: Vec<Part<PartialObjectMeta<ReplicaSet>>>,
    pods: Vec<Part<Pod>>,
}

/// The objects of one kind in one namespace, or in all.
#[derive(Clone)]
struct Part<K>
where
    K: Resource + Clone + 'static,
    <K as Resource>::DynamicType: Eq + Hash + Clone,
{
    /// The namespace. All namespaces if `None`.
    namespace: Option<String>,
    what: &'static str,
    dynamic: <K as Resource>::DynamicType,
    store: Store<K>,
    filled: Arc<AtomicBool>,
}

impl<K> Part<K>
where
    K: Resource + Clone + 'static,
    <K as Resource>::DynamicType: Eq + Hash + Clone,
{
    fn holds(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }

    fn waits(&self) -> Option<String> {
        let filled = self.filled.load(Ordering::Acquire);
        (!filled).then(|| match &self.namespace {
            Some(namespace) => format!("{} of groups in {namespace}", self.what),
            None => format!("{} of groups", self.what),
        })
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("waiting_for", &self.waiting_for()).finish_non_exhaustive()
    }
}

impl Observed {
    /// Returns the stores that have not been filled yet. Empty once all have been filled.
    #[must_use]
    pub fn waiting_for(&self) -> Vec<String> {
        let children = self.children.iter().filter_map(|(_, part)| part.waits());
        let sets = self.replica_sets.iter().filter_map(Part::waits);
        children.chain(sets).chain(self.pods.iter().filter_map(Part::waits)).collect()
    }

    /// Returns an object, if it has the labels of a group's objects.
    pub(super) fn get(&self, kind: ChildKind, namespace: &str, name: &str) -> Option<Arc<DynamicObject>> {
        let mut parts = self.children.iter().filter(|(k, part)| *k == kind && part.holds(namespace));
        parts.find_map(|(_, part)| part.store.get(&ObjectRef::new_with(name, part.dynamic.clone()).within(namespace)))
    }

    /// Returns all objects with a group's labels.
    pub(super) fn children_of(&self, group: &ObjectName) -> Vec<(ChildKind, Arc<DynamicObject>)> {
        let of =
            |part: &Part<DynamicObject>| part.store.state_filter(|object| group_of(object).as_ref() == Some(group));
        let parts = self.children.iter().filter(|(_, part)| part.holds(&group.namespace));
        parts.flat_map(|(kind, part)| of(part).into_iter().map(|object| (*kind, object))).collect()
    }

    pub(super) fn replica_sets_of(&self, group: &ObjectName) -> Vec<Arc<PartialObjectMeta<ReplicaSet>>> {
        let parts = self.replica_sets.iter().filter(|part| part.holds(&group.namespace));
        parts.flat_map(|part| part.store.state_filter(|set| group_of(set).as_ref() == Some(group))).collect()
    }

    pub(super) fn pods_of(&self, group: &ObjectName) -> Vec<Arc<Pod>> {
        let parts = self.pods.iter().filter(|part| part.holds(&group.namespace));
        parts.flat_map(|part| part.store.state_filter(|pod| group_of(pod).as_ref() == Some(group))).collect()
    }
}

/// Watches all objects of groups in `namespaces`, or in all namespaces if the list is empty. The stream has to be
/// polled to keep [`Observed`] up to date. It never ends, and reconnects by itself after an outage of the API server.
pub fn watch(client: &Client, namespaces: &[String]) -> (Observed, impl Stream<Item = Change> + Send + Unpin + use<>) {
    let scopes: Vec<Option<&String>> =
        if namespaces.is_empty() { vec![None] } else { namespaces.iter().map(Some).collect() };
    let mut observed = Observed { children: Vec::new(), replica_sets: Vec::new(), pods: Vec::new() };
    let mut streams = SelectAll::new();
    for scope in scopes {
        for kind in ChildKind::ALL {
            let resource = kind.api_resource();
            let api: Api<DynamicObject> = match scope {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => Api::all_with(client.clone(), &resource),
            };
            let (part, stream) = follow(api, scope, kind.as_str(), resource, |_| {}, Change::Children);
            observed.children.push((kind, part));
            streams.push(stream);
        }
        let sets = scope.map_or_else(|| Api::all(client.clone()), |ns| Api::namespaced(client.clone(), ns));
        let (part, stream) = follow(sets, scope, "ReplicaSet", (), |_| {}, Change::Pods);
        observed.replica_sets.push(part);
        streams.push(stream);
        let pods = scope.map_or_else(|| Api::all(client.clone()), |ns| Api::namespaced(client.clone(), ns));
        let (part, stream) = follow(pods, scope, "Pod", (), trim, Change::Pods);
        observed.pods.push(part);
        streams.push(stream);
    }
    (observed, streams)
}

/// Keeps only the metadata and the status of a pod.
fn trim(pod: &mut Pod) {
    pod.spec = None;
    pod.metadata.managed_fields = None;
    pod.metadata.annotations = None;
}

fn follow<K>(
    api: Api<K>,
    namespace: Option<&String>,
    what: &'static str,
    dynamic: <K as Resource>::DynamicType,
    trim: fn(&mut K),
    change: fn(ObjectName) -> Change,
) -> (Part<K>, BoxStream<'static, Change>)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    <K as Resource>::DynamicType: Eq + Hash + Clone + Send + Sync,
{
    let mut writer = Writer::new(dynamic.clone());
    let filled = Arc::new(AtomicBool::new(false));
    let part =
        Part { namespace: namespace.cloned(), what, dynamic, store: writer.as_reader(), filled: Arc::clone(&filled) };
    let labels = format!("app.kubernetes.io/managed-by={},{}", names::MANAGED_BY, names::GROUP_LABEL);
    let events = watcher(api, watcher::Config::default().labels(&labels)).backoff(watch_backoff()).modify(trim);
    let stream = events.filter_map(move |event| {
        let change = match event {
            Ok(event) => {
                writer.apply_watcher_event(&event);
                match &event {
                    Event::Apply(object) | Event::Delete(object) => group_of(object).map(change),
                    Event::Init | Event::InitApply(_) => None,
                    Event::InitDone => {
                        filled.store(true, Ordering::Release);
                        Some(Change::All)
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, kind = what, "watch interrupted");
                None
            }
        };
        ready(change)
    });
    (part, stream.boxed())
}

/// Returns the group that an object's label names.
fn group_of<K: Resource>(object: &K) -> Option<ObjectName> {
    let meta = object.meta();
    let name = meta.labels.as_ref()?.get(names::GROUP_LABEL)?.clone();
    Some(ObjectName { namespace: meta.namespace.clone()?, name })
}
