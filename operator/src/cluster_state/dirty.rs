//! What a change leads to work for.

use std::collections::BTreeSet;

use tamis_crds::ObjectName;

use super::object::ServiceKey;
use crate::fair_queue::FairQueue;
use crate::object::ObjectKey;

/// Which expositions of a service are to be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// These.
    Some(BTreeSet<ObjectName>),
    /// All of them.
    All,
}

/// Expositions that are compiled in one turn, at most.
const CHUNK: usize = 16;

impl Scope {
    fn merge(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Some(names), Self::Some(more)) => names.extend(more),
            (_, Self::All) => *self = Self::All,
            (Self::All, Self::Some(_)) => {}
        }
    }

    /// Takes the expositions of one turn: at most [`CHUNK`], and those whose weights together are within `budget`, but at
    /// least one. `all` are those of the service. Gives the rest too, if there is one.
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

/// Work to be done. Marking twice is marking once: many edits between two passes are one.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// What may take something from somebody, and is about few expositions: their own edits, Secrets, small filter sets and
    /// plans, and what a group requires.
    pub(crate) urgent: FairQueue<ServiceKey, Scope>,
    pub(crate) services: FairQueue<ServiceKey, Scope>,
    /// Everything, at the start.
    pub(crate) backlog: FairQueue<ServiceKey, Scope>,
    /// Services whose own objects are to be judged, and the last filter set that was.
    pub(crate) objects: FairQueue<ServiceKey, Option<ObjectName>>,
    /// Expositions that may be gone.
    pub(crate) removed: BTreeSet<ObjectName>,
    pub(crate) groups: BTreeSet<ObjectName>,
    /// Objects whose status may be another.
    pub(crate) status: BTreeSet<ObjectKey>,
}

impl Dirty {
    /// An exposition of a service.
    pub(crate) fn exposition(&mut self, service: ServiceKey, exposition: ObjectName) {
        mark(&mut self.services, service, Scope::Some([exposition].into()));
    }

    /// An exposition that was edited itself.
    pub(crate) fn edited(&mut self, service: ServiceKey, exposition: ObjectName) {
        mark(&mut self.urgent, service, Scope::Some([exposition].into()));
    }

    /// Whether an exposition is marked as edited.
    pub(crate) fn is_edited(&self, service: &ServiceKey, exposition: &ObjectName) -> bool {
        match self.urgent.get(service) {
            Some(Scope::Some(names)) => names.contains(exposition),
            Some(Scope::All) => true,
            None => false,
        }
    }

    /// The service's own objects.
    pub(crate) fn service(&mut self, service: ServiceKey) {
        self.objects.insert(service, None);
    }

    /// A service with all its expositions.
    pub(crate) fn whole_service(&mut self, service: ServiceKey) {
        self.objects.insert(service.clone(), None);
        self.services.insert(service, Scope::All);
    }

    /// All expositions of a service, since a Secret is another.
    pub(crate) fn secret_of(&mut self, service: ServiceKey) {
        self.urgent.insert(service, Scope::All);
    }

    /// Lets what is marked wait for what will be.
    pub(crate) fn postpone(&mut self) {
        for marked in [&mut self.urgent, &mut self.services] {
            while let Some((service, scope)) = marked.next(|_| true) {
                mark(&mut self.backlog, service, scope);
            }
        }
    }

    /// Unmarks expositions that are compiled now.
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

    /// Forgets all marks.
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
    fn a_turn_has_a_bound() {
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
                    Scope::All => panic!("what is left is named"),
                });
                assert_eq!((chunk.len(), rest.as_ref().map_or(0, BTreeSet::len)), (taken, left), "{count} {weight}");
                let both: BTreeSet<_> = chunk.into_iter().chain(rest.into_iter().flatten()).collect();
                assert_eq!(both, names(count));
            }
        }
    }
}
