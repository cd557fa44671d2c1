//! Collects what there is to say about one resource.

use crate::Diagnostic;
use crate::origin::{FieldPath, Origin};

/// Writes diagnostics about fields of one resource, and remembers whether there was an error.
pub(crate) struct Scribe<'a> {
    origin: &'a Origin,
    diagnostics: &'a mut Vec<Diagnostic>,
    pub(crate) failed: bool,
}

impl<'a> Scribe<'a> {
    pub(crate) fn new(origin: &'a Origin, diagnostics: &'a mut Vec<Diagnostic>) -> Self {
        Self { origin, diagnostics, failed: false }
    }

    pub(crate) fn error(&mut self, path: &FieldPath, message: impl Into<String>, remedy: impl Into<String>) {
        self.failed = true;
        self.diagnostics.push(self.origin.error(path, message, remedy));
    }

    pub(crate) fn warning(&mut self, path: &FieldPath, message: impl Into<String>, remedy: impl Into<String>) {
        self.diagnostics.push(self.origin.warning(path, message, remedy));
    }
}
