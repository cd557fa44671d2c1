//! One gateway of a group, as far as it has been heard.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tamis_config::acks::{Ack, AckState, Saved};
use tamis_config::{Digest, ExpositionId};

use super::Totals;
use crate::status::message;

/// How long what a gateway said last holds after its stream has ended, and how long a new one may take to be heard.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Expositions that one gateway may speak of: ten times what a group is built for.
const MAX_EXPOSITIONS: usize = 100_000;

/// Characters of a version that are kept.
const MAX_VERSION: usize = 40;

/// Whether a gateway counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Its pod is ready: it must have loaded what is wanted.
    Ready,
    /// Its pod is not ready: nothing is asked of it.
    NotReady,
    /// It is no pod: it counts while it can be heard.
    WhenConnected,
}

/// Whether a gateway can be heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// Its stream is open.
    Open,
    /// It has not been heard since then.
    Silent(Instant),
    /// It has been silent for too long: what it said no longer holds.
    Lost,
}

/// What a gateway has to say of a wanted document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// Nothing is asked of it.
    Exempt,
    /// It has not been heard yet, and may still take its time.
    Connecting,
    /// It has processed the document.
    Processed,
    /// It has not.
    Missing,
    /// It has not, and says what it waits for.
    Waiting(&'a str),
    /// It has been silent for too long.
    Lost,
    /// It does not know the format.
    TooOld(&'a str),
    /// It cannot load the document: the reason and the message.
    Refused(&'a str, &'a str),
}

/// One gateway.
#[derive(Debug)]
pub(super) struct Member {
    readiness: Readiness,
    link: Link,
    /// Whether what it said last holds.
    heard: bool,
    /// None before its first snapshot.
    instance: Option<String>,
    /// What it says it is; empty before that.
    version: String,
    acks: HashMap<ExpositionId, (Digest, AckState)>,
    saved: HashMap<ExpositionId, Totals>,
}

impl Member {
    pub(super) fn new(readiness: Readiness, now: Instant) -> Self {
        Self {
            readiness,
            link: Link::Silent(now),
            heard: false,
            instance: None,
            version: String::new(),
            acks: HashMap::new(),
            saved: HashMap::new(),
        }
    }

    /// True where that changes anything. A pod that becomes ready gets time to be heard.
    pub(super) fn set_readiness(&mut self, readiness: Readiness, now: Instant) -> bool {
        let changed = self.readiness != readiness;
        self.readiness = readiness;
        if changed && self.link == Link::Lost {
            self.link = Link::Silent(now);
        }
        changed
    }

    /// What it says it is. It goes into the group's status: as much of it as any version has.
    pub(super) fn set_version(&mut self, version: &str) {
        self.version = version.chars().filter(char::is_ascii_graphic).take(MAX_VERSION).collect();
    }

    /// What it says it is, as far as that is known.
    pub(super) fn version(&self) -> Option<&str> {
        (self.link != Link::Lost && !self.version.is_empty()).then_some(&self.version)
    }

    /// Whether it counts among the ready gateways: a ready pod that has proved to be a gateway, or, of those that are no
    /// pods, one that can be heard. None while it may still be heard for the first time.
    ///
    /// Owner references prove nothing: whoever may create pods in the group's namespace can write them. A pod that has
    /// proved itself once goes on counting while Kubernetes says that it is ready, so that a broken connection between
    /// operator and gateway looks like no outage.
    pub(super) fn counts(&self) -> Option<bool> {
        let is_pod = match self.readiness {
            Readiness::NotReady => return Some(false),
            Readiness::Ready => true,
            Readiness::WhenConnected => false,
        };
        if is_pod && self.instance.is_some() {
            return Some(true);
        }
        (self.heard || self.link == Link::Lost).then_some(self.heard)
    }

    /// Its stream has ended.
    pub(super) fn disconnect(&mut self, now: Instant) {
        if self.link == Link::Open {
            self.link = Link::Silent(now);
        }
    }

    /// When its silence has lasted too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.link {
            Link::Silent(since) => Some(since + GRACE),
            Link::Open | Link::Lost => None,
        }
    }

    /// True where its silence has lasted too long now.
    pub(super) fn give_up(&mut self, now: Instant) -> bool {
        let lost = self.deadline().is_some_and(|deadline| deadline <= now);
        if lost {
            self.link = Link::Lost;
            self.heard = false;
            self.acks = HashMap::new();
        }
        lost
    }

    /// Whether a difference means anything: one that comes before the first snapshot does not.
    pub(super) fn is_open(&self) -> bool {
        self.link == Link::Open
    }

    /// Everything that it has processed. Gives the expositions of which that says something new, or none where it
    /// could not be heard before: then it may be new for all.
    pub(super) fn snapshot(&mut self, acks: Vec<Ack>) -> Option<Vec<ExpositionId>> {
        let heard = std::mem::replace(&mut self.heard, true);
        self.link = Link::Open;
        let mut before = std::mem::take(&mut self.acks);
        let mut changed = Vec::new();
        for ack in acks {
            let old = before.remove(&ack.id);
            if let Some(id) = self.put(ack, old.as_ref()) {
                changed.push(id);
            }
        }
        changed.extend(before.into_keys());
        heard.then_some(changed)
    }

    /// What it has processed since. Gives the expositions of which that says something new.
    pub(super) fn change(&mut self, acks: Vec<Ack>, removed: &[ExpositionId]) -> Vec<ExpositionId> {
        let mut changed = Vec::new();
        for id in removed {
            // A series dies with its exposition.
            self.saved.remove(id);
            if self.acks.remove(id).is_some() {
                changed.push(id.clone());
            }
        }
        for ack in acks {
            let old = self.acks.remove(&ack.id);
            if let Some(id) = self.put(ack, old.as_ref()) {
                changed.push(id);
            }
        }
        changed
    }

    fn put(&mut self, ack: Ack, old: Option<&(Digest, AckState)>) -> Option<ExpositionId> {
        if self.acks.len() >= MAX_EXPOSITIONS {
            return None;
        }
        let new = (ack.digest, bounded(ack.state));
        let changed = (old != Some(&new)).then(|| ack.id.clone());
        self.acks.insert(ack.id, new);
        changed
    }

    /// Another instance has begun: gives what the last one had counted.
    pub(super) fn begin(&mut self, instance: String) -> Vec<(ExpositionId, Totals)> {
        let same = self.instance.as_ref() == Some(&instance);
        self.instance = Some(instance);
        if same { Vec::new() } else { self.saved.drain().collect() }
    }

    /// A counter has moved. Gives what it had counted before it began anew, where it did.
    pub(super) fn count(&mut self, saved: &Saved) -> Option<Totals> {
        let new = Totals { input_bytes: saved.input_bytes, output_bytes: saved.output_bytes };
        let known = self.saved.len() < MAX_EXPOSITIONS || self.saved.contains_key(&saved.id);
        let old = if known { self.saved.insert(saved.id.clone(), new)? } else { return None };
        (new.input_bytes < old.input_bytes || new.output_bytes < old.output_bytes).then_some(old)
    }

    /// What it has counted.
    pub(super) fn saved(&self, id: &ExpositionId) -> Option<Totals> {
        self.saved.get(id).copied()
    }

    /// What it had counted, when it is gone.
    pub(super) fn into_saved(self) -> HashMap<ExpositionId, Totals> {
        self.saved
    }

    /// What it has to say of a document.
    pub(super) fn answer(&self, id: &ExpositionId, digest: &Digest) -> Answer<'_> {
        let exempt = match self.readiness {
            Readiness::Ready => false,
            Readiness::NotReady => true,
            Readiness::WhenConnected => !self.heard,
        };
        if exempt {
            return Answer::Exempt;
        }
        if !self.heard {
            return if self.link == Link::Lost { Answer::Lost } else { Answer::Connecting };
        }
        match self.acks.get(id).filter(|(acked, _)| acked == digest) {
            None => Answer::Missing,
            Some((_, AckState::Loaded | AckState::Stopped)) => Answer::Processed,
            Some((_, AckState::Waiting { message })) => Answer::Waiting(message),
            Some((_, AckState::Refused { reason, message })) if reason == "GatewayTooOld" => Answer::TooOld(message),
            Some((_, AckState::Refused { reason, message })) => Answer::Refused(reason, message),
        }
    }
}

/// What a gateway says, cut to what will be shown of it.
fn bounded(state: AckState) -> AckState {
    match state {
        AckState::Waiting { message } => AckState::Waiting { message: message::part(&message) },
        AckState::Refused { reason, message } => {
            AckState::Refused { reason: message::part(&reason), message: message::part(&message) }
        }
        AckState::Loaded | AckState::Stopped => state,
    }
}
