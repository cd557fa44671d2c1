//! The steps of `cargo xtask ci`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run::{cargo, root, step};
use crate::tools::Tools;

/// Checks the formatting.
pub(crate) fn format() -> Result<()> {
    step("format", &mut cargo(["fmt", "--all", "--check"]))
}

/// Checks licences, bans and sources of the dependencies against `deny.toml`.
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

/// Runs Clippy with warnings denied.
pub(crate) fn lints() -> Result<()> {
    step("lints", &mut cargo(["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Builds what no test builds: the fuzz targets with libFuzzer, and what the benchmarks compare with, which are separate
/// workspaces.
pub(crate) fn apart() -> Result<()> {
    let fuzz = ["clippy", "--locked", "--package", "tamis-fuzz", "--features", "libfuzzer", "--bins"];
    step("fuzz targets", cargo(fuzz).args(["--", "-D", "warnings"]))?;
    for workspace in ["bench/baseline", "bench/pipeline"] {
        let mut check = cargo(["check", "--locked", "--all-targets"]);
        step(workspace, check.current_dir(root().join(workspace)))?;
    }
    Ok(())
}

/// Builds the API documentation with warnings denied.
pub(crate) fn documentation() -> Result<()> {
    let mut command = cargo(["doc", "--workspace", "--no-deps"]);
    step("documentation", command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs every test. The runner's own summary comes last.
pub(crate) fn test(tools: &Tools, filter: &[String]) -> Result<()> {
    // The tests start the `tamis` binary. It is built together with the tests, so that nothing is compiled twice.
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
    let report = root().join("target").join("repeated-starts");
    clear(&report)?;
    let result = step("tests", command.args(filter).env("TAMIS_TEST_STARTS", &report));
    // Printed after the runner's summary, and only if there is any: no repeated start goes unnoticed.
    for line in repeated_starts(&report)? {
        eprintln!("    repeated start: {line}");
    }
    result
}

/// Removes the report of an earlier run and creates its folder.
fn clear(report: &Path) -> Result<()> {
    fs::create_dir_all(report.parent().context("a folder")?)?;
    match fs::remove_file(report) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}", report.display()))
        }
        _ => Ok(()),
    }
}

/// Returns the lines that tests wrote about repeated starts of programs (`tests/src/starts.rs`).
fn repeated_starts(report: &Path) -> Result<Vec<String>> {
    match fs::read_to_string(report) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("{}", report.display())),
    }
}

/// Runs the tests against Argo CD, which are ignored by default.
pub(crate) fn gitops(tools: &Tools) -> Result<()> {
    ignored(tools, "cluster_gitops", "tests against Argo CD")
}

/// Runs the tests against published agents, which are ignored by default.
pub(crate) fn agents(tools: &Tools) -> Result<()> {
    ignored(tools, "connect_agents", "tests against published agents")
}

/// Runs the ignored tests of one file.
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

#[cfg(test)]
mod tests {
    use super::{clear, repeated_starts};

    #[test]
    fn a_report_holds_the_lines_of_one_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let report = folder.path().join("target").join("report");
        clear(&report).expect("makes the folder");
        assert!(repeated_starts(&report).expect("there is no report").is_empty());
        std::fs::write(&report, "one\ntwo\n").expect("writes");
        assert_eq!(repeated_starts(&report).expect("is read"), ["one", "two"]);
        clear(&report).expect("removes the report");
        assert!(repeated_starts(&report).expect("there is no report").is_empty());
    }
}
