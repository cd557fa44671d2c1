//! Argo CD for the test of GitOps and for the end-to-end run, built from the Go module in `tests/cluster/argocd/`.
//! Building it takes longer than building all other tools together, so `cargo xtask test` does without it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::cluster::{Module, Set};
use crate::needs;
use crate::run::quietly;
use crate::tools::{Tools, once, read};

const ARGOCD: &str = "github.com/argoproj/argo-cd/v3";
const MODULE: Module = Module {
    folder: "argocd",
    files: &["go.mod", "go.sum", "tools.go", "redis/main.go"],
    programs: &[("github.com/argoproj/argo-cd/v3/cmd", "argocd"), ("./redis", "argocd-redis")],
    tags: "",
    versioned: None,
};
const SET: Set = Set { folder: "argocd", sources: "tests/cluster", what: "Argo CD", modules: &[MODULE] };
/// The manifests of Argo CD's own installation, next to the programs.
const MANIFESTS: &str = "argocd-install.yaml";

/// Builds Argo CD into `.tools/argocd/`, with the manifests of its own installation, unless they exist there or in
/// `KUBEBUILDER_ASSETS`.
pub(crate) fn install(tools: &Tools) -> Result<()> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    if assets.is_some_and(|folder| SET.is_complete(&folder) && folder.join(MANIFESTS).is_file()) {
        return Ok(());
    }
    once(&tools.folder().join(SET.folder), &SET.stamp()?, |folder| {
        needs::check(true)?;
        eprintln!("    building {}: some minutes, the first time", SET.what);
        SET.build(&MODULE, folder)?;
        let mut go = Command::new("go");
        go.env("GOWORK", "off").current_dir(SET.sources(&MODULE)).args(["list", "-m", "-f", "{{.Dir}}", ARGOCD]);
        let module = quietly(&mut go)?;
        // A copy of the file would be read-only, as files of the module cache are.
        let manifests = Path::new(module.trim()).join("manifests/core-install.yaml");
        Ok(fs::write(folder.join(MANIFESTS), read(&manifests)?)?)
    })
}

#[cfg(test)]
mod tests {
    use super::{ARGOCD, SET};

    #[test]
    fn argo_cd_has_a_version_that_builds_as_a_module() {
        assert!(SET.stamp().expect("the files are there").contains(&format!("{ARGOCD} v3.2.11")));
    }
}
