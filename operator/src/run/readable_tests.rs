use k8s_openapi::ByteString;
use kube::api::DynamicObject;
use proptest::prelude::*;
use tamis_config::names::CREDENTIAL_SHARDS;
use tamis_crds::ObjectName;

use super::super::action::{Fence, Owner};
use super::super::pipeline::{Pipeline, Purpose, Shards, Target};
use super::super::shards::{Rooms, SHARD_BYTES, Values, adding};
use super::*;
use crate::cluster_state::fixture::{Fixture, name};
use crate::cluster_state::shard_name;
use crate::watch::{Change, Message, Source, Watched};

type Data<'d> = &'d [(&'d str, &'d str)];

fn handle(text: &str) -> CredentialHandle {
    CredentialHandle(text.to_owned())
}

fn data(values: Data<'_>) -> BTreeMap<String, Vec<u8>> {
    values.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect()
}

fn secret(version: &str, values: Data<'_>) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.resource_version = Some(version.to_owned());
    secret.data = Some(data(values).into_iter().map(|(name, value)| (name, ByteString(value))).collect());
    secret
}

/// Returns whether the value `1` of the handle `a` is readable.
fn readable(shards: &[ShardContent<'_>]) -> bool {
    is_readable(&handle("a"), b"1", shards)
}

#[test]
fn a_value_is_readable_in_a_shard_at_rest_that_has_it() {
    for (values, expected) in [
        (&[("a", "1")] as Data<'_>, true),
        (&[("a", "1"), ("b", "2")], true),
        (&[("a", "2")], false),
        (&[("b", "1")], false),
        (&[], false),
    ] {
        let seen = secret("5", values);
        let content = ShardContent::new(Some(&seen), None, Reported::Nothing, None);
        assert_eq!(readable(&[content]), expected, "{values:?}");
    }
    assert!(!readable(&[]), "no shard");
    assert!(!readable(&[ShardContent::new(None, None, Reported::Nothing, None)]), "no shard that the group owns");
}

#[test]
fn a_value_is_readable_in_a_shard_in_flight_that_keeps_it() {
    for (before, after, expected) in [
        (&[("a", "1")] as Data<'_>, &[("a", "1"), ("b", "2")] as Data<'_>, true),
        (&[("a", "1"), ("b", "2")], &[("a", "1")], true),
        (&[("a", "1"), ("b", "2")], &[("b", "2")], false),
        (&[("a", "1")], &[("a", "2")], false),
        // It has to be there even if the write fails.
        (&[("b", "2")], &[("a", "1"), ("b", "2")], false),
        (&[("a", "2")], &[("a", "1")], false),
    ] {
        let seen = secret("5", before);
        let change = ShardChange::new(Some(&seen), &data(after));
        let content = ShardContent::new(Some(&seen), Some(&change), Reported::Nothing, None);
        assert_eq!(readable(&[content]), expected, "{before:?} {after:?}");
    }
    let (seen, creation) = (secret("5", &[("a", "1")]), ShardChange::new(None, &data(&[("a", "1")])));
    assert!(!readable(&[ShardContent::new(Some(&seen), Some(&creation), Reported::Nothing, None)]), "it will conflict");
    assert!(!readable(&[ShardContent::new(None, Some(&creation), Reported::Nothing, None)]), "it is not there yet");
}

#[test]
fn one_shard_that_has_the_value_is_enough_and_none_may_have_another() {
    let [has, without, other] = [[("a", "1")], [("b", "1")], [("a", "2")]].map(|values| secret("5", &values));
    let rest = |seen| ShardContent::new(Some(seen), None, Reported::Nothing, None);
    assert!(readable(&[rest(&without), rest(&has), ShardContent::Unknown]));
    assert!(!readable(&[rest(&has), rest(&other)]));
    assert!(!readable(&[rest(&other), rest(&has)]));
}

#[test]
fn a_shard_whose_version_is_in_doubt_is_unknown() {
    let seen = secret("5", &[("a", "1")]);
    let change = ShardChange::new(Some(&seen), &data(&[("a", "1")]));
    let earlier = ShardChange::new(Some(&secret("4", &[("a", "1")])), &data(&[("a", "1")]));
    for (in_flight, reported, failed, expected) in [
        (None, Reported::Nothing, None, true),
        // The last write failed, and may have replaced this version; or it failed earlier.
        (None, Reported::Nothing, Some("5"), false),
        (None, Reported::Nothing, Some("4"), true),
        (Some(&change), Reported::Nothing, Some("5"), false),
        (Some(&change), Reported::Nothing, Some("4"), true),
        // The watch lags, or knows more.
        (Some(&change), Reported::Version("4"), None, true),
        (Some(&change), Reported::Version("5"), None, true),
        (Some(&change), Reported::Version("6"), None, false),
        (Some(&change), Reported::Version("opaque"), None, false),
        (Some(&change), Reported::Gone, None, false),
        // Listed since the write began: the write conflicts.
        (Some(&earlier), Reported::Nothing, None, false),
    ] {
        let content = ShardContent::new(Some(&seen), in_flight, reported, failed);
        assert_eq!(readable(&[content]), expected, "{in_flight:?} {reported:?} {failed:?}");
    }
    let mut unversioned = seen.clone();
    unversioned.metadata.resource_version = None;
    assert!(!readable(&[ShardContent::new(Some(&unversioned), None, Reported::Nothing, None)]));
}

/// The shard `0` of the group `default`, at version 5, in a pipeline.
struct Case {
    fixture: Fixture,
    pipeline: Pipeline,
}

impl Case {
    fn new() -> Self {
        let mut case = Self { fixture: Fixture::empty(), pipeline: Pipeline::default() };
        case.sees("5", &[("a", "1"), ("b", "2")]);
        case
    }

    fn shard() -> ObjectName {
        shard_name(&name("default"), 0)
    }

    fn owner(uid: &str) -> Owner {
        Owner { group: name("default"), uid: uid.to_owned() }
    }

    fn sees(&mut self, version: &str, values: Data<'_>) {
        let mut secret = secret(version, values);
        secret.metadata.owner_references = Some(vec![k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
            uid: "group".to_owned(),
            ..Default::default()
        }]);
        self.fixture.cluster.shard_applied(&Self::shard(), secret);
    }

    /// Begins to write the shard.
    fn writes(&mut self, values: Data<'_>) {
        let seen = self.fixture.cluster.shards.get(&Self::shard()).cloned();
        let purpose =
            Purpose::Shard { group: name("default"), change: ShardChange::new(seen.as_deref(), &data(values)) };
        self.pipeline.begins(Target::Shard(Self::shard()), purpose, Fence { term: 1, sleeps: 0 });
    }

    /// The write fails.
    fn fails(&mut self) {
        let (ended, _) = self.pipeline.ends(&Target::Shard(Self::shard())).expect("is in flight");
        let Purpose::Shard { change, .. } = ended.purpose else { panic!("a shard") };
        self.pipeline.shard_failed(&Self::shard(), change);
    }

    fn reported(&mut self, change: fn(DynamicObject) -> Change, version: &str) {
        let shard = Self::shard();
        let metadata =
            serde_json::json!({"name": shard.name, "namespace": shard.namespace, "resourceVersion": version});
        let object = serde_json::from_value(serde_json::json!({"metadata": metadata})).expect("is an object");
        let source = Source { watched: Watched::GroupSecrets, namespace: Some(shard.namespace) };
        let kept = self.pipeline.keep(Message { source, epoch: 1, change: change(object) });
        assert!(kept.is_none(), "it is read after the answer");
    }

    fn is_readable(&mut self, owner: &str) -> bool {
        self.pipeline.forget_failed_shards(&self.fixture.cluster.shards);
        let shards = Shards::of(&self.fixture.cluster, &Self::owner(owner));
        let content = self.pipeline.shard(&Self::shard(), shards.own(0));
        readable(&[content])
    }
}

#[test]
fn the_pipeline_knows_what_a_shard_holds() {
    let mut case = Case::new();
    assert!(case.is_readable("group"));
    assert!(!case.is_readable("an earlier group of the name"));
    case.writes(&[("a", "1")]);
    assert!(case.is_readable("group"), "the write keeps it");
    assert!(!case.is_readable("an earlier group of the name"));
    case.reported(Change::applied, "5");
    assert!(case.is_readable("group"), "the watch reports the version that was seen already");
    case.reported(Change::applied, "6");
    assert!(!case.is_readable("group"), "another writer may have changed it");
    case.reported(Change::deleted, "7");
    assert!(!case.is_readable("group"));

    let mut case = Case::new();
    case.writes(&[("b", "2")]);
    assert!(!case.is_readable("group"), "the write takes it away");
    case.fails();
    assert!(!case.is_readable("group"), "the write may have taken it away");
    case.writes(&[("a", "1"), ("b", "2")]);
    assert!(!case.is_readable("group"), "so may the one before");
    case.fails();
    case.sees("6", &[("a", "1")]);
    assert!(case.is_readable("group"), "a later version is known");
}

#[test]
fn a_new_term_remembers_what_is_in_flight_and_what_has_failed() {
    let mut case = Case::new();
    case.writes(&[("b", "2")]);
    case.pipeline.begin();
    assert!(!case.is_readable("group"));
    case.fails();
    case.pipeline.begin();
    assert!(!case.is_readable("group"));
}

#[derive(Debug)]
struct Known(BTreeMap<String, Vec<u8>>);

impl Values for Known {
    fn value(&self, handle: &CredentialHandle) -> Option<Vec<u8>> {
        self.0.get(&handle.0).cloned()
    }

    fn user(&self, _: &CredentialHandle) -> Option<&str> {
        None
    }
}

proptest! {
    /// Whatever becomes of a write in flight, a readable value is there; and where nothing is in flight, a document whose
    /// values are readable is one that `adding` writes no shard for.
    #[test]
    fn a_readable_value_is_there_after_every_outcome(
        before in proptest::collection::vec(proptest::option::of(values()), CREDENTIAL_SHARDS),
        after in proptest::collection::vec(proptest::option::of(values()), CREDENTIAL_SHARDS),
    ) {
        let seen: Vec<Option<Secret>> = before.iter().map(|shard| shard.as_ref().map(stored)).collect();
        let changes: Vec<Option<ShardChange>> =
            after.iter().zip(&seen).map(|(after, seen)| Some(ShardChange::new(seen.as_ref(), after.as_ref()?))).collect();
        let contents = |changes: &'_ [Option<ShardChange>]| -> bool {
            let contents: Vec<_> = seen
                .iter()
                .enumerate()
                .map(|(at, seen)| {
                    let change = changes.get(at).and_then(Option::as_ref);
                    ShardContent::new(seen.as_ref(), change, Reported::Nothing, None)
                })
                .collect();
            readable(&contents)
        };
        let has = |data: &Option<BTreeMap<String, Vec<u8>>>| {
            data.as_ref().and_then(|data| data.get("a")).is_some_and(|value| value == b"1")
        };
        if contents(&changes) {
            // Some shard has it, whether or not its own write succeeds.
            let stays = before.iter().zip(&after).any(|(before, after)| has(before) && (after.is_none() || has(after)));
            prop_assert!(stays, "{before:?} {after:?}");
        }
        if contents(&[]) {
            let known = Known([("a".to_owned(), b"1".to_vec())].into());
            let wanted = [(handle("a"), "team".to_owned())].into();
            let rooms = Rooms { shard: SHARD_BYTES, share: SHARD_BYTES };
            let (writes, lacking) = adding(&wanted, |number| seen[number].as_ref(), &known, rooms);
            prop_assert!(writes.is_empty() && lacking.is_empty(), "{before:?}");
        }
    }
}

fn values() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    proptest::collection::btree_map("[ab]", "[12]".prop_map(String::into_bytes), 0..3)
}

fn stored(data: &BTreeMap<String, Vec<u8>>) -> Secret {
    let mut secret = secret("5", &[]);
    secret.data = Some(data.iter().map(|(name, value)| (name.clone(), ByteString(value.clone()))).collect());
    secret
}
