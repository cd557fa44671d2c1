//! Decides what a group's credential shards hold, and how many bytes of them each namespace may use. Pure.
//!
//! A value belongs to the namespace of the expositions that name it. A namespace may use [`Rooms::share`] bytes of a
//! group's shards. A new version of a Secret that is no larger than the versions it replaces always finds room: the older
//! version gives way in the same write. So neither a full group nor a full share can keep a revoked key in use.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::Secret;
use tamis_config::CredentialHandle;
use tamis_config::names::{CREDENTIAL_SHARDS, shard_of};

/// A shard to write.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ShardWrite {
    pub(super) number: usize,
    /// The complete content.
    pub(super) data: BTreeMap<String, Vec<u8>>,
    /// The handles whose values are new or changed.
    pub(super) added: BTreeSet<CredentialHandle>,
}

impl fmt::Debug for ShardWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.data.keys().collect();
        f.debug_struct("ShardWrite")
            .field("number", &self.number)
            .field("names", &names)
            .field("added", &self.added)
            .finish_non_exhaustive()
    }
}

/// Bytes of one shard, keys and values: below the limit of an object, with room for what the API adds.
pub(super) const SHARD_BYTES: usize = 900 << 10;

/// A value that cannot be put into a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lacking {
    /// The Secret is gone or has another version by now: the next pass names another.
    Value(CredentialHandle),
    /// No shard has room for it.
    Room(CredentialHandle),
    /// The namespace's share is used up.
    Share(CredentialHandle),
}

/// The bytes that credentials may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rooms {
    /// Bytes of one shard.
    pub(super) shard: usize,
    /// Bytes that one namespace may use of all shards together.
    pub(super) share: usize,
}

/// The values of today's Secrets, and the users of the values in shards.
pub(super) trait Values {
    /// Returns the value that a handle names, or `None` if its Secret has another version by now.
    fn value(&self, handle: &CredentialHandle) -> Option<Vec<u8>>;
    /// Returns the namespace whose documents name a value, or `None` if no document does.
    fn user(&self, handle: &CredentialHandle) -> Option<&str>;
}

/// Returns the shards to write so that they contain the wanted values, and the values that cannot be placed. Values in use
/// stay, unless a newer version of the same Secret replaces them.
///
/// - `wanted`: the handle of each value, and the namespace that needs it.
/// - `shard`: a shard as last seen, if the group owns it.
pub(super) fn adding<'s>(
    wanted: &BTreeMap<CredentialHandle, String>,
    shard: impl Fn(usize) -> Option<&'s Secret>,
    values: &impl Values,
    rooms: Rooms,
) -> (Vec<ShardWrite>, Vec<Lacking>) {
    let mut lacking = Vec::new();
    let mut shards: Vec<Shard> = (0..CREDENTIAL_SHARDS).map(|number| Shard::new(shard(number))).collect();
    let mut missing = Vec::new();
    for (handle, namespace) in wanted {
        let at = shards.iter().position(|shard| shard.data.contains_key(&handle.0));
        match (values.value(handle), at) {
            (Some(value), Some(at)) => {
                if shards[at].data.get(&handle.0) != Some(&value) {
                    shards[at].put(handle, value);
                }
            }
            (Some(value), None) => missing.push((handle, namespace.as_str(), value)),
            (None, Some(_)) => {}
            (None, None) => lacking.push(Lacking::Value(handle.clone())),
        }
    }
    let replaced = |shards: &[Shard], handle: &CredentialHandle| -> usize {
        shards.iter().map(|shard| shard.older(handle, wanted).map(|(_, bytes)| bytes).sum::<usize>()).sum()
    };
    // What replaces without growing comes first: it needs no room, and it may take a key away.
    missing.sort_by_key(|(handle, _, value)| {
        let bytes = cost(handle, value.len());
        (replaced(&shards, handle) < bytes, std::cmp::Reverse(bytes))
    });
    for (handle, namespace, value) in missing {
        let bytes = cost(handle, value.len());
        let grows = bytes > replaced(&shards, handle);
        if grows && used(&shards, namespace, handle, wanted, values) + bytes > rooms.share {
            lacking.push(Lacking::Share(handle.clone()));
        } else if let Some(at) = place(&mut shards, handle, bytes, wanted, values, rooms.shard) {
            shards[at].put(handle, value);
        } else {
            lacking.push(Lacking::Room(handle.clone()));
        }
    }
    let writes = shards.into_iter().enumerate().filter(|(_, shard)| !shard.added.is_empty());
    (writes.map(|(number, Shard { data, added, .. })| ShardWrite { number, data, added }).collect(), lacking)
}

/// One shard while values are placed.
struct Shard {
    data: BTreeMap<String, Vec<u8>>,
    bytes: usize,
    added: BTreeSet<CredentialHandle>,
}

impl Shard {
    fn new(secret: Option<&Secret>) -> Self {
        let data = content(secret);
        let bytes = data.iter().map(|(handle, value)| stored(handle, value.len())).sum();
        Self { data, bytes, added: BTreeSet::new() }
    }

    fn put(&mut self, handle: &CredentialHandle, value: Vec<u8>) {
        self.remove(&handle.0);
        self.bytes += cost(handle, value.len());
        self.data.insert(handle.0.clone(), value);
        self.added.insert(handle.clone());
    }

    fn remove(&mut self, handle: &str) {
        if let Some(value) = self.data.remove(handle) {
            self.bytes -= stored(handle, value.len());
        }
    }

    /// Returns the other versions of the Secret that a value comes from, without those that this batch needs, and their bytes.
    fn older<'a>(
        &'a self,
        handle: &'a CredentialHandle,
        wanted: &'a BTreeMap<CredentialHandle, String>,
    ) -> impl Iterator<Item = (&'a String, usize)> + 'a {
        let of = uid(&handle.0);
        self.data
            .iter()
            .filter(move |(name, _)| uid(name) == of && !wanted.contains_key(&CredentialHandle((*name).clone())))
            .map(|(name, value)| (name, stored(name, value.len())))
    }
}

/// Chooses the shard for a value, and makes room in it. The shard that the handle's hash names comes first, then the shard
/// with the most free bytes. If none has room, values that no document names give way, and then other versions of the same
/// Secret too.
fn place(
    shards: &mut [Shard],
    handle: &CredentialHandle,
    bytes: usize,
    wanted: &BTreeMap<CredentialHandle, String>,
    values: &impl Values,
    room: usize,
) -> Option<usize> {
    let first = shard_of(&handle.0);
    if shards[first].bytes + bytes <= room {
        return Some(first);
    }
    let unused = |name: &str| {
        let handle = CredentialHandle(name.to_owned());
        !wanted.contains_key(&handle) && values.user(&handle).is_none()
    };
    // The ways of making room, the least harmful first.
    type Spared<'s> = &'s dyn Fn(&str) -> bool;
    let same = |name: &str| uid(name) == uid(&handle.0) && !wanted.contains_key(&CredentialHandle(name.to_owned()));
    let either = |name: &str| unused(name) || same(name);
    let nothing = |_: &str| false;
    let ways: [Spared<'_>; 3] = [&nothing, &unused, &either];
    for spared in ways {
        let free = |shard: &Shard| -> usize {
            let freed = shard.data.iter().filter(|(name, _)| spared(name));
            room.saturating_sub(shard.bytes) + freed.map(|(name, value)| stored(name, value.len())).sum::<usize>()
        };
        let best = (0..shards.len()).max_by_key(|at| (free(&shards[*at]), usize::from(*at == first)))?;
        if free(&shards[best]) < bytes {
            continue;
        }
        let gone: Vec<String> = shards[best].data.keys().filter(|name| spared(name)).cloned().collect();
        for name in gone {
            if shards[best].bytes + bytes > room {
                shards[best].remove(&name);
            }
        }
        return Some(best);
    }
    None
}

/// Returns the bytes of a namespace's values: those that documents name or this batch has added, without other versions of
/// the Secret of `but`.
fn used(
    shards: &[Shard],
    namespace: &str,
    but: &CredentialHandle,
    wanted: &BTreeMap<CredentialHandle, String>,
    values: &impl Values,
) -> usize {
    let counts = |name: &str| {
        let handle = CredentialHandle(name.to_owned());
        match wanted.get(&handle) {
            Some(of) => of == namespace,
            None => uid(name) != uid(&but.0) && values.user(&handle) == Some(namespace),
        }
    };
    let held = shards.iter().flat_map(|shard| &shard.data).filter(|(name, _)| counts(name));
    held.map(|(name, value)| stored(name, value.len())).sum()
}

/// Returns the uid of the Secret that a value comes from.
fn uid(handle: &str) -> &str {
    handle.split_once('.').map_or(handle, |(uid, _)| uid)
}

fn cost(handle: &CredentialHandle, value: usize) -> usize {
    stored(&handle.0, value)
}

/// Returns the bytes that a value takes in an object of the API, which carries it in base64.
fn stored(handle: &str, value: usize) -> usize {
    handle.len() + value.div_ceil(3) * 4
}

/// Returns the shards to write so that they contain only values in use.
pub(super) fn sweeping<'s>(
    shard: impl Fn(usize) -> Option<&'s Secret>,
    mut is_used: impl FnMut(&CredentialHandle) -> bool,
) -> Vec<ShardWrite> {
    let mut kept = |number| {
        let before = content(shard(number));
        let count = before.len();
        let data: BTreeMap<_, _> =
            before.into_iter().filter(|(handle, _)| is_used(&CredentialHandle(handle.clone()))).collect();
        (data.len() < count).then(|| ShardWrite { number, data, added: BTreeSet::new() })
    };
    (0..CREDENTIAL_SHARDS).filter_map(&mut kept).collect()
}

fn content(secret: Option<&Secret>) -> BTreeMap<String, Vec<u8>> {
    let data = secret.and_then(|secret| secret.data.as_ref()).into_iter().flatten();
    data.map(|(handle, value)| (handle.clone(), value.0.clone())).collect()
}

#[cfg(test)]
#[path = "shards_tests.rs"]
mod tests;
