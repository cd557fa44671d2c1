//! Delays loosening changes until the folder is quiet.
//!
//! Several files that change together (`git checkout`, `rsync`, a folder that is copied) are seen one after the
//! other. Tightening changes are served at once. A tool that would lose its filter, enforcement that would be
//! lowered, and a new exposition that names no sets and would have an unfiltered tool wait until nothing has changed
//! for a moment. A default set or a GatewayGroup protects without being named: when one is deleted, the wait is
//! longer.
//!
//! Pure: snapshots and instants come in, a decision comes out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tamis_config::{ExpositionId, Reason, Snapshot, Stopped};
use tamis_crds::{Resources, Update, is_bare, tighten};

/// The wait after any change.
const QUIET: Duration = Duration::from_millis(250);
/// The wait after a default set or a group was deleted.
const GONE: Duration = Duration::from_secs(5);

/// The kind and name of a document that protects without being named.
type Guard = (&'static str, String);

/// The time of the last change, and the deleted documents that protected without being named.
#[derive(Debug)]
pub(super) struct LooseningDelay {
    sources: Vec<(Arc<str>, Arc<[u8]>)>,
    guards: Vec<Guard>,
    changed: Instant,
    gone: BTreeMap<Guard, Instant>,
}

impl LooseningDelay {
    pub(super) fn new(update: &Update, now: Instant) -> Self {
        let Update { resources, sources, .. } = update;
        Self { sources: sources.clone(), guards: guards(resources).collect(), changed: now, gone: BTreeMap::new() }
    }

    /// Records the current documents. Returns the instant from which they may loosen.
    pub(super) fn note(&mut self, update: &Update, now: Instant) -> Instant {
        let Update { resources, sources, .. } = update;
        if self.sources != *sources {
            for guard in std::mem::take(&mut self.guards) {
                self.gone.entry(guard).or_insert(now);
            }
            for guard in guards(resources) {
                self.gone.remove(&guard);
                self.guards.push(guard);
            }
            self.sources.clone_from(sources);
            self.changed = now;
        }
        self.gone.retain(|_, since| now < *since + GONE);
        let quiet = self.changed + QUIET;
        self.gone.values().map(|since| *since + GONE).fold(quiet, Ord::max)
    }

    /// Returns whether a default set existed a moment ago.
    pub(super) fn is_gone(&self, set: &str) -> bool {
        self.gone.keys().any(|(kind, name)| *kind == SET && name == set)
    }
}

const SET: &str = "ToolsFilters";

fn guards(resources: &Resources) -> impl Iterator<Item = Guard> {
    let sets = resources.filters.iter().filter(|set| set.spec.name.is_none()).map(|set| (SET, set.name.to_string()));
    let groups = resources.groups.iter().map(|group| ("GatewayGroup", group.name.to_string()));
    // Unreadable documents protect as well: because of them, expositions keep their last good state.
    let broken = resources.unusable.iter().map(|unusable| ("broken", unusable.file.to_string()));
    sets.chain(groups).chain(broken)
}

/// Replaces what is looser in `next` by what is served. The rest of each exposition (fewer tools, access, limits) is
/// current. Returns the expositions that were changed.
///
/// A new exposition without any filters is `Pending` first, and reports the missing filters afterwards.
pub(super) fn hold(
    served: &Snapshot,
    next: &mut Snapshot,
    is_gone: impl Fn(&str) -> bool,
    names_sets: impl Fn(&ExpositionId) -> bool,
) -> Vec<ExpositionId> {
    let mut held = Vec::new();
    for (id, stopped) in &mut next.stopped {
        let before = served.stopped.get(id);
        let is_new =
            !served.expositions.contains_key(id) && before.is_none_or(|before| before.reason == Reason::Pending);
        if is_new && stopped.reason == Reason::FilterSetNotFound {
            let message = "waiting a moment for its filters".to_owned();
            *stopped = Stopped { reason: Reason::Pending, message };
            held.push(id.clone());
        }
    }
    for (id, document) in std::mem::take(&mut next.expositions) {
        let kept = match served.expositions.get(&id) {
            Some(previous) => Some(tighten(previous, &document, &is_gone)),
            None => {
                let below = served.stopped.get(&id).is_some_and(|stopped| stopped.reason == Reason::BelowGroupFloor);
                // An exposition that names its sets does not wait for others.
                (!below && (!is_bare(&document) || names_sets(&id))).then_some(Arc::clone(&document))
            }
        };
        if kept.as_ref().is_none_or(|kept| !Arc::ptr_eq(kept, &document)) {
            held.push(id.clone());
        }
        match (kept, served.stopped.get(&id)) {
            (Some(kept), _) => drop(next.expositions.insert(id, kept)),
            (None, Some(stopped)) => drop(next.stopped.insert(id, stopped.clone())),
            // Not served yet.
            (None, None) => {}
        }
    }
    held
}
