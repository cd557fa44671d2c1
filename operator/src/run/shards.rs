//! What a group's credential shards should hold. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::Secret;
use tamis_config::CredentialHandle;
use tamis_config::names::{CREDENTIAL_SHARDS, shard_of};

/// A shard that is to be written.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ShardWrite {
    pub(super) number: usize,
    /// All that it shall hold.
    pub(super) data: BTreeMap<String, Vec<u8>>,
    /// What was not there, or was another value.
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
const SHARD_BYTES: usize = 900 << 10;

/// A value that no shard has room for, or that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lacking {
    /// The Secret is gone or has another version by now: the next pass names another.
    Value(CredentialHandle),
    /// The shard is full.
    Room(CredentialHandle),
}

/// The shards to be written so that these values are there. What is there already stays.
pub(super) fn adding<'s>(
    wanted: &BTreeSet<CredentialHandle>,
    shard: impl Fn(usize) -> Option<&'s Secret>,
    value: impl Fn(&CredentialHandle) -> Option<Vec<u8>>,
) -> (Vec<ShardWrite>, Vec<Lacking>) {
    let (mut writes, mut lacking) = (Vec::new(), Vec::new());
    for number in 0..CREDENTIAL_SHARDS {
        let mut data = content(shard(number));
        let mut added = BTreeSet::new();
        for handle in wanted.iter().filter(|handle| shard_of(&handle.0) == number) {
            let Some(value) = value(handle) else {
                if data.contains_key(&handle.0) {
                    continue;
                }
                lacking.push(Lacking::Value(handle.clone()));
                continue;
            };
            if data.get(&handle.0) == Some(&value) {
                continue;
            }
            let held: usize = data.iter().map(|(key, value)| key.len() + value.len() / 3 * 4).sum();
            if held + value.len() / 3 * 4 > SHARD_BYTES {
                lacking.push(Lacking::Room(handle.clone()));
                continue;
            }
            data.insert(handle.0.clone(), value);
            added.insert(handle.clone());
        }
        if !added.is_empty() {
            writes.push(ShardWrite { number, data, added });
        }
    }
    (writes, lacking)
}

/// The shards to be written so that only what is used is there.
pub(super) fn sweeping<'s>(
    shard: impl Fn(usize) -> Option<&'s Secret>,
    is_used: impl Fn(&CredentialHandle) -> bool,
) -> Vec<ShardWrite> {
    let kept = |number| {
        let before = content(shard(number));
        let count = before.len();
        let data: BTreeMap<_, _> =
            before.into_iter().filter(|(handle, _)| is_used(&CredentialHandle(handle.clone()))).collect();
        (data.len() < count).then(|| ShardWrite { number, data, added: BTreeSet::new() })
    };
    (0..CREDENTIAL_SHARDS).filter_map(kept).collect()
}

fn content(secret: Option<&Secret>) -> BTreeMap<String, Vec<u8>> {
    let data = secret.and_then(|secret| secret.data.as_ref()).into_iter().flatten();
    data.map(|(handle, value)| (handle.clone(), value.0.clone())).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn handle(text: &str) -> CredentialHandle {
        CredentialHandle(text.to_owned())
    }

    fn secret(data: &[(&str, &[u8])]) -> Secret {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec()))).collect();
        Secret { data: Some(data), ..Secret::default() }
    }

    #[test]
    fn only_what_is_missing_is_added_and_nothing_is_lost() {
        let number = shard_of("old");
        let there = secret(&[("old", b"1")]);
        let shard = |n| (n == number).then_some(&there);
        let one = BTreeSet::from([handle("old")]);
        assert_eq!(adding(&one, shard, |_| Some(b"1".to_vec())), (vec![], vec![]));
        assert_eq!(adding(&one, shard, |_| None), (vec![], vec![]), "it stays although its Secret has moved on");
        // Another value of the same shard.
        let new = (0..).map(|n| format!("new{n}")).find(|name| shard_of(name) == number).expect("is found");
        let both = BTreeSet::from([handle("old"), handle(&new)]);
        let (writes, lacking) =
            adding(&both, shard, |handle| Some(if handle.0 == "old" { b"1" } else { b"2" }.to_vec()));
        let data = BTreeMap::from([("old".to_owned(), b"1".to_vec()), (new.clone(), b"2".to_vec())]);
        let added = BTreeSet::from([handle(&new)]);
        assert_eq!((writes, lacking), (vec![ShardWrite { number, data, added }], vec![]));
        let (writes, lacking) = adding(&both, shard, |_| None);
        assert_eq!((writes, lacking), (vec![], vec![Lacking::Value(handle(&new))]));
    }

    #[test]
    fn what_somebody_has_changed_is_put_right() {
        let number = shard_of("old");
        let there = secret(&[("old", b"forged")]);
        let one = BTreeSet::from([handle("old")]);
        let (writes, lacking) = adding(&one, |n| (n == number).then_some(&there), |_| Some(b"1".to_vec()));
        let data = BTreeMap::from([("old".to_owned(), b"1".to_vec())]);
        assert!(!format!("{writes:?}").contains("49"), "no value is shown");
        assert_eq!((writes, lacking), (vec![ShardWrite { number, data, added: one.clone() }], vec![]));
    }

    #[test]
    fn a_full_shard_takes_no_more() {
        let big = vec![b'x'; SHARD_BYTES];
        let (writes, lacking) = adding(&BTreeSet::from([handle("a")]), |_| None, |_| Some(big.clone()));
        assert_eq!((writes, lacking), (vec![], vec![Lacking::Room(handle("a"))]));
    }

    #[test]
    fn what_nobody_names_goes() {
        let there = secret(&[("a", b"1"), ("b", b"2")]);
        let shard = |n| (n == 0).then_some(&there);
        assert_eq!(sweeping(shard, |_| true), vec![]);
        let kept = BTreeMap::from([("b".to_owned(), b"2".to_vec())]);
        let write = ShardWrite { number: 0, data: kept, added: BTreeSet::new() };
        assert_eq!(sweeping(shard, |handle| handle.0 == "b"), vec![write]);
    }
}
