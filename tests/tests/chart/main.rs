//! The charts, with the real Helm, on a real API server: what they render, for every combination of values that people are
//! known to use, and what becomes of a release. `chart_operator` runs an operator with the rights that they give.
//!
//! There is no controller and no node here, so Helm does not wait, and what should disappear with its owner stays.

#![recursion_limit = "256"]

mod release;
mod values;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::Cluster;
use tamis_tests::root;
use tempfile::TempDir;

const SYSTEM: &str = "tamis-system";
const CHARTS: [&str; 2] = ["charts/tamis-crds", "charts/tamis"];
/// Kinds of others that the chart makes objects of.
const DEFINITIONS: [&str; 4] = [
    "httproutes.gateway.networking.k8s.io",
    "servicemonitors.monitoring.coreos.com",
    "podmonitors.monitoring.coreos.com",
    "prometheusrules.monitoring.coreos.com",
];
/// What Argo CD and careful people ask with: a field that a kind does not have is refused.
const DRY: [&str; 5] = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-"];

/// A file of values.
fn file_of(folder: &Path, name: &str, values: &Value) -> Result<String> {
    let file = folder.join(format!("{name}.json"));
    fs::write(&file, values.to_string())?;
    Ok(file.to_str().context("the path is no text")?.to_owned())
}

/// The objects of a stream of documents, as the API would have them; nothing is stored.
async fn objects(cluster: &Cluster, yaml: &str) -> Result<Vec<Value>> {
    let dry = ["create", "--dry-run=client", "--validate=false", "-o", "json", "--filename=-"];
    let text = cluster.kubectl(&dry, Some(yaml)).await?;
    // One object, a List, or several objects one after the other.
    let parts = serde_json::Deserializer::from_str(&text).into_iter::<Value>().collect::<Result<Vec<_>, _>>()?;
    Ok(parts.into_iter().flat_map(|part| part["items"].as_array().cloned().unwrap_or_else(|| vec![part])).collect())
}

async fn prepared(cluster: &Cluster) -> Result<()> {
    for namespace in [SYSTEM, "edge", "team-a", "team-b"] {
        cluster.service_account(namespace, "default").await?;
    }
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    cluster.kubectl(&["label", "namespace", SYSTEM, restricted], None).await?;
    cluster.install_definitions(&DEFINITIONS).await?;
    cluster.helm(&["install", "tamis-crds", "charts/tamis-crds", "-n", SYSTEM]).await?;
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"], None).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_combination_of_values_is_valid_or_rejected() -> Result<()> {
    let cluster = Cluster::start().await?;
    prepared(&cluster).await?;
    let folder = TempDir::new()?;
    for chart in CHARTS {
        cluster.helm(&["lint", "--strict", chart]).await?;
    }
    for (name, given) in values::matrix() {
        let file = file_of(folder.path(), name, &given)?;
        cluster.helm(&["lint", "--strict", "charts/tamis", "-n", SYSTEM, "-f", &file]).await?;
        let rendered = cluster.helm(&["template", "tamis", "charts/tamis", "-n", SYSTEM, "-f", &file]).await?;
        let said = cluster.kubectl(&DRY, Some(&rendered)).await.context(name)?;
        ensure!(said.lines().all(|line| line.ends_with("serverside-applied (server dry run)")), "{name}: {said}");
        let objects = objects(&cluster, &rendered).await?;
        sensible(&cluster, name, &given, &objects).await.context(name)?;
    }
    for (route, expected) in values::wrong_routes() {
        let mut given = json!({"httpRoute": {"enabled": true, "parentRefs": [{"name": "public"}]}});
        given["httpRoute"].as_object_mut().context("an object")?.extend(route.as_object().cloned().unwrap_or_default());
        let file = file_of(folder.path(), "route", &given)?;
        let rendered = cluster.helm(&["template", "tamis", "charts/tamis", "-n", SYSTEM, "-f", &file]).await?;
        let said = cluster.kubectl(&DRY, Some(&rendered)).await.err().map(|error| error.to_string());
        ensure!(said.as_deref().is_some_and(|said| said.contains(expected)), "{route}: {said:?}");
    }
    for (given, expected) in values::refused() {
        let file = file_of(folder.path(), "refused", &given)?;
        let outcome = cluster.helm(&["template", "tamis", "charts/tamis", "-n", SYSTEM, "-f", &file]).await;
        let said = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(said.contains(expected), "{given}: {said:?}");
    }
    rights_are_those_of_the_manifests(&cluster).await?;
    probes_are_those_of_the_manifests(&cluster).await?;
    policies_know_the_operators(&cluster).await
}

/// What holds of whatever is rendered.
async fn sensible(cluster: &Cluster, name: &str, given: &Value, objects: &[Value]) -> Result<()> {
    let kinds = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
    ensure!(
        kinds("HTTPRoute").len() == usize::from(given["httpRoute"]["enabled"] == true),
        "a route that is asked for"
    );
    for object in objects {
        let labels = &object["metadata"]["labels"];
        let extra = object["kind"] == "ConfigMap";
        ensure!(extra || labels["app.kubernetes.io/instance"] == "tamis", "no labels: {object}");
        if given["commonLabels"].is_object() && !extra {
            ensure!(labels["team"] == "platform", "no common labels: {object}");
        }
    }
    // Namespaced means that nothing at all belongs to the cluster.
    if given["watchNamespaces"].is_array() {
        let wide: Vec<_> = objects.iter().filter(|object| object["metadata"]["namespace"].is_null()).collect();
        ensure!(wide.is_empty(), "cluster-wide: {wide:?}");
    }
    let deployments = kinds("Deployment");
    let [deployment] = deployments.as_slice() else { anyhow::bail!("{} Deployments", deployments.len()) };
    let pod = &deployment["spec"]["template"];
    for (key, value) in deployment["spec"]["selector"]["matchLabels"].as_object().context("a selector")? {
        ensure!(pod["metadata"]["labels"][key] == *value, "the pods are not selected: {key}");
    }
    for security in ["runAsUser", "runAsGroup", "fsGroup"] {
        ensure!(!pod.to_string().contains(security), "{security}: OpenShift assigns it");
    }
    // The operator's namespace enforces `restricted`: what it would say of the pods.
    if name != "as little as possible" {
        let mut alone = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": SYSTEM},
                               "spec": pod["spec"]});
        alone["spec"]["serviceAccountName"] = "default".into();
        alone["spec"]["priorityClassName"].take();
        let create = ["create", "--dry-run=server", "--filename=-"];
        cluster.kubectl(&create, Some(&alone.to_string())).await.context("pod security")?;
    }
    let arguments: Vec<&str> =
        pod["spec"]["containers"][0]["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    understood(&arguments).context("the operator's arguments")?;
    for test in kinds("Pod") {
        for container in test["spec"]["containers"].as_array().context("containers")? {
            let arguments = container["args"].as_array().context("arguments")?;
            understood(&arguments.iter().filter_map(Value::as_str).collect::<Vec<_>>())
                .context("the test's arguments")?;
        }
    }
    Ok(())
}

/// Checks that the real binary accepts arguments: it prints the help of the command, or an error.
fn understood(arguments: &[&str]) -> Result<()> {
    // `--help` comes last, and is looked at last: what comes before has been parsed then.
    let output = std::process::Command::new(tamis_tests::binary("tamis")?).args(arguments).arg("--help").output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// `deploy/rbac.yaml`, or `deploy/namespaced/`, and the chart give the same rights; `rbac` asks the authoriser about the former, line by line.
async fn rights_are_those_of_the_manifests(cluster: &Cluster) -> Result<()> {
    let manifests = objects(cluster, &fs::read_to_string(root().join("deploy/rbac.yaml"))?).await?;
    let none = ["template", "tamis", "charts/tamis", "-n", SYSTEM, "--set", "gatewayGroup.create=false"];
    let chart = objects(cluster, &cluster.helm(&none).await?).await?;
    let of = |objects: &[Value], kind: &str, name: &str| -> Result<Vec<String>> {
        let mut found = objects.iter().filter(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        let rules = found.next().with_context(|| format!("no {kind} {name}"))?["rules"].as_array().context("rules")?;
        // One line a verb of a resource: how they are grouped says nothing.
        let mut lines = Vec::new();
        for rule in rules {
            let list = |key: &str| {
                let items = rule[key].as_array().cloned().unwrap_or_default();
                items.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
            };
            let names = list("resourceNames").join(",");
            for group in list("apiGroups") {
                for resource in list("resources") {
                    lines.extend(list("verbs").iter().map(|verb| format!("{verb} {group}/{resource} {names}")));
                }
            }
        }
        lines.sort();
        Ok(lines)
    };
    for (kind, name, ours) in [
        ("ClusterRole", "tamis-operator", "tamis-operator"),
        ("ClusterRole", "tamis-group", "tamis-group"),
        ("ClusterRole", "tamis-secrets", "tamis-secrets"),
        ("ClusterRole", "tamis-documents", "tamis-documents"),
        ("Role", "tamis-operator", "tamis-operator-lease"),
    ] {
        let (manifest, chart) = (of(&manifests, kind, name)?, of(&chart, kind, ours)?);
        ensure!(manifest == chart, "{kind} {name}:\n{manifest:#?}\n{chart:#?}");
    }
    let manifests = objects(cluster, &fs::read_to_string(root().join("deploy/namespaced/namespace.yaml"))?).await?;
    let namespaces =
        "--set=watchNamespaces={edge},groupNamespaces={edge},secretNamespaces={edge},documentNamespaces={edge}";
    let namespaced = [none.as_slice(), &[namespaces]];
    let own = objects(cluster, &cluster.helm(&namespaced.concat()).await?).await?;
    for (name, ours) in [
        ("tamis-watch", "tamis-operator"),
        ("tamis-group", "tamis-group"),
        ("tamis-secrets", "tamis-secrets"),
        ("tamis-documents", "tamis-documents"),
    ] {
        let (manifest, chart) = (of(&manifests, "Role", name)?, of(&own, "Role", ours)?);
        ensure!(manifest == chart, "Role {name}:\n{manifest:#?}\n{chart:#?}");
    }
    let bindings = |objects: &[Value]| objects.iter().filter(|o| o["kind"] == "RoleBinding").count();
    ensure!(bindings(&chart) == 1, "without namespaces only the Lease is bound");
    Ok(())
}

/// `deploy/operator.yaml` and the chart ask the operator alike how it is, and give it time to begin.
async fn probes_are_those_of_the_manifests(cluster: &Cluster) -> Result<()> {
    let manifests = objects(cluster, &fs::read_to_string(root().join("deploy/operator.yaml"))?).await?;
    let chart = objects(cluster, &cluster.helm(&["template", "tamis", "charts/tamis", "-n", SYSTEM]).await?).await?;
    let container = |objects: &[Value]| -> Result<Value> {
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").context("no Deployment")?;
        Ok(deployment["spec"]["template"]["spec"]["containers"][0].clone())
    };
    let (manifest, chart) = (container(&manifests)?, container(&chart)?);
    for (probe, path) in [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        ensure!(chart[probe]["httpGet"] == json!({"path": path, "port": "admin"}), "{probe}: {}", chart[probe]);
        ensure!(chart[probe] == manifest[probe], "{probe}: {} and {}", chart[probe], manifest[probe]);
    }
    let [period, failures] = ["periodSeconds", "failureThreshold"].map(|field| chart["startupProbe"][field].as_u64());
    ensure!(
        period.zip(failures).is_some_and(|(period, failures)| period * failures >= 30),
        "{}",
        chart["startupProbe"]
    );
    Ok(())
}

/// Where operators have other names, nothing of the usual one is left in the policies.
async fn policies_know_the_operators(cluster: &Cluster) -> Result<()> {
    let operators = [
        "--set=operators[0].namespace=platform,operators[0].serviceAccount=tamis",
        "--set=operators[1].namespace=tenant,operators[1].serviceAccount=t-operator",
        "--set=operators[1].groupNamespaces={tenant,edge}",
        "--set=crds.keep=false,crds.annotations.a=b,commonLabels.team=platform",
    ];
    let mut arguments = vec!["template", "kinds", "charts/tamis-crds"];
    arguments.extend(operators);
    let rendered = cluster.helm(&arguments).await?;
    ensure!(!rendered.contains("tamis-system:tamis-operator"), "the usual operator is left");
    ensure!(!rendered.contains("helm.sh/resource-policy"), "`keep` is off");
    let both = "['system:serviceaccount:platform:tamis', 'system:serviceaccount:tenant:t-operator']";
    let places = "{'system:serviceaccount:platform:tamis': ['*'], 'system:serviceaccount:tenant:t-operator': ['tenant', 'edge']}";
    ensure!(rendered.contains(both) && rendered.contains(places), "the operators are not named");
    let dry = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--filename=-"];
    let said = cluster.kubectl(&dry, Some(&rendered)).await?;
    ensure!(said.lines().count() >= 7 + 6, "{said}");
    let none = cluster.helm(&["template", "kinds", "charts/tamis-crds", "--set=crds.create=false"]).await?;
    ensure!(!none.contains("CustomResourceDefinition") && none.contains("ValidatingAdmissionPolicy"), "only policies");
    Ok(())
}
