//! The real Helm.

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use super::{Cluster, programs};
use crate::root;

impl Cluster {
    /// Runs Helm in the root of the repository, as an administrator, and returns its output.
    ///
    /// # Errors
    /// Helm failed; the message contains its output.
    pub async fn helm(&self, args: &[&str]) -> Result<String> {
        self.helm_as(&self.kubeconfig, args).await
    }

    /// Runs Helm like [`Cluster::helm`], with the identity of a kubeconfig.
    ///
    /// # Errors
    /// Helm failed; the message contains its output.
    pub async fn helm_as(&self, kubeconfig: &Path, args: &[&str]) -> Result<String> {
        let output = self.run_helm(kubeconfig, args).await?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !output.status.success() {
            bail!("helm {}: {}{}", args.join(" "), said(&output.stdout), said(&output.stderr).trim_end());
        }
        Ok(said(&output.stdout))
    }

    async fn run_helm(&self, kubeconfig: &Path, args: &[&str]) -> Result<Output> {
        let own = self.folder.path().join("helm");
        let mut command = Command::new(programs::helm()?);
        command.current_dir(root()).args(args).stdin(Stdio::null()).kill_on_drop(true);
        // Ignores the user's configuration and the cluster that the environment selects.
        for (name, folder) in [("CACHE", "cache"), ("CONFIG", "config"), ("DATA", "data")] {
            command.env(format!("HELM_{name}_HOME"), own.join(folder));
        }
        command.env("KUBECONFIG", kubeconfig).output().await.context("starting helm")
    }
}
