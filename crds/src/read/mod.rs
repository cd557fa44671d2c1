//! Parses bytes to resources: the kind of document, its spelling, its shape and its types.

pub(crate) mod api;
mod check;
pub(crate) mod config_map;
mod document;
mod foreign;
mod head;
mod kimbap;
mod published;
mod schema;
mod shape;
mod spelling;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use tamis_config::Digest;

pub(crate) use check::is_secret_name;
pub use config_map::MAX_CONFIG_MAP_BYTES;
pub(crate) use foreign::notice;
pub use published::document_schema;
pub(crate) use shape::excerpt;

use crate::resources::{ApiDocument, ApiTree, ObjectName, Unusable};
use crate::yaml;
use crate::{Diagnostic, Resources};

/// The content of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedFile {
    /// The file, as the caller named it.
    pub file: Arc<str>,
    /// The valid documents. If [`ParsedFile::is_broken`], they only serve to find more errors.
    pub resources: Resources,
    /// The number of documents, including those of other APIs; 0 for an empty file and a foreign one.
    pub documents: usize,
    /// Whether the file has documents, none of which is meant for Tamis. [`crate::Loaded`] and [`crate::FolderState`] report all
    /// such files in one notice.
    pub foreign: bool,
    /// The findings.
    pub diagnostics: Vec<Diagnostic>,
    /// The content. Empty if it could not be read, and for an object of the Kubernetes API.
    pub source: Arc<[u8]>,
}

impl ParsedFile {
    /// Returns whether the file has an error, so that none of it can be used.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Creates a file that cannot be read, with nothing else known about it.
    pub(crate) fn broken(file: Arc<str>, diagnostic: Diagnostic) -> Self {
        let unusable = Unusable {
            kind: None,
            name: None,
            service: None,
            set: None,
            file: Arc::clone(&file),
            message: diagnostic.statement(),
        };
        let resources = Resources { unusable: vec![Arc::new(unusable)], ..Resources::default() };
        Self { file, resources, documents: 0, foreign: false, diagnostics: vec![diagnostic], source: Arc::default() }
    }
}

/// Parses the documents of one file. Pure: `file` is only a name, for messages and to distinguish JSON (`.json`) from YAML.
///
/// If there is an error, all documents of the file are in [`Resources::unusable`] too.
#[must_use]
pub fn parse_document(file: &str, bytes: &[u8]) -> ParsedFile {
    let file: Arc<str> = file.into();
    if api::is_by_name(&file) {
        let read = match api::parse(&file, bytes) {
            ApiDocument { file, tree: ApiTree::Parsed(Err(diagnostic)), .. } => ParsedFile::broken(file, *diagnostic),
            document => api::file(document),
        };
        return ParsedFile { source: bytes.into(), ..read };
    }
    let read = match yaml::parse(&file, bytes) {
        Ok(documents) => match api::only(documents) {
            Ok(document) => {
                let tree = ApiTree::Parsed(Ok(document));
                api::file(ApiDocument { file, digest: Digest::of(bytes), tree })
            }
            Err(documents) if foreign::is_foreign(&documents) => {
                ParsedFile { foreign: true, ..documents_of(file, Vec::new(), false) }
            }
            Err(documents) => documents_of(file, documents, false),
        },
        Err(diagnostic) => {
            let mut read = ParsedFile::broken(file, *diagnostic);
            // A group protects without being named, so note if the broken file may hold one.
            if contains(bytes, b"GatewayGroup") {
                let group =
                    |file: &Arc<Unusable>| Unusable { kind: Some("GatewayGroup".into()), ..Unusable::clone(file) };
                let groups: Vec<_> = read.resources.unusable.iter().map(group).map(Arc::new).collect();
                read.resources.unusable.extend(groups);
            }
            read
        }
    };
    ParsedFile { source: bytes.into(), ..read }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// Parses an object of the Kubernetes API. Its name in messages and in [`crate::Diagnostic::file`] is
/// `Kind namespace/name`. Unlike [`parse_document`], it reports unusable objects in [`Resources::unusable`] only.
#[must_use]
pub fn read_object(object: &serde_json::Value) -> ParsedFile {
    let text = |pointer: &str| object.pointer(pointer).and_then(serde_json::Value::as_str);
    let kind = text("/kind");
    let namespace = text("/metadata/namespace").unwrap_or_default().to_owned();
    let name = ObjectName { namespace, name: text("/metadata/name").unwrap_or_default().to_owned() };
    let file: Arc<str> = format!("{} {name}", kind.unwrap_or("object")).into();
    let mut read = match yaml::parse_json(&file, &object.to_string()) {
        Ok(document) => documents_of(Arc::clone(&file), document.into_iter().collect(), true),
        Err(diagnostic) => ParsedFile::broken(Arc::clone(&file), *diagnostic),
    };
    if read.is_broken() {
        let unusable = std::mem::take(&mut read.resources.unusable);
        // The API knows the kind and name of every object.
        let known = |document: &Arc<Unusable>| Unusable {
            kind: kind.map(str::to_owned),
            name: Some(name.clone()),
            ..Unusable::clone(document)
        };
        read.resources =
            Resources { unusable: unusable.iter().map(known).map(Arc::new).collect(), ..Resources::default() };
    }
    read
}

fn documents_of(file: Arc<str>, documents: Vec<yaml::Node>, is_object: bool) -> ParsedFile {
    let count = documents.len();
    let mut reader = document::Reader::new(&file, is_object);
    for document in documents {
        reader.read(document);
    }
    let (resources, mut diagnostics) = reader.finish();
    Diagnostic::sort(&mut diagnostics);
    ParsedFile { file, resources, documents: count, foreign: false, diagnostics, source: Arc::default() }
}
