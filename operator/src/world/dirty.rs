//! What a change leads to work for.

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

/// Work to be done. Marking twice is marking once: many edits between two passes are one.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) services: BTreeMap<ServiceKey, Scope>,
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

    /// Whether there is something to compile or to write.
    pub(crate) fn has_work(&self) -> bool {
        !(self.services.is_empty() && self.removed.is_empty() && self.groups.is_empty())
    }
}
