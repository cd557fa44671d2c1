//! The results as a page of the documentation.

use std::collections::BTreeMap;

use super::Expected::{Except, Outside, Passes, Skipped};
use super::{Results, Run, Subject, expected};

const INTRODUCTION: &str = "# Conformance

A test runs the public suite, `@modelcontextprotocol/conformance`, against expositions of `tamis serve` and writes this page from the \
results. `tests/clients/package.json` pins the suite's version. Warnings count as failures.
";

/// Returns the results of each subject as a page.
#[must_use]
pub fn page(results: &[(Subject, Vec<(Run, Results)>)]) -> String {
    let mut page = String::from(INTRODUCTION);
    for (subject, runs) in results {
        page += introduction(*subject);
        for (run, results) in runs {
            page += &section(*subject, run, results);
        }
    }
    page
}

fn introduction(subject: Subject) -> &'static str {
    match subject {
        Subject::Fixture => "",
        Subject::Proxied => {
            "
## An MCP server

The exposition proxies a server of the revision under test, with `follow: true` and without filters. The server (`tests/src/fixture/`) is \
built on `rmcp` and offers everything that the suite asks for. A second test runs the suite against that server without a gateway.
"
        }
        Subject::Api => {
            "
## An HTTP API

The exposition publishes an HTTP API with `Prompts` and `Resources`. What an HTTP API cannot have is out of scope.
"
        }
    }
}

fn section(subject: Subject, run: &Run, results: &Results) -> String {
    let mut rows = String::new();
    let mut outside: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut skips: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (scenario, checks) in results {
        let counted = |status: &str| checks.iter().filter(|check| check.status == status).count();
        let (held, skipped) = (counted("SUCCESS"), counted("SKIPPED") + counted("INFO"));
        let failed = checks.len() - held - skipped;
        let note = match expected(subject, scenario) {
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
        rows += &format!("| {scenario} | {held} | {skipped} | {failed} | {note} |\n");
    }
    let mut section =
        format!("\n### {}{}\n\n`conformance server {}`\n\n", run.revision, suffix(subject), run.arguments.join(" "));
    section += "| scenario | passed checks | skipped checks | failed checks | exceptions |\n|---|---:|---:|---:|---|\n";
    section += &rows;
    section += &list("Out of scope", &outside);
    section += &list("Skipped by the suite itself", &skips);
    section
}

/// Returns what keeps the headings of a page apart.
fn suffix(subject: Subject) -> &'static str {
    match subject {
        Subject::Fixture | Subject::Proxied => "",
        Subject::Api => " of an HTTP API",
    }
}

fn list(title: &str, reasons: &BTreeMap<&str, Vec<&str>>) -> String {
    if reasons.is_empty() {
        return String::new();
    }
    let mut list = format!("\n{title}:\n\n");
    for (reason, scenarios) in reasons {
        list += &format!("- {reason}: {}\n", scenarios.join(", "));
    }
    list
}
