use std::collections::HashSet;
use std::ops::Range;

use proptest::prelude::*;
use toon_format::{DecodeOptions, EncodeOptions, Indent};

use super::literal::Delimiter;
use super::random::{Decisions, Doc};
use super::toon::{ToonOptions, Unrepresentable, encode, most};
use crate::work::Work;

fn write(json: &str, fill: Range<usize>, options: ToonOptions) -> Result<String, Unrepresentable> {
    encode(json, fill, true, &options, &Work::unlimited())
}

fn toon(json: &str) -> String {
    write(json, 0..0, ToonOptions::default()).unwrap()
}

fn filled(json: &str) -> String {
    write(json, 0..json.len(), ToonOptions::default()).unwrap()
}

/// The official encoder.
fn official(json: &str, options: ToonOptions) -> String {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    let delimiter = match options.delimiter {
        Delimiter::Comma => toon_format::Delimiter::Comma,
        Delimiter::Tab => toon_format::Delimiter::Tab,
        Delimiter::Pipe => toon_format::Delimiter::Pipe,
    };
    let options = EncodeOptions { delimiter, indent: Indent::Spaces(options.indent) };
    toon_format::encode(&value, &options).unwrap()
}

/// The official decoder, strict. Returns compact JSON.
fn decoded(toon: &str, options: ToonOptions) -> String {
    let options = DecodeOptions { strict: true, indent: Indent::Spaces(options.indent) };
    let value: serde_json::Value = toon_format::decode(toon, &options).unwrap();
    value.to_string()
}

/// The document as other readers write it.
fn normal(json: &str) -> String {
    serde_json::from_str::<serde_json::Value>(json).unwrap().to_string()
}

/// Adds what is absent as `null` to each list that then is a table, and is one by the rule for `fill`: the obvious way.
fn with_nulls(doc: &Doc, in_list: bool) -> Doc {
    match doc {
        Doc::Word(_) | Doc::Text(..) => doc.clone(),
        Doc::Object(members) => {
            let member =
                |(key, escaped, value): &(String, bool, Doc)| (key.clone(), *escaped, with_nulls(value, false));
            Doc::Object(members.iter().map(member).collect())
        }
        Doc::List(items) => {
            if !in_list && let Some((rows, cells)) = table(&items.iter().collect::<Vec<_>>()) {
                let present: usize = items.iter().map(present).sum();
                if cells * items.len() <= 2 * present {
                    return Doc::List(rows);
                }
            }
            Doc::List(items.iter().map(|item| with_nulls(item, true)).collect())
        }
    }
}

/// Returns the rows with all columns, and the number of their cells. Returns `None` if it is no table.
fn table(items: &[&Doc]) -> Option<(Vec<Doc>, usize)> {
    let mut rows: Vec<Vec<(String, bool, Doc)>> = items.iter().map(|_| Vec::new()).collect();
    let mut seen = HashSet::new();
    let mut count = 0;
    for item in items {
        for (key, escaped, _) in item.members()? {
            if !seen.insert(key) {
                continue;
            }
            let values: Vec<_> = items.iter().map(|item| item.get(key)).collect();
            let column = if values.iter().flatten().all(|value| value.is_primitive()) {
                count += 1;
                values.into_iter().map(|value| value.cloned().unwrap_or(Doc::Word("null"))).collect()
            } else {
                let (column, cells) = table(&values.into_iter().collect::<Option<Vec<_>>>()?)?;
                count += cells;
                column
            };
            for (row, value) in rows.iter_mut().zip(column) {
                row.push((key.clone(), *escaped, value));
            }
        }
    }
    Some((rows.into_iter().map(Doc::Object).collect(), count))
}

fn present(doc: &Doc) -> usize {
    doc.members().map_or(1, |members| members.iter().map(|(.., value)| present(value)).sum())
}

fn options() -> impl Strategy<Value = ToonOptions> {
    let delimiters = [Delimiter::Comma, Delimiter::Tab, Delimiter::Pipe];
    (1..5_usize, proptest::sample::select(delimiters.to_vec()))
        .prop_map(|(indent, delimiter)| ToonOptions { indent, delimiter })
}

proptest! {
    #[test]
    fn is_what_the_official_encoder_writes(
        bytes in proptest::collection::vec(any::<u8>(), 0..400), options in options()
    ) {
        let json = Decisions::new(&bytes).document(5).json();
        let toon = write(&json, 0..0, options).unwrap();
        prop_assert_eq!(&toon, &official(&json, options), "{}", json);
        prop_assert!(toon.len() <= most(json.len()));
    }

    #[test]
    fn is_decoded_to_the_document(bytes in proptest::collection::vec(any::<u8>(), 0..400), options in options()) {
        let json = Decisions::new(&bytes).document(5).json();
        let toon = write(&json, 0..0, options).unwrap();
        // Rows have the order of the header, so keys are compared as a set.
        let read: serde_json::Value = serde_json::from_str(&decoded(&toon, options)).unwrap();
        prop_assert_eq!(read, serde_json::from_str::<serde_json::Value>(&json).unwrap(), "{}", toon);
    }

    #[test]
    fn of_duplicate_keys_the_last_value_stands_at_the_first_place(
        bytes in proptest::collection::vec(any::<u8>(), 0..400)
    ) {
        let json = Decisions::with_duplicates(&bytes).document(5).json();
        prop_assert_eq!(toon(&json), toon(&normal(&json)), "{}", json);
    }

    #[test]
    fn filled_rows_are_what_nulls_in_the_document_would_be(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let doc = Decisions::new(&bytes).document(5);
        prop_assert_eq!(filled(&doc.json()), toon(&with_nulls(&doc, false).json()), "{}", doc.json());
    }

    #[test]
    fn random_strings_are_read_as_they_were(text: String, options in options()) {
        for json in [format!("[{}]", crate::json::encode(&text)), crate::json::encode(&text)] {
            let toon = write(&json, 0..0, options).unwrap();
            prop_assert_eq!(&toon, &official(&json, options));
            prop_assert_eq!(decoded(&toon, options), normal(&json));
        }
    }
}

#[test]
fn forms() {
    for (json, want) in [
        ("{}", ""),
        ("[]", "[]"),
        ("null", "null"),
        ("\"\"", "\"\""),
        ("\"\u{feff}a\"", "\"\u{feff}a\""),
        ("[[],{}]", "[2]:\n - [0]:\n -"),
        (r#"{"a":[],"b":{}}"#, "a: []\nb:"),
        (r#"[{"a":1},{"a":2}]"#, "[2]{a}:\n 1\n 2"),
        (r#"{"k":{"a":1,"b":2},"l":{"b":3,"a":4}}"#, "[2:]{a,b}:\n k: 1,2\n l: 4,3"),
        (r#"[{"a":{"b":1,"c":{"d":2}}}]"#, "[1]{a{b,c{d}}}:\n 1,2"),
        (r#"[{"a":{}},{"a":{}}]"#, "[2]:\n - a:\n - a:"),
        // A list in a list has no header for columns, and an object in a list none for rows.
        (r#"[[{"a":1},{"a":2}]]"#, "[1]:\n - [2]:\n  - a: 1\n  - a: 2"),
        (r#"[{"k":{"a":1},"l":{"a":2}},1]"#, "[2]:\n - k:\n   a: 1\n  l:\n   a: 2\n - 1"),
    ] {
        assert_eq!(toon(json), want, "{json}");
    }
}

#[test]
fn numbers_keep_their_digits() {
    for number in ["1.0", "1e5", "1E+400", "12345678901234567890.10", "-1.50", "0.0", "100000000000000000000"] {
        assert_eq!(toon(&format!("[{number}]")), format!("[1]: {number}"));
    }
    for (negative, zero) in [("-0", "0"), ("-0.0", "0.0"), ("-0e7", "0e7"), ("-0.00E-1", "0.00E-1")] {
        assert_eq!(toon(&format!("{{\"a\":{negative}}}")), format!("a: {zero}"));
    }
    assert_eq!(toon("-0.01"), "-0.01");
}

#[test]
fn half_of_a_surrogate_pair_is_refused() {
    for (text, held) in [
        (r"\ud800", false),
        (r"\udc00", false),
        (r"\ud83d\ude00", true),
        (r"\\ud800", true),
        (r"a\uDBFF\uDBFF", false),
        (r"\ude00\ud83d", false),
        (r"\uD83D\n\uDE00", false),
        (r"é\ud83d\ude00\ud83d", false),
        (r"\ud7ff\ue000", true),
    ] {
        for json in [
            format!("\"{text}\""),
            format!("{{\"{text}\":1}}"),
            format!("[{{\"a\":\"{text}\"}},{{\"a\":\"{text}\"}}]"),
            format!("[{{\"{text}\":1}},{{\"{text}\":2}}]"),
            format!("{{\"a\":1,\"a\":2,\"b\":\"{text}\"}}"),
        ] {
            let want = if held { None } else { Some(Unrepresentable::LoneSurrogate) };
            assert_eq!(write(&json, 0..0, ToonOptions::default()).err(), want, "{json}");
        }
    }
}

#[test]
fn only_the_payload_is_filled() {
    let json = r#"{"a":[{"x":1,"y":2},{"x":3}],"b":[{"x":1,"y":2},{"x":3}]}"#;
    let payload = json.find("\"b\":").unwrap() + 4..json.len() - 1;
    assert_eq!(
        write(json, payload, ToonOptions::default()).unwrap(),
        "a[2]:\n - x: 1\n  y: 2\n - x: 3\nb[2]{x,y}:\n 1,2\n 3,null"
    );
    // The payload is found again in a document without duplicates.
    let json = r#"{"z":0,"z":{"z":1,"z":2},"a":[{"x":1,"y":2},{"x":3}],"b":[{"x":1,"y":2},{"x":3}]}"#;
    let payload = json.find("\"b\":").unwrap() + 4..json.len() - 1;
    assert_eq!(
        write(json, payload, ToonOptions::default()).unwrap(),
        "z:\n z: 2\na[2]:\n - x: 1\n  y: 2\n - x: 3\nb[2]{x,y}:\n 1,2\n 3,null"
    );
}

#[test]
fn at_least_half_of_a_filled_table_is_of_the_document() {
    let items = |columns: usize| -> String {
        let items: Vec<_> = (0..columns).map(|i| format!("{{\"id\":{i},\"c{i}\":1}}")).collect();
        format!("[{}]", items.join(","))
    };
    assert_eq!(filled(&items(2)), "[2]{id,c0,c1}:\n 0,1,null\n 1,null,1");
    assert_eq!(filled(&items(3)), "[3]{id,c0,c1,c2}:\n 0,1,null,null\n 1,null,1,null\n 2,null,null,1");
    assert_eq!(filled(&items(4)), toon(&items(4)));
    let many = items(10_000);
    assert_eq!(filled(&many), toon(&many));
}

#[test]
fn nesting_cannot_blow_up_the_text() {
    let nested = |depth: usize, inner: &str| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
    let inner = vec!["{}"; 100_000].join(",");
    assert_eq!(write(&nested(128, &inner), 0..0, ToonOptions::default()), Err(Unrepresentable::TooLarge));
    assert!(write(&nested(2, &inner), 0..0, ToonOptions::default()).is_ok());
    assert_eq!(toon(&nested(128, "1")).lines().count(), 128);
}

#[test]
fn an_interrupt_ends_both_passes() {
    let json = format!("[{}]", vec![r#"{"a":[1,{"b":2}],"c":"text"}"#; 10_000].join(","));
    let whole = std::cell::Cell::new(0_usize);
    let count = || {
        whole.set(whole.get() + 1);
        false
    };
    let expected = encode(&json, 0..0, false, &ToonOptions::default(), &Work::until(&count)).unwrap();
    assert!(whole.get() > 20, "{}", whole.get());
    for polls in 0..whole.get() {
        let left = std::cell::Cell::new(polls);
        let interrupt = || left.replace(left.get().saturating_sub(1)) == 0;
        let ended = encode(&json, 0..0, false, &ToonOptions::default(), &Work::until(&interrupt));
        assert_eq!(ended, Err(Unrepresentable::Interrupted), "{polls}");
    }
    assert_eq!(expected, toon(&json));
}

#[test]
fn the_deepest_documents() {
    let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    assert_eq!(toon(&nested(120)), official(&nested(120), ToonOptions::default()));
    let deepest = nested(crate::json::DEPTH_CEILING);
    assert_eq!(write(&deepest, 0..0, ToonOptions::default()), Err(Unrepresentable::TooLarge));
    let lists = format!("{}{}", "[".repeat(crate::json::DEPTH_CEILING), "]".repeat(crate::json::DEPTH_CEILING));
    assert_eq!(write(&lists, 0..0, ToonOptions::default()), Err(Unrepresentable::TooLarge));
    let uniform = (0..120).fold("1".to_owned(), |inner, _| format!("{{\"a\":{inner},\"b\":2}}"));
    let uniform = format!("[{uniform},{uniform}]");
    assert_eq!(toon(&uniform), official(&uniform, ToonOptions::default()));
    let keyed = (0..12).fold(r#"{"x":1}"#.to_owned(), |inner, _| format!("{{\"a\":{inner},\"b\":{inner}}}"));
    assert_eq!(toon(&keyed), official(&keyed, ToonOptions::default()));
}
