//! An index of which objects use which, so that a change leads to work only for the objects that it affects.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tamis_config::Digest;
use tamis_crds::ObjectName;

use super::dirty::Dirty;
use super::object::{Object, ServiceKey};
use crate::object::{Kind, ObjectKey};

/// The objects that describe, bind to or publish one service.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) manifests: BTreeSet<ObjectName>,
    pub(crate) filters: BTreeSet<ObjectName>,
    pub(crate) tools: BTreeSet<ObjectName>,
    pub(crate) prompts: BTreeSet<ObjectName>,
    pub(crate) resources: BTreeSet<ObjectName>,
    pub(crate) expositions: BTreeSet<ObjectName>,
    /// Expositions by the filter set that they name. The key `None` holds those that name none: they use the default
    /// sets, or those of their plan.
    by_set: BTreeMap<Option<String>, BTreeSet<ObjectName>>,
    /// Unreadable expositions, which may name any set.
    unread: BTreeSet<ObjectName>,
}

impl Members {
    fn of(&mut self, kind: Kind) -> Option<&mut BTreeSet<ObjectName>> {
        match kind {
            Kind::ServiceManifest => Some(&mut self.manifests),
            Kind::ToolsFilters => Some(&mut self.filters),
            Kind::CustomTools => Some(&mut self.tools),
            Kind::Prompts => Some(&mut self.prompts),
            Kind::Resources => Some(&mut self.resources),
            Kind::Exposition => Some(&mut self.expositions),
            Kind::ConfigurationPlan | Kind::GatewayGroup => None,
        }
    }

    fn is_empty(&self) -> bool {
        self.whole().iter().all(|(_, names)| names.is_empty()) && self.filters.is_empty() && self.expositions.is_empty()
    }

    /// Returns the objects that are a part of the service for every exposition of it: all but the filter sets, which
    /// expositions choose.
    pub(crate) fn whole(&self) -> [(Kind, &BTreeSet<ObjectName>); 4] {
        [
            (Kind::ServiceManifest, &self.manifests),
            (Kind::CustomTools, &self.tools),
            (Kind::Prompts, &self.prompts),
            (Kind::Resources, &self.resources),
        ]
    }
}

/// The index.
#[derive(Debug, Default)]
pub(crate) struct Index {
    services: HashMap<ServiceKey, Members>,
    by_namespace: BTreeMap<String, BTreeSet<ServiceKey>>,
    plans: HashMap<ObjectName, BTreeSet<ObjectName>>,
    groups: HashMap<ObjectName, BTreeSet<ObjectName>>,
    /// The bundles that name each exposition.
    bundles: HashMap<ObjectName, BTreeSet<ObjectName>>,
    unusable: BTreeSet<ObjectKey>,
    /// The number of objects of each namespace that name Secrets.
    secrets: BTreeMap<String, usize>,
    documents: HashMap<Digest, BTreeSet<ServiceKey>>,
    /// The manifests that name each ConfigMap.
    config_maps: HashMap<ObjectName, BTreeSet<ObjectName>>,
}

impl Index {
    pub(crate) fn members(&self, service: &ServiceKey) -> Option<&Members> {
        self.services.get(service)
    }

    pub(crate) fn services(&self) -> Vec<ServiceKey> {
        self.services.keys().cloned().collect()
    }

    /// Returns the namespaces with a service.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        self.by_namespace.keys().cloned().collect()
    }

    pub(crate) fn services_of(&self, namespace: &str) -> Vec<ServiceKey> {
        self.by_namespace.get(namespace).into_iter().flatten().cloned().collect()
    }

    pub(crate) fn expositions_in(&self, namespace: &str) -> BTreeSet<ObjectName> {
        let services = self.by_namespace.get(namespace).into_iter().flatten();
        services.filter_map(|service| self.services.get(service)).flat_map(|m| m.expositions.iter().cloned()).collect()
    }

    pub(crate) fn unusable(&self) -> impl Iterator<Item = &ObjectKey> {
        self.unusable.iter()
    }

    pub(crate) fn namespaces_with_secrets(&self) -> BTreeSet<String> {
        self.secrets.keys().cloned().collect()
    }

    pub(crate) fn namespaces_with_config_maps(&self) -> BTreeSet<String> {
        self.config_maps.keys().map(|name| name.namespace.clone()).collect()
    }

    /// Returns the manifests that name a ConfigMap.
    pub(crate) fn users_of_config_map(&self, name: &ObjectName) -> BTreeSet<ObjectName> {
        self.config_maps.get(name).cloned().unwrap_or_default()
    }

    /// Returns the manifests of a namespace that name ConfigMaps.
    pub(crate) fn users_of_config_maps(&self, namespace: &str) -> BTreeSet<ObjectName> {
        let users = self.config_maps.iter().filter(|(name, _)| name.namespace == namespace);
        users.flat_map(|(_, users)| users.iter().cloned()).collect()
    }

    /// Returns the expositions that a filter set of this name may affect. They include every exposition that takes its
    /// sets from a plan, whatever the name of the set: the plan may name it.
    pub(crate) fn users_of_set(&self, service: &ServiceKey, set: Option<&str>) -> BTreeSet<ObjectName> {
        let Some(members) = self.services.get(service) else { return BTreeSet::new() };
        let by = |name: Option<String>| members.by_set.get(&name).into_iter().flatten().cloned();
        let planned = |name: &ObjectName| set.is_none() || self.plans.values().any(|users| users.contains(name));
        let named = set.map(|set| by(Some(set.to_owned()))).into_iter().flatten();
        by(None).filter(planned).chain(named).chain(members.unread.iter().cloned()).collect()
    }

    pub(crate) fn users_of_plan(&self, plan: &ObjectName) -> BTreeSet<ObjectName> {
        self.plans.get(plan).cloned().unwrap_or_default()
    }

    pub(crate) fn users_of_group(&self, group: &ObjectName) -> BTreeSet<ObjectName> {
        self.groups.get(group).cloned().unwrap_or_default()
    }

    pub(crate) fn bundles_of(&self, exposition: &ObjectName) -> BTreeSet<ObjectName> {
        self.bundles.get(exposition).cloned().unwrap_or_default()
    }

    pub(crate) fn note_document(&mut self, digest: &Digest, service: &ServiceKey) {
        let services = self.documents.entry(digest.clone()).or_default();
        if !services.contains(service) {
            services.insert(service.clone());
        }
    }

    /// Forgets the services of documents that are not in use.
    pub(crate) fn forget_documents(&mut self, used: impl Fn(&Digest) -> bool) {
        self.documents.retain(|digest, _| used(digest));
    }

    pub(crate) fn mark_users_of_document(&self, digest: &Digest, dirty: &mut Dirty) {
        for service in self.documents.get(digest).into_iter().flatten() {
            dirty.whole_service(service.clone());
        }
    }

    pub(crate) fn link(&mut self, object: &Object, default_group: Option<&ObjectName>) {
        let name = &object.key.name;
        if object.is_unusable() {
            self.unusable.insert(object.key.clone());
        }
        if object.names_secrets {
            *self.secrets.entry(name.namespace.clone()).or_default() += 1;
        }
        for service in object.services() {
            self.by_namespace.entry(name.namespace.clone()).or_default().insert(service.clone());
            let members = self.services.entry(service).or_default();
            if let Some(names) = members.of(object.key.kind) {
                names.insert(name.clone());
            }
            for set in sets(object) {
                members.by_set.entry(set).or_default().insert(name.clone());
            }
            if object.key.kind == Kind::Exposition && object.is_unusable() {
                members.unread.insert(name.clone());
            }
        }
        if let Some(plan) = plan(object) {
            self.plans.entry(plan).or_default().insert(name.clone());
        }
        for group in groups(object, default_group) {
            self.groups.entry(group).or_default().insert(name.clone());
        }
        for map in object.config_maps() {
            self.config_maps.entry(map).or_default().insert(name.clone());
        }
        for part in object.parts() {
            self.bundles.entry(part).or_default().insert(name.clone());
        }
    }

    pub(crate) fn unlink(&mut self, object: &Object, default_group: Option<&ObjectName>) {
        let name = &object.key.name;
        self.unusable.remove(&object.key);
        if object.names_secrets
            && let Some(count) = self.secrets.get_mut(&name.namespace)
        {
            *count -= 1;
            if *count == 0 {
                self.secrets.remove(&name.namespace);
            }
        }
        for service in object.services() {
            let Some(members) = self.services.get_mut(&service) else { continue };
            if let Some(names) = members.of(object.key.kind) {
                names.remove(name);
            }
            for set in sets(object) {
                leave(&mut members.by_set, &set, name);
            }
            if object.key.kind == Kind::Exposition {
                members.unread.remove(name);
            }
            if members.is_empty() {
                self.services.remove(&service);
                if let Some(services) = self.by_namespace.get_mut(&name.namespace) {
                    services.remove(&service);
                    if services.is_empty() {
                        self.by_namespace.remove(&name.namespace);
                    }
                }
                self.documents.retain(|_, users| {
                    users.remove(&service);
                    !users.is_empty()
                });
            }
        }
        let drop_from = |map: &mut HashMap<ObjectName, BTreeSet<ObjectName>>, key: &ObjectName| {
            if let Some(users) = map.get_mut(key) {
                users.remove(name);
                if users.is_empty() {
                    map.remove(key);
                }
            }
        };
        if let Some(plan) = plan(object) {
            drop_from(&mut self.plans, &plan);
        }
        for group in groups(object, default_group) {
            drop_from(&mut self.groups, &group);
        }
        for map in object.config_maps() {
            drop_from(&mut self.config_maps, &map);
        }
        for part in object.parts() {
            drop_from(&mut self.bundles, &part);
        }
    }
}

fn leave(map: &mut BTreeMap<Option<String>, BTreeSet<ObjectName>>, key: &Option<String>, name: &ObjectName) {
    if let Some(names) = map.get_mut(key) {
        names.remove(name);
        if names.is_empty() {
            map.remove(key);
        }
    }
}

/// Returns the filter sets that an exposition names, or `None` once if it names none.
fn sets(object: &Object) -> Vec<Option<String>> {
    match object.resources.expositions.first().map(|exposition| &exposition.spec.filters) {
        None => Vec::new(),
        Some(None) => vec![None],
        Some(Some(names)) => names.iter().cloned().map(Some).collect(),
    }
}

fn plan(object: &Object) -> Option<ObjectName> {
    let plan = object.resources.expositions.first()?.spec.configuration_plan.as_ref()?;
    Some(ObjectName { namespace: object.key.name.namespace.clone(), name: plan.name.clone() })
}

fn groups(object: &Object, default_group: Option<&ObjectName>) -> Vec<ObjectName> {
    let Some(exposition) = object.resources.expositions.first() else { return Vec::new() };
    let own = || object.key.name.namespace.clone();
    match &exposition.spec.gateway_group {
        Some(group) => {
            vec![ObjectName { namespace: group.namespace.clone().unwrap_or_else(own), name: group.name.clone() }]
        }
        None => {
            let own = ObjectName { namespace: own(), name: "default".to_owned() };
            std::iter::once(own).chain(default_group.cloned()).collect()
        }
    }
}
