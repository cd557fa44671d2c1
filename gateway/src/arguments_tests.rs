use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;
use crate::mcp::arguments::read;

/// What [`Arguments`] do, as a map from names to texts does it.
type Map = indexmap::IndexMap<String, Box<RawValue>>;

fn all(arguments: &Arguments) -> Vec<(String, String)> {
    arguments.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn expected(map: &Map) -> Vec<(String, String)> {
    map.iter().map(|(name, value)| (name.clone(), value.get().to_owned())).collect()
}

/// Returns JSON objects with up to 20 members, with escapes, whitespace and the names of reserved inputs.
fn objects() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("\"_budget\"".to_owned()),
        Just(r#""\u005foutput_mode""#.to_owned()),
        Just(r#""a\/b""#.to_owned()),
        "\"[a-z\u{7f}\u{e9}]{0,3}\"",
    ];
    let value = prop_oneof![
        Just("null".to_owned()),
        Just("1.10".to_owned()),
        Just(r#"[ 1, {"x": "y\u00e9" } ]"#.to_owned()),
        "\"[a-z ]{0,9}\"",
    ];
    let member =
        (name, value, "[ \n]{0,2}").prop_map(|(name, value, blank)| format!("{blank}{name} :{blank}{value}{blank}"));
    prop::collection::vec(member, 0..20).prop_map(|members| format!("{{ {}}}", members.join(",")))
}

#[test]
fn arguments_are_found_by_name_whatever_their_number() {
    for count in [0, 1, COMPARED, COMPARED + 1, 300] {
        let members: Vec<String> = (0..count).map(|n| format!("\"n{n}\":{n}")).collect();
        let arguments = read(Some(&format!("{{{}}}", members.join(",")))).unwrap();
        assert_eq!((arguments.len(), arguments.is_empty()), (count, count == 0));
        for n in 0..count {
            assert_eq!(arguments.get(&format!("n{n}")), Some(n.to_string().as_str()));
        }
        assert_eq!(arguments.get("n"), None);
        assert_eq!(arguments.get(&format!("n{count}")), None);
    }
}

#[test]
fn their_debug_shows_no_value() {
    let arguments = read(Some(r#"{"token":"hunter2"}"#)).unwrap();
    assert_eq!(format!("{arguments:?}"), "Arguments(1)");
}

proptest! {
    #[test]
    fn they_equal_a_map(text in objects(), removed in "[a-z_]{0,3}", inserted in "[a-z]{0,3}") {
        let Ok(mut arguments) = read(Some(&text)) else { return Ok(()) };
        let mut map: Map = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(all(&arguments), expected(&map));
        prop_assert_eq!(&*arguments.object(), &*text);
        for name in ["_budget", "_output_mode", "a/b", &removed] {
            prop_assert_eq!(arguments.get(name), map.get(name).map(|value| value.get()));
            let taken = map.shift_remove(name).map(|value| value.get().to_owned());
            prop_assert_eq!(arguments.remove(name).map(str::to_owned), taken);
        }
        let json = "[\"new\"]".to_owned();
        arguments.insert(&inserted, &json);
        map.insert(inserted, RawValue::from_string(json).unwrap());
        prop_assert_eq!(all(&arguments), expected(&map));
        let again: Map = serde_json::from_str(&arguments.object()).unwrap();
        prop_assert_eq!(expected(&again), expected(&map));
        let deserialized: Arguments = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(all(&deserialized), expected(&serde_json::from_str::<Map>(&text).unwrap()));
    }
}
