//! The end-to-end run: builds what a node needs and the product, then runs `tamis-e2e`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::run::{cargo, quietly, root, step};
use crate::tools;

/// What the product's image is called on the node.
const IMAGE: &str = "tamis:e2e";

/// With a test among them what is built has the features of the tests' build: nothing is compiled twice for the two.
const BUILD: [&str; 10] = [
    "build",
    "--workspace",
    "--bin",
    "tamis",
    "--bin",
    "tamis-e2e",
    "--bin",
    "rmcp-driver",
    "--test",
    "cluster_quickstart",
];

/// `cargo xtask e2e`.
#[derive(Debug, Default, Args)]
pub(crate) struct Arguments {
    /// Write the steps with their times to this file as Markdown, and next to it as JSON
    #[arg(long)]
    report: Option<PathBuf>,
    /// The `tamis` program to test; by default a debug build
    #[arg(long)]
    binary: Option<PathBuf>,
    /// After the installation, run only steps whose names contain one of these words
    #[arg(long)]
    only: Vec<String>,
    /// Keep the node running at the end, until Ctrl-C
    #[arg(long)]
    keep: bool,
}

/// Builds, and runs.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    tools::install()?;
    tools::install_node()?;
    step("build", &mut cargo(BUILD))?;
    let built = root().join("target/debug");
    let runner = built.join("tamis-e2e");
    packages(&runner)?;
    let tamis = arguments.binary.clone().unwrap_or_else(|| built.join("tamis"));
    let mut command = Command::new(&runner);
    command.args(["run", "--image-name", IMAGE]).arg("--image").arg(image(&tamis)?).arg("--tamis").arg(&tamis);
    if let Some(report) = &arguments.report {
        command.arg("--report").arg(report);
    }
    for word in &arguments.only {
        command.arg("--only").arg(word);
    }
    if arguments.keep {
        command.arg("--keep");
    }
    step("end to end", &mut command)
}

/// Makes the product's image of a program, by `cargo xtask image`.
fn image(tamis: &Path) -> Result<PathBuf> {
    let mut command = Command::new(std::env::current_exe()?);
    // It is imported at once, and on this machine: compressing it would only take time.
    command.args(["image", "--tag", IMAGE, "--compression", "none", "--json"]);
    command.arg("--binary").arg(tamis).arg("--output").arg(root().join("target/e2e-image"));
    let output = command.current_dir(root()).output().context("cannot run cargo xtask image")?;
    ensure!(output.status.success(), "cargo xtask image: {}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).context("cargo xtask image --json")?;
    Ok(said["archive"].as_str().context("cargo xtask image names no archive")?.into())
}

/// Installs the Debian packages that are missing, where that can be done; the runner says what is missing elsewhere.
fn packages(runner: &Path) -> Result<()> {
    let missing = quietly(Command::new(runner).arg("needs"))?;
    let missing: Vec<&str> = missing.split_whitespace().collect();
    let is_root = quietly(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if missing.is_empty() || !is_root || quietly(Command::new("apt-get").arg("--version")).is_err() {
        return Ok(());
    }
    step("package lists", Command::new("apt-get").args(["update", "--quiet=2"]))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--quiet=2", "--no-install-recommends"]).args(missing);
    step("packages", install.env("DEBIAN_FRONTEND", "noninteractive"))
}
