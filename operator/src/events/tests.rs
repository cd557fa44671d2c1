use proptest::prelude::*;
use serde_json::json;
use tamis_config::{Digest, ExpositionId};
use tamis_crds::ObjectName;

use super::*;
use crate::acks::Programmed;
use crate::object::Kind;
use crate::status::{StatusInput, desired};
use crate::verdict::{Exposed, Finding, GroupFacts, RequiredDocument};

/// One object through its life: what is written, and the Events that go with it.
struct Life {
    kind: Kind,
    verdict: Verdict,
    programmed: Programmed,
    stored: Option<Value>,
    generation: i64,
}

impl Life {
    fn of(kind: Kind) -> Self {
        let group = ObjectName { namespace: "edge".to_owned(), name: "public".to_owned() };
        let id = ExpositionId { namespace: "team".to_owned(), name: "github".to_owned() };
        let mut verdict = Verdict {
            documents: vec![RequiredDocument { group, id, digest: Digest("d".to_owned()) }],
            ..Verdict::default()
        };
        match kind {
            Kind::Exposition => verdict.exposed = Some(Exposed::default()),
            Kind::GatewayGroup => verdict.group = Some(GroupFacts::default()),
            _ => {}
        }
        Self { kind, verdict, programmed: Programmed::Loaded, stored: None, generation: 1 }
    }

    /// Each Event as `Warning InvalidFilter Compile: note`.
    fn step(&mut self) -> Vec<String> {
        let next = desired(&StatusInput {
            kind: self.kind,
            generation: self.generation,
            previous: self.stored.as_ref(),
            verdict: &self.verdict,
            programmed: &self.programmed,
            saved: None,
            upstream: None,
            now: "2026-01-02T03:04:05Z".parse().unwrap(),
        });
        let Some(next) = next else { return Vec::new() };
        let found = events(self.stored.as_ref(), &next, &self.verdict);
        assert_eq!(events(Some(&next), &next, &self.verdict), [], "said twice");
        self.stored = Some(next);
        let line = |event: &Event| format!("{:?} {} {}: {}", event.type_, event.reason, event.action, event.note);
        found.iter().map(line).collect()
    }

    fn with(&mut self, findings: &[Finding]) -> Vec<String> {
        self.verdict.findings = findings.to_vec();
        self.step()
    }

    fn programmed(&mut self, programmed: Programmed) -> Vec<String> {
        self.programmed = programmed;
        self.step()
    }
}

fn invalid(message: &str) -> Finding {
    Finding::error(Reason::InvalidFilter, message)
}

fn missing(message: &str) -> Finding {
    Finding::error(Reason::ToolNotFound, message)
}

fn shadowed(message: &str) -> Finding {
    Finding::warning(Reason::Conflict, message)
}

const NONE: [&str; 0] = [];

#[test]
fn a_finding_and_its_end_cause_one_event_each() {
    let mut set = Life::of(Kind::ToolsFilters);
    assert_eq!(set.step(), NONE, "that all is well is no news");
    assert_eq!(set.with(&[invalid("a: no")]), ["Warning InvalidFilter Compile: a: no"]);
    assert_eq!(set.step(), NONE);
    set.generation += 1;
    assert_eq!(set.step(), NONE, "the same finding at another generation");
    assert_eq!(set.with(&[invalid("b: no")]), ["Warning InvalidFilter Compile: b: no"]);
    assert_eq!(set.with(&[invalid("b: no"), missing("c: none")]), ["Warning ToolNotFound Resolve: c: none"]);
    assert_eq!(set.with(&[missing("c: none")]), ["Normal Accepted Compile: InvalidFilter is resolved"]);
    assert_eq!(set.with(&[]), ["Normal ResolvedRefs Resolve: ToolNotFound is resolved"]);
    assert_eq!(set.step(), NONE);
}

#[test]
fn a_warning_causes_one_event_per_text() {
    let mut set = Life::of(Kind::ToolsFilters);
    let (one, two) = (|| shadowed("a: shadowed"), || shadowed("b: shadowed"));
    assert_eq!(set.with(&[one(), one()]), ["Warning Conflict Compile: a: shadowed"]);
    assert_eq!(set.with(&[one(), two()]), ["Warning Conflict Compile: b: shadowed"]);
    assert_eq!(set.with(&[two(), one()]), NONE, "another order");
    // An error takes the warnings along in its note, and they are not news when it ends.
    assert_eq!(
        set.with(&[one(), invalid("c: no"), two()]),
        ["Warning InvalidFilter Compile: c: no; warning: a: shadowed; warning: b: shadowed"]
    );
    assert_eq!(set.with(&[one(), two()]), ["Normal Accepted Compile: InvalidFilter is resolved"]);
    assert_eq!(set.with(&[]), NONE);
    assert_eq!(set.with(&[one()]), ["Warning Conflict Compile: a: shadowed"], "it is back");
}

#[test]
fn warnings_that_do_not_fit_are_not_repeated() {
    let mut set = Life::of(Kind::ToolsFilters);
    set.verdict.findings = (0..100).map(|n| shadowed(&format!("{n}: {}", "x".repeat(100)))).collect();
    assert_eq!(set.step().len(), 8);
    set.generation += 1;
    assert_eq!(set.step(), NONE);
    set.verdict.findings = vec![shadowed(&"é".repeat(4000))];
    let said = set.step();
    assert_eq!(said.len(), 1);
    assert!(said[0].len() < 600);
}

#[test]
fn a_pending_object_causes_no_event() {
    let pending = || Programmed::Pending { message: "Not loaded yet by a".to_owned() };
    let mut exposition = Life::of(Kind::Exposition);
    assert_eq!(exposition.programmed(pending()), NONE);
    assert_eq!(exposition.programmed(Programmed::Loaded), NONE);
    assert_eq!(exposition.programmed(pending()), NONE);
    exposition.generation += 1;
    assert_eq!(exposition.programmed(Programmed::Settling), NONE);
    assert_eq!(exposition.programmed(Programmed::Loaded), NONE);
}

#[test]
fn a_refusal_causes_an_event_of_the_exposition_only() {
    let too_old = |name: &str| Programmed::TooOld { message: format!("Gateway {name} is too old") };
    let mut exposition = Life::of(Kind::Exposition);
    exposition.step();
    assert_eq!(exposition.programmed(too_old("a")), ["Warning GatewayTooOld Load: Gateway a is too old"]);
    assert_eq!(exposition.programmed(too_old("b")), NONE, "another gateway, the same trouble");
    let refused = Programmed::Refused { message: "Gateway b cannot load it".to_owned() };
    assert_eq!(exposition.programmed(refused), ["Warning GatewayRefused Load: Gateway b cannot load it"]);
    assert_eq!(
        exposition.programmed(Programmed::Loaded),
        ["Normal Programmed Load: Every ready gateway has loaded it"]
    );
    let mut set = Life::of(Kind::ToolsFilters);
    set.step();
    assert_eq!(set.programmed(too_old("a")), NONE);
}

#[test]
fn an_outage_causes_an_event_of_the_group_only() {
    let mut exposition = Life::of(Kind::Exposition);
    exposition.step();
    assert_eq!(exposition.programmed(Programmed::Unavailable { message: "none is ready".to_owned() }), NONE);

    let mut group = Life::of(Kind::GatewayGroup);
    assert_eq!(group.step(), NONE, "it is starting");
    let mut ready = |replicas| {
        group.verdict.group = Some(GroupFacts { ready_replicas: replicas, ..GroupFacts::default() });
        group.step()
    };
    assert_eq!(ready(1), NONE);
    assert_eq!(
        ready(0),
        [
            "Warning GatewayUnavailable Serve: No gateway of the group is ready, or the operator can reach none; the pods and the operator's log say why"
        ]
    );
    assert_eq!(ready(0), NONE);
    assert_eq!(ready(2), ["Normal Ready Serve: Gateways are ready"]);
    assert_eq!(ready(3), NONE);
}

#[test]
fn serving_the_previous_version_causes_an_event_if_no_finding_does() {
    let mut exposition = Life::of(Kind::Exposition);
    exposition.step();
    let keep = |exposition: &mut Life, text: Option<&str>| {
        exposition.verdict.exposed = Some(Exposed { serving_previous: text.map(str::to_owned), ..Exposed::default() });
    };
    keep(&mut exposition, Some("set partner is invalid: the one before is served"));
    assert_eq!(exposition.step(), ["Warning ServingPrevious Serve: set partner is invalid: the one before is served"]);
    assert_eq!(exposition.step(), NONE);
    keep(&mut exposition, None);
    assert_eq!(exposition.step(), ["Normal Ready Serve: What the resources say is served again"]);

    keep(&mut exposition, Some("the one before is served"));
    assert_eq!(exposition.with(&[invalid("a: no")]), ["Warning InvalidFilter Compile: a: no"]);
    keep(&mut exposition, None);
    assert_eq!(exposition.with(&[]), ["Normal Accepted Compile: InvalidFilter is resolved"]);
}

#[test]
fn a_restarted_operator_repeats_no_event() {
    let mut set = Life::of(Kind::ToolsFilters);
    set.with(&[invalid("a: no"), Finding::warning(Reason::ToolNotFound, "b: not there")]);
    // All that it knows is what the API has.
    let mut restarted =
        Life { stored: set.stored.clone(), verdict: set.verdict.clone(), ..Life::of(Kind::ToolsFilters) };
    assert_eq!(restarted.step(), NONE);
}

#[test]
fn a_malformed_status_is_tolerated() {
    let verdict = Verdict::default();
    for garbage in [json!(null), json!({"conditions": 7}), json!({"conditions": [{"type": "Accepted"}]})] {
        assert_eq!(events(Some(&garbage), &garbage, &verdict), []);
    }
}

proptest! {
    /// Whatever happens, notes and reasons are what the API takes, and what is pending is not among them.
    #[test]
    fn events_fit_the_api(
        messages in proptest::collection::vec(("[a-zé]{0,300}", any::<bool>(), any::<bool>()), 0..30),
        failed in any::<bool>(),
    ) {
        let mut life = Life::of(Kind::Exposition);
        if failed {
            life.with(&[invalid("no")]);
        }
        life.verdict.findings = messages
            .iter()
            .map(|(message, is_error, refs)| {
                let reason = if *refs { Reason::ToolNotFound } else { Reason::InvalidFilter };
                Finding { is_error: *is_error, ..Finding::error(reason, message.clone()) }
            })
            .collect();
        life.programmed = Programmed::Pending { message: "x".to_owned() };
        let before = life.stored.clone();
        life.step();
        let Some(next) = &life.stored else { return Ok(()) };
        for event in events(before.as_ref(), next, &life.verdict) {
            prop_assert!(event.note.len() <= 1024 && event.reason != Reason::Pending);
        }
    }
}
