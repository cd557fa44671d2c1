//! Where the programs of a node are.

use std::env;
use std::path::PathBuf;

use anyhow::{Result, bail};
use tamis_tests::root;

/// A program that `cargo xtask e2e` builds: from `KUBEBUILDER_ASSETS`, else `PATH`, else where it was built.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let assets = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = assets.into_iter().chain(env::split_paths(&path)).chain([root().join(".tools/e2e")]);
    match folders.map(|folder| folder.join(name)).find(|file| file.is_file()) {
        Some(file) => Ok(file),
        None => bail!("{name} is not installed: run `cargo xtask e2e`, or set KUBEBUILDER_ASSETS to a folder with it"),
    }
}
