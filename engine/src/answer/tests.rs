use std::borrow::Cow;

use proptest::prelude::*;

use super::*;
use crate::Structured;
use crate::json::{self, Node};
use crate::work::Work;

const BARE: Frame<'_> = Frame { pagination: None, notice: false, structured: true };

/// The bytes by which the structured content of a value is larger than its text.
fn wrapper(text: &str) -> usize {
    if Form::of(text) == Form::Wrapped { "{\"result\":}".len() } else { 0 }
}

/// Fits a value without a frame into `limit` bytes.
fn fit(text: &str, list: Option<&[usize]>, limit: usize) -> (String, Option<BudgetReport>) {
    let limit = Bytes(limit + wrapper(text));
    let (text, _, report) = framed(text, list, None, limit, &BARE);
    (text, report)
}

fn framed(
    text: &str,
    list: Option<&[usize]>,
    total: Option<usize>,
    limit: Bytes,
    frame: &Frame<'_>,
) -> (String, Cut<'static>, Option<BudgetReport>) {
    let document = json::parse(text.as_bytes(), 64).expect("valid");
    let mut list = list.map(|place| List { place, total: 0, keeps_items: false });
    if let Some(list) = &mut list {
        let at = list.place.iter().try_fold(&document, |node, &at| match node {
            Node::Object(members) => members.get(at).map(|member| &member.value),
            Node::Array(elements) => elements.get(at),
            Node::Scalar(_) | Node::String(_) => None,
        });
        list.total = total.or_else(|| at.and_then(Node::as_array).map(<[_]>::len)).unwrap_or(0);
    }
    let list = list.filter(|list| list.total > 0);
    let size = json::compact_len(&document);
    let mut document = Cow::Owned(document);
    let (cut, report) = fit_json(&mut document, list, (size, Some(limit)), (frame, Cut::default()), &Work::unlimited());
    (json::to_string(&document), cut, report)
}

#[test]
fn items_go_first_from_the_end() {
    let list = r#"[{"a":1},{"a":2},{"a":3}]"#;
    for (limit, want, dropped) in
        [(25, list, 0), (24, r#"[{"a":1},{"a":2}]"#, 1), (17, r#"[{"a":1},{"a":2}]"#, 1), (16, r#"[{"a":1}]"#, 2)]
    {
        let (got, report) = fit(list, Some(&[]), limit);
        assert_eq!(got, want, "{limit}");
        assert_eq!(report.map_or(0, |r| r.items_dropped), dropped, "{limit}");
    }
}

#[test]
fn siblings_of_the_list_count_and_stay() {
    let document = r#"{"total_count": 3, "items": [1,2,3], "next": null}"#;
    let (got, report) = fit(document, Some(&[1]), 42);
    assert_eq!(got, r#"{"total_count":3,"items":[1],"next":null}"#);
    let report = report.expect("too large");
    assert_eq!((report.items_dropped, report.original, report.result), (2, Bytes(45), Bytes(41)));
    assert!(!report.exceeded);
}

#[test]
fn one_oversized_first_item_is_cut_and_stays() {
    let list = format!(r#"[{{"id":1,"title":"short","body":"{}"}},{{"id":2}}]"#, "x".repeat(500));
    let (got, report) = fit(&list, Some(&[]), 60);
    assert_eq!(got, format!(r#"[{{"id":1,"title":"short","body":"{}..."}}]"#, "x".repeat(21)));
    assert_eq!(got.len(), 60);
    let report = report.expect("too large");
    assert_eq!((report.items_dropped, report.strings_truncated, report.members_dropped), (1, 1, 0));
}

#[test]
fn the_longest_strings_are_cut_to_one_length() {
    let document = r#"{"a":"aaaaaaaaaaaaaaaaaaaa","b":"bbbbbbbbbb","c":"cc"}"#;
    assert_eq!(fit(document, None, 40).0, r#"{"a":"aaaaa...","b":"bbbbb...","c":"cc"}"#);
    assert_eq!(fit(document, None, 48).0, r#"{"a":"aaaaaaaaaaa...","b":"bbbbbbbbbb","c":"cc"}"#);
    assert_eq!(fit(document, None, 27).0, r#"{"a":"a","b":"b","c":"c"}"#);
}

#[test]
fn escapes_and_characters_are_never_split() {
    for (inner, room, want) in [
        (r"\n\n\n\n\n\n", 9, r"\n\n\n..."),
        (r"\n\n\n\n\n\n", 8, r"\n\n..."),
        (r"a\\\\\\\\\\", 8, r"a\\\\..."),
        (r"\u00e9\u00e9\u00e9", 17, r"\u00e9\u00e9..."),
        (r"\ud83d\ude00\ud83d\ude00", 23, r"\ud83d\ude00..."),
        (r"\ud83d\ude00\ud83d\ude00", 14, r"..."),
        (r"\ud83d\ud83d\ude00zzzzzz", 20, r"\ud83d..."),
        ("\u{1f600}\u{1f600}\u{1f600}", 11, "\u{1f600}\u{1f600}..."),
        ("\u{1f600}\u{1f600}\u{1f600}", 10, "\u{1f600}..."),
        ("\u{e9}\u{e9}\u{e9}\u{e9}", 3, "\u{e9}"),
        ("abcdefgh", 3, "abc"),
        ("abcdefgh", 4, "a..."),
        ("abcdefgh", 0, ""),
    ] {
        let (got, report) = fit(&format!("\"{inner}\""), None, room + 2);
        assert_eq!(got, format!("\"{want}\""), "{inner} in {room}");
        assert!(report.is_some_and(|r| r.strings_truncated == 1 && !r.exceeded));
    }
}

#[test]
fn the_last_resort_is_valid_and_fits() {
    let document = r#"{"numbers":[1,2,3,4,5,6,7,8],"more":{"deep":[10,20,30]},"text":"words"}"#;
    for (limit, want) in [
        (40, r#"{"numbers":[1,2,3,4,5,6,7,8],"more":{}}"#),
        (36, r#"{"numbers":[1,2,3,4,5,6,7,8]}"#),
        (20, r#"{"numbers":[1,2,3]}"#),
        (13, "{}"),
        (2, "{}"),
    ] {
        let (got, report) = fit(document, None, limit);
        assert_eq!(got, want, "{limit}");
        let report = report.expect("too large");
        assert!(report.members_dropped > 0 && !report.exceeded, "{report:?}");
    }
    let (got, report) = fit(document, None, 1);
    assert_eq!(got, "{}");
    assert!(report.is_some_and(|r| r.exceeded && r.result == Bytes(2)));
    assert!(fit("123456", None, 3).1.is_some_and(|r| r.exceeded));
}

fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        "[a-z\u{e9}\u{1f600}]{0,30}".prop_map(|s| format!("\"{s}\"")),
        Just(r#""\ud83d\ude00\n\u00e9\\\"""#.to_owned()),
    ];
    leaf.prop_recursive(4, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|v| format!("[{}]", v.join(","))),
            prop::collection::vec(("[a-z]{1,6}", inner), 0..6).prop_map(|v| {
                let members: Vec<String> = v.into_iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn elements(text: &str) -> Vec<String> {
    match json::parse(text.as_bytes(), 64).expect("valid") {
        Node::Array(elements) => elements.iter().map(json::to_string).collect(),
        _ => Vec::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn the_output_is_valid_and_fits(text in any_json(), limit in 0_usize..200, as_list: bool) {
        let list: Option<&[usize]> = as_list.then_some(&[]);
        let (got, report) = fit(&text, list, limit);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&got).is_ok() || got.contains("\\ud"));
        match report {
            None => prop_assert_eq!(&got, &text),
            Some(report) => {
                prop_assert_eq!(report.result, Bytes(got.len() + wrapper(&text)));
                prop_assert_eq!(report.original, Bytes(text.len() + wrapper(&text)));
                prop_assert_eq!(report.exceeded, got.len() > limit);
                // Only a value without a smaller form may exceed the limit.
                prop_assert!(!report.exceeded || limit < 2 || got.parse::<f64>().is_ok() || got == "null" || got == "true");
            }
        }
    }

    #[test]
    fn items_kept_whole_are_a_prefix_and_more_room_keeps_no_less(items in prop::collection::vec(any_json(), 1..8), limit in 0_usize..200) {
        let text = format!("[{}]", items.join(","));
        let (small, report) = fit(&text, Some(&[]), limit);
        let (large, _) = fit(&text, Some(&[]), limit + 1);
        let (small, large) = (elements(&small), elements(&large));
        prop_assert!(small.len() <= large.len(), "{:?} {:?}", small, large);
        if let Some(report) = report {
            prop_assert_eq!(report.items_dropped, items.len() - small.len());
            if report.strings_truncated == 0 && report.members_dropped == 0 {
                prop_assert_eq!(&small[..], &items[..small.len()]);
                // One more would not fit.
                let more = items[..=small.len()].join(",").len() + 2;
                prop_assert!(more > limit);
            }
            // Strings are touched only when one item is left.
            prop_assert!(report.strings_truncated == 0 || small.len() <= 1);
        }
    }

    #[test]
    fn what_stands_around_a_value_is_counted_to_the_byte(
        items in prop::collection::vec(any_json(), 1..14), wrapped: bool, limit in 0_usize..400, more in 0_usize..200, paged: bool,
    ) {
        let list = format!("[{}]", items.join(","));
        let (text, place): (_, &[usize]) = if wrapped { (list, &[]) } else { (format!("{{\"n\":1,\"l\":{list}}}"), &[1]) };
        let frame = Frame { pagination: paged.then_some("{\"pages\":2}"), notice: true, structured: true };
        let total = items.len() + more;
        let (got, cut, report) = framed(&text, Some(place), Some(total), Bytes(limit), &frame);
        // The answer as the gateway writes it.
        let answer = |text: &str, cut: Cut<'_>| {
            let structured = Structured::Text { members: frame.members(cut) }.to_json(text).unwrap_or_default();
            let blocks = text.len() + frame.notice(cut).map_or(0, |notice| notice.len());
            Bytes(blocks.max(structured.len()))
        };
        let cost = answer(&got, cut);
        prop_assert_eq!(cost, frame.cost(got.len(), Form::of(&got), cut).counted());
        match &report {
            None => {
                prop_assert!(cost <= Bytes(limit));
                prop_assert_eq!(&got, &text);
                prop_assert_eq!(cut, Cut { items: Items::cut(items.len(), total), ..Cut::default() });
            }
            Some(report) => {
                prop_assert_eq!((report.result, report.exceeded), (cost, cost > Bytes(limit)));
                let before = Cut { items: Items::cut(items.len(), total), ..Cut::default() };
                prop_assert_eq!(report.original, answer(&text, before));
                prop_assert!(report.original > Bytes(limit));
                prop_assert_eq!((cut.strings, cut.members), (report.strings_truncated > 0, report.members_dropped > 0));
                let shown = items.len() - report.items_dropped;
                prop_assert_eq!(cut.items, Items::cut(shown, total));
                if !cut.strings && !cut.members && shown > 0 {
                    // One item more would not fit.
                    let list = format!("[{}]", items[..=shown].join(","));
                    let text = if wrapped { list } else { format!("{{\"n\":1,\"l\":{list}}}") };
                    let more = answer(&text, Cut { items: Items::cut(shown + 1, total), ..cut });
                    prop_assert!(more > Bytes(limit), "{} of {}", more, text);
                }
            }
        }
    }
}
