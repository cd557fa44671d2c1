//! The installation, as `docs/operator.md` has it, and a team that uses it.

use std::process::Command;

use anyhow::{Context, Result};
use tamis_tests::cluster::eventually;
use tamis_tests::root;

use super::Stage;
use crate::machine::output;
use crate::product::{GATEWAYS, OPERATORS, PUBLIC, SYSTEM, TEAM, UPSTREAM, operator_manifest};

pub(super) async fn addons(stage: &Stage) -> Result<String> {
    stage.node.addons().await?;
    stage.node.pods_ready("kube-system", "k8s-app=kube-dns", 1).await?;
    Ok("DNS is ready".to_owned())
}

pub(super) async fn images(stage: &Stage) -> Result<String> {
    match &stage.archive {
        Some(archive) => stage.node.import(archive)?,
        None => stage.node.image(&stage.image, &stage.tamis)?,
    }
    stage.node.image(UPSTREAM, &std::env::current_exe()?)?;
    Ok(format!("{} and the sample API", stage.image))
}

pub(super) async fn operator(stage: &Stage) -> Result<String> {
    let cluster = stage.node.cluster();
    let definitions = output(Command::new(&stage.tamis).args(["crds", "--policies"]))?;
    cluster.apply(&definitions).await?;
    let rights = std::fs::read_to_string(root().join("deploy/rbac.yaml")).context("deploy/rbac.yaml")?;
    cluster.apply(&rights).await?;
    cluster.apply(&operator_manifest(&stage.image)?).await?;
    stage.node.pods_ready(SYSTEM, OPERATORS, 2).await?;
    let leader = eventually("a leader", std::time::Duration::from_secs(30), async || stage.node.leader().await.map(Some));
    Ok(format!("2 operators, {} leads", leader.await?))
}

pub(super) async fn team(stage: &Stage) -> Result<String> {
    stage.node.cluster().apply(TEAM).await?;
    let took = stage.node.is_ready("Exposition", "expositions", "watched").await?;
    let pods = stage.node.pods_ready(PUBLIC, GATEWAYS, 2).await?;
    stage.node.is_ready("GatewayGroup", "gatewaygroups", "public").await?;
    Ok(format!("{} gateways; Ready {took:.1?} after the apply", pods.len()))
}
