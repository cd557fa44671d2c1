//! Tests Tamis on a real Kubernetes node: installed, called, upgraded, broken and removed. `cargo xtask e2e` runs this
//! program; `docs/e2e.md` describes what it needs and does.

mod image;
mod load;
mod machine;
mod node;
mod product;
mod reach;
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
#[command(name = "tamis-e2e", about = "Test Tamis on a real Kubernetes node")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a node, perform every step, and restore the machine
    Run(Run),
    /// Print the Debian packages that a run needs and this machine lacks
    Needs,
    /// Remove what a killed run left behind
    Clean,
    /// Serve the sample API that the steps call; runs in a pod
    Upstream {
        /// The address to listen on
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Print when DNS first knew a host, and when a connection was first accepted; runs in a pod
    Reach {
        /// The name of a Service, such as tracker.team-a.svc
        host: String,
        /// The port to connect to; without it, only DNS is asked
        #[arg(long)]
        port: Option<u16>,
    },
}

#[derive(Debug, Parser)]
struct Run {
    /// The image under test, as a docker archive
    #[arg(long)]
    image: PathBuf,
    /// The name of the image, with its tag
    #[arg(long)]
    image_name: String,
    /// The `tamis` program
    #[arg(long)]
    tamis: PathBuf,
    /// Write the steps to this file as Markdown, and next to it as JSON
    #[arg(long)]
    report: Option<PathBuf>,
    /// After the installation, run only steps whose names contain one of these words
    #[arg(long)]
    only: Vec<String>,
    /// Keep the node running at the end, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// How long Argo CD reconciles the installation, in seconds
    #[arg(long, default_value_t = 600)]
    reconcile_seconds: u64,
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
        Command::Reach { host, port } => reach::print(&host, port).await.map(|()| true),
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

/// Runs to the end or to a signal. The machine is restored in both cases.
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
