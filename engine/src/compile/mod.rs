//! Compiles a declared filter into a program.

mod allow_list;
mod branches;
mod check;
mod fields;
mod fitting;
mod leak_check;
mod output;
mod patches;
mod pointers;
mod select;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fit::ToolKind;
use crate::program::{Branch, Guard, OutputProgram, Patch, Plan, Program};
use crate::stream::{Fast, Keys};
use crate::text::PatternBudget;
use crate::{Finding, Severity, ToolFilter};
use check::Findings;

/// What a failed stage means (`filters.md`, "Two kinds of enforcement").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Enforcement {
    /// Saves context: a failed stage passes on what it was given.
    #[default]
    Advisory,
    /// Protects data: a failed stage yields no data.
    Enforced,
}

/// The declared shape of a tool's output (`response.type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResponseType {
    /// The document is the payload.
    Object,
    /// A list is the payload.
    Array,
    /// Not JSON.
    Text,
}

/// Limits on one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The depth of nesting; 128 by default.
    pub max_depth: usize,
    /// The bytes of an output that is filtered; 16 MiB by default.
    pub max_input_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_depth: 128, max_input_bytes: 16 << 20 }
    }
}

/// What the compiler knows about the tool besides its filter.
#[derive(Debug, Clone, Copy, Default)]
pub struct CompileOptions {
    /// The enforcement that the filter runs under.
    pub enforcement: Enforcement,
    /// The declared shape of the output.
    pub response_type: Option<ResponseType>,
    /// Limits on one output.
    pub limits: Limits,
    /// Applies RFC 6902 to the letter: `remove` of an absent value fails, under `Advisory` too.
    pub strict_patch: bool,
    /// The kind of list that the tool returns, as far as its name tells. A budget that names no strategy uses it.
    pub tool: ToolKind,
    /// Whether the exposition adds `_format` to the tool: any answer may then be something else than JSON.
    pub format_input: bool,
    /// Whether the source declares a schema for the output that [`Program::reads_output_schema`].
    pub declares_output: bool,
}

/// The result of [`compile`].
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The program; `None` if a finding is an error.
    pub program: Option<Program>,
    /// All errors and warnings, in the order of the fields.
    pub findings: Vec<Finding>,
}

/// Checks a filter and compiles it into a program. Every mistake that does not depend on an output is found here.
#[must_use]
pub fn compile(filter: &ToolFilter, options: &CompileOptions) -> Compiled {
    compile_within(filter, options, &mut PatternBudget::default())
}

/// Compiles one of several filters that share a budget, such as those of a filter set. `patterns` is the remaining
/// budget for the regular expressions of all of them.
#[must_use]
pub fn compile_within(filter: &ToolFilter, options: &CompileOptions, patterns: &mut PatternBudget) -> Compiled {
    let mut findings = Findings::new(patterns);
    let branches = match filter {
        ToolFilter::Single(spec) => vec![branches::single(spec, options, &mut findings)],
        ToolFilter::Branches(specs) => branches::list(specs, options, &mut findings),
    };
    let findings = findings.into_vec();
    let broken = findings.iter().any(|f| f.severity == Severity::Error);
    let program = (!broken).then(|| {
        let branches: Box<[_]> = branches.into_iter().flatten().collect();
        let fast = Fast::new(&branches, options.enforcement, options.limits, options.strict_patch);
        let mut plan = Plan {
            enforcement: options.enforcement,
            limits: options.limits,
            strict_patch: options.strict_patch,
            max_streamed_bytes: max_streamed_bytes(&branches, options.limits),
            tested_names: tested_names(&branches),
            branches,
            fast,
            unfiltered: OutputProgram::shared(options.tool),
            format_input: options.format_input,
            has_schema: false,
        };
        plan.has_schema = plan.has_schema(options.declares_output);
        Program(Arc::new(plan))
    });
    Compiled { program, findings }
}

/// Returns the names in the pointers that `branches` test.
fn tested_names(branches: &[Branch]) -> Keys {
    let pointers = branches.iter().filter_map(|branch| match &branch.guard {
        Guard::Test(pointer, _) => Some(&**pointer),
        Guard::Always | Guard::Otherwise => None,
    });
    let names: BTreeSet<&str> = pointers.flat_map(|pointer| &pointer.segments).map(|name| &*name.text).collect();
    Keys::new(names)
}

/// Returns the size of the largest output for which the result of `select` stays within the limit even if every path
/// selects all of it.
fn max_streamed_bytes(branches: &[Branch], limits: Limits) -> usize {
    let bound = |branch: &Branch| {
        let written = branch.patches.iter().map(Patch::bytes_written);
        // On the tree a value counts as at least 8 bytes; it may have as few as 2.
        (limits.max_input_bytes / (5 * branch.select.len())).saturating_sub(written.sum())
    };
    let multiplying = branches.iter().filter(|branch| branch.select_multiplies);
    multiplying.map(bound).min().unwrap_or(limits.max_input_bytes)
}
