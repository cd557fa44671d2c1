use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};

use super::{API_KEY, Callers, InvalidCallers, KeyDigest, MAX_CALLERS, MAX_KEY_BYTES, presented};
use crate::exposition::hex;

fn digest(key: &str) -> KeyDigest {
    KeyDigest::of(key.as_bytes()).unwrap()
}

fn entry(key: &str) -> String {
    format!("sha256:{}", hex(&digest(key).0))
}

fn name(callers: &Callers, key: &str) -> Option<String> {
    callers.find(&digest(key)).map(ToString::to_string)
}

#[test]
fn entries_are_digests_and_nothing_else() {
    let good = entry("key");
    for text in [good.clone(), format!("{good}\n"), format!(" {good}\r\n"), good.to_uppercase().replace("SHA", "sha")] {
        assert_eq!(name(&Callers::new("s", [("a", &text)]).unwrap(), "key").as_deref(), Some("a"), "{text}");
    }
    let digits = &good["sha256:".len()..];
    for text in [
        "",
        "key",
        "sha256:",
        digits,
        &good[..good.len() - 1],
        &format!("{good}0"),
        &format!("sha256:{}g", &digits[1..]),
        &format!("sha256:+{}", &digits[1..]),
        &format!("sha256: {digits}"),
        &format!("SHA256:{digits}"),
        &format!("sha512:{digits}"),
        &format!("{good} {good}"),
    ] {
        let callers = Callers::new("s", [("bad", text), ("good", &entry("other"))]).unwrap();
        assert_eq!((callers.len(), name(&callers, "key")), (1, None), "{text}");
        assert_eq!(name(&callers, "other").as_deref(), Some("good"), "the others are let in");
    }
}

#[test]
fn the_json_of_a_shard_is_an_object_of_texts() {
    let json = format!(r#"{{"alice":"{}","bob":"{}","eve":"plain"}}"#, entry("a"), entry("b"));
    let callers = Callers::from_json("s", json.as_bytes()).unwrap();
    assert_eq!((callers.len(), name(&callers, "b").as_deref()), (2, Some("bob")));
    assert!(Callers::from_json("s", b"{}").unwrap().is_empty());
    for json in ["", "[]", "null", r#"{"a":1}"#, r#"{"a":"x""#] {
        assert_eq!(Callers::from_json("s", json.as_bytes()).unwrap_err(), InvalidCallers::Malformed, "{json}");
    }
}

#[test]
fn there_are_no_more_callers_than_a_gateway_holds() {
    let all = |count: usize| Callers::new("s", (0..count).map(|n| (n.to_string(), entry(&n.to_string()))));
    let most = all(MAX_CALLERS).unwrap();
    for number in [0, 1, 4_321, MAX_CALLERS - 1] {
        assert_eq!(name(&most, &number.to_string()), Some(number.to_string()));
    }
    assert_eq!(name(&most, &MAX_CALLERS.to_string()), None);
    assert_eq!(all(MAX_CALLERS + 1).unwrap_err(), InvalidCallers::TooMany(MAX_CALLERS + 1));
    assert_eq!(name(&Callers::default(), "0"), None);
}

#[test]
fn all_of_a_digest_counts() {
    let right = digest("key");
    let of = |digest: KeyDigest| Callers(Box::new([(digest, "a".into())]));
    assert!(of(right).find(&right).is_some());
    // One bit off at each place: the part that the table is sorted by, and the rest.
    for at in 0..256 {
        let mut wrong = right;
        wrong.0[at / 8] ^= 1 << (at % 8);
        assert!(of(wrong).find(&right).is_none(), "bit {at}");
    }
    // Several that begin alike.
    let mut table: Vec<_> = (0..9_u8).map(|last| (right, last.to_string().into())).collect();
    for (last, (digest, _)) in table.iter_mut().enumerate() {
        digest.0[31] = u8::try_from(last).unwrap();
    }
    let callers = Callers(table.clone().into());
    for (digest, name) in &table {
        assert_eq!(callers.find(digest), Some(name));
    }
}

#[test]
fn two_callers_with_one_key_are_the_first() {
    let key = entry("key");
    let callers = Callers::new("s", [("zoe", &key), ("alice", &key), ("bob", &entry("b"))]).unwrap();
    assert_eq!((callers.len(), name(&callers, "key").as_deref()), (2, Some("alice")));
}

#[test]
fn a_key_is_in_one_of_two_places() {
    let of = |pairs: &[(HeaderName, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
        presented(&HeaderMap::from_iter(pairs)).map(|digest| digest.0)
    };
    let key = Some(digest("k").0);
    for (pairs, expected) in [
        (&[(AUTHORIZATION, "Bearer k")][..], key),
        (&[(AUTHORIZATION, "bearer   k ")], key),
        (&[(AUTHORIZATION, "BEARER k")], key),
        (&[(API_KEY, "k")], key),
        (&[(API_KEY, " k ")], key),
        (&[(AUTHORIZATION, "Basic abc"), (API_KEY, "k")], key),
        (&[(AUTHORIZATION, "Bearer k"), (API_KEY, "k")], key),
        (&[(AUTHORIZATION, "Bearer a b")], Some(digest("a b").0)),
        (&[], None),
        (&[(AUTHORIZATION, "k")], None),
        (&[(AUTHORIZATION, "Bearer")], None),
        (&[(AUTHORIZATION, "Bearer ")], None),
        (&[(AUTHORIZATION, "Bearerk")], None),
        (&[(AUTHORIZATION, "Basic k")], None),
        (&[(API_KEY, "")], None),
        (&[(AUTHORIZATION, "Bearer k"), (API_KEY, "other")], None),
    ] {
        assert_eq!(of(pairs), expected, "{pairs:?}");
    }
    let mut twice = HeaderMap::new();
    twice.append(API_KEY, HeaderValue::from_static("k"));
    twice.append(API_KEY, HeaderValue::from_static("other"));
    assert!(presented(&twice).is_none());
    let long = |length| of(&[(API_KEY, "k".repeat(length).as_str())]);
    assert!(long(MAX_KEY_BYTES).is_some() && long(MAX_KEY_BYTES + 1).is_none());
    let bytes = HeaderMap::from_iter([(API_KEY, HeaderValue::from_bytes(&[0xff, 0xfe]).unwrap())]);
    assert!(presented(&bytes).is_some(), "a key is bytes");
}

#[test]
fn nothing_prints_a_digest() {
    let callers = Callers::new("s", [("alice", entry("key"))]).unwrap();
    let shown = format!("{callers:?} {:?}", digest("key"));
    assert_eq!(shown, "Callers(1) KeyDigest(..)");
}

/// What a check costs; run with `--ignored --nocapture`, for figures with optimisation.
#[test]
#[ignore = "measures"]
fn what_a_check_costs() {
    const ROUNDS: u32 = 2_000;
    let headers = HeaderMap::from_iter([(
        AUTHORIZATION,
        HeaderValue::from_static("Bearer 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
    )]);
    for count in [1_usize, 100, 1_000, 10_000] {
        let callers = Callers::new("s", (0..count).map(|n| (n.to_string(), entry(&n.to_string())))).unwrap();
        let time = |work: &mut dyn FnMut()| {
            let begun = std::time::Instant::now();
            (0..ROUNDS).for_each(|_| work());
            begun.elapsed() / ROUNDS
        };
        let hash = time(&mut || assert!(presented(std::hint::black_box(&headers)).is_some()));
        let known = digest(&(count / 2).to_string());
        let find = time(&mut || assert!(callers.find(std::hint::black_box(&known)).cloned().is_some()));
        let every = time(&mut || {
            let equal = |digest: &KeyDigest| super::verify_slices_are_equal(&digest.0, &known.0).is_ok();
            assert!(callers.0.iter().filter(|(digest, _)| equal(digest)).count() <= 1);
        });
        println!("{count} callers: header and SHA-256 {hash:?}, find {find:?}, comparing with every one {every:?}");
    }
}
