//! Reading files and folders. The only module here that touches a file system.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::read::{ParsedFile, parse_document};
use crate::yaml::{MAX_FILE_BYTES, Position, too_large};
use crate::{Diagnostic, Resources};

/// Folders below a given one that are still searched.
const MAX_FOLDER_DEPTH: usize = 16;

/// What files say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loaded {
    /// All documents that are in order, those of broken files too: see [`ParsedFile::resources`].
    pub resources: Resources,
    /// What there is to say, by file and from top to bottom.
    pub diagnostics: Vec<Diagnostic>,
    /// Each file by itself, for [`crate::FolderState`].
    pub files: Vec<ParsedFile>,
}

/// Reads files, and folders with all their `*.yaml`, `*.yml` and `*.json` files, in the order of their names.
///
/// Hidden files, editors' temporary ones and the `..data` links of mounted ConfigMaps are left out; a file that is named
/// itself is read whatever its name.
#[must_use]
pub fn load(paths: &[PathBuf]) -> Loaded {
    let mut files = Vec::new();
    for path in paths {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => folder(path, 0, &mut files),
            Ok(_) => files.push(file(path)),
            Err(error) => files.push(unreadable(path, &error)),
        }
    }
    let mut loaded = Loaded::default();
    for file in &files {
        loaded.resources.extend(&file.resources);
        loaded.diagnostics.extend(file.diagnostics.iter().cloned());
    }
    loaded.files = files;
    loaded
}

/// Reads one file.
#[must_use]
pub fn file(path: &Path) -> ParsedFile {
    match read(path) {
        Ok(bytes) => parse_document(&path.to_string_lossy(), &bytes),
        Err(error) => unreadable(path, &error),
    }
}

/// Whether a folder's file with this name holds documents.
#[must_use]
pub fn is_document(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    !name.starts_with('.')
        && !name.starts_with('#')
        && !name.ends_with('~')
        && matches!(ending.as_deref(), Some("yaml" | "yml" | "json"))
}

fn folder(path: &Path, depth: usize, files: &mut Vec<ParsedFile>) {
    let mut entries: Vec<PathBuf> = match fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
        Ok(entries) => entries.into_iter().map(|entry| entry.path()).collect(),
        Err(error) => return files.push(unreadable(path, &error)),
    };
    entries.sort();
    for entry in entries {
        let name = entry.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Follows links: a mounted ConfigMap is made of them. What vanishes meanwhile was removed.
        match fs::metadata(&entry) {
            Ok(metadata) if metadata.is_dir() && !name.starts_with('.') => {
                if depth < MAX_FOLDER_DEPTH {
                    folder(&entry, depth + 1, files);
                } else {
                    let what = format!("folders are nested more than {MAX_FOLDER_DEPTH} deep, or a link leads back");
                    files.push(broken(&entry, what, "flatten them"));
                }
            }
            Ok(metadata) if metadata.is_file() && is_document(&name) => files.push(file(&entry)),
            Err(error) if error.kind() != io::ErrorKind::NotFound && is_document(&name) => {
                files.push(unreadable(&entry, &error));
            }
            _ => {}
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    let size = file.metadata()?.len();
    if size > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, too_large(size)));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // A pipe has no size, and a file may grow while it is read.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &io::Error) -> ParsedFile {
    match error.kind() {
        io::ErrorKind::FileTooLarge => broken(path, error.to_string(), "split it into several files"),
        io::ErrorKind::NotFound => broken(path, "there is no such file or folder", "check the path"),
        _ => broken(path, format!("cannot be read: {error}"), "check that it is a file and who may read it"),
    }
}

fn broken(path: &Path, message: impl Into<String>, remedy: &str) -> ParsedFile {
    let file: Arc<str> = path.to_string_lossy().into();
    let diagnostic = Diagnostic::error(&file, Position::START, "", message, remedy);
    ParsedFile::broken(file, diagnostic)
}
