//! Descriptors of .proto texts, or of a descriptor set.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use prost::Message as _;
use prost_reflect::DescriptorPool;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

use super::super::DocumentAt;
use super::http::{Verb, verbs};
use super::text::{Text, line_column};
use crate::Diagnostic;
use crate::read::excerpt;
use crate::yaml::Value;

/// Files of one service, imports included.
const MAX_FILES: usize = 1_000;
/// Bytes of all files.
const MAX_BYTES: usize = 16 << 20;
/// How deep imports lead to imports.
const MAX_IMPORTS: usize = 64;
/// The remedy for a descriptor set that cannot be read.
const WHOLE: &str = "write the set with `protoc --include_imports --include_source_info --descriptor_set_out`";

/// Where descriptors come from.
#[derive(Debug, Clone)]
pub(crate) enum Source<'n> {
    /// .proto texts.
    Texts {
        /// The texts whose methods may become tools.
        roots: Vec<Text<'n>>,
        /// All texts: imports are among them.
        all: Vec<Text<'n>>,
    },
    /// A descriptor set, in base64.
    Set(DocumentAt<'n>),
}

/// The descriptors of a service.
#[derive(Debug)]
pub(crate) struct Descriptors<'n> {
    pub(super) pool: DescriptorPool,
    /// The names of the files whose methods may become tools, in the pool.
    pub(super) roots: Vec<String>,
    /// The HTTP method that `google.api.http` gives a method of the texts, by its full name.
    pub(super) verbs: HashMap<String, Verb>,
    /// The texts, by their names in the pool.
    texts: HashMap<String, Text<'n>>,
    /// The set, if there are no texts.
    set: Option<DocumentAt<'n>>,
}

impl Descriptors<'_> {
    /// Reports a mistake in a file. `at`: line and column, from 0.
    pub(super) fn error(&self, file: &str, at: Option<(usize, usize)>, message: String, remedy: &str) -> Diagnostic {
        match (self.texts.get(file), self.set) {
            (Some(text), _) => text.error(at, message, remedy),
            (None, Some(DocumentAt { file, field, node })) => {
                Diagnostic::error(file, node.position, field, message, remedy)
            }
            (None, None) => self.texts.values().next().map_or_else(
                || Diagnostic::error(&"".into(), crate::yaml::Position::START, "", &message, remedy),
                |text| text.error(None, &message, remedy),
            ),
        }
    }

    /// Reports what works otherwise than its author may expect.
    pub(super) fn warning(&self, file: &str, at: Option<(usize, usize)>, message: String, remedy: &str) -> Diagnostic {
        match self.texts.get(file) {
            Some(text) => text.warning(at, message, remedy),
            None => {
                let error = self.error(file, None, message, remedy);
                Diagnostic { severity: crate::diagnostic::Severity::Warning, ..error }
            }
        }
    }
}

/// Reads the descriptors of a manifest.
///
/// # Errors
/// The first mistake.
pub(super) fn read(source: Source<'_>) -> Result<Descriptors<'_>, Box<Diagnostic>> {
    match source {
        Source::Texts { roots, all } => texts(&roots, &all),
        Source::Set(document) => set(document).map_err(|(message, remedy)| {
            let DocumentAt { file, field, node } = document;
            Box::new(Diagnostic::error(file, node.position, field, message, remedy))
        }),
    }
}

fn texts<'n>(roots: &[Text<'n>], all: &[Text<'n>]) -> Result<Descriptors<'n>, Box<Diagnostic>> {
    let mut reader = Reader {
        all,
        pool: DescriptorPool::new(),
        texts: HashMap::new(),
        verbs: HashMap::new(),
        within: Vec::new(),
        bytes: 0,
    };
    for root in roots {
        reader.add(root)?;
    }
    let Reader { pool, texts, verbs, .. } = reader;
    let mut roots: Vec<String> = roots.iter().map(|root| root.name.clone()).collect();
    // A file that imports others publicly stands for them.
    let mut next = 0;
    while let Some(file) = roots.get(next).and_then(|root| pool.get_file_by_name(root)) {
        for public in file.public_dependencies() {
            if !roots.iter().any(|root| root == public.name()) {
                roots.push(public.name().to_owned());
            }
        }
        next += 1;
    }
    Ok(Descriptors { pool, roots, verbs, texts, set: None })
}

/// Adds texts to a pool, each after those that it imports.
struct Reader<'n, 'a> {
    all: &'a [Text<'n>],
    pool: DescriptorPool,
    verbs: HashMap<String, Verb>,
    texts: HashMap<String, Text<'n>>,
    /// The names of the texts that are being read.
    within: Vec<String>,
    bytes: usize,
}

impl<'n> Reader<'n, '_> {
    fn add(&mut self, text: &Text<'n>) -> Result<(), Box<Diagnostic>> {
        if self.texts.contains_key(&text.name) {
            return Ok(());
        }
        let source = text.source()?;
        self.bytes += source.len();
        if self.texts.len() >= MAX_FILES || self.bytes > MAX_BYTES {
            let message = format!("more than {MAX_FILES} files, or {} MiB of them, are imported", MAX_BYTES >> 20);
            return Err(text.error(None, message, "prune them with `tamis import grpc`").into());
        }
        self.texts.insert(text.name.clone(), text.clone());
        let parsed = protox_parse::parse(&text.name, source).map_err(|error| {
            let at = error.span().map(|span| line_column(source, span.start));
            Box::new(text.error(at, error.to_string(), "correct the text"))
        })?;
        self.within.push(text.name.clone());
        for (index, import) in parsed.dependency.iter().enumerate() {
            let at = || imported_at(&parsed, index);
            if let Some(cycle) = self.within.iter().position(|name| name == import) {
                let message = format!("`{import}` leads back to itself: {}", self.within[cycle..].join(", "));
                return Err(text.error(at(), message, "remove one of the imports").into());
            }
            if self.within.len() > MAX_IMPORTS {
                let message = format!("imports lead to imports more than {MAX_IMPORTS} deep");
                return Err(text.error(at(), message, "import the files directly").into());
            }
            self.import(text, import).map_err(|error| error.unwrap_or_else(|| missing(text, import, at()).into()))?;
        }
        self.within.pop();
        self.verbs.extend(verbs(&parsed));
        self.pool.add_file_descriptor_proto(parsed).map_err(|error| {
            let at = error.line().zip(error.column());
            let remedy = "correct the text, or the file that it imports";
            Box::new(text.error(at, error.to_string(), remedy))
        })
    }

    /// Adds an import. No error in place of a finding: it is not there.
    fn import(&mut self, text: &Text<'n>, import: &str) -> Result<(), Option<Box<Diagnostic>>> {
        if self.pool.get_file_by_name(import).is_some() {
            return Ok(());
        }
        if let Some(found) = found(self.all, text, import) {
            return self.add(&found).map_err(Some);
        }
        let known = DescriptorPool::global();
        let file = known.get_file_by_name(import).filter(|_| import.starts_with("google/protobuf/")).ok_or(None)?;
        // The files of the global pool import each other.
        for dependency in file.dependencies() {
            self.import(text, dependency.name())?;
        }
        self.pool.add_file_descriptor_proto(file.file_descriptor_proto().clone()).map_err(|_| None)
    }
}

/// Returns the text that an import names. For files, the path begins in the folder of the file that imports, or in one above it. A key
/// of a ConfigMap has `.` in place of each `/`.
fn found<'n>(all: &[Text<'n>], text: &Text<'n>, import: &str) -> Option<Text<'n>> {
    let named = |path: &str| {
        let found = all.iter().find(|text| text.path == path)?;
        Some(Text { name: import.to_owned(), ..found.clone() })
    };
    if text.is_key {
        return named(&key(import));
    }
    if !text.document.field.is_empty() {
        return named(import);
    }
    let mut folder = text.path;
    loop {
        let Some((above, _)) = folder.rsplit_once('/') else { return named(import) };
        if let Some(found) = named(&format!("{above}/{import}")) {
            return Some(found);
        }
        folder = above;
    }
}

fn missing(text: &Text<'_>, import: &str, at: Option<(usize, usize)>) -> Diagnostic {
    let message = format!("imports `{}`, which is not there", excerpt(import));
    if text.is_key {
        return text.error(at, message, &format!("add it to the ConfigMap under the key `{}`", excerpt(&key(import))));
    }
    let remedy = if text.document.field.is_empty() {
        "save it below the manifest's folder, at that path from the file that imports it or from a folder above"
    } else {
        "add it to `inline` under that path"
    };
    text.error(at, message, remedy)
}

/// Returns the key of a ConfigMap for an imported file.
fn key(import: &str) -> String {
    import.replace('/', ".")
}

/// Returns where a file imports another one.
fn imported_at(file: &FileDescriptorProto, index: usize) -> Option<(usize, usize)> {
    let index = i32::try_from(index).ok()?;
    at(file, &[3, index])
}

/// Returns where something is in its file, by its path in the descriptor.
pub(super) fn at(file: &FileDescriptorProto, path: &[i32]) -> Option<(usize, usize)> {
    let location = file.source_code_info.as_ref()?.location.iter().find(|location| location.path == path)?;
    let number = |index: usize| usize::try_from(*location.span.get(index)?).ok();
    number(0).zip(number(1))
}

fn set(document: DocumentAt<'_>) -> Result<Descriptors<'_>, (String, &'static str)> {
    let Value::Scalar(scalar) = &document.node.value else {
        return Err(("is no descriptor set".to_owned(), WHOLE));
    };
    let bytes = BASE64_STANDARD.decode(scalar.source.as_bytes());
    let bytes = bytes.map_err(|_| ("is no descriptor set".to_owned(), WHOLE))?;
    if bytes.len() > MAX_BYTES {
        let message = format!("has {} bytes, more than the limit of {MAX_BYTES}", bytes.len());
        return Err((message, "prune it with `tamis import grpc`"));
    }
    let read = FileDescriptorSet::decode(bytes.as_slice());
    let read = read.map_err(|error| (format!("is no descriptor set, or not a whole one: {error}"), WHOLE))?;
    if read.file.len() > MAX_FILES {
        let message = format!("has {} files, more than the limit of {MAX_FILES}", read.file.len());
        return Err((message, "prune it with `tamis import grpc`"));
    }
    if read.file.is_empty() {
        return Err(("has no files".to_owned(), WHOLE));
    }
    let roots = read.file.iter().map(|file| file.name().to_owned()).collect();
    // From the bytes, so that options that are extensions are kept.
    let pool = DescriptorPool::decode(bytes.as_slice());
    let pool = pool.map_err(|error| (format!("is not valid: {error}"), WHOLE))?;
    Ok(Descriptors { pool, roots, verbs: HashMap::new(), texts: HashMap::new(), set: Some(document) })
}
