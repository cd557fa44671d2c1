//! The project's own commands, run as `cargo xtask ..`: they install what the tests need and run them.

mod argocd;
mod bench;
mod checks;
mod cluster;
mod definitions;
mod docs;
mod documents;
mod e2e;
mod fuzz;
mod image;
mod needs;
mod prometheus;
mod run;
mod tools;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Build, test and check Tamis")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what the tests need into .tools/: MCP clients, the conformance suite, a Kubernetes API server, Helm,
    /// Prometheus, the test runner
    Tools {
        /// Also install what `e2e` needs: the rest of a Kubernetes node, CoreDNS and metrics-server
        #[arg(long)]
        node: bool,
    },
    /// Install what the tests need, build everything and run every test
    Test {
        /// Arguments for the test runner, for example part of a test's name
        #[arg(last = true)]
        filter: Vec<String>,
    },
    /// Start a real Kubernetes node, follow the steps of users there, and remove the node again: docs/e2e.md
    E2e(e2e::Arguments),
    /// Build a container image: the program, its libraries, certificates, licences and an SBOM
    Image(image::Args),
    /// Build Argo CD into .tools/, and run the tests against it, which `test` and `ci` leave out
    Gitops,
    /// Install published agents (Claude Code, Codex, Gemini CLI) into .tools/, and test that they read what `tamis connect`
    /// writes; `test` and `ci` leave this out
    Agents,
    /// Install published OpenAPI documents into .tools/, call every tool that they become against a server that judges the requests, and
    /// write docs/openapi-documents.md; `test` and `ci` leave this out, and judge a few small documents
    Documents,
    /// Feed hostile input to the engine, the schemas, the documents and the messages, with coverage feedback; `test` and `ci`
    /// only replay the committed seeds. Needs a C++ compiler
    Fuzz(fuzz::Arguments),
    /// Build and run a benchmark: docs/performance.md
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Build docs/ as a site in target/site
    Docs {
        /// Also serve the site on loopback, and rebuild it when a page changes
        #[arg(long)]
        serve: bool,
    },
    /// Check format, lints, licences and documentation, then run `test`
    Ci {
        /// Also compare dependencies with the RustSec advisories, which are fetched from the network
        #[arg(long)]
        advisories: bool,
        /// Also run `e2e` on a real Kubernetes node; requires root
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
        Command::Documents => documents::run(),
        Command::Agents => {
            let tools = tools::install()?;
            tools::install_agents(&tools)?;
            checks::agents(&tools)
        }
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Docs { serve } => docs::docs(serve),
        Command::Ci { advisories, e2e } => {
            let tools = tools::install()?;
            checks::format()?;
            checks::dependencies(&tools, advisories)?;
            checks::lints()?;
            checks::apart()?;
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
