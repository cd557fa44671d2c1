//! A map that drops the entry that was unused for longest.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// Values by key, each with its last use. Whoever inserts says how many there may be.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    /// The value, and the number of its last use.
    entries: HashMap<K, (V, u64)>,
    /// Counts uses.
    uses: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), uses: 0 }
    }
}

impl<K: Eq + Hash + Clone, V> Recent<K, V> {
    /// Returns a value, which is used by that.
    pub(crate) fn used<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.uses += 1;
        let (value, used) = self.entries.get_mut(key)?;
        *used = self.uses;
        Some(value)
    }

    /// Returns a value without using it.
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(value, _)| value)
    }

    /// Returns a value without using it.
    pub(crate) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|(value, _)| value)
    }

    /// Adds or replaces a value. If there are `most` others already, the one that was unused for longest is dropped. Takes time in
    /// proportion to the number of values then, and only then.
    pub(crate) fn insert(&mut self, key: K, value: V, most: usize) {
        self.uses += 1;
        if self.is_full_for(&key, most) {
            let oldest = self.entries.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            oldest.map(|key| self.entries.remove(&key));
        }
        self.entries.insert(key, (value, self.uses));
    }

    /// Returns whether [`Self::insert`] would drop a value.
    pub(crate) fn is_full_for<Q: Eq + Hash + ?Sized>(&self, key: &Q, most: usize) -> bool
    where
        K: Borrow<Q>,
    {
        self.entries.len() >= most && !self.entries.contains_key(key)
    }

    /// Removes a value.
    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.entries.remove(key).map(|(value, _)| value)
    }

    /// Keeps the values that `keep` returns `true` for.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        self.entries.retain(|_, (value, _)| keep(value));
    }

    /// Removes all values.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the number of values.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_that_was_unused_for_longest_goes() {
        let mut recent = Recent::default();
        for key in ["a", "b", "c"] {
            recent.insert(key, key.len(), 3);
        }
        assert!(recent.is_full_for("d", 3) && !recent.is_full_for("a", 3));
        assert!(recent.used("a").is_some());
        // Looking is no use, and replacing is one.
        assert!(recent.get("b").is_some() && recent.get_mut("b").is_some() && recent.used("x").is_none());
        recent.insert("c", 7, 3);
        recent.insert("d", 8, 3);
        assert_eq!(["a", "b", "c", "d"].map(|key| recent.get(key).copied()), [Some(1), None, Some(7), Some(8)]);
        recent.retain(|value| *value > 1);
        assert_eq!((recent.len(), recent.remove("c"), recent.remove("a")), (2, Some(7), None));
        recent.clear();
        assert_eq!(recent.len(), 0);
    }
}
