//! The running operator: [`state`] decides, and this shell carries events in and actions out.
//!
//! The loop waits for nothing but events. Requests run in tasks of their own, and their answers come back as events, so
//! that an API server that is slow or away delays neither acks nor the clock.

mod action;
mod answers;
mod blocked;
mod documents;
mod groups;
mod inbox;
mod pending;
mod perform;
mod pipeline;
mod planning;
mod readable;
mod shards;
mod sleep_detector;
mod sources;
mod state;
mod statuses;
mod sweep;
#[cfg(test)]
mod tests;
mod throttle;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::{FutureExt as _, StreamExt as _};
use kube::Client;
use kube::runtime::events::Reporter;
use tamis_config::ExpositionId;
use tamis_crds::ObjectName;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::acks::{Endpoints, GatewayEvent};
use crate::events::Publisher;
use crate::group::{self, Observed};
use crate::leader::{self, Leadership, LeaseOptions, Permit};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::plan;
use crate::watch::{Message, Source, follow};
use action::{Action, Report};
use perform::Performer;
use sleep_detector::SleepDetector;
use state::{Setup, State, Tick, Turn};

/// The maximum of events of one source that are handled at once: changes that arrive together are planned together.
const BATCH: usize = 4096;
/// How long turns are taken before events are handled again. At least one turn is taken.
const SLICE: Duration = Duration::from_millis(30);
/// The interval at which work that waits for the clock is handled.
const TICK: Duration = Duration::from_millis(50);

/// Runs an operator until `shutdown`, then releases the lease.
///
/// # Errors
/// The operator cannot be set up. Once it runs, it does not fail: it waits for an unavailable API server.
pub async fn run(options: Options, shutdown: CancellationToken) -> anyhow::Result<()> {
    let metrics = Metrics::new().context("metrics")?;
    let waiting = Arc::new(Mutex::new(vec!["the first lists".to_owned()]));
    let shown = Arc::clone(&waiting);
    let waits = move || shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let admin_shutdown = CancellationToken::new();
    let lease = LeaseOptions {
        name: options.lease_name.clone(),
        ..LeaseOptions::new(options.lease_namespace.clone(), options.identity.clone())
    };
    let leadership = leader::run(options.client.clone(), lease, shutdown.clone());
    let (observed, group_changes) = group::watch(&options.client, &options.namespaces);
    let (acks_out, acks) = mpsc::channel(1024);
    let (messages_out, messages) = mpsc::unbounded_channel();
    let admin = tokio::spawn(crate::admin::serve(options.admin, metrics.clone(), waits, admin_shutdown.clone()));
    let setup = Setup {
        settings: plan::Settings {
            default_group: options.default_group,
            controller_name: options.controller_name.clone(),
        },
        namespaces: options.namespaces,
        quotas: options.quotas,
        gateway_admin: options.gateway_admin,
        gateway_admin_token: options.gateway_admin_token,
        metrics,
    };
    let sleep_detector = SleepDetector::start(shutdown.clone());
    let group_settings = group::Settings::new(options.gateway_image, options.own_namespace);
    let reporter = Reporter { controller: options.controller_name, instance: Some(options.identity) };
    let mut shell = Shell {
        state: State::new(setup, Instant::now()),
        performer: Performer::new(
            options.client.clone(),
            leadership.clone(),
            sleep_detector.clone(),
            observed.clone(),
            group_settings,
        ),
        requests: JoinSet::new(),
        watches: HashMap::new(),
        messages: messages_out,
        endpoints: Endpoints::new(acks_out).context("the client towards gateways")?,
        publisher: Publisher::start(options.client.clone(), reporter),
        client: options.client,
        leadership,
        sleep_detector,
        observed,
        waiting,
        shutdown,
    };
    shell.follow(messages, acks, group_changes).await;
    // Requests in flight end, or the lease does, before another operator writes.
    shell.leadership.ended().await;
    admin_shutdown.cancel();
    admin.await.context("the admin listener")
}

/// Performs what the state decides.
struct Shell {
    state: State,
    performer: Performer,
    requests: JoinSet<Report>,
    /// The watches that run. Dropping a guard ends the watch.
    watches: HashMap<Source, DropGuard>,
    messages: mpsc::UnboundedSender<Message>,
    endpoints: Endpoints,
    publisher: Publisher,
    client: Client,
    leadership: Leadership,
    sleep_detector: SleepDetector,
    observed: Observed,
    /// What the operator waits for, for `/readyz`.
    waiting: Arc<Mutex<Vec<String>>>,
    shutdown: CancellationToken,
}

impl Shell {
    async fn follow(
        &mut self,
        mut messages: mpsc::UnboundedReceiver<Message>,
        mut acks: mpsc::Receiver<GatewayEvent>,
        mut group_changes: impl futures_util::Stream<Item = group::Change> + Send + Unpin,
    ) {
        let mut changes = self.leadership.changes();
        let mut over = false;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut watched, mut received) = (Vec::new(), Vec::new());
        loop {
            let has_turn = self.state.has_turn(Instant::now());
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return,
                change = changes.changed(), if !over => over = change.is_err(),
                _ = messages.recv_many(&mut watched, BATCH) => {}
                Some(report) = self.requests.join_next() => self.report(report),
                _ = acks.recv_many(&mut received, BATCH) => {}
                Some(change) = group_changes.next() => self.state.on_group_changed(change, Instant::now()),
                _ = tick.tick() => {}
                // Yields to other tasks of the runtime.
                () = tokio::task::yield_now(), if has_turn => {}
            }
            // A source of events that is never idle must not keep the others waiting.
            while watched.len() < BATCH
                && let Ok(message) = messages.try_recv()
            {
                watched.push(message);
            }
            for message in watched.drain(..) {
                self.state.on_watch_event(message, Instant::now());
            }
            while let Some(report) = self.requests.try_join_next() {
                self.report(report);
            }
            while received.len() < BATCH
                && let Ok(event) = acks.try_recv()
            {
                received.push(event);
            }
            for event in received.drain(..) {
                self.state.on_ack(event, Instant::now());
            }
            while let Some(Some(change)) = group_changes.next().now_or_never() {
                self.state.on_group_changed(change, Instant::now());
            }
            self.take_turns(Turn::Read);
            self.take_turns(Turn::Plan);
            self.step();
        }
    }

    /// Hands the answer to a request to the state.
    fn report(&mut self, report: Result<Report, JoinError>) {
        match report {
            Ok(report) => self.state.on_report(report, Instant::now()),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Tasks are cancelled only together with the shell.
            Err(_) => {}
        }
    }

    /// Takes turns for a while.
    fn take_turns(&mut self, turn: Turn) {
        let began = Instant::now();
        while began.elapsed() < SLICE {
            let at = Instant::now();
            let Some(namespace) = self.state.take_turn(turn, at) else { return };
            self.state.on_turn_taken(turn, &namespace, at.elapsed(), Instant::now());
        }
    }

    /// Lets the state decide, and performs its actions.
    fn step(&mut self) {
        let actions = self.state.step(Tick {
            now: Instant::now(),
            time: jiff::Timestamp::now(),
            term: self.leadership.may_write().as_ref().map(Permit::term),
            sleeps: self.sleep_detector.sleeps(),
            groups_waiting: self.observed.waiting_for(),
        });
        let waiting = self.state.waiting_for().to_vec();
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = waiting;
        for action in actions {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Follow { source, epoch } => {
                let token = self.shutdown.child_token();
                let followed = (source.clone(), epoch);
                tokio::spawn(follow(self.client.clone(), followed, self.messages.clone(), token.clone()));
                self.watches.insert(source, token.drop_guard());
            }
            Action::Unfollow(source) => drop(self.watches.remove(&source)),
            Action::Listen(endpoints) => self.endpoints.set(endpoints),
            Action::Probe(probe) => drop(self.requests.spawn(self.performer.clone().probe(probe))),
            Action::Publish(regarding, events) => self.publisher.publish(regarding, events),
            Action::Write(write) => drop(self.requests.spawn(self.performer.clone().write(write))),
        }
    }
}

fn id(name: &ObjectName) -> ExpositionId {
    ExpositionId { namespace: name.namespace.clone(), name: name.name.clone() }
}
