//! The baselines: processes that do the same by other means, in workspaces of their own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Builds a workspace below `bench/` and returns the folder of its binaries.
///
/// # Errors
/// If cargo fails.
pub(crate) fn build(workspace: &str) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(workspace);
    // Its own target folder and no flags of this workspace, as in an independent project.
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--locked", "--quiet", "--bins"])
        .current_dir(&folder)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR")
        .status()?;
    ensure!(status.success(), "bench/{workspace} does not build");
    Ok(folder.join("target/release"))
}

/// One running baseline.
pub(crate) struct Baseline {
    child: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Baseline {
    /// Starts `binary` over `payload`.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) fn start(binary: &Path, payload: &Path) -> Result<Self> {
        let mut child = Command::new(binary)
            .arg(payload)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        let asked = child.stdin.take().context("a pipe")?;
        let answers = BufReader::new(child.stdout.take().context("a pipe")?);
        Ok(Self { child, asked, answers })
    }

    /// Returns the processor time for each of `iterations`, in nanoseconds.
    ///
    /// # Errors
    /// If the process has exited.
    pub(crate) fn time(&mut self, op: &str, iterations: u32) -> Result<f64> {
        writeln!(self.asked, "{op} {iterations}")?;
        let (nanos, _bytes) = pair(&mut self.answers)?;
        Ok(nanos / f64::from(iterations))
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the allocations and the peak bytes of one operation.
///
/// # Errors
/// If the process fails.
pub(crate) fn memory(binary: &Path, payload: &Path, op: &str) -> Result<(f64, f64)> {
    let output = Command::new(binary).arg(payload).arg(op).output()?;
    ensure!(output.status.success(), "{} failed", binary.display());
    pair(&mut output.stdout.as_slice())
}

fn pair(reader: &mut impl BufRead) -> Result<(f64, f64)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let (a, b) = line.trim().split_once(' ').context("two numbers")?;
    Ok((a.parse()?, b.parse()?))
}
