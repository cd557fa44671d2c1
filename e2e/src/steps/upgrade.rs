//! Operator and gateways get an image of another name: all pods are replaced, one at a time, while they are called.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use tamis_tests::cluster::eventually;

use super::Stage;
use crate::load::Load;
use crate::product::{GATEWAYS, OPERATORS, PUBLIC, SYSTEM, operator_manifest};

const SOON: Duration = Duration::from_secs(180);

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    let next = format!("{}-next", stage.image);
    node.tag(&stage.image, &next)?;
    let load = Load::start(&node.watched().await?, 8, Duration::from_millis(10))?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    node.cluster().apply(&operator_manifest(&next)?).await?;
    node.rolled_out(SYSTEM, "tamis-operator").await?;
    let operators = began.elapsed();
    run_image(stage, SYSTEM, OPERATORS, &next).await?;
    // The new operator names the new image for gateways.
    run_image(stage, PUBLIC, GATEWAYS, &next).await?;
    node.rolled_out(PUBLIC, "tamis-public").await?;
    let gateways = began.elapsed();
    node.edit_filter(2000).await?;
    node.is_ready("ToolsFilters", "toolsfilters", "watched").await?;
    // The old gateways are still ending: to the last moment calls may go there.
    node.pods_gone(PUBLIC, GATEWAYS).await?;
    let seen = load.end_without_failure()?;
    Ok(format!("operators after {operators:.1?}, gateways after {gateways:.1?}; {seen}"))
}

/// Waits until two pods are there, ready, and of this image only.
async fn run_image(stage: &Stage, namespace: &str, labels: &str, image: &str) -> Result<()> {
    let of_image = |pod: &Pod| pod.spec.iter().flat_map(|spec| &spec.containers).all(|c| c.image.as_deref() == Some(image));
    eventually(&format!("all pods in {namespace} run {image}"), SOON, async || {
        let pods = stage.node.pods(namespace, labels).await?;
        Ok((pods.len() == 2 && pods.iter().all(|pod| of_image(pod) && crate::node::is_ready(pod))).then_some(()))
    })
    .await?;
    ensure!(stage.node.pods(namespace, labels).await?.iter().all(of_image), "an old pod is back");
    Ok(())
}
