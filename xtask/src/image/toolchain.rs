//! The Rust compiler that Cargo uses.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::run::quietly;

/// A Rust toolchain.
#[derive(Debug, Clone)]
pub(crate) struct Toolchain {
    /// `1.95.0`.
    pub(crate) release: String,
    /// The compiler's commit.
    pub(crate) commit: String,
    /// The toolchain's folder.
    pub(crate) sysroot: PathBuf,
}

impl Toolchain {
    /// Reads it from the compiler.
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

/// Returns a command that runs the compiler.
pub(crate) fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}
