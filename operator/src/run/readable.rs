//! Which credentials gateways can read for certain, while shards are being written. Pure.
//!
//! A document that names a credential is written after the shard with the credential's value is at the API server. A
//! document whose credentials are all readable need not wait for the writes of other credentials of its group: the shard
//! holds the value now, and still holds it after each write in flight, whether that write succeeds, fails or gets lost.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use tamis_config::CredentialHandle;

use crate::cluster_state::is_older;

/// One shard of a group, as far as it is known.
#[derive(Clone, Copy)]
pub(super) enum ShardContent<'s> {
    /// The API server may have another version than the one seen last, or the group has no such shard.
    Unknown,
    /// The API server has this version, and no write is in flight.
    AtRest(&'s Secret),
    /// The API server has this version or the one that a write in flight replaces it by.
    InFlight(&'s Secret, &'s ShardChange),
}

/// How the write of a shard changes it.
#[derive(Debug)]
pub(super) struct ShardChange {
    /// The version that the write replaces. `None` if it creates the shard.
    replaced: Option<String>,
    /// The names that have another value in the new version, or none.
    lost: BTreeSet<String>,
}

impl ShardChange {
    pub(super) fn new(seen: Option<&Secret>, data: &BTreeMap<String, Vec<u8>>) -> Self {
        let before = seen.and_then(|secret| secret.data.as_ref()).into_iter().flatten();
        let lost = before.filter(|(name, value)| data.get(*name) != Some(&value.0)).map(|(name, _)| name.clone());
        Self { replaced: seen.and_then(|secret| secret.metadata.resource_version.clone()), lost: lost.collect() }
    }

    pub(super) fn into_replaced(self) -> Option<String> {
        self.replaced
    }
}

impl<'s> ShardContent<'s> {
    /// Decides from what was seen and written which content a shard can have.
    ///
    /// - `seen`: the version seen last, if the group owns it.
    /// - `change`: the write in flight.
    /// - `reported`: the version that the watch has reported since that write began.
    /// - `failed`: the version that the last failed write would have replaced. A write that got no answer may have replaced
    ///   it all the same, so this version counts as unknown. Every later version is known again.
    pub(super) fn new(
        seen: Option<&'s Secret>,
        change: Option<&'s ShardChange>,
        reported: Reported<'_>,
        failed: Option<&str>,
    ) -> Self {
        let Some(seen) = seen else { return Self::Unknown };
        let Some(version) = seen.metadata.resource_version.as_deref() else { return Self::Unknown };
        if failed == Some(version) {
            return Self::Unknown;
        }
        let is_current = match reported {
            Reported::Nothing => true,
            // The watch lags behind the answers to writes.
            Reported::Version(reported) => reported == version || is_older(reported, version),
            Reported::Gone => false,
        };
        match change {
            None => Self::AtRest(seen),
            Some(change) if is_current && change.replaced.as_deref() == Some(version) => Self::InFlight(seen, change),
            Some(_) => Self::Unknown,
        }
    }

    /// Returns the value of a name, and whether it stays.
    fn value(&self, handle: &CredentialHandle) -> Option<(&'s [u8], bool)> {
        let (seen, stays) = match self {
            Self::Unknown => return None,
            Self::AtRest(seen) => (seen, true),
            Self::InFlight(seen, change) => (seen, !change.lost.contains(&handle.0)),
        };
        let value = seen.data.as_ref()?.get(&handle.0)?;
        Some((&value.0, stays))
    }
}

/// The watch's last message about a shard since its write began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reported<'m> {
    Nothing,
    Version(&'m str),
    /// The shard was deleted, or the message names no version.
    Gone,
}

/// Returns whether gateways can read the value of a credential, now and after every write in flight. Where two shards have
/// the name, both must have the value.
pub(super) fn is_readable(handle: &CredentialHandle, value: &[u8], shards: &[ShardContent<'_>]) -> bool {
    let mut found = shards.iter().filter_map(|shard| shard.value(handle)).peekable();
    found.peek().is_some() && found.all(|(there, stays)| stays && there == value)
}

#[cfg(test)]
#[path = "readable_tests.rs"]
mod tests;
