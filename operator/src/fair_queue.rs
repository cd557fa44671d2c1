//! A queue that serves namespaces in turn, so that work of one namespace, however much, delays the others by one turn a
//! round. Pure.

use std::collections::BTreeMap;
use std::ops::Bound;

use tamis_crds::ObjectName;

use crate::cluster_state::ServiceKey;
use crate::object::ObjectKey;

/// A key that belongs to a namespace.
pub(crate) trait Namespaced: Ord + Clone {
    /// Returns the namespace whose turn the work takes.
    fn namespace(&self) -> &str;
}

impl Namespaced for ServiceKey {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Namespaced for ObjectName {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Namespaced for ObjectKey {
    fn namespace(&self) -> &str {
        &self.name.namespace
    }
}

/// A queue of work by key. [`FairQueue::next`] serves one namespace after the other, and within a namespace one key
/// after the other: of N namespaces with work, each is served within N turns.
#[derive(Debug)]
pub(crate) struct FairQueue<K, V> {
    lanes: BTreeMap<String, Lane<K, V>>,
    /// The namespace that was served last.
    last: Option<String>,
}

/// The work of one namespace. An empty lane is dropped, and with it the record of the last key.
#[derive(Debug)]
struct Lane<K, V> {
    items: BTreeMap<K, V>,
    last: Option<K>,
}

impl<K, V> Default for FairQueue<K, V> {
    fn default() -> Self {
        Self { lanes: BTreeMap::new(), last: None }
    }
}

impl<K: Namespaced, V> FairQueue<K, V> {
    /// Adds work. Returns the previous work of the key.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let lane = self.lanes.entry(key.namespace().to_owned());
        let lane = lane.or_insert_with(|| Lane { items: BTreeMap::new(), last: None });
        lane.items.insert(key, value)
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.lanes.get(key.namespace())?.items.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.lanes.get_mut(key.namespace())?.items.get_mut(key)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let lane = self.lanes.get_mut(key.namespace())?;
        let value = lane.items.remove(key)?;
        if lane.items.is_empty() {
            self.lanes.remove(key.namespace());
        }
        Some(value)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.lanes.values().flat_map(|lane| &lane.items)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns whether a namespace that may be served has work.
    pub(crate) fn has_turn(&self, may: impl Fn(&str) -> bool) -> bool {
        self.lanes.keys().any(|namespace| may(namespace))
    }

    /// Removes and returns the work that is next in turn, of the namespaces that may be served.
    pub(crate) fn next(&mut self, may: impl Fn(&str) -> bool) -> Option<(K, V)> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let ring = self.lanes.range::<String, _>((after, Bound::Unbounded)).chain(&self.lanes);
        let namespace = ring.map(|(namespace, _)| namespace).find(|namespace| may(namespace))?.clone();
        let lane = self.lanes.get(&namespace)?;
        let after = lane.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let key = lane.items.range((after, Bound::Unbounded)).chain(&lane.items).next()?.0.clone();
        if let Some(lane) = self.lanes.get_mut(&namespace) {
            lane.last = Some(key.clone());
        }
        self.last = Some(namespace);
        let value = self.remove(&key)?;
        Some((key, value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use proptest::prelude::*;

    use super::*;

    fn name(namespace: &str, name: &str) -> ObjectName {
        ObjectName { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn order(waits: &[&str], served: usize) -> String {
        let mut queue = FairQueue::default();
        for text in waits {
            let (namespace, rest) = text.split_once('/').expect("has a namespace");
            queue.insert(name(namespace, rest), ());
        }
        let turns = (0..served).map_while(|_| queue.next(|_| true));
        turns.map(|(name, ())| name.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn namespaces_take_turns() {
        let table: [(&[&str], &str); 4] = [
            (&[], ""),
            (&["a/1", "a/2", "a/3"], "a/1 a/2 a/3"),
            (&["a/1", "a/2", "a/3", "b/1"], "a/1 b/1 a/2 a/3"),
            (&["c/1", "a/1", "b/1", "a/2", "c/2"], "a/1 b/1 c/1 a/2 c/2"),
        ];
        for (waits, expected) in table {
            assert_eq!(order(waits, 9), expected);
        }
    }

    #[test]
    fn work_that_is_put_back_waits_for_the_rest_of_its_namespace() {
        let mut queue = FairQueue::default();
        for text in ["a", "b", "c"] {
            queue.insert(name("x", text), ());
        }
        let mut served = String::new();
        for _ in 0..6 {
            let (key, ()) = queue.next(|_| true).expect("has work");
            served.push_str(&key.name);
            queue.insert(key, ());
        }
        assert_eq!(served, "abcabc");
    }

    #[test]
    fn skips_a_namespace_that_may_not_be_served_and_keeps_its_work() {
        let mut queue = FairQueue::default();
        queue.insert(name("a", "1"), 1);
        queue.insert(name("b", "1"), 2);
        assert!(queue.has_turn(|namespace| namespace == "a"));
        assert_eq!(queue.next(|namespace| namespace != "a"), Some((name("b", "1"), 2)));
        assert_eq!((queue.next(|namespace| namespace != "a"), queue.len()), (None, 1));
        assert_eq!(queue.insert(name("a", "1"), 3), Some(1));
        assert_eq!(queue.get(&name("a", "1")), Some(&3));
        assert_eq!((queue.remove(&name("a", "1")), queue.is_empty()), (Some(3), true));
    }

    proptest! {
        /// No namespace with work waits for more turns than there are namespaces, whatever is added meanwhile.
        #[test]
        fn serves_every_namespace_once_a_round(
            steps in proptest::collection::vec((any::<bool>(), 0_u8..6, 0_u8..40), 1..400),
        ) {
            let mut queue = FairQueue::default();
            let mut model: BTreeSet<ObjectName> = BTreeSet::new();
            let mut waited: HashMap<String, usize> = HashMap::new();
            for (adds, namespace, number) in steps {
                if adds {
                    let key = name(&format!("n{namespace}"), &number.to_string());
                    queue.insert(key.clone(), ());
                    model.insert(key);
                    continue;
                }
                let served = queue.next(|_| true).map(|(key, ())| key);
                prop_assert_eq!(served.is_none(), model.is_empty());
                let Some(served) = served else { continue };
                prop_assert!(model.remove(&served), "served twice");
                waited.remove(&served.namespace);
                for namespace in model.iter().map(|key| key.namespace.clone()).collect::<BTreeSet<_>>() {
                    if namespace != served.namespace {
                        let turns = waited.entry(namespace).or_default();
                        *turns += 1;
                        prop_assert!(*turns < 6, "waited {} turns", *turns);
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
