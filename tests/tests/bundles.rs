//! Three services behind one address, as published clients of both eras see them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::{CLIENTS, Client, Gateway, Upstream};

/// Two more services of the sample upstream, the bundle, and what publishes them.
const SERVICES: [(&str, &str); 2] = [
    ("logs", "get-log: {description: A log, path: /log, response: {type: text}}"),
    (
        "echoes",
        "echo: {description: Says what arrived, method: POST, path: /echo, args: {text: {type: string, required: true}}, \
     request: {body: {text: '{text}'}}}",
    ),
];

const ALL: &str = r"
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: all}
spec:
  expositions:
  - {name: partner, prefix: tracker_}
  - {name: logs, prefix: logs_}
  - {name: echoes}
  limits: {concurrent: 100}
";

fn manifest(name: &str, action: &str, url: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: {name}}}\nspec: {{version: '1', description: \
         'The {name}', http: {{baseUrl: '{url}', actions: {{{action}}}}}}}\n"
    )
}

fn exposition(name: &str, more: &str) -> String {
    format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\nspec: {{service: {{name: {name}, \
         version: '1'}}, filters: []{more}}}\n"
    )
}

async fn serve(upstream: &Upstream) -> Result<(Folder, Gateway)> {
    let folder = Folder::sample(upstream)?;
    for (name, action) in SERVICES {
        folder.write(&format!("{name}.yaml"), &manifest(name, action, &upstream.url))?;
        let hidden = if name == "logs" { ", access: {bundleOnly: true}" } else { "" };
        folder.write(&format!("{name}-published.yaml"), &exposition(name, hidden))?;
    }
    folder.write("all.yaml", ALL)?;
    let gateway = Gateway::start(folder.path()).await?;
    Ok((folder, gateway))
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

const LISTED: [&str; 7] = [
    "tracker_list-issues",
    "tracker_get-issue",
    "tracker_slow",
    "tracker_status",
    "tracker_get-log",
    "logs_get-log",
    "echo",
];

#[tokio::test]
async fn clients_call_three_services_at_one_address() -> Result<()> {
    let upstream = Upstream::start().await?;
    let (_folder, gateway) = serve(&upstream).await?;
    for &(sdk, era) in CLIENTS {
        let said = format!("{sdk:?} {era:?}");
        let mut client = Client::connect(sdk, era, &gateway.target("all")).await.context(said.clone())?;
        assert_eq!(client.hello.server.as_deref().unwrap_or("all"), "all", "{said}");
        let instructions = client.hello.instructions.clone().unwrap_or_default();
        assert_eq!(instructions, "tracker_*: A small issue tracker\nlogs_*: The logs\nThe echoes", "{said}");
        let tools = client.list().await?;
        assert_eq!(names(&tools), LISTED, "{said}");
        // The filter of the part, under its enforcement.
        let arguments = json!({"owner": "o", "repo": "r", "number": 1});
        let issue = client.result("tracker_get-issue", arguments).await?;
        let members: BTreeSet<&String> = issue["structuredContent"].as_object().context("no issue")?.keys().collect();
        assert_eq!(members.into_iter().collect::<Vec<_>>(), ["number", "title"], "{said}: {issue}");
        let log = client.result("logs_get-log", json!({})).await?;
        assert!(log["content"][0]["text"].as_str().is_some_and(|text| text.contains("first")), "{said}: {log}");
        let echo = client.result("echo", json!({"text": "a b"})).await?;
        assert!(echo.to_string().contains("a b"), "{said}: {echo}");
        let wrong = client.result("tracker_get-issue", json!({"owner": "o", "repo": "r", "number": "x"})).await?;
        assert_eq!(wrong["isError"], json!(true), "{said}: {wrong}");
        let unknown = client.call("get-issue", json!({})).await?.expect_err("has a prefix here");
        assert_eq!(unknown.code, Some(-32602), "{said}: {}", unknown.error);
        // The part without an address is called through the bundle only.
        assert!(Client::connect(sdk, era, &gateway.target("logs")).await.is_err(), "{said}");
    }
    let calls = gateway.metric("tamis_tool_calls_total", &["exposition=\"logs\"", "tool=\"get-log\""]).await?;
    assert!(calls >= CLIENTS.len() as f64, "{calls}");
    assert!(gateway.log().contains(r#"exposition="logs" bundle="all" tool="get-log""#), "{}", gateway.log());
    Ok(())
}

#[tokio::test]
async fn a_stopped_part_takes_its_own_tools_away_and_clients_are_told() -> Result<()> {
    let upstream = Upstream::start().await?;
    let (folder, gateway) = serve(&upstream).await?;
    let without: Vec<&str> = LISTED.into_iter().filter(|name| !name.starts_with("logs_")).collect();
    for &(sdk, era) in CLIENTS {
        let said = format!("{sdk:?} {era:?}");
        let mut client = Client::connect(sdk, era, &gateway.target("all")).await.context(said.clone())?;
        assert_eq!(names(&client.list().await?), LISTED, "{said}");
        client.watch().await?;
        // The exposition stays, and its service goes.
        let file = std::fs::read_to_string(folder.path().join("logs.yaml"))?;
        folder.remove("logs.yaml")?;
        assert!(client.changed(Duration::from_secs(30)).await?, "{said}: not told that the part is stopped");
        assert_eq!(names(&client.list().await?), without, "{said}");
        let echo = client.result("echo", json!({"text": "still"})).await?;
        assert!(echo.to_string().contains("still"), "{said}: {echo}");
        folder.write("logs.yaml", &file)?;
        let until = Instant::now() + Duration::from_secs(30);
        while names(&client.list().await?) != LISTED {
            assert!(Instant::now() < until, "{said}: the part does not come back");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert!(gateway.log().contains("exposition `logs` is stopped (ServiceNotFound)"), "{}", gateway.log());
    Ok(())
}
