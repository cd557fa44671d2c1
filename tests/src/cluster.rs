//! A real Kubernetes API server for a test, and the real binary as the operator and as a gateway of a group.
//!
//! A [`Cluster`] consists of etcd and kube-apiserver and is ready in about three seconds. It supports
//! CustomResourceDefinitions, CEL, admission policies, watches, server-side apply, Leases and RBAC. It has no
//! controller manager, no scheduler and no node: nothing acts on a Deployment, an owner reference or the deletion of a
//! namespace. The end-to-end run starts a cluster with [`Cluster::start_on`] and adds these components.
//!
//! Every test has its own cluster, so there are few such tests, and each covers many steps. The test runner's
//! configuration allows two of them at once.

mod access;
mod argocd;
mod certificates;
mod helm;
mod network;
mod paired_services;
mod probe;
mod process;
mod programs;
mod server;
mod tamis;
mod test_env;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use tempfile::TempDir;

pub use argocd::{Application, ArgoCd, Repository, assess};
pub use certificates::Pair;
pub use network::Network;
pub use paired_services::{PairedServices, Random, Side};
pub use probe::{Observation, Probe};
pub use process::Process;
pub use programs::find as find_programs;
pub use server::Etcd;
pub use tamis::{Admin, ClusterGateway, Operator};
pub use test_env::TestEnv;

use crate::starts;
use programs::Programs;
use server::ApiServer;

/// A running API server with its own etcd. Both are killed on drop.
pub struct Cluster {
    client: Client,
    kubeconfig: PathBuf,
    programs: Programs,
    // Dropped in this order: the programs end before their files are deleted.
    api_server: ApiServer,
    etcd: Etcd,
    folder: TempDir,
}

impl Cluster {
    /// Starts a cluster and waits until it is ready.
    ///
    /// # Errors
    /// The programs are not installed, or one exited; the message contains its log.
    pub async fn start() -> Result<Self> {
        Self::start_in(&std::env::temp_dir(), None).await
    }

    /// Starts a cluster like [`Cluster::start`], on a network that nodes can reach and with its files below `parent`.
    ///
    /// # Errors
    /// As for [`Cluster::start`].
    pub async fn start_on(network: &Network, parent: &Path) -> Result<Self> {
        Self::start_in(parent, Some(network)).await
    }

    async fn start_in(parent: &Path, network: Option<&Network>) -> Result<Self> {
        starts::repeated("the API server", async || Self::attempt(parent, network).await).await
    }

    async fn attempt(parent: &Path, network: Option<&Network>) -> Result<Self> {
        let programs = Programs::find()?;
        let folder = TempDir::with_prefix_in("tamis-cluster-", parent)?;
        let etcd = Etcd::start(&programs.etcd, folder.path())?;
        let api_server = ApiServer::new(&programs.api_server, folder.path(), &etcd.address(), network)?;
        let kubeconfig = api_server.admin_kubeconfig(folder.path())?;
        let client = access::client_of(&kubeconfig).await?;
        let cluster = Self { client, kubeconfig, programs, api_server, etcd, folder };
        cluster.etcd.ready().await?;
        cluster.start_api_server().await.context("the cluster does not start")?;
        Ok(cluster)
    }

    /// Returns a client with all permissions.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the kubeconfig of a client with all permissions.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// Returns the folder that contains kubectl.
    #[must_use]
    pub fn tools(&self) -> &Path {
        self.programs.kubectl.parent().unwrap_or(Path::new("."))
    }

    /// Kills the API server, like a crash. Its connections break, and new ones are refused.
    ///
    /// # Errors
    /// It does not run.
    pub fn stop_api_server(&self) -> Result<()> {
        self.api_server.stop()
    }

    /// Starts the API server on its previous port with all stored objects, and waits until it is ready. A watch from a
    /// version before the stop is answered with 410 (Expired), unless nothing has been written since.
    ///
    /// # Errors
    /// It is already running, exits, or is not ready in time; the message contains its log.
    pub async fn start_api_server(&self) -> Result<()> {
        self.api_server.start()?;
        self.api_server.ready(&self.kubeconfig).await
    }

    /// Suspends the API server: connections stay open, and no request is answered until [`Cluster::resume_api_server`].
    ///
    /// # Errors
    /// It does not run.
    pub fn pause_api_server(&self) -> Result<()> {
        self.api_server.with(Process::pause)
    }

    /// Resumes the API server after [`Cluster::pause_api_server`].
    ///
    /// # Errors
    /// It does not run.
    pub fn resume_api_server(&self) -> Result<()> {
        self.api_server.with(Process::resume)
    }

    /// Deletes the history of all objects: a watch or a list from an earlier version is answered with 410 (Expired).
    /// Restarts the API server, because it also keeps recent history in memory.
    ///
    /// # Errors
    /// The API server is not running or does not start again, or etcd rejects the request.
    pub async fn compact(&self) -> Result<()> {
        self.stop_api_server()?;
        self.start_compacted().await
    }

    /// Starts the API server like [`Cluster::start_api_server`], but without the history of the objects, as after
    /// [`Cluster::compact`].
    ///
    /// # Errors
    /// The API server is running or does not start, or etcd rejects the request.
    pub async fn start_compacted(&self) -> Result<()> {
        self.etcd.compact().await?;
        self.start_api_server().await
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("url", &self.api_server.url()).finish_non_exhaustive()
    }
}

/// Returns the API of one of Tamis' kinds in a namespace.
#[must_use]
pub fn objects(client: Client, namespace: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("tamis.dev", "v1alpha1", kind);
    Api::namespaced_with(client, namespace, &ApiResource::from_gvk_with_plural(&kind, plural))
}

/// Repeats `question` every 20 ms until it has an answer.
///
/// # Errors
/// The last error of `question`, or that it had no answer in time.
pub async fn eventually<T>(what: &str, within: Duration, question: impl AsyncFn() -> Result<Option<T>>) -> Result<T> {
    let began = Instant::now();
    loop {
        let answer = question().await;
        match answer {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) if began.elapsed() > within => bail!("{what}: not within {within:?}"),
            Err(error) if began.elapsed() > within => {
                return Err(error).with_context(|| format!("{what}: not within {within:?}"));
            }
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
