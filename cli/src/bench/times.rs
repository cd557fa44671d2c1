//! How long one payload takes. Unlike everything else here, this differs from run to run.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;
use tamis_engine::{Call, Format, Tokens};

use super::measure::{Filter, Settings, limited};
use super::{JSON, Payload};

/// The least duration of one turn: a shorter one is repeated.
const TURN: Duration = Duration::from_millis(5);

/// The times of one payload, in microseconds: medians of rounds that take turns.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Times {
    pub(super) payload: String,
    /// Filter it, and write it as compact JSON.
    pub(super) json: f64,
    /// The same, and write it as `table`.
    pub(super) table: f64,
    /// The same, and write it as TOON.
    pub(super) toon: f64,
    /// Filter it, and write it in the format with the fewest tokens, which counts them.
    pub(super) auto: f64,
    /// Filter it, and fit it into the first budget, in the best of the formats.
    pub(super) fitted: f64,
    /// Count the tokens of what the filter leaves, as compact JSON.
    pub(super) counted: f64,
}

/// Measures the times of one payload.
pub(super) fn times(payload: &Payload, filter: &Filter, settings: Settings<'_>, rounds: usize) -> Times {
    let input = payload.input(filter.options.response_type);
    let text = filter.write(input, JSON, settings.counter).map(|filtered| filtered.text).unwrap_or_default();
    let formats = |formats| Call { formats: Some(formats), counter: settings.counter, ..Call::default() };
    let of = |name| Format::choice(name).unwrap_or(JSON);
    let budget = settings.budgets.first().copied().unwrap_or(usize::MAX);
    let calls = [
        formats(JSON),
        formats(of("table")),
        formats(of("toon")),
        formats(of("auto")),
        limited(budget, Some(of("auto")), settings),
    ];
    let mut measured = vec![[0.0; 6]; rounds];
    for round in &mut measured {
        for (place, call) in round.iter_mut().zip(&calls) {
            *place = turn(|| drop(black_box(filter.apply(black_box(input), call))));
        }
        round[5] = turn(|| {
            black_box(settings.counter.count(black_box(&text), Tokens(usize::MAX), &mut |_| true));
        });
    }
    let [json, table, toon, auto, fitted, counted] =
        std::array::from_fn(|operation| median(measured.iter().map(|round| round[operation]).collect()));
    Times { payload: payload.name.clone(), json, table, toon, auto, fitted, counted }
}

/// Returns the microseconds of one call of `run`, which is repeated for a few milliseconds.
fn turn(mut run: impl FnMut()) -> f64 {
    let (start, mut count) = (Instant::now(), 0_u32);
    loop {
        run();
        count += 1;
        let elapsed = start.elapsed();
        if elapsed >= TURN {
            return elapsed.as_secs_f64() * 1e6 / f64::from(count);
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Returns the largest resident memory of this process so far, in bytes. Linux alone reports it without `unsafe` code.
pub(super) fn peak_memory() -> Option<u64> {
    peak(&fs::read_to_string("/proc/self/status").ok()?)
}

fn peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::{median, peak};

    #[test]
    fn the_peak_is_in_bytes() {
        assert_eq!(peak("VmPeak:\t  99 kB\nVmHWM:\t   5120 kB\nVmRSS:\t 17 kB\n"), Some(5120 * 1024));
        assert_eq!(peak("VmPeak:\t  99 kB\n"), None);
    }

    #[test]
    fn a_median_is_in_the_middle() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!(median(Vec::new()).abs() < 1e-9);
    }
}
