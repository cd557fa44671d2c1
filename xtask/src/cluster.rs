//! The Kubernetes API server that the tests of the operator run against: etcd, kube-apiserver and kubectl, built from
//! the Go modules in `tests/cluster/`.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::run::{quietly, root};
use crate::tools::{once, read};

/// The folder in `.tools/` and in `tests/`.
const FOLDER: &str = "cluster";
/// What a folder has to hold so that nothing is built; the tests look for the same three.
const PROGRAMS: &[&str] = &["etcd", "kube-apiserver", "kubectl"];
const FILES: &[&str] = &["go.mod", "go.sum", "tools.go"];

pub(crate) struct Module {
    pub(crate) folder: &'static str,
    /// Main packages and what the program is called.
    pub(crate) programs: &'static [(&'static str, &'static str)],
    /// The module whose version the programs tell to clients.
    pub(crate) versioned: Option<&'static str>,
}

const MODULES: &[Module] = &[
    Module { folder: "etcd", programs: &[("go.etcd.io/etcd/server/v3", "etcd")], versioned: None },
    Module {
        folder: "kubernetes",
        programs: &[
            ("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"),
            ("k8s.io/kubernetes/cmd/kubectl", "kubectl"),
        ],
        versioned: Some("k8s.io/kubernetes"),
    },
];

/// Whether the programs have to be built: neither are they in `KUBEBUILDER_ASSETS`, nor were they built before.
pub(crate) fn is_needed(tools: &Path) -> Result<bool> {
    if env::var_os("KUBEBUILDER_ASSETS").is_some_and(|folder| is_complete(&folder)) {
        return Ok(false);
    }
    Ok(!crate::tools::is_stamped(&tools.join(FOLDER), &stamp()?))
}

/// Builds the programs into `.tools/cluster/`, unless they are there.
pub(crate) fn install(tools: &Path) -> Result<()> {
    once(&tools.join(FOLDER), &stamp()?, |folder| {
        eprintln!("    building etcd, kube-apiserver and kubectl: some minutes, the first time");
        MODULES.iter().try_for_each(|module| build(module, folder))
    })
}

fn is_complete(folder: &OsStr) -> bool {
    PROGRAMS.iter().all(|program| Path::new(folder).join(program).is_file())
}

pub(crate) fn sources(module: &Module) -> PathBuf {
    root().join("tests").join(FOLDER).join(module.folder)
}

/// The text of everything that decides what is built.
fn stamp() -> Result<String> {
    let files = MODULES.iter().flat_map(|module| FILES.iter().map(|file| sources(module).join(file)));
    files.map(|file| read(&file)).collect()
}

pub(crate) fn build(module: &Module, folder: &Path) -> Result<()> {
    let sources = sources(module);
    let mut flags = "-s -w".to_owned();
    if let Some(name) = module.versioned {
        let version = required(&read(&sources.join("go.mod"))?, name)
            .with_context(|| format!("{} does not require {name}", sources.display()))?;
        flags += &version_flags(&version);
    }
    for (package, program) in module.programs {
        let mut go = Command::new("go");
        // Nothing of a workspace or a repository around us takes part.
        go.env("CGO_ENABLED", "0").env("GOWORK", "off").current_dir(&sources);
        go.args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", &flags, "-o"])
            .arg(folder.join(program));
        quietly(go.arg(package))?;
    }
    Ok(())
}

/// The version at which a `go.mod` requires a module, on a line of its own.
fn required(text: &str, module: &str) -> Option<String> {
    let lines = text.lines().map(|line| line.trim().trim_start_matches("require ").trim());
    let mut versions = lines.filter_map(|line| line.strip_prefix(module)?.strip_prefix(' '));
    versions.next()?.split_whitespace().next().map(str::to_owned)
}

/// What Kubernetes' own build sets, and clients read: without it the server says that it is of version 0.
fn version_flags(version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean")]
        .map(|(name, value)| format!(" -X k8s.io/component-base/version.{name}={value}"))
        .concat()
}

#[cfg(test)]
mod tests {
    use super::{MODULES, PROGRAMS, is_complete, required, sources, version_flags};
    use crate::tools::read;

    #[test]
    fn each_program_is_built_once_from_a_module_that_is_there() {
        let mut built: Vec<_> =
            MODULES.iter().flat_map(|module| module.programs.iter().map(|(_, name)| *name)).collect();
        built.sort_unstable();
        assert_eq!(built, PROGRAMS);
        for module in MODULES {
            let text = read(&sources(module).join("go.mod")).expect("is there");
            if let Some(name) = module.versioned {
                assert!(required(&text, name).is_some_and(|version| version.starts_with("v1.")), "{name}");
            }
        }
    }

    #[test]
    fn the_required_version_is_read() {
        let text = "module m\n\nrequire a.b/c v1.2.3\n\nrequire (\n\ta.b/cd v4.5.6 // indirect\n)\n";
        assert_eq!(required(text, "a.b/c").as_deref(), Some("v1.2.3"));
        assert_eq!(required(text, "a.b/cd").as_deref(), Some("v4.5.6"));
        assert_eq!(required(text, "a.b/x"), None);
        let flags = version_flags("v1.35.4");
        assert!(flags.contains(".gitVersion=v1.35.4 ") && flags.contains(".gitMajor=1 "), "{flags}");
        assert!(flags.contains(".gitMinor=35 "), "{flags}");
    }

    #[test]
    fn a_folder_without_all_three_programs_does_not_do() {
        let dir = tempfile::tempdir().expect("a folder");
        for program in PROGRAMS {
            assert!(!is_complete(dir.path().as_os_str()));
            std::fs::write(dir.path().join(program), "").expect("is written");
        }
        assert!(is_complete(dir.path().as_os_str()));
    }
}
