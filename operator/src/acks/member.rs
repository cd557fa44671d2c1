//! The state of one gateway of a group, as its `/acks` stream reports it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tamis_config::acks::{Ack, AckState, Saved, UpstreamReport};
use tamis_config::{Digest, ExpositionId, Reason};

use super::Totals;
use super::upstream;
use crate::status::message;

/// How long the last known state of a gateway stays valid after its stream has ended, and how long a new gateway may
/// take to send its first snapshot.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Expositions that one gateway may report: ten times what a group is built for.
const MAX_EXPOSITIONS: usize = 100_000;

/// Characters of a version that are kept.
const MAX_VERSION: usize = 40;

/// Whether a gateway counts towards `Programmed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Its pod is ready: it must have loaded the required documents.
    Ready,
    /// Its pod is not ready: it need not have loaded anything.
    NotReady,
    /// It is not a pod: it counts while its stream is connected.
    WhenConnected,
}

/// The state of a gateway's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// The stream is open.
    Open,
    /// The stream has been closed since then.
    Silent(Instant),
    /// The stream has been closed for longer than [`GRACE`]: the last known state is no longer valid.
    Lost,
}

/// The state of a required document on one gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// The gateway does not count.
    Exempt,
    /// The gateway has not sent a snapshot yet, and still has time to.
    Connecting,
    /// The gateway has processed the document.
    Processed,
    /// The gateway has not processed the document.
    Missing,
    /// The gateway has not processed the document; the text says what it waits for.
    Waiting(&'a str),
    /// The gateway has been silent for too long.
    Lost,
    /// The gateway does not know the document's format.
    TooOld(&'a str),
    /// The gateway cannot load the document: the reason and the message.
    Refused(Reason, &'a str),
}

/// The state of one gateway.
#[derive(Debug)]
pub(super) struct Member {
    readiness: Readiness,
    link: Link,
    /// Whether the last known state is valid: a snapshot has arrived, and the stream has not been lost since.
    is_synced: bool,
    /// `None` before the first snapshot.
    instance: Option<String>,
    /// The version that the gateway reports. Empty before the first snapshot.
    version: String,
    acks: HashMap<ExpositionId, (Digest, AckState)>,
    /// What the gateway has seen of the MCP servers behind expositions.
    upstreams: HashMap<ExpositionId, UpstreamReport>,
    saved: HashMap<ExpositionId, Totals>,
}

impl Member {
    pub(super) fn new(readiness: Readiness, now: Instant) -> Self {
        Self {
            readiness,
            link: Link::Silent(now),
            is_synced: false,
            instance: None,
            version: String::new(),
            acks: HashMap::new(),
            upstreams: HashMap::new(),
            saved: HashMap::new(),
        }
    }

    /// Sets the readiness. Returns whether it changed. A pod that becomes ready gets time to connect.
    pub(super) fn set_readiness(&mut self, readiness: Readiness, now: Instant) -> bool {
        let changed = self.readiness != readiness;
        self.readiness = readiness;
        if changed && self.link == Link::Lost {
            self.link = Link::Silent(now);
        }
        changed
    }

    /// Sets the version that the gateway reports. It is shown in the group's status, so it is cut to the length of a
    /// version.
    pub(super) fn set_version(&mut self, version: &str) {
        self.version = version.chars().filter(char::is_ascii_graphic).take(MAX_VERSION).collect();
    }

    /// Returns the version that the gateway reports, unless the gateway is lost.
    pub(super) fn version(&self) -> Option<&str> {
        (self.link != Link::Lost && !self.version.is_empty()).then_some(&self.version)
    }

    /// Returns whether the gateway counts as ready: a ready pod that has proved to be a gateway, or a connected gateway
    /// that is not a pod. Returns `None` while its first snapshot may still arrive.
    ///
    /// Owner references prove nothing: everyone who may create pods in the group's namespace can write them. A pod that
    /// has proved itself once keeps counting while Kubernetes reports it ready, so that a broken connection between
    /// operator and gateway does not look like an outage.
    pub(super) fn counts(&self) -> Option<bool> {
        let is_pod = match self.readiness {
            Readiness::NotReady => return Some(false),
            Readiness::Ready => true,
            Readiness::WhenConnected => false,
        };
        if is_pod && self.instance.is_some() {
            return Some(true);
        }
        (self.is_synced || self.link == Link::Lost).then_some(self.is_synced)
    }

    /// Records that the stream has ended.
    pub(super) fn disconnect(&mut self, now: Instant) {
        if self.link == Link::Open {
            self.link = Link::Silent(now);
        }
    }

    /// Returns when a closed stream becomes a lost one.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.link {
            Link::Silent(since) => Some(since + GRACE),
            Link::Open | Link::Lost => None,
        }
    }

    /// Marks the gateway as lost if its stream has been closed for too long. Returns whether it did.
    pub(super) fn give_up(&mut self, now: Instant) -> bool {
        let lost = self.deadline().is_some_and(|deadline| deadline <= now);
        if lost {
            self.link = Link::Lost;
            self.is_synced = false;
            self.acks = HashMap::new();
            self.upstreams = HashMap::new();
        }
        lost
    }

    /// Returns whether the stream is open. A difference that arrives before the first snapshot is ignored.
    pub(super) fn is_open(&self) -> bool {
        self.link == Link::Open
    }

    /// Takes over what the gateway has seen of upstreams. Returns the expositions for which that has changed.
    pub(super) fn see(&mut self, acks: &[Ack], removed: &[ExpositionId]) -> Vec<ExpositionId> {
        let mut changed: Vec<ExpositionId> =
            removed.iter().filter(|id| self.upstreams.remove(id).is_some()).cloned().collect();
        for Ack { id, upstream, .. } in acks {
            let before = match upstream {
                Some(report) if self.upstreams.len() < MAX_EXPOSITIONS || self.upstreams.contains_key(id) => {
                    self.upstreams.insert(id.clone(), upstream::bounded(report))
                }
                Some(_) => continue,
                None => self.upstreams.remove(id),
            };
            if before.as_ref() != self.upstreams.get(id) {
                changed.push(id.clone());
            }
        }
        changed
    }

    /// Takes over everything that the gateway has seen of upstreams. Returns the expositions for which that has changed.
    pub(super) fn see_all(&mut self, acks: &[Ack]) -> Vec<ExpositionId> {
        let before = std::mem::take(&mut self.upstreams);
        self.see(acks, &[]);
        let gone = before.keys().filter(|id| !self.upstreams.contains_key(*id));
        let new = self.upstreams.iter().filter(|(id, report)| before.get(*id) != Some(*report)).map(|(id, _)| id);
        gone.chain(new).cloned().collect()
    }

    /// Returns what the gateway has seen of the upstream of an exposition, if the gateway counts.
    pub(super) fn upstream(&self, id: &ExpositionId) -> Option<&UpstreamReport> {
        let counts = self.is_synced && self.readiness != Readiness::NotReady;
        self.upstreams.get(id).filter(|_| counts)
    }

    /// Applies a snapshot: everything that the gateway has processed. Returns the expositions whose state changed, or
    /// `None` if the gateway had no valid state before: then every exposition may have changed.
    pub(super) fn snapshot(&mut self, acks: Vec<Ack>) -> Option<Vec<ExpositionId>> {
        let was_synced = std::mem::replace(&mut self.is_synced, true);
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
        was_synced.then_some(changed)
    }

    /// Applies a difference. Returns the expositions whose state changed.
    pub(super) fn change(&mut self, acks: Vec<Ack>, removed: &[ExpositionId]) -> Vec<ExpositionId> {
        let mut changed = Vec::new();
        for id in removed {
            // The gateway's counters of an exposition go with it.
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

    /// Sets the instance. Returns the totals of the previous instance if this is another one.
    pub(super) fn begin(&mut self, instance: String) -> Vec<(ExpositionId, Totals)> {
        let same = self.instance.as_ref() == Some(&instance);
        self.instance = Some(instance);
        if same { Vec::new() } else { self.saved.drain().collect() }
    }

    /// Sets the totals of an exposition. Returns the previous totals if the gateway's counters have restarted.
    pub(super) fn count(&mut self, saved: &Saved) -> Option<Totals> {
        let new = Totals { input_bytes: saved.input_bytes, output_bytes: saved.output_bytes };
        let known = self.saved.len() < MAX_EXPOSITIONS || self.saved.contains_key(&saved.id);
        let old = if known { self.saved.insert(saved.id.clone(), new)? } else { return None };
        (new.input_bytes < old.input_bytes || new.output_bytes < old.output_bytes).then_some(old)
    }

    /// Returns the totals that this instance has counted for an exposition.
    pub(super) fn saved(&self, id: &ExpositionId) -> Option<Totals> {
        self.saved.get(id).copied()
    }

    /// Returns all totals of this instance, when the gateway is gone.
    pub(super) fn into_saved(self) -> HashMap<ExpositionId, Totals> {
        self.saved
    }

    /// Returns the state of a document on this gateway.
    pub(super) fn answer(&self, id: &ExpositionId, digest: &Digest) -> Answer<'_> {
        let exempt = match self.readiness {
            Readiness::Ready => false,
            Readiness::NotReady => true,
            Readiness::WhenConnected => !self.is_synced,
        };
        if exempt {
            return Answer::Exempt;
        }
        if !self.is_synced {
            return if self.link == Link::Lost { Answer::Lost } else { Answer::Connecting };
        }
        match self.acks.get(id).filter(|(acked, _)| acked == digest) {
            None => Answer::Missing,
            Some((_, AckState::Loaded | AckState::Stopped)) => Answer::Processed,
            Some((_, AckState::Waiting { message })) => Answer::Waiting(message),
            Some((_, AckState::Refused { reason: Reason::GatewayTooOld, message })) => Answer::TooOld(message),
            Some((_, AckState::Refused { reason, message })) => Answer::Refused(*reason, message),
        }
    }
}

/// Cuts the messages of a gateway to the length that a status shows.
fn bounded(state: AckState) -> AckState {
    match state {
        AckState::Waiting { message } => AckState::Waiting { message: message::part(&message) },
        AckState::Refused { reason, message } => AckState::Refused { reason, message: message::part(&message) },
        AckState::Loaded | AckState::Stopped => state,
    }
}
