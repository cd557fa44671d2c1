//! Decides which pods are gateways of a group. Pure except for the stores that it reads.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use tamis_config::names;

use super::GroupInput;
use super::child::ChildKind;
use super::observe::Observed;
use super::pod::ADMIN;
use super::step::controller;

/// A gateway of a group, as Kubernetes sees its pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatewayPod {
    /// The pod's name.
    pub name: String,
    /// The pod's uid: another pod with the same address is another gateway.
    pub uid: String,
    /// The address of the admin listener.
    pub admin: (IpAddr, u16),
    /// Whether the pod is ready.
    pub ready: bool,
}

/// Returns the gateways of a group that have an address and are not being deleted, sorted by name.
///
/// A pod counts only if the group's Deployment controls a ReplicaSet that controls the pod, by uid. Labels alone do not
/// count: everyone who may create pods in the namespace can set them.
#[must_use]
pub fn pods(observed: &Observed, group: &GroupInput) -> Vec<GatewayPod> {
    let name = names::group_object(&group.name.name);
    let Some(deployment) = observed.get(ChildKind::Deployment, &group.name.namespace, &name) else {
        return Vec::new();
    };
    let sets = observed.replica_sets_of(&group.name);
    let pods = observed.pods_of(&group.name);
    choose(&group.uid, deployment.meta(), sets.iter().map(|set| set.meta()), pods.iter().map(AsRef::as_ref))
}

/// Returns the pods whose chain of owners leads to the group.
pub(super) fn choose<'o>(
    group: &str,
    deployment: &ObjectMeta,
    sets: impl IntoIterator<Item = &'o ObjectMeta>,
    pods: impl IntoIterator<Item = &'o Pod>,
) -> Vec<GatewayPod> {
    let is_child = |meta: &ObjectMeta, kind: &str, owner: Option<&str>| {
        controller(meta).is_some_and(|c| c.kind == kind && Some(c.uid.as_str()) == owner)
    };
    if !is_child(deployment, "GatewayGroup", Some(group)) {
        return Vec::new();
    }
    let managed = sets.into_iter().filter(|set| is_child(set, "Deployment", deployment.uid.as_deref()));
    let managed: BTreeSet<&str> = managed.filter_map(|set| set.uid.as_deref()).collect();
    let is_managed = |pod: &&Pod| {
        let set = controller(&pod.metadata).filter(|c| c.kind == "ReplicaSet");
        set.is_some_and(|set| managed.contains(set.uid.as_str())) && pod.metadata.deletion_timestamp.is_none()
    };
    let mut gateways: Vec<_> = pods.into_iter().filter(is_managed).filter_map(gateway).collect();
    gateways.sort();
    gateways
}

fn gateway(pod: &Pod) -> Option<GatewayPod> {
    let status = pod.status.as_ref()?;
    // A terminated pod keeps its address for a while.
    if status.phase.as_deref() != Some("Running") {
        return None;
    }
    let is_ready =
        |condition: &k8s_openapi::api::core::v1::PodCondition| condition.type_ == "Ready" && condition.status == "True";
    Some(GatewayPod {
        name: pod.metadata.name.clone()?,
        uid: pod.metadata.uid.clone()?,
        admin: (status.pod_ip.as_ref()?.parse().ok()?, ADMIN),
        ready: status.conditions.iter().flatten().any(is_ready),
    })
}
