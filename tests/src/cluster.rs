//! A real Kubernetes API server for a test, and the real binary as the operator and as a gateway of a group.
//!
//! A [`Cluster`] is etcd and kube-apiserver, ready in about three seconds: enough for CustomResourceDefinitions, CEL,
//! admission policies, watches, server-side apply, Leases and RBAC. There is no controller manager, no scheduler and no
//! node: what a Deployment, an owner reference or the deletion of a namespace asks for is not done. The end-to-end run
//! adds them, to a [`Cluster::start_on`] a network.
//!
//! Every test has a cluster of its own, so the tests that need one are few and each walks a long way. The test runner's
//! configuration keeps more than two from running at once.

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
pub use tamis::{Admin, ClusterGateway, Operator};
pub use test_env::TestEnv;

use crate::starts;
use programs::Programs;
use server::{ApiServer, Etcd};

/// A running API server with an etcd of its own; both are killed when it is dropped.
pub struct Cluster {
    client: Client,
    kubeconfig: PathBuf,
    programs: Programs,
    // Ended in this order, and the files last.
    api_server: ApiServer,
    etcd: Etcd,
    folder: TempDir,
}

impl Cluster {
    /// Starts a cluster and waits until it is ready.
    ///
    /// # Errors
    /// The programs are not installed, or one ended; the message has its log.
    pub async fn start() -> Result<Self> {
        Self::start_in(&std::env::temp_dir(), None).await
    }

    /// [`Cluster::start`] on a network that nodes reach, with its files in a folder of this one.
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

    /// A client that may do anything.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A file for clients that may do anything.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// The folder with kubectl.
    #[must_use]
    pub fn tools(&self) -> &Path {
        self.programs.kubectl.parent().unwrap_or(Path::new("."))
    }

    /// Ends the API server at once, as a crash does. Connections break and new ones are refused.
    ///
    /// # Errors
    /// It does not run.
    pub fn stop_api_server(&self) -> Result<()> {
        self.api_server.stop()
    }

    /// Starts the API server on the port it had, with all that was stored, and waits until it is ready. A watch from a
    /// version before the stop is answered with 410 (Expired), unless nothing was written since.
    ///
    /// # Errors
    /// It runs already, ended again, or is not ready in time; the message has its log.
    pub async fn start_api_server(&self) -> Result<()> {
        self.api_server.start()?;
        self.api_server.ready(&self.kubeconfig).await
    }

    /// Lets the API server hang: connections stay, and nothing is answered until [`Cluster::resume_api_server`].
    ///
    /// # Errors
    /// It does not run.
    pub fn pause_api_server(&self) -> Result<()> {
        self.api_server.with(Process::pause)
    }

    /// Ends [`Cluster::pause_api_server`].
    ///
    /// # Errors
    /// It does not run.
    pub fn resume_api_server(&self) -> Result<()> {
        self.api_server.with(Process::resume)
    }

    /// Forgets all history of the objects: a watch or a list of a version read before is answered with 410 (Expired).
    /// The API server is started again in between, because it keeps recent history in memory too.
    ///
    /// # Errors
    /// The API server does not run or does not come back, or etcd refuses.
    pub async fn compact(&self) -> Result<()> {
        self.stop_api_server()?;
        self.start_compacted().await
    }

    /// [`Cluster::start_api_server`] without the history of the objects, as after [`Cluster::compact`].
    ///
    /// # Errors
    /// The API server runs or does not come back, or etcd refuses.
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

/// Objects of a namespace, of one of our kinds.
#[must_use]
pub fn objects(client: Client, namespace: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("tamis.dev", "v1alpha1", kind);
    Api::namespaced_with(client, namespace, &ApiResource::from_gvk_with_plural(&kind, plural))
}

/// Asks until the answer is there; every 20 ms.
///
/// # Errors
/// The last one of the question, or that it had no answer in time.
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
