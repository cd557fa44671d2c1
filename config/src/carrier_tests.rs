use indexmap::IndexMap;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{HttpSource, Source};

fn service(description: String) -> ServiceDocument {
    ServiceDocument {
        format_version: FIRST_VERSION,
        name: "s".to_owned(),
        version: "1".to_owned(),
        description: Some(description),
        source: Source::Http(HttpSource { base_url: "https://example.com".to_owned(), auth: None }),
        tools: IndexMap::new(),
        content: crate::ServiceContent::default(),
    }
}

fn stop() -> ExpositionPayload {
    let id = ExpositionId { namespace: "a".to_owned(), name: "b".to_owned() };
    ExpositionPayload::Stop(StopDocument::new(id, Reason::ServiceNotFound, "spec.service: none, add one".to_owned()))
}

/// Text that zstd cannot make small.
fn noise(bytes: usize) -> String {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap_or_default())
    };
    (0..bytes).map(|_| next()).collect()
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(description in ".{0,200}") {
        let document = service(description);
        let parts = encode_service("g", &document).unwrap();
        prop_assert_eq!(decode_service(&parts).unwrap(), (document.digest(), document));
    }

    /// Hostile input ends in an error, never in a panic or another document.
    #[test]
    fn what_was_altered_is_refused(at in 0_usize..200, byte in any::<u8>()) {
        let mut spec = encode_exposition("g", &stop()).unwrap();
        let mut data = spec.data.clone().into_bytes();
        let at = at % data.len();
        prop_assume!(data[at] != byte);
        data[at] = byte;
        spec.data = String::from_utf8_lossy(&data).into_owned();
        prop_assert!(!matches!(decode_exposition(&spec), Ok(payload) if payload != stop()));
    }
}

#[test]
fn a_large_service_is_split_and_read_in_any_order() {
    let document = service(noise(2 << 20));
    let mut parts = encode_service("g", &document).unwrap();
    assert!(parts.len() > 3, "{}", parts.len());
    assert!(parts.iter().all(|part| part.data.len() <= PART_BYTES && part.digest == document.digest()));
    parts.reverse();
    assert_eq!(decode_service(&parts).unwrap().1, document);
    let lost = parts.remove(1);
    assert_eq!(decode_service(&parts), Err(Unreadable::Incomplete(lost.part, lost.parts)));
}

#[test]
fn what_a_gateway_does_not_know_is_refused() {
    let good = encode_exposition("g", &stop()).unwrap();
    let newer = GatewayConfigSpec { format_version: FORMAT_VERSION + 1, ..good.clone() };
    assert_eq!(decode_exposition(&newer), Err(Unreadable::TooNew(FORMAT_VERSION + 1)));
    for version in 0..=FORMAT_VERSION + 1 {
        let spec = GatewayConfigSpec { format_version: version, ..good.clone() };
        assert_eq!(decode_exposition(&spec).is_ok(), (1..=FORMAT_VERSION).contains(&version), "{version}");
    }
    let other = ExpositionId { namespace: "a".to_owned(), name: "c".to_owned() };
    let swapped = GatewayConfigSpec { exposition: Some(other), ..good.clone() };
    assert!(matches!(decode_exposition(&swapped), Err(Unreadable::Broken(_))));
    let as_service = decode_service([&good]);
    assert!(matches!(as_service, Err(Unreadable::Broken(_))), "{as_service:?}");
    // A stage that a newer operator wrote without another version number.
    let mut json = serde_json::to_value(stop()).unwrap();
    json["stop"]["later"] = json!(true);
    let spec =
        encode("g", PayloadKind::Exposition, good.exposition.as_ref(), FIRST_VERSION, json.to_string().as_bytes())
            .unwrap();
    assert!(matches!(decode_exposition(&spec[0]), Err(Unreadable::Unknown(_))));
}

/// A gateway decides by the object alone whether it can read the document.
#[test]
fn an_object_carries_the_version_of_its_document() {
    for version in 1..=FORMAT_VERSION {
        let service = ServiceDocument { format_version: version, ..service("d".to_owned()) };
        let ExpositionPayload::Stop(stop) = stop() else { unreachable!("is a stop") };
        let payload = ExpositionPayload::Stop(StopDocument { format_version: version, ..stop });
        let objects = [encode_service("g", &service).unwrap(), vec![encode_exposition("g", &payload).unwrap()]];
        assert!(objects.concat().iter().all(|object| object.format_version == version), "{version}");
    }
}

#[test]
fn a_bomb_is_not_unpacked() {
    let packed = zstd::bulk::compress(&vec![b' '; MAX_DOCUMENT_BYTES + 1], 1).unwrap();
    let good = encode_exposition("g", &stop()).unwrap();
    let spec = GatewayConfigSpec { data: BASE64_STANDARD.encode(packed), ..good };
    assert!(matches!(decode_exposition(&spec), Err(Unreadable::Broken(_))));
}

/// A gateway that knows no bundles refuses one by the version of its object.
#[test]
fn a_bundle_is_one_object_that_names_its_callers() {
    let document = json!({
        "formatVersion": 4, "id": {"namespace": "a", "name": "b"}, "parts": [{"name": "c", "prefix": "c_"}, {"name": "d"}],
        "access": {"apiKeys": {"secret": "s", "handle": "u.1.all"}}, "limits": {"concurrent": 3},
    });
    let document: BundleDocument = serde_json::from_value(document).unwrap();
    let payload = ExpositionPayload::Bundle(document.clone());
    let spec = encode_exposition("g", &payload).unwrap();
    assert_eq!(
        (spec.format_version, &spec.service, &spec.credentials[..]),
        (4, &None, &[document.handle().unwrap().clone()][..])
    );
    assert_eq!(decode_exposition(&spec).unwrap(), payload);
    let mut unknown = serde_json::to_value(&payload).unwrap();
    unknown["bundle"]["parts"][0]["filters"] = json!([]);
    assert!(serde_json::from_value::<ExpositionPayload>(unknown).is_err());
}
