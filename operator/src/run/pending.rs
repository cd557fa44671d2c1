//! The queue of planned documents that wait to be written. Pure.

use std::collections::HashMap;

use tamis_crds::ObjectName;

use crate::fair_queue::{FairQueue, Namespaced as _};

/// An item with a size in bytes.
pub(super) trait Weighs {
    fn bytes(&self) -> usize;
    /// Returns whether the item goes into the urgent queue, in which namespaces have separate turns.
    fn is_urgent(&self) -> bool;
}

/// The waiting items by exposition. Namespaces take turns, and so do urgent and other items, so that neither waits for
/// all of the other.
#[derive(Debug)]
pub(super) struct Pending<T> {
    urgent: FairQueue<ObjectName, T>,
    others: FairQueue<ObjectName, T>,
    bytes: HashMap<String, usize>,
    sum: usize,
    /// Whether the last turn was one of the urgent queue.
    was_urgent: bool,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        let (urgent, others) = (FairQueue::default(), FairQueue::default());
        Self { urgent, others, bytes: HashMap::new(), sum: 0, was_urgent: false }
    }
}

impl<T: Weighs> Pending<T> {
    /// Adds the item of an exposition. It replaces the one that waited.
    pub(super) fn insert(&mut self, name: ObjectName, item: T) {
        self.remove(&name);
        self.sum += item.bytes();
        *self.bytes.entry(name.namespace.clone()).or_default() += item.bytes();
        if item.is_urgent() {
            self.urgent.insert(name, item)
        } else {
            self.others.insert(name, item)
        };
    }

    pub(super) fn remove(&mut self, name: &ObjectName) {
        let item = self.urgent.remove(name).or_else(|| self.others.remove(name));
        item.into_iter().for_each(|item| self.forget(name, &item));
    }

    fn forget(&mut self, name: &ObjectName, item: &T) {
        self.sum -= item.bytes();
        if let Some(bytes) = self.bytes.get_mut(name.namespace()) {
            *bytes -= item.bytes();
            if *bytes == 0 {
                self.bytes.remove(name.namespace());
            }
        }
    }

    /// Removes and returns the item that is next in turn, of the namespaces that may have a turn.
    pub(super) fn next(&mut self, may: impl Fn(&str) -> bool) -> Option<(ObjectName, T)> {
        self.was_urgent = !self.was_urgent;
        let next = match self.was_urgent {
            true => self.urgent.next(&may).or_else(|| self.others.next(&may)),
            false => self.others.next(&may).or_else(|| self.urgent.next(&may)),
        };
        let (name, item) = next?;
        self.forget(&name, &item);
        Some((name, item))
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.urgent.len() + self.others.len()
    }

    /// Returns the bytes of all waiting items.
    pub(super) fn bytes(&self) -> usize {
        self.sum
    }

    /// Returns the bytes of the waiting items of one namespace.
    pub(super) fn bytes_of(&self, namespace: &str) -> usize {
        self.bytes.get(namespace).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weighs for (usize, bool) {
        fn bytes(&self) -> usize {
            self.0
        }

        fn is_urgent(&self) -> bool {
            self.1
        }
    }

    fn name(text: &str) -> ObjectName {
        let (namespace, name) = text.split_once('/').expect("has a namespace");
        ObjectName { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn urgent_items_have_every_second_turn() {
        let mut pending = Pending::default();
        for (text, urgent) in
            [("a/1", false), ("a/2", false), ("a/3", true), ("a/4", true), ("b/1", false), ("b/2", true)]
        {
            pending.insert(name(text), (1, urgent));
        }
        let mut order = Vec::new();
        while let Some((name, _)) = pending.next(|_| true) {
            order.push(name.to_string());
        }
        assert_eq!(order, ["a/3", "a/1", "b/2", "b/1", "a/4", "a/2"]);
    }

    #[test]
    fn counts_the_bytes_of_waiting_items() {
        let mut pending = Pending::default();
        pending.insert(name("a/1"), (5, false));
        pending.insert(name("a/1"), (7, true));
        pending.insert(name("b/1"), (1, false));
        assert_eq!((pending.len(), pending.bytes(), pending.bytes_of("a"), pending.bytes_of("c")), (2, 8, 7, 0));
        pending.remove(&name("a/1"));
        pending.remove(&name("a/2"));
        assert_eq!((pending.len(), pending.bytes(), pending.bytes_of("a")), (1, 1, 0));
        let mut next = || pending.next(|_| true);
        assert!(next().is_some() && next().is_none());
        assert_eq!((pending.len(), pending.bytes(), pending.bytes.len()), (0, 0, 0));
    }
}
