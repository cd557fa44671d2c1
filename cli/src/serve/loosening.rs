//! What loosens waits until the folder is quiet.
//!
//! Several files that change together (`git checkout`, `rsync`, a folder that is copied) are seen one after the other.
//! What tightens is served at once; a tool that would lose its filter, enforcement that would be lowered, and an exposition
//! that names no sets and would begin with an unfiltered tool wait until nothing has changed for a moment. A default set or a GatewayGroup
//! protects without being named by anyone: when one is gone, the wait is longer.
//!
//! Pure: snapshots and instants come in, a decision comes out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tamis_config::{ExpositionId, Reason, Snapshot, Stopped};
use tamis_crds::{Resources, is_bare, tighten};

/// Without any change.
const QUIET: Duration = Duration::from_millis(250);
/// After a default set or a group is gone.
const GONE: Duration = Duration::from_secs(5);

/// The kind and name of a document that protects without being named.
type Guard = (&'static str, String);

/// Remembers when the documents last changed, and which of those that protect unnamed are gone.
#[derive(Debug)]
pub(super) struct Patience {
    resources: Resources,
    changed: Instant,
    gone: BTreeMap<Guard, Instant>,
}

impl Patience {
    pub(super) fn new(resources: &Resources, now: Instant) -> Self {
        Self { resources: resources.clone(), changed: now, gone: BTreeMap::new() }
    }

    /// Takes note of the documents as they are now; gives the instant from which they may loosen.
    pub(super) fn note(&mut self, resources: &Resources, now: Instant) -> Instant {
        if self.resources != *resources {
            for guard in guards(&self.resources) {
                self.gone.entry(guard).or_insert(now);
            }
            for guard in guards(resources) {
                self.gone.remove(&guard);
            }
            self.resources = resources.clone();
            self.changed = now;
        }
        self.gone.retain(|_, since| now < *since + GONE);
        let quiet = self.changed + QUIET;
        self.gone.values().map(|since| *since + GONE).fold(quiet, Ord::max)
    }

    /// Whether a default set was there a moment ago.
    pub(super) fn is_gone(&self, set: &str) -> bool {
        self.gone.keys().any(|(kind, name)| *kind == SET && name == set)
    }
}

const SET: &str = "ToolsFilters";

fn guards(resources: &Resources) -> impl Iterator<Item = Guard> {
    let sets = resources.filters.iter().filter(|set| set.spec.name.is_none()).map(|set| (SET, set.name.to_string()));
    let groups = resources.groups.iter().map(|group| ("GatewayGroup", group.name.to_string()));
    // What cannot be read protects as well: expositions keep what they have on its account.
    let broken = resources.unusable.iter().map(|unusable| ("broken", unusable.file.to_string()));
    sets.chain(groups).chain(broken)
}

/// Takes out of `next` what is looser than what is served; the rest of each exposition (fewer tools, access, limits)
/// goes on. Gives the expositions that it changed.
///
/// A new exposition that has no filters at all says so only afterwards: `Pending` until then.
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
                // An exposition that names its sets waits for no others.
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
