//! The project's own commands, run as `cargo xtask ..`: what is needed to test Tamis, installed and run.

mod argocd;
mod checks;
mod cluster;
mod definitions;
mod docs;
mod e2e;
mod image;
mod needs;
mod prometheus;
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
    /// Installs into .tools/ what the tests need: MCP clients, the conformance suite, a Kubernetes API server,
    /// Helm, Prometheus, the test runner
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
    /// Builds Argo CD into .tools/ as well, and runs the tests against it, which `test` and `ci` leave out
    Gitops,
    /// Installs published agents (Claude Code, Codex, Gemini CLI) into .tools/ as well, and has them read what `tamis connect`
    /// writes; `test` and `ci` leave this out
    Agents,
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
        /// Also goes through a real Kubernetes node, as `e2e` does: wants root
        #[arg(long)]
        e2e: bool,
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
        Command::Gitops => {
            let tools = tools::install()?;
            argocd::install(&tools)?;
            checks::gitops(&tools)
        }
        Command::Agents => {
            let tools = tools::install()?;
            tools::install_agents(&tools)?;
            checks::agents(&tools)
        }
        Command::Docs { serve } => docs::docs(serve),
        Command::Ci { advisories, e2e } => {
            let tools = tools::install()?;
            checks::format()?;
            checks::dependencies(&tools, advisories)?;
            checks::lints()?;
            checks::documentation()?;
            docs::docs(false)?;
            // Before the tests: their runner's summary comes last.
            if e2e {
                e2e::run(&e2e::Arguments::default())?;
            } else {
                eprintln!("    not run: what users do on a real Kubernetes node: ask for it with --e2e");
            }
            checks::test(&tools, &[])
        }
    }
}
