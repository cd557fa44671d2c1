//! Documents that are made to take time or memory.

use super::toon::{ToonOptions, encode};
use super::{CompactJson, table};
use crate::work::Work;

fn toon(json: &str, fill: bool) -> String {
    encode(json, 0..json.len(), fill, &ToonOptions::default(), &Work::unlimited()).unwrap()
}

fn official(json: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    toon_format::encode(&value, &toon_format::EncodeOptions::new().with_spaces(1)).unwrap()
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

#[test]
fn a_million_rows_of_which_the_last_is_odd() {
    let rows = |last: &str| list((0..1_000_000).map(|i| format!("{{\"a\":{i}}}")).chain([last.to_owned()]));
    let table = toon(&rows(r#"{"a":null}"#), false);
    assert!(table.starts_with("[1000001]{a}:\n 0\n 1\n") && table.ends_with("\n 999999\n null"));
    for (last, end) in [(r#"{"b":1}"#, "\n - b: 1"), ("{}", "\n -"), (r#"{"a":[]}"#, "\n - a: []"), ("7", "\n - 7")] {
        let odd = rows(last);
        let lines = toon(&odd, false);
        assert!(lines.starts_with("[1000001]:\n - a: 0\n - a: 1\n") && lines.ends_with(end), "{last}");
        assert_eq!(
            CompactJson::of(&crate::json::parse(odd.as_bytes(), 8).unwrap()).table(false).is_some(),
            last == r#"{"a":[]}"#
        );
    }
}

#[test]
fn rows_with_keys_in_another_order() {
    // Every row has an order of its own, in itself and in its group.
    let json = list((0..500).map(|row| {
        let order = |i: usize| (i * [7, 11, 13, 17][row % 4] + row) % 50;
        let members: Vec<_> = (0..50).map(|i| format!("\"c{}\":{}", order(i), row * 50 + order(i))).collect();
        let group: Vec<_> = (0..50).rev().map(|i| format!("\"g{}\":\"{row}.{}\"", order(i), order(i))).collect();
        format!("{{\"g\":{{{}}},{}}}", group.join(","), members.join(","))
    }));
    let toon = toon(&json, false);
    assert_eq!(toon, official(&json));
    assert_eq!(toon.lines().count(), 501);
}

#[test]
fn ten_thousand_columns() {
    let row = |columns: &mut dyn Iterator<Item = usize>| {
        format!("{{{}}}", columns.map(|i| format!("\"c{i}\":{i}")).collect::<Vec<_>>().join(","))
    };
    let all = list((0..6).map(|i| if i % 2 == 0 { row(&mut (0..10_000)) } else { row(&mut (0..10_000).rev()) }));
    assert_eq!(toon(&all, false), official(&all));
    assert_eq!(toon(&all, false).lines().count(), 7);
    // Each row lacks another column.
    let gaps = list((0..6).map(|gap| row(&mut (0..10_000).filter(|i| *i != gap))));
    assert_eq!(toon(&gaps, true).matches("null").count(), 6);
    let table = table::encode(&gaps, 0..gaps.len(), true, &Work::unlimited()).unwrap();
    assert_eq!(table.matches("null").count(), 6);
}

#[test]
fn uniform_objects_at_every_level() {
    // Each level is a table by itself, and a row of the one around it.
    let keyed = (0..16).fold(r#"{"x":1,"y":2}"#.to_owned(), |inner, _| format!("{{\"a\":{inner},\"b\":{inner}}}"));
    assert_eq!(toon(&keyed, false), official(&keyed));
    let nested = (0..100).fold("1".to_owned(), |inner, level| match level % 2 {
        0 => format!("{{\"a\":{inner},\"b\":2}}"),
        _ => format!("{{\"b\":2,\"a\":{inner}}}"),
    });
    let rows = list((0..50).map(|_| nested.clone()));
    assert_eq!(toon(&rows, false), official(&rows));
}

#[test]
fn nothing_is_allocated_for_a_row() {
    let rows = |count: usize| {
        list((0..count).map(|i| {
            let (a, b) = (format!("\"id\":{i}"), format!("\"user\":{{\"login\":\"u{i}\",\"text\":\"a\\n{i}\"}}"));
            if i % 3 == 0 { format!("{{{a},{b},\"z\":[1,{i}]}}") } else { format!("{{{b},{a},\"z\":[]}}") }
        }))
    };
    let allocations = |json: &str, table: bool| {
        let used = allocation_counter::measure(|| {
            if table {
                drop(table::encode(json, 0..json.len(), false, &Work::unlimited()));
            } else {
                drop(toon(json, false));
            }
        });
        used.count_total
    };
    for table in [false, true] {
        let (few, many) = (allocations(&rows(100), table), allocations(&rows(10_000), table));
        // Some buffers double.
        assert!(many <= few + 20, "{few} {many}");
    }
}
