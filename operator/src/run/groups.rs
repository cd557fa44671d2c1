//! GatewayGroups: their objects, their gateways and their verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tamis_config::Reason;
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
use crate::verdict::{Finding, GroupFacts, Verdict};

/// The delay of a retry after a failure.
const FAILED: Duration = Duration::from_secs(2);

/// The state of a group.
#[derive(Debug, Default)]
pub(super) struct GroupState {
    /// The last outcome. `None` before the first one.
    outcome: Option<GroupOutcome>,
    /// The `uid` and generation of the GatewayGroup that the outcome is about.
    of: Option<(String, i64)>,
    /// Why the group's objects could not be written, if the API server refused them.
    refused: Option<String>,
    /// Whether a reconciliation is running, and whether another has to follow.
    running: bool,
    again: bool,
    /// When the group is reconciled to rotate its keys. Kept so that each reconciliation does not schedule another one.
    rotates: Option<Instant>,
}

/// Gateways that are not pods, as the command line names them: `URL`, or `NAMESPACE/GROUP=URL`.
#[derive(Debug)]
pub(super) struct Gateways {
    urls: Vec<(Option<ObjectName>, String)>,
    token: Option<Token>,
    /// Whether a gateway without a group has been reported.
    warned: bool,
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
        Self { urls: arguments.into_iter().map(read).collect(), token, warned: false }
    }

    /// Warns once if a gateway names no group and there is more than one group.
    fn warn_unassigned(&mut self, groups: usize) {
        let unassigned = if groups > 1 { self.urls.iter().find(|(named, _)| named.is_none()) } else { None };
        let before = std::mem::replace(&mut self.warned, unassigned.is_some());
        if let Some((_, url)) = unassigned.filter(|_| !before) {
            tracing::warn!(
                url,
                groups,
                "gateway ignored: there are several groups; write --gateway-admin NAMESPACE/GROUP=URL"
            );
        }
    }

    /// Returns the gateways of a group. A gateway that names no group belongs to the only one.
    fn of<'g>(&'g self, group: &'g ObjectName, only: bool) -> impl Iterator<Item = &'g str> {
        let fits = move |named: &Option<ObjectName>| named.as_ref().map_or(only, |named| named == group);
        self.urls.iter().filter(move |(named, _)| fits(named)).map(|(_, url)| url.as_str())
    }
}

impl State {
    /// Marks the groups whose objects have changed.
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

    /// Starts to reconcile the marked groups. A group has at most one reconciliation at a time.
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

    /// Returns the input for reconciling a group, if this operator manages the group and can read it.
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

    /// Returns whether a group names this operator. An unreadable or unknown group counts as this operator's.
    pub(super) fn manages_group(&self, name: &ObjectName) -> bool {
        let spec = self.cluster.get(Kind::GatewayGroup, name).and_then(|object| object.resources.groups.first());
        let named = spec.map(|group| group.spec.controller_name.as_deref());
        named.is_none_or(|named| {
            named.unwrap_or(crate::options::Options::CONTROLLER_NAME) == self.settings.controller_name
        })
    }

    /// Returns the namespaces that have groups of other operators only.
    pub(super) fn foreign_namespaces(&self) -> BTreeSet<String> {
        let groups = || self.cluster.all(Kind::GatewayGroup).map(|group| &group.key.name);
        let managed: BTreeSet<_> =
            groups().filter(|name| self.manages_group(name)).map(|name| &name.namespace).collect();
        groups().map(|name| &name.namespace).filter(|namespace| !managed.contains(namespace)).cloned().collect()
    }

    /// Returns whether a group is the oldest of its namespace: only one group in a namespace is active.
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

    /// Handles the result of reconciling a group.
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
                tracing::warn!(%group, %error, "cannot reconcile the objects of the group");
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

    /// Follows the `/acks` streams of all known gateways.
    fn listen(&mut self) {
        let now = self.now;
        let names: Vec<ObjectName> = self.groups.keys().cloned().collect();
        let only = names.len() == 1;
        self.gateways.warn_unassigned(names.len());
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

    /// Judges all groups together, since groups can conflict with each other.
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
            config_maps: &Nothing,
            parts: &Nothing,
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
                // Its objects are still being written: the verdict on this generation follows.
                continue;
            }
            let name = &object.key.name;
            // A pod may still prove to be a gateway, so the status stays as it is until then. A start of the operator changes
            // no status.
            let Some(ready_replicas) = self.table.ready(name) else { continue };
            let label = object.key.to_string();
            let compiled = said.get(label.as_str()).map_or(&[][..], Vec::as_slice);
            let mut findings = plan::findings(&object.diagnostics, compiled);
            let outcome = self.groups.get(name).and_then(|state| state.outcome.as_ref());
            findings.extend(outcome.iter().flat_map(|outcome| outcome.findings.clone()));
            let refused = self.groups.get(name).and_then(|state| state.refused.clone());
            findings.extend(refused.map(|message| Finding::error(Reason::Pending, message)));
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
                    "The group is paused by the annotation {annotation}. Changes to these objects wait: {}. Remove the \
                     annotation to apply them",
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

/// Returns the warning for a paused group.
fn paused() -> Finding {
    let message = format!(
        "the group is paused by the annotation {}: its gateways stay as they are, and changes of its expositions wait \
         unless they revoke something",
        tamis_config::names::PAUSED_ANNOTATION
    );
    Finding::warning(Reason::Paused, message)
}

/// Returns the warning for a group that selects namespaces by label while the operator may not read all of them.
fn unread(spec: &GatewayGroupSpec) -> Option<Finding> {
    let selects = spec.allowed_namespaces.as_ref().is_some_and(|allowed| allowed.from == NamespacesFrom::Selector);
    selects.then(|| {
        let message = "spec.allowedNamespaces.from: Selector needs the labels of namespaces, and the operator may not read \
                       all of its namespaces: let it `get` them (docs/rbac.md), or write `Same` or `All`";
        Finding::warning(Reason::RefNotPermitted, message)
    })
}

fn endpoint(group: &ObjectName, name: String, url: String, token: &Token, trust: Trust) -> Endpoint {
    Endpoint { group: group.clone(), name, url, token: token.clone(), trust }
}

/// A lookup without Secrets and namespaces: groups are judged by their own content.
struct Nothing;

impl tamis_crds::cluster::Secrets for Nothing {
    fn find(&self, _: &str, _: &str) -> tamis_crds::cluster::SecretState<'_> {
        tamis_crds::cluster::SecretState::Missing
    }
}

impl tamis_crds::cluster::ConfigMaps for Nothing {
    fn find(&self, _: &ObjectName) -> tamis_crds::cluster::ConfigMapState {
        tamis_crds::cluster::ConfigMapState::Missing
    }
}

impl tamis_crds::cluster::Parts for Nothing {
    fn find(&self, _: &ObjectName) -> tamis_crds::cluster::PartState {
        tamis_crds::cluster::PartState::Missing
    }
}

impl tamis_crds::cluster::Namespaces for Nothing {
    fn labels(&self, _: &str) -> Option<&BTreeMap<String, String>> {
        None
    }
}
