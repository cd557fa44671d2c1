//! etcd and kube-apiserver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::Network;
use super::access::{self, Identity};
use super::certificates::Certificates;
use super::process::Process;
use crate::Port;

/// Much longer than they need, for busy machines.
const READY_WITHIN: Duration = Duration::from_secs(90);
/// Lines of their logs that a failed test shows. Few, because most lines are unrelated to the test.
const SHOWN: usize = 15;
const ASK_EVERY: Duration = Duration::from_millis(25);

/// etcd with one member. It is killed on drop.
pub struct Etcd {
    process: Mutex<Process>,
    clients: Port,
    _peers: Port,
}

impl Etcd {
    /// Starts an etcd of its own, with its data in a folder, and waits until it is ready.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub async fn run(folder: &Path) -> Result<Self> {
        let started = Self::start(&super::programs::Programs::find()?.etcd, folder)?;
        started.ready().await?;
        Ok(started)
    }

    pub(super) fn start(program: &Path, folder: &Path) -> Result<Self> {
        let (clients, peers) = (Port::reserve()?, Port::reserve()?);
        let (client, peer) = (format!("http://{}", clients.address()), format!("http://{}", peers.address()));
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(folder.join("etcd"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        // A test's data need not survive the machine.
        command.args(["--unsafe-no-fsync", "--log-level=warn"]);
        // The only member waits this long, in milliseconds, for another leader before it starts.
        command.args(["--heartbeat-interval=10", "--election-timeout=100"]);
        let process = Mutex::new(Process::spawn("etcd", &mut command, &folder.join("etcd.log"), SHOWN)?);
        Ok(Self { process, clients, _peers: peers })
    }

    /// Returns the address for clients, `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://{}", self.clients.address())
    }

    pub(super) async fn ready(&self) -> Result<()> {
        let until = Instant::now() + READY_WITHIN;
        while Instant::now() < until {
            self.process.lock().unwrap_or_else(PoisonError::into_inner).check()?;
            if reqwest::get(format!("{}/health", self.address())).await.is_ok_and(|answer| answer.status().is_success())
            {
                return Ok(());
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        bail!("etcd is not ready")
    }

    /// Deletes all but the newest version of every key.
    pub(super) async fn compact(&self) -> Result<()> {
        // Every response contains the current revision of the store.
        let found = self.ask("range", &json!({"key": "AA=="})).await?;
        let revision = found["header"]["revision"].as_str().with_context(|| format!("no revision: {found}"))?;
        self.ask("compaction", &json!({"revision": revision, "physical": true})).await.map(drop)
    }

    /// Calls a method of etcd's JSON gateway.
    async fn ask(&self, method: &str, body: &Value) -> Result<Value> {
        let url = format!("{}/v3/kv/{method}", self.address());
        let answer = reqwest::Client::new().post(url).body(body.to_string()).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "etcd: {method}: {status}: {text}");
        Ok(serde_json::from_str(&text)?)
    }
}

pub(super) struct ApiServer {
    process: Mutex<Option<Process>>,
    program: PathBuf,
    arguments: Vec<String>,
    pub(super) certificates: Certificates,
    address: String,
    _port: Port,
    log: PathBuf,
}

impl ApiServer {
    /// Prepares an API server without starting it.
    pub(super) fn new(program: &Path, folder: &Path, etcd: &str, network: Option<&Network>) -> Result<Self> {
        let names = network.map(Network::names).unwrap_or_default();
        let certificates = Certificates::write(folder, &names)?;
        let port = Port::reserve()?;
        let file = |path: &Path| path.display().to_string();
        let number = port.number().to_string();
        let mut options = vec![
            ("etcd-servers", etcd.to_owned()),
            ("secure-port", number.clone()),
            ("cert-dir", file(folder)),
            ("client-ca-file", file(&certificates.authority)),
            ("tls-cert-file", file(&certificates.server.certificate)),
            ("tls-private-key-file", file(&certificates.server.key)),
            ("service-account-issuer", "https://kubernetes.default.svc".to_owned()),
            ("service-account-key-file", file(&certificates.tokens_public)),
            ("service-account-signing-key-file", file(&certificates.tokens)),
            ("service-cluster-ip-range", "10.96.0.0/16".to_owned()),
            ("authorization-mode", "Node,RBAC".to_owned()),
        ];
        let address = match network {
            None => {
                options.push(("bind-address", "127.0.0.1".to_owned()));
                // Without these two, the API server looks for a network interface to advertise.
                options.push(("advertise-address", "127.0.0.1".to_owned()));
                options.push(("endpoint-reconciler-type", "none".to_owned()));
                "127.0.0.1".to_owned()
            }
            Some(network) => {
                let address = network.address.to_string();
                options.push(("bind-address", address.clone()));
                options.push(("advertise-address", address.clone()));
                options.extend(of_nodes(&certificates)?);
                address
            }
        };
        Ok(Self {
            process: Mutex::new(None),
            program: program.to_owned(),
            arguments: options.into_iter().map(|(name, value)| format!("--{name}={value}")).collect(),
            certificates,
            address: format!("{address}:{number}"),
            _port: port,
            log: folder.join("kube-apiserver.log"),
        })
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Writes the kubeconfig of a client.
    pub(super) fn kubeconfig(&self, file: &Path, namespace: &str, identity: &Identity<'_>) -> Result<()> {
        let text = access::kubeconfig(&self.url(), &self.certificates.authority, namespace, identity);
        fs::write(file, text.to_string()).with_context(|| file.display().to_string())
    }

    pub(super) fn admin_kubeconfig(&self, folder: &Path) -> Result<PathBuf> {
        let file = folder.join("admin.kubeconfig");
        let admin = &self.certificates.admin;
        self.kubeconfig(&file, "default", &Identity::Certificate { certificate: &admin.certificate, key: &admin.key })?;
        Ok(file)
    }

    pub(super) fn start(&self) -> Result<()> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(process.is_none(), "the API server runs already");
        let mut command = Command::new(&self.program);
        *process = Some(Process::spawn("kube-apiserver", command.args(&self.arguments), &self.log, SHOWN)?);
        Ok(())
    }

    pub(super) fn stop(&self) -> Result<()> {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        process.context("the API server does not run")?.kill()
    }

    /// Calls `act` with the running process.
    pub(super) fn with<T>(&self, act: impl FnOnce(&Process) -> Result<T>) -> Result<T> {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        act(process.as_ref().context("the API server does not run")?)
    }

    /// Waits until the API server is ready and has the namespace `default`.
    pub(super) async fn ready(&self, admin: &Path) -> Result<()> {
        // A new client, because existing connections may be broken.
        let client = access::impatient_client_of(admin).await?;
        let until = Instant::now() + READY_WITHIN;
        let mut said = String::new();
        while Instant::now() < until {
            if let Some(process) = self.process.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                process.check()?;
            }
            let asked = async {
                access::get(&client, "/readyz").await?;
                access::get(&client, "/api/v1/namespaces/default").await
            };
            match asked.await {
                Ok(_) => return Ok(()),
                Err(error) => said = error.to_string(),
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        bail!("the API server is not ready: {said}")
    }
}

/// Returns the options with which the API server reaches kubelets and aggregated API servers.
fn of_nodes(certificates: &Certificates) -> Result<Vec<(&'static str, String)>> {
    let file = |path: &Path| path.display().to_string();
    let kubelet = certificates.client("kubelet-client", "kube-apiserver-kubelet-client", Some("system:masters"))?;
    let proxy = certificates.client("front-proxy", "front-proxy-client", None)?;
    Ok(vec![
        ("allow-privileged", "true".to_owned()),
        ("kubelet-certificate-authority", file(&certificates.authority)),
        ("kubelet-client-certificate", file(&kubelet.certificate)),
        ("kubelet-client-key", file(&kubelet.key)),
        ("kubelet-preferred-address-types", "InternalIP".to_owned()),
        ("requestheader-client-ca-file", file(&certificates.authority)),
        ("requestheader-allowed-names", "front-proxy-client".to_owned()),
        ("requestheader-username-headers", "X-Remote-User".to_owned()),
        ("requestheader-group-headers", "X-Remote-Group".to_owned()),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-".to_owned()),
        ("proxy-client-cert-file", file(&proxy.certificate)),
        ("proxy-client-key-file", file(&proxy.key)),
        // The API server runs on no node and cannot reach the addresses of Services.
        ("enable-aggregator-routing", "true".to_owned()),
    ])
}
