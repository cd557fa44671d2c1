//! A team that publishes one exposition for callers with keys, edits its filters, and revokes keys.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tamis_tests::cluster::{TestEnv, objects};
use tamis_tests::{Era, Rpc};
use tokio::task::JoinHandle;

use crate::SOON;

/// The hashes of callers' keys: those of `key-one` and `key-two`.
const ONE: &str = "sha256:9b346041bc9a49574eb2665b2ad2a0a3f9f9cce4e42f5d1f26deb8a256b5966a";
const TWO: &str = "sha256:c8df51469c308a59bfbd48a3e0bdd228ca922d6032035f5ef6e4ad45f473a9f3";
/// Between two looks, and between two calls.
const PAUSE: Duration = Duration::from_millis(5);

/// How long edits and revocations took to be seen by a caller.
#[derive(Debug, Default, Clone)]
pub(crate) struct Edits {
    edits: Vec<Duration>,
    revocations: Vec<Duration>,
}

impl Edits {
    pub(crate) fn count(&self) -> usize {
        self.edits.len().min(self.revocations.len())
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

impl fmt::Display for Edits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, all) in [("edits", &self.edits), ("; revocations", &self.revocations)] {
            let mut sorted = all.clone();
            sorted.sort();
            let [p50, p99] = [50, 99].map(|percent| percentile(&sorted, percent));
            write!(f, "{what} {} p50 {p50:.0?} p99 {p99:.0?}", sorted.len())?;
        }
        Ok(())
    }
}

/// The team, and a caller of it that never stops.
pub(crate) struct Victim {
    rpc: Rpc,
    over: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    failed: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
    narrow: bool,
    revoked: bool,
}

fn secret(keys: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "partners", "namespace": "team-a", "labels": {"tamis.dev/credentials": "callers"}},
        "stringData": keys,
    })
}

async fn status_and_text(rpc: &Rpc, key: &str) -> Result<(u16, String)> {
    let arguments = json!({"owner": "o", "repo": "r", "number": 1});
    let request = rpc.request("tools/call", json!({"name": "get-issue", "arguments": arguments})).bearer_auth(key);
    let answer = rpc.send(request).await?;
    let is_good = answer.status == 200 && !answer.text.contains("\"isError\":true");
    Ok((if is_good { 200 } else { answer.status }, answer.text))
}

impl Victim {
    pub(crate) async fn begin(env: &TestEnv) -> Result<Self> {
        env.cluster.apply(&env.manifest()).await?;
        env.cluster.apply(&secret(&json!({"alice": ONE, "bob": TWO})).to_string()).await?;
        let both =
            json!({"name": "partner", "filters": {"get-issue": {"select": {"number": "number", "title": "title"}}}});
        env.cluster.apply(&TestEnv::filters("filters", &both)).await?;
        let spec = json!({"filters": ["partner"], "access": {"apiKeys": {"secretRef": {"name": "partners"}}}});
        let mut exposition: Value = serde_json::from_str(&TestEnv::exposition("guarded", &spec))?;
        exposition["spec"]["access"] = spec["access"].clone();
        env.cluster.apply(&exposition.to_string()).await?;
        env.ready("exposition", "guarded").await?;
        let rpc = env.gateway.rpc("team-a", "guarded", Era::Modern)?;
        let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let failed: Arc<Mutex<Vec<String>>> = Arc::default();
        let task = tokio::spawn({
            let (rpc, over, calls, failed) = (rpc.clone(), Arc::clone(&over), Arc::clone(&calls), Arc::clone(&failed));
            async move {
                while !over.load(Ordering::SeqCst) {
                    let found = status_and_text(&rpc, "key-one").await;
                    match found {
                        Ok((200, text)) if !text.contains("REMOVED") => drop(calls.fetch_add(1, Ordering::SeqCst)),
                        other => {
                            failed.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{other:?}"));
                        }
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
        Ok(Self { rpc, over, calls, failed, task, narrow: false, revoked: false })
    }

    /// Edits and revokes for a while.
    pub(crate) async fn work(&mut self, env: &TestEnv, during: Duration) -> Result<Edits> {
        let until = Instant::now() + during;
        let mut edits = Edits::default();
        while Instant::now() < until {
            edits.edits.push(self.edit(env).await.context("an edit")?);
            edits.revocations.push(self.revoke(env).await.context("a revocation")?);
        }
        Ok(edits)
    }

    /// Tightens the filter, or takes that back; how long until a caller sees it.
    async fn edit(&mut self, env: &TestEnv) -> Result<Duration> {
        self.narrow = !self.narrow;
        let number = if self.narrow { Value::Null } else { json!("number") };
        let patch = json!({"spec": {"filters": {"get-issue": {"select": {"number": number}}}}});
        let sets = objects(env.cluster.client(), "team-a", "ToolsFilters", "toolsfilters");
        let began = Instant::now();
        sets.patch("filters", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        self.sees(began, "key-one", |status, text| status == 200 && text.contains("number") != self.narrow).await
    }

    /// Revokes a key, or gives it back; how long until a caller with it sees it.
    async fn revoke(&mut self, env: &TestEnv) -> Result<Duration> {
        self.revoked = !self.revoked;
        let secrets: Api<DynamicObject> = self.secrets(env);
        let patch = json!({"data": {"bob": if self.revoked { Value::Null } else { json!(encoded(TWO)) }}});
        let began = Instant::now();
        secrets.patch("partners", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        let wanted = if self.revoked { 401 } else { 200 };
        self.sees(began, "key-two", |status, _| status == wanted).await
    }

    /// Gives one more caller a key. Whether that caller is let in.
    pub(crate) async fn adds_a_key(&self, env: &TestEnv) -> Result<bool> {
        let patch = json!({"data": {"carol": encoded(ONE)}});
        self.secrets(env).patch("partners", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        self.sees(Instant::now(), "key-one", |status, _| status == 200).await?;
        Ok(env.condition("exposition", "guarded", "Accepted").await?.is_some_and(|(status, ..)| status == "True"))
    }

    fn secrets(&self, env: &TestEnv) -> Api<DynamicObject> {
        let kind = kube::api::GroupVersionKind::gvk("", "v1", "Secret");
        Api::namespaced_with(env.cluster.client(), "team-a", &kube::api::ApiResource::from_gvk(&kind))
    }

    async fn sees(&self, began: Instant, key: &str, good: impl Fn(u16, &str) -> bool) -> Result<Duration> {
        loop {
            let (status, text) = status_and_text(&self.rpc, key).await?;
            if good(status, &text) {
                return Ok(began.elapsed());
            }
            ensure!(began.elapsed() < SOON, "not within {SOON:?}, last {status} {text}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Ends the calls; none of them may have failed.
    pub(crate) async fn end(self) -> Result<()> {
        self.over.store(true, Ordering::SeqCst);
        self.task.await?;
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let calls = self.calls.load(Ordering::SeqCst);
        eprintln!("{calls} calls answered, {} failed", failed.len());
        ensure!(failed.is_empty() && calls > 0, "{} of {calls} calls failed: {:?}", failed.len(), failed.first());
        Ok(())
    }
}

/// Base64 of text, as `data` of a Secret holds it.
pub(crate) fn encoded(text: &str) -> Value {
    json!(k8s_openapi::ByteString(text.as_bytes().to_vec()))
}
