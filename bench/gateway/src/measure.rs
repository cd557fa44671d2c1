//! Measures the cases.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::cores::Cores;
use crate::fleet::Fleet;
use crate::load::Load;
use crate::plan::{Case, Comparison};
use crate::report::{Measured, MeasuredRow, Peers};
use crate::stats::{Basis, Closed, Latency, basis, median};

/// How often and how long each row is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// In each round, every row of a case is measured once.
    pub(crate) rounds: usize,
    /// The time of one measurement.
    pub(crate) time: Duration,
}

/// Measures every case.
pub(crate) async fn cases(cases: &[Case], fleet: &Fleet, cores: &Cores, effort: Effort) -> Result<Vec<Measured>> {
    let mut measured = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        eprintln!("{}/{} {}: {} servers", number + 1, cases.len(), case.name(), case.rows.len());
        measured.push(measure(case, fleet, cores, effort).await.with_context(|| case.name())?);
    }
    Ok(measured)
}

/// Starts the published gateways and measures their case.
pub(crate) async fn peers(
    case: &Case,
    fleet: &mut Fleet,
    environments: &Path,
    cores: &Cores,
    effort: Effort,
) -> Result<Peers> {
    eprintln!("{}: {} servers", case.name(), case.rows.len());
    let versions = fleet.start_peers(cores, environments, case.kb).await?;
    Ok(Peers { versions, measured: measure(case, fleet, cores, effort).await? })
}

async fn measure(case: &Case, fleet: &Fleet, cores: &Cores, effort: Effort) -> Result<Measured> {
    let calls = case.rows.iter().map(|&row| Fleet::call(row, case.kb)).collect::<Result<Vec<_>>>()?;
    let loads: Vec<Load<'_>> = case
        .rows
        .iter()
        .zip(&calls)
        .map(|(row, call)| {
            let server = fleet.server(row.target)?;
            let Case { protocol, concurrency, .. } = *case;
            let protocol = row.target.protocol().unwrap_or(protocol);
            Ok(Load { server, core: cores.target, call, protocol, concurrency, time: effort.time })
        })
        .collect::<Result<_>>()?;
    let mut lengths = Vec::new();
    for (row, load) in case.rows.iter().zip(&loads) {
        lengths.push(load.check().await.with_context(|| row.name())?);
    }
    let mut closed: Vec<Vec<Closed>> = vec![Vec::new(); loads.len()];
    for _ in 0..effort.rounds {
        for ((load, length), (rounds, row)) in loads.iter().zip(&lengths).zip(closed.iter_mut().zip(&case.rows)) {
            rounds.push(load.closed(*length).await.with_context(|| row.name())?);
        }
    }
    let rates: Vec<f64> = closed.iter().map(|rounds| median(rounds.iter().map(Closed::rate))).collect();
    let offered = offered(case.comparison, &rates);
    let mut open: Vec<Vec<Latency>> = vec![Vec::new(); loads.len()];
    for _ in 0..effort.rounds {
        for (index, load) in loads.iter().enumerate() {
            let Some(rate) = offered[index] else { continue };
            let latency = load.open(lengths[index], rate).await;
            open[index].push(latency.with_context(|| case.rows[index].name())?);
        }
    }
    // The upstream shares its core with the load generator, so it has no wall clock of its own.
    let alone = case.rows.iter().zip(&closed).filter(|(row, _)| !row.target.is_upstream());
    let basis = basis(alone.map(|(_, rounds)| rounds.as_slice()));
    let rows = case.rows.iter().enumerate().map(|(index, &row)| {
        let rounds = &closed[index];
        let of = if row.target.is_upstream() { Basis::Processor } else { basis };
        MeasuredRow {
            target: row.target,
            era: row.target.has_eras().then_some(row.era),
            name: row.name(),
            answer_bytes: lengths[index],
            calls_per_second: rates[index],
            per_core: median(rounds.iter().map(|round| round.rate_per_core(of))),
            // The upstream leaves the target's core idle.
            idle: (!row.target.is_upstream()).then(|| median(rounds.iter().map(Closed::idle))),
            others: median(rounds.iter().map(Closed::others)),
            offered_per_second: offered[index],
            latency: offered[index].map(|_| Latency::of_rounds(&open[index])),
        }
    });
    Ok(Measured {
        case: case.name(),
        kb: case.kb,
        protocol: case.protocol,
        concurrency: case.concurrency,
        basis,
        rows: rows.collect(),
    })
}

/// Returns the rate of each row's open loop, if it has one, from the rates of the closed loops: half of what the
/// slowest reached, or, among published gateways, half of what the row itself reached.
fn offered(comparison: Comparison, rates: &[f64]) -> Vec<Option<f64>> {
    // A call a second is the least that can be offered.
    let half = |rate: f64| (rate / 2.0).max(1.0);
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let of = |&rate: &f64| match comparison {
        Comparison::Sizes | Comparison::McpServer => Some(half(slowest)),
        Comparison::Transport => None,
        Comparison::Sources | Comparison::Peers => Some(half(rate)),
    };
    rates.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::offered;
    use crate::plan::Comparison;

    #[test]
    fn published_gateways_have_a_rate_of_their_own() {
        let rates = [40_000.0, 100.0, 0.0];
        for (comparison, expected) in [
            (Comparison::Sizes, [Some(1.0); 3]),
            (Comparison::McpServer, [Some(1.0); 3]),
            (Comparison::Transport, [None; 3]),
            (Comparison::Sources, [Some(20_000.0), Some(50.0), Some(1.0)]),
            (Comparison::Peers, [Some(20_000.0), Some(50.0), Some(1.0)]),
        ] {
            assert_eq!(offered(comparison, &rates), expected, "{comparison:?}");
        }
        assert_eq!(offered(Comparison::Sizes, &rates[..2]), [Some(50.0); 2]);
    }
}
