//! `tamis bench`: what saved data takes by format, level and budget.

mod bound;
mod list;
mod markdown;
mod measure;
mod payload;
mod times;
mod values;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use tamis_crds::{Diagnostic, Loaded};
use tamis_engine::{
    Call, CompileOptions, Factor, FilterSpec, Format, Input, OutputSpec, Report, TokenCounter, ToolFilter, ToolKind,
};
use tamis_tokens::TokenizerName;

pub(crate) use self::measure::Filter;
use self::measure::{Measured, Settings, measure};
use self::payload::Payload;
use self::times::{Times, peak_memory, times};
use crate::filter::{branch, factor, tokens};
use crate::logging::LogArgs;
use crate::{documents, note, output};

const USAGE: u8 = 2;
const STAGE_FAILED: u8 = 3;
/// JSON alone, as the formats to choose from.
const JSON: &[Format] = &[Format::Json];
/// The presets of `output.preset`.
const PRESETS: [&str; 7] = ["issues", "pulls", "merge_requests", "diffs", "comments", "discussions", "logs"];
/// The most budgets of one run.
const MOST_BUDGETS: usize = 16;

const HELP: &str = "\
Examples:
  # A saved answer without a filter: formats, and what fits into 8,000 tokens
  tamis bench issues.json

  # With the levels of detail of a preset, and within two budgets
  tamis bench --preset issues --budget-tokens 8000,2000 issues.json

  # With filters; without --tool, a file is named after its tool: list-issues.json
  tamis bench -f github.yaml list-issues.json list-pulls.json

  # For programs, and without times
  tamis bench --rounds 0 --output json issues.json | jq '.payloads[].formats'

Two baselines: the bytes that came over the wire, which are the file as it was saved, and the same
document as compact JSON. A payload is at most 16 MiB. One that is not JSON is text, whose items are
its lines. A filter's own budget and format are left out: every format and budget is tried.

Exit codes:
  0  measured
  1  failed
  2  usage, or a filter that is not valid
  3  a stage of a filter failed; what could be measured is printed";

/// Measure saved data: tokens by format and level, and what fits into a budget.
///
/// Prints tables of tokens by format and by level of detail, and for each budget which items survive at which level, their
/// value against the greatest possible value, and the chunks. Times and memory come last, in a section of their own: they
/// alone differ from run to run.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// Saved answers of tools: JSON or text.
    #[arg(required = true, value_name = "PAYLOAD")]
    payloads: Vec<PathBuf>,
    /// A file or folder with ToolsFilters, or with a ServiceManifest that has filters; `-` stands for standard input.
    /// May be repeated. Without it, payloads are measured as they are.
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The tool that gave the payloads. Without it, each file is named after its tool if there are filters.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// The filter set, if several sets name the tool.
    #[arg(long, value_name = "NAME", requires = "files")]
    set: Option<String>,
    /// The kind of list, where there is no filter: it has a strategy and levels of detail.
    #[arg(long, value_name = "NAME", conflicts_with = "files", value_parser = PossibleValuesParser::new(PRESETS))]
    preset: Option<String>,
    /// The budgets, in tokens.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_delimiter = ',', default_value = "8000", value_parser = tokens)]
    budget_tokens: Vec<u64>,
    /// What counts tokens: o200k_base, cl100k_base or estimate.
    #[arg(long, value_name = "NAME", default_value_t)]
    tokenizer: TokenizerName,
    /// What token counts are multiplied by, from 0.01 to 100.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    factor: f64,
    /// How often each time is measured; 0 leaves times and memory out.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(0..=1000))]
    rounds: u16,
    /// The output format.
    #[arg(long, value_enum, default_value_t = Output::Markdown)]
    output: Output,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Tables in Markdown.
    Markdown,
    /// One JSON document.
    Json,
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    /// The name of the tokenizer.
    tokenizer: &'static str,
    /// Whether counts are those of a vocabulary.
    exact: bool,
    payloads: Vec<Measured>,
    /// What differs from run to run; `None` if it was not asked for.
    times: Option<Timed>,
}

/// Times and memory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Timed {
    /// Whether this program was built with optimisation.
    optimised: bool,
    /// The first budget, in tokens.
    budget: usize,
    /// In microseconds.
    payloads: Vec<Times>,
    /// The largest resident memory of this process, in bytes, if the system reports it.
    peak_memory: Option<u64>,
}

/// Reports a usage error on standard error, and exits with 2.
macro_rules! usage {
    ($($message:tt)*) => {{
        note!("tamis bench: {}", format_args!($($message)*));
        return Ok(ExitCode::from(USAGE));
    }};
}

/// Measures the payloads.
pub(crate) fn run(args: &Args, log: &LogArgs) -> anyhow::Result<ExitCode> {
    if args.budget_tokens.len() > MOST_BUDGETS {
        usage!("--budget-tokens names {} budgets; name at most {MOST_BUDGETS}", args.budget_tokens.len());
    }
    let loaded = documents::load(&args.files)?;
    log.report(&loaded.diagnostics);
    if loaded.diagnostics.iter().any(Diagnostic::is_error) {
        return Ok(ExitCode::from(USAGE));
    }
    let mut payloads = Vec::new();
    for path in &args.payloads {
        let payload = Payload::read(path, args.tool.as_deref(), !args.files.is_empty());
        let payload = match payload {
            Ok(payload) => payload,
            Err(error) => usage!("{error:#}"),
        };
        match choose(args, &loaded, &payload, log) {
            Ok(Some(filter)) => payloads.push((payload, filter)),
            Ok(None) => return Ok(ExitCode::from(USAGE)),
            Err(message) => usage!("{}: {message}", path.display()),
        }
    }
    let tokenizer = tamis_tokens::tokenizer(args.tokenizer);
    let counter = TokenCounter { tokenizer: &*tokenizer, factor: Factor::new(args.factor).unwrap_or(Factor::ONE) };
    let budgets: Vec<usize> =
        args.budget_tokens.iter().map(|budget| usize::try_from(*budget).unwrap_or(usize::MAX)).collect();
    let settings = Settings { counter, budgets: &budgets };
    let mut failed = false;
    let mut results =
        Results { tokenizer: tokenizer.name(), exact: counter.is_exact(), payloads: Vec::new(), times: None };
    let mut timed = Vec::new();
    for (payload, chosen) in &payloads {
        failed |= chosen.reports_failure(payload);
        let Some(measured) = measure(payload, &chosen.filter, !args.files.is_empty(), settings) else { continue };
        results.payloads.push(measured);
        if args.rounds > 0 {
            timed.push(times(payload, &chosen.filter, settings, args.rounds.into()));
        }
    }
    results.times = (args.rounds > 0).then(|| Timed {
        optimised: !cfg!(debug_assertions),
        budget: budgets.first().copied().unwrap_or_default(),
        payloads: timed,
        peak_memory: peak_memory(),
    });
    let text = match args.output {
        Output::Markdown => markdown::render(&results),
        Output::Json => serde_json::to_string(&results).context("cannot write the result as JSON")? + "\n",
    };
    output::write(text.as_bytes())?;
    Ok(if failed { ExitCode::from(STAGE_FAILED) } else { ExitCode::SUCCESS })
}

/// The filter of a payload: as it was declared, and as it is measured.
struct Chosen {
    declared: ToolFilter,
    filter: Filter,
}

impl Chosen {
    /// Reports on standard error the stage of the filter that fails on a payload, if one does.
    fn reports_failure(&self, payload: &Payload) -> bool {
        let Some(program) = tamis_engine::compile(&self.declared, &self.filter.options).program else { return false };
        let outcome = program.apply(payload.input(self.filter.options.response_type), &Call::default());
        let report: &Report = match &outcome {
            Ok(filtered) => &filtered.report,
            Err(refused) => &refused.report,
        };
        let reason = report.error.as_ref().map(|error| format!("{}: {}", error.stage.as_str(), error.message));
        let reason = reason.or_else(|| report.compact_error.as_ref().map(|error| format!("compact: {error}")));
        if let Some(reason) = &reason {
            note!("tamis bench: {}: {reason}; `tamis filter --explain` shows what each stage was given", payload.name);
        }
        reason.is_some()
    }
}

/// Returns the filter of a payload. Returns `None` if it is not valid, which has been reported.
///
/// # Errors There is no filter for the tool: a message with its remedy.
fn choose(args: &Args, loaded: &Loaded, payload: &Payload, log: &LogArgs) -> Result<Option<Chosen>, String> {
    if args.files.is_empty() {
        let output = args.preset.clone().map(|preset| OutputSpec { preset: Some(preset), ..OutputSpec::default() });
        let spec = FilterSpec { output: output.map(Box::new), ..FilterSpec::default() };
        let tool = payload.tool.as_deref().map(ToolKind::of).unwrap_or_default();
        let filter = Filter::new(&spec, CompileOptions { tool, ..CompileOptions::default() });
        return Ok(filter.map(|filter| Chosen { declared: ToolFilter::Single(Box::new(spec)), filter }));
    }
    let tool = payload.tool.as_deref().unwrap_or_default();
    let found = loaded.resources.filter_of(tool, args.set.as_deref()).map_err(|reason| {
        let named = if args.tool.is_none() { " (the tool is named by the file; --tool names another one)" } else { "" };
        format!("{}, {}{named}", reason.message, reason.remedy)
    })?;
    let options = CompileOptions {
        enforcement: found.enforcement,
        response_type: found.response_type,
        tool: ToolKind::of(tool),
        ..CompileOptions::default()
    };
    let compiled = tamis_engine::compile(found.filter, &options);
    log.report(&compiled.findings.iter().map(|finding| found.diagnose(finding)).collect::<Vec<_>>());
    if compiled.program.is_none() {
        return Ok(None);
    }
    // If no branch applies, the output passes as it is, or is refused.
    let spec = applying(found.filter, &options, payload.input(options.response_type)).unwrap_or_default();
    Ok(Filter::new(&spec, options).map(|filter| Chosen { declared: found.filter.clone(), filter }))
}

/// Returns the filter, or the branch of it that applies to `input`, as a filter of one branch.
pub(crate) fn applying(filter: &ToolFilter, options: &CompileOptions, input: Input<'_>) -> Option<FilterSpec> {
    match filter {
        ToolFilter::Single(spec) => Some((**spec).clone()),
        ToolFilter::Branches(branches) => {
            let branch = branches.get(branch(filter, options, input)?)?;
            Some(FilterSpec { test: None, otherwise: false, ..branch.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_one_of_the_engine() {
        for preset in PRESETS {
            let output = OutputSpec { preset: Some(preset.to_owned()), ..OutputSpec::default() };
            let spec = FilterSpec { output: Some(Box::new(output)), ..FilterSpec::default() };
            assert!(Filter::new(&spec, CompileOptions::default()).is_some(), "{preset}");
        }
    }
}
