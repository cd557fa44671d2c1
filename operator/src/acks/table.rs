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
use super::{News, Programmed, Totals};
use crate::status::message;
use crate::verdict::Wanted;

/// How long gateways may take to load a document before the status says that it is pending. Most need milliseconds:
/// then the status is written once, when it is loaded.
const SETTLE: Duration = Duration::from_secs(2);
/// Gateways that a message names.
const NAMED: usize = 5;

/// What an event has changed. Collect several with [`Touched::merge`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
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

impl Touched {
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
enum Standing {
    NoGateway,
    Loaded,
    /// A gateway has not been heard yet; the others have it.
    Unheard,
    Missing,
    Refused,
    TooOld,
}

/// The newest document of an exposition.
#[derive(Debug)]
struct Want {
    digest: Digest,
    /// When the change that led to it was seen; none when it has been loaded, or was there before.
    seen: Option<Instant>,
    standing: Standing,
    /// Since when it has not been loaded.
    since: Instant,
    /// What was last told of it.
    told: Option<Standing>,
}

impl Want {
    /// When its standing may be told: what may pass by itself is not told at once.
    fn due(&self) -> Option<Instant> {
        match self.standing {
            Standing::Unheard => None,
            Standing::Missing => Some(self.since + SETTLE),
            Standing::NoGateway => Some(self.since + GRACE),
            Standing::Loaded | Standing::Refused | Standing::TooOld => Some(self.since),
        }
    }
}

#[derive(Debug, Default)]
struct Group {
    members: BTreeMap<String, Member>,
    wants: HashMap<ExpositionId, Want>,
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
    ) -> Touched {
        let mut touched = Touched::default();
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
            self.review_all(group, now, &mut touched);
        }
        touched
    }

    /// Something was heard of a gateway. One that is not of the group (any more) is not listened to.
    pub fn hear(&mut self, group: &ObjectName, endpoint: &str, news: News, now: Instant) -> Touched {
        let mut touched = Touched::default();
        let Some(state) = self.groups.get_mut(group) else { return touched };
        let Some(member) = state.members.get_mut(endpoint) else { return touched };
        let changed = match news {
            News::Disconnected => {
                member.disconnect(now);
                return touched;
            }
            News::Event(AckEvent::Snapshot { instance, version, format_versions: _, expositions, saved }) => {
                let counted = member.counts();
                member.set_version(&version);
                let changed = member.snapshot(expositions);
                let past = member.begin(instance);
                if member.counts() != counted {
                    touched.groups.push(group.clone());
                }
                for (id, totals) in past {
                    state.keep(id, totals);
                }
                state.count(endpoint, saved, &mut touched);
                changed
            }
            News::Event(AckEvent::Changed { expositions, removed }) if member.is_open() => {
                Some(member.change(expositions, &removed))
            }
            News::Event(AckEvent::Counted { saved }) if member.is_open() => {
                state.count(endpoint, saved, &mut touched);
                return touched;
            }
            News::Event(AckEvent::Changed { .. } | AckEvent::Counted { .. }) => return touched,
        };
        match changed {
            None => self.review_all(group, now, &mut touched),
            Some(changed) => {
                for id in changed {
                    self.review(group, &id, now, &mut touched);
                }
            }
        }
        touched
    }

    /// The newest document of an exposition is in the API now. `seen` is when the change that led to it was first seen;
    /// none where it was there when the operator started, which is not measured. Saying the same again changes nothing.
    pub fn want(&mut self, wanted: &Wanted, seen: Option<Instant>, now: Instant) -> Touched {
        let mut touched = Touched::default();
        let wants = &mut self.groups.entry(wanted.group.clone()).or_default().wants;
        let before = wants.get(&wanted.id);
        if before.is_some_and(|want| want.digest == wanted.digest) {
            return touched;
        }
        // Where the one before was never loaded, people have waited since then.
        let seen = before.and_then(|want| want.seen).into_iter().chain(seen).min();
        let want = Want { digest: wanted.digest.clone(), seen, standing: Standing::Missing, since: now, told: None };
        wants.insert(wanted.id.clone(), want);
        self.review(&wanted.group, &wanted.id, now, &mut touched);
        touched
    }

    /// An exposition is not of that group any more.
    pub fn forget(&mut self, group: &ObjectName, id: &ExpositionId) {
        if let Some(state) = self.groups.get_mut(group) {
            state.wants.remove(id);
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
    pub fn tick(&mut self, now: Instant) -> Touched {
        let mut touched = Touched::default();
        let mut lost = Vec::new();
        for (name, group) in &mut self.groups {
            let mut given_up = false;
            for member in group.members.values_mut() {
                let counted = member.counts();
                if !member.give_up(now) {
                    continue;
                }
                given_up = true;
                if member.counts() != counted && touched.groups.last() != Some(name) {
                    touched.groups.push(name.clone());
                }
            }
            if given_up {
                lost.push(name.clone());
            }
        }
        for group in lost {
            self.review_all(&group, now, &mut touched);
        }
        while self.due.first().is_some_and(|(due, ..)| *due <= now) {
            if let Some((_, group, id)) = self.due.pop_first() {
                self.review(&group, &id, now, &mut touched);
            }
        }
        touched
    }

    /// Whether gateways have loaded all of these documents.
    #[must_use]
    pub fn programmed(&self, documents: &[Wanted], now: Instant) -> Programmed {
        let mut worst: Option<(&Wanted, Programmed)> = None;
        for wanted in documents {
            let found = self.stands(wanted, now);
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
    fn stands(&self, wanted: &Wanted, now: Instant) -> Programmed {
        let want = self.groups.get(&wanted.group).and_then(|group| group.wants.get(&wanted.id));
        // Not written yet, or another one by now.
        let Some(want) = want.filter(|want| want.digest == wanted.digest) else { return Programmed::Settling };
        if want.due().is_none_or(|due| due > now) {
            return Programmed::Settling;
        }
        let message = String::new();
        match want.standing {
            Standing::Loaded => Programmed::Loaded,
            Standing::Unheard => Programmed::Settling,
            Standing::Missing => Programmed::Pending { message },
            Standing::NoGateway => Programmed::Unavailable { message },
            Standing::Refused => Programmed::Refused { message },
            Standing::TooOld => Programmed::TooOld { message },
        }
    }

    /// Which gateways lack any of many documents. No numbers: they would change with each document that is loaded.
    fn lacking(&self, documents: &[Wanted], now: Instant) -> String {
        let mut names = BTreeSet::new();
        for wanted in documents.iter().filter(|wanted| matches!(self.stands(wanted, now), Programmed::Pending { .. })) {
            let group = self.groups.get(&wanted.group);
            names.extend(group.into_iter().flat_map(|group| group.members.iter()).filter_map(|(name, member)| {
                lacks(member.answer(&wanted.id, &wanted.digest)).then_some(name.as_str())
            }));
        }
        format!("Not loaded yet by {} wherever it is used", list(names.into_iter().map(str::to_owned)))
    }

    fn review_all(&mut self, group: &ObjectName, now: Instant, touched: &mut Touched) {
        let ids: Vec<ExpositionId> =
            self.groups.get(group).map(|group| group.wants.keys().cloned().collect()).unwrap_or_default();
        for id in ids {
            self.review(group, &id, now, touched);
        }
    }

    /// Something has been said that may matter to an exposition.
    fn review(&mut self, name: &ObjectName, id: &ExpositionId, now: Instant, touched: &mut Touched) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let Some(want) = group.wants.get_mut(id) else { return };
        let standing = judge(&group.members, id, &want.digest);
        if want.standing == Standing::Loaded && standing != Standing::Loaded {
            want.since = now;
        }
        want.standing = standing;
        let Some(due) = want.due() else { return };
        if due > now {
            self.due.insert((due, name.clone(), id.clone()));
            return;
        }
        let named = matches!(standing, Standing::Missing | Standing::Refused | Standing::TooOld);
        if want.told != Some(standing) || named {
            touched.expositions.push(id.clone());
        }
        want.told = Some(standing);
        if standing == Standing::Loaded
            && let Some(seen) = want.seen.take()
        {
            touched.loaded.push(now.saturating_duration_since(seen));
        }
    }
}

impl Group {
    fn keep(&mut self, id: ExpositionId, totals: Totals) {
        // Of an exposition that is gone nobody will ask.
        if self.wants.contains_key(&id) {
            let past = self.past.entry(id).or_default();
            *past = past.plus(totals);
        }
    }

    fn count(&mut self, endpoint: &str, saved: Vec<Saved>, touched: &mut Touched) {
        for saved in saved {
            let Some(member) = self.members.get_mut(endpoint) else { return };
            let before = member.saved(&saved.id);
            if let Some(past) = member.count(&saved) {
                self.keep(saved.id.clone(), past);
            }
            if before != Some(Totals { input_bytes: saved.input_bytes, output_bytes: saved.output_bytes }) {
                touched.counted.push(saved.id);
            }
        }
    }

    /// The gateways that lack a document, and what they wait for.
    fn lacking(&self, wanted: &Wanted) -> String {
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
    fn refusal(&self, wanted: &Wanted) -> Option<String> {
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

fn judge(members: &BTreeMap<String, Member>, id: &ExpositionId, digest: &Digest) -> Standing {
    let each = members.values().map(|member| match member.answer(id, digest) {
        Answer::Exempt => Standing::NoGateway,
        Answer::Processed => Standing::Loaded,
        Answer::Unheard => Standing::Unheard,
        Answer::Missing | Answer::Waiting(_) | Answer::Lost => Standing::Missing,
        Answer::Refused(..) => Standing::Refused,
        Answer::TooOld(_) => Standing::TooOld,
    });
    each.max().unwrap_or(Standing::NoGateway)
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
