//! Credentials towards upstreams and keys of callers: no upstream sees another's, and a revocation waits for nothing.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::routing::get;
use serde_json::{Value, json};
use tamis_config::names;
use tamis_tests::cluster::TestEnv;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::calls::Calls;
use crate::steps::{SOON, config_of, narrow, of_group, recreated};

/// An upstream that remembers each `Authorization` that it was sent.
struct Recorder {
    port: u16,
    seen: Arc<Mutex<BTreeSet<String>>>,
    server: JoinHandle<()>,
}

impl Recorder {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let port = listener.local_addr()?.port();
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let router = axum::Router::new()
            .route("/repos/{owner}/{repo}/issues/{number}", get(record))
            .with_state((port, Arc::clone(&seen)));
        let server = tokio::spawn(async move {
            // Only an error of the listener ends this, and then the test's calls fail.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { port, seen, server })
    }

    /// What it was sent so far.
    fn seen(&self) -> BTreeSet<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn record(State((port, seen)): State<(u16, Arc<Mutex<BTreeSet<String>>>)>, headers: HeaderMap) -> String {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("none");
    seen.lock().unwrap_or_else(PoisonError::into_inner).insert(sent.to_owned());
    json!({"number": port}).to_string()
}

/// The Secret of upstreams, whose value may go to a host as a bearer token.
fn upstream_secret(name: &str, token: &str, host: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "labels": {"tamis.dev/credentials": "upstream"},
            "annotations": {"tamis.dev/allowed-use": format!("{host} bearer")},
        },
        "stringData": {"token": token},
    })
    .to_string()
}

/// A service of one tool at a port, with the token of a Secret.
fn manifest(port: u16, secret: &str) -> String {
    json!({
        "apiVersion": "tamis.dev/v1alpha1",
        "kind": "ServiceManifest",
        "metadata": {"name": "tracker", "namespace": "team-a"},
        "spec": {
            "name": "tracker",
            "version": "1.0.0",
            "http": {
                "baseUrl": format!("http://127.0.0.1:{port}"),
                "auth": {"type": "bearer", "secretRef": {"name": secret, "key": "token"}},
                "actions": {"get-issue": {
                    "description": "One issue",
                    "method": "GET",
                    "path": "/repos/{owner}/{repo}/issues/{number}",
                    "args": {
                        "owner": {"type": "string", "required": true},
                        "repo": {"type": "string", "required": true},
                        "number": {"type": "integer", "required": true},
                    },
                    "request": {"pathParams": {"owner": "{owner}", "repo": "{repo}", "number": "{number}"}},
                }},
            },
        },
    })
    .to_string()
}

async fn answers_from(env: &TestEnv, exposition: &str, port: u16) -> Result<()> {
    let found = tamis_tests::cluster::eventually("the upstream", SOON, async || {
        let answer = env.issue(exposition).await?;
        Ok(answer.ok().filter(|issue| issue["number"] == json!(port)))
    });
    found.await.map(drop)
}

/// The manifest names another URL and another Secret in one edit, then the one Secret moves to another host with a new
/// value; and a Secret that may not be used, or may not be used there, stops the exposition until it may.
#[tokio::test(flavor = "multi_thread")]
async fn no_upstream_sees_the_credential_of_another() -> Result<()> {
    let env = TestEnv::start().await?;
    let (a, b) = (Recorder::start().await?, Recorder::start().await?);
    let host = |recorder: &Recorder| format!("127.0.0.1:{}", recorder.port);
    env.cluster.apply(&manifest(a.port, "one")).await?;
    env.cluster.apply(&TestEnv::exposition("open", &json!({"filters": []}))).await?;

    // Missing, then there but not labelled, then labelled for another host, then for this one.
    env.condition_is("exposition", "open", "ResolvedRefs", "False", "SecretNotFound").await?;
    let mut bare: Value = serde_json::from_str(&upstream_secret("one", "token-a", &host(&a)))?;
    bare["metadata"]["labels"] = json!({});
    env.cluster.apply(&bare.to_string()).await?;
    env.condition_is("exposition", "open", "ResolvedRefs", "False", "SecretNotLabelled").await?;
    env.issue_stopped("open", "").await?;
    env.cluster.apply(&upstream_secret("one", "token-a", "example.com")).await?;
    env.condition_is("exposition", "open", "ResolvedRefs", "False", "SecretUseNotAllowed").await?;
    ensure!(a.seen().is_empty(), "{:?}", a.seen());
    env.cluster.apply(&upstream_secret("one", "token-a", &host(&a))).await?;
    answers_from(&env, "open", a.port).await?;

    // In one edit of the manifest, there and back.
    env.cluster.apply(&upstream_secret("two", "token-b", &host(&b))).await?;
    let calls = Calls::of(&env, "open")?;
    for round in 0..6 {
        let (port, secret) = if round % 2 == 0 { (b.port, "two") } else { (a.port, "one") };
        env.cluster.apply(&manifest(port, secret)).await?;
        answers_from(&env, "open", port).await?;
    }
    // The Secret goes to another host with another value, then the manifest follows.
    env.cluster.apply(&upstream_secret("one", "token-b", &host(&b))).await?;
    env.issue_stopped("open", "may not be used").await?;
    env.cluster.apply(&manifest(b.port, "one")).await?;
    answers_from(&env, "open", b.port).await?;
    // Both at once, neither waits for the other.
    let (secret, edited) = (upstream_secret("one", "token-a", &host(&a)), manifest(a.port, "one"));
    tokio::try_join!(env.cluster.apply(&secret), env.cluster.apply(&edited))?;
    answers_from(&env, "open", a.port).await?;
    let answers = calls.end().await?;
    ensure!(answers.iter().filter(|answer| answer.is_ok()).count() > 20, "{} answers", answers.len());

    // A value that rotates, while it is in use.
    env.cluster.apply(&upstream_secret("one", "token-a2", &host(&a))).await?;
    let rotated = tamis_tests::cluster::eventually("the new value", SOON, async || {
        env.issue("open").await?.map_err(|(status, text)| anyhow::anyhow!("{status} {text}"))?;
        Ok(a.seen().contains("Bearer token-a2").then_some(()))
    });
    rotated.await?;
    let all = |tokens: &[&str]| tokens.iter().map(|token| format!("Bearer {token}")).collect::<BTreeSet<_>>();
    ensure!(a.seen() == all(&["token-a", "token-a2"]), "a saw {:?}", a.seen());
    ensure!(b.seen() == all(&["token-b"]), "b saw {:?}", b.seen());

    // A shard that is deleted by hand comes back, and no call fails.
    let calls = Calls::of(&env, "open")?;
    let config = of_group(&env, "gatewayconfig", &config_of("open")).await?.context("the document")?;
    let handles = config["spec"]["credentials"].as_array().cloned().unwrap_or_default();
    ensure!(handles.len() == 1, "{handles:?}");
    for handle in handles.iter().filter_map(Value::as_str) {
        let name = names::credentials_secret("public", names::shard_of(handle));
        let shard = of_group(&env, "secret", &name).await?.context("the shard")?;
        env.cluster.kubectl(&["delete", "secret", &name, "-n", "tamis-public"], None).await?;
        let back = recreated(&env, "secret", &name, shard["metadata"]["uid"].as_str().unwrap_or_default()).await?;
        ensure!(back["data"][handle].is_string(), "the value is not there");
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let answers = calls.end().await?;
    ensure!(answers.iter().all(crate::calls::Answered::is_ok), "{:?}", answers.iter().find(|a| !a.is_ok()));

    // The label is taken away: it stops.
    let unlabel = ["label", "secret", "one", "-n", "team-a", "tamis.dev/credentials-"];
    env.cluster.kubectl(&unlabel, None).await?;
    env.issue_stopped("open", "is not labelled for use").await?;
    env.condition_is("exposition", "open", "ResolvedRefs", "False", "SecretNotLabelled").await?;
    Ok(())
}

/// The hashes of callers' keys: those of `key-one` and `key-two`.
const ONE: &str = "sha256:9b346041bc9a49574eb2665b2ad2a0a3f9f9cce4e42f5d1f26deb8a256b5966a";
const TWO: &str = "sha256:c8df51469c308a59bfbd48a3e0bdd228ca922d6032035f5ef6e4ad45f473a9f3";

fn callers(callers: &Value) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "partners", "namespace": "team-a", "labels": {"tamis.dev/credentials": "callers"}},
        "stringData": callers,
    })
    .to_string()
}

/// A filter stops compiling while `access` is tightened: the old filter stays, the revocation does not wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_filter_delays_no_revocation() -> Result<()> {
    let env = TestEnv::start().await?;
    env.cluster.apply(&env.manifest()).await?;
    env.cluster.apply(&narrow("filters", Some("partner"))).await?;
    env.cluster.apply(&callers(&json!({"alice": ONE}))).await?;
    env.cluster.apply(&TestEnv::exposition("guarded", &json!({"filters": ["partner"]}))).await?;
    env.issue_has("guarded", &["number", "title"]).await?;
    env.ready("exposition", "guarded").await?;
    let calls = Calls::of(&env, "guarded")?;

    // Valid for the API server, and nothing that compiles.
    let broken = json!({"name": "partner", "filters": {
        "get-issue": {"select": {"number": "labels[", "title": "title"}},
    }});
    env.cluster.apply(&TestEnv::filters("filters", &broken)).await?;
    env.condition_is("toolsfilters", "filters", "Accepted", "False", "InvalidFilter").await?;
    env.condition_is("exposition", "guarded", "Ready", "False", "ServingPrevious").await?;
    env.issue_has("guarded", &["number", "title"]).await?;
    let guarded = json!({"filters": ["partner"], "access": {"apiKeys": {"secretRef": {"name": "partners"}}}});
    env.cluster.apply(&TestEnv::exposition("guarded", &guarded)).await?;
    let refused =
        tamis_tests::cluster::eventually("401", SOON, async || Ok((calls.next().await?.status == 401).then_some(())));
    refused.await?;
    let with_key = Calls::to(&env, "guarded", "get-issue", Some("key-one"))?;
    let answer = with_key.next().await?;
    ensure!(answer.is_ok() && answer.text.contains("Issue 1"), "{answer:?}");
    env.condition_is("exposition", "guarded", "Ready", "False", "ServingPrevious").await?;

    // One more key, then the first is revoked, and the filter is still broken.
    env.cluster.apply(&callers(&json!({"alice": ONE, "bob": TWO}))).await?;
    let second = Calls::to(&env, "guarded", "get-issue", Some("key-two"))?;
    let accepted = tamis_tests::cluster::eventually("the second key", SOON, async || {
        Ok(second.next().await?.is_ok().then_some(()))
    });
    accepted.await?;
    env.cluster.kubectl(&["replace", "--filename=-"], Some(&callers(&json!({"bob": TWO})))).await?;
    let last = std::cell::RefCell::new(None);
    let revoked = tamis_tests::cluster::eventually("the first key is refused", SOON, async || {
        let (first, second) = (with_key.next().await?, second.next().await?);
        let revoked = first.status == 401 && second.is_ok();
        *last.borrow_mut() = Some((first, second));
        Ok(revoked.then_some(()))
    });
    revoked.await.with_context(|| format!("{:?}", last.borrow()))?;

    // Healed.
    let healed = json!({"name": "partner", "filters": {"get-issue": {"select": {"title": "title"}}}});
    env.cluster.apply(&TestEnv::filters("filters", &healed)).await?;
    env.ready("exposition", "guarded").await?;
    let answer = second.next().await?;
    ensure!(answer.is_ok() && !answer.text.contains("number"), "{answer:?}");
    second.end().await?;
    with_key.end().await?;
    // Open until the edit, refused ever after: nothing in between let one through.
    let answers = calls.end().await?;
    let first = answers.iter().position(|answer| answer.status == 401).unwrap_or(answers.len());
    ensure!(first > 0 && answers[..first].iter().all(crate::calls::Answered::is_ok), "before: {:?}", &answers[..first]);
    let late = answers[first..].iter().find(|answer| answer.is_ok());
    ensure!(late.is_none(), "a call without a key was answered: {late:?}");
    Ok(())
}
