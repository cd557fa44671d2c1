//! The running operator: what the watches tell goes into the world, the plan says what should be, the differences are
//! written.
//!
//! One task knows everything, so that there is nothing to lock. Changes that come while it writes wait and are then one
//! change. Requests that nothing waits for (status, the objects of groups) run beside it and report back.

mod apply;
mod groups;
mod inbox;
mod pass;
mod pending;
mod shards;
mod sources;
mod statuses;
mod sweep;
mod throttle;
mod wakes;
mod write;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::{FutureExt as _, StreamExt as _};
use kube::Client;
use kube::runtime::events::Reporter;
use tamis_config::acks::AckEvent;
use tamis_crds::ObjectName;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::acks::{Endpoints, Heard, News, Table, Touched};
use crate::events;
use crate::fair::Fair;
use crate::group::{self, Observed};
use crate::leader::{self, Leadership, LeaseOptions, Permit};
use crate::metrics::Metrics;
use crate::object::{Kind, ObjectKey};
use crate::options::Options;
use crate::plan::{self, Memory};
use crate::quota::Quotas;
use crate::verdict::{Finding, Verdict, Wanted};
use crate::watch::{Change, Message, Watched};
use crate::world::{Object, ServiceKey, World};

/// Messages taken at once: what came together is planned together.
const BATCH: usize = 4096;
/// How long objects are read before what they have led to is done, but at least one.
const SLICE: Duration = Duration::from_millis(30);
/// How often what is due by the clock is looked at.
const TICK: Duration = Duration::from_millis(50);

/// Runs an operator until `shutdown`, then gives up the lease.
///
/// # Errors
/// It cannot be set up. Once it runs, it goes on: an API server that is away is waited for.
pub async fn run(options: Options, shutdown: CancellationToken) -> anyhow::Result<()> {
    let metrics = Metrics::new().context("metrics")?;
    let waiting = Arc::new(Mutex::new(vec!["the first lists".to_owned()]));
    let said = Arc::clone(&waiting);
    let waits = move || said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let admin_shutdown = CancellationToken::new();
    let lease = LeaseOptions {
        name: options.lease_name.clone(),
        ..LeaseOptions::new(options.lease_namespace.clone(), options.identity.clone())
    };
    let leadership = leader::run(options.client.clone(), lease, shutdown.clone());
    let (observed, group_changes) = group::watch(&options.client, &options.namespaces);
    let (heard_out, heard) = mpsc::channel(1024);
    let (messages_out, messages) = mpsc::unbounded_channel();
    let (done_out, done) = mpsc::unbounded_channel();
    let admin = tokio::spawn(crate::admin::serve(options.admin, metrics.clone(), waits, admin_shutdown.clone()));
    let settings = plan::Settings {
        default_group: options.default_group.clone(),
        controller_name: options.controller_name.clone(),
    };
    let mut operator = Operator {
        world: World::new(options.default_group, &options.namespaces, options.quotas),
        sources: sources::Sources::new(options.client.clone(), messages_out, options.namespaces, &shutdown),
        group_settings: group::Settings::new(options.gateway_image, options.own_namespace),
        events: events::Publisher::start(
            options.client.clone(),
            Reporter { controller: options.controller_name.clone(), instance: Some(options.identity.clone()) },
        ),
        client: options.client,
        settings,
        leadership,
        observed,
        metrics,
        waiting,
        gateways: groups::Gateways::new(options.gateway_admin, options.gateway_admin_token),
        endpoints: Endpoints::new(heard_out).context("the client towards gateways")?,
        done: done_out,
        quotas: options.quotas,
        memory: Memory::default(),
        said: plan::Said::default(),
        table: Table::new(),
        verdicts: HashMap::new(),
        pending: pending::Pending::default(),
        leaving: Fair::default(),
        lane: pass::Lane::default(),
        throttle: throttle::Throttle::default(),
        inbox: inbox::Inbox::default(),
        more: false,
        wanted: HashMap::new(),
        uses: HashMap::new(),
        users: HashMap::new(),
        attached: HashMap::new(),
        groups: HashMap::new(),
        later: BTreeMap::new(),
        seen: HashMap::new(),
        statuses: statuses::Statuses::default(),
        sweeper: sweep::Sweeper::default(),
        leads: false,
        term: None,
        wakes: wakes::Wakes::start(shutdown.clone()),
        sleeps: 0,
    };
    operator.follow(messages, done, heard, group_changes, &shutdown).await;
    operator.leadership.ended().await;
    admin_shutdown.cancel();
    admin.await.context("the admin listener")
}

/// What a request that ran beside has brought.
#[derive(Debug)]
enum Done {
    Status(statuses::Written),
    Group(Box<groups::Reconciled>),
}

/// What is thought of an object, and of which one: a claim is never made for another generation, nor for another object
/// of the same name.
#[derive(Debug)]
struct Judged {
    uid: String,
    generation: i64,
    verdict: Verdict,
    /// What is wrong with the object itself, whoever uses it.
    own: Vec<Finding>,
}

impl Judged {
    fn of(object: &Object, verdict: Verdict) -> Self {
        let own = verdict.findings.clone();
        Self { uid: object.uid.clone(), generation: object.generation, verdict, own }
    }

    /// Whether it is of the object as it is.
    fn is_of(&self, object: &Object) -> bool {
        self.uid == object.uid && self.generation == object.generation
    }
}

/// What to look at again, although nothing has told of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Again {
    Exposition(ObjectName),
    Group(ObjectName),
    Status(ObjectKey),
}

struct Operator {
    client: Client,
    settings: plan::Settings,
    group_settings: group::Settings,
    leadership: Leadership,
    observed: Observed,
    metrics: Metrics,
    /// What `/readyz` says.
    waiting: Arc<Mutex<Vec<String>>>,
    sources: sources::Sources,
    gateways: groups::Gateways,
    endpoints: Endpoints,
    events: events::Publisher,
    done: mpsc::UnboundedSender<Done>,

    quotas: Quotas,
    world: World,
    memory: Memory,
    /// What expositions have led to saying of objects that others use too.
    said: plan::Said,
    table: Table,
    /// What is thought of each object, at which generation.
    verdicts: HashMap<ObjectKey, Judged>,
    /// Documents that are planned and wait to be written.
    pending: pending::Pending<pass::Item>,
    /// Expositions whose documents are to be deleted.
    leaving: Fair<ObjectName, ()>,
    /// Whose turn it is among the sorts of work.
    lane: pass::Lane,
    throttle: throttle::Throttle,
    /// What watches have told of objects that people write, and nobody has read yet.
    inbox: inbox::Inbox<ObjectKey, Message>,
    /// Whether there is more to do than fits into one pass.
    more: bool,
    /// The newest document of each exposition.
    wanted: HashMap<ObjectName, Wanted>,
    /// What each exposition uses, and the other way round.
    uses: HashMap<ObjectName, BTreeSet<ObjectKey>>,
    users: HashMap<ObjectKey, BTreeSet<ObjectName>>,
    /// Expositions of each group.
    attached: HashMap<ObjectName, usize>,
    groups: HashMap<ObjectName, groups::GroupState>,
    later: BTreeMap<Instant, BTreeSet<Again>>,
    /// When the change was seen that a service is marked for.
    seen: HashMap<ServiceKey, Instant>,
    statuses: statuses::Statuses,
    sweeper: sweep::Sweeper,
    /// The term in which we lead.
    leads: bool,
    /// The term in which the watches were begun.
    term: Option<u64>,
    wakes: wakes::Wakes,
    /// How often the process had slept when the watches were begun.
    sleeps: u64,
}

impl Operator {
    async fn follow(
        &mut self,
        mut messages: mpsc::UnboundedReceiver<Message>,
        mut done: mpsc::UnboundedReceiver<Done>,
        mut heard: mpsc::Receiver<Heard>,
        mut group_changes: impl futures_util::Stream<Item = group::Change> + Send + Unpin,
        shutdown: &CancellationToken,
    ) {
        let mut changes = self.leadership.changes();
        let mut over = false;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut batch, mut news) = (Vec::new(), Vec::new());
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                change = changes.changed(), if !over => over = change.is_err(),
                _ = messages.recv_many(&mut batch, BATCH) => self.told(&mut batch),
                Some(done) = done.recv() => self.done(done),
                _ = heard.recv_many(&mut news, BATCH) => self.heard(&mut news),
                Some(change) = group_changes.next() => self.group_changed(change),
                _ = tick.tick() => {}
                () = std::future::ready(()), if self.more || self.has_told() => {}
            }
            // A step can take long, and there is always something new meanwhile: nobody who speaks waits for another to fall
            // silent.
            while batch.len() < BATCH
                && let Ok(message) = messages.try_recv()
            {
                batch.push(message);
            }
            self.told(&mut batch);
            while let Ok(done) = done.try_recv() {
                self.done(done);
            }
            while news.len() < BATCH
                && let Ok(heard) = heard.try_recv()
            {
                news.push(heard);
            }
            self.heard(&mut news);
            while let Some(Some(change)) = group_changes.next().now_or_never() {
                self.group_changed(change);
            }
            self.step(Instant::now()).await;
        }
    }

    /// Whether something that was told can be read now.
    fn has_told(&self) -> bool {
        let now = Instant::now();
        self.inbox.has_turn(|namespace| self.throttle.may(namespace, now))
    }

    /// Does what there is to do.
    async fn step(&mut self, now: Instant) {
        self.due(now);
        for kind in self.world.look_again(now) {
            self.sources.list_again(kind);
        }
        if std::mem::take(&mut self.world.watches_changed) {
            let foreign = self.foreign_namespaces();
            for ended in self.sources.want(&self.world, &foreign) {
                self.world.forget_source(&ended);
            }
        }
        let permit = self.leadership.may_write();
        self.metrics.leader(permit.is_some());
        let term = permit.as_ref().map(Permit::term);
        let sleeps = self.wakes.sleeps();
        if self.term != term || self.sleeps != sleeps {
            (self.term, self.sleeps) = (term, sleeps);
            self.leads = false;
            if term.is_some() {
                // Of two changes the later may have been told first, by a watch that is less behind: all is read anew
                // before anything is written.
                self.sources.again();
                self.inbox.clear();
            }
        }
        let waiting = self.waits_for();
        let synced = waiting.is_empty();
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = waiting;
        let leads = permit.is_some() && synced;
        if self.leads != leads {
            self.leads = leads;
            tracing::info!(leads, "leadership changed");
            if leads {
                self.begin();
            }
        }
        let Some(permit) = permit.filter(|_| leads) else {
            // Whoever begins to lead compares everything: till then nothing has to be remembered.
            self.world.dirty.clear();
            self.seen.clear();
            self.more = false;
            return;
        };
        if self.world.dirty.has_work() || !self.pending.is_empty() || !self.leaving.is_empty() {
            self.reconcile_groups(&permit);
            self.pass(&permit, now).await;
        } else {
            self.more = false;
        }
        self.sweep(&permit, now).await;
        self.write_statuses(&permit, now);
    }

    /// Begins to lead: what another operator did is not known, so that everything is compared; only what differs is
    /// written.
    fn begin(&mut self) {
        self.pending = pending::Pending::default();
        self.leaving = Fair::default();
        self.said = plan::Said::default();
        self.world.mark_all();
        self.forget_gone();
    }

    /// Forgets what was thought of objects that are gone.
    fn forget_gone(&mut self) {
        let world = &self.world;
        self.verdicts.retain(|key, _| world.get(key.kind, &key.name).is_some());
        let left: Vec<_> =
            self.wanted.keys().chain(self.uses.keys()).filter(|name| world.is_gone(name)).cloned().collect();
        self.world.dirty.removed.extend(left);
        let groups: Vec<_> =
            self.groups.keys().filter(|name| self.world.get(Kind::GatewayGroup, name).is_none()).cloned().collect();
        self.world.dirty.groups.extend(groups);
    }

    /// Takes in what watches have told. Objects that people write wait for the turn of their namespace, everything else is
    /// read at once.
    fn told(&mut self, batch: &mut Vec<Message>) {
        for message in batch.drain(..) {
            let object = match (&message.source.watched, &message.change) {
                (Watched::Kind(kind), Change::Applied(object) | Change::Deleted(object)) => {
                    let metadata = &object.metadata;
                    let namespace = metadata.namespace.clone().unwrap_or_default();
                    let name = ObjectName { namespace, name: metadata.name.clone().unwrap_or_default() };
                    Some(ObjectKey { kind: *kind, name })
                }
                (Watched::Kind(_), Change::Listed(_) | Change::Forbidden) => {
                    // A list is newer than all that waits.
                    while let Some((_, waiting)) = self.inbox.next(|_| true) {
                        self.read(waiting);
                    }
                    None
                }
                (Watched::Configs | Watched::Secrets | Watched::GroupSecrets | Watched::Namespaces, _) => None,
            };
            match object {
                Some(key) => {
                    let namespace = key.name.namespace.clone();
                    self.inbox.push(&namespace, key, message);
                }
                None => self.read(message),
            }
        }
        let began = Instant::now();
        while began.elapsed() < SLICE {
            let (turn, throttle) = (Instant::now(), &self.throttle);
            let Some((namespace, message)) = self.inbox.next(|namespace| throttle.may(namespace, turn)) else { break };
            self.read(message);
            self.throttle.took(&namespace, turn.elapsed(), Instant::now());
        }
        let now = began;
        let dirty = &self.world.dirty;
        for service in dirty.urgent.keys().chain(dirty.services.keys()) {
            if !self.seen.contains_key(service) {
                self.seen.insert(service.clone(), now);
            }
        }
    }

    fn read(&mut self, message: Message) {
        if !self.sources.runs(&message.source) || !self.sources.is_of_now(&message) {
            return;
        }
        self.sources.heard(&message.source, matches!(message.change, Change::Forbidden));
        self.world.apply(&message.source, message.change, Instant::now());
    }

    fn heard(&mut self, news: &mut Vec<Heard>) {
        let now = Instant::now();
        let mut touched = Touched::default();
        for heard in news.drain(..) {
            if let News::Event(AckEvent::Snapshot { .. }) = &heard.news {
                // It says its version.
                self.statuses.slowly(ObjectKey { kind: Kind::GatewayGroup, name: heard.group.clone() });
            }
            touched.merge(self.table.hear(&heard.group, &heard.endpoint, heard.news, now));
        }
        self.touched(touched);
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Status(written) => self.status_written(written),
            Done::Group(reconciled) => self.group_reconciled(*reconciled),
        }
    }

    /// What is due by the clock.
    fn due(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry().filter(|entry| *entry.key() <= now) {
            for again in entry.remove() {
                match again {
                    Again::Exposition(name) => self.world.mark_exposition(&name),
                    Again::Group(name) => drop(self.world.dirty.groups.insert(name)),
                    Again::Status(key) => drop(self.world.dirty.status.insert(key)),
                }
            }
        }
        if self.table.next_tick().is_some_and(|due| due <= now) {
            let touched = self.table.tick(now);
            self.touched(touched);
        }
    }

    fn again(&mut self, after: Duration, again: Again) {
        self.later.entry(Instant::now() + after).or_default().insert(again);
    }

    /// Marks the status of what gateways have said something new of.
    fn touched(&mut self, touched: Touched) {
        for took in touched.loaded {
            self.metrics.programmed(took);
        }
        for name in touched.groups {
            self.statuses.slowly(ObjectKey { kind: Kind::GatewayGroup, name });
        }
        for id in touched.expositions.iter().chain(&touched.counted) {
            let name = ObjectName { namespace: id.namespace.clone(), name: id.name.clone() };
            self.mark_status(&name);
        }
    }

    /// Marks the status of an exposition and of what it uses.
    fn mark_status(&mut self, name: &ObjectName) {
        self.world.dirty.status.insert(ObjectKey { kind: Kind::Exposition, name: name.clone() });
        self.world.dirty.status.extend(self.uses.get(name).into_iter().flatten().cloned());
    }

    fn waits_for(&self) -> Vec<String> {
        let mut waiting = self.sources.waiting_for();
        waiting.extend(self.observed.waiting_for());
        waiting
    }
}
