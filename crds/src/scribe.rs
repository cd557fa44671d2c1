//! Collects what there is to say about one resource.

use crate::origin::{FieldPath, Origin};
use crate::{Diagnostic, Reason};

/// Writes diagnostics about fields of one resource, and remembers whether there was an error.
pub(crate) struct Scribe<'a> {
    origin: &'a Origin,
    diagnostics: &'a mut Vec<Diagnostic>,
    pub(crate) failed: bool,
    reason: Reason,
}

impl<'a> Scribe<'a> {
    pub(crate) fn new(origin: &'a Origin, diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        Self { origin, diagnostics, failed: false, reason: Reason::InvalidManifest }
    }

    /// What follows is said for this reason; for [`Reason::InvalidManifest`] by default.
    pub(crate) fn because(&mut self, reason: Reason) -> &mut Self {
        self.reason = reason;
        self
    }

    pub(crate) fn error(&mut self, path: &FieldPath, message: impl Into<String>, remedy: impl Into<String>) {
        self.failed = true;
        self.diagnostics.push(self.origin.error(path, message, remedy).because(self.reason));
    }

    pub(crate) fn warning(&mut self, path: &FieldPath, message: impl Into<String>, remedy: impl Into<String>) {
        self.diagnostics.push(self.origin.warning(path, message, remedy).because(self.reason));
    }
}
