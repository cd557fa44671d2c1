//! TOON as the engine writes it, against the reference encoder and the fixtures of the specification; and the choice of
//! a format with real vocabularies.
//!
//! The engine keeps the digits of numbers, and JavaScript does not; so the engine gets each document as JavaScript
//! writes it, and both have the same digits. `tests/toon/` pins the versions.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tamis_engine::{CompactJson, Delimiter, Factor, Format, TokenCounter, Tokens, ToonOptions};
use tamis_tests::{node, root, tool};
use tamis_tokens::TokenizerName;

const DELIMITERS: [(Delimiter, &str); 3] = [(Delimiter::Comma, ","), (Delimiter::Tab, "\t"), (Delimiter::Pipe, "|")];

/// The engine's TOON.
fn toon(document: &str, options: ToonOptions) -> Result<String> {
    let document = CompactJson::of(&tamis_engine::json::parse(document.as_bytes(), 128)?);
    document.toon(&options, false).map_err(|why| anyhow::anyhow!("{why}: {}", document.as_str()))
}

/// Fails unless the reference encoder writes each document as the engine does.
fn compare(documents: &[(String, ToonOptions)]) -> Result<()> {
    tool("toon/node_modules/@toon-format/toon")?;
    let mut reference = Command::new(node()?)
        .arg(root().join("tests/toon/reference.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = reference.stdin.take().context("is piped")?;
    let lines = BufReader::new(reference.stdout.take().context("is piped")?).lines();
    let requests: Vec<String> = documents
        .iter()
        .map(|(document, options)| {
            let delimiter = DELIMITERS.iter().find(|(known, _)| *known == options.delimiter).expect("one of three").1;
            let options = json!({"indentSize": options.indent, "delimiter": delimiter});
            format!("{{\"document\":{document},\"options\":{options}}}\n")
        })
        .collect();
    // The program answers while it is written to.
    let writer = std::thread::spawn(move || requests.iter().try_for_each(|line| input.write_all(line.as_bytes())));
    let mut compared = 0;
    for (answer, (document, options)) in lines.zip(documents) {
        let answer: Value = serde_json::from_str(&answer?)?;
        let (json, expected) = (answer["json"].as_str(), answer["toon"].as_str());
        let (json, expected) = (json.context("an answer")?, expected.context("an answer")?);
        ensure!(toon(json, *options)? == expected, "{options:?} {document}:\n{}\n\n{expected}", toon(json, *options)?);
        compared += 1;
    }
    writer.join().expect("does not panic")?;
    ensure!(reference.wait()?.success() && compared == documents.len(), "{compared} of {} documents", documents.len());
    Ok(())
}

/// Keys and strings that have to be quoted, or nearly.
const SPECIAL: &[&str] = &[
    "",
    " ",
    "a b",
    " a",
    "a ",
    "-",
    "-a",
    "- a",
    "#",
    "#a",
    "true",
    "null",
    "0",
    "05",
    "-1",
    "+1",
    "1e5",
    "1.",
    ".5",
    "a:b",
    "a,b",
    "a|b",
    "a\tb",
    "[chunks]",
    "[2]:",
    "{a}",
    "\"",
    "\\",
    "\n",
    "\r\n",
    "\u{0}",
    "\u{1f}",
    "\u{7f}",
    "\u{feff}",
    "é",
    "😀",
    "__proto__",
    "constructor",
    "a.b",
    "_a",
    "9a",
    "10",
    "key{a,b}",
    "\u{2028}",
    "\u{a0}",
];

/// Keys and strings that have to be quoted, and others.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => proptest::sample::select(SPECIAL).prop_map(str::to_owned),
        3 => "[a-z]{1,6}",
        1 => any::<String>(),
    ]
}

/// A number that a double holds.
fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(&[0.1, 1e21, 1e20, 1e-6, 1e-7, -1.5, 1e300, 123_456_789_012_345_680.0][..])
            .prop_map(Value::from),
    ]
}

fn primitive() -> impl Strategy<Value = Value> {
    prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number(), text().prop_map(Value::from)]
}

fn document() -> impl Strategy<Value = Value> {
    primitive().prop_recursive(6, 60, 6, |inner| {
        let object = |value: BoxedStrategy<Value>| {
            proptest::collection::vec((text(), value), 0..5).prop_map(|members| members.into_iter().collect::<Value>())
        };
        // Objects with the same keys, each with values of its own: rows of a table if the values are primitive.
        let rows = |value: BoxedStrategy<Value>| {
            (proptest::collection::vec(text(), 1..4), 0..4_usize).prop_flat_map(move |(keys, count)| {
                let row = proptest::collection::vec(value.clone(), keys.len())
                    .prop_map(move |values| keys.iter().cloned().zip(values).collect::<Value>());
                proptest::collection::vec(row, count)
            })
        };
        let cell = prop_oneof![5 => primitive(), 1 => inner.clone()].boxed();
        let group = rows(primitive().boxed()).prop_map(|rows| rows.into_iter().next().unwrap_or(Value::Null)).boxed();
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec(primitive(), 0..5).prop_map(Value::from),
            object(inner),
            rows(cell).prop_map(Value::from),
            rows(group).prop_map(Value::from),
            (rows(primitive().boxed()), proptest::collection::vec(text(), 4))
                .prop_map(|(rows, keys)| keys.into_iter().zip(rows).collect()),
        ]
    })
}

/// Returns random documents, the same ones in every run.
fn random(strategy: &impl Strategy<Value = Value>, cases: usize) -> Result<Vec<String>> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut draw = || strategy.new_tree(&mut runner).map_err(|why| anyhow::anyhow!("{why}"));
    (0..cases).map(|_| Ok(draw()?.current().to_string())).collect()
}

#[test]
fn the_reference_encoder_writes_random_documents_alike() -> Result<()> {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(4000);
    let options = |case: usize| ToonOptions { indent: 1 + case % 4, delimiter: DELIMITERS[case % 3].0 };
    let documents = random(&document(), cases)?.into_iter().enumerate();
    compare(&documents.map(|(case, document)| (document, options(case))).collect::<Vec<_>>())
}

/// Lists of some kilobytes: rows with gaps, with lists in them or without, and whatever else.
fn list() -> impl Strategy<Value = Value> {
    let rows = |cell: BoxedStrategy<Value>| {
        (proptest::collection::vec(text(), 1..8), 20..80_usize).prop_flat_map(move |(keys, count)| {
            let cell = proptest::option::weighted(0.9, cell.clone());
            let row = proptest::collection::vec(cell, keys.len()).prop_map(move |cells| {
                let cells = keys.iter().cloned().zip(cells);
                cells.filter_map(|(key, cell)| cell.map(|cell| (key, cell))).collect::<Value>()
            });
            proptest::collection::vec(row, count).prop_map(Value::from)
        })
    };
    let some = proptest::collection::vec("[a-z]{3,8}", 0..3).prop_map(Value::from);
    let word = prop_oneof!["[a-z]{3,8}".prop_map(Value::from), (0..100_000_u32).prop_map(Value::from)];
    prop_oneof![
        1 => rows(primitive().boxed()),
        2 => rows(prop_oneof![4 => word, 1 => some].boxed()),
        1 => proptest::collection::vec(document(), 10..60).prop_map(Value::from),
        1 => proptest::collection::vec(primitive(), 200..800).prop_map(Value::from),
    ]
}

#[test]
fn auto_is_the_exhaustive_choice_with_real_vocabularies() -> Result<()> {
    let tokenizers = [TokenizerName::O200kBase, TokenizerName::Cl100kBase].map(tamis_tokens::tokenizer);
    let (mut large, mut chosen) = (0, BTreeMap::new());
    for document in random(&list(), 300)? {
        let document = CompactJson::of(&tamis_engine::json::parse(document.as_bytes(), 128)?);
        large += usize::from(document.as_str().len() > 2000);
        for (tokenizer, fill) in tokenizers.iter().flat_map(|tokenizer| [(tokenizer, false), (tokenizer, true)]) {
            let counter = TokenCounter { tokenizer: &**tokenizer, factor: Factor::ONE };
            let count =
                |text: &str| counter.count(text, Tokens(usize::MAX), &mut |_| true).expect("is not interrupted").0;
            let json = count(document.as_str());
            let others = [
                (Format::Table, document.table(fill)),
                (Format::Toon, document.toon(&ToonOptions::default(), fill).ok()),
            ];
            let best = others
                .into_iter()
                .filter_map(|(format, text)| text.map(|text| (count(&text), format)))
                .filter(|(tokens, _)| tokens * 10 <= json * 9)
                .min();
            let (expected, fewest) = best.map_or((Format::Json, json), |(tokens, format)| (format, tokens));
            let (format, text) = document.choose(&Format::ALL, fill, counter);
            assert_eq!((format, count(&text)), (expected, fewest), "{}", document.as_str());
            *chosen.entry(format).or_insert(0) += 1;
        }
    }
    assert!(large >= 200 && chosen.values().all(|times| *times >= 20), "{large} {chosen:?}");
    assert_eq!(chosen.len(), 3, "{chosen:?}");
    Ok(())
}

#[test]
fn the_reference_encoder_writes_every_payload_alike() -> Result<()> {
    let mut files: Vec<PathBuf> = vec![root().join("bench/data/issues.json")];
    for entry in fs::read_dir(root().join("examples/payloads"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    ensure!(files.len() >= 5, "{files:?}");
    let mut documents = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        let json = CompactJson::of(&tamis_engine::json::parse(text.as_bytes(), 128)?);
        for (delimiter, _) in DELIMITERS {
            documents.push((json.as_str().to_owned(), ToonOptions { indent: 1, delimiter }));
        }
    }
    compare(&documents)
}

/// Fixtures of specification 3.3 that do not hold under 4.4, and why.
const CHANGED: &[(&str, &str)] = &[
    ("encodes folded chain to primitive (safe mode)", FOLDING),
    ("encodes folded chain with inline array", FOLDING),
    ("encodes folded chain with tabular array", FOLDING),
    ("encodes partial folding with flattenDepth=2", FOLDING),
    ("encodes full chain with flattenDepth=Infinity (default)", FOLDING),
    ("encodes folded chain ending with empty object", FOLDING),
    ("stops folding at array boundary (not single-key object)", FOLDING),
    ("encodes folded chains preserving sibling field order", FOLDING),
    ("uses list format for objects with nested values", "4.0 writes objects in rows as nested field groups"),
];
const FOLDING: &str = "4.0 removed key folding";

#[derive(serde::Deserialize)]
struct Fixtures<'a> {
    #[serde(borrow)]
    tests: Vec<Fixture<'a>>,
}

#[derive(serde::Deserialize)]
struct Fixture<'a> {
    name: String,
    #[serde(borrow)]
    input: &'a RawValue,
    expected: String,
    #[serde(default)]
    options: FixtureOptions,
}

#[derive(Default, serde::Deserialize)]
struct FixtureOptions {
    indent: Option<usize>,
    delimiter: Option<String>,
}

#[test]
fn the_fixtures_of_the_specification_hold() -> Result<()> {
    let folder = tool("toon/node_modules/@toon-format/spec")?.join("tests/fixtures/encode");
    let (mut held, mut differing) = (0, BTreeMap::new());
    for entry in fs::read_dir(folder)? {
        let text = fs::read_to_string(entry?.path())?;
        let fixtures: Fixtures<'_> = serde_json::from_str(&text)?;
        for Fixture { name, input, expected, options } in fixtures.tests {
            let delimiter = options.delimiter.as_deref().unwrap_or(",");
            let (delimiter, _) = DELIMITERS.into_iter().find(|(_, text)| *text == delimiter).context("a delimiter")?;
            let written = toon(input.get(), ToonOptions { indent: options.indent.unwrap_or(2), delimiter })?;
            if written == expected {
                held += 1;
            } else {
                differing.insert(name, format!("{written}\n\n{expected}"));
            }
        }
    }
    let expected: BTreeMap<_, _> = CHANGED.iter().copied().collect();
    assert!(differing.keys().map(String::as_str).eq(expected.into_keys()), "{differing:#?}");
    assert_eq!((held, differing.len()), (144, 9));
    Ok(())
}
