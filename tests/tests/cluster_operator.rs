//! The operator and a gateway, as processes with their own rights, against a real API server.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tamis_tests::cluster::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn what_people_apply_is_what_gateways_serve() -> Result<()> {
    let stage = Stage::set().await?;
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
    let events = ["get", "events", "-n", "team-a", "-o"];
    let format = r#"jsonpath={range .items[*]}{.type} {.involvedObject.name} {.reason}{"\n"}{end}"#;
    let astray = tamis_tests::cluster::eventually("the Event", Duration::from_secs(10), async || {
        let events = stage.cluster.kubectl(&[&events[..], &[format]].concat(), None).await?;
        Ok(events.contains("Warning astray ServiceNotFound").then_some(events))
    });
    let events = astray.await?;
    ensure!(!events.contains("Warning early"), "{events}");
    Ok(())
}
