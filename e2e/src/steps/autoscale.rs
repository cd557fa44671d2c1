//! An autoscaler adjusts the number of gateways to their CPU, as metrics-server measures it. Afterwards, the group sets
//! the number again.

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

/// The target, in percent of the CPU that a gateway requests. A busy machine leaves callers little CPU of their own, so the
/// target is low enough for the calls that they still make.
const TARGET: u32 = 20;

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    let measured = Instant::now();
    eventually("metrics of pods", SOON, async || {
        Ok(node.kubectl(&format!("top pods -n {PUBLIC}")).await.ok().filter(|said| said.contains("tamis-public")))
    })
    .await?;
    let measured = measured.elapsed();
    let scaled = scale(stage).await;
    // A group without a number of replicas keeps the number that the autoscaler left. The steps that follow need two
    // gateways, even if this one fails.
    let fixed = json!({"spec": {"autoscaling": null, "replicas": 2}});
    node.edit("GatewayGroup", "gatewaygroups", "public", &fixed).await?;
    replicas(stage, 2).await?;
    node.pods_ready(PUBLIC, GATEWAYS, 2).await?;
    let scaled = scaled?;
    let left = node.kubectl(&format!("-n {PUBLIC} get horizontalpodautoscalers")).await?;
    ensure!(!left.contains("tamis-public"), "the autoscaler still exists: {left}");
    node.pods_gone(PUBLIC, GATEWAYS).await?;
    node.is_ready("Exposition", "expositions", "watched").await?;
    Ok(format!("metrics after {measured:.0?}; {scaled}"))
}

/// Scales from two gateways to one under little load, and back under more.
async fn scale(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    let autoscaling = json!({"minReplicas": 1, "maxReplicas": 2, "targetCpuUtilization": TARGET});
    let change = json!({"spec": {"autoscaling": autoscaling, "replicas": null}});
    node.edit("GatewayGroup", "gatewaygroups", "public", &change).await?;
    // Almost no load: the autoscaler removes a gateway. One caller verifies that no call fails meanwhile.
    let few = Load::start(&node.watched().await?, 1, Duration::from_secs(1))?;
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
    Ok(format!(
        "2 to 1 in {down:.0?} (including a stabilisation window of {DOWN_AFTER} s; {few}), 1 to 2 in {up:.0?} ({many})"
    ))
}

/// Waits until the Deployment asks for this number of pods.
async fn replicas(stage: &Stage, count: i32) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(stage.node.client(), PUBLIC);
    let what = format!("the Deployment asks for {count} gateways");
    let found = eventually(&what, SOON, async || {
        let replicas = deployments.get("tamis-public").await?.spec.and_then(|spec| spec.replicas);
        Ok((replicas == Some(count)).then_some(()))
    });
    match found.await {
        Ok(()) => Ok(()),
        Err(error) => {
            let said = stage.node.kubectl(&format!("-n {PUBLIC} describe horizontalpodautoscalers")).await?;
            Err(error.context(said))
        }
    }
}
