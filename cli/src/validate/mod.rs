//! `tamis validate`: checks documents and prints all findings at once.

mod cost;
mod sample;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use tamis_crds::{Diagnostic, Loaded, diagnose, diagnose_part};

use crate::logging::{Coloured, LogArgs};
use crate::{documents, note, output};

/// Check documents in files and folders.
///
/// In folders, checks all *.yaml, *.yml and *.json files. Prints one line per finding to standard output, as FILE:LINE:COLUMN:
/// error|warning: FIELD: problem; remedy. Standard error gets a summary, and for each exposition the size of its list of
/// tools, and the part of it that reserved inputs take. With --output json: {"diagnostics": [{"severity": "error" or
/// "warning", "file", "line", "column", "field", "message", "remedy", "reason"}]}, with --sample also "samples", and
/// without errors also "expositions": [{"exposition", "tools", "tokenizer", "list": {"bytes", "tokens"},
/// "withoutReservedInputs": {..}, "reservedInputs": {..}}].
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis validate examples/quickstart
  tamis validate filters.yaml --output json | jq '.diagnostics[].field'
  kubectl get toolsfilters -o yaml | tamis validate -
  tamis validate examples/quickstart --sample issues.json --tool list-issues
  # a filter set alone: its service is not checked
  tamis validate github-partner.yaml --sample issues.json --tool list-issues

Exit codes:
  0  no error (warnings do not count)
  1  at least one error, or a filter that fails on the sample
  2  usage error")]
pub(crate) struct Args {
    /// Files and folders; `-` stands for standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// A saved answer: runs the filters of one tool on it and prints the result of each. Without a ServiceManifest among the
    /// documents, references are not checked, as in `tamis filter`.
    #[arg(long, value_name = "FILE")]
    sample: Option<PathBuf>,
    /// The tool that the sample is an answer of. Required if the documents filter several tools.
    #[arg(long, value_name = "NAME", requires = "sample")]
    tool: Option<String>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// One line per finding.
    Text,
    /// One JSON object with `diagnostics`, with `samples` if a sample is given, and with `expositions`.
    Json,
}

/// Prints the findings. Returns 1 if one is an error.
pub(crate) fn run(args: &Args, log: &LogArgs) -> anyhow::Result<ExitCode> {
    let loaded = documents::load(&args.paths)?;
    let alone = args.sample.is_some() && loaded.resources.manifests.is_empty();
    let mut diagnostics = if alone { diagnose_part(&loaded) } else { diagnose(&loaded) };
    let broken = diagnostics.iter().any(Diagnostic::is_error);
    let samples = match &args.sample {
        // A filter that does not compile cannot run.
        Some(file) if !broken => {
            let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            Some(sample::run(&loaded.resources, args.tool.as_deref(), &bytes)?)
        }
        _ => None,
    };
    // Without a service there are no tools, and with errors not all of them.
    let costs = if broken || alone { Vec::new() } else { cost::of(&loaded.resources) };
    diagnostics.extend(cost::warnings(&loaded.resources, &costs));
    let text = match args.output {
        Output::Text => plain(&diagnostics, samples.as_deref().unwrap_or_default(), log.colours(&io::stdout())),
        Output::Json => json(&diagnostics, samples.as_deref(), &costs)?,
    };
    output::write(text.as_bytes())?;
    if args.output == Output::Text {
        if alone {
            note!("without a ServiceManifest: references are not checked");
        }
        for cost in &costs {
            note!("{cost}");
        }
        if let Some(remedy) = cost::remedy(&costs) {
            note!("{remedy}");
        }
        note!("{}", summary(&loaded, &diagnostics));
    }
    let failed = samples.iter().flatten().any(|sample| sample.error.is_some());
    Ok(ExitCode::from(u8::from(broken || failed)))
}

fn plain(diagnostics: &[Diagnostic], samples: &[sample::Sample], ansi: bool) -> String {
    let mut text = String::new();
    for diagnostic in diagnostics {
        let _ = writeln!(text, "{}", Coloured(diagnostic, ansi));
    }
    for sample in samples {
        let _ = writeln!(text, "{sample}");
    }
    text
}

fn json(
    diagnostics: &[Diagnostic],
    samples: Option<&[sample::Sample]>,
    costs: &[cost::Cost],
) -> anyhow::Result<String> {
    let mut document = serde_json::json!({ "diagnostics": diagnostics });
    if let Some(samples) = samples {
        document["samples"] = serde_json::to_value(samples).context("cannot write the samples")?;
    }
    if !costs.is_empty() {
        document["expositions"] = serde_json::to_value(costs).context("cannot write the expositions")?;
    }
    let mut text = serde_json::to_string_pretty(&document).context("cannot write the findings")?;
    text.push('\n');
    Ok(text)
}

fn summary(loaded: &Loaded, diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|d| d.is_error()).count();
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!(
        "{}, {}: {}, {}",
        count(loaded.files.len(), "file"),
        count(loaded.files.iter().map(|f| f.documents).sum(), "document"),
        count(errors, "error"),
        count(diagnostics.len() - errors, "warning"),
    )
}
