//! The fields of `output`.

use super::check::Findings;
use crate::{BudgetSpec, Bytes, FormatSpec, OutputSpec};

/// Compiles `output`, and returns the budget.
pub(super) fn compile(output: &OutputSpec, findings: &mut Findings<'_>) -> Option<Bytes> {
    let OutputSpec { preset, format, structured, notice: _, inputs, budget, strategy, algorithm, levels, chunks, toon } =
        output;
    match format {
        None => {}
        Some(FormatSpec::One(format)) if format == "json" => {}
        Some(FormatSpec::One(_) | FormatSpec::Of(_)) => {
            findings.error("output.format", "is not implemented yet", "use `json` until then");
        }
    }
    for (field, given, remedy) in [
        ("preset", preset.is_some(), "remove it"),
        ("structured", structured.is_some(), "remove it"),
        ("inputs", !inputs.is_empty(), "remove it"),
        ("strategy", strategy.is_some(), "remove it: a budget trims items from the end"),
        ("algorithm", algorithm.is_some(), "remove it: a budget trims items from the end"),
        ("levels", levels.is_some(), "use `select` to keep fewer fields"),
        ("chunks", chunks.is_some(), "remove it"),
        ("toon", toon.is_some(), "remove it"),
    ] {
        if given {
            findings.error(&format!("output.{field}"), "is not implemented yet", remedy);
        }
    }
    let BudgetSpec { bytes, tokens } = budget.as_ref()?;
    if tokens.is_some() {
        findings.error(
            "output.budget.tokens",
            "is not implemented yet",
            "use `output.budget.bytes`, at about 3.5 bytes a token",
        );
    } else if bytes.is_none() {
        findings.error("output.budget", "sets no limit", "give `bytes`, or remove `budget`");
    }
    let bytes = (*bytes)?;
    if bytes < 1 {
        findings.error(
            "output.budget.bytes",
            format!("{bytes} is no budget"),
            "give a positive number, or remove it for no limit",
        );
    }
    usize::try_from(bytes).ok().map(Bytes)
}
