use std::collections::HashMap;

use k8s_openapi::ByteString;
use proptest::prelude::*;

use super::*;

const ROOMS: Rooms = Rooms { shard: SHARD_BYTES, share: SHARD_BYTES };

fn handle(text: &str) -> CredentialHandle {
    CredentialHandle(text.to_owned())
}

fn secret(data: &[(&str, &[u8])]) -> Secret {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec()))).collect();
    Secret { data: Some(data), ..Secret::default() }
}

/// Values of today's Secrets, and the namespaces whose documents name a value.
#[derive(Default)]
struct Known {
    values: HashMap<String, Vec<u8>>,
    users: HashMap<String, String>,
}

impl Known {
    fn of(values: &[(&str, &[u8])]) -> Self {
        let values = values.iter().map(|(handle, value)| ((*handle).to_owned(), value.to_vec())).collect();
        Self { values, users: HashMap::new() }
    }

    fn used(mut self, by: &str, handles: &[&str]) -> Self {
        self.users.extend(handles.iter().map(|handle| ((*handle).to_owned(), by.to_owned())));
        self
    }
}

impl Values for Known {
    fn value(&self, handle: &CredentialHandle) -> Option<Vec<u8>> {
        self.values.get(&handle.0).cloned()
    }

    fn user(&self, handle: &CredentialHandle) -> Option<&str> {
        self.users.get(&handle.0).map(String::as_str)
    }
}

fn wanted(handles: &[&str]) -> BTreeMap<CredentialHandle, String> {
    handles.iter().map(|text| (handle(text), "team".to_owned())).collect()
}

#[test]
fn only_what_is_missing_is_added_and_nothing_is_lost() {
    let number = shard_of("old");
    let there = secret(&[("old", b"1")]);
    let shard = |n| (n == number).then_some(&there);
    assert_eq!(adding(&wanted(&["old"]), shard, &Known::of(&[("old", b"1")]), ROOMS), (vec![], vec![]));
    let gone = adding(&wanted(&["old"]), shard, &Known::default(), ROOMS);
    assert_eq!(gone, (vec![], vec![]), "it stays although its Secret has moved on");
    // Another value of the same shard.
    let new = (0..).map(|n| format!("new{n}")).find(|name| shard_of(name) == number).expect("is found");
    let known = Known::of(&[("old", b"1"), (&new, b"2")]);
    let (writes, lacking) = adding(&wanted(&["old", &new]), shard, &known, ROOMS);
    let data = BTreeMap::from([("old".to_owned(), b"1".to_vec()), (new.clone(), b"2".to_vec())]);
    let added = BTreeSet::from([handle(&new)]);
    assert_eq!((writes, lacking), (vec![ShardWrite { number, data, added }], vec![]));
    let (writes, lacking) = adding(&wanted(&["old", &new]), shard, &Known::default(), ROOMS);
    assert_eq!((writes, lacking), (vec![], vec![Lacking::Value(handle(&new))]));
}

#[test]
fn corrects_a_value_that_another_writer_changed() {
    let number = shard_of("old");
    let there = secret(&[("old", b"forged")]);
    let known = Known::of(&[("old", b"1")]);
    let (writes, lacking) = adding(&wanted(&["old"]), |n| (n == number).then_some(&there), &known, ROOMS);
    let data = BTreeMap::from([("old".to_owned(), b"1".to_vec())]);
    assert!(!format!("{writes:?}").contains("49"), "no value is shown");
    let added = BTreeSet::from([handle("old")]);
    assert_eq!((writes, lacking), (vec![ShardWrite { number, data, added }], vec![]));
}

/// Every shard holds one value of 60 bytes that a document names, and there is room for 64.
fn full() -> (Vec<Secret>, Known, Rooms) {
    let mut known = Known::default();
    let shards = (0..CREDENTIAL_SHARDS).map(|number| {
        let name = format!("full{number}.1.all");
        known.users.insert(name.clone(), format!("tenant-{}", number % 2));
        secret(&[(&name, &[b'x'; 36])])
    });
    let shards = shards.collect();
    (shards, known, Rooms { shard: 64, share: 1 << 20 })
}

#[test]
fn a_full_group_takes_nothing_new_and_lets_every_revocation_through() {
    type Case = (&'static str, &'static str, usize, Result<(), fn(CredentialHandle) -> Lacking>);
    let table: [Case; 4] = [
        ("a new value", "new.1.all", 30, Err(Lacking::Room)),
        ("a new version, a key less", "full3.2.all", 30, Ok(())),
        ("a new version of the same length", "full3.2.all", 36, Ok(())),
        ("a new version that is longer than the shard", "full3.2.all", 48, Err(Lacking::Room)),
    ];
    for (what, name, length, expected) in table {
        let (shards, mut known, rooms) = full();
        known.values.insert(name.to_owned(), vec![b'y'; length]);
        let (writes, lacking) = adding(&wanted(&[name]), |n| shards.get(n), &known, rooms);
        match expected {
            Err(lacks) => assert_eq!((writes, lacking), (vec![], vec![lacks(handle(name))]), "{what}"),
            Ok(()) => {
                assert_eq!(lacking, [], "{what}");
                let [write] = writes.as_slice() else { panic!("{what}: {writes:?}") };
                assert_eq!(write.data.keys().collect::<Vec<_>>(), [name], "{what}: the older version gives way");
            }
        }
    }
}

#[test]
fn what_no_document_names_makes_room() {
    let (shards, mut known, rooms) = full();
    known.users.remove("full5.1.all");
    known.values.insert("new.1.all".to_owned(), vec![b'y'; 36]);
    let (writes, lacking) = adding(&wanted(&["new.1.all"]), |n| shards.get(n), &known, rooms);
    assert_eq!((writes.iter().map(|write| write.number).collect::<Vec<_>>(), lacking), (vec![5], vec![]));
}

#[test]
fn where_its_own_shard_is_full_another_takes_a_value() {
    let number = shard_of("new.1.all");
    let there = secret(&[("a.1.all", &[b'x'; 36])]);
    let known = Known::of(&[("new.1.all", &[b'y'; 36])]).used("other", &["a.1.all"]);
    let rooms = Rooms { shard: 64, share: 1 << 20 };
    let (writes, lacking) = adding(&wanted(&["new.1.all"]), |n| (n == number).then_some(&there), &known, rooms);
    assert!(lacking.is_empty() && writes.len() == 1 && writes[0].number != number, "{writes:?} {lacking:?}");
}

#[test]
fn a_namespace_has_no_more_than_its_share() {
    let there = secret(&[("a.1.all", &[b'x'; 300]), ("b.1.all", &[b'x'; 300])]);
    let known = |values: &[(&str, &[u8])]| Known::of(values).used("team", &["a.1.all"]).used("other", &["b.1.all"]);
    let rooms = Rooms { shard: SHARD_BYTES, share: 450 };
    let shard = |n| (n == 0).then_some(&there);
    let table = [
        ("what fits", "c.1.all", 20, vec![]),
        ("what does not", "c.1.all", 60, vec![Lacking::Share(handle("c.1.all"))]),
        ("a version as large as the last", "a.2.all", 300, vec![]),
        ("a larger version that fits", "a.2.all", 320, vec![]),
        ("a larger version that does not", "a.2.all", 500, vec![Lacking::Share(handle("a.2.all"))]),
    ];
    for (what, name, length, expected) in table {
        let value = vec![b'y'; length];
        let (_, lacking) = adding(&wanted(&[name]), shard, &known(&[(name, &value)]), rooms);
        assert_eq!(lacking, expected, "{what}");
    }
}

#[test]
fn removes_values_that_no_document_names() {
    let there = secret(&[("a", b"1"), ("b", b"2")]);
    let shard = |n| (n == 0).then_some(&there);
    assert_eq!(sweeping(shard, |_| true), vec![]);
    let kept = BTreeMap::from([("b".to_owned(), b"2".to_vec())]);
    let write = ShardWrite { number: 0, data: kept, added: BTreeSet::new() };
    assert_eq!(sweeping(shard, |handle| handle.0 == "b"), vec![write]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever others do with their Secrets, a Secret that loses keys is always followed; no shard overflows and no
    /// namespace exceeds its share by a value that is new.
    #[test]
    fn a_revocation_always_finds_room(steps in proptest::collection::vec((0_usize..4, 0_usize..6, 1_usize..200), 1..60)) {
        let rooms = Rooms { shard: 400, share: 700 };
        let mut shards: Vec<Secret> = (0..CREDENTIAL_SHARDS).map(|_| Secret::default()).collect();
        // What each Secret's documents name now: version and length of the value.
        let mut served: HashMap<(usize, usize), (usize, usize)> = HashMap::new();
        for (version, (tenant, number, length)) in steps.into_iter().enumerate() {
            let name = |version: usize| format!("s{tenant}x{number}.{version}.all");
            let mut known = Known::default();
            for ((tenant, number), (version, _)) in &served {
                known.users.insert(format!("s{tenant}x{number}.{version}.all"), format!("t{tenant}"));
            }
            known.values.insert(name(version), vec![b'x'; length]);
            let wanted = BTreeMap::from([(handle(&name(version)), format!("t{tenant}"))]);
            let (writes, lacking) = adding(&wanted, |n| shards.get(n), &known, rooms);
            for write in writes {
                let data = write.data.into_iter().map(|(handle, value)| (handle, ByteString(value))).collect();
                shards[write.number].data = Some(data);
            }
            let before = served.get(&(tenant, number)).copied();
            let shrinks = before.is_some_and(|(before, held)| {
                cost(&handle(&name(version)), length) <= stored(&name(before), held)
            });
            prop_assert!(!shrinks || lacking.is_empty(), "{lacking:?}");
            if lacking.is_empty() {
                served.insert((tenant, number), (version, length));
            } else {
                // Its exposition stops, and names nothing any more.
                served.remove(&(tenant, number));
            }
            for shard in &shards {
                prop_assert!(Shard::new(Some(shard)).bytes <= rooms.shard);
            }
            for ((tenant, number), (version, length)) in &served {
                let name = format!("s{tenant}x{number}.{version}.all");
                let there = shards.iter().any(|shard| content(Some(shard)).get(&name).map(Vec::len) == Some(*length));
                prop_assert!(there, "{name} is served and not there");
            }
        }
    }
}
