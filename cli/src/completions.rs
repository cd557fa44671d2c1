//! `tamis completions`: a completion script for a shell.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::output;

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis completions bash > ~/.local/share/bash-completion/completions/tamis
  tamis completions zsh > ~/.zfunc/_tamis
  tamis completions fish > ~/.config/fish/completions/tamis.fish")]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

/// Writes the script to standard output.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "tamis", &mut script);
    output::write(&script)?;
    Ok(ExitCode::SUCCESS)
}
