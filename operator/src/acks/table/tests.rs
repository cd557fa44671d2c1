use proptest::prelude::*;
use tamis_config::acks::{Ack, AckState};

use super::*;

fn group() -> ObjectName {
    ObjectName { namespace: "edge".to_owned(), name: "public".to_owned() }
}

fn id(name: &str) -> ExpositionId {
    ExpositionId { namespace: "team".to_owned(), name: name.to_owned() }
}

fn wanted(name: &str, digest: &str) -> Wanted {
    Wanted { group: group(), id: id(name), digest: Digest(digest.to_owned()) }
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

fn snapshot(instance: &str, expositions: Vec<Ack>, saved: Vec<Saved>) -> News {
    let instance = instance.to_owned();
    let version = "1.0.0".to_owned();
    News::Event(AckEvent::Snapshot { instance, version, format_versions: vec![1], expositions, saved })
}

fn changed(expositions: Vec<Ack>) -> News {
    News::Event(AckEvent::Changed { expositions, removed: vec![] })
}

fn counted(saved: Vec<Saved>) -> News {
    News::Event(AckEvent::Counted { saved })
}

/// A table and a clock that a test moves.
struct ClusterState {
    table: Table,
    now: Instant,
}

impl ClusterState {
    fn new(endpoints: &[(&str, Readiness)]) -> Self {
        let mut world = Self { table: Table::new(), now: Instant::now() };
        world.endpoints(endpoints);
        world
    }

    fn endpoints(&mut self, endpoints: &[(&str, Readiness)]) -> Touched {
        let endpoints = endpoints.iter().map(|(name, readiness)| ((*name).to_owned(), *readiness));
        self.table.set_endpoints(&group(), endpoints, self.now)
    }

    fn hear(&mut self, endpoint: &str, news: News) -> Touched {
        self.table.hear(&group(), endpoint, news, self.now)
    }

    fn want(&mut self, name: &str, digest: &str) -> Touched {
        self.table.want(&wanted(name, digest), Some(self.now), self.now)
    }

    /// Lets time pass as the operator would: it ticks when it was told to.
    fn pass(&mut self, seconds: u64) -> Touched {
        let end = self.now + Duration::from_secs(seconds);
        let mut touched = Touched::default();
        while let Some(next) = self.table.next_tick().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            touched.merge(self.table.tick(self.now));
        }
        self.now = end;
        touched
    }

    fn programmed(&self, name: &str, digest: &str) -> Programmed {
        self.table.programmed(&[wanted(name, digest)], self.now)
    }
}

const READY: Readiness = Readiness::Ready;
const NOT_READY: Readiness = Readiness::NotReady;
const STATIC: Readiness = Readiness::WhenConnected;

fn pending(message: &str) -> Programmed {
    Programmed::Pending { message: message.to_owned() }
}

/// Nothing but how many gateways of the group are ready.
fn only_counted() -> Touched {
    Touched { groups: vec![group()], ..Touched::default() }
}

#[test]
fn every_ready_gateway_must_have_loaded_it() {
    let mut world = ClusterState::new(&[("a", READY), ("b", READY), ("c", NOT_READY)]);
    world.hear("a", snapshot("1", vec![], vec![]));
    world.hear("b", snapshot("1", vec![], vec![]));
    assert_eq!(world.programmed("x", "d1"), Programmed::Settling, "not even written");
    assert!(world.want("x", "d1").is_empty());
    assert_eq!(world.programmed("x", "d1"), Programmed::Settling);
    assert!(world.hear("a", changed(vec![loaded("x", "d1")])).is_empty());

    world.now += Duration::from_millis(30);
    let touched = world.hear("b", changed(vec![loaded("x", "d1")]));
    assert_eq!(touched.expositions, [id("x")]);
    assert_eq!(touched.loaded, [Duration::from_millis(30)]);
    assert_eq!(world.programmed("x", "d1"), Programmed::Loaded);
    assert!(world.pass(60).is_empty(), "and then there is nothing more to say");
}

#[test]
fn the_old_digest_is_not_the_new_one() {
    let mut world = ClusterState::new(&[("a", READY)]);
    world.want("x", "d1");
    world.hear("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    assert_eq!(world.programmed("x", "d1"), Programmed::Loaded);
    assert_eq!(world.programmed("x", "d2"), Programmed::Settling, "the plan is ahead of the API");
    world.want("x", "d2");
    assert_eq!(world.programmed("x", "d1"), Programmed::Settling, "nobody wants it any more");
    assert_eq!(world.pass(1), Touched::default());
    assert_eq!(world.programmed("x", "d2"), Programmed::Settling);
    assert_eq!(world.pass(1).expositions, [id("x")]);
    assert_eq!(world.programmed("x", "d2"), pending("Not loaded yet by a"));
    let touched = world.hear("a", changed(vec![loaded("x", "d2")]));
    assert_eq!((touched.expositions, touched.loaded), (vec![id("x")], vec![Duration::from_secs(2)]));
    assert_eq!(world.programmed("x", "d2"), Programmed::Loaded);
    // Wanted once more, as a reconcile does: nothing new.
    assert!(world.want("x", "d2").is_empty());
    assert_eq!(world.programmed("x", "d2"), Programmed::Loaded);
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
        let mut world = ClusterState::new(&[("a", READY), ("b", READY)]);
        world.want("x", "d1");
        world.hear("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
        let mut touched = world.hear("b", snapshot("1", vec![ack("x", "d1", state)], vec![]));
        touched.merge(world.pass(2));
        assert_eq!(touched.expositions, [id("x")], "{said:?}");
        assert_eq!(world.programmed("x", "d1"), said);
    }
}

#[test]
fn of_many_documents_the_worst_is_told() {
    let mut world = ClusterState::new(&[("a", READY), ("b", READY)]);
    let too_old = AckState::Refused { reason: "GatewayTooOld".to_owned(), message: "format 2".to_owned() };
    world.hear("a", snapshot("1", vec![loaded("x", "d"), loaded("y", "d"), ack("z", "d", too_old)], vec![]));
    world.hear("b", snapshot("1", vec![loaded("x", "d"), loaded("z", "d")], vec![]));
    for name in ["x", "y", "z"] {
        world.want(name, "d");
    }
    let ask = |world: &ClusterState, names: &[&str]| {
        let documents: Vec<Wanted> = names.iter().map(|name| wanted(name, "d")).collect();
        world.table.programmed(&documents, world.now)
    };
    assert_eq!(ask(&world, &[]), Programmed::NotUsed);
    assert_eq!(ask(&world, &["x"]), Programmed::Loaded);
    assert_eq!(ask(&world, &["x", "y"]), Programmed::Settling);
    assert_eq!(ask(&world, &["x", "new"]), Programmed::Settling);
    world.pass(2);
    assert_eq!(ask(&world, &["x", "y"]), pending("Not loaded yet by b wherever it is used"));
    let message = "Exposition team/z: Gateway a is too old for this configuration: format 2".to_owned();
    assert_eq!(ask(&world, &["x", "y", "z"]), Programmed::TooOld { message });
}

#[test]
fn without_a_ready_gateway_nothing_is_programmed() {
    let mut world = ClusterState::new(&[("a", READY)]);
    world.hear("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    world.want("x", "d1");
    // A blink of the probe.
    assert!(world.endpoints(&[("a", NOT_READY)]).is_empty());
    assert!(world.pass(4).is_empty());
    assert_eq!(world.programmed("x", "d1"), Programmed::Settling);
    assert!(world.endpoints(&[("a", READY)]).is_empty());
    assert_eq!(world.programmed("x", "d1"), Programmed::Loaded);
    // Not a blink.
    world.endpoints(&[]);
    assert_eq!(world.pass(5).expositions, [id("x")]);
    let message = "No gateway of the group edge/public is ready; its pods say why".to_owned();
    assert_eq!(world.programmed("x", "d1"), Programmed::Unavailable { message });
    // The next one.
    world.endpoints(&[("b", READY)]);
    assert_eq!(world.programmed("x", "d1"), Programmed::Settling, "not heard yet");
    let touched = world.hear("b", snapshot("1", vec![loaded("x", "d1")], vec![]));
    assert_eq!(touched.expositions, [id("x")]);
    assert!(touched.loaded.is_empty(), "that was measured long ago");
    assert_eq!(world.programmed("x", "d1"), Programmed::Loaded);
}

#[test]
fn a_blink_of_a_stream_is_not_noticed_and_a_loss_is() {
    let mut world = ClusterState::new(&[("a", READY), ("b", READY)]);
    world.want("x", "d1");
    world.hear("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    world.hear("b", snapshot("1", vec![loaded("x", "d1")], vec![]));
    assert!(world.hear("b", News::Disconnected).is_empty());
    assert!(world.pass(4).is_empty());
    assert_eq!(world.programmed("x", "d1"), Programmed::Loaded);
    assert!(world.hear("b", snapshot("1", vec![loaded("x", "d1")], vec![])).is_empty());
    assert!(world.pass(60).is_empty());

    // Gone for good: five seconds for the stream, two more as for whatever is not loaded.
    world.hear("b", News::Disconnected);
    assert!(world.pass(6).is_empty());
    assert_eq!(world.pass(1).expositions, [id("x")]);
    assert_eq!(world.programmed("x", "d1"), pending("Not loaded yet by b (cannot be heard)"));
    // A document of now is asked of it as well.
    world.want("y", "d1");
    world.hear("a", changed(vec![loaded("y", "d1")]));
    world.pass(2);
    assert_eq!(world.programmed("y", "d1"), pending("Not loaded yet by b (cannot be heard)"));

    let mut touched = world.hear("b", snapshot("2", vec![loaded("x", "d1"), loaded("y", "d1")], vec![]));
    touched.expositions.sort();
    assert_eq!(touched.expositions, [id("x"), id("y")]);
    assert_eq!(world.programmed("x", "d1"), Programmed::Loaded);
}

#[test]
fn what_comes_after_a_loss_and_before_a_snapshot_is_not_believed() {
    let mut world = ClusterState::new(&[("a", READY)]);
    world.want("x", "d1");
    assert!(world.hear("a", changed(vec![loaded("x", "d1")])).is_empty());
    world.hear("a", counted(vec![saved("x", 10, 1)]));
    world.pass(10);
    assert_eq!(world.programmed("x", "d1"), pending("Not loaded yet by a (cannot be heard)"));
    assert_eq!(world.table.saved(&group(), &id("x")), None);
    // Nor a gateway that is not of the group.
    assert!(world.hear("stranger", snapshot("1", vec![loaded("x", "d1")], vec![saved("x", 10, 1)])).is_empty());
    assert_eq!(world.table.saved(&group(), &id("x")), None);
}

#[test]
fn a_gateway_that_joins_disturbs_nothing() {
    let mut world = ClusterState::new(&[("a", READY)]);
    world.want("x", "d1");
    world.hear("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    // It starts, fails to be heard for longer than the grace, becomes ready, and is heard.
    world.endpoints(&[("a", READY), ("b", NOT_READY)]);
    assert!(world.pass(30).is_empty());
    assert_eq!(world.programmed("x", "d1"), Programmed::Loaded);
    assert!(world.endpoints(&[("a", READY), ("b", READY)]).is_empty());
    assert!(world.pass(3).is_empty());
    assert_eq!(world.programmed("x", "d1"), Programmed::Settling);
    assert_eq!(world.hear("b", snapshot("1", vec![loaded("x", "d1")], vec![])), only_counted());
    assert_eq!(world.programmed("x", "d1"), Programmed::Loaded);
    // And one that lacks a document, though it is ready.
    world.endpoints(&[("a", READY), ("b", READY), ("c", READY)]);
    world.hear("c", snapshot("1", vec![], vec![]));
    assert_eq!(world.programmed("x", "d1"), Programmed::Settling);
    assert_eq!(world.pass(2).expositions, [id("x")]);
    assert_eq!(world.programmed("x", "d1"), pending("Not loaded yet by c"));
    // It goes.
    assert_eq!(world.endpoints(&[("a", READY), ("b", READY)]).expositions, [id("x")]);
    assert_eq!(world.programmed("x", "d1"), Programmed::Loaded);
}

#[test]
fn a_gateway_that_is_no_pod_counts_while_it_is_heard() {
    let mut world = ClusterState::new(&[("http://a", STATIC), ("http://b", STATIC)]);
    world.want("x", "d1");
    world.pass(5);
    assert!(matches!(world.programmed("x", "d1"), Programmed::Unavailable { .. }));
    assert_eq!(world.hear("http://a", snapshot("1", vec![loaded("x", "d1")], vec![])).expositions, [id("x")]);
    assert_eq!(world.programmed("x", "d1"), Programmed::Loaded);
    world.hear("http://b", snapshot("1", vec![], vec![]));
    world.pass(2);
    assert_eq!(world.programmed("x", "d1"), pending("Not loaded yet by http://b"));
    world.hear("http://b", News::Disconnected);
    assert_eq!(world.pass(5).expositions, [id("x")]);
    assert_eq!(world.programmed("x", "d1"), Programmed::Loaded);
    world.hear("http://a", News::Disconnected);
    world.pass(10);
    assert!(matches!(world.programmed("x", "d1"), Programmed::Unavailable { .. }));
}

#[test]
fn of_gateways_that_are_no_pods_those_are_counted_that_are_there() {
    let mut world = ClusterState::new(&[("http://a", STATIC), ("http://b", STATIC)]);
    let connected = |world: &ClusterState| world.table.ready(&group());
    assert_eq!(connected(&world), None, "they may be heard yet");
    assert_eq!(world.hear("http://a", snapshot("1", vec![], vec![])).groups, [group()]);
    assert_eq!(connected(&world), None, "the other one may");
    assert_eq!(world.pass(4), Touched::default());
    assert_eq!(world.pass(1).groups, [group()]);
    assert_eq!(connected(&world), Some(1), "and it was not");
    // Late, and another instance of the first: only who is there is told.
    assert_eq!(world.hear("http://b", snapshot("1", vec![], vec![])).groups, [group()]);
    assert_eq!(world.hear("http://a", snapshot("2", vec![], vec![])), Touched::default());
    assert_eq!(connected(&world), Some(2));
    // A blink is not noticed, a loss is, together as one.
    world.hear("http://a", News::Disconnected);
    world.hear("http://b", News::Disconnected);
    assert_eq!((world.pass(4), connected(&world)), (Touched::default(), Some(2)));
    assert_eq!((world.pass(1).groups, connected(&world)), (vec![group()], Some(0)));
}

/// `forged` has the owner references of a gateway, and Kubernetes says that it is ready.
#[test]
fn a_pod_counts_when_it_has_proved_to_be_a_gateway() {
    let mut world = ClusterState::new(&[("ours", READY)]);
    let ready = |world: &ClusterState| world.table.ready(&group());
    assert_eq!(ready(&world), None, "it may be heard yet");
    assert_eq!(world.hear("ours", snapshot("1", vec![], vec![])).groups, [group()]);
    assert_eq!(ready(&world), Some(1));
    world.endpoints(&[("ours", READY), ("forged", READY)]);
    assert_eq!((world.pass(4).groups, ready(&world)), (vec![], None), "it may prove itself yet");
    assert_eq!((world.pass(1).groups, ready(&world)), (vec![group()], Some(1)));
    assert_eq!((world.pass(60).groups, ready(&world)), (vec![], Some(1)));
    // A gateway that starts is not asked yet.
    world.endpoints(&[("ours", READY), ("forged", READY), ("starting", NOT_READY)]);
    assert_eq!((world.pass(60).groups, ready(&world)), (vec![], Some(1)));
    // A broken connection is no outage; what Kubernetes says is one.
    world.hear("ours", News::Disconnected);
    assert_eq!((world.pass(60).groups, ready(&world)), (vec![], Some(1)));
    world.endpoints(&[("ours", NOT_READY), ("forged", READY)]);
    world.pass(60);
    assert_eq!(ready(&world), Some(0));
    world.endpoints(&[("ours", READY)]);
    assert_eq!(ready(&world), Some(1));
    // Another pod of that name, after this one was gone.
    world.endpoints(&[]);
    world.endpoints(&[("ours", READY)]);
    world.pass(60);
    assert_eq!(ready(&world), Some(0));
}

#[test]
fn after_a_start_of_the_operator_nothing_is_said_before_gateways_are_heard() {
    let mut world = ClusterState::new(&[("a", READY), ("b", READY)]);
    world.table.want(&wanted("x", "d1"), None, world.now);
    assert!(world.pass(3).is_empty());
    assert_eq!(world.programmed("x", "d1"), Programmed::Settling);
    assert_eq!(world.hear("a", snapshot("1", vec![loaded("x", "d1")], vec![])), only_counted());
    let touched = world.hear("b", snapshot("1", vec![loaded("x", "d1")], vec![]));
    assert_eq!((touched.expositions, touched.loaded), (vec![id("x")], Vec::<Duration>::new()));
}

#[test]
fn the_time_to_loaded_counts_from_the_first_edit_that_was_not_loaded() {
    let mut world = ClusterState::new(&[("a", READY)]);
    world.hear("a", snapshot("1", vec![], vec![]));
    world.want("x", "d1");
    world.now += Duration::from_secs(1);
    world.want("x", "d2");
    world.now += Duration::from_secs(1);
    assert_eq!(world.hear("a", changed(vec![loaded("x", "d2")])).loaded, [Duration::from_secs(2)]);
    world.want("x", "d3");
    assert_eq!(world.hear("a", changed(vec![loaded("x", "d3")])).loaded, [Duration::ZERO]);
}

#[test]
fn savings_are_summed_over_gateways_and_restarts() {
    let mut world = ClusterState::new(&[("a", READY), ("b", READY)]);
    world.want("x", "d1");
    let total = |world: &ClusterState| {
        world.table.saved(&group(), &id("x")).map(|totals| (totals.input_bytes, totals.output_bytes))
    };
    assert_eq!(total(&world), None);
    let touched = world.hear("a", snapshot("1", vec![], vec![saved("x", 100, 10)]));
    assert_eq!(touched.counted, [id("x")]);
    world.hear("b", snapshot("1", vec![], vec![saved("x", 50, 5)]));
    assert_eq!(total(&world), Some((150, 15)));
    world.hear("a", counted(vec![saved("x", 200, 20)]));
    assert_eq!(total(&world), Some((250, 25)));
    // The same again changes nothing; nor does a stream that comes back.
    assert!(world.hear("a", counted(vec![saved("x", 200, 20)])).is_empty());
    world.hear("a", News::Disconnected);
    assert!(world.hear("a", snapshot("1", vec![], vec![saved("x", 200, 20)])).is_empty());
    assert_eq!(total(&world), Some((250, 25)));
    // Lost for long, and still the same instance.
    world.hear("a", News::Disconnected);
    world.pass(60);
    world.hear("a", snapshot("1", vec![], vec![saved("x", 210, 21)]));
    assert_eq!(total(&world), Some((260, 26)));
    // A restart: what it had counted stays, and it begins anew.
    world.hear("a", snapshot("2", vec![], vec![]));
    assert_eq!(total(&world), Some((260, 26)));
    world.hear("a", counted(vec![saved("x", 1, 1)]));
    assert_eq!(total(&world), Some((261, 27)));
    // A counter that goes back within an instance: the exposition had gone and come back.
    world.hear("a", counted(vec![saved("x", 0, 0)]));
    assert_eq!(total(&world), Some((261, 27)));
    // A pod that goes takes nothing along.
    world.endpoints(&[("b", READY)]);
    assert_eq!(total(&world), Some((261, 27)));
    world.hear("b", counted(vec![saved("x", u64::MAX, 0)]));
    assert_eq!(total(&world).map(|total| total.0), Some(u64::MAX), "and nothing overflows");
    world.table.forget(&group(), &id("x"));
    world.hear("b", News::Event(AckEvent::Changed { expositions: vec![], removed: vec![id("x")] }));
    assert_eq!(total(&world), None);
}

#[test]
fn what_is_removed_is_not_loaded() {
    let mut world = ClusterState::new(&[("a", READY)]);
    world.want("x", "d1");
    world.hear("a", snapshot("1", vec![loaded("x", "d1")], vec![]));
    world.hear("a", News::Event(AckEvent::Changed { expositions: vec![], removed: vec![id("x"), id("y")] }));
    assert_eq!(world.pass(2).expositions, [id("x")]);
    assert_eq!(world.programmed("x", "d1"), pending("Not loaded yet by a"));
    world.hear("a", snapshot("2", vec![loaded("x", "d1")], vec![]));
    // A snapshot without it says the same.
    world.hear("a", snapshot("2", vec![], vec![]));
    assert_eq!(world.pass(2).expositions, [id("x")]);
    world.table.forget(&group(), &id("x"));
    assert_eq!(world.programmed("x", "d1"), Programmed::Settling);
    world.table.forget_group(&group());
    assert!(world.hear("a", changed(vec![loaded("x", "d1")])).is_empty());
}

#[test]
fn messages_name_a_few_and_are_bounded() {
    let names: Vec<String> = (0..40).map(|n| format!("pod-{n:02}")).collect();
    let endpoints: Vec<(&str, Readiness)> = names.iter().map(|name| (name.as_str(), READY)).collect();
    let mut world = ClusterState::new(&endpoints);
    world.want("x", "d1");
    let long = AckState::Waiting { message: "é".repeat(10_000) };
    for name in &names {
        world.hear(name, snapshot("1", vec![ack("x", "d1", long.clone())], vec![]));
    }
    world.pass(2);
    let Programmed::Pending { message } = world.programmed("x", "d1") else { panic!("not pending") };
    assert!(message.len() < 1100 && message.starts_with("Not loaded yet by pod-00 (waits for é"), "{message}");
    world.table.want(&wanted("y", "d1"), None, world.now);
    world.pass(2);
    let message = "Not loaded yet by pod-00, pod-01, pod-02, pod-03, pod-04 and 35 more";
    assert_eq!(world.programmed("y", "d1"), pending(message));
}

/// What the group must hold: an event of one exposition costs what that exposition costs.
#[test]
fn ten_thousand_expositions_are_not_looked_at_for_one() {
    let mut world = ClusterState::new(&[("a", READY), ("b", READY), ("c", READY)]);
    let names: Vec<String> = (0..10_000).map(|n| format!("x{n}")).collect();
    let all: Vec<Ack> = names.iter().map(|name| loaded(name, "d1")).collect();
    for name in &names {
        world.want(name, "d1");
    }
    let mut touched = Touched::default();
    for endpoint in ["a", "b", "c"] {
        touched.merge(world.hear(endpoint, snapshot("1", all.clone(), vec![])));
    }
    assert_eq!((touched.expositions.len(), touched.loaded.len()), (10_000, 10_000));
    // 30,000 events of one exposition each: were each of them to look at all, that would be 300 million.
    let begin = Instant::now();
    for name in &names {
        world.want(name, "d2");
        for endpoint in ["a", "b", "c"] {
            let touched = world.hear(endpoint, changed(vec![loaded(name, "d2")]));
            assert_eq!(touched.expositions.len(), usize::from(endpoint == "c"));
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    // A pod that joins and one that goes: nothing to write.
    world.endpoints(&[("a", READY), ("b", READY), ("c", READY), ("d", READY)]);
    let all: Vec<Ack> = names.iter().map(|name| loaded(name, "d2")).collect();
    assert_eq!(world.hear("d", snapshot("1", all, vec![])), only_counted());
    assert!(world.endpoints(&[("a", READY), ("b", READY), ("d", READY)]).is_empty());
}

/// The events of one gateway: a stream that begins with a snapshot, and may be cut.
fn any_stream() -> impl Strategy<Value = Vec<News>> {
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
            name().prop_map(|name| News::Event(AckEvent::Changed { expositions: vec![], removed: vec![id(&name)] })),
            Just(News::Disconnected),
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
            let mut world = ClusterState::new(&endpoints);
            for name in ["x0", "x1", "x2"] {
                world.want(name, "d1");
            }
            let mut told = BTreeSet::new();
            let mut queues: Vec<_> = streams.iter().map(|stream| stream.iter()).collect();
            for turn in order {
                if let Some(news) = queues[turn].next() {
                    told.extend(world.hear(names[turn], news.clone()).expositions);
                }
            }
            told.extend(world.pass(60).expositions);
            let known: Vec<_> = ["x0", "x1", "x2"]
                .map(|name| (world.programmed(name, "d1"), world.table.saved(&group(), &id(name))))
                .into();
            // Whatever has another state than at first was told.
            for (name, (programmed, _)) in ["x0", "x1", "x2"].into_iter().zip(&known) {
                assert!(*programmed == Programmed::Settling || told.contains(&id(name)), "{name} {programmed:?}");
            }
            known
        };
        let in_turn = run(&mut (0..3).flat_map(|n| std::iter::repeat_n(n, 10)));
        let mixed = run(&mut turns.into_iter().chain((0..3).flat_map(|n| std::iter::repeat_n(n, 10))));
        prop_assert_eq!(in_turn, mixed);
    }
}
