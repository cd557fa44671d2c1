//! The processor time and memory of this program's child processes, from `/proc`.

use std::collections::BTreeMap;
use std::fs;

use crate::report::Report;

/// One program.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Processor time so far, in seconds.
    pub(crate) cpu: f64,
    /// Resident memory now and at its peak, in MB.
    pub(crate) memory: f64,
    pub(crate) peak: f64,
}

/// Returns the child processes by name: `operator`, `gateway`, `kube-apiserver`, `etcd`.
pub(crate) fn usage() -> BTreeMap<String, Usage> {
    let own = std::process::id().to_string();
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    entries.flatten().filter_map(|entry| child(&entry.path(), &own)).collect()
}

fn child(folder: &std::path::Path, parent: &str) -> Option<(String, Usage)> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The name is in parentheses and may contain any character; the fields after it are numbers.
    let (before, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    if *fields.get(1)? != parent {
        return None;
    }
    let (_, program) = before.split_once('(')?;
    let line = fs::read(folder.join("cmdline")).ok()?;
    let mut arguments = line.split(|byte| *byte == 0).skip(1);
    let name = match program {
        "tamis" => String::from_utf8_lossy(arguments.next()?).into_owned(),
        other => other.to_owned(),
    };
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let kb = |label: &str| -> Option<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(label))?;
        line.split_whitespace().next()?.parse().ok()
    };
    // Linux counts in hundredths of a second on every supported platform.
    let usage = Usage { cpu: ticks / 100.0, memory: kb("VmRSS:")? / 1000.0, peak: kb("VmHWM:")? / 1000.0 };
    Some((name, usage))
}

/// Adds the memory of operator and gateway.
pub(crate) fn report_memory(report: &mut Report) {
    let usage = usage();
    for name in ["operator", "gateway"] {
        let found = usage.get(name).copied().unwrap_or_default();
        report.figure(format!("{name}, resident memory"), found.memory, "MB");
        report.figure(format!("{name}, resident memory at its peak"), found.peak, "MB");
    }
}

/// Adds the processor time of each program since `before`. A program that was started later counts from zero.
pub(crate) fn report_cpu(report: &mut Report, before: &BTreeMap<String, Usage>) {
    for (name, now) in usage() {
        let then = before.get(&name).map_or(0.0, |then| then.cpu);
        let spent = if now.cpu >= then { now.cpu - then } else { now.cpu };
        report.figure(format!("processor time of {name}"), spent, "s");
    }
}
