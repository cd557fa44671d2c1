//! Collects the diagnostics of one resource.

use tamis_config::Reason;

use crate::Diagnostic;
use crate::origin::{FieldPath, Origin};

/// Records diagnostics about fields of one resource, and whether any of them is an error.
pub(crate) struct DiagnosticSink<'a> {
    origin: &'a Origin,
    diagnostics: &'a mut Vec<Diagnostic>,
    pub(crate) failed: bool,
    reason: Reason,
}

impl<'a> DiagnosticSink<'a> {
    pub(crate) fn new(origin: &'a Origin, diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        Self { origin, diagnostics, failed: false, reason: Reason::InvalidManifest }
    }

    /// Sets the reason of the diagnostics that follow. Defaults to [`Reason::InvalidManifest`].
    pub(crate) fn because(&mut self, reason: Reason) -> &mut Self {
        self.reason = reason;
        self
    }

    /// Returns whether the author has set a field of `spec`, whatever its value.
    pub(crate) fn sets(&self, field: &str) -> bool {
        self.origin.tree.get("spec").is_some_and(|spec| spec.get(field).is_some())
    }

    pub(crate) fn error(&mut self, path: &FieldPath, message: impl Into<String>, remedy: impl Into<String>) {
        self.failed = true;
        self.diagnostics.push(self.origin.error(path, message, remedy).because(self.reason));
    }

    /// Records a finding about another file, or about a place that no path of this resource names.
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.failed |= diagnostic.is_error();
        self.diagnostics.push(diagnostic);
    }

    /// Returns the resource's own place.
    pub(crate) fn origin(&self) -> &'a Origin {
        self.origin
    }

    pub(crate) fn warning(&mut self, path: &FieldPath, message: impl Into<String>, remedy: impl Into<String>) {
        self.diagnostics.push(self.origin.warning(path, message, remedy).because(self.reason));
    }
}
