//! Collecting findings.

use crate::Finding;
use crate::text::PatternBudget;

/// What is wrong with one value, to be placed at a field by the caller.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) remedy: String,
}

impl Problem {
    pub(super) fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: remedy.into() }
    }
}

/// Findings so far, and where in the filter the compiler is.
pub(super) struct Findings<'p> {
    /// What regular expressions may still take.
    pub(super) patterns: &'p mut PatternBudget,
    /// `""`, or `[1].` in a branch.
    prefix: String,
    list: Vec<Finding>,
}

impl<'p> Findings<'p> {
    pub(super) fn new(patterns: &'p mut PatternBudget) -> Self {
        Self { patterns, prefix: String::new(), list: Vec::new() }
    }

    /// Puts the fields that follow below branch `index`.
    pub(super) fn enter_branch(&mut self, index: usize) {
        self.prefix = format!("[{index}].");
    }

    pub(super) fn error(&mut self, field: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.list.push(Finding::error(format!("{}{field}", self.prefix), message, remedy));
    }

    pub(super) fn warning(&mut self, field: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.list.push(Finding::warning(format!("{}{field}", self.prefix), message, remedy));
    }

    /// Notes a problem as an error at `field`, and gives what there is without one.
    pub(super) fn take<T>(&mut self, field: &str, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.error(field, problem.message, problem.remedy)).ok()
    }

    /// Adds findings of another module, whose fields are below the filter entry.
    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for mut finding in findings {
            finding.field.insert_str(0, &self.prefix);
            self.list.push(finding);
        }
    }

    /// A finding about branch `index` as a whole, which has no field of its own.
    pub(super) fn branch_warning(&mut self, index: usize, message: impl Into<String>, remedy: impl Into<String>) {
        self.list.push(Finding::warning(format!("[{index}]"), message, remedy));
    }

    /// Errors so far.
    pub(super) fn errors(&self) -> usize {
        self.list.iter().filter(|f| f.severity == crate::Severity::Error).count()
    }

    pub(super) fn into_vec(self) -> Vec<Finding> {
        self.list
    }
}

/// `select["a.b"]`, `select.name`.
pub(super) fn keyed(map: &str, key: &str) -> String {
    let plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain { format!("{map}.{key}") } else { format!("{map}[{}]", crate::json::encode(key)) }
}
