//! Prometheus and promtool for the tests of what is scraped, built from the Go module in `tests/cluster/prometheus/`.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::needs::version;
use crate::run::{quietly, root};
use crate::tools::{is_stamped, once, read};

/// The folder in `.tools/`.
const FOLDER: &str = "prometheus";
const SOURCES: &str = "tests/cluster/prometheus";
const PROGRAMS: &[&str] = &["prometheus", "promtool"];
/// The oldest of a machine's own that will do; the tests take no older one either.
const LEAST: (u32, u32) = (3, 0);
/// Without what finds targets in clouds and clusters: half the time to build.
const TAGS: &str = "remove_all_sd";

fn stamp() -> Result<String> {
    let files = ["go.mod", "go.sum", "tools.go"];
    files.iter().map(|file| read(&root().join(SOURCES).join(file))).collect()
}

/// Whether they have to be built: neither are they on the path, nor were they built before.
pub(crate) fn is_needed(tools: &Path) -> Result<bool> {
    let fits = |program: &&str| {
        let printed = quietly(Command::new(program).arg("--version")).ok();
        printed.as_deref().and_then(version).is_some_and(|found| found >= LEAST)
    };
    Ok(!PROGRAMS.iter().all(fits) && !is_stamped(&tools.join(FOLDER), &stamp()?))
}

/// Builds them into `.tools/prometheus/`, unless they are there.
pub(crate) fn install(tools: &Path) -> Result<()> {
    once(&tools.join(FOLDER), &stamp()?, |folder| {
        eprintln!("    building prometheus and promtool: some minutes, the first time");
        PROGRAMS.iter().try_for_each(|program| {
            let mut go = Command::new("go");
            // Nothing of a workspace or a repository around us takes part.
            go.env("CGO_ENABLED", "0").env("GOWORK", "off").current_dir(root().join(SOURCES));
            go.args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w"]);
            go.args(["-tags", TAGS, "-o"]);
            go.arg(folder.join(program)).arg(format!("github.com/prometheus/prometheus/cmd/{program}"));
            quietly(&mut go).map(drop)
        })
    })
}
