//! Collects findings.

use crate::Finding;
use crate::text::PatternBudget;

/// A problem with one value; the caller adds the field.
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

/// The findings so far, and the position in the filter.
pub(super) struct Findings<'p> {
    /// The remaining budget for regular expressions.
    pub(super) patterns: &'p mut PatternBudget,
    /// The prefix of fields: `""`, or `[1].` in a branch.
    prefix: String,
    list: Vec<Finding>,
}

impl<'p> Findings<'p> {
    pub(super) fn new(patterns: &'p mut PatternBudget) -> Self {
        Self { patterns, prefix: String::new(), list: Vec::new() }
    }

    /// Places the fields that follow below branch `index`.
    pub(super) fn enter_branch(&mut self, index: usize) {
        self.prefix = format!("[{index}].");
    }

    pub(super) fn error(&mut self, field: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.list.push(Finding::error(format!("{}{field}", self.prefix), message, remedy));
    }

    pub(super) fn warning(&mut self, field: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.list.push(Finding::warning(format!("{}{field}", self.prefix), message, remedy));
    }

    /// Records a problem as an error at `field`, or returns the value.
    pub(super) fn record<T>(&mut self, field: &str, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.error(field, problem.message, problem.remedy)).ok()
    }

    /// Adds the findings of another module; their fields are relative to the filter entry.
    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for mut finding in findings {
            finding.field.insert_str(0, &self.prefix);
            self.list.push(finding);
        }
    }

    /// Adds a warning about branch `index` as a whole.
    pub(super) fn branch_warning(&mut self, index: usize, message: impl Into<String>, remedy: impl Into<String>) {
        self.list.push(Finding::warning(format!("[{index}]"), message, remedy));
    }

    /// Returns the number of errors so far.
    pub(super) fn errors(&self) -> usize {
        self.list.iter().filter(|f| f.severity == crate::Severity::Error).count()
    }

    pub(super) fn into_vec(self) -> Vec<Finding> {
        self.list
    }
}

/// Returns the path of a map entry: `select.name`, or `select["a.b"]`.
pub(super) fn keyed(map: &str, key: &str) -> String {
    let plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain { format!("{map}.{key}") } else { format!("{map}[{}]", crate::json::encode(key)) }
}
