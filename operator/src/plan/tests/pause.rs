//! What comes of a pause, of an exposition or of its group.

use serde_json::json;
use tamis_config::Reason;

use super::{exposition, set, verdict};
use crate::cluster_state::fixture::Fixture;
use crate::object::Kind;

type Who = (Kind, &'static str);

const BOTH: [Who; 2] = [(Kind::Exposition, "e"), (Kind::GatewayGroup, "default")];

fn edited() -> serde_json::Value {
    set(json!({"get": {"retain": ["/c"]}}))
}

#[test]
fn a_pause_is_reported_on_the_paused_object() {
    for (who, expected) in BOTH.into_iter().zip(["s:e", "s:byname,e,none,planned groups:default"]) {
        let mut f = Fixture::good();
        f.settle();
        f.pause(who.0, who.1, true);
        assert_eq!(f.marked(), expected);
        f.pause(who.0, who.1, true);
        assert_eq!(f.marked(), "", "nothing has changed");
        f.pause(who.0, who.1, false);
        assert_eq!(f.marked(), expected);
    }
}

#[test]
fn changes_wait_until_the_pause_ends() {
    for (kind, name) in BOTH {
        let mut f = Fixture::good();
        f.settle();
        let before = f.written();
        f.pause(kind, name, true);
        f.settle();
        assert_eq!(f.written(), before, "{kind:?}");
        let said = verdict(&mut f, Kind::Exposition, "e").expect("a verdict");
        assert_eq!(said.paused, None, "nothing waits");
        assert_eq!(said.findings.iter().any(|f| f.reason == Reason::Paused), kind == Kind::Exposition, "said once");

        f.put(Kind::ToolsFilters, "base", edited());
        f.settle();
        let e = |f: &Fixture| {
            let of =
                f.written().into_iter().find(|(_, spec)| spec.exposition.as_ref().is_some_and(|id| id.name == "e"));
            of.expect("is written").1.digest
        };
        let was = before.values().find(|spec| spec.exposition.as_ref().is_some_and(|id| id.name == "e"));
        assert_eq!(Some(e(&f)), was.map(|spec| spec.digest.clone()), "{kind:?}");
        let said = verdict(&mut f, Kind::Exposition, "e").expect("a verdict");
        assert!(said.paused.as_ref().is_some_and(|text| text.contains("tamis.dev/paused")), "{:?}", said.paused);
        assert_eq!(said.documents[0].digest, e(&f), "what is waited for is what is served");

        f.pause(kind, name, false);
        f.settle();
        assert_ne!(Some(e(&f)), was.map(|spec| spec.digest.clone()), "{kind:?}");
        assert_eq!(verdict(&mut f, Kind::Exposition, "e").expect("a verdict").paused, None);
    }
}

#[test]
fn changes_that_take_something_away_do_not_wait() {
    type Edit = fn(&mut Fixture);
    let edits: &[(&str, Edit, &str)] = &[
        ("its service is gone", |f| f.delete(Kind::ServiceManifest, "s"), "stop ServiceNotFound in team/default"),
        (
            "nobody may call any more",
            |f| f.put(Kind::Exposition, "e", json!({"service": {"name": "s", "version": "1"}})),
            "stop AccessRequired in team/default",
        ),
    ];
    for (what, edit, told) in edits {
        let mut f = Fixture::good();
        f.settle();
        f.pause(Kind::GatewayGroup, "default", true);
        edit(&mut f);
        f.settle();
        assert_eq!(f.told("e"), *told, "{what}");
    }
}

#[test]
fn a_paused_group_publishes_no_new_exposition() {
    let mut f = Fixture::good();
    f.settle();
    f.pause(Kind::GatewayGroup, "default", true);
    f.put(Kind::Exposition, "new", exposition(json!({"filters": ["n"]})));
    f.settle();
    assert_eq!(f.told("new"), "");
    f.put(Kind::Exposition, "broken", exposition(json!({"filters": ["x"]})));
    f.settle();
    assert_eq!(f.told("broken"), "", "not even that it is stopped");
    let said = verdict(&mut f, Kind::Exposition, "new").expect("a verdict");
    assert!(said.paused.is_some_and(|text| text.contains("not published until then")));
    f.pause(Kind::GatewayGroup, "default", false);
    f.settle();
    assert_eq!(f.told("new"), "get=team/named in team/default");
    assert_eq!(f.told("broken"), "stop FilterSetNotFound in team/default");
}

/// An exposition that moves into a paused group has left its old one, and has not arrived.
#[test]
fn a_move_leaves_at_once_and_arrives_when_the_pause_ends() {
    let mut f = Fixture::good();
    f.put(Kind::GatewayGroup, "edge/public", json!({"allowedNamespaces": {"from": "All"}}));
    f.settle();
    f.pause(Kind::GatewayGroup, "edge/public", true);
    let to = json!({"gatewayGroup": {"name": "public", "namespace": "edge"}});
    f.put(Kind::Exposition, "e", exposition(to));
    f.settle();
    assert_eq!(f.told("e"), "");
    f.pause(Kind::GatewayGroup, "edge/public", false);
    f.settle();
    assert_eq!(f.told("e"), "get=team/base in edge/public");
}
