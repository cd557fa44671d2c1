//! The installation with Helm, as `docs/helm.md` has it, and a team that uses it.

use std::time::Duration;

use anyhow::Result;
use tamis_tests::cluster::eventually;

use super::Stage;
use crate::product::{GATEWAYS, OPERATORS, PUBLIC, SYSTEM, TEAM, UPSTREAM};

/// The namespaces of the group and of the team: they are there before the chart, which binds rights in them.
const NAMESPACES: &str = include_str!("../../manifests/namespaces.yaml");

pub(super) async fn addons(stage: &Stage) -> Result<String> {
    stage.node.addons().await?;
    stage.node.pods_ready("kube-system", "k8s-app=kube-dns", 1).await?;
    // As long as an API is announced and not there, no namespace can be deleted.
    stage.node.pods_ready("kube-system", "k8s-app=metrics-server", 1).await?;
    Ok("both are ready".to_owned())
}

pub(super) async fn images(stage: &Stage) -> Result<String> {
    let megabytes = std::fs::metadata(&stage.archive)?.len() as f64 / 1e6;
    stage.node.import(&stage.archive)?;
    stage.node.image(UPSTREAM, &std::env::current_exe()?)?;
    Ok(format!("{} ({megabytes:.0} MB) and the sample API", stage.image))
}

pub(super) async fn charts(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    node.cluster().apply(NAMESPACES).await?;
    node.helm("install tamis-crds charts/tamis-crds -n tamis-system --wait").await?;
    let (repository, tag) = stage.image.split_once(':').unwrap_or((&stage.image, "latest"));
    let values = format!(
        "--set image.repository={repository} --set image.tag={tag} --set gatewayGroup.name=public \
         --set gatewayGroup.namespace={PUBLIC} --set secretNamespaces={{team-a}}"
    );
    node.helm(&format!("install tamis charts/tamis -n tamis-system --wait --timeout 3m {values}")).await?;
    // With `--wait` Helm has waited for all of it.
    node.pods_ready(SYSTEM, OPERATORS, 2).await?;
    node.pods_ready(PUBLIC, GATEWAYS, 2).await?;
    let leader = eventually("a leader", Duration::from_secs(30), async || node.leader().await.map(Some)).await?;
    node.helm("test tamis -n tamis-system").await?;
    Ok(format!("2 operators, {leader} leads; 2 gateways; `helm test` passed"))
}

pub(super) async fn team(stage: &Stage) -> Result<String> {
    stage.node.cluster().apply(TEAM).await?;
    let took = stage.node.is_ready("Exposition", "expositions", "watched").await?;
    stage.node.pods_ready("team-a", "app=tracker", 1).await?;
    let question = stage.node.watched().await?;
    // The node learns of the team's new Service a moment after us.
    let began = std::time::Instant::now();
    let answer =
        eventually("a call is answered", Duration::from_secs(60), async || question.once().await.map(Some)).await?;
    let first = began.elapsed();
    Ok(format!("Ready after {took:.1?}; {first:.1?} later a call was answered {answer}"))
}
