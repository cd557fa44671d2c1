//! The documents that a command reads: files, folders and standard input.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use tamis_crds::yaml::MAX_FILE_BYTES;
use tamis_crds::{Loaded, parse_document};

use crate::note;

/// The name of standard input on the command line and in findings.
const STANDARD_INPUT: &str = "-";

/// Returns whether documents come from standard input.
pub(crate) fn on_standard_input(paths: &[PathBuf]) -> bool {
    paths.iter().any(|path| path.as_os_str() == STANDARD_INPUT)
}

/// Reads all documents. `-` stands for standard input, which is read once.
///
/// # Errors
/// If standard input cannot be read, or is larger than a file may be.
pub(crate) fn load(paths: &[PathBuf]) -> anyhow::Result<Loaded> {
    let files: Vec<PathBuf> = paths.iter().filter(|path| path.as_os_str() != STANDARD_INPUT).cloned().collect();
    let mut parsed = tamis_crds::load(&files).files;
    if on_standard_input(paths) {
        if io::stdin().is_terminal() {
            note!("tamis: reading documents from standard input");
        }
        let mut bytes = Vec::new();
        io::stdin().take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).context("cannot read standard input")?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            bail!("standard input has more than {MAX_FILE_BYTES} bytes; split it");
        }
        parsed.push(parse_document(STANDARD_INPUT, &bytes));
    }
    Ok(Loaded::of(parsed))
}
