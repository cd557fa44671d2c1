//! The report of a run: its steps, with times.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Passed,
    Failed,
}

/// One step.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) seconds: f64,
    /// The findings, or the error.
    pub(crate) seen: String,
}

/// All steps of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) began: String,
    pub(crate) image: String,
    pub(crate) steps: Vec<Step>,
}

impl Report {
    /// Adds a step, and prints it.
    pub(crate) fn add(&mut self, name: &'static str, took: Duration, result: Result<String>) -> Outcome {
        let (outcome, seen) = match result {
            Ok(seen) => (Outcome::Passed, seen),
            Err(error) => (Outcome::Failed, format!("{error:#}")),
        };
        let seconds = (took.as_secs_f64() * 10.0).round() / 10.0;
        let mark = if outcome == Outcome::Passed { "ok    " } else { "FAILED" };
        eprintln!("{mark} {name} ({seconds} s): {seen}");
        self.steps.push(Step { name, outcome, seconds, seen });
        outcome
    }

    /// Returns whether no step failed.
    pub(crate) fn passed(&self) -> bool {
        self.steps.iter().all(|step| step.outcome == Outcome::Passed)
    }

    fn seconds(&self) -> f64 {
        self.steps.iter().map(|step| step.seconds).sum()
    }

    /// Returns the report as a table.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("Begun {}, image {}.\n\n", self.began, self.image);
        text += "| step | seconds | outcome | seen |\n|---|---:|---|---|\n";
        for step in &self.steps {
            let outcome = if step.outcome == Outcome::Passed { "passed" } else { "**failed**" };
            // The console has the rest of an error.
            let seen: String = step.seen.lines().next().unwrap_or_default().replace('|', "\\|");
            let _ = writeln!(text, "| {} | {:.1} | {outcome} | {seen} |", step.name, step.seconds);
        }
        let passed = self.steps.iter().filter(|step| step.outcome == Outcome::Passed).count();
        let _ = writeln!(text, "\n{passed} of {} steps passed in {:.0} s.", self.steps.len(), self.seconds());
        text
    }

    /// Writes the table to a file, and the whole report as JSON next to it.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let write = |file: &Path, text: String| std::fs::write(file, text).with_context(|| file.display().to_string());
        write(file, self.markdown())?;
        write(&file.with_extension("json"), serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Report;

    #[test]
    fn a_report_counts_what_passed() {
        let mut report = Report { began: "now".to_owned(), image: "tamis:1".to_owned(), steps: Vec::new() };
        report.add("first", Duration::from_millis(1234), Ok("a | b".to_owned()));
        assert!(report.passed());
        report.add("second", Duration::from_secs(2), Err(anyhow::anyhow!("no\nlong story")));
        assert!(!report.passed());
        let text = report.markdown();
        assert!(text.contains("| first | 1.2 | passed | a \\| b |\n| second | 2.0 | **failed** | no |\n"), "{text}");
        assert!(text.ends_with("1 of 2 steps passed in 3 s.\n"), "{text}");
    }
}
