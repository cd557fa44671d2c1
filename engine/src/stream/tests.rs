//! Compares the fast path with the tree: both give the same result.

mod documents;
mod filters;
mod taken;

use proptest::prelude::*;

use super::prune::Rules;
use super::run::Run;
use super::scan::{self, Tally};
use crate::json::{self, Node, to_string};
use crate::work::Work;
use crate::{
    Budget, Bytes, Call, CompileOptions, Enforcement, FilterSpec, Filtered, Input, Page, Program, Structured,
    TokenReport, Tokens, ToolFilter, compile,
};

/// Recorded issues, as the benchmark has them.
const ISSUES: &str = include_str!("../../../bench/data/issues.json");

/// Holds the two paths equal, in the answer, its report and its failure.
fn same(filter: &ToolFilter, options: &CompileOptions, document: &[u8], call: &Call<'_>) {
    let Some(program) = compile(filter, options).program else { return };
    let input = Input::Json(document);
    let (fast, tree) = (program.apply(input, call), program.apply_reference(input, call));
    assert_eq!(
        fast,
        tree,
        "{} under {options:?} of {}",
        serde_json::to_string(filter).unwrap(),
        document.escape_ascii()
    );
    if let Ok(filtered) = &fast {
        sound(&program, call, filtered);
    }
}

/// Holds an answer to what the model is promised: a budget that counts all that is written, structured content that is an
/// object and conforms to its schema, and no cut that is not reported.
fn sound(program: &Program, call: &Call<'_>, filtered: &Filtered) {
    let Filtered { text, notice, structured, report } = filtered;
    let said = format!("{filtered:?} of {call:?}");
    let blocks = text.len() + notice.as_ref().map_or(0, String::len);
    assert_eq!(report.output_bytes, blocks, "{said}");
    let object = structured.to_json(text);
    let cost = Bytes(blocks.max(object.as_ref().map_or(0, String::len)));
    let limit = report.budget.as_ref().map(|budget| budget.limit).unwrap_or_default();
    if let Some(TokenReport { counted, .. }) = report.tokens {
        let count = |text: &str| call.counter.count(text, Tokens(usize::MAX), &mut |_| true).unwrap().0;
        let blocks = count(text) + notice.as_deref().map_or(0, count);
        assert_eq!(counted, Tokens(blocks.max(object.as_deref().map_or(0, count))), "{said}");
    }
    let tokens = report.tokens.map(|tokens| tokens.counted);
    let too_many = |limit: Budget| limit.tokens.is_some_and(|limit| tokens.is_none_or(|tokens| tokens > limit));
    if let Some(budget) = &report.budget {
        // A member that gives way is counted as in the first block.
        let gave_way = matches!(structured, Structured::Json(_)) && cost < budget.result;
        assert!(cost == budget.result || gave_way, "{said}");
        let too_large = limit.bytes.is_some_and(|limit| budget.result > limit);
        assert_eq!(budget.exceeded, too_large || too_many(limit), "{said}");
        assert!(limit.tokens.is_some() || Some(budget.original) > limit.bytes, "{said}");
    } else if !call.raw {
        assert!(call.budget.bytes.is_none_or(|budget| budget == Bytes(0) || cost <= budget), "{said}");
        assert!(call.budget.tokens == Some(Tokens(0)) || !too_many(call.budget), "{said}");
    }
    let lines: Vec<&str> = notice.iter().flat_map(|notice| notice.lines()).collect();
    let pages = call.pagination.map(|pages| format!("_pagination: {pages}"));
    assert_eq!(lines.iter().filter(|line| line.starts_with("_pagination: ")).count(), usize::from(pages.is_some()));
    assert!(pages.is_none_or(|pages| lines.last() == Some(&pages.as_str())), "{said}");
    let Some(object) = object else { return };
    let read = json::parse(object.as_bytes(), 130).unwrap_or_else(|error| panic!("{error}: {said}"));
    let members = read.as_object().unwrap_or_else(|| panic!("no object: {said}"));
    let added = |name: &str| members.iter().filter(|member| member.key.is(name)).collect::<Vec<_>>();
    if let Some(pages) = call.pagination {
        let [one] = added("_pagination")[..] else { panic!("not one: {said}") };
        assert_eq!(to_string(&one.value), pages, "{said}");
    }
    let cut = lines.iter().any(|line| !line.starts_with("_pagination: "));
    if cut {
        assert_eq!(added("_truncated").len(), 1, "{said}");
    }
    let quiet = program.0.branches.iter().any(|branch| !branch.output.notice);
    let short = report.items_truncated_from.is_some()
        || report.budget.as_ref().is_some_and(|b| b.items_dropped + b.strings_truncated + b.members_dropped > 0);
    let short = short || !report.levels.is_empty();
    assert!(cut == short || quiet && !cut || call.page != Page::All, "{said}");
    let pages = serde_json::json!({"type": "object", "required": ["pages"]});
    let schema = program.output_schema(call.pagination.map(|_| &pages), None);
    // A tool that takes a format has no schema. Numbers and escapes that the library does not read are left out.
    if call.formats.is_none()
        && let (Some(schema), Ok(value)) = (schema, serde_json::from_str(&object))
    {
        assert!(jsonschema::is_valid(&schema, &value), "{schema} of {said}");
    }
}

/// `text` with each key once: the last value, at the first one's place.
fn deduped(text: &str) -> Option<String> {
    fn dedupe(node: &mut Node<'_>) {
        match node {
            Node::Object(members) => {
                json::dedupe(members, &Work::unlimited());
                members.iter_mut().for_each(|member| dedupe(&mut member.value));
            }
            Node::Array(elements) => elements.iter_mut().for_each(dedupe),
            Node::Scalar(_) | Node::String(_) => {}
        }
    }
    let mut node = json::parse(text.as_bytes(), 128).ok()?;
    dedupe(&mut node);
    Some(to_string(&node))
}

/// Holds the answer to a document equal, but for duplicates, to that to the same without duplicates: what one hides
/// decides nothing, and does not come back.
fn same_deduped(filter: &ToolFilter, options: &CompileOptions, document: &str) {
    // A budget counts bytes, and a template prints them.
    let shown = |spec: &FilterSpec| spec.output.is_some() || spec.compact.is_some();
    match filter {
        ToolFilter::Single(spec) if shown(spec) => return,
        ToolFilter::Branches(specs) if specs.iter().any(shown) => return,
        _ => {}
    }
    let Some(program) = compile(filter, options).program else { return };
    let plain = deduped(document).unwrap();
    let answer = |text: &str| {
        let json = Input::Json(text.as_bytes());
        let filtered = program.apply(json, &Call::default()).ok()?;
        let text = deduped(&filtered.text).unwrap_or(filtered.text);
        Some((text, filtered.report.unresolved, filtered.report.partial_miss, filtered.report.error.map(|e| e.stage)))
    };
    assert_eq!(answer(document), answer(&plain), "{} of {document}", serde_json::to_string(filter).unwrap());
}

/// Whether the scanner takes `text`, with what it copies.
fn scanned(text: &[u8], depth: usize) -> Option<(String, usize)> {
    let mut out = Vec::new();
    let work = Work::unlimited();
    let mut run = Run::new(text, &mut out, &work);
    run.document(|run, pos| run.copy(Rules::default(), pos, depth)).ok()?;
    let blanks = run.tally.blanks;
    Some((String::from_utf8(out).unwrap(), blanks))
}

fn same_text(text: &[u8], depth: usize) {
    let fast = scanned(text, depth);
    let tree = json::parse(text, depth).ok().map(|node| to_string(&node));
    assert_eq!(fast.as_ref().map(|(out, _)| out), tree.as_ref(), "{}", text.escape_ascii());
    if let Some((out, blanks)) = fast {
        assert_eq!(out.len() + blanks, text.len(), "{}", text.escape_ascii());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 4, ..ProptestConfig::default() })]

    #[test]
    fn takes_what_the_parser_takes(text in documents::mutated(documents::some())) {
        same_text(&text, 5);
    }

    #[test]
    fn any_filter_on_any_document(
        filter in filters::some(), options in filters::options(), call in filters::call(), document in documents::some(),
    ) {
        same(&filter, &options, document.as_bytes(), &call);
    }

    #[test]
    fn any_filter_on_keys_that_come_twice(
        filter in filters::some(), enforced: bool, call in filters::call(), document in documents::doubled(),
    ) {
        let enforcement = if enforced { Enforcement::Enforced } else { Enforcement::Advisory };
        let options = CompileOptions { enforcement, ..CompileOptions::default() };
        same(&filter, &options, document.as_bytes(), &call);
        same_deduped(&filter, &options, &document);
    }

    #[test]
    fn any_operations_on_any_document(
        filter in filters::patched(), options in filters::options(), call in filters::call(),
        document in prop_oneof![2 => documents::dense(), 1 => documents::some(), 1 => documents::doubled()],
    ) {
        same(&filter, &options, document.as_bytes(), &call);
    }

    #[test]
    fn any_operations_on_a_broken_document(
        filter in filters::patched(), options in filters::options(), document in documents::mutated(documents::dense()),
    ) {
        same(&filter, &options, &document, &Call::default());
    }

    #[test]
    fn any_filter_on_a_broken_document(
        filter in filters::some(), options in filters::options(), document in documents::mutated(documents::some()),
    ) {
        same(&filter, &options, &document, &Call::default());
    }

    #[test]
    fn any_selection_of_similar_items(
        filter in filters::of_items(), options in filters::options(), list in documents::mutated(documents::items()),
    ) {
        same(&filter, &options, &list, &Call::default());
    }

    #[test]
    fn a_short_scalar_is_what_the_scanner_takes(text in documents::mutated(documents::scalar()), after in ",|\\}|\\]| |\n|x|\"|1|\\.") {
        let mut bytes = [text, after.into_bytes()].concat();
        bytes.resize(bytes.len().max(32), b' ');
        if let Some(length) = scan::short(bytes.first_chunk().unwrap()) {
            assert_eq!(scan::scalar(&bytes, 0), Ok(length), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn real_filters_on_real_payloads(
        filter in filters::of_issues(), options in filters::options(), payload in documents::mutated(documents::issues()),
    ) {
        same(&filter, &options, &payload, &Call::default());
    }
}

#[test]
fn strings_at_every_offset() {
    let middles: [&[u8]; 14] = [
        b"",
        b"a",
        "\u{e9}".as_bytes(),
        "\u{1f600}".as_bytes(),
        b"\\n",
        b"\\u00e9",
        b"\\ud800",
        b"\\ud83d\\ude00",
        b"\x1f",
        b"\\x",
        b"\\u12g4",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
    ];
    for before in 0..70 {
        for middle in middles {
            for after in [0, 1, 15, 16, 17, 31, 32, 33] {
                let text = [&b"\""[..], &b"x".repeat(before), middle, &b"y".repeat(after), b"\""].concat();
                same_text(&text, 0);
                same_text(&text[..text.len() - 1], 0);
                same_text(&[b"[", &text[..], b",1]"].concat(), 1);
                same_text(&[b"{", &text[..], b":1}"].concat(), 1);
            }
        }
    }
}

#[test]
fn what_is_json_and_what_is_not() {
    for text in [
        "null",
        "true",
        "false",
        "nul",
        "nullx",
        "tru",
        "falsey",
        "fals",
        "0",
        "-0",
        "-",
        "01",
        "1.",
        ".5",
        "1.5",
        "1e",
        "1e5",
        "1E+5",
        "1e-05",
        "1e400",
        "-1.0e0",
        "+1",
        "--1",
        "12345678901234567890123",
        "1 2",
        "[]",
        "[ ]",
        "[,]",
        "[1,]",
        "[1 2]",
        "[1",
        "]",
        "{}",
        "{ }",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\" : 1 }",
        "{a:1}",
        "{1:1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1",
        "",
        " ",
        "\t\n\r 1 \t\n\r",
        "\u{c}1",
        "\u{feff}1",
        "\"",
        "\"a",
        "\"\\",
        "\"\\u",
        "\"\\u00",
        "[[[[[]]]]]",
        "[[[[[[]]]]]]",
        "{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}",
        "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}",
        "nan",
        "Infinity",
        "'a'",
        "[1]]",
        "1,",
        "\0",
        "1\0",
        "/**/1",
        "\u{a0}1",
    ] {
        same_text(text.as_bytes(), 5);
    }
}

#[test]
fn nesting_is_accepted_up_to_the_limit() {
    for depth in [1, 2, 127, 128, 129] {
        for text in ["[".repeat(depth) + &"]".repeat(depth), "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth)] {
            assert_eq!(scanned(text.as_bytes(), 128).is_some(), depth <= 128);
            same_text(text.as_bytes(), 128);
        }
    }
}

#[test]
fn whitespace_runs_of_every_length() {
    for length in 0..40 {
        for unit in [" ", "\n", "\t", "\r", "\r\n "] {
            let gap = unit.repeat(length);
            same_text(format!("{gap}[{gap}1{gap},{gap}{{{gap}\"a b\"{gap}:{gap}2{gap}}}{gap}]{gap}").as_bytes(), 5);
        }
    }
}

#[test]
fn short_scalars_at_every_length() {
    let short = |text: &str, length: usize| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(32, b',');
        assert_eq!(scan::short(bytes.first_chunk().unwrap()), (length > 0).then_some(length), "{text}");
    };
    for length in 0..40 {
        let text = format!("\"{}\"", "x".repeat(length));
        short(&text[..text.len().min(32)], if length <= 30 { length + 2 } else { 0 });
    }
    for length in 1..20 {
        let text = "1".repeat(length);
        short(&text, if length <= 16 { length } else { 0 });
    }
    for (text, length) in [("0", 1), ("01", 0), ("1.5", 0), ("1e5", 0), ("1E5", 0), ("-1", 0), ("", 0), (" 1", 0)] {
        short(text, length);
    }
    for (text, length) in [("true", 4), ("false", 5), ("null", 4), ("nul", 0), ("falsy", 0), ("{", 0), ("[", 0)] {
        short(text, length);
    }
    for text in ["\"\\n\"", "\"\u{e9}\"", "\"\u{1f}\"", "\"a"] {
        short(text, 0);
    }
}

#[test]
fn selections_from_items_of_changing_shapes() {
    let filter = r#"{"select": {"a": "a", "u": "user.login", "all": "list[*].x", "whole": "user"}, "dropNulls": true}"#;
    let filter: ToolFilter = serde_json::from_str(filter).unwrap();
    let long = format!("\"{}\":0,", "k".repeat(40));
    let shapes = [
        r#"{"id":1000001,"a":"first","user":{"login":"octocat","id":1},"list":[{"x":1,"y":2},{"y":3,"x":4}],"z":null}"#
            .to_owned(),
        r#"{"id":2,"a":"first","user":{"id":1,"login":"octocat"},"list":[{"x":1,"y":2}],"z":null}"#.to_owned(),
        r#"{"id":3,"user":{"login":null},"list":[],"z":"a string of more than thirty-two bytes, and then some"}"#
            .to_owned(),
        r#"{ "id" : 4 , "a" :  "blanks" , "user" : { "login" : "x" } , "z" : [ { "login" : 1 } ] }"#.to_owned(),
        r#"{"a":{"login":1},"user":[{"login":1},{"login":2}],"list":{"x":1},"z":{"a":1,"user":{"login":2}}}"#
            .to_owned(),
        r#"{"aa":1,"a ":2,"A":3,"user":{"loginx":1,"logi":2,"login":3},"list":[[{"x":1}],{"x":[{"x":2}]}]}"#.to_owned(),
        r#"{"id":-7,"a":1.5e3,"user":null,"list":null,"z":{"deep":{"er":[1,2,{"x":[]}]}}}"#.to_owned(),
        format!("{{{long}\"a\":1,{long}\"user\":{{{long}\"login\":2}}}}"),
        "{}".to_owned(),
    ];
    let lists = |count: usize, at: &dyn Fn(usize) -> usize| {
        let items: Vec<&str> = (0..count).map(|i| &*shapes[at(i) % shapes.len()]).collect();
        format!("[{}]", items.join(","))
    };
    for enforcement in [Enforcement::Advisory, Enforcement::Enforced] {
        let options = CompileOptions { enforcement, ..CompileOptions::default() };
        for run in 1..12 {
            for start in 0..shapes.len() {
                let list = lists(60, &|i| start + i / run * (1 + start / 3));
                same(&filter, &options, list.as_bytes(), &Call::default());
                // What is remembered of one document says nothing about the next one.
                let broken = list.replacen("\"a\":\"first\",", "\"a\":\"first\",,", 1);
                same(&filter, &options, broken.as_bytes(), &Call::default());
            }
        }
        // A key that comes twice, and an escaped one, in an item whose shape is known.
        for extra in
            [r#","a":2"#, r#","user":{"login":3}"#, r#","\u0061":4"#, r#","other":1,"other":2"#, ",", r#","a""#]
        {
            for place in [1, 2, 30, 59] {
                let mut items = vec![shapes[0].clone(); 60];
                items[place] = shapes[0].replace(r#","z""#, &format!(r#"{extra},"z""#));
                same(&filter, &options, format!("[{}]", items.join(",")).as_bytes(), &Call::default());
                items[place] = shapes[0].replace(r#","id":1}"#, &format!(r#","id":1{extra}}}"#));
                same(&filter, &options, format!("[{}]", items.join(",")).as_bytes(), &Call::default());
            }
        }
    }
}

#[test]
fn every_cut_of_a_list_of_items() {
    let filter: ToolFilter = serde_json::from_str(r#"{"select": {"n": "number", "by": "user.login"}}"#).unwrap();
    let item = r#"{"id":1000001,"number":1,"title":"Crash","user":{"login":"octocat","type":"User"},"assignee":null}"#;
    let list = format!("[{item},{item},{item}]");
    for end in 0..list.len() {
        same(&filter, &CompileOptions::default(), &list.as_bytes()[..end], &Call::default());
    }
    for place in 0..list.len() {
        for byte in [b'"', b'\\', b' ', b'0', b',', b'}', b'{', 0xff, 0] {
            let mut bytes = list.clone().into_bytes();
            bytes[place] = byte;
            same(&filter, &CompileOptions::default(), &bytes, &Call::default());
        }
    }
}

#[test]
fn blanks_are_counted_once() {
    let work = Work::unlimited();
    let mut tally = Tally::new(&work);
    assert_eq!(scan::value(b"[ 1 , 2 ]", 0, 1, &mut tally), Ok(9));
    assert_eq!(tally.blanks, 4);
}
