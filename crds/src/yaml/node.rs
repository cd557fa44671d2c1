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

    /// Returns the position behind `text`.
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
    /// The position of its first character.
    pub position: Position,
    /// The value.
    pub value: Value,
}

/// The value of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text, a number, a boolean or null.
    Scalar(Scalar),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order of the file, with unique keys.
    Map(Vec<Entry>),
}

/// How the author spelled the key of an entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Written {
    /// Like the key in the tree.
    Same,
    /// By another name (`max_items`).
    As(Box<str>),
    /// Not at all: the document does not have this level (`spec`).
    Absent,
}

/// One member of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub(crate) key: Box<str>,
    /// The position of the key.
    pub(crate) position: Position,
    /// How the author spelled it.
    pub(crate) written: Written,
    /// Whether the key was plain text that YAML 1.1 readers treat as a boolean.
    pub(crate) boolean_for_kubectl: bool,
    /// The value.
    pub(crate) value: Node,
}

impl Entry {
    /// Returns an entry for a level that the document does not have.
    pub(crate) fn absent(key: &str, value: Node) -> Self {
        Self { key: key.into(), position: value.position, written: Written::Absent, boolean_for_kubectl: false, value }
    }

    /// Renames the entry to the name in the schema.
    pub(crate) fn rename(&mut self, key: &str) {
        let old = std::mem::replace(&mut self.key, key.into());
        if self.written == Written::Same {
            self.written = Written::As(old);
        }
    }

    /// Returns the key as the author spelled it, or `None` for a level that is not in the document.
    pub(crate) fn spelling(&self) -> Option<&str> {
        match &self.written {
            Written::Same => Some(&self.key),
            Written::As(name) => Some(name),
            Written::Absent => None,
        }
    }
}

impl Node {
    /// Creates a text node at a position of the document.
    pub(crate) fn text(position: Position, text: impl Into<Box<str>>) -> Self {
        Self { position, value: Value::Scalar(Scalar::quoted(text)) }
    }

    /// Creates a mapping at a position of the document.
    pub(crate) fn map(position: Position, entries: Vec<Entry>) -> Self {
        Self { position, value: Value::Map(entries) }
    }

    /// Returns the entries of a mapping.
    pub(crate) fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the entry of a mapping with the given key.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries()?.iter().find(|e| &*e.key == key)
    }

    /// Returns the value of a mapping with the given key.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|e| &e.value)
    }

    /// Returns the text of a scalar, whatever it resolves to.
    pub(crate) fn as_source(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) => Some(&scalar.source),
            _ => None,
        }
    }

    /// Returns the word for the kind of the node.
    pub(crate) fn describe(&self) -> &'static str {
        match &self.value {
            Value::Scalar(scalar) => scalar.describe(),
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}
