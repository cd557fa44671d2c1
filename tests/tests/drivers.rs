//! The drivers of the clients, against another server: a failure here is not one of Tamis.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tamis_tests::{CLIENTS, Client, Era, Sdk, Target, root, tool};

#[tokio::test]
async fn every_driver_works_with_another_server() -> Result<()> {
    let server = [tool("python2/bin/python")?, root().join("tests/clients/fixture.py")];
    let target = Target::Command(server.iter().map(|word| word.to_string_lossy().into_owned()).collect());
    for &(sdk, era) in CLIENTS {
        let mut client = Client::connect(sdk, era, &target).await?;
        let version = client.hello.protocol_version.as_str();
        assert_eq!(version == "2026-07-28", era == Era::Modern, "{sdk:?} {era:?}: {version}");
        let tools = client.list().await?;
        assert_eq!(tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), ["echo", "slow", "grow"]);
        let said = client.result("echo", json!({"text": "hé"})).await?;
        assert_eq!(said["structuredContent"], json!({"result": "hé"}), "{sdk:?} {era:?}");
        assert!(client.cancel("slow", json!({"ms": 20_000}), Duration::from_millis(100)).await?);

        client.watch().await?;
        assert!(!client.changed(Duration::from_millis(50)).await?);
        client.result("grow", json!({})).await?;
        // This server does not announce the capability to legacy clients, and only the TypeScript ones mind.
        let minds = era == Era::Legacy && matches!(sdk, Sdk::TypeScript1 | Sdk::TypeScript2);
        assert_eq!(client.changed(Duration::from_secs(if minds { 0 } else { 10 })).await?, !minds, "{sdk:?} {era:?}");
    }
    Ok(())
}
