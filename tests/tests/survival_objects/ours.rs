//! What is ours and others lay hands on, what is others' and in our way, and what waiting for `Ready` means.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::{Stage, eventually};

use crate::calls::Calls;
use crate::steps::{SOON, all_of_group, apply, comes_back, config_of, narrow, of_group};

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

async fn served(stage: &Stage) -> Result<()> {
    stage.cluster.apply(&stage.manifest()).await?;
    stage.cluster.apply(&narrow("partner", Some("partner"))).await?;
    stage.cluster.apply(&Stage::exposition("one", &json!({"filters": ["partner"]}))).await?;
    stage.cluster.apply(&Stage::exposition("two", &json!({"filters": ["partner"]}))).await?;
    stage.ready("exposition", "one").await?;
    stage.ready("exposition", "two").await
}

/// What the operator made comes back; what it did not make stays as it is, and a condition says so; a document that is newer
/// than the gateway leaves the one before in place.
#[tokio::test(flavor = "multi_thread")]
async fn ours_come_back_and_others_stay() -> Result<()> {
    let stage = Stage::set().await?;
    served(&stage).await?;
    let (one, two) = (Calls::of(&stage, "one")?, Calls::of(&stage, "two")?);

    // Parts of the service, and what the group is made of: nobody notices.
    let configs = all_of_group(&stage, "gatewayconfigs").await?;
    let used = |digest: &Value| configs.iter().any(|config| config["spec"]["service"] == *digest);
    let parts = configs.iter().filter(|config| config["spec"]["kind"] == "Service" && used(&config["spec"]["digest"]));
    let mut lost: Vec<(&str, Value)> = parts.map(|config| ("gatewayconfig", config.clone())).collect();
    ensure!(!lost.is_empty(), "there is no service document");
    for kind in ["deployment", "role", "rolebinding", "service", "networkpolicy"] {
        lost.push((kind, of_group(&stage, kind, "tamis-public").await?.context(kind)?));
    }
    for (kind, object) in &lost {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        stage.cluster.kubectl(&["delete", kind, name, "-n", "tamis-public", "--wait=false"], None).await?;
        let back = comes_back(&stage, kind, name, &uid(object)).await?;
        if *kind != "service" {
            ensure!(back["spec"] == object["spec"] && back["rules"] == object["rules"], "{kind} is another: {back}");
        }
    }
    another_token(&stage).await?;
    let answers = one.end().await?;
    let failed = answers.iter().find(|answer| !answer.is_ok());
    ensure!(failed.is_none(), "a call failed: {failed:?}");

    // The document of an exposition: its calls are refused for a moment at most, those of others not.
    let name = config_of("one");
    let config = of_group(&stage, "gatewayconfig", &name).await?.context("the document")?;
    let one = Calls::of(&stage, "one")?;
    stage.cluster.kubectl(&["delete", "gatewayconfig", &name, "-n", "tamis-public"], None).await?;
    comes_back(&stage, "gatewayconfig", &name, &uid(&config)).await?;
    let back = eventually("it is served", SOON, async || Ok(one.next().await?.is_ok().then_some(())));
    back.await?;

    // A document of a format that this gateway does not know, written while the operator does not look.
    stage.operator.process.pause()?;
    let newer = json!([{"op": "replace", "path": "/spec/formatVersion", "value": 2},
        {"op": "replace", "path": "/spec/digest", "value": "0".repeat(64)}]);
    let patch = ["patch", "gatewayconfig", &name, "-n", "tamis-public", "--type=json", "-p", &newer.to_string()];
    stage.cluster.kubectl(&patch, None).await?;
    let token = token(&stage).await?;
    let said = eventually("the gateway refuses it", SOON, async || {
        let config = stage.gateway.admin.get_with("/config", &token).await?;
        let all = config["expositions"].as_array().cloned().unwrap_or_default();
        let one = all.into_iter().find(|exposition| exposition["name"] == "one");
        Ok(one.filter(|one| one["newest"].to_string().contains("GatewayTooOld")))
    });
    let said = said.await?;
    ensure!(said["state"] == "Serving", "{said}");
    ensure!(one.next().await?.is_ok() && two.next().await?.is_ok(), "it does not serve the one before");
    stage.operator.process.resume()?;
    let mended = eventually("it is mended", SOON, async || {
        let config = of_group(&stage, "gatewayconfig", &name).await?;
        Ok(config.filter(|config| config["spec"]["formatVersion"] == json!(1)).map(drop))
    });
    mended.await?;
    stage.ready("exposition", "one").await?;
    one.end().await?;
    let answers = two.end().await?;
    let failed = answers.iter().find(|answer| !answer.is_ok());
    ensure!(failed.is_none(), "a call of another exposition failed: {failed:?}");
    strangers(&stage).await
}

/// The token of the group is made anew, and the operator and the gateway go over to it: what is edited then becomes `Ready`.
async fn another_token(stage: &Stage) -> Result<()> {
    let name = "tamis-public-token";
    let (before, secret) = (token(stage).await?, of_group(stage, "secret", name).await?.context("the token")?);
    stage.gateway.admin.get_with("/config", &before).await?;
    stage.cluster.kubectl(&["delete", "secret", name, "-n", "tamis-public"], None).await?;
    comes_back(stage, "secret", name, &uid(&secret)).await?;
    let after = token(stage).await?;
    ensure!(after.len() == before.len() && after != before, "it is no other token");
    let known = eventually("the gateway wants it", SOON, async || {
        stage.gateway.admin.get_with("/config", &after).await.map(Some)
    });
    known.await?;
    ensure!(stage.gateway.admin.get_with("/config", &before).await.is_err(), "the one before still opens");
    let wider =
        json!({"name": "partner", "filters": {"get-issue": {"select": {"number": "number", "state": "state"}}}});
    stage.cluster.apply(&Stage::filters("partner", &wider)).await?;
    stage.ready("toolsfilters", "partner").await?;
    stage.cluster.apply(&narrow("partner", Some("partner"))).await?;
    stage.ready("toolsfilters", "partner").await
}

async fn token(stage: &Stage) -> Result<String> {
    let args =
        ["get", "secret", "tamis-public-token", "-n", "tamis-public", "-o", "go-template={{.data.token|base64decode}}"];
    stage.cluster.kubectl(&args, None).await
}

/// Objects that are there before ours and have our names.
async fn strangers(stage: &Stage) -> Result<()> {
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
    stage.cluster.apply(theirs).await?;
    let name = config_of("three");
    let config = json!({
        "apiVersion": "tamis.dev/v1alpha1",
        "kind": "GatewayConfig",
        "metadata": {"name": name, "namespace": "tamis-public"},
        "spec": {"gatewayGroup": "public", "kind": "Exposition", "digest": "0".repeat(64), "formatVersion": 1,
            "part": 0, "parts": 1, "data": "bm9uc2Vuc2U=", "exposition": {"namespace": "team-a", "name": "three"}},
    });
    apply(stage, &config).await?;
    let deployment =
        ["get", "deployment", "tamis-edge", "-n", "edge", "-o", "jsonpath={.metadata.uid} {.metadata.resourceVersion}"];
    let before = stage.cluster.kubectl(&deployment, None).await?;
    let there = of_group(stage, "gatewayconfig", &name).await?.context("the stranger's document")?;
    let group = json!({
        "apiVersion": "tamis.dev/v1alpha1",
        "kind": "GatewayGroup",
        "metadata": {"name": "edge", "namespace": "edge"},
        "spec": {"allowedNamespaces": {"from": "Same"}},
    });
    apply(stage, &group).await?;
    stage.cluster.apply(&Stage::exposition("three", &json!({"filters": ["partner"]}))).await?;
    let accepted = eventually("the group's condition", SOON, async || {
        let text = stage.cluster.kubectl(&["get", "gwg", "edge", "-n", "edge", "-o", "json"], None).await?;
        let group: Value = serde_json::from_str(&text)?;
        let conditions = group["status"]["conditions"].to_string();
        Ok((conditions.contains("Conflict") && conditions.contains("tamis-edge")).then_some(()))
    });
    accepted.await?;
    let message = stage.condition_is("exposition", "three", "Accepted", "False", "Conflict").await?;
    ensure!(message.contains(&name), "{message}");
    // The group takes only what is of its own namespace.
    let foreign = json!({"filters": ["partner"], "gatewayGroup": {"name": "edge", "namespace": "edge"}});
    stage.cluster.apply(&Stage::exposition("four", &foreign)).await?;
    stage.condition_is("exposition", "four", "ResolvedRefs", "False", "RefNotPermitted").await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    ensure!(stage.cluster.kubectl(&deployment, None).await? == before, "the stranger's Deployment was touched");
    let now = of_group(stage, "gatewayconfig", &name).await?.context("the stranger's document is gone")?;
    ensure!(now["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"], "it was touched");
    // Out of the way.
    stage.cluster.kubectl(&["delete", "gatewayconfig", &name, "-n", "tamis-public"], None).await?;
    stage.ready("exposition", "three").await?;
    stage.issue_has("three", &["number", "title"]).await
}

/// `kubectl wait` right after an edit returns for the edit; a tool that is renamed is there under one name or the other; of two
/// services the older holds; and where nothing changes, nothing is written, by a new operator either.
#[tokio::test(flavor = "multi_thread")]
async fn ready_means_this_edit_and_quiet_means_no_write() -> Result<()> {
    let mut stage = Stage::set().await?;
    served(&stage).await?;
    for round in 0..8 {
        let member = if round % 2 == 0 { "title" } else { "state" };
        let filters = json!({"name": "partner", "filters": {"get-issue": {"select": {member: member}}}});
        stage.cluster.apply(&Stage::filters("partner", &filters)).await?;
        stage.ready("toolsfilters", "partner").await?;
        let issue = stage.issue("one").await?;
        let members = issue.as_ref().ok().and_then(Value::as_object).map(|issue| issue.keys().cloned().collect());
        ensure!(members == Some(vec![member.to_owned()]), "round {round}: Ready, and still {issue:?}");
    }

    // Renamed, there and back, while both names are called.
    let (old, new) = (Calls::of(&stage, "one")?, Calls::to(&stage, "one", "fetch-issue", None)?);
    for name in ["fetch-issue", "get-issue", "fetch-issue"] {
        let manifest = stage.manifest().replace("get-issue", name);
        let filters = json!({"name": "partner", "filters": {name: {"select": {"title": "title"}}}});
        // One after the other, in both orders.
        if name == "get-issue" {
            stage.cluster.apply(&manifest).await?;
            stage.cluster.apply(&Stage::filters("partner", &filters)).await?;
        } else {
            stage.cluster.apply(&Stage::filters("partner", &filters)).await?;
            stage.cluster.apply(&manifest).await?;
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
    let second = stage.manifest().replace("metadata: {name: tracker,", "metadata: {name: another,");
    stage.cluster.apply(&second).await?;
    stage.condition_is("servicemanifest", "another", "Accepted", "False", "Conflict").await?;
    stage.ready("exposition", "two").await?;
    stage.cluster.kubectl(&["delete", "servicemanifest", "another", "-n", "team-a"], None).await?;

    // The group asks for more than the expositions give.
    let group = |floors: Value| {
        let spec =
            json!({"allowedNamespaces": {"from": "All"}, "egress": {"allow": ["127.0.0.0/8"]}, "require": floors});
        json!({"apiVersion": "tamis.dev/v1alpha1", "kind": "GatewayGroup", "spec": spec,
            "metadata": {"name": "public", "namespace": "tamis-public"}})
    };
    stage.cluster.apply(&group(json!({"enforced": true})).to_string()).await?;
    stage.condition_is("exposition", "one", "Accepted", "False", "BelowGroupFloor").await?;
    stage.issue_stopped("one", "BelowGroupFloor").await?;
    stage.cluster.apply(&group(json!({"enforced": false})).to_string()).await?;
    stage.ready("exposition", "one").await?;
    stage.ready("exposition", "two").await?;

    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = versions(&stage).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after = versions(&stage).await?;
    ensure!(after == before, "written although nothing changed: {:?}", differing(&before, &after));
    stage.operator.restart()?;
    stage.operator.ready().await?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let after = versions(&stage).await?;
    ensure!(after == before, "written by an operator that has just started: {:?}", differing(&before, &after));
    Ok(())
}

/// The versions of everything that the operator writes or judges.
async fn versions(stage: &Stage) -> Result<BTreeMap<String, String>> {
    let kinds = "servicemanifests,toolsfilters,expositions,gatewaygroups,gatewayconfigs,secrets,deployments,roles,rolebindings,\
        services,serviceaccounts,networkpolicies";
    let mut versions = BTreeMap::new();
    for namespace in ["team-a", "tamis-public"] {
        let text = stage.cluster.kubectl(&["get", kinds, "-n", namespace, "-o", "json"], None).await?;
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
