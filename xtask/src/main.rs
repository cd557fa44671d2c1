//! The project's own commands, run as `cargo xtask ..`: what is needed to test Tamis, installed and run.

mod checks;
mod cluster;
mod docs;
mod needs;
mod run;
mod tools;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Builds, tests and checks Tamis")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Installs into .tools/ what the tests need: MCP clients, the conformance suite, a Kubernetes API server, the
    /// test runner
    Tools,
    /// Installs what the tests need, builds everything and runs every test
    Test {
        /// Handed to the test runner, for example part of a test's name
        #[arg(last = true)]
        filter: Vec<String>,
    },
    /// Builds docs/ as a site, into target/site
    Docs {
        /// Then serves it on loopback, and builds it anew when a page changes
        #[arg(long)]
        serve: bool,
    },
    /// Format, lints, licences and documentation, then `test`
    Ci {
        /// Also compares dependencies with the RustSec advisories, which are fetched from the network
        #[arg(long)]
        advisories: bool,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Tools => tools::install().map(drop),
        Command::Test { filter } => checks::test(&tools::install()?, &filter),
        Command::Docs { serve } => docs::docs(serve),
        Command::Ci { advisories } => {
            let tools = tools::install()?;
            checks::format()?;
            checks::dependencies(&tools, advisories)?;
            checks::lints()?;
            checks::documentation()?;
            docs::docs(false)?;
            checks::test(&tools, &[])
        }
    }
}
