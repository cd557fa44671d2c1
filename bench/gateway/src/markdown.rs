//! The figures of a run as Markdown, ready for `docs/performance.md`.

use std::fmt::Write as _;

use crate::memory::{Expositions, Held, Idle, TOOLS};
use crate::plan::Target;
use crate::report::{Machine, Measured, MeasuredRow, Peers, Report};
use crate::stall::Stall;
use crate::stats::{Basis, Latency};

impl Report {
    /// Returns the tables, ready for `docs/performance.md`.
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::new();
        let Machine { processor, cores, tamis, build, load_before, load_after } = &self.machine;
        let _ = writeln!(
            out,
            "{tamis} ({build}), {processor}: {cores}. {} rounds of {} s; load average {load_before} before, \
             {load_after} after.",
            self.rounds, self.seconds
        );
        self.summary(&mut out);
        throughput(&mut out, &self.cases);
        latency(&mut out, &self.cases);
        self.published(&mut out);
        self.memory(&mut out);
        self.stall(&mut out);
        out
    }

    fn published(&self, out: &mut String) {
        match &self.peers {
            Some(Ok(Peers { versions, measured })) => {
                let _ = writeln!(out, "\nPublished gateways: {}.", versions.join(", "));
                let cases = std::slice::from_ref(measured);
                throughput(out, cases);
                latency(out, cases);
            }
            Some(Err(reason)) => {
                let _ = writeln!(out, "\nPublished gateways were not measured: {reason}.");
            }
            None => {}
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
        match &self.held {
            Some(Ok(Held { calls, seconds, each })) => {
                let _ = writeln!(
                    out,
                    "\n| calls in flight of {seconds} s with progress | each, with both connections |\n|---:|---:|\n| {} | {} |",
                    grouped(*calls as f64),
                    kilobytes(*each),
                );
            }
            Some(Err(reason)) => {
                let _ = writeln!(out, "\nCalls in flight were not measured: {reason}.");
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

/// Writes the table of throughput.
fn throughput(out: &mut String, cases: &[Measured]) {
    if cases.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n| case | server | answer | calls/s | core idle | calls/s per core | by | \
         of bare proxy | of per-core proxy |\n\
         |---|---|---:|---:|---:|---:|---|---:|---:|"
    );
    for case in cases {
        let (bare, per_core) = (case.row(Target::Proxy), case.reference());
        for (number, row) in case.rows.iter().enumerate() {
            let of = |reference: Option<&MeasuredRow>| match reference {
                Some(reference) if reference.target != row.target && !row.target.is_upstream() => {
                    percent(row.per_core / reference.per_core)
                }
                _ => String::new(),
            };
            let by = match case.basis {
                Basis::Wall if !row.target.is_upstream() => "wall clock",
                Basis::Wall | Basis::Processor => "processor",
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

/// Writes the table of latency.
fn latency(out: &mut String, cases: &[Measured]) {
    if cases.iter().flat_map(|case| &case.rows).all(|row| row.latency.is_none()) {
        return;
    }
    let _ = writeln!(
        out,
        "\n| case | server | offered calls/s | p50 | p99 | p99.9 | max | +p50 | +p99 |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|"
    );
    for case in cases {
        let reference = case.reference();
        for (number, row) in case.rows.iter().enumerate() {
            let (Some(offered), Some(latency)) = (row.offered_per_second, row.latency) else { continue };
            let Latency { p50_us, p99_us, p999_us, max_us } = latency;
            let added = |of: fn(&Latency) -> f64| match reference.and_then(|r| r.latency.map(|l| (r.target, l))) {
                Some((target, least)) if target != row.target && !row.target.is_upstream() => {
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

/// Writes a share in percent, with a decimal if it is small.
pub(crate) fn percent(share: f64) -> String {
    if share < 0.1 { format!("{:.1} %", 100.0 * share) } else { format!("{:.0} %", 100.0 * share) }
}

/// Writes a number of bytes in kB.
pub(crate) fn kilobytes(bytes: f64) -> String {
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
#[path = "markdown_tests.rs"]
mod tests;
