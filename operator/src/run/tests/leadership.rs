//! Tests of decisions that are in flight when the leadership changes.

use std::time::Duration;

use super::super::action::{Action, Failure, Report};
use super::harness::Harness;
use crate::cluster_state::fixture::name;
use crate::leader::Deposed;
use crate::object::Kind;

#[test]
fn a_decision_of_an_earlier_term_is_not_written_and_is_taken_again() {
    let mut harness = Harness::good();
    let before = harness.digest("e");
    harness.filter("team/n", "/b");
    harness.run();
    assert_eq!(harness.configuration(), ["exposition team/e"]);
    harness.term = None;
    harness.run();
    harness.answer("exposition team/e");
    assert_eq!((harness.digest("e"), harness.log.len()), (before.clone(), 0), "the fence holds it back");
    assert_eq!(harness.waiting(), [""; 0], "a follower decides no writes");

    harness.term = Some(2);
    harness.settle();
    assert_ne!(harness.digest("e"), before);
    assert_eq!(harness.condition(Kind::Exposition, "e", "Ready"), "True");
}

#[test]
fn leadership_lost_and_gained_before_the_answer() {
    let mut harness = Harness::good();
    let before = harness.digest("e");
    harness.filter("team/n", "/b");
    harness.run();
    let write = harness.writes.pop_front().expect("waits");
    harness.term = None;
    harness.run();
    harness.term = Some(3);
    harness.run();
    let waits = |harness: &Harness| harness.configuration().contains(&"exposition team/e".to_owned());
    assert!(!waits(&harness), "the write of the earlier term may still arrive");
    // It has not been carried out. The answer is about another term, so this term continues.
    let report = harness.perform(write);
    harness.report(report);
    assert!(waits(&harness), "{:?}", harness.waiting());
    harness.settle();
    assert_ne!(harness.digest("e"), before);
    assert_eq!(harness.log.iter().filter(|write| *write == "exposition team/e").count(), 1);
}

#[test]
fn a_late_answer_of_an_earlier_term_restores_nothing() {
    let mut harness = Harness::good();
    harness.exposition("team/f");
    harness.run();
    let write = harness.writes.pop_front().expect("waits");
    let report = harness.perform(write);
    // Written, and the answer is late: meanwhile another operator led, and the exposition and its document went.
    harness.term = None;
    harness.run();
    harness.delete(Kind::Exposition, "f");
    harness.remove_document("f");
    harness.term = Some(2);
    harness.run();
    harness.report(report);
    harness.settle();
    assert_eq!(harness.digest("f"), None);
    assert!(
        !harness.log.iter().any(|write| write.starts_with("delete")),
        "nothing is left to delete: {:?}",
        harness.log
    );
}

#[test]
fn a_new_term_relists_before_its_first_write() {
    for (term, sleeps) in [(Some(2), 0), (Some(1), 1)] {
        let mut harness = Harness::good();
        harness.filter("team/n", "/b");
        harness.term = term;
        harness.sleeps = sleeps;
        let actions = harness.step_once();
        assert!(!actions.iter().any(|action| matches!(action, Action::Write(_))), "{actions:?}");
        let sources = actions.iter().filter(|action| matches!(action, Action::Follow { .. })).count();
        assert!(sources >= 9, "all watches begin again: {actions:?}");
        // Until every list has come nothing is written, whatever time passes.
        harness.pass(Duration::from_secs(1));
        assert!(harness.step_once().is_empty());
        for action in actions {
            harness.perform_action(action);
        }
        harness.settle();
        assert!(harness.log.contains(&"exposition team/e".to_owned()), "{:?}", harness.log);
    }
}

#[test]
fn a_change_that_an_earlier_term_received_is_not_acted_upon() {
    let mut harness = Harness::good();
    let before = harness.digest("e");
    harness.filter("team/n", "/b");
    harness.run();
    // The watch delivers the document while its write is in flight; then the term ends.
    harness.overwrite_document("e", true);
    harness.term = Some(2);
    harness.run();
    harness.answer_all();
    harness.settle();
    assert_ne!(harness.digest("e"), before);
    assert_eq!(harness.condition(Kind::Exposition, "e", "Ready"), "True");
}

#[test]
fn a_new_leader_compares_everything_and_rewrites_nothing_that_is_current() {
    let mut harness = Harness::good();
    harness.term = Some(2);
    harness.settle();
    assert_eq!(harness.log, ["group team/default"], "a group's objects are compared where they are written");
}

#[test]
fn a_sleep_within_the_lease_refuses_what_was_decided_before() {
    let mut harness = Harness::good();
    let before = harness.digest("e");
    harness.filter("team/n", "/b");
    harness.run();
    harness.sleeps += 1;
    let write = harness.writes.pop_front().expect("waits");
    let report = harness.perform(write);
    assert!(matches!(report, Report::Config { result: Err(Failure::Deposed(Deposed)), .. }));
    harness.report(report);
    assert_eq!(harness.digest("e"), before);
    harness.settle();
    assert_ne!(harness.digest("e"), before);
}

#[test]
fn a_deposed_write_of_this_term_compares_everything_again() {
    let mut harness = Harness::good();
    let before = harness.digest("e");
    harness.filter("team/n", "/b");
    harness.run();
    // The claim ran out for a moment: the request did not begin, and no step saw it.
    harness.writes.clear();
    let target = harness.state.cluster.configs.of_exposition(&super::super::id(&name("e"))).pop().expect("is written");
    let result = Err(Failure::Deposed(Deposed));
    harness.report(Report::Config { name: target.name.clone(), result });
    harness.settle();
    assert_ne!(harness.digest("e"), before);
}
