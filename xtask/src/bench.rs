//! `cargo xtask bench`: builds what a benchmark of docs/performance.md needs, and runs it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};

use crate::run::{cargo, root, step};
use crate::{image, tools};

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Measure calls through the gateway next to bare proxies and published gateways, the memory of expositions and of
    /// idle connections
    Gateway(Gateway),
}

#[derive(Debug, Args)]
pub(crate) struct Gateway {
    /// How the measured programs are built
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
    /// Leave out the published gateways, which are Python packages of 450 MB
    #[arg(long)]
    without_peers: bool,
    /// Options of the benchmark, such as --quick, --json, --sizes 4,64, --targets select,proxy; `-- --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Profile {
    /// As `cargo install` builds them
    Release,
    /// As they are shipped, with whole-program optimisation, which takes many minutes to build
    Dist,
}

impl Profile {
    /// Returns the name that cargo uses for the profile and for the folder of its programs.
    fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dist => "dist",
        }
    }
}

/// Runs a benchmark.
pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Gateway(gateway) => run_gateway(gateway),
    }
}

fn run_gateway(Gateway { profile, without_peers, options }: &Gateway) -> Result<()> {
    let [benchmark, tamis] = ["tamis-bench-gateway", "tamis"].map(|program| built(*profile, program));
    let (benchmark, tamis) = (benchmark?, tamis?);
    let mut command = Command::new(benchmark);
    command.current_dir(root()).arg("run").arg("--tamis").arg(tamis);
    let commit = image::commit().unwrap_or_else(|| "an unknown commit".to_owned());
    command.arg("--build").arg(format!("{commit}, profile {}", profile.name()));
    if !without_peers {
        command.arg("--peers").arg(tools::install_peers()?);
    }
    step("benchmark", command.args(options))
}

/// Builds a program and returns its path. Each program is built alone: features that only another one needs would
/// change what is measured.
fn built(profile: Profile, program: &str) -> Result<PathBuf> {
    let profile = profile.name();
    step(program, &mut cargo(["build", "--locked", "--profile", profile, "--package", program]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join(profile).join(program))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::{Bench, Gateway};

    #[derive(clap::Parser)]
    struct Arguments {
        #[command(subcommand)]
        bench: Bench,
    }

    #[test]
    fn options_of_the_benchmark_need_no_separator() {
        for (line, passed) in [
            ("xtask gateway", &[][..]),
            ("xtask gateway --quick", &["--quick"]),
            ("xtask gateway --without-peers --profile dist --json --sizes 4,64", &["--json", "--sizes", "4,64"]),
            ("xtask gateway -- --help", &["--help"]),
        ] {
            let arguments = Arguments::try_parse_from(line.split(' ')).expect(line);
            let Bench::Gateway(Gateway { profile, without_peers, options }) = arguments.bench;
            assert_eq!(options, passed, "{line}");
            assert_eq!(profile.name() == "dist", line.contains("dist"), "{line}");
            assert_eq!(without_peers, line.contains("without-peers"), "{line}");
        }
    }
}
