//! The expositions by path. Readers load a pointer; a reload swaps one exposition at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use sha2::{Digest as _, Sha256};
use tamis_config::{Digest, ExpositionId, Stopped};
use tamis_engine::{CompileOptions, Program, Severity, ToolFilter};
use tokio::sync::watch;

use crate::exposition::Exposition;
use crate::metrics::{ToolSeries, Totals};
use crate::service::Service;

/// The state of an address.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// It serves this exposition.
    Serving(Arc<Exposition>),
    /// It answers 503, for this reason.
    Stopped(Stopped),
}

impl State {
    /// Returns the exposition, if it is served.
    pub(crate) fn serving(&self) -> Option<&Arc<Exposition>> {
        match self {
            Self::Serving(exposition) => Some(exposition),
            Self::Stopped(_) => None,
        }
    }
}

/// One address, for as long as a document names it.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Its name.
    pub(crate) id: ExpositionId,
    state: ArcSwap<State>,
    /// The totals of tools that are no longer published.
    past: Mutex<Totals>,
    /// Counts the changes of the list of tools; closed when the address is removed.
    changes: watch::Sender<u64>,
}

impl Slot {
    pub(crate) fn new(id: ExpositionId, state: State) -> Self {
        Self { id, state: ArcSwap::from_pointee(state), past: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// Adds the totals of a tool that is being removed.
    pub(crate) fn retire_totals(&self, totals: Totals) {
        self.past.lock().unwrap_or_else(PoisonError::into_inner).add(totals);
    }

    /// Returns the bytes of all calls since the address was added. This count never decreases.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = *self.past.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Serving(exposition) = self.state().as_ref() {
            let mut counted: Option<&ToolSeries> = None;
            for tool in exposition.tools.values() {
                // If tools have no series of their own, all share one, which counts once.
                if counted.is_none_or(|before| !std::ptr::eq(before, Arc::as_ptr(&tool.series))) {
                    totals.add(tool.series.totals());
                }
                counted = Some(&tool.series);
            }
        }
        totals
    }

    /// Returns the current state.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Subscribes to changes of the list of tools.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Replaces the state. Calls in flight keep the previous one. Subscribers are notified if the list of tools
    /// differs.
    pub(crate) fn swap(&self, state: State) {
        let listed = |state: &State| state.serving().map(|e| e.list_digest);
        let after = listed(&state);
        let before = listed(&self.state.swap(Arc::new(state)));
        if before != after {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}

/// The addresses by `namespace/name`.
pub(crate) type Slots = HashMap<Arc<str>, Arc<Slot>>;

/// The map of addresses.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    slots: ArcSwap<Slots>,
}

impl Registry {
    /// Returns the slot at `namespace/name`.
    pub(crate) fn find(&self, path: &str) -> Option<Arc<Slot>> {
        self.slots.load().get(path).cloned()
    }

    /// Returns all slots.
    pub(crate) fn all(&self) -> Arc<Slots> {
        self.slots.load_full()
    }

    /// Replaces the map.
    pub(crate) fn replace(&self, slots: Slots) {
        self.slots.store(Arc::new(slots));
    }
}

/// Services and programs that expositions share. The expositions that use them hold them.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) services: Services,
    pub(crate) programs: Programs,
    /// The number of entries above which unused ones are removed.
    prune_above: usize,
}

impl Shared {
    /// Removes unused entries, once they may be half of all. The cost of one change therefore does not grow with the
    /// number of entries.
    pub(crate) fn prune(&mut self) {
        if self.services.0.len() + self.programs.0.len() <= self.prune_above {
            return;
        }
        self.services.0.retain(|_, service| service.strong_count() > 0);
        self.programs.0.retain(|_, program| program.strong_count() > 0);
        self.prune_above = 64 + 2 * (self.services.0.len() + self.programs.0.len());
    }
}

/// Compiled filters, by a digest of filter and options. Expositions often share a filter set.
#[derive(Debug, Default)]
pub(crate) struct Programs(HashMap<[u8; 32], Weak<Program>>);

impl Programs {
    /// Returns the program of a filter, compiled unless an exposition holds it already.
    ///
    /// # Errors
    /// The first error that the compiler found.
    pub(crate) fn get(&mut self, filter: &ToolFilter, options: &CompileOptions) -> Result<Arc<Program>, String> {
        let mut hash = Sha256::new();
        hash.update(format!("{options:?}\n"));
        hash.update(serde_json::to_vec(filter).expect("filters serialise"));
        let key = hash.finalize().into();
        if let Some(program) = self.0.get(&key).and_then(Weak::upgrade) {
            return Ok(program);
        }
        let compiled = tamis_engine::compile(filter, options);
        let Some(program) = compiled.program.map(Arc::new) else {
            let error = compiled.findings.iter().find(|f| f.severity == Severity::Error);
            return Err(error.map_or_else(|| "the filter does not compile".to_owned(), ToString::to_string));
        };
        self.0.insert(key, Arc::downgrade(&program));
        Ok(program)
    }
}

/// Loaded services, by digest.
#[derive(Debug, Default)]
pub(crate) struct Services(BTreeMap<Digest, Weak<Service>>);

impl Services {
    /// Returns the service with this digest, loaded by `load` unless an exposition holds it already.
    pub(crate) fn get(
        &mut self,
        digest: &Digest,
        load: impl FnOnce() -> Result<Service, String>,
    ) -> Result<Arc<Service>, String> {
        if let Some(service) = self.0.get(digest).and_then(Weak::upgrade) {
            return Ok(service);
        }
        let service = Arc::new(load()?);
        self.0.insert(digest.clone(), Arc::downgrade(&service));
        Ok(service)
    }
}
