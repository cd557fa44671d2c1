use proptest::prelude::*;
use tamis_config::acks::{Ack, AckState};

use super::*;

fn group() -> ObjectName {
    ObjectName { namespace: "edge".to_owned(), name: "public".to_owned() }
}

fn id(name: &str) -> ExpositionId {
    ExpositionId { namespace: "team".to_owned(), name: name.to_owned() }
}

fn document(name: &str, digest: &str) -> RequiredDocument {
    RequiredDocument { group: group(), id: id(name), digest: Digest(digest.to_owned()) }
}

fn ack(name: &str, digest: &str, state: AckState) -> Ack {
    Ack { id: id(name), digest: Digest(digest.to_owned()), state }
}

fn loaded(name: &str, digest: &str) -> Ack {
    ack(name, digest, AckState::Loaded)
}

fn saved(name: &str, input_bytes: u64, output_bytes: u64) -> Saved {
    Saved { id: id(name), input_bytes, output_bytes }
}

fn snapshot(instance: &str, expositions: Vec<Ack>, saved: Vec<Saved>) -> StreamEvent {
    let instance = instance.to_owned();
    let version = "1.0.0".to_owned();
    StreamEvent::Ack(AckEvent::Snapshot { instance, version, format_versions: vec![1], expositions, saved })
}

fn changed(expositions: Vec<Ack>) -> StreamEvent {
    StreamEvent::Ack(AckEvent::Changed { expositions, removed: vec![] })
}

fn counted(saved: Vec<Saved>) -> StreamEvent {
    StreamEvent::Ack(AckEvent::Counted { saved })
}

/// A table and a clock that a test moves.
struct Fixture {
    table: Table,
    now: Instant,
}

impl Fixture {
    fn new(endpoints: &[(&str, Readiness)]) -> Self {
        let mut fixture = Self { table: Table::new(), now: Instant::now() };
        fixture.endpoints(endpoints);
        fixture
    }

    fn endpoints(&mut self, endpoints: &[(&str, Readiness)]) -> AckChanges {
        let endpoints = endpoints.iter().map(|(name, readiness)| ((*name).to_owned(), *readiness));
        self.table.set_endpoints(&group(), endpoints, self.now)
    }

    fn receive(&mut self, endpoint: &str, event: StreamEvent) -> AckChanges {
        self.table.on_stream_event(&group(), endpoint, event, self.now)
    }

    fn require(&mut self, name: &str, digest: &str) -> AckChanges {
        self.table.require(&document(name, digest), Some(self.now), self.now)
    }

    /// Lets time pass as the operator would: it ticks when it was reported to.
    fn advance(&mut self, seconds: u64) -> AckChanges {
        let end = self.now + Duration::from_secs(seconds);
        let mut changes = AckChanges::default();
        while let Some(next) = self.table.next_tick().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            changes.merge(self.table.tick(self.now));
        }
        self.now = end;
        changes
    }

    fn programmed(&self, name: &str, digest: &str) -> Programmed {
        self.table.programmed(&[document(name, digest)], self.now)
    }
}

const READY: Readiness = Readiness::Ready;
const NOT_READY: Readiness = Readiness::NotReady;
const STATIC: Readiness = Readiness::WhenConnected;

fn pending(message: &str) -> Programmed {
    Programmed::Pending { message: message.to_owned() }
}

/// Nothing but how many gateways of the group are ready.
fn only_counted() -> AckChanges {
    AckChanges { groups: vec![group()], ..AckChanges::default() }
}

#[test]
fn every_ready_gateway_must_have_loaded_it() {
    let mut fixture = Fixture::new(&[("a", READY), ("b", READY), ("c", NOT_READY)]);
    fixture.receive("a", snapshot("1", vec![], vec![]));
    fixture.receive("b", snapshot("1", vec![], vec![]));
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling, "not even written");
    assert!(fixture.require("x", "d1").is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling);
    assert!(fixture.receive("a", changed(vec![loaded("x", "d1")])).is_empty());

    fixture.now += Duration::from_millis(30);
    let changes = fixture.receive("b", changed(vec![loaded("x", "d1")]));
    assert_eq!(changes.expositions, [id("x")]);
    assert_eq!(changes.loaded, [Duration::from_millis(30)]);
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    assert!(fixture.advance(60).is_empty(), "and then there is nothing more to say");
}

#[test]
fn the_old_digest_is_not_the_new_one() {
    let mut fixture = Fixture::new(&[("a", READY)]);
    fixture.require("x", "d1");
    fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    assert_eq!(fixture.programmed("x", "d2"), Programmed::Settling, "the plan is ahead of the API");
    fixture.require("x", "d2");
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling, "nobody wants it any more");
    assert_eq!(fixture.advance(1), AckChanges::default());
    assert_eq!(fixture.programmed("x", "d2"), Programmed::Settling);
    assert_eq!(fixture.advance(1).expositions, [id("x")]);
    assert_eq!(fixture.programmed("x", "d2"), pending("Not loaded yet by a"));
    let changes = fixture.receive("a", changed(vec![loaded("x", "d2")]));
    assert_eq!((changes.expositions, changes.loaded), (vec![id("x")], vec![Duration::from_secs(2)]));
    assert_eq!(fixture.programmed("x", "d2"), Programmed::Loaded);
    // Wanted once more, as a reconcile does: nothing new.
    assert!(fixture.require("x", "d2").is_empty());
    assert_eq!(fixture.programmed("x", "d2"), Programmed::Loaded);
}

#[test]
fn what_gateways_say_of_a_document() {
    let waiting = AckState::Waiting { message: "secret tamis-public-credentials-3".to_owned() };
    let refused = |reason: &str| AckState::Refused { reason: reason.to_owned(), message: "format 2".to_owned() };
    let too_old = "Gateway b is too old for this configuration: format 2";
    let invalid = "Gateway b cannot load it: Broken: format 2";
    for (state, said) in [
        (AckState::Loaded, Programmed::Loaded),
        (AckState::Stopped, Programmed::Loaded),
        (waiting, pending("Not loaded yet by b (waits for secret tamis-public-credentials-3)")),
        (refused("GatewayTooOld"), Programmed::TooOld { message: too_old.to_owned() }),
        (refused("Broken"), Programmed::Refused { message: invalid.to_owned() }),
    ] {
        let mut fixture = Fixture::new(&[("a", READY), ("b", READY)]);
        fixture.require("x", "d1");
        fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
        let mut changes = fixture.receive("b", snapshot("1", vec![ack("x", "d1", state)], vec![]));
        changes.merge(fixture.advance(2));
        assert_eq!(changes.expositions, [id("x")], "{said:?}");
        assert_eq!(fixture.programmed("x", "d1"), said);
    }
}

#[test]
fn of_many_documents_the_worst_is_told() {
    let mut fixture = Fixture::new(&[("a", READY), ("b", READY)]);
    let too_old = AckState::Refused { reason: "GatewayTooOld".to_owned(), message: "format 2".to_owned() };
    fixture.receive("a", snapshot("1", vec![loaded("x", "d"), loaded("y", "d"), ack("z", "d", too_old)], vec![]));
    fixture.receive("b", snapshot("1", vec![loaded("x", "d"), loaded("z", "d")], vec![]));
    for name in ["x", "y", "z"] {
        fixture.require(name, "d");
    }
    let ask = |fixture: &Fixture, names: &[&str]| {
        let documents: Vec<RequiredDocument> = names.iter().map(|name| document(name, "d")).collect();
        fixture.table.programmed(&documents, fixture.now)
    };
    assert_eq!(ask(&fixture, &[]), Programmed::NotUsed);
    assert_eq!(ask(&fixture, &["x"]), Programmed::Loaded);
    assert_eq!(ask(&fixture, &["x", "y"]), Programmed::Settling);
    assert_eq!(ask(&fixture, &["x", "new"]), Programmed::Settling);
    fixture.advance(2);
    assert_eq!(ask(&fixture, &["x", "y"]), pending("Not loaded yet by b wherever it is used"));
    let message = "Exposition team/z: Gateway a is too old for this configuration: format 2".to_owned();
    assert_eq!(ask(&fixture, &["x", "y", "z"]), Programmed::TooOld { message });
}

#[test]
fn without_a_ready_gateway_nothing_is_programmed() {
    let mut fixture = Fixture::new(&[("a", READY)]);
    fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    fixture.require("x", "d1");
    // A blink of the probe.
    assert!(fixture.endpoints(&[("a", NOT_READY)]).is_empty());
    assert!(fixture.advance(4).is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling);
    assert!(fixture.endpoints(&[("a", READY)]).is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    // Not a blink.
    fixture.endpoints(&[]);
    assert_eq!(fixture.advance(5).expositions, [id("x")]);
    let message = "No gateway of the group edge/public is ready; its pods say why".to_owned();
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Unavailable { message });
    // The next one.
    fixture.endpoints(&[("b", READY)]);
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling, "not heard yet");
    let changes = fixture.receive("b", snapshot("1", vec![loaded("x", "d1")], vec![]));
    assert_eq!(changes.expositions, [id("x")]);
    assert!(changes.loaded.is_empty(), "that was measured long ago");
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
}

#[test]
fn a_blink_of_a_stream_is_not_noticed_and_a_loss_is() {
    let mut fixture = Fixture::new(&[("a", READY), ("b", READY)]);
    fixture.require("x", "d1");
    fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    fixture.receive("b", snapshot("1", vec![loaded("x", "d1")], vec![]));
    assert!(fixture.receive("b", StreamEvent::Disconnected).is_empty());
    assert!(fixture.advance(4).is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    assert!(fixture.receive("b", snapshot("1", vec![loaded("x", "d1")], vec![])).is_empty());
    assert!(fixture.advance(60).is_empty());

    // Gone for good: five seconds for the stream, two more as for whatever is not loaded.
    fixture.receive("b", StreamEvent::Disconnected);
    assert!(fixture.advance(6).is_empty());
    assert_eq!(fixture.advance(1).expositions, [id("x")]);
    assert_eq!(fixture.programmed("x", "d1"), pending("Not loaded yet by b (cannot be heard)"));
    // A document of now is asked of it as well.
    fixture.require("y", "d1");
    fixture.receive("a", changed(vec![loaded("y", "d1")]));
    fixture.advance(2);
    assert_eq!(fixture.programmed("y", "d1"), pending("Not loaded yet by b (cannot be heard)"));

    let mut changes = fixture.receive("b", snapshot("2", vec![loaded("x", "d1"), loaded("y", "d1")], vec![]));
    changes.expositions.sort();
    assert_eq!(changes.expositions, [id("x"), id("y")]);
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
}

#[test]
fn what_comes_after_a_loss_and_before_a_snapshot_is_not_believed() {
    let mut fixture = Fixture::new(&[("a", READY)]);
    fixture.require("x", "d1");
    assert!(fixture.receive("a", changed(vec![loaded("x", "d1")])).is_empty());
    fixture.receive("a", counted(vec![saved("x", 10, 1)]));
    fixture.advance(10);
    assert_eq!(fixture.programmed("x", "d1"), pending("Not loaded yet by a (cannot be heard)"));
    assert_eq!(fixture.table.saved(&group(), &id("x")), None);
    // Nor a gateway that is not of the group.
    assert!(fixture.receive("stranger", snapshot("1", vec![loaded("x", "d1")], vec![saved("x", 10, 1)])).is_empty());
    assert_eq!(fixture.table.saved(&group(), &id("x")), None);
}

#[test]
fn a_gateway_that_joins_disturbs_nothing() {
    let mut fixture = Fixture::new(&[("a", READY)]);
    fixture.require("x", "d1");
    fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    // It starts, fails to be heard for longer than the grace, becomes ready, and is heard.
    fixture.endpoints(&[("a", READY), ("b", NOT_READY)]);
    assert!(fixture.advance(30).is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    assert!(fixture.endpoints(&[("a", READY), ("b", READY)]).is_empty());
    assert!(fixture.advance(3).is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling);
    assert_eq!(fixture.receive("b", snapshot("1", vec![loaded("x", "d1")], vec![])), only_counted());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    // And one that lacks a document, though it is ready.
    fixture.endpoints(&[("a", READY), ("b", READY), ("c", READY)]);
    fixture.receive("c", snapshot("1", vec![], vec![]));
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling);
    assert_eq!(fixture.advance(2).expositions, [id("x")]);
    assert_eq!(fixture.programmed("x", "d1"), pending("Not loaded yet by c"));
    // It goes.
    assert_eq!(fixture.endpoints(&[("a", READY), ("b", READY)]).expositions, [id("x")]);
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
}

#[test]
fn a_gateway_that_is_no_pod_counts_while_it_is_heard() {
    let mut fixture = Fixture::new(&[("http://a", STATIC), ("http://b", STATIC)]);
    fixture.require("x", "d1");
    fixture.advance(5);
    assert!(matches!(fixture.programmed("x", "d1"), Programmed::Unavailable { .. }));
    assert_eq!(fixture.receive("http://a", snapshot("1", vec![loaded("x", "d1")], vec![])).expositions, [id("x")]);
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    fixture.receive("http://b", snapshot("1", vec![], vec![]));
    fixture.advance(2);
    assert_eq!(fixture.programmed("x", "d1"), pending("Not loaded yet by http://b"));
    fixture.receive("http://b", StreamEvent::Disconnected);
    assert_eq!(fixture.advance(5).expositions, [id("x")]);
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    fixture.receive("http://a", StreamEvent::Disconnected);
    fixture.advance(10);
    assert!(matches!(fixture.programmed("x", "d1"), Programmed::Unavailable { .. }));
}

#[test]
fn of_gateways_that_are_no_pods_those_are_counted_that_are_there() {
    let mut fixture = Fixture::new(&[("http://a", STATIC), ("http://b", STATIC)]);
    let connected = |fixture: &Fixture| fixture.table.ready(&group());
    assert_eq!(connected(&fixture), None, "they may be heard yet");
    assert_eq!(fixture.receive("http://a", snapshot("1", vec![], vec![])).groups, [group()]);
    assert_eq!(connected(&fixture), None, "the other one may");
    assert_eq!(fixture.advance(4), AckChanges::default());
    assert_eq!(fixture.advance(1).groups, [group()]);
    assert_eq!(connected(&fixture), Some(1), "and it was not");
    // Late, and another instance of the first: only who is there is reported.
    assert_eq!(fixture.receive("http://b", snapshot("1", vec![], vec![])).groups, [group()]);
    assert_eq!(fixture.receive("http://a", snapshot("2", vec![], vec![])), AckChanges::default());
    assert_eq!(connected(&fixture), Some(2));
    // A blink is not noticed, a loss is, together as one.
    fixture.receive("http://a", StreamEvent::Disconnected);
    fixture.receive("http://b", StreamEvent::Disconnected);
    assert_eq!((fixture.advance(4), connected(&fixture)), (AckChanges::default(), Some(2)));
    assert_eq!((fixture.advance(1).groups, connected(&fixture)), (vec![group()], Some(0)));
}

/// `forged` has the owner references of a gateway, and Kubernetes says that it is ready.
#[test]
fn a_pod_counts_when_it_has_proved_to_be_a_gateway() {
    let mut fixture = Fixture::new(&[("ours", READY)]);
    let ready = |fixture: &Fixture| fixture.table.ready(&group());
    assert_eq!(ready(&fixture), None, "it may be heard yet");
    assert_eq!(fixture.receive("ours", snapshot("1", vec![], vec![])).groups, [group()]);
    assert_eq!(ready(&fixture), Some(1));
    fixture.endpoints(&[("ours", READY), ("forged", READY)]);
    assert_eq!((fixture.advance(4).groups, ready(&fixture)), (vec![], None), "it may prove itself yet");
    assert_eq!((fixture.advance(1).groups, ready(&fixture)), (vec![group()], Some(1)));
    assert_eq!((fixture.advance(60).groups, ready(&fixture)), (vec![], Some(1)));
    // A gateway that starts is not asked yet.
    fixture.endpoints(&[("ours", READY), ("forged", READY), ("starting", NOT_READY)]);
    assert_eq!((fixture.advance(60).groups, ready(&fixture)), (vec![], Some(1)));
    // A broken connection is no outage; what Kubernetes says is one.
    fixture.receive("ours", StreamEvent::Disconnected);
    assert_eq!((fixture.advance(60).groups, ready(&fixture)), (vec![], Some(1)));
    fixture.endpoints(&[("ours", NOT_READY), ("forged", READY)]);
    fixture.advance(60);
    assert_eq!(ready(&fixture), Some(0));
    fixture.endpoints(&[("ours", READY)]);
    assert_eq!(ready(&fixture), Some(1));
    // Another pod of that name, after this one was gone.
    fixture.endpoints(&[]);
    fixture.endpoints(&[("ours", READY)]);
    fixture.advance(60);
    assert_eq!(ready(&fixture), Some(0));
}

#[test]
fn after_a_start_of_the_operator_nothing_is_said_before_gateways_are_heard() {
    let mut fixture = Fixture::new(&[("a", READY), ("b", READY)]);
    fixture.table.require(&document("x", "d1"), None, fixture.now);
    assert!(fixture.advance(3).is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling);
    assert_eq!(fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![])), only_counted());
    let changes = fixture.receive("b", snapshot("1", vec![loaded("x", "d1")], vec![]));
    assert_eq!((changes.expositions, changes.loaded), (vec![id("x")], Vec::<Duration>::new()));
}

#[test]
fn the_time_to_loaded_counts_from_the_first_edit_that_was_not_loaded() {
    let mut fixture = Fixture::new(&[("a", READY)]);
    fixture.receive("a", snapshot("1", vec![], vec![]));
    fixture.require("x", "d1");
    fixture.now += Duration::from_secs(1);
    fixture.require("x", "d2");
    fixture.now += Duration::from_secs(1);
    assert_eq!(fixture.receive("a", changed(vec![loaded("x", "d2")])).loaded, [Duration::from_secs(2)]);
    fixture.require("x", "d3");
    assert_eq!(fixture.receive("a", changed(vec![loaded("x", "d3")])).loaded, [Duration::ZERO]);
}

#[test]
fn savings_are_summed_over_gateways_and_restarts() {
    let mut fixture = Fixture::new(&[("a", READY), ("b", READY)]);
    fixture.require("x", "d1");
    let total = |fixture: &Fixture| {
        fixture.table.saved(&group(), &id("x")).map(|totals| (totals.input_bytes, totals.output_bytes))
    };
    assert_eq!(total(&fixture), None);
    let changes = fixture.receive("a", snapshot("1", vec![], vec![saved("x", 100, 10)]));
    assert_eq!(changes.counted, [id("x")]);
    fixture.receive("b", snapshot("1", vec![], vec![saved("x", 50, 5)]));
    assert_eq!(total(&fixture), Some((150, 15)));
    fixture.receive("a", counted(vec![saved("x", 200, 20)]));
    assert_eq!(total(&fixture), Some((250, 25)));
    // The same again changes nothing; nor does a stream that comes back.
    assert!(fixture.receive("a", counted(vec![saved("x", 200, 20)])).is_empty());
    fixture.receive("a", StreamEvent::Disconnected);
    assert!(fixture.receive("a", snapshot("1", vec![], vec![saved("x", 200, 20)])).is_empty());
    assert_eq!(total(&fixture), Some((250, 25)));
    // Lost for long, and still the same instance.
    fixture.receive("a", StreamEvent::Disconnected);
    fixture.advance(60);
    fixture.receive("a", snapshot("1", vec![], vec![saved("x", 210, 21)]));
    assert_eq!(total(&fixture), Some((260, 26)));
    // A restart: what it had counted stays, and it begins anew.
    fixture.receive("a", snapshot("2", vec![], vec![]));
    assert_eq!(total(&fixture), Some((260, 26)));
    fixture.receive("a", counted(vec![saved("x", 1, 1)]));
    assert_eq!(total(&fixture), Some((261, 27)));
    // A counter that goes back within an instance: the exposition had gone and come back.
    fixture.receive("a", counted(vec![saved("x", 0, 0)]));
    assert_eq!(total(&fixture), Some((261, 27)));
    // A pod that goes takes nothing along.
    fixture.endpoints(&[("b", READY)]);
    assert_eq!(total(&fixture), Some((261, 27)));
    fixture.receive("b", counted(vec![saved("x", u64::MAX, 0)]));
    assert_eq!(total(&fixture).map(|total| total.0), Some(u64::MAX), "and nothing overflows");
    fixture.table.forget(&group(), &id("x"));
    fixture.receive("b", StreamEvent::Ack(AckEvent::Changed { expositions: vec![], removed: vec![id("x")] }));
    assert_eq!(total(&fixture), None);
}

#[test]
fn what_is_removed_is_not_loaded() {
    let mut fixture = Fixture::new(&[("a", READY)]);
    fixture.require("x", "d1");
    fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    fixture.receive("a", StreamEvent::Ack(AckEvent::Changed { expositions: vec![], removed: vec![id("x"), id("y")] }));
    assert_eq!(fixture.advance(2).expositions, [id("x")]);
    assert_eq!(fixture.programmed("x", "d1"), pending("Not loaded yet by a"));
    fixture.receive("a", snapshot("2", vec![loaded("x", "d1")], vec![]));
    // A snapshot without it says the same.
    fixture.receive("a", snapshot("2", vec![], vec![]));
    assert_eq!(fixture.advance(2).expositions, [id("x")]);
    fixture.table.forget(&group(), &id("x"));
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling);
    fixture.table.forget_group(&group());
    assert!(fixture.receive("a", changed(vec![loaded("x", "d1")])).is_empty());
}

#[test]
fn messages_name_a_few_and_are_bounded() {
    let names: Vec<String> = (0..40).map(|n| format!("pod-{n:02}")).collect();
    let endpoints: Vec<(&str, Readiness)> = names.iter().map(|name| (name.as_str(), READY)).collect();
    let mut fixture = Fixture::new(&endpoints);
    fixture.require("x", "d1");
    let long = AckState::Waiting { message: "é".repeat(10_000) };
    for name in &names {
        fixture.receive(name, snapshot("1", vec![ack("x", "d1", long.clone())], vec![]));
    }
    fixture.advance(2);
    let Programmed::Pending { message } = fixture.programmed("x", "d1") else { panic!("not pending") };
    assert!(message.len() < 1100 && message.starts_with("Not loaded yet by pod-00 (waits for é"), "{message}");
    fixture.table.require(&document("y", "d1"), None, fixture.now);
    fixture.advance(2);
    let message = "Not loaded yet by pod-00, pod-01, pod-02, pod-03, pod-04 and 35 more";
    assert_eq!(fixture.programmed("y", "d1"), pending(message));
}

/// What the group must hold: an event of one exposition costs what that exposition costs.
#[test]
fn ten_thousand_expositions_are_not_looked_at_for_one() {
    let mut fixture = Fixture::new(&[("a", READY), ("b", READY), ("c", READY)]);
    let names: Vec<String> = (0..10_000).map(|n| format!("x{n}")).collect();
    let all: Vec<Ack> = names.iter().map(|name| loaded(name, "d1")).collect();
    for name in &names {
        fixture.require(name, "d1");
    }
    let mut changes = AckChanges::default();
    for endpoint in ["a", "b", "c"] {
        changes.merge(fixture.receive(endpoint, snapshot("1", all.clone(), vec![])));
    }
    assert_eq!((changes.expositions.len(), changes.loaded.len()), (10_000, 10_000));
    // 30,000 events of one exposition each: were each of them to look at all, that would be 300 million.
    let begin = Instant::now();
    for name in &names {
        fixture.require(name, "d2");
        for endpoint in ["a", "b", "c"] {
            let changes = fixture.receive(endpoint, changed(vec![loaded(name, "d2")]));
            assert_eq!(changes.expositions.len(), usize::from(endpoint == "c"));
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    // A pod that joins and one that goes: nothing to write.
    fixture.endpoints(&[("a", READY), ("b", READY), ("c", READY), ("d", READY)]);
    let all: Vec<Ack> = names.iter().map(|name| loaded(name, "d2")).collect();
    assert_eq!(fixture.receive("d", snapshot("1", all, vec![])), only_counted());
    assert!(fixture.endpoints(&[("a", READY), ("b", READY), ("d", READY)]).is_empty());
}

/// The events of one gateway: a stream that begins with a snapshot, and may be cut.
fn any_stream() -> impl Strategy<Value = Vec<StreamEvent>> {
    let name = || (0..3_u8).prop_map(|n| format!("x{n}"));
    let any_ack = || {
        let state = prop_oneof![
            3 => Just(AckState::Loaded),
            1 => Just(AckState::Stopped),
            1 => Just(AckState::Waiting { message: "something".to_owned() }),
            1 => Just(AckState::Refused { reason: "GatewayTooOld".to_owned(), message: "no".to_owned() }),
        ];
        (name(), 0..2_u8, state).prop_map(|(name, digest, state)| ack(&name, &format!("d{digest}"), state))
    };
    let any_saved = || (name(), 0..100_u64).prop_map(|(name, bytes)| saved(&name, bytes, bytes / 2));
    let acks = || proptest::collection::vec(any_ack(), 0..3);
    let savings = || proptest::collection::vec(any_saved(), 0..3);
    let snap = || {
        (0..2_u8, acks(), savings()).prop_map(|(instance, acks, saved)| snapshot(&instance.to_string(), acks, saved))
    };
    let rest = proptest::collection::vec(
        prop_oneof![
            acks().prop_map(changed),
            savings().prop_map(counted),
            snap(),
            name()
                .prop_map(|name| StreamEvent::Ack(AckEvent::Changed { expositions: vec![], removed: vec![id(&name)] })),
            Just(StreamEvent::Disconnected),
        ],
        0..8,
    );
    (snap(), rest).prop_map(|(first, mut rest)| {
        rest.insert(0, first);
        rest
    })
}

proptest! {
    /// Streams of different gateways have no order among them: what is known in the end does not depend on it.
    #[test]
    fn the_order_of_gateways_does_not_matter(
        streams in proptest::collection::vec(any_stream(), 3),
        turns in proptest::collection::vec(0..3_usize, 40),
    ) {
        let names = ["a", "b", "c"];
        let endpoints = [("a", READY), ("b", READY), ("c", NOT_READY)];
        let run = |order: &mut dyn Iterator<Item = usize>| {
            let mut fixture = Fixture::new(&endpoints);
            for name in ["x0", "x1", "x2"] {
                fixture.require(name, "d1");
            }
            let mut reported = BTreeSet::new();
            let mut queues: Vec<_> = streams.iter().map(|stream| stream.iter()).collect();
            for turn in order {
                if let Some(event) = queues[turn].next() {
                    reported.extend(fixture.receive(names[turn], event.clone()).expositions);
                }
            }
            reported.extend(fixture.advance(60).expositions);
            let known: Vec<_> = ["x0", "x1", "x2"]
                .map(|name| (fixture.programmed(name, "d1"), fixture.table.saved(&group(), &id(name))))
                .into();
            // Whatever has another state than at first was reported.
            for (name, (programmed, _)) in ["x0", "x1", "x2"].into_iter().zip(&known) {
                assert!(*programmed == Programmed::Settling || reported.contains(&id(name)), "{name} {programmed:?}");
            }
            known
        };
        let in_turn = run(&mut (0..3).flat_map(|n| std::iter::repeat_n(n, 10)));
        let mixed = run(&mut turns.into_iter().chain((0..3).flat_map(|n| std::iter::repeat_n(n, 10))));
        prop_assert_eq!(in_turn, mixed);
    }
}
