//! Figures, as text and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

/// The figures of a run.
pub(crate) struct Report {
    name: &'static str,
    load_before: String,
    figures: Vec<Figure>,
}

struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
}

impl Report {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, load_before: load(), figures: Vec::new() }
    }

    pub(crate) fn figure(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        let name = name.into();
        // Printed immediately, so that long runs can be followed.
        eprintln!("{}: {name}: {value:.2} {unit}", self.name);
        self.figures.push(Figure { name, value, unit });
    }

    pub(crate) fn count(&mut self, name: impl Into<String>, value: usize) {
        self.figure(name, value as f64, "");
    }

    /// Adds p50, p99 and the maximum of some times.
    pub(crate) fn times(&mut self, name: &str, mut times: Vec<Duration>) {
        times.sort_unstable();
        for (label, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            self.figure(format!("{name}, {label}"), ms(percentile(&times, share)), "ms");
        }
    }

    pub(crate) fn print(&self, as_json: bool) {
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        if as_json {
            let figure = |f: &Figure| json!({"name": f.name, "value": f.value, "unit": f.unit});
            let figures: Vec<Value> = self.figures.iter().map(figure).collect();
            println!(
                "{}",
                json!({
                    "benchmark": self.name,
                    "build": build,
                    "cores": cores,
                    "load": {"before": self.load_before, "after": load()},
                    "figures": figures,
                })
            );
            return;
        }
        println!("{} ({build} build, {cores} cores, load {} before, {} after)", self.name, self.load_before, load());
        let width = self.figures.iter().map(|figure| figure.name.len()).max().unwrap_or_default();
        for Figure { name, value, unit } in &self.figures {
            println!("  {name:<width$} {value:>12.2} {unit}");
        }
    }
}

/// Returns the percentile of sorted times.
fn percentile(times: &[Duration], share: f64) -> Duration {
    let rank = (times.len() as f64 * share).ceil() as usize;
    times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Returns the machine's load average over one minute, if it is known: other processes influence every figure.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        let of = |share| percentile(&times, share).as_millis();
        assert_eq!([of(0.5), of(0.99), of(1.0)], [100, 198, 200]);
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }
}
