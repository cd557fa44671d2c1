//! What the tests do again and again.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use tamis_tests::cluster::{TestEnv, eventually};

/// Long enough for a slow machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A set that lets two members pass; the default set unless it has a name.
pub(crate) fn narrow(object: &str, set: Option<&str>) -> String {
    let mut spec = json!({"filters": {"get-issue": {"select": {"number": "number", "title": "title"}}}});
    if let Some(set) = set {
        spec["name"] = json!(set);
    }
    TestEnv::filters(object, &spec)
}

/// Deletes an object of `team-a`, and does not wait for anything that it led to.
pub(crate) async fn delete(env: &TestEnv, kind: &str, name: &str) -> Result<()> {
    env.cluster.kubectl(&["delete", kind, name, "-n", "team-a", "--wait=false"], None).await.map(drop)
}

/// An object of the group's namespace, or none.
pub(crate) async fn of_group(env: &TestEnv, kind: &str, name: &str) -> Result<Option<Value>> {
    let args = ["get", kind, name, "-n", "tamis-public", "-o", "json", "--ignore-not-found"];
    let text = env.cluster.kubectl(&args, None).await?;
    if text.trim().is_empty() { Ok(None) } else { Ok(Some(serde_json::from_str(&text)?)) }
}

/// All objects of a kind in the group's namespace.
pub(crate) async fn all_of_group(env: &TestEnv, kind: &str) -> Result<Vec<Value>> {
    let text = env.cluster.kubectl(&["get", kind, "-n", "tamis-public", "-o", "json"], None).await?;
    let list: Value = serde_json::from_str(&text)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// Waits until an object is there again as another than before.
pub(crate) async fn recreated(env: &TestEnv, kind: &str, name: &str, uid: &str) -> Result<Value> {
    let found = eventually("it comes back", SOON, async || {
        let object = of_group(env, kind, name).await?;
        Ok(object.filter(|object| object["metadata"]["uid"].as_str() != Some(uid)))
    });
    found.await.with_context(|| format!("{kind}/{name}"))
}

/// The GatewayConfig of an exposition of `team-a`.
pub(crate) fn config_of(exposition: &str) -> String {
    let id = tamis_config::ExpositionId { namespace: "team-a".to_owned(), name: exposition.to_owned() };
    tamis_config::names::exposition_object(&id)
}

/// Applies an object, server-side, without starting a program.
pub(crate) async fn apply(env: &TestEnv, object: &Value) -> Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let gvk = GroupVersionKind::gvk(group, version, &kind);
    let resource = match kind.as_str() {
        "ToolsFilters" | "CustomTools" => ApiResource::from_gvk_with_plural(&gvk, &kind.to_lowercase()),
        _ => ApiResource::from_gvk(&gvk),
    };
    let client = env.cluster.client();
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let params = PatchParams::apply("tests").force();
    api.patch(&text(&object["metadata"]["name"]), &params, &Patch::Apply(object)).await?;
    Ok(())
}
