//! Callers from a folder: `<folder>/<secret>/<caller>`, as Kubernetes mounts a Secret of them.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io};

use crate::access::{Callers, MAX_CALLERS};

/// An entry is 71 bytes long; what is longer than this is some other file.
const MAX_BYTES: u64 = 256;
/// How old an answer may be: a folder is checked at no more often.
const CACHE_TIME: Duration = Duration::from_secs(1);
/// A file that changed within the clock's granularity is read again.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Callers by the name of their Secret, read again when a file has changed.
#[derive(Debug, Default)]
pub(super) struct LocalCallers(Mutex<HashMap<Box<str>, Cached>>);

#[derive(Debug)]
struct Cached {
    checked: Instant,
    /// What the files checked like, where none may change unseen.
    files: Option<Vec<File>>,
    callers: Option<Arc<Callers>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    name: String,
    modified: SystemTime,
    length: u64,
    identity: (u64, i64, i64),
}

/// Two entries have one length, and a file that is moved into place keeps its time.
#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> (u64, i64, i64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> (u64, i64, i64) {
    (0, 0, 0)
}

impl LocalCallers {
    /// The callers of `secret`: the files in `folder`, and `variables` beside them. None where there is neither.
    pub(super) fn get(
        &self,
        secret: &str,
        folder: Option<&Path>,
        variables: impl FnOnce() -> Vec<(String, String)>,
    ) -> Option<Arc<Callers>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = all.get(secret).filter(|cached| cached.checked.elapsed() < CACHE_TIME) {
            return cached.callers.clone();
        }
        // The environment of a process stays as it is.
        let variables = variables();
        // Whoever was let in is not, from now on.
        let mut admit_none =
            || drop(all.insert(secret.into(), Cached { checked: Instant::now(), files: None, callers: None }));
        let files = match folder.map(|folder| list_files(folder).map_err(|error| (folder, error))) {
            Some(Ok(files)) => files,
            Some(Err((_, error))) if error.kind() == io::ErrorKind::NotFound && !variables.is_empty() => Vec::new(),
            Some(Err((folder, error))) => {
                tracing::warn!(secret, folder = %folder.display(), %error, "callers cannot be read");
                admit_none();
                return None;
            }
            None if variables.is_empty() => {
                admit_none();
                return None;
            }
            None => Vec::new(),
        };
        let now = SystemTime::now();
        let settled = files.iter().all(|file| now.duration_since(file.modified).is_ok_and(|age| age >= SETTLED_AFTER));
        if let Some(cached) = all.get_mut(secret).filter(|cached| cached.files.as_ref() == Some(&files)) {
            cached.checked = Instant::now();
            return cached.callers.clone();
        }
        let callers = read(secret, folder, &files, variables);
        let cached = Cached { checked: Instant::now(), files: settled.then_some(files), callers: callers.clone() };
        all.insert(secret.into(), cached);
        callers
    }
}

/// The files of a folder in the order of their names. Hidden ones are how Kubernetes swaps them.
fn list_files(folder: &Path) -> io::Result<Vec<File>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        // By its path: a mounted file is a link.
        let metadata = match fs::metadata(entry.path()) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if !metadata.is_file() {
            continue;
        }
        if files.len() == MAX_CALLERS {
            return Err(io::Error::other(format!("more than {MAX_CALLERS} callers")));
        }
        let (modified, identity) = (metadata.modified()?, identity(&metadata));
        files.push(File { name, modified, length: metadata.len(), identity });
    }
    files.sort();
    Ok(files)
}

fn read(secret: &str, folder: Option<&Path>, files: &[File], variables: Vec<(String, String)>) -> Option<Arc<Callers>> {
    let entries = files.iter().map(|file| {
        let mut text = String::new();
        let path = folder.unwrap_or(Path::new("")).join(&file.name);
        let read = fs::File::open(path).and_then(|f| f.take(MAX_BYTES).read_to_string(&mut text));
        // What cannot be read is no entry, which is said with its name.
        if read.is_err() || file.length >= MAX_BYTES {
            text.clear();
        }
        (file.name.clone(), text)
    });
    match Callers::new(secret, entries.chain(variables)) {
        Ok(callers) => Some(Arc::new(callers)),
        Err(error) => {
            tracing::error!(secret, %error, "callers cannot be used");
            None
        }
    }
}

#[cfg(test)]
#[path = "tests/local_callers.rs"]
mod tests;
