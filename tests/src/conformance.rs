//! The public conformance suite, and the part of it that applies to a gateway that publishes HTTP APIs.
//!
//! The suite asks for a fixture server with prompts, resources, sampling and tools of given names. The fixture here is an
//! HTTP API with prompts and resources, so each scenario is either [held](EXPECTED) or named here with the reason why it is not. A scenario
//! that is not listed, one that does better than its reason says, and one that passes without a check that succeeds fail
//! the test.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::{Upstream, node, tool};

/// One way to run the suite.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// The revision of the protocol.
    pub revision: &'static str,
    /// What selects its scenarios.
    pub arguments: &'static [&'static str],
}

/// The newest revision of each era by its frozen requirements, and an older one by all scenarios that apply to it.
pub const RUNS: &[Run] = &[
    Run { revision: "2026-07-28", arguments: &["--requirements", "2026-07-28"] },
    Run { revision: "2025-11-25", arguments: &["--requirements", "2025-11-25"] },
    Run { revision: "2025-06-18", arguments: &["--spec-version", "2025-06-18", "--suite", "all"] },
];

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

use Expected::{Except, Outside, Passes, Skipped};

const SUBSCRIPTIONS: &str = "changes of single resources are not announced";
const ASKS: &str = "an HTTP API never sends requests to the client (sampling, elicitation, roots)";
const CONTENT: &str =
    "the answers of an HTTP API and the messages of our prompts are text; other content needs an MCP source";
const NOTIFIES: &str = "an HTTP API sends nothing before its answer; progress and log messages need an MCP source";
const TASKS: &str = "the tasks extension is not offered";
const NO_STREAM: &str = "a call of an HTTP API is answered with JSON, not with a stream that could be resumed";

/// The expected result of each scenario, in every run in which it occurs.
pub const EXPECTED: &[(&str, Expected)] = &[
    ("server-initialize", Passes),
    ("server-session-lifecycle", Passes),
    ("ping", Passes),
    ("logging-set-level", Passes),
    ("tools-list", Passes),
    ("tools-call-simple-text", Passes),
    ("tools-call-error", Passes),
    ("dns-rebinding-protection", Passes),
    ("server-sse-multiple-streams", Passes),
    ("http-header-validation", Passes),
    (
        "server-stateless",
        Except(
            &["sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"],
            "no tool of an HTTP API requires a capability of the client",
        ),
    ),
    ("caching", Passes),
    ("completion-complete", Passes),
    ("prompts-list", Passes),
    ("prompts-get-simple", Passes),
    ("prompts-get-with-args", Passes),
    ("prompts-get-embedded-resource", Outside(CONTENT)),
    ("prompts-get-with-image", Outside(CONTENT)),
    ("resources-list", Passes),
    ("resources-read-text", Passes),
    ("resources-read-binary", Passes),
    ("resources-templates-read", Passes),
    ("resources-subscribe", Outside(SUBSCRIPTIONS)),
    ("resources-unsubscribe", Outside(SUBSCRIPTIONS)),
    ("sep-2164-resource-not-found", Passes),
    ("tools-call-image", Outside(CONTENT)),
    ("tools-call-audio", Outside(CONTENT)),
    ("tools-call-embedded-resource", Outside(CONTENT)),
    ("tools-call-mixed-content", Outside(CONTENT)),
    ("tools-call-with-logging", Outside(NOTIFIES)),
    ("tools-call-with-progress", Outside(NOTIFIES)),
    ("server-sse-polling", Skipped(NO_STREAM)),
    ("tools-call-sampling", Outside(ASKS)),
    ("tools-call-elicitation", Outside(ASKS)),
    ("elicitation-sep1034-defaults", Outside(ASKS)),
    ("elicitation-sep1330-enums", Outside(ASKS)),
    ("input-required-result-basic-elicitation", Outside(ASKS)),
    ("input-required-result-basic-sampling", Outside(ASKS)),
    ("input-required-result-basic-list-roots", Outside(ASKS)),
    ("input-required-result-request-state", Outside(ASKS)),
    ("input-required-result-multiple-input-requests", Outside(ASKS)),
    ("input-required-result-multi-round", Outside(ASKS)),
    ("input-required-result-missing-input-response", Outside(ASKS)),
    ("input-required-result-non-tool-request", Outside(ASKS)),
    ("input-required-result-result-type", Outside(ASKS)),
    ("input-required-result-unsupported-methods", Passes),
    ("input-required-result-tampered-state", Outside(ASKS)),
    ("input-required-result-capability-check", Outside(ASKS)),
    ("input-required-result-ignore-extra-params", Outside(ASKS)),
    ("input-required-result-validate-input", Passes),
    ("tasks-lifecycle", Outside(TASKS)),
    ("tasks-capability-negotiation", Outside(TASKS)),
    ("tasks-wire-fields", Outside(TASKS)),
    ("tasks-request-state-removal", Outside(TASKS)),
    ("tasks-mrtr-input", Outside(TASKS)),
    ("tasks-request-headers", Outside(TASKS)),
    ("tasks-dispatch-and-envelope", Outside(TASKS)),
    ("tasks-status-notifications", Skipped(TASKS)),
    ("tasks-required-task-error", Outside(TASKS)),
    ("tasks-mrtr-composition", Outside(TASKS)),
    (
        "json-schema-2020-12",
        Outside("the arguments in a manifest produce plain schemas; other schemas need to be imported"),
    ),
    ("http-custom-header-server-validation", Outside("a manifest declares no `x-mcp-header` arguments")),
];

/// Returns the expected result of a scenario, if it is known.
#[must_use]
pub fn expected(scenario: &str) -> Option<Expected> {
    EXPECTED.iter().find(|(name, _)| *name == scenario).map(|&(_, expected)| expected)
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
pub async fn run(run: &Run, url: &str) -> Result<BTreeMap<String, Vec<Check>>> {
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
    let mut scenarios = BTreeMap::new();
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

/// Returns the deviations from [`EXPECTED`], one line each.
#[must_use]
pub fn deviations(scenarios: &BTreeMap<String, Vec<Check>>) -> Vec<String> {
    scenarios.iter().flat_map(|(scenario, checks)| deviations_of(scenario, expected(scenario), checks)).collect()
}

fn deviations_of(scenario: &str, expected: Option<Expected>, checks: &[Check]) -> Vec<String> {
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

/// Returns the results as a page of the documentation.
#[must_use]
pub fn page(results: &[(Run, BTreeMap<String, Vec<Check>>)]) -> String {
    let mut page = String::from(
        "# Conformance\n\nA test runs the public suite, `@modelcontextprotocol/conformance`, against `tamis serve` and writes \
         this page from the results. `tests/clients/package.json` pins the suite's version. Warnings count as failures.\n",
    );
    for (run, scenarios) in results {
        let mut rows = Vec::new();
        let mut outside: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut skips: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (scenario, checks) in scenarios {
            let counted = |status: &str| checks.iter().filter(|check| check.status == status).count();
            let (held, skipped) = (counted("SUCCESS"), counted("SKIPPED") + counted("INFO"));
            let failed = checks.len() - held - skipped;
            let note = match expected(scenario) {
                Some(Passes) => String::new(),
                Some(Except(ids, reason)) => format!("`{}`: {reason}", ids.join("`, `")),
                Some(Outside(reason)) => {
                    outside.entry(reason).or_default().push(scenario);
                    continue;
                }
                Some(Skipped(reason)) => {
                    skips.entry(reason).or_default().push(scenario);
                    continue;
                }
                None => "unknown".to_owned(),
            };
            rows.push(format!("| {scenario} | {held} | {skipped} | {failed} | {note} |\n"));
        }
        page += &format!("\n## {}\n\n`conformance server {}`\n\n", run.revision, run.arguments.join(" "));
        page +=
            "| scenario | passed checks | skipped checks | failed checks | exceptions |\n|---|---:|---:|---:|---|\n";
        page += &rows.concat();
        page += "\nOut of scope for a gateway that publishes HTTP APIs:\n\n";
        for (reason, scenarios) in outside {
            page += &format!("- {reason}: {}\n", scenarios.join(", "));
        }
        if !skips.is_empty() {
            page += "\nSkipped by the suite itself:\n\n";
        }
        for (reason, scenarios) in skips {
            page += &format!("- {reason}: {}\n", scenarios.join(", "));
        }
    }
    page
}

/// Returns the service that the suite's tool scenarios require.
#[must_use]
pub fn documents(upstream: &Upstream) -> String {
    DOCUMENTS.replace("URL", &upstream.url)
}

const DOCUMENTS: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: conformance}
spec:
  name: conformance
  version: '1.0.0'
  description: What the conformance suite asks for
  http:
    baseUrl: URL
    actions:
      test_simple_text:
        description: Returns simple text
        method: GET
        path: /text/This%20is%20a%20simple%20text%20response%20for%20testing.
      test_error_handling:
        description: Always fails
        method: GET
        path: /status/500
      test_streaming_elicitation:
        description: Asks nothing, as no HTTP API does
        method: GET
        path: /log
      test_logging_tool:
        description: Logs nothing, as no HTTP API does
        method: GET
        path: /log
      test_trigger_tool_change:
        description: Changes the list of tools
        method: POST
        path: /trigger/tools
      test_trigger_prompt_change:
        description: Changes the list of prompts
        method: POST
        path: /trigger/prompts
      test_extra:
        description: Comes and goes with test_trigger_tool_change
        method: GET
        path: /log
---
apiVersion: tamis.dev/v1alpha1
kind: Prompts
metadata: {name: conformance}
spec:
  service: {name: conformance, version: '1.0.0'}
  prompts:
    test_simple_prompt:
      description: Has no arguments
      result: This is a simple prompt for testing.
    test_prompt_with_arguments:
      description: Has two arguments
      arguments:
      - {name: arg1, description: First test argument, required: true}
      - {name: arg2, description: Second test argument, required: true}
      result: "Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"
    test_prompt_with_values:
      description: Has an argument whose values are known
      arguments:
      - {name: arg, enum: [paris, park, party]}
      result: '{arg}'
    test_extra:
      description: Comes and goes with test_trigger_prompt_change
      result: Extra
---
apiVersion: tamis.dev/v1alpha1
kind: Resources
metadata: {name: conformance}
spec:
  service: {name: conformance, version: '1.0.0'}
  resources:
    test://static-text:
      name: static-text
      mimeType: text/plain
      text: This is the content of the static text resource.
    test://static-binary:
      name: static-binary
      mimeType: image/png
      blob: iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
  resourceTemplates:
    test://template/{id}/data:
      name: template
      mimeType: application/json
"#;

/// Returns the exposition with or without the tool `test_extra`, and with or without the prompt `test_extra`.
#[must_use]
pub fn exposition(tool: bool, prompt: bool) -> String {
    let exclude = if tool { "[]" } else { "[test_extra]" };
    let without = if prompt { "[]" } else { "[test_extra]" };
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: conformance}}\nspec:\n  service: {{name: conformance, version: '1.0.0'}}\n  \
         tools: {{include: ['*'], exclude: {exclude}}}\n  prompts: {{exclude: {without}}}\n  filters: []\n"
    )
}

#[cfg(test)]
#[path = "conformance_tests.rs"]
mod tests;
