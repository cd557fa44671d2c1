//! The .proto texts of a manifest, and where their lines are in the files that hold them.

use super::super::DocumentAt;
use crate::Diagnostic;
use crate::yaml::{Position, Value};

/// Bytes of a text.
const MAX_TEXT: usize = 4 << 20;

/// A .proto text.
#[derive(Debug, Clone)]
pub(crate) struct Text<'n> {
    /// The path by which other texts import it.
    pub(crate) name: String,
    /// The path of a file from the manifest's folder; of an inline text, its key.
    pub(crate) path: &'n str,
    pub(crate) document: DocumentAt<'n>,
    /// Whether it is a key of a ConfigMap, which has no `/`.
    pub(crate) is_key: bool,
}

impl<'n> Text<'n> {
    /// Returns the characters.
    ///
    /// # Errors
    /// One finding for what is no text, or too large.
    pub(super) fn source(&self) -> Result<&'n str, Diagnostic> {
        let node = self.document.node;
        let Value::Scalar(scalar) = &node.value else {
            let message = format!("expected a .proto text, found {}", node.describe());
            return Err(self.error(None, message, "write it as a text"));
        };
        if scalar.source.len() > MAX_TEXT {
            let message = format!("has {} bytes, more than the limit of {MAX_TEXT}", scalar.source.len());
            return Err(self.error(None, message, "prune it with `tamis import grpc`"));
        }
        Ok(&scalar.source)
    }

    /// Reports a mistake. `at`: line and column in the text, from 0.
    pub(super) fn error(&self, at: Option<(usize, usize)>, message: impl Into<String>, remedy: &str) -> Diagnostic {
        let (position, message) = self.place(at, message.into());
        Diagnostic::error(self.document.file, position, self.field(), message, remedy)
    }

    /// Reports what works otherwise than its author may expect.
    pub(super) fn warning(&self, at: Option<(usize, usize)>, message: impl Into<String>, remedy: &str) -> Diagnostic {
        let (position, message) = self.place(at, message.into());
        Diagnostic::warning(self.document.file, position, self.field(), message, remedy)
    }

    /// Returns the path of the text in its file; empty for a file of its own.
    fn field(&self) -> String {
        match self.document.field {
            "" => String::new(),
            field => format!("{field}.{}", self.path),
        }
    }

    /// Returns the position of a place of the text in its file, and a message that names the place if the position does not.
    fn place(&self, at: Option<(usize, usize)>, message: String) -> (Position, String) {
        let Position { line: first, column: indentation } = self.document.node.position;
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let Some((line, column)) = at else { return (self.document.node.position, message) };
        let is_literal = matches!(&self.document.node.value, Value::Scalar(scalar) if scalar.literal);
        if self.document.field.is_empty() || is_literal {
            let (line, column) = (first.saturating_add(number(line)), indentation.saturating_add(number(column)));
            return (Position { line, column }, message);
        }
        (self.document.node.position, format!("line {}, column {}: {message}", line + 1, column + 1))
    }
}

/// Returns the line and the column of a byte of a text, both from 0.
pub(super) fn line_column(source: &str, byte: usize) -> (usize, usize) {
    let before = &source[..source.floor_char_boundary(byte)];
    let line = before.matches('\n').count();
    (line, before.rsplit('\n').next().unwrap_or_default().chars().count())
}
