//! What can be served of the objects and credentials that are there. Pure: events in, decisions out.
//!
//! A document is offered once all that it names is there: the parts of its service and the values of its credentials.
//! Until then, and where it cannot be read, what was served before stays. Since a document names its service by digest
//! and its credentials by handles that are never used again, no order of events can put it together with another's.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use tamis_config::carrier::{Unreadable, decode_exposition, decode_service};
use tamis_config::names::{self, CREDENTIAL_SHARDS};
use tamis_config::{
    Access, BundleDocument, CredentialHandle, Digest, ExpositionDocument, ExpositionId, ExpositionPayload,
    GatewayConfigSpec, PayloadKind, Reason, ServiceDocument, Stopped, reads,
};

/// A GatewayConfig, as far as it can be read.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    /// `metadata.name`.
    pub(crate) name: String,
    /// Its `spec`.
    pub(crate) spec: Result<Arc<GatewayConfigSpec>, Malformed>,
}

/// A GatewayConfig whose `spec` is not one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Whose it is, as its labels say.
    pub(crate) id: Option<ExpositionId>,
    /// `spec.digest`, where that can be read.
    pub(crate) digest: Option<Digest>,
    /// What is wrong.
    pub(crate) message: String,
}

/// What happened.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// All objects there are will follow.
    ListBegins,
    /// An object as it is now.
    Applied(Object),
    /// An object is gone.
    Deleted(String),
    /// What did not come since [`Event::ListBegins`] is gone.
    ListEnds,
    /// The credentials that a shard holds now.
    Values(usize, HashSet<CredentialHandle>),
    /// What was served once, to be served until the first list has come. What has come already is newer.
    Recalled(Vec<Object>, HashSet<CredentialHandle>),
}

/// What is to be done for one exposition.
#[derive(Debug, Clone)]
pub(crate) struct Decision {
    /// The exposition.
    pub(crate) id: ExpositionId,
    /// `spec.digest` of the object that was processed.
    pub(crate) digest: Digest,
    /// What is to be done.
    pub(crate) verdict: Verdict,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) enum Verdict {
    /// Serve it; all that the document names is there.
    Serve(Arc<Offer>),
    /// Serve it as a bundle; its callers' keys are there. Its parts are served when they come.
    Bundle(Arc<BundleOffer>),
    /// Answer 503, as the object says.
    Stop(Stopped, Arc<GatewayConfigSpec>),
    /// Keep what is served: something is missing.
    Wait(String),
    /// Keep what is served: this gateway cannot read it.
    Refuse {
        /// [`Reason::GatewayTooOld`] or [`Reason::InvalidManifest`].
        reason: Reason,
        /// What is wrong.
        message: String,
    },
    /// The exposition is gone.
    Remove,
}

/// A document with all that it names.
#[derive(Debug)]
pub(crate) struct Offer {
    /// The exposition.
    pub(crate) document: Arc<ExpositionDocument>,
    /// The service that it publishes.
    pub(crate) service: Arc<ServiceDocument>,
    /// The object that it came from.
    pub(crate) spec: Arc<GatewayConfigSpec>,
    /// The objects that the service came from.
    pub(crate) parts: Vec<Arc<GatewayConfigSpec>>,
}

/// A bundle.
#[derive(Debug)]
pub(crate) struct BundleOffer {
    /// The bundle.
    pub(crate) document: Arc<BundleDocument>,
    /// The object that it came from.
    pub(crate) spec: Arc<GatewayConfigSpec>,
}

/// The credentials that a document names, and what it calls them.
pub(crate) fn credentials(document: &ExpositionDocument) -> impl Iterator<Item = (&str, &CredentialHandle)> {
    let service = document.credentials.iter().map(|(name, grant)| (name.as_str(), &grant.handle));
    service.chain(callers(document.access.as_ref()))
}

/// The callers' keys that access names, and what it calls them.
fn callers(access: Option<&Access>) -> Option<(&str, &CredentialHandle)> {
    access.and_then(Access::secret).and_then(|(secret, handle)| Some((secret, handle?)))
}

/// Holds what has come and finds what can be served.
#[derive(Debug)]
pub(crate) struct Assembler {
    group: String,
    /// Counts the lists.
    listing: u64,
    listed: bool,
    objects: HashMap<String, Known>,
    expositions: HashMap<ExpositionId, Entry>,
    services: HashMap<Digest, Service>,
    /// The credentials of each shard; none before the shard has come.
    shards: [Option<HashSet<CredentialHandle>>; CREDENTIAL_SHARDS],
    /// Expositions that wait for a credential.
    awaited: HashMap<CredentialHandle, BTreeSet<ExpositionId>>,
    /// Expositions to decide on.
    undecided: BTreeSet<ExpositionId>,
    /// Expositions whose object was deleted since they were decided on.
    deleted: HashSet<ExpositionId>,
    strange: Vec<String>,
}

#[derive(Debug)]
struct Known {
    /// The list that it last came in.
    seen: u64,
    is: Is,
}

#[derive(Debug, Clone)]
enum Is {
    Exposition(ExpositionId),
    Part(Digest, u32),
    /// Nothing that can be used.
    Strange,
}

/// One exposition.
#[derive(Debug)]
struct Entry {
    digest: Digest,
    newest: Newest,
    /// What came since it was decided on and was replaced before it was looked at, oldest first.
    skipped: Vec<Arc<GatewayConfigSpec>>,
    /// The service that it uses or waits for.
    service: Option<Digest>,
    /// The credentials that it waits for.
    awaits: Vec<CredentialHandle>,
}

#[derive(Debug)]
enum Newest {
    /// To be offered.
    Open(Arc<GatewayConfigSpec>),
    /// It cannot be read.
    Malformed(String),
    /// Offered.
    Settled,
}

/// One service: its parts for as long as they exist, its document for as long as an exposition uses it.
#[derive(Debug, Default)]
struct Service {
    parts: BTreeMap<u32, Arc<GatewayConfigSpec>>,
    document: Option<Result<Arc<ServiceDocument>, Unreadable>>,
    users: BTreeSet<ExpositionId>,
}

impl Assembler {
    /// Holds nothing yet.
    pub(crate) fn new(group: &str) -> Self {
        Self {
            group: group.to_owned(),
            listing: 0,
            listed: false,
            objects: HashMap::new(),
            expositions: HashMap::new(),
            services: HashMap::new(),
            shards: Default::default(),
            awaited: HashMap::new(),
            undecided: BTreeSet::new(),
            deleted: HashSet::new(),
            strange: Vec::new(),
        }
    }

    /// What has to come before anything can be decided: a part of what there is must never pass for all of it.
    pub(crate) fn waits_for(&self) -> Option<String> {
        let missing = (0..CREDENTIAL_SHARDS).filter(|shard| self.shards[*shard].is_none());
        let secrets: Vec<_> = missing.map(|shard| names::credentials_secret(&self.group, shard)).collect();
        match (self.listed, secrets.is_empty()) {
            (true, true) => None,
            (true, false) => Some(format!("Secrets {}", secrets.join(", "))),
            (false, true) => Some("GatewayConfigs".to_owned()),
            (false, false) => Some(format!("GatewayConfigs, Secrets {}", secrets.join(", "))),
        }
    }

    /// Whether nothing is left to decide on.
    #[cfg(test)]
    pub(crate) fn is_settled(&self) -> bool {
        self.undecided.is_empty()
    }

    /// Objects that are of no use, and why; each is told once.
    pub(crate) fn strange(&mut self) -> Vec<String> {
        mem::take(&mut self.strange)
    }

    /// Takes note of an event.
    pub(crate) fn observe(&mut self, event: Event) {
        match event {
            Event::ListBegins => self.listing += 1,
            Event::Applied(object) => self.apply(object, self.listing),
            Event::Deleted(name) => self.delete(&name),
            Event::ListEnds => {
                let gone = self.objects.iter().filter(|(_, known)| known.seen != self.listing);
                let gone: Vec<_> = gone.map(|(name, _)| name.clone()).collect();
                gone.iter().for_each(|name| self.delete(name));
                self.listed = true;
            }
            Event::Values(shard, values) => self.values(shard, values),
            Event::Recalled(objects, values) => {
                for object in objects {
                    if !self.objects.contains_key(&object.name) {
                        self.apply(object, 0);
                    }
                }
                // Which shard each lay in is not known: all count as there until the last shard has come.
                for shard in (0..CREDENTIAL_SHARDS).filter(|shard| self.shards[*shard].is_none()).collect::<Vec<_>>() {
                    self.values(shard, values.iter().cloned().collect());
                }
                self.listed = true;
            }
        }
    }

    /// Decides on up to `limit` expositions; the rest stays for the next time.
    pub(crate) fn decide(&mut self, limit: usize) -> Vec<Decision> {
        let mut decisions = Vec::new();
        if self.waits_for().is_some() {
            return decisions;
        }
        for _ in 0..limit {
            let Some(id) = self.undecided.pop_first() else { break };
            self.decide_on(&id, &mut decisions);
        }
        decisions
    }

    fn apply(&mut self, object: Object, seen: u64) {
        let is = self.identify(&object);
        let Object { name, spec } = object;
        match (&is, spec) {
            (Is::Exposition(id), spec) => self.exposition(id.clone(), spec),
            (Is::Part(digest, part), Ok(spec)) => self.part(digest, *part, spec),
            // A part that cannot be read is as good as none.
            (Is::Part(..), Err(malformed)) => {
                self.strange.push(format!("{name}: {}", malformed.message));
                self.delete(&name);
            }
            (Is::Strange, spec) => {
                let message = spec.err().map_or_else(
                    || "its name is not that of its content, or it is of another group".to_owned(),
                    |malformed| malformed.message,
                );
                self.strange.push(format!("{name}: {message}"));
            }
        }
        self.objects.insert(name, Known { seen, is });
    }

    /// What an object is, by its name and content: one that lies about it is not used.
    fn identify(&self, object: &Object) -> Is {
        let name = &object.name;
        match &object.spec {
            Ok(spec) if spec.gateway_group != self.group => Is::Strange,
            Ok(spec) => match (spec.kind, &spec.exposition) {
                (PayloadKind::Exposition, Some(id)) if names::exposition_object(id) == *name => {
                    Is::Exposition(id.clone())
                }
                (PayloadKind::Service, _) if names::service_object(&spec.digest, spec.part) == *name => {
                    Is::Part(spec.digest.clone(), spec.part)
                }
                _ => Is::Strange,
            },
            Err(malformed) => match (self.objects.get(name).map(|known| &known.is), &malformed.id) {
                (Some(is @ (Is::Exposition(_) | Is::Part(..))), _) => is.clone(),
                (_, Some(id)) if names::exposition_object(id) == *name => Is::Exposition(id.clone()),
                _ => Is::Strange,
            },
        }
    }

    fn exposition(&mut self, id: ExpositionId, spec: Result<Arc<GatewayConfigSpec>, Malformed>) {
        let (digest, newest) = match spec {
            Ok(spec) => (spec.digest.clone(), Newest::Open(spec)),
            Err(malformed) => {
                (malformed.digest.unwrap_or_else(|| Digest(String::new())), Newest::Malformed(malformed.message))
            }
        };
        match self.expositions.get_mut(&id) {
            None => {
                let entry = Entry { digest, newest, skipped: Vec::new(), service: None, awaits: Vec::new() };
                self.expositions.insert(id.clone(), entry);
            }
            Some(entry) => {
                let same = match (&entry.newest, &newest) {
                    (Newest::Settled, Newest::Open(spec)) => entry.digest == digest && reads(spec.format_version),
                    (Newest::Open(before), Newest::Open(spec)) => before == spec,
                    (Newest::Malformed(before), Newest::Malformed(message)) => {
                        entry.digest == digest && before == message
                    }
                    _ => false,
                };
                if same {
                    return;
                }
                if let Newest::Open(replaced) = mem::replace(&mut entry.newest, newest) {
                    entry.skipped.push(replaced);
                }
                entry.digest = digest;
            }
        }
        self.undecided.insert(id);
    }

    fn part(&mut self, digest: &Digest, part: u32, spec: Arc<GatewayConfigSpec>) {
        let service = self.services.entry(digest.clone()).or_default();
        if service.parts.get(&part) == Some(&spec) {
            return;
        }
        let all = usize::try_from(spec.parts).unwrap_or(usize::MAX);
        service.parts.insert(part, spec);
        service.document = None;
        if service.parts.len() >= all {
            self.undecided.extend(service.users.iter().cloned());
        }
    }

    fn delete(&mut self, name: &str) {
        match self.objects.remove(name).map(|known| known.is) {
            Some(Is::Exposition(id)) => {
                let service = self.interests(&id);
                self.leave(&id, service.as_ref());
                self.expositions.remove(&id);
                self.deleted.insert(id.clone());
                self.undecided.insert(id);
            }
            Some(Is::Part(digest, part)) => {
                if let Some(service) = self.services.get_mut(&digest) {
                    service.parts.remove(&part);
                    service.document = None;
                    if service.parts.is_empty() && service.users.is_empty() {
                        self.services.remove(&digest);
                    }
                }
            }
            Some(Is::Strange) | None => {}
        }
    }

    fn values(&mut self, shard: usize, values: HashSet<CredentialHandle>) {
        for handle in &values {
            if let Some(waiting) = self.awaited.remove(handle) {
                self.undecided.extend(waiting);
            }
        }
        if let Some(slot) = self.shards.get_mut(shard) {
            *slot = Some(values);
        }
    }

    /// Forgets what an exposition waits for; gives the service that it uses.
    fn interests(&mut self, id: &ExpositionId) -> Option<Digest> {
        let entry = self.expositions.get_mut(id)?;
        for handle in mem::take(&mut entry.awaits) {
            if let Some(waiting) = self.awaited.get_mut(&handle) {
                waiting.remove(id);
                if waiting.is_empty() {
                    self.awaited.remove(&handle);
                }
            }
        }
        entry.service.take()
    }

    /// An exposition uses a service no more.
    fn leave(&mut self, id: &ExpositionId, digest: Option<&Digest>) {
        let Some(digest) = digest else { return };
        let Some(service) = self.services.get_mut(digest) else { return };
        service.users.remove(id);
        if service.users.is_empty() {
            service.document = None;
            if service.parts.is_empty() {
                self.services.remove(digest);
            }
        }
    }

    fn decide_on(&mut self, id: &ExpositionId, decisions: &mut Vec<Decision>) {
        let mut push =
            |digest: &Digest, verdict| decisions.push(Decision { id: id.clone(), digest: digest.clone(), verdict });
        if self.deleted.remove(id) {
            push(&Digest(String::new()), Verdict::Remove);
        }
        let Some(entry) = self.expositions.get_mut(id) else { return };
        let digest = entry.digest.clone();
        let skipped = mem::take(&mut entry.skipped);
        let open = match &entry.newest {
            Newest::Settled => return,
            Newest::Malformed(_) => None,
            Newest::Open(spec) => Some(Arc::clone(spec)),
        };
        let malformed = match &entry.newest {
            Newest::Malformed(message) => Some(message.clone()),
            _ => None,
        };
        let verdict = match (open, malformed) {
            (Some(spec), _) => self.judge(id, &spec),
            (None, message) => {
                Verdict::Refuse { reason: Reason::InvalidManifest, message: message.unwrap_or_default() }
            }
        };
        if matches!(verdict, Verdict::Serve(_) | Verdict::Bundle(_) | Verdict::Stop(..)) {
            if let Some(entry) = self.expositions.get_mut(id) {
                entry.newest = Newest::Settled;
            }
        } else if !skipped.is_empty() {
            // What is kept is the last that could be loaded, even if it was never looked at: it may be what revoked
            // an access or stopped the exposition.
            let loadable = |spec: &Arc<GatewayConfigSpec>| match self.judge(id, spec) {
                verdict @ (Verdict::Serve(_) | Verdict::Bundle(_) | Verdict::Stop(..)) => {
                    Some((spec.digest.clone(), verdict))
                }
                _ => None,
            };
            if let Some((digest, verdict)) = skipped.iter().rev().find_map(loadable) {
                push(&digest, verdict);
            }
            // The newest one's interests again.
            if let Some(Newest::Open(spec)) = self.expositions.get(id).map(|entry| &entry.newest) {
                let spec = Arc::clone(spec);
                self.judge(id, &spec);
            }
        }
        push(&digest, verdict);
    }

    /// What can be done with an object now. Notes what the exposition uses and waits for.
    fn judge(&mut self, id: &ExpositionId, spec: &Arc<GatewayConfigSpec>) -> Verdict {
        let before = self.interests(id);
        let document = match read(spec) {
            Ok(ExpositionPayload::Serve(document)) => document,
            Ok(ExpositionPayload::Bundle(document)) => {
                self.leave(id, before.as_ref());
                return self.judge_bundle(id, document, spec);
            }
            Ok(ExpositionPayload::Stop(stop)) => {
                self.leave(id, before.as_ref());
                let stopped = Stopped { reason: stop.reason, message: stop.message };
                return Verdict::Stop(stopped, Arc::clone(spec));
            }
            Err(unreadable) => {
                self.leave(id, before.as_ref());
                return refuse(&unreadable, "");
            }
        };
        let missing: Vec<_> = credentials(&document).filter(|(_, handle)| !self.is_there(handle)).collect();
        self.wait_for(id, &missing);
        if let Some(entry) = self.expositions.get_mut(id) {
            entry.service = Some(document.service.clone());
        }
        let digest = document.service.clone();
        let service = self.services.entry(digest.clone()).or_default();
        service.users.insert(id.clone());
        let verdict = match (service.read(), missing.first()) {
            (Err(Unreadable::Incomplete(part, parts)), _) => {
                Verdict::Wait(format!("part {part} of {parts} of service {digest} is not there yet"))
            }
            (Err(unreadable), _) => refuse(&unreadable, &format!("service {digest}: ")),
            (Ok(_), Some((name, handle))) => {
                Verdict::Wait(format!("the value of {name} is not there yet ({})", handle.0))
            }
            (Ok(read), None) => Verdict::Serve(Arc::new(Offer {
                service: read,
                parts: service.parts.values().cloned().collect(),
                spec: Arc::clone(spec),
                document: Arc::new(document),
            })),
        };
        // Not before it uses the other: the service's document is read once.
        if before.as_ref() != Some(&digest) {
            self.leave(id, before.as_ref());
        }
        verdict
    }
}

impl Assembler {
    /// Returns whether a value is there. Where the shard that its name says is full, it lies in another one.
    fn is_there(&self, handle: &CredentialHandle) -> bool {
        self.shards.iter().flatten().any(|values| values.contains(handle))
    }

    /// Notes the values that an exposition waits for.
    fn wait_for(&mut self, id: &ExpositionId, missing: &[(&str, &CredentialHandle)]) {
        for (_, handle) in missing {
            self.awaited.entry((*handle).clone()).or_default().insert(id.clone());
        }
        if let Some(entry) = self.expositions.get_mut(id) {
            entry.awaits = missing.iter().map(|(_, handle)| (*handle).clone()).collect();
        }
    }

    fn judge_bundle(&mut self, id: &ExpositionId, document: BundleDocument, spec: &Arc<GatewayConfigSpec>) -> Verdict {
        let missing: Vec<_> =
            callers(document.access.as_ref()).into_iter().filter(|(_, handle)| !self.is_there(handle)).collect();
        self.wait_for(id, &missing);
        match missing.first() {
            Some((name, handle)) => Verdict::Wait(format!("the value of {name} is not there yet ({})", handle.0)),
            None => Verdict::Bundle(Arc::new(BundleOffer { document: Arc::new(document), spec: Arc::clone(spec) })),
        }
    }
}

/// The payload, of the version that is known here.
fn read(spec: &GatewayConfigSpec) -> Result<ExpositionPayload, Unreadable> {
    let payload = decode_exposition(spec)?;
    let version = payload.format_version();
    if reads(version) { Ok(payload) } else { Err(Unreadable::TooNew(version)) }
}

impl Service {
    /// The document, read once.
    fn read(&mut self) -> Result<Arc<ServiceDocument>, Unreadable> {
        let parts = &self.parts;
        self.document
            .get_or_insert_with(|| {
                let (_, document) = decode_service(parts.values().map(AsRef::as_ref))?;
                match document.format_version {
                    version if reads(version) => Ok(Arc::new(document)),
                    version => Err(Unreadable::TooNew(version)),
                }
            })
            .clone()
    }
}

fn refuse(unreadable: &Unreadable, whose: &str) -> Verdict {
    let reason = match unreadable {
        Unreadable::TooNew(_) | Unreadable::Unknown(_) => Reason::GatewayTooOld,
        Unreadable::Incomplete(..) | Unreadable::Broken(_) => Reason::InvalidManifest,
    };
    Verdict::Refuse { reason, message: format!("{whose}{unreadable}") }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
