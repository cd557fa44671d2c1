//! Parses JSON with positions: RFC 8259, without duplicate keys, with the digits as written.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Entry, MAX_DEPTH, Node, Nodes, Position, Resolved, Scalar, Value, Written};
use crate::Diagnostic;

type Result<T> = std::result::Result<T, Box<Diagnostic>>;

/// Returns the document of a JSON file, or `None` if the file contains only white space. `limit`: the most keys and values.
pub(super) fn parse(file: &Arc<str>, text: &str, limit: usize) -> Result<Option<Node>> {
    let mut reader = Reader { file, rest: text, position: Position::START, nodes: Nodes { count: 0, limit } };
    reader.space();
    if reader.rest.is_empty() {
        return Ok(None);
    }
    let node = reader.node(0)?;
    reader.space();
    if reader.rest.is_empty() {
        Ok(Some(node))
    } else {
        Err(reader.error("unexpected content after the document", "put each document into its own file, or use YAML"))
    }
}

struct Reader<'a> {
    file: &'a Arc<str>,
    rest: &'a str,
    position: Position,
    nodes: Nodes,
}

impl<'a> Reader<'a> {
    fn node(&mut self, depth: usize) -> Result<Node> {
        if depth > MAX_DEPTH {
            return Err(self.error(format!("nested more than {MAX_DEPTH} deep"), "flatten the document"));
        }
        self.count()?;
        let position = self.position;
        let value = match self.rest.chars().next() {
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"') => Value::Scalar(Scalar::quoted(self.string()?)),
            _ => Value::Scalar(self.literal()?),
        };
        Ok(Node { position, value })
    }

    fn count(&mut self) -> Result<()> {
        self.nodes.add().map_err(|(message, remedy)| self.error(message, remedy))
    }

    fn object(&mut self, depth: usize) -> Result<Value> {
        let mut entries = Vec::new();
        let mut seen: HashMap<Box<str>, Position> = HashMap::new();
        self.open();
        while !self.close('}', entries.is_empty())? {
            let position = self.position;
            if !self.rest.starts_with('"') {
                self.more()?;
                return Err(self.error("expected a key in double quotes", "write one, or remove the comma before it"));
            }
            self.count()?;
            let key: Box<str> = self.string()?.into();
            if let Some(first) = seen.insert(key.clone(), position) {
                let message = format!("key `{key}` occurs twice, first in line {}", first.line);
                return Err(Box::new(Diagnostic::error(self.file, position, "", message, "remove one of them")));
            }
            self.space();
            if !self.rest.starts_with(':') {
                self.more()?;
                return Err(self.error("a colon is missing", "write `:` between key and value"));
            }
            self.skip(1);
            self.space();
            let value = self.node(depth + 1)?;
            entries.push(Entry { key, position, written: Written::Same, boolean_for_kubectl: false, value });
        }
        entries.shrink_to_fit();
        Ok(Value::Map(entries))
    }

    fn array(&mut self, depth: usize) -> Result<Value> {
        let mut items = Vec::new();
        self.open();
        while !self.close(']', items.is_empty())? {
            items.push(self.node(depth + 1)?);
        }
        items.shrink_to_fit();
        Ok(Value::List(items))
    }

    fn open(&mut self) {
        self.skip(1);
        self.space();
    }

    /// Returns whether the collection ends here; otherwise its next member begins here.
    fn close(&mut self, bracket: char, first: bool) -> Result<bool> {
        self.space();
        if self.rest.starts_with(bracket) {
            self.skip(1);
            return Ok(true);
        }
        if !first {
            if !self.rest.starts_with(',') {
                self.more()?;
                return Err(self.error(format!("`,` or `{bracket}` is missing"), "write it"));
            }
            self.skip(1);
            self.space();
        }
        Ok(false)
    }

    fn string(&mut self) -> Result<String> {
        let mut escaped = false;
        let end = self.rest[1..].find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends || c == '\n'
        });
        let Some(end) = end.filter(|end| self.rest.as_bytes()[end + 1] == b'"') else {
            return Err(
                self.error("the string is not closed", "add the closing double quote, and write \\n for a line break")
            );
        };
        let literal = &self.rest[..end + 2];
        let text = serde_json::from_str(literal)
            .map_err(|_| self.error("unknown escape", "use \\\" \\\\ \\/ \\b \\f \\n \\r \\t or \\uXXXX"))?;
        self.skip(literal.len());
        Ok(text)
    }

    /// Checks that the text does not end here.
    fn more(&self) -> Result<()> {
        if self.rest.is_empty() { Err(self.error("unexpected end of file", "complete the document")) } else { Ok(()) }
    }

    fn literal(&mut self) -> Result<Scalar> {
        self.more()?;
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')))
            .unwrap_or(self.rest.len());
        let source = &self.rest[..end];
        let resolved = match source {
            "null" => Resolved::Null,
            "true" => Resolved::Bool(true),
            "false" => Resolved::Bool(false),
            _ if serde_json::from_str::<&serde_json::value::RawValue>(source).is_ok() => {
                Resolved::Number(source.into())
            }
            _ => return Err(self.error("expected a JSON value", "write strings in double quotes")),
        };
        self.skip(end);
        Ok(Scalar { source: source.into(), resolved, plain: true, literal: false })
    }

    fn space(&mut self) {
        let trimmed = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.skip(self.rest.len() - trimmed.len());
    }

    fn skip(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        let moved = Position::after(passed);
        self.position = Position {
            line: self.position.line + moved.line - 1,
            column: if moved.line == 1 { self.position.column + moved.column - 1 } else { moved.column },
        };
        self.rest = rest;
    }

    fn error(&self, message: impl Into<String>, remedy: &str) -> Box<Diagnostic> {
        Box::new(Diagnostic::error(self.file, self.position, "", message, remedy))
    }
}
