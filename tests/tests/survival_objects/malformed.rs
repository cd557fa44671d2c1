//! Objects that admission would reject, and definitions of an older version.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::{TestEnv, eventually};

use crate::calls::Calls;
use crate::steps::{SOON, apply, config_of, narrow, of_group};

/// Edits the definitions as they are in the API.
async fn redefine(env: &TestEnv, edit: impl Fn(&str, &mut Value)) -> Result<()> {
    let text = env.cluster.kubectl(&["get", "crd", "-o", "json"], None).await?;
    let list: Value = serde_json::from_str(&text)?;
    for mut definition in list["items"].as_array().cloned().unwrap_or_default() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
        let metadata = json!({"name": definition["metadata"]["name"]});
        definition["metadata"] = metadata;
        if let Some(members) = definition.as_object_mut() {
            members.remove("status");
        }
        edit(&kind, &mut definition["spec"]["versions"][0]);
        // By the manager that installs them, so that installing them again takes this back.
        env.cluster.apply(&definition.to_string()).await?;
    }
    Ok(())
}

/// Lets any `spec` pass.
fn loosen(kind: &str, version: &mut Value) {
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    if kind == "GatewayConfig" {
        // Gateways select by these.
        let text = json!({"type": "string"});
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"gatewayGroup": text, "digest": text},
        });
    } else {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = any;
        if let Some(members) = version.as_object_mut() {
            members.remove("selectableFields");
        }
    }
    if let Some(schema) = version["schema"]["openAPIV3Schema"].as_object_mut() {
        schema.remove("x-kubernetes-validations");
        schema.remove("required");
    }
}

fn object(kind: &str, namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "tamis.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    })
}

/// Writes it as soon as the definition that lets it pass is in force.
async fn force(env: &TestEnv, object: &Value) -> Result<()> {
    eventually("the loose definition", SOON, async || apply(env, object).await.map(Some)).await
}

/// An unreadable object of every kind exists, and then the served objects become unreadable one after the other:
/// existing configuration stays, new objects stop, and others are not affected.
#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_object_delays_no_other() -> Result<()> {
    let mut env = TestEnv::start().await?;
    env.cluster.apply(&env.manifest()).await?;
    env.cluster.apply(&narrow("narrow", None)).await?;
    env.cluster.apply(&narrow("partner", Some("partner"))).await?;
    for (name, spec) in [("plain", json!({})), ("named", json!({"filters": ["partner"]}))] {
        env.cluster.apply(&TestEnv::exposition(name, &spec)).await?;
        env.issue_has(name, &["number", "title"]).await?;
    }
    let other = env.manifest().replace("name: tracker", "name: other");
    env.cluster.apply(&other).await?;
    let service = json!({"name": "other", "version": "1.0.0"});
    let set = |member: &str| {
        let filters = json!({"get-issue": {"select": {member: member}}});
        TestEnv::filters("of-other", &json!({"name": "o", "service": service, "filters": filters}))
    };
    env.cluster.apply(&set("number")).await?;
    env.cluster.apply(&TestEnv::exposition("other", &json!({"service": service, "filters": ["o"]}))).await?;
    env.issue_has("other", &["number"]).await?;
    env.cluster.kubectl(&["create", "namespace", "team-b"], None).await?;
    let (plain, named) = (Calls::of(&env, "plain")?, Calls::of(&env, "named")?);

    redefine(&env, loosen).await?;
    let tracker = json!({"name": "tracker", "version": "1.0.0"});
    let bad = [
        object("ServiceManifest", "team-a", "bad", &json!({"name": "bad", "version": 1, "http": "nonsense"})),
        object("CustomTools", "team-a", "bad", &json!({"service": service, "customTools": 3})),
        object("ConfigurationPlan", "team-a", "bad", &json!({"headers": 3})),
        // Where a rule in CEL cannot be evaluated, the API server takes no status either: it is there, no more.
        object("ConfigurationPlan", "team-a", "worse", &json!({"endpoint": {"a": 1}})),
        // As above: a rule asks whether there is a `service`.
        object("Exposition", "team-a", "worse", &json!({"service": 7})),
        object("Exposition", "team-a", "bad", &json!({"service": service, "configurationPlan": 3})),
        object("ToolsFilters", "team-a", "bad", &json!({"name": "bad", "service": service, "filters": "nonsense"})),
        object("GatewayGroup", "team-b", "bad", &json!({"replicas": "many", "listener": []})),
        object("GatewayConfig", "tamis-public", "bad", &json!({"gatewayGroup": "public", "digest": "x", "kind": []})),
        // The default set of the served exposition.
        object("ToolsFilters", "team-a", "narrow", &json!({"service": tracker, "filters": "nonsense"})),
    ];
    for object in &bad {
        force(&env, object).await?;
    }
    env.cluster.install_crds().await?;
    for (kind, reason) in [
        ("servicemanifest", "InvalidManifest"),
        ("customtools", "InvalidManifest"),
        ("configurationplan", "InvalidManifest"),
        ("exposition", "InvalidManifest"),
        ("toolsfilters", "InvalidFilter"),
    ] {
        env.condition_is(kind, "bad", "Accepted", "False", reason).await?;
    }
    let group = eventually("the group's condition", SOON, async || {
        let path = r#"jsonpath={.status.conditions[?(@.type=="Accepted")].reason}"#;
        let said = env.cluster.kubectl(&["get", "gwg", "bad", "-n", "team-b", "-o", path], None).await?;
        Ok((said == "InvalidManifest").then_some(()))
    });
    group.await?;
    // Expositions that use the set keep the last filters; a new one that needs it is not published.
    env.condition_is("exposition", "plain", "Ready", "False", "ServingPrevious").await?;
    env.issue_has("plain", &["number", "title"]).await?;
    env.cluster.apply(&TestEnv::exposition("late", &json!({}))).await?;
    env.issue_stopped("late", "InvalidFilter").await?;
    // An operator starts with all of these objects, and others are not affected.
    env.operator.restart()?;
    env.operator.ready().await?;
    env.cluster.apply(&set("title")).await?;
    env.issue_has("other", &["title"]).await?;
    env.issue_has("plain", &["number", "title"]).await?;

    // The compiled document, the service, the exposition and the group themselves.
    redefine(&env, loosen).await?;
    let mut config = of_group(&env, "gatewayconfig", &config_of("named")).await?.context("the document")?;
    config["spec"]["kind"] = json!(["nonsense"]);
    config["metadata"] = json!({
        "name": config["metadata"]["name"],
        "namespace": "tamis-public",
        "labels": config["metadata"]["labels"],
    });
    for object in [
        config,
        object("ServiceManifest", "team-a", "tracker", &json!({"name": "tracker", "version": "1.0.0", "http": 1})),
        object("Exposition", "team-a", "plain", &json!({"service": tracker, "configurationPlan": 3})),
        object("GatewayGroup", "tamis-public", "public", &json!({"allowedNamespaces": 5})),
    ] {
        force(&env, &object).await?;
    }
    env.cluster.install_crds().await?;
    env.condition_is("servicemanifest", "tracker", "Accepted", "False", "InvalidManifest").await?;
    env.condition_is("exposition", "plain", "Accepted", "False", "InvalidManifest").await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    for exposition in ["plain", "named"] {
        env.issue_has(exposition, &["number", "title"]).await?;
    }

    // Fixed.
    for fixed in [env.manifest(), narrow("narrow", None), TestEnv::exposition("plain", &json!({}))] {
        env.cluster.kubectl(&["replace", "--filename=-"], Some(&fixed)).await?;
    }
    let group = object(
        "GatewayGroup",
        "tamis-public",
        "public",
        &json!({"allowedNamespaces": {"from": "All"}, "egress": {"allow": ["127.0.0.0/8"]}}),
    );
    env.cluster.kubectl(&["replace", "--filename=-"], Some(&group.to_string())).await?;
    for exposition in ["plain", "named", "late"] {
        env.ready("exposition", exposition).await?;
        env.issue_has(exposition, &["number", "title"]).await?;
    }
    let answers = [plain.end().await?, named.end().await?].concat();
    let failed = answers.iter().find(|answer| !answer.is_ok());
    ensure!(failed.is_none(), "a call failed: {failed:?}");
    Ok(())
}

/// Edits that each change only the generation in the status.
const EDITS: usize = 4;

/// How many writes of an exposition's status the API server has accepted.
async fn status_writes(env: &TestEnv) -> Result<f64> {
    let metrics = env.cluster.kubectl(&["get", "--raw", "/metrics"], None).await?;
    let labels = [r#"resource="expositions""#, r#"subresource="status""#, r#"code="200""#];
    let writes = metrics.lines().filter(|line| {
        line.starts_with("apiserver_request_total{")
            && labels.iter().all(|label| line.contains(label))
            && ["APPLY", "PATCH"].iter().any(|verb| line.contains(&format!("verb=\"{verb}\"")))
    });
    let writes: f64 = writes.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
    ensure!(writes > 0.0, "the API server counts no writes of a status");
    Ok(writes)
}

/// With definitions that lack fields, operator and gateway keep working, and write each status once.
#[tokio::test(flavor = "multi_thread")]
async fn the_operator_works_with_older_definitions() -> Result<()> {
    let mut env = TestEnv::start().await?;
    redefine(&env, |kind, version| {
        let schema = &mut version["schema"]["openAPIV3Schema"]["properties"];
        if kind == "GatewayConfig" {
            return;
        }
        for (part, field) in [("spec", "limits"), ("status", "tools"), ("status", "filters"), ("status", "url")] {
            if let Some(fields) = schema[part]["properties"].as_object_mut() {
                fields.remove(field);
            }
        }
        if kind == "Exposition"
            && let Some(members) = version.as_object_mut()
        {
            members.remove("additionalPrinterColumns");
        }
    })
    .await?;
    env.operator.restart()?;
    env.operator.ready().await?;
    env.cluster.apply(&env.manifest()).await?;
    env.cluster.apply(&narrow("narrow", None)).await?;
    env.cluster.apply(&TestEnv::exposition("plain", &json!({}))).await?;
    env.issue_has("plain", &["number", "title"]).await?;
    env.ready("exposition", "plain").await?;
    // What the operator says of calls comes in a while after the first one.
    let saved = async || Ok(env.object("exposition", "plain").await?["status"]["saved"].is_string().then_some(()));
    eventually("the saving", SOON, saved).await?;
    // A definition that does not know a field drops it, so the status never says what the operator has written.
    let before = status_writes(&env).await?;
    for spec in [json!({"enforcement": "Advisory"}), json!({})].iter().cycle().take(EDITS) {
        env.cluster.apply(&TestEnv::exposition("plain", spec)).await?;
        env.ready("exposition", "plain").await?;
    }
    let written = status_writes(&env).await? - before;
    ensure!(written == EDITS as f64, "{written} writes of the status for {EDITS} edits");
    let generation = env.object("exposition", "plain").await?["metadata"]["generation"].clone();
    ensure!(generation == json!(1 + EDITS), "generation {generation}");
    // The definitions of today: what was left out is said by the operator that comes with them.
    env.cluster.install_crds().await?;
    env.operator.restart()?;
    let said = eventually("the URL", SOON, async || {
        Ok(env.object("exposition", "plain").await?["status"]["url"].is_string().then_some(()))
    });
    said.await
}
