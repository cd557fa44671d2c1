use proptest::prelude::*;
use tamis_config::Reason;
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
    Ack { id: id(name), digest: Digest(digest.to_owned()), state, upstream: None }
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

    /// Lets time pass, and ticks when the table asks for it, as the operator does.
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

/// A change of only the number of ready gateways.
fn only_counted() -> AckChanges {
    AckChanges { groups: vec![group()], ..AckChanges::default() }
}

#[test]
fn every_ready_gateway_must_have_loaded_the_document() {
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
fn an_ack_of_the_old_digest_does_not_count_for_the_new_one() {
    let mut fixture = Fixture::new(&[("a", READY)]);
    fixture.require("x", "d1");
    fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    assert_eq!(fixture.programmed("x", "d2"), Programmed::Settling, "the plan is ahead of the API");
    fixture.require("x", "d2");
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling, "it is no longer required");
    assert_eq!(fixture.advance(1), AckChanges::default());
    assert_eq!(fixture.programmed("x", "d2"), Programmed::Settling);
    assert_eq!(fixture.advance(1).expositions, [id("x")]);
    assert_eq!(fixture.programmed("x", "d2"), pending("Not loaded yet by a"));
    let changes = fixture.receive("a", changed(vec![loaded("x", "d2")]));
    assert_eq!((changes.expositions, changes.loaded), (vec![id("x")], vec![Duration::from_secs(2)]));
    assert_eq!(fixture.programmed("x", "d2"), Programmed::Loaded);
    // Requiring the same document again changes nothing.
    assert!(fixture.require("x", "d2").is_empty());
    assert_eq!(fixture.programmed("x", "d2"), Programmed::Loaded);
}

#[test]
fn reports_the_state_of_a_document_on_the_gateways() {
    let waiting = AckState::Waiting { message: "secret tamis-public-credentials-3".to_owned() };
    let refused = |reason| AckState::Refused { reason, message: "format 2".to_owned() };
    let too_old = "Gateway b is too old for this configuration: format 2";
    let invalid = "Gateway b cannot load it: InvalidManifest: format 2";
    for (state, expected) in [
        (AckState::Loaded, Programmed::Loaded),
        (AckState::Stopped, Programmed::Loaded),
        (waiting, pending("Not loaded yet by b (waits for secret tamis-public-credentials-3)")),
        (refused(Reason::GatewayTooOld), Programmed::TooOld { message: too_old.to_owned() }),
        (refused(Reason::InvalidManifest), Programmed::Refused { message: invalid.to_owned() }),
    ] {
        let mut fixture = Fixture::new(&[("a", READY), ("b", READY)]);
        fixture.require("x", "d1");
        fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
        let mut changes = fixture.receive("b", snapshot("1", vec![ack("x", "d1", state)], vec![]));
        changes.merge(fixture.advance(2));
        assert_eq!(changes.expositions, [id("x")], "{expected:?}");
        assert_eq!(fixture.programmed("x", "d1"), expected);
    }
}

#[test]
fn reports_the_worst_of_several_documents() {
    let mut fixture = Fixture::new(&[("a", READY), ("b", READY)]);
    let too_old = AckState::Refused { reason: Reason::GatewayTooOld, message: "format 2".to_owned() };
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
fn is_unavailable_without_a_ready_gateway() {
    let mut fixture = Fixture::new(&[("a", READY)]);
    fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    fixture.require("x", "d1");
    // A short failure of the probe.
    assert!(fixture.endpoints(&[("a", NOT_READY)]).is_empty());
    assert!(fixture.advance(4).is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling);
    assert!(fixture.endpoints(&[("a", READY)]).is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    // A long one.
    fixture.endpoints(&[]);
    assert_eq!(fixture.advance(5).expositions, [id("x")]);
    let message = "No gateway of the group edge/public is ready; its pods say why".to_owned();
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Unavailable { message });
    // Another gateway becomes ready.
    fixture.endpoints(&[("b", READY)]);
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling, "its snapshot has not arrived");
    let changes = fixture.receive("b", snapshot("1", vec![loaded("x", "d1")], vec![]));
    assert_eq!(changes.expositions, [id("x")]);
    assert!(changes.loaded.is_empty(), "that was measured long ago");
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
}

#[test]
fn ignores_a_short_interruption_of_a_stream_and_reports_a_loss() {
    let mut fixture = Fixture::new(&[("a", READY), ("b", READY)]);
    fixture.require("x", "d1");
    fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    fixture.receive("b", snapshot("1", vec![loaded("x", "d1")], vec![]));
    assert!(fixture.receive("b", StreamEvent::Disconnected).is_empty());
    assert!(fixture.advance(4).is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    assert!(fixture.receive("b", snapshot("1", vec![loaded("x", "d1")], vec![])).is_empty());
    assert!(fixture.advance(60).is_empty());

    // A loss: five seconds for the stream, and two more as for every document that is not loaded.
    fixture.receive("b", StreamEvent::Disconnected);
    assert!(fixture.advance(6).is_empty());
    assert_eq!(fixture.advance(1).expositions, [id("x")]);
    assert_eq!(fixture.programmed("x", "d1"), pending("Not loaded yet by b (cannot be heard)"));
    // A newer document is missing there too.
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
fn ignores_differences_before_the_first_snapshot_and_unknown_gateways() {
    let mut fixture = Fixture::new(&[("a", READY)]);
    fixture.require("x", "d1");
    assert!(fixture.receive("a", changed(vec![loaded("x", "d1")])).is_empty());
    fixture.receive("a", counted(vec![saved("x", 10, 1)]));
    fixture.advance(10);
    assert_eq!(fixture.programmed("x", "d1"), pending("Not loaded yet by a (cannot be heard)"));
    assert_eq!(fixture.table.saved(&group(), &id("x")), None);
    // A gateway that is not in the group.
    assert!(fixture.receive("stranger", snapshot("1", vec![loaded("x", "d1")], vec![saved("x", 10, 1)])).is_empty());
    assert_eq!(fixture.table.saved(&group(), &id("x")), None);
}

#[test]
fn a_new_gateway_does_not_change_the_state_while_it_starts() {
    let mut fixture = Fixture::new(&[("a", READY)]);
    fixture.require("x", "d1");
    fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    // It starts, does not connect for longer than the grace period, becomes ready, and connects.
    fixture.endpoints(&[("a", READY), ("b", NOT_READY)]);
    assert!(fixture.advance(30).is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    assert!(fixture.endpoints(&[("a", READY), ("b", READY)]).is_empty());
    assert!(fixture.advance(3).is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling);
    assert_eq!(fixture.receive("b", snapshot("1", vec![loaded("x", "d1")], vec![])), only_counted());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
    // Another one is ready, but lacks a document.
    fixture.endpoints(&[("a", READY), ("b", READY), ("c", READY)]);
    fixture.receive("c", snapshot("1", vec![], vec![]));
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling);
    assert_eq!(fixture.advance(2).expositions, [id("x")]);
    assert_eq!(fixture.programmed("x", "d1"), pending("Not loaded yet by c"));
    // It is removed.
    assert_eq!(fixture.endpoints(&[("a", READY), ("b", READY)]).expositions, [id("x")]);
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Loaded);
}

#[test]
fn a_gateway_that_is_not_a_pod_counts_while_it_is_connected() {
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
fn counts_the_connected_gateways_that_are_not_pods() {
    let mut fixture = Fixture::new(&[("http://a", STATIC), ("http://b", STATIC)]);
    let connected = |fixture: &Fixture| fixture.table.ready(&group());
    assert_eq!(connected(&fixture), None, "they may still connect");
    assert_eq!(fixture.receive("http://a", snapshot("1", vec![], vec![])).groups, [group()]);
    assert_eq!(connected(&fixture), None, "the other one may still connect");
    assert_eq!(fixture.advance(4), AckChanges::default());
    assert_eq!(fixture.advance(1).groups, [group()]);
    assert_eq!(connected(&fixture), Some(1), "and it was not");
    // A late connection, and another instance of the first: only the number is reported.
    assert_eq!(fixture.receive("http://b", snapshot("1", vec![], vec![])).groups, [group()]);
    assert_eq!(fixture.receive("http://a", snapshot("2", vec![], vec![])), AckChanges::default());
    assert_eq!(connected(&fixture), Some(2));
    // A short interruption is ignored. Two losses at the same time are reported once.
    fixture.receive("http://a", StreamEvent::Disconnected);
    fixture.receive("http://b", StreamEvent::Disconnected);
    assert_eq!((fixture.advance(4), connected(&fixture)), (AckChanges::default(), Some(2)));
    assert_eq!((fixture.advance(1).groups, connected(&fixture)), (vec![group()], Some(0)));
}

/// `forged` has the owner references of a gateway, and Kubernetes reports it as ready.
#[test]
fn a_pod_counts_once_it_has_proved_to_be_a_gateway() {
    let mut fixture = Fixture::new(&[("genuine", READY)]);
    let ready = |fixture: &Fixture| fixture.table.ready(&group());
    assert_eq!(ready(&fixture), None, "it may still connect");
    assert_eq!(fixture.receive("genuine", snapshot("1", vec![], vec![])).groups, [group()]);
    assert_eq!(ready(&fixture), Some(1));
    fixture.endpoints(&[("genuine", READY), ("forged", READY)]);
    assert_eq!((fixture.advance(4).groups, ready(&fixture)), (vec![], None), "it may still prove itself");
    assert_eq!((fixture.advance(1).groups, ready(&fixture)), (vec![group()], Some(1)));
    assert_eq!((fixture.advance(60).groups, ready(&fixture)), (vec![], Some(1)));
    // A gateway that is starting does not count yet.
    fixture.endpoints(&[("genuine", READY), ("forged", READY), ("starting", NOT_READY)]);
    assert_eq!((fixture.advance(60).groups, ready(&fixture)), (vec![], Some(1)));
    // A broken connection is not an outage; a pod that Kubernetes reports as not ready is.
    fixture.receive("genuine", StreamEvent::Disconnected);
    assert_eq!((fixture.advance(60).groups, ready(&fixture)), (vec![], Some(1)));
    fixture.endpoints(&[("genuine", NOT_READY), ("forged", READY)]);
    fixture.advance(60);
    assert_eq!(ready(&fixture), Some(0));
    fixture.endpoints(&[("genuine", READY)]);
    assert_eq!(ready(&fixture), Some(1));
    // Another pod of the same name, after the first was removed.
    fixture.endpoints(&[]);
    fixture.endpoints(&[("genuine", READY)]);
    fixture.advance(60);
    assert_eq!(ready(&fixture), Some(0));
}

#[test]
fn reports_nothing_after_a_start_of_the_operator_until_all_snapshots_have_arrived() {
    let mut fixture = Fixture::new(&[("a", READY), ("b", READY)]);
    fixture.table.require(&document("x", "d1"), None, fixture.now);
    assert!(fixture.advance(3).is_empty());
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling);
    assert_eq!(fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![])), only_counted());
    let changes = fixture.receive("b", snapshot("1", vec![loaded("x", "d1")], vec![]));
    assert_eq!((changes.expositions, changes.loaded), (vec![id("x")], Vec::<Duration>::new()));
}

#[test]
fn measures_from_the_first_edit_that_was_not_loaded() {
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
fn sums_savings_over_gateways_and_restarts() {
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
    // Neither the same totals nor a reconnected stream change anything.
    assert!(fixture.receive("a", counted(vec![saved("x", 200, 20)])).is_empty());
    fixture.receive("a", StreamEvent::Disconnected);
    assert!(fixture.receive("a", snapshot("1", vec![], vec![saved("x", 200, 20)])).is_empty());
    assert_eq!(total(&fixture), Some((250, 25)));
    // A long loss, and still the same instance.
    fixture.receive("a", StreamEvent::Disconnected);
    fixture.advance(60);
    fixture.receive("a", snapshot("1", vec![], vec![saved("x", 210, 21)]));
    assert_eq!(total(&fixture), Some((260, 26)));
    // A restart: the earlier totals stay, and the counters start at zero.
    fixture.receive("a", snapshot("2", vec![], vec![]));
    assert_eq!(total(&fixture), Some((260, 26)));
    fixture.receive("a", counted(vec![saved("x", 1, 1)]));
    assert_eq!(total(&fixture), Some((261, 27)));
    // A counter that decreases within an instance: the exposition was removed and added again.
    fixture.receive("a", counted(vec![saved("x", 0, 0)]));
    assert_eq!(total(&fixture), Some((261, 27)));
    // The totals of a removed pod stay.
    fixture.endpoints(&[("b", READY)]);
    assert_eq!(total(&fixture), Some((261, 27)));
    fixture.receive("b", counted(vec![saved("x", u64::MAX, 0)]));
    assert_eq!(total(&fixture).map(|total| total.0), Some(u64::MAX), "nothing overflows");
    fixture.table.forget(&group(), &id("x"));
    fixture.receive("b", StreamEvent::Ack(AckEvent::Changed { expositions: vec![], removed: vec![id("x")] }));
    assert_eq!(total(&fixture), None);
}

#[test]
fn a_removed_exposition_is_not_loaded() {
    let mut fixture = Fixture::new(&[("a", READY)]);
    fixture.require("x", "d1");
    fixture.receive("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    fixture.receive("a", StreamEvent::Ack(AckEvent::Changed { expositions: vec![], removed: vec![id("x"), id("y")] }));
    assert_eq!(fixture.advance(2).expositions, [id("x")]);
    assert_eq!(fixture.programmed("x", "d1"), pending("Not loaded yet by a"));
    fixture.receive("a", snapshot("2", vec![loaded("x", "d1")], vec![]));
    // A snapshot without it has the same effect.
    fixture.receive("a", snapshot("2", vec![], vec![]));
    assert_eq!(fixture.advance(2).expositions, [id("x")]);
    fixture.table.forget(&group(), &id("x"));
    assert_eq!(fixture.programmed("x", "d1"), Programmed::Settling);
    fixture.table.forget_group(&group());
    assert!(fixture.receive("a", changed(vec![loaded("x", "d1")])).is_empty());
}

#[test]
fn messages_are_bounded_and_name_a_few_gateways() {
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

/// The cost of an event does not depend on the number of expositions in the group.
#[test]
fn an_event_of_one_exposition_does_not_review_ten_thousand() {
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
    // 30,000 events of one exposition each. If each reviewed all expositions, that would be 300 million reviews.
    let begin = Instant::now();
    for name in &names {
        fixture.require(name, "d2");
        for endpoint in ["a", "b", "c"] {
            let changes = fixture.receive(endpoint, changed(vec![loaded(name, "d2")]));
            assert_eq!(changes.expositions.len(), usize::from(endpoint == "c"));
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    // A new pod and a removed one change no status.
    fixture.endpoints(&[("a", READY), ("b", READY), ("c", READY), ("d", READY)]);
    let all: Vec<Ack> = names.iter().map(|name| loaded(name, "d2")).collect();
    assert_eq!(fixture.receive("d", snapshot("1", all, vec![])), only_counted());
    assert!(fixture.endpoints(&[("a", READY), ("b", READY), ("d", READY)]).is_empty());
}

/// Generates the events of one gateway: a stream that begins with a snapshot and may be interrupted.
fn any_stream() -> impl Strategy<Value = Vec<StreamEvent>> {
    let name = || (0..3_u8).prop_map(|n| format!("x{n}"));
    let any_ack = || {
        let state = prop_oneof![
            3 => Just(AckState::Loaded),
            1 => Just(AckState::Stopped),
            1 => Just(AckState::Waiting { message: "something".to_owned() }),
            1 => Just(AckState::Refused { reason: Reason::GatewayTooOld, message: "no".to_owned() }),
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
    /// The streams of different gateways are not ordered, so the final state must not depend on the order.
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
            // Every changed state was reported.
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
