//! How soon a change is served, what many expositions cost, and what of that the API server takes by itself.
//!
//! Each run has a cluster of its own (a real API server with etcd), an operator and a gateway as processes with their
//! own rights, and measures beside every figure what it is compared with, on the same machine at the same time.

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

/// Measures the operator and a gateway in a cluster. Needs the programs of a cluster, as the tests do, and `tamis` of
/// the same build beside it.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    /// JSON, in place of text.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// From the write of a filter to the first call that shows it, beside the API server's own write-to-watch time.
    Latency(LatencyArgs),
    /// From the start of operator and gateway to everything served, beside the bare writes.
    ColdStart(ColdArgs),
    /// What one edit reads and writes at the API server, among few expositions and among many.
    OneEdit(EditArgs),
    /// A service of many tools behind many expositions: bytes stored and held, and one edit.
    BigService(BigArgs),
    /// Many edits a second for a while: what is written of them, and how soon after the last everything is served.
    EditLoad(EditLoadArgs),
    /// Processor time of the API server for the largest objects, beside a kind without rules.
    Admission,
}

/// What `latency` takes.
#[derive(clap::Args)]
struct LatencyArgs {
    /// Expositions in place, the one that is called among them.
    #[arg(long, default_value_t = 1)]
    expositions: usize,
    /// Services that the others are of.
    #[arg(long, default_value_t = 100)]
    services: usize,
    /// Changes that are measured.
    #[arg(long, default_value_t = 2000)]
    changes: usize,
    /// Milliseconds between a call that shows a change and the next change.
    #[arg(long, default_value_t = 20)]
    pause: u64,
}

/// What `cold-start` takes.
#[derive(clap::Args)]
struct ColdArgs {
    /// Expositions.
    #[arg(long, default_value_t = 10_000)]
    expositions: usize,
    /// Services that they are of.
    #[arg(long, default_value_t = 100)]
    services: usize,
    /// Tools of each service.
    #[arg(long, default_value_t = 20)]
    tools: usize,
}

/// What `one-edit` takes.
#[derive(clap::Args)]
struct EditArgs {
    /// Expositions among which one is edited; ten are measured first.
    #[arg(long, default_value_t = 10_000)]
    expositions: usize,
    /// Edits that the counts are the mean of.
    #[arg(long, default_value_t = 20)]
    edits: usize,
}

/// What `big-service` takes.
#[derive(clap::Args)]
struct BigArgs {
    /// Tools of the service.
    #[arg(long, default_value_t = 1000)]
    tools: usize,
    /// Expositions of it.
    #[arg(long, default_value_t = 100)]
    expositions: usize,
    /// Edits of one filter that are measured.
    #[arg(long, default_value_t = 50)]
    changes: usize,
}

/// What `edit-load` takes.
#[derive(clap::Args)]
struct EditLoadArgs {
    /// Edits a second; what the API server cannot answer in time is left out.
    #[arg(long, default_value_t = 500.0)]
    rate: f64,
    /// For so many seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Expositions, each with a filter set of its own.
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
