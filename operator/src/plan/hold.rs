//! Delays what would loosen an exposition too early. An edit takes effect at once, but a missing object may be about to
//! arrive, or may be the first of several to be deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tamis_config::{ExpositionDocument, ExpositionTool, Reason, Snapshot, Stopped};
use tamis_crds::{Compilation, ObjectName, is_bare, tighten};

use super::Memory;
use crate::cluster_state::{ClusterState, ServiceKey};
use crate::object::Kind;

/// How long one default set of several must be gone before its expositions are published without it: a namespace that
/// is being deleted loses its filters before its expositions.
pub(super) const GONE: Duration = Duration::from_secs(5);
/// How long a new exposition that names no sets waits before it publishes all its tools unfiltered: sets that filter
/// them may have been applied together with it, and arrive later.
pub(super) const NEW: Duration = Duration::from_millis(500);

/// Delays what would loosen an exposition too early. Returns the expositions to plan again, and when.
pub(super) fn hold(
    world: &mut ClusterState,
    memory: &mut Memory,
    service: &ServiceKey,
    chosen: &BTreeSet<ObjectName>,
    previous: &Snapshot,
    compilation: &mut Compilation,
    now: Instant,
) -> Option<(Instant, BTreeSet<ObjectName>)> {
    let mut wake: Option<Instant> = None;
    let mut held = BTreeSet::new();
    let mut new = BTreeSet::new();
    let due = |wake: &mut Option<Instant>, at: Instant| *wake = Some(wake.map_or(at, |before| before.min(at)));
    let snapshot = &mut compilation.snapshot;
    for (exposition, document) in std::mem::take(&mut snapshot.expositions) {
        let name = ObjectName { namespace: exposition.namespace.clone(), name: exposition.name.clone() };
        let Some(before) = previous.expositions.get(&exposition) else {
            // An exposition that names its sets does not wait for others.
            if !is_bare(&document) || names_sets(world, &name) {
                snapshot.expositions.insert(exposition, document);
                continue;
            }
            let until = *memory.bare_since.entry(name.clone()).or_insert(now) + NEW;
            new.insert(name.clone());
            if now < until {
                due(&mut wake, until);
                held.insert(name);
                let stopped = previous.stopped.get(&exposition).cloned();
                snapshot.stopped.insert(exposition, stopped.unwrap_or_else(pending));
            } else {
                snapshot.expositions.insert(exposition, document);
            }
            continue;
        };
        let waiting = missed(world, service, before, now);
        let kept = closed(before, tighten(before, &document, &|set| waiting.contains_key(set)));
        if kept == document {
            snapshot.expositions.insert(exposition, document);
            continue;
        }
        // An edit may be the first of several: a tool that is being renamed loses its filter before it goes, or exists
        // before its filter does.
        let edited = *memory.bare_since.entry(name.clone()).or_insert(now) + NEW;
        new.insert(name.clone());
        let until = waiting.values().min().copied().unwrap_or(edited).max(edited);
        if now >= until {
            snapshot.expositions.insert(exposition, document);
            continue;
        }
        held.insert(name);
        due(&mut wake, until);
        if let Some(service) = previous.services.get(&kept.service) {
            snapshot.services.entry(kept.service.clone()).or_insert_with(|| Arc::clone(service));
        }
        snapshot.expositions.insert(exposition, kept);
    }
    // A published exposition is no longer new; one that is gone or stopped waits again when it comes back.
    for name in chosen.difference(&new) {
        memory.bare_since.remove(name);
    }
    wake.map(|wake| (wake, held))
}

fn pending() -> Stopped {
    let message = "waiting a moment for its filters".to_owned();
    Stopped { reason: Reason::Pending, message }
}

fn names_sets(world: &ClusterState, exposition: &ObjectName) -> bool {
    let object = world.get(Kind::Exposition, exposition);
    object.is_some_and(|object| object.resources.expositions.iter().any(|resource| resource.spec.filters.is_some()))
}

/// Removes tools that are new and would be published unfiltered.
fn closed(before: &ExpositionDocument, next: Arc<ExpositionDocument>) -> Arc<ExpositionDocument> {
    let opens = |name: &String, tool: &ExpositionTool| tool.filter.is_none() && !before.tools.contains_key(name);
    if !next.tools.iter().any(|(name, tool)| opens(name, tool)) {
        return next;
    }
    let mut kept = ExpositionDocument::clone(&next);
    kept.tools.retain(|name, tool| !opens(name, tool));
    Arc::new(kept)
}

/// Returns the sets that filter what is served and have just been deleted, alone or with their namespace, and how long
/// to wait for each.
fn missed(
    world: &mut ClusterState,
    service: &ServiceKey,
    before: &ExpositionDocument,
    now: Instant,
) -> BTreeMap<String, Instant> {
    let terminating = world.namespace(&before.id.namespace).is_some_and(|facts| facts.terminating);
    let mut gone: BTreeMap<String, Instant> = world.gone_of(service).into_iter().collect();
    let sets: BTreeSet<&str> = before.tools.values().filter_map(|tool| tool.filter_set.as_deref()).collect();
    for set in sets {
        if let Some(since) = world.gone_since(set, service, now) {
            gone.insert(set.to_owned(), since);
        }
    }
    let until = |(set, since): (String, Instant)| match terminating {
        true => Some((set, now + GONE)),
        false => (now < since + GONE).then_some((set, since + GONE)),
    };
    gone.into_iter().filter_map(until).collect()
}
