//! The end-to-end run: builds the programs of a node, Argo CD and the image under test, then runs `tamis-e2e`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::run::{cargo, quietly, root, step};
use crate::{argocd, tools};

/// The name of the image under test, on the node.
const IMAGE: &str = "tamis:e2e";

/// The arguments of the build. Because of the test, dependencies have the features that they have in the tests' build,
/// so nothing is compiled twice.
const BUILD: [&str; 8] =
    ["build", "--workspace", "--bin", "tamis-e2e", "--bin", "rmcp-driver", "--test", "cluster_quickstart"];

/// `cargo xtask e2e`.
#[derive(Debug, Default, Args)]
pub(crate) struct Arguments {
    /// Write the steps with their times to this file as Markdown, and next to it as JSON
    #[arg(long)]
    report: Option<PathBuf>,
    /// Test this `tamis` program instead of the one that `cargo xtask image` builds
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Test a debug build, which builds in a fraction of the time
    #[arg(long, conflicts_with = "binary")]
    debug: bool,
    /// How long Argo CD reconciles the installation, in seconds [default: 600]
    #[arg(long, value_name = "SECONDS")]
    reconcile_seconds: Option<u64>,
    /// After the installation, run only steps whose names contain one of these words
    #[arg(long)]
    only: Vec<String>,
    /// Keep the node running at the end, until Ctrl-C
    #[arg(long)]
    keep: bool,
}

/// Builds everything that a run needs, and runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let tools = tools::install()?;
    tools::install_node()?;
    argocd::install(&tools)?;
    let mut build = cargo(BUILD);
    if arguments.debug {
        build.args(["--bin", "tamis"]);
    }
    step("build", &mut build)?;
    let built = root().join("target/debug");
    let runner = built.join("tamis-e2e");
    packages(&runner)?;
    let binary = arguments.binary.clone().or_else(|| arguments.debug.then(|| built.join("tamis")));
    let image = Image::make(binary.as_deref())?;
    let mut command = Command::new(&runner);
    command.args(["run", "--image-name", IMAGE]).arg("--image").arg(image.archive).arg("--tamis").arg(image.program);
    if let Some(seconds) = arguments.reconcile_seconds {
        command.arg("--reconcile-seconds").arg(seconds.to_string());
    }
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

/// An image, and the program in it.
struct Image {
    archive: PathBuf,
    program: PathBuf,
}

impl Image {
    /// Makes an image by `cargo xtask image`: of a program, or of the one that the command builds.
    fn make(binary: Option<&Path>) -> Result<Self> {
        let output = root().join("target/e2e-image");
        let unpacked = output.join("root");
        if unpacked.exists() {
            fs::remove_dir_all(&unpacked).with_context(|| unpacked.display().to_string())?;
        }
        let mut command = Command::new(std::env::current_exe()?);
        // The image is imported once, on this machine: compression would only take time.
        command.args(["image", "--tag", IMAGE, "--compression", "none", "--json"]);
        command.arg("--output").arg(&output).arg("--root").arg(&unpacked);
        if let Some(binary) = binary {
            command.arg("--binary").arg(binary);
        }
        let made = command.current_dir(root()).stderr(Stdio::inherit()).output().context("cargo xtask image")?;
        ensure!(made.status.success(), "cargo xtask image failed ({})", made.status);
        let summary: Value = serde_json::from_slice(&made.stdout).context("cargo xtask image --json")?;
        let archive = summary["archive"].as_str().context("cargo xtask image names no archive")?.into();
        Ok(Self { archive, program: unpacked.join("usr/bin/tamis") })
    }
}

/// Installs the missing Debian packages if this is Debian and the user is root. Otherwise the runner names them.
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
