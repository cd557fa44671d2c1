//! Compares strict patches with the `json-patch` crate on documents where both must agree: numbers are small integers,
//! since the crate holds 1 and 1.0 apart.

use proptest::prelude::*;
use serde_json::{Value, json};
use tamis_engine::{Call, CompileOptions, Input, Severity, ToolFilter, compile};

fn document() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3_i64).prop_map(Value::from),
        "[a-b/~]{0,2}".prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "0", "1", "", "-", "a/b", "m~n", "01"]).prop_map(str::to_owned)
}

fn pointer() -> impl Strategy<Value = String> {
    prop::collection::vec(key(), 0..4)
        .prop_map(|keys| keys.iter().map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1"))).collect())
}

fn operation() -> impl Strategy<Value = Value> {
    prop_oneof![
        (pointer(), document()).prop_map(|(path, value)| json!({"op": "add", "path": path, "value": value})),
        // The crate removes no whole document.
        pointer().prop_filter("", |p| !p.is_empty()).prop_map(|path| json!({"op": "remove", "path": path})),
        (pointer(), document()).prop_map(|(path, value)| json!({"op": "replace", "path": path, "value": value})),
        (pointer(), pointer()).prop_map(|(from, path)| json!({"op": "copy", "from": from, "path": path})),
        (pointer(), pointer())
            .prop_filter("not whole", |(from, _)| !from.is_empty())
            .prop_map(|(from, path)| json!({"op": "move", "from": from, "path": path})),
        (pointer(), document()).prop_map(|(path, value)| json!({"op": "test", "path": path, "value": value})),
    ]
}

/// Returns a test of an existing value, so that some tests hold.
fn with_test(document: &Value, at: prop::sample::Index) -> Value {
    let mut places = vec![(String::new(), document)];
    let mut next = 0;
    while let Some((path, value)) = places.get(next).map(|(path, value)| (path.clone(), *value)) {
        match value {
            Value::Array(items) => places.extend(items.iter().enumerate().map(|(i, v)| (format!("{path}/{i}"), v))),
            Value::Object(map) => places
                .extend(map.iter().map(|(k, v)| (format!("{path}/{}", k.replace('~', "~0").replace('/', "~1")), v))),
            _ => {}
        }
        next += 1;
    }
    let (path, value) = &places[at.index(places.len())];
    json!({"op": "test", "path": path, "value": value})
}

fn apply(document: &Value, operations: &[Value]) -> Option<Value> {
    let filter: ToolFilter = serde_json::from_value(json!({"patches": operations})).unwrap();
    let compiled = compile(&filter, &CompileOptions { strict_patch: true, ..CompileOptions::default() });
    let Some(program) = compiled.program else {
        // The one thing that is known beforehand.
        assert!(
            compiled
                .findings
                .iter()
                .filter(|f| f.severity == Severity::Error)
                .all(|f| f.message.contains("into itself"))
        );
        return None;
    };
    let text = document.to_string();
    let filtered = program.apply_reference(Input::Json(text.as_bytes()), &Call::default()).unwrap();
    assert_eq!(program.apply(Input::Json(text.as_bytes()), &Call::default()).unwrap(), filtered);
    match filtered.report.error {
        Some(_) => {
            assert_eq!(filtered.text, text, "a failed sequence changes nothing");
            None
        }
        None => Some(serde_json::from_str(&filtered.text).unwrap()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn strict_patches_do_what_the_crate_does(
        document in document(),
        mut operations in prop::collection::vec(operation(), 1..4),
        test in any::<prop::sample::Index>(),
    ) {
        // `{"raw": ..}` has a meaning of its own; no key here is `raw`.
        operations.insert(0, with_test(&document, test));
        let patch: json_patch::Patch = serde_json::from_value(operations.clone().into()).unwrap();
        // Not `patch`: undoing a move to the place of its own parent panics there.
        let mut theirs = document.clone();
        let expected = json_patch::patch_unsafe(&mut theirs, &patch).ok().map(|()| theirs);
        prop_assert_eq!(apply(&document, &operations), expected);
    }
}
