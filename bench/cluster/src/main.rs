//! Measures how soon a change is served, what many expositions cost, and how much of that the API server needs by
//! itself.
//!
//! Each run has its own cluster (a real API server with etcd) and an operator and a gateway as processes with their own
//! permissions. Each figure and its baseline are measured on the same machine at the same time.

mod admission;
mod big;
mod cold;
mod edit;
mod edit_load;
mod latency;
mod objects;
mod processes;
mod progress;
mod report;
mod requests;

use anyhow::Result;
use clap::{Parser, Subcommand};

use report::Report;

/// Measures the operator and a gateway in a cluster. Needs the programs of a cluster, like the tests, and `tamis` of
/// the same build in the same folder.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// From the write of a filter to the first call that shows it, compared with the API server's own write-to-watch
    /// time.
    Latency(LatencyArgs),
    /// From the start of operator and gateway until everything is served, compared with the bare writes.
    ColdStart(ColdArgs),
    /// Reads and writes of one edit at the API server, with few and with many expositions.
    OneEdit(EditArgs),
    /// A service with many tools behind many expositions: bytes stored, memory, and one edit.
    BigService(BigArgs),
    /// Many edits a second for a while: the resulting writes, and how soon after the last edit everything is served.
    EditLoad(EditLoadArgs),
    /// Processor time of the API server for the largest objects, compared with a kind without rules.
    Admission,
}

/// Arguments of `latency`.
#[derive(clap::Args)]
struct LatencyArgs {
    /// Existing expositions, including the one that is called.
    #[arg(long, default_value_t = 1)]
    expositions: usize,
    /// Services of the other expositions.
    #[arg(long, default_value_t = 100)]
    services: usize,
    /// Measured changes.
    #[arg(long, default_value_t = 2000)]
    changes: usize,
    /// Milliseconds between a call that shows a change and the next change.
    #[arg(long, default_value_t = 20)]
    pause: u64,
}

/// Arguments of `cold-start`.
#[derive(clap::Args)]
struct ColdArgs {
    /// Expositions.
    #[arg(long, default_value_t = 10_000)]
    expositions: usize,
    /// Services of the expositions.
    #[arg(long, default_value_t = 100)]
    services: usize,
    /// Tools of each service.
    #[arg(long, default_value_t = 20)]
    tools: usize,
}

/// Arguments of `one-edit`.
#[derive(clap::Args)]
struct EditArgs {
    /// Expositions, one of which is edited; ten are measured first.
    #[arg(long, default_value_t = 10_000)]
    expositions: usize,
    /// Edits; the counts are their mean.
    #[arg(long, default_value_t = 20)]
    edits: usize,
}

/// Arguments of `big-service`.
#[derive(clap::Args)]
struct BigArgs {
    /// Tools of the service.
    #[arg(long, default_value_t = 1000)]
    tools: usize,
    /// Expositions of it.
    #[arg(long, default_value_t = 100)]
    expositions: usize,
    /// Measured edits of one filter.
    #[arg(long, default_value_t = 50)]
    changes: usize,
}

/// Arguments of `edit-load`.
#[derive(clap::Args)]
struct EditLoadArgs {
    /// Edits a second; edits that the API server cannot answer in time are skipped.
    #[arg(long, default_value_t = 500.0)]
    rate: f64,
    /// Duration in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Expositions, each with its own filter set.
    #[arg(long, default_value_t = 40)]
    expositions: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let report: Report = match cli.command {
        Command::Latency(args) => latency::run(&args).await?,
        Command::ColdStart(args) => cold::run(&args).await?,
        Command::OneEdit(args) => edit::run(&args).await?,
        Command::BigService(args) => big::run(&args).await?,
        Command::EditLoad(args) => edit_load::run(&args).await?,
        Command::Admission => admission::run().await?,
    };
    report.print(cli.json);
    Ok(())
}
