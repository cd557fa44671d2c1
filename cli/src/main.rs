//! `tamis`: the only binary.
//!
//! Each subcommand is a module with its `Args`, which clap parses, and a `run` that returns the exit code. Standard output
//! carries the result of the subcommand; logs and messages for people go to standard error.

mod bench;
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

/// The version, with the commit if the build was given one (`cargo xtask image` gives it).
static VERSION: LazyLock<String> = LazyLock::new(|| version(option_env!("TAMIS_REVISION")));

fn version(revision: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match revision {
        None | Some("") => version.to_owned(),
        Some(revision) => format!("{version} ({revision})"),
    }
}

/// A sieve for tool outputs: publishes APIs over MCP and decides which parts of each answer a model sees.
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
  1  failed, or at least one finding is an error
  2  usage error, or an invalid filter
  3  a stage of the filter failed (tamis filter, tamis bench)
  4  a server's tools differ from a manifest (tamis import mcp)";

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
    Bench(bench::Args),
    Import(import::Args),
    Crds(crds::Args),
    Gateway(gateway::Args),
    Operator(operator::Args),
    Ready(ready::Args),
    Completions(completions::Args),
}

impl Command {
    /// Returns the default log directives of the subcommand.
    fn log_level(&self) -> &'static str {
        match self {
            // Otherwise the demo's own calls would bury its table.
            Self::Demo(_) => "warn,tamis::serve=info",
            // The library warns at every attempt. The gateway reports the problem once, and once more when it is over.
            Self::Gateway(_) => "info,kube_runtime=error",
            _ => "info",
        }
    }
}

fn main() -> ExitCode {
    // Before anything else: this process may be about to become another program.
    if let Err(error) = tamis_gateway::programs::Limits::run(std::env::args_os().skip(1)) {
        eprintln!("{error}");
        return ExitCode::from(127);
    }
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
        Command::Bench(args) => bench::run(args, &cli.log),
        Command::Gateway(args) => gateway::run(args, &cli.log),
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

    /// Examples are copied by line, so none may wrap on a terminal of the usual width for code.
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
