//! Helm, the real one.

use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use super::{Cluster, programs};
use crate::root;

impl Cluster {
    /// Runs Helm in the root of the repository, as an administrator; what it printed.
    ///
    /// # Errors
    /// It failed; the message has what it said.
    pub async fn helm(&self, args: &[&str]) -> Result<String> {
        self.helm_as(&self.kubeconfig, args).await
    }

    /// [`Cluster::helm`] as whom a kubeconfig says.
    ///
    /// # Errors
    /// It failed; the message has what it said.
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
        // What a person has configured, and the cluster of the environment, are not ours.
        for (name, folder) in [("CACHE", "cache"), ("CONFIG", "config"), ("DATA", "data")] {
            command.env(format!("HELM_{name}_HOME"), own.join(folder));
        }
        command.env("KUBECONFIG", kubeconfig).output().await.context("starting helm")
    }
}
