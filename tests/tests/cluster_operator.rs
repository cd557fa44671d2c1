//! The operator and a gateway, as processes with their own rights, against a real API server.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tamis_tests::cluster::{Stage, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn what_people_apply_is_what_gateways_serve() -> Result<()> {
    let mut stage = Stage::set().await?;
    stage.cluster.apply(&stage.manifest()).await?;
    stage
        .cluster
        .apply(&Stage::filters(
            "short",
            &json!({
                "name": "short",
                "filters": {"get-issue": {"select": {"number": "number", "title": "title"}}},
            }),
        ))
        .await?;
    stage.cluster.apply(&Stage::exposition("short", &json!({"filters": ["short"]}))).await?;
    stage.issue_has("short", &["number", "title"]).await?;
    stage.ready("exposition", "short").await?;
    stage.ready("toolsfilters", "short").await?;
    stage.ready("servicemanifest", "tracker").await?;

    // A folder in the order of its files: what an exposition names comes a moment after it, and nobody is warned. What
    // does not come is told.
    let of_early = json!({"service": {"name": "tracker", "version": "1.0.0"}, "filters": ["late"]});
    let late = json!({"name": "late", "filters": {"get-issue": {"select": {"number": "number"}}}});
    let folder = format!("{}\n---\n{}", Stage::exposition("early", &of_early), Stage::filters("late", &late));
    stage.cluster.apply(&folder).await?;
    stage.ready("exposition", "early").await?;
    let nowhere = json!({"service": {"name": "nowhere", "version": "1.0.0"}, "filters": []});
    stage.cluster.apply(&Stage::exposition("astray", &nowhere)).await?;
    stage.condition_is("exposition", "astray", "ResolvedRefs", "False", "ServiceNotFound").await?;
    // A set that waits for its service is not in error for what only the service can say.
    let nowhere = json!({"name": "ahead", "service": {"name": "nowhere", "version": "1.0.0"}, "enforcement": "Enforced",
                         "filters": {"list": {"select": {"number": "number"}}}});
    stage.cluster.apply(&Stage::filters("ahead", &nowhere)).await?;
    stage.condition_is("toolsfilters", "ahead", "ResolvedRefs", "False", "ServiceNotFound").await?;
    stage.condition_is("toolsfilters", "ahead", "Accepted", "True", "Accepted").await?;
    let events = ["get", "events", "-n", "team-a", "-o"];
    let format = r#"jsonpath={range .items[*]}{.type} {.involvedObject.name} {.reason}{"\n"}{end}"#;
    let astray = eventually("the Event", Duration::from_secs(10), async || {
        let events = stage.cluster.kubectl(&[&events[..], &[format]].concat(), None).await?;
        let told = ["Warning astray ServiceNotFound", "Warning ahead ServiceNotFound"];
        Ok(told.iter().all(|told| events.contains(told)).then_some(events))
    });
    let events = astray.await?;
    ensure!(!events.contains("Warning early") && !events.contains("InvalidFilter"), "{events}");

    // The gateway is no pod: it counts while it is there.
    group_has(&stage, "1 True/Ready").await?;
    stage.gateway.process.kill()?;
    group_has(&stage, "0 False/GatewayUnavailable").await?;
    stage.condition_is("exposition", "short", "Programmed", "False", "GatewayUnavailable").await?;
    stage.gateway.restart()?;
    group_has(&stage, "1 True/Ready").await?;
    stage.ready("exposition", "short").await
}

/// Waits until the group's status is this: gateways, and `Ready` with its reason.
async fn group_has(stage: &Stage, wanted: &str) -> Result<()> {
    let path =
        r#"jsonpath={.status.readyReplicas} {range .status.conditions[?(@.type=="Ready")]}{.status}/{.reason}{end}"#;
    let get = ["-n", "tamis-public", "get", "gatewaygroup", "public", "-o", path];
    eventually(&format!("the group: {wanted}"), Duration::from_secs(30), async || {
        Ok((stage.cluster.kubectl(&get, None).await? == wanted).then_some(()))
    })
    .await
}
