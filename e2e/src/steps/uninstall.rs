//! All is taken away again: what goes, and what stays because it is the users'.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tamis_tests::cluster::eventually;
use tamis_tests::root;

use super::Stage;
use crate::product::{GATEWAYS, OPERATORS, PUBLIC, SYSTEM, operator_manifest};

const SOON: Duration = Duration::from_secs(120);

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    // The operator goes first: gateways serve on, since they are the group's and not the operator's.
    node.cluster().delete(&operator_manifest(&stage.image)?).await?;
    node.pods_gone(SYSTEM, OPERATORS).await?;
    node.watched().await?.once().await.context("gateways without an operator")?;
    let rights = std::fs::read_to_string(root().join("deploy/rbac.yaml"))?;
    node.cluster().kubectl(&["delete", "--wait=false", "--filename=-"], Some(&rights)).await?;
    node.watched().await?.once().await.context("gateways without the operator's rights")?;
    // With the group go its gateways, its configuration and its credentials.
    node.kubectl(&format!("-n {PUBLIC} delete gatewaygroup public --timeout=60s")).await?;
    let kinds = "deployments,replicasets,pods,services,secrets,roles,rolebindings,networkpolicies,poddisruptionbudgets,\
                 horizontalpodautoscalers,gatewayconfigs,serviceaccounts";
    eventually("everything of the group is gone", SOON, async || {
        let line = format!("-n {PUBLIC} get {kinds} -l reshapr.io/gateway-group=public -o name");
        Ok(node.kubectl(&line).await?.trim().is_empty().then_some(()))
    })
    .await?;
    node.pods_gone(PUBLIC, GATEWAYS).await?;
    // What people wrote is theirs.
    let documents = node.kubectl("-n team-a get servicemanifests,toolsfilters,expositions,secrets -o name").await?;
    for name in ["servicemanifest.reshapr.io/tracker", "toolsfilters.reshapr.io/watched", "exposition.reshapr.io/watched"] {
        ensure!(documents.lines().any(|line| line == name), "{name} is gone:\n{documents}");
    }
    ensure!(documents.contains("secret/tracker"), "the team's Secret is gone:\n{documents}");
    let definitions = node.kubectl("get crds -o name").await?.lines().filter(|line| line.contains("reshapr.io")).count();
    ensure!(definitions == 7, "{definitions} definitions are left");
    let webhooks = node.kubectl("get clusterroles,clusterrolebindings -o name -l app.kubernetes.io/part-of=tamis").await?;
    ensure!(webhooks.trim().is_empty(), "rights are left: {webhooks}");
    Ok("gateways served on without the operator; the group took all that was its own along; definitions and the team's \
        documents stayed"
        .to_owned())
}
