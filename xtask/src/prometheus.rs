//! Prometheus and promtool for the tests of metrics, built from the Go module in `tests/cluster/prometheus/`.

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
        // Only service discovery for Kubernetes, which halves the build time.
        tags: "remove_all_sd,enable_kubernetes_sd",
        versioned: None,
    }],
};
/// The oldest supported version of an installed Prometheus; the tests require the same.
const LEAST: (u32, u32) = (3, 0);

/// Returns whether the programs have to be built: they are neither on the path nor built already.
pub(crate) fn is_needed(tools: &Path) -> Result<bool> {
    let fits = |program: &str| {
        let printed = quietly(Command::new(program).arg("--version")).ok();
        printed.as_deref().and_then(version).is_some_and(|found| found >= LEAST)
    };
    Ok(!SET.programs().all(fits) && !SET.is_built(tools)?)
}

/// Builds the programs into `.tools/prometheus/`, unless they are already there.
pub(crate) fn install(tools: &Path) -> Result<()> {
    SET.install(tools)
}
