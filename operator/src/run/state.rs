//! The operator's state and decisions. Pure: it has no client and no clock. Events come in, each with the time at which
//! it happened; actions go out, and their results come back as events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tamis_config::acks::AckEvent;
use tamis_crds::ObjectName;

use super::action::{Action, Fence, Report, Request, Write};
use super::groups::{Gateways, GroupState};
use super::inbox::Inbox;
use super::pipeline::Pipeline;
use super::planning::{Links, Turns};
use super::sources::Sources;
use super::statuses::Statuses;
use super::sweep::Sweeper;
use crate::acks::{AckChanges, GatewayEvent, StreamEvent, Table};
use crate::cluster_state::{ClusterState, Object};
use crate::metrics::Metrics;
use crate::object::{Kind, ObjectKey};
use crate::options::Token;
use crate::plan::{self, Memory};
use crate::quota::Quotas;
use crate::verdict::{Finding, RequiredDocument, Verdict};
use crate::watch::{Change, Message, Watched};

/// The configuration of the state.
pub(super) struct Setup {
    pub(super) settings: plan::Settings,
    pub(super) namespaces: Vec<String>,
    pub(super) quotas: Quotas,
    pub(super) gateway_admin: Vec<String>,
    pub(super) gateway_admin_token: Option<Token>,
    pub(super) metrics: Metrics,
}

/// The environment of a step, as the shell has just read it.
#[derive(Debug, Clone)]
pub(super) struct Tick {
    pub(super) now: Instant,
    /// The time of day, for conditions.
    pub(super) time: Timestamp,
    /// The term in which this operator may write, if it may.
    pub(super) term: Option<u64>,
    /// The number of sleeps of the process: see [`super::sleep_detector`].
    pub(super) sleeps: u64,
    /// The stores of groups' objects that are not filled yet.
    pub(super) groups_waiting: Vec<String>,
}

/// The verdict on one generation of an object. It does not apply to another generation, nor to another object of the
/// name.
#[derive(Debug)]
pub(super) struct ObjectVerdict {
    uid: String,
    generation: i64,
    pub(super) verdict: Verdict,
    /// The findings about the object itself, which do not depend on the expositions that use it.
    pub(super) own: Vec<Finding>,
}

impl ObjectVerdict {
    pub(super) fn of(object: &Object, verdict: Verdict) -> Self {
        let own = verdict.findings.clone();
        Self { uid: object.uid.clone(), generation: object.generation, verdict, own }
    }

    /// Returns whether the verdict is about this generation of the object.
    pub(super) fn is_of(&self, object: &Object) -> bool {
        self.uid == object.uid && self.generation == object.generation
    }
}

/// Work that is due at a certain time, without an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Requeue {
    Exposition(ObjectName),
    Group(ObjectName),
    Status(ObjectKey),
}

/// Work that takes long, and is done one turn at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Reading an object that a watch has delivered.
    Read,
    /// Planning some expositions of a service, or judging some of its objects.
    Plan,
}

/// Whether this operator writes.
#[derive(Debug, Default)]
struct Leading {
    /// The term and the number of sleeps in which the watches were restarted.
    since: Option<Fence>,
    /// Whether all sources have been listed since.
    leads: bool,
}

/// The operator's state.
pub(super) struct State {
    pub(super) settings: plan::Settings,
    pub(super) quotas: Quotas,
    pub(super) metrics: Metrics,
    /// When the last event happened.
    pub(super) now: Instant,
    leading: Leading,
    /// What the operator waits for, for `/readyz`.
    waiting: Vec<String>,
    /// The actions for the shell.
    pub(super) actions: Vec<Action>,

    // Input from watches and gateways.
    pub(super) sources: Sources,
    /// Changes of objects that users write, which wait for the turn of their namespace.
    inbox: Inbox<ObjectKey, Message>,
    pub(super) cluster: ClusterState,
    pub(super) table: Table,

    // Decisions.
    pub(super) turns: Turns,
    pub(super) memory: Memory,
    /// The findings about shared objects that planning expositions has led to.
    pub(super) shared_findings: plan::SharedFindings,
    pub(super) verdicts: HashMap<ObjectKey, ObjectVerdict>,
    pub(super) links: Links,
    pub(super) requeues: BTreeMap<Instant, BTreeSet<Requeue>>,

    // Writes and their results.
    pub(super) pipeline: Pipeline,
    /// The newest document of each exposition.
    pub(super) required: HashMap<ObjectName, RequiredDocument>,
    /// The number of expositions of each group.
    pub(super) attached: HashMap<ObjectName, usize>,
    pub(super) statuses: Statuses,
    pub(super) groups: HashMap<ObjectName, GroupState>,
    pub(super) gateways: Gateways,
    pub(super) sweeper: Sweeper,
}

impl State {
    pub(super) fn new(setup: Setup, now: Instant) -> Self {
        let Setup { settings, namespaces, quotas, gateway_admin, gateway_admin_token, metrics } = setup;
        let mut actions = Vec::new();
        Self {
            cluster: ClusterState::new(settings.default_group.clone(), &namespaces, quotas),
            sources: Sources::new(namespaces, &mut actions),
            settings,
            quotas,
            metrics,
            now,
            leading: Leading::default(),
            waiting: vec!["the first lists".to_owned()],
            actions,
            inbox: Inbox::default(),
            table: Table::new(),
            turns: Turns::default(),
            memory: Memory::default(),
            shared_findings: plan::SharedFindings::default(),
            verdicts: HashMap::new(),
            links: Links::default(),
            requeues: BTreeMap::new(),
            pipeline: Pipeline::default(),
            required: HashMap::new(),
            attached: HashMap::new(),
            statuses: Statuses::default(),
            groups: HashMap::new(),
            gateways: Gateways::new(gateway_admin, gateway_admin_token),
            sweeper: Sweeper::default(),
        }
    }

    /// Returns what the operator still waits for before it can act. Empty once it is ready.
    pub(super) fn waiting_for(&self) -> &[String] {
        &self.waiting
    }

    /// Handles a change that a watch delivers. Objects that users write wait for the turn of their namespace;
    /// everything else is read at once.
    pub(super) fn on_watch_event(&mut self, message: Message, now: Instant) {
        self.now = now;
        let object = match (&message.source.watched, &message.change) {
            (Watched::Kind(kind), Change::Applied(object) | Change::Deleted(object)) => {
                let metadata = &object.metadata;
                let namespace = metadata.namespace.clone().unwrap_or_default();
                let name = ObjectName { namespace, name: metadata.name.clone().unwrap_or_default() };
                Some(ObjectKey { kind: *kind, name })
            }
            (Watched::Kind(_), Change::Listed(_) | Change::Forbidden) => {
                // A list is newer than all waiting changes, so they are read first.
                while let Some((_, waiting)) = self.inbox.next(|_| true) {
                    self.read(waiting);
                }
                None
            }
            (
                Watched::Configs | Watched::Secrets | Watched::ConfigMaps | Watched::GroupSecrets | Watched::Namespaces,
                _,
            ) => None,
        };
        match object {
            Some(key) => {
                let namespace = key.name.namespace.clone();
                self.inbox.push(&namespace, key, message);
            }
            None => self.read(message),
        }
    }

    /// Reads the object that is next in turn. Returns its namespace.
    fn read_turn(&mut self, now: Instant) -> Option<String> {
        self.now = now;
        let throttle = &self.turns.throttle;
        let (namespace, message) = self.inbox.next(|namespace| throttle.may(namespace, now))?;
        self.read(message);
        Some(namespace)
    }

    /// Records how long the turn of a namespace took.
    pub(super) fn on_turn_taken(&mut self, turn: Turn, namespace: &str, took: Duration, now: Instant) {
        self.now = now;
        self.turns.throttle.took(namespace, took, now);
        match turn {
            Turn::Read => {}
            Turn::Plan => self.metrics.reconciled("Service", "ok", took),
        }
    }

    /// Takes a turn. Returns the namespace whose turn it was, or `None` if there is nothing to do now.
    pub(super) fn take_turn(&mut self, turn: Turn, now: Instant) -> Option<String> {
        match turn {
            Turn::Read => self.read_turn(now),
            Turn::Plan => self.plan_turn(now),
        }
    }

    /// Returns whether there is a turn to take now.
    pub(super) fn has_turn(&self, now: Instant) -> bool {
        self.inbox.has_turn(|namespace| self.turns.throttle.may(namespace, now)) || self.can_plan(now)
    }

    fn read(&mut self, message: Message) {
        if !self.sources.is_current(&message) {
            return;
        }
        self.sources.on_answer(&message.source, matches!(message.change, Change::Forbidden));
        if let Some(Message { source, change, epoch: _ }) = self.pipeline.keep(message) {
            self.cluster.apply(&source, change, self.now);
        }
    }

    /// Reads the change of an object that a watch delivered while its write was in flight.
    pub(super) fn read_kept(&mut self, message: Option<Message>) {
        if let Some(message) = message {
            self.read(message);
        }
    }

    /// Handles an event of a gateway's `/acks` stream.
    pub(super) fn on_ack(&mut self, event: GatewayEvent, now: Instant) {
        self.now = now;
        let GatewayEvent { group, endpoint, event } = event;
        if let StreamEvent::Ack(AckEvent::Snapshot { .. }) = &event {
            // A snapshot carries the gateway's version, which the group's status shows.
            self.statuses.slowly(ObjectKey { kind: Kind::GatewayGroup, name: group.clone() }, now);
        }
        let changes = self.table.on_stream_event(&group, &endpoint, event, now);
        self.on_ack_changes(changes);
    }

    /// Handles the result of an action.
    pub(super) fn on_report(&mut self, report: Report, now: Instant) {
        self.now = now;
        match report {
            Report::Shard { name, result } => self.on_shard_written(&name, result),
            Report::Config { name, result } => self.on_config_written(&name, result),
            Report::Deleted { name, uid, result } => self.on_config_deleted(&name, &uid, result),
            Report::Status { key, result } => self.on_status_written(key, result),
            Report::Group(reconciled) => self.on_group_reconciled(*reconciled),
            Report::Probed { purpose, answers } => self.on_probed(purpose, answers),
        }
    }

    /// Decides what follows from the events so far. Returns the actions for the shell.
    pub(super) fn step(&mut self, tick: Tick) -> Vec<Action> {
        let Tick { now, time, term, sleeps, groups_waiting } = tick;
        self.now = now;
        self.due();
        for watched in self.cluster.sources_to_relist(now) {
            self.sources.list_again(&watched, &mut self.actions);
        }
        if std::mem::take(&mut self.cluster.watches_changed) {
            let foreign = self.foreign_namespaces();
            for ended in self.sources.update(&self.cluster, &foreign, &mut self.actions) {
                self.cluster.forget_source(&ended);
            }
        }
        self.metrics.leader(term.is_some());
        let since = term.map(|term| Fence { term, sleeps });
        if self.leading.since != since {
            self.leading = Leading { since, leads: false };
            if since.is_some() {
                // Watches lag differently, so relist before a term's first write.
                self.sources.restart(&mut self.actions);
                self.inbox.clear();
            }
        }
        self.waiting = self.sources.waiting_for();
        self.waiting.extend(groups_waiting);
        let leads = since.is_some() && self.waiting.is_empty();
        if self.leading.leads != leads {
            self.leading.leads = leads;
            tracing::info!(leads, "leadership changed");
            if leads {
                self.begin();
            }
        }
        match self.fence() {
            Some(fence) => self.write_all(fence, time),
            // A new leader compares everything, so no marks have to be kept until then.
            None => {
                self.cluster.dirty.clear();
                self.turns.seen.clear();
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// Returns the fence of writes that are decided now. `None` while this operator does not lead.
    pub(super) fn fence(&self) -> Option<Fence> {
        self.leading.since.filter(|_| self.leading.leads)
    }

    /// Records that a write was not performed because its fence no longer held.
    pub(super) fn deposed(&mut self, fence: Fence) {
        if self.leading.since == Some(fence) {
            // The next leader, which may be this operator, compares everything again.
            self.leading.leads = false;
        }
    }

    /// Emits a write.
    pub(super) fn write(&mut self, fence: Fence, request: Request) {
        self.actions.push(Action::Write(Write { fence, request }));
    }

    fn write_all(&mut self, fence: Fence, time: Timestamp) {
        self.note_seen();
        for name in std::mem::take(&mut self.cluster.dirty.removed) {
            if self.cluster.is_gone(&name) {
                self.pipeline.release(name);
            }
        }
        self.reconcile_groups(fence);
        self.write_documents(fence);
        self.sweep(fence);
        self.write_statuses(fence, time);
    }

    /// Begins a term. It is unknown what another operator has written, so everything is compared, and differences are
    /// written.
    fn begin(&mut self) {
        self.pipeline.begin();
        self.shared_findings = plan::SharedFindings::default();
        self.cluster.mark_all();
        self.forget_gone();
    }

    /// Forgets the verdicts on objects that are gone.
    pub(super) fn forget_gone(&mut self) {
        let cluster = &self.cluster;
        self.verdicts.retain(|key, _| cluster.get(key.kind, &key.name).is_some());
        let known = self.required.keys().chain(self.links.expositions());
        let left: Vec<_> = known.filter(|name| cluster.is_gone(name)).cloned().collect();
        self.cluster.dirty.removed.extend(left);
        let groups: Vec<_> =
            self.groups.keys().filter(|name| self.cluster.get(Kind::GatewayGroup, name).is_none()).cloned().collect();
        self.cluster.dirty.groups.extend(groups);
    }

    /// Records since when services are marked.
    fn note_seen(&mut self) {
        let dirty = &self.cluster.dirty;
        for service in dirty.urgent.keys().chain(dirty.services.keys()) {
            if !self.turns.seen.contains_key(service) {
                self.turns.seen.insert(service.clone(), self.now);
            }
        }
    }

    /// Handles the work that is due.
    fn due(&mut self) {
        while let Some(entry) = self.requeues.first_entry().filter(|entry| *entry.key() <= self.now) {
            for requeue in entry.remove() {
                match requeue {
                    Requeue::Exposition(name) => self.cluster.mark_exposition(&name),
                    Requeue::Group(name) => drop(self.cluster.dirty.groups.insert(name)),
                    Requeue::Status(key) => drop(self.cluster.dirty.status.insert(key)),
                }
            }
        }
        if self.table.next_tick().is_some_and(|due| due <= self.now) {
            let changes = self.table.tick(self.now);
            self.on_ack_changes(changes);
        }
    }

    pub(super) fn requeue_after(&mut self, after: Duration, requeue: Requeue) {
        self.requeues.entry(self.now + after).or_default().insert(requeue);
    }

    /// Marks the statuses that new acks affect.
    pub(super) fn on_ack_changes(&mut self, changes: AckChanges) {
        let AckChanges { expositions, counted, upstreams, loaded, groups } = changes;
        for took in loaded {
            self.metrics.programmed(took);
        }
        for name in groups {
            self.statuses.slowly(ObjectKey { kind: Kind::GatewayGroup, name }, self.now);
        }
        for id in expositions.into_iter().chain(counted) {
            self.mark_status(&ObjectName { namespace: id.namespace, name: id.name });
        }
        for id in upstreams {
            let name = ObjectName { namespace: id.namespace, name: id.name };
            self.mark_upstream(ObjectKey { kind: Kind::Exposition, name });
        }
    }

    /// Marks the status of an exposition whose upstream has another state: at once, or after a rest if that happens often.
    fn mark_upstream(&mut self, key: ObjectKey) {
        match self.statuses.rest_of(&key, self.now) {
            None => drop(self.cluster.dirty.status.insert(key)),
            Some(rest) => self.requeue_after(rest, Requeue::Status(key)),
        }
    }

    /// Marks the status of an exposition and of the objects that it uses.
    pub(super) fn mark_status(&mut self, name: &ObjectName) {
        let status = &mut self.cluster.dirty.status;
        status.insert(ObjectKey { kind: Kind::Exposition, name: name.clone() });
        status.extend(self.links.uses(name).cloned());
    }
}
