//! Random filters and their compile options.

use std::num::NonZeroUsize;

use indexmap::IndexMap;
use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::*;
use proptest::sample::select;

use super::documents::ITEM_KEYS;
use crate::{
    Budget, BudgetSpec, Bytes, Call, CompactSpec, CompileOptions, Enforcement, Estimate, Factor, FilterSpec, Format,
    FormatSpec, JsonText, Limits, OutputSpec, Page, PageInputs, PatchSpec, ResponseType, StrategySpec, TestSpec,
    TextSpec, TokenCounter, Tokenizer, Tokens, ToolFilter, ToolKind,
};

const SEGMENTS: [&str; 13] = ["a", "b", "c", "items", "data", "0", "1", "2", "-", "*", "~2", "**", "*a*"];

fn pointer(segments: &'static [&'static str], least: usize) -> impl Strategy<Value = String> {
    vec(select(segments), least..4).prop_map(|path| path.iter().map(|segment| format!("/{segment}")).collect())
}

fn constant() -> impl Strategy<Value = JsonText> {
    select(&["null", "1", "1.0", "\"a\"", "{ \"a\" : [ 1 ] }", "[]"][..])
        .prop_map(|text| JsonText::parse(text).unwrap())
}

fn patch() -> impl Strategy<Value = PatchSpec> {
    let strict = || pointer(&SEGMENTS[..10], 0);
    let op = select(&["remove", "remove", "remove", "replace", "add", "add", "test", "move", "copy"][..]);
    (op, strict(), strict(), constant()).prop_map(|(op, path, from, value)| PatchSpec {
        op: op.into(),
        path: Some(path),
        from: matches!(op, "move" | "copy").then_some(from),
        value: matches!(op, "add" | "replace" | "test").then_some(value),
    })
}

/// Operations that mostly apply.
fn edits() -> impl Strategy<Value = Vec<PatchSpec>> {
    let remove = pointer(&SEGMENTS[..9], 1)
        .prop_map(|path| PatchSpec { op: "remove".into(), path: Some(path), ..PatchSpec::default() })
        .boxed();
    let set =
        (select(&["/a", "/b", "/0/a", "/0/c", "/items/0/a", "/data"][..]), constant()).prop_map(|(path, value)| {
            PatchSpec { op: "add".into(), path: Some(path.into()), value: Some(value), from: None }
        });
    prop_oneof![vec(patch(), 1..4), vec(remove.clone(), 1..4), vec(prop_oneof![remove, set], 1..3)]
}

fn fields() -> impl Strategy<Value = IndexMap<String, String>> {
    let step = select(&[".a", ".b", ".c", ".items", ".0", "[0]", "[1]", "[*]", "[*]"][..]);
    let path = (select(&["a", "b", "c", "items", "data"][..]), vec(step, 0..3));
    vec((select(&["x", "y", "a", "q\"uote"][..]), path), 1..4).prop_map(|fields| {
        fields.into_iter().map(|(key, (first, rest))| (key.to_owned(), format!("{first}{}", rest.concat()))).collect()
    })
}

fn exclude() -> impl Strategy<Value = Vec<String>> {
    let name = select(&["a", "b", "c", "x", "y", "0"][..]).prop_map(String::from);
    let glob = select(&["*", "i*s", "*a", "~2"][..]).prop_map(String::from);
    // Filters without globs stream.
    prop_oneof![
        3 => vec(prop_oneof![2 => name.clone(), 1 => pointer(&SEGMENTS[..11], 1)], 1..4),
        1 => vec(prop_oneof![2 => name, 1 => glob, 1 => pointer(&SEGMENTS, 1)], 1..4),
    ]
}

fn spec() -> impl Strategy<Value = FilterSpec> {
    let retain = prop_oneof![3 => vec(pointer(&SEGMENTS[..11], 0), 1..4), 1 => vec(pointer(&SEGMENTS, 0), 1..4)];
    let edits = (weighted(0.3, retain), weighted(0.3, edits()));
    let payload =
        (weighted(0.3, pointer(&SEGMENTS[..9], 0)), of(0..3i64), weighted(0.6, fields()), weighted(0.4, exclude()));
    let last = (
        any::<bool>(),
        weighted(0.2, Just(true)),
        (weighted(0.3, answer()), of(any::<bool>())),
        weighted(0.1, Just("{{.a}}{{.x}} ".to_owned())),
    );
    let lines = (any::<bool>(), of(Just("a".to_owned())), of(Just("[^b]".to_owned())), of(0..3i64));
    (edits, payload, last, weighted(0.1, lines)).prop_map(
        |(
            (retain, patches),
            (root, max_items, select, exclude),
            (drop_nulls, drop_empty, (answer, notice), template),
            text,
        )| {
            // Every field is listed: a stage that no random filter has would never be compared.
            FilterSpec {
                // Of branches, see `some`; a filter that is `passthrough` has nothing else.
                test: None,
                otherwise: false,
                passthrough: false,
                retain,
                patches,
                root,
                max_items,
                select,
                exclude,
                drop_nulls,
                drop_empty: drop_empty.is_some(),
                text: text.map(|(dedup, strip, keep, max_lines)| {
                    Box::new(TextSpec {
                        strip_ansi: true,
                        strip: strip.into_iter().collect(),
                        keep: keep.into_iter().collect(),
                        dedup,
                        max_lines,
                        on_empty: None,
                    })
                }),
                output: (answer.is_some() || notice.is_some())
                    .then(|| Box::new(OutputSpec { notice, ..answer.unwrap_or_default() })),
                compact: template.map(|item| {
                    Box::new(CompactSpec {
                        header: Some("{{.Total}}: ".to_owned()),
                        item: Some(item),
                        footer: Some("{{.Remaining}}".to_owned()),
                    })
                }),
            }
        },
    )
}

/// One filter, sometimes a list of branches.
pub(super) fn some() -> impl Strategy<Value = ToolFilter> {
    let test = (pointer(&SEGMENTS[..9], 0), constant()).prop_map(|(path, value)| TestSpec { path, value });
    let branches = (vec((spec(), test), 1..3), of(spec())).prop_map(|(tested, last)| {
        let mut branches: Vec<_> =
            tested.into_iter().map(|(spec, test)| FilterSpec { test: Some(Box::new(test)), ..spec }).collect();
        branches.extend(last.map(|spec| FilterSpec { otherwise: true, ..spec }));
        ToolFilter::Branches(branches)
    });
    prop_oneof![
        6 => spec().prop_map(|spec| ToolFilter::Single(Box::new(spec))),
        1 => branches,
        1 => Just(ToolFilter::Single(Box::new(FilterSpec { passthrough: true, ..FilterSpec::default() }))),
    ]
}

/// Operations one after another on the same few places, alone or after `retain`.
pub(super) fn patched() -> impl Strategy<Value = ToolFilter> {
    let name = select(&["a", "a", "b", "items", "x", "0", "0", "1"][..]);
    let segment = prop_oneof![8 => name, 1 => select(&["c", "2", "-", "01", "x~1y", "q\"uote"][..])];
    let path =
        || vec(segment.clone(), 1..4).prop_map(|path| path.iter().map(|segment| format!("/{segment}")).collect());
    let value = select(
        &["null", "1", "1", "10e-1", "\"a\"", "\"\\u0061\"", "\"\"", "[]", "{}", "{\"a\":{\"b\":1}}", "[{}]"][..],
    );
    let value = value.prop_map(|text| JsonText::parse(text).unwrap());
    let op = select(&["remove", "remove", "remove", "replace", "add", "add", "test", "move", "copy"][..]);
    // Mostly without `move` and `copy`, which do not stream.
    let plain = select(&["remove", "remove", "remove", "remove", "remove", "replace", "add", "test"][..]);
    let op = prop_oneof![20 => plain, 1 => op];
    let operation =
        (op, path(), path(), value).prop_map(|(op, path, from, value): (&str, String, String, _)| PatchSpec {
            op: op.into(),
            path: Some(path),
            from: matches!(op, "move" | "copy").then_some(from),
            value: matches!(op, "add" | "replace" | "test").then_some(value),
        });
    let retain = vec(pointer(&["a", "a", "b", "items", "x", "0", "1", "*"], 1), 1..4);
    let rest = (weighted(0.2, 0..3i64), weighted(0.2, Just(String::new())), weighted(0.1, Just(true)), any::<bool>());
    (weighted(0.5, retain), prop_oneof![vec(operation.clone(), 1..3), vec(operation, 1..7)], rest).prop_map(
        |(retain, patches, (max_items, root, drop_nulls, drop_empty))| {
            let drop_empty = drop_nulls.is_some() && drop_empty;
            ToolFilter::Single(Box::new(FilterSpec {
                retain,
                patches: Some(patches),
                root,
                max_items,
                drop_nulls: drop_nulls.is_some(),
                drop_empty,
                ..FilterSpec::default()
            }))
        },
    )
}

/// `select` of a few members of [`super::documents::items`].
pub(super) fn of_items() -> impl Strategy<Value = ToolFilter> {
    let key = || select(&ITEM_KEYS[..11]);
    let path = prop_oneof![
        4 => key().prop_map(String::from),
        2 => (key(), key()).prop_map(|(a, b)| format!("{a}.{b}")),
        1 => key().prop_map(|a| format!("{a}[*]")),
        1 => (key(), key()).prop_map(|(a, b)| format!("{a}[*].{b}")),
        1 => (key(), key()).prop_map(|(a, b)| format!("{a}[0].{b}")),
    ];
    (vec(path, 1..6), any::<bool>()).prop_map(|(paths, drop)| {
        let fields: serde_json::Map<_, _> =
            paths.into_iter().enumerate().map(|(i, path)| (format!("f{i}"), path.into())).collect();
        serde_json::from_value(serde_json::json!({"select": fields, "dropNulls": drop})).unwrap()
    })
}

/// Filters as people write them for lists of issues.
pub(super) fn of_issues() -> impl Strategy<Value = ToolFilter> {
    select(
        &[
            r#"{"select": {"number": "number", "author": "user.login", "closed": "closed_at"}, "dropNulls": true}"#,
            r#"{"select": {"title": "title", "labels": "labels[*].name", "first": "assignees[0].login"}, "maxItems": 2}"#,
            r#"{"select": {"user": "user", "n": "number", "milestone": "milestone"}, "exclude": ["/user/url"], "dropEmpty": true}"#,
            r#"{"exclude": ["user", "reactions", "repository_url"], "dropEmpty": true}"#,
            r#"{"root": "/items", "exclude": ["/user/*_url", "/labels/url"], "maxItems": 1}"#,
            r#"{"root": "", "dropNulls": true}"#,
            r#"{"retain": ["/number", "/items/number", "/*/user/login", "/*/labels/*/name"]}"#,
            r#"{"retain": ["/items/0", "/items/title", "/0/user", "/*/title"], "select": {"t": "title"}}"#,
            r#"{"patches": [{"op": "remove", "path": "/0/user"}, {"op": "remove", "path": "/items/0/user"},
                {"op": "remove", "path": "/total_count"}]}"#,
            r#"{"patches": [{"op": "replace", "path": "/0/title", "value": "gone"}, {"op": "add", "path": "/0/n", "value": [1, 2]}]}"#,
            r#"{"retain": ["/number", "/title", "/user/login", "/items/*/user/login"], "patches": [
                {"op": "remove", "path": "/0/user"}, {"op": "replace", "path": "/0/title", "value": "gone"},
                {"op": "remove", "path": "/items/0/user/login"}]}"#,
            r#"{"retain": ["/user/login", "/state"], "patches": [{"op": "test", "path": "/0/state", "value": "open"},
                {"op": "remove", "path": "/0/user/login"}, {"op": "remove", "path": "/0/state"}]}"#,
            r#"[{"test": {"path": "/total_count", "value": 2}, "maxItems": 1}, {"otherwise": true, "exclude": ["user"]}]"#,
        ][..],
    )
    .prop_map(|text| serde_json::from_str(text).unwrap())
}

pub(super) fn options() -> impl Strategy<Value = CompileOptions> {
    let types = [None, None, None, Some(ResponseType::Object), Some(ResponseType::Array), Some(ResponseType::Text)];
    (
        any::<bool>(),
        select(types.to_vec()),
        weighted(0.1, Just(())),
        weighted(0.1, 3..7usize),
        weighted(0.1, 20..200usize),
    )
        .prop_map(|(enforced, response_type, strict, depth, size)| {
            let plain = Limits::default();
            CompileOptions {
                enforcement: if enforced { Enforcement::Enforced } else { Enforcement::Advisory },
                response_type,
                limits: Limits {
                    max_depth: depth.unwrap_or(plain.max_depth),
                    max_input_bytes: size.unwrap_or(plain.max_input_bytes),
                },
                strict_patch: strict.is_some(),
                tool: ToolKind::Other,
                format_input: false,
                declares_output: false,
            }
        })
}

pub(super) fn call() -> impl Strategy<Value = Call<'static>> {
    let pages = select(vec![r#"{"pages":1}"#, r#"{"pages":12,"items":40,"next":{"cursor":"\"c\""}}"#]);
    let budget = (weighted(0.2, 0..160usize), weighted(0.2, 0..60usize));
    let formats = weighted(0.1, select(vec![&[Format::Table][..], &[Format::Toon], &Format::ALL]));
    let page = select(vec![
        Page::Chunk(NonZeroUsize::MIN),
        Page::Chunk(NonZeroUsize::MIN.saturating_add(1)),
        Page::Window { offset: 1, limit: None },
        Page::Window { offset: 0, limit: Some(NonZeroUsize::MIN) },
    ]);
    let inputs = select(vec![PageInputs::NONE, PageInputs::ALL, PageInputs { chunk: Some("chunk"), window: false }]);
    (weighted(0.05, Just(true)), budget, weighted(0.3, pages), any::<bool>(), (formats, weighted(0.1, page), inputs))
        .prop_map(|(raw, (bytes, tokens), pagination, words, (formats, page, inputs))| Call {
            raw: raw.is_some(),
            budget: Budget { bytes: bytes.map(Bytes), tokens: tokens.map(Tokens) },
            counter: TokenCounter { tokenizer: if words { &Words } else { &Estimate }, factor: Factor::ONE },
            pagination,
            formats,
            page: page.unwrap_or_default(),
            inputs,
        })
}

/// How an answer is fitted and written.
fn answer() -> impl Strategy<Value = OutputSpec> {
    let limits = (of(1..160i64), of(1..60i64)).prop_map(|(bytes, tokens)| BudgetSpec { bytes, tokens });
    let names = |names: &'static [&'static str]| select(names.to_vec()).prop_map(str::to_owned);
    let format = names(&["json", "table", "toon", "auto"]).prop_map(FormatSpec::One);
    let strategy = names(&["default", "element_count", "cascading", "thread_level", "head_tail"]);
    let levels = select(vec![r#"{"s": ["a", "x"]}"#, r#"{"s": ["a", "/b/*"], "m": ["c"]}"#, r#"{"m": ["none"]}"#]);
    let levels = levels.prop_map(|levels| serde_json::from_str(levels).unwrap());
    let fit = (of(strategy), of(names(&["knapsack", "greedy", "fair", "head_tail"])), of(levels));
    let written = (of(format), weighted(0.2, names(&["always", "schema", "never"])));
    (of(limits), written, fit).prop_map(|(budget, (format, structured), (strategy, algorithm, levels))| OutputSpec {
        preset: None,
        format,
        structured,
        notice: None,
        inputs: Vec::new(),
        budget: budget.filter(|budget| *budget != BudgetSpec::default()),
        strategy: strategy.map(StrategySpec::Name),
        algorithm,
        levels,
        chunks: None,
        toon: None,
    })
}

/// A tokenizer whose counts do not follow from the size of a text: runs of letters, runs of digits, and all else.
#[derive(Debug)]
struct Words;

impl Tokenizer for Words {
    fn name(&self) -> &'static str {
        "words"
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn count(&self, text: &str, most: usize, keep_going: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        let kind = |c: char| if c.is_alphabetic() { 0 } else { 1 + u32::from(c.is_ascii_digit()) };
        let mut last = None;
        let starts = text.chars().filter(|c| last.replace(kind(*c)) != Some(kind(*c)) || kind(*c) == 1);
        keep_going(text.len()).then(|| starts.take(most.saturating_add(1)).count())
    }
}
