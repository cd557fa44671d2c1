//! Tamis on a real Kubernetes node: installed, called, upgraded, broken and removed. Run by `cargo xtask e2e`; what it
//! needs and does is in `docs/e2e.md`.

mod image;
mod load;
mod machine;
mod node;
mod product;
mod report;
mod steps;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tamis_tests::Upstream;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Parser)]
#[command(name = "tamis-e2e", about = "Tamis on a real Kubernetes node")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Starts a node, goes through every step, and removes all again
    Run(Run),
    /// Prints the Debian packages that a run needs and this machine lacks
    Needs,
    /// Removes what a run has left that was killed
    Clean,
    /// The sample API that the steps call: in a pod
    Upstream {
        /// Where it listens
        #[arg(long)]
        listen: SocketAddr,
    },
}

#[derive(Debug, Parser)]
struct Run {
    /// The product's image, as a docker archive
    #[arg(long)]
    image: PathBuf,
    /// The name in it, with its tag
    #[arg(long)]
    image_name: String,
    /// The `tamis` program
    #[arg(long)]
    tamis: PathBuf,
    /// Writes a table here, in Markdown, and JSON beside it
    #[arg(long)]
    report: Option<PathBuf>,
    /// After the installation, only steps whose names have one of these words
    #[arg(long)]
    only: Vec<String>,
    /// Leaves the node up at the end, until Ctrl-C
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(run) => guarded(run).await,
        Command::Needs => {
            machine::missing().iter().for_each(|package| println!("{package}"));
            Ok(true)
        }
        Command::Clean => machine::Machine::clean().map(|()| true),
        Command::Upstream { listen } => upstream(listen).await.map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs until the end or a signal: the machine is given back in both cases.
async fn guarded(run: Run) -> Result<bool> {
    tokio::select! {
        passed = steps::run(&run) => passed,
        () = interrupted() => anyhow::bail!("interrupted"),
    }
}

async fn interrupted() {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let waiting = kinds.into_iter().filter_map(|kind| signal(kind).ok()).map(|mut signal| {
        Box::pin(async move {
            signal.recv().await;
        })
    });
    let mut tasks = tokio::task::JoinSet::new();
    waiting.for_each(|signal| {
        tasks.spawn(signal);
    });
    tasks.join_next().await;
}

async fn upstream(listen: SocketAddr) -> Result<()> {
    let _upstream = Upstream::start_on(listen).await?;
    interrupted().await;
    Ok(())
}
