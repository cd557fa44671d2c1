//! What the operator says of an object, as a real API server takes it: nothing is dropped or changed on the way, so that
//! nothing is written twice, and `kubectl wait` and Events show what people expect.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event as StoredEvent;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::runtime::events::Reporter;
use serde_json::{Value, json};
use tamis_config::{Digest, ExpositionId, Reason};
use tamis_crds::ObjectName;
use tamis_operator::acks::{Programmed, Totals};
use tamis_operator::events::{Publisher, Regarding, events};
use tamis_operator::object::{Kind, ObjectKey};
use tamis_operator::status::{StatusInput, desired};
use tamis_operator::verdict::{Exposed, Finding, GroupFacts, RequiredDocument, UpstreamAddress, Verdict};
use tamis_tests::cluster::{Cluster, eventually, objects};

const NAMESPACE: &str = "team";

fn spec(kind: Kind) -> Value {
    match kind {
        Kind::ServiceManifest => json!({
            "version": "1.0.0",
            "http": {"baseUrl": "https://api.example.com", "actions": {"list": {"method": "GET", "path": "/items"}}},
        }),
        Kind::ToolsFilters => json!({
            "service": {"name": "one", "version": "1.0.0"}, "filters": {"list": {"maxItems": 3}},
        }),
        Kind::CustomTools => json!({
            "service": {"name": "one", "version": "1.0.0"}, "customTools": {"all": {"tool": "list"}},
        }),
        Kind::Prompts => json!({
            "service": {"name": "one", "version": "1.0.0"}, "prompts": {"ask": {"result": "Ask"}},
        }),
        Kind::Resources => json!({
            "service": {"name": "one", "version": "1.0.0"}, "resources": {"a:/b": {"name": "b", "text": "t"}},
        }),
        Kind::ConfigurationPlan => json!({"endpoint": "https://api.example.com"}),
        Kind::GatewayGroup => json!({"replicas": 2}),
        Kind::Exposition => json!({
            "service": {"name": "one", "version": "1.0.0"}, "access": {"anonymous": true}, "filters": [],
        }),
    }
}

fn verdict(kind: Kind, findings: Vec<Finding>) -> Verdict {
    let group = ObjectName { namespace: "edge".to_owned(), name: "public".to_owned() };
    let id = ExpositionId { namespace: NAMESPACE.to_owned(), name: "one".to_owned() };
    let exposed = || Exposed {
        group: Some(group.clone()),
        url: Some("http://tamis-public.edge.svc:8080/mcp/team/one".to_owned()),
        tools: 4,
        filters: vec![("partner".to_owned(), 3), ("all".to_owned(), 0)],
        upstream: Some(UpstreamAddress {
            url: "https://mcp.example.com/mcp".to_owned(),
            plan: Some("europe".to_owned()),
            is_watched: true,
        }),
        ..Exposed::default()
    };
    let facts = || GroupFacts {
        attached: 1,
        ready_replicas: 2,
        versions: vec!["1.0.0".to_owned()],
        url: Some("http://public".to_owned()),
    };
    Verdict {
        findings,
        documents: vec![RequiredDocument { group: group.clone(), id, digest: Digest("d".to_owned()) }],
        exposed: (kind == Kind::Exposition).then(exposed),
        group: (kind == Kind::GatewayGroup).then(facts),
        paused: None,
        unwritten: false,
        waits: false,
    }
}

/// An object of the API, and what the operator does with it.
struct Object {
    kind: Kind,
    api: Api<DynamicObject>,
}

impl Object {
    async fn create(cluster: &Cluster, kind: Kind) -> Result<Self> {
        let api = objects(cluster.client(), NAMESPACE, kind.as_str(), kind.plural());
        let object = Self { kind, api };
        object.edit(cluster, &spec(kind)).await?;
        Ok(object)
    }

    async fn edit(&self, cluster: &Cluster, spec: &Value) -> Result<()> {
        let name = json!({"name": "one", "namespace": NAMESPACE});
        let kind = self.kind.as_str();
        let object = json!({"apiVersion": "tamis.dev/v1alpha1", "kind": kind, "metadata": name, "spec": spec});
        cluster.apply(&object.to_string()).await
    }

    async fn get(&self) -> Result<DynamicObject> {
        Ok(self.api.get("one").await?)
    }

    /// Returns the status to write for the object in its current state.
    async fn desired(&self, verdict: &Verdict, programmed: &Programmed) -> Result<Option<Value>> {
        let object = self.get().await?;
        Ok(desired(&StatusInput {
            kind: self.kind,
            generation: object.metadata.generation.context("no generation")?,
            previous: object.data.get("status"),
            verdict,
            programmed,
            saved: Some(Totals { input_bytes: 1000, output_bytes: 70 }),
            upstream: None,
            now: Timestamp::now(),
        }))
    }

    async fn write(&self, manager: &str, status: &Value) -> Result<Value> {
        let patch = json!({"apiVersion": "tamis.dev/v1alpha1", "kind": self.kind.as_str(), "status": status});
        let parameters = PatchParams::apply(manager).force();
        let written = self.api.patch_status("one", &parameters, &Patch::Apply(patch)).await?;
        written.data.get("status").cloned().context("no status")
    }

    /// Writes the desired status, and expects no further write.
    async fn settle(&self, verdict: &Verdict, programmed: &Programmed) -> Result<Value> {
        let next = self.desired(verdict, programmed).await?.context("nothing to write")?;
        let stored = self.write("tamis-operator", &next).await?;
        let again = self.desired(verdict, programmed).await?;
        ensure!(again.is_none(), "{:?}: stored {stored}, and then {again:?}", self.kind);
        Ok(stored)
    }
}

fn condition<'a>(status: &'a Value, type_: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

#[tokio::test]
async fn a_status_is_stored_as_it_is_written() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.install_crds().await?;
    cluster.namespace(NAMESPACE).await?;

    // Every kind, well and unwell: the schema drops nothing, so nothing is written again.
    for kind in Kind::ALL {
        let object = Object::create(&cluster, kind).await?;
        let waiting = Programmed::Pending { message: "Not loaded yet by a".to_owned() };
        if kind != Kind::GatewayGroup {
            object.settle(&verdict(kind, vec![]), &waiting).await?;
        }
        let broken = verdict(kind, vec![Finding::error(Reason::InvalidFilter, "é".repeat(5000))]);
        object.settle(&broken, &Programmed::Loaded).await?;
        let stored = object.settle(&verdict(kind, vec![]), &Programmed::Loaded).await?;
        ensure!(condition(&stored, "Ready").context("Ready")?["status"] == "True", "{kind:?}: {stored}");
    }
    let printed = cluster.kubectl(&["get", "expo", "--namespace", NAMESPACE], None).await?;
    let row: Vec<&str> = printed.lines().nth(1).context("no row")?.split_whitespace().collect();
    let url = "http://tamis-public.edge.svc:8080/mcp/team/one";
    assert_eq!(row[..6], ["one", "one", url, "4", "93%", "True"], "{printed}");

    let object = Object::create(&cluster, Kind::Exposition).await?;
    foreign_conditions_stay(&object).await?;
    waits(&cluster, &object).await?;
    publishes(&cluster, &object).await
}

/// Another manager's condition stays when the operator writes its own, and a field that the operator no longer names is
/// removed.
async fn foreign_conditions_stay(object: &Object) -> Result<()> {
    let foreign = json!({
        "type": "Approved", "status": "True", "reason": "Signed", "message": "by security",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    object.write("security", &json!({"conditions": [foreign]})).await?;
    let mut well = verdict(object.kind, vec![]);
    ensure!(object.desired(&well, &Programmed::Loaded).await?.is_none(), "a foreign condition is no change");
    well.exposed = Some(Exposed { tools: 1, ..Exposed::default() });
    let stored = object.settle(&well, &Programmed::Loaded).await?;
    assert_eq!(condition(&stored, "Approved"), Some(&foreign));
    assert_eq!((stored.get("url"), stored.get("filters"), stored.get("gatewayGroup")), (None, None, None));
    assert_eq!(stored["tools"], 1);
    Ok(())
}

/// `kubectl wait` right after an edit does not return for what was ready before.
async fn waits(cluster: &Cluster, object: &Object) -> Result<()> {
    let wait = |timeout: &'static str| async move {
        let args = ["wait", "--for=condition=Ready", "--namespace", NAMESPACE, "expo/one", "--timeout", timeout];
        cluster.kubectl(&args, None).await
    };
    let well = verdict(object.kind, vec![]);
    object.settle(&well, &Programmed::Loaded).await?;
    wait("5s").await?;
    let mut edited = spec(object.kind);
    edited["tools"] = json!({"include": ["list*"]});
    object.edit(cluster, &edited).await?;
    ensure!(object.desired(&well, &Programmed::Settling).await?.is_none(), "the old generation says enough");
    ensure!(wait("1s").await.is_err(), "it returned for the generation before");
    object.settle(&well, &Programmed::Pending { message: "Not loaded yet by a".to_owned() }).await?;
    ensure!(wait("1s").await.is_err(), "it returned for what is pending");
    let (waited, stored) = tokio::join!(wait("20s"), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        object.settle(&well, &Programmed::Loaded).await
    });
    stored?;
    waited.map(drop)
}

/// Events reach the API with their own texts.
async fn publishes(cluster: &Cluster, object: &Object) -> Result<()> {
    let reporter = Reporter { controller: "tamis-operator".to_owned(), instance: Some("test".to_owned()) };
    let publisher = Publisher::start(cluster.client(), reporter);
    for message in ["filters.list: one", "filters.list: another"] {
        let broken = verdict(object.kind, vec![Finding::error(Reason::InvalidFilter, message)]);
        let before = object.get().await?;
        let next = object.desired(&broken, &Programmed::Loaded).await?.context("nothing to write")?;
        let found = events(before.data.get("status"), &next, &broken);
        object.write("tamis-operator", &next).await?;
        let key = ObjectKey {
            kind: object.kind,
            name: ObjectName { namespace: NAMESPACE.to_owned(), name: "one".to_owned() },
        };
        let metadata = before.metadata;
        let regarding = Regarding {
            key,
            uid: metadata.uid.context("no uid")?,
            resource_version: metadata.resource_version.context("no version")?,
        };
        publisher.publish(regarding, found);
    }
    let api = Api::<StoredEvent>::namespaced(cluster.client(), NAMESPACE);
    let stored = eventually("two Events", Duration::from_secs(10), async || {
        let list = api.list(&ListParams::default()).await?;
        Ok((list.items.len() >= 2).then_some(list.items))
    })
    .await?;
    let mut notes: Vec<_> = stored.iter().filter_map(|event| event.note.as_deref()).collect();
    notes.sort_unstable();
    assert_eq!(notes, ["filters.list: another", "filters.list: one"]);
    let described = cluster.kubectl(&["describe", "expo", "one", "--namespace", NAMESPACE], None).await?;
    ensure!(described.contains("InvalidFilter") && described.contains("filters.list: another"), "{described}");
    Ok(())
}
