//! Pairs of upstream answers that differ only in what filters under `Enforced` remove, and the tools that answer with them.

use proptest::prelude::*;
use proptest::sample::select;
use tamis_tests::Answer;

/// Documents of one kind, in pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// A list, whose elements are mostly objects.
    List,
    /// An object with a list and counts of its items.
    Page,
    /// Lines; those that do not begin with `E` are removed, and those beyond the second that does.
    Lines,
}

/// Tool, action and filter.
pub(crate) const TOOLS: &[(&str, Kind, &str, &str)] = &[
    ("chosen", Kind::List, "response: {type: array}", "{select: {id: id}}"),
    ("globbed", Kind::List, "response: {type: array}", "{exclude: ['t*n', '/**/em*', \"bo*\"]}"),
    ("narrowed", Kind::List, "response: {type: array}", "{retain: [/id, /name], select: {id: id, name: name}}"),
    (
        "counted",
        Kind::List,
        "response: {type: array}",
        "{select: {id: id}, compact: {item: 'x{{.id}}', header: '{{.Total}}'}}",
    ),
    ("offsets", Kind::Page, "pagination: {type: offset, maxPages: 3}, response: {type: array}", "{select: {id: id}}"),
    (
        "cursors",
        Kind::Page,
        "pagination: {type: cursor, nextPath: next, maxPages: 3}, response: {type: array}",
        "{retain: [/id]}",
    ),
    ("page", Kind::Page, "response: {type: object}", "{root: /items, select: {id: id}}"),
    (
        "kept",
        Kind::Lines,
        "response: {type: text}",
        "{text: {keep: ['^E'], maxLines: 2, dedup: true, stripAnsi: true}}",
    ),
    (
        "stripped",
        Kind::Lines,
        "response: {type: text}",
        "{text: {strip: ['^[^E]', '^$'], maxLines: 2, onEmpty: nothing}}",
    ),
    (
        "budgeted",
        Kind::Lines,
        "response: {type: text}",
        "{text: {keep: ['^E'], maxLines: 2}, output: {budget: {bytes: 20}}}",
    ),
];

/// A text of its own in each half.
pub(crate) type Pair = (String, String);

/// A value that filters remove, of any shape.
fn removed() -> impl Strategy<Value = String> {
    prop_oneof![
        select(&["null", "true", "0", "[]", "{}", "[1,[2]]", "{\"id\":1}"][..]).prop_map(str::to_owned),
        "\"REMOVED[a-z]{0,8}\"",
        any::<i64>().prop_map(|number| number.to_string()),
    ]
}

/// Members that go, of one half.
fn hidden() -> impl Strategy<Value = String> {
    let member = (select(&["token", "email", "body"][..]), removed());
    prop::collection::vec(member, 0..3)
        .prop_map(|members| members.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect())
}

/// One object: what it shows, twice where duplicates hide an earlier value, and what it hides.
fn object() -> impl Strategy<Value = Pair> {
    let shown = (0..3_i64, prop::bool::weighted(0.2));
    (shown, hidden(), hidden(), removed(), removed()).prop_map(|((id, twice), left, right, one, two)| {
        let half = |hidden: &str, shadowed: &str| {
            let first = if twice { format!("\"id\":{shadowed},") } else { String::new() };
            format!("{{{first}\"id\":{id},\"name\":\"n{id}\"{hidden}}}")
        };
        (half(&left, &one), half(&right, &two))
    })
}

/// A list whose elements all are there in both halves. `others`: some are no objects, and differ.
fn list(others: bool) -> impl Strategy<Value = Pair> {
    let scalar = || select(&["1", "\"REMOVED\"", "null", "true", "{\"token\":\"REMOVED\"}", "{}"][..]);
    let other = (scalar(), scalar()).prop_map(|(left, right)| (left.to_owned(), right.to_owned()));
    let element = if others { prop_oneof![4 => object(), 1 => other].boxed() } else { object().boxed() };
    // One object that shows something comes first: a list of nothing but placeholders is a failed stage in both halves.
    prop::collection::vec(element, 0..4).prop_map(|elements| {
        let half = |pick: fn(&Pair) -> &String| {
            format!("[{}]", elements.iter().map(|e| pick(e).as_str()).collect::<Vec<_>>().join(","))
        };
        (half(|pair| &pair.0), half(|pair| &pair.1))
    })
}

fn page() -> impl Strategy<Value = Pair> {
    let total = || prop_oneof![(0..90_u32).prop_map(|total| total.to_string()), removed()];
    (list(false), (total(), total()), (total(), total())).prop_map(|((left, right), (one, two), (three, four))| {
        let half = |items: &str, total: &str, meta: &str| {
            format!("{{\"items\":{items},\"total\":{total},\"meta\":{{\"total\":{meta}}},\"next\":\"b\"}}")
        };
        (half(&left, &one, &three), half(&right, &two, &four))
    })
}

fn lines() -> impl Strategy<Value = Pair> {
    let noise = || prop::collection::vec(select(&["", "x", "REMOVED", "1", "{}"][..]), 0..3);
    let beyond = || select(&["E a", "E b", "E REMOVED", "E"][..]);
    let tail = prop::collection::vec((beyond(), beyond()), 0..4);
    (0..3_usize, noise(), noise(), tail).prop_map(|(shown, left, right, tail)| {
        let half = |noise: &[&str], pick: fn(&(&'static str, &'static str)) -> &'static str| {
            let mut lines: Vec<String> = noise.iter().map(|line| (*line).to_owned()).collect();
            lines.extend((0..shown).map(|i| format!("E shown {i}")));
            if shown == 2 {
                lines.push("E cut".to_owned());
                lines.extend(tail.iter().map(|line| pick(line).to_owned()));
            }
            lines.push("end".to_owned());
            lines.join("\n")
        };
        (half(&left, |line| line.0), half(&right, |line| line.1))
    })
}

/// Pairs of documents for a tool: what its filter removes, and nothing else, differs.
pub(crate) fn pairs(tool: &str, kind: Kind) -> BoxedStrategy<Pair> {
    match kind {
        Kind::List => list(matches!(tool, "chosen" | "narrowed" | "counted")).boxed(),
        Kind::Page => page().boxed(),
        Kind::Lines => lines().boxed(),
    }
}

/// The ServiceManifest's actions and the set's filters, indented for `spec.http.actions` and for `spec.filters`.
pub(crate) fn yaml() -> (String, String) {
    let actions = TOOLS.iter();
    let actions =
        actions.map(|(name, _, action, _)| format!("      {name}: {{method: GET, path: /document, {action}}}\n"));
    let filters = TOOLS.iter().map(|(name, _, _, filter)| format!("    {name}: {filter}\n"));
    (actions.collect(), filters.collect())
}

/// A line without the numbers in it: times, sizes, ports, digests.
pub(crate) fn masked(line: &str) -> String {
    line.split_inclusive(|c: char| !c.is_ascii_alphanumeric())
        .map(|word| {
            let end = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).len();
            let number = word[..end].bytes().any(|b| b.is_ascii_digit());
            if number { format!("#{}", &word[end..]) } else { word.to_owned() }
        })
        .collect()
}

/// An answer as its caller gets it: status, headers but the time, and text.
pub(crate) fn shown(answer: &Answer) -> String {
    let headers = answer.headers.iter().filter(|(name, _)| *name != "date");
    let headers: Vec<_> = headers.map(|(name, value)| format!("{name}: {value:?}")).collect();
    format!("{} {headers:?} {}", answer.status, answer.text)
}

/// The series of all metrics, without their values. Whether a path was ever missed is for metrics to say, and may differ.
pub(crate) fn series(metrics: &str) -> impl Iterator<Item = &str> {
    let apart = |line: &&str| !line.starts_with('#') && !line.starts_with("tamis_filter_missed_paths_total{");
    metrics.lines().filter(apart).filter_map(|line| Some(line.rsplit_once(' ')?.0))
}
