//! What is served at which path. Readers load a pointer; a reload swaps one exposition at a time.

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

/// What an address answers with.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// The exposition.
    Serving(Arc<Exposition>),
    /// 503 and why.
    Stopped(Stopped),
}

impl State {
    /// The exposition, where it is served.
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
    /// Bytes that tools took in and gave out which are not published any more.
    past: Mutex<Totals>,
    /// Counts the changes of its tools; closed when the address goes away.
    changes: watch::Sender<u64>,
}

impl Slot {
    pub(crate) fn new(id: ExpositionId, state: State) -> Self {
        Self { id, state: ArcSwap::from_pointee(state), past: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// Adds what a tool counted that is going.
    pub(crate) fn retire_totals(&self, totals: Totals) {
        self.past.lock().unwrap_or_else(PoisonError::into_inner).add(totals);
    }

    /// Bytes of all calls since the address came: a count that never falls.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = *self.past.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Serving(exposition) = self.state().as_ref() {
            let mut counted: Option<&ToolSeries> = None;
            for tool in exposition.tools.values() {
                // Without series of their own all tools count into one.
                if counted.is_none_or(|before| !std::ptr::eq(before, Arc::as_ptr(&tool.series))) {
                    totals.add(tool.series.totals());
                }
                counted = Some(&tool.series);
            }
        }
        totals
    }

    /// What it answers with now.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Follows the changes of its tools.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Puts another state in place. Calls under way keep theirs. Whoever follows the slot hears of it if the list of
    /// tools is another.
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
    /// The slot at `namespace/name`.
    pub(crate) fn find(&self, path: &str) -> Option<Arc<Slot>> {
        self.slots.load().get(path).cloned()
    }

    /// All slots.
    pub(crate) fn all(&self) -> Arc<Slots> {
        self.slots.load_full()
    }

    /// Puts another map in place.
    pub(crate) fn replace(&self, slots: Slots) {
        self.slots.store(Arc::new(slots));
    }
}

/// What is loaded and can be shared, held by the expositions that use it.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) services: Services,
    pub(crate) programs: Programs,
    /// How many entries there may be before it is worth looking for ones that nobody uses.
    prune_above: usize,
}

impl Shared {
    /// Forgets what nobody uses any more, once that may be half of it: what one change costs does not grow with what
    /// is held.
    pub(crate) fn prune(&mut self) {
        if self.services.0.len() + self.programs.0.len() <= self.prune_above {
            return;
        }
        self.services.0.retain(|_, service| service.strong_count() > 0);
        self.programs.0.retain(|_, program| program.strong_count() > 0);
        self.prune_above = 64 + 2 * (self.services.0.len() + self.programs.0.len());
    }
}

/// Compiled filters, by what they were compiled from: expositions often share a filter set.
#[derive(Debug, Default)]
pub(crate) struct Programs(HashMap<[u8; 32], Weak<Program>>);

impl Programs {
    /// The program of a filter.
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

/// Services that are loaded.
#[derive(Debug, Default)]
pub(crate) struct Services(BTreeMap<Digest, Weak<Service>>);

impl Services {
    /// The service of that digest, loaded by `load` unless an exposition holds it already.
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
