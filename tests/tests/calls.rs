//! One API published twice, as published clients of both eras see it.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::{CLIENTS, Client, Era, Gateway, Rpc, Sdk, Upstream};

/// Both expositions of the sample service, served.
struct Sample {
    upstream: Upstream,
    gateway: Gateway,
    _folder: Folder,
}

async fn sample() -> Result<Sample> {
    let upstream = Upstream::start().await?;
    let folder = Folder::sample(&upstream)?;
    let gateway = Gateway::start(folder.path()).await?;
    Ok(Sample { upstream, gateway, _folder: folder })
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

/// A list as structured content, which is an object.
fn listed(list: &Value) -> Value {
    json!({ "result": list })
}

fn text(result: &Value) -> Result<Value> {
    let text = result["content"][0]["text"].as_str().with_context(|| format!("no text: {result}"))?;
    Ok(serde_json::from_str(text)?)
}

async fn sees_both_expositions(sample: &Sample, sdk: Sdk, era: Era) -> Result<()> {
    let issues = json!({"owner": "o", "repo": "r", "state": "open"});
    let mut internal = Client::connect(sdk, era, &sample.gateway.target("internal")).await?;
    assert_eq!(internal.hello.protocol_version == "2026-07-28", era == Era::Modern);
    assert_eq!(internal.hello.instructions.as_deref(), Some("A small issue tracker"));
    let tools = internal.list().await?;
    assert_eq!(names(&tools), ["list-issues", "get-issue", "slow", "status", "get-log", "echo"]);
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], json!(true), "{}", tools[0]);
    assert_eq!(tools[5]["annotations"]["readOnlyHint"], json!(false), "{}", tools[5]);

    let result = internal.result("list-issues", issues.clone()).await?;
    let expected = json!([
        {"number": 2, "title": "Issue 2", "by": "ada", "labels": ["bug", "help"]},
        {"number": 4, "title": "Issue 4", "by": "ada", "labels": ["bug", "help"]},
    ]);
    assert_eq!(text(&result)?, expected);
    assert_eq!(result["structuredContent"], listed(&expected));
    let issue = internal.result("get-issue", json!({"owner": "o", "repo": "r", "number": 1})).await?;
    assert_eq!(issue["structuredContent"]["user"]["email"], json!("REMOVED@example.com"));
    assert_eq!(issue["structuredContent"].get("token"), None);
    assert!(issue["content"][0]["text"].as_str().is_some_and(|text| text.contains("9007199254740993")), "{issue}");

    let mut partner = Client::connect(sdk, era, &sample.gateway.target("partner")).await?;
    assert_eq!(names(&partner.list().await?), ["list-issues", "get-issue", "slow", "status", "get-log"]);
    let result = partner.result("list-issues", issues).await?;
    assert_eq!(text(&result)?, json!([{"number": 2}, {"number": 4}]));
    assert_eq!(result["structuredContent"], listed(&json!([{"number": 2}, {"number": 4}])));
    for (tool, arguments) in [("status", json!({"code": 500})), ("get-log", json!({}))] {
        let refused = partner.result(tool, arguments).await?;
        assert_eq!(refused["isError"], json!(true), "{tool}: {refused}");
        assert!(!refused.to_string().contains("REMOVED") && !refused.to_string().contains("first"), "{refused}");
    }

    let unknown = partner.call("echo", json!({"text": "x"})).await?.expect_err("is not published");
    assert_eq!(unknown.code, Some(-32602), "{}", unknown.error);
    let before = sample.upstream.calls();
    let invalid = internal.result("get-issue", json!({"owner": "o", "repo": "r", "number": "one"})).await?;
    assert_eq!(invalid["isError"], json!(true), "{invalid}");
    assert_eq!(sample.upstream.calls(), before, "an invalid call went upstream");
    Ok(())
}

macro_rules! each_client {
    ($($name:ident: $sdk:ident $era:ident),+ $(,)?) => {$(
        #[tokio::test]
        async fn $name() -> Result<()> {
            assert!(CLIENTS.contains(&(Sdk::$sdk, Era::$era)));
            sees_both_expositions(&sample().await?, Sdk::$sdk, Era::$era).await
        }
    )+};
}

each_client! {
    python_1: Python1 Legacy,
    python_2_legacy: Python2 Legacy,
    python_2_modern: Python2 Modern,
    typescript_1: TypeScript1 Legacy,
    typescript_2_legacy: TypeScript2 Legacy,
    typescript_2_modern: TypeScript2 Modern,
    rmcp_legacy: Rmcp Legacy,
    rmcp_modern: Rmcp Modern,
}

#[tokio::test]
async fn cancelling_a_call_cancels_the_upstream_request() -> Result<()> {
    let sample = sample().await?;
    for &(sdk, era) in CLIENTS {
        let before = sample.upstream.abandoned();
        let mut client = Client::connect(sdk, era, &sample.gateway.target("internal")).await?;
        assert!(client.cancel("slow", json!({"ms": 20_000}), Duration::from_millis(300)).await?, "{sdk:?} {era:?}");
        let mut waited = 0;
        while sample.upstream.abandoned() == before {
            assert!(waited < 300, "{sdk:?} {era:?}: the upstream still works on it");
            waited += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(sample.upstream.waiting(), 0);
        // The connection still works.
        client.result("slow", json!({"ms": 1})).await?;
    }
    Ok(())
}

#[tokio::test]
async fn requests_from_another_origin_are_rejected() -> Result<()> {
    let sample = sample().await?;
    for era in [Era::Legacy, Era::Modern] {
        let rpc = Rpc::new(&sample.gateway.endpoint("internal"), era)?;
        let list = |origin: &str| rpc.send(rpc.request("tools/list", json!({})).header("Origin", origin));
        assert_eq!(list("http://evil.example").await?.status, 403);
        assert_eq!(list("null").await?.status, 403);
        assert_eq!(list(&sample.gateway.url).await?.status, 200);
    }
    Ok(())
}

#[tokio::test]
async fn unknown_expositions_methods_and_cursors_are_errors() -> Result<()> {
    let sample = sample().await?;
    let rpc = Rpc::new(&sample.gateway.endpoint("nobody"), Era::Modern)?;
    assert_eq!(rpc.send(rpc.request("tools/list", json!({}))).await?.status, 404);
    let rpc = Rpc::new(&sample.gateway.endpoint("internal"), Era::Modern)?;
    let unknown = rpc.send(rpc.request("tools/frobnicate", json!({}))).await?;
    assert_eq!((unknown.status, &unknown.message()?["error"]["code"]), (404, &json!(-32601)));
    let cursor = rpc.send(rpc.request("tools/list", json!({"cursor": "made up"}))).await?;
    assert_eq!(cursor.message()?["error"]["code"], json!(-32602));
    Ok(())
}

#[tokio::test]
async fn metrics_count_calls_and_logs_omit_payloads() -> Result<()> {
    let sample = sample().await?;
    let internal = Rpc::new(&sample.gateway.endpoint("internal"), Era::Modern)?;
    let partner = Rpc::new(&sample.gateway.endpoint("partner"), Era::Modern)?;
    let issue = json!({"owner": "o", "repo": "r", "number": 1});
    for _ in 0..3 {
        internal.call("get-issue", &issue).await?.text_block()?;
    }
    partner.call("get-issue", &issue).await?.text_block()?;
    partner.call("status", &json!({"code": 500})).await?;
    let gateway = &sample.gateway;
    let labels = ["namespace=\"default\"", "exposition=\"internal\"", "tool=\"get-issue\""];
    assert_eq!(gateway.metric("tamis_tool_calls_total", &labels).await?, 3.0);
    let input = gateway.metric("tamis_filter_input_bytes_total", &labels).await?;
    let output = gateway.metric("tamis_filter_output_bytes_total", &labels).await?;
    assert!(output > 0.0 && input > output, "{input} {output}");
    assert_eq!(gateway.metric("tamis_config_expositions", &[]).await?, 2.0);
    let log = gateway.log();
    assert!(!log.contains("REMOVED"), "{log}");
    assert!(!gateway.admin("/metrics").await?.contains("REMOVED"));
    Ok(())
}
