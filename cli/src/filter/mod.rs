//! `tamis filter`: filters one document, exactly as a gateway would.

mod explain;
mod table;

use std::fs;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use tamis_crds::FoundFilter;
use tamis_engine::{
    Budget, Bytes, Call, CompileOptions, Enforcement, Factor, Filtered, Finding, Format, Input, Page, PageInputs,
    PageRequest, Refused, Report, ResponseType, Severity, Stage, TokenCounter, Tokens, ToolKind, UnknownFormat,
};
use tamis_tokens::TokenizerName;

pub(crate) use explain::branch;

use crate::logging::LogArgs;
use crate::{documents, note, output};

const USAGE: u8 = 2;
const STAGE_FAILED: u8 = 3;

const HELP: &str = "\
Examples:
  # What a model would get of a saved answer
  tamis filter -f github.yaml --tool list-issues answer.json

  # From a pipe, with a table of what each stage did
  curl -s https://api.github.com/repos/rust-lang/rust/issues |
    tamis filter -f github.yaml --tool list-issues --explain

  # As TOON, within 2,000 tokens; then the second chunk of the rest
  tamis filter -f github.yaml --tool list-issues --format toon --budget-tokens 2000 answer.json
  tamis filter -f github.yaml --tool list-issues --format toon --budget-tokens 2000 \\
    --chunk 2 answer.json

  # The filter set of one audience, at most 4,000 bytes, with the report
  tamis filter -f manifests/ -f filters/ --tool list-issues --set partner \\
    --budget 4000 --report report.json answer.json

Which filter: with --set, that set's. Without it, the unnamed set's that names the tool (an
Enforced one first), else the filter in the tool's manifest, else that of the only set which names
the tool. References are not checked: no service is needed. Give the ServiceManifest too where the
filter relies on its `response.type`.

Exit codes:
  0  filtered
  2  usage, or a filter that is not valid
  3  a stage failed; Advisory: the output is written all the same, Enforced: nothing is";

/// Filter one document, exactly as a gateway would.
///
/// Writes the first text block that a model would get to standard output, and nothing else. The second block, which
/// says what was left out, goes to standard error.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// A file or folder with ToolsFilters, or with a ServiceManifest that has filters; `-` stands for standard input.
    /// May be repeated.
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The tool whose filter is applied.
    #[arg(long, value_name = "NAME")]
    tool: String,
    /// The filter set, if several sets name the tool.
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// Do not filter: print what a caller gets for raw output, which Enforced refuses.
    #[arg(long)]
    raw: bool,
    /// The maximum size of the answer; can only lower the filter's own budget.
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, value_parser = bytes)]
    budget: Option<u64>,
    /// The maximum size of the answer in tokens; can only lower the filter's own budget.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = tokens)]
    budget_tokens: Option<u64>,
    /// The output format, in place of the filter's. `auto` takes the one with the fewest tokens.
    #[arg(long, value_parser = PossibleValuesParser::new(Format::CHOICES).try_map(formats))]
    format: Option<&'static [Format]>,
    /// What counts tokens: o200k_base, cl100k_base or estimate.
    #[arg(long, value_name = "NAME", default_value_t)]
    tokenizer: TokenizerName,
    /// What token counts are multiplied by, from 0.01 to 100.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    factor: f64,
    /// Show this chunk of the list, by its number in the index.
    #[arg(long, value_name = "N", conflicts_with_all = ["offset", "limit"], value_parser = clap::value_parser!(i64).range(1..))]
    chunk: Option<i64>,
    /// Show the items of the list from this one on, counted from 0.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    offset: Option<i64>,
    /// Show at most so many items of the list.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    limit: Option<i64>,
    /// Write the structured content instead of the text.
    #[arg(long)]
    structured: bool,
    /// Show on standard error what each stage removed and saved.
    #[arg(long)]
    explain: bool,
    /// Write the whole report as JSON to a file; `-` stands for standard error. With --explain, the report has the rows
    /// of the table as `stages`.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The document; standard input if absent or `-`.
    input: Option<PathBuf>,
}

/// Returns the formats that a value of `--format` names.
#[expect(clippy::needless_pass_by_value, reason = "clap passes the value")]
fn formats(name: String) -> Result<&'static [Format], UnknownFormat> {
    Format::choice(&name).ok_or(UnknownFormat)
}

/// Parses `--budget`.
fn bytes(text: &str) -> Result<u64, String> {
    limit(text).ok_or_else(|| "expected a number of bytes from 1".to_owned())
}

/// Parses `--budget-tokens`.
pub(crate) fn tokens(text: &str) -> Result<u64, String> {
    limit(text).ok_or_else(|| "expected a number of tokens from 1".to_owned())
}

fn limit(text: &str) -> Option<u64> {
    text.parse().ok().filter(|limit| *limit > 0)
}

/// Parses `--factor`.
pub(crate) fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| Factor::new(*factor).is_some());
    factor.ok_or_else(|| "is not between 0.01 and 100".to_owned())
}

/// Reports a usage error on standard error, and exits with 2.
macro_rules! usage {
    ($($message:tt)*) => {{
        note!("tamis filter: {}", format_args!($($message)*));
        return Ok(ExitCode::from(USAGE));
    }};
}

/// Filters one document.
pub(crate) fn run(args: &Args, log: &LogArgs) -> anyhow::Result<ExitCode> {
    if documents::on_standard_input(&args.files) && args.input.as_deref().is_none_or(|path| path.as_os_str() == "-") {
        usage!("standard input cannot be both documents and INPUT, name a file for one of them");
    }
    let loaded = documents::load(&args.files)?;
    log.report(&loaded.diagnostics);
    if loaded.diagnostics.iter().any(tamis_crds::Diagnostic::is_error) {
        return Ok(ExitCode::from(USAGE));
    }
    let found = match loaded.resources.filter_of(&args.tool, args.set.as_deref()) {
        Ok(found) => found,
        Err(reason) => usage!("{}, {}", reason.message, reason.remedy),
    };
    let options = CompileOptions {
        enforcement: found.enforcement,
        response_type: found.response_type,
        tool: ToolKind::of(&args.tool),
        ..CompileOptions::default()
    };
    let compiled = tamis_engine::compile(found.filter, &options);
    log.report(&compiled.findings.iter().map(|finding| found.diagnose(finding)).collect::<Vec<_>>());
    let Some(program) = compiled.program else { return Ok(ExitCode::from(USAGE)) };
    if args.raw && found.enforcement == Enforcement::Enforced {
        usage!("--raw is refused: the filter is Enforced, leave it out");
    }
    let bytes = match read(args) {
        Ok(bytes) => bytes,
        Err(error) => usage!("{error:#}"),
    };
    let input = match found.response_type {
        Some(ResponseType::Text) => Input::Text(&bytes),
        _ => Input::Json(&bytes),
    };
    let limit = |limit: Option<u64>| limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let budget = Budget { bytes: limit(args.budget).map(Bytes), tokens: limit(args.budget_tokens).map(Tokens) };
    let page = PageRequest { chunk: args.chunk, offset: args.offset, limit: args.limit };
    let page = match Page::new(page) {
        Ok(page) => page,
        Err(error) => usage!("{error}"),
    };
    let chooses = args.format.is_some_and(|formats| formats.len() > 1);
    let explains = args.explain && !explain::requested_formats(found.filter, args.format).is_empty();
    let counts = budget.tokens.is_some() || program.counts_tokens() || chooses || explains;
    // Loading a vocabulary takes a moment.
    let tokenizer = tamis_tokens::tokenizer(if counts { args.tokenizer } else { TokenizerName::Estimate });
    let factor = Factor::new(args.factor).unwrap_or(Factor::ONE);
    let call = Call {
        raw: args.raw,
        budget,
        counter: TokenCounter { tokenizer: &*tokenizer, factor },
        pagination: None,
        formats: args.format,
        page,
        inputs: PageInputs::ALL,
    };
    let outcome = program.apply(input, &call);
    if let Err(Refused { page: Some(error), .. }) = &outcome {
        usage!("{error}");
    }
    let report = match &outcome {
        Ok(filtered) => &filtered.report,
        Err(refused) => &refused.report,
    };
    let trace = args.explain.then(|| explain::explain(found.filter, &options, input, &call, &outcome));
    if let Some(trace) = &trace {
        output::write_note(&table::render(trace, log.colours(&io::stderr())));
    }
    report_failures(log, &found, report, explain::branch(found.filter, &options, input));
    if let Some(path) = &args.report {
        write_report(path, report, trace.as_ref())?;
    }
    Ok(finish(args, &outcome)?)
}

fn read(args: &Args) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match args.input.as_deref().filter(|path| path.as_os_str() != "-") {
        Some(path) => bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?,
        None => {
            if io::stdin().is_terminal() {
                note!("tamis filter: reading the document from standard input");
            }
            io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        }
    }
    Ok(bytes)
}

/// Reports failed stages, each at the place of its field.
fn report_failures(log: &LogArgs, found: &FoundFilter<'_>, report: &Report, branch: Option<usize>) {
    let failures = report.error.iter().map(|warning| (warning.stage, warning.message.as_str()));
    let compact = report.compact_error.iter().map(|reason| (Stage::Compact, reason.as_str()));
    for (stage, message) in failures.chain(compact) {
        let field = match (branch, field(stage)) {
            (None, field) => field.to_owned(),
            (Some(index), "") => format!("[{index}]"),
            (Some(index), field) => format!("[{index}].{field}"),
        };
        let severity = if found.enforcement == Enforcement::Enforced { Severity::Error } else { Severity::Warning };
        let finding = Finding { severity, ..Finding::error(field, message, remedy(stage)) };
        log.report([&found.diagnose(&finding)]);
    }
    for warning in &report.warnings {
        log.report([&found.diagnose(&Finding::warning(field(warning.stage), &*warning.message, ""))]);
    }
}

/// Returns the field of a filter that belongs to a stage.
fn field(stage: Stage) -> &'static str {
    match stage {
        Stage::Parse | Stage::Branch => "",
        Stage::Retain => "retain",
        Stage::Patches => "patches",
        Stage::Root => "root",
        Stage::Select => "select",
        Stage::Text => "text",
        Stage::Budget => "output.budget",
        Stage::Format => "output.format",
        Stage::Compact => "compact",
    }
}

fn remedy(stage: Stage) -> &'static str {
    match stage {
        Stage::Parse => "check that the input is the tool's output",
        Stage::Branch => "add a last branch with `otherwise: true`",
        Stage::Root => "compare `root` with the input",
        Stage::Compact => "compact works on lists: name the list in `root`",
        _ => "compare it with the input; --explain shows what each stage was given",
    }
}

fn write_report(path: &std::path::Path, report: &Report, trace: Option<&explain::Trace>) -> anyhow::Result<()> {
    // The user has the input, so the report is complete under both kinds of enforcement.
    let mut json = report.meta(Enforcement::Advisory).into_owned();
    if let Some(trace) = trace {
        // The report is an object that is not empty.
        json.pop();
        json += ",\"stages\":";
        json += &serde_json::to_string(&trace.rows).context("cannot write the stages")?;
        json.push('}');
    }
    json.push('\n');
    if path.as_os_str() == "-" {
        output::write_note(&json);
        return Ok(());
    }
    fs::write(path, json.as_bytes()).with_context(|| format!("cannot write the report to {}", path.display()))
}

fn finish(args: &Args, outcome: &Result<Filtered, Refused>) -> io::Result<ExitCode> {
    let Ok(filtered) = outcome else { return Ok(ExitCode::from(STAGE_FAILED)) };
    let Filtered { text, notice, structured, report } = filtered;
    let object = args.structured.then(|| structured.to_json(text).unwrap_or_default());
    if object.as_ref().is_some_and(String::is_empty) {
        note!("tamis filter: the output is text, which has no structured content");
    }
    let text = object.as_ref().unwrap_or(text);
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| {
        // On a terminal, a line end keeps the prompt on a line of its own; a file gets the exact output.
        if out.is_terminal() && !text.ends_with('\n') { out.write_all(b"\n") } else { Ok(()) }
    });
    match written.and_then(|()| out.flush()) {
        // The reader has stopped reading.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written?,
    }
    if let Some(notice) = notice {
        note!("{notice}");
    }
    let failed = report.error.is_some() || report.compact_error.is_some();
    Ok(if failed { ExitCode::from(STAGE_FAILED) } else { ExitCode::SUCCESS })
}
