//! Applies the messages of watches: decides, changes the gateway, and acknowledges the result.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::time::{Duration, Instant};

use tamis_config::acks::AckState;
use tamis_config::names::{self, CREDENTIAL_SHARDS};
use tamis_config::{CredentialHandle, Digest, ExpositionId, GatewayConfigSpec, Reason, Stopped};
use tokio::sync::{mpsc, watch};

use super::assemble::{self, Assembler, BundleOffer, Decision, Event, Offer, Verdict};
use super::cache::{Cache, Write};
use super::credential_store::CredentialStore;
use super::watch::Message;
use crate::admin::AdminToken;
use crate::gateway::{Gateway, Readiness};
use crate::reload::{Change, Failure};
use crate::seal::Keyring;
use crate::upstream::Credentials as _;

/// Maximum number of messages that are applied together.
const MESSAGES: usize = 1_024;
/// Maximum number of expositions that are changed together. Bounds the memory of decoded documents.
const DECISIONS: usize = 128;
/// Interval between two searches for unused credential values.
const SWEEP: Duration = Duration::from_secs(30);

/// Applies a group's configuration, on its own thread.
pub(super) struct Follower {
    pub(super) gateway: Arc<Gateway>,
    pub(super) credentials: Arc<CredentialStore>,
    pub(super) token: Arc<AdminToken>,
    pub(super) keyring: Arc<Keyring>,
    pub(super) group: String,
    /// The cache, and the channel to the thread that writes it.
    pub(super) cache: Option<(Cache, blocking::Sender<Write>)>,
    /// Set once, when every existing document has been processed.
    pub(super) loaded: watch::Sender<bool>,
}

/// The state of a [`Follower`].
struct State {
    assembler: Assembler,
    /// The credentials of the expositions that are served.
    used: HashMap<ExpositionId, Vec<CredentialHandle>>,
    /// Whether the API server has sent the list of GatewayConfigs.
    listed: bool,
    /// The shards that the API server has sent.
    shards: HashSet<usize>,
    /// Whether the cache on disk was loaded.
    recalled: bool,
    /// Whether the cache was marked complete.
    completed: bool,
    /// Watches that fail, each with its error.
    failing: HashMap<String, String>,
    swept: Instant,
}

impl State {
    fn is_complete(&self) -> bool {
        self.listed && self.shards.len() == CREDENTIAL_SHARDS
    }
}

impl Follower {
    /// Applies messages until all watches have ended.
    pub(super) fn run(self, mut inbox: mpsc::Receiver<Message>) {
        let mut state = State {
            assembler: Assembler::new(&self.group),
            used: HashMap::new(),
            listed: false,
            shards: HashSet::new(),
            recalled: false,
            completed: false,
            failing: HashMap::new(),
            swept: Instant::now(),
        };
        while let Some(message) = inbox.blocking_recv() {
            self.take(&mut state, message);
            for _ in 1..MESSAGES {
                let Ok(message) = inbox.try_recv() else { break };
                self.take(&mut state, message);
            }
            self.advance(&mut state);
        }
    }

    fn take(&self, state: &mut State, message: Message) {
        match message {
            Message::Config(event) => {
                match &event {
                    Event::ListBegins => {}
                    Event::ListEnds => {
                        state.listed = true;
                        recovered(state, "GatewayConfigs");
                    }
                    _ => recovered(state, "GatewayConfigs"),
                }
                state.assembler.observe(event);
            }
            Message::Shard(shard, values) => {
                recovered(state, &format!("Secret {}", names::credentials_secret(&self.group, shard)));
                state.shards.insert(shard);
                let handles = values.keys().cloned().collect();
                // The store must have the values before the assembler decides.
                self.credentials.put(shard, values, Instant::now());
                state.assembler.observe(Event::Values(shard, handles));
            }
            Message::Token(token) => {
                recovered(state, &format!("Secret {}", names::token_secret(&self.group)));
                self.token.set(token.as_ref());
                self.write_to_cache(Write::Token(token));
            }
            Message::Keys(keys) => {
                recovered(state, &format!("Secret {}", names::keys_secret(&self.group)));
                if keys.is_none() {
                    tracing::error!(
                        "the group's keys are missing; cursors of Enforced expositions are refused until they return"
                    );
                }
                self.keyring.set(keys.as_ref());
                self.write_to_cache(Write::Keys(keys));
            }
            Message::Failed(what, error) => {
                if state.failing.insert(what.clone(), error.clone()).is_none() {
                    tracing::warn!("{what} cannot be watched, trying again: {error}");
                } else {
                    tracing::debug!("{what} cannot be watched, trying again: {error}");
                }
            }
            Message::InitialListTimeout => self.recall(state),
        }
    }

    /// Loads the cache on disk, unless all lists are complete.
    fn recall(&self, state: &mut State) {
        let Some((cache, _)) = &self.cache else { return };
        let Some(missing) = state.assembler.waits_for() else { return };
        let recalled = match cache.read() {
            Ok(Some(recalled)) => recalled,
            Ok(None) => {
                tracing::warn!(%missing, "the API server has not answered yet, and the cache on disk is empty");
                return;
            }
            Err(error) => {
                tracing::error!(%error, "the cache on disk cannot be read");
                return;
            }
        };
        for problem in &recalled.broken {
            tracing::warn!("a file of the cache is ignored: {problem}");
        }
        tracing::warn!(
            objects = recalled.objects.len(),
            %missing,
            "the API server has not answered yet; serving the cache on disk until it does"
        );
        state.recalled = true;
        let handles = recalled.values.keys().cloned().collect();
        self.credentials.recall(recalled.values, Instant::now());
        if !self.token.is_known() {
            self.token.set(recalled.token.as_ref());
        }
        if !self.keyring.is_known() {
            self.keyring.set(recalled.keys.as_ref());
        }
        state.assembler.observe(Event::Recalled(recalled.objects, handles));
    }

    /// Makes every decision that is possible now, and updates readiness.
    fn advance(&self, state: &mut State) {
        self.gateway.metrics.failing_watches.set(i64::try_from(state.failing.len()).unwrap_or(i64::MAX));
        for problem in state.assembler.strange() {
            tracing::warn!("GatewayConfig not used: {problem}");
        }
        loop {
            let decisions = state.assembler.decide(DECISIONS);
            if decisions.is_empty() {
                break;
            }
            self.carry_out(state, decisions);
        }
        if state.swept.elapsed() >= SWEEP {
            state.swept = Instant::now();
            self.credentials.sweep(state.swept, || state.used.values().flatten().cloned().collect());
        }
        if let Some(missing) = state.assembler.waits_for() {
            let mut why: Vec<_> = state.failing.iter().map(|(what, error)| format!("{what}: {error}")).collect();
            why.sort_unstable();
            let why = why.first().map(|why| format!(" ({why})")).unwrap_or_default();
            self.gateway.set_readiness(Readiness::WaitsFor(format!("{missing}{why}")));
            return;
        }
        if state.is_complete() && !state.completed {
            state.completed = true;
            self.write_to_cache(Write::Complete);
            if state.recalled {
                tracing::info!("the lists of the API server are complete; the cache on disk is no longer served");
            }
        }
        let note = (!state.is_complete()).then(|| "from what was kept on disk, the API server is away".to_owned());
        self.gateway.set_readiness(Readiness::Ready(note));
        self.loaded.send_if_modified(|loaded| !std::mem::replace(loaded, true));
    }

    fn carry_out(&self, state: &mut State, decisions: Vec<Decision>) {
        let changes: Vec<Change> = decisions.iter().map(change).collect();
        let report = self.gateway.update(&changes);
        drop(changes);
        let mut failed: HashMap<_, _> = report.failed.into_iter().map(|f| (f.id.clone(), f)).collect();
        let mut acks = Vec::with_capacity(decisions.len());
        for Decision { id, digest, verdict } in decisions {
            let ack = match verdict {
                Verdict::Serve(offer) => Some(self.served(state, &id, &offer, failed.remove(&id))),
                Verdict::Bundle(offer) => Some(self.served_bundle(state, &id, &offer, failed.remove(&id))),
                Verdict::Stop(_, spec) => {
                    state.used.remove(&id);
                    self.put(&id, spec, Vec::new(), HashMap::new());
                    Some(AckState::Stopped)
                }
                Verdict::Wait(message) => {
                    tracing::info!(exposition = %id, "exposition waits: {message}");
                    Some(AckState::Waiting { message })
                }
                Verdict::Refuse { reason, message } => {
                    self.gateway.metrics.reloaded("failed");
                    tracing::error!(exposition = %id, reason = reason.as_str(), "exposition refused: {message}");
                    Some(AckState::Refused { reason, message })
                }
                Verdict::Remove => {
                    state.used.remove(&id);
                    self.write_to_cache(Write::Remove(names::exposition_object(&id)));
                    None
                }
            };
            acks.push((id, ack.map(|state| (digest, state))));
        }
        // The last of several acknowledgements of one exposition counts.
        let last: HashMap<ExpositionId, Option<(Digest, AckState)>> = acks.into_iter().collect();
        self.gateway.acks.note(last);
    }

    /// Returns the result of a document that was offered to the gateway.
    fn served(&self, state: &mut State, id: &ExpositionId, offer: &Offer, failure: Option<Failure>) -> AckState {
        if failure.is_none() || !self.gateway.serves(id) {
            // A refused document that left nothing to serve is cached too: a restart would refuse it again.
            let handles: Vec<_> = assemble::credentials(&offer.document).map(|(_, handle)| handle.clone()).collect();
            let values = |handle: &CredentialHandle| Some((handle.clone(), self.credentials.by_handle(handle)?));
            let parts =
                offer.parts.iter().map(|spec| (names::service_object(&spec.digest, spec.part), Arc::clone(spec)));
            self.put(id, Arc::clone(&offer.spec), parts.collect(), handles.iter().filter_map(values).collect());
            state.used.insert(id.clone(), handles);
        }
        result(failure)
    }

    /// As [`Self::served`], for a bundle.
    fn served_bundle(
        &self,
        state: &mut State,
        id: &ExpositionId,
        offer: &BundleOffer,
        failure: Option<Failure>,
    ) -> AckState {
        if failure.is_none() || !self.gateway.serves(id) {
            let handles: Vec<_> = offer.document.handle().cloned().into_iter().collect();
            let values =
                handles.iter().filter_map(|handle| Some((handle.clone(), self.credentials.by_handle(handle)?)));
            self.put(id, Arc::clone(&offer.spec), Vec::new(), values.collect());
            state.used.insert(id.clone(), handles);
        }
        result(failure)
    }

    fn put(
        &self,
        id: &ExpositionId,
        spec: Arc<GatewayConfigSpec>,
        parts: Vec<(String, Arc<GatewayConfigSpec>)>,
        values: HashMap<CredentialHandle, crate::upstream::Secret>,
    ) {
        self.write_to_cache(Write::Put { name: names::exposition_object(id), spec, parts, values });
    }

    fn write_to_cache(&self, write: Write) {
        if let Some((_, writes)) = &self.cache {
            // The writer ends after this thread.
            let _ = writes.send(write);
        }
    }
}

/// Returns the acknowledgement of a document that was offered to the gateway.
fn result(failure: Option<Failure>) -> AckState {
    match failure {
        None => AckState::Loaded,
        Some(Failure { reason, message, .. }) => AckState::Refused { reason, message },
    }
}

/// Notes that a watch works again.
fn recovered(state: &mut State, what: &str) {
    if state.failing.remove(what).is_some() {
        tracing::info!("{what} can be watched again");
    }
}

fn change(decision: &Decision) -> Change {
    let id = decision.id.clone();
    let stopped = |reason, message: &str| Stopped { reason, message: message.to_owned() };
    match &decision.verdict {
        Verdict::Serve(offer) => Change::Serve(Arc::clone(&offer.document), Arc::clone(&offer.service)),
        Verdict::Bundle(offer) => Change::Bundle(Arc::clone(&offer.document)),
        Verdict::Stop(stopped, _) => Change::Stop(id, stopped.clone()),
        Verdict::Wait(message) => Change::Keep(id, stopped(Reason::Pending, message)),
        Verdict::Refuse { reason, message } => Change::Keep(id, stopped(*reason, message)),
        Verdict::Remove => Change::Remove(id),
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
