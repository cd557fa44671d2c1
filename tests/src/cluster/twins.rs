//! Two services that are alike but for their upstream, their credential and their filters, and an exposition that
//! publishes one of them: what is mixed up between them, or not filtered, shows in the answer.

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

use super::witness::{Sight, Witness};
use super::{Stage, eventually};
use crate::Era;

/// One of the two services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twin {
    /// `twin` 1.0.0.
    A,
    /// `twin` 2.0.0.
    B,
}

impl Twin {
    /// Of its objects, and what its upstream says of itself.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// The version of the service.
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

/// An upstream that knows its own credential.
#[derive(Debug)]
struct Home {
    name: &'static str,
    unwelcome: Arc<AtomicUsize>,
}

async fn read(State(home): State<Arc<Home>>, headers: HeaderMap) -> String {
    let wanted = format!("Bearer {}", token(home.name));
    let welcome = headers.get(header::AUTHORIZATION).is_some_and(|found| found.as_bytes() == wanted.as_bytes());
    if !welcome {
        home.unwelcome.fetch_add(1, Ordering::SeqCst);
    }
    json!({"upstream": home.name, "welcome": welcome, "secret": "REMOVED", "more": [1, 2, 3]}).to_string()
}

fn token(name: &str) -> String {
    format!("sesame-{name}")
}

/// The two services in a [`Stage`], with an exposition `watched`, and whoever calls it all the time. Their sets have no
/// name and are Advisory, and the exposition names none: what gets lost there would let everything through.
pub struct Twins {
    /// The cluster.
    pub stage: Stage,
    /// Who calls.
    pub witness: Witness,
    homes: [JoinHandle<()>; 2],
    unwelcome: Arc<AtomicUsize>,
    edits: AtomicU64,
}

impl Twins {
    /// Sets the stage, applies both services, and waits until the first is served.
    ///
    /// # Errors
    /// Something did not come up.
    pub async fn set() -> Result<Self> {
        let stage = Stage::set().await?;
        let unwelcome = Arc::new(AtomicUsize::new(0));
        let (a, at_a) = home(Twin::A, &unwelcome).await?;
        let (b, at_b) = home(Twin::B, &unwelcome).await?;
        let mut documents = String::new();
        for (twin, url) in [(Twin::A, at_a), (Twin::B, at_b)] {
            for document in service(twin, &url) {
                documents.push_str(&format!("{document}\n---\n"));
            }
        }
        documents.push_str(&exposition("watched", Twin::A).to_string());
        stage.cluster.apply(&documents).await?;
        let rpc = stage.gateway.rpc("team-a", "watched", Era::Modern)?;
        eventually("the first answer", Duration::from_secs(60), async || {
            Ok(rpc.call("read", &json!({})).await?.text_block().ok())
        })
        .await?;
        let witness = Witness::start(rpc);
        Ok(Self { stage, witness, homes: [a, b], unwelcome, edits: AtomicU64::new(1) })
    }

    /// Objects of the team, of one of our kinds.
    #[must_use]
    pub fn api(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        super::objects(self.stage.cluster.client(), "team-a", kind, plural)
    }

    /// Edits a filter set; gives its new version.
    ///
    /// # Errors
    /// The API's.
    pub async fn edit(&self, twin: Twin) -> Result<u64> {
        let version = self.edits.fetch_add(1, Ordering::SeqCst) + 1;
        let change = json!({"spec": {"filters": filters(twin, version)}});
        let filters = self.api("ToolsFilters", "toolsfilters");
        filters.patch(twin.name(), &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(version)
    }

    /// Lets the exposition publish one of the two.
    ///
    /// # Errors
    /// The API's.
    pub async fn show(&self, twin: Twin) -> Result<()> {
        let change = json!({"spec": {"service": {"version": twin.version()}}});
        let expositions = self.api("Exposition", "expositions");
        expositions.patch("watched", &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(())
    }

    /// Applies another exposition.
    ///
    /// # Errors
    /// The API's.
    pub async fn expose(&self, name: &str, twin: Twin) -> Result<()> {
        self.stage.cluster.apply(&exposition(name, twin).to_string()).await
    }

    /// Deletes an exposition.
    ///
    /// # Errors
    /// The API's.
    pub async fn withdraw(&self, name: &str) -> Result<()> {
        self.api("Exposition", "expositions").delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until an exposition answers with this HTTP status.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn answers_with(&self, exposition: &str, status: u16) -> Result<()> {
        let rpc = self.stage.gateway.rpc("team-a", exposition, Era::Modern)?;
        let what = format!("status {status} of {exposition}");
        eventually(&what, Duration::from_secs(60), async || {
            Ok((rpc.call("read", &json!({})).await?.status == status).then_some(()))
        })
        .await
    }

    /// Waits until the caller sees this; gives how long that took.
    ///
    /// # Errors
    /// It does not in time, or saw something that must not be.
    pub async fn sees(&self, twin: Twin, version: u64) -> Result<Duration> {
        let began = Instant::now();
        let wanted = Sight { twin, version };
        let seen = eventually("the last edit", Duration::from_secs(60), async || {
            Ok((self.witness.latest() == Some(wanted)).then_some(()))
        });
        seen.await.with_context(|| format!("wanted {wanted:?}, had {:?}", self.witness.latest()))?;
        Ok(began.elapsed())
    }

    /// The exposition documents that are there: name, uid and resourceVersion.
    ///
    /// # Errors
    /// The API's.
    pub async fn documents(&self) -> Result<BTreeMap<String, (String, String)>> {
        let configs: Api<GatewayConfig> = Api::namespaced(self.stage.cluster.client(), "tamis-public");
        let found = configs.list(&ListParams::default()).await?.items.into_iter();
        let found = found.filter(|config| config.spec.kind == PayloadKind::Exposition).map(|config| {
            let text = |text: Option<String>| text.unwrap_or_default();
            let metadata = config.metadata;
            (text(metadata.name), (text(metadata.uid), text(metadata.resource_version)))
        });
        Ok(found.collect())
    }

    /// Fails where anything was wrong from the beginning on; says what was seen.
    ///
    /// # Errors
    /// See [`Witness::verdict`]; or a service met another's credential.
    pub fn verdict(&self) -> Result<String> {
        let unwelcome = self.unwelcome.load(Ordering::SeqCst);
        ensure!(unwelcome == 0, "{unwelcome} calls with another service's credential");
        self.witness.verdict()
    }
}

impl Drop for Twins {
    fn drop(&mut self) {
        self.homes.iter().for_each(JoinHandle::abort);
    }
}

impl std::fmt::Debug for Twins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Twins").field("witness", &self.witness).finish_non_exhaustive()
    }
}

/// The first of random numbers, and those after it: the same for the same seed.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// Below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// One of the two.
    pub fn twin(&mut self) -> Twin {
        Twin::of(usize::from(self.below(2) == 1))
    }
}

async fn home(twin: Twin, unwelcome: &Arc<AtomicUsize>) -> Result<(JoinHandle<()>, String)> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let home = Arc::new(Home { name: twin.name(), unwelcome: Arc::clone(unwelcome) });
    let router = Router::new().route("/", get(read)).with_state(home);
    let task = tokio::spawn(async move {
        // Only an error of the listener ends this, and then the test's calls fail.
        let _ = axum::serve(listener, router).await;
    });
    Ok((task, url))
}

fn service(twin: Twin, url: &str) -> [Value; 3] {
    let metadata = json!({"name": twin.name(), "namespace": "team-a"});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": twin.name(), "namespace": "team-a",
            "labels": {"tamis.dev/credentials": "upstream"},
            "annotations": {"tamis.dev/allowed-use": format!("{} bearer", url.trim_start_matches("http://"))},
        },
        "stringData": {"token": token(twin.name())},
    });
    let manifest = json!({
        "apiVersion": "tamis.dev/v1alpha1", "kind": "ServiceManifest", "metadata": metadata,
        "spec": {
            "name": "twin", "version": twin.version(),
            "http": {
                "baseUrl": url,
                "auth": {"type": "bearer", "secretRef": {"name": twin.name(), "key": "token"}},
                "actions": {"read": {"method": "GET", "path": "/", "response": {"type": "object"}}},
            },
        },
    });
    let set = json!({
        "apiVersion": "tamis.dev/v1alpha1", "kind": "ToolsFilters", "metadata": metadata,
        "spec": {
            "service": {"name": "twin", "version": twin.version()},
            "filters": filters(twin, 1),
        },
    });
    [secret, set, manifest]
}

fn filters(twin: Twin, version: u64) -> Value {
    let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    json!({"read": {
        "retain": ["/upstream", "/welcome"],
        "patches": [add("/head", json!(version)), add("/set", json!(twin.name())), add("/tail", json!(version))],
    }})
}

fn exposition(name: &str, twin: Twin) -> Value {
    json!({
        "apiVersion": "tamis.dev/v1alpha1", "kind": "Exposition",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"service": {"name": "twin", "version": twin.version()}, "access": {"anonymous": true}},
    })
}
