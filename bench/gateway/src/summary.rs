//! The aims of the gateway, and what a run measured of them.

use std::fmt::Write as _;

use crate::documents::Sets;
use crate::markdown::{kilobytes, percent};
use crate::memory::{Held, Idle};
use crate::plan::Target;
use crate::report::{Measured, MeasuredRow, Report};
use crate::stall::Stall;
use crate::stats::Latency;

impl Report {
    /// Writes a table of the aims. What was not measured has a dash.
    pub(crate) fn summary(&self, out: &mut String) {
        let select = |case: &str, reference: Target| {
            let case: &Measured = self.cases.iter().find(|measured| measured.case == case)?;
            Some((case.row(Target::Select)?, case.row(reference)?))
        };
        let share = |case: &str, reference: Target| {
            select(case, reference).map(|(row, reference)| percent(row.per_core / reference.per_core))
        };
        let added = |(row, reference): (&MeasuredRow, &MeasuredRow)| {
            let (latency, least): (Latency, Latency) = (row.latency?, reference.latency?);
            Some(format!("{:.0} / {:.0} us", latency.p50_us - least.p50_us, latency.p99_us - least.p99_us))
        };
        let exposition = |sets: Sets| {
            let last = self.expositions.iter().rfind(|row| row.sets == sets)?;
            last.each.map(kilobytes)
        };
        let expositions = match (exposition(Sets::Shared), exposition(Sets::Different)) {
            (Some(shared), Some(different)) => Some(format!("{shared} / {different}")),
            _ => None,
        };
        let idle = match &self.idle {
            Some(Ok(Idle { each_used, .. })) => Some(kilobytes(*each_used)),
            Some(Err(_)) | None => None,
        };
        let held = match &self.held {
            Some(Ok(Held { each, .. })) => Some(kilobytes(*each)),
            Some(Err(_)) | None => None,
        };
        let stall = match &self.stall {
            Some(Ok(Stall { before, during, reported, .. })) => {
                Some(format!("p99 {:.0} us, before {:.0} us; {reported} reported", during.p99_us, before.p99_us))
            }
            Some(Err(_)) | None => None,
        };
        let rows = [
            ("`select`, 4 kB, of the bare proxy", "110 %", share("4 kB", Target::Proxy)),
            ("`select`, 4 kB, of the per-core proxy", "80 %", share("4 kB", Target::PerCoreProxy)),
            ("`select`, 64 kB, of the per-core proxy", "60 %", share("64 kB", Target::PerCoreProxy)),
            (
                "`select`, 4 kB, added p50 / p99 over the per-core proxy",
                "15 / 60 us",
                select("4 kB", Target::PerCoreProxy).and_then(added),
            ),
            ("an exposition of 20 tools, one shared set / all sets different", "10 / 40 kB", expositions),
            ("an idle connection after one call", "6 kB", idle),
            ("a call of an MCP server in flight, with progress", "40 kB", held),
            ("calls of the other worker while one is held up", "unchanged, 1 reported", stall),
        ];
        if rows.iter().all(|(_, _, measured)| measured.is_none()) {
            return;
        }
        let _ = writeln!(out, "\n| measure | aim | measured |\n|---|---:|---:|");
        for (measure, aim, measured) in rows {
            let _ = writeln!(out, "| {measure} | {aim} | {} |", measured.as_deref().unwrap_or("-"));
        }
    }
}
