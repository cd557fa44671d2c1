//! Pod security refuses other pods in the namespaces, and the image contains no shell.

use anyhow::{Result, bail, ensure};
use serde_json::json;

use super::Stage;
use crate::product::{GATEWAYS, OPERATORS, PUBLIC, SYSTEM};

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    for namespace in [SYSTEM, PUBLIC] {
        let line = format!("get namespace {namespace} -o yaml");
        let said = node.kubectl(&line).await?;
        ensure!(
            said.contains("pod-security.kubernetes.io/enforce: restricted"),
            "{namespace} is not restricted:\n{said}"
        );
        let intruder = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "intruder", "namespace": namespace},
            "spec": {"containers": [{"name": "c", "image": stage.image, "imagePullPolicy": "Never"}]},
        });
        match node.cluster().apply(&intruder.to_string()).await {
            Err(error) if format!("{error:#}").contains("violates PodSecurity") => {}
            other => bail!("{namespace} must refuse a pod without a security context: {other:?}"),
        }
    }
    let mut tried = 0;
    for (namespace, labels) in [(SYSTEM, OPERATORS), (PUBLIC, GATEWAYS)] {
        for pod in node.pods_ready(namespace, labels, 2).await? {
            for shell in ["sh", "/bin/sh", "bash", "/busybox/sh"] {
                match node.kubectl(&format!("-n {namespace} exec {pod} -- {shell} -c true")).await {
                    Err(error) if format!("{error:#}").contains("no such file or directory") => tried += 1,
                    Err(error) if format!("{error:#}").contains("executable file not found") => tried += 1,
                    other => bail!("{shell} in {pod}: {other:?}"),
                }
            }
        }
    }
    Ok(format!("restricted is enforced in both namespaces; {tried} attempts found no shell"))
}
