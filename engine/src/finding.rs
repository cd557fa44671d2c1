//! What [`crate::compile`] has to say about a filter.

use std::fmt;

/// Whether a finding makes the filter unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The filter does what it says, but probably not what its author wants.
    Warning,
    /// The filter cannot be run; nothing is compiled.
    Error,
}

/// One thing that can be known about a filter before any call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether the filter can still be run.
    pub severity: Severity,
    /// The field, as a path below the filter entry: `patches[2].path`, `[1].retain[0]`, `compact.item`.
    /// Map keys that are not plain identifiers are quoted: `select["a.b"]`.
    pub field: String,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// What to do about it, in one sentence without a full stop.
    pub remedy: String,
}

impl Finding {
    /// An error at `field`.
    pub fn error(field: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Error, field: field.into(), message: message.into(), remedy: remedy.into() }
    }

    /// A warning at `field`.
    pub fn warning(field: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(field, message, remedy) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {}", self.field, self.message, self.remedy)
    }
}
