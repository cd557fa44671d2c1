//! Two services that differ only in upstream, credential and filters, and an exposition that publishes one of them. An
//! answer reveals any mixture of the two, and any missing filter.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::routing::get;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tamis_config::{GatewayConfig, PayloadKind};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::probe::{Observation, Probe};
use super::{TestEnv, eventually};
use crate::Era;

/// One of the two services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `paired` 1.0.0.
    A,
    /// `paired` 2.0.0.
    B,
}

impl Side {
    /// Returns the name of its objects, which its upstream also includes in its answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// Returns the version of the service.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::A => "1.0.0",
            Self::B => "2.0.0",
        }
    }

    pub(super) fn index(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }

    fn of(index: usize) -> Self {
        if index == 0 { Self::A } else { Self::B }
    }
}

/// An upstream that checks its own credential.
#[derive(Debug)]
struct PairedUpstream {
    name: &'static str,
    wrong_credential: Arc<AtomicUsize>,
}

async fn read(State(upstream): State<Arc<PairedUpstream>>, headers: HeaderMap) -> String {
    let wanted = format!("Bearer {}", token(upstream.name));
    let authorized = headers.get(header::AUTHORIZATION).is_some_and(|found| found.as_bytes() == wanted.as_bytes());
    if !authorized {
        upstream.wrong_credential.fetch_add(1, Ordering::SeqCst);
    }
    json!({"upstream": upstream.name, "authorized": authorized, "secret": "REMOVED", "more": [1, 2, 3]}).to_string()
}

fn token(name: &str) -> String {
    format!("sesame-{name}")
}

/// The two services in a [`TestEnv`], with an exposition `watched` and a [`Probe`] that calls it continuously. Their
/// filter sets are unnamed and Advisory, and the exposition names none: if a filter set were lost, unfiltered answers
/// would pass.
pub struct PairedServices {
    /// The test environment.
    pub env: TestEnv,
    /// The caller.
    pub probe: Probe,
    upstreams: [JoinHandle<()>; 2],
    wrong_credential: Arc<AtomicUsize>,
    edits: AtomicU64,
}

impl PairedServices {
    /// Starts a test environment, applies both services, and waits until the first is served.
    ///
    /// # Errors
    /// A program did not start, or the first service is not served in time.
    pub async fn start() -> Result<Self> {
        let env = TestEnv::start().await?;
        let wrong_credential = Arc::new(AtomicUsize::new(0));
        let (a, at_a) = start_upstream(Side::A, &wrong_credential).await?;
        let (b, at_b) = start_upstream(Side::B, &wrong_credential).await?;
        let mut documents = String::new();
        for (side, url) in [(Side::A, at_a), (Side::B, at_b)] {
            for document in service(side, &url) {
                documents.push_str(&format!("{document}\n---\n"));
            }
        }
        documents.push_str(&exposition("watched", Side::A).to_string());
        env.cluster.apply(&documents).await?;
        let rpc = env.gateway.rpc("team-a", "watched", Era::Modern)?;
        eventually("the first answer", Duration::from_secs(60), async || {
            Ok(rpc.call("read", &json!({})).await?.text_block().ok())
        })
        .await?;
        let probe = Probe::start(rpc);
        Ok(Self { env, probe, upstreams: [a, b], wrong_credential, edits: AtomicU64::new(1) })
    }

    /// Returns the API of one of Tamis' kinds in the team's namespace.
    #[must_use]
    pub fn api(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        super::objects(self.env.cluster.client(), "team-a", kind, plural)
    }

    /// Edits a filter set and returns its new version.
    ///
    /// # Errors
    /// The API's error.
    pub async fn edit(&self, side: Side) -> Result<u64> {
        let version = self.edits.fetch_add(1, Ordering::SeqCst) + 1;
        let change = json!({"spec": {"filters": filters(side, version)}});
        let filters = self.api("ToolsFilters", "toolsfilters");
        filters.patch(side.name(), &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(version)
    }

    /// Makes the exposition publish one of the two services.
    ///
    /// # Errors
    /// The API's error.
    pub async fn publish(&self, side: Side) -> Result<()> {
        let change = json!({"spec": {"service": {"version": side.version()}}});
        let expositions = self.api("Exposition", "expositions");
        expositions.patch("watched", &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(())
    }

    /// Applies another exposition.
    ///
    /// # Errors
    /// The API's error.
    pub async fn add_exposition(&self, name: &str, side: Side) -> Result<()> {
        self.env.cluster.apply(&exposition(name, side).to_string()).await
    }

    /// Deletes an exposition.
    ///
    /// # Errors
    /// The API's error.
    pub async fn delete_exposition(&self, name: &str) -> Result<()> {
        self.api("Exposition", "expositions").delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until an exposition answers with this HTTP status.
    ///
    /// # Errors
    /// The exposition does not answer with this status in time.
    pub async fn wait_for_status(&self, exposition: &str, status: u16) -> Result<()> {
        let rpc = self.env.gateway.rpc("team-a", exposition, Era::Modern)?;
        let what = format!("status {status} of {exposition}");
        eventually(&what, Duration::from_secs(60), async || {
            Ok((rpc.call("read", &json!({})).await?.status == status).then_some(()))
        })
        .await
    }

    /// Waits until the probe sees this version, and returns how long that took.
    ///
    /// # Errors
    /// The probe does not see it in time.
    pub async fn wait_until_served(&self, side: Side, version: u64) -> Result<Duration> {
        let began = Instant::now();
        let wanted = Observation { side, version };
        let seen = eventually("the last edit", Duration::from_secs(60), async || {
            Ok((self.probe.latest() == Some(wanted)).then_some(()))
        });
        seen.await.with_context(|| format!("wanted {wanted:?}, had {:?}", self.probe.latest()))?;
        Ok(began.elapsed())
    }

    /// Returns the existing exposition documents: name, uid and resourceVersion.
    ///
    /// # Errors
    /// The API's error.
    pub async fn documents(&self) -> Result<BTreeMap<String, (String, String)>> {
        let configs: Api<GatewayConfig> = Api::namespaced(self.env.cluster.client(), "tamis-public");
        let found = configs.list(&ListParams::default()).await?.items.into_iter();
        let found = found.filter(|config| config.spec.kind == PayloadKind::Exposition).map(|config| {
            let text = |text: Option<String>| text.unwrap_or_default();
            let metadata = config.metadata;
            (text(metadata.name), (text(metadata.uid), text(metadata.resource_version)))
        });
        Ok(found.collect())
    }

    /// Fails if any answer since the start was wrong, and returns a summary.
    ///
    /// # Errors
    /// See [`Probe::verdict`]; or a service received another's credential.
    pub fn verdict(&self) -> Result<String> {
        let wrong_credential = self.wrong_credential.load(Ordering::SeqCst);
        ensure!(wrong_credential == 0, "{wrong_credential} calls with another service's credential");
        self.probe.verdict()
    }
}

impl Drop for PairedServices {
    fn drop(&mut self) {
        self.upstreams.iter().for_each(JoinHandle::abort);
    }
}

impl std::fmt::Debug for PairedServices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairedServices").field("probe", &self.probe).finish_non_exhaustive()
    }
}

/// A generator of random numbers, which are the same for the same seed.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns a number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Returns one of the two services.
    pub fn side(&mut self) -> Side {
        Side::of(usize::from(self.below(2) == 1))
    }
}

async fn start_upstream(side: Side, wrong_credential: &Arc<AtomicUsize>) -> Result<(JoinHandle<()>, String)> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let upstream = Arc::new(PairedUpstream { name: side.name(), wrong_credential: Arc::clone(wrong_credential) });
    let router = Router::new().route("/", get(read)).with_state(upstream);
    let task = tokio::spawn(async move {
        // Only an error of the listener ends this, and then the test's calls fail.
        let _ = axum::serve(listener, router).await;
    });
    Ok((task, url))
}

fn service(side: Side, url: &str) -> [Value; 3] {
    let metadata = json!({"name": side.name(), "namespace": "team-a"});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": side.name(), "namespace": "team-a",
            "labels": {"tamis.dev/credentials": "upstream"},
            "annotations": {"tamis.dev/allowed-use": format!("{} bearer", url.trim_start_matches("http://"))},
        },
        "stringData": {"token": token(side.name())},
    });
    let manifest = json!({
        "apiVersion": "tamis.dev/v1alpha1", "kind": "ServiceManifest", "metadata": metadata,
        "spec": {
            "name": "paired", "version": side.version(),
            "http": {
                "baseUrl": url,
                "auth": {"type": "bearer", "secretRef": {"name": side.name(), "key": "token"}},
                "actions": {"read": {"method": "GET", "path": "/", "response": {"type": "object"}}},
            },
        },
    });
    let set = json!({
        "apiVersion": "tamis.dev/v1alpha1", "kind": "ToolsFilters", "metadata": metadata,
        "spec": {
            "service": {"name": "paired", "version": side.version()},
            "filters": filters(side, 1),
        },
    });
    [secret, set, manifest]
}

fn filters(side: Side, version: u64) -> Value {
    let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    json!({"read": {
        "retain": ["/upstream", "/authorized"],
        "patches": [add("/head", json!(version)), add("/set", json!(side.name())), add("/tail", json!(version))],
    }})
}

fn exposition(name: &str, side: Side) -> Value {
    json!({
        "apiVersion": "tamis.dev/v1alpha1", "kind": "Exposition",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"service": {"name": "paired", "version": side.version()}, "access": {"anonymous": true}},
    })
}
