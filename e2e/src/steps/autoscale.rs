//! The group's number of gateways follows the load, by CPU as metrics-server measures it, and is handed back afterwards.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::json;
use tamis_tests::cluster::eventually;

use super::Stage;
use crate::load::Load;
use crate::node::DOWN_AFTER;
use crate::product::{GATEWAYS, PUBLIC};

const SOON: Duration = Duration::from_secs(240);

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    let measured = Instant::now();
    eventually("metrics of pods", SOON, async || {
        Ok(node.kubectl(&format!("top pods -n {PUBLIC}")).await.ok().filter(|said| said.contains("tamis-public")))
    })
    .await?;
    let measured = measured.elapsed();
    let autoscaling = json!({"minReplicas": 1, "maxReplicas": 2, "targetCpuUtilization": 60});
    node.edit(
        "GatewayGroup",
        "gatewaygroups",
        "public",
        &json!({"spec": {"autoscaling": autoscaling, "replicas": null}}),
    )
    .await?;
    // Nothing to do: down to the least. No call may fail on the way, so there is one all the time.
    let few = Load::start(&node.watched().await?, 1, Duration::from_millis(200))?;
    let began = Instant::now();
    replicas(stage, 1).await?;
    let down = began.elapsed();
    node.pods_gone(PUBLIC, GATEWAYS).await?;
    let few = few.end_without_failure()?;
    let many = Load::start(&node.watched().await?, 16, Duration::ZERO)?;
    let began = Instant::now();
    replicas(stage, 2).await?;
    node.pods_ready(PUBLIC, GATEWAYS, 2).await?;
    let up = began.elapsed();
    let many = many.end_without_failure()?;
    // Without a number of its own the group keeps what the autoscaler left until somebody says another.
    node.edit("GatewayGroup", "gatewaygroups", "public", &json!({"spec": {"autoscaling": null, "replicas": 2}}))
        .await?;
    replicas(stage, 2).await?;
    node.pods_ready(PUBLIC, GATEWAYS, 2).await?;
    let left = node.kubectl(&format!("-n {PUBLIC} get horizontalpodautoscalers")).await?;
    ensure!(!left.contains("tamis-public"), "the autoscaler is still there: {left}");
    node.pods_gone(PUBLIC, GATEWAYS).await?;
    node.is_ready("Exposition", "expositions", "watched").await?;
    Ok(format!(
        "metrics after {measured:.0?}; 2 to 1 in {down:.0?} (of which {DOWN_AFTER} s are to wait; {few}), \
         1 to 2 in {up:.0?} ({many})"
    ))
}

/// Waits until the Deployment wants just so many.
async fn replicas(stage: &Stage, count: i32) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(stage.node.client(), PUBLIC);
    let what = format!("{count} gateways are wanted");
    let found = eventually(&what, SOON, async || {
        let wanted = deployments.get("tamis-public").await?.spec.and_then(|spec| spec.replicas);
        Ok((wanted == Some(count)).then_some(()))
    });
    match found.await {
        Ok(()) => Ok(()),
        Err(error) => {
            let said = stage.node.kubectl(&format!("-n {PUBLIC} describe horizontalpodautoscalers")).await?;
            Err(error.context(said))
        }
    }
}
