//! Traces of calls, taken by a real OpenTelemetry Collector: one trace from the caller through the gateway to the
//! upstream, off unless asked for, and never in the way of a call.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::eventually;
use tamis_tests::collector::{Collector, Span};
use tamis_tests::documents::Folder;
use tamis_tests::{Era, Gateway, Options, Rpc, Upstream, binary};

const SOON: Duration = Duration::from_secs(30);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const OPEN: &str = "
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: open}
spec: {service: {name: tracker, version: 1.0.0}, filters: []}
";
/// An argument that has no business in a trace.
const PRIVATE: &str = "PRIVATE-argument";

fn sampled() -> String {
    format!("00-{TRACE}-{CALLER}-01")
}

/// The sample service, an upstream for it, and a gateway.
struct TestEnv {
    upstream: Upstream,
    folder: Folder,
}

impl TestEnv {
    async fn new() -> Result<Self> {
        let upstream = Upstream::start().await?;
        let folder = Folder::sample(&upstream)?;
        folder.write("open.yaml", OPEN)?;
        Ok(Self { upstream, folder })
    }

    /// Spans leave soon, so that tests are quick, unless a test says otherwise.
    async fn gateway(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Gateway> {
        let environment = [("OTEL_BSP_SCHEDULE_DELAY", "50")].iter().chain(environment);
        let options = Options {
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            environment: environment.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            ..Options::default()
        };
        Gateway::with(self.folder.path(), &options).await
    }
}

/// Calls a tool as a client does that is part of a trace; the answer's text.
async fn call(gateway: &Gateway, tool: &str, arguments: Value, headers: &[(&'static str, &str)]) -> Result<String> {
    let rpc = Rpc::new(&gateway.endpoint("open"), Era::Legacy)?;
    let request = rpc.request("tools/call", json!({"name": tool, "arguments": arguments}));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    Ok(rpc.send(request).await?.text)
}

/// The headers that the upstream got.
async fn echoed(gateway: &Gateway, headers: &[(&'static str, &str)]) -> Result<Value> {
    let text = call(gateway, "echo", json!({"text": PRIVATE}), headers).await?;
    let answer: Value = serde_json::from_str(&text)?;
    let echo: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().context("no text")?)?;
    Ok(echo["headers"].clone())
}

fn of_kind(spans: &[Span], kind: u64) -> Result<&Span> {
    spans.iter().find(|span| span.kind == kind).with_context(|| format!("no span of kind {kind}: {spans:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_one_trace_from_the_caller_to_the_upstream() -> Result<()> {
    let (env, collector) = (TestEnv::new().await?, Collector::start().await?);
    let gateway = env.gateway(&["--otlp-endpoint", &collector.endpoint()], &[]).await?;
    let seen = echoed(&gateway, &[("traceparent", &sampled()), ("tracestate", "vendor=1,other=2")]).await?;
    let spans = collector.trace(TRACE, 3).await?;
    let (server, client, filter) = (of_kind(&spans, 2)?, of_kind(&spans, 3)?, of_kind(&spans, 1)?);
    ensure!(server.parent == CALLER && client.parent == server.id && filter.parent == server.id, "{spans:?}");
    ensure!(seen["traceparent"] == format!("00-{TRACE}-{}-01", client.id), "{seen}");
    ensure!(seen["tracestate"] == "vendor=1,other=2", "{seen}");
    for (span, key, value) in [
        (server, "mcp.method.name", "tools/call"),
        (server, "gen_ai.tool.name", "echo"),
        (server, "tamis.namespace", "default"),
        (server, "tamis.exposition", "open"),
        (server, "tamis.outcome", "ok"),
        (server, "jsonrpc.request.id", "1"),
        (client, "http.request.method", "POST"),
        (client, "url.template", "/echo"),
        (client, "http.response.status_code", "200"),
        (client, "server.address", "127.0.0.1"),
    ] {
        ensure!(span.attribute(key) == value, "{key}: {span:?}");
    }
    ensure!(server.name == "tools/call echo" && client.name == "POST /echo" && filter.name == "filter", "{spans:?}");
    ensure!(filter.attribute("tamis.filter.input_bytes").parse::<u64>()? > 0, "{filter:?}");
    ensure!(spans.iter().all(|span| span.status == 0), "{spans:?}");
    ensure!(server.resource.get("service.name").is_some_and(|name| name == "tamis-gateway"), "{server:?}");
    ensure!(!collector.text().contains(PRIVATE), "an argument is in the spans: {}", collector.text());
    // The audit record names the trace. It is written a few milliseconds after the answer.
    eventually("the audit record names the trace", Duration::from_secs(10), async || {
        Ok(gateway.log().contains(&format!("trace_id=\"{TRACE}\"")).then_some(()))
    })
    .await?;
    Ok(())
}

/// A connection carries messages of many traces: what the message says comes first (MCP, SEP-414).
#[tokio::test(flavor = "multi_thread")]
async fn the_trace_of_a_message_takes_precedence() -> Result<()> {
    let (env, collector) = (TestEnv::new().await?, Collector::start().await?);
    let gateway = env.gateway(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint())]).await?;
    let rpc = Rpc::new(&gateway.endpoint("open"), Era::Legacy)?;
    let params = json!({"name": "get-log", "arguments": {}, "_meta": {"traceparent": sampled()}});
    let other = format!("00-{}-{CALLER}-01", "1".repeat(32));
    rpc.send(rpc.request("tools/call", params).header("traceparent", other)).await?.text_block()?;
    ensure!(of_kind(&collector.trace(TRACE, 3).await?, 2)?.parent == CALLER);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_marked_and_each_request_is_a_span() -> Result<()> {
    let (env, collector) = (TestEnv::new().await?, Collector::start().await?);
    let manifest = tamis_tests::documents::manifest(&env.upstream).replace(
        "        request: {pathParams: {code: \"{code}\"}}\n",
        "        request: {pathParams: {code: \"{code}\"}}\n        retry: {maxAttempts: 2, backoffMs: 1}\n",
    );
    env.folder.write("manifest.yaml", &manifest)?;
    let gateway = env.gateway(&["--otlp-endpoint", &collector.endpoint()], &[]).await?;
    call(&gateway, "status", json!({"code": 503}), &[("traceparent", &sampled())]).await?;
    let spans = collector.trace(TRACE, 3).await?;
    let server = of_kind(&spans, 2)?;
    ensure!(server.status == 2 && server.attribute("error.type") == "upstream_error", "{server:?}");
    let requests: Vec<&Span> = spans.iter().filter(|span| span.kind == 3).collect();
    ensure!(requests.len() == 2, "{spans:?}");
    ensure!(requests.iter().all(|span| span.status == 2 && span.attribute("error.type") == "503"), "{requests:?}");
    ensure!(requests.iter().all(|span| span.attribute("url.template") == "/status/{code}"), "{requests:?}");
    ensure!(requests.iter().any(|span| span.attribute("tamis.request.number") == "2"), "{requests:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_callers_sampling_decision_holds() -> Result<()> {
    let (env, collector) = (TestEnv::new().await?, Collector::start().await?);
    let gateway = env.gateway(&["--otlp-endpoint", &collector.endpoint(), "--trace-sampling", "0"], &[]).await?;
    // Without a decision of the caller, nothing is sampled.
    let seen = echoed(&gateway, &[]).await?;
    ensure!(seen["traceparent"].as_str().is_some_and(|parent| parent.ends_with("-00")), "{seen}");
    let left_out = format!("00-{}-{CALLER}-00", "2".repeat(32));
    let seen = echoed(&gateway, &[("traceparent", &left_out)]).await?;
    let expected = format!("00-{}-", "2".repeat(32));
    let parent = seen["traceparent"].as_str().unwrap_or_default();
    ensure!(parent.starts_with(&expected) && parent.ends_with("-00") && parent != left_out, "{seen}");
    echoed(&gateway, &[("traceparent", &sampled())]).await?;
    collector.trace(TRACE, 3).await?;
    ensure!(collector.spans()?.iter().all(|span| span.trace == TRACE), "{:?}", collector.spans());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_traced_by_default() -> Result<()> {
    let (env, collector) = (TestEnv::new().await?, Collector::start().await?);
    let endpoint = collector.endpoint();
    let disabled = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_SDK_DISABLED", "true")];
    for environment in [&[][..], &disabled] {
        let gateway = env.gateway(&[], environment).await?;
        let seen = echoed(&gateway, &[("traceparent", &sampled()), ("tracestate", "vendor=1")]).await?;
        ensure!(seen["traceparent"].is_null() && seen["tracestate"].is_null(), "{seen}");
        ensure!(!gateway.log().contains("trace_id"), "{}", gateway.log());
    }
    ensure!(collector.spans()?.is_empty());
    Ok(())
}

/// An unreachable collector costs spans and one line in the log, but no call.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_collector_delays_no_call() -> Result<()> {
    let (env, mut collector) = (TestEnv::new().await?, Collector::reserve()?);
    let endpoint = collector.endpoint();
    let hurried = [("OTEL_EXPORTER_OTLP_TIMEOUT", "200")];
    let gateway = env.gateway(&["--otlp-endpoint", &endpoint], &hurried).await?;
    for _ in 0..20 {
        echoed(&gateway, &[]).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let said = || gateway.log().matches("the collector takes no spans").count();
    eventually("the trouble is said", SOON, async || Ok((said() > 0).then_some(()))).await?;
    collector.run().await?;
    eventually("spans arrive again", SOON, async || {
        echoed(&gateway, &[]).await?;
        Ok((!collector.spans()?.is_empty()).then_some(()))
    })
    .await?;
    let log = gateway.log();
    ensure!(log.contains("the collector takes spans again") && said() == 1, "{log}");
    Ok(())
}

/// Spans that wait are sent before the process ends.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_spans_are_sent_on_shutdown() -> Result<()> {
    let (env, collector) = (TestEnv::new().await?, Collector::start().await?);
    let group = format!(
        "apiVersion: tamis.dev/v1alpha1\nkind: GatewayGroup\nmetadata: {{name: default}}\n\
         spec: {{tracing: {{endpoint: \"{}\", samplingRatePerMillion: 1000000}}}}\n",
        collector.endpoint()
    );
    env.folder.write("group.yaml", &group)?;
    let mut gateway = env.gateway(&[], &[("OTEL_BSP_SCHEDULE_DELAY", "600000")]).await?;
    echoed(&gateway, &[("traceparent", &sampled())]).await?;
    gateway.terminate()?;
    let status = gateway.ended(SOON).await?;
    ensure!(status.success(), "{status}: {}", gateway.log());
    collector.trace(TRACE, 3).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_options_are_rejected_at_startup() -> Result<()> {
    let env = TestEnv::new().await?;
    let run = |arguments: &[&str], variable: (&str, &str)| -> Result<(Option<i32>, String)> {
        let serve = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let mut command = Command::new(binary("tamis")?);
        command.arg("serve").arg(env.folder.path()).args(serve).args(arguments).env(variable.0, variable.1);
        let output = command.output()?;
        Ok((output.status.code(), String::from_utf8(output.stderr)?))
    };
    let none = ("OTEL_SERVICE_NAME", "");
    let (code, said) = run(&["--otlp-endpoint", "http://user:hunter2@localhost"], none)?;
    ensure!(code == Some(1) && said.contains("OTEL_EXPORTER_OTLP_HEADERS") && !said.contains("hunter2"), "{said}");
    let (code, said) = run(&["--otlp-endpoint", "localhost:4317"], none)?;
    ensure!(code == Some(1) && said.contains("write http://HOST:4318"), "{said}");
    let (code, said) = run(&["--otlp-endpoint", "http://localhost", "--trace-sampling", "2"], none)?;
    ensure!(code == Some(1) && said.contains("from 0 to 1"), "{said}");
    let (code, said) = run(&["--otlp-endpoint", "http://localhost"], ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"))?;
    ensure!(code == Some(1) && said.contains("only http/protobuf"), "{said}");
    Ok(())
}
