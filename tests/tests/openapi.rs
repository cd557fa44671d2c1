//! `tamis serve` with a service that an OpenAPI document describes, in front of an API that says what it received.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};
use tamis_tests::documents::{Folder, open_and_closed};
use tamis_tests::{Gateway, Rpc};
use tokio::net::TcpListener;

const API: &str = "openapi: 3.0.3
servers: [{url: 'URL/v1'}]
paths:
  /pets/{ids}/{kind}:
    put:
      operationId: changePets
      parameters:
      - {name: ids, in: path, required: true, schema: {type: array, items: {type: integer}}}
      - {name: kind, in: path, required: true, style: matrix, schema: {type: string}}
      - {name: tags, in: query, style: pipeDelimited, explode: false, schema: {type: array, items: {type: string}}}
      - {name: filter, in: query, style: deepObject, explode: true, schema: {type: object, additionalProperties: {type: string}}}
      - {name: X-Trace, in: header, schema: {type: string}}
      requestBody:
        required: true
        content:
          application/json:
            schema: {type: object, required: [name], properties: {name: {type: string}, price: {type: number}}}
      responses:
        '200': {content: {application/json: {schema: {$ref: '#/components/schemas/Seen'}}}}
  /login:
    post:
      operationId: logIn
      requestBody:
        required: true
        content:
          application/x-www-form-urlencoded:
            schema: {type: object, required: [user], properties: {user: {type: string}, scopes: {type: array, items: {type: string}}}}
  /picture: {post: {operationId: picture, requestBody: {required: true, content: {image/png: {}}}}}
components:
  schemas:
    Seen: {type: object, properties: {method: {type: string}, target: {type: string}, secret: {type: string}}}
";

const MANIFEST: &str = "apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: pets}
spec:
  version: '1'
  openapi: {file: api.yaml, operations: {exclude: [picture]}}
";

/// Starts an API that answers with what it received; its URL.
async fn echo() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let answer = |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let seen = json!({
            "method": method.as_str(), "target": uri.to_string(), "trace": header("x-trace"), "type": header("content-type"),
            "body": String::from_utf8_lossy(&body), "secret": "not for partners",
        });
        ([("content-type", "application/json")], seen.to_string())
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    Ok(url)
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_are_called_filtered_and_followed() -> Result<()> {
    let api = API.replace("URL", &echo().await?);
    let folder = Folder::new()?;
    folder.write("api.yaml", &api)?;
    folder.write("pets.yaml", MANIFEST)?;
    folder.write("expositions.yaml", &open_and_closed("pets", "1", "changePets", "target: target"))?;
    let gateway = Gateway::start(folder.path()).await?;
    let (open, closed) = (gateway.rpc("open")?, gateway.rpc("closed")?);
    let tools = open.tools().await?;
    assert_eq!(names(&tools), ["changePets", "logIn"]);
    assert_eq!(tools[0]["annotations"]["idempotentHint"], true);
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["ids", "kind", "name"]));

    let arguments = json!({
        "ids": [1, 2], "kind": "a b;x=", "tags": ["x&y", "z"], "filter": {"k]": "1&2"}, "X-Trace": "t", "name": "Rex", "price": 1.5,
    });
    let seen: Value = serde_json::from_str(&open.call("changePets", &arguments).await?.text_block()?)?;
    assert_eq!(seen["method"], "PUT");
    let target = "/v1/pets/1,2/;kind=a%20b%3Bx%3D?tags=x%26y%7Cz&filter%5Bk%5D%5D=1%262";
    assert_eq!(seen["target"], target);
    assert_eq!((&seen["trace"], &seen["type"]), (&json!("t"), &json!("application/json")));
    assert_eq!(seen["body"], r#"{"name":"Rex","price":1.5}"#);
    let form = json!({"user": "a&b", "scopes": ["r", "w"]});
    let seen: Value = serde_json::from_str(&open.call("logIn", &form).await?.text_block()?)?;
    assert_eq!(
        (&seen["type"], &seen["body"]),
        (&json!("application/x-www-form-urlencoded"), &json!("user=a%26b&scopes=r&scopes=w"))
    );

    // Enforced: what the filter does not name stays inside.
    let text = closed.call("changePets", &arguments).await?.text_block()?;
    assert_eq!(text, json!({"target": target}).to_string());
    let tools = closed.tools().await?;
    assert_eq!(tools[0]["outputSchema"]["properties"]["secret"], Value::Null, "{}", tools[0]["outputSchema"]);
    // An element with the delimiter would be two.
    let divided =
        open.call("changePets", &json!({"ids": [1], "kind": "a", "name": "b", "tags": ["x|y"]})).await?.message()?;
    ensure!(divided.to_string().contains("argument `tags` has an element with `|`"), "{divided}");
    // A bad argument is named before anything is sent.
    let refused = open.call("changePets", &json!({"ids": ["x"], "kind": "a", "name": "b"})).await?.message()?;
    ensure!(refused.to_string().contains("ids"), "{refused}");

    // A saved document changes the tools; one with a mistake does not.
    folder.replace("api.yaml", &api.replace("operationId: logIn", "operationId: signIn"))?;
    shows(&open, &["changePets", "signIn"]).await?;
    folder.replace("api.yaml", &api.replace("in: header", "in: nowhere"))?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(names(&open.tools().await?), ["changePets", "signIn"], "the last good service is served");
    folder.replace("api.yaml", &api)?;
    shows(&open, &["changePets", "logIn"]).await
}

/// Waits until an exposition lists these tools.
async fn shows(rpc: &Rpc, expected: &[&str]) -> Result<()> {
    let began = Instant::now();
    loop {
        let tools = rpc.tools().await?;
        if names(&tools) == expected {
            return Ok(());
        }
        ensure!(began.elapsed() < Duration::from_secs(20), "{:?} is listed", names(&tools));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
