//! What is on the wire: capabilities, pages, bounds.

use anyhow::Result;
use serde_json::{Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::{Era, Gateway, Rpc};

use crate::own::{Pages, exposition, prompts, write};

async fn ask(rpc: &Rpc, method: &str, params: Value) -> Result<Value> {
    rpc.send(rpc.request(method, params)).await?.message()
}

#[tokio::test]
async fn capabilities_are_announced_where_there_is_something() -> Result<()> {
    let (pages, folder) = (Pages::start().await?, Folder::new()?);
    write(&folder, &pages)?;
    folder.write("none.yaml", &exposition("none", "prompts: {include: []}, resources: {include: []}"))?;
    folder.write("one.yaml", &exposition("one", "prompts: {include: [talk]}, resources: {include: []}"))?;
    let gateway = Gateway::start(folder.path()).await?;
    let changed = json!({"listChanged": true});
    for (name, expected) in [
        ("e", json!({"tools": changed, "prompts": changed, "resources": changed, "completions": {}})),
        ("one", json!({"tools": changed, "prompts": changed})),
        ("none", json!({"tools": changed})),
    ] {
        let modern = Rpc::new(&gateway.endpoint(name), Era::Modern)?;
        let said = ask(&modern, "server/discover", json!({})).await?;
        assert_eq!(said["result"]["capabilities"], expected, "{name}");
        let legacy = Rpc::new(&gateway.endpoint(name), Era::Legacy)?;
        let hello =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let said = ask(&legacy, "initialize", hello).await?;
        assert_eq!(said["result"]["capabilities"], expected, "{name}");
        let said = ask(&legacy, "resources/list", json!({})).await?;
        assert_eq!(said["error"]["code"] == json!(-32601), name != "e", "{name}: {said}");
    }
    Ok(())
}

/// No value of a variable leaves its segment. Clients' libraries would rewrite these URIs.
#[tokio::test]
async fn variables_stay_in_their_segments() -> Result<()> {
    let (pages, folder) = (Pages::start().await?, Folder::new()?);
    write(&folder, &pages)?;
    let gateway = Gateway::start(folder.path()).await?;
    for era in [Era::Legacy, Era::Modern] {
        let rpc = Rpc::new(&gateway.endpoint("e"), era)?;
        for (page, code) in [
            ("one", Value::Null),
            ("one%3Fx=1", Value::Null),
            ("%2e%2E", json!(-32602)),
            ("..", json!(-32602)),
            ("a/b", json!(-32602)),
            ("a%2fb", json!(-32602)),
            ("a%5Cb", json!(-32602)),
            ("a%0Ab", json!(-32602)),
        ] {
            let said = ask(&rpc, "resources/read", json!({"uri": format!("docs://handbook/pages/{page}")})).await?;
            assert_eq!(said["error"]["code"], code, "{era:?} {page}: {said}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn lists_have_pages_and_requests_have_bounds() -> Result<()> {
    let (pages, folder) = (Pages::start().await?, Folder::new()?);
    write(&folder, &pages)?;
    let many: String = (0..600).map(|n| format!("  p{n:03}: {{result: '{n}'}}\n")).collect();
    let repeated = format!("  long: {{arguments: [{{name: a}}], result: '{}'}}\n", "{a}".repeat(20));
    folder.write("prompts.yaml", &prompts(&(many + &repeated)))?;
    let gateway = Gateway::start(folder.path()).await?;
    for era in [Era::Legacy, Era::Modern] {
        let rpc = Rpc::new(&gateway.endpoint("e"), era)?;
        let (mut found, mut cursor, mut requests) = (Vec::new(), None::<String>, 0);
        loop {
            let params = cursor.as_ref().map_or(json!({}), |cursor| json!({"cursor": cursor}));
            let page = ask(&rpc, "prompts/list", params).await?;
            let page = &page["result"];
            found.extend(page["prompts"].as_array().into_iter().flatten().map(|prompt| prompt["name"].clone()));
            requests += 1;
            match page["nextCursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => break,
            }
        }
        assert_eq!((found.len(), requests), (603, 3), "{era:?}");
        for cursor in ["nothing", "s.", "s.x"] {
            let said = ask(&rpc, "prompts/list", json!({"cursor": cursor})).await?;
            assert_eq!(said["error"]["code"], json!(-32602), "{era:?} {cursor}: {said}");
        }
        for (length, code) in [(50_000, Value::Null), (60_000, json!(-32602)), (70_000, json!(-32602))] {
            let arguments = json!({"a": "x".repeat(length)});
            let said = ask(&rpc, "prompts/get", json!({"name": "long", "arguments": arguments})).await?;
            assert_eq!(said["error"]["code"], code, "{era:?} {length}: {}", said["error"]);
        }
    }
    Ok(())
}
