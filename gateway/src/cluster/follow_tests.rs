use std::path::Path;

use serde_json::json;
use tamis_config::carrier::{encode_exposition, encode_service};
use tamis_config::{ExpositionPayload, ServiceDocument};

use super::super::assemble::Object;
use super::*;
use crate::Options;

const GROUP: &str = "public";

fn id(name: &str) -> ExpositionId {
    ExpositionId { namespace: "team".to_owned(), name: name.to_owned() }
}

fn service() -> ServiceDocument {
    let document = json!({
        "formatVersion": 1, "name": "s", "version": "1",
        "source": {"http": {"baseUrl": "https://a.example"}},
        "tools": {"read": {"inputSchema": {"type": "object"}, "call": {"http": {"method": "GET", "path": "/"}}}},
    });
    serde_json::from_str(&document.to_string()).unwrap()
}

fn applied(name: &str, filter: &str) -> Message {
    let document = json!({"serve": {
        "formatVersion": 1, "id": id(name), "service": service().digest(), "enforcement": "Enforced",
        "tools": {"read": {"filter": {"retain": [filter]}}}, "access": "anonymous",
    }});
    let payload: ExpositionPayload = serde_json::from_str(&document.to_string()).unwrap();
    let spec = encode_exposition(GROUP, &payload).unwrap();
    let name = names::exposition_object(&id(name));
    Message::Config(Event::Applied(Object { name, spec: Ok(Arc::new(spec)) }))
}

fn bundled(name: &str, part: &str) -> Message {
    let document = json!({"bundle": {
        "formatVersion": 4, "id": id(name), "parts": [{"name": part, "prefix": "p_"}], "access": "anonymous",
    }});
    let payload: ExpositionPayload = serde_json::from_str(&document.to_string()).unwrap();
    let spec = encode_exposition(GROUP, &payload).unwrap();
    let name = names::exposition_object(&id(name));
    Message::Config(Event::Applied(Object { name, spec: Ok(Arc::new(spec)) }))
}

fn part() -> Message {
    let spec = encode_service(GROUP, &service()).unwrap().remove(0);
    let name = names::service_object(&spec.digest, 0);
    Message::Config(Event::Applied(Object { name, spec: Ok(Arc::new(spec)) }))
}

/// A follower that has the messages of a test instead of watches.
struct Following {
    gateway: Arc<Gateway>,
    tell: mpsc::Sender<Message>,
    loaded: watch::Receiver<bool>,
    thread: std::thread::JoinHandle<()>,
    writer: Option<std::thread::JoinHandle<()>>,
}

impl Following {
    fn start(folder: Option<&Path>) -> Self {
        let credentials = Arc::new(CredentialStore::default());
        let gateway = Gateway::new(Options::new(Arc::clone(&credentials) as _)).unwrap();
        let (tell, inbox) = mpsc::channel(64);
        let (loaded, is_loaded) = watch::channel(false);
        let mut writer = None;
        let cache = folder.map(|folder| {
            let cache = Cache::open(folder, "tamis-public", GROUP).unwrap();
            let (writes, written) = blocking::channel();
            let kept = super::super::cache::CacheWriter::new(cache.clone());
            writer = Some(std::thread::spawn(move || super::super::write_cache(kept, &written)));
            (cache, writes)
        });
        let follower = Follower {
            gateway: Arc::clone(&gateway),
            credentials,
            token: Arc::default(),
            keyring: Arc::default(),
            group: GROUP.to_owned(),
            cache,
            loaded,
        };
        let thread = std::thread::spawn(move || follower.run(inbox));
        Self { gateway, tell, loaded: is_loaded, thread, writer }
    }

    fn say(&self, messages: impl IntoIterator<Item = Message>) {
        messages.into_iter().for_each(|message| self.tell.blocking_send(message).unwrap());
    }

    fn list(&self, messages: impl IntoIterator<Item = Message>) {
        self.say([Message::Config(Event::ListBegins)]);
        self.say(messages);
        self.say([Message::Config(Event::ListEnds)]);
    }

    fn shards(&self) {
        self.say((0..CREDENTIAL_SHARDS).map(|shard| Message::Shard(shard, HashMap::new())));
    }

    fn until(&self, what: &str, holds: impl Fn(&Gateway) -> bool) {
        for _ in 0..1_500 {
            if holds(&self.gateway) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("never: {what}");
    }

    fn is_loaded(&self) -> bool {
        *self.loaded.borrow()
    }

    /// All that was noted is on disk then.
    fn end(self) {
        drop(self.tell);
        self.thread.join().unwrap();
        if let Some(writer) = self.writer {
            writer.join().unwrap();
        }
    }
}

fn ready(note: &str) -> impl Fn(&Gateway) -> bool {
    move |gateway| match gateway.readiness() {
        Some(Readiness::Ready(said)) => said.unwrap_or_default().contains(note),
        _ => false,
    }
}

#[test]
fn one_change_among_many_touches_that_one_alone() {
    let following = Following::start(None);
    let count = 1_000;
    following.shards();
    following.list((0..count).map(|n| applied(&format!("e{n}"), "/a")).chain([part()]));
    following.until("all are loaded", ready(""));
    assert!(following.is_loaded());
    let before = following.gateway.registry.all();
    assert_eq!(before.len(), count);
    let states: HashMap<_, _> = before.iter().map(|(path, slot)| (path.clone(), slot.state())).collect();
    // They share what is equal.
    let programs: HashSet<_> =
        states.values().map(|s| Arc::as_ptr(&s.serving().unwrap().tools()["read"].program)).collect();
    let services: HashSet<_> = states.values().map(|s| Arc::as_ptr(&s.serving().unwrap().service)).collect();
    let sets: HashSet<_> = states.values().map(|s| Arc::as_ptr(&s.serving().unwrap().set)).collect();
    assert_eq!((programs.len(), services.len(), sets.len()), (1, 1, 1));

    following.say([applied("e7", "/b")]);
    let changed =
        |gateway: &Gateway| !Arc::ptr_eq(&gateway.registry.find("team/e7").unwrap().state(), &states["team/e7"]);
    following.until("it is swapped", changed);
    let after = following.gateway.registry.all();
    assert!(Arc::ptr_eq(&before, &after), "the table of addresses is not copied");
    let same = |(path, slot): (&Arc<str>, &Arc<crate::registry::Slot>)| Arc::ptr_eq(&slot.state(), &states[path]);
    assert_eq!(after.iter().filter(|entry| !same(*entry)).count(), 1);
    following.end();
}

#[test]
fn the_disk_serves_until_everything_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let following = Following::start(Some(folder.path()));
    following.shards();
    following.say([Message::InitialListTimeout]);
    let all = [applied("kept", "/a"), applied("gone", "/a"), applied("refused", "/a"), bundled("all", "kept")];
    following.list([part()].into_iter().chain(all));
    following.until("all are loaded", ready(""));
    assert_eq!(following.gateway.acks.of(&id("all")).map(|ack| ack.state), Some(AckState::Loaded));
    // Refused, with something before it that may stay.
    following.say([applied("refused", "no pointer")]);
    following.until("it is refused", |gateway| {
        gateway.acks.of(&id("refused")).is_some_and(|ack| matches!(ack.state, AckState::Refused { .. }))
    });
    following.end();

    let following = Following::start(Some(folder.path()));
    // Half a list is not a list.
    following.say([Message::Config(Event::ListBegins), applied("kept", "/b")]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!following.is_loaded() && following.gateway.registry.all().is_empty());
    following.say([Message::InitialListTimeout]);
    following.until("the disk is read", ready("kept on disk"));
    let serves = |name: &str| following.gateway.serves(&id(name));
    assert!(serves("kept") && serves("gone") && serves("refused") && serves("all"));

    following.shards();
    following.list([part(), applied("kept", "/b"), applied("refused", "no pointer")]);
    following.until("what is not there is gone", |gateway| gateway.registry.all().len() == 2);
    following.until("nothing is unusual", |gateway| gateway.readiness() == Some(Readiness::Ready(None)));
    assert!(serves("kept") && serves("refused"), "the one before stays");
    following.end();
    let files = std::fs::read_dir(folder.path().join("last-good")).unwrap().count();
    assert_eq!(files, 4, "two expositions, their service, and that it is complete");
}
