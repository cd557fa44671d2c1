//! The expositions by path. Readers load a pointer; a reload swaps one exposition at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use sha2::{Digest as _, Sha256};
use tamis_config::{Digest, ExpositionId, Stopped};
use tamis_engine::{CompileOptions, Program, Severity, ToolFilter};
use tokio::sync::watch;

use crate::bundle::Bundle;
use crate::exposition::{Exposition, Toolset};
use crate::metrics::{ExpositionSeries, Totals};
use crate::service::Service;

/// The state of an address.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// It serves this exposition.
    Serving(Arc<Exposition>),
    /// It serves this bundle.
    Bundle(Arc<Bundle>),
    /// It answers 503, for this reason.
    Stopped(Stopped),
}

impl State {
    /// Returns the exposition, if it is served and no bundle.
    pub(crate) fn serving(&self) -> Option<&Arc<Exposition>> {
        match self {
            Self::Serving(exposition) => Some(exposition),
            Self::Bundle(_) | Self::Stopped(_) => None,
        }
    }

    /// Returns the bundle, if one is served.
    pub(crate) fn bundle(&self) -> Option<&Arc<Bundle>> {
        match self {
            Self::Bundle(bundle) => Some(bundle),
            Self::Serving(_) | Self::Stopped(_) => None,
        }
    }

    /// Returns whether anything is served.
    pub(crate) fn is_served(&self) -> bool {
        !matches!(self, Self::Stopped(_))
    }

    /// Returns the name that the state holds, if it holds one.
    pub(crate) fn id(&self) -> Option<&Arc<ExpositionId>> {
        match self {
            Self::Serving(exposition) => Some(&exposition.id),
            Self::Bundle(bundle) => Some(&bundle.id),
            Self::Stopped(_) => None,
        }
    }

    /// Returns the counters of what is served.
    pub(crate) fn series(&self) -> Option<&Arc<ExpositionSeries>> {
        match self {
            Self::Serving(exposition) => Some(&exposition.series),
            Self::Bundle(bundle) => Some(&bundle.series),
            Self::Stopped(_) => None,
        }
    }

    /// Returns whether both are the same version.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Serving(a), Self::Serving(b)) => Arc::ptr_eq(a, b),
            (Self::Bundle(a), Self::Bundle(b)) => Arc::ptr_eq(a, b),
            (Self::Stopped(a), Self::Stopped(b)) => a == b,
            _ => false,
        }
    }

    /// Returns whether there may be such a list: tools always, prompts and resources where an exposition has any. Those of a
    /// bundle depend on its parts.
    pub(crate) fn has(&self, list: ListKind) -> bool {
        let has_content = || match self {
            Self::Serving(exposition) => exposition.set.list_digest(list) != [0; 32],
            Self::Bundle(_) => true,
            Self::Stopped(_) => false,
        };
        list == ListKind::Tools || has_content()
    }

    /// Returns the lists that there may be.
    pub(crate) fn lists(&self) -> impl Iterator<Item = ListKind> {
        ListKind::ALL.into_iter().filter(|list| self.has(*list))
    }

    /// Returns whether both have the same list at their address.
    fn lists_as(&self, other: &Self, list: ListKind) -> bool {
        let content = |state: &Self| state.serving().map_or([0; 32], |exposition| exposition.set.list_digest(list));
        match (self, other, list) {
            (Self::Bundle(a), Self::Bundle(b), _) => a.lists_as(b),
            (Self::Bundle(_), _, _) | (_, Self::Bundle(_), _) => false,
            (_, _, ListKind::Prompts | ListKind::Resources) => content(self) == content(other),
            (Self::Serving(a), Self::Serving(b), ListKind::Tools) => a.set.list_digest(list) == b.set.list_digest(list),
            (Self::Stopped(_), Self::Stopped(_), ListKind::Tools) => true,
            _ => false,
        }
    }

    /// Returns the lists in which the bundles that have this as a part differ between both states, for some caller.
    fn relisted(&self, other: &Self) -> Vec<ListKind> {
        let access = |state: &Self| state.serving().and_then(|exposition| exposition.access.clone());
        let same_access = access(self) == access(other);
        let differ = |list: &ListKind| !(same_access && self.lists_as(other, *list));
        ListKind::ALL.into_iter().filter(|list| (self.has(*list) || other.has(*list)) && differ(list)).collect()
    }
}

/// A list whose changes clients learn of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ListKind {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list` and `resources/templates/list`.
    Resources,
}

impl ListKind {
    /// Every list.
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// The word of the protocol, in `notifications/tools/list_changed` and `toolsListChanged`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }
}

/// How often each list has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Changes([u64; 3]);

impl Changes {
    /// Counts a change of a list.
    pub(crate) fn count(&mut self, list: ListKind) {
        self.0[list as usize] = self.0[list as usize].wrapping_add(1);
    }

    /// Returns the lists that have changed since `before`.
    pub(crate) fn since(self, before: Self) -> impl Iterator<Item = ListKind> {
        ListKind::ALL.into_iter().filter(move |list| self.0[*list as usize] != before.0[*list as usize])
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
    /// Counts the changes of its lists; closed when the address is removed. Created by the first subscriber.
    changes: Mutex<Option<watch::Sender<Changes>>>,
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
        match self.state().as_ref() {
            State::Serving(exposition) => totals.add(exposition.series.totals()),
            State::Bundle(bundle) => totals.add(bundle.totals.get()),
            State::Stopped(_) => {}
        }
        totals
    }

    /// Returns the current state.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Subscribes to changes of the lists.
    pub(crate) fn changes(&self) -> watch::Receiver<Changes> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.get_or_insert_with(|| watch::Sender::new(Changes::default())).subscribe()
    }

    /// Notifies subscribers that lists have changed.
    pub(crate) fn notify(&self, lists: &[ListKind]) {
        if let Some(changes) = &*self.changes.lock().unwrap_or_else(PoisonError::into_inner) {
            changes.send_modify(|counts| lists.iter().for_each(|list| counts.0[*list as usize] += 1));
        }
    }

    /// Replaces the state. Calls in flight keep the previous one. Subscribers are notified of the lists that differ. Returns
    /// the lists in which the bundles that have this as a part differ now.
    pub(crate) fn swap(&self, state: State) -> Vec<ListKind> {
        let after = Arc::new(state);
        let before = self.state.swap(Arc::clone(&after));
        let changed: Vec<_> = ListKind::ALL.into_iter().filter(|list| !before.lists_as(&after, *list)).collect();
        if !changed.is_empty() {
            // Locked after the swap: who subscribes after this sees the new lists.
            self.notify(&changed);
        }
        before.relisted(&after)
    }
}

/// The addresses by `namespace/name`.
pub(crate) type Slots = HashMap<Arc<str>, Arc<Slot>>;

/// The map of addresses.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    slots: ArcSwap<Slots>,
    /// The addresses of the bundles that name each address as a part.
    bundles: Mutex<HashMap<Arc<str>, BTreeSet<Arc<str>>>>,
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

    /// Notes that the bundle at `path` names other parts than before.
    pub(crate) fn link(&self, path: &Arc<str>, before: Option<&Bundle>, after: Option<&Bundle>) {
        let mut bundles = self.bundles.lock().unwrap_or_else(PoisonError::into_inner);
        for part in before.into_iter().flat_map(|bundle| &bundle.parts) {
            if let Some(users) = bundles.get_mut(&part.path) {
                users.remove(path);
                if users.is_empty() {
                    bundles.remove(&part.path);
                }
            }
        }
        for part in after.into_iter().flat_map(|bundle| &bundle.parts) {
            bundles.entry(Arc::clone(&part.path)).or_default().insert(Arc::clone(path));
        }
    }

    /// Returns the bundles that name an address as a part.
    pub(crate) fn bundles_of(&self, part: &str) -> Vec<Arc<Slot>> {
        let bundles = self.bundles.lock().unwrap_or_else(PoisonError::into_inner);
        let (users, slots) = (bundles.get(part), self.slots.load());
        users.into_iter().flatten().filter_map(|path| slots.get(path).cloned()).collect()
    }

    /// Notifies the subscribers of an address, and of the bundles that name it as a part, that its lists have changed.
    pub(crate) fn notify(&self, slot: &Slot, lists: &[ListKind]) {
        slot.notify(lists);
        self.notify_bundles(&slot.id.to_string(), lists);
    }

    /// Notifies the subscribers of the bundles that name an address as a part.
    pub(crate) fn notify_bundles(&self, part: &str, lists: &[ListKind]) {
        self.bundles_of(part).iter().for_each(|bundle| bundle.notify(lists));
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
