//! The findings of [`crate::compile`].

use std::fmt;

/// Whether a finding makes the filter unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The filter can be run, but probably does not do what its author intends.
    Warning,
    /// The filter cannot be run; nothing is compiled.
    Error,
}

/// One problem that is known about a filter before any call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether the filter can still be run.
    pub severity: Severity,
    /// The field, as a path below the filter entry: `patches[2].path`, `[1].retain[0]`, `compact.item`. Map keys that
    /// are not plain identifiers are quoted: `select["a.b"]`.
    pub field: String,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// The remedy, in one sentence without a full stop.
    pub remedy: String,
}

impl Finding {
    /// Returns an error at `field`.
    pub fn error(field: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Error, field: field.into(), message: message.into(), remedy: remedy.into() }
    }

    /// Returns a warning at `field`.
    pub fn warning(field: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(field, message, remedy) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {}", self.field, self.message, self.remedy)
    }
}
