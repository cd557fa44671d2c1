//! What a tenant does with all rights in a namespace of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, stream};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tamis_tests::cluster::{TestEnv, objects};
use tokio::task::JoinHandle;

use crate::victim::encoded;

/// Sorts before the victim's.
pub(crate) const NAMESPACE: &str = "a-tenant";
/// Requests at once.
const AT_ONCE: usize = 8;

/// The attacker's namespace and rights, and a service of it.
pub(crate) async fn prepare(env: &TestEnv) -> Result<()> {
    env.cluster.namespace(NAMESPACE).await?;
    let account = "--serviceaccount=tamis-system:tamis-operator";
    let role = ["-n", NAMESPACE, "create", "rolebinding", "tamis-secrets", "--clusterrole=tamis-secrets", account];
    env.cluster.kubectl(&role, None).await.map(drop)
}

/// An attack that continues until it is ended.
pub(crate) struct Attacker {
    over: Arc<AtomicBool>,
    task: JoinHandle<Result<String>>,
}

/// What an attack works with.
#[derive(Clone)]
struct Tools {
    client: Client,
    over: Arc<AtomicBool>,
}

impl Tools {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        match kind {
            "Secret" => {
                let kind = GroupVersionKind::gvk("", "v1", kind);
                Api::namespaced_with(self.client.clone(), NAMESPACE, &ApiResource::from_gvk(&kind))
            }
            "ToolsFilters" | "CustomTools" => objects(self.client.clone(), NAMESPACE, kind, &kind.to_ascii_lowercase()),
            kind => objects(self.client.clone(), NAMESPACE, kind, &format!("{}s", kind.to_ascii_lowercase())),
        }
    }

    async fn create(&self, object: Value) -> Result<()> {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let object: DynamicObject = serde_json::from_value(object)?;
        let created = self.api(&kind).create(&PostParams::default(), &object).await;
        created.map(drop).with_context(|| format!("creating a {kind}"))
    }

    /// Creates objects, some at a time, as many as there is time for.
    async fn create_all(&self, all: impl Iterator<Item = Value> + Send) -> Result<usize> {
        let results = stream::iter(all.take_while(|_| !self.is_over()))
            .map(|object| self.create(object))
            .buffer_unordered(AT_ONCE);
        let results: Vec<Result<()>> = results.collect().await;
        let count = results.len();
        results.into_iter().collect::<Result<()>>().map(|()| count)
    }
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "tamis.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    })
}

fn service(name: &str, description: &str, tools: usize) -> Value {
    let action = json!({"description": description, "method": "GET", "path": "/repos/o/r/issues"});
    let actions: serde_json::Map<_, _> = (0..tools).map(|n| (format!("get{n}"), action.clone())).collect();
    let http = json!({"baseUrl": "http://127.0.0.1:9", "actions": actions});
    object("ServiceManifest", name, &json!({"name": name, "version": "1", "http": http}))
}

fn exposition(name: &str, service: &str, more: &[(&str, Value)]) -> Value {
    let mut spec = json!({
        "service": {"name": service, "version": "1"},
        "filters": [],
        "access": {"anonymous": true},
        "gatewayGroup": {"name": "public", "namespace": "tamis-public"},
    });
    for (key, value) in more {
        spec[*key] = value.clone();
    }
    object("Exposition", name, &spec)
}

impl Attacker {
    fn begin<F>(env: &TestEnv, attack: impl FnOnce(Tools) -> F) -> Self
    where
        F: Future<Output = Result<String>> + Send + 'static,
    {
        let over = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(attack(Tools { client: env.cluster.client(), over: Arc::clone(&over) }));
        Self { over, task }
    }

    /// What it has done.
    pub(crate) async fn end(self) -> Result<String> {
        self.over.store(true, Ordering::SeqCst);
        self.task.await?
    }

    /// More callers than all shards of the group have room for.
    pub(crate) fn fills_the_credentials(env: &TestEnv) -> Self {
        Self::begin(env, async |tools| {
            tools.create(service("keys", "short", 1)).await?;
            let callers: serde_json::Map<_, _> = (0..300)
                .map(|n| (format!("caller-{n}"), encoded(&format!("sha256:{:064x}", 7_777_777_u64 * n))))
                .collect();
            let secret = |n: usize| {
                let labels = json!({"tamis.dev/credentials": "callers"});
                let metadata = json!({"name": format!("keys-{n}"), "namespace": NAMESPACE, "labels": labels});
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": callers})
            };
            let guarded = |n: usize| {
                let access = json!({"apiKeys": {"secretRef": {"name": format!("keys-{n}")}}});
                exposition(&format!("keys-{n}"), "keys", &[("access", access)])
            };
            // All of them, however long it takes: the last one has no room.
            for n in 0..300 {
                tools.create(secret(n)).await?;
                tools.create(guarded(n)).await?;
            }
            let mut edits = 0;
            while !tools.is_over() {
                let patch = json!({"data": {format!("caller-{edits}"): null}});
                let name = format!("keys-{}", edits % 300);
                tools.api("Secret").patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
                edits += 1;
            }
            Ok(format!("300 Secrets, {edits} edits of them"))
        })
    }

    /// A small manifest, and small CustomTools, that are a gigabyte together.
    pub(crate) fn repeats_a_description(env: &TestEnv) -> Self {
        Self::begin(env, async |tools| {
            tools.create(service("long", &"A description. ".repeat(13_000), 1)).await?;
            tools.create(exposition("long", "long", &[])).await?;
            let customs: serde_json::Map<_, _> =
                (0..5_000).map(|n| (format!("t{n}"), json!({"tool": "get0"}))).collect();
            let spec = json!({"service": {"name": "long", "version": "1"}, "customTools": customs});
            tools.create(object("CustomTools", "many", &spec)).await?;
            let mut edits = 0;
            while !tools.is_over() {
                let patch =
                    json!({"spec": {"customTools": {"t1": {"tool": "get0", "title": format!("Edit {edits}")}}}});
                tools.api("CustomTools").patch("many", &PatchParams::default(), &Patch::Merge(&patch)).await?;
                edits += 1;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Ok(format!("{edits} edits"))
        })
    }

    /// A set of almost a megabyte, many expositions that use it, and more unused sets.
    pub(crate) fn edits_a_large_set(env: &TestEnv) -> Self {
        Self::begin(env, async |tools| {
            tools.create(service("large", "short", 27)).await?;
            let set = |name: &str, edit: usize| {
                let paths = |tool: usize| -> Vec<String> {
                    (0..800).map(|n| format!("/member/{tool}/{n}/of/an/item/{edit}/of/a/list")).collect()
                };
                let filters: serde_json::Map<_, _> =
                    (0..27).map(|tool| (format!("get{tool}"), json!({"retain": paths(tool)}))).collect();
                let service = json!({"name": "large", "version": "1"});
                object("ToolsFilters", name, &json!({"name": name, "service": service, "filters": filters}))
            };
            let size = set("used", 0).to_string().len();
            ensure!(size > 800_000, "{size}");
            tools.create(set("used", 0)).await?;
            let users = (0..100).map(|n| exposition(&format!("large-{n}"), "large", &[("filters", json!(["used"]))]));
            let users = tools.create_all(users).await?;
            let unused = tools.create_all((0..30).map(|n| set(&format!("unused-{n}"), n))).await?;
            let mut edits = 0;
            while !tools.is_over() {
                edits += 1;
                let patch = Patch::Merge(set("used", edits));
                tools.api("ToolsFilters").patch("used", &PatchParams::default(), &patch).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(format!("a set of {size} bytes with {users} users edited {edits} times, {unused} sets unused"))
        })
    }

    /// Edits that each lead to a write for each of many expositions.
    pub(crate) fn edits_for_many(env: &TestEnv) -> Self {
        Self::begin(env, async |tools| {
            tools.create(service("many", "short", 1)).await?;
            let set = |edit: usize| {
                let filters = json!({"get0": {"retain": [format!("/{edit}")]}});
                let spec = json!({"name": "all", "service": {"name": "many", "version": "1"}, "filters": filters});
                object("ToolsFilters", "many", &spec)
            };
            tools.create(set(0)).await?;
            let users = (0..1_000).map(|n| exposition(&format!("many-{n}"), "many", &[("filters", json!(["all"]))]));
            let users = tools.create_all(users).await?;
            let mut edits = 0;
            while !tools.is_over() {
                edits += 1;
                let patch = Patch::Merge(set(edits));
                tools.api("ToolsFilters").patch("many", &PatchParams::default(), &patch).await?;
                tokio::time::sleep(Duration::from_millis(166)).await;
            }
            Ok(format!("{users} expositions, {edits} edits"))
        })
    }
}
