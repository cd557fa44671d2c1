#![expect(clippy::needless_pass_by_value, reason = "literals are passed")]

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tamis_config::carrier::decode_exposition;
use tamis_config::{ExpositionPayload, Reason};

use super::hold::{GONE, NEW};
mod bundle;
mod pause;

use crate::cluster_state::Scope;
use crate::cluster_state::fixture::{Fixture, name, object};
use crate::object::{Kind, ObjectKey};
use crate::plan::Planned;
use crate::verdict::Verdict;
use crate::watch::{Change, Watched};

const STEP: Duration = Duration::from_millis(1);

fn exposition(more: Value) -> Value {
    let mut spec = json!({"service": {"name": "s", "version": "1"}, "access": {"anonymous": true}});
    for (key, value) in more.as_object().cloned().unwrap_or_default() {
        spec[key] = value;
    }
    spec
}

fn set(filters: Value) -> Value {
    json!({"service": {"name": "s", "version": "1"}, "filters": filters})
}

fn verdict(f: &mut Fixture, kind: Kind, text: &str) -> Option<Verdict> {
    f.plan(&Fixture::key(), &Scope::All).verdicts.remove(&ObjectKey { kind, name: name(text) })
}

#[test]
fn what_is_there_is_served_and_nothing_is_written_twice() {
    let mut f = Fixture::good();
    f.settle();
    for (exposition, expected) in [
        ("e", "get=team/base in team/default"),
        ("byname", "get=team/named in team/default"),
        ("none", "get=- in team/default"),
        ("planned", "get=team/base in team/default"),
    ] {
        assert_eq!(f.told(exposition), expected);
    }
    assert_eq!(f.round(), (None, 0));
}

/// Prompts are a part of their service: every exposition of it publishes them, and each object has its own verdict.
#[test]
fn prompts_and_resources_reach_every_exposition_of_their_service() {
    let mut f = Fixture::good();
    f.settle();
    let service = json!({"name": "s", "version": "1"});
    let before = f.written();
    // All objects have the same age, so the name decides which one holds.
    f.put(Kind::Prompts, "a", json!({"service": service, "prompts": {"ask": {"result": "A"}}}));
    let resources = json!({"a:/b": {"name": "b", "text": "t"}});
    f.put(Kind::Resources, "r", json!({"service": service, "resources": resources}));
    f.put(Kind::Prompts, "b", json!({"service": service, "prompts": {"ask": {"result": "B"}, "bad": {"result": []}}}));
    f.settle();
    let written = f.written();
    assert_ne!(before, written);
    let mut published = 0;
    for spec in written.values().filter(|spec| spec.exposition.is_some()) {
        let ExpositionPayload::Serve(document) = decode_exposition(spec).expect("can be read") else { continue };
        assert_eq!(
            (&document.content.prompts, &document.content.resources),
            (&vec!["ask".into()], &vec!["a:/b".into()])
        );
        assert_eq!(document.format_version, 4);
        published += 1;
    }
    assert_eq!(published, 4);
    let own = f.plan_own(&Fixture::key());
    let of = |kind: Kind, text: &str| -> Vec<String> {
        let verdict = own.get(&ObjectKey { kind, name: name(text) });
        let findings = &verdict.expect("is judged").findings;
        findings.iter().map(|finding| format!("{} {}", finding.reason, finding.message)).collect()
    };
    assert_eq!(of(Kind::Prompts, "a"), Vec::<String>::new());
    assert_eq!(of(Kind::Resources, "r"), Vec::<String>::new());
    let said = of(Kind::Prompts, "b").join("\n");
    assert!(said.contains("Conflict spec.prompts.ask") && said.contains("InvalidManifest spec.prompts.bad"), "{said}");
    f.delete(Kind::Prompts, "a");
    f.delete(Kind::Prompts, "b");
    f.delete(Kind::Resources, "r");
    f.settle();
    for spec in f.written().values().filter(|spec| spec.exposition.is_some()) {
        let ExpositionPayload::Serve(document) = decode_exposition(spec).expect("can be read") else { continue };
        assert!(document.content.is_empty() && document.format_version < 4);
    }
}

#[test]
fn what_is_missing_stops_it_at_once() {
    type Edit = fn(&mut Fixture);
    let table: &[(&str, Edit, &str)] = &[
        ("its service", |f| f.delete(Kind::ServiceManifest, "s"), "stop ServiceNotFound in team/default"),
        (
            "its set",
            |f| f.put(Kind::Exposition, "e", exposition(json!({"filters": ["x"]}))),
            "stop FilterSetNotFound in team/default",
        ),
        (
            "its plan",
            |f| f.put(Kind::Exposition, "e", exposition(json!({"configurationPlan": {"name": "x"}}))),
            "stop PlanNotFound in team/default",
        ),
        (
            "its Secret",
            |f| f.apply(Watched::Secrets, Change::deleted(object("Secret", "api", 1, json!({})))),
            "stop SecretNotFound in team/default",
        ),
        (
            "who may call",
            |f| f.put(Kind::Exposition, "e", json!({"service": {"name": "s", "version": "1"}})),
            "stop AccessRequired in team/default",
        ),
        ("its group", |f| f.delete(Kind::GatewayGroup, "default"), ""),
        (
            "itself",
            |f| f.put(Kind::Exposition, "e", json!({"service": {"name": "s", "version": "1"}, "access": 7})),
            "get=team/base in team/default",
        ),
        (
            "its group is another operator's",
            |f| f.put(Kind::GatewayGroup, "default", json!({"controllerName": "example.com/b"})),
            "get=team/base in team/default",
        ),
        (
            "its group cannot be read",
            |f| f.put(Kind::GatewayGroup, "default", json!({"replicas": "x"})),
            "get=team/base in team/default",
        ),
    ];
    for (what, edit, expected) in table {
        let mut f = Fixture::good();
        f.settle();
        edit(&mut f);
        f.round();
        assert_eq!(f.told("e"), *expected, "{what}");
    }
}

#[test]
fn one_that_cannot_be_read_has_todays_secrets() {
    for spec in [json!({"service": {"name": "s", "version": "1"}, "access": 7}), json!({"service": 7})] {
        let mut f = Fixture::good();
        f.settle();
        f.put(Kind::Exposition, "e", spec);
        f.settle();
        let before = f.written();
        f.secret("api", "1");
        assert!(f.marked().contains(":*"));
        f.settle();
        let after = f.written();
        let name = tamis_config::names::exposition_object(&super::id(&name("e")));
        let of = |written: &std::collections::BTreeMap<_, tamis_config::GatewayConfigSpec>| {
            written.get(&crate::cluster_state::fixture::name(&name)).map(|spec| spec.credentials.clone())
        };
        assert_eq!(f.told("e"), "get=team/base in team/default");
        assert_ne!(of(&before), of(&after));
    }
}

#[test]
fn one_that_is_new_waits_for_its_filters() {
    let mut f = Fixture::good();
    f.delete(Kind::ToolsFilters, "base");
    f.round();
    assert_eq!(f.told("e"), "stop FilterSetNotFound in team/default");
    f.round();
    assert!(f.memory.bare_since.is_empty());
    f.pass_by(GONE);
    f.settle();
    assert_eq!(f.told("e"), "stop FilterSetNotFound in team/default", "nothing is published unfiltered unless said so");
    f.put(Kind::ToolsFilters, "base", set(json!({"get": {"retain": ["/a"]}})));
    f.settle();
    assert_eq!(f.told("e"), "get=team/base in team/default");
    // A set that does not name the tool is one.
    let mut f = Fixture::good();
    f.put(Kind::ToolsFilters, "base", set(json!({})));
    assert_eq!((f.round().0, f.told("e")), (Some(f.now + NEW), "stop Pending in team/default".to_owned()));
    f.pass_by(NEW - STEP);
    f.round();
    assert_eq!(f.told("e"), "stop Pending in team/default");
    f.pass_by(STEP);
    f.round();
    assert_eq!(f.told("e"), "get=- in team/default");
    // It is said on purpose: there is nothing to wait for.
    let mut f = Fixture::good();
    f.delete(Kind::ToolsFilters, "base");
    f.put(Kind::Exposition, "e", exposition(json!({"filters": []})));
    f.round();
    assert_eq!(f.told("e"), "get=- in team/default");
    // Its filters came in time; one that went and came again is new again.
    let mut f = Fixture::good();
    f.delete(Kind::ToolsFilters, "base");
    f.round();
    f.put(Kind::ToolsFilters, "base", set(json!({"get": {"retain": ["/a"]}})));
    f.round();
    assert_eq!(f.told("e"), "get=team/base in team/default");
}

#[test]
fn a_default_set_that_is_gone_is_waited_for_longer_than_an_edit() {
    let mut f = Fixture::good();
    f.settle();
    f.put(Kind::ToolsFilters, "base", set(json!({})));
    assert_eq!(f.round().0, Some(f.now + NEW));
    assert_eq!(f.told("e"), "get=team/base in team/default", "an edit may be the first of several");
    f.pass_by(NEW);
    assert_eq!(f.round().0, None);
    assert_eq!(f.told("e"), "get=- in team/default", "and is meant");
    let two = |f: &mut Fixture| {
        f.put(Kind::ToolsFilters, "other", set(json!({})));
        f.settle();
    };
    let mut f = Fixture::good();
    two(&mut f);
    f.delete(Kind::ToolsFilters, "base");
    assert_eq!(f.round().0, Some(f.now + GONE));
    assert_eq!(f.told("e"), "get=team/base in team/default");
    f.pass_by(GONE - STEP);
    f.round();
    assert_eq!(f.told("e"), "get=team/base in team/default");
    f.pass_by(STEP);
    assert_eq!(f.round().0, None);
    assert_eq!(f.told("e"), "get=- in team/default", "then it does without");
    // An operator that was not there when it went waits as long.
    let mut f = Fixture::good();
    two(&mut f);
    f.cluster.forget(f.now + STEP);
    f.delete(Kind::ToolsFilters, "base");
    f.cluster.forget(f.now + STEP);
    f.memory = super::Memory::default();
    assert_eq!(f.round().0, Some(f.now + GONE));
    f.settle();
    assert_eq!(f.told("e"), "get=- in team/default");
}

#[test]
fn the_last_default_set_takes_the_exposition_along() {
    let mut f = Fixture::good();
    f.settle();
    f.delete(Kind::ToolsFilters, "base");
    f.round();
    assert_eq!(f.told("e"), "stop FilterSetNotFound in team/default", "at once");
    f.pass_by(GONE);
    f.settle();
    assert_eq!(f.told("e"), "stop FilterSetNotFound in team/default");
}

#[test]
fn enforcement_is_lowered_soon_when_edited_and_late_when_its_set_is_gone() {
    let mut strict = set(json!({"get": {"retain": ["/a"]}}));
    strict["enforcement"] = json!("Enforced");
    let enforced = |f: &Fixture| {
        let of = f.cluster.configs.of_exposition(&super::id(&name("e"))).pop().expect("is written");
        match of.spec.as_ref().map(tamis_config::carrier::decode_exposition) {
            Some(Ok(tamis_config::ExpositionPayload::Serve(document))) => {
                document.enforcement == tamis_engine::Enforcement::Enforced
            }
            other => panic!("{other:?}"),
        }
    };
    let mut f = Fixture::good();
    f.put(Kind::ToolsFilters, "base", strict.clone());
    f.settle();
    assert!(enforced(&f));
    f.put(Kind::ToolsFilters, "base", set(json!({"get": {"retain": ["/a"]}})));
    f.round();
    assert!(enforced(&f));
    f.pass_by(NEW);
    f.round();
    assert!(!enforced(&f));
    // A set that filters none of its tools, but has a say in enforcement.
    strict["filters"] = json!({});
    let mut f = Fixture::good();
    f.put(Kind::ToolsFilters, "strict", strict);
    f.settle();
    assert!(enforced(&f));
    f.delete(Kind::ToolsFilters, "strict");
    f.round();
    assert!(enforced(&f));
    f.settle();
    assert!(!enforced(&f));
}

#[test]
fn in_a_namespace_that_goes_nothing_loosens() {
    let mut f = Fixture::good();
    f.put(Kind::ToolsFilters, "other", set(json!({})));
    f.settle();
    f.namespace(json!({}), "Terminating");
    f.delete(Kind::ToolsFilters, "base");
    for _ in 0..20 {
        let (wake, _) = f.round();
        assert!(wake.is_some());
        f.cluster.forget(f.now);
        f.pass_by(GONE);
        assert_eq!(f.told("e"), "get=team/base in team/default");
    }
    f.delete(Kind::Exposition, "e");
    f.namespace(json!({}), "Active");
    f.settle();
}

#[test]
fn it_moves_and_is_sent_away() {
    let other = |f: &mut Fixture, allowed: &str| {
        f.put(Kind::GatewayGroup, "gw/public", json!({"allowedNamespaces": {"from": allowed}}));
    };
    let there = json!({"gatewayGroup": {"name": "public", "namespace": "gw"}});
    let mut f = Fixture::good();
    f.settle();
    other(&mut f, "All");
    f.put(Kind::Exposition, "e", exposition(there.clone()));
    f.settle();
    assert_eq!(f.told("e"), "get=team/base in gw/public", "and nowhere else");
    other(&mut f, "Same");
    f.settle();
    assert_eq!(f.told("e"), "stop RefNotPermitted in gw/public", "where it was, it says why");
    assert_eq!(f.round().1, 0);
    f.put(Kind::Exposition, "new", exposition(there));
    f.settle();
    assert_eq!(f.told("new"), "", "where it never was, nothing is written");
    let found = verdict(&mut f, Kind::Exposition, "new").expect("is judged").findings;
    assert_eq!(found.first().map(|finding| finding.reason), Some(tamis_config::Reason::RefNotPermitted));
    f.delete(Kind::GatewayGroup, "gw/public");
    f.settle();
    assert_eq!(f.told("e"), "");
}

#[test]
fn of_another_operators_expositions_nothing_is_said() {
    let mut f = Fixture::good();
    f.put(Kind::GatewayGroup, "default", json!({"controllerName": "example.com/b"}));
    let plan = f.plan(&Fixture::key(), &Scope::All);
    assert!(plan.expositions.values().all(|planned| *planned == Planned::Untouched));
    assert!(plan.verdicts.keys().all(|key| key.kind != Kind::Exposition));
    assert!(plan.foreign.contains(&name("e")));
    f.put(Kind::GatewayGroup, "default", json!({"replicas": "x"}));
    let held = verdict(&mut f, Kind::Exposition, "e").expect("is judged");
    assert!(
        held.findings.iter().any(|finding| finding.is_error && finding.message.contains("cannot be read")),
        "{held:?}"
    );
}

/// Status counts what is published, whatever the source of the service.
#[test]
fn the_pinned_tools_of_an_mcp_server_are_counted() {
    let schema = json!({"inputSchema": {"type": "object"}});
    let table = [
        (json!({"get": schema}), json!({}), (1, 0, "get=team/base")),
        (json!({"get": schema, "list": schema}), json!({}), (2, 1, "get=team/base list=-")),
        (json!({"get": schema, "list": schema}), json!({"tools": {"exclude": ["list"]}}), (1, 0, "get=team/base")),
        (json!({"get": schema, "list": schema}), json!({"enforcement": "Enforced"}), (1, 0, "get=team/base")),
    ];
    for (tools, more, (published, unfiltered, documents)) in table {
        let mut f = Fixture::good();
        let auth = json!({"type": "bearer", "secretRef": {"name": "api", "key": "token"}});
        let mcp = json!({"url": "https://api.example.com/mcp", "auth": auth, "tools": tools});
        f.put(Kind::ServiceManifest, "s", json!({"version": "1", "mcp": mcp}));
        f.put(Kind::Exposition, "e", exposition(more.clone()));
        f.settle();
        assert_eq!(f.told("e"), format!("{documents} in team/default"), "{tools} {more}");
        let exposed = verdict(&mut f, Kind::Exposition, "e").and_then(|verdict| verdict.exposed).expect("is judged");
        assert_eq!((exposed.tools, exposed.unfiltered), (published, unfiltered), "{tools} {more}");
        assert_eq!(exposed.filters, [("base".to_owned(), 1)], "{tools} {more}");
    }
}

#[test]
fn a_secret_may_be_used_only_as_its_owner_says() {
    let mut f = Fixture::good();
    f.settle();
    f.put(Kind::ConfigurationPlan, "prod", json!({"endpoint": "https://evil.example"}));
    f.round();
    assert_eq!(f.told("planned"), "stop SecretUseNotAllowed in team/default");
    assert_eq!(f.told("e"), "get=team/base in team/default");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_what_comes_does_not_matter(
        objects in Just(Fixture::objects()).prop_shuffle(),
        rounds in proptest::collection::vec(any::<bool>(), 9),
        secret in 0_usize..9,
    ) {
        let mut expected = Fixture::empty();
        // The Secret's version is part of what is written.
        expected.secret("api", "1");
        let mut f = Fixture::empty();
        let late = object("Secret", "api", 1, json!({
            "metadata": {"uid": "1", "labels": {(tamis_config::names::CREDENTIALS_LABEL): "upstream"},
                "annotations": {(tamis_config::names::ALLOWED_USE_ANNOTATION): "api.example.com bearer"}},
            "data": {"token": "c2VjcmV0"},
        }));
        for (kind, name, spec) in Fixture::objects() {
            expected.put(kind, name, spec);
        }
        expected.settle();
        for (index, (kind, name, spec)) in objects.into_iter().enumerate() {
            if index == secret {
                f.apply(Watched::Secrets, Change::applied(late.clone()));
            }
            f.put(kind, name, spec);
            if rounds[index] {
                f.round();
                f.pass_by(Duration::from_millis(100));
            }
        }
        f.settle();
        let services = |written: &std::collections::BTreeMap<_, tamis_config::GatewayConfigSpec>| {
            written.values().filter_map(|spec| spec.service.clone()).collect::<std::collections::BTreeSet<_>>()
        };
        let (f_written, e_written) = (f.written(), expected.written());
        prop_assert_eq!(services(&f_written), services(&e_written));
        for (name, spec) in &e_written {
            prop_assert_eq!(f_written.get(name), Some(spec));
        }
        prop_assert_eq!(f.round(), (None, 0));
    }
}

#[test]
fn a_document_is_converted_once_and_again_only_when_it_changes() {
    let mut f = Fixture::good();
    let api = |path: &str| {
        format!(
            "openapi: 3.1.0\nservers: [{{url: https://api.example.com}}]\npaths: {{{path}: {{get: {{operationId: get}}}}}}\n"
        )
    };
    f.config_map("api", &api("/a"));
    let spec = json!({"version": "1", "openapi": {"configMapRef": {"name": "api", "key": "api.yaml"}}});
    f.put(Kind::ServiceManifest, "s", spec.clone());
    f.settle();
    assert_eq!(f.told("none"), "get=- in team/default");
    assert_eq!(f.memory.conversions.made(), 1, "for all expositions and rounds");
    let before = f.written();
    // Edits of anything else convert nothing.
    f.put(
        Kind::ToolsFilters,
        "base",
        json!({"service": {"name": "s", "version": "1"}, "filters": {"get": {"retain": ["/c"]}}}),
    );
    f.put(
        Kind::Exposition,
        "none",
        json!({"service": {"name": "s", "version": "1"}, "access": {"anonymous": true}, "filters": []}),
    );
    f.settle();
    f.plan_own(&Fixture::key());
    assert_eq!(f.memory.conversions.made(), 1);
    assert_ne!(f.written(), before);
    f.config_map("api", &api("/b"));
    f.settle();
    assert_eq!(f.memory.conversions.made(), 2);
    // Without the ConfigMap the last good service stays.
    let before = f.written();
    f.apply(Watched::ConfigMaps, Change::deleted(object("ConfigMap", "api", 0, json!({}))));
    f.settle();
    assert_eq!(f.written(), before);
    let verdicts = f.plan_own(&Fixture::key());
    let key = ObjectKey { kind: Kind::ServiceManifest, name: name("s") };
    let reasons: Vec<Reason> = verdicts[&key].findings.iter().map(|finding| finding.reason).collect();
    assert_eq!(reasons, [Reason::ConfigMapNotFound]);
}
