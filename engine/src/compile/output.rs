//! The fields of `output`.

use super::allow_list::Shown;
use super::check::Findings;
use super::fitting;
use crate::fit::ToolKind;
use crate::format::{Delimiter, Format, ToonOptions};
use crate::pages::ChunksProgram;
use crate::program::{Name, OutputProgram, StructuredMode};
use crate::{Budget, BudgetSpec, Bytes, FormatSpec, OutputSpec, ReservedInput, ReservedInputs, Tokens, ToonSpec};

/// The most spaces of a level of TOON.
const MOST_INDENT: i64 = 8;

/// Compiles `output`. See [`fitting::compile`] for `tool`, `shown` and `enforced`.
pub(super) fn compile(
    output: &OutputSpec,
    tool: ToolKind,
    shown: Shown<'_>,
    enforced: bool,
    findings: &mut Findings<'_>,
) -> OutputProgram {
    let OutputSpec { preset, format, structured, notice, inputs, budget, strategy, algorithm, levels, chunks, toon } =
        output;
    let formats = format.as_ref().map_or_else(Vec::new, |format| formats(format, findings));
    if shown.spec.compact.is_some() && formats.iter().any(|format| *format != Format::Json) {
        findings.warning("output.format", "does nothing: `compact` gives text", "remove it, or `compact`");
    }
    if shown.spec.compact.is_some() && levels.is_some() {
        findings.warning("output.levels", "does nothing: `compact` renders whole items", "remove it, or `compact`");
    }
    let structured = structured.as_deref().map_or(StructuredMode::Always, |mode| match mode {
        "always" => StructuredMode::Always,
        "schema" => StructuredMode::Schema,
        "never" => StructuredMode::Never,
        other => {
            let remedy = "use `always`, `schema` (where the tool has an output schema) or `never`";
            findings.error("output.structured", format!("`{other}` is not known"), remedy);
            StructuredMode::Always
        }
    });
    let inputs = added_inputs(inputs, findings);
    let budget = budget.as_ref().map_or_else(Budget::default, |budget| limits(budget, findings));
    let fit = fitting::compile(output, tool, shown, enforced, findings);
    let chunks = chunks.as_ref().map_or_else(|| Ok(ChunksProgram::default()), ChunksProgram::compile);
    let chunks = chunks.map_err(|found| findings.extend(found)).unwrap_or_default();
    let chunks = match fit.preset {
        Some(preset) => chunks.called(preset.noun()).preset(preset.as_str()),
        None => chunks,
    };
    for name in chunks.item_fields() {
        if let Some(hidden) = shown.hides(&[Name::new(name)]) {
            let message = format!("`.{name}` {}, so it prints nothing", hidden.as_str());
            findings.warning("output.chunks.summary", message, "name a field of the filtered item");
        }
    }
    // Of a filter without these fields, the tool decides.
    let settings = serde_json::to_string(&(preset, strategy, algorithm, levels)).unwrap_or_default();
    OutputProgram {
        budget,
        formats: if formats.is_empty() { Box::new([Format::Json]) } else { formats.into() },
        toon: toon.as_ref().map_or_else(ToonOptions::default, |toon| toon_options(toon, findings)),
        structured,
        notice: notice.unwrap_or(true),
        inputs,
        fit,
        chunks,
        settings: format!("{tool:?} {settings}").into(),
    }
}

/// Returns the formats to choose from; none after an error.
fn formats(format: &FormatSpec, findings: &mut Findings<'_>) -> Vec<Format> {
    let names = match format {
        FormatSpec::One(name) => match Format::choice(name) {
            Some(formats) => return formats.to_vec(),
            None => std::slice::from_ref(name),
        },
        FormatSpec::Of(names) => names,
    };
    let remedy = "use `json`, `table`, `toon`, `auto`, or a list of the first three";
    if names.is_empty() {
        findings.error("output.format", "the list is empty", remedy);
    }
    let mut formats = Vec::with_capacity(names.len());
    for name in names {
        match name.parse::<Format>() {
            Err(_) if Format::choice(name).is_some() => findings.error(
                "output.format",
                format!("`{name}` chooses from all formats, and cannot be in a list"),
                format!("write `format: {name}`, or name the formats to choose from"),
            ),
            Err(_) => findings.error("output.format", format!("`{name}` is no format"), remedy),
            Ok(format) if formats.contains(&format) => {
                findings.error("output.format", format!("`{name}` is there twice"), "name each format once");
            }
            Ok(format) => formats.push(format),
        }
    }
    formats
}

fn toon_options(toon: &ToonSpec, findings: &mut Findings<'_>) -> ToonOptions {
    let ToonSpec { indent, delimiter } = toon;
    let default = ToonOptions::default();
    let indent = indent.map_or(default.indent, |indent| {
        if !(1..=MOST_INDENT).contains(&indent) {
            let remedy = format!("give a number from 1 to {MOST_INDENT}");
            findings.error("output.toon.indent", format!("{indent} is no number of spaces"), remedy);
        }
        usize::try_from(indent).unwrap_or(default.indent)
    });
    let delimiter = delimiter.as_deref().map_or(default.delimiter, |name| match name {
        "comma" => Delimiter::Comma,
        "tab" => Delimiter::Tab,
        "pipe" => Delimiter::Pipe,
        other => {
            let remedy = "use `comma`, `tab` or `pipe`";
            findings.error("output.toon.delimiter", format!("`{other}` is no delimiter"), remedy);
            default.delimiter
        }
    });
    ToonOptions { indent, delimiter }
}

/// The inputs that a filter can add to those that a tool has anyway.
const ADDED: [ReservedInput; 2] = [ReservedInput::Format, ReservedInput::BudgetTokens];

fn added_inputs(names: &[String], findings: &mut Findings<'_>) -> ReservedInputs {
    let input = |(index, name): (usize, &String)| {
        let input = ReservedInput::named(name).filter(|input| ADDED.contains(input));
        if input.is_none() {
            findings.error(
                &format!("output.inputs[{index}]"),
                format!("`{name}` is no input that a filter adds"),
                "name `_format` or `_budget_tokens`",
            );
        }
        input
    };
    names.iter().enumerate().filter_map(input).collect()
}

fn limits(budget: &BudgetSpec, findings: &mut Findings<'_>) -> Budget {
    let BudgetSpec { bytes, tokens } = budget;
    if bytes.is_none() && tokens.is_none() {
        findings.error("output.budget", "sets no limit", "give `bytes` or `tokens`, or remove `budget`");
    }
    let mut limit = |field, limit: Option<i64>| {
        let limit = limit?;
        if limit < 1 {
            let remedy = "give a positive number, or remove it for no limit";
            findings.error(field, format!("{limit} is no budget"), remedy);
        }
        usize::try_from(limit).ok()
    };
    Budget {
        bytes: limit("output.budget.bytes", *bytes).map(Bytes),
        tokens: limit("output.budget.tokens", *tokens).map(Tokens),
    }
}
