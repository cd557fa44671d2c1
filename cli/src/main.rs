//! `tamis`: the one binary.
//!
//! Each subcommand is a module with its `Args` (what clap parses) and a `run` that gives the exit code. Standard output
//! belongs to the subcommand's result; logs and messages for people go to standard error.

mod completions;
mod connect;
mod crds;
mod demo;
mod documents;
mod filter;
mod gateway;
mod import;
mod init;
mod kubernetes;
mod logging;
mod operator;
mod output;
mod ready;
mod schema;
mod serve;
mod traces;
mod validate;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The version, and the commit where the build was told it: `cargo xtask image` does.
static VERSION: LazyLock<String> = LazyLock::new(|| version(option_env!("TAMIS_REVISION")));

fn version(revision: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match revision {
        None | Some("") => version.to_owned(),
        Some(revision) => format!("{version} ({revision})"),
    }
}

/// A sieve for tool outputs: publishes APIs over MCP and decides what of each answer a language model sees.
#[derive(Debug, Parser)]
#[command(name = "tamis", version = VERSION.as_str(), max_term_width = 100, after_long_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    log: logging::LogArgs,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed, or findings that are errors
  2  usage, or a filter that is not valid
  3  a stage of the filter failed (tamis filter)";

// Every subcommand: a variant here, a module with `Args` and `run(&Args) -> anyhow::Result<ExitCode>`.
#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Init(init::Args),
    Connect(connect::Args),
    Demo(demo::Args),
    Validate(validate::Args),
    Schema(schema::Args),
    Filter(filter::Args),
    Import(import::Args),
    Crds(crds::Args),
    Gateway(gateway::Args),
    Operator(operator::Args),
    Ready(ready::Args),
    Completions(completions::Args),
}

impl Command {
    /// What is logged unless the user says otherwise.
    fn log_level(&self) -> &'static str {
        match self {
            // The demo's own calls would drown its table.
            Self::Demo(_) => "warn,tamis::serve=info",
            // What the library warns of, at every attempt, is said once here, and once when it is over.
            Self::Gateway(_) => "info,kube_runtime=error",
            _ => "info",
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    logging::init(&cli.log, cli.command.log_level());
    let outcome = match &cli.command {
        Command::Serve(args) => serve::run(args, &cli.log),
        Command::Init(args) => init::run(args),
        Command::Connect(args) => connect::run(args),
        Command::Demo(args) => demo::run(args, &cli.log),
        Command::Validate(args) => validate::run(args, &cli.log),
        Command::Schema(args) => schema::run(args),
        Command::Import(args) => import::run(args, &cli.log),
        Command::Crds(args) => crds::run(args),
        Command::Operator(args) => operator::run(args),
        Command::Ready(args) => ready::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Filter(args) => filter::run(args, &cli.log),
        Command::Gateway(args) => gateway::run(args),
    };
    outcome.unwrap_or_else(|error| {
        cli.log.fail(&error);
        ExitCode::from(1)
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_version_names_the_commit_where_it_is_known() {
        let plain = env!("CARGO_PKG_VERSION");
        assert_eq!(super::version(None), plain);
        assert_eq!(super::version(Some("")), plain);
        assert_eq!(super::version(Some("0123abc-dirty")), format!("{plain} (0123abc-dirty)"));
    }

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_shows_an_example() {
        for command in super::Cli::command().get_subcommands() {
            let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("tamis "), "`{}` has no example in its long help", command.get_name());
        }
    }

    /// Who copies an example copies a line: none is broken on a terminal of the usual width for code.
    #[test]
    fn examples_are_shown_as_they_are_written() {
        let mut cli = super::Cli::command();
        cli.build();
        for command in std::iter::once(&cli).chain(cli.get_subcommands()).filter(|c| c.get_name() != "help") {
            let written = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            let shown = command.clone().term_width(100).render_long_help().to_string();
            assert!(!written.is_empty() && shown.contains(&written), "`{}`:\n{shown}", command.get_name());
        }
    }
}
