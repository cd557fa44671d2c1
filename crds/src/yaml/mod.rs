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
/// Maximum number of keys and values of a file, without those that aliases add. Each takes many times the memory of a short text, so
/// that a file of [`MAX_API_BYTES`] could take gigabytes. GitHub's OpenAPI document has some 258,000 values.
pub const MAX_NODES: usize = 1 << 21;
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
    let text = utf8(file, bytes, limit)?;
    let json = |text| json::parse(file, text, MAX_NODES).map(|node| node.into_iter().collect());
    if name.to_ascii_lowercase().ends_with(".json") {
        // RFC 8259 forbids fewer control characters than YAML does.
        without_control(file, text, |c| c < ' ')?;
        return json(text);
    }
    match without_control(file, text, char::is_control) {
        Ok(()) => compose::parse(file, text, MAX_NODES),
        // JSON under a name of YAML: what YAML forbids and JSON does not.
        Err(finding) if text.trim_start().starts_with('{') && without_control(file, text, |c| c < ' ').is_ok() => {
            json(text).map_err(|_| finding)
        }
        Err(finding) => Err(finding),
    }
}

/// Parses the document of a JSON text, or returns `None` if it is only white space.
///
/// # Errors
/// One diagnostic, as for [`parse`].
pub(crate) fn parse_json(file: &Arc<str>, text: &str) -> Result<Option<Node>, Box<Diagnostic>> {
    json::parse(file, text, MAX_NODES)
}

/// Decodes UTF-8 without a byte order mark and without control characters.
pub(crate) fn decode<'a>(file: &Arc<str>, bytes: &'a [u8], limit: u64) -> Result<&'a str, Box<Diagnostic>> {
    let text = utf8(file, bytes, limit)?;
    without_control(file, text, char::is_control).map(|()| text)
}

fn utf8<'a>(file: &Arc<str>, bytes: &'a [u8], limit: u64) -> Result<&'a str, Box<Diagnostic>> {
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
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Checks that a text has no control characters of the forbidden ones, besides tabs and line breaks.
fn without_control(file: &Arc<str>, text: &str, is_forbidden: impl Fn(char) -> bool) -> Result<(), Box<Diagnostic>> {
    // YAML's scanner treats NUL as the end of the input, so the rest would be lost silently.
    let control = |c: char| is_forbidden(c) && !matches!(c, '\t' | '\n' | '\r' | '\u{85}');
    let Some((at, c)) = text.char_indices().find(|(_, c)| control(*c)) else { return Ok(()) };
    let message = format!("control character U+{:04X}", u32::from(c));
    let remedy = "remove it, or write it as an escape in double quotes";
    Err(Box::new(Diagnostic::error(file, Position::after(&text[..at]), "", message, remedy)))
}

/// Counts the keys and values of a file.
struct Nodes {
    count: usize,
    limit: usize,
}

impl Nodes {
    /// Counts one more, and returns the message and the remedy if there are too many.
    fn add(&mut self) -> Result<(), (String, &'static str)> {
        self.count += 1;
        if self.count <= self.limit {
            return Ok(());
        }
        let message = format!("the file has more than {} keys and values", self.limit);
        Err((message, "split it, or remove the parts that are not needed"))
    }
}

/// Returns the message for a file beyond its limit.
pub(crate) fn too_large(bytes: u64, limit: u64) -> String {
    format!("the file has {bytes} bytes, more than the {limit} that are read")
}
