//! Where the programs of a cluster are.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::root;

/// etcd, kube-apiserver and kubectl of one folder: those of different versions are not mixed.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    pub(super) etcd: PathBuf,
    pub(super) api_server: PathBuf,
    pub(super) kubectl: PathBuf,
}

impl Programs {
    /// In `KUBEBUILDER_ASSETS`, else in a folder of `PATH`, else what `cargo xtask tools` built.
    pub(super) fn find() -> Result<Self> {
        let assets = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = assets.into_iter().chain(env::split_paths(&path)).chain([root().join(".tools/cluster")]);
        folders.into_iter().find_map(|folder| Self::of(&folder)).context(
            "etcd, kube-apiserver and kubectl are not installed: run `cargo xtask tools`, or set KUBEBUILDER_ASSETS",
        )
    }

    fn of(folder: &Path) -> Option<Self> {
        let program = |name| Some(folder.join(name)).filter(|file| file.is_file());
        let (etcd, api_server, kubectl) = (program("etcd")?, program("kube-apiserver")?, program("kubectl")?);
        Some(Self { etcd, api_server, kubectl })
    }
}
