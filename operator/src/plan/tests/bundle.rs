//! Bundles: what is written for them, and what is said about their parts.

use serde_json::{Value, json};
use tamis_config::Reason;

use super::exposition;
use crate::cluster_state::fixture::{Fixture, name};
use crate::cluster_state::{Scope, ServiceKey};
use crate::object::{Kind, ObjectKey};
use crate::verdict::Verdict;

fn bundle(parts: Value) -> Value {
    json!({"expositions": parts, "access": {"anonymous": true}})
}

fn verdict(f: &mut Fixture) -> Verdict {
    let key = ServiceKey::bundles("team");
    let all = ObjectKey { kind: Kind::Exposition, name: name("all") };
    f.plan(&key, &Scope::All).verdicts.remove(&all).expect("a verdict")
}

/// The number of tools, and the reason and the message of each finding.
fn said(f: &mut Fixture) -> (usize, Vec<(Reason, String)>) {
    let Verdict { exposed, findings, .. } = verdict(f);
    (exposed.expect("is an exposition").tools, findings.into_iter().map(|f| (f.reason, f.message)).collect())
}

#[test]
fn a_bundle_is_written_once_and_counts_the_tools_of_its_parts() {
    let mut f = Fixture::good();
    f.put(Kind::Exposition, "all", bundle(json!([{"name": "e", "prefix": "a_"}, {"name": "byname"}])));
    f.settle();
    assert_eq!(f.told("all"), "bundle of a_e byname in team/default");
    let Verdict { exposed, findings, documents, waits, .. } = verdict(&mut f);
    let exposed = exposed.expect("is an exposition");
    assert_eq!((exposed.tools, exposed.unfiltered, exposed.stopped, findings, waits), (2, 0, false, vec![], false));
    assert!(exposed.url.is_some_and(|url| url.ends_with("/mcp/team/all")));
    assert_eq!(documents.len(), 1);
    let before = f.written();
    let digest = |f: &Fixture| {
        let of_bundle =
            |spec: &tamis_config::GatewayConfigSpec| spec.exposition.as_ref().is_some_and(|id| id.name == "all");
        f.written().into_values().find(of_bundle).expect("is written").digest
    };
    let was = digest(&f);
    // Its document is the same whatever becomes of its parts.
    f.put(Kind::Exposition, "e", exposition(json!({"filters": []})));
    f.settle();
    assert_ne!(f.written(), before);
    assert_eq!(digest(&f), was);
    assert_eq!(verdict(&mut f).exposed.expect("is an exposition").unfiltered, 1);
}

#[test]
fn what_a_part_lacks_is_a_finding_of_the_bundle() {
    type Edit = fn(&mut Fixture);
    let elsewhere = |f: &mut Fixture| {
        f.put(Kind::GatewayGroup, "other/default", json!({"allowedNamespaces": {"from": "All"}}));
        let group = json!({"name": "default", "namespace": "other"});
        f.put(Kind::Exposition, "byname", exposition(json!({"filters": ["n"], "gatewayGroup": group})));
    };
    let groupless: Edit =
        |f| f.put(Kind::Exposition, "byname", exposition(json!({"filters": ["n"], "gatewayGroup": {"name": "none"}})));
    /// What happens to the part `byname`, and what is then said; `e` is served all the while.
    type Row = (&'static str, Edit, Option<(Reason, &'static str)>);
    let table: &[Row] = &[
        ("nothing", |_| {}, None),
        (
            "it is deleted",
            |f| f.delete(Kind::Exposition, "byname"),
            Some((Reason::ExpositionNotFound, "spec.expositions[1].name: exposition `byname` does not exist")),
        ),
        (
            "it is stopped",
            |f| f.put(Kind::Exposition, "byname", exposition(json!({"filters": ["gone"]}))),
            Some((
                Reason::ExpositionStopped,
                "is stopped (FilterSetNotFound), so its tools are not published; fix that",
            )),
        ),
        (
            "it becomes a bundle",
            |f| f.put(Kind::Exposition, "byname", bundle(json!([{"name": "e"}]))),
            Some((Reason::RefNotPermitted, "is a bundle, and bundles cannot be nested; name the expositions")),
        ),
        ("it has another group", elsewhere, Some((Reason::RefNotPermitted, "belongs to GatewayGroup other/default"))),
        ("it has no group", groupless, Some((Reason::ExpositionStopped, "byname` is stopped (GatewayGroupNotFound)"))),
        (
            "it has a tool of that name",
            |f| f.put(Kind::Exposition, "all", bundle(json!([{"name": "e"}, {"name": "byname"}]))),
            Some((Reason::Conflict, "tool `get` of exposition `byname` is not published")),
        ),
    ];
    for (what, edit, expected) in table {
        let mut f = Fixture::good();
        f.put(
            Kind::Exposition,
            "all",
            bundle(json!([{"name": "e", "prefix": "a_"}, {"name": "byname", "prefix": "b_"}])),
        );
        f.settle();
        edit(&mut f);
        f.settle();
        let (tools, findings) = said(&mut f);
        assert_eq!(tools, if expected.is_none() { 2 } else { 1 }, "{what}: {findings:?}");
        match (expected, &findings[..]) {
            (None, []) => {}
            (Some((reason, text)), [(got, message)]) => {
                assert!(got == reason && message.contains(text), "{what}: {got} {message}");
            }
            _ => panic!("{what}: {findings:?}"),
        }
        assert!(f.told("all").starts_with("bundle of"), "{what}: it is served");
    }
}

#[test]
fn a_new_bundle_waits_a_moment_for_its_parts() {
    let mut f = Fixture::empty();
    for (kind, name, spec) in
        Fixture::objects().into_iter().filter(|(kind, name, _)| *kind != Kind::Exposition || *name == "e")
    {
        f.put(kind, name, spec);
    }
    f.secret("api", "1");
    f.put(Kind::Exposition, "none", exposition(json!({"gatewayGroup": {"name": "later"}})));
    f.put(Kind::Exposition, "all", bundle(json!([{"name": "e"}, {"name": "none"}])));
    // Neither part has a document yet.
    let first = verdict(&mut f);
    assert!(first.waits && first.findings.is_empty(), "{first:?}");
    f.settle();
    let Verdict { exposed, findings, waits, .. } = verdict(&mut f);
    assert_eq!(exposed.expect("is an exposition").tools, 1);
    assert!(!waits);
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(finding.reason, Reason::ExpositionStopped);
    assert!(finding.message.contains("no gateway serves exposition `none`"), "{finding:?}");
}
