//! A cluster around the state: an API server that stores objects and their versions, the watches, and one gateway. Writes
//! wait until the test answers them.

#![expect(clippy::needless_pass_by_value, reason = "literals are passed")]

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use kube::core::Status;
use serde_json::{Value, json};
use tamis_config::acks::{Ack, AckEvent, AckState};
use tamis_config::{Digest, ExpositionId, GatewayConfigSpec, PayloadKind, names};
use tamis_crds::ObjectName;

use super::super::action::{Action, Failure, Fence, Owner, Reconciled, Report, Request, Write};
use super::super::state::{Setup, State, Tick, Turn};
use crate::acks::{Endpoint, GatewayEvent, StreamEvent};
use crate::cluster_state::ConfigObject;
use crate::cluster_state::fixture::{name, object};
use crate::group::{self, GatewayPod, GroupOutcome};
use crate::leader::Deposed;
use crate::metrics::Metrics;
use crate::object::{Kind, ObjectKey};
use crate::options::{Options, Token};
use crate::plan::Settings;
use crate::quota::Quotas;
use crate::watch::{Change, Message, Source, Watched};

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

    /// Fails if a document names a credential whose value is in no shard at the API server.
    fn check_credentials(&self, write: &Write) {
        let Request::Config { owner, spec, .. } = &write.request else { return };
        let within = |name: &ObjectName| name.namespace == owner.group.namespace;
        for handle in &spec.credentials {
            let version = handle.0.rsplit('.').nth(1).expect("has a version");
            let is_there = self.objects.iter().any(|((watched, name), shard)| {
                let value = shard.data.get("data").and_then(|data| data.get(&handle.0));
                *watched == Watched::GroupSecrets && within(name) && value == Some(&credential(version))
            });
            assert!(is_there, "{} names {handle:?}, which no gateway can read: {:?}", describe(write), self.log);
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
        let ack = Ack { id: id(exposition), digest, state: AckState::Loaded };
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

    /// Answers the first waiting write whose text begins with `prefix`, and lets the state decide.
    pub(super) fn answer(&mut self, prefix: &str) {
        let at = self.writes.iter().position(|write| describe(write).starts_with(prefix));
        let Some(write) = at.and_then(|at| self.writes.remove(at)) else {
            panic!("`{prefix}` does not wait: {:?}", self.waiting())
        };
        let report = self.perform(write);
        self.state.on_report(report, self.now);
        self.run();
    }

    /// Answers all waiting writes, and those that follow from them.
    pub(super) fn answer_all(&mut self) {
        self.run();
        while !self.writes.is_empty() {
            while let Some(write) = self.writes.pop_front() {
                let report = self.perform(write);
                self.state.on_report(report, self.now);
            }
            self.run();
        }
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

    /// Performs a write as the API server would.
    pub(super) fn perform(&mut self, write: Write) -> Report {
        let text = describe(&write);
        let fence = write.fence;
        let holds = self.term.map(|term| Fence { term, sleeps: self.sleeps }) == Some(fence);
        let deposed = || Err(Failure::Deposed(Deposed));
        if holds {
            self.log.push(text);
            self.check_credentials(&write);
        }
        match write.request {
            Request::Shard { owner, number, data, seen } => {
                let name = crate::cluster_state::shard_name(&owner.group, number);
                let seen = seen.and_then(|seen| seen.metadata.resource_version.clone());
                let data: BTreeMap<String, String> = data
                    .into_iter()
                    .map(|(handle, value)| {
                        let value = serde_json::to_value(k8s_openapi::ByteString(value)).expect("is text");
                        (handle, value.as_str().unwrap_or_default().to_owned())
                    })
                    .collect();
                let rest = json!({"metadata": owned(&owner), "data": data});
                let result =
                    if holds { self.replace(Watched::GroupSecrets, "Secret", &name, seen, rest) } else { deposed() };
                let secret = |object: DynamicObject| Box::new(object.try_parse::<Secret>().expect("is a Secret"));
                Report::Shard { name, result: result.map(secret) }
            }
            Request::Config { owner, name, spec, seen } => {
                let seen = seen.map(|seen| seen.resource_version.clone());
                let rest = json!({"metadata": owned(&owner), "spec": *spec});
                let result =
                    if holds { self.replace(Watched::Configs, "GatewayConfig", &name, seen, rest) } else { deposed() };
                if let (Ok(_), Some(exposition), true) = (&result, &spec.exposition, self.loads) {
                    self.ack(&exposition.to_string(), spec.digest.clone());
                }
                let config = |object: DynamicObject| Box::new(ConfigObject::read(&object).expect("is a GatewayConfig"));
                Report::Config { name, result: result.map(config) }
            }
            Request::Delete(seen) => {
                let there = self.objects.get(&(Watched::Configs, seen.name.clone()));
                let is_it =
                    there.is_some_and(|there| there.metadata.resource_version.as_ref() == Some(&seen.resource_version));
                if holds && is_it {
                    self.remove(Watched::Configs, &seen.name);
                }
                let result = if holds { Ok(()) } else { Err(Failure::Deposed(Deposed)) };
                Report::Deleted { name: seen.name.clone(), uid: seen.uid.clone(), result }
            }
            Request::Status(status) => {
                let result = if holds {
                    self.write_status(&status.key, &status.resource_version, status.status)
                } else {
                    deposed()
                };
                Report::Status { key: status.key, result: result.map(Box::new) }
            }
            Request::Group { of, input } => {
                let admin = ("127.0.0.1".parse().expect("is an address"), 9090);
                let pod = GatewayPod { name: POD.to_owned(), uid: POD.to_owned(), admin, ready: true };
                let outcome = GroupOutcome { pods: vec![pod], token: Token::new("token"), ..GroupOutcome::default() };
                let outcome = if holds { Ok(outcome) } else { Err(group::Error::Deposed(Deposed)) };
                Report::Group(Box::new(Reconciled { group: input.name, of, fence, took: Duration::ZERO, outcome }))
            }
        }
    }

    fn replace(
        &mut self,
        watched: Watched,
        kind: &str,
        name: &ObjectName,
        seen: Option<String>,
        rest: Value,
    ) -> Result<DynamicObject, Failure> {
        let there = self.objects.get(&(watched.clone(), name.clone()));
        if there.and_then(|there| there.metadata.resource_version.clone()) != seen {
            return Err(Failure::Stale);
        }
        let object = self.object(kind, &name.to_string(), rest);
        self.store(watched, object.clone(), true);
        Ok(object)
    }

    fn write_status(&mut self, key: &ObjectKey, seen: &str, status: Value) -> Result<DynamicObject, Failure> {
        let stored = (Watched::Kind(key.kind), key.name.clone());
        let Some(there) = self.objects.get(&stored) else { return Err(Failure::Stale) };
        if there.metadata.resource_version.as_deref() != Some(seen) {
            return Err(Failure::Stale);
        }
        let mut object = there.clone();
        self.version += 1;
        object.metadata.resource_version = Some(self.version.to_string());
        object.data["status"] = status;
        self.store(Watched::Kind(key.kind), object.clone(), true);
        Ok(object)
    }

    /// Refuses the first waiting write whose text begins with `prefix`.
    pub(super) fn refuse(&mut self, prefix: &str) {
        let at = self.writes.iter().position(|write| describe(write).starts_with(prefix));
        let Some(write) = at.and_then(|at| self.writes.remove(at)) else {
            panic!("`{prefix}` does not wait: {:?}", self.waiting())
        };
        self.report(refused(write.request));
    }

    /// Performs a waiting write, and loses the answer.
    pub(super) fn lose_answer(&mut self, at: usize) {
        let Some(write) = self.writes.remove(at) else { return };
        let report = match self.perform(write) {
            Report::Shard { name, result: Ok(_) } => Report::Shard { name, result: Err(refusal()) },
            Report::Config { name, result: Ok(_) } => Report::Config { name, result: Err(refusal()) },
            Report::Deleted { name, uid, result: Ok(()) } => Report::Deleted { name, uid, result: Err(refusal()) },
            other => other,
        };
        self.report(report);
    }

    /// Refuses a waiting write of configuration, and answers any other.
    pub(super) fn refuse_at(&mut self, at: usize) {
        let Some(write) = self.writes.remove(at) else { return };
        let report = match write.request {
            Request::Status(_) | Request::Group { .. } => self.perform(write),
            request => refused(request),
        };
        self.report(report);
    }

    /// Answers a waiting write.
    pub(super) fn answer_at(&mut self, at: usize) {
        let Some(write) = self.writes.remove(at) else { return };
        let report = self.perform(write);
        self.report(report);
    }

    /// Passes a report to the state, and lets it decide.
    pub(super) fn report(&mut self, report: Report) {
        self.state.on_report(report, self.now);
        self.run();
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

fn refusal() -> Failure {
    Failure::Api(kube::Error::Api(Status::failure("no", "Forbidden").boxed()))
}

fn refused(request: Request) -> Report {
    match request {
        Request::Shard { owner, number, .. } => {
            Report::Shard { name: crate::cluster_state::shard_name(&owner.group, number), result: Err(refusal()) }
        }
        Request::Config { name, .. } => Report::Config { name, result: Err(refusal()) },
        Request::Delete(seen) => {
            Report::Deleted { name: seen.name.clone(), uid: seen.uid.clone(), result: Err(refusal()) }
        }
        Request::Status(_) | Request::Group { .. } => panic!("not configuration: {request:?}"),
    }
}

/// Describes a write as text.
pub(super) fn describe(write: &Write) -> String {
    let of = |spec: &GatewayConfigSpec| match (&spec.kind, &spec.exposition) {
        (PayloadKind::Exposition, Some(id)) => format!("exposition {id}"),
        _ => "service".to_owned(),
    };
    match &write.request {
        Request::Shard { .. } => "credentials".to_owned(),
        Request::Config { spec, .. } => of(spec),
        Request::Delete(seen) => format!("delete {}", seen.spec.as_ref().map(of).unwrap_or_default()),
        Request::Status(status) => format!("status {}", status.key),
        Request::Group { input, .. } => format!("group {}", input.name),
    }
}

fn owned(owner: &Owner) -> Value {
    let reference = json!({
        "apiVersion": "tamis.dev/v1alpha1", "kind": "GatewayGroup", "name": owner.group.name, "uid": owner.uid,
        "controller": true,
    });
    json!({
        "labels": {"app.kubernetes.io/managed-by": names::MANAGED_BY, (names::GROUP_LABEL): owner.group.name},
        "ownerReferences": [reference],
    })
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
