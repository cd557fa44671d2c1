//! What a change leads to work for.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use tamis_crds::ObjectName;

use super::object::ServiceKey;
use crate::object::ObjectKey;

/// Which expositions of a service are to be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// These; perhaps none, when only what is said of the service's own objects may be another.
    Some(BTreeSet<ObjectName>),
    /// All of them.
    All,
}

impl Scope {
    fn merge(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Some(names), Self::Some(more)) => names.extend(more),
            (_, Self::All) => *self = Self::All,
            (Self::All, Self::Some(_)) => {}
        }
    }
}

/// Work to be done. Marking twice is marking once: many edits between two passes are one.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) services: BTreeMap<ServiceKey, Scope>,
    /// What waits until there is none of those: everything, at the start. An edit is not behind it.
    pub(crate) backlog: BTreeMap<ServiceKey, Scope>,
    /// Expositions that may be gone.
    pub(crate) removed: BTreeSet<ObjectName>,
    pub(crate) groups: BTreeSet<ObjectName>,
    /// Objects whose status may be another.
    pub(crate) status: BTreeSet<ObjectKey>,
}

impl Dirty {
    /// An exposition of a service.
    pub(crate) fn exposition(&mut self, service: ServiceKey, exposition: ObjectName) {
        match self.services.entry(service).or_insert_with(|| Scope::Some(BTreeSet::new())) {
            Scope::Some(expositions) => drop(expositions.insert(exposition)),
            Scope::All => {}
        }
    }

    /// The service's own objects.
    pub(crate) fn service(&mut self, service: ServiceKey) {
        self.services.entry(service).or_insert_with(|| Scope::Some(BTreeSet::new()));
    }

    /// A service with all its expositions.
    pub(crate) fn whole_service(&mut self, service: ServiceKey) {
        self.services.insert(service, Scope::All);
    }

    /// Lets what is marked wait for what will be.
    pub(crate) fn postpone(&mut self) {
        for (service, scope) in std::mem::take(&mut self.services) {
            match (self.backlog.entry(service), scope) {
                (Entry::Vacant(entry), scope) => drop(entry.insert(scope)),
                (Entry::Occupied(mut entry), scope) => entry.get_mut().merge(scope),
            }
        }
    }

    /// Whether an exposition of a service is marked.
    pub(crate) fn has(&self, service: &ServiceKey, exposition: &ObjectName) -> bool {
        let has = |scope: &Scope| match scope {
            Scope::All => true,
            Scope::Some(names) => names.contains(exposition),
        };
        self.services.get(service).is_some_and(has) || self.backlog.get(service).is_some_and(has)
    }

    /// Forgets all marks.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether there is something to compile or to write.
    pub(crate) fn has_work(&self) -> bool {
        !(self.services.is_empty() && self.backlog.is_empty() && self.removed.is_empty() && self.groups.is_empty())
    }
}
