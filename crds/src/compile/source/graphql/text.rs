//! The text of a GraphQL document, and where its lines are in the file that holds it.

use std::borrow::Cow;

use apollo_compiler::parser::LineColumn;
use apollo_compiler::validation::DiagnosticList;

use super::super::DocumentAt;
use super::introspection;
use crate::Diagnostic;
use crate::yaml::{Position, Value};

/// Bytes of a schema.
const MAX_SCHEMA: usize = 8 << 20;
/// Bytes of the operations.
pub(super) const MAX_OPERATIONS: usize = 1 << 20;
/// How deep brackets may be nested: types, values and selections are never as deep.
const MAX_NESTING: usize = super::MAX_NESTING * 2;
/// The number of findings about one document.
const MAX_FINDINGS: usize = 100;

/// The text of a document.
#[derive(Debug)]
pub(super) struct Text<'n> {
    pub(super) document: DocumentAt<'n>,
    pub(super) text: Cow<'n, str>,
    lines: Lines,
}

/// Where the lines of a text are.
#[derive(Debug)]
enum Lines {
    /// They are lines of the file, from a position on.
    Of(Position),
    /// They were made of something else, each at this position.
    At(Vec<Position>),
    /// They are somewhere in this value.
    Within(Position),
}

impl<'n> Text<'n> {
    /// Reads a schema: a text in GraphQL's own language, or the result of an introspection query.
    ///
    /// # Errors
    /// One finding for what is neither.
    pub(super) fn schema(document: DocumentAt<'n>) -> Result<Self, Diagnostic> {
        let DocumentAt { file, field, node } = document;
        let error = |message: &str, remedy: &str| Err(Diagnostic::error(file, node.position, field, message, remedy));
        let converted = match &node.value {
            Value::Map(_) => introspection::sdl(node),
            Value::Scalar(scalar) if scalar.source.trim_start().starts_with('{') => {
                let parsed = crate::yaml::parse_json(file, &scalar.source);
                let Ok(Some(parsed)) = parsed else {
                    return error("begins with `{`, but is not JSON", "write a schema, or the result of introspection");
                };
                // Positions in the text of a value are not those of the file.
                introspection::sdl(&parsed)
                    .map(|(text, _)| (text, Vec::new()))
                    .map_err(|(_, message)| (node.position, message))
            }
            Value::Scalar(_) => return Self::new(document, MAX_SCHEMA),
            Value::List(_) => return error("expected a schema, found a list", "write a schema in GraphQL's language"),
        };
        let (text, lines) = converted.map_err(|(position, message)| {
            let remedy = "save the whole result of an introspection query, or a schema in GraphQL's language";
            Diagnostic::error(file, position, field, message, remedy)
        })?;
        let lines = if lines.is_empty() { Lines::Within(node.position) } else { Lines::At(lines) };
        Ok(Self { document, text: text.into(), lines })
    }

    /// Reads operations.
    ///
    /// # Errors
    /// One finding for what is no text, or too large.
    pub(super) fn operations(document: DocumentAt<'n>) -> Result<Self, Diagnostic> {
        Self::new(document, MAX_OPERATIONS)
    }

    fn new(document: DocumentAt<'n>, most: usize) -> Result<Self, Diagnostic> {
        let DocumentAt { file, field, node } = document;
        let error = |message: String, remedy: &str| Err(Diagnostic::error(file, node.position, field, message, remedy));
        let Value::Scalar(scalar) = &node.value else {
            return error(format!("expected a GraphQL document, found {}", node.describe()), "write it as a text");
        };
        if scalar.source.len() > most {
            let message = format!("has {} bytes, more than the limit of {most}", scalar.source.len());
            return error(message, "prune it with `tamis import graphql`");
        }
        let is_file = field.is_empty();
        let lines = if is_file || scalar.literal { Lines::Of(node.position) } else { Lines::Within(node.position) };
        Ok(Self { document, text: Cow::Borrowed(&scalar.source), lines })
    }

    /// Checks how deep brackets are nested. The parser has the same limit, but takes seconds for each megabyte behind it.
    ///
    /// # Errors
    /// One finding at the first bracket that is too deep.
    pub(super) fn check_nesting(&self) -> Result<(), Diagnostic> {
        let Some(offset) = too_deep(&self.text) else { return Ok(()) };
        let before = &self.text[..offset];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let message = format!("brackets are nested more than {MAX_NESTING} deep");
        Err(self.error(Some(LineColumn { line, column }), message, "simplify the document"))
    }

    /// Reports a mistake at a place of the text.
    pub(super) fn error(&self, at: Option<LineColumn>, message: impl Into<String>, remedy: &str) -> Diagnostic {
        let (position, message) = self.place(at, message.into());
        Diagnostic::error(self.document.file, position, self.document.field, message, remedy)
    }

    /// Reports what works otherwise than its author may expect.
    pub(super) fn warning(&self, at: Option<LineColumn>, message: impl Into<String>, remedy: &str) -> Diagnostic {
        let (position, message) = self.place(at, message.into());
        Diagnostic::warning(self.document.file, position, self.document.field, message, remedy)
    }

    /// Returns the position of a place of the text in its file, and a message that names the place if the position does not.
    fn place(&self, at: Option<LineColumn>, message: String) -> (Position, String) {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let Some(LineColumn { line, column }) = at else { return (self.document.node.position, message) };
        match &self.lines {
            Lines::Of(Position { line: first, column: indentation }) => {
                let line = first.saturating_add(number(line.saturating_sub(1)));
                (Position { line, column: indentation.saturating_add(number(column.saturating_sub(1))) }, message)
            }
            Lines::At(lines) => {
                let position = lines.get(line.saturating_sub(1)).copied();
                (position.unwrap_or(self.document.node.position), message)
            }
            Lines::Within(position) => (*position, format!("line {line}, column {column}: {message}")),
        }
    }

    /// Returns the findings of a parser.
    pub(super) fn mistakes(&self, found: &DiagnosticList, remedy: &str) -> Vec<Diagnostic> {
        let each = found.iter().take(MAX_FINDINGS).map(|finding| {
            let at = finding.line_column_range().map(|range| range.start);
            let message = finding.error.to_string();
            self.error(at, message.trim_end_matches('.'), remedy)
        });
        each.collect()
    }
}

/// Returns where the first bracket is that is nested too deep. Brackets in strings and comments do not count (GraphQL, 2.1).
fn too_deep(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'[' | b'{' | b'(' => {
                depth += 1;
                if depth > MAX_NESTING {
                    return Some(at);
                }
            }
            b']' | b'}' | b')' => depth = depth.saturating_sub(1),
            b'#' => at += bytes[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(bytes.len() - at),
            b'"' => at = end_of_string(bytes, at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the last byte of the string or block string that begins at a quotation mark, or where the text or the line ends before.
fn end_of_string(bytes: &[u8], begin: usize) -> usize {
    let is_block = bytes[begin..].starts_with(b"\"\"\"");
    let mut at = begin + if is_block { 3 } else { 1 };
    while let Some(byte) = bytes.get(at) {
        match (byte, is_block) {
            (b'\\', true) if bytes[at..].starts_with(b"\\\"\"\"") => at += 3,
            (b'\\', false) => at += 1,
            (b'"', true) if bytes[at..].starts_with(b"\"\"\"") => return at + 2,
            (b'"', false) | (b'\n' | b'\r', false) => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_counted_where_they_are_syntax() {
        let open = "[".repeat(MAX_NESTING + 1);
        let fits = "[".repeat(MAX_NESTING);
        for (text, expected) in [
            (open.clone(), Some(MAX_NESTING)),
            (fits.clone(), None),
            (format!("{fits}]["), None),
            (format!("{fits} {{"), Some(MAX_NESTING + 1)),
            (format!("\"{open}\""), None),
            (format!("\"\"\"{open} \\\"\"\" \" {open}\"\"\""), None),
            (format!("\"a\\\"{open}\""), None),
            (format!("# {open}\n"), None),
            (format!("# {open}"), None),
            (format!("\"{open}\n{fits}"), None),
            (format!("\"\" {open}"), Some(MAX_NESTING + 3)),
            (format!("\"\"\"\"\"\" {open}"), Some(MAX_NESTING + 7)),
            ("\"\"\"".to_owned(), None),
            ("\"\\".to_owned(), None),
        ] {
            assert_eq!(too_deep(&text), expected, "{text}");
        }
    }
}
