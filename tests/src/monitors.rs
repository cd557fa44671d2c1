//! Converts ServiceMonitors and PodMonitors to scrape configurations, like the Prometheus operator, for the fields that
//! the chart's monitors use. An unknown field is an error, so that the chart cannot use a field that no test evaluates.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

/// The kind of a monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Service,
    Pod,
}

impl Kind {
    /// The role of Kubernetes discovery, and the prefix of the labels that the selector is about.
    fn role(self) -> (&'static str, &'static str) {
        match self {
            Self::Service => ("endpointslice", "service"),
            Self::Pod => ("pod", "pod"),
        }
    }

    /// The label with the name of a port.
    fn port(self) -> &'static str {
        match self {
            Self::Service => "__meta_kubernetes_endpointslice_port_name",
            Self::Pod => "__meta_kubernetes_pod_container_port_name",
        }
    }

    /// Labels of targets, and where they are from.
    fn labels(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Service => &[
                ("namespace", "__meta_kubernetes_namespace"),
                ("service", "__meta_kubernetes_service_name"),
                ("pod", "__meta_kubernetes_pod_name"),
                ("container", "__meta_kubernetes_pod_container_name"),
            ],
            Self::Pod => &[
                ("namespace", "__meta_kubernetes_namespace"),
                ("container", "__meta_kubernetes_pod_container_name"),
                ("pod", "__meta_kubernetes_pod_name"),
            ],
        }
    }
}

/// The scrape configuration of a monitor, for targets that Prometheus discovers with a kubeconfig. `network` is put before
/// the monitor's own relabelings: it leads from the addresses of pods to where they are reached.
///
/// # Errors
/// The object is not a monitor, or has an unknown field.
pub fn scrape_config(monitor: &Value, kubeconfig: &Path, network: &[Value]) -> Result<Value> {
    let kind = match monitor["kind"].as_str() {
        Some("ServiceMonitor") => Kind::Service,
        Some("PodMonitor") => Kind::Pod,
        other => bail!("{other:?} is no monitor"),
    };
    let own = monitor["metadata"]["namespace"].as_str().context("a namespace")?;
    let name = monitor["metadata"]["name"].as_str().context("a name")?;
    let endpoints = if kind == Kind::Service { "endpoints" } else { "podMetricsEndpoints" };
    let spec = known(&monitor["spec"], &["selector", "namespaceSelector", endpoints])?;
    let [endpoint] = &spec[endpoints].as_array().context("endpoints")?[..] else { bail!("not one endpoint") };
    let endpoint = known(endpoint, &["port", "path", "scheme", "honorLabels", "relabelings"])?;
    let port = endpoint["port"].as_str().context("a port")?;

    let (role, of) = kind.role();
    let mut rules = network.to_vec();
    let selector = known(&spec["selector"], &["matchLabels"])?;
    for (label, value) in selector["matchLabels"].as_object().context("matchLabels")? {
        let label = label.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let is_there = format!("__meta_kubernetes_{of}_labelpresent_{label}");
        let label = format!("__meta_kubernetes_{of}_label_{label}");
        let value = value.as_str().context("a value")?;
        rules.push(json!({"action": "keep", "source_labels": [label, is_there], "regex": format!("({value});true")}));
    }
    rules.push(json!({"action": "keep", "source_labels": [kind.port()], "regex": port}));
    for (label, source) in kind.labels() {
        rules.push(json!({"source_labels": [source], "target_label": label}));
    }
    rules.push(json!({"target_label": "endpoint", "replacement": port}));
    for rule in endpoint.get("relabelings").and_then(Value::as_array).into_iter().flatten() {
        rules.push(relabeling(rule)?);
    }

    let mut discovery = json!({"role": role, "kubeconfig_file": kubeconfig});
    let namespaces = spec.get("namespaceSelector").cloned().unwrap_or_else(|| json!({"matchNames": [own]}));
    let namespaces = known(&namespaces, &["any", "matchNames"])?.clone();
    if namespaces.get("any") != Some(&json!(true)) {
        discovery["namespaces"] = json!({"names": namespaces["matchNames"]});
    }
    Ok(json!({
        "job_name": format!("{of}Monitor/{own}/{name}/0"),
        "honor_labels": endpoint.get("honorLabels").cloned().unwrap_or(json!(false)),
        "metrics_path": endpoint.get("path").cloned().unwrap_or(json!("/metrics")),
        "scheme": endpoint.get("scheme").cloned().unwrap_or(json!("http")),
        "kubernetes_sd_configs": [discovery],
        "relabel_configs": rules,
    }))
}

/// One relabeling, as Prometheus itself writes it.
fn relabeling(rule: &Value) -> Result<Value> {
    let names = [
        ("action", "action"),
        ("sourceLabels", "source_labels"),
        ("targetLabel", "target_label"),
        ("regex", "regex"),
        ("replacement", "replacement"),
        ("separator", "separator"),
    ];
    let rule = known(rule, &names.map(|(name, _)| name))?;
    let named =
        names.into_iter().filter_map(|(name, as_written)| Some((as_written.to_owned(), rule.get(name)?.clone())));
    Ok(Value::Object(named.collect()))
}

/// An object of these fields and no others.
fn known<'a>(value: &'a Value, fields: &[&str]) -> Result<&'a Map<String, Value>> {
    let object = value.as_object().with_context(|| format!("no object: {value}"))?;
    let unknown: Vec<&String> = object.keys().filter(|key| !fields.contains(&key.as_str())).collect();
    ensure!(unknown.is_empty(), "{unknown:?} of a monitor is not evaluated here");
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_becomes_the_prometheus_operators_scrape_configuration() {
        let mut monitor = json!({
            "kind": "PodMonitor",
            "metadata": {"name": "m", "namespace": "n"},
            "spec": {
                "selector": {"matchLabels": {"app.kubernetes.io/name": "tamis"}},
                "namespaceSelector": {"any": true},
                "podMetricsEndpoints": [{
                    "port": "admin", "path": "/metrics", "honorLabels": true,
                    "relabelings": [{"action": "replace", "sourceLabels": ["a"], "targetLabel": "b"}],
                }],
            },
        });
        let made = scrape_config(&monitor, Path::new("/k"), &[]).expect("is known");
        assert_eq!(made["honor_labels"], json!(true));
        assert_eq!(made["kubernetes_sd_configs"], json!([{"role": "pod", "kubeconfig_file": "/k"}]));
        let rules = made["relabel_configs"].as_array().expect("rules");
        assert_eq!(
            rules[0],
            json!({
                "action": "keep", "regex": "(tamis);true",
                "source_labels": [
                    "__meta_kubernetes_pod_label_app_kubernetes_io_name",
                    "__meta_kubernetes_pod_labelpresent_app_kubernetes_io_name",
                ],
            })
        );
        assert_eq!(rules.last(), Some(&json!({"action": "replace", "source_labels": ["a"], "target_label": "b"})));

        monitor["spec"]["namespaceSelector"] = json!({"matchNames": ["edge"]});
        let made = scrape_config(&monitor, Path::new("/k"), &[]).expect("is known");
        assert_eq!(made["kubernetes_sd_configs"][0]["namespaces"], json!({"names": ["edge"]}));
        monitor["spec"]["podMetricsEndpoints"][0]["params"] = json!({});
        let error = scrape_config(&monitor, Path::new("/k"), &[]).expect_err("is not known").to_string();
        assert!(error.contains("params"), "{error}");
    }
}
