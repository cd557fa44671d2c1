//! What a published server sends during a call, as published clients of both eras get it.

use anyhow::{Context, Result};
use serde_json::json;
use tamis_tests::documents::Folder;
use tamis_tests::servers::Everything;
use tamis_tests::{CLIENTS, Client, Era, Gateway, Sdk, root};

use crate::fixture::{Behaviour, Server, tool};
use crate::import::import;

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

#[tokio::test]
async fn a_server_that_asks_for_input_gets_it_from_published_modern_clients() -> Result<()> {
    let asks = r#"{"who":{"method":"elicitation/create","params":{"mode":"form","message":"secret question","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}}"#;
    let behaviour = Behaviour { tools: vec![tool("t", "one")], asks: Some(asks.to_owned()), ..Behaviour::default() };
    let (server, folder) = (Server::start(behaviour).await?, Folder::new()?);
    assert_eq!(import(&folder, &[&server.url, "-o", "s.yaml"]).await?.code, 0);
    let service = "service: {name: fixture, version: '7'}";
    let documents = ["Advisory", "Enforced"].map(|enforcement| {
        let name = enforcement.to_lowercase();
        format!(
            "---\napiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: {name}}}\nspec: {{name: {name}, {service}, \
             enforcement: {enforcement}, filters: {{t: {{passthrough: true}}}}}}\n---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\n\
             metadata: {{name: {name}}}\nspec: {{{service}, filters: [{name}]}}\n"
        )
    });
    folder.write("e.yaml", &documents.concat())?;
    let gateway = Gateway::start(folder.path()).await?;
    let content = json!({"name": "ada"});
    for sdk in [Sdk::Python2, Sdk::TypeScript2] {
        let target = gateway.target("advisory");
        let mut client = Client::connect_eliciting(sdk, Era::Modern, &target, &content).await?;
        let result = client.result("t", json!({})).await.with_context(|| format!("{sdk:?}"))?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let got: serde_json::Value = serde_json::from_str(text).with_context(|| format!("{sdk:?}: {result}"))?;
        assert_eq!((&got["who"]["action"], &got["who"]["content"]), (&json!("accept"), &content), "{sdk:?}: {result}");

        for (name, era, expected) in [
            ("enforced", Era::Modern, "The tool asks for input, which does not pass under Enforced."),
            ("enforced", Era::Legacy, "The tool asks for input, which does not pass under Enforced."),
            (
                "advisory",
                Era::Legacy,
                "The tool asks for input, which only clients of the version 2026-07-28 can be asked for.",
            ),
        ] {
            let mut client = Client::connect_eliciting(sdk, era, &gateway.target(name), &content).await?;
            let refused = client.result("t", json!({})).await.with_context(|| format!("{sdk:?} {name}"))?;
            assert_eq!(refused["content"][0]["text"], expected, "{sdk:?} {name} {era:?}: {refused}");
            assert!(!refused.to_string().contains("secret question"), "{refused}");
        }
    }
    Ok(())
}
