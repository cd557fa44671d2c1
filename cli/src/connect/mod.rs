//! `tamis connect`: tells an MCP client where expositions are, in the form that this client reads.

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

/// Show what an MCP client's configuration needs to call expositions, and with --write put it there.
///
/// Clients differ in the file, the name of the fields and how a key is given; the block that is printed is a whole file for the
/// one that is named. --write merges it into the client's own file: everything else in it stays as it is, comments
/// included, and the file as it was is kept beside it. A key is never written: the block names the environment variable
/// that holds it, or has VS Code ask for it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  tamis connect claude-code http://127.0.0.1:8080/mcp/default/github-internal
  # all expositions of a folder, as `tamis serve` serves them
  tamis connect cursor examples/quickstart --write
  # callers need a key, which the client takes from the environment
  tamis connect codex https://mcp.example.com/mcp/team-a/github-partner --key-env GITHUB_KEY
  # Claude Desktop starts the server itself; so does any other client with --stdio
  tamis connect claude-desktop examples/quickstart --exposition github-internal --write

Files, where --file names no other:
  claude-code     .mcp.json
  cursor          .cursor/mcp.json
  vscode          .vscode/mcp.json
  gemini-cli      .gemini/settings.json
  codex           config.toml in $CODEX_HOME, or ~/.codex/config.toml
  claude-desktop  claude_desktop_config.json where the system keeps settings

Exit codes:
  0  printed, or written, or there already
  1  the file cannot be read or written, or has another server of that name
  2  usage")]
pub(crate) struct Args {
    /// The client.
    client: Client,
    /// The URL of an exposition, or the folder that `tamis serve` serves.
    #[arg(value_name = "URL|DIR")]
    target: String,
    /// Only this exposition of the folder: NAMESPACE/NAME, or NAME in the namespace `default`; may be given several times.
    #[arg(long = "exposition", value_name = "NAME")]
    expositions: Vec<String>,
    /// What the client is to call the server [default: the exposition's name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The environment variable in which the client finds the caller's key [default: TAMIS_KEY where an exposition of the
    /// folder wants keys].
    #[arg(long, value_name = "VARIABLE", value_parser = variable)]
    key_env: Option<String>,
    /// Have the client start `tamis serve DIR --stdio` itself.
    #[arg(long)]
    stdio: bool,
    /// Merge the block into the client's file.
    #[arg(long)]
    write: bool,
    /// With --write: put the block in the place of another server of the same name.
    #[arg(long, requires = "write")]
    replace: bool,
    /// Another file than the client's usual one.
    #[arg(long, value_name = "FILE", requires = "write")]
    file: Option<PathBuf>,
}

fn variable(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if text.is_empty() || !text.chars().all(plain) || text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("must be the name of an environment variable, such as TAMIS_KEY, not the key itself".to_owned());
    }
    Ok(text.to_owned())
}

/// Prints or writes the block.
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
    let merged = merge(args.client, text, &servers, args.replace)
        .with_context(|| format!("{} is left as it is", path.display()))?;
    let Some(merged) = merged else {
        output::write(format!("{}: nothing to do, it is there already\n", path.display()).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    let backup = file::replace(&path, before.as_ref(), &merged)?;
    let names = servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>().join(", ");
    let kept = backup.map(|backup| format!("; as it was: {}", backup.display())).unwrap_or_default();
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
        None => bail!("there is no home folder to look for the client's file in; name it with --file"),
    }
}

/// A path as people write it, `~` for the home folder.
fn shown(path: &Path) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    match home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

/// What `serve` and `demo` say about clients.
pub(crate) fn hint(url: &str) -> String {
    format!(
        "to connect a client: tamis connect claude-code {url} (or cursor, vscode, codex, gemini-cli; tamis connect --help)"
    )
}

/// A path from the root of the file system: a client starts its servers in a folder of its own.
fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = path.canonicalize().with_context(|| format!("cannot read {}", path.display()))?;
    path.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.to_string_lossy()))
}
