//! Changes that watches have delivered and that wait to be read. Reading a large object takes long, so namespaces take
//! turns here too; the changes of one namespace keep their order. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::ops::Bound;

/// The waiting changes of one namespace. An object that changes again is read once, in its newest version and in its
/// old place: a filter set is never read later than an exposition that came after it.
#[derive(Debug)]
struct Queue<K, T> {
    waiting: VecDeque<(K, u64, T)>,
    numbers: HashMap<K, u64>,
}

/// The waiting changes by namespace.
#[derive(Debug)]
pub(super) struct Inbox<K, T> {
    queues: BTreeMap<String, Queue<K, T>>,
    last: Option<String>,
    count: u64,
}

impl<K, T> Default for Inbox<K, T> {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), last: None, count: 0 }
    }
}

impl<K: Hash + Eq + Clone, T> Inbox<K, T> {
    /// Adds a change of an object. It replaces an earlier change of the same object.
    pub(super) fn push(&mut self, namespace: &str, key: K, change: T) {
        let new = || Queue { waiting: VecDeque::new(), numbers: HashMap::new() };
        let queue = self.queues.entry(namespace.to_owned()).or_insert_with(new);
        let at = queue
            .numbers
            .get(&key)
            .and_then(|number| queue.waiting.binary_search_by_key(number, |(_, number, _)| *number).ok());
        if let Some(before) = at.and_then(|at| queue.waiting.get_mut(at)) {
            before.2 = change;
            return;
        }
        self.count += 1;
        queue.numbers.insert(key.clone(), self.count);
        queue.waiting.push_back((key, self.count, change));
    }

    /// Removes and returns the change that is next in turn, of the namespaces that may have a turn.
    pub(super) fn next(&mut self, may: impl Fn(&str) -> bool) -> Option<(String, T)> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let ring = self.queues.range::<String, _>((after, Bound::Unbounded)).chain(&self.queues);
        let namespace = ring.map(|(namespace, _)| namespace).find(|namespace| may(namespace))?.clone();
        let queue = self.queues.get_mut(&namespace)?;
        let (key, _, change) = queue.waiting.pop_front()?;
        queue.numbers.remove(&key);
        if queue.waiting.is_empty() {
            self.queues.remove(&namespace);
        }
        self.last = Some(namespace.clone());
        Some((namespace, change))
    }

    /// Returns whether a change can be read now.
    pub(super) fn has_turn(&self, may: impl Fn(&str) -> bool) -> bool {
        self.queues.keys().any(|namespace| may(namespace))
    }

    /// Removes all changes.
    pub(super) fn clear(&mut self) {
        self.queues.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(changes: &[(&str, &str, u32)], may: impl Fn(&str) -> bool) -> Vec<u32> {
        let mut inbox = Inbox::default();
        for (namespace, key, what) in changes {
            inbox.push(namespace, (*key).to_owned(), *what);
        }
        std::iter::from_fn(|| inbox.next(&may)).map(|(_, what)| what).collect()
    }

    #[test]
    fn namespaces_take_turns_and_each_keeps_its_order() {
        let all = |_: &str| true;
        let one = [("a", "x", 1), ("a", "z", 2), ("a", "y", 3)];
        assert_eq!(order(&one, all), [1, 2, 3]);
        let two = [("a", "x", 1), ("a", "z", 2), ("b", "x", 3), ("a", "y", 4), ("b", "y", 5)];
        assert_eq!(order(&two, all), [1, 3, 2, 5, 4]);
        assert_eq!(order(&two, |namespace| namespace == "b"), [3, 5]);
    }

    #[test]
    fn an_object_that_changes_again_is_read_once_in_its_first_place() {
        let changes = [("a", "x", 1), ("a", "y", 2), ("a", "x", 3), ("b", "x", 4), ("a", "x", 5)];
        assert_eq!(order(&changes, |_| true), [5, 4, 2]);
        let mut inbox = Inbox::default();
        for n in 0..3 {
            inbox.push("a", "x", n);
            assert_eq!(inbox.queues["a"].waiting.len(), 1);
            assert!(inbox.has_turn(|_| true) && !inbox.has_turn(|_| false));
        }
        inbox.clear();
        assert_eq!(inbox.next(|_| true), None);
    }
}
