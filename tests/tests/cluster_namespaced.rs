//! An operator without cluster-wide permissions, as `deploy/namespaced/` installs it, and two operators in one cluster.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::{Cluster, Operator, TestEnv, eventually};

const SOON: Duration = Duration::from_secs(60);
const ACCOUNT: &str = "--serviceaccount=tamis-system:tamis-operator";

/// From an apply to a call, with Roles only: the real authoriser refuses nothing that the operator asks for.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespaced_operator_needs_only_roles() -> Result<()> {
    let env = TestEnv::namespaced().await?;
    let can = |namespace: &'static str, verb: &'static str, what: &'static str| {
        let (cluster, access) = (&env.cluster, &env.operator_access);
        let arguments = ["-n", namespace, "auth", "can-i", verb, what];
        async move { cluster.kubectl_as(access, &arguments, None).await.is_ok_and(|said| said.trim() == "yes") }
    };
    ensure!(can("team-a", "list", "expositions.tamis.dev").await && can("team-a", "get", "namespaces/team-a").await);
    for (verb, what) in [("list", "expositions.tamis.dev"), ("get", "namespaces/default"), ("list", "secrets")] {
        ensure!(!can("default", verb, what).await, "{verb} {what} elsewhere");
    }
    env.cluster.apply(&env.manifest()).await?;
    env.cluster.apply(&TestEnv::filters("small", &json!({"filters": {"get-issue": {"retain": ["/number"]}}}))).await?;
    env.cluster.apply(&TestEnv::exposition("issues", &json!({}))).await?;
    env.ready("exposition", "issues").await?;
    env.ready("toolsfilters", "small").await?;
    env.issue_has("issues", &["number"]).await?;
    let group = ["-n", "tamis-public", "wait", "--for=condition=Ready", "gatewaygroup/public", "--timeout=60s"];
    env.cluster.kubectl(&group, None).await?;
    let events = ["-n", "team-a", "get", "events.events.k8s.io", "-o", "jsonpath={.items[*].reason}"];
    env.cluster
        .apply(&TestEnv::filters("small", &json!({"filters": {"get-issue": {"text": {"keep": ["("]}}}})))
        .await?;
    env.condition_is("toolsfilters", "small", "Accepted", "False", "InvalidFilter").await?;
    eventually("an Event", SOON, async || {
        Ok(env.cluster.kubectl(&events, None).await?.contains("InvalidFilter").then_some(()))
    })
    .await?;
    env.issue_has("issues", &["number"]).await?;
    env.cluster.apply(&TestEnv::filters("small", &json!({"filters": {"get-issue": {"retain": ["/number"]}}}))).await?;
    env.ready("toolsfilters", "small").await?;
    let log = env.operator.process.log();
    ensure!(!log.to_lowercase().contains("forbidden"), "something was refused:\n{log}");
    a_selector_reads_namespaces_one_by_one(&env).await
}

/// A group that chooses namespaces by labels: they are read one by one, and where they may not be, that is said.
async fn a_selector_reads_namespaces_one_by_one(env: &TestEnv) -> Result<()> {
    let cluster = &env.cluster;
    let selector =
        json!({"spec": {"allowedNamespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}}});
    let patch = ["-n", "tamis-public", "patch", "gatewaygroup", "public", "--type=merge", "-p"];
    cluster.kubectl(&[&patch[..], &[&selector.to_string()]].concat(), None).await?;
    let said = env.condition_is("exposition", "issues", "ResolvedRefs", "False", "RefNotPermitted").await?;
    ensure!(said.contains("add the labels of the group's selector"), "{said}");
    env.issue_stopped("issues", "RefNotPermitted").await?;
    cluster.kubectl(&["label", "namespace", "team-a", "team=a"], None).await?;
    env.issue_has("issues", &["number"]).await?;

    // Without `get` of the namespace nothing is known of it: the exposition stops, and both say why.
    let rules = cluster.kubectl(&["-n", "team-a", "get", "role", "tamis-watch", "-o", "json"], None).await?;
    let mut less: Value = serde_json::from_str(&rules)?;
    let list = less["rules"].as_array_mut().context("rules")?;
    list.retain(|rule| rule["resources"] != json!(["namespaces"]));
    cluster.kubectl(&["replace", "--filename=-"], Some(&less.to_string())).await?;
    env.issue_stopped("issues", "not allowed to read").await?;
    let said = env.condition_is("exposition", "issues", "ResolvedRefs", "False", "RefNotPermitted").await?;
    ensure!(said.contains("docs/rbac.md"), "{said}");
    let warned = ["-n", "tamis-public", "get", "gatewaygroup", "public", "-o", "jsonpath={.status.conditions}"];
    eventually("the group's warning", SOON, async || {
        Ok(cluster
            .kubectl(&warned, None)
            .await?
            .contains("spec.allowedNamespaces.from: Selector needs the labels of namespaces")
            .then_some(()))
    })
    .await?;
    cluster.kubectl(&["replace", "--filename=-"], Some(&without_version(&rules)?)).await?;
    env.issue_has("issues", &["number"]).await
}

/// An object without `resourceVersion`, to be written over whatever is there.
fn without_version(text: &str) -> Result<String> {
    let mut object: Value = serde_json::from_str(text)?;
    object["metadata"].as_object_mut().context("metadata")?.remove("resourceVersion");
    Ok(object.to_string())
}

/// `/readyz` reports the missing permission.
#[tokio::test(flavor = "multi_thread")]
async fn readyz_names_a_missing_right() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.install_crds().await?;
    let access = cluster.service_account("tamis-system", "tamis-operator").await?;
    cluster.namespace("team-a").await?;
    let arguments = ["--namespace", "team-a", "--lease-namespace", "tamis-system"];
    let operator = Operator::spawn(&cluster, &access, &arguments)?;
    let url = format!("{}/readyz", operator.admin.url);
    eventually("the right that is missing", SOON, async || {
        let Ok(answer) = reqwest::get(&url).await else { return Ok(None) };
        let said = answer.text().await?;
        Ok(said.contains("waiting for expositions of team-a: the operator may not list and watch them").then_some(()))
    })
    .await
}

/// One operator for each of two teams, with one account and Leases of their own: each writes what is its own and nothing
/// else.
#[tokio::test(flavor = "multi_thread")]
async fn two_operators_for_two_teams() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.install_crds().await?;
    cluster.apply(&std::fs::read_to_string(tamis_tests::root().join("deploy/rbac.yaml"))?).await?;
    let access = cluster.service_account("tamis-system", "tamis-operator").await?;
    let mut operators = Vec::new();
    for team in ["team-a", "team-b"] {
        cluster.namespace(team).await?;
        let bind = ["-n", team, "create", "rolebinding", "tamis-group", "--clusterrole=tamis-group", ACCOUNT];
        cluster.kubectl(&bind, None).await?;
        let (lease, image) = (format!("tamis-{team}"), format!("tamis:{team}"));
        lease_role(&cluster, &lease).await?;
        let arguments = [
            "--namespace",
            team,
            "--lease-namespace",
            "tamis-system",
            "--lease-name",
            &lease,
            "--gateway-image",
            &image,
        ];
        operators.push(Operator::start(&cluster, &access, &arguments).await?);
    }
    for team in ["team-a", "team-b"] {
        let group = json!({"apiVersion": "tamis.dev/v1alpha1", "kind": "GatewayGroup",
                           "metadata": {"name": "default", "namespace": team}, "spec": {"replicas": 0}});
        cluster.apply(&group.to_string()).await?;
    }
    for team in ["team-a", "team-b"] {
        let image = "jsonpath={.spec.template.spec.containers[0].image}";
        eventually("the group's Deployment, by its own operator", SOON, async || {
            let found = cluster.kubectl(&["-n", team, "get", "deployment", "tamis-default", "-o", image], None).await;
            Ok(found.is_ok_and(|found| found == format!("tamis:{team}")).then_some(()))
        })
        .await?;
    }
    for operator in &operators {
        eventually("each leads", SOON, async || {
            Ok(((operator.admin.metric("tamis_leader", &[]).await? - 1.0).abs() < f64::EPSILON).then_some(()))
        })
        .await?;
    }
    // Nothing is written any more: neither operator repairs the other's objects.
    let written = async || -> Result<String> {
        let all = ["get", "deployments,services,roles,gatewaygroups", "-A", "-l", "!kubernetes.io/bootstrapping", "-o"];
        let version =
            "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.metadata.resourceVersion}\n{end}";
        cluster.kubectl(&[&all[..], &[version]].concat(), None).await
    };
    quiet(written).await
}

/// Two operators that look after the same namespaces, and tell their groups apart by `controllerName`.
#[tokio::test(flavor = "multi_thread")]
async fn two_operators_share_namespaces_by_controller_name() -> Result<()> {
    let env = TestEnv::start().await?;
    let cluster = &env.cluster;
    lease_role(cluster, "tamis-other").await?;
    let arguments = [
        "--controller-name",
        "example.com/other",
        "--lease-namespace",
        "tamis-system",
        "--lease-name",
        "tamis-other",
        "--gateway-image",
        "tamis:other",
    ];
    let other = Operator::start(cluster, &env.operator_access, &arguments).await?;
    cluster.namespace("other").await?;
    let bind = ["-n", "other", "create", "rolebinding", "tamis-group", "--clusterrole=tamis-group", ACCOUNT];
    cluster.kubectl(&bind, None).await?;
    let group = json!({"apiVersion": "tamis.dev/v1alpha1", "kind": "GatewayGroup",
        "metadata": {"name": "other", "namespace": "other"},
        "spec": {"replicas": 0, "controllerName": "example.com/other", "allowedNamespaces": {"from": "All"}}});
    cluster.apply(&group.to_string()).await?;
    // One service, its filter set and an unused set; an exposition for each operator.
    cluster.apply(&env.manifest()).await?;
    cluster.apply(&TestEnv::filters("small", &json!({"filters": {"get-issue": {"retain": ["/number"]}}}))).await?;
    cluster.apply(&TestEnv::filters("unused", &json!({"name": "unused", "filters": {}}))).await?;
    cluster.apply(&TestEnv::exposition("ours", &json!({}))).await?;
    let theirs = json!({"gatewayGroup": {"name": "other", "namespace": "other"}});
    cluster.apply(&TestEnv::exposition("theirs", &theirs)).await?;
    env.ready("exposition", "ours").await?;
    eventually("the other's verdict", SOON, async || {
        let found = env.condition("exposition", "theirs", "Programmed").await?;
        Ok(found.filter(|(_, reason, _)| reason == "GatewayUnavailable").map(drop))
    })
    .await?;
    env.issue_has("ours", &["number"]).await?;
    eventually("the other leads", SOON, async || {
        Ok(((other.admin.metric("tamis_leader", &[]).await? - 1.0).abs() < f64::EPSILON).then_some(()))
    })
    .await?;
    let written = async || -> Result<String> {
        let all = "expositions,toolsfilters,servicemanifests,gatewaygroups,gatewayconfigs,deployments";
        let version = "jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}\n{end}";
        cluster.kubectl(&["get", all, "-A", "-o", version], None).await
    };
    quiet(written).await?;
    // The older exposition belongs to the first operator, so the status of shared objects reports its gateways.
    env.condition_is("toolsfilters", "small", "Ready", "True", "Ready").await?;
    env.condition_is("servicemanifest", "tracker", "Ready", "True", "Ready").await.map(drop)
}

/// Waits until nothing is written for five seconds.
async fn quiet(written: impl AsyncFn() -> Result<String>) -> Result<()> {
    eventually("nothing is written any more", SOON, async || {
        let before = written().await?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let after = written().await?;
        if before != after {
            eprintln!("written meanwhile:\n{before}{after}");
        }
        Ok((before == after).then_some(()))
    })
    .await
}

/// Lets the operator hold a Lease of another name.
async fn lease_role(cluster: &Cluster, name: &str) -> Result<()> {
    let resource_name = format!("--resource-name={name}");
    let verbs = "--verb=get,list,watch,update";
    let role =
        ["-n", "tamis-system", "create", "role", name, verbs, "--resource=leases.coordination.k8s.io", &resource_name];
    cluster.kubectl(&role, None).await?;
    let of = format!("--role={name}");
    cluster.kubectl(&["-n", "tamis-system", "create", "rolebinding", name, &of, ACCOUNT], None).await.map(drop)
}
