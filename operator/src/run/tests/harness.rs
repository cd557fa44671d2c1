//! A cluster around the state: an API server that stores objects and their versions, the watches, and one gateway. Writes
//! wait until the test answers them: [`api_server`] performs them.

#![expect(clippy::needless_pass_by_value, reason = "literals are passed")]

mod api_server;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tamis_config::acks::{Ack, AckEvent, AckState};
use tamis_config::{Digest, ExpositionId, names};
use tamis_crds::ObjectName;

use super::super::action::{Action, Report, Write};
use super::super::state::{Setup, State, Tick, Turn};
use crate::acks::{Endpoint, GatewayEvent, StreamEvent};
use crate::cluster_state::ConfigObject;
use crate::cluster_state::fixture::{name, object};
use crate::metrics::Metrics;
use crate::object::Kind;
use crate::options::Options;
use crate::plan::Settings;
use crate::quota::Quotas;
use crate::watch::{Change, Message, Source, Watched};
use api_server::describe;

/// The gateway's pod.
const POD: &str = "pod";
/// The longest time that a cluster takes to settle after any disturbance.
const REST: Duration = Duration::from_secs(6);

pub(super) struct Harness {
    pub(super) state: State,
    pub(super) term: Option<u64>,
    pub(super) sleeps: u64,
    /// Writes that have not been answered.
    pub(super) writes: VecDeque<Write>,
    /// The writes that reached the API server, in the order of its answers.
    pub(super) log: Vec<String>,
    /// Whether the gateway loads a document as soon as it is written.
    pub(super) loads: bool,
    /// Whether watches deliver changes only when [`Harness::deliver_next`] is called.
    pub(super) lags: bool,
    late: VecDeque<Message>,
    now: Instant,
    time: Timestamp,
    version: u64,
    objects: BTreeMap<(Watched, ObjectName), DynamicObject>,
    follows: BTreeMap<Source, u64>,
    endpoints: Vec<Endpoint>,
}

impl Harness {
    /// Creates an operator that leads in an empty cluster.
    pub(super) fn new() -> Self {
        let settings = Settings { default_group: None, controller_name: Options::CONTROLLER_NAME.to_owned() };
        let setup = Setup {
            settings,
            namespaces: Vec::new(),
            quotas: Quotas::DEFAULT,
            gateway_admin: Vec::new(),
            gateway_admin_token: None,
            metrics: Metrics::new().expect("the names are good"),
        };
        let now = Instant::now();
        let mut harness = Self {
            state: State::new(setup, now),
            term: Some(1),
            sleeps: 0,
            writes: VecDeque::new(),
            log: Vec::new(),
            loads: true,
            lags: false,
            late: VecDeque::new(),
            now,
            time: Timestamp::from_second(1_800_000_000).expect("is a time"),
            version: 0,
            objects: BTreeMap::new(),
            follows: BTreeMap::new(),
            endpoints: Vec::new(),
        };
        let namespace = harness.object("Namespace", "", json!({"metadata": {"name": "team", "namespace": null}}));
        harness.objects.insert((Watched::Namespaces, name("team")), namespace);
        harness
    }

    /// Creates an operator that leads in a cluster with one exposition, `e`, whose service needs a credential. Everything is
    /// written and loaded.
    pub(super) fn good() -> Self {
        let mut harness = Self::new();
        harness.put(Kind::GatewayGroup, "default", json!({"replicas": 1}));
        harness.service("team/s", true);
        harness.secret("api");
        harness.filter("team/n", "/a");
        harness.exposition("team/e");
        harness.settle();
        harness.log.clear();
        harness
    }

    pub(super) fn service(&mut self, text: &str, needs_credential: bool) {
        let mut http = json!({"baseUrl": "https://api.example.com", "actions": {"get": {"path": "/things"}}});
        if needs_credential {
            http["auth"] = json!({"type": "bearer", "secretRef": {"name": "api", "key": "token"}});
        }
        self.put(Kind::ServiceManifest, text, json!({"version": "1", "http": http}));
    }

    /// Puts a filter set named `n` of the service `s` of its namespace.
    pub(super) fn filter(&mut self, text: &str, retained: &str) {
        let service = json!({"name": "s", "version": "1"});
        let filters = json!({"get": {"retain": [retained]}});
        self.put(Kind::ToolsFilters, text, json!({"name": "n", "service": service, "filters": filters}));
    }

    /// Puts an exposition of the service `s` of its namespace, with the filter set `n`.
    pub(super) fn exposition(&mut self, text: &str) {
        self.put(Kind::Exposition, text, Self::exposing(json!({"filters": ["n"]})));
    }

    pub(super) fn exposing(more: Value) -> Value {
        let mut spec = json!({"service": {"name": "s", "version": "1"}, "access": {"anonymous": true}});
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
            spec.extend(more);
        }
        spec
    }

    /// Creates or edits the Secret that the service's credential comes from. Its value is its `resourceVersion`.
    pub(super) fn secret(&mut self, text: &str) {
        let metadata = json!({
            "labels": {(names::CREDENTIALS_LABEL): "upstream"},
            "annotations": {(names::ALLOWED_USE_ANNOTATION): "api.example.com bearer"},
        });
        let token = credential(&(self.version + 1).to_string());
        let secret = self.object("Secret", text, json!({"metadata": metadata, "data": {"token": token}}));
        self.store(Watched::Secrets, secret, true);
    }

    fn object(&mut self, kind: &str, text: &str, rest: Value) -> DynamicObject {
        self.version += 1;
        object(kind, text, self.version, rest)
    }

    /// Creates or edits an object that users write.
    pub(super) fn put(&mut self, kind: Kind, text: &str, spec: Value) {
        let status =
            self.objects.get(&(Watched::Kind(kind), name(text))).and_then(|was| was.data.get("status").cloned());
        let mut rest = json!({"spec": spec});
        if let Some(status) = status {
            rest["status"] = status;
        }
        let object = self.object(kind.as_str(), text, rest);
        self.store(Watched::Kind(kind), object, true);
    }

    pub(super) fn delete(&mut self, kind: Kind, text: &str) {
        self.remove(Watched::Kind(kind), &name(text));
    }

    /// Lets another writer change an exposition's document. `delivered`: whether the watch delivers the change.
    pub(super) fn overwrite_document(&mut self, exposition: &str, delivered: bool) {
        let name = self.document_name(exposition);
        let mut config = self.objects.get(&(Watched::Configs, name)).expect("is written").clone();
        self.version += 1;
        config.metadata.resource_version = Some(self.version.to_string());
        config.data["spec"]["data"] = json!("AAAA");
        self.store(Watched::Configs, config, delivered);
    }

    /// Lets another operator delete an exposition's document.
    pub(super) fn remove_document(&mut self, exposition: &str) {
        let name = self.document_name(exposition);
        self.remove(Watched::Configs, &name);
    }

    fn store(&mut self, watched: Watched, object: DynamicObject, delivered: bool) {
        let key = (watched.clone(), named(&object));
        self.objects.insert(key, object.clone());
        if delivered {
            self.deliver(&watched, object, Change::applied);
        }
    }

    fn remove(&mut self, watched: Watched, name: &ObjectName) {
        if let Some(object) = self.objects.remove(&(watched.clone(), name.clone())) {
            self.deliver(&watched, object, Change::deleted);
        }
    }

    fn deliver(&mut self, watched: &Watched, object: DynamicObject, change: fn(DynamicObject) -> Change) {
        let namespace = object.metadata.namespace.clone();
        let follows = self.follows.iter().find(|(source, _)| {
            source.watched == *watched && (source.namespace.is_none() || source.namespace == namespace)
        });
        if let Some((source, epoch)) = follows {
            let message = Message { source: source.clone(), epoch: *epoch, change: change(object) };
            if self.lags {
                self.late.push_back(message);
            } else {
                self.state.on_watch_event(message, self.now);
            }
        }
    }

    /// Delivers the oldest change that the watches have held back.
    pub(super) fn deliver_next(&mut self) {
        if let Some(message) = self.late.pop_front() {
            self.state.on_watch_event(message, self.now);
        }
    }

    /// Delivers all changes that the watches have held back, and holds back no more.
    pub(super) fn catch_up(&mut self) {
        self.lags = false;
        while !self.late.is_empty() {
            self.deliver_next();
        }
    }

    /// Lets the state decide until it has nothing more to do. Lists and probes are answered at once; writes wait.
    pub(super) fn run(&mut self) {
        loop {
            for turn in [Turn::Read, Turn::Plan] {
                while self.state.take_turn(turn, self.now).is_some() {}
            }
            let actions = self.state.step(self.tick());
            let is_idle = !actions.iter().any(|action| matches!(action, Action::Follow { .. } | Action::Probe(_)));
            for action in actions {
                self.act(action);
            }
            if is_idle && !self.state.has_turn(self.now) {
                return;
            }
        }
    }

    /// Lets the state decide once, and returns its actions.
    pub(super) fn step_once(&mut self) -> Vec<Action> {
        self.state.step(self.tick())
    }

    /// Performs an action of the state.
    pub(super) fn perform_action(&mut self, action: Action) {
        self.act(action);
    }

    fn tick(&self) -> Tick {
        let (now, time, term, sleeps) = (self.now, self.time, self.term, self.sleeps);
        Tick { now, time, term, sleeps, groups_waiting: Vec::new() }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Follow { source, epoch } => {
                self.follows.insert(source.clone(), epoch);
                let within = |object: &&DynamicObject| {
                    source.namespace.is_none() || source.namespace == object.metadata.namespace
                };
                let of = self.objects.iter().filter(|((watched, _), _)| *watched == source.watched);
                let listed = of.map(|(_, object)| object).filter(within).cloned().collect();
                let message = Message { source, epoch, change: Change::listed(listed) };
                self.state.on_watch_event(message, self.now);
            }
            Action::Unfollow(source) => drop(self.follows.remove(&source)),
            Action::Listen(endpoints) => self.listen(endpoints),
            Action::Probe(probe) => {
                let answers = probe.names.into_iter().map(|name| (name, false)).collect();
                self.state.on_report(Report::Probed { purpose: probe.purpose, answers }, self.now);
            }
            Action::Publish(regarding, events) => {
                let reasons: Vec<_> = events.into_iter().map(|event| event.reason.as_str()).collect();
                self.log.push(format!("event {} {}", regarding.key, reasons.join(",")));
            }
            Action::Write(write) => {
                self.check_credentials(&write);
                self.writes.push_back(write);
            }
        }
    }

    fn listen(&mut self, endpoints: Vec<Endpoint>) {
        for endpoint in &endpoints {
            if !self.endpoints.contains(endpoint) {
                let event = AckEvent::Snapshot {
                    instance: "i".to_owned(),
                    version: "1".to_owned(),
                    format_versions: vec![1],
                    expositions: Vec::new(),
                    saved: Vec::new(),
                };
                self.send(&endpoint.group, event);
            }
        }
        self.endpoints = endpoints;
    }

    fn send(&mut self, group: &ObjectName, event: AckEvent) {
        let event = GatewayEvent { group: group.clone(), endpoint: POD.to_owned(), event: StreamEvent::Ack(event) };
        self.state.on_ack(event, self.now);
    }

    /// Sends the gateway's ack that it has loaded a document.
    pub(super) fn ack(&mut self, exposition: &str, digest: Digest) {
        let ack = Ack { id: id(exposition), digest, state: AckState::Loaded, upstream: None };
        self.send(&name("default"), AckEvent::Changed { expositions: vec![ack], removed: Vec::new() });
    }

    /// Returns the digest of an exposition's document at the API server.
    pub(super) fn digest(&self, exposition: &str) -> Option<Digest> {
        let config = self.objects.get(&(Watched::Configs, self.document_name(exposition)))?;
        ConfigObject::read(config)?.spec.map(|spec| spec.digest)
    }

    fn document_name(&self, exposition: &str) -> ObjectName {
        let name = names::exposition_object(&id(exposition));
        ObjectName { namespace: "team".to_owned(), name }
    }

    /// Returns the status of a condition of an object at the API server.
    pub(super) fn condition(&self, kind: Kind, text: &str, type_: &str) -> String {
        let object = self.objects.get(&(Watched::Kind(kind), name(text))).expect("is there");
        let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
        let condition = conditions.into_iter().flatten().find(|condition| condition["type"] == type_);
        condition.and_then(|condition| condition["status"].as_str()).unwrap_or("none").to_owned()
    }

    /// Returns the observed generation of an object's status, and the generation of the object.
    pub(super) fn generations(&self, kind: Kind, text: &str) -> (Option<i64>, Option<i64>) {
        let object = self.objects.get(&(Watched::Kind(kind), name(text))).expect("is there");
        (object.data.pointer("/status/observedGeneration").and_then(Value::as_i64), object.metadata.generation)
    }

    /// Returns the waiting writes as text.
    pub(super) fn waiting(&self) -> Vec<String> {
        self.writes.iter().map(describe).collect()
    }

    /// Returns the waiting writes of configuration as text.
    pub(super) fn configuration(&self) -> Vec<String> {
        self.waiting().into_iter().filter(|write| !write.starts_with("status") && !write.starts_with("group")).collect()
    }

    /// Answers all writes, and lets time pass until the cluster has settled.
    pub(super) fn settle(&mut self) {
        let until = self.now + REST;
        self.answer_all();
        while self.now < until {
            self.pass(Duration::from_millis(250));
            self.answer_all();
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.time += time;
    }

    /// Returns the number of GatewayConfigs at the API server.
    pub(super) fn configs(&self) -> usize {
        self.objects.keys().filter(|(watched, _)| *watched == Watched::Configs).count()
    }
}

/// Returns the value of a credential whose Secret has this `resourceVersion`.
fn credential(version: &str) -> Value {
    json!(k8s_openapi::ByteString(version.as_bytes().to_vec()))
}

fn named(object: &DynamicObject) -> ObjectName {
    let metadata = &object.metadata;
    ObjectName {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}

fn id(text: &str) -> ExpositionId {
    let name = name(text);
    ExpositionId { namespace: name.namespace, name: name.name }
}
