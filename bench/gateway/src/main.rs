//! Measures calls through Tamis next to direct calls to the upstream and to bare proxies, and the memory of expositions
//! and of idle connections.
//!
//! Every target is a process. All run at the same time on one core, the load generator and the upstream run on others,
//! and rounds alternate between the targets, so that a slowdown of the machine affects all of them.

mod call;
mod client;
mod cores;
mod documents;
mod fleet;
mod load;
mod markdown;
mod measure;
mod memory;
mod pace;
mod payload;
mod peers;
mod plan;
mod process;
mod report;
mod servers;
mod stall;
mod stats;
mod summary;

use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use tokio::task::LocalSet;

use crate::cores::Cores;
use crate::documents::Sets;
use crate::fleet::Fleet;
use crate::measure::Effort;
use crate::plan::Target;
use crate::report::{Machine, Report};

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
    /// Measures everything. `cargo xtask bench gateway` builds the programs and runs this.
    Run(Arguments),
    /// The upstream, which `run` starts.
    #[command(hide = true)]
    Upstream {
        /// Sizes of the answers, in kB.
        #[arg(value_delimiter = ',')]
        sizes: Vec<usize>,
    },
    /// The MCP server on standard input and output, which `mcp-proxy` starts.
    #[command(hide = true)]
    Mcp {
        /// Size of the answer, in kB.
        kb: usize,
    },
    /// The bare proxy, which `run` starts.
    #[command(hide = true)]
    Proxy {
        /// Port of the upstream.
        upstream: u16,
    },
    /// The bare proxy with a runtime per core, which `run` starts.
    #[command(hide = true)]
    PerCoreProxy {
        /// Port of the upstream.
        upstream: u16,
    },
}

/// Options of `run`.
#[derive(clap::Args)]
struct Arguments {
    /// The `tamis` program to measure.
    #[arg(long, default_value = "target/release/tamis")]
    tamis: PathBuf,
    /// The commit and profile of the programs, for the report.
    #[arg(long, default_value = "an unknown build")]
    build: String,
    /// What to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "calls,expositions,connections,held,stall")]
    parts: Vec<Part>,
    /// Sizes of the upstream's answers, in kB.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64,512")]
    sizes: Vec<usize>,
    /// The servers that are called [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    targets: Vec<Target>,
    /// The folder with the environments of published gateways, .tools/peers; without it, they are left out.
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Rounds; each server is called once in each.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of one measurement.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Call for one round of a third of a second, with 4 kB and the main servers only.
    #[arg(long, conflicts_with_all = ["sizes", "rounds", "seconds"])]
    quick: bool,
    /// Numbers of expositions that share one filter set.
    #[arg(long, value_delimiter = ',', default_value = "1,100,10000")]
    shared: Vec<usize>,
    /// Numbers of expositions whose filter sets all differ.
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000")]
    different: Vec<usize>,
    /// Number of idle connections.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Number of calls in flight at once.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    held: u32,
    /// Print JSON instead of Markdown.
    #[arg(long)]
    json: bool,
}

/// A part of the measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    /// Throughput and latency of calls.
    Calls,
    /// Memory of expositions of 20 tools, before any call.
    Expositions,
    /// Memory of idle connections.
    Connections,
    /// Memory of calls of an MCP server that take 30 s and report progress.
    Held,
    /// Calls while one of two workers is held up.
    Stall,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Run(arguments) => {
            // Calls need no other thread.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            LocalSet::new().block_on(&runtime, run(arguments))
        }
        Command::Upstream { sizes } => servers::upstream(&sizes),
        Command::Mcp { kb } => servers::mcp(kb),
        Command::Proxy { upstream } => servers::proxy(format!("http://127.0.0.1:{upstream}")),
        Command::PerCoreProxy { upstream } => servers::per_core(upstream),
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { tamis, build, parts, sizes, targets, peers, rounds, seconds, quick, .. } = arguments;
    let Arguments { shared, different, connections, held, json, .. } = arguments;
    let (sizes, rounds, seconds) = if quick { (vec![4], 1, 0.33) } else { (sizes, rounds, seconds) };
    ensure!(rounds > 0 && seconds >= 0.1, "expected at least one round and a tenth of a second");
    let cores = Cores::of_this_machine()?;
    cores.stay()?;
    let machine = machine(&cores, &tamis, build)?;
    let mut report = Report::new(machine, rounds, seconds);
    if parts.contains(&Part::Calls) {
        let targets = if targets.is_empty() { Target::value_variants().to_vec() } else { targets };
        let mut fleet = Fleet::start(&cores, &tamis, &sizes).await?;
        let effort = Effort { rounds, time: Duration::from_secs_f64(seconds) };
        report.cases = measure::cases(&plan::cases(&sizes, &targets, quick), &fleet, &cores, effort).await?;
        if let (Some(environments), Some(case)) = (peers.filter(|_| !quick), plan::peers(&sizes, &targets)) {
            let measured = measure::peers(&case, &mut fleet, &environments, &cores, effort).await;
            report.peers = Some(measured.map_err(|error| format!("{error:#}")));
        }
    }
    if parts.contains(&Part::Expositions) {
        for (sets, counts) in [(Sets::Shared, &shared), (Sets::Different, &different)] {
            report.expositions.extend(memory::expositions(&cores, &tamis, sets, counts).await?);
        }
    }
    if parts.contains(&Part::Connections) {
        let idle = memory::idle(&cores, &tamis, connections as usize).await;
        report.idle = Some(idle.map_err(|error| format!("{error:#}")));
    }
    if parts.contains(&Part::Held) {
        let held = memory::held(&cores, &tamis, held as usize).await;
        report.held = Some(held.map_err(|error| format!("{error:#}")));
    }
    if parts.contains(&Part::Stall) {
        report.stall = Some(stall::measure(&cores, &tamis).await.map_err(|error| format!("{error:#}")));
    }
    report.machine.load_after = load();
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.markdown());
    }
    Ok(())
}

fn machine(cores: &Cores, tamis: &Path, build: String) -> Result<Machine> {
    let version = Process::new(tamis)
        .arg("--version")
        .output()
        .with_context(|| format!("cannot run {}; build it with `cargo build --release -p tamis`", tamis.display()))?;
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    Ok(Machine {
        processor: model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned()),
        cores: cores.description(),
        build,
        tamis: String::from_utf8_lossy(&version.stdout).trim().to_owned(),
        load_before: load(),
        load_after: String::new(),
    })
}

/// Returns the machine's load average over one minute: other processes influence every figure.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}
