use serde_json::json;
use tamis_config::{CredentialHandle, names};
use tamis_crds::cluster::ConfigMapState;

use super::fixture::{Fixture, name, object};
use super::{ClusterState, Object, Scope, shard_name};
use crate::object::Kind;
use crate::quota::Quotas;
use crate::watch::{Change, Watched};

fn shard(version: u64, data: &serde_json::Value, uid: &str, number: usize) -> kube::api::DynamicObject {
    let text = shard_name(&name("default"), number).to_string();
    object("Secret", &text, version, json!({"metadata": {"uid": uid}, "data": data}))
}

/// The value that the exposition's document names.
fn handle(f: &Fixture) -> CredentialHandle {
    let id = tamis_config::ExpositionId { namespace: "team".to_owned(), name: "e".to_owned() };
    let object = f.cluster.configs.of_exposition(&id).pop().expect("is written");
    object.spec.as_ref().and_then(|spec| spec.credentials.first().cloned()).expect("names one")
}

#[test]
fn a_change_marks_exactly_the_objects_that_it_affects() {
    type Edit = fn(&mut Fixture);
    let all = "s:byname,e,none,planned";
    let table: &[(&str, Edit, &str)] = &[
        (
            "a default set",
            |f| f.put(Kind::ToolsFilters, "base", json!({"service": {"name": "s", "version": "1"}, "filters": {}})),
            "s:e,planned",
        ),
        (
            "a named set",
            |f| {
                let service = json!({"name": "s", "version": "1"});
                f.put(Kind::ToolsFilters, "named", json!({"name": "n", "service": service, "filters": {}}));
            },
            "s:byname,planned",
        ),
        (
            "a set gets a name: expositions that lose it, and those that may have waited for it",
            |f| {
                let service = json!({"name": "s", "version": "1"});
                f.put(Kind::ToolsFilters, "base", json!({"name": "n", "service": service, "filters": {}}));
            },
            "s:byname,e,planned",
        ),
        ("a set is gone", |f| f.delete(Kind::ToolsFilters, "named"), "s:byname,planned"),
        (
            "a set of another service",
            |f| f.put(Kind::ToolsFilters, "x", json!({"service": {"name": "t", "version": "1"}, "filters": {}})),
            "t:",
        ),
        ("a plan", |f| f.put(Kind::ConfigurationPlan, "prod", json!({"endpoint": "https://b.example"})), "s:planned"),
        ("a plan that no exposition names", |f| f.put(Kind::ConfigurationPlan, "x", json!({})), ""),
        ("a manifest is gone", |f| f.delete(Kind::ServiceManifest, "s"), "s:*"),
        (
            "prompts of the service",
            |f| {
                let service = json!({"name": "s", "version": "1"});
                f.put(Kind::Prompts, "p", json!({"service": service, "prompts": {"ask": {"result": "Ask"}}}));
            },
            "s:*",
        ),
        (
            "resources of another service",
            |f| {
                let service = json!({"name": "t", "version": "1"});
                f.put(
                    Kind::Resources,
                    "r",
                    json!({"service": service, "resources": {"a:/b": {"name": "b", "text": "t"}}}),
                );
            },
            "t:*",
        ),
        ("an exposition is gone", |f| f.delete(Kind::Exposition, "e"), "s:e gone:e"),
        ("a list lacks an exposition", |f| f.relist_without(Kind::Exposition, "e"), "s:e gone:e"),
        ("a list lacks a set", |f| f.relist_without(Kind::ToolsFilters, "base"), "s:e,planned"),
        (
            "a group: its own objects, and its expositions",
            |f| f.put(Kind::GatewayGroup, "default", json!({"replicas": 2})),
            "s:byname,e,none,planned groups:default",
        ),
        (
            "a second group, which may replace the first",
            |f| f.put(Kind::GatewayGroup, "a", json!({})),
            "s:byname,e,none,planned groups:a,default",
        ),
        ("a group of another namespace", |f| f.put(Kind::GatewayGroup, "x/default", json!({})), "groups:default"),
        ("labels of the namespace", |f| f.namespace(json!({"a": "b"}), "Active"), all),
        ("the same again", |f| f.namespace(json!({}), "Active"), ""),
        ("a Secret that was asked for", |f| f.secret("api", "1"), "s:*"),
        ("a Secret that no object names", |f| f.secret("other", "1"), ""),
        (
            "an unreadable object may affect its whole namespace",
            |f| f.put(Kind::ToolsFilters, "bad", json!({"filters": 7})),
            "s:*",
        ),
        ("an exposition that cannot be read", |f| f.put(Kind::Exposition, "e", json!({"service": 7})), ":* s:*"),
        ("an unreadable object elsewhere", |f| f.put(Kind::ToolsFilters, "x/bad", json!({"filters": 7})), ""),
        (
            "a status",
            |f| {
                let spec = json!({"spec": {"anything": "an unchanged generation is not read again"}});
                let object = f.known(Kind::Exposition, "e", spec);
                f.apply(Watched::Kind(Kind::Exposition), Change::applied(object));
            },
            "",
        ),
        (
            "an older version",
            |f| {
                let object = object("Exposition", "e", 1, json!({"spec": {"filters": []}}));
                f.apply(Watched::Kind(Kind::Exposition), Change::applied(object));
            },
            "",
        ),
        (
            "the deletion of an earlier object of the name",
            |f| {
                let object = object("Exposition", "e", 1, json!({"metadata": {"uid": "another"}}));
                f.apply(Watched::Kind(Kind::Exposition), Change::deleted(object));
            },
            "",
        ),
        (
            "a document is deleted by hand",
            |f| {
                let id = tamis_config::ExpositionId { namespace: "team".to_owned(), name: "e".to_owned() };
                let text = names::exposition_object(&id);
                let object =
                    object("GatewayConfig", &text, 1, json!({"metadata": {"uid": format!("config-team/{text}")}}));
                f.apply(Watched::Configs, Change::deleted(object));
            },
            "s:e",
        ),
        (
            "the documents of its service are deleted by hand",
            |f| {
                let parts: Vec<_> = f
                    .cluster
                    .configs
                    .names()
                    .filter(|n| n.name.contains("svc") || n.name.contains("service"))
                    .cloned()
                    .collect();
                assert!(!parts.is_empty(), "{:?}", f.cluster.configs.names().collect::<Vec<_>>());
                for part in parts {
                    let uid = json!({"metadata": {"uid": format!("config-{part}")}});
                    f.apply(Watched::Configs, Change::deleted(object("GatewayConfig", &part.to_string(), 1, uid)));
                }
            },
            "s:*",
        ),
    ];
    for (what, edit, expected) in table {
        let mut f = Fixture::good();
        f.settle();
        edit(&mut f);
        assert_eq!(f.marked(), *expected, "{what}");
    }
}

#[test]
fn a_shard_that_loses_a_used_value_marks_its_expositions() {
    let mut f = Fixture::good();
    f.settle();
    let used = handle(&f).0;
    let data = |data: &[&str]| {
        data.iter().map(|key| ((*key).to_owned(), json!("c2VjcmV0"))).collect::<serde_json::Map<_, _>>()
    };
    let (both, other) = (json!(data(&[&used, "unused"])), json!(data(&["unused"])));
    let users = "s:byname,e,none,planned";
    // The next content of the shard, and the marks.
    let table = [
        (Change::applied(shard(2, &json!(data(&[&used])), "u", 0)), "", "an unused value is removed"),
        (Change::applied(shard(2, &other, "u", 0)), users, "a used value is removed"),
        (
            Change::applied(shard(2, &json!({(used.clone()): "Zm9yZ2Vk", "unused": "c2VjcmV0"}), "u", 0)),
            users,
            "another value",
        ),
        (Change::deleted(shard(1, &both, "u", 0)), users, "it is deleted"),
        (Change::deleted(shard(1, &both, "one before", 0)), "", "an earlier Secret of the name is deleted"),
        (Change::listed(vec![]), users, "a list lacks it"),
    ];
    for (change, expected, what) in table {
        f.apply(Watched::GroupSecrets, Change::listed(vec![shard(1, &both, "u", 0)]));
        f.cluster.dirty.clear();
        f.apply(Watched::GroupSecrets, change);
        assert_eq!(f.marked(), expected, "{what}");
        f.apply(Watched::GroupSecrets, Change::listed(vec![]));
    }
}

#[test]
fn a_changed_or_deleted_token_marks_its_group() {
    let token = |version| object("Secret", "tamis-default-token", version, json!({"data": {"token": "c2VjcmV0"}}));
    let other = object("Secret", "tamis-default-credentials-0", 1, json!({}));
    let table = [
        (Change::applied(token(1)), "", "the same again"),
        (Change::listed(vec![token(1), other.clone()]), "", "the same in a list"),
        (Change::applied(token(2)), "groups:default", "another"),
        (Change::deleted(token(1)), "groups:default", "it is deleted"),
        (Change::listed(vec![other]), "groups:default", "a list lacks it"),
    ];
    for (change, expected, what) in table {
        let mut f = Fixture::good();
        f.cluster.dirty.clear();
        f.apply(Watched::GroupSecrets, Change::listed(vec![token(1)]));
        assert_eq!(f.marked(), "groups:default", "it is there");
        f.apply(Watched::GroupSecrets, change);
        assert_eq!(f.marked(), expected, "{what}");
    }
    assert!(!format!("{:?}", Fixture::good().cluster).contains("c2VjcmV0"));
}

#[test]
fn a_late_answer_restores_no_deleted_object() {
    let mut f = Fixture::good();
    let answer = f.known(Kind::Exposition, "e", json!({"status": {}}));
    f.delete(Kind::Exposition, "e");
    f.cluster.on_write_answered(Kind::Exposition, &answer);
    assert!(f.cluster.get(Kind::Exposition, &name("e")).is_none());
    let recreated = object("Exposition", "e", 99, json!({"metadata": {"uid": "new"}, "spec": {}}));
    f.apply(Watched::Kind(Kind::Exposition), Change::applied(recreated));
    f.cluster.on_write_answered(Kind::Exposition, &answer);
    assert_eq!(f.cluster.get(Kind::Exposition, &name("e")).map(|e| e.uid.clone()).as_deref(), Some("new"));
}

#[test]
fn a_new_leader_marks_everything_as_backlog_and_an_edit_as_urgent() {
    let mut f = Fixture::good();
    f.cluster.mark_all();
    assert!(f.cluster.dirty.services.is_empty());
    assert_eq!(f.cluster.dirty.backlog.get(&Fixture::key()), Some(&Scope::All));
    assert_eq!(f.cluster.dirty.status.len(), Fixture::objects().len());
    f.put(Kind::ConfigurationPlan, "prod", json!({"endpoint": "https://b.example"}));
    assert_eq!(f.cluster.dirty.urgent.get(&Fixture::key()), Some(&Scope::Some([name("planned")].into())));
    // A document of an exposition that was deleted while no operator led.
    let mut f = Fixture::good();
    f.settle();
    f.delete(Kind::Exposition, "e");
    f.cluster.mark_all();
    assert!(f.cluster.dirty.removed.contains(&name("e")));
}

#[test]
fn an_unknown_exposition_outside_the_scope_is_not_gone() {
    let mut f = Fixture::good();
    assert!(f.cluster.is_gone(&name("other/x")) && !f.cluster.is_gone(&name("e")));
    f.cluster.scope.insert("team".to_owned());
    assert!(!f.cluster.is_gone(&name("other/x")) && f.cluster.is_gone(&name("team/x")));
}

#[test]
fn forgets_everything_about_deleted_objects() {
    let mut f = Fixture::good();
    f.settle();
    assert!(!f.cluster.secret_users.is_empty() && !f.cluster.asked.is_empty());
    f.cluster.secrets.probed(&name("missing"), true);
    for (kind, name, _) in Fixture::objects() {
        f.delete(kind, name);
    }
    f.round();
    for name in f.cluster.configs.names().cloned().collect::<Vec<_>>() {
        f.cluster.configs.remove(&name, None);
    }
    f.cluster.forget(f.now + std::time::Duration::from_secs(1));
    assert_eq!((f.cluster.secret_users.len(), f.cluster.asked.len(), f.cluster.gone.len()), (0, 0, 0));
    assert!(f.cluster.secrets.needs_probe(&name("missing")));
    assert!(f.cluster.index.services().is_empty());
    f.cluster.forget_source(&crate::watch::Source { watched: Watched::Secrets, namespace: Some("team".to_owned()) });
    assert_eq!(f.cluster.secrets.names("team"), vec![]);
}

/// Many expositions of a service have keys of their own: an edit of one Secret affects only the expositions that name
/// it.
#[test]
fn a_change_of_callers_marks_only_the_expositions_that_name_them() {
    let callers = |f: &mut Fixture, role: &str, version: u64| {
        let metadata = json!({"labels": {(names::CREDENTIALS_LABEL): role}});
        let secret = object("Secret", "keys", version, json!({"metadata": metadata, "data": {"a": "c2VjcmV0"}}));
        f.apply(Watched::Secrets, Change::applied(secret));
    };
    let mut f = Fixture::good();
    callers(&mut f, "callers", 101);
    let service = json!({"name": "s", "version": "1"});
    let access = json!({"apiKeys": {"secretRef": {"name": "keys"}}});
    f.put(Kind::Exposition, "guarded", json!({"service": service, "access": access}));
    f.settle();
    f.marked();
    callers(&mut f, "callers", 102);
    assert_eq!(f.marked(), "s:guarded");
    f.put(Kind::Exposition, "broken", json!({"service": service, "access": 7}));
    f.settle();
    f.marked();
    callers(&mut f, "callers", 103);
    assert_eq!(f.marked(), "s:broken,guarded", "an unreadable exposition may name any Secret");
    callers(&mut f, "upstream", 104);
    assert_eq!(f.marked(), "s:*");
}

#[test]
fn a_field_next_to_spec_makes_an_object_unusable() {
    let spec = json!({ "service": { "name": "s", "version": "1" } });
    for (rest, unusable) in [
        (json!({ "spec": spec }), false),
        (json!({ "spec": spec, "status": { "observedGeneration": -1 } }), false),
        (json!({ "spec": spec, "enforcement": "Enforced" }), true),
        (json!({ "spec": spec, "filters": null }), true),
    ] {
        let read = Object::read(Kind::Exposition, &object("Exposition", "e", 1, rest.clone()), None, None);
        assert_eq!(read.expect("has a name").is_unusable(), unusable, "{rest}");
    }
}

/// The expositions that are marked as urgent, and the others.
fn lanes(f: &Fixture) -> (String, String) {
    let names = |lane: &crate::fair_queue::FairQueue<super::ServiceKey, Scope>| match lane.get(&Fixture::key()) {
        Some(Scope::Some(names)) => names.iter().map(|n| n.name.clone()).collect::<Vec<_>>().join(","),
        Some(Scope::All) => "*".to_owned(),
        None => String::new(),
    };
    (names(&f.cluster.dirty.urgent), names(&f.cluster.dirty.services))
}

#[test]
fn changes_that_may_revoke_something_are_urgent() {
    type Edit = fn(&mut Fixture);
    fn set(filters: &serde_json::Value) -> serde_json::Value {
        json!({"service": {"name": "s", "version": "1"}, "filters": filters})
    }
    fn large() -> serde_json::Value {
        let paths: Vec<_> = (0..3_000).map(|n| format!("/member/number/{n}/of/many/more")).collect();
        set(&json!({"get": {"retain": paths}}))
    }
    // The urgent expositions, and the others.
    let table: &[(&str, Edit, (&str, &str))] = &[
        (
            "a set is narrowed",
            |f| f.put(Kind::ToolsFilters, "base", set(&json!({"get": {"retain": ["/a"]}}))),
            ("e,planned", ""),
        ),
        ("a set is gone", |f| f.delete(Kind::ToolsFilters, "base"), ("e,planned", "")),
        ("a large set", |f| f.put(Kind::ToolsFilters, "base", large()), ("e,planned", "e,planned")),
        (
            "an edit of a large set",
            |f| {
                f.put(Kind::ToolsFilters, "base", large());
                f.cluster.dirty.clear();
                let mut edited = large();
                edited["enforcement"] = json!("Enforced");
                f.put(Kind::ToolsFilters, "base", edited);
            },
            ("", "e,planned"),
        ),
        (
            "a set of many expositions",
            |f| {
                let service = json!({"name": "s", "version": "1"});
                f.put(Kind::ToolsFilters, "many", json!({"name": "many", "service": service, "filters": {}}));
                for n in 0..super::invalidation::FEW {
                    let spec = json!({"service": service, "filters": ["many"]});
                    f.put(Kind::Exposition, &format!("m{n}"), spec);
                }
                f.cluster.dirty.clear();
                f.put(Kind::ToolsFilters, "many", json!({"name": "many", "service": service, "filters": {"get": {}}}));
                // `planned` takes its sets from a plan, which may name any.
                assert_eq!(lanes(f).1.split(',').count(), super::invalidation::FEW + 1);
                f.cluster.dirty.clear();
            },
            ("", ""),
        ),
        (
            "an exposition is edited",
            |f| f.put(Kind::Exposition, "e", json!({"service": {"name": "s", "version": "1"}, "filters": []})),
            ("e", ""),
        ),
        (
            "an exposition is paused",
            |f| {
                let annotations = json!({"metadata": {"annotations": {(names::PAUSED_ANNOTATION): "true"}}});
                let object = f.known(Kind::Exposition, "e", annotations);
                f.apply(Watched::Kind(Kind::Exposition), Change::applied(object));
            },
            ("e", ""),
        ),
        (
            "a plan",
            |f| f.put(Kind::ConfigurationPlan, "prod", json!({"endpoint": "https://b.example"})),
            ("planned", ""),
        ),
        (
            "a group requires more",
            |f| f.put(Kind::GatewayGroup, "default", json!({"require": {"enforced": true}})),
            ("byname,e,none,planned", "byname,e,none,planned"),
        ),
        (
            "a group has more gateways",
            |f| f.put(Kind::GatewayGroup, "default", json!({"replicas": 2})),
            ("", "byname,e,none,planned"),
        ),
        ("a manifest is gone", |f| f.delete(Kind::ServiceManifest, "s"), ("", "*")),
    ];
    for (what, edit, (first, then)) in table {
        let mut f = Fixture::good();
        f.settle();
        f.cluster.dirty.clear();
        edit(&mut f);
        assert_eq!(lanes(&f), ((*first).to_owned(), (*then).to_owned()), "{what}");
    }
    let mut f = Fixture::good();
    f.settle();
    f.delete(Kind::Exposition, "e");
    assert!(f.cluster.dirty.removed.contains(&name("e")), "removals come before planning");
}

#[test]
fn an_object_over_the_quota_is_unusable_until_it_fits() {
    let set = |text: &str| {
        let paths: Vec<_> = (0..20).map(|n| format!("/{text}/{n}")).collect();
        json!({"name": text, "service": {"name": "s", "version": "1"}, "filters": {"get": {"retain": paths}}})
    };
    let mut f = Fixture::good();
    f.settle();
    let served = f.written();
    f.cluster.source_quota = super::source_quota::SourceQuota::new(500);
    f.put(Kind::ToolsFilters, "first", set("first"));
    f.put(Kind::ToolsFilters, "second", set("second"));
    let second = f.cluster.get(Kind::ToolsFilters, &name("second")).expect("is known").clone();
    assert!(second.is_unusable() && second.bytes == 0 && !second.is_packed());
    let found: Vec<_> = second.diagnostics.iter().map(|d| (d.reason.as_str(), d.statement())).collect();
    let expected = "the namespace's quota `source-bytes` (500) is used up; delete or shorten some of its ServiceManifests, \
                    ToolsFilters, CustomTools, Prompts and Resources, or ask for a larger quota";
    assert_eq!(found, [("QuotaExceeded", expected.to_owned())]);
    // It is not absent: an exposition that names it waits for it, and one that is served keeps its document.
    let spec = json!({"service": {"name": "s", "version": "1"}, "filters": ["second"],
                      "access": {"anonymous": true}});
    f.put(Kind::Exposition, "waiting", spec);
    f.settle();
    assert_eq!(f.told("waiting"), "stop InvalidFilter in team/default");
    let after = f.written();
    assert!(served.iter().all(|(name, spec)| after.get(name) == Some(spec)), "nothing else has changed");
    // A relist while the quota is used up, and one after bytes are free.
    let listed = |f: &Fixture| f.known(Kind::ToolsFilters, "second", json!({"spec": set("second")}));
    let object = listed(&f);
    f.apply(Watched::Kind(Kind::ToolsFilters), Change::applied(object));
    assert!(f.cluster.get(Kind::ToolsFilters, &name("second")).is_some_and(|object| object.is_unusable()));
    assert!(f.cluster.sources_to_relist(f.now).is_empty());
    f.delete(Kind::ToolsFilters, "first");
    assert_eq!(f.cluster.sources_to_relist(f.now), [Watched::Kind(Kind::ToolsFilters)].into());
    let object = listed(&f);
    f.apply(Watched::Kind(Kind::ToolsFilters), Change::applied(object));
    f.settle();
    assert_eq!(f.told("waiting"), "get=team/second in team/default");
    // An edit of a used set exceeds the quota: the served documents stay.
    let served = f.written();
    let mut edited = set("second");
    edited["filters"]["get"]["retain"] = json!((0..200).map(|n| format!("/second/{n}")).collect::<Vec<_>>());
    f.put(Kind::ToolsFilters, "second", edited);
    f.settle();
    assert_eq!(f.written(), served);
}

#[test]
fn a_bundle_follows_its_parts_and_nothing_else() {
    type Edit = fn(&mut Fixture);
    let table: &[(&str, Edit, &str)] = &[
        ("a part", |f| f.put(Kind::Exposition, "e", json!({"service": {"name": "s", "version": "1"}})), ":all s:e"),
        ("a part is gone", |f| f.delete(Kind::Exposition, "e"), ":all s:e gone:e"),
        (
            "what is written of a part",
            |f| {
                let id = tamis_config::ExpositionId { namespace: "team".to_owned(), name: "e".to_owned() };
                f.cluster.configs_changed(&super::Changed { expositions: vec![id], services: Vec::new() });
            },
            ":all s:e",
        ),
        ("no part", |f| f.put(Kind::Exposition, "none", json!({"service": {"name": "s", "version": "1"}})), "s:none"),
        ("the service of a part", |f| f.delete(Kind::ServiceManifest, "s"), "s:*"),
        ("the bundle", |f| f.put(Kind::Exposition, "all", json!({"expositions": [{"name": "none"}]})), ":all"),
        (
            "a former part",
            |f| {
                f.put(Kind::Exposition, "all", json!({"expositions": [{"name": "none"}]}));
                f.marked();
                f.put(Kind::Exposition, "e", json!({"service": {"name": "s", "version": "1"}}));
            },
            "s:e",
        ),
        (
            "a part that arrives",
            |f| f.put(Kind::Exposition, "later", json!({"service": {"name": "s", "version": "1"}})),
            ":all s:later",
        ),
    ];
    for (what, edit, expected) in table {
        let mut f = Fixture::good();
        let parts = json!([{"name": "e", "prefix": "a_"}, {"name": "later", "prefix": "b_"}]);
        f.put(Kind::Exposition, "all", json!({"expositions": parts, "access": {"anonymous": true}}));
        f.settle();
        f.marked();
        edit(&mut f);
        assert_eq!(f.marked(), *expected, "{what}");
    }
}

/// A document of one operation.
const API: &str = "openapi: 3.1.0\nservers: [{url: https://api.example.com}]\npaths: {/a: {get: {operationId: get}}}\n";

fn document(name: &str) -> serde_json::Value {
    json!({"version": "1", "openapi": {"configMapRef": {"name": name, "key": "api.yaml"}}})
}

#[test]
fn an_edit_of_a_config_map_marks_what_names_it_and_nothing_else() {
    let mut f = Fixture::good();
    f.put(Kind::ServiceManifest, "of-map", document("api"));
    f.put(Kind::ServiceManifest, "other", document("other"));
    f.marked();
    f.config_map("api", API);
    assert_eq!(f.marked(), "of-map:*");
    f.config_map("api", API);
    assert_eq!(f.marked(), "", "the content is the same");
    f.config_map("api", &API.replace("/a", "/b"));
    assert_eq!(f.marked(), "of-map:*");
    f.config_map("nobody", API);
    assert_eq!(f.marked(), "");
    f.put(Kind::ServiceManifest, "of-map", document("other"));
    f.marked();
    f.config_map("api", API);
    assert_eq!(f.marked(), "", "the manifest names another one now");
    f.config_map("other", API);
    assert_eq!(f.marked(), "of-map:* other:*");
    f.apply(Watched::ConfigMaps, Change::deleted(object("ConfigMap", "other", 0, json!({}))));
    assert_eq!(f.marked(), "of-map:* other:*");
}

#[test]
fn config_maps_are_awaited_and_dropped_with_the_right_to_read_them() {
    let mut f = Fixture::good();
    let source = crate::watch::Source { watched: Watched::ConfigMaps, namespace: Some("team".to_owned()) };
    let map = |version| {
        let rest = json!({"metadata": {"labels": {(names::DOCUMENT_LABEL): "true"}}, "data": {"api.yaml": API}});
        object("ConfigMap", "api", version, rest)
    };
    assert!(f.cluster.namespaces_awaiting_config_maps().is_empty(), "no manifest names one");
    f.put(Kind::ServiceManifest, "of-map", document("api"));
    assert!(f.cluster.watches_changed);
    assert_eq!(f.cluster.namespaces_with_config_maps(), ["team".to_owned()].into());
    assert_eq!(f.cluster.namespaces_awaiting_config_maps(), ["team".to_owned()].into());
    f.cluster.apply(&source, Change::listed(vec![map(1)]), f.now);
    assert!(f.cluster.namespaces_awaiting_config_maps().is_empty());
    assert!(matches!(f.cluster.config_maps.state(&name("api")), ConfigMapState::Found(_)));
    f.marked();
    f.cluster.apply(&source, Change::Forbidden, f.now);
    assert_eq!(f.cluster.config_maps.state(&name("api")), ConfigMapState::Forbidden, "its content is dropped");
    assert!(f.cluster.namespaces_awaiting_config_maps().is_empty(), "waiting would not help");
    assert_eq!(f.marked(), "of-map:*");
    f.cluster.apply(&source, Change::Forbidden, f.now);
    assert_eq!(f.marked(), "", "it is known");
    f.cluster.apply(&source, Change::listed(vec![map(2)]), f.now);
    assert_eq!(f.marked(), "of-map:*");
    f.cluster.apply(&source, Change::listed(Vec::new()), f.now);
    assert_eq!((f.marked().as_str(), f.cluster.config_maps.state(&name("api"))), ("of-map:*", ConfigMapState::Missing));
    f.cluster.forget_source(&source);
    assert_eq!(f.cluster.namespaces_awaiting_config_maps(), ["team".to_owned()].into());
}

#[test]
fn config_maps_count_against_the_quota_of_their_namespace() {
    let quotas = Quotas { source_bytes: 2_000, ..Quotas::DEFAULT };
    let mut f = Fixture::empty();
    f.cluster = ClusterState::new(None, &[], quotas);
    let text = |bytes: usize| "#".repeat(bytes);
    f.config_map("api", &text(1_500));
    f.config_map("more", &text(1_500));
    let state = |f: &Fixture, map: &str| f.cluster.config_maps.state(&name(map));
    assert!(matches!(state(&f, "api"), ConfigMapState::Found(_)));
    let ConfigMapState::Refused(said) = state(&f, "more") else { panic!("{:?}", state(&f, "more")) };
    assert!(said.contains("`source-bytes`"), "{said}");
    f.apply(Watched::ConfigMaps, Change::deleted(object("ConfigMap", "api", 0, json!({}))));
    assert_eq!(f.cluster.sources_to_relist(f.now), [Watched::ConfigMaps].into());
    f.config_map("more", &text(1_500));
    assert!(matches!(state(&f, "more"), ConfigMapState::Found(_)));
}
