//! Running other programs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// Returns the root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the workspace")
}

/// Returns the cargo that runs this program.
pub(crate) fn cargo<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// Runs a step with its output shown, and prints how long it took.
pub(crate) fn step(name: &str, command: &mut Command) -> Result<()> {
    eprintln!("==> {name}");
    let began = Instant::now();
    let status = command.status().with_context(|| format!("{name}: {}", program(command)))?;
    eprintln!("    {name}: {:.1} s", began.elapsed().as_secs_f64());
    if !status.success() {
        bail!("{name} failed ({status}): {}", shown(command));
    }
    Ok(())
}

/// Runs a program and captures its output, which is shown only in the error.
pub(crate) fn quietly(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| program(command))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{} ({})\n{}", shown(command), output.status, text.trim_end());
    }
    Ok(text)
}

fn program(command: &Command) -> String {
    format!("cannot run {}", command.get_program().to_string_lossy())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
