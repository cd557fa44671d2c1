//! The figures of a run, as Markdown for `docs/performance.md` and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::call::Era;
use crate::client::Protocol;
use crate::memory::{Expositions, Idle, TOOLS};
use crate::plan::Target;
use crate::stall::Stall;
use crate::stats::{Basis, Latency};

/// The figures of a run.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) cases: Vec<Measured>,
    pub(crate) expositions: Vec<Expositions>,
    /// The memory of idle connections, or why it was not measured.
    pub(crate) idle: Option<Result<Idle, String>>,
    /// Calls while a worker was held up, or why they were not measured.
    pub(crate) stall: Option<Result<Stall, String>>,
}

/// What a figure depends on, apart from the code.
#[derive(Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    /// Which processes share which cores.
    pub(crate) cores: String,
    pub(crate) tamis: String,
    /// Package and version of each published gateway.
    pub(crate) peers: Vec<String>,
    pub(crate) load_before: String,
    pub(crate) load_after: String,
}

/// A measured case.
#[derive(Serialize)]
pub(crate) struct Measured {
    pub(crate) case: String,
    pub(crate) kb: usize,
    pub(crate) protocol: Protocol,
    pub(crate) concurrency: usize,
    pub(crate) basis: Basis,
    pub(crate) rows: Vec<MeasuredRow>,
}

/// A measured server.
#[derive(Serialize)]
pub(crate) struct MeasuredRow {
    pub(crate) target: Target,
    pub(crate) era: Option<Era>,
    pub(crate) name: String,
    pub(crate) answer_bytes: usize,
    pub(crate) calls_per_second: f64,
    /// Calls a second of the basis.
    pub(crate) per_core: f64,
    /// The share of the time in which the target's core had no work.
    pub(crate) idle: Option<f64>,
    /// The share of the time in which other processes used the target's core.
    pub(crate) others: f64,
    /// The rate of the open loop.
    pub(crate) offered_per_second: Option<f64>,
    pub(crate) latency: Option<Latency>,
}

impl Measured {
    fn row(&self, target: Target) -> Option<&MeasuredRow> {
        self.rows.iter().find(|row| row.target == target)
    }
}

impl Report {
    /// Returns a report without figures.
    pub(crate) fn new(machine: Machine, rounds: usize, seconds: f64) -> Self {
        Self { machine, rounds, seconds, cases: Vec::new(), expositions: Vec::new(), idle: None, stall: None }
    }

    /// Returns the tables, ready for `docs/performance.md`.
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::new();
        let Machine { processor, cores, tamis, peers, load_before, load_after } = &self.machine;
        let _ = writeln!(
            out,
            "{tamis}, {processor}: {cores}. {} rounds of {} s; load average {load_before} before, {load_after} after.",
            self.rounds, self.seconds
        );
        if !peers.is_empty() {
            let _ = writeln!(out, "Published gateways: {}.", peers.join(", "));
        }
        self.throughput(&mut out);
        self.latency(&mut out);
        self.memory(&mut out);
        self.stall(&mut out);
        out
    }

    fn throughput(&self, out: &mut String) {
        if self.cases.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "\n| case | server | answer | calls/s | core idle | calls/s per core | by | \
             of bare proxy | of per-core proxy |\n\
             |---|---|---:|---:|---:|---:|---|---:|---:|"
        );
        for case in &self.cases {
            let [bare, per_core] = [Target::Proxy, Target::PerCoreProxy].map(|target| case.row(target));
            for (number, row) in case.rows.iter().enumerate() {
                let of = |reference: Option<&MeasuredRow>| match reference {
                    Some(reference) if reference.target != row.target && row.target != Target::Upstream => {
                        percent(row.per_core / reference.per_core)
                    }
                    _ => String::new(),
                };
                let by = match (row.target, case.basis) {
                    (Target::Upstream, _) | (_, Basis::Processor) => "processor",
                    (_, Basis::Wall) => "wall clock",
                };
                let _ = writeln!(
                    out,
                    "| {} | {} | {} B | {} | {} | {} | {by} | {} | {} |",
                    if number == 0 { &case.case } else { "" },
                    row.name,
                    grouped(row.answer_bytes as f64),
                    grouped(row.calls_per_second),
                    row.idle.map_or_else(String::new, |idle| format!("{:.0} %", 100.0 * idle)),
                    grouped(row.per_core),
                    of(bare),
                    of(per_core),
                );
            }
        }
    }

    fn latency(&self, out: &mut String) {
        if self.cases.iter().flat_map(|case| &case.rows).all(|row| row.latency.is_none()) {
            return;
        }
        let _ = writeln!(
            out,
            "\n| case | server | offered calls/s | p50 | p99 | p99.9 | max | +p50 | +p99 |\n\
             |---|---|---:|---:|---:|---:|---:|---:|---:|"
        );
        for case in &self.cases {
            let reference = case.row(Target::PerCoreProxy);
            for (number, row) in case.rows.iter().enumerate() {
                let (Some(offered), Some(latency)) = (row.offered_per_second, row.latency) else { continue };
                let Latency { p50_us, p99_us, p999_us, max_us } = latency;
                let added = |of: fn(&Latency) -> f64| match reference.and_then(|r| r.latency.map(|l| (r.target, l))) {
                    Some((target, least)) if target != row.target && row.target != Target::Upstream => {
                        format!("{:.0} us", of(&latency) - of(&least))
                    }
                    _ => String::new(),
                };
                let _ = writeln!(
                    out,
                    "| {} | {} | {} | {p50_us:.0} us | {p99_us:.0} us | {p999_us:.0} us | {max_us:.0} us | {} | {} |",
                    if number == 0 { &case.case } else { "" },
                    row.name,
                    grouped(offered),
                    added(|l| l.p50_us),
                    added(|l| l.p99_us),
                );
            }
        }
    }

    fn memory(&self, out: &mut String) {
        if !self.expositions.is_empty() {
            let _ = writeln!(
                out,
                "\n| expositions of {TOOLS} tools | filters | own memory | each further exposition | ready after |\n\
                 |---:|---|---:|---:|---:|"
            );
        }
        for Expositions { sets, count, resident, each, ready_seconds } in &self.expositions {
            let _ = writeln!(
                out,
                "| {} | {} | {:.1} MB | {} | {ready_seconds:.2} s |",
                grouped(*count as f64),
                sets.name(),
                *resident as f64 / 1e6,
                each.map_or_else(String::new, kilobytes),
            );
        }
        match &self.idle {
            Some(Ok(Idle { connections, each_unused, each_used })) => {
                let _ = writeln!(
                    out,
                    "\n| idle connections | each, before its first call | each, after one call |\n|---:|---:|---:|\n\
                     | {} | {} | {} |",
                    grouped(*connections as f64),
                    kilobytes(*each_unused),
                    kilobytes(*each_used),
                );
            }
            Some(Err(reason)) => {
                let _ = writeln!(out, "\nIdle connections were not measured: {reason}.");
            }
            None => {}
        }
    }

    fn stall(&self, out: &mut String) {
        match &self.stall {
            Some(Ok(Stall { connections, held, before, during, reported })) => {
                let _ = writeln!(
                    out,
                    "\nOne of two workers was held up for a second. {held} of {connections} connections waited \
                     with it; the gateway reported {reported}. Calls of the other worker:\n\n\
                     | | p50 | p99 | max |\n|---|---:|---:|---:|"
                );
                for (name, Latency { p50_us, p99_us, p999_us: _, max_us }) in [("before", before), ("during", during)] {
                    let _ = writeln!(out, "| {name} | {p50_us:.0} us | {p99_us:.0} us | {max_us:.0} us |");
                }
            }
            Some(Err(reason)) => {
                let _ = writeln!(out, "\nCalls while a worker is held up were not measured: {reason}.");
            }
            None => {}
        }
    }
}

fn percent(share: f64) -> String {
    if share < 0.1 { format!("{:.1} %", 100.0 * share) } else { format!("{:.0} %", 100.0 * share) }
}

fn kilobytes(bytes: f64) -> String {
    format!("{:.1} kB", bytes / 1e3)
}

/// Writes a number without fraction, with a comma before each three digits.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Machine, Measured, MeasuredRow, Report, grouped, percent};
    use crate::call::Era;
    use crate::client::Protocol;
    use crate::documents::Sets;
    use crate::memory::{Expositions, Idle};
    use crate::plan::Target;
    use crate::stall::Stall;
    use crate::stats::{Basis, Latency};

    fn row(target: Target, per_core: f64, p50_us: f64) -> MeasuredRow {
        MeasuredRow {
            target,
            era: target.has_eras().then_some(Era::Legacy),
            name: target.name().to_owned(),
            answer_bytes: 4087,
            calls_per_second: per_core / 2.0,
            per_core,
            idle: (target != Target::Upstream).then_some(0.114),
            others: 0.0,
            offered_per_second: Some(8000.0),
            latency: Some(latency(p50_us)),
        }
    }

    fn latency(p50_us: f64) -> Latency {
        Latency { p50_us, p99_us: p50_us * 3.0, p999_us: p50_us * 5.0, max_us: p50_us * 9.0 }
    }

    fn report() -> Report {
        Report {
            machine: Machine {
                processor: "Some CPU".to_owned(),
                cores: "everything shares core 0".to_owned(),
                tamis: "tamis 0.1.0".to_owned(),
                peers: vec!["fastmcp 4.1.2".to_owned()],
                load_before: "0.10".to_owned(),
                load_after: "1.20".to_owned(),
            },
            rounds: 3,
            seconds: 1.0,
            cases: vec![Measured {
                case: "4 kB".to_owned(),
                kb: 4,
                protocol: Protocol::Http1,
                concurrency: 16,
                basis: Basis::Processor,
                rows: vec![
                    row(Target::Upstream, 200_000.0, 30.0),
                    row(Target::Proxy, 32_000.0, 90.0),
                    row(Target::PerCoreProxy, 48_000.0, 60.0),
                    row(Target::Select, 36_000.0, 75.0),
                ],
            }],
            expositions: [(1, None), (10_000, Some(19_300.0))]
                .map(|(count, each)| Expositions {
                    sets: Sets::Shared,
                    count,
                    resident: 16_000_000,
                    each,
                    ready_seconds: 0.5,
                })
                .into(),
            stall: Some(Ok(Stall {
                connections: 16,
                held: 8,
                before: latency(100.0),
                during: latency(110.0),
                reported: 1,
            })),
            idle: Some(Ok(Idle { connections: 10_000, each_unused: 2_000.0, each_used: 5_960.0 })),
        }
    }

    #[test]
    fn shares_and_additions_refer_to_the_proxies_of_the_same_case() {
        let text = report().markdown();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("`select`")).collect();
        assert_eq!(
            lines,
            [
                "|  | tamis, `select` | 4,087 B | 18,000 | 11 % | 36,000 | processor | 112 % | 75 % |",
                "|  | tamis, `select` | 8,000 | 75 us | 225 us | 375 us | 675 us | 15 us | 45 us |",
            ]
        );
        let upstream = text.lines().find(|line| line.contains("upstream")).expect("is listed");
        assert_eq!(upstream, "| 4 kB | upstream | 4,087 B | 100,000 |  | 200,000 | processor |  |  |");
        let old = text.lines().find(|line| line.contains("| bare proxy |")).expect("is listed");
        assert!(old.ends_with("|  | 67 % |"), "{old}");
    }

    #[test]
    fn tables_have_as_many_cells_in_each_row() {
        let text = report().markdown();
        let tables: Vec<&str> = text.split("\n\n").filter(|paragraph| paragraph.starts_with('|')).collect();
        assert_eq!(tables.len(), 5);
        for table in tables {
            let cells: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
            assert!(cells.len() > 2 && cells.iter().all(|&count| count == cells[0]), "{table}");
        }
    }

    #[test]
    fn what_was_not_measured_is_named() {
        let mut report = report();
        let text = report.markdown();
        assert!(text.contains("| 10,000 | one shared set | 16.0 MB | 19.3 kB | 0.50 s |"), "{text}");
        assert!(text.contains("Published gateways: fastmcp 4.1.2."), "{text}");
        assert!(text.contains("| 10,000 | 2.0 kB | 6.0 kB |"), "{text}");
        assert!(text.contains("8 of 16 connections waited with it; the gateway reported 1."), "{text}");
        assert!(text.contains("| during | 110 us | 330 us | 990 us |"), "{text}");
        report.stall = Some(Err("no permission".to_owned()));
        report.idle = Some(Err("the limit is 1024".to_owned()));
        report.expositions.clear();
        let text = report.markdown();
        assert!(text.contains("held up were not measured: no permission."), "{text}");
        assert!(text.contains("not measured: the limit is 1024.") && !text.contains("further exposition"), "{text}");
    }

    #[test]
    fn json_holds_every_figure_of_the_tables() {
        let json = serde_json::to_value(report()).expect("is JSON");
        assert_eq!(json["cases"][0]["rows"][3]["latency"]["p99_us"], 225.0);
        assert_eq!(json["cases"][0]["rows"][3]["target"], "select");
        assert_eq!(json["cases"][0]["basis"], "processor");
    }

    #[test]
    fn small_shares_have_a_decimal() {
        for (share, text) in [(0.0021, "0.2 %"), (0.0999, "10.0 %"), (0.1, "10 %"), (1.124, "112 %")] {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn digits_are_grouped() {
        for (value, text) in [(0.0, "0"), (999.4, "999"), (1000.0, "1,000"), (1_234_567.8, "1,234,568")] {
            assert_eq!(grouped(value), text);
        }
    }
}
