//! Compares the parser with `serde_json`: both accept the same mutated documents, and read the same values.
//!
//! Differences that are meant, and kept out of the comparison: nesting (`serde_json` counts one level less, and its
//! `IgnoredAny` none at all). `Value` moreover refuses numbers beyond `f64` and lone surrogates; `IgnoredAny` does not,
//! which makes it the oracle for what the parser accepts.

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;
use tamis_engine::json;

/// A JSON text with odd spacing, escapes and numbers.
fn text() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,4})?",
        string(),
    ];
    scalar.prop_recursive(5, 60, 6, |inner| {
        let space = "[ \t\r\n]{0,2}";
        let array = (prop::collection::vec(inner.clone(), 0..6), space)
            .prop_map(|(items, space)| format!("[{space}{}{space}]", items.join(&format!("{space},{space}"))));
        let member = (string(), inner).prop_map(|(key, value)| format!("{key} :{value}"));
        let object = (prop::collection::vec(member, 0..6), space)
            .prop_map(|(members, space)| format!("{{{space}{}{space}}}", members.join(&format!("{space},"))));
        prop_oneof![array, object]
    })
}

fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-c ]{0,4}",
        1 => Just("é😀\u{7f}\u{2028}".to_owned()),
        1 => prop::sample::select(vec!["\\n", "\\\"", "\\\\", "\\/", "\\u0061", "\\u0000", "\\ud83d\\ude00", "\\ud800", "\\uDFFF"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

/// One change to a text, in bytes.
#[derive(Debug, Clone)]
enum Mutation {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, u8),
    Delete(prop::sample::Index),
    Cut(prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let byte =
        prop_oneof![prop::sample::select(b"{}[]:,\"\\0123456789-+.eEuntfalsr \t\n\x00\x1f\x7f".to_vec()), any::<u8>(),];
    let at = || any::<prop::sample::Index>();
    prop_oneof![
        (at(), byte.clone()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (at(), byte).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        at().prop_map(Mutation::Delete),
        at().prop_map(Mutation::Cut),
        (at(), at()).prop_map(|(a, b)| Mutation::Swap(a, b)),
    ]
}

fn mutate(text: String, mutations: &[Mutation]) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    for mutation in mutations {
        if bytes.is_empty() {
            break;
        }
        let len = bytes.len();
        match mutation {
            Mutation::Set(at, byte) => bytes[at.index(len)] = *byte,
            Mutation::Insert(at, byte) => bytes.insert(at.index(len), *byte),
            Mutation::Delete(at) => {
                bytes.remove(at.index(len));
            }
            Mutation::Cut(at) => bytes.truncate(at.index(len)),
            Mutation::Swap(a, b) => bytes.swap(a.index(len), b.index(len)),
        }
    }
    bytes
}

fn agree(bytes: &[u8]) -> Result<(), TestCaseError> {
    // `IgnoredAny` does not check that the text it skips is UTF-8.
    let oracle = std::str::from_utf8(bytes).ok().filter(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    let node = json::parse(bytes, 1000);
    prop_assert_eq!(node.is_ok(), oracle.is_some(), "{}", String::from_utf8_lossy(bytes));
    if let Ok(node) = node {
        let compact = json::to_string(&node);
        prop_assert_eq!(json::compact_len(&node), compact.len());
        prop_assert_eq!(&json::to_string(&json::parse(compact.as_bytes(), 1000).unwrap()), &compact);
        if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
            prop_assert_eq!(serde_json::from_str::<Value>(&compact).unwrap(), value);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn documents(text in text()) {
        agree(text.as_bytes())?;
        prop_assert!(json::parse(text.as_bytes(), 128).is_ok());
    }

    #[test]
    fn mutated_documents(text in text(), mutations in prop::collection::vec(mutation(), 1..4)) {
        agree(&mutate(text, &mutations))?;
    }
}

#[test]
fn mutated_real_documents() {
    let Ok(file) =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/payloads/github-list-issues.json"))
    else {
        panic!("the example payloads belong to the repository");
    };
    let end = file.char_indices().nth(6000).map_or(file.len(), |(at, _)| at);
    agree(file.as_bytes()).unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    // A prefix, so that a case is quick; it is a document once it is closed.
    let piece = format!("{}\"]", file[..end].trim_end_matches(['\\', '"']));
    runner
        .run(&prop::collection::vec(mutation(), 0..3), |mutations| {
            agree(&mutate(file.clone(), &mutations[..mutations.len().min(1)]))?;
            agree(&mutate(piece.clone(), &mutations))
        })
        .unwrap();
}
