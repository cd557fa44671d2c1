//! Builds the desired objects of a group. Pure.

use serde_json::{Value, json};
use tamis_config::names;

use super::child::{Child, ChildKind, labels, selector};
use super::network::network_policy;
use super::pod;
use super::{GroupInput, Settings};

/// The number of gateways of a group that sets neither `replicas` nor `autoscaling`.
const REPLICAS: u32 = 1;
/// The default target of autoscaling, in percent of the requested CPU.
const CPU: u32 = 70;

/// Returns the desired objects of a group, in the order in which they are written. The Secrets with the token and the
/// keys are not among them, since their content is random.
#[must_use]
pub fn children(group: &GroupInput, settings: &Settings) -> Vec<Child> {
    let mut children = vec![
        // A pod that a user starts with this account gets no API token unless it asks for one.
        Child::new(ChildKind::ServiceAccount, group, json!({"automountServiceAccountToken": false})),
        Child::new(ChildKind::Role, group, role(group)),
        Child::new(ChildKind::RoleBinding, group, role_binding(group)),
        network_policy(group, settings),
        service(group),
        deployment(group, settings),
    ];
    if most(group) > 1 || group.spec.disruption_budget.is_some() {
        children.push(disruption_budget(group));
    }
    children.extend(autoscaler(group));
    children
}

/// Returns the maximum number of gateways.
fn most(group: &GroupInput) -> u32 {
    match &group.spec.autoscaling {
        Some(autoscaling) => autoscaling.max_replicas,
        None => group.spec.replicas.unwrap_or(REPLICAS),
    }
}

/// Returns the rules of the gateways' Role: they may read their own configuration, by kind, and their own Secrets, by
/// name. They may write nothing.
fn role(group: &GroupInput) -> Value {
    let name = &group.name.name;
    let secrets = (0..names::CREDENTIAL_SHARDS).map(|shard| names::credentials_secret(name, shard));
    let secrets: Vec<String> = secrets.chain([names::token_secret(name), names::keys_secret(name)]).collect();
    let read = ["list", "watch"];
    json!({"rules": [
        {"apiGroups": ["tamis.dev"], "resources": ["gatewayconfigs"], "verbs": read},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": secrets, "verbs": read},
    ]})
}

fn role_binding(group: &GroupInput) -> Value {
    let name = names::group_object(&group.name.name);
    json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": group.name.namespace}],
    })
}

/// Returns the Service. It has only the serving port: the admin port is internal.
fn service(group: &GroupInput) -> Child {
    let listener = group.spec.listener.clone().unwrap_or_default();
    let asked = listener.service.clone().unwrap_or_default();
    let mut port = json!({
        "name": "mcp",
        "port": listener.service_port(),
        "targetPort": "mcp",
        "protocol": "TCP",
        // For load balancers and proxies in front of the Service.
        "appProtocol": if listener.tls.is_some() { "https" } else { "http" },
    });
    if let Some(node) = asked.node_port {
        port["nodePort"] = json!(node);
    }
    let mut spec = json!({"type": asked.type_.unwrap_or_default(), "selector": selector(group), "ports": [port]});
    if let Some(class) = &asked.load_balancer_class {
        spec["loadBalancerClass"] = json!(class);
    }
    if !asked.load_balancer_source_ranges.is_empty() {
        spec["loadBalancerSourceRanges"] = json!(asked.load_balancer_source_ranges);
    }
    if let Some(policy) = asked.external_traffic_policy {
        spec["externalTrafficPolicy"] = json!(policy);
    }
    let mut service = Child::new(ChildKind::Service, group, json!({"spec": spec}));
    for (name, value) in asked.annotations.iter().filter(|(name, _)| !name.contains("tamis.dev/")) {
        service.annotate(name, value);
    }
    service
}

fn deployment(group: &GroupInput, settings: &Settings) -> Child {
    let mut spec = json!({
        "revisionHistoryLimit": 3,
        // A new gateway is ready before an old one is deleted.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"}},
        "selector": {"matchLabels": selector(group)},
        "template": pod::template(group, settings),
    });
    // Under autoscaling the autoscaler owns the number: `apply` hands it over before this manager drops it.
    if group.spec.autoscaling.is_none() {
        spec["replicas"] = json!(group.spec.replicas.unwrap_or(REPLICAS));
    }
    Child::new(ChildKind::Deployment, group, json!({"spec": spec}))
}

/// Returns the disruption budget: one pod at a time, or as the group sets it. A pod that is not ready does not block
/// the drain of a node.
fn disruption_budget(group: &GroupInput) -> Child {
    let mut spec = json!({
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": selector(group)},
    });
    let asked = group.spec.disruption_budget.clone().unwrap_or_default();
    match (asked.max_unavailable, asked.min_available) {
        (Some(most), _) => spec["maxUnavailable"] = json!(most),
        (None, Some(least)) => spec["minAvailable"] = json!(least),
        (None, None) => spec["maxUnavailable"] = json!(1),
    }
    Child::new(ChildKind::PodDisruptionBudget, group, json!({"spec": spec}))
}

fn autoscaler(group: &GroupInput) -> Option<Child> {
    let autoscaling = group.spec.autoscaling.as_ref()?;
    let metric = |name: &str, percent: u32| {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        json!({"type": "Resource", "resource": {"name": name, "target": target}})
    };
    let cpu = metric("cpu", autoscaling.target_cpu_utilization.unwrap_or(CPU));
    let memory = autoscaling.target_memory_utilization.map(|percent| metric("memory", percent));
    let metrics: Vec<Value> = std::iter::once(cpu).chain(memory).collect();
    let deployment = names::group_object(&group.name.name);
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
        "minReplicas": autoscaling.min_replicas,
        "maxReplicas": autoscaling.max_replicas,
        "metrics": metrics,
    });
    // The fields have the names of the API.
    if let Some(behavior) = &autoscaling.behavior {
        spec["behavior"] = json!(behavior);
    }
    Some(Child::new(ChildKind::HorizontalPodAutoscaler, group, json!({"spec": spec})))
}

/// Returns the labels of the pods: those that the group sets, and the operator's, which take precedence.
pub(super) fn pod_labels(group: &GroupInput) -> Value {
    let asked = group.spec.pod.iter().flat_map(|pod| &pod.labels);
    let mut all: serde_json::Map<_, _> = asked.map(|(key, value)| (key.clone(), json!(value))).collect();
    all.extend(labels(group));
    Value::Object(all)
}
