//! `tamis gateway` against a real API server, with what the operator writes and no more rights than its Role gives.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use axum::Router;
use axum::http::HeaderMap;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tamis_config::acks::{Ack, AckEvent, AckState};
use tamis_config::carrier::{encode_exposition, encode_service};
use tamis_config::names::{self, shard_of};
use tamis_config::{
    ExpositionDocument, ExpositionId, ExpositionPayload, FORMAT_VERSION, GatewayConfig, GatewayConfigSpec, Reason,
    ServiceDocument, StopDocument,
};
use tamis_crds::ObjectName;
use tamis_operator::group::{self, Child, ChildKind, GroupInput, Settings};
use tamis_tests::Era;
use tamis_tests::cluster::{Cluster, ClusterGateway, eventually};

const NAMESPACE: &str = "tamis-public";
const GROUP: &str = "public";
const SOON: Duration = Duration::from_secs(20);
const ARGUMENTS: &[&str] = &["--egress-allow", "127.0.0.1/32", "--drain-delay", "1s"];

/// The Role that the operator gives a gateway, and its binding.
fn role() -> Result<String> {
    let name = ObjectName { namespace: NAMESPACE.to_owned(), name: GROUP.to_owned() };
    let group = GroupInput { name, uid: "uid".to_owned(), spec: Arc::default(), paused: false };
    let children = group::children(&group, &Settings::new("tamis:1", None));
    let rights = |child: &&Child| matches!(child.kind, ChildKind::Role | ChildKind::RoleBinding);
    let found: Vec<String> = children.iter().filter(rights).map(|child| child.body.to_string()).collect();
    ensure!(found.len() == 2, "{found:?}");
    Ok(found.join("\n---\n"))
}

fn id(name: &str) -> ExpositionId {
    ExpositionId { namespace: "team".to_owned(), name: name.to_owned() }
}

/// A service with one tool that sends a credential.
fn service(url: &str) -> ServiceDocument {
    let document = json!({
        "formatVersion": FORMAT_VERSION, "name": "api", "version": "1",
        "source": {"http": {
            "baseUrl": url,
            "auth": {"type": "bearer", "credential": {"name": "api", "key": "token"}},
        }},
        "tools": {"read": {"inputSchema": {"type": "object"}, "call": {"http": {"method": "GET", "path": "/"}}}},
    });
    serde_json::from_str(&document.to_string()).expect("a service")
}

/// An exposition that shows these members of the answer, with a credential by its handle.
fn exposition(name: &str, service: &ServiceDocument, shows: &[&str], handle: &str) -> ExpositionDocument {
    let pointers: Vec<_> = shows.iter().map(|name| format!("/{name}")).collect();
    let document = json!({
        "formatVersion": FORMAT_VERSION, "id": id(name), "service": service.digest(), "enforcement": "Enforced",
        "tools": {"read": {"filter": {"retain": pointers}}},
        "credentials": {"api/token": {"handle": handle, "uses": ["127.0.0.1 bearer"]}},
        "access": "anonymous",
    });
    serde_json::from_str(&document.to_string()).expect("an exposition")
}

/// Writes what the operator writes.
struct Writer {
    configs: Api<GatewayConfig>,
    secrets: Api<Secret>,
}

impl Writer {
    fn of(cluster: &Cluster) -> Self {
        Self {
            configs: Api::namespaced(cluster.client(), NAMESPACE),
            secrets: Api::namespaced(cluster.client(), NAMESPACE),
        }
    }

    async fn put(&self, name: &str, spec: GatewayConfigSpec) -> Result<()> {
        let mut object = GatewayConfig::new(name, spec);
        object.labels_mut().insert(names::GROUP_LABEL.to_owned(), GROUP.to_owned());
        let params = PatchParams::apply(names::MANAGED_BY).force();
        self.configs.patch(name, &params, &Patch::Apply(&object)).await?;
        Ok(())
    }

    async fn service(&self, service: &ServiceDocument) -> Result<()> {
        for spec in encode_service(GROUP, service).map_err(anyhow::Error::msg)? {
            self.put(&names::service_object(&spec.digest, spec.part), spec).await?;
        }
        Ok(())
    }

    /// Gives the digest that is acknowledged.
    async fn payload(&self, payload: &ExpositionPayload) -> Result<String> {
        let spec = encode_exposition(GROUP, payload).map_err(anyhow::Error::msg)?;
        let digest = spec.digest.0.clone();
        self.put(&names::exposition_object(payload.id()), spec).await?;
        Ok(digest)
    }

    async fn serve(&self, document: &ExpositionDocument) -> Result<String> {
        self.payload(&ExpositionPayload::Serve(document.clone())).await
    }

    async fn remove(&self, name: &str) -> Result<()> {
        self.configs.delete(&names::exposition_object(&id(name)), &DeleteParams::default()).await?;
        Ok(())
    }

    async fn secret(&self, name: &str, data: &BTreeMap<&str, &str>) -> Result<()> {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        let params = PatchParams::apply(names::MANAGED_BY).force();
        self.secrets.patch(name, &params, &Patch::Apply(&secret)).await?;
        Ok(())
    }

    /// Writes all shards: these handles and their values, and nothing else.
    async fn credentials(&self, values: &[(&str, &str)]) -> Result<()> {
        for shard in 0..names::CREDENTIAL_SHARDS {
            let own = values.iter().copied().filter(|(handle, _)| shard_of(handle) == shard).collect();
            self.secret(&names::credentials_secret(GROUP, shard), &own).await?;
        }
        Ok(())
    }
}

/// `/acks`, put together as the operator does.
struct Acks {
    response: reqwest::Response,
    buffer: String,
    states: BTreeMap<String, Ack>,
    saved: BTreeMap<String, (u64, u64)>,
    instance: String,
}

impl Acks {
    async fn open(gateway: &ClusterGateway, token: &str) -> Result<Self> {
        let request = reqwest::Client::new().get(format!("{}/acks", gateway.admin.url)).bearer_auth(token);
        let response = request.send().await?.error_for_status()?;
        ensure!(response.headers()["content-type"] == "text/event-stream");
        let (states, saved) = (BTreeMap::new(), BTreeMap::new());
        let mut acks = Self { response, buffer: String::new(), states, saved, instance: String::new() };
        acks.next().await?;
        ensure!(!acks.instance.is_empty(), "the first event is the snapshot");
        Ok(acks)
    }

    async fn next(&mut self) -> Result<()> {
        loop {
            if let Some((event, rest)) = self.buffer.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.buffer = rest;
                if let Some(json) = event.strip_prefix("data: ") {
                    self.take(serde_json::from_str(json)?);
                    return Ok(());
                }
                continue;
            }
            let chunk = tokio::time::timeout(SOON, self.response.chunk()).await.context("nothing was said")??;
            self.buffer.push_str(std::str::from_utf8(&chunk.context("the stream ended")?)?);
        }
    }

    fn take(&mut self, event: AckEvent) {
        let (expositions, removed, saved) = match event {
            AckEvent::Snapshot { instance, expositions, saved, .. } => {
                self.instance = instance;
                (expositions, Vec::new(), saved)
            }
            AckEvent::Changed { expositions, removed } => (expositions, removed, Vec::new()),
            AckEvent::Counted { saved } => (Vec::new(), Vec::new(), saved),
        };
        for id in removed {
            self.states.remove(&id.name);
        }
        self.states.extend(expositions.into_iter().map(|ack| (ack.id.name.clone(), ack)));
        self.saved.extend(saved.into_iter().map(|saved| (saved.id.name, (saved.input_bytes, saved.output_bytes))));
    }

    /// The newest state of an exposition.
    fn now(&self, name: &str) -> Option<&AckState> {
        self.states.get(name).map(|ack| &ack.state)
    }

    /// Reads on until an exposition's newest state is of this digest, and gives it.
    async fn state(&mut self, name: &str, digest: &str) -> Result<AckState> {
        let until = Instant::now() + SOON;
        while Instant::now() < until {
            if let Some(ack) = self.states.get(name).filter(|ack| ack.digest.0 == digest) {
                return Ok(ack.state.clone());
            }
            self.next().await?;
        }
        bail!("{name} was not acknowledged: {:?}", self.states)
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<()> {
        let until = Instant::now() + SOON;
        while !holds(self) {
            ensure!(Instant::now() < until, "{what}: {:?} {:?}", self.states, self.saved);
            self.next().await?;
        }
        Ok(())
    }
}

/// What a call answers: the status, and the members that came or the message.
async fn call(gateway: &ClusterGateway, name: &str) -> Result<(u16, Value)> {
    let answer = gateway.rpc("team", name, Era::Modern)?.call("read", &json!({})).await?;
    let message = answer.message()?;
    Ok(match answer.text_block() {
        Ok(text) => (answer.status, serde_json::from_str(&text)?),
        Err(_) => (answer.status, message),
    })
}

/// Waits until a call answers so.
async fn answers(gateway: &ClusterGateway, name: &str, wanted: &Value) -> Result<()> {
    let asked = || async {
        let (_, answer) = call(gateway, name).await?;
        Ok((answer == *wanted).then_some(()))
    };
    match eventually(&format!("{name} answers {wanted}"), SOON, asked).await {
        Ok(()) => Ok(()),
        Err(error) => bail!("{error:#}; it answers {:?}", call(gateway, name).await),
    }
}

/// The status of a path of the admin port, and what it says.
async fn admin(gateway: &ClusterGateway, path: &str, token: Option<&str>) -> Result<(u16, String)> {
    let mut request = reqwest::Client::new().get(format!("{}{path}", gateway.admin.url));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let answer = request.send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// An upstream that says which credential it was sent.
async fn upstream() -> Result<String> {
    let answer = |headers: HeaderMap| async move {
        let sent = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        // Reversed, because a test searches logs for the values.
        let sent: String = sent.chars().rev().collect();
        ([("content-type", "application/json")], json!({"sent": sent, "a": 1, "b": 2}).to_string())
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let app = Router::new().route("/", axum::routing::get(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(url)
}

/// What the upstream says that was sent.
fn sent(value: &str) -> String {
    format!("Bearer {value}").chars().rev().collect()
}

struct Setup {
    // Ended before the cluster, whose folder has its log.
    gateway: ClusterGateway,
    cluster: Cluster,
    writer: Writer,
    api: ServiceDocument,
}

async fn prepare() -> Result<(Cluster, Writer, std::path::PathBuf)> {
    let cluster = Cluster::start().await?;
    cluster.install_crds().await?;
    cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"], None).await?;
    let kubeconfig = cluster.service_account(NAMESPACE, "tamis-public").await?;
    cluster.apply(&role()?).await?;
    let writer = Writer::of(&cluster);
    Ok((cluster, writer, kubeconfig))
}

fn start(cluster: &Cluster, kubeconfig: &Path) -> Result<ClusterGateway> {
    ClusterGateway::spawn(cluster, GROUP, NAMESPACE, kubeconfig, ARGUMENTS)
}

#[tokio::test]
async fn a_gateway_serves_what_the_operator_writes() -> Result<()> {
    let (cluster, writer, kubeconfig) = prepare().await?;
    let mut gateway = start(&cluster, &kubeconfig)?;
    gateway.ready().await?;
    ensure!(admin(&gateway, "/config", Some("guess")).await?.0 == 503, "no token is known");
    writer.secret(&names::token_secret(GROUP), &[(names::TOKEN_KEY, "group-token-1")].into()).await?;
    let known = || async { Ok((admin(&gateway, "/config", Some("group-token-1")).await?.0 == 200).then_some(())) };
    eventually("the token is known", SOON, known).await?;
    let api = service(&upstream().await?);
    let setup = Setup { gateway, cluster, writer, api };

    requests_without_a_token_reveal_nothing(&setup).await?;
    documents_come_in_any_order(&setup).await?;
    a_change_fails_no_call(&setup).await?;
    unloadable_documents_are_reported(&setup).await?;
    deletions_during_a_pause_take_effect(&setup).await?;
    the_role_gives_no_other_rights(&setup, &kubeconfig).await?;
    a_stop_loses_no_call(setup).await
}

async fn requests_without_a_token_reveal_nothing(setup: &Setup) -> Result<()> {
    for path in ["/config", "/acks"] {
        for token in [None, Some(""), Some("group-token-"), Some("group-token-12")] {
            let (status, said) = admin(&setup.gateway, path, token).await?;
            ensure!(status == 401 && !said.contains("team"), "{path} {token:?}: {status} {said}");
        }
    }
    for path in ["/metrics", "/livez", "/readyz"] {
        ensure!(admin(&setup.gateway, path, None).await?.0 == 200, "{path}");
    }
    Ok(())
}

async fn documents_come_in_any_order(setup: &Setup) -> Result<()> {
    let Setup { writer, gateway, api, .. } = setup;
    let mut acks = Acks::open(gateway, "group-token-1").await?;
    let first = exposition("one", api, &["a", "sent"], "u1.1.token");
    let digest = writer.serve(&first).await?;
    let AckState::Waiting { message } = acks.state("one", &digest).await? else { bail!("{:?}", acks.states) };
    ensure!(message.contains("part 0"), "{message}");
    let (status, answer) = call(gateway, "one").await?;
    ensure!(status == 503 && answer.to_string().contains("not available"), "{status} {answer}");
    writer.service(api).await?;
    acks.until(
        "it waits for the credential",
        |acks| matches!(acks.now("one"), Some(AckState::Waiting { message }) if message.contains("api/token")),
    )
    .await?;
    writer.credentials(&[("u1.1.token", "sesame-1")]).await?;
    acks.until("it is loaded", |acks| acks.now("one") == Some(&AckState::Loaded)).await?;
    ensure!(call(gateway, "one").await? == (200, json!({"a": 1, "sent": sent("sesame-1")})));

    // The new credential comes before the document, the old one goes after it: as two watches may see it, at once.
    let digest = writer.serve(&exposition("one", api, &["a", "sent"], "u1.2.token")).await?;
    ensure!(matches!(acks.state("one", &digest).await?, AckState::Waiting { .. }));
    ensure!(call(gateway, "one").await? == (200, json!({"a": 1, "sent": sent("sesame-1")})), "the one before stays");
    writer.credentials(&[("u1.2.token", "sesame-2")]).await?;
    acks.until("it is loaded", |acks| acks.now("one") == Some(&AckState::Loaded)).await?;
    ensure!(call(gateway, "one").await? == (200, json!({"a": 1, "sent": sent("sesame-2")})));

    acks.until("the savings are counted", |acks| acks.saved.get("one").is_some_and(|saved| saved.0 > saved.1)).await?;
    writer.remove("one").await?;
    acks.until("it is gone", |acks| !acks.states.contains_key("one")).await?;
    ensure!(call(gateway, "one").await?.0 == 404);
    Ok(())
}

async fn a_change_fails_no_call(setup: &Setup) -> Result<()> {
    let Setup { writer, gateway, api, .. } = setup;
    let shown = [&["a", "sent"][..], &["b", "sent"][..]];
    writer.serve(&exposition("busy", api, shown[0], "u1.2.token")).await?;
    answers(gateway, "busy", &json!({"a": 1, "sent": sent("sesame-2")})).await?;
    let mut acks = Acks::open(gateway, "group-token-1").await?;
    let (done, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let rpc = gateway.rpc("team", "busy", Era::Modern)?;
    let calling = {
        let (done, calls) = (Arc::clone(&done), Arc::clone(&calls));
        tokio::spawn(async move {
            let mut seen = HashSet::new();
            while !done.load(Ordering::SeqCst) {
                seen.insert(rpc.call("read", &json!({})).await?.text_block()?);
                calls.fetch_add(1, Ordering::SeqCst);
            }
            anyhow::Ok(seen)
        })
    };
    let mut took = Vec::new();
    for turn in 0..40 {
        let (handle, value) = [("u1.2.token", "sesame-2"), ("u1.3.token", "sesame-3")][turn / 2 % 2];
        let other = [("u1.2.token", "sesame-2"), ("u1.3.token", "sesame-3")][(turn / 2 + 1) % 2];
        writer.credentials(&[(handle, value), other]).await?;
        let began = Instant::now();
        let digest = writer.serve(&exposition("busy", api, shown[turn % 2], handle)).await?;
        ensure!(acks.state("busy", &digest).await? == AckState::Loaded);
        took.push(began.elapsed());
        writer.credentials(&[(handle, value)]).await?;
    }
    done.store(true, Ordering::SeqCst);
    let seen = calling.await??;
    took.sort();
    println!(
        "{} calls over 40 changes, written to acknowledged in {:?} (median), {:?} (worst)",
        calls.load(Ordering::SeqCst),
        took[took.len() / 2],
        took[took.len() - 1]
    );
    let each = |value| [json!({"a": 1, "sent": sent(value)}), json!({"b": 2, "sent": sent(value)})];
    let possible: HashSet<_> = ["sesame-2", "sesame-3"].into_iter().flat_map(each).map(|v| sorted(&v)).collect();
    let read = |text: &String| serde_json::from_str(text).map(|value| sorted(&value));
    let seen = seen.iter().map(read).collect::<Result<HashSet<_>, _>>()?;
    ensure!(seen.is_subset(&possible), "a mixture: {seen:?}");
    writer.credentials(&[("u1.2.token", "sesame-2"), ("u1.3.token", "sesame-3")]).await
}

/// Members in the order of their names.
fn sorted(value: &Value) -> String {
    let members: BTreeMap<_, _> = value.as_object().into_iter().flatten().collect();
    format!("{members:?}")
}

async fn unloadable_documents_are_reported(setup: &Setup) -> Result<()> {
    let Setup { writer, gateway, api, .. } = setup;
    let mut acks = Acks::open(gateway, "group-token-1").await?;
    let good = exposition("kept", api, &["a"], "u1.2.token");
    writer.serve(&good).await?;
    answers(gateway, "kept", &json!({"a": 1})).await?;
    let newer = ExpositionPayload::Serve(exposition("kept", api, &["b"], "u1.2.token"));
    let spec = encode_exposition(GROUP, &newer).map_err(anyhow::Error::msg)?;
    let object = names::exposition_object(&id("kept"));

    for (spec, wanted) in [
        (GatewayConfigSpec { format_version: FORMAT_VERSION + 1, ..spec.clone() }, Reason::GatewayTooOld),
        (GatewayConfigSpec { data: "AAAA".to_owned(), ..spec.clone() }, Reason::InvalidManifest),
    ] {
        writer.put(&object, spec.clone()).await?;
        acks.until(
            wanted.as_str(),
            |acks| matches!(acks.now("kept"), Some(AckState::Refused { reason, .. }) if *reason == wanted),
        )
        .await?;
        ensure!(call(gateway, "kept").await? == (200, json!({"a": 1})), "the one before stays");
        // It does not delay other expositions.
        let name = wanted.as_str().to_lowercase();
        let digest = writer.serve(&exposition(&name, api, &["a"], "u1.2.token")).await?;
        ensure!(acks.state(&name, &digest).await? == AckState::Loaded);
        writer.remove(&name).await?;
    }
    writer.payload(&newer).await?;
    acks.until("it is healed", |acks| acks.now("kept") == Some(&AckState::Loaded)).await?;
    ensure!(call(gateway, "kept").await? == (200, json!({"b": 2})));

    let mut open = good.clone();
    open.access = None;
    let digest = writer.serve(&open).await?;
    let state = acks.state("kept", &digest).await?;
    ensure!(matches!(&state, AckState::Refused { reason: Reason::AccessRequired, .. }), "{state:?}");
    ensure!(call(gateway, "kept").await?.0 == 503);

    let stop = StopDocument {
        format_version: FORMAT_VERSION,
        id: id("kept"),
        reason: Reason::FilterSetNotFound,
        message: "spec.filters: there is no set x".to_owned(),
    };
    let digest = writer.payload(&ExpositionPayload::Stop(stop)).await?;
    ensure!(acks.state("kept", &digest).await? == AckState::Stopped);
    let (status, answer) = call(gateway, "kept").await?;
    ensure!(status == 503 && !answer.to_string().contains("FilterSetNotFound"), "{status} {answer}");
    // What was stopped does not come back for a document that cannot be loaded.
    writer.serve(&exposition("kept", api, &["a"], "u1.9.token")).await?;
    acks.until("it waits", |acks| matches!(acks.now("kept"), Some(AckState::Waiting { .. }))).await?;
    ensure!(call(gateway, "kept").await?.0 == 503);
    writer.serve(&good).await?;
    answers(gateway, "kept", &json!({"a": 1})).await
}

async fn deletions_during_a_pause_take_effect(setup: &Setup) -> Result<()> {
    let Setup { gateway, cluster, writer, api } = setup;
    writer.serve(&exposition("gone", api, &["a"], "u1.2.token")).await?;
    answers(gateway, "gone", &json!({"a": 1})).await?;
    gateway.process.pause()?;
    writer.remove("gone").await?;
    writer.serve(&exposition("kept", api, &["b"], "u1.2.token")).await?;
    // The watch cannot resume: everything is listed again.
    cluster.compact().await?;
    gateway.process.resume()?;
    let gone = || async { Ok((call(gateway, "gone").await?.0 == 404).then_some(())) };
    eventually("what the new list lacks is gone", Duration::from_secs(60), gone).await?;
    answers(gateway, "kept", &json!({"b": 2})).await
}

/// The Role is enough, as the rest of this test shows; it gives nothing more either.
async fn the_role_gives_no_other_rights(setup: &Setup, kubeconfig: &Path) -> Result<()> {
    setup.writer.secret("other", &[("key", "value")].into()).await?;
    let client = setup.cluster.client_of(kubeconfig).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    ensure!(secrets.get("other").await.is_err() && secrets.list(&Default::default()).await.is_err());
    let configs: Api<GatewayConfig> = Api::namespaced(client, NAMESPACE);
    ensure!(configs.list(&Default::default()).await.is_ok());
    ensure!(configs.delete(&names::exposition_object(&id("kept")), &Default::default()).await.is_err());
    let log = setup.gateway.process.log();
    for value in ["sesame-", "group-token-"] {
        ensure!(!log.contains(value), "{value} in the log");
    }
    Ok(())
}

async fn a_stop_loses_no_call(mut setup: Setup) -> Result<()> {
    let gateway = &mut setup.gateway;
    let url = gateway.endpoint("team", "kept");
    let listening = reqwest::Client::new().get(&url).header("accept", "text/event-stream");
    let mut stream = listening.header("mcp-protocol-version", "2025-11-25").send().await?.error_for_status()?;
    ensure!(stream.chunk().await?.is_some());
    let began = Instant::now();
    gateway.process.terminate()?;
    let failing = || async { Ok((admin(gateway, "/readyz", None).await?.0 == 503).then_some(())) };
    eventually("it is not ready", Duration::from_secs(1), failing).await?;
    let mut calls = 0;
    while began.elapsed() < Duration::from_millis(700) {
        // A connection of its own each time.
        let (status, answer) = call(gateway, "kept").await?;
        ensure!((status, &answer) == (200, &json!({"b": 2})), "{status} {answer}");
        calls += 1;
    }
    ensure!(calls > 0);
    let answer = gateway.rpc("team", "kept", Era::Modern)?.call("read", &json!({})).await?;
    ensure!(answer.headers["connection"] == "close", "kept connections go elsewhere");
    while stream.chunk().await?.is_some() {}
    let status = gateway.process.ended(SOON).await?;
    ensure!(status.success() && began.elapsed() >= Duration::from_secs(1), "{status} after {:?}", began.elapsed());
    Ok(())
}

#[tokio::test]
async fn gateways_serve_during_an_api_server_outage() -> Result<()> {
    let (cluster, writer, kubeconfig) = prepare().await?;
    let api = service(&upstream().await?);
    writer.secret(&names::token_secret(GROUP), &[(names::TOKEN_KEY, "group-token-1")].into()).await?;
    writer.credentials(&[("u1.1.token", "sesame-1")]).await?;
    writer.service(&api).await?;
    for name in ["one", "two"] {
        writer.serve(&exposition(name, &api, &["a", "sent"], "u1.1.token")).await?;
    }
    let mut gateway = start(&cluster, &kubeconfig)?;
    gateway.ready().await?;
    let good = json!({"a": 1, "sent": sent("sesame-1")});
    ensure!(call(&gateway, "one").await? == (200, good.clone()), "ready means that everything was processed");
    let first = Acks::open(&gateway, "group-token-1").await?.instance;
    // The last good set is on disk a moment later.
    tokio::time::sleep(Duration::from_secs(3)).await;

    cluster.stop_api_server()?;
    ensure!(call(&gateway, "one").await? == (200, good.clone()));
    let began = Instant::now();
    gateway.restart()?;
    gateway.ready().await?;
    println!("ready from the disk after {:?}", began.elapsed());
    for name in ["one", "two"] {
        ensure!(call(&gateway, name).await? == (200, good.clone()), "{name}");
    }
    let (_, said) = admin(&gateway, "/readyz", None).await?;
    ensure!(said.contains("kept on disk"), "{said}");
    let acks = Acks::open(&gateway, "group-token-1").await?;
    ensure!(acks.instance != first && acks.states.len() == 2, "{:?}", acks.states);
    ensure!(admin(&gateway, "/acks", Some("group-token-2")).await?.0 == 401);

    cluster.start_api_server().await?;
    writer.remove("two").await?;
    writer.serve(&exposition("one", &api, &["b"], "u1.1.token")).await?;
    let long = Duration::from_secs(60);
    let gone = || async { Ok((call(&gateway, "two").await?.0 == 404).then_some(())) };
    eventually("it follows again", long, gone).await?;
    answers(&gateway, "one", &json!({"b": 2})).await?;
    let normal = || async { Ok((admin(&gateway, "/readyz", None).await?.1 == "ok\n").then_some(())) };
    eventually("nothing is unusual any more", long, normal).await?;

    // Without a disk it waits, and says what for.
    cluster.stop_api_server()?;
    let fresh = start(&cluster, &kubeconfig)?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (status, said) = admin(&fresh, "/readyz", None).await?;
    ensure!(status == 503 && said.contains("GatewayConfigs"), "{status} {said}");
    let log = format!("{}{}", gateway.process.log(), fresh.process.log());
    for value in ["sesame-", "group-token-"] {
        ensure!(!log.contains(value), "{value} in the log");
    }
    Ok(())
}
