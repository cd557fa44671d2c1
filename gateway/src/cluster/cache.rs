//! The last known good set on disk, for a start while the API server is unreachable.
//!
//! Each object has a file under its name, so the cost of a change does not grow with the number of objects. The file of
//! an exposition also holds its credentials, so an exposition is never served with another's. Only their owner can read
//! the files. They hold secrets in clear text, so the folder should be in memory (an `emptyDir` of `medium: Memory`).

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tamis_config::group_keys::GroupKeys;
use tamis_config::{CredentialHandle, Digest, GatewayConfigSpec};

use super::assemble::Object;
use crate::upstream::Secret;

/// Maximum size of a file. A file holds one API object and its credentials; the cache never writes a larger one.
const MAX_BYTES: u64 = 8 << 20;
const OWN_FOLDER: &str = "last-good";
const EXPOSITION: &str = "tamis-exposition-";
const SERVICE: &str = "tamis-service-";
const TOKEN: &str = "token";
const KEYS: &str = "keys";
/// Exists once everything has been written. An incomplete set must never be loaded.
const COMPLETE: &str = "complete";

/// The cache folder of one group's gateway.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    folder: PathBuf,
    /// The first line of each file, up to the digest.
    owner: String,
}

/// The content of an exposition's file.
#[derive(Serialize, Deserialize)]
struct Exposition {
    spec: GatewayConfigSpec,
    values: HashMap<CredentialHandle, String>,
}

/// The content of the cache.
#[derive(Default)]
pub(super) struct Recalled {
    pub(super) objects: Vec<Object>,
    pub(super) values: HashMap<CredentialHandle, Secret>,
    pub(super) token: Option<Secret>,
    pub(super) keys: Option<GroupKeys>,
    /// Files that could not be used, and why.
    pub(super) broken: Vec<String>,
}

impl Cache {
    /// Creates a subfolder of `folder` that only its owner can access. `folder` itself may be a volume with another
    /// owner.
    ///
    /// # Errors
    /// The subfolder cannot be created, or its permissions cannot be set.
    pub(super) fn open(folder: &Path, namespace: &str, group: &str) -> io::Result<Self> {
        let folder = folder.join(OWN_FOLDER);
        fs::create_dir_all(&folder)?;
        restrict(&folder)?;
        Ok(Self { folder, owner: format!("tamis-cache 1 {namespace}/{group} ") })
    }

    /// Reads every valid file. Returns none if no complete set was ever written.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn read(&self) -> io::Result<Option<Recalled>> {
        let mut recalled = Recalled::default();
        if !self.folder.join(COMPLETE).exists() {
            return Ok(None);
        }
        for name in self.names()? {
            if let Err(message) = self.read_one(&name, &mut recalled) {
                recalled.broken.push(format!("{name}: {message}"));
            }
        }
        Ok(Some(recalled))
    }

    fn read_one(&self, name: &str, recalled: &mut Recalled) -> Result<(), String> {
        if name == COMPLETE {
            return Ok(());
        }
        let body = self.body(name).map_err(|error| error.to_string())?;
        let json = |error: serde_json::Error| format!("has malformed content: {error}");
        let mut object = |spec| recalled.objects.push(Object { name: name.to_owned(), spec: Ok(Arc::new(spec)) });
        if name == TOKEN {
            recalled.token = Some(Secret::new(&String::from_utf8_lossy(&body)));
        } else if name == KEYS {
            let data: BTreeMap<String, String> = serde_json::from_slice(&body).map_err(json)?;
            recalled.keys = GroupKeys::read(|name| data.get(name).map(String::as_bytes));
        } else if name.starts_with(EXPOSITION) {
            let Exposition { spec, values } = serde_json::from_slice(&body).map_err(json)?;
            object(spec);
            recalled.values.extend(values.iter().map(|(handle, value)| (handle.clone(), Secret::new(value))));
        } else if name.starts_with(SERVICE) {
            object(serde_json::from_slice(&body).map_err(json)?);
        } else {
            return Err("was not written by this cache".to_owned());
        }
        Ok(())
    }

    fn body(&self, name: &str) -> io::Result<Vec<u8>> {
        let broken = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text);
        let mut bytes = Vec::new();
        File::open(self.folder.join(name))?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(broken("is too large"));
        }
        let rest = bytes.strip_prefix(self.owner.as_bytes()).ok_or_else(|| broken("belongs to another group"))?;
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(|| broken("is truncated"))?;
        let (digest, body) = (&rest[..end], &rest[end + 1..]);
        if Digest::of(body).0.as_bytes() != digest {
            return Err(broken("does not match its digest"));
        }
        Ok(body.to_owned())
    }

    /// Returns the names of all files, except those that a process left half-written.
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            if let Ok(name) = entry?.file_name().into_string()
                && !name.starts_with('.')
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Writes a file atomically. A file that already has this content is left alone.
    fn write(&self, name: &str, body: &[u8]) -> io::Result<()> {
        let mut content = format!("{}{}\n", self.owner, Digest::of(body)).into_bytes();
        content.extend_from_slice(body);
        let path = self.folder.join(name);
        if fs::read(&path).is_ok_and(|there| there == content) {
            return Ok(());
        }
        let fresh = self.folder.join(format!(".{name}"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&fresh)?;
        file.write_all(&content)?;
        file.sync_all()?;
        fs::rename(&fresh, &path)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Syncs the folder, so that renames and removals survive a crash.
    fn settle(&self) -> io::Result<()> {
        #[cfg(unix)]
        File::open(&self.folder)?.sync_all()?;
        Ok(())
    }
}

#[cfg(unix)]
fn restrict(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))
}

#[cfg(not(unix))]
fn restrict(_: &Path) -> io::Result<()> {
    Ok(())
}

/// A change of the set.
pub(super) enum Write {
    /// An exposition is served or stopped according to this object.
    Put {
        /// The object's name.
        name: String,
        /// The object.
        spec: Arc<GatewayConfigSpec>,
        /// The service's objects by name; empty for a stopped exposition.
        parts: Vec<(String, Arc<GatewayConfigSpec>)>,
        /// The credentials that it names.
        values: HashMap<CredentialHandle, Secret>,
    },
    /// An exposition was removed.
    Remove(String),
    /// The group's token; none if it was removed.
    Token(Option<Secret>),
    /// The group's keys; none if they were removed.
    Keys(Option<GroupKeys>),
    /// Every existing object has been put.
    Complete,
}

/// Writes changes to the cache. Changes are collected and written together; the last of several changes to one object
/// counts.
pub(super) struct CacheWriter {
    cache: Cache,
    pending: HashMap<String, Write>,
    token: Option<Option<Secret>>,
    keys: Option<Option<GroupKeys>>,
    completes: bool,
    /// The service parts that each exposition needs.
    needs: HashMap<String, Vec<String>>,
    /// The number of expositions that need a part.
    needed: HashMap<String, usize>,
}

impl CacheWriter {
    /// Creates a writer that has written nothing yet.
    pub(super) fn new(cache: Cache) -> Self {
        Self {
            cache,
            pending: HashMap::new(),
            token: None,
            keys: None,
            completes: false,
            needs: HashMap::new(),
            needed: HashMap::new(),
        }
    }

    /// Notes a change for the next [`CacheWriter::flush`].
    pub(super) fn note(&mut self, write: Write) {
        match write {
            Write::Put { ref name, .. } | Write::Remove(ref name) => {
                self.pending.insert(name.clone(), write);
            }
            Write::Token(token) => self.token = Some(token),
            Write::Keys(keys) => self.keys = Some(keys),
            Write::Complete => self.completes = true,
        }
    }

    /// Writes the noted changes: services before the expositions that name them, removals last.
    ///
    /// # Errors
    /// A file cannot be written. A noted change that was not written is missing from the folder until its object
    /// changes again, so the set is marked incomplete.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let written = self.write_all();
        if written.is_err() {
            self.completes = false;
            self.cache.remove(COMPLETE)?;
        }
        written
    }

    fn write_all(&mut self) -> io::Result<()> {
        match self.token.take() {
            Some(Some(token)) => self.cache.write(TOKEN, token.expose().as_bytes())?,
            Some(None) => self.cache.remove(TOKEN)?,
            None => {}
        }
        match self.keys.take() {
            Some(Some(keys)) => {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                let data: BTreeMap<_, _> = keys.data().into_iter().map(|(name, value)| (name, text(value))).collect();
                self.cache.write(KEYS, &serde_json::to_vec(&data)?)?;
            }
            Some(None) => self.cache.remove(KEYS)?,
            None => {}
        }
        let mut unneeded = Vec::new();
        let mut gone = Vec::new();
        for (name, write) in std::mem::take(&mut self.pending) {
            let mut needs = Vec::new();
            if let Write::Put { spec, parts, values, .. } = write {
                for (part, spec) in parts {
                    let users = self.needed.entry(part.clone()).or_default();
                    if *users == 0 {
                        self.cache.write(&part, &serde_json::to_vec(&*spec)?)?;
                    }
                    *users += 1;
                    needs.push(part);
                }
                let values = values.iter().map(|(handle, value)| (handle.clone(), value.expose().to_owned())).collect();
                let body = Exposition { spec: GatewayConfigSpec::clone(&spec), values };
                self.cache.write(&name, &serde_json::to_vec(&body)?)?;
                unneeded.extend(self.needs.insert(name, needs).unwrap_or_default());
            } else {
                unneeded.extend(self.needs.remove(&name).unwrap_or_default());
                gone.push(name);
            }
        }
        self.cache.settle()?;
        for name in gone {
            self.cache.remove(&name)?;
        }
        for part in unneeded {
            if let Some(users) = self.needed.get_mut(&part) {
                *users -= 1;
                if *users == 0 {
                    self.needed.remove(&part);
                    self.cache.remove(&part)?;
                }
            }
        }
        if std::mem::take(&mut self.completes) {
            self.complete()?;
        }
        self.cache.settle()
    }

    /// Removes files that an earlier process left, and marks the set complete.
    fn complete(&self) -> io::Result<()> {
        for name in self.cache.names()? {
            let is_object = name.starts_with(EXPOSITION) || name.starts_with(SERVICE);
            if is_object && !self.needs.contains_key(&name) && !self.needed.contains_key(&name) {
                self.cache.remove(&name)?;
            }
        }
        self.cache.write(COMPLETE, b"")
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
