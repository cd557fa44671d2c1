//! Findings of the loader and the compile step for the author of a document.

use std::fmt;
use std::sync::Arc;

use crate::plain::plain;
use crate::yaml::Position;
use serde::Serialize;
use tamis_config::Reason;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The document cannot be used.
    Error,
    /// The document is used, but probably does not mean what its author intends.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// A finding about one place of one file.
///
/// `Display` prints the line of `tamis validate`: `FILE:LINE:COLUMN: error: FIELD: problem; remedy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The file, as the caller named it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The field as the author spelled it. Empty if the finding concerns the whole document or file.
    pub field: String,
    /// The problem, without a full stop.
    pub message: String,
    /// The remedy, without a full stop.
    pub remedy: String,
    /// The reason for a condition.
    pub reason: Reason,
}

impl Diagnostic {
    /// Creates an error about a place. [`Diagnostic::because`] changes its reason.
    pub fn error(
        file: &Arc<str>,
        position: Position,
        field: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Error,
            file: Arc::clone(file),
            line: position.line,
            column: position.column,
            field: plain(&field.into()),
            message: plain(&message.into()),
            remedy: plain(&remedy.into()),
            reason: Reason::InvalidManifest,
        }
    }

    /// Creates a warning about a place.
    pub fn warning(
        file: &Arc<str>,
        position: Position,
        field: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::error(file, position, field, message, remedy) }
    }

    /// Sets the reason.
    #[must_use]
    pub fn because(self, reason: Reason) -> Self {
        Self { reason, ..self }
    }

    /// Returns `FIELD: problem; remedy`, for readers who know which object it concerns.
    #[must_use]
    pub fn statement(&self) -> String {
        let parts = [(&self.field, ": "), (&self.message, "; "), (&self.remedy, "")];
        let mut text = String::new();
        for (part, separator) in parts.into_iter().filter(|(part, _)| !part.is_empty()) {
            text.push_str(part);
            text.push_str(separator);
        }
        text.truncate(text.trim_end_matches([';', ' ']).len());
        text
    }

    /// Returns whether the finding is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Returns the place of the finding without the column, because some findings point at the field's name and some at its value.
    pub(crate) fn spot(&self) -> (Arc<str>, u32, String) {
        (Arc::clone(&self.file), self.line, self.field.clone())
    }

    /// Sorts findings by file, then from top to bottom, and removes duplicates.
    pub(crate) fn sort(diagnostics: &mut Vec<Self>) {
        diagnostics.sort_by(|a, b| {
            (&a.file, a.line, a.column, a.severity, &a.field, &a.message)
                .cmp(&(&b.file, b.line, b.column, b.severity, &b.field, &b.message))
        });
        diagnostics.dedup();
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}: {}", self.file, self.line, self.column, self.severity, self.statement())
    }
}

/// Returns the candidate for `did you mean ..`, if one is close to the input.
pub(crate) fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = written.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(written.len()) / 3).clamp(1, 4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
