//! From samples to figures.

use std::time::Duration;

use serde::Serialize;

/// The counts of one closed-loop measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed {
    /// Finished calls.
    pub(crate) calls: u64,
    /// Wall-clock time.
    pub(crate) wall: Duration,
    /// Processor time of the target.
    pub(crate) cpu: Duration,
    /// Time without work on the target's core.
    pub(crate) idle: Duration,
    /// Processor time of all processes on the target's core.
    pub(crate) processes: Duration,
}

/// The time that calls are divided by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Basis {
    /// Wall-clock time: the target had its core to itself and used all of it.
    Wall,
    /// The target's processor time.
    Processor,
}

/// The share of the target's core that may be idle, or taken by other processes, for the wall clock to count.
const SLACK: f64 = 0.05;

impl Closed {
    /// Returns the finished calls a second.
    pub(crate) fn rate(&self) -> f64 {
        self.calls as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    /// Returns the calls a second of the basis.
    pub(crate) fn rate_per_core(&self, basis: Basis) -> f64 {
        match basis {
            Basis::Wall => self.rate(),
            // One tick of the kernel's clock is the least that can be seen.
            Basis::Processor => self.calls as f64 / self.cpu.as_secs_f64().max(0.01),
        }
    }

    /// Returns the share of the time in which the target's core had no work.
    pub(crate) fn idle(&self) -> f64 {
        (self.idle.as_secs_f64() / self.wall.as_secs_f64().max(1e-9)).min(1.0)
    }

    /// Returns the share of the time in which other processes used the target's core.
    pub(crate) fn others(&self) -> f64 {
        self.processes.saturating_sub(self.cpu).as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }
}

/// Chooses one basis for all rounds of all targets that are compared: the wall clock counts only if no target's core
/// was idle, or used by others, for more than 5 % (in the median of its rounds).
pub(crate) fn basis<'a>(targets: impl IntoIterator<Item = &'a [Closed]>) -> Basis {
    let busy = |rounds: &[Closed]| {
        median(rounds.iter().map(Closed::idle)) <= SLACK && median(rounds.iter().map(Closed::others)) <= SLACK
    };
    if targets.into_iter().all(busy) { Basis::Wall } else { Basis::Processor }
}

/// Returns the middle value, the higher of two; 0 for no values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The latency of one open-loop measurement, or of several.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

impl Latency {
    /// Returns the exact quantiles of all latencies of a measurement, by the nearest-rank method.
    pub(crate) fn of(latencies: &mut [Duration]) -> Self {
        latencies.sort_unstable();
        let at = |permille: usize| {
            let rank = (latencies.len() * permille).div_ceil(1000);
            latencies.get(rank.saturating_sub(1)).map_or(0.0, |latency| latency.as_nanos() as f64 / 1e3)
        };
        Self { p50_us: at(500), p99_us: at(990), p999_us: at(999), max_us: at(1000) }
    }

    /// Returns the medians of several rounds, and the highest maximum.
    pub(crate) fn of_rounds(rounds: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure));
        Self {
            p50_us: of(|l| l.p50_us),
            p99_us: of(|l| l.p99_us),
            p999_us: of(|l| l.p999_us),
            max_us: rounds.iter().map(|l| l.max_us).fold(0.0, f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Basis, Closed, Latency, basis, median};

    /// A second with 1,000 calls; the other arguments are in hundredths of a second.
    fn closed(cpu: u64, idle: u64, processes: u64) -> Closed {
        let hundredths = |count: u64| Duration::from_millis(count * 10);
        Closed {
            calls: 1000,
            wall: Duration::from_secs(1),
            cpu: hundredths(cpu),
            idle: hundredths(idle),
            processes: hundredths(processes),
        }
    }

    #[test]
    fn processor_time_counts_where_the_core_was_idle_or_shared() {
        let busy = [closed(96, 3, 97)];
        let idle = [closed(90, 8, 91)];
        let shared = [closed(90, 1, 97)];
        for (targets, expected) in [
            (vec![&busy[..]], Basis::Wall),
            (vec![&busy, &idle], Basis::Processor),
            (vec![&shared, &busy], Basis::Processor),
        ] {
            assert_eq!(basis(targets.clone()), expected, "{targets:?}");
        }
        // One disturbed round of three changes nothing.
        let rounds = [busy[0], shared[0], busy[0]];
        assert_eq!(basis([&rounds[..]]), Basis::Wall);
    }

    #[test]
    fn calls_are_divided_by_the_basis() {
        let half = closed(50, 50, 50);
        assert_eq!(half.rate_per_core(Basis::Wall), 1000.0);
        assert_eq!(half.rate_per_core(Basis::Processor), 2000.0);
        assert_eq!((half.idle(), half.others()), (0.5, 0.0));
        assert_eq!(closed(0, 100, 0).rate_per_core(Basis::Processor), 100_000.0);
    }

    #[test]
    fn the_median_ignores_one_outlier() {
        assert_eq!(median([3.0, 900.0, 1.0]), 3.0);
        assert_eq!(median([1.0, 2.0]), 2.0);
        assert_eq!(median([]), 0.0);
    }

    #[test]
    fn quantiles_are_exact() {
        let mut latencies: Vec<Duration> = (1..=1000).rev().map(Duration::from_micros).collect();
        let latency = Latency::of(&mut latencies);
        assert_eq!(latency, Latency { p50_us: 500.0, p99_us: 990.0, p999_us: 999.0, max_us: 1000.0 });
        assert_eq!(Latency::of(&mut [Duration::from_micros(7)]).p50_us, 7.0);
        let slow = Latency { p50_us: 900.0, p99_us: 900.0, p999_us: 900.0, max_us: 9000.0 };
        let rounds = Latency::of_rounds(&[latency, slow, latency]);
        assert_eq!(rounds, Latency { max_us: 9000.0, ..latency });
    }
}
