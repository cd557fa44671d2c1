//! The gateway as whoever embeds it sees it: give it options, then snapshots, then listeners.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tamis_config::{Access, Audit, ExpositionDocument, ExpositionId, Snapshot, Stopped};
use tokio_util::task::TaskTracker;

use crate::audit::Auditor;
use crate::exposition::{Exposition, Tool};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::registry::{Registry, Shared, Slot, Slots, State};
use crate::seal::Sealer;
use crate::serve::Cancellable;
use crate::service::Service;
use crate::upstream::{Client, ClientError};

/// A gateway. Shared by the tasks that serve it and by whoever gives it configurations.
#[derive(Debug)]
pub struct Gateway {
    pub(crate) options: Options,
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) auditor: Auditor,
    pub(crate) sealer: Sealer,
    pub(crate) calls_under_way: AtomicUsize,
    pub(crate) streams_open: AtomicUsize,
    /// Calls that outlive their connection, waited for when the gateway stops.
    pub(crate) detached: TaskTracker,
    pub(crate) draining: AtomicBool,
    /// Legacy calls that their clients may cancel by name.
    pub(crate) cancellable: Cancellable,
    client: Arc<Client>,
    /// Held while a snapshot is applied: one at a time.
    shared: Mutex<Shared>,
    status: Mutex<ReloadStatus>,
}

/// How the last configurations fared, for `/config` and `/readyz`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReloadStatus {
    /// Configurations that were applied.
    pub(crate) applied: u64,
    /// What is wrong with the newest one; none once a good one came.
    pub(crate) error: Option<String>,
    /// Expositions of the last snapshot that could not be loaded, and why.
    pub(crate) failed: Vec<(ExpositionId, String)>,
}

/// The gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The HTTP client towards upstreams.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The metrics.
    #[error("metrics cannot be registered: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The folder of the audit records.
    #[error("the audit folder cannot be used: {0}")]
    Audit(#[from] std::io::Error),
    /// No key for sealed cursors.
    #[error("the system gives no random numbers")]
    Randomness,
}

/// An exposition that could not be loaded.
struct Unloadable {
    stopped: Stopped,
    /// Whether what was served before may go on.
    keeps: bool,
}

/// Whether an exposition may go on in the place of one that cannot be loaded. A broken filter must not delay what
/// tightens: a stricter posture, another access, a tool that is published no more.
fn may_stay(previous: &Exposition, wanted: &ExpositionDocument) -> bool {
    previous.enforcement >= wanted.enforcement
        && previous.access == wanted.access
        && previous.tools.keys().all(|tool| wanted.tools.contains_key(tool))
}

/// What [`Gateway::apply`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// Expositions that are new.
    pub added: Vec<ExpositionId>,
    /// Expositions that were swapped.
    pub changed: Vec<ExpositionId>,
    /// Expositions that are gone.
    pub removed: Vec<ExpositionId>,
    /// Expositions that stayed as they were.
    pub unchanged: usize,
    /// Expositions that could not be loaded and why; each keeps what it had, or answers 503.
    pub failed: Vec<(ExpositionId, String)>,
    /// How long it took.
    pub took: Duration,
}

/// The address may not be listened on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{address} is reachable from other machines and exposition {exposition} has no access: \
     listen on loopback, give it `access`, or pass --insecure-public"
)]
pub struct Exposed {
    /// The address asked for.
    pub address: SocketAddr,
    /// The first exposition that anyone could call.
    pub exposition: ExpositionId,
}

impl Gateway {
    /// Makes a gateway that serves nothing yet.
    ///
    /// # Errors
    /// [`StartError`] where the client, the audit folder or the random numbers cannot be had.
    pub fn new(options: Options) -> Result<Arc<Self>, StartError> {
        Ok(Arc::new(Self {
            client: Arc::new(Client::new(options.client.clone())?),
            registry: Registry::default(),
            metrics: Metrics::new()?,
            auditor: Auditor::new(options.audit_dir.clone())?,
            sealer: Sealer::new().ok_or(StartError::Randomness)?,
            calls_under_way: AtomicUsize::new(0),
            streams_open: AtomicUsize::new(0),
            detached: TaskTracker::new(),
            draining: AtomicBool::new(false),
            cancellable: Cancellable::default(),
            shared: Mutex::default(),
            status: Mutex::default(),
            options,
        }))
    }

    /// Serves `snapshot` from now on: loads what differs and swaps exposition by exposition. A call in flight keeps
    /// the exposition that it started with; what is equal stays as it is.
    pub fn apply(&self, snapshot: &Snapshot) -> ReloadReport {
        let started = Instant::now();
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.registry.all();
        let mut report = ReloadReport::default();
        let mut slots: Slots = HashMap::with_capacity(snapshot.expositions.len() + snapshot.stopped.len());
        for (id, document) in &snapshot.expositions {
            let path = id.to_string();
            let slot = before.get(path.as_str());
            let state = slot.map(|slot| slot.state());
            let previous = state.as_deref().and_then(State::serving);
            if let (Some(slot), Some(previous)) = (slot, previous)
                && previous.is_of(document)
            {
                report.unchanged += 1;
                slots.insert(path.into(), Arc::clone(slot));
                continue;
            }
            let loaded = self.load(&mut shared, snapshot, document, previous.map(AsRef::as_ref));
            let next = match loaded {
                Ok(exposition) => State::Serving(Arc::new(exposition)),
                Err(Unloadable { stopped, keeps }) => {
                    report.failed.push((id.clone(), stopped.message.clone()));
                    match previous.filter(|previous| keeps && may_stay(previous, document)) {
                        Some(previous) => State::Serving(Arc::clone(previous)),
                        None => State::Stopped(stopped),
                    }
                }
            };
            self.place(slot, id, next, &mut slots, &mut report);
        }
        for (id, stopped) in &snapshot.stopped {
            let slot = before.get(id.to_string().as_str());
            self.place(slot, id, State::Stopped(stopped.clone()), &mut slots, &mut report);
        }
        for (path, slot) in before.iter().filter(|(path, _)| !slots.contains_key(*path)) {
            tracing::debug!(exposition = %path, "exposition removed");
            report.removed.push(slot.id.clone());
            retire(&self.metrics, slot.state().serving().map(AsRef::as_ref), None);
        }
        report.removed.sort();
        let serving = slots.values().filter(|slot| slot.state().serving().is_some()).count();
        self.metrics.expositions.set(i64::try_from(serving).unwrap_or(i64::MAX));
        if !report.added.is_empty() || !report.removed.is_empty() {
            self.registry.replace(slots);
        }
        shared.prune();
        drop(shared);
        report.took = started.elapsed();
        self.note(&report);
        report
    }

    /// Puts a state at an address, new or not.
    fn place(
        &self,
        slot: Option<&Arc<Slot>>,
        id: &ExpositionId,
        next: State,
        slots: &mut Slots,
        report: &mut ReloadReport,
    ) {
        let path = id.to_string().into();
        let Some(slot) = slot else {
            report.added.push(id.clone());
            slots.insert(path, Arc::new(Slot::new(id.clone(), next)));
            return;
        };
        let before = slot.state();
        let same = match (before.as_ref(), &next) {
            (State::Serving(a), State::Serving(b)) => Arc::ptr_eq(a, b),
            (State::Stopped(a), State::Stopped(b)) => a == b,
            _ => false,
        };
        if same {
            report.unchanged += 1;
        } else {
            report.changed.push(id.clone());
            let kept = next.serving().cloned();
            slot.swap(next);
            retire(&self.metrics, before.serving().map(AsRef::as_ref), kept.as_deref());
        }
        slots.insert(path, Arc::clone(slot));
    }

    fn load(
        &self,
        shared: &mut Shared,
        snapshot: &Snapshot,
        document: &Arc<ExpositionDocument>,
        previous: Option<&Exposition>,
    ) -> Result<Exposition, Unloadable> {
        let fail = |reason: &'static str, message, keeps| Unloadable {
            stopped: Stopped { reason: reason.into(), message },
            keeps,
        };
        if self.options.require_access && document.access.is_none() {
            let message = "access: say who may call, `anonymous: true` for everyone";
            return Err(fail("AccessRequired", message.to_owned(), false));
        }
        if document.audit == Audit::Full && !self.auditor.keeps_files() {
            let message = "audit.mode: Full needs a folder for the records";
            return Err(fail("InvalidManifest", message.to_owned(), false));
        }
        let Some(service) = snapshot.services.get(&document.service) else {
            let message = format!("service {} is not in the snapshot", document.service);
            return Err(fail("ServiceNotFound", message, false));
        };
        let service = shared
            .services
            .get(&document.service, || Service::load(&document.service, service, &self.client))
            .map_err(|message| fail("InvalidManifest", message, true))?;
        let namespace = &document.id.namespace;
        service.upstream.reachable_from(namespace).map_err(|message| fail("EgressDenied", message, false))?;
        Exposition::load(document, &service, previous, self.options.tool_series, &mut shared.programs)
            .map_err(|message| fail("InvalidFilter", message, true))
    }

    fn note(&self, report: &ReloadReport) {
        self.metrics.reload_duration.observe(report.took.as_secs_f64());
        self.metrics.reloaded(if report.failed.is_empty() { "applied" } else { "partial" });
        for (id, message) in &report.failed {
            tracing::error!(exposition = %id, "exposition could not be loaded: {message}");
        }
        tracing::info!(
            added = report.added.len(),
            changed = report.changed.len(),
            removed = report.removed.len(),
            unchanged = report.unchanged,
            failed = report.failed.len(),
            took_us = u64::try_from(report.took.as_micros()).unwrap_or(u64::MAX),
            "configuration applied"
        );
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        *status = ReloadStatus { applied: status.applied + 1, error: None, failed: report.failed.clone() };
    }

    /// Notes a configuration that was offered but is broken: what is served stays, and `/config` and
    /// `tamis_config_reloads_total{result="failed"}` say so.
    pub fn note_reload_error(&self, message: impl Into<String>) {
        let message = message.into();
        tracing::error!("configuration not applied: {message}");
        self.metrics.reloaded("failed");
        self.status.lock().unwrap_or_else(PoisonError::into_inner).error = Some(message);
    }

    pub(crate) fn reload_status(&self) -> ReloadStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether `address` may be listened on with `snapshot`: beyond loopback only if every exposition says who may
    /// call.
    ///
    /// # Errors
    /// [`Exposed`] names the first exposition that says nothing.
    pub fn check_listen(&self, address: SocketAddr, snapshot: &Snapshot, insecure_public: bool) -> Result<(), Exposed> {
        if address.ip().is_loopback() || insecure_public {
            return Ok(());
        }
        let open = |document: &ExpositionDocument| match &document.access {
            None => true,
            Some(Access::Anonymous) => false,
            // Kinds of access that are to come authenticate.
            Some(_) => false,
        };
        match snapshot.expositions.values().find(|document| open(document)) {
            None => Ok(()),
            Some(document) => Err(Exposed { address, exposition: document.id.clone() }),
        }
    }
}

/// Takes away the series of what `kept` does not use any more.
fn retire(metrics: &Metrics, before: Option<&Exposition>, kept: Option<&Exposition>) {
    let Some(before) = before else { return };
    for (name, tool) in &before.tools {
        let same = |kept: &Tool| Arc::ptr_eq(&kept.series, &tool.series);
        let lives =
            kept.is_some_and(|k| k.tools.get(name).is_some_and(same) || k.tools.values().next().is_some_and(same));
        if !lives {
            tool.series.retire(metrics);
        }
    }
    if kept.is_none_or(|kept| !Arc::ptr_eq(&kept.series, &before.series)) {
        before.series.retire(metrics);
    }
}
