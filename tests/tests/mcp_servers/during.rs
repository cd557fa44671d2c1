//! What a published server sends during a call, as published clients of both eras get it.

use anyhow::{Context, Result};
use serde_json::json;
use tamis_tests::documents::Folder;
use tamis_tests::servers::Everything;
use tamis_tests::{CLIENTS, Client, Gateway, Sdk, root};

#[tokio::test]
async fn progress_of_a_published_server_reaches_published_clients() -> Result<()> {
    const TOOL: &str = "trigger-long-running-operation";
    let (everything, folder) = (Everything::start().await?, Folder::new()?);
    let service = std::fs::read_to_string(root().join("examples/mcp/everything.yaml"))?;
    folder.write("everything.yaml", &service.replace("3001", &everything.port().to_string()))?;
    let service = "service: {name: everything, version: \"2.0.0\"}";
    let documents = ["Advisory", "Enforced"].map(|enforcement| {
        let name = enforcement.to_lowercase();
        format!(
            "---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: {name}}}\nspec: {{name: {name}, {service}, \
             enforcement: {enforcement}, filters: {{{TOOL}: {{passthrough: true}}}}}}\n---\napiVersion: tamis.dev/v1alpha1\n\
             kind: Exposition\nmetadata: {{name: {name}}}\nspec: {{{service}, filters: [{name}], tools: {{include: [{TOOL}]}}}}\n"
        )
    });
    folder.write("expositions.yaml", &documents.concat())?;
    let gateway = Gateway::start(folder.path()).await?;
    for name in ["advisory", "enforced"] {
        for &(sdk, era) in CLIENTS.iter().filter(|(sdk, _)| *sdk != Sdk::Rmcp) {
            let said = format!("{name} {sdk:?} {era:?}");
            let mut client = Client::connect(sdk, era, &gateway.target(name)).await.context(said.clone())?;
            let (result, progress) = client.progress(TOOL, json!({"duration": 1.2, "steps": 3})).await?;
            let text = result["content"][0]["text"].as_str().unwrap_or_default();
            assert!(text.starts_with("Long running operation completed"), "{said}: {result}");
            let steps: Vec<_> =
                progress.iter().map(|each| (each["progress"].as_f64(), each["total"].as_f64())).collect();
            assert_eq!(steps, [1.0, 2.0, 3.0].map(|step| (Some(step), Some(3.0))), "{said}: {progress:?}");
            // A caller that asks for none.
            let result = client.result(TOOL, json!({"duration": 0.1, "steps": 1})).await?;
            assert_eq!(result["isError"], json!(false), "{said}: {result}");
        }
    }
    Ok(())
}
