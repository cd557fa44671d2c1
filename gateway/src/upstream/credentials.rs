//! Credentials from a folder or the environment, for `tamis serve`.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use std::{fs, io};

use tamis_config::names::CREDENTIAL_VARIABLES;
use tamis_config::{CredentialHandle, CredentialRef};

use super::local_callers::LocalCallers;
use super::{Credentials, Secret};
use crate::access::Callers;

/// Maximum size of a value. A larger file is not a credential.
const MAX_BYTES: u64 = 64 << 10;

/// Credentials of a standalone gateway: `<folder>/<name>/<key>`, as Kubernetes mounts Secrets, then the environment
/// variable `TAMIS_SECRET_<NAME>_<KEY>`. Namespaces are ignored.
///
/// Each call checks the file, and reads it again if it has changed. Callers come from the folder and from variables
/// `TAMIS_SECRET_<NAME>_<CALLER>`. The caller's name consists of letters and digits, so that no variable can belong to
/// two Secrets: `TAMIS_SECRET_A_B_ROBOT` is a caller of `a-b`, never of `a`.
#[derive(Debug)]
pub struct LocalCredentials {
    folder: Option<PathBuf>,
    environment: fn(&str) -> Option<String>,
    variables: fn() -> Vec<(String, String)>,
    files: Mutex<HashMap<CredentialRef, CachedFile>>,
    callers: LocalCallers,
}

#[derive(Debug)]
struct CachedFile {
    modified: SystemTime,
    length: u64,
    value: Secret,
}

impl LocalCredentials {
    /// Creates a store that reads from `folder`, if given, and from the environment.
    #[must_use]
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self {
            folder,
            environment: |name| std::env::var(name).ok(),
            variables: || {
                std::env::vars_os().filter_map(|(n, v)| n.into_string().ok().zip(v.into_string().ok())).collect()
            },
            files: Mutex::default(),
            callers: LocalCallers::default(),
        }
    }

    fn file(&self, credential: &CredentialRef) -> Option<Secret> {
        let folder = self.folder.as_deref()?;
        if !is_one_component(&credential.name) || !is_one_component(&credential.key) {
            return None;
        }
        let path = folder.join(&credential.name).join(&credential.key);
        let unreadable = |error: &io::Error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "credential cannot be read");
            }
        };
        self.read(credential, &path).inspect_err(unreadable).ok()
    }

    fn read(&self, credential: &CredentialRef, path: &Path) -> io::Result<Secret> {
        let metadata = fs::metadata(path)?;
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a file of at most 64 KiB"));
        }
        let (modified, length) = (metadata.modified()?, metadata.len());
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = files.get(credential).filter(|c| c.modified == modified && c.length == length) {
            return Ok(cached.value.clone());
        }
        let mut text = String::new();
        fs::File::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
        let value = Secret::new(&text);
        // A file could change again within the clock's granularity, so only one that is older is cached.
        if modified.elapsed().is_ok_and(|age| age.as_secs() >= 2) {
            files.insert(credential.clone(), CachedFile { modified, length, value: value.clone() });
        } else {
            files.remove(credential);
        }
        Ok(value)
    }
}

impl Credentials for LocalCredentials {
    fn get(&self, _namespace: &str, credential: &CredentialRef) -> Option<Secret> {
        let variable = || (self.environment)(&environment_variable(credential));
        self.file(credential).or_else(|| variable().map(|value| Secret::new(&value)))
    }

    /// Returns one caller for each file in `<folder>/<secret>/`, by its name, and for each variable. At most a second
    /// old.
    fn callers(&self, _: &str, secret: &str, handle: Option<&CredentialHandle>) -> Option<Arc<Callers>> {
        if handle.is_some() || !is_one_component(secret) {
            return None;
        }
        let folder = self.folder.as_deref().map(|folder| folder.join(secret));
        self.callers.get(secret, folder.as_deref(), || callers_of(secret, (self.variables)()))
    }
}

/// Returns `TAMIS_SECRET_<NAME>_<KEY>` in upper case, with `_` for every character that is not a letter or digit.
#[must_use]
pub fn environment_variable(credential: &CredentialRef) -> String {
    let mut name = String::from(CREDENTIAL_VARIABLES);
    name.extend(credential.name.chars().chain(['_']).chain(credential.key.chars()).map(|c| match c {
        c if c.is_ascii_alphanumeric() => c.to_ascii_uppercase(),
        _ => '_',
    }));
    name
}

/// Returns the callers of a Secret in environment variables: names in lower case, and values.
fn callers_of(secret: &str, variables: Vec<(String, String)>) -> Vec<(String, String)> {
    let prefix = environment_variable(&CredentialRef { name: secret.to_owned(), key: String::new() });
    let caller = |(name, value): (String, String)| {
        let caller = name.strip_prefix(&prefix)?;
        let plain = !caller.is_empty() && caller.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        plain.then(|| (caller.to_ascii_lowercase(), value))
    };
    let mut callers: Vec<_> = variables.into_iter().filter_map(caller).collect();
    callers.sort();
    callers
}

/// Returns whether a name is a single path component. Names come from documents and must not leave the folder.
fn is_one_component(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

#[cfg(test)]
#[path = "tests/credentials.rs"]
mod tests;
