//! One node of Kubernetes, on this machine.

mod containerd;
mod parts;
mod programs;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod, Service};
use kube::api::ListParams;
use kube::{Api, Client};
use tamis_tests::cluster::{Cluster, Network, Process, eventually};

pub(crate) use parts::DOWN_AFTER;
pub(crate) use programs::program;

use crate::image::Image;
use crate::machine::{HOST, Machine, NODE};
use containerd::{Containerd, PAUSE};
use parts::{PROXY_METRICS, Parts};

/// The node's name.
pub(crate) const NODE_NAME: &str = "node-1";
/// The address of the cluster's DNS.
const DNS: &str = "10.96.0.10";
/// What the cluster has beside the product, as pods.
const COREDNS: &str = "localhost/tamis-e2e/coredns:1";
const METRICS: &str = "localhost/tamis-e2e/metrics-server:1";

/// A running node, with its API server.
pub(crate) struct Node {
    // Ended in this order.
    parts: Parts,
    containerd: Containerd,
    cluster: Cluster,
    machine: Machine,
}

impl Node {
    /// Starts it on a machine that is ours, and waits until it takes pods.
    pub(crate) async fn start(machine: Machine) -> Result<Self> {
        let network = Network { address: HOST.into() };
        let cluster = Cluster::start_on(&network, machine.folder()).await?;
        let containerd = Containerd::start(&machine).await?;
        let pause = program("pause")?;
        containerd.import(&Image { name: PAUSE, program: &pause }.write(&machine.folder().join("pause"))?)?;
        let parts = Parts::start(&machine, &cluster, containerd.socket())?;
        let mut node = Self { parts, containerd, cluster, machine };
        let ready = node.ready().await;
        node.parts.check()?;
        ready?;
        Ok(node)
    }

    async fn ready(&self) -> Result<()> {
        let nodes: Api<NodeObject> = Api::all(self.client());
        eventually("the node is Ready", Duration::from_secs(90), async || {
            let node = nodes.get_opt(NODE_NAME).await?;
            let conditions = node.and_then(|node| node.status).and_then(|status| status.conditions);
            let ready = conditions.into_iter().flatten().any(|found| found.type_ == "Ready" && found.status == "True");
            Ok(ready.then_some(()))
        })
        .await
        .with_context(|| format!("see the logs in {}", self.machine.folder().display()))
    }

    /// Starts DNS and metrics-server as pods; waits for neither.
    pub(crate) async fn addons(&self) -> Result<()> {
        for (name, image, manifest) in [
            ("coredns", COREDNS, include_str!("../../manifests/coredns.yaml")),
            ("metrics-server", METRICS, include_str!("../../manifests/metrics-server.yaml")),
        ] {
            self.image(image, &program(name)?)?;
            self.cluster.apply(manifest).await.context(name)?;
        }
        Ok(())
    }

    /// Makes an image of a program and imports it.
    pub(crate) fn image(&self, name: &str, program: &Path) -> Result<()> {
        let scratch = tempfile::tempdir_in(self.machine.folder())?;
        let archive = Image { name, program }.write(&scratch.path().join("image"))?;
        self.containerd.import(&archive)
    }

    /// Imports an archive.
    pub(crate) fn import(&self, archive: &Path) -> Result<()> {
        self.containerd.import(archive)
    }

    /// Gives an image one more name.
    pub(crate) fn tag(&self, from: &str, to: &str) -> Result<()> {
        self.containerd.tag(from, to)
    }

    /// The API server.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// A client that may do anything.
    pub(crate) fn client(&self) -> Client {
        self.cluster.client()
    }

    /// kubectl, as an administrator; the words of a line.
    pub(crate) async fn kubectl(&self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.cluster.kubectl(&words, None).await
    }

    /// Helm, as an administrator, in the root of the repository; the words of a line.
    pub(crate) async fn helm(&self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.cluster.helm(&words).await
    }

    /// Where a Service answers callers on this machine: `http://ADDRESS:PORT`.
    pub(crate) async fn service(&self, namespace: &str, name: &str) -> Result<String> {
        let services: Api<Service> = Api::namespaced(self.client(), namespace);
        let spec = services.get(name).await?.spec.context("no spec")?;
        let port = spec.ports.iter().flatten().next().context("no port")?.port;
        Ok(format!("http://{}:{port}", spec.cluster_ip.context("no address")?))
    }

    /// The pods with some labels that are not about to end.
    pub(crate) async fn pods(&self, namespace: &str, labels: &str) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client(), namespace);
        let mut found = pods.list(&ListParams::default().labels(labels)).await?.items;
        found.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(found)
    }

    /// Waits until just so many pods with some labels are there and ready; gives their names.
    pub(crate) async fn pods_ready(&self, namespace: &str, labels: &str, count: usize) -> Result<Vec<String>> {
        let what = format!("{count} pods {labels} in {namespace}");
        let found = eventually(&what, Duration::from_secs(120), async || {
            let pods = self.pods(namespace, labels).await?;
            let ready = pods.len() == count && pods.iter().all(is_ready);
            Ok(ready.then(|| pods.into_iter().filter_map(|pod| pod.metadata.name).collect::<Vec<_>>()))
        })
        .await;
        match found {
            Ok(names) => Ok(names),
            Err(error) => {
                let said = self.kubectl(&format!("-n {namespace} describe pods -l {labels}")).await?;
                Err(error.context(said))
            }
        }
    }

    /// Waits until no pod with some labels is about to end any more.
    pub(crate) async fn pods_gone(&self, namespace: &str, labels: &str) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client(), namespace);
        eventually(&format!("pods {labels} of {namespace} have ended"), Duration::from_secs(90), async || {
            let found = pods.list(&ListParams::default().labels(labels)).await?.items;
            Ok(found.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()).then_some(()))
        })
        .await
    }

    /// All that helps to understand a failure, in a few hundred lines.
    pub(crate) async fn story(&self) -> String {
        let mut story = String::new();
        for line in [
            "get pods -A -o wide",
            "get deployments,horizontalpodautoscalers,poddisruptionbudgets,gatewaygroups,expositions -A",
            "get events -A --sort-by=.lastTimestamp",
            "-n tamis-system logs -l app.kubernetes.io/component=operator --tail=40 --prefix",
            "-n tamis-public logs -l app.kubernetes.io/component=gateway --tail=40 --prefix",
        ] {
            let said = self.kubectl(line).await.unwrap_or_else(|error| format!("{error:#}"));
            story += &format!("--- kubectl {line}\n{said}\n");
        }
        story
    }

    /// kube-proxy.
    pub(crate) fn proxy(&self) -> &Process {
        self.parts.proxy()
    }

    /// When kube-proxy last wrote its rules, in seconds since 1970. `None` if it does not answer.
    pub(crate) async fn proxy_synced(&self) -> Option<f64> {
        let metrics = reqwest::get(format!("http://{NODE}:{PROXY_METRICS}/metrics")).await.ok()?.text().await.ok()?;
        last_sync(&metrics)
    }

    /// Fails where a part of Kubernetes has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.parts.check()
    }
}

/// The latest value of kube-proxy's metric, over the families of addresses.
fn last_sync(metrics: &str) -> Option<f64> {
    let samples = metrics.lines().filter(|line| line.starts_with("kubeproxy_sync_proxy_rules_last_timestamp_seconds"));
    samples.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).reduce(f64::max)
}

/// Returns whether a pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions).flatten();
    conditions.into_iter().any(|found| found.type_ == "Ready" && found.status == "True")
}

#[cfg(test)]
mod tests {
    use super::last_sync;

    #[test]
    fn the_last_sync_is_that_of_any_family() {
        let metrics = "# TYPE kubeproxy_sync_proxy_rules_last_timestamp_seconds gauge\n\
                       kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"} 1.795e+09\n\
                       kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv6\"} 1.7e+09\n";
        assert_eq!(last_sync(metrics), Some(1.795e9));
        assert_eq!(last_sync(""), None);
    }
}
