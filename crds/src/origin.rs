//! The position of a resource's fields in its file.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::Diagnostic;
use crate::yaml::{Node, Position, Value};

/// The file and the tree of a resource. The tree uses the names of the schema; each entry remembers its author's spelling.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    pub(crate) file: Arc<str>,
    pub(crate) tree: Arc<Node>,
    /// Whether the source is an object of the Kubernetes API, which has no lines.
    pub(crate) is_object: bool,
}

/// The place of an entry of a mapping in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryPlace {
    /// The line of its key, from 1.
    pub line: u32,
    /// The column of its key in characters, from 1.
    pub column: u32,
    /// The line of the entry that follows in the same document, at whatever level. `None` if none follows.
    pub next: Option<u32>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// A path into a resource, from its root (`spec`, `filters`, ..).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct FieldPath(Vec<Step>);

impl FieldPath {
    /// Returns the path of the given member names below `spec`.
    pub(crate) fn spec<const N: usize>(keys: [&str; N]) -> Self {
        let steps = std::iter::once("spec").chain(keys);
        Self(steps.map(|key| Step::Key(key.to_owned())).collect())
    }

    #[must_use]
    pub(crate) fn key(&self, key: &str) -> Self {
        let mut path = self.clone();
        path.0.push(Step::Key(key.to_owned()));
        path
    }

    #[must_use]
    pub(crate) fn index(&self, index: usize) -> Self {
        let mut path = self.clone();
        path.0.push(Step::Index(index));
        path
    }

    /// Returns the path without its last step.
    #[must_use]
    pub(crate) fn parent(&self) -> Self {
        Self(self.0[..self.0.len().saturating_sub(1)].to_vec())
    }

    /// Appends a path as the engine writes it: `patches[2].path`, `select["a.b"]`.
    #[must_use]
    pub(crate) fn below(&self, mut text: &str) -> Self {
        let mut path = self.clone();
        while !text.is_empty() {
            text = text.strip_prefix('.').unwrap_or(text);
            if let Some(quoted) = text.strip_prefix('[').filter(|rest| rest.starts_with('"')) {
                let mut strings = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
                let Some(Ok(key)) = strings.next() else { break };
                let end = strings.byte_offset();
                path.0.push(Step::Key(key));
                text = quoted[end..].strip_prefix(']').unwrap_or("");
            } else if let Some((number, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                let Ok(index) = number.parse() else { break };
                path.0.push(Step::Index(index));
                text = rest;
            } else {
                let end = text.find(['.', '[']).unwrap_or(text.len());
                if end == 0 {
                    break;
                }
                path.0.push(Step::Key(text[..end].to_owned()));
                text = &text[end..];
            }
        }
        path
    }
}

impl Origin {
    /// Returns the file, as the caller named it.
    #[must_use]
    pub fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// Returns the place of the entry at a path of member names below `spec`, or `None` if it is not in the document.
    #[must_use]
    pub fn entry(&self, keys: &[&str]) -> Option<EntryPlace> {
        let (mut node, mut found) = (&*self.tree, None::<EntryPlace>);
        for key in std::iter::once(&"spec").chain(keys) {
            let entries = node.entries()?;
            let index = entries.iter().position(|entry| *entry.key == **key && entry.spelling() == Some(key))?;
            let Position { line, column } = entries[index].position;
            // An entry ends before its next sibling, or where the entry around it ends.
            let next = entries.get(index + 1).map(|entry| entry.position.line);
            found = Some(EntryPlace { line, column, next: next.or(found.and_then(|around| around.next)) });
            node = &entries[index].value;
        }
        found
    }

    /// Returns the origin of a resource that no document has: findings about it are reported at another place.
    pub(crate) fn nowhere() -> Self {
        let tree = Arc::new(Node { position: Position::START, value: Value::Map(Vec::new()) });
        Self { file: "".into(), tree, is_object: false }
    }

    /// Returns the same place without the tree: fields are then spelled as in the schema.
    pub(crate) fn bare(&self) -> Self {
        let Self { file, tree, is_object } = self;
        let tree = Arc::new(Node { position: tree.position, value: Value::Map(Vec::new()) });
        Self { file: Arc::clone(file), tree, is_object: *is_object }
    }

    /// Returns the file and line where the document begins, or kind and name of an object.
    pub(crate) fn place(&self) -> String {
        if self.is_object { self.file.to_string() } else { format!("{}:{}", self.file, self.tree.position.line) }
    }

    /// Returns whether a diagnostic concerns `spec.filters` of this document.
    #[must_use]
    pub fn is_filters_of(&self, diagnostic: &Diagnostic) -> bool {
        let (position, _) = self.locate(&FieldPath::spec(["filters"]));
        diagnostic.file == self.file && (diagnostic.line, diagnostic.column) == (position.line, position.column)
    }

    /// Returns the position of a field, and its path in the author's spelling. For an absent field, returns the position of the
    /// nearest level that exists.
    pub(crate) fn locate(&self, path: &FieldPath) -> (Position, String) {
        let mut node = Some(&*self.tree);
        let mut position = self.tree.position;
        let mut field = String::new();
        for step in &path.0 {
            match (step, node.map(|n| &n.value)) {
                (Step::Key(key), Some(Value::Map(entries))) => {
                    let entry = entries.iter().find(|e| *e.key == **key);
                    if let Some(entry) = entry {
                        position = entry.position;
                        if let Some(name) = entry.spelling() {
                            push_key(&mut field, name);
                        }
                    } else {
                        push_key(&mut field, key);
                    }
                    node = entry.map(|e| &e.value);
                }
                (Step::Index(index), Some(Value::List(items))) => {
                    node = items.get(*index);
                    position = node.map_or(position, |n| n.position);
                    push_index(&mut field, *index);
                }
                (Step::Key(key), _) => {
                    node = None;
                    push_key(&mut field, key);
                }
                (Step::Index(index), _) => {
                    node = None;
                    push_index(&mut field, *index);
                }
            }
        }
        (position, field)
    }

    pub(crate) fn error(&self, path: &FieldPath, message: impl Into<String>, remedy: impl Into<String>) -> Diagnostic {
        let (position, field) = self.locate(path);
        Diagnostic::error(&self.file, position, field, message, remedy)
    }

    pub(crate) fn warning(
        &self,
        path: &FieldPath,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Diagnostic {
        let (position, field) = self.locate(path);
        Diagnostic::warning(&self.file, position, field, message, remedy)
    }
}

/// Appends a member name: `.name`, or `["na.me"]` where it could be misread.
pub(crate) fn push_key(field: &mut String, key: &str) {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '$'));
    if plain {
        if !field.is_empty() {
            field.push('.');
        }
        field.push_str(key);
    } else {
        // A JSON string: quotes and line ends in a key cannot break the line that `validate` prints.
        let _ = write!(field, "[{}]", serde_json::Value::from(key));
    }
}

/// Appends an index.
pub(crate) fn push_index(field: &mut String, index: usize) {
    let _ = write!(field, "[{index}]");
}
