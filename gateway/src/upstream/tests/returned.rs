use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use proptest::prelude::*;

use super::*;

const SECRET: &str = "s3cr3t/t0ken+\"ü\\&=";

fn finds(secret: &str, answer: &[u8]) -> bool {
    let needles = Needles::new([secret]).unwrap();
    let whole = Search::is_in(&needles, answer);
    // However the answer is cut.
    for size in [1, 2, 3, 7, 64] {
        let mut search = Search::new(&needles);
        let found = answer.chunks(size).fold(false, |_, piece| search.feed(piece));
        assert_eq!(found, whole, "{size}");
    }
    whole
}

/// Every character as `\u....`, with pairs of surrogates where it needs them.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect()
}

fn percent(text: &str, lower: bool) -> String {
    text.bytes().map(|byte| if lower { format!("%{byte:02x}") } else { format!("%{byte:02X}") }).collect()
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

#[test]
fn a_credential_is_found_however_an_answer_spells_it() {
    let slashes = quoted(SECRET).replace('/', "\\/");
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("token", "two words");
    for (what, secret, answer) in [
        ("as it is", SECRET, format!("text {SECRET} text")),
        ("JSON", SECRET, format!("{{\"text\":{}}}", quoted(SECRET))),
        ("JSON with escaped slashes", SECRET, slashes),
        ("JSON with an escape for each character", SECRET, format!("[\"{}\"]", escaped(SECRET))),
        ("JSON with a pair of surrogates", "k\u{1f511}eyring", format!("\"{}\"", escaped("k\u{1f511}eyring"))),
        ("JSON in a JSON string", SECRET, quoted(&format!("{{\"text\":{}}}", quoted(SECRET)))),
        ("escapes in a JSON string", SECRET, quoted(&escaped(SECRET))),
        ("percent", SECRET, percent(SECRET, false)),
        ("percent in lower case", SECRET, percent(SECRET, true)),
        ("percent in JSON", SECRET, quoted(&percent(SECRET, true))),
        ("percent with escapes", SECRET, format!("\"{}\"", escaped(&percent(SECRET, false)))),
        ("a form's space", "two words", form.finish()),
        ("base64", SECRET, BASE64_STANDARD.encode(SECRET)),
        ("base64, second alignment", SECRET, BASE64_STANDARD.encode(format!("a{SECRET}b"))),
        ("base64, third alignment", SECRET, BASE64_STANDARD.encode(format!("me:{SECRET}bc"))),
        ("base64 for URLs", SECRET, BASE64_URL_SAFE_NO_PAD.encode(format!("??{SECRET}"))),
        ("base64 in JSON", SECRET, quoted(&BASE64_STANDARD.encode(SECRET)).replace('/', "\\/")),
        ("base64, percent-encoded", SECRET, BASE64_STANDARD.encode(SECRET).replace('+', "%2B").replace('/', "%2f")),
        ("a secret that looks escaped", "a\\u0041b%41cd", "a\\u0041b%41cd".to_owned()),
        ("a secret that looks escaped, in JSON", "a\\u0041b%41cd", quoted("a\\u0041b%41cd")),
        ("eight bytes", "12345678", "[12345678]".to_owned()),
    ] {
        assert!(finds(secret, answer.as_bytes()), "{what}: {answer}");
        assert!(!finds("another-secret", answer.as_bytes()), "{what}");
    }
}

#[test]
fn an_innocent_answer_passes() {
    for answer in [
        "",
        "s3cr3t/t0ken",
        "\\",
        "\\u",
        "\\u00",
        "\\ud83d",
        "\\ud83d\\",
        "\\ud83d\\u00",
        "%",
        "%2",
        "%zz",
        "\\q",
        "\\udc00",
        "s3cr3t/t0ken+\\\"",
        "{\"a\":\"\\u00e9%20\"}",
    ] {
        assert!(!finds(SECRET, answer.as_bytes()), "{answer}");
    }
}

#[test]
fn a_short_credential_is_not_looked_for() {
    assert!(Needles::new(["1234567"]).is_none());
    assert!(Needles::new([]).is_none());
    assert_eq!(format!("{:?}", Needles::new(["12345678"])), "Some(Needles(..))");
}

proptest! {
    #[test]
    fn a_credential_is_found_wherever_it_is_cut(
        before in ".{0,200}",
        after in ".{0,50}",
        secret in "[ -~]{8,40}",
        spelling in 0..6_u8,
        cut in 1..100_usize,
    ) {
        let spelled = match spelling {
            0 => secret.clone(),
            1 => inside(&quoted(&secret)),
            2 => escaped(&secret),
            3 => percent(&secret, true),
            4 => BASE64_STANDARD.encode(&secret),
            _ => inside(&quoted(&inside(&quoted(&secret)))),
        };
        // What stands before must not swallow the beginning: no escape is left open.
        let before = before.replace(['\\', '%'], "-");
        let answer = format!("{before}{spelled}{after}");
        let needles = Needles::new([secret.as_str()]).unwrap();
        let mut search = Search::new(&needles);
        prop_assert!(answer.as_bytes().chunks(cut).fold(false, |_, piece| search.feed(piece)), "{answer:?}");
    }

    #[test]
    fn any_bytes_can_be_searched(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in 1..50_usize) {
        let needles = Needles::new([SECRET]).unwrap();
        let mut search = Search::new(&needles);
        prop_assert!(!bytes.chunks(cut).fold(false, |_, piece| search.feed(piece)));
    }
}

fn inside(quoted: &str) -> String {
    quoted[1..quoted.len() - 1].to_owned()
}
