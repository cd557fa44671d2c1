//! What is loaded everywhere. Values in, values out: no clock, no I/O.
//!
//! Each event costs as much as the expositions that it speaks of, times the gateways of their group; only a change in
//! who counts (a pod becomes ready, is lost, goes) looks at all expositions of that group.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use tamis_config::acks::{AckEvent, Saved};
use tamis_config::{Digest, ExpositionId};
use tamis_crds::ObjectName;

use super::member::{Answer, GRACE, Member, Readiness};
use super::{Programmed, StreamEvent, Totals};
use crate::status::message;
use crate::verdict::RequiredDocument;

/// How long gateways may take to load a document before the status says that it is pending. Most need milliseconds:
/// then the status is written once, when it is loaded.
const SETTLE: Duration = Duration::from_secs(2);
/// Gateways that a message names.
const NAMED: usize = 5;

/// What an event has changed. Collect several with [`AckChanges::merge`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AckChanges {
    /// Expositions of which [`Table::programmed`] now says something else. Not one that is settling: it comes when
    /// that is over.
    pub expositions: Vec<ExpositionId>,
    /// Expositions of which [`Table::saved`] now says something else.
    pub counted: Vec<ExpositionId>,
    /// For each exposition whose newest document is now loaded everywhere for the first time: how long that took since
    /// the change was first seen. What `tamis_programmed_seconds` observes.
    pub loaded: Vec<Duration>,
    /// Groups of which [`Table::ready`] now says something else.
    pub groups: Vec<ObjectName>,
}

impl AckChanges {
    /// Takes another one's along.
    pub fn merge(&mut self, other: Self) {
        self.expositions.extend(other.expositions);
        self.counted.extend(other.counted);
        self.loaded.extend(other.loaded);
        self.groups.extend(other.groups);
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.expositions.is_empty() && self.counted.is_empty() && self.loaded.is_empty() && self.groups.is_empty()
    }
}

/// How a document stands: what the worst of the gateways that count says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LoadState {
    NoGateway,
    Loaded,
    /// A gateway has not been heard yet; the others have it.
    Connecting,
    Missing,
    Refused,
    TooOld,
}

/// The newest document of an exposition.
#[derive(Debug)]
struct Document {
    digest: Digest,
    /// When the change that led to it was seen; none when it has been loaded, or was there before.
    seen: Option<Instant>,
    state: LoadState,
    /// Since when it has not been loaded.
    since: Instant,
    /// What was last told of it.
    reported: Option<LoadState>,
}

impl Document {
    /// When its standing may be reported: what may pass by itself is not told at once.
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
    /// What gateways have counted that are gone.
    past: HashMap<ExpositionId, Totals>,
}

/// What gateways have said, and what they should say.
#[derive(Debug, Default)]
pub struct Table {
    groups: HashMap<ObjectName, Group>,
    /// When the standing of which document may be told.
    due: BTreeSet<(Instant, ObjectName, ExpositionId)>,
}

impl Table {
    /// A table that knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The gateways of a group, all of them. Those that it no longer names are gone.
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

    /// Something was heard of a gateway. One that is not of the group (any more) is not listened to.
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

    /// The newest document of an exposition is in the API now. `seen` is when the change that led to it was first seen;
    /// none where it was there when the operator started, which is not measured. Saying the same again changes nothing.
    pub fn require(&mut self, wanted: &RequiredDocument, seen: Option<Instant>, now: Instant) -> AckChanges {
        let mut changes = AckChanges::default();
        let documents = &mut self.groups.entry(wanted.group.clone()).or_default().documents;
        let before = documents.get(&wanted.id);
        if before.is_some_and(|document| document.digest == wanted.digest) {
            return changes;
        }
        // Where the one before was never loaded, people have waited since then.
        let seen = before.and_then(|document| document.seen).into_iter().chain(seen).min();
        let document =
            Document { digest: wanted.digest.clone(), seen, state: LoadState::Missing, since: now, reported: None };
        documents.insert(wanted.id.clone(), document);
        self.review(&wanted.group, &wanted.id, now, &mut changes);
        changes
    }

    /// An exposition is not of that group any more.
    pub fn forget(&mut self, group: &ObjectName, id: &ExpositionId) {
        if let Some(state) = self.groups.get_mut(group) {
            state.documents.remove(id);
            state.past.remove(id);
        }
    }

    /// A group is gone, and its gateways with it.
    pub fn forget_group(&mut self, group: &ObjectName) {
        self.groups.remove(group);
    }

    /// When [`Table::tick`] has something to do, if nothing is heard till then.
    #[must_use]
    pub fn next_tick(&self) -> Option<Instant> {
        let silent = self.groups.values().flat_map(|group| group.members.values()).filter_map(Member::deadline).min();
        let due = self.due.first().map(|(due, ..)| *due);
        silent.into_iter().chain(due).min()
    }

    /// What the mere passing of time has changed.
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

    /// Whether gateways have loaded all of these documents.
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

    /// What an exposition has saved in a group, in gateways that run and in those that are gone. None where nothing has
    /// been heard of it.
    #[must_use]
    pub fn saved(&self, group: &ObjectName, id: &ExpositionId) -> Option<Totals> {
        let group = self.groups.get(group)?;
        let running = group.members.values().filter_map(|member| member.saved(id));
        running.chain(group.past.get(id).copied()).reduce(Totals::plus)
    }

    /// The versions of a group's gateways that can be heard.
    #[must_use]
    pub fn versions(&self, group: &ObjectName) -> BTreeSet<String> {
        let members = self.groups.get(group).into_iter().flat_map(|group| group.members.values());
        members.filter_map(Member::version).map(str::to_owned).collect()
    }

    /// How many gateways of a group are ready: pods that have proved to be gateways, and those that are no pods and can be
    /// heard. None while one of them may still be heard for the first time.
    #[must_use]
    pub fn ready(&self, group: &ObjectName) -> Option<usize> {
        let members = self.groups.get(group).into_iter().flat_map(|group| group.members.values());
        members.map(|member| member.counts().map(usize::from)).sum()
    }

    /// How one document stands, without the message.
    fn state_of(&self, wanted: &RequiredDocument, now: Instant) -> Programmed {
        let document = self.groups.get(&wanted.group).and_then(|group| group.documents.get(&wanted.id));
        // Not written yet, or another one by now.
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

    /// Which gateways lack any of many documents. No numbers: they would change with each document that is loaded.
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

    /// Something has been said that may matter to an exposition.
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
        // Of an exposition that is gone nobody will ask.
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

    /// The gateways that lack a document, and what they wait for.
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

    /// Which gateway cannot load a document, and why.
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

/// Of several documents the worst is told.
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
