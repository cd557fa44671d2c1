//! Compares throughput and latency of calls through Tamis with (a) direct calls to the upstream and (b) a bare
//! pass-through proxy built with the same server and client libraries, and measures the memory of an exposition.
//!
//! Every target is a separate process. All run at the same time, and rounds alternate between them, so that a slowdown
//! of the machine affects all of them. Calls a second are per second of the target's own CPU time, read from `/proc`:
//! on a machine with few cores the wall clock would measure the load generator.

mod load;
mod memory;
mod process;
mod servers;
mod targets;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the gateway.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Calls a second and latency, for several answer sizes.
    Load(LoadArgs),
    /// Resident memory with 1, 100 and 10,000 expositions of 20 tools, before any call.
    Memory(MemoryArgs),
    /// The sample upstream (started by `load`).
    #[command(hide = true)]
    Upstream,
    /// The bare proxy (started by `load`).
    #[command(hide = true)]
    Proxy {
        /// Base URL of the upstream.
        upstream: String,
    },
}

/// What `load` takes.
#[derive(clap::Args)]
struct LoadArgs {
    /// The `tamis` binary to measure; build it with `cargo build --release`.
    #[arg(long, default_value = "target/release/tamis")]
    tamis: PathBuf,
    /// Answer sizes, in kB.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64")]
    sizes: Vec<usize>,
    /// Rounds; in each every target is measured once.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Calls in one measurement.
    #[arg(long, default_value_t = 4000)]
    calls: usize,
    /// Connections that call at once when throughput is measured; latency is measured with one.
    #[arg(long, default_value_t = 16)]
    connections: usize,
}

/// What `memory` takes.
#[derive(clap::Args)]
struct MemoryArgs {
    /// The `tamis` binary to measure.
    #[arg(long, default_value = "target/release/tamis")]
    tamis: PathBuf,
    /// Numbers of expositions.
    #[arg(long, value_delimiter = ',', default_value = "1,100,10000")]
    expositions: Vec<usize>,
    /// Tools of each.
    #[arg(long, default_value_t = 20)]
    tools: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Load(args) => load::run(&args.tamis, &args.sizes, args.rounds, args.calls, args.connections).await,
        Command::Memory(args) => memory::run(&args.tamis, &args.expositions, args.tools).await,
        Command::Upstream => servers::upstream().await,
        Command::Proxy { upstream } => servers::proxy(upstream).await,
    }
}
