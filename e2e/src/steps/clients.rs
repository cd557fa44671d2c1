//! Published MCP clients of both eras call the gateways from outside the cluster, through the Service.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tamis_tests::{CLIENTS, Client, Target};

use super::Stage;

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let question = stage.node.watched().await?;
    let mut names = Vec::new();
    for &(sdk, era) in CLIENTS {
        let mut client = Client::connect(sdk, era, &Target::Url(question.endpoint.clone())).await?;
        let tools = client.list().await?;
        ensure!(tools.len() == 3, "{sdk:?}: {tools:?}");
        let result = client.result(question.tool, question.arguments.clone()).await?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let answer: Value = serde_json::from_str(text)?;
        ensure!((question.wrong)(&answer).is_none(), "{sdk:?}: {text}");
        let sent = client.result("echo", json!({})).await?;
        ensure!(sent.to_string().contains("Bearer first"), "{sdk:?}: {sent}");
        names.push(format!("{sdk:?} {era:?}"));
    }
    Ok(format!("{} clients: {}", names.len(), names.join(", ")))
}
