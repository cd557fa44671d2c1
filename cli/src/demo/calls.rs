//! The demo's calls, by a real MCP client over HTTP.

use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use tamis_engine::json::{parse, to_string};

use super::table::{Row, compact_len, saved};
use super::tokens::Counts;
use super::upstream::LastAnswer;

/// The services, in the order of the table.
const SERVICES: [&str; 3] = ["github", "notion", "slack"];
/// The audiences for which each service is published.
const AUDIENCES: [&str; 2] = ["internal", "partner"];

/// The number of calls whose time in the filter is averaged.
const MEASURED: u32 = 5;

fn calls(service: &str) -> Vec<(&'static str, Value)> {
    match service {
        "github" => vec![
            ("list-repos", json!({"username": "gagbo"})),
            ("list-issues", json!({"owner": "Codertocat", "repo": "Hello-World"})),
            ("get-issue", json!({"owner": "Codertocat", "repo": "Hello-World", "number": 2})),
        ],
        "notion" => vec![("query-database", json!({"database_id": "d9824bdc-8445-4327-be8b-5b47500af6ce"}))],
        _ => vec![("get-channel-history", json!({"channel": "C0123456789"}))],
    }
}

/// Returns the names of all expositions that the demo calls.
pub(super) fn expositions() -> impl Iterator<Item = String> {
    SERVICES.iter().flat_map(|service| AUDIENCES.iter().map(move |audience| format!("{service}-{audience}")))
}

/// Calls every tool of every exposition, first once to open connections, then a few times.
pub(super) async fn table(
    gateway: SocketAddr,
    admin: SocketAddr,
    last: &LastAnswer,
    counts: &Counts,
    enforcement: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Vec<Row>> {
    let http = reqwest::Client::builder().build().context("no HTTP client")?;
    let mut rows = Vec::new();
    for service in SERVICES {
        for audience in AUDIENCES {
            let exposition = format!("{service}-{audience}");
            let url = format!("http://{gateway}/mcp/default/{exposition}");
            let client =
                ().serve(StreamableHttpClientTransport::from_uri(url.clone()))
                    .await
                    .with_context(|| format!("no MCP client can connect to {url}"))?;
            for (tool, arguments) in calls(service) {
                let call = || async {
                    let arguments = arguments.as_object().cloned().unwrap_or_default();
                    let result = client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await;
                    let result = result.with_context(|| format!("{exposition}: {tool}"))?;
                    let text: String =
                        result.content.iter().filter_map(|c| c.as_text()).map(|t| t.text.as_str()).collect();
                    if result.is_error == Some(true) {
                        bail!("{exposition}: {tool} answers: {text}");
                    }
                    Ok(text)
                };
                call().await?;
                let before = filter_seconds(&http, admin).await?;
                let mut text = String::new();
                for _ in 0..MEASURED {
                    text = call().await?;
                }
                let after = filter_seconds(&http, admin).await?;
                let body = last.body();
                let compact = compact_len(&body);
                let compact_json = parse(body.as_bytes(), 128).map_or_else(|_| body.clone(), |body| to_string(&body));
                let (format, auto) = counts.formats(tool, audience, &body);
                rows.push(Row {
                    tool: tool.into(),
                    enforcement: enforcement(&exposition).unwrap_or_default(),
                    exposition: exposition.clone(),
                    upstream_bytes: body.len(),
                    compact_json_bytes: compact,
                    model_bytes: text.len(),
                    compact_json_tokens: counts.count(&compact_json),
                    model_tokens: counts.count(&text),
                    format,
                    auto,
                    saved_of_upstream: saved(body.len(), text.len()),
                    saved_of_compact_json: saved(compact, text.len()),
                    filter_micros: ((after - before) / f64::from(MEASURED) * 1e7).round() / 10.0,
                });
            }
            client.cancel().await.context("the client does not end")?;
        }
    }
    Ok(rows)
}

/// Returns the seconds spent in filters since the start, from `/metrics`.
async fn filter_seconds(http: &reqwest::Client, admin: SocketAddr) -> anyhow::Result<f64> {
    let url = format!("http://{admin}/metrics");
    let text = http.get(&url).send().await.with_context(|| format!("cannot read {url}"))?.text().await?;
    Ok(sum_of(&text, "tamis_filter_duration_seconds_sum"))
}

/// Returns the sum of all samples of a metric.
fn sum_of(metrics: &str, name: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?.strip_prefix(['{', ' '])?;
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    };
    metrics.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_added() {
        let metrics = "# HELP a_sum x\na_sum{exposition=\"e\",tool=\"t u\"} 0.5\na_sum 1e-1\n\
                       a_sum_more{exposition=\"e\"} 9\na_count{exposition=\"e\"} 3\n";
        assert!((sum_of(metrics, "a_sum") - 0.6).abs() < 1e-9);
        assert!(sum_of("", "a_sum").abs() < 1e-9);
    }
}
