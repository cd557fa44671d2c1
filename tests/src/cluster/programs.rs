//! Finds the programs that no package provides.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::root;

/// The programs of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    pub(super) etcd: PathBuf,
    pub(super) api_server: PathBuf,
    pub(super) kubectl: PathBuf,
}

impl Programs {
    pub(super) fn find() -> Result<Self> {
        let [etcd, api_server, kubectl] = find("cluster", ["etcd", "kube-apiserver", "kubectl"]).context(
            "etcd, kube-apiserver and kubectl are not installed: run `cargo xtask tools`, or set KUBEBUILDER_ASSETS",
        )?;
        Ok(Self { etcd, api_server, kubectl })
    }
}

/// Returns the path of Helm.
pub(super) fn helm() -> Result<PathBuf> {
    let [helm] = find("helm", ["helm"]).context("helm is not installed: run `cargo xtask tools`")?;
    Ok(helm)
}

/// Finds files that are all in one folder: `KUBEBUILDER_ASSETS`, a folder of `PATH`, or the folder `own` of `.tools/`,
/// which `cargo xtask` fills, in this order.
#[must_use]
pub fn find<const N: usize>(own: &str, names: [&str; N]) -> Option<[PathBuf; N]> {
    let assets = env::var_os("KUBEBUILDER_ASSETS");
    let path = env::var_os("PATH").unwrap_or_default();
    find_in(assets.as_deref(), &path, &root().join(".tools").join(own), names)
}

/// Finds files like [`find`] in a given environment. Never mixes files of different folders, which may have different
/// versions.
fn find_in<const N: usize>(assets: Option<&OsStr>, path: &OsStr, own: &Path, names: [&str; N]) -> Option<[PathBuf; N]> {
    let folders = assets.map(PathBuf::from).into_iter().chain(env::split_paths(path)).chain([own.to_owned()]);
    let mut files = folders.map(|folder| names.map(|name| folder.join(name)));
    files.find(|files| files.iter().all(|file| file.is_file()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn programs_come_from_the_first_folder_that_has_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for (name, files) in
            [("whole", &["etcd", "kubectl"][..]), ("half", &["etcd"]), ("own", &["etcd", "kubectl"]), ("empty", &[])]
        {
            fs::create_dir(at(name)).expect("a folder can be made");
            for file in files {
                fs::write(at(name).join(file), "").expect("a file can be written");
            }
        }
        let table = [
            (None, vec!["empty"], "own"),
            (None, vec![], "own"),
            (Some("whole"), vec!["own"], "whole"),
            (Some("half"), vec!["empty", "whole"], "whole"),
            (Some("nowhere"), vec!["half"], "own"),
            (None, vec!["half", "whole"], "whole"),
        ];
        for (assets, path, expected) in table {
            let assets = assets.map(|name| at(name).into_os_string());
            let path = env::join_paths(path.iter().map(|name| at(name))).expect("names without colons");
            let found = find_in(assets.as_deref(), &path, &at("own"), ["etcd", "kubectl"]);
            let expected = ["etcd", "kubectl"].map(|name| at(expected).join(name));
            assert_eq!(found, Some(expected), "{assets:?} {path:?}");
        }
        assert_eq!(find_in(None, OsStr::new(""), &at("half"), ["etcd", "kubectl"]), None);
    }
}
