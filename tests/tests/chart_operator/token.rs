//! What the policy `tamis-operator` lets through, and what it refuses.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::{Cluster, eventually};

use super::objects::{GROUP, attacks, deployment, usual};
use super::{SOON, SYSTEM};

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_token_allows_only_what_the_operator_does() -> Result<()> {
    let cluster = Cluster::start().await?;
    for namespace in [GROUP, "team-a"] {
        cluster.service_account(namespace, "default").await?;
    }
    cluster.helm(&["install", "tamis-crds", "charts/tamis-crds", "-n", SYSTEM, "--create-namespace"]).await?;
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"], None).await?;
    // Roles permit everything, so that only the policy rejects requests.
    let operator = cluster.service_account(SYSTEM, "tamis-operator").await?;
    let account = "--serviceaccount=tamis-system:tamis-operator";
    cluster.kubectl(&["create", "clusterrolebinding", "all", "--clusterrole=cluster-admin", account], None).await?;
    let tried = async |arguments: &[&str], object: Option<&Value>| {
        let outcome = cluster.kubectl_as(&operator, arguments, object.map(Value::to_string).as_deref()).await;
        outcome.err().map(|error| error.to_string())
    };
    let create: &[&str] = &["create", "--dry-run=server", "--filename=-"];
    let first = &attacks()[0].0;
    eventually("the policy is in force", SOON, async || Ok(tried(create, Some(first)).await)).await?;

    for (what, object) in usual() {
        let said = tried(create, Some(&object)).await;
        ensure!(said.is_none(), "{what}: {said:?}");
    }
    let mut wrong = Vec::new();
    for (object, expected) in attacks() {
        let said = tried(create, Some(&object)).await.unwrap_or_default();
        if !(said.contains("denied request: the operator") && said.contains(expected)) {
            wrong.push(format!("{object}\n  {said:?}\n  and not {expected}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));

    // Existing objects of others.
    for (kind, object) in [
        (
            "secret",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tamis-public-token", "namespace": GROUP}}),
        ),
        (
            "service",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tamis-public", "namespace": GROUP},
                           "spec": {"ports": [{"port": 80}]}}),
        ),
        ("deployment", unowned_deployment()),
    ] {
        cluster.kubectl(&["create", "--filename=-"], Some(&object.to_string())).await?;
        let name = object["metadata"]["name"].as_str().context("a name")?;
        for arguments in [
            &["-n", GROUP, "delete", kind, name][..],
            &[
                "-n",
                GROUP,
                "patch",
                kind,
                name,
                "--type=merge",
                "-p",
                r#"{"metadata": {"labels": {"tamis.dev/gateway-group": "public"}}}"#,
            ],
        ] {
            let said = tried(arguments, None).await.unwrap_or_default();
            ensure!(said.contains("denied request: the operator"), "{arguments:?}: {said:?}");
        }
    }
    // Other ways in.
    for arguments in [
        &["-n", GROUP, "create", "token", "default"][..],
        &["-n", GROUP, "scale", "deployment", "tamis-public", "--replicas=0"],
        &["delete", "namespace", "team-a"],
        &["delete", "validatingadmissionpolicy", "tamis-filters", "--dry-run=server"],
    ] {
        let said = tried(arguments, None).await;
        // Policies cannot protect themselves. Roles do, and the operator's give no such permission.
        if arguments[1] == "validatingadmissionpolicy" {
            ensure!(said.is_none(), "the API server asks no policy about policies: {said:?}");
        } else {
            ensure!(
                said.as_deref().unwrap_or_default().contains("denied request: the operator"),
                "{arguments:?}: {said:?}"
            );
        }
    }
    // The policy does not apply to other users.
    let attacks = attacks();
    let (coredns, _) =
        attacks.iter().find(|(object, _)| object["metadata"]["name"] == "coredns").context("an attack")?;
    cluster.kubectl(&["create", "--dry-run=server", "--filename=-"], Some(&coredns.to_string())).await.map(drop)
}

fn unowned_deployment() -> Value {
    let mut object = deployment(|_| {});
    object["metadata"].as_object_mut().expect("metadata").retain(|key, _| key == "name" || key == "namespace");
    object
}
