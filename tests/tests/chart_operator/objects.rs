//! Objects that the operator writes, and objects that an attacker would write with its token.

use serde_json::{Value, json};

/// The namespace of all of it.
pub(crate) const GROUP: &str = "edge";

fn owned(kind: &str, api: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": api, "kind": kind, "metadata": {
        "name": name, "namespace": GROUP, "labels": {"tamis.dev/gateway-group": "public"},
        "ownerReferences": [{"apiVersion": "tamis.dev/v1alpha1", "kind": "GatewayGroup", "name": "public",
                             "uid": "6f0ad9c4-9d3e-4f4e-8b1c-1f0f3a1d2b3c", "controller": true}]}});
    if let (Value::Object(object), Value::Object(rest)) = (&mut object, rest) {
        object.extend(rest);
    }
    object
}

/// A Deployment as the operator writes it, with an edit.
pub(crate) fn deployment(edit: impl Fn(&mut Value)) -> Value {
    let labels = json!({"tamis.dev/gateway-group": "public"});
    let mut object = owned(
        "Deployment",
        "apps/v1",
        "tamis-public",
        json!({"spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {
            "serviceAccountName": "tamis-public",
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "containers": [{"name": "gateway", "image": "tamis:1", "securityContext": {
                "allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}}}],
        }}}}),
    );
    edit(&mut object);
    object
}

fn role(rule: Value) -> Value {
    let rules = Value::Array(vec![rule]);
    owned("Role", "rbac.authorization.k8s.io/v1", "tamis-public", json!({ "rules": rules }))
}

fn binding(role: &str, account: &str) -> Value {
    owned(
        "RoleBinding",
        "rbac.authorization.k8s.io/v1",
        "tamis-public",
        json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": GROUP}]}),
    )
}

fn service(spec: Value) -> Value {
    let mut whole = json!({"selector": {"tamis.dev/gateway-group": "public"}, "ports": [{"port": 8080}]});
    if let (Value::Object(whole), Value::Object(spec)) = (&mut whole, spec) {
        whole.extend(spec);
    }
    owned("Service", "v1", "tamis-public", json!({"spec": whole}))
}

fn event(about: &str) -> Value {
    json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": GROUP},
           "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Compile", "reason": "InvalidFilter", "type": "Warning",
           "reportingController": "tamis.dev/operator", "reportingInstance": "a",
           "regarding": {"apiVersion": about, "kind": "Exposition", "name": "a", "namespace": GROUP}})
}

/// What the operator writes.
pub(crate) fn usual() -> Vec<(&'static str, Value)> {
    let labels = json!({"matchLabels": {"tamis.dev/gateway-group": "public"}});
    vec![
        ("a Deployment", deployment(|_| {})),
        (
            "a ServiceAccount",
            owned("ServiceAccount", "v1", "tamis-public", json!({"automountServiceAccountToken": false})),
        ),
        (
            "a Role",
            role(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"],
                               "resourceNames": ["tamis-public-credentials-0", "tamis-public-credentials-7", "tamis-public-token", "tamis-public-keys"]})),
        ),
        (
            "a Role",
            role(
                json!({"apiGroups": ["tamis.dev"], "resources": ["gatewayconfigs"], "verbs": ["get", "list", "watch"]}),
            ),
        ),
        ("a RoleBinding", binding("tamis-public", "tamis-public")),
        ("a Service", service(json!({}))),
        ("a Service", service(json!({"type": "LoadBalancer"}))),
        (
            "a NetworkPolicy",
            owned("NetworkPolicy", "networking.k8s.io/v1", "tamis-public", json!({"spec": {"podSelector": labels}})),
        ),
        (
            "a budget",
            owned(
                "PodDisruptionBudget",
                "policy/v1",
                "tamis-public",
                json!({"spec": {"selector": labels, "maxUnavailable": 1}}),
            ),
        ),
        (
            "an autoscaler",
            owned(
                "HorizontalPodAutoscaler",
                "autoscaling/v2",
                "tamis-public",
                json!({"spec": {
            "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "tamis-public"}}}),
            ),
        ),
        ("the token", owned("Secret", "v1", "tamis-public-token", json!({"type": "Opaque"}))),
        ("the keys", owned("Secret", "v1", "tamis-public-keys", json!({"type": "Opaque"}))),
        ("credentials", owned("Secret", "v1", "tamis-public-credentials-3", json!({"type": "tamis.dev/credentials"}))),
        ("an Event", event("tamis.dev/v1alpha1")),
    ]
}

/// Objects that the operator never writes, with the policy's messages.
#[rustfmt::skip]
pub(crate) fn attacks() -> Vec<(Value, &'static str)> {
    let pod = "/spec/template/spec";
    let at = |object: &mut Value, path: &str, value: Value| {
        let (parent, key) = path.rsplit_once('/').unwrap_or_default();
        object.pointer_mut(parent).expect("is there")[key] = value;
    };
    let with = |path: &'static str, value: Value| deployment(move |o| at(o, &format!("{pod}/{path}"), value.clone()));
    let named = |name: &str| { let mut o = deployment(|_| {}); o["metadata"]["name"] = name.into(); o };
    let elsewhere = |namespace: &str| { let mut o = deployment(|_| {}); o["metadata"]["namespace"] = namespace.into(); o };
    let annotated = { let mut o = owned("ServiceAccount", "v1", "tamis-public", json!({}));
                      o["metadata"]["annotations"] = json!({"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/admin"}); o };
    let orphan = { let mut o = deployment(|_| {}); o["metadata"]["ownerReferences"] = json!([]); o };
    let of_all = json!({"matchLabels": {"app": "database"}});
    let gateway = |security: Value| json!([{"name": "gateway", "image": "a", "securityContext": security}]);
    vec![
        (with("serviceAccountName", "default".into()), "under their own ServiceAccount only"),
        (with("hostNetwork", true.into()), "does not need: hostNetwork"),
        (with("hostPID", true.into()), "does not need: hostPID"),
        (with("nodeName", "control-plane".into()), "does not need: nodeName"),
        (with("volumes", json!([{"name": "root", "hostPath": {"path": "/"}}])), "does not need: volumes"),
        (with("containers", gateway(json!({}))), "a container that may gain privileges"),
        (with("containers", gateway(json!({"allowPrivilegeEscalation": false, "runAsNonRoot": true,
            "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}}))), "containers.securityContext"),
        (with("initContainers", json!([{"name": "i", "image": "a"}])), "does not need: initContainers"),
        (with("securityContext", json!({"seLinuxOptions": {"type": "spc_t"}})), "does not need: securityContext"),
        (with("securityContext", json!({"seccompProfile": {"type": "Unconfined"}})), "does not need: securityContext"),
        (with("securityContext", json!({"appArmorProfile": {"type": "Unconfined"}})), "does not need: securityContext"),
        (with("securityContext", json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]})), "does not need: securityContext"),
        (with("priorityClassName", "system-node-critical".into()), "does not need: priorityClassName"),
        (with("containers/0/lifecycle", json!({"preStop": {"httpGet": {"host": "192.0.2.1", "port": 80}}})), "fields that a gateway does not need"),
        (with("containers/0/livenessProbe", json!({"httpGet": {"host": "192.0.2.1", "port": 80}})), "fields that a gateway does not need"),
        (named("coredns"), "only objects named after a GatewayGroup"),
        (orphan, "only objects named after a GatewayGroup"),
        (elsewhere("kube-system"), "may not manage gateway groups in namespace kube-system"),
        (owned("ServiceAccount", "v1", "default", json!({})), "only objects named after a GatewayGroup"),
        (annotated, "may not annotate ServiceAccounts"),
        (role(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]})), "only the rights to read"),
        (role(json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["database"], "verbs": ["get"]})), "only the rights to read"),
        (role(json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create"]})), "only the rights to read"),
        (role(json!({"apiGroups": ["tamis.dev"], "resources": ["gatewayconfigs"], "verbs": ["create"]})), "only the rights to read"),
        (binding("tamis-public", "default"), "to its gateways only"),
        (binding("other", "tamis-public"), "to its gateways only"),
        (owned("RoleBinding", "rbac.authorization.k8s.io/v1", "mine", json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": []})), "only objects named after a GatewayGroup"),
        (service(json!({"externalIPs": ["192.0.2.1"]})), "may not set external addresses"),
        (service(json!({"type": "ExternalName", "externalName": "example.com"})), "may not create Services of type ExternalName"),
        (service(json!({"selector": {"app": "database"}})), "the pods of a group only"),
        (owned("NetworkPolicy", "networking.k8s.io/v1", "tamis-public", json!({"spec": {"podSelector": {}}})), "the pods of a group only"),
        (owned("PodDisruptionBudget", "policy/v1", "tamis-public", json!({"spec": {"selector": of_all, "maxUnavailable": 0}})), "the pods of a group only"),
        (owned("HorizontalPodAutoscaler", "autoscaling/v2", "tamis-public", json!({"spec": {
            "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "database"}}})), "the gateways of a group only"),
        (owned("Secret", "v1", "database", json!({})), "only objects named after a GatewayGroup"),
        (owned("Secret", "v1", "tamis-public-credentials-9", json!({})), "only objects named after a GatewayGroup"),
        (owned("Secret", "v1", "tamis-public-token", json!({"type": "kubernetes.io/basic-auth", "stringData": {"username": "a"}})), "may not write Secrets of type"),
        (event("v1"), "Events for Tamis kinds only"),
        (json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "kube-scheduler", "namespace": "kube-system"}}), "only the Lease of its own namespace"),
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": GROUP}}), "not allowed to CREATE /configmaps"),
        (json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}), "not allowed to CREATE /namespaces"),
        (json!({"apiVersion": "tamis.dev/v1alpha1", "kind": "GatewayGroup", "metadata": {"name": "a", "namespace": GROUP}, "spec": {}}), "not allowed to CREATE tamis.dev/gatewaygroups"),
    ]
}
