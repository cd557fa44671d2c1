//! Documents in ConfigMaps: the operator with its own rights, against a real API server.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tamis_tests::cluster::{TestEnv, eventually};

const MANIFEST: &str = "
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: tracker, namespace: team-a}
spec: {name: tracker, version: '1.0.0', openapi: {configMapRef: {name: tracker, key: KEY}}}
";

/// The document of the sample API, with one operation.
fn document(env: &TestEnv) -> String {
    let parameter =
        |name: &str, of: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": of}});
    let parameters = [parameter("owner", "string"), parameter("repo", "string"), parameter("number", "integer")];
    let operation = json!({"operationId": "get-issue", "parameters": parameters});
    let paths = json!({"/repos/{owner}/{repo}/issues/{number}": {"get": operation}});
    json!({"openapi": "3.1.0", "servers": [{"url": env.upstream.url}], "paths": paths}).to_string()
}

/// Creates or replaces the ConfigMap. `label`: whether it takes part.
async fn put(env: &TestEnv, data: serde_json::Value, label: bool) -> Result<()> {
    let labels = if label { json!({"tamis.dev/document": "true"}) } else { json!({}) };
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                         "metadata": {"name": "tracker", "namespace": "team-a", "labels": labels}});
    for (field, value) in data.as_object().into_iter().flatten() {
        map[field] = value.clone();
    }
    // Replaced, so that nothing of an earlier form stays.
    env.cluster.kubectl(&["-n", "team-a", "delete", "configmap", "tracker", "--ignore-not-found"], None).await?;
    env.cluster.kubectl(&["create", "--filename=-"], Some(&map.to_string())).await.map(drop)
}

/// Waits until the manifest has `ConfigMapNotFound` with such a message.
async fn not_found(env: &TestEnv, text: &str) -> Result<()> {
    eventually(&format!("ConfigMapNotFound: {text}"), Duration::from_secs(60), async || {
        let found = env.condition("servicemanifest", "tracker", "ResolvedRefs").await?;
        Ok(found.filter(|(_, reason, message)| reason == "ConfigMapNotFound" && message.contains(text)).map(drop))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_takes_part_by_its_label_and_where_the_role_is_bound() -> Result<()> {
    let env = TestEnv::start().await?;
    let api = document(&env);
    put(&env, json!({"data": {"api.json": api}}), true).await?;
    env.cluster.apply(&MANIFEST.replace("KEY", "api.json")).await?;
    env.cluster.apply(&TestEnv::exposition("open", &json!({"filters": []}))).await?;
    // Nobody has bound the role: the operator works, and says what is missing.
    not_found(&env, "the operator may not read ConfigMaps of namespace team-a; bind the role `tamis-documents`")
        .await?;
    env.issue_stopped("open", "ConfigMapNotFound").await?;
    let ready = reqwest::get(format!("{}/readyz", env.operator.admin.url)).await?;
    ensure!(ready.status().is_success(), "{ready:?}");

    let account = "--serviceaccount=tamis-system:tamis-operator";
    let bind = ["-n", "team-a", "create", "rolebinding", "documents", "--clusterrole=tamis-documents", account];
    env.cluster.kubectl(&bind, None).await?;
    env.ready("servicemanifest", "tracker").await?;
    env.ready("exposition", "open").await?;
    let issue = env.issue("open").await?.map_err(|refused| anyhow::anyhow!("{refused:?}"))?;
    ensure!(issue["number"] == 1, "{issue}");

    // Without the label it takes no part, and what is served stays.
    put(&env, json!({"data": {"api.json": api}}), false).await?;
    not_found(&env, "no ConfigMap `tracker` with the label tamis.dev/document exists in namespace team-a").await?;
    ensure!(env.issue("open").await?.is_ok());
    env.condition_is("exposition", "open", "Ready", "False", "ServingPrevious").await.map(drop)?;
    let label = ["-n", "team-a", "label", "configmap", "tracker", "tamis.dev/document="];
    env.cluster.kubectl(&label, None).await?;
    env.ready("servicemanifest", "tracker").await?;
    env.ready("exposition", "open").await?;

    // A mistake names the place in the document; the last good version stays.
    let wrong = api.replacen("\"in\":\"path\"", "\"in\":\"nowhere\"", 1);
    put(&env, json!({"data": {"api.json": wrong}}), true).await?;
    let message = env.condition_is("servicemanifest", "tracker", "Accepted", "False", "InvalidManifest").await?;
    ensure!(message.contains("ConfigMap team-a/tracker[api.json]:1:"), "{message}");
    ensure!(env.issue("open").await?.is_ok());

    // Compressed, under another key.
    let packed = k8s_openapi::ByteString(zstd::bulk::compress(api.as_bytes(), 3)?);
    put(&env, json!({"binaryData": {"api.json.zst": packed}}), true).await?;
    not_found(&env, "has no key `api.json`; did you mean `api.json.zst`?").await?;
    env.cluster.apply(&MANIFEST.replace("KEY", "api.json.zst")).await?;
    env.ready("servicemanifest", "tracker").await?;
    env.ready("exposition", "open").await
}
