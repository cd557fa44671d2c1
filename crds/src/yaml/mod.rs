//! Parses documents to trees in which every node knows its line and column.
//!
//! YAML 1.2 (core schema) and JSON. Nodes are not typed here: a scalar keeps its source text and its meaning in the core schema,
//! so that the shape check, which knows the expected type, can decide and explain.

mod compose;
mod json;
mod node;
mod scalar;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use node::{Entry, Written};
pub use node::{Node, Position, Value};
pub use scalar::{Resolved, Scalar};

use crate::Diagnostic;

/// Maximum size of a file in bytes. A larger file is rejected before it is read.
pub const MAX_FILE_BYTES: u64 = 16 << 20;
/// Maximum size of a file with an OpenAPI document in bytes.
pub const MAX_API_BYTES: u64 = 64 << 20;
/// Maximum nesting depth of a document.
pub const MAX_DEPTH: usize = 100;
/// Maximum number of nodes and bytes of text that aliases may add to a file.
pub const MAX_ALIAS_EXPANSION: usize = 1 << 20;

/// Parses the documents of one file to trees.
///
/// `file` determines the syntax: a name that ends in `.json` is JSON, which keeps text that YAML would read differently (a pair
/// of surrogate escapes, for instance); everything else is YAML.
///
/// # Errors
/// One diagnostic: parsing stops at a syntax error, because the rest cannot be trusted.
pub fn parse(file: &Arc<str>, bytes: &[u8]) -> Result<Vec<Node>, Box<Diagnostic>> {
    parse_named(file, file, bytes, MAX_FILE_BYTES)
}

/// Parses a document of at most `limit` bytes, as [`parse`] does. `name` determines the syntax, and `file` is only for messages.
///
/// # Errors
/// One diagnostic, as for [`parse`].
pub(crate) fn parse_named(file: &Arc<str>, name: &str, bytes: &[u8], limit: u64) -> Result<Vec<Node>, Box<Diagnostic>> {
    let text = decode(file, bytes, limit)?;
    if name.to_ascii_lowercase().ends_with(".json") {
        json::parse(file, text).map(|node| node.into_iter().collect())
    } else {
        compose::parse(file, text)
    }
}

/// Parses the document of a JSON text, or returns `None` if it is only white space.
///
/// # Errors
/// One diagnostic, as for [`parse`].
pub(crate) fn parse_json(file: &Arc<str>, text: &str) -> Result<Option<Node>, Box<Diagnostic>> {
    json::parse(file, text)
}

/// Decodes UTF-8 without a byte order mark and without control characters.
pub(crate) fn decode<'a>(file: &Arc<str>, bytes: &'a [u8], limit: u64) -> Result<&'a str, Box<Diagnostic>> {
    let error =
        |position, message: &str, remedy: &str| Box::new(Diagnostic::error(file, position, "", message, remedy));
    if bytes.len() as u64 > limit {
        return Err(error(Position::START, &too_large(bytes.len() as u64, limit), "split it into several files"));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(error(Position::START, "the file is UTF-16", "save it as UTF-8"));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let before = String::from_utf8_lossy(&bytes[..e.valid_up_to()]);
        error(Position::after(&before), "the file is not UTF-8", "save it as UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The scanner treats NUL as the end of the input, so the rest would be lost silently.
    let control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    if let Some((at, c)) = text.char_indices().find(|(_, c)| control(*c)) {
        let message = format!("control character U+{:04X}", u32::from(c));
        return Err(error(
            Position::after(&text[..at]),
            &message,
            "remove it, or write it as an escape in double quotes",
        ));
    }
    Ok(text)
}

/// Returns the message for a file beyond its limit.
pub(crate) fn too_large(bytes: u64, limit: u64) -> String {
    format!("the file has {bytes} bytes, more than the {limit} that are read")
}
