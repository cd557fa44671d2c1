//! The charts, with the real Helm, on a real API server: what they render, for every combination of values that people are
//! known to use, and what becomes of a release. `chart_operator` runs an operator with the rights that they give.
//!
//! There is no controller and no node here, so Helm does not wait, and what should disappear with its owner stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::{Cluster, eventually};
use tamis_tests::root;
use tempfile::TempDir;

const SYSTEM: &str = "tamis-system";
const CHARTS: [&str; 2] = ["charts/tamis-crds", "charts/tamis"];
/// Groups whose kinds this cluster does not have; the tests on a whole node apply them.
const NOT_SERVED: [&str; 2] = ["gateway.networking.k8s.io", "monitoring.coreos.com"];

/// A file of values.
fn values(folder: &Path, name: &str, values: &Value) -> Result<String> {
    let file = folder.join(format!("{name}.json"));
    fs::write(&file, values.to_string())?;
    Ok(file.to_str().context("the path is no text")?.to_owned())
}

/// Combinations of values, by name, for the release `tamis` in `tamis-system`.
fn matrix() -> Vec<(&'static str, Value)> {
    let everything = json!({
        "fullnameOverride": "gate",
        "commonLabels": {"team": "platform"},
        "commonAnnotations": {"example.com/of": "platform"},
        "image": {"registry": "registry.example.com:5000", "repository": "platform/tamis",
                  "digest": format!("sha256:{}", "0".repeat(64)), "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "gatewayImage": "registry.example.com:5000/platform/tamis-gateway:1",
        "groupNamespaces": ["edge", "team-a"],
        "secretNamespaces": ["team-a", "team-b"],
        "controllerName": "example.com/gate",
        "gatewayGroup": {"name": "public", "namespace": "edge", "annotations": {"example.com/for": "partners"}, "spec": {
            "autoscaling": {"minReplicas": 2, "maxReplicas": 4}, "listener": {"port": 80},
            "pod": {"priorityClassName": "high"}}},
        "ingress": {"enabled": true, "className": "nginx", "annotations": {"nginx.ingress.kubernetes.io/proxy-buffering": "off"},
            "hosts": [{"host": "mcp.example.com", "paths": [{"path": "/mcp"}, {"path": "/x", "pathType": "Exact"}]},
                      {"host": "other.example.com"}],
            "tls": [{"secretName": "mcp-tls", "hosts": ["mcp.example.com"]}]},
        "replicas": 3,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "resources": {"limits": {"cpu": "1"}},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "gateways", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gateways", "operator": "Exists"}]}]}}},
        "topologySpreadConstraints": [
            {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
            {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": {"matchLabels": {"a": "b"}}}],
        "priorityClassName": "system-cluster-critical",
        "podLabels": {"sidecar": "no"},
        "podAnnotations": {"example.com/pod": "yes"},
        "extraArgs": ["--color=never"],
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "extraEnvFrom": [{"configMapRef": {"name": "more", "optional": true}}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ssl/more"}],
        "livenessProbe": {"periodSeconds": 20, "failureThreshold": 5},
        "log": {"format": "human", "level": "info,tamis_operator=debug"},
        "podDisruptionBudget": {"maxUnavailable": "50%"},
        "serviceAccount": {"name": "gatekeeper", "annotations": {"example.com/role": "none"}},
        "service": {"port": 9999, "annotations": {"example.com/service": "metrics"}},
        "networkPolicy": {"metricsFrom": [{"podSelector": {}}], "extraIngress": [{"from": [{"podSelector": {}}]}],
                          "extraEgress": [{"to": [{"podSelector": {}}]}]},
        "monitoring": {"serviceMonitor": {"enabled": true, "interval": "30s"}, "podMonitor": {"enabled": true},
                       "rules": {"enabled": true}, "dashboards": {"enabled": true}},
        "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-more"}},
                         "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Release.Name }}-text}}"],
    });
    vec![
        ("defaults", json!({})),
        ("everything", everything),
        ("without a group", json!({"gatewayGroup": {"create": false}, "defaultGroup": "edge/public"})),
        ("one namespace", json!({"watchNamespaces": [SYSTEM]})),
        (
            "namespaces",
            json!({"watchNamespaces": ["team-a", "edge"], "groupNamespaces": ["edge"], "secretNamespaces": ["team-a"],
                   "gatewayGroup": {"namespace": "edge"}}),
        ),
        (
            "a route",
            json!({"httpRoute": {"enabled": true, "parentRefs": [{"name": "public", "namespace": "gateways"}],
                   "hostnames": ["mcp.example.com"], "timeouts": {"request": "0s"}}}),
        ),
        (
            "as little as possible",
            json!({"replicas": 1, "rbac": {"create": false}, "serviceAccount": {"create": false, "name": "given"},
                   "service": {"create": false}, "networkPolicy": {"create": false}, "podDisruptionBudget": {"create": false},
                   "gatewayGroup": {"create": false}, "test": {"create": false}, "podSecurityContext": {},
                   "securityContext": {}, "resources": {}, "affinity": {}, "livenessProbe": {}}),
        ),
    ]
}

/// Values that are refused, with what is said of them.
fn refused() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"replica": 2}), "additional properties 'replica' not allowed"),
        (json!({"replicas": "2"}), "got string, want integer"),
        (json!({"image": {"pullPolicy": "Sometimes"}}), "'/image/pullPolicy': value must be one of"),
        (json!({"image": {"digest": "latest"}}), "'/image/digest'"),
        (json!({"watchNamespaces": ["Team A"]}), "'/watchNamespaces/0'"),
        (json!({"watchNamespaces": "team-a"}), "'/watchNamespaces': got string, want array"),
        (json!({"gatewayGroup": {"name": "a.b"}}), "'/gatewayGroup/name'"),
        (json!({"service": {"port": 0}}), "'/service/port'"),
        (json!({"log": {"format": "xml"}}), "'/log/format'"),
        (json!({"ingress": {"enabled": true, "hosts": ["mcp.example.com"]}}), "'/ingress/hosts/0'"),
        (json!({"ingress": {"enabled": true}}), "ingress.hosts: is empty: name at least one host"),
        (json!({"httpRoute": {"enabled": true}}), "httpRoute.parentRefs: is empty"),
        (
            json!({"ingress": {"enabled": true, "hosts": [{"host": "a.example.com"}]}, "gatewayGroup": {"create": false}}),
            "there is no default group to lead to",
        ),
        (
            json!({"watchNamespaces": ["team-a"], "secretNamespaces": ["team-b"]}),
            "secretNamespaces: team-b is not looked after: add it to watchNamespaces",
        ),
        (
            json!({"watchNamespaces": ["team-a"], "groupNamespaces": ["edge"]}),
            "groupNamespaces: edge is not looked after",
        ),
        (json!({"gatewayGroup": {"name": "operator"}}), "would have objects of the same name"),
    ]
}

/// The objects of a stream of documents, as the API would have them; nothing is stored.
async fn objects(cluster: &Cluster, yaml: &str) -> Result<Vec<Value>> {
    let dry = ["create", "--dry-run=client", "--validate=false", "-o", "json", "--filename=-"];
    let text = cluster.kubectl(&dry, Some(yaml)).await?;
    // One object, a List, or several objects one after the other.
    let parts = serde_json::Deserializer::from_str(&text).into_iter::<Value>().collect::<Result<Vec<_>, _>>()?;
    Ok(parts.into_iter().flat_map(|part| part["items"].as_array().cloned().unwrap_or_else(|| vec![part])).collect())
}

/// A stream of documents without those of kinds that are not there.
fn served(rendered: &str) -> String {
    let documents = rendered.split("\n---\n").filter(|document| {
        let line = document.lines().find_map(|line| line.strip_prefix("apiVersion: ")).unwrap_or_default();
        !NOT_SERVED.iter().any(|group| line.starts_with(group))
    });
    documents.collect::<Vec<_>>().join("\n---\n")
}

async fn prepared(cluster: &Cluster) -> Result<()> {
    for namespace in [SYSTEM, "edge", "team-a", "team-b"] {
        cluster.service_account(namespace, "default").await?;
    }
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    cluster.kubectl(&["label", "namespace", SYSTEM, restricted], None).await?;
    cluster.helm(&["install", "tamis-crds", "charts/tamis-crds", "-n", SYSTEM]).await?;
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"], None).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_combination_of_values_is_good_or_refused() -> Result<()> {
    let cluster = Cluster::start().await?;
    prepared(&cluster).await?;
    let folder = TempDir::new()?;
    for chart in CHARTS {
        cluster.helm(&["lint", "--strict", chart]).await?;
    }
    for (name, given) in matrix() {
        let file = values(folder.path(), name, &given)?;
        cluster.helm(&["lint", "--strict", "charts/tamis", "-n", SYSTEM, "-f", &file]).await?;
        let rendered = cluster.helm(&["template", "tamis", "charts/tamis", "-n", SYSTEM, "-f", &file]).await?;
        let dry = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-"];
        let said = cluster.kubectl(&dry, Some(&served(&rendered))).await.context(name)?;
        ensure!(said.lines().all(|line| line.ends_with("serverside-applied (server dry run)")), "{name}: {said}");
        let objects = objects(&cluster, &served(&rendered)).await?;
        sensible(&cluster, name, &given, &objects).await.context(name)?;
    }
    for (given, expected) in refused() {
        let file = values(folder.path(), "refused", &given)?;
        let outcome = cluster.helm(&["template", "tamis", "charts/tamis", "-n", SYSTEM, "-f", &file]).await;
        let said = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(said.contains(expected), "{given}: {said:?}");
    }
    rights_are_those_of_the_manifests(&cluster).await?;
    policies_know_the_operators(&cluster).await
}

/// What holds of whatever is rendered.
async fn sensible(cluster: &Cluster, name: &str, given: &Value, objects: &[Value]) -> Result<()> {
    let kinds = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
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

/// Whether the real binary takes arguments: it prints the help of what they say, or what is wrong with them.
fn understood(arguments: &[&str]) -> Result<()> {
    // `--help` comes last, and is looked at last: what comes before has been parsed then.
    let output = std::process::Command::new(tamis_tests::binary("tamis")?).args(arguments).arg("--help").output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// `deploy/rbac.yaml` and the chart give the same rights; `rbac` asks the authoriser about the former, line by line.
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
        ("Role", "tamis-operator", "tamis-operator-lease"),
    ] {
        let (manifest, chart) = (of(&manifests, kind, name)?, of(&chart, kind, ours)?);
        ensure!(manifest == chart, "{kind} {name}:\n{manifest:#?}\n{chart:#?}");
    }
    let bindings = |objects: &[Value]| objects.iter().filter(|o| o["kind"] == "RoleBinding").count();
    ensure!(bindings(&chart) == 1, "without namespaces only the Lease is bound");
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

/// A copy of a chart, as the version before this one was: another version, other rights, another default.
fn previous(chart: &str, to: &Path) -> Result<PathBuf> {
    let target = to.join(chart);
    copy(&root().join(chart), &target)?;
    let edit = |file: &str, from: &str, to: &str| -> Result<()> {
        let file = target.join(file);
        let text = fs::read_to_string(&file)?;
        ensure!(text.contains(from), "{}: no {from}", file.display());
        fs::write(&file, text.replace(from, to))?;
        Ok(())
    };
    edit("Chart.yaml", concat!("version: ", env!("CARGO_PKG_VERSION")), "version: 0.0.9")?;
    edit("Chart.yaml", concat!("appVersion: \"", env!("CARGO_PKG_VERSION")), "appVersion: \"0.0.9")?;
    if chart.ends_with("tamis") {
        edit("values.yaml", "replicas: 2\n", "replicas: 1\n")?;
        edit("templates/operator.yaml", "            - --lease-name={{ $operator }}\n", "")?;
    } else {
        edit("files/crds/expositions.reshapr.io.yaml", "name: Saved", "name: Spared")?;
    }
    Ok(target)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_installed_upgraded_rolled_back_and_removed() -> Result<()> {
    let cluster = Cluster::start().await?;
    let folder = TempDir::new()?;
    let old = CHARTS.map(|chart| previous(chart, folder.path()));
    let [old_crds, old_tamis] = old;
    let (old_crds, old_tamis) = (old_crds?, old_tamis?);
    let (old_crds, old_tamis) = (old_crds.to_str().context("text")?, old_tamis.to_str().context("text")?);
    let before = everything(&cluster).await?;
    cluster.helm(&["install", "tamis-crds", old_crds, "-n", SYSTEM, "--create-namespace"]).await?;
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"], None).await?;
    let said = cluster.helm(&["install", "tamis", old_tamis, "-n", SYSTEM]).await?;
    ensure!(said.contains("helm test tamis") && said.contains("tamis-default.tamis-system.svc:8080"), "{said}");

    // What users own, made under the old version.
    cluster.namespace("team-a").await?;
    let example = fs::read_to_string(root().join("examples/kubernetes/team-a/github.yaml"))?;
    cluster.kubectl(&["-n", "team-a", "apply", "--filename=-"], Some(&example)).await?;

    let replicas = ["-n", SYSTEM, "get", "deployment", "tamis-operator", "-o", "jsonpath={.spec.replicas}"];
    let column =
        ["get", "crd", "expositions.reshapr.io", "-o", "jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}"];
    ensure!(cluster.kubectl(&replicas, None).await? == "1" && cluster.kubectl(&column, None).await?.contains("Spared"));
    cluster.helm(&["upgrade", "tamis-crds", "charts/tamis-crds", "-n", SYSTEM]).await?;
    cluster.helm(&["upgrade", "tamis", "charts/tamis", "-n", SYSTEM, "--set", "secretNamespaces={team-a}"]).await?;
    ensure!(cluster.kubectl(&replicas, None).await? == "2" && cluster.kubectl(&column, None).await?.contains("Saved"));
    let binding = ["-n", "team-a", "get", "rolebinding", "tamis-secrets", "--ignore-not-found", "-o", "name"];
    ensure!(!cluster.kubectl(&binding, None).await?.is_empty(), "team-a takes part");

    // Back, and forth again.
    cluster.helm(&["rollback", "tamis", "1", "-n", SYSTEM]).await?;
    ensure!(cluster.kubectl(&replicas, None).await? == "1", "as before");
    ensure!(cluster.kubectl(&binding, None).await?.is_empty(), "team-a takes part no more");
    cluster.helm(&["upgrade", "tamis", "charts/tamis", "-n", SYSTEM, "--set", "secretNamespaces={team-a}"]).await?;
    let history = cluster.helm(&["history", "tamis", "-n", SYSTEM, "-o", "json"]).await?;
    let history: Value = serde_json::from_str(&history)?;
    ensure!(history.as_array().is_some_and(|all| all.len() == 4 && all[3]["status"] == "deployed"), "{history}");
    // The same again changes nothing.
    let version = ["-n", SYSTEM, "get", "deployment", "tamis-operator", "-o", "jsonpath={.metadata.generation}"];
    let generation = cluster.kubectl(&version, None).await?;
    cluster.helm(&["upgrade", "tamis", "charts/tamis", "-n", SYSTEM, "--reuse-values"]).await?;
    ensure!(cluster.kubectl(&version, None).await? == generation, "a Deployment is written although nothing changed");

    // Expositions use the group: it stays until somebody says that it may go.
    let group = ["-n", SYSTEM, "patch", "gatewaygroup", "default", "--type=merge", "-p"];
    let attached = r#"{"status": {"attachedExpositions": 2}}"#;
    cluster.kubectl(&[group.as_slice(), &[attached, "--subresource=status"]].concat(), None).await?;
    ensure!(cluster.helm(&["uninstall", "tamis", "-n", SYSTEM]).await.is_err(), "a group in use is deleted");
    let allowed = r#"{"metadata": {"annotations": {"reshapr.io/allow-deletion": "true"}}}"#;
    cluster.kubectl(&[group.as_slice(), &[allowed]].concat(), None).await.context("the group is gone")?;
    cluster.helm(&["uninstall", "tamis", "-n", SYSTEM]).await?;
    cluster.helm(&["uninstall", "tamis-crds", "-n", SYSTEM]).await?;
    let services = ["-n", "team-a", "get", "servicemanifests", "-o", "name"];
    ensure!(!cluster.kubectl(&services, None).await?.is_empty(), "users keep what they own");
    cluster.kubectl(&["-n", "team-a", "delete", "--filename=-"], Some(&example)).await?;
    eventually("only the kinds are left", Duration::from_secs(30), async || {
        let mut left = everything(&cluster).await?;
        left.retain(|object| !before.contains(object) && !object.starts_with("namespace/"));
        let kinds = left.iter().filter(|object| object.ends_with(".reshapr.io")).count();
        ensure!(kinds == 7 && left.len() == 7, "left: {left:#?}");
        Ok(Some(()))
    })
    .await?;
    // And it can all come again.
    cluster.helm(&["install", "tamis-crds", "charts/tamis-crds", "-n", SYSTEM]).await?;
    cluster.helm(&["install", "tamis", "charts/tamis", "-n", SYSTEM]).await.map(drop)
}

/// The names of everything that is there, of all kinds but Events and what the API server makes by itself.
async fn everything(cluster: &Cluster) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for namespaced in ["true", "false"] {
        let namespaced = format!("--namespaced={namespaced}");
        let list = ["api-resources", "--verbs=list", &namespaced, "-o", "name"];
        let kinds = cluster.kubectl(&list, None).await?;
        let own = |kind: &&str| ["events", "leases", "apiservices"].iter().any(|own| kind.starts_with(own));
        let kinds: Vec<&str> = kinds.lines().filter(|kind| !own(kind)).collect();
        let names = "jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
        let found = cluster.kubectl(&["get", &kinds.join(","), "--all-namespaces", "-o", names], None).await?;
        all.extend(found.lines().map(|line| line.replace("//", "/").to_lowercase()));
    }
    all.sort();
    all.dedup();
    Ok(all)
}
