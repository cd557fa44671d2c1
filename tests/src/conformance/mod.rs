//! The public conformance suite, against what a gateway publishes.
//!
//! The suite asks for a server with prompts, resources and tools of given names. It runs against each [`Subject`]: the
//! [fixture](crate::fixture) that has all of them, an exposition of that server, and an exposition of an HTTP API with prompts and
//! resources. Each scenario either [passes](Expected::Passes) or is named in [`expected`] with the reason why it does not. A
//! scenario that is not listed, one that does better than its reason says, and one that passes without a check that succeeds
//! fail the test.
//!
//! ```text
//! mod        runs the suite, and compares its results with what is expected
//! expected   the expected result of each scenario
//! documents  what is published
//! page       the results as a page of the documentation
//! ```

mod documents;
mod expected;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

pub use self::documents::{api, api_exposition, name_of, proxied};
pub use self::expected::expected;
pub use self::page::page;
use crate::{Era, node, tool};

/// What the suite runs against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The fixture itself, without a gateway.
    Fixture,
    /// An exposition of the fixture.
    Proxied,
    /// An exposition of an HTTP API.
    Api,
}

/// One way to run the suite.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// The revision of the protocol.
    pub revision: &'static str,
    /// The era of the revision.
    pub era: Era,
    /// What selects its scenarios.
    pub arguments: &'static [&'static str],
}

/// The newest revision of each era by its frozen requirements, and an older one by all scenarios that apply to it.
pub const RUNS: &[Run] = &[
    Run { revision: "2026-07-28", era: Era::Modern, arguments: &["--requirements", "2026-07-28"] },
    Run { revision: "2025-11-25", era: Era::Legacy, arguments: &["--requirements", "2025-11-25"] },
    Run { revision: "2025-06-18", era: Era::Legacy, arguments: &["--spec-version", "2025-06-18", "--suite", "all"] },
];

/// The results of a run: the checks of each scenario.
pub type Results = BTreeMap<String, Vec<Check>>;

/// The expected result of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// At least one check succeeds, and none fails.
    Passes,
    /// At least one check succeeds, none but these fails, and why they do.
    Except(&'static [&'static str], &'static str),
    /// The suite skips every check, and why.
    Skipped(&'static str),
    /// The scenario tests something that is not published, and fails.
    Outside(&'static str),
}

/// One check of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its identifier; several checks of a scenario may share one.
    pub id: String,
    /// `SUCCESS`, `FAILURE`, `WARNING`, `SKIPPED` or `INFO`.
    pub status: String,
    /// What went wrong.
    pub message: String,
}

impl Check {
    /// Returns whether the check is neither a failure nor a warning.
    #[must_use]
    pub fn holds(&self) -> bool {
        !matches!(self.status.as_str(), "FAILURE" | "WARNING")
    }
}

/// Runs the suite against an endpoint and returns the checks of each scenario.
///
/// # Errors
/// It is not installed, or wrote no results.
pub async fn run(run: &Run, url: &str) -> Result<Results> {
    let suite = tool("node/node_modules/@modelcontextprotocol/conformance/dist/index.js")?;
    let results = tempfile::tempdir()?;
    // The exit status says that something failed, which the results say better.
    let output = Command::new(node()?)
        .arg(suite)
        .args(["server", "--url", url])
        .args(run.arguments)
        .arg("--output-dir")
        .arg(results.path())
        .output()
        .await?;
    let mut scenarios = Results::new();
    for entry in fs::read_dir(results.path())? {
        let folder = entry?.path();
        scenarios.insert(scenario(&folder)?, checks(&folder.join("checks.json"))?);
    }
    ensure!(!scenarios.is_empty(), "the suite wrote no results: {}", String::from_utf8_lossy(&output.stderr));
    Ok(scenarios)
}

/// `server-tools-list-2026-11-22T00-32-00-120Z` holds the results of `tools-list`.
fn scenario(folder: &Path) -> Result<String> {
    let name = folder.file_name().and_then(|name| name.to_str()).context("a folder's name")?;
    let named = name.strip_prefix("server-").and_then(|name| name.get(..name.len().checked_sub(25)?));
    Ok(named.with_context(|| format!("{name} names no scenario"))?.to_owned())
}

fn checks(file: &Path) -> Result<Vec<Check>> {
    let found: Vec<Value> = serde_json::from_slice(&fs::read(file)?)?;
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    Ok(found
        .iter()
        .map(|check| Check {
            id: text(check, "id"),
            status: text(check, "status"),
            message: text(check, "errorMessage"),
        })
        .collect())
}

/// Returns the deviations of results from what is [`expected`], one line each.
#[must_use]
pub fn deviations(subject: Subject, run: &Run, results: &Results) -> Vec<String> {
    let of = |(scenario, checks): (&String, &Vec<Check>)| deviations_of(scenario, expected(subject, scenario), checks);
    results.iter().flat_map(of).map(|line| format!("{subject:?} {} {line}", run.revision)).collect()
}

fn deviations_of(scenario: &str, expected: Option<Expected>, checks: &[Check]) -> Vec<String> {
    use Expected::{Except, Outside, Passes, Skipped};
    let failed: Vec<&Check> = checks.iter().filter(|check| !check.holds()).collect();
    let succeeds = checks.iter().any(|check| check.status == "SUCCESS");
    let line = |check: &Check| format!("{scenario}: {} {}: {}", check.status, check.id, check.message);
    let mut found = Vec::new();
    match expected {
        None => found.push(format!("{scenario}: not in the list of scenarios")),
        Some(Passes) => found.extend(failed.into_iter().map(line)),
        Some(Except(ids, _)) => {
            found.extend(failed.iter().filter(|check| !ids.contains(&check.id.as_str())).map(|check| line(check)));
            let unmet = ids.iter().filter(|id| !failed.iter().any(|check| check.id == **id));
            found.extend(unmet.map(|id| format!("{scenario}: {id} holds now, take it off the list")));
        }
        Some(Skipped(_)) if succeeds => found.push(format!("{scenario}: a check succeeds now, expect it to pass")),
        Some(Skipped(_)) => found.extend(failed.into_iter().map(line)),
        Some(Outside(_)) if failed.is_empty() => found.push(format!("{scenario}: passes now, take it off the list")),
        Some(Outside(_)) => {}
    }
    if matches!(expected, Some(Passes | Except(..))) && !succeeds {
        found.push(format!("{scenario}: no check succeeds; list it as skipped, with the reason"));
    }
    found
}

#[cfg(test)]
mod tests;
