//! Reads files and folders. No other module of this crate accesses the file system.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamis_config::Digest;

use crate::compile::proto_imports;
use crate::read::{ParsedFile, api, config_map, notice, parse_document};
use crate::resources::{ApiDocument, ApiTree};
use crate::yaml::{MAX_API_BYTES, MAX_FILE_BYTES, Position, too_large};
use crate::{Diagnostic, Resources};

/// .proto texts that one manifest may lead to.
const MAX_IMPORTS: usize = 1_000;
/// Maximum depth of nested folders.
const MAX_FOLDER_DEPTH: usize = 16;

/// The content of files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// All valid documents, including those of broken files: see [`ParsedFile::resources`].
    pub resources: Resources,
    /// The findings, by file and from top to bottom.
    pub diagnostics: Vec<Diagnostic>,
    /// Each file on its own, for [`crate::FolderState`].
    pub files: Vec<ParsedFile>,
}

/// Reads files, and folders with all their `*.yaml`, `*.yml`, `*.json`, `*.graphql`, `*.graphqls`, `*.gql`, `*.proto`, `*.binpb`,
/// `*.pb` and `*.desc` files, in the order of their names.
///
/// OpenAPI, GraphQL and gRPC documents that manifests name are read too, up to [`MAX_API_BYTES`].
///
/// Hidden files, temporary files of editors and the `..data` links of mounted ConfigMaps are skipped. A file that is named
/// itself is read whatever its name. A file that several paths lead to is read once, under the first path.
#[must_use]
pub fn load(paths: &[PathBuf]) -> Loaded {
    FolderReader::default().load(paths)
}

/// Reads files again and again. A large document of an API that has not changed since is not parsed again, unless something else about its
/// service has changed: it takes ten times the memory of its bytes while it is parsed.
#[derive(Debug, Default)]
pub struct FolderReader {
    /// The large documents that could be parsed, by file.
    known: HashMap<Arc<str>, Digest>,
}

/// Bytes of a document that is large.
const LARGE: usize = 64 << 10;

impl FolderReader {
    /// Reads as [`load`] does.
    pub fn load(&mut self, paths: &[PathBuf]) -> Loaded {
        let mut read = HashSet::new();
        let found = paths.iter().flat_map(|path| find(path));
        let files: Vec<ParsedFile> = found
            .filter_map(|found| match found {
                Found::Document(path) => {
                    // Without a canonical path, such as for a pipe, each is read.
                    let is_new = path.canonicalize().map_or(true, |path| read.insert(path));
                    is_new.then(|| self.file(&path))
                }
                Found::Unusable(file) => Some(*file),
            })
            .collect();
        let loaded = Loaded::of(with_imports(with_apis(files, &self.known)));
        // The bytes of a file that only a manifest leads to are not kept.
        let is_large = |file: &&ParsedFile| file.source.is_empty() || file.source.len() >= LARGE;
        let large = loaded.files.iter().filter(is_large).filter(|file| !file.is_broken());
        let apis = large.flat_map(|file| &file.resources.apis).filter(|api| api.is_readable());
        self.known = apis.map(|api| (Arc::clone(&api.file), api.digest.clone())).collect();
        loaded
    }

    fn file(&self, path: &Path) -> ParsedFile {
        match read(path, MAX_FILE_BYTES) {
            Ok(bytes) => {
                let file = path.to_string_lossy();
                unchanged(&file, &bytes, &self.known).unwrap_or_else(|| parse_document(&file, &bytes))
            }
            Err(error) => unreadable(path, &error),
        }
    }
}

/// Returns a file whose document is known.
fn unchanged(file: &str, bytes: &[u8], known: &HashMap<Arc<str>, Digest>) -> Option<ParsedFile> {
    let (file, digest) = known.get_key_value(file).filter(|(_, digest)| Digest::of(bytes) == **digest)?;
    let source: Arc<[u8]> = bytes.into();
    let tree = ApiTree::Known(Arc::clone(&source));
    let read = api::file(ApiDocument { file: Arc::clone(file), digest: digest.clone(), tree });
    Some(ParsedFile { source, ..read })
}

/// Reads the documents that manifests name and that were not read as such: the folder was not, they are larger than other
/// documents may be, or they have an error.
fn with_apis(mut files: Vec<ParsedFile>, known: &HashMap<Arc<str>, Digest>) -> Vec<ParsedFile> {
    for name in api::named(files.iter().map(|file| &file.resources)) {
        let index = files.iter().position(|file| *file.file == *name);
        if index.is_some_and(|index| !files[index].resources.apis.is_empty()) {
            continue;
        }
        let document = api_document(Path::new(&name), known);
        match index {
            // The file is valid, but no such document: the compile step says so.
            Some(index) if !files[index].is_broken() && !files[index].foreign => {
                files[index].resources.apis.push(document.into());
            }
            Some(index) => files[index] = api::file(document),
            None => files.push(api::file(document)),
        }
    }
    files
}

/// Reads the .proto texts that those of manifests import and that were not read yet.
fn with_imports(mut files: Vec<ParsedFile>) -> Vec<ParsedFile> {
    for (folder, root) in api::named_protos(files.iter().map(|file| &file.resources)) {
        let (mut open, mut seen) = (vec![root], HashSet::new());
        while let Some(file) = open.pop() {
            if seen.len() >= MAX_IMPORTS || !seen.insert(file.clone()) {
                continue;
            }
            let imports = files.iter().flat_map(|parsed| &parsed.resources.apis).find(|api| *api.file == *file);
            let imports = imports.and_then(|api| api.tree().ok()?.as_source().map(proto_imports));
            for import in imports.unwrap_or_default() {
                if !api::is_below(&import) {
                    continue;
                }
                let above = Path::new(&file).ancestors().skip(1).take_while(|above| above.starts_with(&folder));
                let candidates = above.map(|above| above.join(&import).to_string_lossy().into_owned());
                let found = candidates
                    .into_iter()
                    .find(|name| files.iter().any(|parsed| *parsed.file == **name) || Path::new(name).is_file());
                let Some(name) = found else { continue };
                if !files.iter().any(|parsed| *parsed.file == *name) {
                    files.push(api::file(api_document(Path::new(&name), &HashMap::new())));
                }
                open.push(name);
            }
        }
    }
    files
}

fn api_document(path: &Path, known: &HashMap<Arc<str>, Digest>) -> ApiDocument {
    match read(path, MAX_API_BYTES) {
        Ok(bytes) => {
            let file: Arc<str> = path.to_string_lossy().into();
            let digest = Digest::of(&bytes);
            let is_known = known.get(&file) == Some(&digest);
            let tree =
                if is_known { ApiTree::Known(bytes.into()) } else { ApiTree::Parsed(api::tree_of(&file, &bytes)) };
            ApiDocument { file, digest, tree }
        }
        Err(error) => {
            let ParsedFile { file, mut diagnostics, .. } = match error.kind() {
                io::ErrorKind::FileTooLarge => broken(path, error.to_string(), "prune it with `tamis import openapi`"),
                _ => unreadable(path, &error),
            };
            ApiDocument { file, digest: Digest::of(&[]), tree: ApiTree::Parsed(Err(Box::new(diagnostics.remove(0)))) }
        }
    }
}

impl Loaded {
    /// Combines files that were read on their own.
    #[must_use]
    pub fn of(files: Vec<ParsedFile>) -> Self {
        let mut loaded = Self::default();
        for file in &files {
            loaded.resources.extend(&file.resources);
            loaded.diagnostics.extend(file.diagnostics.iter().cloned());
        }
        loaded.diagnostics.extend(notice(&files));
        let named = api::named(std::iter::once(&loaded.resources));
        loaded.diagnostics.extend(api::unnamed(files.iter(), &named));
        loaded.diagnostics.extend(config_map::notices(&loaded.resources));
        loaded.files = files;
        loaded
    }
}

/// Reads one file.
#[must_use]
pub fn file(path: &Path) -> ParsedFile {
    FolderReader::default().file(path)
}

/// Returns whether a folder's file with this name holds documents.
#[must_use]
pub fn is_document(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    !name.starts_with('.')
        && !name.starts_with('#')
        && !name.ends_with('~')
        && (matches!(ending.as_deref(), Some("yaml" | "yml" | "json")) || api::is_by_name(name))
}

/// Returns the files that [`load`] would read, without reading them.
#[must_use]
pub fn documents(path: &Path) -> Vec<PathBuf> {
    let found = find(path).into_iter();
    found
        .filter_map(|found| match found {
            Found::Document(path) => Some(path),
            Found::Unusable(_) => None,
        })
        .collect()
}

enum Found {
    Document(PathBuf),
    /// A finding in place of the file.
    Unusable(Box<ParsedFile>),
}

fn find(path: &Path) -> Vec<Found> {
    let mut found = Vec::new();
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => folder(path, &mut Vec::new(), &mut found),
        Ok(metadata) if may_be_read(path, &metadata) => found.push(Found::Document(path.to_owned())),
        Ok(_) => {
            let said = broken(path, "is neither a file nor a folder", "name a file, a folder, or /dev/stdin");
            found.push(Found::Unusable(Box::new(said)));
        }
        Err(error) => found.push(Found::Unusable(Box::new(unreadable(path, &error)))),
    }
    found
}

/// Returns whether reading a path cannot block: reading a pipe without a writer would. Pipes that a shell makes have one.
fn may_be_read(path: &Path, metadata: &fs::Metadata) -> bool {
    metadata.is_file() || ["/dev/stdin", "/dev/fd", "/proc/self/fd"].iter().any(|of_shells| path.starts_with(of_shells))
}

/// `within`: the canonical paths of the folders that lead here.
fn folder(path: &Path, within: &mut Vec<PathBuf>, found: &mut Vec<Found>) {
    let read = || Ok((path.canonicalize()?, fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?));
    let (own, entries) = match read() {
        Ok(read) => read,
        Err(error) => return found.push(Found::Unusable(Box::new(unreadable(path, &error)))),
    };
    let mut refuse = |what: &str, remedy| found.push(Found::Unusable(Box::new(broken(path, what, remedy))));
    if within.contains(&own) {
        return refuse("a link leads back to a folder above it", "remove the link");
    }
    if within.len() > MAX_FOLDER_DEPTH {
        return refuse(&format!("folders are nested more than {MAX_FOLDER_DEPTH} deep"), "flatten them");
    }
    within.push(own);
    let mut entries: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    entries.sort();
    for entry in entries {
        let name = entry.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Follows links, because a mounted ConfigMap consists of links. A file that vanishes in the meantime was removed.
        match fs::metadata(&entry) {
            Ok(metadata) if metadata.is_dir() && !name.starts_with('.') => folder(&entry, within, found),
            Ok(metadata) if metadata.is_file() && is_document(&name) => found.push(Found::Document(entry)),
            Ok(metadata) if !metadata.is_dir() && is_document(&name) => {
                let said = broken(&entry, "is a pipe, a socket or a device, not a file", "move it elsewhere");
                found.push(Found::Unusable(Box::new(said)));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound && is_document(&name) => {
                found.push(Found::Unusable(Box::new(unreadable(&entry, &error))));
            }
            _ => {}
        }
    }
    within.pop();
}

fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if !may_be_read(path, &metadata) {
        return Err(io::Error::other("it is not a file"));
    }
    let size = metadata.len();
    if size > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, too_large(size, limit)));
    }
    let file = fs::File::open(path)?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // A pipe has no size, and a file may grow while it is read.
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> ParsedFile {
    match error.kind() {
        io::ErrorKind::FileTooLarge => broken(path, error.to_string(), "split it into several files"),
        io::ErrorKind::NotFound => broken(path, "no such file or folder", "check the path"),
        _ => broken(path, format!("cannot be read: {error}"), "check that it is a file, and check its permissions"),
    }
}

fn broken(path: &Path, message: impl Into<String>, remedy: &str) -> ParsedFile {
    let file: Arc<str> = path.to_string_lossy().into();
    let diagnostic = Diagnostic::error(&file, Position::START, "", message, remedy);
    ParsedFile::broken(file, diagnostic)
}

#[cfg(test)]
mod tests;
