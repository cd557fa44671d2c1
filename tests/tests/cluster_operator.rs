//! The operator and a gateway, as processes with their own rights, against a real API server.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tamis_tests::cluster::{TestEnv, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn gateways_serve_what_is_applied() -> Result<()> {
    let mut env = TestEnv::start().await?;
    env.cluster.apply(&env.manifest()).await?;
    env.cluster
        .apply(&TestEnv::filters(
            "short",
            &json!({
                "name": "short",
                "filters": {"get-issue": {"select": {"number": "number", "title": "title"}}},
            }),
        ))
        .await?;
    env.cluster.apply(&TestEnv::exposition("short", &json!({"filters": ["short"]}))).await?;
    env.issue_has("short", &["number", "title"]).await?;
    env.ready("exposition", "short").await?;
    env.ready("toolsfilters", "short").await?;
    env.ready("servicemanifest", "tracker").await?;

    // A folder in the order of its files: a reference that resolves a moment later causes no warning. A reference that
    // stays unresolved causes one.
    let of_early = json!({"service": {"name": "tracker", "version": "1.0.0"}, "filters": ["late"]});
    let late = json!({"name": "late", "filters": {"get-issue": {"select": {"number": "number"}}}});
    let folder = format!("{}\n---\n{}", TestEnv::exposition("early", &of_early), TestEnv::filters("late", &late));
    env.cluster.apply(&folder).await?;
    env.ready("exposition", "early").await?;
    let nowhere = json!({"service": {"name": "nowhere", "version": "1.0.0"}, "filters": []});
    env.cluster.apply(&TestEnv::exposition("astray", &nowhere)).await?;
    env.condition_is("exposition", "astray", "ResolvedRefs", "False", "ServiceNotFound").await?;
    // A set that waits for its service is not in error for what only the service can say.
    let nowhere = json!({"name": "ahead", "service": {"name": "nowhere", "version": "1.0.0"}, "enforcement": "Enforced",
                         "filters": {"list": {"select": {"number": "number"}}}});
    env.cluster.apply(&TestEnv::filters("ahead", &nowhere)).await?;
    env.condition_is("toolsfilters", "ahead", "ResolvedRefs", "False", "ServiceNotFound").await?;
    env.condition_is("toolsfilters", "ahead", "Accepted", "True", "Accepted").await?;
    let events = ["get", "events", "-n", "team-a", "-o"];
    let format = r#"jsonpath={range .items[*]}{.type} {.involvedObject.name} {.reason}{"\n"}{end}"#;
    let astray = eventually("the Event", Duration::from_secs(10), async || {
        let events = env.cluster.kubectl(&[&events[..], &[format]].concat(), None).await?;
        let told = ["Warning astray ServiceNotFound", "Warning ahead ServiceNotFound"];
        Ok(told.iter().all(|told| events.contains(told)).then_some(events))
    });
    let events = astray.await?;
    ensure!(!events.contains("Warning early") && !events.contains("InvalidFilter"), "{events}");

    // The gateway is not a pod: it counts while it runs.
    group_has(&env, "1 True/Ready").await?;
    env.gateway.process.kill()?;
    group_has(&env, "0 False/GatewayUnavailable").await?;
    env.condition_is("exposition", "short", "Programmed", "False", "GatewayUnavailable").await?;
    env.gateway.restart()?;
    group_has(&env, "1 True/Ready").await?;
    env.ready("exposition", "short").await
}

/// Waits until the group's status is this: gateways, and `Ready` with its reason.
async fn group_has(env: &TestEnv, wanted: &str) -> Result<()> {
    let path =
        r#"jsonpath={.status.readyReplicas} {range .status.conditions[?(@.type=="Ready")]}{.status}/{.reason}{end}"#;
    let get = ["-n", "tamis-public", "get", "gatewaygroup", "public", "-o", path];
    eventually(&format!("the group: {wanted}"), Duration::from_secs(30), async || {
        Ok((env.cluster.kubectl(&get, None).await? == wanted).then_some(()))
    })
    .await
}
