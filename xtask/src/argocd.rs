//! Argo CD for the test of GitOps, built from the Go module in `tests/cluster/argocd/`. It takes longer to build than all
//! other tools together, so it is built for `cargo xtask gitops` only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::cluster::{Module, build, sources};
use crate::needs;
use crate::run::quietly;
use crate::tools::{Tools, once, read};

/// The folder in `.tools/` and in `tests/cluster/`.
const FOLDER: &str = "argocd";
const ARGOCD: &str = "github.com/argoproj/argo-cd/v3";
const MODULE: Module = Module {
    folder: FOLDER,
    programs: &[("github.com/argoproj/argo-cd/v3/cmd", "argocd"), ("./redis", "argocd-redis")],
    versioned: None,
};
const FILES: &[&str] = &["go.mod", "go.sum", "tools.go", "redis/main.go"];

/// What a folder has to hold so that nothing is built; the test looks for the same three.
const HELD: &[&str] = &["argocd", "argocd-redis", "argocd-install.yaml"];

/// Builds it into `.tools/argocd/`, with the manifests of its own installation, unless it is there or in
/// `KUBEBUILDER_ASSETS`.
pub(crate) fn install(tools: &Tools) -> Result<()> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    if assets.is_some_and(|folder| HELD.iter().all(|file| folder.join(file).is_file())) {
        return Ok(());
    }
    once(&tools.folder().join(FOLDER), &stamp()?, |folder| {
        needs::check(true)?;
        eprintln!("    building Argo CD: some minutes, the first time");
        build(&MODULE, folder)?;
        let mut go = Command::new("go");
        go.env("GOWORK", "off").current_dir(sources(&MODULE)).args(["list", "-m", "-f", "{{.Dir}}", ARGOCD]);
        let module = quietly(&mut go)?;
        // Read and written, not copied: files of the module cache are read-only.
        let manifests = Path::new(module.trim()).join("manifests/core-install.yaml");
        let text = read(&manifests)?;
        Ok(fs::write(folder.join("argocd-install.yaml"), text)?)
    })
}

/// The text of everything that decides what is built.
fn stamp() -> Result<String> {
    FILES.iter().map(|file| read(&sources(&MODULE).join(file))).collect()
}

#[cfg(test)]
mod tests {
    use super::{ARGOCD, FILES, HELD, MODULE};
    use crate::cluster::sources;
    use crate::tools::read;

    #[test]
    fn what_is_built_is_what_the_test_looks_for() {
        for (_, program) in MODULE.programs {
            assert!(HELD.contains(program), "{program}");
        }
        let text: String = FILES.iter().map(|file| read(&sources(&MODULE).join(file)).expect("is there")).collect();
        assert!(text.contains(&format!("{ARGOCD} v3.2.11")), "the version that builds as a module");
    }
}
