use proptest::prelude::*;
use serde_json::json;
use tamis_config::{Digest, ExpositionId, Reason};
use tamis_crds::ObjectName;

use super::*;
use crate::verdict::{Finding, RequiredDocument};

const EARLY: &str = "2026-01-02T03:04:05Z";
const LATE: &str = "2026-01-02T03:05:00.75Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn document() -> RequiredDocument {
    RequiredDocument {
        group: ObjectName { namespace: "edge".to_owned(), name: "public".to_owned() },
        id: ExpositionId { namespace: "team".to_owned(), name: "github".to_owned() },
        digest: Digest("d1".to_owned()),
    }
}

fn exposed(findings: Vec<Finding>) -> Verdict {
    Verdict {
        findings,
        documents: vec![document()],
        exposed: Some(Exposed {
            group: Some(document().group),
            url: Some("http://public/mcp/team/github".to_owned()),
            upstream: None,
            tools: 4,
            unfiltered: 0,
            follows: false,
            filters: vec![("partner".to_owned(), 3)],
            serving_previous: None,
            stopped: false,
        }),
        ..Verdict::default()
    }
}

fn used(findings: Vec<Finding>) -> Verdict {
    Verdict { findings, documents: vec![document()], ..Verdict::default() }
}

fn group(ready_replicas: usize, findings: Vec<Finding>) -> Verdict {
    let facts =
        GroupFacts { attached: 7, ready_replicas, url: Some("http://public".to_owned()), ..GroupFacts::default() };
    Verdict { findings, group: Some(facts), ..Verdict::default() }
}

fn pending() -> Programmed {
    Programmed::Pending { message: "not loaded yet by a".to_owned() }
}

fn unavailable() -> Programmed {
    Programmed::Unavailable { message: "no gateway is ready".to_owned() }
}

fn write(
    kind: Kind,
    generation: i64,
    previous: Option<&Value>,
    verdict: &Verdict,
    programmed: &Programmed,
) -> Option<Value> {
    desired(&StatusInput {
        kind,
        generation,
        previous,
        verdict,
        programmed,
        saved: None,
        upstream: None,
        now: at(LATE),
    })
}

/// `Accepted=True/Accepted ..` in one line: what a table can compare.
fn line(status: &Value) -> String {
    let conditions = status["conditions"].as_array().unwrap();
    let each = conditions.iter().map(|condition| {
        let text = |field: &str| condition[field].as_str().unwrap().to_owned();
        format!("{}={}/{}", text("type"), text("status"), text("reason"))
    });
    each.collect::<Vec<_>>().join(" ")
}

fn ready_message(status: &Value) -> &str {
    Seen::find(Some(status), Condition::Ready).unwrap().message()
}

#[test]
fn every_reason_of_the_plan_reaches_ready() {
    for reason in Reason::ALL.iter().copied() {
        let own = match reason.condition() {
            own @ (Condition::Accepted | Condition::ResolvedRefs) if own.as_str() != reason.as_str() => own,
            _ => continue,
        };
        for kind in Kind::ALL {
            let findings = vec![Finding::error(reason, "spec.x: wrong, do right")];
            let verdict = match kind {
                Kind::Exposition => exposed(findings),
                Kind::GatewayGroup => group(1, findings),
                _ => used(findings),
            };
            let status = write(kind, 2, None, &verdict, &Programmed::Loaded).unwrap();
            let said = line(&status);
            assert!(said.contains(&format!("{own}=False/{reason}")), "{kind:?} {said}");
            assert!(said.ends_with(&format!("Ready=False/{reason}")), "{kind:?} {said}");
            assert_eq!(ready_message(&status), "spec.x: wrong, do right");
        }
    }
}

#[test]
fn ready_counts_unfiltered_tools() {
    let loaded = "Every ready gateway has loaded it";
    for (tools, unfiltered, message) in [
        (4, 0, loaded.to_owned()),
        (4, 1, format!("{loaded}; 1 of 4 tools is published unfiltered")),
        (4, 4, format!("{loaded}; 4 of 4 tools are published unfiltered")),
    ] {
        let mut verdict = exposed(vec![]);
        verdict.exposed = verdict.exposed.map(|exposed| Exposed { tools, unfiltered, ..exposed });
        let status = write(Kind::Exposition, 2, None, &verdict, &Programmed::Loaded).unwrap();
        assert_eq!(ready_message(&status), message);
        assert_eq!(status.get("unfiltered"), (unfiltered > 0).then(|| json!(unfiltered)).as_ref());
        // What was unfiltered before and is not any more leaves no trace.
        let after = write(Kind::Exposition, 2, Some(&status), &exposed(vec![]), &Programmed::Loaded);
        assert_eq!(after.is_some(), unfiltered > 0 || tools != 4);
        let patch = after.map(|after| merging(Some(&status), &after));
        assert!(patch.is_none_or(|patch| patch["unfiltered"].is_null()));
    }
}

/// The gateways have what was before, whatever they say of it.
#[test]
fn a_document_that_could_not_be_written_is_not_programmed() {
    let room = || Finding::error(Reason::Pending, "the API refuses it");
    for kind in [Kind::Exposition, Kind::ToolsFilters] {
        let verdict = |findings| if kind == Kind::Exposition { exposed(findings) } else { used(findings) };
        let loaded = write(kind, 2, None, &verdict(vec![]), &Programmed::Loaded).unwrap();
        for programmed in [Programmed::Loaded, Programmed::Settling, pending()] {
            let verdict = Verdict { unwritten: true, ..verdict(vec![room()]) };
            let status = write(kind, 2, Some(&loaded), &verdict, &programmed).unwrap();
            assert!(line(&status).contains("Programmed=False/Pending Ready=False/Pending"), "{}", line(&status));
        }
    }
}

#[test]
fn conditions_of_an_exposition() {
    let fine = "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs ";
    for (programmed, rest) in [
        (Programmed::Loaded, "Programmed=True/Programmed Ready=True/Ready"),
        (pending(), "Programmed=Unknown/Pending Ready=Unknown/Pending"),
        (unavailable(), "Programmed=Unknown/GatewayUnavailable Ready=Unknown/GatewayUnavailable"),
        (
            Programmed::TooOld { message: "a is too old".to_owned() },
            "Programmed=False/GatewayTooOld Ready=False/GatewayTooOld",
        ),
        (
            Programmed::Refused { message: "a refuses it".to_owned() },
            "Programmed=False/GatewayRefused Ready=False/GatewayRefused",
        ),
    ] {
        let status = write(Kind::Exposition, 1, None, &exposed(vec![]), &programmed).unwrap();
        assert_eq!(line(&status), format!("{fine}{rest}"));
    }
}

#[test]
fn the_whole_status_of_an_exposition() {
    let status = desired(&StatusInput {
        kind: Kind::Exposition,
        generation: 3,
        previous: Some(&json!({"observedGeneration": -1})),
        verdict: &exposed(vec![Finding::warning(Reason::Conflict, "filters.x: no such tool")]),
        programmed: &Programmed::Loaded,
        saved: Some(Totals { input_bytes: 1000, output_bytes: 65 }),
        upstream: None,
        now: at(EARLY),
    })
    .unwrap();
    let condition = |type_: &str, reason: &str, message: &str| {
        json!({
            "type": type_, "status": "True", "observedGeneration": 3, "lastTransitionTime": EARLY,
            "reason": reason, "message": message,
        })
    };
    assert_eq!(
        status,
        json!({
            "observedGeneration": 3,
            "url": "http://public/mcp/team/github",
            "tools": 4,
            "filters": [{"set": "partner", "tools": 3}],
            "gatewayGroup": "edge/public",
            "saved": "93%",
            "conditions": [
                condition("Accepted", "Accepted", "The resource is valid; warning: filters.x: no such tool"),
                condition("ResolvedRefs", "ResolvedRefs", "Everything that it names is there"),
                condition("Programmed", "Programmed", "Every ready gateway has loaded it"),
                condition("Ready", "Ready", "Every ready gateway has loaded it; warning: filters.x: no such tool"),
            ],
        })
    );
}

#[test]
fn ready_reports_that_the_last_good_version_is_served() {
    let mut verdict = exposed(vec![]);
    verdict.exposed.as_mut().unwrap().serving_previous = Some("the last good filters are served".to_owned());
    let status = write(Kind::Exposition, 1, None, &verdict, &Programmed::Loaded).unwrap();
    assert!(line(&status).ends_with("Programmed=True/Programmed Ready=False/ServingPrevious"), "{}", line(&status));
    assert_eq!(ready_message(&status), "the last good filters are served");

    verdict.findings = vec![Finding::error(Reason::InvalidFilter, "set partner: select: not a path")];
    let status = write(Kind::Exposition, 1, None, &verdict, &Programmed::Loaded).unwrap();
    assert!(line(&status).starts_with("Accepted=False/InvalidFilter"));
    assert!(line(&status).ends_with("Ready=False/ServingPrevious"));
    assert_eq!(ready_message(&status), "the last good filters are served; set partner: select: not a path");

    // It is wrong, whatever gateways are about to load.
    let status = write(Kind::Exposition, 1, None, &verdict, &pending()).unwrap();
    assert!(line(&status).ends_with("Programmed=Unknown/Pending Ready=False/ServingPrevious"));

    // Nothing is served: then it is not the previous either.
    let too_old = Programmed::TooOld { message: "a is too old".to_owned() };
    verdict.findings.clear();
    let status = write(Kind::Exposition, 1, None, &verdict, &too_old).unwrap();
    assert!(line(&status).ends_with("Ready=False/GatewayTooOld"));
}

#[test]
fn a_stopped_exposition_is_programmed_but_not_ready() {
    let mut verdict = exposed(vec![Finding::error(Reason::ServiceNotFound, "spec.service: none")]);
    verdict.exposed.as_mut().unwrap().stopped = true;
    let status = write(Kind::Exposition, 1, None, &verdict, &Programmed::Loaded).unwrap();
    assert_eq!(
        line(&status),
        "Accepted=True/Accepted ResolvedRefs=False/ServiceNotFound Programmed=True/Stopped Ready=False/ServiceNotFound"
    );
    verdict.findings.clear();
    let status = write(Kind::Exposition, 1, None, &verdict, &Programmed::Loaded).unwrap();
    assert!(line(&status).ends_with("Ready=False/Stopped"));
}

#[test]
fn an_exposition_without_a_group_is_not_programmed() {
    let mut verdict = exposed(vec![Finding::error(Reason::GatewayGroupNotFound, "spec.gatewayGroup")]);
    verdict.documents.clear();
    verdict.exposed = Some(Exposed { stopped: true, ..Exposed::default() });
    let status = write(Kind::Exposition, 1, None, &verdict, &Programmed::NotUsed).unwrap();
    assert!(line(&status).contains("Programmed=False/GatewayGroupNotFound Ready=False/GatewayGroupNotFound"));
    assert_eq!(status.get("url"), None);
    assert_eq!(status.get("gatewayGroup"), None);
}

#[test]
fn conditions_of_the_objects_that_expositions_use() {
    for kind in Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Exposition | Kind::GatewayGroup)) {
        let status = write(kind, 1, None, &Verdict::default(), &Programmed::NotUsed).unwrap();
        assert!(line(&status).ends_with("Programmed=True/NotUsed Ready=True/Ready"), "{}", line(&status));
        assert_eq!(ready_message(&status), "No exposition uses it");
        assert_eq!(status.as_object().unwrap().len(), 2, "nothing but observedGeneration and conditions");

        // The expositions have loaded their documents, but those were made of the generation before.
        let invalid = used(vec![Finding::error(Reason::InvalidFilter, "no")]);
        let status = write(kind, 2, None, &invalid, &Programmed::Loaded).unwrap();
        assert!(line(&status).contains("Programmed=False/InvalidFilter"), "{}", line(&status));

        // A tool that is not there does not keep the rest from being loaded.
        let partly = used(vec![Finding::error(Reason::ToolNotFound, "no")]);
        let status = write(kind, 2, None, &partly, &Programmed::Loaded).unwrap();
        assert!(line(&status).contains("Programmed=True/Programmed Ready=False/ToolNotFound"), "{}", line(&status));
    }
}

#[test]
fn a_group_is_ready_with_its_first_gateway() {
    let starting = write(Kind::GatewayGroup, 1, None, &group(0, vec![]), &Programmed::NotUsed).unwrap();
    assert_eq!(
        line(&starting),
        "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs Ready=Unknown/GatewayUnavailable"
    );
    let ready = write(Kind::GatewayGroup, 1, Some(&starting), &group(2, vec![]), &Programmed::NotUsed).unwrap();
    assert!(line(&ready).ends_with("Ready=True/Ready"));
    assert_eq!(ready["readyReplicas"], 2);
    assert_eq!(ready["attachedExpositions"], 7);
    assert_eq!(ready["url"], "http://public");
    let gone = write(Kind::GatewayGroup, 1, Some(&ready), &group(0, vec![]), &Programmed::NotUsed).unwrap();
    assert!(line(&gone).ends_with("Ready=False/GatewayUnavailable"));
    assert_eq!(write(Kind::GatewayGroup, 1, Some(&gone), &group(0, vec![]), &Programmed::NotUsed), None);
}

#[test]
fn an_outage_is_false_and_a_first_start_unknown() {
    let verdict = exposed(vec![]);
    let starting = write(Kind::Exposition, 1, None, &verdict, &unavailable()).unwrap();
    assert!(line(&starting).ends_with("Ready=Unknown/GatewayUnavailable"));
    let loaded = write(Kind::Exposition, 1, Some(&starting), &verdict, &Programmed::Loaded).unwrap();
    let gone = write(Kind::Exposition, 1, Some(&loaded), &verdict, &unavailable()).unwrap();
    assert!(line(&gone).ends_with("Programmed=False/GatewayUnavailable Ready=False/GatewayUnavailable"));
    // Edited just before, and pending: still an outage.
    let edited = write(Kind::Exposition, 2, Some(&loaded), &verdict, &pending()).unwrap();
    let lost = write(Kind::Exposition, 2, Some(&edited), &verdict, &unavailable()).unwrap();
    assert!(line(&lost).ends_with("Programmed=False/GatewayUnavailable Ready=False/GatewayUnavailable"));
    // Edited meanwhile: still one.
    let edited = write(Kind::Exposition, 2, Some(&gone), &verdict, &unavailable()).unwrap();
    assert!(line(&edited).ends_with("Programmed=False/GatewayUnavailable Ready=False/GatewayUnavailable"));
}

#[test]
fn a_new_generation_is_not_ready_before_it_is_loaded() {
    let verdict = exposed(vec![]);
    let first = write(Kind::Exposition, 1, None, &verdict, &Programmed::Loaded).unwrap();
    // For a moment nothing is written: what stands there is said of generation 1, and says so.
    assert_eq!(write(Kind::Exposition, 2, Some(&first), &verdict, &Programmed::Settling), None);
    let waiting = write(Kind::Exposition, 2, Some(&first), &verdict, &pending()).unwrap();
    assert!(line(&waiting).ends_with("Programmed=Unknown/Pending Ready=Unknown/Pending"));
    assert_eq!(waiting["observedGeneration"], 2);
    assert!(waiting["conditions"].as_array().unwrap().iter().all(|condition| condition["observedGeneration"] == 2));
    // The new spec comes to the very same document: ready at once, and the transition is the first one's.
    let same = write(Kind::Exposition, 2, Some(&first), &verdict, &Programmed::Loaded).unwrap();
    assert!(line(&same).ends_with("Programmed=True/Programmed Ready=True/Ready"));
}

#[test]
fn while_it_settles_a_failure_is_written_at_once() {
    let fine = exposed(vec![]);
    let loaded = write(Kind::Exposition, 1, None, &fine, &Programmed::Loaded).unwrap();
    let broken = exposed(vec![Finding::error(Reason::InvalidFilter, "no")]);
    // The same generation: what was loaded stays said.
    let status = write(Kind::Exposition, 1, Some(&loaded), &broken, &Programmed::Settling).unwrap();
    assert!(line(&status).contains("Programmed=True/Programmed Ready=False/InvalidFilter"), "{}", line(&status));
    // A new one: nothing has been said of it.
    let status = write(Kind::Exposition, 2, Some(&loaded), &broken, &Programmed::Settling).unwrap();
    assert!(line(&status).contains("Programmed=Unknown/Pending Ready=False/InvalidFilter"), "{}", line(&status));
    assert_eq!(write(Kind::Exposition, 2, Some(&status), &broken, &Programmed::Settling), None);
}

#[test]
fn conditions_and_fields_of_other_writers_stay() {
    let verdict = exposed(vec![]);
    let mut stored = write(Kind::Exposition, 1, None, &verdict, &Programmed::Loaded).unwrap();
    let foreign = json!({"type": "Approved", "status": "True", "reason": "Signed", "message": "by security"});
    stored["conditions"].as_array_mut().unwrap().insert(0, foreign);
    stored["approvedBy"] = json!("security");
    assert_eq!(write(Kind::Exposition, 1, Some(&stored), &verdict, &Programmed::Loaded), None);

    let next = write(Kind::Exposition, 2, Some(&stored), &verdict, &Programmed::Loaded).unwrap();
    assert!(
        next["conditions"].as_array().unwrap().iter().all(|condition| condition["type"] != "Approved"),
        "applying it would take it over"
    );
    assert_eq!(next.get("approvedBy"), None);

    // A condition that another writer changed is restored.
    stored["conditions"][4]["status"] = json!("False");
    let repaired = write(Kind::Exposition, 1, Some(&stored), &verdict, &Programmed::Loaded).unwrap();
    assert!(line(&repaired).ends_with("Ready=True/Ready"));
}

#[test]
fn a_field_that_no_longer_applies_is_removed() {
    let verdict = exposed(vec![]);
    let stored = write(Kind::Exposition, 1, None, &verdict, &Programmed::Loaded).unwrap();
    let mut bare = verdict.clone();
    bare.exposed.as_mut().unwrap().url = None;
    bare.exposed.as_mut().unwrap().filters.clear();
    let next = write(Kind::Exposition, 1, Some(&stored), &bare, &Programmed::Loaded).unwrap();
    assert_eq!((next.get("url"), next.get("filters")), (None, None));
}

#[test]
fn a_set_is_listed_once() {
    let mut verdict = exposed(vec![]);
    verdict.exposed.as_mut().unwrap().filters = vec![("a".to_owned(), 1), ("b".to_owned(), 2), ("a".to_owned(), 3)];
    let status = write(Kind::Exposition, 1, None, &verdict, &Programmed::Loaded).unwrap();
    assert_eq!(status["filters"], json!([{"set": "a", "tools": 1}, {"set": "b", "tools": 2}]));
}

#[test]
fn messages_are_bounded() {
    let findings: Vec<Finding> = (0..1000)
        .map(|i| Finding::error(Reason::InvalidFilter, format!("filters.tool-{i}: {}", "é".repeat(80))))
        .collect();
    let status = write(Kind::ToolsFilters, 1, None, &used(findings), &Programmed::Loaded).unwrap();
    let message = ready_message(&status);
    assert!(message.len() <= message::MAX_BYTES, "{}", message.len());
    assert!(message.starts_with("filters.tool-0: é") && message.ends_with("; and 995 more"), "{message}");

    let long = "é".repeat(5000);
    let status = write(
        Kind::ToolsFilters,
        1,
        None,
        &used(vec![Finding::error(Reason::InvalidFilter, &long)]),
        &Programmed::Loaded,
    )
    .unwrap();
    assert!(ready_message(&status).len() <= message::MAX_BYTES && ready_message(&status).ends_with('…'));
    let status = write(Kind::Exposition, 1, None, &exposed(vec![]), &Programmed::Pending { message: long }).unwrap();
    assert!(ready_message(&status).len() <= message::MAX_BYTES);
}

#[test]
fn a_malformed_previous_status_is_tolerated() {
    let verdict = exposed(vec![]);
    for garbage in [
        json!(null),
        json!([]),
        json!("x"),
        json!({"conditions": {}}),
        json!({"conditions": [null, 3, {"type": 4}, {"type": "Ready"}], "saved": 9, "observedGeneration": "x"}),
        json!({"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"}]}),
    ] {
        let status = write(Kind::Exposition, 1, Some(&garbage), &verdict, &Programmed::Loaded).unwrap();
        let time = Seen::find(Some(&status), Condition::Ready).unwrap().text("lastTransitionTime");
        assert_eq!(time, Some("2026-01-02T03:05:00Z"), "{garbage}");
    }
}

fn any_verdict(kind: Kind) -> impl Strategy<Value = Verdict> {
    let any_finding = (0..4_usize, 0..3_u8, any::<bool>()).prop_map(|(which, text, is_error)| Finding {
        is_error,
        ..match which {
            0 => Finding::error(Reason::InvalidFilter, format!("filter {text}")),
            1 => Finding::error(Reason::Conflict, format!("conflict {text}")),
            2 => Finding::error(Reason::ServiceNotFound, format!("service {text}")),
            _ => Finding::error(Reason::SecretNotFound, format!("secret {text}")),
        }
    });
    let findings = proptest::collection::vec(any_finding, 0..4);
    let flags = proptest::array::uniform3(any::<bool>());
    (findings, flags, 0..3_usize).prop_map(move |(findings, [stopped, previous, documents], n)| {
        let mut verdict = match kind {
            Kind::Exposition => exposed(findings),
            Kind::GatewayGroup => group(n, findings),
            _ => used(findings),
        };
        if !documents {
            verdict.documents.clear();
        }
        if let Some(exposed) = &mut verdict.exposed {
            exposed.stopped = stopped;
            exposed.tools = n;
            exposed.serving_previous = previous.then(|| "the last good is served".to_owned());
        }
        verdict
    })
}

type Step = (Verdict, Programmed, bool, Option<(u64, u64)>);

fn any_history() -> impl Strategy<Value = (Kind, Vec<Step>)> {
    proptest::sample::select(&Kind::ALL[..]).prop_flat_map(|kind| {
        let saved = proptest::option::of((0..2000_u64, 0..2000_u64));
        let step = (any_verdict(kind), any_programmed(), any::<bool>(), saved);
        (Just(kind), proptest::collection::vec(step, 1..12))
    })
}

fn any_programmed() -> impl Strategy<Value = Programmed> {
    let message = || (0..2_u8).prop_map(|n| format!("gateway {n}"));
    prop_oneof![
        Just(Programmed::NotUsed),
        Just(Programmed::Loaded),
        Just(Programmed::Settling),
        message().prop_map(|message| Programmed::Pending { message }),
        message().prop_map(|message| Programmed::Unavailable { message }),
        message().prop_map(|message| Programmed::TooOld { message }),
        message().prop_map(|message| Programmed::Refused { message }),
    ]
}

proptest! {
    /// A history of one object: whatever happens to it, what was written is not written again, times move only with
    /// their condition, and `Ready` is never true of a generation that is not loaded.
    #[test]
    fn statuses_do_not_flap((kind, steps) in any_history()) {
        let mut stored: Option<Value> = None;
        let mut generation = 1;
        for (second, (verdict, programmed, edited, saved)) in steps.into_iter().enumerate() {
            generation += i64::from(edited);
            let now = at(EARLY) + jiff::SignedDuration::from_secs(i64::try_from(second).unwrap());
            let saved = saved.map(|(input_bytes, output_bytes)| Totals { input_bytes, output_bytes });
            let input = StatusInput {
                kind, generation, previous: stored.as_ref(), verdict: &verdict, programmed: &programmed, saved, upstream: None, now,
            };
            let Some(next) = desired(&input) else { continue };
            prop_assert_eq!(desired(&StatusInput { previous: Some(&next), ..input }), None, "not idempotent");
            prop_assert_ne!(Some(&next), stored.as_ref());
            for type_ in Condition::ALL {
                let (before, after) = (Seen::find(stored.as_ref(), type_), Seen::find(Some(&next), type_));
                let Some(after) = after else { continue };
                prop_assert_eq!(after.generation(), Some(generation));
                let moved = before.and_then(|before| before.text("lastTransitionTime")) != after.text("lastTransitionTime");
                let changed = before.and_then(Seen::truth) != after.truth();
                prop_assert_eq!(moved, changed, "{}", type_);
            }
            let ready = Seen::find(Some(&next), Condition::Ready).and_then(Seen::truth) == Some(Truth::True);
            if ready && kind != Kind::GatewayGroup {
                prop_assert!(matches!(programmed, Programmed::Loaded | Programmed::NotUsed), "{:?}", programmed);
            }
            stored = Some(next);
        }
    }
}

#[test]
fn every_field_of_a_status_is_owned() {
    let status = json!({"conditions": []});
    let some = ["observedGeneration", "gatewayGroup", "readyReplicas"];
    assert!(some.iter().all(|field| FIELDS.contains(*field)) && !FIELDS.contains(CONDITIONS), "{:?}", *FIELDS);
    for field in FIELDS.iter() {
        let mut previous = status.clone();
        assert!(says(Some(&previous), &status));
        previous[field] = json!("left over");
        assert!(!says(Some(&previous), &status), "{field}");
        assert_eq!(merging(Some(&previous), &status).get(field), Some(&Value::Null), "{field}");
    }
}

#[test]
fn a_merge_patch_keeps_conditions_of_other_types() {
    let previous = json!({"url": "u", "conditions": [{"type": "Theirs"}, {"type": "Ready", "status": "True"}]});
    let status = json!({"observedGeneration": 2, "conditions": [{"type": "Ready", "status": "False"}]});
    let patch = merging(Some(&previous), &status);
    assert_eq!(patch["conditions"], json!([{"type": "Ready", "status": "False"}, {"type": "Theirs"}]));
    assert_eq!((&patch["observedGeneration"], &patch["url"]), (&json!(2), &Value::Null));
    assert!(patch.as_object().is_some_and(|patch| patch.contains_key("url")));
}
