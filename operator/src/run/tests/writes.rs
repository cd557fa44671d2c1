//! Tests of which writes are decided, in which order, and of their answers.

use std::time::Duration;

use serde_json::json;

use super::harness::Harness;
use crate::cluster_state::fixture::name;
use crate::object::Kind;

/// Answers writes one by one, each kind as late as possible, and returns the order in which they could be answered.
fn order(harness: &mut Harness) -> Vec<String> {
    let mut order = Vec::new();
    loop {
        harness.run();
        let waiting = harness.configuration();
        let Some(first) = waiting.first().cloned() else { return order };
        assert_eq!(waiting.len(), 1, "nothing of a later stage is decided while one is not answered: {waiting:?}");
        order.push(first.clone());
        harness.answer(&first);
    }
}

#[test]
fn writes_credentials_then_the_service_then_the_exposition() {
    let mut harness = Harness::new();
    harness.put(Kind::GatewayGroup, "default", json!({"replicas": 1}));
    harness.service("team/s", true);
    harness.secret("api");
    harness.filter("team/n", "/a");
    harness.exposition("team/e");
    harness.run();
    harness.answer("group");
    assert_eq!(order(&mut harness), ["credentials", "service", "exposition team/e"]);
    assert_eq!(harness.condition(Kind::Exposition, "e", "Ready"), "none");
    harness.settle();
    let programmed = harness.log.iter().position(|write| write == "status Exposition team/e");
    let written = harness.log.iter().position(|write| write == "exposition team/e");
    assert!(written < programmed, "{:?}", harness.log);
    assert_eq!(harness.condition(Kind::Exposition, "e", "Ready"), "True");
}

#[test]
fn writes_a_new_version_of_a_secret_before_the_document_that_names_it() {
    let mut harness = Harness::good();
    harness.secret("api");
    assert_eq!(order(&mut harness), ["credentials", "exposition team/e"]);
}

#[test]
fn a_bundle_learns_what_the_operator_has_written_for_a_part() {
    let mut harness = Harness::good();
    let bundle = json!({"expositions": [{"name": "e", "prefix": "a_"}], "access": {"anonymous": true}});
    harness.put(Kind::Exposition, "all", bundle);
    harness.settle();
    for (filters, expected) in [("n", "True"), ("gone", "False"), ("n", "True")] {
        harness.log.clear();
        harness.put(Kind::Exposition, "e", Harness::exposing(json!({"filters": [filters]})));
        harness.settle();
        assert_eq!(harness.condition(Kind::Exposition, "all", "ResolvedRefs"), expected, "{filters}");
        assert!(!harness.log.contains(&"exposition team/all".to_owned()), "{:?}", harness.log);
    }
}

#[test]
fn deletes_the_document_in_the_former_group_last() {
    let mut harness = Harness::good();
    harness.put(Kind::GatewayGroup, "gw/other", json!({"replicas": 1, "allowedNamespaces": {"from": "All"}}));
    harness.settle();
    harness.log.clear();
    let group = json!({"name": "other", "namespace": "gw"});
    harness.put(Kind::Exposition, "e", Harness::exposing(json!({"filters": ["n"], "gatewayGroup": group})));
    let expected = ["credentials", "service", "exposition team/e", "delete exposition team/e"];
    assert_eq!(order(&mut harness), expected);
}

#[test]
fn a_refused_stage_holds_back_later_stages_and_is_retried() {
    for refused in ["credentials", "exposition"] {
        let mut harness = Harness::good();
        let before = harness.digest("e");
        harness.secret("api");
        harness.run();
        if refused != "credentials" {
            harness.answer("credentials");
        }
        harness.refuse(refused);
        assert_eq!(harness.configuration(), [""; 0], "neither the next stage nor another attempt at once");
        harness.answer_all();
        assert_eq!(harness.digest("e"), before);
        assert_eq!(harness.condition(Kind::Exposition, "e", "Ready"), "False", "{refused}");
        harness.settle();
        assert_ne!(harness.digest("e"), before, "{refused}");
        assert_eq!(harness.condition(Kind::Exposition, "e", "Ready"), "True");
    }
}

#[test]
fn a_conflicting_write_is_planned_again_from_the_version_of_the_watch() {
    for delivered_before in [true, false] {
        let mut harness = Harness::good();
        let before = harness.digest("e");
        harness.filter("team/n", "/b");
        harness.run();
        assert_eq!(harness.configuration(), ["exposition team/e"]);
        harness.overwrite_document("e", delivered_before);
        harness.answer("exposition team/e");
        if !delivered_before {
            assert_eq!(harness.configuration(), [""; 0], "the current version is not known yet");
            harness.overwrite_document("e", true);
            harness.run();
        }
        assert_eq!(harness.configuration(), ["exposition team/e"]);
        harness.settle();
        assert_ne!(harness.digest("e"), before);
        assert_eq!(
            harness.log.iter().filter(|write| *write == "exposition team/e").count(),
            2,
            "one fails, one succeeds"
        );
        assert_eq!(harness.condition(Kind::Exposition, "e", "Ready"), "True");
    }
}

#[test]
fn no_object_has_two_writes_in_flight() {
    let mut harness = Harness::good();
    for retained in ["/b", "/c", "/d"] {
        harness.filter("team/n", retained);
        harness.run();
        assert_eq!(harness.configuration(), ["exposition team/e"]);
    }
    harness.answer("exposition team/e");
    assert_eq!(harness.configuration(), ["exposition team/e"], "the edits meanwhile are one write");
    harness.settle();
    let written = harness.log.iter().filter(|write| *write == "exposition team/e").count();
    assert_eq!(written, 2);
}

#[test]
fn an_exposition_deleted_while_its_document_is_written_leaves_nothing_behind() {
    let mut harness = Harness::good();
    let configs = harness.configs();
    harness.filter("team/n", "/b");
    harness.run();
    harness.delete(Kind::Exposition, "e");
    harness.run();
    assert_eq!(harness.configuration(), ["exposition team/e"], "the deletion waits for the answer");
    harness.answer("exposition team/e");
    assert_eq!(harness.configuration(), ["delete exposition team/e"]);
    harness.answer("delete");
    assert_eq!(harness.configs(), configs - 1);
}

#[test]
fn deleting_a_namespace_deletes_its_documents_and_no_others() {
    let mut harness = Harness::good();
    harness.put(Kind::GatewayGroup, "default", json!({"replicas": 1, "allowedNamespaces": {"from": "All"}}));
    harness.service("guest/s", false);
    harness.filter("guest/n", "/a");
    let group = json!({"name": "default", "namespace": "team"});
    for text in ["guest/x", "guest/y"] {
        harness.put(Kind::Exposition, text, Harness::exposing(json!({"filters": ["n"], "gatewayGroup": group})));
    }
    harness.settle();
    let before = (harness.digest("e"), harness.digest("guest/x").is_some(), harness.digest("guest/y").is_some());
    assert!(before.1 && before.2);
    harness.log.clear();
    for (kind, text) in [
        (Kind::ToolsFilters, "guest/n"),
        (Kind::Exposition, "guest/y"),
        (Kind::ServiceManifest, "guest/s"),
        (Kind::Exposition, "guest/x"),
    ] {
        harness.delete(kind, text);
    }
    harness.answer_all();
    assert_eq!((harness.digest("guest/x"), harness.digest("guest/y")), (None, None));
    assert_eq!(harness.digest("e"), before.0);
    let mut deleted: Vec<_> = harness.log.iter().filter(|write| write.starts_with("delete")).cloned().collect();
    deleted.sort();
    assert_eq!(deleted, ["delete exposition guest/x", "delete exposition guest/y"]);
    assert!(!harness.log.iter().any(|write| write.starts_with("exposition")), "{:?}", harness.log);
}

#[test]
fn one_edit_among_ten_thousand_expositions_is_one_document() {
    let mut harness = Harness::good();
    harness.service("team/many", false);
    let service = json!({"name": "many", "version": "1"});
    let set = json!({"name": "set", "service": service, "filters": {"get": {"retain": ["/a"]}}});
    harness.put(Kind::ToolsFilters, "set", set);
    for number in 0..10_000 {
        let spec = Harness::exposing(json!({"service": service, "filters": ["set"]}));
        harness.put(Kind::Exposition, &format!("many-{number}"), spec);
    }
    harness.settle();
    assert_eq!(harness.configs(), 10_000 + 3, "one document each, `e`, and two services");
    harness.log.clear();

    let limits = json!({"requestsPerSecond": 9});
    let spec = Harness::exposing(json!({"service": service, "filters": ["set"], "limits": limits}));
    harness.put(Kind::Exposition, "many-4711", spec);
    harness.settle();
    let written: Vec<_> = harness.log.iter().filter(|write| !write.starts_with("status")).collect();
    assert_eq!(written, ["exposition team/many-4711"]);
    let statuses: Vec<_> = harness.log.iter().filter(|write| write.starts_with("status")).collect();
    assert_eq!(statuses, ["status Exposition team/many-4711"]);
}

#[test]
fn statuses_advance_while_the_api_server_keeps_documents_waiting() {
    let mut harness = Harness::good();
    harness.exposition("team/f");
    harness.settle();
    harness.loads = false;
    harness.filter("team/n", "/b");
    harness.run();
    assert_eq!(harness.configuration(), ["exposition team/e", "exposition team/f"]);
    harness.answer("exposition team/e");
    // The write of `f` is never answered. Acks of `e` and the clock are handled all the same.
    let digest = harness.digest("e").expect("is written");
    let (observed, generation) = harness.generations(Kind::ToolsFilters, "n");
    assert_ne!(observed, generation);
    harness.pass(Duration::from_secs(3));
    harness.run();
    harness.answer("status Exposition team/e");
    assert_eq!(harness.condition(Kind::Exposition, "e", "Programmed"), "Unknown", "by the clock");
    harness.ack("e", digest);
    harness.run();
    harness.answer("status Exposition team/e");
    assert_eq!(harness.condition(Kind::Exposition, "e", "Programmed"), "True");
    assert_eq!(harness.configuration(), ["exposition team/f"]);
    // Edits are handled too.
    harness.filter("team/n", "/c");
    harness.run();
    assert_eq!(harness.configuration(), ["exposition team/f", "exposition team/e"]);
}

#[test]
fn a_namespace_with_slow_writes_leaves_capacity_for_others() {
    let mut harness = Harness::good();
    harness.put(Kind::GatewayGroup, "default", json!({"replicas": 1, "allowedNamespaces": {"from": "All"}}));
    harness.service("greedy/s", false);
    harness.filter("greedy/n", "/a");
    let group = json!({"name": "default", "namespace": "team"});
    for number in 0..500 {
        let spec = Harness::exposing(json!({"filters": ["n"], "gatewayGroup": group}));
        harness.put(Kind::Exposition, &format!("greedy/{number:03}"), spec);
    }
    harness.run();
    harness.answer("service");
    let greedy = harness.configuration().len();
    assert!((1..=64).contains(&greedy), "{greedy} writes are in flight");
    harness.filter("team/n", "/b");
    harness.run();
    assert!(harness.configuration().contains(&"exposition team/e".to_owned()));
    harness.settle();
    assert!(harness.digest("greedy/499").is_some());
}

#[test]
fn ignores_acks_that_are_late_or_of_another_generation() {
    let mut harness = Harness::good();
    harness.loads = false;
    let old = harness.digest("e").expect("is written");
    harness.filter("team/n", "/b");
    harness.run();
    // Written, and not answered: the gateway has loaded the new document before the operator knows that it is written.
    let write = harness.writes.pop_front().expect("waits");
    let report = harness.perform(write);
    let new = harness.digest("e").expect("is written");
    assert_ne!(old, new);
    harness.ack("e", new.clone());
    harness.run();
    assert_eq!(harness.waiting(), [""; 0], "no status is written about a document before its write is answered");
    harness.report(report);
    harness.pass(Duration::from_millis(300));
    harness.answer_all();
    assert_eq!(harness.condition(Kind::ToolsFilters, "n", "Programmed"), "True", "the early ack counts by then");

    // A late ack, of the previous generation.
    harness.filter("team/n", "/c");
    harness.answer_all();
    harness.ack("e", old);
    harness.pass(Duration::from_secs(3));
    harness.answer_all();
    assert_eq!(harness.condition(Kind::Exposition, "e", "Programmed"), "Unknown");
    let newest = harness.digest("e").expect("is written");
    harness.ack("e", newest);
    harness.pass(Duration::from_millis(300));
    harness.answer_all();
    assert_eq!(harness.condition(Kind::Exposition, "e", "Programmed"), "True");

    // An ack of a deleted exposition.
    harness.delete(Kind::Exposition, "e");
    harness.settle();
    harness.log.clear();
    harness.ack("e", new);
    harness.answer_all();
    assert_eq!(harness.log, [""; 0]);
}

#[test]
fn keeps_a_value_while_a_waiting_document_needs_it() {
    let mut harness = Harness::good();
    harness.put(
        Kind::Exposition,
        "e",
        Harness::exposing(json!({"filters": ["n"], "limits": {"requestsPerSecond": 9}})),
    );
    harness.run();
    assert_eq!(harness.configuration(), ["exposition team/e"]);
    let held = harness.state.pipeline.credentials(&name("default"));
    assert_eq!(held.len(), 1, "the document that waits names it");
    harness.settle();
    assert!(harness.state.pipeline.credentials(&name("default")).is_empty());
}
