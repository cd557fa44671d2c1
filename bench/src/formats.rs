//! Compares the engine's `table` and TOON with the official encoder of TOON, crate `toon-format`.

use std::hint::black_box;

use anyhow::{Context, Result};
use serde_json::Value;
use tamis_engine::{CompactJson, ToonOptions, json};
use toon_format::{EncodeOptions, Indent};

use crate::payload::Document;
use crate::{ROUNDS, middle, repeat, time};

/// Prints a row for each payload of `examples/payloads` and of this crate. Both encoders run in turns in this process,
/// and the median of the rounds' ratios counts. The official one starts from a parsed document, and the engine from
/// JSON.
///
/// # Errors If a payload is not there or not JSON.
pub(crate) fn run() -> Result<()> {
    println!("formats: compact JSON as TOON, both passes of the engine next to toon-format, and as table");
    println!(
        "  {:<28}{:>9}{:>9}{:>8}{:>8}{:>9}{:>10}{:>10}{:>12}{:>11}{:>12}",
        "", "JSON", "TOON", "MB/s", "times", "allocs", "peak", "its MB/s", "its allocs", "its peak", "table MB/s"
    );
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/payloads");
    let mut payloads = Vec::new();
    for entry in std::fs::read_dir(folder).context(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_stem().context("a name")?.to_string_lossy().into_owned();
            payloads.push((name, std::fs::read(&path)?));
        }
    }
    payloads.sort();
    payloads.extend(Document::ALL.map(|document| (document.name().to_owned(), document.of(500_000))));
    payloads.into_iter().try_for_each(|(name, payload)| row(&name, &payload))
}

fn row(name: &str, payload: &[u8]) -> Result<()> {
    let document = CompactJson::of(&json::parse(payload, 128)?);
    let value: Value = serde_json::from_slice(payload)?;
    let options = ToonOptions::default();
    let their_options = EncodeOptions::new().with_indent(Indent::Spaces(options.indent));
    let encode = || document.toon(&options, false).expect("no half of a surrogate pair");
    let theirs = || toon_format::encode(&value, &their_options).expect("JSON");
    let table = || document.table(true);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push([
            repeat(|n| Ok(time(|| (0..n).for_each(|_| drop(black_box(encode()))))))?,
            repeat(|n| Ok(time(|| (0..n).for_each(|_| drop(black_box(theirs()))))))?,
            repeat(|n| Ok(time(|| (0..n).for_each(|_| drop(black_box(table()))))))?,
        ]);
    }
    let size = document.as_str().len();
    let of = |i: usize| size as f64 / middle(rounds.iter().map(|round| round[i]).collect()) * 1e3;
    let times = middle(rounds.iter().map(|round| round[1] / round[0]).collect());
    let used = allocation_counter::measure(|| drop(black_box(encode())));
    let their_use = allocation_counter::measure(|| drop(black_box(theirs())));
    let table = if table().is_some() { format!("{:.0}", of(2)) } else { "-".to_owned() };
    println!(
        "  {name:<28}{size:>9}{:>9}{:>8.0}{times:>8.1}{:>9}{:>10}{:>10.0}{:>12}{:>11}{table:>12}",
        encode().len(),
        of(0),
        used.count_total,
        used.bytes_max,
        of(1),
        their_use.count_total,
        their_use.bytes_max,
    );
    Ok(())
}
