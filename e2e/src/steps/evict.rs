//! Gateways are evicted, as by `kubectl drain`, and their PodDisruptionBudget delays the second eviction.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;
use tamis_tests::cluster::eventually;

use super::Stage;
use crate::load::Load;
use crate::product::{GATEWAYS, PUBLIC};

const SOON: Duration = Duration::from_secs(120);

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    let pods: Api<Pod> = Api::namespaced(node.client(), PUBLIC);
    let names = node.pods_ready(PUBLIC, GATEWAYS, 2).await?;
    let load = Load::start(&node.watched().await?, 8, Duration::from_millis(10))?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(evict(stage, &names[0]).await?, "the budget refuses the first eviction");
    // The second eviction is refused until two gateways are ready again.
    ensure!(!evict(stage, &names[1]).await?, "the budget allows both evictions at once");
    let mut refusals = 1;
    let waited = std::time::Instant::now();
    while !evict(stage, &names[1]).await? {
        ensure!(waited.elapsed() < SOON, "the budget refuses the second eviction for {SOON:?}");
        refusals += 1;
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let waited = waited.elapsed();
    eventually("both evicted gateways have ended", SOON, async || {
        let mut there = false;
        for name in &names {
            there |= pods.get_opt(name).await?.is_some();
        }
        Ok((!there).then_some(()))
    })
    .await?;
    node.pods_ready(PUBLIC, GATEWAYS, 2).await?;
    let seen = load.end_without_failure()?;
    Ok(format!("the budget delayed the second eviction for {waited:.1?} ({refusals} refusals); {seen}"))
}

/// Evicts a pod. Returns whether the budget allows it. Uses kubectl, because other clients repeat a refused request.
async fn evict(stage: &Stage, name: &str) -> Result<bool> {
    let path = format!("/api/v1/namespaces/{PUBLIC}/pods/{name}/eviction");
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": PUBLIC}});
    let asked = ["create", "--raw", path.as_str(), "--filename=-"];
    match stage.node.cluster().kubectl(&asked, Some(&eviction.to_string())).await {
        Ok(_) => Ok(true),
        Err(error) if format!("{error:#}").contains("violate the pod's disruption budget") => Ok(false),
        Err(error) => Err(error.context(format!("evicting {name}"))),
    }
}
