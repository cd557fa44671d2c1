//! Documents that cannot be read: what they may be. Malformed is invalid, never absent, so whatever could rely on one
//! keeps what it has, or stops.

use std::sync::Arc;

use crate::resources::{KINDS, ServiceRef};
use crate::{ObjectName, Unusable};

/// All documents that cannot be read.
#[derive(Debug)]
pub(super) struct Unusables<'r>(&'r [Arc<Unusable>]);

impl<'r> Unusables<'r> {
    /// `incomplete`: broken files are only looked through for more mistakes, and nothing is said of what is missing.
    pub(super) fn new(all: &'r [Arc<Unusable>], incomplete: bool) -> Self {
        Self(if incomplete { &[] } else { all })
    }

    /// What may be the manifest of a service.
    pub(super) fn manifest(&self, namespace: &str, service: &ServiceRef) -> Option<&'r Unusable> {
        self.bound("ServiceManifest", namespace, service).next()
    }

    /// What may be a set without a name, which protects without being named.
    pub(super) fn default_set(&self, namespace: &str, service: &ServiceRef) -> Option<&'r Unusable> {
        self.bound("ToolsFilters", namespace, service).find(|document| document.set.is_none())
    }

    /// What may be the set of a name.
    pub(super) fn named_set(&self, namespace: &str, service: &ServiceRef, name: &str) -> Option<&'r Unusable> {
        self.bound("ToolsFilters", namespace, service).find(|document| document.set.as_deref() == Some(name))
    }

    /// What may hold further tools of a service.
    pub(super) fn tools(&self, namespace: &str, service: &ServiceRef) -> Option<&'r Unusable> {
        self.bound("CustomTools", namespace, service).find(|document| document.kind.is_some())
    }

    /// What may be a plan.
    pub(super) fn plan(&self, namespace: &str, name: &str) -> Option<&'r Unusable> {
        let named = |document: &&Unusable| document.name.as_ref().is_none_or(|n| n.name == name);
        self.of("ConfigurationPlan", namespace).find(named)
    }

    /// The groups among them.
    pub(super) fn groups(&self) -> impl Iterator<Item = &'r Unusable> {
        self.0.iter().map(|document| &**document).filter(|document| document.kind.as_deref() == Some("GatewayGroup"))
    }

    /// What may be the group of a name.
    pub(super) fn group(&self, namespace: &str, name: &str) -> Option<&'r Unusable> {
        let may_be = |group: &ObjectName| group.namespace == namespace && group.name == name;
        self.groups().find(|group| group.name.as_ref().is_none_or(may_be))
    }

    /// The expositions among them, and what is wrong with each.
    pub(super) fn expositions(&self) -> impl Iterator<Item = (&'r ObjectName, &'r Unusable)> {
        let expositions = self.0.iter().filter(|document| document.kind.as_deref() == Some("Exposition"));
        expositions.filter_map(|document| Some((document.name.as_ref()?, &**document)))
    }

    fn bound(&self, kind: &'r str, namespace: &str, service: &ServiceRef) -> impl Iterator<Item = &'r Unusable> {
        self.of(kind, namespace).filter(move |document| document.service.as_ref().is_none_or(|s| s == service))
    }

    /// What is of a kind, or of none that is known, and not in another namespace.
    fn of(&self, kind: &'r str, namespace: &str) -> impl Iterator<Item = &'r Unusable> {
        let known = |name: &str| KINDS.iter().any(|(known, _)| *known == name);
        self.0.iter().map(|document| &**document).filter(move |document| {
            document.kind.as_deref().is_none_or(|name| name == kind || !known(name))
                && document.name.as_ref().is_none_or(|name| name.namespace == namespace)
        })
    }
}
