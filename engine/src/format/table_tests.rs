use proptest::prelude::*;

use super::random::{Decisions, Doc};
use super::table::encode;
use crate::json::encode as string;
use crate::work::Work;

fn table(json: &str, fill: bool) -> Option<String> {
    encode(json, 0..json.len(), fill, &Work::unlimited())
}

/// Returns a list as a table, the obvious way.
fn obvious(items: &[Doc], fill: bool) -> Option<String> {
    let items: Vec<_> = items.iter().map(|item| if let Doc::Object(item) = item { Some(item) } else { None }).collect();
    let items: Vec<_> = items.into_iter().collect::<Option<_>>()?;
    let mut columns: Vec<(&str, String)> = Vec::new();
    for (key, escaped, _) in items.iter().copied().flatten() {
        if !columns.iter().any(|(column, _)| column == key) {
            let alone = Doc::Object(vec![(key.clone(), *escaped, Doc::Word("1"))]).json();
            columns.push((key, alone[1..alone.len() - 3].to_owned()));
        }
    }
    let present: usize = items.iter().map(|item| item.len()).sum();
    let cells = columns.len() * items.len();
    let has_null = items.iter().copied().flatten().any(|(.., value)| *value == Doc::Word("null"));
    if items.len() < 2 || cells == 0 || (present < cells && (!fill || has_null || cells > 2 * present)) {
        return None;
    }
    let rows = items.iter().map(|item| {
        let cell = |(column, _): &(&str, String)| {
            item.iter().find(|(key, ..)| key == column).map_or("null".to_owned(), |(.., value)| value.json())
        };
        format!("[{}]", columns.iter().map(cell).collect::<Vec<_>>().join(","))
    });
    let rows = rows.collect::<Vec<_>>().join(",");
    let columns = columns.into_iter().map(|(_, column)| column).collect::<Vec<_>>().join(",");
    Some(format!(r#"{{"columns":[{columns}],"rows":[{rows}]}}"#))
}

proptest! {
    #[test]
    fn is_the_obvious_table(bytes in proptest::collection::vec(any::<u8>(), 0..400), fill: bool) {
        let mut decisions = Decisions::new(&bytes);
        let count = bytes.len() % 7;
        let items = decisions.rows(3, count);
        let json = Doc::List(items.clone()).json();
        let written = table(&json, fill);
        prop_assert_eq!(&written, &obvious(&items, fill), "{}", json);
        if let Some(written) = written {
            prop_assert!(written.len() <= json.len() + json.len() / 2 + 24, "{}", json);
        }
    }

    #[test]
    fn every_document_has_a_table_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..400), fill: bool) {
        let doc = Decisions::new(&bytes).document(5);
        let want = if let Doc::List(items) = &doc { obvious(items, fill) } else { None };
        prop_assert_eq!(table(&doc.json(), fill), want);
    }

    #[test]
    fn what_is_around_the_payload_stays(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), before: String, after: String
    ) {
        let items = Decisions::new(&bytes).rows(2, 2);
        let payload = Doc::List(items.clone()).json();
        let (before, after) = (format!("{{{}:[", string(&before)), format!(",{}]}}", string(&after)));
        let json = format!("{before}{payload}{after}");
        let written = encode(&json, before.len()..before.len() + payload.len(), false, &Work::unlimited());
        prop_assert_eq!(written, obvious(&items, false).map(|table| format!("{before}{table}{after}")));
    }
}

#[test]
fn lists_that_are_no_table() {
    for (json, fill) in [
        ("null", true),
        ("{}", true),
        ("[]", true),
        ("[{}]", true),
        (r#"[{"a":1}]"#, true),
        ("[{},{}]", true),
        ("[1,2]", true),
        (r#"[{"a":1},2]"#, true),
        (r#"[{"a":1},{}]"#, false),
        (r#"[{"a":1},{"b":1}]"#, false),
        (r#"[{"a":1,"b":null},{"a":1}]"#, true),
        (r#"[{"a":1},{"b":1},{"c":1}]"#, true),
    ] {
        assert_eq!(table(json, fill), None, "{json}");
    }
    let empty = format!("[{}]", vec!["{}"; 10_000].join(","));
    assert_eq!(table(&empty, true), None);
    let columns: Vec<_> = (0..10_000).map(|i| format!("{{\"c{i}\":1}}")).collect();
    assert_eq!(table(&format!("[{}]", columns.join(",")), true), None);
}

#[test]
fn values_stay_as_they_are() {
    let json = r#"[{"a":-0,"b":{"x":[1.0,"\u00e9"]}},{"b":"\ud800","\u0061":1e400}]"#;
    let want = r#"{"columns":["a","b"],"rows":[[-0,{"x":[1.0,"\u00e9"]}],[1e400,"\ud800"]]}"#;
    assert_eq!(table(json, false).as_deref(), Some(want));
    let with_null = r#"[{"a":null},{"a":1}]"#;
    assert_eq!(table(with_null, true).as_deref(), Some(r#"{"columns":["a"],"rows":[[null],[1]]}"#));
    let empty_item = r#"[{"a":1,"b":2},{}]"#;
    assert_eq!(table(empty_item, true).as_deref(), Some(r#"{"columns":["a","b"],"rows":[[1,2],[null,null]]}"#));
    let twice = r#"[{"a":1,"b":2,"a":3},{"a":4,"b":{"c":1,"c":2}}]"#;
    assert_eq!(table(twice, false).as_deref(), Some(r#"{"columns":["a","b"],"rows":[[3,2],[4,{"c":2}]]}"#));
}

#[test]
fn an_interrupt_ends_it() {
    let json = format!("[{}]", vec![r#"{"a":[1,{"b":2}],"c":"text"}"#; 10_000].join(","));
    for polls in [0_usize, 1, 20, 40] {
        let left = std::cell::Cell::new(polls);
        let interrupt = || left.replace(left.get().saturating_sub(1)) == 0;
        let work = Work::until(&interrupt);
        assert_eq!(encode(&json, 0..json.len(), false, &work), None);
        assert!(work.is_interrupted());
    }
    assert!(table(&json, false).is_some());
}
