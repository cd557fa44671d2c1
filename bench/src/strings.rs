//! Compares the engine with `serde_json` at writing JSON into a JSON string, as in every answer of a gateway, and measures how
//! fast the engine computes the length of that string.

use std::hint::black_box;

use crate::{ROUNDS, middle, payload, repeat, time};

/// Prints a row for each size. Both run in turns in this process, and the median of the rounds' ratios counts.
///
/// # Errors
/// If the payload is not text.
pub(crate) fn run() -> anyhow::Result<()> {
    println!("strings: JSON as a JSON string, and text without anything to escape");
    println!(
        "  {:<9}{:>10}{:>10}{:>14}{:>14}{:>16}",
        "", "bytes", "MB/s", "x serde_json", "serde MB/s", "measured MB/s"
    );
    for size in [200, 1_000, 8_000, 64_000, 1_000_000] {
        let json = String::from_utf8(payload::issues(size))?;
        let json: String = json.chars().take(size).collect();
        let plain: String = json.chars().map(|c| if c == '"' || c == '\\' { '_' } else { c }).collect();
        for (name, text) in [("json", &json), ("plain", &plain)] {
            row(name, text)?;
        }
    }
    Ok(())
}

fn row(name: &str, text: &str) -> anyhow::Result<()> {
    let mut out = Vec::with_capacity(text.len() * 2);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let ours = repeat(|n| {
            Ok(time(|| {
                for _ in 0..n {
                    out.clear();
                    tamis_engine::json::write_string(black_box(text), &mut out);
                    black_box(&out);
                }
            }))
        })?;
        let theirs = repeat(|n| {
            Ok(time(|| {
                for _ in 0..n {
                    out.clear();
                    serde_json::to_writer(&mut out, black_box(text)).expect("memory");
                    black_box(&out);
                }
            }))
        })?;
        let measured = repeat(|n| {
            Ok(time(|| {
                for _ in 0..n {
                    black_box(tamis_engine::json::encoded_len(black_box(text)));
                }
            }))
        })?;
        rounds.push([ours, theirs, measured]);
    }
    let rate = |nanos: f64| text.len() as f64 / nanos * 1e3;
    let of = |i: usize| middle(rounds.iter().map(|round: &[f64; 3]| round[i]).collect());
    let times = middle(rounds.iter().map(|round| round[1] / round[0]).collect());
    let [ours, theirs, measured] = [0, 1, 2].map(|i| rate(of(i)));
    println!("  {name:<9}{:>10}{ours:>10.0}{times:>14.2}{theirs:>14.0}{measured:>16.0}", text.len());
    Ok(())
}
