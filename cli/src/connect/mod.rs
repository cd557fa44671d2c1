//! `tamis connect`: configures MCP clients to call expositions, in the format of each client.

mod client;
mod file;
mod merge;
mod target;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use self::client::Client;
use self::merge::merge;
use self::target::Selection;
use crate::output;

/// Show the configuration with which an MCP client calls expositions, and write it with --write.
///
/// Clients differ in their files, field names and ways to pass a key. The command prints a complete file for the named client.
/// --write merges the block into the client's own file: everything else in the file stays as it is, comments included, and a
/// copy of the previous file is kept next to it. A key is never written: the block names the environment variable that holds
/// it, or makes VS Code ask for it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis connect claude-code http://127.0.0.1:8080/mcp/default/github-internal
  # all expositions of a folder, as `tamis serve` serves them
  tamis connect cursor examples/quickstart --write
  # callers need a key, which the client reads from the environment
  tamis connect codex https://mcp.example.com/mcp/team-a/github-partner --key-env GITHUB_KEY
  # Claude Desktop starts the server itself; so does every other client with --stdio
  tamis connect claude-desktop examples/quickstart --exposition github-internal --write

Files without --file:
  claude-code     .mcp.json
  cursor          .cursor/mcp.json
  vscode          .vscode/mcp.json
  gemini-cli      .gemini/settings.json
  codex           config.toml in $CODEX_HOME, or ~/.codex/config.toml
  claude-desktop  claude_desktop_config.json in the system's settings folder

Exit codes:
  0  printed, written, or already present
  1  the file cannot be read or written, or contains a different server of that name
  2  usage error")]
pub(crate) struct Args {
    /// The client.
    client: Client,
    /// The URL of an exposition, or the folder that `tamis serve` serves.
    #[arg(value_name = "URL|DIR")]
    target: String,
    /// Only this exposition of the folder: NAMESPACE/NAME, or NAME in the namespace `default`. May be repeated.
    #[arg(long = "exposition", value_name = "NAME")]
    expositions: Vec<String>,
    /// The name of the server in the client [default: the name of the exposition].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The environment variable from which the client reads the caller's key [default: TAMIS_KEY if an exposition of the
    /// folder requires keys].
    #[arg(long, value_name = "VARIABLE", value_parser = variable)]
    key_env: Option<String>,
    /// Make the client start `tamis serve DIR --stdio` itself.
    #[arg(long)]
    stdio: bool,
    /// Merge the block into the client's file.
    #[arg(long)]
    write: bool,
    /// With --write, replace a different server of the same name.
    #[arg(long, requires = "write")]
    replace: bool,
    /// The file to write instead of the client's usual file.
    #[arg(long, value_name = "FILE", requires = "write")]
    file: Option<PathBuf>,
}

fn variable(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if text.is_empty() || !text.chars().all(plain) || text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("must be the name of an environment variable, such as TAMIS_KEY, and not the key itself".to_owned());
    }
    Ok(text.to_owned())
}

/// Prints the block, or writes it to the client's file.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let selection = Selection {
        client: args.client,
        target: &args.target,
        expositions: &args.expositions,
        name: args.name.as_deref(),
        key: args.key_env.as_deref(),
        stdio: args.stdio,
    };
    let servers = selection.servers()?;
    if !args.write {
        let block = merge(args.client, "", &servers, false)?.unwrap_or_default();
        output::write(block.as_bytes())?;
        crate::note!("{}", args.client.advice(&shown(&place(args)?), &servers));
        return Ok(ExitCode::SUCCESS);
    }
    let path = place(args)?;
    let before = file::read(&path)?;
    let text = before.as_ref().map_or("", |before| before.text.as_str());
    let merged =
        merge(args.client, text, &servers, args.replace).with_context(|| format!("{} is unchanged", path.display()))?;
    let Some(merged) = merged else {
        output::write(format!("{}: nothing to do, already present\n", path.display()).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let backup = file::replace(&path, before.as_ref(), &merged)?;
    let names = servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>().join(", ");
    let kept = backup.map(|backup| format!("; previous version: {}", backup.display())).unwrap_or_default();
    output::write(format!("{}: {names} added{kept}\n", path.display()).as_bytes())?;
    crate::note!("{}", args.client.after(&servers));
    Ok(ExitCode::SUCCESS)
}

fn place(args: &Args) -> anyhow::Result<PathBuf> {
    if let Some(file) = &args.file {
        return Ok(file.clone());
    }
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    match args.client.file(std::env::consts::OS, variable) {
        Some(path) => Ok(path),
        None => bail!("cannot find the client's file without a home folder; name it with --file"),
    }
}

/// Formats a path for people, with `~` for the home folder.
fn shown(path: &Path) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    match home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

/// Returns the hint of `serve` and `demo` on how to connect clients.
pub(crate) fn hint(url: &str) -> String {
    format!(
        "to connect a client: tamis connect claude-code {url} (or cursor, vscode, codex, gemini-cli; tamis connect --help)"
    )
}

/// Returns an absolute path: a client starts its servers in a folder of its own.
fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = path.canonicalize().with_context(|| format!("cannot read {}", path.display()))?;
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.to_string_lossy()))
}
