//! Prometheus and promtool for the tests of what is scraped, built from the Go module in `tests/cluster/prometheus/`.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cluster::{LOCKED, Module, Set};
use crate::needs::version;
use crate::run::quietly;

const SET: Set = Set {
    folder: "prometheus",
    sources: "tests/cluster",
    what: "prometheus and promtool",
    modules: &[Module {
        folder: "prometheus",
        files: LOCKED,
        programs: &[
            ("github.com/prometheus/prometheus/cmd/prometheus", "prometheus"),
            ("github.com/prometheus/prometheus/cmd/promtool", "promtool"),
        ],
        // Of what finds targets, only what does so in a cluster: half the time to build.
        tags: "remove_all_sd,enable_kubernetes_sd",
        versioned: None,
    }],
};
/// The oldest of a machine's own that will do; the tests take no older one either.
const LEAST: (u32, u32) = (3, 0);

/// Whether they have to be built: neither are they on the path, nor were they built before.
pub(crate) fn is_needed(tools: &Path) -> Result<bool> {
    let fits = |program: &str| {
        let printed = quietly(Command::new(program).arg("--version")).ok();
        printed.as_deref().and_then(version).is_some_and(|found| found >= LEAST)
    };
    Ok(!SET.programs().all(fits) && !SET.is_built(tools)?)
}

/// Builds them into `.tools/prometheus/`, unless they are there.
pub(crate) fn install(tools: &Path) -> Result<()> {
    SET.install(tools)
}
