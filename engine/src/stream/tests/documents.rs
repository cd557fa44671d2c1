//! JSON texts: random ones, recorded ones, and broken ones.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use super::ISSUES;

/// Keys that the filters of [`super::filters`] name too, or an answer; two are written with escapes.
pub(super) const KEYS: [&str; 14] = [
    "a",
    "b",
    "c",
    "items",
    "data",
    "result",
    "0",
    "1",
    "-",
    "raw",
    "\\u0061",
    "_pagination",
    "_trunc\\u0061ted",
    "a key that is longer than any block of bytes",
];

const SCALARS: [&str; 16] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "1.50",
    "1e400",
    "12345678901234567890",
    "\"\"",
    "\"a\"",
    "\"\\u0061\"",
    "\"\\ud800\"",
    "\"h\u{e9}llo \u{1f600}\"",
    "\"line\\nline, and more than thirty-two bytes of it\"",
    "\"null\"",
];

fn blank() -> impl Strategy<Value = &'static str> {
    prop_oneof![12 => Just(""), 1 => Just(" "), 1 => Just("\n  "), 1 => Just("\t\r\n")]
}

fn list(parts: &[String], blanks: &[&str], open: char, close: char) -> String {
    let mut out = String::from(open);
    for (i, part) in parts.iter().enumerate() {
        let gap = blanks[i % blanks.len()];
        if i > 0 {
            out.push(',');
        }
        out += &format!("{gap}{part}{gap}");
    }
    out.push(close);
    out
}

fn object(value: impl Strategy<Value = String> + 'static, most: usize) -> BoxedStrategy<String> {
    // Mostly what the fast path takes: plain keys, each once.
    let keys = prop_oneof![8 => subsequence(&KEYS[..9], 0..most).prop_shuffle(), 1 => vec(select(&KEYS[..]), 0..most)];
    (keys, vec((blank(), value), most), vec(blank(), 1..4))
        .prop_map(|(keys, values, blanks)| {
            let members: Vec<_> =
                keys.iter().zip(values).map(|(key, (gap, value))| format!("\"{key}\"{gap}:{gap}{value}")).collect();
            list(&members, &blanks, '{', '}')
        })
        .boxed()
}

fn array(value: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    (vec(value, 0..4), vec(blank(), 1..4)).prop_map(|(elements, blanks)| list(&elements, &blanks, '[', ']')).boxed()
}

fn value() -> BoxedStrategy<String> {
    let leaf = select(&SCALARS[..]).prop_map(String::from);
    leaf.prop_recursive(3, 24, 4, |inner| prop_oneof![array(inner.clone()), object(inner.clone(), 4), object(inner, 4)])
        .boxed()
}

/// A document: mostly lists of objects, alone or in an object.
pub(super) fn some() -> BoxedStrategy<String> {
    let items = || array(prop_oneof![6 => object(value(), 6), 1 => value()]);
    prop_oneof![
        4 => items(),
        3 => object(prop_oneof![value(), items()], 6),
        2 => (select(&KEYS[..]), items(), value()).prop_map(|(key, items, other)| {
            format!("{{\"total\":{other},\"{key}\":{items}}}")
        }),
        1 => value(),
        1 => object(value(), 6).prop_map(|object| {
            let comma = if object.trim_end_matches('}').trim_end().ends_with('{') { "" } else { "," };
            format!("{{\"stderr\":\"e\"{comma}{}", object.trim_start_matches('{'))
        }),
        1 => object(value(), 6).prop_map(|object| format!("\u{feff}{object}")),
        1 => select(&["{\"raw\":\"a\\nb\"}", "{\"raw\":\"a\",\"stderr\":\"b\"}", "{\"stderr\":\"b\",\"r\\u0061w\":\"a\"}", ""][..])
            .prop_map(String::from),
    ]
    .boxed()
}

/// Documents in which most short paths of few names lead somewhere, with distinct keys.
pub(super) fn dense() -> impl Strategy<Value = String> {
    let leaf = select(&["null", "1", "1.0", "2", "\"\"", "\"a\"", "{}", "[]"][..]).prop_map(String::from);
    leaf.prop_recursive(4, 48, 4, |inner| {
        let keys = subsequence(&["a", "b", "items", "x", "x/y", "q\\\"uote"][..], 1..5);
        let object = (keys, vec((blank(), inner.clone()), 5)).prop_map(|(keys, values)| {
            let members = keys.iter().zip(values).map(|(key, (gap, value))| format!("\"{key}\":{gap}{value}"));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        });
        let list = vec(inner, 1..4).prop_map(|elements| format!("[{}]", elements.join(",")));
        prop_oneof![3 => object, 1 => list]
    })
}

/// Keys of the lengths at which the comparison of members changes, some of them the beginning of others.
pub(super) const ITEM_KEYS: [&str; 14] = [
    "a",
    "b",
    "id",
    "user",
    "login",
    "abcdefgh",
    "abcdefghi",
    "abcdefghijklmnop",
    "abcdefghijklmnopqrstuvwxyzabc",
    "abcdefghijklmnopqrstuvwxyzabcd",
    "abcdefghijklmnopqrstuvwxyzabcde",
    "h\u{e9}",
    "\\u0061",
    "",
];

/// One scalar.
pub(super) fn scalar() -> BoxedStrategy<String> {
    prop_oneof![
        3 => select(&SCALARS[..]).prop_map(String::from),
        2 => any::<i64>().prop_map(|number| number.to_string()),
        3 => "[ -~]{0,40}".prop_map(|text| format!("\"{}\"", text.replace(['"', '\\'], "."))),
    ]
    .boxed()
}

/// Lists of objects that mostly have the same members in the same order, with the same whitespace.
pub(super) fn items() -> BoxedStrategy<String> {
    let key = || prop_oneof![12 => select(&ITEM_KEYS[..11]), 1 => select(&ITEM_KEYS[..])];
    let value = scalar().prop_recursive(2, 12, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|elements| format!("[{}]", elements.join(","))),
            vec((key(), inner), 0..4).prop_map(|members| {
                let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    });
    let shape = subsequence(&ITEM_KEYS[..11], 1..8).prop_shuffle();
    // Of a member of an item: other, missing, twice, or with other whitespace.
    let change = (any::<Index>(), 0..4, key(), value.clone());
    let item = vec(change, 0..2);
    (shape, vec(value, 1..12), vec(item, 0..12), (blank(), blank(), blank()))
        .prop_map(|(shape, values, items, (before, between, after))| {
            let mut at = values.iter().cycle();
            let items: Vec<_> = items
                .into_iter()
                .map(|changes| {
                    let mut members: Vec<_> = shape
                        .iter()
                        .map(|key| format!("{before}\"{key}\"{between}:{after}{}", at.next().unwrap()))
                        .collect();
                    for (place, how, key, value) in changes {
                        let place = place.index(members.len().max(1));
                        match how {
                            0 => members.insert(place, format!("\"{key}\":{value}")),
                            1 if place < members.len() => drop(members.remove(place)),
                            2 if place < members.len() => members.insert(place, members[place].clone()),
                            _ => members.push(format!(" \"{key}\" :\n{value}  ")),
                        }
                    }
                    format!("{{{}{after}}}", members.join(","))
                })
                .collect();
            format!("[{}]", items.join(","))
        })
        .boxed()
}

/// Documents of few keys, most of them duplicated, with values that `dropNulls` and `dropEmpty` drop.
pub(super) fn doubled() -> BoxedStrategy<String> {
    let leaf = select(&["null", "null", "1", "2", "\"\"", "\"a\"", "{}", "[]"][..]).prop_map(String::from);
    leaf.prop_recursive(4, 32, 5, |inner| {
        let key = select(&["a", "a", "b", "\\u0061", "items", "x"][..]);
        let members = vec((key, inner.clone()), 0..5).prop_map(|members| {
            let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            format!("{{{}}}", members.join(","))
        });
        prop_oneof![4 => members, 1 => vec(inner, 0..3).prop_map(|elements| format!("[{}]", elements.join(",")))]
    })
    .boxed()
}

/// A few recorded issues, as a list or in an object, compact or indented.
pub(super) fn issues() -> impl Strategy<Value = String> {
    (vec(any::<Index>(), 1..4), any::<bool>(), any::<bool>()).prop_map(|(which, wrapped, pretty)| {
        let recorded: Vec<&str> =
            ISSUES.lines().filter(|l| l.starts_with('{')).map(|l| l.trim_end_matches(',')).collect();
        let list = format!("[{}]", which.iter().map(|i| *i.get(&recorded)).collect::<Vec<_>>().join(","));
        let text = if wrapped { format!("{{\"total_count\":{},\"items\":{list}}}", which.len()) } else { list };
        if pretty {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            text
        }
    })
}

/// The same with a few bytes changed: some stay JSON, most do not.
pub(super) fn mutated(document: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<u8>> {
    let pieces: &[&[u8]] = &[
        b"",
        b"\"",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b" ",
        b"\n",
        b"0",
        b"-",
        b".",
        b"e",
        b"null",
        b"\x00",
        b"\x1f",
        b"\x7f",
        b"\x80",
        b"\xc3\xa9",
        b"\xff",
        b"\\u0061",
        b"\"a\":1,",
        b"\"user\":null,",
        b"\"a\":{\"a\":[]},",
        b"[[[[[[[[",
    ];
    let edit = (any::<Index>(), 0..3usize, select(pieces));
    (document, vec(edit, 0..3), proptest::option::weighted(0.1, any::<Index>())).prop_map(|(document, edits, cut)| {
        let mut bytes = document.into_bytes();
        for (place, drop, piece) in edits {
            let at = place.index(bytes.len() + 1);
            let end = bytes.len().min(at + drop);
            bytes.splice(at..end, piece.iter().copied());
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        bytes
    })
}
