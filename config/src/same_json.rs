//! Whether two definitions of a tool are the same: the one that a manifest pins, and the one that its server lists.
//!
//! A pinned definition may have been through YAML, kubectl and the API server, which sort members, decode escapes and
//! write numbers in another way. The comparison is therefore by value.

use std::borrow::Cow;
use std::collections::HashMap;

use tamis_engine::json::{Member, Node, parse};

/// How deep definitions may be nested. Deeper ones are never the same.
const MAX_DEPTH: usize = 64;

/// Returns whether two JSON texts have the same value: objects without regard to the order of their members, where the
/// last of two equal names counts, strings by their characters, numbers by their doubles. `false` if one of them is not
/// JSON, or is nested deeper than 64 levels.
#[must_use]
pub fn same_json(a: &str, b: &str) -> bool {
    let node = |text| parse(str::as_bytes(text), MAX_DEPTH).ok();
    node(a).zip(node(b)).is_some_and(|(a, b)| same(&a, &b))
}

/// Returns whether two tools have the same annotations, by [`same_json`]. No annotations, `null` and `{}` say the same.
#[must_use]
pub fn same_annotations(pinned: Option<&str>, listed: Option<&str>) -> bool {
    let stated =
        |text: Option<&str>| text.map_or("{}", |text| if text.trim() == "null" { "{}" } else { text }).to_owned();
    same_json(&stated(pinned), &stated(listed))
}

fn same(a: &Node<'_>, b: &Node<'_>) -> bool {
    match (a, b) {
        (Node::Scalar(a), Node::Scalar(b)) => a == b || same_number(a, b),
        (Node::String(_), Node::String(_)) => a.equals(b),
        (Node::Array(a), Node::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Node::Object(a), Node::Object(b)) => {
            let (a, b) = (by_name(a), by_name(b));
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => false,
    }
}

/// The text of `true`, `false` and `null` is not a number.
fn same_number(a: &str, b: &str) -> bool {
    let double = |text: &str| {
        text.parse::<f64>().ok().filter(|_| text.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']))
    };
    // Doubles of texts are never NaN. Equal infinities are numbers that are both too large.
    double(a).zip(double(b)).is_some_and(|(a, b)| a == b)
}

fn by_name<'n, 'a>(members: &'n [Member<'a>]) -> HashMap<Cow<'n, str>, &'n Node<'a>> {
    members.iter().map(|member| (member.key.decoded(), &member.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cluster_rewrites_is_the_same() {
        for (a, b) in [
            ("{}", " { } "),
            (r#"{"a":1,"b":[true,null]}"#, r#"{"b":[true,null],"a":1}"#),
            (r#"{"a":"\u00e9\/"}"#, r#"{"a":"é/"}"#),
            (r#"{"\u0061":1}"#, r#"{"a":1}"#),
            ("[1.0,1e5,0.10]", "[1,100000,1e-1]"),
            ("18446744073709551615", "18446744073709552000"),
            ("-0", "0"),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        ] {
            assert!(same_json(a, b) && same_json(b, a), "{a} {b}");
        }
    }

    #[test]
    fn what_says_something_else_is_not() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        for (a, b) in [
            ("{}", "[]"),
            ("1", "2"),
            ("1", "\"1\""),
            ("true", "false"),
            ("null", "0"),
            ("null", "{}"),
            ("[1,2]", "[2,1]"),
            ("[1]", "[1,1]"),
            (r#"{"a":1}"#, r#"{"a":1,"b":1}"#),
            (r#"{"a":1,"b":1}"#, r#"{"a":1,"c":1}"#),
            (r#"{"a":"x"}"#, r#"{"a":"X"}"#),
            ("9007199254740993", "9007199254740995"),
            ("{", "{"),
            ("", ""),
            (&deep(65), &deep(65)),
        ] {
            assert!(!same_json(a, b), "{a} {b}");
        }
        assert!(same_json(&deep(64), &deep(64)));
    }

    #[test]
    fn annotations_that_say_nothing_are_none() {
        for nothing in [None, Some("null"), Some("{}"), Some(" { }")] {
            assert!(same_annotations(None, nothing) && same_annotations(nothing, Some("{}")), "{nothing:?}");
            assert!(!same_annotations(nothing, Some(r#"{"readOnlyHint":false}"#)), "{nothing:?}");
        }
        assert!(same_annotations(Some(r#"{"a":1,"b":2}"#), Some(r#"{"b":2,"a":1}"#)));
    }
}
