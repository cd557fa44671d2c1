//! Marks the work that a change of the cluster leads to.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tamis_config::ExpositionId;
use tamis_crds::ObjectName;

use super::{Changed, ClusterState, Object, ServiceKey};
use crate::object::{Kind, ObjectKey};

/// The most expositions that an edit of a filter set or a ConfigurationPlan may affect and still be urgent.
pub(super) const FEW: usize = 64;

impl ClusterState {
    /// Marks everything as backlog, for example after a change of leader.
    pub(crate) fn mark_all(&mut self) {
        self.dirty.clear();
        for service in self.index.services() {
            self.dirty.whole_service(service);
        }
        let gone: Vec<_> = self.configs.exposition_ids().cloned().collect();
        for id in gone {
            self.mark_config(&id);
        }
        self.mark_groups();
        let keys: Vec<_> = self.objects.values().flat_map(HashMap::values).map(|object| object.key.clone()).collect();
        self.dirty.status.extend(keys);
        self.dirty.postpone();
    }

    /// Marks an exposition for compiling.
    pub(crate) fn mark_exposition(&mut self, name: &ObjectName) {
        match self.get(Kind::Exposition, name).and_then(|object| object.services().pop()) {
            Some(service) => self.dirty.exposition(service, name.clone()),
            None => drop(self.dirty.removed.insert(name.clone())),
        }
    }

    /// Marks the status of the objects that the expositions of a service share, if several operators may reconcile
    /// these expositions: which operator reports the status follows from them.
    pub(crate) fn mark_shared(&mut self, service: &ServiceKey) {
        let names =
            |group: &Arc<Object>| group.resources.groups.iter().any(|group| group.spec.controller_name.is_some());
        if !self.all(Kind::GatewayGroup).any(names) {
            return;
        }
        let Some(members) = self.index.members(service) else { return };
        for (kind, names) in members.whole().into_iter().chain([(Kind::ToolsFilters, &members.filters)]) {
            self.dirty.status.extend(names.iter().map(|name| ObjectKey { kind, name: name.clone() }));
        }
    }

    pub(super) fn mark_config(&mut self, id: &ExpositionId) {
        self.mark_exposition(&ObjectName { namespace: id.namespace.clone(), name: id.name.clone() });
    }

    /// Marks all services of a namespace.
    pub(super) fn mark_namespace(&mut self, namespace: &str) {
        for service in self.index.services_of(namespace) {
            self.dirty.whole_service(service);
        }
    }

    /// Marks expositions as urgent: an edit of another object may revoke something from them.
    pub(super) fn mark_edited(&mut self, expositions: BTreeSet<ObjectName>) {
        for name in expositions {
            match self.get(Kind::Exposition, &name).and_then(|object| object.services().pop()) {
                Some(service) => self.dirty.edited(service, name),
                None => drop(self.dirty.removed.insert(name)),
            }
        }
    }

    pub(super) fn mark_all_of(&mut self, expositions: BTreeSet<ObjectName>) {
        for name in expositions {
            self.mark_exposition(&name);
        }
    }

    pub(super) fn mark_groups(&mut self) {
        let groups: Vec<_> = self.all(Kind::GatewayGroup).map(|group| group.key.name.clone()).collect();
        self.dirty.groups.extend(groups);
    }

    /// Marks all groups of a namespace and the expositions that name them: only the oldest group of a namespace is
    /// active.
    pub(super) fn mark_groups_in(&mut self, namespace: &str) {
        let groups = self.all(Kind::GatewayGroup).filter(|group| group.key.name.namespace == namespace);
        let groups: Vec<_> = groups.map(|group| group.key.name.clone()).collect();
        for group in groups {
            let users = self.index.users_of_group(&group);
            self.mark_all_of(users);
            self.dirty.groups.insert(group);
        }
    }

    /// Marks the bundles that name the expositions of a change. For a write of the operator itself, that is all there is to
    /// mark.
    pub(crate) fn parts_written(&mut self, changed: &Changed) {
        for id in &changed.expositions {
            self.mark_bundles_of(&ObjectName { namespace: id.namespace.clone(), name: id.name.clone() });
        }
    }

    /// Marks the bundles that name an exposition: their findings and the number of their tools depend on it.
    fn mark_bundles_of(&mut self, exposition: &ObjectName) {
        let bundles = self.index.bundles_of(exposition);
        self.mark_all_of(bundles);
    }

    /// Marks everything that an object affects. Called with its previous and with its new version.
    pub(super) fn touched(&mut self, object: &Object) {
        let name = &object.key.name;
        if object.is_unusable() {
            // Its content is not known, so it may affect everything in its namespace.
            self.mark_namespace(&name.namespace);
        }
        match object.key.kind {
            Kind::Exposition => {
                for service in object.services() {
                    self.mark_shared(&service);
                    self.dirty.edited(service, name.clone());
                }
                self.dirty.removed.insert(name.clone());
                self.mark_bundles_of(name);
            }
            Kind::ServiceManifest | Kind::CustomTools | Kind::Prompts | Kind::Resources => {
                for service in object.services() {
                    self.dirty.whole_service(service);
                }
            }
            Kind::ToolsFilters => {
                for service in object.services() {
                    self.dirty.service(service.clone());
                    let set = object.resources.filters.first().and_then(|filters| filters.spec.name.clone());
                    let users = self.index.users_of_set(&service, set.as_deref());
                    let first = goes_first(object, users.len());
                    for exposition in users {
                        match first {
                            true => self.dirty.edited(service.clone(), exposition),
                            false => self.dirty.exposition(service.clone(), exposition),
                        }
                    }
                }
            }
            Kind::ConfigurationPlan => {
                let users = self.index.users_of_plan(name);
                if goes_first(object, users.len()) {
                    self.mark_edited(users);
                } else {
                    self.mark_all_of(users);
                }
            }
            Kind::GatewayGroup => {
                self.dirty.groups.insert(name.clone());
                let users = self.index.users_of_group(name);
                self.mark_all_of(users);
                self.mark_groups_in(&name.namespace);
            }
        }
    }

    /// Marks the services whose manifests name a ConfigMap.
    pub(super) fn config_map_changed(&mut self, name: &ObjectName) {
        let users = self.index.users_of_config_map(name);
        self.mark_manifests(users);
    }

    /// Marks the services of a namespace whose manifests name ConfigMaps.
    pub(super) fn mark_users_of_config_maps(&mut self, namespace: &str) {
        let users = self.index.users_of_config_maps(namespace);
        self.mark_manifests(users);
    }

    fn mark_manifests(&mut self, manifests: BTreeSet<ObjectName>) {
        for name in manifests {
            let services = self.get(Kind::ServiceManifest, &name).map(|object| object.services()).unwrap_or_default();
            services.into_iter().for_each(|service| self.dirty.whole_service(service));
        }
    }

    /// Marks the services whose compilation asked for a Secret.
    pub(crate) fn secret_changed(&mut self, name: &ObjectName) {
        for service in self.secret_users.get(name).cloned().unwrap_or_default() {
            self.dirty.secret_of(service);
        }
    }

    /// Marks the expositions whose callers' keys have changed. For any other object that names the Secret it has the
    /// wrong role, as before.
    pub(super) fn callers_changed(&mut self, name: &ObjectName) {
        let names = |exposition: &ObjectName| {
            let object = self.get(Kind::Exposition, exposition);
            object.is_some_and(|object| object.is_unusable() || object.callers() == Some(name.name.as_str()))
        };
        let services = self.secret_users.get(name).into_iter().flatten();
        let marked: Vec<(ServiceKey, ObjectName)> = services
            .flat_map(|service| {
                let members = self.members(service).map(|members| &members.expositions);
                let naming = members.into_iter().flatten().filter(|exposition| names(exposition));
                naming.map(|exposition| (service.clone(), exposition.clone()))
            })
            .collect();
        for (service, exposition) in marked {
            self.dirty.edited(service, exposition);
        }
    }

    pub(super) fn configs_changed(&mut self, changed: &Changed) {
        for id in &changed.expositions {
            self.mark_config(id);
        }
        self.parts_written(changed);
        for (namespace, digest) in &changed.services {
            if self.configs.uses_service(namespace, digest) {
                self.index.mark_users_of_document(digest, &mut self.dirty);
            }
        }
    }
}

/// Returns whether an edit of a filter set or a ConfigurationPlan is urgent, since it may narrow what passes. Whether
/// it does is known only after planning, so every edit that is cheap to plan is urgent; an expensive one would delay
/// the revocations in the same lane.
fn goes_first(object: &Object, users: usize) -> bool {
    !object.is_packed() && users <= FEW
}
