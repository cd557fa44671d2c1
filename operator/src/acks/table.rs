//! Decides which documents are loaded everywhere. Values in, values out: no clock, no I/O.
//!
//! An event costs as much as the expositions that it mentions, times the gateways of their group. Only a change in the
//! set of gateways that count (a pod becomes ready, is lost or goes) reviews all expositions of the group.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use tamis_config::acks::{AckEvent, Saved, UpstreamReport};
use tamis_config::{Digest, ExpositionId};
use tamis_crds::ObjectName;

use super::member::{Answer, GRACE, Member, Readiness};
use super::{Programmed, StreamEvent, Totals, upstream};
use crate::status::message;
use crate::verdict::RequiredDocument;

/// How long gateways may take to load a document before the status reports it as pending. Most need milliseconds: then
/// the status is written once, when the document is loaded.
const SETTLE: Duration = Duration::from_secs(2);
/// The number of gateways that a message names.
const NAMED: usize = 5;

/// The results that an event has changed. [`AckChanges::merge`] combines several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AckChanges {
    /// Expositions for which [`Table::programmed`] has changed. A settling exposition is added once it has settled.
    pub expositions: Vec<ExpositionId>,
    /// Expositions for which [`Table::saved`] has changed.
    pub counted: Vec<ExpositionId>,
    /// Expositions for which [`Table::upstream`] may have changed.
    pub upstreams: Vec<ExpositionId>,
    /// One entry for each exposition whose newest document is now loaded everywhere for the first time: the time since
    /// the change was first seen. `tamis_programmed_seconds` observes it.
    pub loaded: Vec<Duration>,
    /// Groups for which [`Table::ready`] has changed.
    pub groups: Vec<ObjectName>,
}

impl AckChanges {
    /// Adds the changes of another event.
    pub fn merge(&mut self, other: Self) {
        self.expositions.extend(other.expositions);
        self.counted.extend(other.counted);
        self.upstreams.extend(other.upstreams);
        self.loaded.extend(other.loaded);
        self.groups.extend(other.groups);
    }

    /// Returns whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { expositions, counted, upstreams, loaded, groups } = self;
        expositions.is_empty() && counted.is_empty() && upstreams.is_empty() && loaded.is_empty() && groups.is_empty()
    }
}

/// The state of a document in a group: the worst state on any gateway that counts. The order is from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LoadState {
    NoGateway,
    Loaded,
    /// A gateway has not sent its first snapshot yet; the others have loaded the document.
    Connecting,
    Missing,
    Refused,
    TooOld,
}

/// The newest document of an exposition.
#[derive(Debug)]
struct Document {
    digest: Digest,
    /// When the change that led to the document was seen. `None` once the document has been loaded, and for a document
    /// that was there when the operator started.
    seen: Option<Instant>,
    state: LoadState,
    /// Since when the document has not been loaded.
    since: Instant,
    /// The state that was last reported.
    reported: Option<LoadState>,
}

impl Document {
    /// Returns when the state may be reported. A state that may pass by itself is reported after a delay.
    fn due(&self) -> Option<Instant> {
        match self.state {
            LoadState::Connecting => None,
            LoadState::Missing => Some(self.since + SETTLE),
            LoadState::NoGateway => Some(self.since + GRACE),
            LoadState::Loaded | LoadState::Refused | LoadState::TooOld => Some(self.since),
        }
    }
}

#[derive(Debug, Default)]
struct Group {
    members: BTreeMap<String, Member>,
    documents: HashMap<ExpositionId, Document>,
    /// The totals of gateways that are gone.
    past: HashMap<ExpositionId, Totals>,
}

/// The documents that gateways have loaded, and those that they should load.
#[derive(Debug, Default)]
pub struct Table {
    groups: HashMap<ObjectName, Group>,
    /// When to review the state of which document.
    due: BTreeSet<(Instant, ObjectName, ExpositionId)>,
}

impl Table {
    /// Creates an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets all gateways of a group. Gateways that are not in the list are removed.
    pub fn set_endpoints(
        &mut self,
        group: &ObjectName,
        endpoints: impl IntoIterator<Item = (String, Readiness)>,
        now: Instant,
    ) -> AckChanges {
        let mut changes = AckChanges::default();
        let state = self.groups.entry(group.clone()).or_default();
        let mut before = std::mem::take(&mut state.members);
        let mut changed = false;
        for (name, readiness) in endpoints {
            let member = match before.remove(&name) {
                Some(mut member) => {
                    changed |= member.set_readiness(readiness, now);
                    member
                }
                None => {
                    changed = true;
                    Member::new(readiness, now)
                }
            };
            state.members.insert(name, member);
        }
        changed |= !before.is_empty();
        for (id, totals) in before.into_values().flat_map(Member::into_saved) {
            state.keep(id, totals);
        }
        if changed {
            self.review_all(group, now, &mut changes);
        }
        changes
    }

    /// Applies an event of a gateway's stream. The event of a gateway that is not in the group is ignored.
    pub fn on_stream_event(
        &mut self,
        group: &ObjectName,
        endpoint: &str,
        event: StreamEvent,
        now: Instant,
    ) -> AckChanges {
        let mut changes = AckChanges::default();
        let Some(state) = self.groups.get_mut(group) else { return changes };
        let Some(member) = state.members.get_mut(endpoint) else { return changes };
        let changed = match event {
            StreamEvent::Disconnected => {
                member.disconnect(now);
                return changes;
            }
            StreamEvent::Ack(AckEvent::Snapshot { instance, version, format_versions: _, expositions, saved }) => {
                let counted = member.counts();
                member.set_version(&version);
                changes.upstreams.extend(member.see_all(&expositions));
                let changed = member.snapshot(expositions);
                let past = member.begin(instance);
                if member.counts() != counted {
                    changes.groups.push(group.clone());
                }
                for (id, totals) in past {
                    state.keep(id, totals);
                }
                state.count(endpoint, saved, &mut changes);
                changed
            }
            StreamEvent::Ack(AckEvent::Changed { expositions, removed }) if member.is_open() => {
                changes.upstreams.extend(member.see(&expositions, &removed));
                Some(member.change(expositions, &removed))
            }
            StreamEvent::Ack(AckEvent::Counted { saved }) if member.is_open() => {
                state.count(endpoint, saved, &mut changes);
                return changes;
            }
            StreamEvent::Ack(AckEvent::Changed { .. } | AckEvent::Counted { .. }) => return changes,
        };
        match changed {
            None => self.review_all(group, now, &mut changes),
            Some(changed) => {
                for id in changed {
                    self.review(group, &id, now, &mut changes);
                }
            }
        }
        changes
    }

    /// Requires the gateways of a group to load the newest document of an exposition, which is in the API now. `seen`
    /// is when the change that led to it was first seen; `None` if the document was there when the operator started,
    /// which is not measured. Requiring the same document again changes nothing.
    pub fn require(&mut self, wanted: &RequiredDocument, seen: Option<Instant>, now: Instant) -> AckChanges {
        let mut changes = AckChanges::default();
        let documents = &mut self.groups.entry(wanted.group.clone()).or_default().documents;
        let before = documents.get(&wanted.id);
        if before.is_some_and(|document| document.digest == wanted.digest) {
            return changes;
        }
        // If the previous document was never loaded, the time counts from its change.
        let seen = before.and_then(|document| document.seen).into_iter().chain(seen).min();
        let document =
            Document { digest: wanted.digest.clone(), seen, state: LoadState::Missing, since: now, reported: None };
        documents.insert(wanted.id.clone(), document);
        self.review(&wanted.group, &wanted.id, now, &mut changes);
        changes
    }

    /// Removes an exposition from a group.
    pub fn forget(&mut self, group: &ObjectName, id: &ExpositionId) {
        if let Some(state) = self.groups.get_mut(group) {
            state.documents.remove(id);
            state.past.remove(id);
        }
    }

    /// Removes a group and its gateways.
    pub fn forget_group(&mut self, group: &ObjectName) {
        self.groups.remove(group);
    }

    /// Returns when [`Table::tick`] has work to do, if no event arrives before.
    #[must_use]
    pub fn next_tick(&self) -> Option<Instant> {
        let silent = self.groups.values().flat_map(|group| group.members.values()).filter_map(Member::deadline).min();
        let due = self.due.first().map(|(due, ..)| *due);
        silent.into_iter().chain(due).min()
    }

    /// Returns the changes that follow from the passing of time.
    pub fn tick(&mut self, now: Instant) -> AckChanges {
        let mut changes = AckChanges::default();
        let mut lost = Vec::new();
        for (name, group) in &mut self.groups {
            let mut given_up = false;
            for member in group.members.values_mut() {
                let counted = member.counts();
                if !member.give_up(now) {
                    continue;
                }
                given_up = true;
                if member.counts() != counted && changes.groups.last() != Some(name) {
                    changes.groups.push(name.clone());
                }
            }
            if given_up {
                lost.push(name.clone());
            }
        }
        for group in lost {
            self.review_all(&group, now, &mut changes);
        }
        while self.due.first().is_some_and(|(due, ..)| *due <= now) {
            if let Some((_, group, id)) = self.due.pop_first() {
                self.review(&group, &id, now, &mut changes);
            }
        }
        changes
    }

    /// Returns whether the gateways have loaded all of these documents.
    #[must_use]
    pub fn programmed(&self, documents: &[RequiredDocument], now: Instant) -> Programmed {
        let mut worst: Option<(&RequiredDocument, Programmed)> = None;
        for wanted in documents {
            let found = self.state_of(wanted, now);
            if worst.as_ref().is_none_or(|(_, worst)| rank(worst) < rank(&found)) {
                worst = Some((wanted, found));
            }
        }
        let Some((wanted, mut programmed)) = worst else { return Programmed::NotUsed };
        let group = self.groups.get(&wanted.group);
        let many = documents.len() > 1;
        match &mut programmed {
            Programmed::NotUsed | Programmed::Loaded | Programmed::Settling => {}
            Programmed::Pending { message } if many => *message = self.lacking(documents, now),
            Programmed::Pending { message } => {
                *message =
                    format!("Not loaded yet by {}", group.map(|group| group.lacking(wanted)).unwrap_or_default());
            }
            Programmed::Unavailable { message } => {
                *message = format!("No gateway of the group {} is ready; its pods say why", wanted.group);
            }
            Programmed::TooOld { message } | Programmed::Refused { message } => {
                let text = group.and_then(|group| group.refusal(wanted)).unwrap_or_default();
                *message = if many { format!("Exposition {}: {text}", wanted.id) } else { text };
            }
        }
        programmed
    }

    /// Returns the totals of an exposition in a group, over running gateways and those that are gone. Returns `None` if
    /// no gateway has reported any.
    #[must_use]
    pub fn saved(&self, group: &ObjectName, id: &ExpositionId) -> Option<Totals> {
        let group = self.groups.get(group)?;
        let running = group.members.values().filter_map(|member| member.saved(id));
        running.chain(group.past.get(id).copied()).reduce(Totals::plus)
    }

    /// Returns the worst that the gateways of a group have seen of the upstream of an exposition. Returns `None` if no gateway
    /// has reported on it.
    #[must_use]
    pub fn upstream(&self, group: &ObjectName, id: &ExpositionId) -> Option<&UpstreamReport> {
        let members = self.groups.get(group)?.members.values();
        // Of equal ones the first, so that the message does not depend on who reported last.
        members.filter_map(|member| member.upstream(id)).reduce(upstream::worse)
    }

    /// Returns the versions of a group's connected gateways.
    #[must_use]
    pub fn versions(&self, group: &ObjectName) -> BTreeSet<String> {
        let members = self.groups.get(group).into_iter().flat_map(|group| group.members.values());
        members.filter_map(Member::version).map(str::to_owned).collect()
    }

    /// Returns how many gateways of a group are ready: ready pods that have proved to be gateways, and connected
    /// gateways that are not pods. Returns `None` while the first snapshot of one of them may still arrive.
    #[must_use]
    pub fn ready(&self, group: &ObjectName) -> Option<usize> {
        let members = self.groups.get(group).into_iter().flat_map(|group| group.members.values());
        members.map(|member| member.counts().map(usize::from)).sum()
    }

    /// Returns the state of one document, with an empty message.
    fn state_of(&self, wanted: &RequiredDocument, now: Instant) -> Programmed {
        let document = self.groups.get(&wanted.group).and_then(|group| group.documents.get(&wanted.id));
        // The document has not been written yet, or a newer one has replaced it.
        let Some(document) = document.filter(|document| document.digest == wanted.digest) else {
            return Programmed::Settling;
        };
        if document.due().is_none_or(|due| due > now) {
            return Programmed::Settling;
        }
        let message = String::new();
        match document.state {
            LoadState::Loaded => Programmed::Loaded,
            LoadState::Connecting => Programmed::Settling,
            LoadState::Missing => Programmed::Pending { message },
            LoadState::NoGateway => Programmed::Unavailable { message },
            LoadState::Refused => Programmed::Refused { message },
            LoadState::TooOld => Programmed::TooOld { message },
        }
    }

    /// Names the gateways that lack any of several documents. The message has no numbers, which would change with each
    /// document that is loaded.
    fn lacking(&self, documents: &[RequiredDocument], now: Instant) -> String {
        let mut names = BTreeSet::new();
        for wanted in documents.iter().filter(|wanted| matches!(self.state_of(wanted, now), Programmed::Pending { .. }))
        {
            let group = self.groups.get(&wanted.group);
            names.extend(group.into_iter().flat_map(|group| group.members.iter()).filter_map(|(name, member)| {
                lacks(member.answer(&wanted.id, &wanted.digest)).then_some(name.as_str())
            }));
        }
        format!("Not loaded yet by {} wherever it is used", list(names.into_iter().map(str::to_owned)))
    }

    fn review_all(&mut self, group: &ObjectName, now: Instant, changes: &mut AckChanges) {
        let ids: Vec<ExpositionId> =
            self.groups.get(group).map(|group| group.documents.keys().cloned().collect()).unwrap_or_default();
        for id in ids {
            self.review(group, &id, now, changes);
        }
    }

    /// Updates the state of an exposition's document after an event that may affect it.
    fn review(&mut self, name: &ObjectName, id: &ExpositionId, now: Instant, changes: &mut AckChanges) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let Some(document) = group.documents.get_mut(id) else { return };
        let state = worst_state(&group.members, id, &document.digest);
        if document.state == LoadState::Loaded && state != LoadState::Loaded {
            document.since = now;
        }
        document.state = state;
        let Some(due) = document.due() else { return };
        if due > now {
            self.due.insert((due, name.clone(), id.clone()));
            return;
        }
        let named = matches!(state, LoadState::Missing | LoadState::Refused | LoadState::TooOld);
        if document.reported != Some(state) || named {
            changes.expositions.push(id.clone());
        }
        document.reported = Some(state);
        if state == LoadState::Loaded
            && let Some(seen) = document.seen.take()
        {
            changes.loaded.push(now.saturating_duration_since(seen));
        }
    }
}

impl Group {
    fn keep(&mut self, id: ExpositionId, totals: Totals) {
        // The totals of a removed exposition are dropped.
        if self.documents.contains_key(&id) {
            let past = self.past.entry(id).or_default();
            *past = past.plus(totals);
        }
    }

    fn count(&mut self, endpoint: &str, saved: Vec<Saved>, changes: &mut AckChanges) {
        for saved in saved {
            let Some(member) = self.members.get_mut(endpoint) else { return };
            let before = member.saved(&saved.id);
            if let Some(past) = member.count(&saved) {
                self.keep(saved.id.clone(), past);
            }
            if before != Some(Totals { input_bytes: saved.input_bytes, output_bytes: saved.output_bytes }) {
                changes.counted.push(saved.id);
            }
        }
    }

    /// Names the gateways that lack a document, and what they wait for.
    fn lacking(&self, wanted: &RequiredDocument) -> String {
        list(self.members.iter().filter_map(|(name, member)| {
            let answer = member.answer(&wanted.id, &wanted.digest);
            let detail = match answer {
                Answer::Waiting(what) => format!(" (waits for {what})"),
                Answer::Lost => " (cannot be heard)".to_owned(),
                _ => String::new(),
            };
            lacks(answer).then(|| format!("{name}{detail}"))
        }))
    }

    /// Names a gateway that cannot load a document, and why.
    fn refusal(&self, wanted: &RequiredDocument) -> Option<String> {
        let answers = || {
            let answers = self.members.iter();
            answers.map(|(name, member)| (name, member.answer(&wanted.id, &wanted.digest)))
        };
        let too_old = answers().find_map(|(name, answer)| match answer {
            Answer::TooOld(text) => Some(format!("Gateway {name} is too old for this configuration: {text}")),
            _ => None,
        });
        too_old.or_else(|| {
            answers().find_map(|(name, answer)| match answer {
                Answer::Refused(reason, text) => Some(format!("Gateway {name} cannot load it: {reason}: {text}")),
                _ => None,
            })
        })
    }
}

fn worst_state(members: &BTreeMap<String, Member>, id: &ExpositionId, digest: &Digest) -> LoadState {
    let each = members.values().map(|member| match member.answer(id, digest) {
        Answer::Exempt => LoadState::NoGateway,
        Answer::Processed => LoadState::Loaded,
        Answer::Connecting => LoadState::Connecting,
        Answer::Missing | Answer::Waiting(_) | Answer::Lost => LoadState::Missing,
        Answer::Refused(..) => LoadState::Refused,
        Answer::TooOld(_) => LoadState::TooOld,
    });
    each.max().unwrap_or(LoadState::NoGateway)
}

fn lacks(answer: Answer<'_>) -> bool {
    matches!(answer, Answer::Missing | Answer::Waiting(_) | Answer::Lost)
}

/// Orders the states from good to bad: the worst of several documents is reported.
fn rank(programmed: &Programmed) -> u8 {
    match programmed {
        Programmed::NotUsed => 0,
        Programmed::Loaded => 1,
        Programmed::Settling => 2,
        Programmed::Pending { .. } => 3,
        Programmed::Unavailable { .. } => 4,
        Programmed::Refused { .. } => 5,
        Programmed::TooOld { .. } => 6,
    }
}

fn list(names: impl IntoIterator<Item = String>) -> String {
    let names: Vec<String> = names.into_iter().collect();
    let named = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let text = match names.len().saturating_sub(NAMED) {
        0 => named,
        rest => format!("{named} and {rest} more"),
    };
    message::whole(&text)
}
