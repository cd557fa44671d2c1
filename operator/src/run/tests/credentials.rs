//! Documents and the credentials that they name. The harness fails whenever a document is written whose credential no gateway
//! can read.

use proptest::prelude::*;
use serde_json::json;

use super::harness::Harness;
use crate::object::Kind;

/// An operator that leads a cluster with two teams of one gateway group, each with a credential of its own. Everything is
/// written and loaded.
fn two_teams() -> Harness {
    let mut harness = Harness::good();
    harness.put(Kind::GatewayGroup, "default", json!({"replicas": 1, "allowedNamespaces": {"from": "All"}}));
    harness.service("guest/s", true);
    harness.secret("guest/api");
    harness.filter("guest/n", "/a");
    guest(&mut harness);
    harness.settle();
    assert!(harness.digest("guest/e").is_some());
    harness.log.clear();
    harness
}

fn guest(harness: &mut Harness) {
    let group = json!({"name": "default", "namespace": "team"});
    harness.put(Kind::Exposition, "guest/e", Harness::exposing(json!({"filters": ["n"], "gatewayGroup": group})));
}

#[test]
fn an_edit_does_not_wait_for_the_credentials_of_another_team() {
    let mut harness = two_teams();
    harness.secret("guest/api");
    harness.run();
    assert_eq!(harness.configuration(), ["credentials"]);
    harness.filter("team/n", "/b");
    harness.run();
    assert_eq!(harness.configuration(), ["credentials", "exposition team/e"]);
    harness.answer("exposition team/e");
    harness.answer("credentials");
    assert_eq!(harness.configuration(), ["exposition guest/e"]);
    harness.settle();
}

#[test]
fn a_new_value_waits_for_the_shards_in_flight_and_for_its_own() {
    let mut harness = two_teams();
    harness.secret("guest/api");
    harness.run();
    harness.secret("api");
    harness.run();
    assert_eq!(harness.configuration(), ["credentials"], "the shards' room is known after the answer");
    harness.answer("credentials");
    assert_eq!(harness.configuration(), ["credentials", "exposition guest/e"]);
    harness.answer("credentials");
    assert_eq!(harness.configuration(), ["exposition guest/e", "exposition team/e"]);
    harness.settle();
}

#[test]
fn an_edit_during_a_new_value_waits_for_that_value() {
    let mut harness = two_teams();
    harness.secret("api");
    harness.run();
    harness.filter("team/n", "/b");
    harness.run();
    assert_eq!(harness.configuration(), ["credentials"]);
    harness.answer("credentials");
    assert_eq!(harness.configuration(), ["exposition team/e"]);
    harness.settle();
}

#[test]
fn a_document_that_passed_the_shards_is_not_written_in_a_later_term() {
    let mut harness = two_teams();
    let before = harness.digest("e");
    harness.secret("guest/api");
    harness.filter("team/n", "/b");
    harness.run();
    assert_eq!(harness.configuration(), ["credentials", "exposition team/e"]);
    harness.term = Some(2);
    harness.run();
    harness.answer("exposition team/e");
    assert_eq!(harness.digest("e"), before);
    harness.settle();
    assert_ne!(harness.digest("e"), before);
}

/// Something that happens. A number picks one of the writes that wait.
#[derive(Debug, Clone)]
enum Happening {
    Secret(&'static str),
    Filter(&'static str, u8),
    Republish,
    Answer(usize),
    Refuse(usize),
    LoseAnswer(usize),
    Watch,
    NewTerm,
    Sleep,
    Time,
}

fn happening() -> impl Strategy<Value = Happening> {
    let team = || prop_oneof![Just("team"), Just("guest")];
    prop_oneof![
        3 => prop_oneof![Just("team/api"), Just("guest/api")].prop_map(Happening::Secret),
        3 => (team(), any::<u8>()).prop_map(|(team, path)| Happening::Filter(team, path)),
        1 => Just(Happening::Republish),
        8 => (0..8_usize).prop_map(Happening::Answer),
        2 => (0..8_usize).prop_map(Happening::Refuse),
        2 => (0..8_usize).prop_map(Happening::LoseAnswer),
        6 => Just(Happening::Watch),
        1 => Just(Happening::NewTerm),
        1 => Just(Happening::Sleep),
        3 => Just(Happening::Time),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The harness holds every document against what the API server has, when it is decided and when it is written.
    #[test]
    fn no_document_is_written_before_its_credentials(happenings in proptest::collection::vec(happening(), 1..60)) {
        let mut harness = two_teams();
        harness.lags = true;
        let mut term = 1;
        for happening in happenings {
            let waiting = harness.writes.len().max(1);
            match happening {
                Happening::Secret(secret) => harness.secret(secret),
                Happening::Filter(team, path) => harness.filter(&format!("{team}/n"), &format!("/{path}")),
                Happening::Republish => {
                    harness.delete(Kind::Exposition, "guest/e");
                    guest(&mut harness);
                }
                Happening::Answer(at) => harness.answer_at(at % waiting),
                Happening::Refuse(at) => harness.refuse_at(at % waiting),
                Happening::LoseAnswer(at) => harness.lose_answer(at % waiting),
                Happening::Watch => harness.deliver_next(),
                Happening::NewTerm => {
                    term += 1;
                    harness.term = Some(term);
                }
                Happening::Sleep => harness.sleeps += 1,
                Happening::Time => harness.pass(std::time::Duration::from_millis(100)),
            }
            harness.run();
        }
        harness.catch_up();
        harness.settle();
        for exposition in ["e", "guest/e"] {
            prop_assert_eq!(harness.condition(Kind::Exposition, exposition, "Ready"), "True", "{}", exposition);
        }
    }
}
