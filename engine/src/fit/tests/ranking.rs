//! What items are worth.

use std::sync::Arc;

use crate::fit::fields::Field;
use crate::fit::values::{Newest, Strategy, groups};
use crate::fit::weights::{DEFAULTS, Weights};
use crate::text::{PatternBudget, Patterns};
use crate::work::Work;

fn values(strategy: &Strategy, items: &[&str]) -> Vec<u64> {
    strategy.values(items, &Work::unlimited())
}

#[test]
fn positions() {
    let items = |count| vec!["{}"; count];
    assert_eq!(values(&Strategy::Default, &items(2)), [1_000_000; 2]);
    for (count, expected) in [
        (0, &[][..]),
        (1, &[1_000_000]),
        (2, &[1_000_000, 300_000]),
        (4, &[1_000_000, 766_667, 533_334, 300_000]),
        (5, &[1_000_000, 825_000, 650_000, 475_000, 300_000]),
    ] {
        assert_eq!(values(&Strategy::ElementCount, &items(count)), expected);
    }
    let newest_first = [1_000_000, 950_000, 902_500, 857_375, 814_506];
    assert_eq!(values(&Strategy::Cascading { newest: Newest::First }, &items(5)), newest_first);
    let mut newest_last = newest_first;
    newest_last.reverse();
    assert_eq!(values(&Strategy::Cascading { newest: Newest::Last }, &items(5)), newest_last);
    let many = values(&Strategy::Cascading { newest: Newest::First }, &items(10_000));
    // Rounded down each time: a little below 1,000,000 * 0.95^50 = 76,944.
    assert_eq!((many[50], many[9_999]), (76_937, 1));
    assert!(many.is_sorted_by(|a, b| a >= b));
}

#[test]
fn files() {
    let strategy = Strategy::SizeProportional { path: Field::any_of(&["path"]), weights: Arc::default() };
    for (path, value) in [
        ("Cargo.lock", 50_000),
        ("go.sum", 50_000),
        ("web/package-lock.json", 50_000),
        ("web/pnpm-lock.yaml", 50_000),
        ("dist/app.min.js", 100_000),
        ("app.min.css", 100_000),
        ("db/migrations/0001_init.py", 600_000),
        ("db/schema.rb", 600_000),
        ("tests/a.rs", 700_000),
        ("/tests/a.rs", 700_000),
        ("src/tests/a.rs", 700_000),
        ("src/a_test.go", 700_000),
        ("src/a.test.ts", 700_000),
        ("test_a.py", 700_000),
        ("src/FooTest.java", 700_000),
        ("src/main.rs", 1_000_000),
        ("src/contest.rs", 1_000_000),
        ("package-lock.json/a.rs", 1_000_000),
        ("", 1_000_000),
    ] {
        assert_eq!(values(&strategy, &[&format!(r#"{{"path":"{path}"}}"#)]), [value], "{path}");
    }
    let long = format!(r#"{{"path":"{}.lock"}}"#, "x".repeat(5_000));
    for (item, value) in [
        (r#"{"path":"a\u002elock"}"#, 50_000),
        (r#"{"path":"a.lock","path":"a.rs"}"#, 1_000_000),
        (r#"{"path":"a.rs","\u0070ath":"a.lock"}"#, 50_000),
        (r#"{"path":["a.lock"]}"#, 1_000_000),
        (r#"{"path":null}"#, 1_000_000),
        (r#"{"file":"a.lock"}"#, 1_000_000),
        ("{}", 1_000_000),
        ("[]", 1_000_000),
        ("7", 1_000_000),
        ("\"a.lock\"", 1_000_000),
        (&long, 1_000_000),
    ] {
        assert_eq!(values(&strategy, &[item]), [value], "{item}");
    }
    let weights = Weights::new([("*.md", 0), ("docs/*", 5), ("/docs/*", 250_000), ("*", 900_000)]);
    let strategy = Strategy::SizeProportional { path: Field::any_of(&["f"]), weights: Arc::new(weights) };
    let items = [r#"{"f":"docs/a.md"}"#, r#"{"f":"docs/a.rs"}"#, r#"{"f":"a.rs"}"#];
    assert_eq!(values(&strategy, &items), [1, 250_000, 900_000], "at least 1");
}

#[test]
fn threads() {
    let strategy =
        Strategy::ThreadLevel { resolved: Field::any_of(&["resolved"]), comments: Field::any_of(&["comments"]) };
    for (item, value) in [
        (r#"{"resolved":true}"#, 300_000),
        (r#"{"resolved":false}"#, 1_000_000),
        (r#"{"resolved":"true"}"#, 1_000_000),
        (r#"{"resolved":1}"#, 1_000_000),
        ("{}", 1_000_000),
        ("null", 1_000_000),
    ] {
        assert_eq!(values(&strategy, &[item]), [value], "{item}");
    }
}

#[test]
fn boosted_items() {
    let patterns = ["ERROR".to_owned(), "pan+ic".to_owned()];
    let boost = Patterns::compile("boost", &patterns, &mut PatternBudget::default(), &mut Vec::new());
    assert!(boost.is_some());
    let strategy = Strategy::HeadTail { boost };
    let items = [r#"{"a":"ERROR"}"#, r#"{"a":"error"}"#, r#""pannic""#, "{}"];
    assert_eq!(values(&strategy, &items), [2_000_000, 1_000_000, 2_000_000, 1_000_000]);
}

#[test]
fn groups_are_equal_values() {
    let items = [
        r#"{"g":"a"}"#,
        r#"{"g":"b"}"#,
        r#"{"g":"\u0061"}"#,
        "{}",
        "7",
        r#"{"g":1}"#,
        r#"{"g":"1"}"#,
        r#"{"g":null}"#,
        r#"{"g":{"x":[1]}}"#,
        r#"{"g":1}"#,
    ];
    assert_eq!(groups(&Field::any_of(&["g"]), &items, &Work::unlimited()), [0, 1, 0, 2, 2, 3, 4, 5, 6, 3]);
}

#[test]
fn expressions_that_take_too_many_steps_match_nothing() {
    // A Unicode word boundary needs a search that takes a step for each state and byte.
    let patterns = [r"\b\w{1,20}x|ERROR".to_owned()];
    let boost = Patterns::compile("boost", &patterns, &mut PatternBudget::default(), &mut Vec::new());
    assert!(boost.is_some());
    let strategy = Strategy::HeadTail { boost };
    let long = format!("\"{}\"", "é".repeat(50_000));
    let work = Work::unlimited();
    assert_eq!(strategy.values(&["\"ERROR\"", "7"], &work), [2_000_000, 1_000_000]);
    assert_eq!(strategy.values(&["\"ERROR\"", &long], &work), [1_000_000; 2]);
    assert!(!work.exceeded() && work.spend(1), "the run continues");
}

#[test]
fn steps_grow_with_the_list() {
    let strategies = [
        Strategy::ElementCount,
        Strategy::files(Field::any_of(&["path"])),
        Strategy::threads(Field::any_of(&["resolved"]), Field::any_of(&["comments"])),
        Strategy::logs(),
    ];
    let item = r#"{"path":"src/tests/a.rs","resolved":true,"comments":[1,2,3]}"#;
    for strategy in &strategies {
        let steps = |count: usize| {
            let work = Work::unlimited();
            assert_eq!(strategy.values(&vec![item; count], &work).len(), count);
            work.used()
        };
        assert!(steps(10_000) <= 11 * steps(1_000).max(1_000));
    }
}

#[test]
fn the_documentation_names_every_pattern() {
    let page = include_str!("../../../../docs/filters/values.md");
    for (pattern, value) in DEFAULTS {
        let row = page.lines().find(|line| line.starts_with("| 0.") && line.contains(&format!("`{pattern}`")));
        let row = row.unwrap_or_else(|| panic!("{pattern}"));
        assert!(row.starts_with(&format!("| {} |", value as f64 / 1e6)), "{row}");
    }
}
