//! The quota of source bytes: how many bytes of each namespace's objects the operator keeps. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::watch::Watched;

/// The shortest time between two relists for refused objects: each lists all objects of a kind.
const RELIST_INTERVAL: Duration = Duration::from_secs(15);

/// The bytes that the objects of each namespace take up, and the kinds of refused objects.
#[derive(Debug)]
pub(super) struct SourceQuota {
    limit: usize,
    held: HashMap<String, usize>,
    /// The classes of refused objects, by namespace.
    refused: BTreeMap<String, BTreeSet<Watched>>,
    /// The classes of refused objects that may fit now.
    again: BTreeSet<Watched>,
    looked: Option<Instant>,
}

impl Default for SourceQuota {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl SourceQuota {
    pub(super) fn new(limit: usize) -> Self {
        let (held, refused) = (HashMap::new(), BTreeMap::new());
        Self { limit, held, refused, again: BTreeSet::new(), looked: None }
    }

    /// Grants an object `bytes` in place of the bytes `before` that it has, and counts them. A request for no more than
    /// `before` is always granted. A refused object counts as zero bytes.
    pub(super) fn grant(&mut self, watched: &Watched, namespace: &str, before: usize, bytes: usize) -> bool {
        let is_counted = match watched {
            Watched::Kind(kind) => kind.is_large(),
            Watched::ConfigMaps => true,
            Watched::Configs | Watched::Secrets | Watched::GroupSecrets | Watched::Namespaces => false,
        };
        if !is_counted {
            return true;
        }
        let others = self.held.get(namespace).copied().unwrap_or_default().saturating_sub(before);
        let granted = bytes <= before || others.saturating_add(bytes) <= self.limit;
        let now = others + if granted { bytes } else { 0 };
        if now < others + before
            && let Some(kinds) = self.refused.remove(namespace)
        {
            self.again.extend(kinds);
        }
        if !granted {
            self.refused.entry(namespace.to_owned()).or_default().insert(watched.clone());
        }
        match now {
            0 => drop(self.held.remove(namespace)),
            now => drop(self.held.insert(namespace.to_owned(), now)),
        }
        granted
    }

    /// Returns the quota of each namespace, in bytes.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns what to list again, since refused objects may fit now.
    pub(super) fn sources_to_relist(&mut self, now: Instant) -> BTreeSet<Watched> {
        if self.again.is_empty() || self.looked.is_some_and(|looked| now < looked + RELIST_INTERVAL) {
            return BTreeSet::new();
        }
        self.looked = Some(now);
        std::mem::take(&mut self.again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind::{CustomTools, Exposition, ServiceManifest, ToolsFilters};
    use crate::watch::Watched::{ConfigMaps, Kind};

    #[test]
    fn growth_counts_against_the_quota_and_deletion_frees_it() {
        let mut source_quota = SourceQuota::new(100);
        // Class, namespace, bytes before and now; whether they are granted.
        let table = [
            (Kind(ToolsFilters), "a", 0, 60, true),
            (Kind(ServiceManifest), "a", 0, 40, true),
            (Kind(ToolsFilters), "a", 0, 1, false),
            (Kind(ToolsFilters), "b", 0, 100, true),
            (Kind(ToolsFilters), "b", 100, 101, false),
            (Kind(ToolsFilters), "b", 0, 100, true),
            (Kind(Exposition), "a", 0, 1_000, true),
            (ConfigMaps, "a", 0, 1, false),
            (ConfigMaps, "c", 0, 100, true),
            (Kind(CustomTools), "c", 0, 1, false),
            (Kind(ToolsFilters), "a", 60, 60, true),
            (Kind(ToolsFilters), "a", 60, 61, false),
            (Kind(ToolsFilters), "a", 0, 60, true),
        ];
        for (number, (kind, namespace, before, bytes, granted)) in table.into_iter().enumerate() {
            assert_eq!(source_quota.grant(&kind, namespace, before, bytes), granted, "{number}");
        }
        // A lowered quota removes nothing.
        source_quota.limit = 10;
        assert!(source_quota.grant(&Kind(ToolsFilters), "a", 60, 59));
        assert!(!source_quota.grant(&Kind(ServiceManifest), "a", 40, 41));
    }

    #[test]
    fn relists_the_sources_of_refused_objects_once_bytes_are_free_but_not_often() {
        let (mut source_quota, now) = (SourceQuota::new(100), Instant::now());
        assert!(source_quota.grant(&Kind(ToolsFilters), "a", 0, 100) && !source_quota.grant(&ConfigMaps, "a", 0, 1));
        assert!(source_quota.sources_to_relist(now).is_empty(), "nothing is free");
        assert!(
            source_quota.grant(&Kind(ToolsFilters), "b", 0, 100)
                && source_quota.grant(&Kind(ToolsFilters), "b", 100, 0)
        );
        assert!(source_quota.sources_to_relist(now).is_empty(), "bytes are free in another namespace");
        assert!(source_quota.grant(&Kind(ToolsFilters), "a", 100, 50));
        assert_eq!(source_quota.sources_to_relist(now), [ConfigMaps].into());
        assert!(source_quota.sources_to_relist(now).is_empty(), "once");
        assert!(!source_quota.grant(&ConfigMaps, "a", 0, 51) && source_quota.grant(&Kind(ToolsFilters), "a", 50, 0));
        assert!(source_quota.sources_to_relist(now + RELIST_INTERVAL / 2).is_empty());
        assert_eq!(source_quota.sources_to_relist(now + RELIST_INTERVAL), [ConfigMaps].into());
        assert!(source_quota.held.is_empty(), "namespaces without objects are forgotten");
    }
}
