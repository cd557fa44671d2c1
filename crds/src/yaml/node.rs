//! The tree.

use super::Scalar;

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Position {
    /// The first character of a file.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The place that follows `text`.
    pub(crate) fn after(text: &str) -> Self {
        let line = text.matches('\n').count();
        let column = text.rsplit('\n').next().map_or(0, |last| last.chars().count());
        Self { line: clamp(line + 1), column: clamp(column + 1) }
    }
}

/// Positions are `u32`: files are far below that ([`super::MAX_FILE_BYTES`]).
pub(super) fn clamp(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// One node of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it begins.
    pub position: Position,
    /// What it is.
    pub value: Value,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text, a number, a boolean or null.
    Scalar(Scalar),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file, keys unique.
    Map(Vec<Entry>),
}

/// How an entry's key was spelled, where the tree says something else.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Written {
    /// As the tree says.
    Same,
    /// With another name (`max_items`).
    As(Box<str>),
    /// Not at all: a level that the accepted document does not have (`spec`).
    Absent,
}

/// One member of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub(crate) key: Box<str>,
    /// Where the key stands.
    pub(crate) position: Position,
    /// How the author spelled it.
    pub(crate) written: Written,
    /// Whether the key was plain text that YAML 1.1 readers take for a boolean.
    pub(crate) boolean_for_kubectl: bool,
    /// The value.
    pub(crate) value: Node,
}

impl Entry {
    /// A level that the document does not have.
    pub(crate) fn absent(key: &str, value: Node) -> Self {
        Self { key: key.into(), position: value.position, written: Written::Absent, boolean_for_kubectl: false, value }
    }

    /// Gives the entry the name that the schema knows.
    pub(crate) fn rename(&mut self, key: &str) {
        let old = std::mem::replace(&mut self.key, key.into());
        if self.written == Written::Same {
            self.written = Written::As(old);
        }
    }

    /// The key as the author spelled it; none for a level that is not in the document.
    pub(crate) fn spelling(&self) -> Option<&str> {
        match &self.written {
            Written::Same => Some(&self.key),
            Written::As(name) => Some(name),
            Written::Absent => None,
        }
    }
}

impl Node {
    /// A text node of ours, at a place of the document.
    pub(crate) fn text(position: Position, text: impl Into<Box<str>>) -> Self {
        Self { position, value: Value::Scalar(Scalar::quoted(text)) }
    }

    /// A mapping of ours, at a place of the document.
    pub(crate) fn map(position: Position, entries: Vec<Entry>) -> Self {
        Self { position, value: Value::Map(entries) }
    }

    /// The entries of a mapping.
    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The entry of a mapping by key.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries()?.iter().find(|e| &*e.key == key)
    }

    /// The value of a mapping by key.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|e| &e.value)
    }

    /// The text of a scalar, whatever it resolves to.
    pub(crate) fn as_source(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) => Some(&scalar.source),
            _ => None,
        }
    }

    /// What the node is, in words.
    pub(crate) fn describe(&self) -> &'static str {
        match &self.value {
            Value::Scalar(scalar) => scalar.describe(),
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}
