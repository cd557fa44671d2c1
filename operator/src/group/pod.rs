//! Builds the pods of a group: `tamis gateway` under the `restricted` Pod Security Standard. Pure.

use indexmap::IndexMap;
use serde_json::{Value, json};
use tamis_config::names;
use tamis_crds::resources::{AuditSink, EnvSpec, MetricsDetail, PodSpec, SpreadSpec};

use super::build::pod_labels;
use super::child::selector;
use super::compare::quantity;
use super::{GroupInput, Settings};

/// The serving port within the pod, whatever port the Service has: above 1024, so that it needs no capability, and
/// different from the admin port.
pub(super) const SERVING: u16 = 8080;
/// The admin port within the pod, for `/metrics`, `/acks` and the probes.
pub(super) const ADMIN: u16 = 9090;
/// The shortest termination grace period: five seconds until the endpoints are updated, thirty for calls in flight, and
/// some to exit.
const GRACE_SECONDS: u32 = 45;
/// The mount path of the serving port's certificate.
const TLS: &str = "/tls";

/// Returns `spec.template` of the Deployment.
pub(super) fn template(group: &GroupInput, settings: &Settings) -> Value {
    let pod = group.spec.pod.clone().unwrap_or_default();
    let mut metadata = json!({"labels": pod_labels(group)});
    if !pod.annotations.is_empty() {
        metadata["annotations"] = json!(pod.annotations);
    }
    let mut spec = json!({
        "serviceAccountName": names::group_object(&group.name.name),
        "automountServiceAccountToken": true,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": pod.termination_grace_period_seconds.unwrap_or(0).max(GRACE_SECONDS),
        // No fixed uid: namespaces may assign a range of their own, and the image names one.
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "topologySpreadConstraints": spreads(group, &pod),
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": selector(group)},
            },
        }]}},
        "containers": [container(group, settings)],
        "volumes": volumes(group),
    });
    if !pod.image_pull_secrets.is_empty() {
        let secrets: Vec<_> = pod.image_pull_secrets.iter().map(|name| json!({"name": name})).collect();
        spec["imagePullSecrets"] = json!(secrets);
    }
    if !pod.node_selector.is_empty() {
        spec["nodeSelector"] = json!(pod.node_selector);
    }
    if !pod.tolerations.is_empty() {
        spec["tolerations"] = json!(pod.tolerations);
    }
    if let Some(class) = &pod.priority_class_name {
        spec["priorityClassName"] = json!(class);
    }
    json!({"metadata": metadata, "spec": spec})
}

/// Returns the topology spread constraints. The default spreads pods over zones, and is soft, so that all pods run in a
/// cluster of one zone.
fn spreads(group: &GroupInput, pod: &PodSpec) -> Vec<Value> {
    let zones =
        SpreadSpec { topology_key: "topology.kubernetes.io/zone".to_owned(), max_skew: None, when_unsatisfiable: None };
    let asked = &pod.topology_spread_constraints;
    let asked = if asked.is_empty() { std::slice::from_ref(&zones) } else { asked.as_slice() };
    let each = asked.iter().map(|spread| {
        json!({
            "topologyKey": spread.topology_key,
            "maxSkew": spread.max_skew.unwrap_or(1),
            "whenUnsatisfiable": spread.when_unsatisfiable.unwrap_or_default(),
            "labelSelector": {"matchLabels": selector(group)},
        })
    });
    each.collect()
}

/// Returns the operator's environment variables, and those that the group adds. Reserved names are filtered here too,
/// since a CRD of an older version may not have rejected them.
fn environment(pod: &PodSpec) -> Vec<Value> {
    let namespace = json!({
        "name": "POD_NAMESPACE",
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
    });
    let asked = pod.env.iter().filter(|variable| !EnvSpec::is_reserved(&variable.name));
    std::iter::once(namespace).chain(asked.map(|variable| json!(variable))).collect()
}

fn container(group: &GroupInput, settings: &Settings) -> Value {
    let pod = group.spec.pod.clone().unwrap_or_default();
    let mut mounts = vec![json!({"name": "cache", "mountPath": "/cache"})];
    if audits_to_files(group) {
        mounts.push(json!({"name": "audit", "mountPath": "/audit"}));
    }
    if tls_secret(group).is_some() {
        mounts.push(json!({"name": "tls", "mountPath": TLS, "readOnly": true}));
    }
    let port = |name: &str, port: u16| json!({"name": name, "containerPort": port, "protocol": "TCP"});
    json!({
        "name": "gateway",
        "image": pod.image.as_ref().unwrap_or(&settings.gateway_image),
        "imagePullPolicy": pod.image_pull_policy.as_deref().unwrap_or("IfNotPresent"),
        "args": arguments(group),
        "env": environment(&pod),
        "ports": [port("mcp", SERVING), port("admin", ADMIN)],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "resources": resources(group),
        "startupProbe": probe("/livez", 1, 60),
        "livenessProbe": probe("/livez", 10, 3),
        // One failure is enough: a gateway that is about to stop fails the probe on purpose.
        "readinessProbe": probe("/readyz", 2, 1),
        "volumeMounts": mounts,
    })
}

fn probe(path: &str, period: u32, failures: u32) -> Value {
    json!({
        "httpGet": {"path": path, "port": "admin", "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 2,
        "failureThreshold": failures,
    })
}

/// Returns the arguments of `tamis gateway`. Kubernetes replaces `$(POD_NAMESPACE)`, and turns `$$(` in a value of the
/// group into `$(`.
fn arguments(group: &GroupInput) -> Vec<String> {
    let spec = &group.spec;
    let mut arguments: Vec<String> = vec!["gateway".to_owned()];
    let mut option = |name: &str, value: &str| arguments.push(format!("--{name}={value}"));
    option("group", &group.name.name);
    option("namespace", "$(POD_NAMESPACE)");
    option("listen", &format!("0.0.0.0:{SERVING}"));
    option("admin", &format!("0.0.0.0:{ADMIN}"));
    option("cache", "/cache");
    let egress = spec.egress.clone().unwrap_or_default();
    for destination in &egress.allow {
        option("egress-allow", &literal(destination));
    }
    for destination in &egress.deny {
        option("egress-deny", &literal(destination));
    }
    for hostname in hostnames(group) {
        option("hostname", &literal(&hostname));
    }
    if spec.metrics.unwrap_or_default().detail == MetricsDetail::Exposition {
        option("metrics-detail", "Exposition");
    }
    if let Some(bytes) = spec.memory_bytes() {
        option("memory", &bytes.to_string());
    }
    if let Some(number) = spec.worker_threads() {
        option("workers", &number.to_string());
    }
    if spec.max_response_bytes.is_some() {
        option("max-response-bytes", &spec.response_ceiling().to_string());
    }
    if let Some(ms) = spec.max_timeout_ms() {
        option("max-timeout", &format!("{ms}ms"));
    }
    if audits_to_files(group) {
        option("audit-dir", "/audit");
    }
    if let Some(tracing) = &spec.tracing {
        option("otlp-endpoint", &literal(&tracing.endpoint));
        if let Some(ratio) = tracing.sampling() {
            option("trace-sampling", &ratio.to_string());
        }
    }
    if tls_secret(group).is_some() {
        option("tls-cert", &format!("{TLS}/tls.crt"));
        option("tls-key", &format!("{TLS}/tls.key"));
    }
    arguments
}

/// Escapes text for an argument: Kubernetes would replace `$(NAME)` in it.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

/// Returns the host names under which clients reach the group, other than that of its Service.
fn hostnames(group: &GroupInput) -> Vec<String> {
    let Some(listener) = &group.spec.listener else { return Vec::new() };
    let external = listener.external_url.as_deref().and_then(host_of);
    let mut names: Vec<String> = listener.hostname.iter().cloned().chain(external).collect();
    names.dedup();
    names
}

/// Returns the host of a URL, without port and user.
fn host_of(url: &str) -> Option<String> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split_once(']')?.0,
        None => host.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.to_owned())
}

fn audits_to_files(group: &GroupInput) -> bool {
    group.spec.audit.is_some_and(|audit| audit.sink == AuditSink::File)
}

/// Returns the name of the Secret with the certificate of the serving port.
pub(super) fn tls_secret(group: &GroupInput) -> Option<&str> {
    Some(group.spec.listener.as_ref()?.tls.as_ref()?.secret_ref.name.as_str())
}

/// Returns the volumes. The cache is in memory, since it also holds the group's credentials.
fn volumes(group: &GroupInput) -> Value {
    let mut volumes = vec![json!({"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}})];
    if audits_to_files(group) {
        volumes.push(json!({"name": "audit", "emptyDir": {"sizeLimit": "1Gi"}}));
    }
    if let Some(secret) = tls_secret(group) {
        // Only these two, whatever else the Secret holds.
        let items = ["tls.crt", "tls.key"].map(|key| json!({"key": key, "path": key}));
        volumes.push(json!({"name": "tls", "secret": {"secretName": secret, "items": items}}));
    }
    json!(volumes)
}

/// Returns a message about the first invalid quantity of the group. The API server would answer an apply with an
/// internal error, which cannot be distinguished from a temporary fault.
pub(super) fn not_a_quantity(group: &GroupInput) -> Option<String> {
    let resources = group.spec.pod.as_ref()?.resources.as_ref()?;
    let each = |field: &'static str, of: &'_ IndexMap<String, String>| {
        let wrong = of.iter().find(|(_, value)| quantity(value).is_none());
        wrong.map(|(name, value)| {
            format!("`pod.resources.{field}.{name}`: `{value}` is not a quantity; write one like 500m or 256Mi")
        })
    };
    each("requests", &resources.requests).or_else(|| each("limits", &resources.limits))
}

/// Returns the resources that the group sets, and a default for each that it does not set. There is no CPU limit by
/// default, since a throttled gateway answers late. An autoscaler needs the CPU request.
fn resources(group: &GroupInput) -> Value {
    let asked = group.spec.pod.as_ref().and_then(|pod| pod.resources.clone()).unwrap_or_default();
    let with = |asked: IndexMap<String, String>, defaults: &[(&str, &str)]| {
        let mut all = asked.clone();
        for (name, quantity) in defaults {
            all.entry((*name).to_owned()).or_insert_with(|| (*quantity).to_owned());
        }
        all
    };
    // The API rejects a request above the limit, so defaults apply only to a resource for which the group sets neither.
    let (mut requests, mut limits) = (vec![("cpu", "100m")], Vec::new());
    if !asked.requests.contains_key("memory") && !asked.limits.contains_key("memory") {
        requests.push(("memory", "128Mi"));
        limits.push(("memory", "512Mi"));
    }
    if asked.limits.contains_key("cpu") {
        requests.remove(0);
    }
    let mut resources = json!({"requests": with(asked.requests, &requests)});
    let limits = with(asked.limits, &limits);
    if !limits.is_empty() {
        resources["limits"] = json!(limits);
    }
    resources
}
