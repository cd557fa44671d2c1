//! The operator and a gateway, as processes with their own rights, against a real API server.

use anyhow::Result;
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
    Ok(())
}
