//! From a declared filter to one that runs.

mod allows;
mod branches;
mod check;
mod fields;
mod patches;
mod pointers;
mod select;
mod telling;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::program::{Branch, Guard, Patch, Plan, Program};
use crate::stream::{Fast, Keys};
use crate::text::PatternBudget;
use crate::{Finding, Severity, ToolFilter};
use check::Findings;

/// What happens when something goes wrong (`filters.md`, "Two kinds of enforcement").
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

/// Bounds on one output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Nesting, 128 by default.
    pub max_depth: usize,
    /// Bytes of the output to filter, 16 MiB by default.
    pub max_input_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_depth: 128, max_input_bytes: 16 << 20 }
    }
}

/// What is known of the tool beside its filter.
#[derive(Debug, Clone, Copy, Default)]
pub struct CompileOptions {
    /// The enforcement that the filter runs under.
    pub enforcement: Enforcement,
    /// The declared shape of the output.
    pub response_type: Option<ResponseType>,
    /// Bounds on one output.
    pub limits: Limits,
    /// RFC 6902 to the letter: `remove` of what is absent fails, also under `Advisory`.
    pub strict_patch: bool,
}

/// What [`compile`] gives.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The program; none where a finding is an error.
    pub program: Option<Program>,
    /// Everything found, errors and warnings, in the order of the fields.
    pub findings: Vec<Finding>,
}

/// Checks a filter and makes a program of it. Everything that can be known before a call is found here.
#[must_use]
pub fn compile(filter: &ToolFilter, options: &CompileOptions) -> Compiled {
    compile_within(filter, options, &mut PatternBudget::default())
}

/// The same for one filter of several that come together, such as those of a filter set: `patterns` is what the
/// regular expressions of all of them may take.
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
        let branches: Vec<_> = branches.into_iter().flatten().collect();
        let fast = Fast::new(&branches, options.enforcement, options.limits, options.strict_patch);
        Program(Arc::new(Plan {
            enforcement: options.enforcement,
            limits: options.limits,
            strict_patch: options.strict_patch,
            streams_up_to: streams_up_to(&branches, options.limits),
            guarded: guarded(&branches),
            branches,
            fast,
        }))
    });
    Compiled { program, findings }
}

/// The names in the pointers that `branches` test.
fn guarded(branches: &[Branch]) -> Keys {
    let pointers = branches.iter().filter_map(|branch| match &branch.guard {
        Guard::Test(pointer, _) => Some(pointer),
        Guard::Always | Guard::Otherwise => None,
    });
    let names: BTreeSet<&str> = pointers.flat_map(|pointer| &pointer.segments).map(|name| &*name.text).collect();
    Keys::new(names)
}

/// The largest output whose fields, in each path of `select` once more, are no larger than an output may be.
fn streams_up_to(branches: &[Branch], limits: Limits) -> usize {
    let bound = |branch: &Branch| {
        let written = branch.patches.iter().map(Patch::written);
        // On the tree a value counts for at least 8 bytes, and may have 2.
        (limits.max_input_bytes / (5 * branch.select.len())).saturating_sub(written.sum())
    };
    let multiplying = branches.iter().filter(|branch| branch.select_multiplies);
    multiplying.map(bound).min().unwrap_or(limits.max_input_bytes)
}
