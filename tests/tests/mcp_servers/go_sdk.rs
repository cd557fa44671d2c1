//! A server on the official Go SDK, with sessions and without, as published clients of both eras see it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tamis_tests::documents::Folder;
use tamis_tests::servers::Orders;
use tamis_tests::{CLIENTS, Client, Era, Gateway, Rpc, Sdk};

use crate::import::import;

const EXPOSITIONS: &str = "\
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: partner}
spec:
  name: partner
  service: {name: orders, version: 1.8.0}
  enforcement: Enforced
  filters: {list-orders: {retain: [/orders/*/id, /orders/*/total]}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: partner}
spec: {service: {name: orders, version: 1.8.0}, filters: [partner], tools: {include: [list-orders]}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: own}
spec: {service: {name: orders, version: 1.8.0}, filters: []}
";

const KEPT: &str = r#"{"orders":[{"id":9007199254740993,"total":12.50},{"id":9007199254740995,"total":1.10}]}"#;

#[tokio::test]
async fn a_server_on_the_go_sdk_is_pinned_and_filtered() -> Result<()> {
    for stateless in [false, true] {
        let (server, folder) = (Orders::start(stateless).await?, Folder::new()?);
        let ran = import(&folder, &[&server.url(), "-o", "s.yaml"]).await?;
        ensure!(ran.code == 0, "{}", ran.err);
        folder.write("e.yaml", EXPOSITIONS)?;
        let gateway = Gateway::start(folder.path()).await?;
        for era in [Era::Legacy, Era::Modern] {
            let caller = Rpc::new(&gateway.endpoint("partner"), era)?;
            let answer = caller.call("list-orders", &json!({})).await?;
            assert_eq!(answer.text_block()?, KEPT, "stateless: {stateless}, {era:?}");
        }
        for &(sdk, era) in CLIENTS {
            let said = format!("stateless: {stateless}, {sdk:?} {era:?}");
            let mut client = Client::connect(sdk, era, &gateway.target("partner")).await.context(said.clone())?;
            let result = client.result("list-orders", json!({})).await?;
            assert_eq!(result["content"][0]["text"], KEPT, "{said}");
            assert!(!result.to_string().contains("ada@example.com"), "{said}: {result}");
            if sdk == Sdk::Rmcp {
                continue;
            }
            let mut client = Client::connect(sdk, era, &gateway.target("own")).await.context(said.clone())?;
            let (result, progress) = client.progress("ship", json!({})).await?;
            assert_eq!(result["content"][0]["text"], "shipped", "{said}");
            let last = progress.last().with_context(|| format!("{said}: no progress"))?;
            assert_eq!((last["progress"].as_f64(), last["message"].as_str()), (Some(3.0), Some("packing")), "{said}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_tool_that_the_server_adds_reaches_callers_that_follow_it() -> Result<()> {
    let (server, folder) = (Orders::start(false).await?, Folder::new()?);
    let manifest = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: orders}}\nspec: {{version: 1.8.0, mcp: {{url: \
         '{}', follow: true}}}}\n",
        server.url()
    );
    folder.write("s.yaml", &manifest)?;
    let exposition = EXPOSITIONS.rsplit("---\n").next().context("the last document")?;
    folder.write("e.yaml", exposition)?;
    let gateway = Gateway::start(folder.path()).await?;
    let mut client = Client::connect(Sdk::TypeScript1, Era::Legacy, &gateway.target("own")).await?;
    let until = Instant::now() + Duration::from_secs(60);
    for (called, names) in [
        (None, &["list-orders", "open-returns", "ship"][..]),
        (Some("open-returns"), &["list-orders", "open-returns", "return", "ship"]),
    ] {
        if let Some(called) = called {
            client.result(called, json!({})).await?;
        }
        loop {
            let tools = client.list().await?;
            let mut listed: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
            listed.sort_unstable();
            if listed == names {
                break;
            }
            ensure!(Instant::now() < until, "{listed:?} in place of {names:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let result = client.result("return", json!({})).await?;
    assert_eq!(result["content"][0]["text"], "shipped");
    Ok(())
}
