//! Acknowledgements to the operator: the result of each document, and what the expositions saved. `/acks` streams them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tamis_config::acks::{Ack, AckEvent, AckState, Saved};
use tamis_config::{Digest, ExpositionId, FORMAT_VERSION};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::exposition::hex;
use crate::gateway::Gateway;
use crate::metrics::Totals;
use crate::serve::{Body, Cut};

/// Changes that a reader may lag behind. The stream of a slower reader is cut, and its next stream begins with a
/// snapshot.
const LAG: usize = 16_384;
/// Concurrent streams.
const STREAMS: usize = 32;
/// How long changes are collected before they are sent.
const GATHER: Duration = Duration::from_millis(5);
/// How often counters are read.
const COUNT: Duration = Duration::from_secs(1);
/// How often a silent stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The result of every document.
#[derive(Debug)]
pub(crate) struct Acks {
    instance: String,
    state: Mutex<State>,
    /// The number of changes so far.
    version: watch::Sender<u64>,
    streams: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    acks: BTreeMap<ExpositionId, Ack>,
    /// The expositions that changed, newest last.
    log: VecDeque<ExpositionId>,
    /// The number of changes that were dropped from the log.
    forgotten: u64,
}

impl State {
    fn version(&self) -> u64 {
        self.forgotten + self.log.len() as u64
    }

    /// Notes a change.
    fn push(&mut self, id: ExpositionId) {
        self.log.push_back(id);
        if self.log.len() > LAG {
            self.log.pop_front();
            self.forgotten += 1;
        }
    }

    /// Returns the changes since a version; none if they are no longer in the log.
    fn since(&self, version: u64) -> Option<AckEvent> {
        let skip = usize::try_from(version.checked_sub(self.forgotten)?).ok()?;
        let changed: BTreeSet<_> = self.log.iter().skip(skip).collect();
        let (mut expositions, mut removed) = (Vec::new(), Vec::new());
        for id in changed {
            match self.acks.get(id) {
                Some(ack) => expositions.push(ack.clone()),
                None => removed.push(id.clone()),
            }
        }
        Some(AckEvent::Changed { expositions, removed })
    }
}

impl Acks {
    /// Creates an empty table; none if the system has no random numbers.
    pub(crate) fn new() -> Option<Self> {
        let mut instance = [0; 16];
        aws_lc_rs::rand::fill(&mut instance).ok()?;
        Some(Self {
            instance: hex(&instance),
            state: Mutex::default(),
            version: watch::Sender::new(0),
            streams: AtomicUsize::new(0),
        })
    }

    /// Returns the result of an exposition's newest document.
    pub(crate) fn of(&self, id: &ExpositionId) -> Option<Ack> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).acks.get(id).cloned()
    }

    /// Returns how many of the newest documents were refused, and how many wait. `others` were refused, too.
    pub(crate) fn not_loaded<'a>(&self, others: impl Iterator<Item = &'a ExpositionId>) -> (usize, usize) {
        let guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_refused = |ack: &Ack| matches!(ack.state, AckState::Refused { .. });
        let refused = guard.acks.values().filter(|ack| is_refused(ack)).count();
        let others = others.filter(|id| !guard.acks.get(id).is_some_and(is_refused)).count();
        let waiting = guard.acks.values().filter(|ack| matches!(ack.state, AckState::Waiting { .. })).count();
        (refused + others, waiting)
    }

    /// Notes that what is known of the upstreams of these expositions has changed.
    pub(crate) fn touch(&self, ids: impl IntoIterator<Item = ExpositionId>) {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            if guard.acks.contains_key(&id) {
                guard.push(id);
            }
        }
        let version = guard.version();
        drop(guard);
        self.version.send_if_modified(|before| std::mem::replace(before, version) != version);
    }

    /// Notes the results of documents; none for an exposition that was removed.
    pub(crate) fn note(&self, acks: impl IntoIterator<Item = (ExpositionId, Option<(Digest, AckState)>)>) {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        for (id, ack) in acks {
            let ack = ack.map(|(digest, state)| Ack { id: id.clone(), digest, state, upstream: None });
            if state.acks.get(&id) == ack.as_ref() {
                continue;
            }
            match ack {
                Some(ack) => state.acks.insert(id.clone(), ack),
                None => state.acks.remove(&id),
            };
            state.push(id);
        }
        let version = state.version();
        drop(guard);
        self.version.send_if_modified(|before| std::mem::replace(before, version) != version);
    }
}

/// A place among the streams.
struct Place(Arc<Gateway>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.acks.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of `/acks`; none if there are too many streams. `shutdown` completes it, `revoked` cuts it.
pub(crate) fn body(gateway: &Arc<Gateway>, shutdown: &CancellationToken, revoked: CancellationToken) -> Option<Body> {
    let others = gateway.acks.streams.fetch_add(1, Ordering::Relaxed);
    let place = Place(Arc::clone(gateway));
    if others >= STREAMS {
        return None;
    }
    let now = Instant::now();
    let reader = Reader {
        changes: gateway.acks.version.subscribe(),
        shutdown: shutdown.clone(),
        revoked,
        seen: None,
        counted: BTreeMap::new(),
        count_at: now,
        sent_at: now,
        place,
    };
    Some(Body::stream(stream::unfold(reader, |mut reader| async {
        let next = reader.next().await?;
        Some((next, reader))
    })))
}

/// A stream, and what it has sent.
struct Reader {
    changes: watch::Receiver<u64>,
    shutdown: CancellationToken,
    /// Cancelled when the token that opened the stream is revoked.
    revoked: CancellationToken,
    /// The version that was sent; none before the snapshot.
    seen: Option<u64>,
    counted: BTreeMap<ExpositionId, Totals>,
    count_at: Instant,
    sent_at: Instant,
    place: Place,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<Bytes, Cut>> {
        let text = self.text().await.transpose()?;
        self.sent_at = Instant::now();
        Some(text)
    }

    async fn text(&mut self) -> Result<Option<Bytes>, Cut> {
        let Some(seen) = self.seen else { return Ok(Some(event(&self.snapshot()))) };
        loop {
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return Ok(None),
                () = self.revoked.cancelled() => return Err(Cut::AccessWithdrawn),
                () = sleep_until(self.count_at) => {
                    self.count_at = Instant::now() + COUNT;
                    let saved = self.count();
                    if !saved.is_empty() {
                        return Ok(Some(event(&AckEvent::Counted { saved })));
                    }
                }
                changed = self.changes.changed() => {
                    if changed.is_err() {
                        return Ok(None);
                    }
                    tokio::time::sleep(GATHER).await;
                    self.changes.borrow_and_update();
                    let state = self.place.0.acks.state.lock().unwrap_or_else(PoisonError::into_inner);
                    let (changed, version) = (state.since(seen), state.version());
                    drop(state);
                    if version == seen {
                        continue;
                    }
                    self.seen = Some(version);
                    let mut changed = changed.ok_or(Cut::Lagged)?;
                    if let AckEvent::Changed { removed, expositions } = &mut changed {
                        self.add_upstreams(expositions);
                        for id in removed {
                            self.counted.remove(id);
                        }
                    }
                    return Ok(Some(event(&changed)));
                }
                () = sleep_until(self.sent_at + KEEP_ALIVE) => {
                    return Ok(Some(Bytes::from_static(b": keep-alive\n\n")));
                }
            }
        }
    }

    fn snapshot(&mut self) -> AckEvent {
        self.changes.borrow_and_update();
        let saved = self.count();
        self.count_at = Instant::now() + COUNT;
        let acks = &self.place.0.acks;
        let state = acks.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.seen = Some(state.version());
        let mut expositions: Vec<Ack> = state.acks.values().cloned().collect();
        drop(state);
        self.add_upstreams(&mut expositions);
        AckEvent::Snapshot {
            instance: acks.instance.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            format_versions: (1..=FORMAT_VERSION).collect(),
            expositions,
            saved,
        }
    }

    /// Adds what is known now of the upstreams of expositions.
    fn add_upstreams(&self, acks: &mut [Ack]) {
        let slots = self.place.0.registry.all();
        for ack in acks {
            let slot = slots.get(ack.id.to_string().as_str());
            ack.upstream = slot.and_then(|slot| slot.state().serving()?.upstream_report());
        }
    }

    /// Returns the totals that have grown.
    fn count(&mut self) -> Vec<Saved> {
        let slots = self.place.0.registry.all();
        let mut saved = Vec::new();
        for slot in slots.values() {
            let totals = slot.totals();
            let sent = self.counted.get(&slot.id).copied().unwrap_or_default();
            // While a tool is being removed, its bytes may be missing for a moment.
            if totals.input > sent.input || totals.output > sent.output {
                self.counted.insert(ExpositionId::clone(&slot.id), totals);
                saved.push(Saved {
                    id: ExpositionId::clone(&slot.id),
                    input_bytes: totals.input,
                    output_bytes: totals.output,
                });
            }
        }
        saved.sort_by(|a, b| a.id.cmp(&b.id));
        saved
    }
}

fn event(event: &AckEvent) -> Bytes {
    // JSON of these types has no line ends, and making it does not fail.
    format!("data: {}\n\n", serde_json::to_string(event).unwrap_or_default()).into()
}

#[cfg(test)]
#[path = "acks_tests.rs"]
mod tests;
