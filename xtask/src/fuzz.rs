//! `cargo xtask fuzz`: the targets of `fuzz/` with libFuzzer's coverage feedback, on the stable toolchain.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::run::{cargo, quietly, root, step};

/// The flags that `cargo fuzz` passes to rustc, except sanitizers, which require a nightly toolchain.
const INSTRUMENTED: &str = "-Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";
/// Options of libFuzzer: inputs are small, finish within ten seconds, and need less than two gigabytes.
const LIMITS: [&str; 3] = ["-max_len=2048", "-timeout=10", "-rss_limit_mb=2048"];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The target, the name of a folder in fuzz/seeds/; without one, all targets run one after the other
    target: Option<String>,
    /// How many minutes each target runs
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,
}

/// Builds and runs the targets. Each continues from its corpus of earlier runs, `fuzz/corpus/`, which is not committed.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let all = targets(&root().join("fuzz/seeds"))?;
    let chosen = choose(&all, arguments.target.as_deref())?;
    let program = build(arguments.target.as_deref())?;
    let mut findings = Vec::new();
    for target in chosen {
        let [corpus, artifacts] = ["corpus", "artifacts"].map(|folder| root().join("fuzz").join(folder).join(target));
        for folder in [&corpus, &artifacts] {
            fs::create_dir_all(folder)?;
        }
        let mut command = Command::new(&program);
        command.current_dir(root()).env("TAMIS_FUZZ_TARGET", target).args(LIMITS);
        command.arg(format!("-max_total_time={}", u64::from(arguments.minutes) * 60));
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        command.args(["-dict=fuzz/json.dict", "-print_final_stats=1", "-verbosity=1"]);
        command.arg(&corpus).arg(root().join("fuzz/seeds").join(target));
        // The other targets still run.
        if let Err(error) = step(&format!("fuzz {target}"), &mut command) {
            eprintln!("    {error}");
            findings.push(target);
        }
    }
    ensure!(findings.is_empty(), "findings in {findings:?}: see fuzz/artifacts/, and make each a test of its crate");
    Ok(())
}

/// Returns the names of all targets. Each has a folder of seeds.
fn targets(seeds: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(seeds).with_context(|| seeds.display().to_string())?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn choose<'a>(all: &'a [String], target: Option<&str>) -> Result<Vec<&'a str>> {
    let chosen: Vec<&str> = all.iter().map(String::as_str).filter(|name| target.is_none_or(|it| it == *name)).collect();
    if chosen.is_empty() {
        bail!("{} is not a target; choose one of: {}", target.unwrap_or_default(), all.join(", "));
    }
    Ok(chosen)
}

/// Builds the program of one target, or of all.
fn build(target: Option<&str>) -> Result<PathBuf> {
    // With an explicit target, build scripts and macros, which run on the host, are built without instrumentation.
    let host = host(&quietly(Command::new("rustc").arg("-vV"))?)?;
    let folder = root().join("target/fuzz");
    let mut command = cargo(["build", "--package", "tamis-fuzz", "--profile", "fuzz", "--target", &host]);
    command.arg("--target-dir").arg(&folder).env("RUSTFLAGS", INSTRUMENTED);
    match target {
        Some(target) => command.args(["--no-default-features", "--features", &format!("libfuzzer,{target}")]),
        None => command.args(["--features", "libfuzzer"]),
    };
    step("build with instruments", &mut command)?;
    Ok(folder.join(host).join("fuzz/tamis-fuzz"))
}

/// Returns the host triple from the output of `rustc -vV`.
fn host(printed: &str) -> Result<String> {
    let host = printed.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}

#[cfg(test)]
mod tests {
    use super::{choose, host};

    #[test]
    fn a_target_is_chosen_by_its_name() {
        let all = ["apply", "json"].map(str::to_owned);
        assert_eq!(choose(&all, None).expect("all"), ["apply", "json"]);
        assert_eq!(choose(&all, Some("json")).expect("one"), ["json"]);
        let error = choose(&all, Some("yaml")).expect_err("is no target").to_string();
        assert!(error.contains("apply, json"), "{error}");
    }

    #[test]
    fn the_host_is_read_as_rustc_prints_it() {
        let printed = "rustc 1.95.0\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\n";
        assert_eq!(host(printed).expect("is there"), "x86_64-unknown-linux-gnu");
        host("rustc 1.95.0").expect_err("names no host");
    }
}
