//! Objects of the operator that others delete or edit, foreign objects with the operator's names, and the meaning of
//! `Ready`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::{TestEnv, eventually};

use crate::calls::Calls;
use crate::steps::{SOON, all_of_group, apply, config_of, narrow, of_group, recreated};

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

async fn served(env: &TestEnv) -> Result<()> {
    env.cluster.apply(&env.manifest()).await?;
    env.cluster.apply(&narrow("partner", Some("partner"))).await?;
    env.cluster.apply(&TestEnv::exposition("one", &json!({"filters": ["partner"]}))).await?;
    env.cluster.apply(&TestEnv::exposition("two", &json!({"filters": ["partner"]}))).await?;
    env.ready("exposition", "one").await?;
    env.ready("exposition", "two").await
}

/// What the operator made comes back; what it did not make stays as it is, and a condition says so; a document that is newer
/// than the gateway leaves the one before in place.
#[tokio::test(flavor = "multi_thread")]
async fn owned_objects_are_recreated_and_foreign_ones_kept() -> Result<()> {
    let env = TestEnv::start().await?;
    served(&env).await?;
    let (one, two) = (Calls::of(&env, "one")?, Calls::of(&env, "two")?);

    // Parts of the service, and the group's objects: callers notice nothing.
    let configs = all_of_group(&env, "gatewayconfigs").await?;
    let used = |digest: &Value| configs.iter().any(|config| config["spec"]["service"] == *digest);
    let parts = configs.iter().filter(|config| config["spec"]["kind"] == "Service" && used(&config["spec"]["digest"]));
    let mut lost: Vec<(&str, Value)> = parts.map(|config| ("gatewayconfig", config.clone())).collect();
    ensure!(!lost.is_empty(), "there is no service document");
    for kind in ["deployment", "role", "rolebinding", "service", "networkpolicy"] {
        lost.push((kind, of_group(&env, kind, "tamis-public").await?.context(kind)?));
    }
    for (kind, object) in &lost {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        env.cluster.kubectl(&["delete", kind, name, "-n", "tamis-public", "--wait=false"], None).await?;
        let back = recreated(&env, kind, name, &uid(object)).await?;
        if *kind != "service" {
            ensure!(back["spec"] == object["spec"] && back["rules"] == object["rules"], "{kind} is another: {back}");
        }
    }
    a_deleted_token_is_replaced(&env).await?;
    let answers = one.end().await?;
    let failed = answers.iter().find(|answer| !answer.is_ok());
    ensure!(failed.is_none(), "a call failed: {failed:?}");

    // The document of an exposition: its calls are refused for a moment at most, those of others not.
    let name = config_of("one");
    let config = of_group(&env, "gatewayconfig", &name).await?.context("the document")?;
    let one = Calls::of(&env, "one")?;
    env.cluster.kubectl(&["delete", "gatewayconfig", &name, "-n", "tamis-public"], None).await?;
    recreated(&env, "gatewayconfig", &name, &uid(&config)).await?;
    let back = eventually("it is served", SOON, async || Ok(one.next().await?.is_ok().then_some(())));
    back.await?;

    // A document of a format that this gateway does not know, written while the operator does not look.
    env.operator.process.pause()?;
    let newer = json!([{"op": "replace", "path": "/spec/formatVersion", "value": tamis_config::FORMAT_VERSION + 1},
        {"op": "replace", "path": "/spec/digest", "value": "0".repeat(64)}]);
    let patch = ["patch", "gatewayconfig", &name, "-n", "tamis-public", "--type=json", "-p", &newer.to_string()];
    env.cluster.kubectl(&patch, None).await?;
    let token = token(&env).await?;
    let said = eventually("the gateway refuses it", SOON, async || {
        let config = env.gateway.admin.get_with("/config", &token).await?;
        let all = config["expositions"].as_array().cloned().unwrap_or_default();
        let one = all.into_iter().find(|exposition| exposition["name"] == "one");
        Ok(one.filter(|one| one["newest"].to_string().contains("GatewayTooOld")))
    });
    let said = said.await?;
    ensure!(said["state"] == "Serving", "{said}");
    ensure!(one.next().await?.is_ok() && two.next().await?.is_ok(), "it does not serve the one before");
    env.operator.process.resume()?;
    let repaired = eventually("it is repaired", SOON, async || {
        let config = of_group(&env, "gatewayconfig", &name).await?;
        Ok(config.filter(|config| config["spec"]["formatVersion"] == json!(1)).map(drop))
    });
    repaired.await?;
    env.ready("exposition", "one").await?;
    one.end().await?;
    let answers = two.end().await?;
    let failed = answers.iter().find(|answer| !answer.is_ok());
    ensure!(failed.is_none(), "a call of another exposition failed: {failed:?}");
    foreign_objects_stay(&env).await
}

/// The token of the group is recreated, and the operator and the gateway switch to it: a later edit becomes `Ready`.
async fn a_deleted_token_is_replaced(env: &TestEnv) -> Result<()> {
    let name = "tamis-public-token";
    let (before, secret) = (token(env).await?, of_group(env, "secret", name).await?.context("the token")?);
    env.gateway.admin.get_with("/config", &before).await?;
    env.cluster.kubectl(&["delete", "secret", name, "-n", "tamis-public"], None).await?;
    recreated(env, "secret", name, &uid(&secret)).await?;
    let after = token(env).await?;
    ensure!(after.len() == before.len() && after != before, "it is no other token");
    let known = eventually("the gateway requires it", SOON, async || {
        env.gateway.admin.get_with("/config", &after).await.map(Some)
    });
    known.await?;
    ensure!(env.gateway.admin.get_with("/config", &before).await.is_err(), "the one before still opens");
    let wider =
        json!({"name": "partner", "filters": {"get-issue": {"select": {"number": "number", "state": "state"}}}});
    env.cluster.apply(&TestEnv::filters("partner", &wider)).await?;
    env.ready("toolsfilters", "partner").await?;
    env.cluster.apply(&narrow("partner", Some("partner"))).await?;
    env.ready("toolsfilters", "partner").await
}

async fn token(env: &TestEnv) -> Result<String> {
    let args =
        ["get", "secret", "tamis-public-token", "-n", "tamis-public", "-o", "go-template={{.data.token|base64decode}}"];
    env.cluster.kubectl(&args, None).await
}

/// Foreign objects that have the operator's names and exist before its own.
async fn foreign_objects_stay(env: &TestEnv) -> Result<()> {
    let theirs = r#"
apiVersion: v1
kind: Namespace
metadata: {name: edge}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tamis-group, namespace: edge}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tamis-group}
subjects: [{kind: ServiceAccount, name: tamis-operator, namespace: tamis-system}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: tamis-edge, namespace: edge}
spec:
  selector: {matchLabels: {app: theirs}}
  template:
    metadata: {labels: {app: theirs}}
    spec: {containers: [{name: theirs, image: theirs}]}
"#;
    env.cluster.apply(theirs).await?;
    let name = config_of("three");
    let config = json!({
        "apiVersion": "tamis.dev/v1alpha1",
        "kind": "GatewayConfig",
        "metadata": {"name": name, "namespace": "tamis-public"},
        "spec": {"gatewayGroup": "public", "kind": "Exposition", "digest": "0".repeat(64), "formatVersion": 1,
            "part": 0, "parts": 1, "data": "bm9uc2Vuc2U=", "exposition": {"namespace": "team-a", "name": "three"}},
    });
    apply(env, &config).await?;
    let deployment =
        ["get", "deployment", "tamis-edge", "-n", "edge", "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}"];
    let before = env.cluster.kubectl(&deployment, None).await?;
    let there = of_group(env, "gatewayconfig", &name).await?.context("the stranger's document")?;
    let group = json!({
        "apiVersion": "tamis.dev/v1alpha1",
        "kind": "GatewayGroup",
        "metadata": {"name": "edge", "namespace": "edge"},
        "spec": {"allowedNamespaces": {"from": "Same"}},
    });
    apply(env, &group).await?;
    env.cluster.apply(&TestEnv::exposition("three", &json!({"filters": ["partner"]}))).await?;
    let accepted = eventually("the group's condition", SOON, async || {
        let text = env.cluster.kubectl(&["get", "gwg", "edge", "-n", "edge", "-o", "json"], None).await?;
        let group: Value = serde_json::from_str(&text)?;
        let conditions = group["status"]["conditions"].to_string();
        Ok((conditions.contains("Conflict") && conditions.contains("tamis-edge")).then_some(()))
    });
    accepted.await?;
    let message = env.condition_is("exposition", "three", "Accepted", "False", "Conflict").await?;
    ensure!(message.contains(&name), "{message}");
    // The group accepts only expositions of its own namespace.
    let foreign = json!({"filters": ["partner"], "gatewayGroup": {"name": "edge", "namespace": "edge"}});
    env.cluster.apply(&TestEnv::exposition("four", &foreign)).await?;
    env.condition_is("exposition", "four", "ResolvedRefs", "False", "RefNotPermitted").await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    ensure!(env.cluster.kubectl(&deployment, None).await? == before, "the stranger's Deployment was touched");
    let now = of_group(env, "gatewayconfig", &name).await?.context("the stranger's document is gone")?;
    ensure!(now["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"], "it was touched");
    // Out of the way.
    env.cluster.kubectl(&["delete", "gatewayconfig", &name, "-n", "tamis-public"], None).await?;
    env.ready("exposition", "three").await?;
    env.issue_has("three", &["number", "title"]).await
}

/// `kubectl wait` right after an edit returns for the edit; a tool that is renamed is there under one name or the other; of two
/// services the older holds; and where nothing changes, nothing is written, by a new operator either.
#[tokio::test(flavor = "multi_thread")]
async fn ready_means_the_last_edit_and_idle_means_no_write() -> Result<()> {
    let mut env = TestEnv::start().await?;
    served(&env).await?;
    for round in 0..8 {
        let member = if round % 2 == 0 { "title" } else { "state" };
        let filters = json!({"name": "partner", "filters": {"get-issue": {"select": {member: member}}}});
        env.cluster.apply(&TestEnv::filters("partner", &filters)).await?;
        env.ready("toolsfilters", "partner").await?;
        let issue = env.issue("one").await?;
        let members = issue.as_ref().ok().and_then(Value::as_object).map(|issue| issue.keys().cloned().collect());
        ensure!(members == Some(vec![member.to_owned()]), "round {round}: Ready, and still {issue:?}");
    }

    // Renamed, there and back, while both names are called.
    let (old, new) = (Calls::of(&env, "one")?, Calls::to(&env, "one", "fetch-issue", None)?);
    for name in ["fetch-issue", "get-issue", "fetch-issue"] {
        let manifest = env.manifest().replace("get-issue", name);
        let filters = json!({"name": "partner", "filters": {name: {"select": {"title": "title"}}}});
        // One after the other, in both orders.
        if name == "get-issue" {
            env.cluster.apply(&manifest).await?;
            env.cluster.apply(&TestEnv::filters("partner", &filters)).await?;
        } else {
            env.cluster.apply(&TestEnv::filters("partner", &filters)).await?;
            env.cluster.apply(&manifest).await?;
        }
        let calls = if name == "get-issue" { &old } else { &new };
        let renamed = eventually("the new name", SOON, async || {
            let answer = calls.next().await?;
            Ok((answer.is_ok() && answer.text.contains("Issue 1")).then_some(()))
        });
        renamed.await?;
    }
    for answer in [old.end().await?, new.end().await?].concat() {
        let unknown = answer.status < 500 && answer.text.contains("\"error\"");
        ensure!(answer.is_ok() || unknown, "neither an answer nor an unknown tool: {answer:?}");
    }

    // Two services of one name and version.
    let second = env.manifest().replace("metadata: {name: tracker,", "metadata: {name: another,");
    env.cluster.apply(&second).await?;
    env.condition_is("servicemanifest", "another", "Accepted", "False", "Conflict").await?;
    env.ready("exposition", "two").await?;
    env.cluster.kubectl(&["delete", "servicemanifest", "another", "-n", "team-a"], None).await?;

    // The group asks for more than the expositions give.
    let group = |floors: Value| {
        let spec =
            json!({"allowedNamespaces": {"from": "All"}, "egress": {"allow": ["127.0.0.0/8"]}, "require": floors});
        json!({"apiVersion": "tamis.dev/v1alpha1", "kind": "GatewayGroup", "spec": spec,
            "metadata": {"name": "public", "namespace": "tamis-public"}})
    };
    env.cluster.apply(&group(json!({"enforced": true})).to_string()).await?;
    env.condition_is("exposition", "one", "Accepted", "False", "BelowGroupFloor").await?;
    env.issue_stopped("one", "BelowGroupFloor").await?;
    env.cluster.apply(&group(json!({"enforced": false})).to_string()).await?;
    env.ready("exposition", "one").await?;
    env.ready("exposition", "two").await?;

    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = versions(&env).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after = versions(&env).await?;
    ensure!(after == before, "written although nothing changed: {:?}", differing(&before, &after));
    env.operator.restart()?;
    env.operator.ready().await?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let after = versions(&env).await?;
    ensure!(after == before, "written by an operator that has just started: {:?}", differing(&before, &after));
    Ok(())
}

/// The versions of everything that the operator writes or judges.
async fn versions(env: &TestEnv) -> Result<BTreeMap<String, String>> {
    let kinds = "servicemanifests,toolsfilters,expositions,gatewaygroups,gatewayconfigs,secrets,deployments,roles,rolebindings,\
        services,serviceaccounts,networkpolicies";
    let mut versions = BTreeMap::new();
    for namespace in ["team-a", "tamis-public"] {
        let text = env.cluster.kubectl(&["get", kinds, "-n", namespace, "-o", "json"], None).await?;
        let list: Value = serde_json::from_str(&text)?;
        for object in list["items"].as_array().into_iter().flatten() {
            let name = format!("{} {namespace}/{}", object["kind"], object["metadata"]["name"]);
            versions.insert(name, object["metadata"]["resourceVersion"].to_string());
        }
    }
    Ok(versions)
}

fn differing<'v>(before: &'v BTreeMap<String, String>, after: &'v BTreeMap<String, String>) -> Vec<&'v String> {
    let keys = before.keys().chain(after.keys());
    keys.filter(|key| before.get(*key) != after.get(*key)).collect()
}
