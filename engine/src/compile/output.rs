//! The fields of `output`.

use super::check::Findings;
use crate::{Budget, BudgetSpec, Bytes, FormatSpec, OutputSpec, ReservedInput, ReservedInputs, Tokens};

/// The compiled fields of `output`.
#[derive(Default)]
pub(super) struct Output {
    pub(super) budget: Budget,
    pub(super) inputs: ReservedInputs,
}

/// Compiles `output`.
pub(super) fn compile(output: &OutputSpec, findings: &mut Findings<'_>) -> Output {
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
    Output {
        inputs: added_inputs(inputs, findings),
        budget: budget.as_ref().map_or_else(Budget::default, |budget| limits(budget, findings)),
    }
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
