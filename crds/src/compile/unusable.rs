//! Documents that cannot be read, and what they may be. Malformed is invalid, never absent: whatever could rely on such a
//! document keeps its last known good state, or stops.

use std::sync::Arc;

use crate::resources::{KINDS, ServiceRef};
use crate::{ObjectName, Unusable};

/// All documents that cannot be read.
#[derive(Debug)]
pub(super) struct Unusables<'r>(&'r [Arc<Unusable>]);

impl<'r> Unusables<'r> {
    /// `incomplete`: whether broken files are only searched for more errors, and missing references are not reported.
    pub(super) fn new(all: &'r [Arc<Unusable>], incomplete: bool) -> Self {
        Self(if incomplete { &[] } else { all })
    }

    /// Returns a document that may be the manifest of a service.
    pub(super) fn manifest(&self, namespace: &str, service: &ServiceRef) -> Option<&'r Unusable> {
        self.bound("ServiceManifest", namespace, service).next()
    }

    /// Returns a document that may be a set without a name, which protects data without being named.
    pub(super) fn default_set(&self, namespace: &str, service: &ServiceRef) -> Option<&'r Unusable> {
        self.bound("ToolsFilters", namespace, service).find(|document| document.set.is_none())
    }

    /// Returns a document that may be the set of a name.
    pub(super) fn named_set(&self, namespace: &str, service: &ServiceRef, name: &str) -> Option<&'r Unusable> {
        self.bound("ToolsFilters", namespace, service).find(|document| document.set.as_deref() == Some(name))
    }

    /// Returns a document that may hold CustomTools of a service.
    pub(super) fn tools(&self, namespace: &str, service: &ServiceRef) -> Option<&'r Unusable> {
        self.bound("CustomTools", namespace, service).find(|document| document.kind.is_some())
    }

    /// Returns a document that may be a plan.
    pub(super) fn plan(&self, namespace: &str, name: &str) -> Option<&'r Unusable> {
        let named = |document: &&Unusable| document.name.as_ref().is_none_or(|n| n.name == name);
        self.of("ConfigurationPlan", namespace).find(named)
    }

    /// Returns the unreadable groups.
    pub(super) fn groups(&self) -> impl Iterator<Item = &'r Unusable> {
        self.0.iter().map(|document| &**document).filter(|document| document.kind.as_deref() == Some("GatewayGroup"))
    }

    /// Returns a document that may be the group of a name.
    pub(super) fn group(&self, namespace: &str, name: &str) -> Option<&'r Unusable> {
        let may_be = |group: &ObjectName| group.namespace == namespace && group.name == name;
        self.groups().find(|group| group.name.as_ref().is_none_or(may_be))
    }

    /// Returns the unreadable expositions with their names.
    pub(super) fn expositions(&self) -> impl Iterator<Item = (&'r ObjectName, &'r Unusable)> {
        let expositions = self.0.iter().filter(|document| document.kind.as_deref() == Some("Exposition"));
        expositions.filter_map(|document| Some((document.name.as_ref()?, &**document)))
    }

    fn bound(&self, kind: &'r str, namespace: &str, service: &ServiceRef) -> impl Iterator<Item = &'r Unusable> {
        self.of(kind, namespace).filter(move |document| document.service.as_ref().is_none_or(|s| s == service))
    }

    /// Returns the documents of a kind, or of an unknown kind, that are not known to be in another namespace.
    fn of(&self, kind: &'r str, namespace: &str) -> impl Iterator<Item = &'r Unusable> {
        let known = |name: &str| KINDS.iter().any(|(known, _)| *known == name);
        self.0.iter().map(|document| &**document).filter(move |document| {
            document.kind.as_deref().is_none_or(|name| name == kind || !known(name))
                && document.name.as_ref().is_none_or(|name| name.namespace == namespace)
        })
    }
}
