//! The work that changes of the cluster have led to.

use std::collections::BTreeSet;

use tamis_crds::ObjectName;

use super::object::ServiceKey;
use crate::fair_queue::FairQueue;
use crate::object::ObjectKey;

/// The expositions of a service that have to be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// These.
    Some(BTreeSet<ObjectName>),
    /// All of them.
    All,
}

/// The maximum of expositions that are compiled in one turn.
const CHUNK: usize = 16;

impl Scope {
    fn merge(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Some(names), Self::Some(more)) => names.extend(more),
            (_, Self::All) => *self = Self::All,
            (Self::All, Self::Some(_)) => {}
        }
    }

    /// Splits off the expositions of one turn: at most [`CHUNK`], with a total weight within `budget`, but at least
    /// one. `all` returns the expositions of the service. Returns those of the turn, and the rest if there is one.
    pub(crate) fn split(
        self,
        all: impl FnOnce() -> BTreeSet<ObjectName>,
        weight: impl Fn(&ObjectName) -> usize,
        budget: usize,
    ) -> (BTreeSet<ObjectName>, Option<Self>) {
        let mut names = match self {
            Self::All => all(),
            Self::Some(names) => names,
        };
        let mut taken = 0_usize;
        let over = |(count, name): (usize, &ObjectName)| {
            taken = taken.saturating_add(weight(name));
            (count > 0 && (count == CHUNK || taken > budget)).then(|| name.clone())
        };
        let first = names.iter().enumerate().find_map(over);
        let rest = first.map(|first| Self::Some(names.split_off(&first)));
        (names, rest)
    }
}

/// The work to do. Marks are sets, so that many edits between two passes are handled once.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// Expositions affected by a change that may revoke something and affects few of them: an edit of an exposition, of
    /// a Secret, of a small filter set or ConfigurationPlan, or of what a group requires.
    pub(crate) urgent: FairQueue<ServiceKey, Scope>,
    /// Expositions affected by other changes.
    pub(crate) services: FairQueue<ServiceKey, Scope>,
    /// Everything, at the start of a term.
    pub(crate) backlog: FairQueue<ServiceKey, Scope>,
    /// Services whose own objects have to be judged, and the filter set that was judged last.
    pub(crate) objects: FairQueue<ServiceKey, Option<ObjectName>>,
    /// Expositions that may be gone.
    pub(crate) removed: BTreeSet<ObjectName>,
    pub(crate) groups: BTreeSet<ObjectName>,
    /// Objects whose status may have changed.
    pub(crate) status: BTreeSet<ObjectKey>,
}

impl Dirty {
    /// Marks an exposition of a service.
    pub(crate) fn exposition(&mut self, service: ServiceKey, exposition: ObjectName) {
        mark(&mut self.services, service, Scope::Some([exposition].into()));
    }

    /// Marks an exposition as urgent.
    pub(crate) fn edited(&mut self, service: ServiceKey, exposition: ObjectName) {
        mark(&mut self.urgent, service, Scope::Some([exposition].into()));
    }

    /// Returns whether an exposition is marked as urgent.
    pub(crate) fn is_edited(&self, service: &ServiceKey, exposition: &ObjectName) -> bool {
        match self.urgent.get(service) {
            Some(Scope::Some(names)) => names.contains(exposition),
            Some(Scope::All) => true,
            None => false,
        }
    }

    /// Marks a service's own objects.
    pub(crate) fn service(&mut self, service: ServiceKey) {
        self.objects.insert(service, None);
    }

    /// Marks a service's own objects and all its expositions.
    pub(crate) fn whole_service(&mut self, service: ServiceKey) {
        self.objects.insert(service.clone(), None);
        self.services.insert(service, Scope::All);
    }

    /// Marks all expositions of a service as urgent, since a Secret has changed.
    pub(crate) fn secret_of(&mut self, service: ServiceKey) {
        self.urgent.insert(service, Scope::All);
    }

    /// Moves all marks to the backlog, so that later marks do not wait for them.
    pub(crate) fn postpone(&mut self) {
        for marked in [&mut self.urgent, &mut self.services] {
            while let Some((service, scope)) = marked.next(|_| true) {
                mark(&mut self.backlog, service, scope);
            }
        }
    }

    /// Removes the marks of expositions that are compiled now.
    pub(crate) fn compiled(&mut self, service: &ServiceKey, expositions: &BTreeSet<ObjectName>) {
        for marked in [&mut self.urgent, &mut self.services, &mut self.backlog] {
            if let Some(Scope::Some(names)) = marked.get_mut(service) {
                names.retain(|name| !expositions.contains(name));
                if names.is_empty() {
                    marked.remove(service);
                }
            }
        }
    }

    /// Removes all marks.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn mark(marked: &mut FairQueue<ServiceKey, Scope>, service: ServiceKey, scope: Scope) {
    match marked.get_mut(&service) {
        Some(before) => before.merge(scope),
        None => drop(marked.insert(service, scope)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> BTreeSet<ObjectName> {
        (0..count).map(|n| ObjectName { namespace: "n".to_owned(), name: format!("{n:04}") }).collect()
    }

    #[test]
    fn a_turn_is_bounded_in_number_and_weight() {
        // Expositions, the weight of each, the budget; how many are taken, and how many are left.
        let table = [
            (0, 1, 10, (0, 0)),
            (1, 100, 10, (1, 0)),
            (3, 100, 10, (1, 2)),
            (3, 5, 10, (2, 1)),
            (CHUNK, 0, 10, (CHUNK, 0)),
            (CHUNK + 1, 0, 10, (CHUNK, 1)),
            (3, usize::MAX, 10, (1, 2)),
        ];
        for (count, weight, budget, (taken, left)) in table {
            for scope in [Scope::All, Scope::Some(names(count))] {
                let (chunk, rest) = scope.split(|| names(count), |_| weight, budget);
                let rest = rest.map(|rest| match rest {
                    Scope::Some(names) => names,
                    Scope::All => panic!("the rest is a list of names"),
                });
                assert_eq!((chunk.len(), rest.as_ref().map_or(0, BTreeSet::len)), (taken, left), "{count} {weight}");
                let both: BTreeSet<_> = chunk.into_iter().chain(rest.into_iter().flatten()).collect();
                assert_eq!(both, names(count));
            }
        }
    }
}
