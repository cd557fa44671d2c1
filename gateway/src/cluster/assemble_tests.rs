use std::collections::BTreeMap;

use indexmap::IndexMap;
use proptest::prelude::*;
use serde_json::json;
use tamis_config::carrier::{encode_exposition, encode_service};
use tamis_config::names::shard_of;
use tamis_config::{Audit, CallLimits, CredentialGrant, ExpositionTool, FORMAT_VERSION, StopDocument};
use tamis_engine::Enforcement;

use super::*;

const GROUP: &str = "public";

fn id(name: &str) -> ExpositionId {
    ExpositionId { namespace: "team".to_owned(), name: name.to_owned() }
}

/// A service; `noise` bytes that do not compress make it several parts.
fn service(name: &str, noise: usize) -> ServiceDocument {
    let mut state = 88_172_645_463_325_252_u64;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b' ' + u8::try_from(state % 90).unwrap() + 1)
    };
    let description: String = (0..noise).map(|_| step()).collect();
    let document = json!({
        "formatVersion": FORMAT_VERSION, "name": name, "version": "1", "description": description,
        "source": {"http": {"baseUrl": "https://a.example"}}, "tools": {},
    });
    serde_json::from_value(document).unwrap()
}

fn handle(text: &str) -> CredentialHandle {
    CredentialHandle(text.to_owned())
}

/// `rate` tells versions of a document apart.
fn document(name: &str, service: &ServiceDocument, rate: u32, handles: &[&str]) -> ExpositionDocument {
    ExpositionDocument {
        format_version: FORMAT_VERSION,
        id: id(name),
        service: service.digest(),
        enforcement: Enforcement::Advisory,
        tools: IndexMap::<String, ExpositionTool>::new(),
        credentials: handles
            .iter()
            .map(|text| (format!("secret/{text}"), CredentialGrant { handle: handle(text), uses: Vec::new() }))
            .collect(),
        access: Some(Access::Anonymous),
        limits: CallLimits { requests_per_second: Some(rate), ..CallLimits::default() },
        audit: Audit::Digest,
        tokens: tamis_config::TokenSettings::default(),
        inputs: None,
        list_ttl_ms: 0,
        follow: None,
        content: Default::default(),
    }
}

fn parts(service: &ServiceDocument) -> Vec<Object> {
    let specs = encode_service(GROUP, service).unwrap();
    let named = |spec: GatewayConfigSpec| Object {
        name: names::service_object(&spec.digest, spec.part),
        spec: Ok(Arc::new(spec)),
    };
    specs.into_iter().map(named).collect()
}

fn carried(payload: &ExpositionPayload) -> Object {
    let spec = encode_exposition(GROUP, payload).unwrap();
    Object { name: names::exposition_object(payload.id()), spec: Ok(Arc::new(spec)) }
}

fn serve(document: &ExpositionDocument) -> Object {
    carried(&ExpositionPayload::Serve(document.clone()))
}

fn stop(name: &str) -> Object {
    let stop = StopDocument {
        format_version: FORMAT_VERSION,
        id: id(name),
        reason: Reason::SecretNotFound,
        message: "gone".to_owned(),
    };
    carried(&ExpositionPayload::Stop(stop))
}

fn changed(mut object: Object, change: impl FnOnce(&mut GatewayConfigSpec)) -> Object {
    let mut spec = GatewayConfigSpec::clone(object.spec.as_ref().unwrap());
    change(&mut spec);
    object.spec = Ok(Arc::new(spec));
    object
}

fn values(handles: &[&str]) -> Vec<Event> {
    let of = |shard| handles.iter().filter(|text| shard_of(text) == shard).map(|text| handle(text)).collect();
    (0..CREDENTIAL_SHARDS).map(|shard| Event::Values(shard, of(shard))).collect()
}

/// What is served, as a gateway would that takes each decision.
#[derive(Debug, Default, PartialEq)]
struct Served {
    /// The rate of the document that is served; none where the address answers 503.
    at: BTreeMap<String, Option<u32>>,
    said: BTreeMap<String, String>,
}

impl Served {
    fn take(&mut self, assembler: &mut Assembler) {
        loop {
            let decisions = assembler.decide(2);
            if decisions.is_empty() {
                return;
            }
            for Decision { id, verdict, .. } in decisions {
                let said = match verdict {
                    Verdict::Serve(offer) => {
                        assert_eq!(offer.document.service, offer.service.digest(), "a mixture");
                        assert_eq!(offer.document.id, id, "another's document");
                        self.at.insert(id.name.clone(), offer.document.limits.requests_per_second);
                        "served".to_owned()
                    }
                    Verdict::Bundle(offer) => {
                        assert_eq!(offer.document.id, id, "another's document");
                        self.at.insert(id.name.clone(), offer.document.limits.requests_per_second);
                        "bundled".to_owned()
                    }
                    Verdict::Stop(stopped, _) => {
                        self.at.insert(id.name.clone(), None);
                        stopped.reason.as_str().to_owned()
                    }
                    Verdict::Wait(message) => {
                        self.at.entry(id.name.clone()).or_insert(None);
                        format!("waits: {message}")
                    }
                    Verdict::Refuse { reason, message } => {
                        self.at.entry(id.name.clone()).or_insert(None);
                        format!("{reason}: {message}")
                    }
                    Verdict::Remove => {
                        self.at.remove(&id.name);
                        self.said.remove(&id.name);
                        continue;
                    }
                };
                self.said.insert(id.name.clone(), said);
            }
        }
    }
}

/// An assembler that has seen an empty cluster.
fn empty() -> Assembler {
    let mut assembler = Assembler::new(GROUP);
    assembler.observe(Event::ListBegins);
    assembler.observe(Event::ListEnds);
    values(&[]).into_iter().for_each(|event| assembler.observe(event));
    assembler
}

fn give(assembler: &mut Assembler, served: &mut Served, objects: impl IntoIterator<Item = Object>) {
    for object in objects {
        assembler.observe(Event::Applied(object));
        served.take(assembler);
    }
}

#[test]
fn nothing_is_decided_before_everything_was_listed() {
    let api = service("api", 0);
    let mut assembler = Assembler::new(GROUP);
    let mut served = Served::default();
    assembler.observe(Event::ListBegins);
    give(&mut assembler, &mut served, parts(&api).into_iter().chain([serve(&document("a", &api, 1, &[]))]));
    assert!(assembler.waits_for().unwrap().contains("GatewayConfigs, Secrets tamis-public-credentials-0, "));
    for event in values(&[]).into_iter().skip(1) {
        assembler.observe(event);
    }
    assembler.observe(Event::ListEnds);
    served.take(&mut assembler);
    assert_eq!(assembler.waits_for().as_deref(), Some("Secrets tamis-public-credentials-0"));
    assert_eq!(served, Served::default());
    assembler.observe(Event::Values(0, HashSet::new()));
    assert_eq!(assembler.waits_for(), None);
    assert!(!assembler.is_settled());
    served.take(&mut assembler);
    assert!(assembler.is_settled());
    assert_eq!(served.at, [("a".to_owned(), Some(1))].into());
}

#[test]
fn a_document_waits_for_all_that_it_names_and_the_one_before_stays() {
    let (old, new) = (service("old", 0), service("new", 1_000_000));
    let mut assembler = empty();
    let mut served = Served::default();
    give(&mut assembler, &mut served, [serve(&document("a", &new, 1, &[]))]);
    assert_eq!((served.at["a"], served.said["a"].contains("part 0 of 1")), (None, true), "{served:?}");
    give(&mut assembler, &mut served, parts(&old).into_iter().chain([serve(&document("a", &old, 2, &[]))]));
    assert_eq!(served.at["a"], Some(2));
    let mut news = parts(&new);
    assert!(news.len() > 2, "{}", news.len());
    let last = news.pop().unwrap();
    give(&mut assembler, &mut served, news.into_iter().rev().chain([serve(&document("a", &new, 3, &["k", "l"]))]));
    assert_eq!((served.at["a"], served.said["a"].contains("part 2 of 3")), (Some(2), true), "{served:?}");
    give(&mut assembler, &mut served, [last]);
    assert_eq!((served.at["a"], served.said["a"].contains("secret/k")), (Some(2), true), "{served:?}");
    for (there, serves) in [(&["k"][..], 2), (&["l"][..], 2), (&["k", "l"][..], 3)] {
        values(there).into_iter().for_each(|event| assembler.observe(event));
        served.take(&mut assembler);
        assert_eq!(served.at["a"], Some(serves), "{there:?}");
    }
    // What was loaded needs its objects no more.
    for object in parts(&new) {
        assembler.observe(Event::Deleted(object.name));
    }
    values(&[]).into_iter().for_each(|event| assembler.observe(event));
    served.take(&mut assembler);
    assert_eq!(served.at["a"], Some(3));
}

#[test]
fn a_bundle_waits_for_its_callers_and_not_for_its_parts() {
    let bundle = |rate: u32, handle: Option<&str>| {
        let access = handle.map_or(json!("anonymous"), |handle| json!({"apiKeys": {"secret": "s", "handle": handle}}));
        let document = json!({
            "formatVersion": 4, "id": id("b"), "parts": [{"name": "a", "prefix": "a_"}], "access": access,
            "limits": {"requestsPerSecond": rate},
        });
        carried(&ExpositionPayload::Bundle(serde_json::from_value(document).unwrap()))
    };
    let (mut assembler, mut served) = (empty(), Served::default());
    give(&mut assembler, &mut served, [bundle(1, None)]);
    assert_eq!((served.at["b"], served.said["b"].as_str()), (Some(1), "bundled"));
    give(&mut assembler, &mut served, [bundle(2, Some("k"))]);
    assert_eq!((served.at["b"], served.said["b"].contains("the value of s is not there yet")), (Some(1), true));
    values(&["k"]).into_iter().for_each(|event| assembler.observe(event));
    served.take(&mut assembler);
    assert_eq!(served.at["b"], Some(2));
    // An exposition becomes a bundle, and uses its service no more.
    let api = service("api", 0);
    let publishes = ExpositionDocument { id: id("b"), ..document("b", &api, 3, &[]) };
    give(&mut assembler, &mut served, parts(&api).into_iter().chain([serve(&publishes), bundle(4, None)]));
    assert_eq!((served.at["b"], served.said["b"].as_str()), (Some(4), "bundled"));
    give(&mut assembler, &mut served, [stop("b")]);
    assert_eq!(served.at["b"], None);
    assembler.observe(Event::Deleted(stop("b").name));
    served.take(&mut assembler);
    assert!(served.at.is_empty());
}

#[test]
fn what_cannot_be_read_is_refused_and_holds_up_nobody_else() {
    let (api, bad) = (service("api", 0), service("bad", 0));
    let good = serve(&document("a", &api, 1, &[]));
    let newer = serve(&document("a", &api, 2, &[]));
    let unknown = {
        let mut json = serde_json::to_value(ExpositionPayload::Serve(document("a", &api, 2, &[]))).unwrap();
        json["serve"]["newStage"] = json!(true);
        // As a newer operator would write it.
        let text = serde_json::to_vec(&json).unwrap();
        let data = zstd::bulk::compress(&text, 3).unwrap();
        changed(newer.clone(), |spec| {
            spec.digest = Digest::of(&text);
            spec.data = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, data);
        })
    };
    let malformed = |id| Object {
        name: newer.name.clone(),
        spec: Err(Malformed { id, digest: None, message: "spec.part: must be a number".to_owned() }),
    };
    let broken_service = parts(&bad).into_iter().map(|part| changed(part, |spec| spec.data = "AAAA".to_owned()));
    let too_new_service = parts(&bad).into_iter().map(|part| changed(part, |spec| spec.format_version = 9));
    let cases: Vec<(&str, Vec<Object>, &str)> = vec![
        ("version", vec![changed(newer.clone(), |spec| spec.format_version = 9)], "GatewayTooOld: format version 9"),
        ("field", vec![unknown], "GatewayTooOld: a field that is not known here"),
        ("data", vec![changed(newer.clone(), |spec| spec.data = "AAAA".to_owned())], "InvalidManifest"),
        ("digest", vec![changed(newer.clone(), |spec| spec.digest = Digest("00".repeat(32)))], "InvalidManifest"),
        ("spec", vec![malformed(Some(id("a")))], "InvalidManifest: spec.part"),
        ("spec without labels", vec![malformed(None)], "InvalidManifest: spec.part"),
        ("service", broken_service.chain([serve(&document("a", &bad, 2, &[]))]).collect(), "InvalidManifest: service"),
        (
            "service version",
            too_new_service.chain([serve(&document("a", &bad, 2, &[]))]).collect(),
            "GatewayTooOld: service",
        ),
    ];
    for (name, objects, says) in cases {
        let mut assembler = empty();
        let mut served = Served::default();
        give(&mut assembler, &mut served, parts(&api).into_iter().chain([good.clone()]));
        give(&mut assembler, &mut served, objects.clone());
        assert!(served.said["a"].starts_with(says), "{name}: {served:?}");
        assert_eq!(served.at["a"], Some(1), "{name}: the one before stays");
        give(&mut assembler, &mut served, [serve(&document("b", &api, 5, &[]))]);
        assert_eq!(served.at["b"], Some(5), "{name}");
        give(&mut assembler, &mut served, [newer.clone()]);
        assert_eq!(served.at["a"], Some(2), "{name}: healed");
        // What was stopped or removed does not come back.
        for (end, deleted) in [(stop("a"), false), (good.clone(), true)] {
            let mut served = Served::default();
            let mut assembler = empty();
            give(&mut assembler, &mut served, parts(&api).into_iter().chain([good.clone(), end.clone()]));
            if deleted {
                assembler.observe(Event::Deleted(end.name));
            }
            // All at once, too: nothing was looked at in between.
            objects.iter().for_each(|object| assembler.observe(Event::Applied(object.clone())));
            served.take(&mut assembler);
            assert!(!matches!(served.at.get("a"), Some(Some(_))), "{name}: {served:?}");
        }
    }
}

#[test]
fn what_is_kept_is_the_last_that_could_be_loaded_even_if_it_was_never_looked_at() {
    let api = service("api", 0);
    for (second, serves) in [(serve(&document("a", &api, 2, &[])), Some(2)), (stop("a"), None)] {
        let mut assembler = empty();
        let mut served = Served::default();
        give(&mut assembler, &mut served, parts(&api).into_iter().chain([serve(&document("a", &api, 1, &[]))]));
        assembler.observe(Event::Applied(second));
        assembler.observe(Event::Applied(serve(&document("a", &api, 3, &["later"]))));
        served.take(&mut assembler);
        assert_eq!(served.at["a"], serves);
        assert!(served.said["a"].contains("secret/later"), "{served:?}");
        values(&["later"]).into_iter().for_each(|event| assembler.observe(event));
        served.take(&mut assembler);
        assert_eq!(served.at["a"], Some(3));
    }
}

#[test]
fn what_a_new_list_lacks_was_deleted() {
    let api = service("api", 0);
    let mut assembler = empty();
    let mut served = Served::default();
    let objects = ["a", "b"].map(|name| serve(&document(name, &api, 1, &[])));
    give(&mut assembler, &mut served, parts(&api).into_iter().chain(objects.clone()));
    assembler.observe(Event::ListBegins);
    give(&mut assembler, &mut served, parts(&api).into_iter().chain([objects[0].clone()]));
    assert_eq!(served.at.len(), 2, "not before the list has ended");
    assembler.observe(Event::ListEnds);
    served.take(&mut assembler);
    assert_eq!(served.at.keys().collect::<Vec<_>>(), ["a"]);
    assert!(assembler.decide(10).is_empty(), "what is as it was is not decided on again");
}

#[test]
fn what_was_recalled_is_older_than_what_has_come() {
    let api = service("api", 0);
    let mut assembler = Assembler::new(GROUP);
    let mut served = Served::default();
    assembler.observe(Event::ListBegins);
    give(&mut assembler, &mut served, parts(&api).into_iter().chain([serve(&document("a", &api, 2, &[]))]));
    let old = ["a", "b", "c"].map(|name| serve(&document(name, &api, 1, &["k"])));
    let old = parts(&api).into_iter().chain(old).collect();
    assembler.observe(Event::Recalled(old, HashSet::from([handle("k")])));
    served.take(&mut assembler);
    let at = |served: &Served| served.at.iter().map(|(name, rate)| (name.clone(), rate.unwrap())).collect::<Vec<_>>();
    assert_eq!(at(&served), [("a".to_owned(), 2), ("b".to_owned(), 1), ("c".to_owned(), 1)]);
    give(&mut assembler, &mut served, [serve(&document("b", &api, 3, &[]))]);
    assembler.observe(Event::ListEnds);
    served.take(&mut assembler);
    assert_eq!(at(&served), [("a".to_owned(), 2), ("b".to_owned(), 3)]);
}

#[test]
fn services_are_held_as_long_as_they_are_used() {
    let api = service("api", 0);
    let mut assembler = empty();
    let mut served = Served::default();
    give(&mut assembler, &mut served, parts(&api).into_iter().chain([serve(&document("a", &api, 1, &[]))]));
    let held = |assembler: &Assembler| match &assembler.services[&api.digest()].document {
        Some(Ok(document)) => Some(Arc::as_ptr(document)),
        _ => None,
    };
    let first = held(&assembler).unwrap();
    give(&mut assembler, &mut served, [serve(&document("b", &api, 1, &[])), serve(&document("a", &api, 2, &[]))]);
    assert_eq!(held(&assembler), Some(first), "read once");
    assembler.observe(Event::Deleted(names::exposition_object(&id("a"))));
    assert!(held(&assembler).is_some());
    give(&mut assembler, &mut served, [stop("b")]);
    assert!(held(&assembler).is_none());
    parts(&api).into_iter().for_each(|part| assembler.observe(Event::Deleted(part.name)));
    assert!(assembler.services.is_empty());
    assembler.observe(Event::Deleted(names::exposition_object(&id("b"))));
    served.take(&mut assembler);
    assert!(assembler.expositions.is_empty() && assembler.objects.is_empty() && assembler.awaited.is_empty());
}

#[test]
fn objects_that_lie_about_themselves_are_not_used() {
    let api = service("api", 0);
    let mut assembler = empty();
    let mut served = Served::default();
    let named = Object { name: "tamis-exposition-other".to_owned(), ..serve(&document("a", &api, 1, &[])) };
    let foreign = changed(serve(&document("b", &api, 1, &[])), |spec| spec.gateway_group = "other".to_owned());
    give(&mut assembler, &mut served, parts(&api).into_iter().chain([named, foreign]));
    assert_eq!(served, Served::default());
    assert_eq!(assembler.strange().len(), 2);
    assert!(assembler.strange().is_empty());
}

/// What one object goes through, in order.
fn lives() -> impl Strategy<Value = Vec<Vec<Event>>> {
    let services = [service("one", 0), service("two", 0)];
    let objects: Vec<Event> = services.iter().flat_map(parts).map(Event::Applied).collect();
    let version = (0..2_usize, 0..3_usize, 0..5_u8);
    let life = proptest::collection::vec(version, 1..4);
    proptest::collection::vec(life, 1..4).prop_map(move |expositions| {
        let mut lives: Vec<Vec<Event>> = objects.iter().map(|event| vec![event.clone()]).collect();
        lives.extend(values(&["k", "l"]).into_iter().map(|event| vec![event]));
        for (at, versions) in expositions.into_iter().enumerate() {
            let name = format!("e{at}");
            let event = |(rate, (service, handles, kind)): (usize, (usize, usize, u8))| match kind {
                0 => Event::Deleted(names::exposition_object(&id(&name))),
                1 => Event::Applied(stop(&name)),
                _ => {
                    let rate = u32::try_from(rate).unwrap() + 1;
                    Event::Applied(serve(&document(&name, &services[service], rate, &["k", "l"][..handles])))
                }
            };
            lives.push(versions.into_iter().enumerate().map(event).collect());
        }
        lives
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_order_of_the_same_events_comes_to_the_same(lives in lives(), seed in any::<[u8; 64]>(), eager in any::<bool>()) {
        let mut last = Served::default();
        for (turn, shuffled) in [false, true].into_iter().enumerate() {
            let mut lives: Vec<_> = lives.iter().map(|life| life.iter().cloned().collect::<std::collections::VecDeque<_>>()).collect();
            let mut assembler = Assembler::new(GROUP);
            assembler.observe(Event::ListBegins);
            assembler.observe(Event::ListEnds);
            let mut served = Served::default();
            let mut choices = seed.iter().cycle();
            while lives.iter().any(|life| !life.is_empty()) {
                let full: Vec<_> = (0..lives.len()).filter(|at| !lives[*at].is_empty()).collect();
                let choice = if shuffled { usize::from(*choices.next().unwrap()) } else { 0 };
                let event = lives[full[choice % full.len()]].pop_front().unwrap();
                assembler.observe(event);
                if eager != shuffled {
                    served.take(&mut assembler);
                }
            }
            served.take(&mut assembler);
            prop_assert!(assembler.is_settled());
            prop_assert!(served.said.values().all(|said| said == "served" || said == "SecretNotFound"), "{served:?}");
            if turn == 1 {
                prop_assert_eq!(&served, &last);
            }
            last = served;
        }
    }
}
