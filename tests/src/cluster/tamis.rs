//! The real binary in a cluster: `tamis operator`, and `tamis gateway` of a group.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use super::Cluster;
use super::process::Process;
use crate::{Era, Port, Rpc, Target, binary, gateway};

const READY_WITHIN: Duration = Duration::from_secs(60);
/// Lines of its log that a failed test shows.
const SHOWN: usize = 200;

/// The parameters of a program, kept to restart it unchanged.
#[derive(Debug)]
struct Launch {
    name: String,
    arguments: Vec<String>,
    kubeconfig: PathBuf,
    log: PathBuf,
}

impl Launch {
    fn spawn(&self) -> Result<Process> {
        let mut command = Command::new(binary("tamis")?);
        command.args(&self.arguments).env("KUBECONFIG", &self.kubeconfig);
        Process::spawn(&self.name, &mut command, &self.log, SHOWN)
    }
}

/// An admin port.
#[derive(Debug)]
pub struct Admin {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    port: Port,
}

impl Admin {
    fn reserve() -> Result<Self> {
        let port = Port::reserve()?;
        Ok(Self { url: format!("http://{}", port.address()), port })
    }

    /// Returns the response to a GET of a path.
    ///
    /// # Errors
    /// The response is not a success.
    pub async fn get(&self, path: &str) -> Result<String> {
        let answer = reqwest::get(format!("{}{path}", self.url)).await?;
        Ok(answer.error_for_status()?.text().await?)
    }

    /// Returns the JSON response to a GET of a path that requires a token.
    ///
    /// # Errors
    /// The response is not a success or not JSON.
    pub async fn get_with(&self, path: &str, token: &str) -> Result<Value> {
        let request = reqwest::Client::new().get(format!("{}{path}", self.url)).bearer_auth(token);
        Ok(serde_json::from_str(&request.send().await?.error_for_status()?.text().await?)?)
    }

    /// Returns the sum of a metric over all series whose labels contain each of these texts.
    ///
    /// # Errors
    /// The admin port does not answer.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> Result<f64> {
        Ok(gateway::sum(&self.get("/metrics").await?, name, labels))
    }

    /// Waits until `/readyz` answers with success.
    async fn ready(&self, process: &mut Process) -> Result<()> {
        process.answers(&format!("{}/readyz", self.url), READY_WITHIN, |status| status.is_success()).await
    }
}

/// A running `tamis operator`. It is killed on drop.
#[derive(Debug)]
pub struct Operator {
    /// The process.
    pub process: Process,
    /// Its admin port.
    pub admin: Admin,
    launch: Launch,
}

impl Operator {
    /// Starts an operator with the identity of a kubeconfig and waits until it is ready.
    ///
    /// # Errors
    /// It exited, or is not ready in time; the message contains its log.
    pub async fn start(cluster: &Cluster, kubeconfig: &Path, args: &[impl AsRef<str>]) -> Result<Self> {
        let mut operator = Self::spawn(cluster, kubeconfig, args)?;
        operator.ready().await?;
        Ok(operator)
    }

    /// Starts a process without waiting until it is ready.
    ///
    /// # Errors
    /// `tamis` is not built.
    pub fn spawn(cluster: &Cluster, kubeconfig: &Path, args: &[impl AsRef<str>]) -> Result<Self> {
        let admin = Admin::reserve()?;
        let mut arguments = vec!["operator".to_owned(), "--admin".to_owned(), admin.port.address()];
        arguments.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        let log = cluster.folder.path().join(format!("operator-{}.log", admin.port.number()));
        let launch = Launch { name: "tamis operator".to_owned(), arguments, kubeconfig: kubeconfig.to_owned(), log };
        Ok(Self { process: launch.spawn()?, admin, launch })
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// It exited, or is not ready in time; the message contains its log.
    pub async fn ready(&mut self) -> Result<()> {
        self.admin.ready(&mut self.process).await
    }

    /// Kills the operator if it is running, and starts it again with the same port and arguments, without waiting until
    /// it is ready.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process = self.launch.spawn()?;
        Ok(())
    }
}

/// A running `tamis gateway` of a group. It is killed on drop.
#[derive(Debug)]
pub struct ClusterGateway {
    /// The process.
    pub process: Process,
    /// Its admin port.
    pub admin: Admin,
    /// `http://127.0.0.1:PORT` of the serving port.
    pub url: String,
    /// The folder with its last known good configuration, kept across restarts.
    pub cache: PathBuf,
    launch: Launch,
    _port: Port,
}

impl ClusterGateway {
    /// Starts a gateway with the identity of a kubeconfig and an empty cache, and waits until it is ready.
    ///
    /// # Errors
    /// It exited, or is not ready in time; the message contains its log.
    pub async fn start(
        cluster: &Cluster,
        group: &str,
        namespace: &str,
        kubeconfig: &Path,
        args: &[&str],
    ) -> Result<Self> {
        let mut gateway = Self::spawn(cluster, group, namespace, kubeconfig, args)?;
        gateway.ready().await?;
        Ok(gateway)
    }

    /// Starts a process without waiting until it is ready.
    ///
    /// # Errors
    /// `tamis` is not built.
    pub fn spawn(cluster: &Cluster, group: &str, namespace: &str, kubeconfig: &Path, args: &[&str]) -> Result<Self> {
        Self::spawn_on(Self::ports()?, cluster, group, namespace, kubeconfig, args)
    }

    /// Reserves the ports of a gateway, for an operator that starts before it.
    pub(super) fn ports() -> Result<(Port, Admin)> {
        Ok((Port::reserve()?, Admin::reserve()?))
    }

    pub(super) fn spawn_on(
        (port, admin): (Port, Admin),
        cluster: &Cluster,
        group: &str,
        namespace: &str,
        kubeconfig: &Path,
        args: &[&str],
    ) -> Result<Self> {
        let folder = cluster.folder.path();
        let cache = folder.join(format!("gateway-{}-cache", port.number()));
        std::fs::create_dir_all(&cache)?;
        let mut arguments = vec!["gateway".to_owned()];
        let options = [
            ("--group", group.to_owned()),
            ("--namespace", namespace.to_owned()),
            ("--listen", port.address()),
            ("--admin", admin.port.address()),
            ("--cache", cache.display().to_string()),
        ];
        arguments.extend(options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        arguments.extend(args.iter().map(|&arg| arg.to_owned()));
        let log = folder.join(format!("gateway-{}.log", port.number()));
        let name = format!("tamis gateway of {group}");
        let launch = Launch { name, arguments, kubeconfig: kubeconfig.to_owned(), log };
        let url = format!("http://{}", port.address());
        Ok(Self { process: launch.spawn()?, admin, url, cache, launch, _port: port })
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// It exited, or is not ready in time; the message contains its log.
    pub async fn ready(&mut self) -> Result<()> {
        self.admin.ready(&mut self.process).await
    }

    /// Kills the gateway if it is running, and starts it again with the same ports, arguments and cache, without
    /// waiting until it is ready.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process = self.launch.spawn()?;
        Ok(())
    }

    /// Returns the endpoint of an exposition.
    #[must_use]
    pub fn endpoint(&self, namespace: &str, exposition: &str) -> String {
        format!("{}/mcp/{namespace}/{exposition}", self.url)
    }

    /// Returns [`ClusterGateway::endpoint`] as the target of a client.
    #[must_use]
    pub fn target(&self, namespace: &str, exposition: &str) -> Target {
        Target::Url(self.endpoint(namespace, exposition))
    }

    /// Returns a client for raw requests to an exposition in one era.
    ///
    /// # Errors
    /// The HTTP client cannot be created.
    pub fn rpc(&self, namespace: &str, exposition: &str, era: Era) -> Result<Rpc> {
        Rpc::new(&self.endpoint(namespace, exposition), era)
    }
}
