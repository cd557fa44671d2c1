//! The credentials of a group, by handle.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tamis_config::{CredentialHandle, CredentialRef};

use crate::access::Callers;
use crate::upstream::{Credentials, Secret};

/// Minimum time that a value is kept after it was removed from its shard. Events of Secrets and GatewayConfigs are not
/// ordered, and calls in flight may still need the value.
const GRACE: Duration = Duration::from_secs(60);

/// Credential values by handle. A handle names one value for ever, so a lookup never returns another value.
#[derive(Debug, Default)]
pub(super) struct CredentialStore {
    entries: RwLock<HashMap<CredentialHandle, Arc<Entry>>>,
    shards: Mutex<Shards>,
}

#[derive(Debug)]
struct Entry {
    value: Secret,
    callers: OnceLock<Option<Arc<Callers>>>,
}

#[derive(Debug, Default)]
struct Shards {
    /// The handles in each shard.
    held: HashMap<usize, HashSet<CredentialHandle>>,
    /// Values that were removed from their shard, and when.
    leaving: HashMap<CredentialHandle, Instant>,
}

impl CredentialStore {
    /// Replaces the content of a shard. Values that it no longer has are kept for [`GRACE`].
    pub(super) fn put(&self, shard: usize, values: HashMap<CredentialHandle, Secret>, now: Instant) {
        let handles: HashSet<_> = values.keys().cloned().collect();
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        for handle in &handles {
            shards.leaving.remove(handle);
        }
        let before = shards.held.remove(&shard).unwrap_or_default();
        shards.leaving.extend(before.difference(&handles).map(|handle| (handle.clone(), now)));
        shards.held.insert(shard, handles);
        drop(shards);
        self.insert(values);
    }

    /// Adds values from the cache on disk, which are kept for as long as they are used.
    pub(super) fn recall(&self, values: HashMap<CredentialHandle, Secret>, now: Instant) {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = |handle: &CredentialHandle| !shards.held.values().any(|held| held.contains(handle));
        let values: HashMap<_, _> = values.into_iter().filter(|(handle, _)| unknown(handle)).collect();
        shards.leaving.extend(values.keys().map(|handle| (handle.clone(), now)));
        drop(shards);
        self.insert(values);
    }

    fn insert(&self, values: HashMap<CredentialHandle, Secret>) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        for (handle, value) in values {
            if entries.get(&handle).is_none_or(|entry| entry.value != value) {
                entries.insert(handle, Arc::new(Entry { value, callers: OnceLock::new() }));
            }
        }
    }

    /// Removes unused values whose [`GRACE`] is over. `used` is called only if there is such a value.
    pub(super) fn sweep(&self, now: Instant, used: impl FnOnce() -> HashSet<CredentialHandle>) {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let old = |since: &Instant| now.saturating_duration_since(*since) >= GRACE;
        if !shards.leaving.values().any(old) {
            return;
        }
        let used = used();
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        shards.leaving.retain(|handle, since| {
            let stays = !old(since) || used.contains(handle);
            if !stays {
                entries.remove(handle);
            }
            stays
        });
    }

    fn entry(&self, handle: &CredentialHandle) -> Option<Arc<Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(handle).cloned()
    }
}

impl Credentials for CredentialStore {
    /// Returns none: in a cluster, values have handles and no names.
    fn get(&self, _namespace: &str, _credential: &CredentialRef) -> Option<Secret> {
        None
    }

    fn by_handle(&self, handle: &CredentialHandle) -> Option<Secret> {
        self.entry(handle).map(|entry| entry.value.clone())
    }

    fn callers(&self, _namespace: &str, secret: &str, handle: Option<&CredentialHandle>) -> Option<Arc<Callers>> {
        let entry = self.entry(handle?)?;
        let read = || {
            let callers = Callers::from_json(secret, entry.value.expose().as_bytes());
            callers.inspect_err(|error| tracing::warn!(secret, "the callers' Secret {error}")).ok().map(Arc::new)
        };
        entry.callers.get_or_init(read).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(text: &str) -> CredentialHandle {
        CredentialHandle(text.to_owned())
    }

    fn values(pairs: &[(&str, &str)]) -> HashMap<CredentialHandle, Secret> {
        pairs.iter().map(|(name, value)| (handle(name), Secret::new(value))).collect()
    }

    #[test]
    fn a_value_outlives_its_shard_for_as_long_as_it_is_used() {
        let (store, start) = (CredentialStore::default(), Instant::now());
        let has = |name: &str| store.by_handle(&handle(name)).is_some();
        store.put(0, values(&[("a", "1"), ("b", "2"), ("c", "3")]), start);
        store.put(1, values(&[("d", "4")]), start);
        store.put(0, values(&[("b", "2")]), start);
        store.sweep(start + GRACE / 2, || panic!("too early to ask"));
        assert!(has("a") && has("c"), "calls in flight may need them");
        store.sweep(start + GRACE, || HashSet::from([handle("c")]));
        assert!(!has("a") && has("b") && has("c") && has("d"));
        // A value that comes back stays.
        store.put(0, values(&[("c", "3")]), start + GRACE);
        store.sweep(start + 3 * GRACE, HashSet::new);
        assert!(has("c") && !has("b"));
        assert!(!format!("{store:?}").contains('4'), "{store:?}");
    }

    #[test]
    fn a_value_from_the_cache_does_not_replace_a_newer_one() {
        let (store, start) = (CredentialStore::default(), Instant::now());
        store.put(0, values(&[("a", "new")]), start);
        store.recall(values(&[("a", "old"), ("b", "old")]), start);
        assert_eq!(store.by_handle(&handle("a")), Some(Secret::new("new")));
        assert_eq!(store.by_handle(&handle("b")), Some(Secret::new("old")));
        store.sweep(start + GRACE, HashSet::new);
        assert_eq!(store.by_handle(&handle("b")), None);
    }

    #[test]
    fn callers_are_read_from_their_handle_alone() {
        let store = CredentialStore::default();
        let hex = "ab".repeat(32);
        let callers = format!("{{\"ada\":\"sha256:{hex}\"}}");
        store.put(0, values(&[("u.1.all", callers.as_str()), ("bad.all", "not json")]), Instant::now());
        assert_eq!(store.callers("n", "s", Some(&handle("u.1.all"))).unwrap().len(), 1);
        assert!(store.callers("n", "s", Some(&handle("bad.all"))).is_none());
        assert!(store.callers("n", "s", Some(&handle("none"))).is_none());
        assert!(store.callers("n", "s", None).is_none());
        let named = CredentialRef { name: "u".to_owned(), key: "1".to_owned() };
        assert!(store.get("n", &named).is_none());
    }
}
