//! The project's own commands, run as `cargo xtask ..`: what is needed to test Tamis, installed and run.

mod checks;
mod cluster;
mod e2e;
mod image;
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
    /// Installs into .tools/ what the tests need: MCP clients, the conformance suite, a Kubernetes API server, Helm,
    /// the test runner
    Tools {
        /// Also what `e2e` needs: the rest of a Kubernetes node, CoreDNS and metrics-server
        #[arg(long)]
        node: bool,
    },
    /// Installs what the tests need, builds everything and runs every test
    Test {
        /// Handed to the test runner, for example part of a test's name
        #[arg(last = true)]
        filter: Vec<String>,
    },
    /// Starts a real Kubernetes node, goes through what users do there, and removes it again: docs/e2e.md
    E2e(e2e::Arguments),
    /// Builds a container image: the program, its libraries, certificates, licences and an SBOM
    Image(image::Args),
    /// Format, lints, licences and documentation, then `test`
    Ci {
        /// Also compares dependencies with the RustSec advisories, which are fetched from the network
        #[arg(long)]
        advisories: bool,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Tools { node } => {
            tools::install()?;
            if node { tools::install_node() } else { Ok(()) }
        }
        Command::E2e(arguments) => e2e::run(&arguments),
        Command::Test { filter } => checks::test(&tools::install()?, &filter),
        Command::Image(args) => image::run(&args),
        Command::Ci { advisories } => {
            let tools = tools::install()?;
            checks::format()?;
            checks::dependencies(&tools, advisories)?;
            checks::lints()?;
            checks::documentation()?;
            checks::test(&tools, &[])
        }
    }
}
