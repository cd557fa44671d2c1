//! Access to a client's file, which belongs to the user: it is backed up, and replaced as a whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Maximum size of a configuration file.
const LARGEST: u64 = 16 << 20;
/// Maximum number of backup copies.
const COPIES: u32 = 1_000;

/// The content of a file when it was read.
#[derive(Debug)]
pub(super) struct ExistingFile {
    pub(super) text: String,
    /// The path with links resolved, so that a link stays a link.
    path: PathBuf,
}

/// Reads a file, or returns `None` if it does not exist.
///
/// # Errors
/// If it is not a text file, is too large, or cannot be read.
pub(super) fn read(path: &Path) -> anyhow::Result<Option<ExistingFile>> {
    let shown = path.display();
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        // A dangling link must not be replaced.
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    };
    if !metadata.is_file() || metadata.len() > LARGEST {
        bail!("{shown} is not a file of at most {LARGEST} bytes");
    }
    let bytes = fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let text = String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{shown} is not UTF-8 and stays unchanged"))?;
    let path = path.canonicalize().with_context(|| format!("cannot read {shown}"))?;
    Ok(Some(ExistingFile { text, path }))
}

/// Writes a file as a whole, or leaves it unchanged. Returns the backup copy of the previous file.
///
/// # Errors
/// If writing fails, or the file has changed since it was read.
pub(super) fn replace(path: &Path, before: Option<&ExistingFile>, text: &str) -> anyhow::Result<Option<PathBuf>> {
    let target = before.map_or(path, |before| before.path.as_path());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let cannot = || format!("cannot write {}", target.display());
    fs::create_dir_all(folder).with_context(cannot)?;
    let copy = before.map(|before| keep(target, &before.text)).transpose().with_context(cannot)?;
    let mut file = tempfile::Builder::new().prefix(".tamis-").tempfile_in(folder).with_context(cannot)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).with_context(cannot)?;
    match before {
        Some(before) => {
            let metadata = fs::metadata(target).with_context(cannot)?;
            file.as_file().set_permissions(metadata.permissions()).with_context(cannot)?;
            // The client may have written it in the meantime.
            if fs::read(target).with_context(cannot)? != before.text.as_bytes() {
                bail!("another program has just changed {}; run the command again", target.display());
            }
            file.persist(target).map_err(|error| error.error).with_context(cannot)?;
        }
        // Never overwrite a file that has been created since.
        None => drop(file.persist_noclobber(target).map_err(|error| error.error).with_context(cannot)?),
    }
    Ok(copy)
}

/// Copies the file next to itself, under an unused name.
fn keep(path: &Path, text: &str) -> std::io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for number in 0..COPIES {
        let ending = if number == 0 { String::new() } else { format!(".{number}") };
        let copy = path.with_file_name(format!("{name}.before-tamis{ending}"));
        match OpenOptions::new().write(true).create_new(true).open(&copy) {
            Ok(mut file) => {
                // The copy may hold secrets, like the file.
                file.set_permissions(fs::metadata(path)?.permissions())?;
                file.write_all(text.as_bytes())?;
                return Ok(copy);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other(format!("it already has {COPIES} backup copies; remove some")))
}
