//! Finds the programs of a node.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tamis_tests::cluster::find_programs;

/// Returns the path of a program that `cargo xtask e2e` builds.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let found = find_programs("e2e", [name]).map(|[file]| file);
    found.with_context(|| {
        format!("{name} is not installed: run `cargo xtask e2e`, or set KUBEBUILDER_ASSETS to a folder with it")
    })
}
