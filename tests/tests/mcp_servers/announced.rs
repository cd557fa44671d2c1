//! What a server announces outside of calls: updates of resources, to sessions and to streams, whichever era the server speaks.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use reqwest::header::ACCEPT;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use tamis_tests::conformance::{name_of, proxied};
use tamis_tests::documents::Folder;
use tamis_tests::fixture::Fixture;
use tamis_tests::{Era, Gateway, Rpc};

const WATCHED: &str = "test://watched-resource";
const TEXT: &str = "test://static-text";
const PATIENCE: Duration = Duration::from_secs(20);

/// A fixture of an era, and a gateway with its exposition.
async fn published(era: Era, exposition: &str) -> Result<(Fixture, Folder, Gateway)> {
    let (fixture, folder) = (Fixture::start(era).await?, Folder::new()?);
    folder.write("server.yaml", &proxied(era, &fixture).replace("  filters: []\n", exposition))?;
    let gateway = Gateway::start(folder.path()).await?;
    Rpc::new(&gateway.endpoint(name_of(era)), era)?.until_listed().await?;
    Ok((fixture, folder, gateway))
}

/// A stream of events.
struct Stream {
    response: Response,
    text: String,
}

impl Stream {
    async fn open(request: RequestBuilder) -> Result<Self> {
        let response = request.send().await?;
        ensure!(response.status() == 200, "{}: {}", response.status(), response.text().await?);
        Ok(Self { response, text: String::new() })
    }

    /// Returns the next message.
    async fn next(&mut self) -> Result<Value> {
        tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some((event, rest)) = self.text.split_once("\n\n") {
                    let data = event.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
                    self.text = rest.to_owned();
                    if let Some(data) = data {
                        return Ok(serde_json::from_str(&data)?);
                    }
                    continue;
                }
                let chunk = self.response.chunk().await?.context("the stream ends")?;
                self.text.push_str(std::str::from_utf8(&chunk)?);
            }
        })
        .await
        .context("no message")?
    }
}

/// A legacy client with a session and its stream.
struct Session {
    rpc: Rpc,
    id: String,
    stream: Stream,
}

impl Session {
    async fn begin(endpoint: &str) -> Result<Self> {
        let rpc = Rpc::new(endpoint, Era::Legacy)?;
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let answer = rpc.send(rpc.request("initialize", params)).await?;
        let id = answer.headers.get("mcp-session-id").context("no session")?.to_str()?.to_owned();
        let request = reqwest::Client::new().get(endpoint).header(ACCEPT, "text/event-stream");
        let request = request.header("MCP-Protocol-Version", "2025-11-25").header("Mcp-Session-Id", &id);
        let stream = Stream::open(request).await?;
        Ok(Self { rpc, id, stream })
    }

    async fn send(&self, method: &str, params: Value) -> Result<Value> {
        let request = self.rpc.request(method, params).header("Mcp-Session-Id", &self.id);
        self.rpc.send(request).await?.message()
    }

    async fn subscribe(&self, uri: &str) -> Result<Value> {
        self.send("resources/subscribe", json!({"uri": uri})).await
    }
}

fn updated(uri: &str, tag: Option<i64>) -> Value {
    let mut params = json!({"uri": uri});
    if let Some(tag) = tag {
        params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": tag});
    }
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
}

/// Waits until the server has so many subscriptions.
async fn until(fixture: &Fixture, uri: &str, count: usize) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while fixture.subscriptions(uri) != count {
        ensure!(Instant::now() < until, "{} subscriptions to {uri}, not {count}", fixture.subscriptions(uri));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::test]
async fn updates_reach_the_sessions_and_streams_that_subscribed() -> Result<()> {
    for era in [Era::Legacy, Era::Modern] {
        let (fixture, _folder, gateway) = published(era, "  filters: []\n").await?;
        let endpoint = gateway.endpoint(name_of(era));
        let said = format!("a server of {era:?}");
        let (mut one, mut other) = (Session::begin(&endpoint).await?, Session::begin(&endpoint).await?);
        for (session, uri) in [(&one, WATCHED), (&one, TEXT), (&other, TEXT)] {
            let answer = session.subscribe(uri).await?;
            assert_eq!(answer["result"], json!({}), "{said}: {answer}");
        }
        let modern = Rpc::new(&endpoint, Era::Modern)?;
        let wanted = json!({"resourceSubscriptions": [WATCHED, "test://unknown"], "toolsListChanged": true});
        let request = modern.request("subscriptions/listen", json!({"notifications": wanted}));
        let mut listening = Stream::open(request).await?;
        let first = listening.next().await?;
        let accepted = json!({"resourceSubscriptions": [WATCHED], "toolsListChanged": true});
        assert_eq!(first["params"]["notifications"], accepted, "{said}: {first}");

        // A legacy server has a session for each session of a caller, and one for all else of the caller. Streams of the caller at a
        // modern server share a subscription. Messages are in order, so that a message that a stream must not get would come before
        // the last one.
        let subscriptions = if era == Era::Legacy { 2 } else { 1 };
        until(&fixture, WATCHED, subscriptions).await?;
        until(&fixture, TEXT, subscriptions).await?;
        fixture.update(WATCHED);
        fixture.update(TEXT);
        assert_eq!(one.stream.next().await.context(said.clone())?, updated(WATCHED, None), "{said}");
        assert_eq!(one.stream.next().await?, updated(TEXT, None), "{said}");
        assert_eq!(other.stream.next().await?, updated(TEXT, None), "{said}");
        assert_eq!(listening.next().await?, updated(WATCHED, Some(1)), "{said}");

        // The last one to unsubscribe ends the subscription at the server.
        one.send("resources/unsubscribe", json!({"uri": TEXT})).await?;
        fixture.update(TEXT);
        assert_eq!(other.stream.next().await?, updated(TEXT, None), "{said}");
        other.send("resources/unsubscribe", json!({"uri": TEXT})).await?;
        until(&fixture, TEXT, 0).await?;
        let ended = one.send("resources/unsubscribe", json!({"uri": WATCHED})).await?;
        assert_eq!(ended["result"], json!({}), "{said}: {ended}");
        until(&fixture, WATCHED, 1).await.context(said.clone())?;
        fixture.update(WATCHED);
        assert_eq!(listening.next().await?, updated(WATCHED, Some(1)), "{said}");
        drop(listening);
        until(&fixture, WATCHED, 0).await.context(said)?;
    }
    Ok(())
}

#[tokio::test]
async fn subscriptions_outlive_a_restart_of_the_server_where_no_session_ends_with_it() -> Result<()> {
    // A session at a modern server, and a stream without a session at a legacy one.
    for era in [Era::Legacy, Era::Modern] {
        let (fixture, _folder, gateway) = published(era, "  filters: []\n").await?;
        let endpoint = gateway.endpoint(name_of(era));
        let (mut stream, tag, _session) = if era == Era::Modern {
            let mut session = Session::begin(&endpoint).await?;
            assert_eq!(session.subscribe(WATCHED).await?["result"], json!({}), "{era:?}");
            (std::mem::replace(&mut session.stream, Session::begin(&endpoint).await?.stream), None, Some(session))
        } else {
            let modern = Rpc::new(&endpoint, Era::Modern)?;
            let wanted = json!({"notifications": {"resourceSubscriptions": [WATCHED]}});
            let mut stream = Stream::open(modern.request("subscriptions/listen", wanted)).await?;
            stream.next().await?;
            (stream, Some(1), None)
        };
        let fixture = fixture.restart().await?;
        // An update may have been missed.
        assert_eq!(stream.next().await.with_context(|| format!("{era:?}"))?, updated(WATCHED, tag), "{era:?}");
        until(&fixture, WATCHED, 1).await?;
        fixture.update(WATCHED);
        assert_eq!(stream.next().await?, updated(WATCHED, tag), "{era:?}");
    }
    Ok(())
}

/// A server that restarts has lost its sessions and what belongs to them, so the caller's session ends and the caller starts over.
#[tokio::test]
async fn a_session_ends_with_that_of_the_server() -> Result<()> {
    let (fixture, _folder, gateway) = published(Era::Legacy, "  filters: []\n").await?;
    let endpoint = gateway.endpoint(name_of(Era::Legacy));
    let mut session = Session::begin(&endpoint).await?;
    assert_eq!(session.subscribe(WATCHED).await?["result"], json!({}));
    let fixture = fixture.restart().await?;
    let end = session.stream.next().await.expect_err("the stream ends");
    assert_eq!(end.to_string(), "the stream ends");
    let request = session.rpc.request("resources/subscribe", json!({"uri": WATCHED}));
    let answer = session.rpc.send(request.header("Mcp-Session-Id", &session.id)).await?;
    assert_eq!((answer.status, answer.message()?["error"]["code"].clone()), (404, json!(-32001)), "{answer:?}");
    let mut next = Session::begin(&endpoint).await?;
    assert_eq!(next.subscribe(WATCHED).await?["result"], json!({}));
    until(&fixture, WATCHED, 1).await?;
    fixture.update(WATCHED);
    assert_eq!(next.stream.next().await?, updated(WATCHED, None));
    Ok(())
}

#[tokio::test]
async fn an_enforced_exposition_has_no_subscriptions() -> Result<()> {
    let (fixture, folder) = (Fixture::start(Era::Legacy).await?, Folder::new()?);
    let documents = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: ServiceManifest\nmetadata: {{name: s}}\nspec:\n  version: '1'\n  mcp:\n    \
         url: '{}'\n    tools: {{test_simple_text: {{inputSchema: {{type: object}}}}}}\n---\napiVersion: tamis.dev/v1alpha1\n\
         kind: ToolsFilters\nmetadata: {{name: f}}\nspec: {{name: f, service: {{name: s, version: '1'}}, enforcement: Enforced, \
         filters: {{test_simple_text: {{passthrough: true}}}}}}\n---\napiVersion: tamis.dev/v1alpha1\nkind: Exposition\n\
         metadata: {{name: e}}\nspec: {{service: {{name: s, version: '1'}}, filters: [f]}}\n",
        fixture.url
    );
    folder.write("documents.yaml", &documents)?;
    let gateway = Gateway::start(folder.path()).await?;
    let session = Session::begin(&gateway.endpoint("e")).await?;
    let answer = session.subscribe(WATCHED).await?;
    assert_eq!(answer["error"]["code"], json!(-32601), "{answer}");
    let modern = Rpc::new(&gateway.endpoint("e"), Era::Modern)?;
    let wanted = json!({"notifications": {"resourceSubscriptions": [WATCHED]}});
    let mut stream = Stream::open(modern.request("subscriptions/listen", wanted)).await?;
    let first = stream.next().await?;
    assert_eq!(first["params"]["notifications"], json!({}), "{first}");
    assert_eq!(fixture.subscriptions(WATCHED), 0);
    Ok(())
}

#[tokio::test]
async fn only_published_resources_are_subscribed_to_and_not_too_many() -> Result<()> {
    let exclude = "  resources: {exclude: ['test://static-*']}\n  filters: []\n";
    let (fixture, _folder, gateway) = published(Era::Legacy, exclude).await?;
    let endpoint = gateway.endpoint(name_of(Era::Legacy));
    let session = Session::begin(&endpoint).await?;
    let long = format!("test://template/{}/data", "x".repeat(2 << 10));
    for (uri, code) in [(TEXT, -32002), ("test://unknown", -32002), (&long, -32602)] {
        let answer = session.subscribe(uri).await?;
        assert_eq!(answer["error"]["code"], json!(code), "{uri:.40}: {answer}");
    }
    assert_eq!(fixture.subscriptions(TEXT), 0);
    // Without a session there is nothing that the subscription belongs to.
    let answer = session.rpc.send(session.rpc.request("resources/subscribe", json!({"uri": WATCHED}))).await?;
    assert_eq!(answer.message()?["error"]["code"], json!(-32600), "{answer:?}");
    let uri = |n: usize| format!("test://template/{n}/data");
    for n in 0..64 {
        let answer = session.subscribe(&uri(n)).await?;
        assert_eq!(answer["result"], json!({}), "{n}: {answer}");
    }
    let answer = session.subscribe(&uri(64)).await?;
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("the session has too many subscriptions"), "{answer}");
    // One that exists counts once, and one that ends makes room.
    assert_eq!(session.subscribe(&uri(0)).await?["result"], json!({}));
    session.send("resources/unsubscribe", json!({"uri": uri(0)})).await?;
    assert_eq!(session.subscribe(&uri(64)).await?["result"], json!({}));

    let modern = Rpc::new(&endpoint, Era::Modern)?;
    let uris: Vec<String> = (0..65).map(uri).collect();
    let params = json!({"notifications": {"resourceSubscriptions": uris}});
    let answer = modern.send(modern.request("subscriptions/listen", params)).await?;
    assert_eq!(answer.message()?["error"]["code"], json!(-32602), "{answer:?}");
    Ok(())
}

#[tokio::test]
async fn a_capability_that_the_caller_lacks_is_an_error_of_the_protocol() -> Result<()> {
    let (_fixture, _folder, gateway) = published(Era::Modern, "  filters: []\n").await?;
    let endpoint = gateway.endpoint(name_of(Era::Modern));
    let (modern, legacy) = (Rpc::new(&endpoint, Era::Modern)?, Rpc::new(&endpoint, Era::Legacy)?);
    let answer = modern.call("test_missing_capability", &json!({})).await?;
    let error = answer.message()?["error"].clone();
    assert_eq!((answer.status, &error["code"]), (400, &json!(-32021)), "{error}");
    assert_eq!(error["data"]["requiredCapabilities"], json!({"sampling": {}}), "{error}");
    // A tool that asks for what the caller has not declared.
    let answer = modern.call("test_input_required_result_elicitation", &json!({})).await?;
    let error = answer.message()?["error"].clone();
    assert_eq!((answer.status, &error["code"]), (400, &json!(-32021)), "{error}");
    assert_eq!(error["data"]["requiredCapabilities"], json!({"elicitation": {}}), "{error}");
    // Earlier versions have no such error.
    let answer = legacy.call("test_missing_capability", &json!({})).await?;
    assert_eq!((answer.status, answer.message()?["result"]["isError"].clone()), (200, json!(true)), "{answer:?}");
    Ok(())
}
