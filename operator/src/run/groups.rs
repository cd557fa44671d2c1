//! GatewayGroups: their objects, their pods, and what is thought of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tamis_crds::cluster::Cluster;
use tamis_crds::resources::{GatewayGroupSpec, NamespacesFrom, Resources};
use tamis_crds::{CompileEnv, Diagnostic, ObjectName, compile};

use super::action::{Action, Fence, Reconciled, Request};
use super::state::{ObjectVerdict, Requeue, State};
use crate::acks::{AckChanges, Endpoint, Readiness, Trust};
use crate::group::{self, GroupInput, GroupOutcome};
use crate::object::{Kind, ObjectKey};
use crate::options::Token;
use crate::plan;
use crate::verdict::{ConditionType, Finding, GroupFacts, Verdict};

/// Before another try at what failed.
const FAILED: Duration = Duration::from_secs(2);

/// What is known of a group.
#[derive(Debug, Default)]
pub(super) struct GroupState {
    /// The last outcome; none before the first.
    outcome: Option<GroupOutcome>,
    /// The object that it is of: uid and generation.
    of: Option<(String, i64)>,
    /// Why its objects could not be written, where the API refused them.
    refused: Option<String>,
    /// Whether a reconciliation is under way, and whether another is wanted after it.
    running: bool,
    again: bool,
    /// When it is reconciled for the rotation of its keys. One appointment at a time: each reconciliation would add one.
    rotates: Option<Instant>,
}

/// Gateways that are not pods, as the command line names them: `URL`, or `NAMESPACE/GROUP=URL`.
#[derive(Debug)]
pub(super) struct Gateways {
    urls: Vec<(Option<ObjectName>, String)>,
    token: Option<Token>,
    /// Whether it was said that some belong to nobody.
    told: bool,
}

impl Gateways {
    pub(super) fn new(arguments: Vec<String>, token: Option<Token>) -> Self {
        let read = |argument: String| match argument.split_once('=') {
            Some((group, url)) if !group.contains(':') => match group.split_once('/') {
                Some((namespace, name)) => {
                    (Some(ObjectName { namespace: namespace.to_owned(), name: name.to_owned() }), url.to_owned())
                }
                None => (None, argument.clone()),
            },
            _ => (None, argument),
        };
        Self { urls: arguments.into_iter().map(read).collect(), token, told: false }
    }

    /// Says, once, that a gateway which names no group is nobody's as soon as there is more than one.
    fn tell(&mut self, groups: usize) {
        let nobodys = if groups > 1 { self.urls.iter().find(|(named, _)| named.is_none()) } else { None };
        let before = std::mem::replace(&mut self.told, nobodys.is_some());
        if let Some((_, url)) = nobodys.filter(|_| !before) {
            tracing::warn!(
                url,
                groups,
                "not listened to: of which group is it? Write --gateway-admin NAMESPACE/GROUP=URL"
            );
        }
    }

    /// Those of a group; one that names no group is of the only one.
    fn of<'g>(&'g self, group: &'g ObjectName, only: bool) -> impl Iterator<Item = &'g str> {
        let fits = move |named: &Option<ObjectName>| named.as_ref().map_or(only, |named| named == group);
        self.urls.iter().filter(move |(named, _)| fits(named)).map(|(_, url)| url.as_str())
    }
}

impl State {
    /// Takes note of a change among the objects of groups.
    pub(super) fn on_group_changed(&mut self, change: group::Change, now: Instant) {
        self.now = now;
        match change {
            group::Change::Children(group) | group::Change::Pods(group) => {
                self.cluster.dirty.groups.insert(group);
            }
            group::Change::All => {
                let all: Vec<_> = self.cluster.all(Kind::GatewayGroup).map(|g| g.key.name.clone()).collect();
                self.cluster.dirty.groups.extend(all);
            }
        }
    }

    /// Begins to reconcile the groups that are marked, one at a time each.
    pub(super) fn reconcile_groups(&mut self, fence: Fence) {
        let marked = std::mem::take(&mut self.cluster.dirty.groups);
        if marked.is_empty() {
            return;
        }
        self.judge_groups();
        for name in marked {
            let Some((of, input)) = self.group_input(&name) else {
                self.group_gone(&name);
                continue;
            };
            let state = self.groups.entry(name.clone()).or_default();
            if std::mem::replace(&mut state.running, true) {
                state.again = true;
                continue;
            }
            self.write(fence, Request::Group { of, input });
        }
        self.listen();
    }

    /// A group that is managed and can be read.
    fn group_input(&self, name: &ObjectName) -> Option<((String, i64), GroupInput)> {
        let object = self.cluster.get(Kind::GatewayGroup, name).filter(|object| !object.deleting)?;
        let spec = &object.resources.groups.first()?.spec;
        let input = || GroupInput {
            name: name.clone(),
            uid: object.uid.clone(),
            spec: Arc::new(spec.clone()),
            paused: object.paused,
        };
        let takes_part = self.manages_group(name) && self.first_of_its_namespace(name);
        takes_part.then(|| ((object.uid.clone(), object.generation), input()))
    }

    /// Whether a group names this operator, or cannot be read.
    pub(super) fn manages_group(&self, name: &ObjectName) -> bool {
        let spec = self.cluster.get(Kind::GatewayGroup, name).and_then(|object| object.resources.groups.first());
        let named = spec.map(|group| group.spec.controller_name.as_deref());
        named.is_none_or(|named| {
            named.unwrap_or(crate::options::Options::CONTROLLER_NAME) == self.settings.controller_name
        })
    }

    /// Namespaces of other operators' groups only.
    pub(super) fn foreign_namespaces(&self) -> BTreeSet<String> {
        let groups = || self.cluster.all(Kind::GatewayGroup).map(|group| &group.key.name);
        let managed: BTreeSet<_> =
            groups().filter(|name| self.manages_group(name)).map(|name| &name.namespace).collect();
        groups().map(|name| &name.namespace).filter(|namespace| !managed.contains(namespace)).cloned().collect()
    }

    /// One group a namespace: the oldest holds.
    fn first_of_its_namespace(&self, name: &ObjectName) -> bool {
        let same = self.cluster.all(Kind::GatewayGroup).filter(|g| g.key.name.namespace == name.namespace);
        same.min_by(|a, b| a.age().cmp(&b.age())).is_none_or(|oldest| oldest.key.name == *name)
    }

    fn group_gone(&mut self, name: &ObjectName) {
        if self.cluster.get(Kind::GatewayGroup, name).is_none() {
            self.groups.remove(name);
            self.attached.remove(name);
            self.table.forget_group(name);
            self.verdicts.remove(&ObjectKey { kind: Kind::GatewayGroup, name: name.clone() });
        } else if !self.manages_group(name) {
            self.groups.remove(name);
        }
    }

    /// A reconciliation has ended.
    pub(super) fn on_group_reconciled(&mut self, reconciled: Reconciled) {
        let Reconciled { group, of, fence, took, outcome } = reconciled;
        let result = outcome.as_ref().map_or_else(group::Error::category, |_| "ok");
        self.metrics.reconciled(Kind::GatewayGroup.as_str(), result, took);
        let Some(state) = self.groups.get_mut(&group) else { return };
        state.running = false;
        let again = std::mem::take(&mut state.again);
        match outcome {
            Ok(outcome) => {
                let retry = outcome.retry;
                let now = self.now;
                let rotates = outcome.rotates_in.map(|after| now + after);
                let is_planned = state.rotates.is_some_and(|planned| planned > now);
                let rotates = rotates.filter(|_| !is_planned);
                if rotates.is_some() {
                    state.rotates = rotates;
                }
                state.outcome = Some(outcome);
                state.of = Some(of);
                state.refused = None;
                if let Some(at) = rotates {
                    self.requeue_after(at.saturating_duration_since(now), Requeue::Group(group.clone()));
                }
                if let Some(after) = retry {
                    self.requeue_after(after, Requeue::Group(group.clone()));
                }
            }
            Err(group::Error::Deposed(_)) => self.deposed(fence),
            Err(error) => {
                if let group::Error::Api { object, error: kube::Error::Api(status) } = &error {
                    state.refused = Some(format!("{object} cannot be written: {}", status.message));
                    state.of = Some(of);
                }
                tracing::warn!(%group, "objects of the group: {error}");
                self.requeue_after(FAILED, Requeue::Group(group.clone()));
            }
        }
        if again {
            self.cluster.dirty.groups.insert(group.clone());
        }
        self.listen();
        self.judge_groups();
        self.cluster.dirty.status.insert(ObjectKey { kind: Kind::GatewayGroup, name: group });
    }

    /// Listens to the gateways that there are.
    fn listen(&mut self) {
        let now = self.now;
        let names: Vec<ObjectName> = self.groups.keys().cloned().collect();
        let only = names.len() == 1;
        self.gateways.tell(names.len());
        let mut endpoints = Vec::new();
        let mut changes = AckChanges::default();
        for name in &names {
            let Some(outcome) = self.groups.get(name).and_then(|state| state.outcome.as_ref()) else { continue };
            let token = outcome.token.as_ref();
            let mut members = Vec::new();
            for pod in &outcome.pods {
                let address = std::net::SocketAddr::from(pod.admin);
                let readiness = if pod.ready { Readiness::Ready } else { Readiness::NotReady };
                members.push((pod.name.clone(), readiness));
                if let Some(token) = token {
                    endpoints.push(endpoint(name, pod.name.clone(), format!("http://{address}"), token, Trust::Proven));
                }
            }
            for url in self.gateways.of(name, only) {
                members.push((url.to_owned(), Readiness::WhenConnected));
                if let Some(token) = self.gateways.token.as_ref().or(token) {
                    endpoints.push(endpoint(name, url.to_owned(), url.to_owned(), token, Trust::Named));
                }
            }
            changes.merge(self.table.set_endpoints(name, members, now));
        }
        self.actions.push(Action::Listen(endpoints));
        self.on_ack_changes(changes);
    }

    /// What is thought of all groups: they can be in each other's way.
    pub(super) fn judge_groups(&mut self) {
        let mut groups: Vec<_> = self.cluster.all(Kind::GatewayGroup).cloned().collect();
        groups.sort_by(|a, b| a.age().cmp(&b.age()));
        let mut resources = Resources::default();
        for group in &groups {
            resources.extend(&group.resources);
        }
        let (namespaces, secrets) = (Nothing, Nothing);
        let cluster = Cluster {
            default_group: self.settings.default_group.as_ref(),
            controller_name: &self.settings.controller_name,
            namespaces: &namespaces,
            secrets: &secrets,
        };
        let compiled = compile(&resources, &CompileEnv { cluster: Some(cluster), ..CompileEnv::default() });
        let mut said: BTreeMap<&str, Vec<&Diagnostic>> = BTreeMap::new();
        for diagnostic in &compiled.diagnostics {
            said.entry(&diagnostic.file).or_default().push(diagnostic);
        }
        for object in groups {
            if !self.manages_group(&object.key.name) {
                self.verdicts.remove(&object.key);
                continue;
            }
            let now = Some((object.uid.clone(), object.generation));
            let takes_part = self.group_input(&object.key.name).is_some();
            if takes_part && self.groups.get(&object.key.name).is_none_or(|state| state.of != now) {
                // Its objects are on their way: nothing is claimed of this generation before.
                continue;
            }
            let name = &object.key.name;
            // Of a gateway that has not been heard yet it is not known whether it is one: nothing is claimed before, and what
            // was said stands. A start of the operator changes no status.
            let Some(ready_replicas) = self.table.ready(name) else { continue };
            let label = object.key.to_string();
            let compiled = said.get(label.as_str()).map_or(&[][..], Vec::as_slice);
            let mut findings = plan::findings(&object.diagnostics, compiled);
            let outcome = self.groups.get(name).and_then(|state| state.outcome.as_ref());
            findings.extend(outcome.iter().flat_map(|outcome| outcome.findings.clone()));
            let refused = self.groups.get(name).and_then(|state| state.refused.clone());
            findings.extend(refused.map(|message| Finding {
                condition: ConditionType::Accepted,
                reason: "Pending",
                message,
                is_error: true,
            }));
            if object.paused {
                findings.push(paused());
            }
            let spec = object.resources.groups.first();
            findings.extend(spec.filter(|_| self.cluster.hides_namespaces()).and_then(|group| unread(&group.spec)));
            let facts = GroupFacts {
                attached: self.attached.get(name).copied().unwrap_or_default(),
                ready_replicas,
                versions: self.table.versions(name).into_iter().collect(),
                url: spec.map(|group| plan::url(name, &group.spec, None)),
            };
            let waiting = outcome.map(|outcome| outcome.waiting.as_slice()).unwrap_or_default();
            let paused = (object.paused && !waiting.is_empty()).then(|| {
                let annotation = tamis_config::names::PAUSED_ANNOTATION;
                format!(
                    "It is paused by the annotation {annotation}, and these wait: {}. Remove the annotation to go on",
                    waiting.join(", ")
                )
            });
            let verdict = Verdict { findings, group: Some(facts), paused, ..Verdict::default() };
            let known = self.verdicts.get(&object.key);
            if known.is_none_or(|known| !known.is_of(&object) || known.verdict != verdict) {
                self.cluster.dirty.status.insert(object.key.clone());
                self.verdicts.insert(object.key.clone(), ObjectVerdict::of(&object, verdict));
            }
        }
    }
}

/// What is said of a group whose owner has paused it.
fn paused() -> Finding {
    Finding {
        condition: ConditionType::Accepted,
        reason: plan::PAUSED,
        message: format!(
            "it is paused by the annotation {}: its gateways stay as they are, and what is new in its expositions waits; \
             what takes something away does not",
            tamis_config::names::PAUSED_ANNOTATION
        ),
        is_error: false,
    }
}

/// What is said of a group that looks at labels of namespaces, where some may not be read.
fn unread(spec: &GatewayGroupSpec) -> Option<Finding> {
    let selects = spec.allowed_namespaces.as_ref().is_some_and(|allowed| allowed.from == NamespacesFrom::Selector);
    selects.then(|| Finding {
        condition: ConditionType::ResolvedRefs,
        reason: "RefNotPermitted",
        message: "spec.allowedNamespaces.from: Selector wants labels of namespaces, and the operator may not read all \
                  that it looks after: let it `get` them (docs/rbac.md), or write `Same` or `All`"
            .to_owned(),
        is_error: false,
    })
}

fn endpoint(group: &ObjectName, name: String, url: String, token: &Token, trust: Trust) -> Endpoint {
    Endpoint { group: group.clone(), name, url, token: token.clone(), trust }
}

/// Groups are judged by what they say of themselves.
struct Nothing;

impl tamis_crds::cluster::Secrets for Nothing {
    fn find(&self, _: &str, _: &str) -> tamis_crds::cluster::SecretState<'_> {
        tamis_crds::cluster::SecretState::Missing
    }
}

impl tamis_crds::cluster::Namespaces for Nothing {
    fn labels(&self, _: &str) -> Option<&BTreeMap<String, String>> {
        None
    }
}
