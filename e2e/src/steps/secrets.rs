//! The upstream's credential is rotated under load, then a caller's key.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tamis_tests::cluster::eventually;

use super::Stage;
use crate::image::digest;
use crate::load::{Load, Question};

const SOON: Duration = Duration::from_secs(60);

pub(super) async fn run(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    let question = Question { tool: "echo", arguments: json!({}), wrong: no_token, ..node.watched().await? };
    let load = Load::start(&question, 4, Duration::from_millis(10))?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for token in ["second", "third", "first"] {
        let change = format!(r#"{{"stringData":{{"token":"{token}"}}}}"#);
        node.cluster().kubectl(&["-n", "team-a", "patch", "secret", "tracker", "--patch", &change], None).await?;
        let expected = json!({"headers": {"authorization": format!("Bearer {token}")}});
        eventually(&format!("the upstream is sent `{token}`"), SOON, async || {
            // Each call opens a connection, which leads to either gateway.
            for _ in 0..8 {
                if question.once().await? != expected {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await?;
    }
    let upstream = load.end_without_failure()?;
    Ok(format!("3 credentials: {upstream}; {}", callers(stage).await?))
}

fn no_token(answer: &Value) -> Option<&'static str> {
    let sent = answer["headers"]["authorization"].as_str();
    let known = ["Bearer first", "Bearer second", "Bearer third"];
    sent.is_none_or(|sent| !known.contains(&sent)).then_some("not the credential")
}

/// Adds a caller's key, uses it, and removes the other one.
async fn callers(stage: &Stage) -> Result<String> {
    let node = &stage.node;
    let endpoint = node.watched().await?.endpoint.replace("watched", "keyed");
    let (old, new) = ("old-key-of-32-characters-or-more", "new-key-of-32-characters-or-more");
    node.cluster().apply(&keyed(old, None)).await?;
    node.is_ready("Exposition", "expositions", "keyed").await?;
    let status = async |key: &str| -> Result<u16> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
        let request = reqwest::Client::new().post(&endpoint).bearer_auth(key).body(body);
        let request = request.header("Content-Type", "application/json");
        Ok(request.header("Accept", "application/json, text/event-stream").send().await?.status().as_u16())
    };
    let becomes = async |what: &str, key: &str, expected: u16| {
        eventually(what, SOON, async || {
            for _ in 0..8 {
                if status(key).await? != expected {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await
    };
    becomes("the old key is accepted", old, 200).await?;
    ensure!(status(new).await? == 401, "an unknown key is accepted");
    node.cluster().apply(&keyed(old, Some(new))).await?;
    becomes("the new key is accepted", new, 200).await?;
    ensure!(status(old).await? == 200, "the old key is refused although both exist");
    let began = std::time::Instant::now();
    node.cluster().kubectl(&["-n", "team-a", "delete", "secret", "callers"], None).await?;
    node.cluster().apply(&keyed(new, None)).await?;
    becomes("the old key is refused", old, 401).await?;
    let took = began.elapsed();
    becomes("the new key is accepted again", new, 200).await?;
    node.kubectl("-n team-a delete exposition/keyed secret/callers").await?;
    Ok(format!("every gateway refused a caller's key {took:.1?} after its removal"))
}

fn keyed(key: &str, another: Option<&str>) -> String {
    let keys: Value = [Some(("first", key)), another.map(|key| ("second", key))]
        .into_iter()
        .flatten()
        .map(|(name, key)| (name.to_owned(), json!(format!("sha256:{}", digest(key.as_bytes())))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "callers", "namespace": "team-a", "labels": {"tamis.dev/credentials": "callers"}},
        "stringData": keys,
    });
    let exposition = json!({
        "apiVersion": "tamis.dev/v1alpha1", "kind": "Exposition",
        "metadata": {"name": "keyed", "namespace": "team-a"},
        "spec": {
            "service": {"name": "tracker", "version": "1.0.0"},
            "gatewayGroup": {"name": "public", "namespace": "tamis-public"},
            "filters": ["watched"],
            "access": {"apiKeys": {"secretRef": {"name": "callers"}}},
        },
    });
    format!("{secret}\n---\n{exposition}\n")
}
