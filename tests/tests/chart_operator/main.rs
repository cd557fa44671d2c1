//! An operator with the rights that the chart gives it, and no others, under the policies of `tamis-crds`:
//! cluster-wide, in namespaces, and two in one cluster. Also tests what the policy `tamis-operator` denies a holder of
//! its token.

mod objects;
mod token;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::{Cluster, Operator, eventually};

const SYSTEM: &str = "tamis-system";
/// Where an operator without cluster-wide rights looks after everything.
const TENANT: &str = "tenant";
const SOON: Duration = Duration::from_secs(60);

/// What a group is made of, with more than one gateway.
const CHILDREN: &str = "deployment,service,serviceaccount,role,rolebinding,networkpolicy,poddisruptionbudget";

/// Starts an operator as the chart's Deployment would, but for what needs a node.
async fn start(cluster: &Cluster, namespace: &str, release: &str) -> Result<Operator> {
    let name = format!("{release}-operator");
    let arguments = ["-n", namespace, "get", "deployment", &name, "-o", "json"];
    let deployment: Value = serde_json::from_str(&cluster.kubectl(&arguments, None).await?)?;
    let pod = &deployment["spec"]["template"]["spec"];
    let account = pod["serviceAccountName"].as_str().context("an account")?;
    let kubeconfig = cluster.service_account(namespace, account).await?;
    let given = pod["containers"][0]["args"].as_array().context("arguments")?.iter().filter_map(Value::as_str);
    // The subcommand and the address are given by who starts it here.
    let given = given.filter(|argument| *argument != "operator" && !argument.starts_with("--admin="));
    let mut arguments: Vec<&str> = given.collect();
    arguments.extend(["--lease-namespace", namespace, "--identity", release]);
    Operator::start(cluster, &kubeconfig, &arguments).await.with_context(|| format!("{arguments:?}"))
}

/// Waits until everything of a group is there, and its status.
async fn reconciled(cluster: &Cluster, namespace: &str, group: &str) -> Result<()> {
    let name = format!("tamis-{group}");
    eventually(&format!("the objects of {namespace}/{group}"), SOON, async || {
        let arguments = ["-n", namespace, "get", CHILDREN, "-o", "jsonpath={.items[*].metadata.name}"];
        let there = cluster.kubectl(&arguments, None).await?;
        Ok((there.split_whitespace().filter(|other| *other == name).count() == 7).then_some(()))
    })
    .await?;
    eventually(&format!("the status of {namespace}/{group}"), SOON, async || {
        let arguments = ["-n", namespace, "get", "gatewaygroup", group, "-o", "json"];
        let object: Value = serde_json::from_str(&cluster.kubectl(&arguments, None).await?)?;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let accepted = conditions.iter().find(|condition| condition["type"] == "Accepted");
        let message = accepted.map(|accepted| accepted["message"].to_string()).unwrap_or_default();
        ensure!(!message.contains("may not be written"), "{message}");
        Ok(accepted.is_some_and(|accepted| accepted["status"] == "True").then_some(()))
    })
    .await
}

/// Ends an operator; it has been refused nothing.
async fn ended(mut operator: Operator) -> Result<()> {
    operator.process.terminate()?;
    operator.process.ended(Duration::from_secs(20)).await?;
    let log = operator.process.log();
    ensure!(!log.to_lowercase().contains("forbidden"), "something was refused:\n{log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operators_run_with_the_rights_of_the_charts() -> Result<()> {
    let cluster = Cluster::start().await?;
    for namespace in [TENANT, "team-a"] {
        cluster.namespace(namespace).await?;
    }
    let mut kinds = vec!["install", "tamis-crds", "charts/tamis-crds", "-n", SYSTEM, "--create-namespace"];
    kinds.extend(["--set=operators[0].namespace=tamis-system,operators[0].serviceAccount=tamis-operator"]);
    kinds.extend(["--set=operators[1].namespace=tenant,operators[1].serviceAccount=own-tamis-operator"]);
    kinds.extend(["--set=operators[1].groupNamespaces={tenant}"]);
    cluster.helm(&kinds).await?;
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"], None).await?;
    cluster.helm(&["install", "tamis", "charts/tamis", "-n", SYSTEM, "--set=secretNamespaces={team-a}"]).await?;

    // The second is installed by an administrator of one namespace.
    let administrator = cluster.service_account(TENANT, "administrator").await?;
    let account = "--serviceaccount=tenant:administrator";
    cluster
        .kubectl(&["-n", TENANT, "create", "rolebinding", "all", "--clusterrole=cluster-admin", account], None)
        .await?;
    let own = ["install", "own", "charts/tamis", "-n", TENANT, "--set=watchNamespaces={tenant}"];
    let own =
        [own.as_slice(), &["--set=controllerName=example.com/tenant", "--set=secretNamespaces={tenant}"]].concat();
    cluster.helm_as(&administrator, &own).await.context("installed without cluster-wide rights")?;

    let first = start(&cluster, SYSTEM, "tamis").await?;
    let second = start(&cluster, TENANT, "own-tamis").await?;
    reconciled(&cluster, SYSTEM, "default").await?;
    reconciled(&cluster, TENANT, "default").await?;
    for (namespace, lease, holder) in [(SYSTEM, "tamis-operator", "tamis"), (TENANT, "own-tamis-operator", "own-tamis")]
    {
        let holds = ["-n", namespace, "get", "lease", lease, "-o", "jsonpath={.spec.holderIdentity}"];
        ensure!(cluster.kubectl(&holds, None).await? == holder, "{lease}: held by another");
    }
    let image = [
        "-n",
        TENANT,
        "get",
        "deployment",
        "tamis-default",
        "-o",
        "jsonpath={.spec.template.spec.containers[0].image}",
    ];
    ensure!(!cluster.kubectl(&image, None).await?.is_empty());

    // What people edit is repaired, and what they add is left: the policy is in the way of neither.
    eventually("the policy is in force", SOON, async || {
        let as_operator = "--as=system:serviceaccount:tamis-system:tamis-operator";
        let tried = cluster
            .kubectl(&["-n", SYSTEM, "create", "configmap", "probe", "--dry-run=server", as_operator], None)
            .await;
        let said = tried.err().map(|error| error.to_string()).unwrap_or_default();
        Ok(said.contains("tamis-operator").then_some(()))
    })
    .await?;
    let widened =
        json!([{"op": "add", "path": "/rules/-", "value": {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}}]);
    cluster
        .kubectl(&["-n", SYSTEM, "patch", "role", "tamis-default", "--type=json", "-p", &widened.to_string()], None)
        .await?;
    let sidecar = json!({"spec": {"template": {"spec": {
        "containers": [{"name": "sidecar", "image": "sidecar:1"}], "volumes": [{"name": "node", "hostPath": {"path": "/var/log"}}]}}}});
    let unlabelled = json!({"metadata": {"labels": {"tamis.dev/gateway-group": null}}});
    let patch = async |kind: &str, patch: &Value| {
        cluster.kubectl(&["-n", SYSTEM, "patch", kind, "tamis-default", "-p", &patch.to_string()], None).await
    };
    patch("deployment", &sidecar).await?;
    patch("service", &unlabelled).await?;

    cluster
        .kubectl(
            &["-n", SYSTEM, "patch", "gatewaygroup", "default", "--type=merge", "-p", r#"{"spec": {"replicas": 3}}"#],
            None,
        )
        .await?;
    eventually("repaired", SOON, async || {
        let get = async |kind: &str, path: &str| {
            cluster
                .kubectl(&["-n", SYSTEM, "get", kind, "tamis-default", "-o", &format!("jsonpath={path}")], None)
                .await
        };
        let rules = get("role", "{.rules[*].verbs}").await?;
        let replicas = get("deployment", "{.spec.replicas}").await?;
        let containers = get("deployment", "{.spec.template.spec.containers[*].name}").await?;
        let label = get("service", "{.metadata.labels.tamis\\.dev/gateway-group}").await?;
        let all = !rules.contains('*') && replicas == "3" && containers.contains("sidecar") && label == "default";
        ensure!(all, "{rules} {replicas} {containers} {label}");
        Ok(Some(()))
    })
    .await?;
    ended(first).await?;
    ended(second).await
}
