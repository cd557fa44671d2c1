//! MCP servers behind the gateway, as published clients of both eras see them: a published server, and one of our own that
//! changes its tools.

mod announced;
mod cluster;
mod during;
mod events;
mod fixture;
mod go_sdk;
mod import;
mod pinned;
mod programs;
mod sessions;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tamis_tests::documents::{Folder, copy_folder};
use tamis_tests::servers::{Everything, SECRET};
use tamis_tests::{CLIENTS, Client, Gateway, root};

/// `examples/mcp`, served for a server on its own port.
async fn examples(everything: &Everything) -> Result<(Folder, Gateway)> {
    let folder = Folder::new()?;
    let port = everything.port().to_string();
    copy_folder(&root().join("examples/mcp"), folder.path(), &|text| text.replace("3001", &port))?;
    let gateway = Gateway::start(folder.path()).await?;
    Ok((folder, gateway))
}

fn names(tools: &[Value]) -> BTreeSet<&str> {
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_published_server_is_published_twice_with_filters_of_its_own() -> Result<()> {
    let everything = Everything::start().await?;
    let (_folder, gateway) = examples(&everything).await?;
    let port = everything.port().to_string();
    for &(sdk, era) in CLIENTS {
        let said = format!("{sdk:?} {era:?}");
        let mut client =
            Client::connect(sdk, era, &gateway.target("everything-internal")).await.context(said.clone())?;
        let tools = client.list().await?;
        let listed = names(&tools);
        assert!(listed.len() == 13 && listed.contains("get-sum"), "{said}: {listed:?}");
        let echo = tools.iter().find(|tool| tool["name"] == "echo").context("no echo")?;
        assert_eq!(echo["title"], "Echo Tool", "{said}");
        assert_eq!(echo["annotations"]["readOnlyHint"], json!(true), "{said}: {echo}");
        assert_eq!(echo["inputSchema"]["properties"]["message"]["type"], "string", "{said}: {echo}");
        let result = client.result("echo", json!({"message": "a b"})).await?;
        assert_eq!(text(&result), "Echo: a b", "{said}: {result}");
        let result = client.result("get-structured-content", json!({"location": "Chicago"})).await?;
        let expected = r#"{"temperature":36,"conditions":"Light rain / drizzle"}"#;
        assert_eq!(text(&result), expected, "{said}: {result}");
        assert_eq!(result["structuredContent"], serde_json::from_str::<Value>(expected)?, "{said}: {result}");
        let result = client.result("get-env", json!({})).await?;
        assert_eq!(result["structuredContent"]["PORT"], json!(port), "{said}: {result}");
        assert!(!result.to_string().contains(SECRET), "{said}: {result}");
        let wrong = client.result("get-structured-content", json!({"location": "Paris"})).await?;
        assert_eq!(wrong["isError"], json!(true), "{said}: {wrong}");

        let mut client =
            Client::connect(sdk, era, &gateway.target("everything-partner")).await.context(said.clone())?;
        let tools = client.list().await?;
        assert_eq!(names(&tools), BTreeSet::from(["echo", "get-env", "get-structured-content"]), "{said}");
        let result = client.result("get-env", json!({})).await?;
        assert_eq!(text(&result), format!(r#"{{"port":"{port}"}}"#), "{said}: {result}");
        assert_eq!(result["structuredContent"], json!({"port": port}), "{said}: {result}");
        let result = client.result("get-structured-content", json!({"location": "Chicago"})).await?;
        assert_eq!(result["structuredContent"], json!({"conditions": "Light rain / drizzle"}), "{said}: {result}");
        for part in ["36", "82", "humidity", "temperature"] {
            assert!(!result.to_string().contains(part), "{said}: {part} in {result}");
        }
        let refused = client.call("get-sum", json!({"a": 1, "b": 2})).await?;
        assert!(
            refused.is_err() || refused.as_ref().is_ok_and(|result| result["isError"] == true),
            "{said}: {refused:?}"
        );
    }
    let saved = gateway.metric("tamis_filter_saved_bytes_total", &["exposition=\"everything-partner\""]).await?;
    assert!(saved > 0.0, "{saved}");
    Ok(())
}

/// Clients of both eras validate structured content against the schema that is listed.
#[tokio::test]
async fn output_schemas_are_what_filters_leave_of_them() -> Result<()> {
    const SERVICE: &str = "service: {name: everything, version: \"2.0.0\"}";
    let everything = Everything::start().await?;
    let folder = Folder::new()?;
    let port = everything.port().to_string();
    let service = std::fs::read_to_string(root().join("examples/mcp/everything.yaml"))?.replace("3001", &port);
    std::fs::write(folder.path().join("everything.yaml"), service)?;
    let set = |name: &str, filter: &str, enforcement: &str| {
        format!(
            "apiVersion: tamis.dev/v1alpha1\nkind: ToolsFilters\nmetadata: {{name: {name}}}\nspec: {{name: {name}, {SERVICE}, \
             enforcement: {enforcement}, filters: {{get-structured-content: {filter}}}}}\n---\n"
        )
    };
    let exposition = |name: &str, filters: &str| {
        format!(
            "apiVersion: tamis.dev/v1alpha1\nkind: Exposition\nmetadata: {{name: {name}}}\nspec: {{{SERVICE}, filters: [{filters}], \
             tools: {{include: [get-structured-content]}}}}\n"
        )
    };
    let all = ["temperature", "conditions", "humidity"];
    let cases = [
        ("open", String::new(), &all[..], &all[..]),
        ("excluded", set("excluded", "{root: '', exclude: [humidity]}", "Advisory"), &all[..2], &[]),
        ("retained", set("retained", "{retain: [/conditions]}", "Enforced"), &all[1..2], &[]),
        ("selected", set("selected", "{root: '', select: {conditions: conditions}}", "Enforced"), &all[1..2], &[]),
    ];
    for (name, filters, ..) in &cases {
        let used = if filters.is_empty() { "" } else { name };
        std::fs::write(folder.path().join(format!("{name}.yaml")), filters.clone() + &exposition(name, used))?;
    }
    let gateway = Gateway::start(folder.path()).await?;
    for (name, _, properties, required) in cases {
        for &(sdk, era) in CLIENTS {
            let said = format!("{name} {sdk:?} {era:?}");
            let mut client = Client::connect(sdk, era, &gateway.target(name)).await.context(said.clone())?;
            let tools = client.list().await?;
            let schema = &tools[0]["outputSchema"];
            let described = schema["properties"].as_object().with_context(|| format!("{said}: {}", tools[0]))?.keys();
            let described: Vec<_> = described.filter(|name| !name.starts_with('_')).collect();
            assert_eq!(described, properties, "{said}: {schema}");
            let listed = schema.get("required").and_then(Value::as_array).into_iter().flatten().collect::<Vec<_>>();
            assert_eq!(listed, required, "{said}: {schema}");
            let result = client.result("get-structured-content", json!({"location": "Chicago"})).await?;
            let object = result["structuredContent"].as_object().with_context(|| format!("{said}: {result}"))?;
            assert_eq!(object.keys().collect::<Vec<_>>(), properties, "{said}: {result}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_filter_of_a_server_is_edited_without_a_restart() -> Result<()> {
    let everything = Everything::start().await?;
    let (folder, gateway) = examples(&everything).await?;
    let (sdk, era) = CLIENTS[0];
    // Advisory: the client knows no output schema that an edit would change.
    let mut client = Client::connect(sdk, era, &gateway.target("everything-internal")).await?;
    let arguments = json!({"location": "Chicago"});
    let before = client.result("get-structured-content", arguments.clone()).await?;
    assert_eq!(text(&before), r#"{"temperature":36,"conditions":"Light rain / drizzle"}"#);
    let set = std::fs::read_to_string(folder.path().join("internal.yaml"))?;
    let select = "{temperature: temperature, conditions: conditions}";
    assert!(set.contains(select));
    folder.replace("internal.yaml", &set.replace(select, "{humidity: humidity}"))?;
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let after = client.result("get-structured-content", arguments.clone()).await?;
        if text(&after) == r#"{"humidity":82}"# {
            return Ok(());
        }
        assert!(Instant::now() < until, "{after}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
