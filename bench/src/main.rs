//! `cargo run --release -p tamis-bench [-- [issues|items] SIZE_MB ..]` compares the engine with `serde_json::Value` in
//! one run. With `-- strings`, it measures how fast text becomes a JSON string; with `-- formats`, how fast JSON
//! becomes TOON and `table`; with `-- fitting`, what it takes to fit a list into a budget; with `-- pipeline`, lists of
//! issues, diffs and others next to `toon-format` and `devboy-format-pipeline`.
//!
//! The compared programs run in short turns in separate processes, and each reports the processor time of its thread.
//! The median of the rounds counts. Ratios within one run are reliable; absolute figures depend on the machine.
//! Payloads: recorded GitHub issues, repeated (`data/README.md`), and items of 250 bytes.

mod baseline;
#[cfg(test)]
mod counts;
mod fitting;
mod formats;
mod operations;
mod payload;
mod pipeline;
mod strings;

use std::hint::black_box;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

use baseline::Baseline;
use operations::Operation;
use payload::Document;

const ROUNDS: usize = 11;
/// The approximate duration of one turn, in nanoseconds.
const TURN: f64 = 100e6;

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("strings") => return strings::run(),
        Some("formats") => return formats::run(),
        Some("fitting") => return fitting::run(),
        Some("pipeline") => return pipeline::run(),
        _ => {}
    }
    let mut arguments = std::env::args().skip(1).peekable();
    let named = |name: &str| Document::ALL.into_iter().find(|document| document.name() == name);
    let documents = match arguments.peek().and_then(|first| named(first)) {
        Some(document) => {
            arguments.next();
            vec![document]
        }
        None => Document::ALL.to_vec(),
    };
    let sizes: Vec<f64> = arguments.map(|a| a.parse().context("a size in MB")).collect::<Result<_>>()?;
    let binaries = baseline::build("baseline")?;
    for document in documents {
        compare(document, if sizes.is_empty() { document.sizes() } else { &sizes }, &binaries)?;
    }
    Ok(())
}

/// Prints the table of one document.
fn compare(document: Document, sizes: &[f64], binaries: &Path) -> Result<()> {
    for megabytes in sizes {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few megabytes")]
        let input = document.of((megabytes * 1e6) as usize);
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(&input)?;
        let mut system = Baseline::start(&binaries.join("system"), file.path())?;
        let mut mimalloc = Baseline::start(&binaries.join("mimalloc"), file.path())?;

        println!("{megabytes} MB of {} ({} bytes)", document.name(), input.len());
        let rate = |nanos: f64| input.len() as f64 / nanos * 1e3;
        let copy = median(|| Ok(once(|| drop(black_box(black_box(&input).clone())))))?;
        let ignored = median(|| time_child(&mut system, "ignored"))?;
        let parse = median(|| time_child(&mut system, "parse"))?;
        println!("  limits: copy {:.0} MB/s, serde_json IgnoredAny {:.0} MB/s", rate(copy), rate(ignored));
        println!("  serde_json::Value, parse and drop alone: {:.0} MB/s", rate(parse));
        println!(
            "  {:<9}{:>8}{:>11}{:>11}{:>8}{:>12}{:>10}{:>12}{:>12}{:>12}",
            "", "MB/s", "x Value", "x mimalloc", "allocs", "peak", "output", "Value MB/s", "its allocs", "its peak"
        );
        for op in operations::of(document)? {
            let row = measure(&op, &input, &mut system, &mut mimalloc)?;
            let (allocations, peak) = baseline::memory(&binaries.join("counted"), file.path(), op.baseline)?;
            let used = allocation_counter::measure(|| drop(black_box(op.run(&input))));
            println!(
                "  {:<9}{:>8.0}{:>11.1}{:>11.1}{:>8}{:>12}{:>10}{:>12.0}{:>12}{:>12}",
                op.name,
                rate(row.ours),
                row.times,
                row.mimalloc_times,
                used.count_total,
                used.bytes_max,
                op.run(&input).len(),
                rate(row.system),
                allocations,
                peak,
            );
        }
    }
    Ok(())
}

/// The nanoseconds of one application, and how many times faster the engine is.
struct Row {
    ours: f64,
    system: f64,
    times: f64,
    mimalloc_times: f64,
}

/// Measures everything in turns, so that a temporary slowdown of the machine affects all of it.
fn measure(op: &Operation, input: &[u8], system: &mut Baseline, mimalloc: &mut Baseline) -> Result<Row> {
    let mut rounds: Vec<[f64; 3]> = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push([
            repeat(|n| Ok(time(|| (0..n).for_each(|_| drop(black_box(op.run(black_box(input))))))))?,
            time_child(system, op.baseline)?,
            time_child(mimalloc, op.baseline)?,
        ]);
    }
    let of = |i: usize| middle(rounds.iter().map(|r| r[i]).collect());
    // Ratios are taken within each round: whatever slows one turn mostly slows the next as well.
    let times = |i: usize| middle(rounds.iter().map(|r| r[i] / r[0]).collect());
    Ok(Row { ours: of(0), system: of(1), times: times(1), mimalloc_times: times(2) })
}

fn time_child(child: &mut Baseline, op: &str) -> Result<f64> {
    repeat(|n| Ok(child.time(op, n)? * f64::from(n)))
}

/// Calls `run` with as many iterations as fill a turn, and returns the nanoseconds of one.
fn repeat(mut run: impl FnMut(u32) -> Result<f64>) -> Result<f64> {
    let first = run(1)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
    let n = (TURN / first).clamp(1.0, 1e6) as u32;
    Ok(run(n)? / f64::from(n))
}

fn median(mut run: impl FnMut() -> Result<f64>) -> Result<f64> {
    Ok(middle((0..ROUNDS).map(|_| run()).collect::<Result<_>>()?))
}

fn middle(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn once(run: impl Fn()) -> f64 {
    run();
    time(run)
}

/// Returns the processor time of this thread in nanoseconds.
fn time(run: impl FnOnce()) -> f64 {
    let now = || {
        let t = clock_gettime(ClockId::ThreadCPUTime);
        t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
    };
    let start = now();
    run();
    now() - start
}
