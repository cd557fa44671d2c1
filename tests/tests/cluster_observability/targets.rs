//! The processes of a test as the pods, Services and EndpointSlices that a cluster would have for them, and the chart's
//! monitors, so that Prometheus discovers the processes by itself.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tamis_tests::cluster::Cluster;
use tamis_tests::monitors::scrape_config;

pub(crate) const OPERATORS: &str = "tamis-system";
pub(crate) const GATEWAYS: &str = "tamis-public";
/// The address of every pod. It is one for documentation (RFC 5737): the API server refuses loopback.
const POD: &str = "192.0.2.1";

/// Applies the chart's monitors with its operator, and gives the scrape configurations of the monitors.
pub(crate) async fn monitors(cluster: &Cluster) -> Result<Vec<Value>> {
    cluster
        .install_definitions(&["servicemonitors.monitoring.coreos.com", "podmonitors.monitoring.coreos.com"])
        .await?;
    let mut arguments = vec!["template", "tamis", "charts/tamis", "--namespace", OPERATORS];
    for file in ["templates/monitoring/monitors.yaml", "templates/operator.yaml"] {
        arguments.extend(["--show-only", file]);
    }
    for switch in ["monitoring.serviceMonitor.enabled=true", "monitoring.podMonitor.enabled=true"] {
        arguments.extend(["--set", switch]);
    }
    cluster.apply(&cluster.helm(&arguments).await?).await?;
    // Pods have no network here: what listens on a pod's address listens on loopback.
    let network = json!({
        "source_labels": ["__address__"], "regex": format!("{}:(.+)", POD.replace('.', "\\.")),
        "replacement": "127.0.0.1:$1", "target_label": "__address__",
    });
    let mut jobs = Vec::new();
    for (kind, name) in [("servicemonitor", "tamis-operator"), ("podmonitor", "tamis-gateways")] {
        let monitor = get(cluster, kind, OPERATORS, name).await?;
        jobs.push(scrape_config(&monitor, &cluster.kubeconfig(), std::slice::from_ref(&network))?);
    }
    Ok(jobs)
}

/// Creates the pod of a gateway whose admin port has this URL, from the Deployment that the operator writes.
pub(crate) async fn gateway(cluster: &Cluster, name: &str, admin: &str) -> Result<()> {
    pod(cluster, GATEWAYS, "tamis-public", name, port(admin)?).await
}

/// Creates the pod of an operator, from the chart's Deployment, and its place behind the chart's Service.
pub(crate) async fn operator(cluster: &Cluster, name: &str, admin: &str) -> Result<()> {
    pod(cluster, OPERATORS, "tamis-operator", name, port(admin)?).await?;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": name, "namespace": OPERATORS,
            "labels": {"kubernetes.io/service-name": "tamis-operator"},
        },
        "endpoints": [{
            "addresses": [POD],
            "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "namespace": OPERATORS, "name": name},
        }],
        "ports": [{"name": "admin", "port": port(admin)?, "protocol": "TCP"}],
    });
    cluster.apply(&slice.to_string()).await
}

/// Removes the place of an operator, as its end does.
pub(crate) async fn operator_ends(cluster: &Cluster, name: &str) -> Result<()> {
    cluster.kubectl(&["delete", "endpointslice", name, "-n", OPERATORS], None).await.map(drop)
}

async fn pod(cluster: &Cluster, namespace: &str, deployment: &str, name: &str, port: u16) -> Result<()> {
    let mut template = get(cluster, "deployment", namespace, deployment).await?["spec"]["template"].take();
    let containers = template["spec"]["containers"].as_array_mut().context("containers")?;
    let mut ports = containers.iter_mut().flat_map(|container| container["ports"].as_array_mut()).flatten();
    let admin = ports.find(|port| port["name"] == "admin").context("an admin port")?;
    admin["containerPort"] = json!(port);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    });
    cluster.apply(&pod.to_string()).await?;
    let status = json!({"status": {"phase": "Running", "podIP": POD, "podIPs": [{"ip": POD}]}}).to_string();
    let patch = ["patch", "pod", name, "-n", namespace, "--subresource=status", "--patch", &status];
    cluster.kubectl(&patch, None).await.map(drop)
}

async fn get(cluster: &Cluster, kind: &str, namespace: &str, name: &str) -> Result<Value> {
    let text = cluster.kubectl(&["get", kind, name, "-n", namespace, "-o", "json"], None).await?;
    Ok(serde_json::from_str(&text)?)
}

fn port(url: &str) -> Result<u16> {
    Ok(url.rsplit(':').next().context("a port")?.parse()?)
}
