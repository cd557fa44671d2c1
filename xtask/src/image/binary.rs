//! The program of an image, stripped. It contains nothing about the machine that built it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use memchr::memmem;

use super::platform::Platform;
use super::revision::Revision;
use super::toolchain::{Toolchain, rustc};
use crate::run::{cargo, quietly, root, step};

/// Folders of this machine, and the paths that replace them in a program.
struct Places {
    remaps: Vec<(PathBuf, String)>,
}

impl Places {
    fn read(target: &Path) -> Result<Self> {
        let Toolchain { sysroot, commit, .. } = Toolchain::read()?;
        let home = match (std::env::var_os("CARGO_HOME"), std::env::var_os("HOME")) {
            (Some(cargo), _) => PathBuf::from(cargo),
            (None, Some(home)) => Path::new(&home).join(".cargo"),
            (None, None) => PathBuf::from("/.cargo"),
        };
        // The last match applies in rustc: `target` may be in the workspace.
        Ok(Self {
            remaps: vec![
                (home, "/cargo".to_owned()),
                (root().to_owned(), "/tamis".to_owned()),
                (target.to_owned(), "/tamis/target".to_owned()),
                // The path that rustc uses if its own sources are not installed.
                (sysroot.join("lib/rustlib/src/rust"), format!("/rustc/{commit}")),
            ],
        })
    }

    fn flags(&self, option: &str) -> Vec<String> {
        self.remaps.iter().map(|(from, to)| format!("{option}={}={to}", from.display())).collect()
    }

    /// Returns the first folder that a program still contains.
    fn named_in(&self, program: &[u8]) -> Option<&Path> {
        let named = |from: &Path| {
            let from = format!("{}/", from.display());
            let mut found = memmem::find_iter(program, from.as_bytes());
            // `/src/` in `/cargo/registry/src/` is not the folder `/src`.
            found.any(|at| at == 0 || !program[at - 1].is_ascii_alphanumeric())
        };
        self.remaps.iter().map(|(from, _)| from.as_path()).find(|from| named(from))
    }
}

/// Builds `tamis`, and returns it without symbols.
///
/// # Errors
/// The target or its linker is not installed, the program does not compile, or it contains a folder of this machine.
pub(crate) fn build(platform: Platform, profile: &str, revision: &Revision) -> Result<Vec<u8>> {
    let target = &std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let target = &std::path::absolute(target)?;
    let host = Platform::host()?;
    let triple = platform.triple();
    let compiler = platform.tool(host, "gcc");
    check(platform, host, &compiler)?;
    let places = Places::read(target)?;
    // With `--target`, even for this machine, Cargo uses a folder of its own, so `cargo build` need not compile again.
    let mut command = cargo(["rustc", "--locked", "--package", "tamis", "--bin", "tamis"]);
    command.args(["--profile", profile, "--target", triple]).arg("--target-dir").arg(target);
    command.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", rustflags(&places));
    let variable = triple.replace('-', "_");
    let c = format!("CFLAGS_{variable}");
    let given = std::env::var(&c).or_else(|_| std::env::var("CFLAGS")).ok();
    let flags: Vec<String> = given.into_iter().chain(places.flags("-ffile-prefix-map")).collect();
    command.env(c, flags.join(" "));
    command.env("SOURCE_DATE_EPOCH", revision.time.to_string());
    command.env("TAMIS_REVISION", revision.commit.as_deref().unwrap_or_default());
    let linker = format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase());
    if platform != host && std::env::var_os(&linker).is_none() {
        command.env(linker, compiler);
    }
    if platform == Platform::Amd64 {
        // rustc links with lld there, which merges equal functions.
        command.args(["--", "-C", "link-arg=-Wl,--icf=all"]);
    }
    step(&format!("build tamis for {triple}, profile {profile}"), &mut command)?;
    let built = target.join(triple).join(if profile == "dev" { "debug" } else { profile }).join("tamis");
    let program = stripped(&built, platform)?;
    if let Some(place) = places.named_in(&program) {
        bail!("{} names {}, a folder of this machine", built.display(), place.display());
    }
    Ok(program)
}

/// Returns an existing program without symbols.
pub(crate) fn stripped(program: &Path, platform: Platform) -> Result<Vec<u8>> {
    let strip = platform.tool(Platform::host()?, "strip");
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("tamis");
    quietly(Command::new(&strip).arg("--strip-all").arg("-o").arg(&output).arg(program))
        .with_context(|| format!("{strip} removes the symbols (Debian: {})", binutils(&strip)))?;
    Ok(fs::read(output)?)
}

/// Returns the Debian package of a tool of binutils.
fn binutils(tool: &str) -> String {
    tool.strip_suffix("-strip").map_or("binutils".to_owned(), |prefix| format!("binutils-{prefix}"))
}

/// Returns the user's flags, followed by those of this build.
fn rustflags(places: &Places) -> OsString {
    const BETWEEN: &str = "\x1f";
    let given = match std::env::var("CARGO_ENCODED_RUSTFLAGS") {
        Ok(encoded) => encoded,
        Err(_) => std::env::var("RUSTFLAGS").unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(BETWEEN),
    };
    let ours = places.flags("--remap-path-prefix").join(BETWEEN);
    if given.is_empty() { ours.into() } else { format!("{given}{BETWEEN}{ours}").into() }
}

/// Fails if something to compile for a platform is missing. The error says how to install it.
fn check(platform: Platform, host: Platform, compiler: &str) -> Result<()> {
    let triple = platform.triple();
    let library = quietly(rustc().args(["--print", "target-libdir", "--target", triple]))?;
    let mut missing = Vec::new();
    if !Path::new(library.trim()).is_dir() {
        missing.push(format!("Rust's library for it: rustup target add {triple}"));
    }
    if platform != host && quietly(Command::new(compiler).arg("--version")).is_err() {
        missing.push(format!("the C compiler {compiler} (Debian: gcc-{})", platform.gnu()));
    }
    if !missing.is_empty() {
        bail!("to build for linux/{} here, install {}", platform.architecture(), missing.join(" and "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Places, binutils};

    fn places() -> Places {
        let remap = |from: &str, to: &str| (PathBuf::from(from), to.to_owned());
        Places { remaps: vec![remap("/home/ann/.cargo", "/cargo"), remap("/src", "/tamis")] }
    }

    #[test]
    fn each_place_is_one_flag() {
        assert_eq!(
            places().flags("--remap-path-prefix"),
            ["--remap-path-prefix=/home/ann/.cargo=/cargo", "--remap-path-prefix=/src=/tamis"]
        );
    }

    #[test]
    fn a_program_that_contains_a_build_path_is_rejected() {
        let cases = [
            ("\0/cargo/registry/src/x/lib.rs\0/tamis/cli/src/main.rs", None),
            ("\0/home/ann/.cargo/registry/src/x/lib.rs", Some("/home/ann/.cargo")),
            ("/src/cli/src/main.rs", Some("/src")),
            ("\0/src2/main.rs", None),
        ];
        for (program, expected) in cases {
            assert_eq!(places().named_in(program.as_bytes()), expected.map(Path::new), "{program}");
        }
    }

    #[test]
    fn the_package_of_a_tool_is_named_as_debian_does() {
        assert_eq!(binutils("strip"), "binutils");
        assert_eq!(binutils("aarch64-linux-gnu-strip"), "binutils-aarch64-linux-gnu");
    }
}
