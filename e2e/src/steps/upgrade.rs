//! `helm upgrade` gives operators and gateways an image of another tag, and `helm rollback` restores the old one: all
//! pods are replaced, one at a time, under load.

use std::time::{Duration, Instant};

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use tamis_tests::cluster::eventually;

use super::Stage;
use crate::load::{Load, Seen};
use crate::node::is_ready;
use crate::product::{GATEWAYS, OPERATORS, PUBLIC, SYSTEM};

const SOON: Duration = Duration::from_secs(180);

pub(super) async fn forth(stage: &Stage) -> Result<String> {
    let next = format!("{}-next", stage.image);
    stage.node.tag(&stage.image, &next)?;
    let tag = next.rsplit(':').next().unwrap_or_default();
    let values = format!("--reuse-values --set image.tag={tag}");
    roll(stage, &format!("upgrade tamis charts/tamis -n {SYSTEM} --wait --timeout 3m {values}"), &next, 2000).await
}

pub(super) async fn back(stage: &Stage) -> Result<String> {
    roll(stage, &format!("rollback tamis -n {SYSTEM} --wait --timeout 3m"), &stage.image, 2001).await
}

async fn roll(stage: &Stage, helm: &str, image: &str, version: u64) -> Result<String> {
    let node = &stage.node;
    let load = Load::start(&node.watched().await?, 8, Duration::from_millis(10))?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    node.helm(helm).await?;
    runs(stage, SYSTEM, OPERATORS, image).await?;
    let operators = began.elapsed();
    // The new operator gives gateways the new image.
    runs(stage, PUBLIC, GATEWAYS, image).await?;
    let gateways = began.elapsed();
    node.edit_filter(version).await?;
    node.is_ready("ToolsFilters", "toolsfilters", "watched").await?;
    // Until the old gateways have ended, calls may lead to them.
    node.pods_gone(PUBLIC, GATEWAYS).await?;
    let seen: Seen = load.end_without_failure()?;
    Ok(format!("operators after {operators:.1?}, gateways after {gateways:.1?}; {seen}"))
}

/// Waits until there are exactly two pods, ready and of this image.
async fn runs(stage: &Stage, namespace: &str, labels: &str, image: &str) -> Result<()> {
    let of_image =
        |pod: &Pod| pod.spec.iter().flat_map(|spec| &spec.containers).all(|c| c.image.as_deref() == Some(image));
    eventually(&format!("all pods in {namespace} run {image}"), SOON, async || {
        let pods = stage.node.pods(namespace, labels).await?;
        Ok((pods.len() == 2 && pods.iter().all(|pod| of_image(pod) && is_ready(pod))).then_some(()))
    })
    .await
}
