//! The steps of `cargo xtask ci`.

use std::process::Command;

use anyhow::{Result, bail};

use crate::run::{cargo, root, step};
use crate::tools::Tools;

/// Formatting.
pub(crate) fn format() -> Result<()> {
    step("format", &mut cargo(["fmt", "--all", "--check"]))
}

/// Licences, bans and sources of the dependencies, as `deny.toml` says.
pub(crate) fn dependencies(tools: &Tools, advisories: bool) -> Result<()> {
    let Some(deny) = tools.cargo_tool("cargo-deny") else {
        bail!("cargo-deny is missing: cargo install --locked cargo-deny");
    };
    let mut command = Command::new(deny);
    command.current_dir(root()).args(["--workspace", "--all-features", "check", "bans", "licenses", "sources"]);
    if advisories {
        command.arg("advisories");
    }
    step("dependencies", &mut command)?;
    if !advisories {
        eprintln!("    advisories not checked: ask for them with --advisories");
    }
    Ok(())
}

/// Clippy, with warnings denied.
pub(crate) fn lints() -> Result<()> {
    step("lints", &mut cargo(["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Documentation, with warnings denied.
pub(crate) fn documentation() -> Result<()> {
    let mut command = cargo(["doc", "--workspace", "--no-deps"]);
    step("documentation", command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Every test. The runner's own summary comes last.
pub(crate) fn test(tools: &Tools, filter: &[String]) -> Result<()> {
    // The tests start the `tamis` binary; built with the tests in one go, so that nothing is compiled twice.
    step("build", &mut cargo(["build", "--workspace", "--bins", "--tests"]))?;
    if filter.is_empty() {
        step("examples in the documentation", &mut cargo(["test", "--quiet", "--workspace", "--doc"]))?;
    }
    eprintln!("    not run: the tests against Argo CD, which takes minutes to build: cargo xtask gitops");
    eprintln!("    not run: what published agents read of `tamis connect`, 860 MB to install: cargo xtask agents");
    let mut command = match tools.cargo_tool("cargo-nextest") {
        Some(nextest) => {
            let mut command = Command::new(nextest);
            command.current_dir(root()).args(["nextest", "run", "--workspace"]);
            command
        }
        None => cargo(["test", "--workspace", "--bins", "--lib", "--tests"]),
    };
    step("tests", command.args(filter))
}

/// The tests against Argo CD, which are ignored otherwise.
pub(crate) fn gitops(tools: &Tools) -> Result<()> {
    ignored(tools, "cluster_gitops", "tests against Argo CD")
}

/// The tests against published agents, which are ignored otherwise.
pub(crate) fn agents(tools: &Tools) -> Result<()> {
    ignored(tools, "connect_agents", "tests against published agents")
}

/// The tests of one file that are ignored otherwise.
fn ignored(tools: &Tools, file: &str, what: &str) -> Result<()> {
    step("build", &mut cargo(["build", "--workspace", "--bins", "--tests"]))?;
    let mut command = match tools.cargo_tool("cargo-nextest") {
        Some(nextest) => {
            let mut command = Command::new(nextest);
            command.current_dir(root()).args(["nextest", "run", "--workspace", "--run-ignored=only"]);
            command.args(["--no-capture", "--filterset", &format!("binary({file})")]);
            command
        }
        None => cargo(["test", "--package", "tamis-tests", "--test", file, "--", "--ignored", "--nocapture"]),
    };
    step(what, &mut command)
}
