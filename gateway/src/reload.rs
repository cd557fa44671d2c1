//! How documents become what is served: loads what differs, swaps exposition by exposition, keeps what may stay.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tamis_config::carrier::Unreadable;
use tamis_config::{
    Audit, BundleDocument, ExpositionDocument, ExpositionId, Reason, ServiceDocument, Snapshot, Stopped, reads,
};

use crate::bundle::{self, Bundle};
use crate::exposition::{Exposition, too_large};
use crate::expressions::Sum;
use crate::gateway::Gateway;
use crate::metrics::Metrics;
use crate::registry::{ListKind, Shared, Slot, Slots, State};
use crate::service::Service;
use crate::watch::Watch;

/// What is to become of one exposition.
#[derive(Debug, Clone)]
pub enum Change {
    /// It is served as the document says, over the service that the document names.
    Serve(Arc<ExpositionDocument>, Arc<ServiceDocument>),
    /// It is served as a bundle. The parts come with changes of their own, before or after this one.
    Bundle(Arc<BundleDocument>),
    /// It answers 503, whatever was served before.
    Stop(ExpositionId, Stopped),
    /// What was served stays; where nothing was, it answers 503.
    Keep(ExpositionId, Stopped),
    /// Its address goes away.
    Remove(ExpositionId),
}

impl Change {
    /// Whose it is.
    #[must_use]
    pub fn id(&self) -> &ExpositionId {
        match self {
            Self::Serve(document, _) => &document.id,
            Self::Bundle(document) => &document.id,
            Self::Stop(id, _) | Self::Keep(id, _) | Self::Remove(id) => id,
        }
    }
}

/// What [`Gateway::apply`] or [`Gateway::update`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// Expositions that are new.
    pub added: Vec<ExpositionId>,
    /// Expositions that were swapped.
    pub changed: Vec<ExpositionId>,
    /// Expositions that are gone.
    pub removed: Vec<ExpositionId>,
    /// Expositions that were given and stayed as they were.
    pub unchanged: usize,
    /// Expositions that could not be loaded and why; each keeps what it had, or answers 503.
    pub failed: Vec<Failure>,
    /// How long it took.
    pub took: Duration,
}

/// An exposition that could not be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its name.
    pub id: ExpositionId,
    /// The reason.
    pub reason: Reason,
    /// Names the field and the remedy.
    pub message: String,
}

/// A document that cannot be loaded.
struct Unloadable {
    stopped: Stopped,
    /// Whether what was served before may go on.
    keeps: bool,
}

/// Whether an exposition may go on in the place of one that cannot be loaded. A broken filter must not delay what
/// tightens: stricter enforcement, another access, a tool or a prompt that is published no more.
fn may_stay(previous: &Exposition, wanted: &ExpositionDocument) -> bool {
    previous.enforcement >= wanted.enforcement
        && previous.access == wanted.access
        && previous.tools().keys().all(|tool| wanted.may_publish(tool))
        && previous.content().is_none_or(|content| content.is_within(&wanted.content))
}

impl Gateway {
    /// Serves `snapshot` and nothing else from now on: loads what differs and swaps exposition by exposition. A call in
    /// flight keeps the exposition that it started with; what is equal stays as it is.
    pub fn apply(&self, snapshot: &Snapshot) -> ReloadReport {
        self.apply_with(snapshot, None)
    }

    /// Serves `snapshot`, which is what is left of a configuration with errors: `problem` is logged in place of a success, and
    /// shown at `/config` and in `tamis_config_reloads_total{result="failed"}` until a configuration without errors comes.
    pub fn apply_in_part(&self, snapshot: &Snapshot, problem: String) -> ReloadReport {
        self.apply_with(snapshot, Some(problem))
    }

    fn apply_with(&self, snapshot: &Snapshot, problem: Option<String>) -> ReloadReport {
        let mut reload = Reload::begin(self);
        for (id, document) in &snapshot.expositions {
            reload.serve(id, document, snapshot.services.get(&document.service));
        }
        for document in snapshot.bundles.values() {
            reload.serve_bundle(document);
        }
        for (id, stopped) in &snapshot.stopped {
            reload.place(id, State::Stopped(stopped.clone()));
        }
        let Snapshot { services: _, expositions, bundles, stopped } = snapshot;
        let named =
            |id: &ExpositionId| expositions.contains_key(id) || bundles.contains_key(id) || stopped.contains_key(id);
        let gone: Vec<_> =
            reload.before.values().map(|slot| ExpositionId::clone(&slot.id)).filter(|id| !named(id)).collect();
        for id in &gone {
            reload.remove(id);
        }
        reload.end(None, problem)
    }

    /// Changes some expositions and leaves the others alone. What it costs depends on the changes only, but for a new
    /// or removed address: that copies the table of addresses, once for all of them. Of several changes to one
    /// exposition the last counts.
    pub fn update(&self, changes: &[Change]) -> ReloadReport {
        let mut reload = Reload::begin(self);
        for change in changes {
            match change {
                Change::Serve(document, service) => reload.serve(&document.id, document, Some(service)),
                Change::Bundle(document) => reload.serve_bundle(document),
                Change::Stop(id, stopped) => reload.place(id, State::Stopped(stopped.clone())),
                Change::Keep(id, stopped) => {
                    let state = reload.slot(id).map(|slot| State::clone(&slot.state()));
                    let kept = state.filter(State::is_served);
                    reload.place(id, kept.unwrap_or_else(|| State::Stopped(stopped.clone())));
                }
                Change::Remove(id) => reload.remove(id),
            }
        }
        reload.end(Some(changes), None)
    }
}

impl Gateway {
    /// Loads the expositions of a followed server again, over the tools that it lists now.
    pub(crate) fn publish_listed(&self, watch: &Arc<Watch>) {
        let mut reload = Reload::begin(self);
        for slot in reload.before.clone().values() {
            let state = slot.state();
            let Some(previous) = state.serving().filter(|exposition| exposition.is_watched_by(watch)) else { continue };
            let Some(document) = previous.followed.clone() else { continue };
            let loaded = Exposition::load(&document, &watch.service, Some(previous), self, &mut reload.shared)
                .map_err(|message| message.to_string())
                .and_then(|exposition| reload.within_bounds(exposition).map_err(|refused| refused.stopped.message));
            match loaded {
                Ok(exposition) => reload.place(&document.id, State::Serving(Arc::new(exposition))),
                Err(message) => tracing::error!(
                    exposition = %document.id, "the server's tools cannot be published; the previous ones stay: {message}"
                ),
            }
        }
        reload.shared.prune();
        let Reload { relisted, report, shared, .. } = reload;
        drop(shared);
        relisted.iter().for_each(|(part, lists)| self.registry.notify_bundles(part, &Vec::from_iter(lists.clone())));
        self.acks.touch(report.changed);
    }
}

/// A configuration that is being applied.
struct Reload<'a> {
    gateway: &'a Gateway,
    shared: MutexGuard<'a, Shared>,
    started: Instant,
    before: Arc<Slots>,
    /// Addresses that come, and those that go.
    differing: HashMap<Arc<str>, Option<Arc<Slot>>>,
    /// Addresses whose bundles list something else than before.
    relisted: BTreeMap<Arc<str>, BTreeSet<ListKind>>,
    /// How many more expositions are served than before.
    more: i64,
    report: ReloadReport,
}

impl<'a> Reload<'a> {
    fn begin(gateway: &'a Gateway) -> Self {
        let started = Instant::now();
        // One at a time; a reader never waits for this lock.
        let shared = gateway.shared.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            gateway,
            shared,
            started,
            before: gateway.registry.all(),
            differing: HashMap::new(),
            relisted: BTreeMap::new(),
            more: 0,
            report: ReloadReport::default(),
        }
    }

    /// What answers at an exposition's address as far as this reload has come.
    fn slot(&self, id: &ExpositionId) -> Option<Arc<Slot>> {
        let path = id.to_string();
        match self.differing.get(path.as_str()) {
            Some(differing) => differing.clone(),
            None => self.before.get(path.as_str()).cloned(),
        }
    }

    fn serve(&mut self, id: &ExpositionId, document: &Arc<ExpositionDocument>, service: Option<&Arc<ServiceDocument>>) {
        let state = self.slot(id).map(|slot| slot.state());
        let previous = state.as_deref().and_then(State::serving);
        if previous.is_some_and(|previous| previous.is_of(document)) {
            self.report.unchanged += 1;
            return;
        }
        let loaded = load(self.gateway, &mut self.shared, document, service, previous.map(AsRef::as_ref))
            .and_then(|exposition| self.within_bounds(exposition));
        let next = match loaded {
            Ok(exposition) => State::Serving(Arc::new(exposition)),
            Err(Unloadable { stopped, keeps }) => {
                let Stopped { reason, message } = stopped.clone();
                self.report.failed.push(Failure { id: id.clone(), reason, message });
                match previous.filter(|previous| keeps && may_stay(previous, document)) {
                    Some(previous) => State::Serving(Arc::clone(previous)),
                    None => State::Stopped(stopped),
                }
            }
        };
        self.place(id, next);
    }

    fn serve_bundle(&mut self, document: &Arc<BundleDocument>) {
        let id = &document.id;
        let state = self.slot(id).map(|slot| slot.state());
        let previous = state.as_deref().and_then(State::bundle);
        if previous.is_some_and(|previous| previous.is_of(document)) {
            self.report.unchanged += 1;
            return;
        }
        let next = match Bundle::load(document, previous.map(AsRef::as_ref), self.gateway) {
            Ok(bundle) => State::Bundle(Arc::new(bundle)),
            Err(stopped) => {
                let Stopped { reason, message } = stopped.clone();
                self.report.failed.push(Failure { id: id.clone(), reason, message });
                // A version that this gateway cannot read must not delay what tightens.
                let stays = |previous: &&Arc<Bundle>| {
                    let names = |path: &str| document.parts.iter().any(|part| document.id_of(part).to_string() == path);
                    previous.access == document.access && previous.parts.iter().all(|part| names(&part.path))
                };
                match previous.filter(stays) {
                    Some(previous) if reason == Reason::GatewayTooOld => State::Bundle(Arc::clone(previous)),
                    _ => State::Stopped(stopped),
                }
            }
        };
        self.place(id, next);
    }

    /// Checks what the expressions of the filters take, together with those of all expositions but the one that this one
    /// replaces: what goes needs no room. The sum of a namespace has a bound of its own, so that a namespace leaves room
    /// to others whatever is loaded first.
    fn within_bounds(&self, exposition: Exposition) -> Result<Exposition, Unloadable> {
        if exposition.set.expressions.is_empty() {
            return Ok(exposition);
        }
        let stays = self.before.iter().filter(|(path, _)| !self.differing.contains_key(*path)).map(|(_, slot)| slot);
        let (mut all, mut own) = (Sum::default(), Sum::default());
        for slot in stays.chain(self.differing.values().flatten()).filter(|slot| slot.id != exposition.id) {
            let state = slot.state();
            let Some(other) = state.serving() else { continue };
            all.add(&other.set.expressions);
            if slot.id.namespace == exposition.id.namespace {
                own.add(&other.set.expressions);
            }
        }
        all.add(&exposition.set.expressions);
        own.add(&exposition.set.expressions);
        let limits = &self.gateway.options.limits;
        let bounds = [(own, limits.namespace_expressions, "namespace"), (all, limits.expressions, "gateway group")];
        match bounds.into_iter().find(|(sum, most, _)| sum.bytes() > *most) {
            None => Ok(exposition),
            Some((_, most, whose)) => {
                let stopped = Stopped { reason: Reason::QuotaExceeded, message: too_large(whose, most) };
                Err(Unloadable { stopped, keeps: true })
            }
        }
    }

    /// Puts a state at an address, new or not.
    fn place(&mut self, id: &ExpositionId, next: State) {
        let serves = i64::from(next.is_served());
        let path: Arc<str> = id.to_string().into();
        let Some(slot) = self.slot(id) else {
            self.more += serves;
            self.report.added.push(id.clone());
            let name = next.id().map_or_else(|| Arc::new(id.clone()), Arc::clone);
            self.gateway.registry.link(&path, None, next.bundle().map(AsRef::as_ref));
            self.relisted.insert(Arc::clone(&path), next.lists().collect());
            self.differing.insert(path, Some(Arc::new(Slot::new(name, next))));
            return;
        };
        let before = slot.state();
        if before.is_same(&next) {
            self.report.unchanged += 1;
            return;
        }
        self.more += serves - i64::from(before.is_served());
        self.report.changed.push(id.clone());
        if let State::Serving(kept) = &next {
            kept.series.publish(&kept.set);
        }
        self.gateway.registry.link(&path, before.bundle().map(AsRef::as_ref), next.bundle().map(AsRef::as_ref));
        let lists = slot.swap(next.clone());
        if !lists.is_empty() {
            self.relisted.entry(path).or_default().extend(lists);
        }
        retire(&self.gateway.metrics, &slot, &before, Some(&next));
    }

    fn remove(&mut self, id: &ExpositionId) {
        let Some(slot) = self.slot(id) else { return };
        tracing::debug!(exposition = %id, "exposition removed");
        let state = slot.state();
        self.more -= i64::from(state.is_served());
        self.report.removed.push(id.clone());
        let path: Arc<str> = id.to_string().into();
        self.gateway.registry.link(&path, state.bundle().map(AsRef::as_ref), None);
        self.relisted.entry(Arc::clone(&path)).or_default().extend(state.lists());
        self.differing.insert(path, None);
        retire(&self.gateway.metrics, &slot, &state, None);
    }

    /// Publishes addresses, and says what was done. Without `given`, nothing is served that was not given.
    fn end(mut self, given: Option<&[Change]>, problem: Option<String>) -> ReloadReport {
        if !self.differing.is_empty() {
            let mut slots = Slots::clone(&self.before);
            for (path, slot) in self.differing {
                match slot {
                    Some(slot) => slots.insert(path, slot),
                    None => slots.remove(&path),
                };
            }
            self.gateway.registry.replace(slots);
        }
        for (path, lists) in &self.relisted {
            load_vocabularies(self.gateway, path);
            bundle::note_taken(self.gateway, path);
            self.gateway.registry.notify_bundles(path, &Vec::from_iter(lists.clone()));
        }
        self.gateway.metrics.expositions.add(self.more);
        self.report.removed.sort();
        self.report.took = self.started.elapsed();
        note(self.gateway, &self.report, given, problem);
        self.shared.prune();
        self.report
    }
}

fn load(
    gateway: &Gateway,
    shared: &mut Shared,
    document: &Arc<ExpositionDocument>,
    service: Option<&Arc<ServiceDocument>>,
    previous: Option<&Exposition>,
) -> Result<Exposition, Unloadable> {
    let fail = |reason, message, keeps| Unloadable { stopped: Stopped { reason, message }, keeps };
    if !reads(document.format_version) {
        let message = Unreadable::TooNew(document.format_version).to_string();
        return Err(fail(Reason::GatewayTooOld, message, true));
    }
    if gateway.options.require_access && document.access.is_none() {
        let message = "access: say who may call, `anonymous: true` for everyone";
        return Err(fail(Reason::AccessRequired, message.to_owned(), false));
    }
    if document.audit == Audit::Full && !gateway.auditor.keeps_files() {
        let message = "audit.mode: Full needs a folder for the records";
        return Err(fail(Reason::InvalidManifest, message.to_owned(), false));
    }
    let Some(service) = service else {
        let message = format!("service {} is not in the snapshot", document.service);
        return Err(fail(Reason::ServiceNotFound, message, false));
    };
    let service = shared
        .services
        .get(&document.service, || Service::load(&document.service, service, &gateway.client))
        .map_err(|message| fail(Reason::InvalidManifest, message, true))?;
    let namespace = &document.id.namespace;
    service.upstream.reachable_from(namespace).map_err(|message| fail(Reason::EgressDenied, message, false))?;
    Exposition::load(document, &service, previous, gateway, shared)
        .map_err(|message| fail(Reason::InvalidFilter, message, true))
}

/// Counts, logs and remembers what became of a configuration.
fn note(gateway: &Gateway, report: &ReloadReport, given: Option<&[Change]>, problem: Option<String>) {
    gateway.metrics.reload_duration.observe(report.took.as_secs_f64());
    gateway.metrics.reloaded(match (&problem, report.failed.is_empty()) {
        (Some(_), _) => "failed",
        (None, true) => "applied",
        (None, false) => "partial",
    });
    for Failure { id, reason, message } in &report.failed {
        tracing::error!(exposition = %id, %reason, "exposition could not be loaded: {message}");
    }
    let mut status = gateway.status.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(problem) = &problem {
        tracing::error!("configuration not applied as a whole: {problem}");
    } else {
        tracing::info!(
            added = report.added.len(),
            changed = report.changed.len(),
            removed = report.removed.len(),
            unchanged = report.unchanged,
            failed = report.failed.len(),
            took_us = u64::try_from(report.took.as_micros()).unwrap_or(u64::MAX),
            "{}",
            if status.error.is_some() {
                "configuration applied; its errors are resolved"
            } else {
                "configuration applied"
            }
        );
    }
    status.applied += 1;
    status.error = problem;
    match given {
        None => status.failed.clear(),
        Some(given) => given.iter().for_each(|change| drop(status.failed.remove(change.id()))),
    }
    status.failed.extend(report.failed.iter().map(|failure| (failure.id.clone(), failure.message.clone())));
}

/// Loads what counts the tokens of a new part, for its bundles, and of the parts of a new bundle: never during a call.
fn load_vocabularies(gateway: &Gateway, path: &str) {
    let own = gateway.registry.find(path);
    for slot in own.into_iter().chain(gateway.registry.bundles_of(path)) {
        let state = slot.state();
        let Some(bundle) = state.bundle().filter(|bundle| bundle.limits.output.tokens.is_some()) else { continue };
        for part in bundle.parts.iter().filter_map(|part| gateway.registry.find(&part.path)) {
            if let State::Serving(exposition) = part.state().as_ref() {
                exposition.load_vocabulary();
            }
        }
    }
}

/// Removes the series that `kept` does not use any more; the slot keeps their totals.
fn retire(metrics: &Metrics, slot: &Slot, before: &State, kept: Option<&State>) {
    let Some(series) = before.series() else { return };
    let stays = kept.and_then(State::series).is_some_and(|kept| Arc::ptr_eq(kept, series));
    slot.retire_totals(|| {
        let mut totals = if stays { series.retire_missing(metrics) } else { series.retire(metrics) };
        // A bundle counts by itself.
        if let (Some(bundle), false) = (before.bundle(), stays) {
            totals.add(bundle.totals.get());
        }
        totals
    });
}
