//! Saved tokens: the estimate next to exact counts by another library, and what becomes of the sample.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tamis_tests::documents::Folder;
use tamis_tests::{Era, Gateway, Rpc, Upstream, root};
use tiktoken_rs::o200k_base_singleton;

/// One API for two audiences. A budget in tokens, which no answer reaches, has the gateway load a vocabulary.
const DOCUMENTS: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: data}
spec:
  name: data
  version: "1.0.0"
  http: {baseUrl: URL, actions: {get: {method: GET, path: /document}}}
---
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: sampled}
spec:
  name: sampled
  service: {name: data, version: "1.0.0"}
  enforcement: Enforced
  filters: {get: {root: "ROOT", select: SELECT, dropNulls: true}}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: sampled}
spec: {service: {name: data, version: "1.0.0"}, filters: [sampled]}
"#;

const COUNTING: &str = r#"
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: counting}
spec: {service: {name: data, version: "1.0.0"}, filters: [], limits: {output: {tokens: 1000000000}}}
"#;

/// Tools whose outputs differ: the payload, where its list is, and the fields that are kept.
const PAYLOADS: [(&str, &str, &str); 4] = [
    ("github-list-issues", "", "{number: number, title: title, by: user.login, labels: \"labels[*].name\"}"),
    ("github-list-repos", "", "{name: full_name, about: description, stars: stargazers_count, at: pushed_at}"),
    ("notion-query-database", "/results", "{id: id, url: url, edited: last_edited_time}"),
    ("slack-channel-history", "/messages", "{by: user, text: text, at: ts}"),
];

fn count(text: &str) -> u64 {
    o200k_base_singleton().encode_ordinary(text).len() as u64
}

/// Returns the value of a series whose line begins with `series`.
async fn value(gateway: &Gateway, series: &str) -> Result<Option<u64>> {
    let text = gateway.admin("/metrics").await?;
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
    Ok(line)
}

const SAVED: &str =
    "tamis_filter_saved_tokens_estimate_total{exposition=\"sampled\",namespace=\"default\",tool=\"get\"}";
const SAMPLE: &str = "tamis_filter_token_sample_bytes_total{tokenizer=\"o200k_base\"}";

#[tokio::test(flavor = "multi_thread")]
async fn saved_tokens_are_within_a_twentieth_of_an_exact_count_where_a_vocabulary_is_loaded() -> Result<()> {
    for (payload, list, select) in PAYLOADS {
        let body = std::fs::read_to_string(root().join(format!("examples/payloads/{payload}.json")))?;
        for (documents, is_sampled) in [(format!("{DOCUMENTS}---{COUNTING}"), true), (DOCUMENTS.to_owned(), false)] {
            let upstream = Upstream::start().await?;
            upstream.set_document(200, &body);
            let folder = Folder::new()?;
            let documents = documents.replace("URL", &upstream.url).replace("ROOT", list).replace("SELECT", select);
            folder.write("data.yaml", &documents)?;
            let gateway = Gateway::start(folder.path()).await?;
            let rpc = Rpc::new(&gateway.endpoint("sampled"), Era::Modern)?;
            let answer = rpc.call("get", &json!({})).await?;
            let exact = count(&body) - count(&answer.text_block()?);
            let began = Instant::now();
            let estimate = loop {
                // The thread that counts the sample adds the estimate of the call.
                match value(&gateway, SAVED).await?.context("the series begins with the call")? {
                    0 => ensure!(began.elapsed() < Duration::from_secs(30), "nothing is counted\n{}", gateway.log()),
                    estimate => break estimate,
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            let sample = value(&gateway, SAMPLE).await?.context("the sample's series")?;
            println!("{payload}: {exact} tokens saved, estimated as {estimate} by a sample of {sample} bytes");
            if is_sampled {
                assert!(estimate.abs_diff(exact) * 20 <= exact, "{payload}: {estimate}, exactly {exact}");
                assert!((1..=8 << 10).contains(&sample), "{sample}");
            } else {
                let bytes = |text: &str| (text.len() as u64 * 2).div_ceil(7);
                assert_eq!(estimate, bytes(&body) - bytes(&answer.text_block()?));
                assert_eq!(sample, 0);
            }
            // A second call within ten seconds is counted, but not sampled.
            rpc.call("get", &json!({})).await?.text_block()?;
            assert!(value(&gateway, SAVED).await?.is_some_and(|twice| twice.abs_diff(2 * estimate) <= 4));
            assert_eq!(value(&gateway, SAMPLE).await?, Some(sample));
        }
    }
    Ok(())
}

/// What an `Enforced` filter removes is in the sample. It shows neither in metrics nor in the log, and answers do not
/// depend on it.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_sample_but_its_size_is_seen() -> Result<()> {
    let upstream = Upstream::start().await?;
    let folder = Folder::new()?;
    let documents = format!("{DOCUMENTS}---{COUNTING}").replace("URL", &upstream.url);
    folder.write("data.yaml", &documents.replace("ROOT", "").replace("SELECT", "{id: id}"))?;
    let gateway = Gateway::start(folder.path()).await?;
    let rpc = Rpc::new(&gateway.endpoint("sampled"), Era::Modern)?;
    let mut answers = Vec::new();
    for secret in ["zyxwvut-one", "<|endoftext|> \u{1F9C0} zyxwvut-two two"] {
        let items: Vec<_> = (0..50).map(|id| json!({"id": id, "secret": secret.repeat(10)})).collect();
        upstream.set_document(200, &serde_json::Value::from(items).to_string());
        answers.push(rpc.call("get", &json!({})).await?.text_block()?);
    }
    assert_eq!(answers[0], answers[1]);
    let began = Instant::now();
    while value(&gateway, SAMPLE).await?.unwrap_or(0) == 0 {
        ensure!(began.elapsed() < Duration::from_secs(30), "nothing is counted\n{}", gateway.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seen = gateway.admin("/metrics").await? + &gateway.log();
    assert!(!seen.contains("zyxwvut"), "{seen}");
    Ok(())
}
