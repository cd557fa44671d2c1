//! The other programs of Kubernetes: kubelet and kube-proxy on the node, controller-manager and scheduler beside the
//! API server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};
use tamis_tests::Port;
use tamis_tests::cluster::{Cluster, Process};

use super::programs::program;
use super::{DNS, NODE_NAME};
use crate::machine::{Machine, NAME, NODE, PODS};

/// How long the autoscaler waits before it takes gateways away: a run cannot wait for the usual five minutes.
pub(crate) const DOWN_AFTER: u32 = 30;

/// Where kube-proxy serves its metrics, on the node's address.
pub(super) const PROXY_METRICS: u16 = 10249;

/// Everything but the API server and containerd.
pub(crate) struct Parts {
    processes: Vec<Process>,
    proxy: Process,
    _ports: [Port; 2],
}

impl Parts {
    pub(crate) fn start(machine: &Machine, cluster: &Cluster, containerd: &Path) -> Result<Self> {
        let ports = [Port::reserve()?, Port::reserve()?];
        let processes = vec![
            controller_manager(machine, cluster, &ports[0])?,
            scheduler(machine, cluster, &ports[1])?,
            kubelet(machine, cluster, containerd)?,
        ];
        Ok(Self { processes, proxy: proxy(machine, cluster)?, _ports: ports })
    }

    /// Fails where one has ended, with its log.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.processes.iter_mut().chain([&mut self.proxy]).try_for_each(Process::check)
    }

    /// kube-proxy.
    pub(super) fn proxy(&self) -> &Process {
        &self.proxy
    }
}

fn controller_manager(machine: &Machine, cluster: &Cluster, port: &Port) -> Result<Process> {
    let kubeconfig = cluster.member("controller-manager", "system:kube-controller-manager", None)?;
    let mut command = Command::new(program("kube-controller-manager")?);
    command.arg(option("kubeconfig", &kubeconfig));
    command.arg(option("authentication-kubeconfig", &kubeconfig)).arg(option("authorization-kubeconfig", &kubeconfig));
    command.arg(option("service-account-private-key-file", cluster.token_key()));
    command.arg(option("root-ca-file", cluster.authority()));
    command.args(["--use-service-account-credentials=true", "--leader-elect=false", "--bind-address=127.0.0.1"]);
    command.arg(format!("--secure-port={}", port.number()));
    command.arg("--horizontal-pod-autoscaler-sync-period=5s");
    command.arg(format!("--horizontal-pod-autoscaler-downscale-stabilization={DOWN_AFTER}s"));
    // New pods count at once: by default their first minutes of CPU are not looked at.
    command.arg("--horizontal-pod-autoscaler-cpu-initialization-period=20s");
    command.arg("--horizontal-pod-autoscaler-initial-readiness-delay=5s");
    spawn("kube-controller-manager", &mut command, machine)
}

fn scheduler(machine: &Machine, cluster: &Cluster, port: &Port) -> Result<Process> {
    let kubeconfig = cluster.member("scheduler", "system:kube-scheduler", None)?;
    let mut command = Command::new(program("kube-scheduler")?);
    command.arg(option("kubeconfig", &kubeconfig));
    command.arg(option("authentication-kubeconfig", &kubeconfig)).arg(option("authorization-kubeconfig", &kubeconfig));
    command.args(["--leader-elect=false", "--bind-address=127.0.0.1"]).arg(format!("--secure-port={}", port.number()));
    spawn("kube-scheduler", &mut command, machine)
}

fn kubelet(machine: &Machine, cluster: &Cluster, containerd: &Path) -> Result<Process> {
    let folder = machine.folder();
    let address = NODE.to_string();
    let serving = cluster.server_certificate("kubelet-server", &[&address, NODE_NAME])?;
    let kubeconfig = cluster.member("kubelet", &format!("system:node:{NODE_NAME}"), Some("system:nodes"))?;
    let resolver = folder.join("resolv.conf");
    fs::write(&resolver, "")?;
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": cluster.authority()},
        },
        "authorization": {"mode": "Webhook"},
        "address": address,
        "tlsCertFile": serving.certificate,
        "tlsPrivateKeyFile": serving.key,
        "containerRuntimeEndpoint": format!("unix://{}", containerd.display()),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{NAME}"),
        "failCgroupV1": false,
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": resolver,
        "podLogsDir": folder.join("pod-logs"),
        "volumePluginDir": folder.join("volume-plugins"),
        // The machine's disk is its owner's business: no pod goes, and no image, because it is full.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
    });
    let mut command = Machine::on_node(&program("kubelet")?);
    command.arg(option("config", &written(folder, "kubelet.json", &config)?)).arg(option("kubeconfig", &kubeconfig));
    command.arg(option("root-dir", &folder.join("kubelet"))).arg(option("cert-dir", &folder.join("kubelet-certs")));
    command.arg(format!("--node-ip={address}")).arg(format!("--hostname-override={NODE_NAME}"));
    spawn("kubelet", &mut command, machine)
}

fn proxy(machine: &Machine, cluster: &Cluster) -> Result<Process> {
    let kubeconfig = cluster.member("proxy", "system:kube-proxy", None)?;
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig},
        "hostnameOverride": NODE_NAME,
        "mode": "iptables",
        "clusterCIDR": PODS,
        "metricsBindAddress": format!("{NODE}:{PROXY_METRICS}"),
        "oomScoreAdj": 0,
        // The machine's limits are not ours to set.
        "conntrack": {"maxPerCore": 0},
    });
    let mut command = Machine::on_node(&program("kube-proxy")?);
    command.arg(option("config", &written(machine.folder(), "kube-proxy.json", &config)?));
    spawn("kube-proxy", &mut command, machine)
}

fn spawn(name: &str, command: &mut Command, machine: &Machine) -> Result<Process> {
    Process::spawn(name, command, &machine.folder().join(format!("{name}.log")), 0)
}

fn option(name: &str, value: &Path) -> String {
    format!("--{name}={}", value.display())
}

fn written(folder: &Path, name: &str, config: &Value) -> Result<PathBuf> {
    let file = folder.join(name);
    fs::write(&file, config.to_string())?;
    Ok(file)
}
