use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 64 };

fn error(text: &str) -> ParseError {
    Document::parse(text, LIMITS).unwrap_err()
}

#[test]
fn duplicate_keys_are_refused_at_any_depth_and_in_any_spelling() {
    for text in [
        r#"{"scope":"all","scope":"public"}"#,
        r#"{"scope":"all","sc\u006fpe":"public"}"#,
        r#"{"sc\u006Fpe":1,"sc\u006fpe":1}"#,
        r#"{"a":[{"b":{"scope":1,"scope":2}}]}"#,
        r#"[[{"scope":1,"scope":1}]]"#,
        r#"{"scope":{},"a":1,"scope":{}}"#,
    ] {
        assert_eq!(error(text), ParseError::DuplicateKey("scope".to_owned()), "{text}");
    }
    for (text, key) in [(r#"{"":1,"":2}"#, ""), (r#"{"\/":1,"/":2}"#, "/"), (r#"{"\ud83d\ude00":1,"😀":2}"#, "😀")]
    {
        assert_eq!(error(text), ParseError::DuplicateKey(key.to_owned()), "{text}");
    }
    let members: Vec<String> = (0..100).chain([57]).map(|i| format!("\"k{i}\":0")).collect();
    assert_eq!(error(&format!("{{{}}}", members.join(","))), ParseError::DuplicateKey("k57".to_owned()));
    for text in [r#"{"a":{"a":1},"b":{"a":1}}"#, r#"[{"a":1},{"a":1}]"#, r#"{"a":1,"A":1,"a ":1}"#] {
        assert!(Document::parse(text, LIMITS).is_ok(), "{text}");
    }
    let long = format!("{{\"{0}\\n\":1,\"{0}\\n\":2}}", "x".repeat(70));
    assert_eq!(error(&long), ParseError::DuplicateKey(format!("{}...", "x".repeat(64))));
}

#[test]
fn what_readers_disagree_about_is_refused() {
    for (text, expected) in [
        (r#""\ud800""#, ParseError::LoneSurrogate),
        (r#""\udc00""#, ParseError::LoneSurrogate),
        (r#""\ud800\ud800""#, ParseError::LoneSurrogate),
        (r#"{"\ud800x":1}"#, ParseError::LoneSurrogate),
        ("1e999", ParseError::NumberRange),
        ("-1e400", ParseError::NumberRange),
        ("", ParseError::Malformed(0)),
        ("01", ParseError::Malformed(1)),
        ("1.", ParseError::Malformed(2)),
        ("+1", ParseError::Malformed(0)),
        ("[1,]", ParseError::Malformed(3)),
        ("{\"a\"}", ParseError::Malformed(4)),
        ("\"a\nb\"", ParseError::Malformed(2)),
        ("1 2", ParseError::Malformed(2)),
        ("nul", ParseError::Malformed(0)),
        ("NaN", ParseError::Malformed(0)),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn bytes_and_depth_are_bounded() {
    let limits = Limits { bytes: 8, depth: 3 };
    assert!(Document::parse("[[[1]]]", limits).is_ok());
    assert_eq!(Document::parse("[[[[]]]]", limits).unwrap_err(), ParseError::TooDeep(3));
    assert_eq!(Document::parse("[1,2,3,4]", limits).unwrap_err(), ParseError::TooLarge(8));
    // Far beyond the stack, were it not for the bound.
    let deep = "[".repeat(1 << 20);
    assert_eq!(error(&deep), ParseError::TooDeep(64));
}

#[test]
fn an_index_takes_a_small_multiple_of_its_text() {
    let list = format!("[{}]", vec!["1"; 500_000].join(","));
    let object = format!("{{{}}}", (0..60_000).map(|i| format!("\"{i:x}\":1")).collect::<Vec<_>>().join(","));
    let nested = format!("[{}]", vec!["{\"a\":[]}"; 100_000].join(","));
    for text in [list, object, nested] {
        let measured = allocation_counter::measure(|| drop(Document::parse(text.as_str(), LIMITS).unwrap()));
        // The index, twice while it grows; the set of one object's keys.
        assert!(measured.bytes_max <= 24 * text.len() as u64, "{} for {}", measured.bytes_max, text.len());
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(|n| serde_json::json!(n)),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

fn rebuilt(value: Value<'_>) -> serde_json::Value {
    match value.kind() {
        Kind::Array => value.elements().map(rebuilt).collect(),
        Kind::Object => {
            value.members().map(|(key, member)| (key.as_str().unwrap().into_owned(), rebuilt(member))).collect()
        }
        Kind::String => value.as_str().unwrap().into(),
        _ => serde_json::from_str(value.raw()).unwrap(),
    }
}

proptest! {
    #[test]
    fn reads_what_serde_json_reads(value in json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let document = Document::parse(text.as_str(), LIMITS).unwrap();
        prop_assert_eq!(rebuilt(document.root()), serde_json::from_str::<serde_json::Value>(&text).unwrap());
        prop_assert_eq!(document.root().raw(), text.as_str());
    }

    #[test]
    fn accepts_nothing_that_serde_json_refuses(text in r#"[ \[\]{}",:0-9a-e.+\-\\untrlsf\x00-\x1f]{0,24}"#) {
        if Document::parse(text.as_str(), LIMITS).is_ok() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{:?}", text);
        }
    }
}
