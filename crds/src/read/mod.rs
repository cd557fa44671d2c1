//! From bytes to resources: which document it is, its spelling, its shape, its types.

mod check;
mod document;
mod kimbap;
mod published;
mod schema;
mod shape;
mod spelling;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use published::document_schema;
pub(crate) use shape::excerpt;

use crate::resources::{ObjectName, Unusable};
use crate::yaml;
use crate::{Diagnostic, Resources};

/// What one file says.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedFile {
    /// The file, as the caller named it.
    pub file: Arc<str>,
    /// Its documents that are in order. Where [`ParsedFile::is_broken`], they are only good for finding more mistakes.
    pub resources: Resources,
    /// How many documents it holds, those of others included; none in an empty file.
    pub documents: usize,
    /// What there is to say about it.
    pub diagnostics: Vec<Diagnostic>,
}

impl ParsedFile {
    /// Whether something in the file is an error, so that none of it can be used.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// A file of which nothing is known but that it cannot be read.
    pub(crate) fn broken(file: Arc<str>, diagnostic: Diagnostic) -> Self {
        Self { file, resources: Resources::default(), documents: 0, diagnostics: vec![diagnostic] }
    }
}

/// Reads the documents of one file. Pure: `file` is only a name, for messages and to tell JSON (`.json`) from YAML.
#[must_use]
pub fn parse_document(file: &str, bytes: &[u8]) -> ParsedFile {
    let file: Arc<str> = file.into();
    let documents = match yaml::parse(&file, bytes) {
        Ok(documents) => documents,
        Err(diagnostic) => return ParsedFile::broken(file, *diagnostic),
    };
    let count = documents.len();
    let mut reader = document::Reader::new(&file);
    for document in documents {
        reader.read(document);
    }
    let (resources, mut diagnostics) = reader.finish();
    Diagnostic::sort(&mut diagnostics);
    ParsedFile { file, resources, documents: count, diagnostics }
}

/// Reads an object of the Kubernetes API. Its name in messages and in [`crate::Diagnostic::file`] is
/// `Kind namespace/name`. Like [`parse_document`], and what cannot be used is in [`Resources::unusable`].
#[must_use]
pub fn read_object(object: &serde_json::Value) -> ParsedFile {
    let text = |pointer: &str| object.pointer(pointer).and_then(serde_json::Value::as_str);
    let kind = text("/kind");
    let name = ObjectName {
        namespace: text("/metadata/namespace").unwrap_or_default().to_owned(),
        name: text("/metadata/name").unwrap_or_default().to_owned(),
    };
    let label = format!("{} {name}", kind.unwrap_or("object"));
    let mut read = parse_document(&label, object.to_string().as_bytes());
    let first_error = read.diagnostics.iter().find(|d| d.is_error()).map(|d| format!("{}: {}", d.field, d.message));
    if let Some(message) = first_error {
        let service = object.pointer("/spec/service").and_then(|s| serde_json::from_value(s.clone()).ok());
        read.resources = Resources::default();
        read.resources.unusable.push(Arc::new(Unusable {
            kind: kind.map(str::to_owned),
            name: Some(name),
            service,
            set: text("/spec/name").map(str::to_owned),
            file: Arc::clone(&read.file),
            message,
        }));
    }
    read
}
