//! Uninstalls Tamis: what is deleted, and what stays because users own it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tamis_tests::cluster::eventually;

use super::Stage;
use crate::load::Question;
use crate::product::{GATEWAYS, OPERATORS, PUBLIC, SYSTEM};
use crate::reach;

const SOON: Duration = Duration::from_secs(120);
/// The kinds of all objects that an operator creates for a group.
const KINDS: &str = "deployments,replicasets,pods,services,secrets,roles,rolebindings,networkpolicies,\
                     poddisruptionbudgets,horizontalpodautoscalers,gatewayconfigs,serviceaccounts";

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    // Without an operator, gateways keep serving, and a new gateway starts from the stored configuration.
    let began = Instant::now();
    node.kubectl(&format!("-n {SYSTEM} scale deployment/tamis-operator --replicas=0")).await?;
    node.pods_ready(SYSTEM, OPERATORS, 0).await?;
    node.pods_gone(SYSTEM, OPERATORS).await?;
    let operators = began.elapsed();
    let old = node.pods_ready(PUBLIC, GATEWAYS, 2).await?;
    node.kubectl(&format!("-n {PUBLIC} delete pod {} --wait=false", old.join(" "))).await?;
    let restarted = Instant::now();
    let (ready, changes) = reach::observed(node, async {
        let names = node.pods_ready(PUBLIC, GATEWAYS, 2).await?;
        ensure!(!old.iter().any(|pod| names.contains(pod)), "one of {old:?} is still there: {names:?}");
        let ready = restarted.elapsed();
        node.pods_gone(PUBLIC, GATEWAYS).await?;
        answered(stage, "gateways that started without an operator answer").await?;
        Ok(ready)
    })
    .await?;
    let gateways = began.elapsed();
    // A group in use is not deleted by accident: the rest of the release is deleted, and the gateways keep serving.
    let uninstall = format!("uninstall tamis -n {SYSTEM} --wait --timeout 2m");
    ensure!(node.helm(&uninstall).await.is_err(), "a group with an exposition was deleted");
    let group = node.kubectl(&format!("-n {PUBLIC} get gatewaygroup public -o name")).await?;
    ensure!(group.trim() == "gatewaygroup.tamis.dev/public", "the group is gone: {group}");
    answered(stage, "gateways answer after an uninstallation that was refused").await?;
    // The group's gateways, configuration and credentials are deleted with it.
    node.kubectl(&format!("-n {PUBLIC} annotate gatewaygroup public tamis.dev/allow-deletion=true")).await?;
    node.helm(&uninstall).await?;
    let uninstalled = began.elapsed();
    eventually("everything of the group is gone", SOON, async || {
        let line = format!("-n {PUBLIC} get {KINDS} -l tamis.dev/gateway-group=public -o name");
        let left = node.kubectl(&line).await?;
        ensure!(left.trim().is_empty(), "left: {}", left.split_whitespace().collect::<Vec<_>>().join(" "));
        Ok(Some(()))
    })
    .await?;
    node.helm(&format!("uninstall tamis-crds -n {SYSTEM} --wait --timeout 2m")).await?;
    // Users own the documents that they wrote.
    let documents = node.kubectl("-n team-a get servicemanifests,toolsfilters,expositions,secrets -o name").await?;
    for name in [
        "servicemanifest.tamis.dev/tracker",
        "toolsfilters.tamis.dev/watched",
        "exposition.tamis.dev/watched",
        "secret/tracker",
    ] {
        ensure!(documents.lines().any(|line| line == name), "{name} does not exist any more:\n{documents}");
    }
    let left = node.kubectl("get crds,clusterroles,clusterrolebindings,validatingadmissionpolicies -o name").await?;
    let left: Vec<&str> = left.lines().filter(|line| line.contains("tamis") || line.contains("tamis.dev")).collect();
    let kinds = left.iter().filter(|name| name.starts_with("customresourcedefinition")).count();
    ensure!(kinds == 7 && left.len() == 7, "left in the cluster: {left:?}");
    let lease =
        node.kubectl(&format!("-n {SYSTEM} get leases,secrets,configmaps,deployments,services -o name")).await?;
    let lease: Vec<&str> = lease.lines().filter(|name| !name.ends_with("kube-root-ca.crt")).collect();
    ensure!(lease == ["lease.coordination.k8s.io/tamis-operator"], "left in {SYSTEM}: {lease:?}");
    let gone = began.elapsed();
    Ok(format!(
        "operators gone after {operators:.1?}; new gateways ready {ready:.1?} after the old ones were deleted, and answering \
         after {gateways:.1?}; the deletion of a group in use was refused; annotated, it was uninstalled after \
         {uninstalled:.1?} and everything gone after {gone:.1?}; the kinds, the team's documents and the Lease stayed; \
         the Service meanwhile: {changes}"
    ))
}

/// Waits until a call is answered. A new connection may still lead to a gateway that has just ended; that call is
/// repeated.
async fn answered(stage: &Stage, what: &str) -> Result<()> {
    let question = Question { patience: Duration::from_secs(2), ..stage.node.watched().await? };
    eventually(what, SOON, async || question.once().await.map(Some)).await.map(drop)
}

/// Uninstalls what Helm installed, if anything is left of it, so that another installation can follow.
///
/// # Errors
/// Helm's.
pub(super) async fn releases(stage: &Stage) -> Result<()> {
    let node = &stage.node;
    if !node.helm(&format!("list -n {SYSTEM} --short")).await?.lines().any(|name| name == "tamis") {
        return Ok(());
    }
    node.kubectl(&format!("-n {PUBLIC} annotate --overwrite gatewaygroup public tamis.dev/allow-deletion=true"))
        .await?;
    for name in ["tamis", "tamis-crds"] {
        node.helm(&format!("uninstall {name} -n {SYSTEM} --wait --timeout 2m --ignore-not-found")).await?;
    }
    Ok(())
}
