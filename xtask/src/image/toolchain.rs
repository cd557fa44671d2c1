//! The compiler that is used, as it tells of itself.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::run::quietly;

/// A Rust toolchain.
#[derive(Debug, Clone)]
pub(crate) struct Toolchain {
    /// `1.95.0`.
    pub(crate) release: String,
    /// The commit it is of.
    pub(crate) commit: String,
    /// Its folder.
    pub(crate) sysroot: PathBuf,
}

impl Toolchain {
    /// The one that Cargo uses here.
    pub(crate) fn read() -> Result<Self> {
        let version = quietly(rustc().arg("-vV"))?;
        let field = |name: &str| {
            let line = version.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.unwrap_or("unknown").to_owned()
        };
        let sysroot = quietly(rustc().args(["--print", "sysroot"]))?.trim().into();
        Ok(Self { release: field("release"), commit: field("commit-hash"), sysroot })
    }
}

/// The compiler.
pub(crate) fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}
