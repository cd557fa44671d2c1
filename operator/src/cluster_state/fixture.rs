//! A small cluster for tests, as the watches would deliver it.

#![expect(clippy::needless_pass_by_value, reason = "literals are passed")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kube::api::DynamicObject;
use serde_json::{Value, json};
use tamis_config::carrier::{decode_exposition, encode_service};
use tamis_config::{ExpositionId, ExpositionPayload, names};
use tamis_crds::ObjectName;

use super::{ClusterState, ConfigObject, Scope, ServiceKey, named};
use crate::object::{Kind, ObjectKey};
use crate::plan::{self, Memory, Plan, Planned, Settings};
use crate::quota::Quotas;
use crate::verdict::Verdict;
use crate::watch::{Change, Source, Watched};

pub(crate) const NAMESPACE: &str = "team";

/// Parses a name in the namespace [`NAMESPACE`], or `namespace/name`.
pub(crate) fn name(text: &str) -> ObjectName {
    let (namespace, name) = text.split_once('/').unwrap_or((NAMESPACE, text));
    ObjectName { namespace: namespace.to_owned(), name: name.to_owned() }
}

pub(crate) fn source(watched: Watched) -> Source {
    Source { watched, namespace: None }
}

/// Builds an object of the API. All objects have the same age, so the name decides between them.
pub(crate) fn object(kind: &str, text: &str, version: u64, rest: Value) -> DynamicObject {
    let name = name(text);
    let mut object = json!({
        "apiVersion": if matches!(kind, "Secret" | "ConfigMap" | "Namespace") { "v1" } else { "tamis.dev/v1alpha1" },
        "kind": kind,
        "metadata": {
            "name": name.name, "namespace": name.namespace, "uid": format!("{kind}-{name}"), "generation": version,
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
        },
    });
    for (key, value) in rest.as_object().cloned().unwrap_or_default() {
        if key == "metadata" {
            for (key, value) in value.as_object().cloned().unwrap_or_default() {
                object["metadata"][key] = value;
            }
        } else {
            object[key] = value;
        }
    }
    serde_json::from_value(object).expect("is an object")
}

/// A cluster state that stores what is planned, and a clock.
pub(crate) struct Fixture {
    pub(crate) cluster: ClusterState,
    pub(crate) memory: Memory,
    pub(crate) settings: Settings,
    pub(crate) now: Instant,
    version: u64,
}

impl Fixture {
    pub(crate) fn empty() -> Self {
        let settings = Settings { default_group: None, controller_name: "tamis.dev/operator".to_owned() };
        let (cluster, memory) = (ClusterState::new(None, &[], Quotas::DEFAULT), Memory::default());
        Self { cluster, memory, settings, now: Instant::now(), version: 0 }
    }

    /// Creates a service of one tool with filter sets, expositions, a group and a Secret.
    pub(crate) fn good() -> Self {
        let mut fixture = Self::empty();
        for (kind, name, spec) in Self::objects() {
            fixture.put(kind, name, spec);
        }
        fixture.secret("api", "1");
        fixture.namespace(json!({}), "Active");
        fixture
    }

    pub(crate) fn objects() -> Vec<(Kind, &'static str, Value)> {
        let service = json!({"name": "s", "version": "1"});
        let expo = |more: Value| {
            let mut spec = json!({"service": service, "access": {"anonymous": true}});
            for (key, value) in more.as_object().cloned().unwrap_or_default() {
                spec[key] = value;
            }
            spec
        };
        vec![
            (Kind::GatewayGroup, "default", json!({"replicas": 1})),
            (
                Kind::ServiceManifest,
                "s",
                json!({"version": "1", "http": {
                    "baseUrl": "https://api.example.com",
                    "auth": {"type": "bearer", "secretRef": {"name": "api", "key": "token"}},
                    "actions": {"get": {"path": "/things"}},
                }}),
            ),
            (Kind::ToolsFilters, "base", json!({"service": service, "filters": {"get": {"retain": ["/a"]}}})),
            (
                Kind::ToolsFilters,
                "named",
                json!({"name": "n", "service": service, "filters": {"get": {"retain": ["/b"]}}}),
            ),
            (Kind::ConfigurationPlan, "prod", json!({"endpoint": "https://api.example.com"})),
            (Kind::Exposition, "e", expo(json!({}))),
            (Kind::Exposition, "byname", expo(json!({"filters": ["n"]}))),
            (Kind::Exposition, "none", expo(json!({"filters": []}))),
            (Kind::Exposition, "planned", expo(json!({"configurationPlan": {"name": "prod"}}))),
        ]
    }

    fn next(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(crate) fn apply(&mut self, watched: Watched, change: Change) {
        self.cluster.apply(&source(watched), change, self.now);
    }

    pub(crate) fn put(&mut self, kind: Kind, name: &str, spec: Value) {
        let version = self.next();
        let object = object(kind.as_str(), name, version, json!({"spec": spec}));
        self.apply(Watched::Kind(kind), Change::applied(object));
    }

    /// Pauses or resumes an object.
    pub(crate) fn pause(&mut self, kind: Kind, name: &str, paused: bool) {
        let metadata = json!({"annotations": {(names::PAUSED_ANNOTATION): paused.to_string()}});
        let mut object = self.known(kind, name, json!({"metadata": metadata}));
        self.next();
        // `known` has no spec, which an unchanged generation does not need.
        object.data = json!({});
        self.apply(Watched::Kind(kind), Change::applied(object));
    }

    pub(crate) fn delete(&mut self, kind: Kind, name: &str) {
        let object = object(kind.as_str(), name, 0, json!({}));
        self.apply(Watched::Kind(kind), Change::deleted(object));
    }

    pub(crate) fn secret(&mut self, name: &str, uid: &str) {
        let version = self.next();
        let rest = json!({
            "metadata": {
                "uid": uid,
                "labels": {(names::CREDENTIALS_LABEL): "upstream"},
                "annotations": {(names::ALLOWED_USE_ANNOTATION): "api.example.com bearer"},
            },
            "data": {"token": "c2VjcmV0"},
        });
        self.apply(Watched::Secrets, Change::applied(object("Secret", name, version, rest)));
    }

    /// Creates or edits a labelled ConfigMap with one key, `api.yaml`.
    pub(crate) fn config_map(&mut self, name: &str, text: &str) {
        let rest = json!({"metadata": {"labels": {(names::DOCUMENT_LABEL): "true"}}, "data": {"api.yaml": text}});
        let version = self.next();
        self.apply(Watched::ConfigMaps, Change::applied(object("ConfigMap", name, version, rest)));
    }

    pub(crate) fn namespace(&mut self, labels: Value, phase: &str) {
        let metadata = json!({"name": NAMESPACE, "namespace": null, "labels": labels});
        let rest = json!({"metadata": metadata, "status": {"phase": phase}});
        let version = self.next();
        self.apply(Watched::Namespaces, Change::applied(object("Namespace", "", version, rest)));
    }

    pub(crate) fn key() -> ServiceKey {
        ServiceKey { namespace: NAMESPACE.to_owned(), name: "s".to_owned(), version: "1".to_owned() }
    }

    pub(crate) fn plan(&mut self, key: &ServiceKey, scope: &Scope) -> Plan {
        let chosen = match scope {
            Scope::All => self.cluster.members(key).map(|members| members.expositions.clone()).unwrap_or_default(),
            Scope::Some(names) => names.clone(),
        };
        let plan = plan::service(&mut self.cluster, &mut self.memory, &self.settings, key, &chosen, self.now);
        self.cluster.note_secrets(key, &plan.secrets, *scope == Scope::All);
        plan
    }

    /// Judges a service's own objects.
    pub(crate) fn plan_own(&mut self, key: &ServiceKey) -> BTreeMap<ObjectKey, Verdict> {
        plan::own(&self.cluster, &mut self.memory, &self.settings, key, None).verdicts
    }

    /// Plans all services, and stores the documents as the API would. Returns when to plan again, and how many objects
    /// were written or deleted.
    pub(crate) fn round(&mut self) -> (Option<Instant>, usize) {
        let (mut wake, mut writes) = (None, 0);
        for key in self.cluster.index.services() {
            let plan = self.plan(&key, &Scope::All);
            wake = wake.into_iter().chain(plan.wake.iter().map(|(wake, _)| *wake)).min();
            let groups: Vec<_> = self.cluster.all(Kind::GatewayGroup).map(|group| group.key.name.clone()).collect();
            for (digest, document) in &plan.services {
                self.cluster.note_document(digest, &key);
                for group in &groups {
                    for spec in encode_service(&group.name, document).expect("fits") {
                        let name = names::service_object(digest, spec.part);
                        writes += self.write(ObjectName { namespace: group.namespace.clone(), name }, spec);
                    }
                }
            }
            for (exposition, planned) in plan.expositions {
                let id = ExpositionId { namespace: exposition.namespace.clone(), name: exposition.name.clone() };
                let kept = match planned {
                    Planned::Untouched => continue,
                    Planned::Nothing => None,
                    Planned::Document(document) => {
                        let namespace = document.group.namespace.clone();
                        let name = ObjectName { namespace, name: names::exposition_object(&id) };
                        writes += self.write(name.clone(), document.spec);
                        Some(name)
                    }
                };
                for object in self.cluster.configs.of_exposition(&id) {
                    if Some(&object.name) != kept.as_ref() {
                        self.cluster.configs.remove(&object.name, None);
                        writes += 1;
                    }
                }
            }
        }
        self.cluster.dirty.clear();
        (wake, writes)
    }

    fn write(&mut self, name: ObjectName, spec: tamis_config::GatewayConfigSpec) -> usize {
        if self.cluster.configs.get(&name).is_some_and(|there| there.spec.as_ref() == Some(&spec)) {
            return 0;
        }
        let resource_version = self.next().to_string();
        let (uid, is_managed) = (format!("config-{name}"), true);
        let (owner, labelled, last) = (None, None, None);
        let spec = Some(spec);
        self.cluster.configs.put(ConfigObject { name, uid, resource_version, is_managed, owner, spec, labelled, last });
        1
    }

    /// Plans until nothing waits for the clock.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10 {
            match self.round() {
                (Some(wake), _) => self.now = wake,
                (None, _) => return,
            }
        }
        panic!("it never settles");
    }

    pub(crate) fn pass_by(&mut self, time: Duration) {
        self.now += time;
    }

    /// Describes the documents of an exposition.
    pub(crate) fn told(&self, exposition: &str) -> String {
        let name = name(exposition);
        let id = ExpositionId { namespace: name.namespace, name: name.name };
        let of = self.cluster.configs.of_exposition(&id).into_iter().filter_map(|object| {
            let spec = object.spec.clone()?;
            let group = format!("{}/{}", object.name.namespace, spec.gateway_group);
            Some(match decode_exposition(&spec).expect("can be read") {
                ExpositionPayload::Stop(stop) => format!("stop {} in {group}", stop.reason),
                ExpositionPayload::Bundle(document) => {
                    let parts: Vec<_> =
                        document.parts.iter().map(|part| format!("{}{}", part.prefix, part.name)).collect();
                    format!("bundle of {} in {group}", parts.join(" "))
                }
                ExpositionPayload::Serve(document) => {
                    let tool = |(name, tool): (&String, &tamis_config::ExpositionTool)| {
                        format!("{name}={}", tool.filter_set.as_deref().unwrap_or("-"))
                    };
                    let tools: Vec<_> = document.tools.iter().map(tool).collect();
                    format!("{} in {group}", tools.join(" "))
                }
            })
        });
        of.collect::<Vec<_>>().join(", ")
    }

    /// Returns all stored documents by name.
    pub(crate) fn written(&self) -> BTreeMap<ObjectName, tamis_config::GatewayConfigSpec> {
        let spec = |name: &ObjectName| self.cluster.configs.get(name).and_then(|object| object.spec.clone());
        self.cluster.configs.names().filter_map(|name| Some((name.clone(), spec(name)?))).collect()
    }

    /// Takes the marks: `service:expositions`, groups, and expositions that are gone.
    pub(crate) fn marked(&mut self) -> String {
        let dirty = std::mem::take(&mut self.cluster.dirty);
        let list = |names: Vec<&ObjectName>| names.iter().map(|n| n.name.clone()).collect::<Vec<_>>().join(",");
        let mut scopes: BTreeMap<ServiceKey, Scope> = BTreeMap::new();
        for service in dirty.objects.keys() {
            scopes.insert(service.clone(), Scope::Some(BTreeSet::new()));
        }
        for (service, scope) in dirty.urgent.iter().chain(dirty.services.iter()) {
            match (scopes.get_mut(service), scope) {
                (Some(Scope::Some(names)), Scope::Some(more)) => names.extend(more.iter().cloned()),
                _ => drop(scopes.insert(service.clone(), scope.clone())),
            }
        }
        let mut marked: Vec<String> = scopes
            .iter()
            .map(|(key, scope)| match scope {
                Scope::All => format!("{}:*", key.name),
                Scope::Some(names) => format!("{}:{}", key.name, list(names.iter().collect())),
            })
            .collect();
        if !dirty.groups.is_empty() {
            marked.push(format!("groups:{}", list(dirty.groups.iter().collect())));
        }
        let gone: Vec<_> = dirty.removed.iter().filter(|name| self.cluster.is_gone(name)).collect();
        if !gone.is_empty() {
            marked.push(format!("gone:{}", list(gone)));
        }
        marked.join(" ")
    }

    /// Lists all objects of a kind but one.
    pub(crate) fn relist_without(&mut self, kind: Kind, without: &str) {
        let objects = Self::objects().into_iter().filter(|(of, name, _)| *of == kind && *name != without);
        let listed = objects.map(|(_, text, spec)| {
            let known = self.cluster.get(kind, &name(text)).map_or(1, |known| known.generation.unsigned_abs());
            object(kind.as_str(), text, known, json!({"spec": spec}))
        });
        let listed = listed.collect();
        self.apply(Watched::Kind(kind), Change::listed(listed));
    }

    /// Builds the known version of an object with other fields of its metadata or status.
    pub(crate) fn known(&self, kind: Kind, text: &str, rest: Value) -> DynamicObject {
        let known = self.cluster.get(kind, &name(text)).expect("is known");
        let mut object = object(kind.as_str(), text, known.generation.unsigned_abs(), rest);
        object.metadata.resource_version = Some((self.version + 1).to_string());
        object
    }
}

impl std::fmt::Debug for Fixture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fixture")
    }
}

#[test]
fn names_are_read_as_they_are_written() {
    assert_eq!(named(&object("Exposition", "a/b", 1, json!({}))), name("a/b"));
}
