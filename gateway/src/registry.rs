//! The expositions by path. Readers load a pointer; a reload swaps one exposition at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use sha2::{Digest as _, Sha256};
use tamis_config::{Digest, ExpositionId, Stopped};
use tamis_engine::{CompileOptions, Program, Severity, ToolFilter};
use tokio::sync::watch;

use crate::exposition::{Exposition, Toolset};
use crate::metrics::Totals;
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
    pub(crate) id: Arc<ExpositionId>,
    state: ArcSwap<State>,
    /// The totals of tools that are no longer published.
    past: Mutex<Totals>,
    /// Counts the changes of the list of tools; closed when the address is removed. Created by the first subscriber.
    changes: Mutex<Option<watch::Sender<u64>>>,
}

impl Slot {
    pub(crate) fn new(id: Arc<ExpositionId>, state: State) -> Self {
        Self { id, state: ArcSwap::from_pointee(state), past: Mutex::default(), changes: Mutex::default() }
    }

    /// Adds the totals that `retire` returns, those of series that it removes. [`Slot::totals`] counts them as long as the
    /// series exist, and from then on here.
    pub(crate) fn retire_totals(&self, retire: impl FnOnce() -> Totals) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.add(retire());
    }

    /// Returns the bytes of all calls since the address was added. This count never decreases.
    pub(crate) fn totals(&self) -> Totals {
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = *past;
        if let State::Serving(exposition) = self.state().as_ref() {
            totals.add(exposition.series.totals());
        }
        totals
    }

    /// Returns the current state.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Subscribes to changes of the list of tools.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.get_or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Notifies subscribers that the list of tools has changed.
    pub(crate) fn notify(&self) {
        if let Some(changes) = &*self.changes.lock().unwrap_or_else(PoisonError::into_inner) {
            changes.send_modify(|count| *count += 1);
        }
    }

    /// Replaces the state. Calls in flight keep the previous one. Subscribers are notified if the list of tools
    /// differs.
    pub(crate) fn swap(&self, state: State) {
        let listed = |state: &State| state.serving().map(|e| e.set.list_digest);
        let after = listed(&state);
        let before = listed(&self.state.swap(Arc::new(state)));
        if before != after {
            // Locked after the swap: who subscribes after this sees the new list.
            self.notify();
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

/// Services, programs and sets of tools that expositions share. The expositions that use them hold them.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) services: Services,
    pub(crate) programs: Programs,
    pub(crate) toolsets: Toolsets,
    /// The number of entries above which unused ones are removed.
    prune_above: usize,
}

impl Shared {
    /// Removes unused entries, once they may be half of all. The cost of one change therefore does not grow with the
    /// number of entries.
    pub(crate) fn prune(&mut self) {
        let Self { services, programs, toolsets, prune_above } = self;
        let entries = |services: &Services, programs: &Programs, toolsets: &Toolsets| {
            services.0.len() + programs.0.len() + toolsets.0.len()
        };
        if entries(services, programs, toolsets) <= *prune_above {
            return;
        }
        services.0.retain(|_, service| service.strong_count() > 0);
        programs.0.retain(|_, program| program.strong_count() > 0);
        toolsets.0.retain(|_, tools| tools.strong_count() > 0);
        *prune_above = 64 + 2 * entries(services, programs, toolsets);
    }
}

/// Sets of tools, by a digest of all that they are made of.
#[derive(Debug, Default)]
pub(crate) struct Toolsets(HashMap<[u8; 32], Weak<Toolset>>);

impl Toolsets {
    /// Returns the set with this digest, loaded by `load` unless an exposition holds it already.
    pub(crate) fn get(
        &mut self,
        digest: [u8; 32],
        load: impl FnOnce() -> Result<Toolset, String>,
    ) -> Result<Arc<Toolset>, String> {
        if let Some(tools) = self.0.get(&digest).and_then(Weak::upgrade) {
            return Ok(tools);
        }
        let tools = Arc::new(load()?);
        self.0.insert(digest, Arc::downgrade(&tools));
        Ok(tools)
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
