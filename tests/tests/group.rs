//! What a GatewayGroup owns, against a real API server and its authoriser: the operator acts with the rights that
//! `deploy/rbac.yaml` gives it, and no others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tamis_config::Reason;
use tamis_config::group_keys::{GroupKeys, KEY_LIFETIME};
use tamis_operator::group::{
    self, Change, ChildKind, GatewayPod, GroupInput, GroupOutcome, Observed, Settings, reconcile,
};
use tamis_operator::leader::{self, Leadership, LeaseOptions};
use tamis_tests::cluster::{Cluster, eventually};
use tamis_tests::root;
use tokio_util::sync::CancellationToken;

const SOON: Duration = Duration::from_secs(10);
const NAME: &str = "tamis-public";

/// An operator as far as groups are concerned.
struct Operator {
    client: Client,
    leadership: Leadership,
    observed: Observed,
    settings: Settings,
    admin: Client,
}

impl Operator {
    /// Applies the operator's rights, and starts it as its own ServiceAccount.
    async fn start(cluster: &Cluster) -> Result<Self> {
        cluster.apply(&std::fs::read_to_string(root().join("deploy/rbac.yaml"))?).await?;
        cluster.namespace("edge").await?;
        let bind = ["-n", "edge", "create", "rolebinding", "tamis-group", "--clusterrole=tamis-group"];
        let bind = [&bind[..], &["--serviceaccount=tamis-system:tamis-operator"]].concat();
        cluster.kubectl(&bind, None).await?;
        let kubeconfig = cluster.service_account("tamis-system", "tamis-operator").await?;
        let client = cluster.client_of(&kubeconfig).await?;
        let options = LeaseOptions::new("tamis-system", "test");
        let leadership = leader::run(client.clone(), options, CancellationToken::new());
        let (observed, mut changes) = group::watch(&client, &[]);
        tokio::spawn(async move { while changes.next().await.is_some() {} });
        let settings = Settings::new("tamis:1", Some("tamis-system".into()));
        let operator = Self { client, leadership, observed, settings, admin: cluster.client() };
        eventually("leading and synced", Duration::from_secs(30), async || {
            let ready = operator.leadership.may_write().is_some() && operator.observed.waiting_for().is_empty();
            Ok(ready.then_some(()))
        })
        .await?;
        Ok(operator)
    }

    async fn reconcile(&self, group: &GroupInput) -> Result<GroupOutcome> {
        let permit = self.leadership.may_write().context("leads")?;
        Ok(reconcile(&self.client, &permit, group, &self.settings, &self.observed).await?)
    }

    /// Reconciles until nothing is left to write, as the operator does with every event.
    async fn settle(&self, group: &GroupInput) -> Result<GroupOutcome> {
        eventually("all as it should be", SOON, async || {
            let outcome = self.reconcile(group).await?;
            let waits = outcome.retry.is_some_and(|retry| retry < Duration::from_secs(10));
            Ok((outcome.writes == 0 && !waits).then_some(outcome))
        })
        .await
    }

    /// An object, as an administrator sees it.
    async fn get(&self, kind: ChildKind) -> Result<Option<DynamicObject>> {
        Ok(self.api(kind).get_opt(NAME).await?)
    }

    fn api(&self, kind: ChildKind) -> Api<DynamicObject> {
        Api::namespaced_with(self.admin.clone(), "edge", &kind.api_resource())
    }

    /// `resourceVersion` of all objects of the group.
    async fn versions(&self) -> Result<BTreeMap<&'static str, String>> {
        let mut versions = BTreeMap::new();
        for kind in ChildKind::ALL {
            if let Some(object) = self.get(kind).await? {
                versions.insert(kind.as_str(), object.metadata.resource_version.unwrap_or_default());
            }
        }
        Ok(versions)
    }
}

fn group(uid: &str, spec: Value) -> Result<GroupInput> {
    let name = tamis_crds::ObjectName { namespace: "edge".into(), name: "public".into() };
    Ok(GroupInput { name, uid: uid.into(), spec: Arc::new(serde_json::from_value(spec)?), paused: false })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_gets_its_objects_and_drift_is_repaired() -> Result<()> {
    let cluster = Cluster::start().await?;
    let operator = Operator::start(&cluster).await?;
    let first = group("uid-1", json!({"replicas": 2, "pod": {"resources": {"requests": {"cpu": "0.5"}}}}))?;
    let made = operator.reconcile(&first).await?;
    ensure!(made.writes == 9 && made.findings.is_empty(), "{made:?}");
    let token = made.token.context("a token")?;
    ensure!(token.expose().len() == 64, "32 bytes in hex");
    let before = operator.versions().await?;
    ensure!(before.len() == 7, "{before:?}");

    // Nothing differs: nothing is written, not even after a restart of the operator.
    let outcome = operator.settle(&first).await?;
    ensure!(outcome.token == Some(token.clone()), "the token stays");
    ensure!(operator.versions().await? == before, "{before:?}");

    drift_is_repaired(&operator, &first).await?;
    removed_fields_and_objects_disappear(&operator, &first).await?;

    // A deposed leader writes nothing.
    operator.api(ChildKind::Service).delete(NAME, &DeleteParams::default()).await?;
    let stale = operator.leadership.may_write().context("leads")?;
    let lease: Api<k8s_openapi::api::coordination::v1::Lease> = Api::namespaced(operator.admin.clone(), "tamis-system");
    let thief = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3}});
    lease.patch(LeaseOptions::NAME, &PatchParams::default(), &Patch::Merge(thief)).await?;
    eventually("the lease is lost", SOON, async || Ok((!stale.holds()).then_some(()))).await?;
    let refused = reconcile(&operator.client, &stale, &first, &operator.settings, &operator.observed).await;
    ensure!(matches!(refused, Err(group::Error::Deposed(_))), "{refused:?}");
    ensure!(operator.get(ChildKind::Service).await?.is_none());
    Ok(())
}

async fn drift_is_repaired(operator: &Operator, group: &GroupInput) -> Result<()> {
    let merge = PatchParams::default();
    let edits = [
        (ChildKind::Deployment, json!({"spec": {"replicas": 5}})),
        (ChildKind::Deployment, json!({"spec": {"template": {"spec": {"automountServiceAccountToken": false}}}})),
        (ChildKind::Service, json!({"spec": {"selector": {"app.kubernetes.io/name": "other"}}})),
        (ChildKind::Service, json!({"metadata": {"ownerReferences": null}})),
        (ChildKind::Role, json!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]})),
        (ChildKind::NetworkPolicy, json!({"spec": {"ingress": [{}]}})),
        (ChildKind::ServiceAccount, json!({"automountServiceAccountToken": true})),
        (ChildKind::PodDisruptionBudget, json!({"spec": {"maxUnavailable": 2}})),
        // The watch loses sight of it.
        (ChildKind::RoleBinding, json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}})),
    ];
    for (kind, edit) in edits {
        let good = operator.get(kind).await?.context("is there")?;
        operator.api(kind).patch(NAME, &merge, &Patch::Merge(&edit)).await?;
        let what = format!("{kind:?} {edit}");
        eventually(&what, SOON, async || {
            operator.reconcile(group).await?;
            let now = operator.get(kind).await?.context("is there")?;
            let same = now.metadata.labels == good.metadata.labels
                && now.metadata.owner_references == good.metadata.owner_references
                && without_status(&now) == without_status(&good);
            Ok(same.then_some(()))
        })
        .await?;
        operator.settle(group).await?;
    }
    // Fields that others add stay.
    let theirs = json!({"metadata": {"annotations": {"theirs": "1"}}, "spec": {"progressDeadlineSeconds": 77}});
    operator.api(ChildKind::Deployment).patch(NAME, &merge, &Patch::Merge(&theirs)).await?;
    operator.settle(group).await?;
    let now = operator.get(ChildKind::Deployment).await?.context("is there")?;
    ensure!(now.data["spec"]["progressDeadlineSeconds"] == 77);

    for kind in ChildKind::ALL {
        if operator.get(kind).await?.is_some() {
            operator.api(kind).delete(NAME, &DeleteParams::default()).await?;
            eventually(&format!("{kind:?} is recreated"), SOON, async || {
                operator.reconcile(group).await?;
                operator.get(kind).await
            })
            .await?;
        }
    }
    let secrets: Api<Secret> = Api::namespaced(operator.admin.clone(), "edge");
    let before = operator.settle(group).await?.token;
    secrets.delete("tamis-public-token", &DeleteParams::default()).await?;
    let after = operator.settle(group).await?.token;
    ensure!(after.is_some() && after != before, "a deleted token is recreated");

    // The keys are rotated when they are old, one step at a time, and not before.
    let keys = async || -> Result<GroupKeys> {
        let data = secrets.get("tamis-public-keys").await?.data.unwrap_or_default();
        GroupKeys::read(|name| data.get(name).map(|value| value.0.as_slice())).context("keys")
    };
    let before = keys().await?;
    let settled = operator.settle(group).await?;
    ensure!(keys().await? == before && settled.rotates_in.is_some_and(|due| due <= KEY_LIFETIME), "{settled:?}");
    let old = json!({"stringData": {"rotated": "1"}});
    secrets.patch("tamis-public-keys", &PatchParams::default(), &Patch::Merge(old)).await?;
    operator.settle(group).await?;
    let rotated = keys().await?;
    ensure!(rotated.previous.as_ref() == Some(&before.current) && rotated.current == before.next, "one step");
    ensure!(rotated.next != before.next && rotated.next != before.current, "a fresh one is published");
    // A Secret that was deleted comes back with other keys; one that cannot be read is left to a person.
    secrets.delete("tamis-public-keys", &DeleteParams::default()).await?;
    operator.settle(group).await?;
    ensure!(keys().await?.current != rotated.current, "other keys");
    let broken = json!({"stringData": {"current": "x"}});
    secrets.patch("tamis-public-keys", &PatchParams::default(), &Patch::Merge(broken)).await?;
    let findings = operator.settle(group).await?.findings;
    ensure!(
        findings.len() == 1 && findings[0].message.contains("tamis-public-keys holds no usable keys"),
        "{findings:?}"
    );
    secrets.delete("tamis-public-keys", &DeleteParams::default()).await?;
    operator.settle(group).await?;
    Ok(())
}

fn without_status(object: &DynamicObject) -> Value {
    let mut data = object.data.clone();
    if let Some(data) = data.as_object_mut() {
        data.remove("status");
    }
    data
}

async fn removed_fields_and_objects_disappear(operator: &Operator, before: &GroupInput) -> Result<()> {
    let replicas = async || -> Result<i64> {
        let deployment = operator.get(ChildKind::Deployment).await?.context("is there")?;
        deployment.data["spec"]["replicas"].as_i64().context("a number")
    };
    let uid = operator.get(ChildKind::Deployment).await?.context("is there")?.metadata.uid;
    let spec = |spec| group(&before.uid, spec);

    // Autoscaling on: the number is handed over as it is; no watcher ever sees another.
    let four = spec(json!({"replicas": 4, "pod": {"nodeSelector": {"disk": "ssd"}}}))?;
    operator.settle(&four).await?;
    ensure!(replicas().await? == 4);
    let deployments: Api<Deployment> = Api::namespaced(operator.admin.clone(), "edge");
    let version = deployments.get(NAME).await?.metadata.resource_version.unwrap_or_default();
    let mut seen = Box::pin(deployments.watch(&kube::api::WatchParams::default().timeout(20), &version).await?);
    let auto = spec(json!({"autoscaling": {"minReplicas": 2, "maxReplicas": 8}}))?;
    operator.settle(&auto).await?;
    ensure!(replicas().await? == 4, "no dip");
    ensure!(operator.get(ChildKind::HorizontalPodAutoscaler).await?.is_some());
    let deployment = operator.get(ChildKind::Deployment).await?.context("is there")?;
    let pod = &deployment.data["spec"]["template"]["spec"];
    ensure!(pod.get("nodeSelector").is_none(), "a removed field is still there: {pod}");
    // The autoscaler scales; what it says stays.
    let scale = json!({"spec": {"replicas": 7}});
    deployments.patch_scale(NAME, &PatchParams::apply("autoscaler").force(), &Patch::Merge(&scale)).await.ok();
    deployments.patch_scale(NAME, &PatchParams::default(), &Patch::Merge(&scale)).await?;
    operator.settle(&auto).await?;
    ensure!(replicas().await? == 7);
    // Another edit of the group while the autoscaler is in charge.
    let auto = spec(json!({"autoscaling": {"minReplicas": 2, "maxReplicas": 9}, "pod": {"priorityClassName": "x"}}))?;
    operator.settle(&auto).await?;
    ensure!(replicas().await? == 7);
    let numbers = async {
        let mut numbers = Vec::new();
        while let Some(event) = seen.next().await {
            if let kube::api::WatchEvent::Modified(deployment) = event? {
                numbers.push(deployment.spec.and_then(|spec| spec.replicas).unwrap_or(-1));
            }
            if numbers.last() == Some(&7) {
                break;
            }
        }
        anyhow::Ok(numbers)
    };
    let numbers = tokio::time::timeout(SOON, numbers).await??;
    ensure!(numbers.iter().all(|number| [4, 7].contains(number)), "a dip was seen: {numbers:?}");

    // Off again: back to what the group says, and the autoscaler goes, as the budget does at one gateway.
    operator.settle(&spec(json!({"replicas": 1}))?).await?;
    ensure!(replicas().await? == 1);
    ensure!(operator.get(ChildKind::HorizontalPodAutoscaler).await?.is_none());
    ensure!(operator.get(ChildKind::PodDisruptionBudget).await?.is_none());
    operator.settle(before).await?;
    ensure!(replicas().await? == 2);
    let now = operator.get(ChildKind::Deployment).await?.context("is there")?.metadata.uid;
    ensure!(now == uid, "all the time it was one Deployment");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_objects_are_left_alone() -> Result<()> {
    let cluster = Cluster::start().await?;
    let operator = Operator::start(&cluster).await?;
    // Without the group's labels, and with them; without an owner.
    let foreign = [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME},
               "spec": {"ports": [{"port": 1}], "selector": {"a": "b"}}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "labels": {
               "app.kubernetes.io/managed-by": "tamis-operator", "tamis.dev/gateway-group": "public"}}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tamis-public-token"},
               "stringData": {"token": "theirs"}}),
    ];
    for object in &foreign {
        cluster.kubectl(&["-n", "edge", "create", "--filename=-"], Some(&object.to_string())).await?;
    }
    let before = operator.versions().await?;
    let group_1 = group("uid-1", json!({}))?;
    let outcome = operator.reconcile(&group_1).await?;
    let mut messages: Vec<_> = outcome.findings.iter().map(|f| (f.reason, f.is_error, f.message.as_str())).collect();
    messages.sort_unstable();
    ensure!(
        messages.len() == 3 && messages.iter().all(|(reason, error, _)| *reason == Reason::Conflict && *error),
        "{messages:?}"
    );
    for (name, (_, _, message)) in
        ["Secret edge/tamis-public-token", "Service edge/tamis-public", "ServiceAccount edge/tamis-public"]
            .iter()
            .zip(messages)
    {
        ensure!(message.starts_with(name), "{message}");
    }
    ensure!(outcome.token.is_none(), "a foreign token is not used");
    ensure!(outcome.retry.is_some(), "no watch tells when it is gone");
    let after = operator.versions().await?;
    for (kind, version) in before {
        ensure!(after[kind] == version, "{kind} was touched");
    }
    // Out of the way: made.
    cluster.kubectl(&["-n", "edge", "delete", "service,serviceaccount", NAME], None).await?;
    cluster.kubectl(&["-n", "edge", "delete", "secret", "tamis-public-token"], None).await?;
    ensure!(operator.settle(&group_1).await?.findings.is_empty());

    // A group that was deleted and made again, before Kubernetes has collected what the first one owned.
    let group_2 = group("uid-2", json!({}))?;
    let outcome = operator.reconcile(&group_2).await?;
    ensure!(outcome.writes == 0 && outcome.token.is_none() && outcome.retry.is_some(), "{outcome:?}");
    for kind in ChildKind::ALL {
        operator.api(kind).delete(NAME, &DeleteParams::default()).await.ok();
    }
    let secrets = Api::<Secret>::namespaced(operator.admin.clone(), "edge");
    for name in ["tamis-public-token", "tamis-public-keys"] {
        secrets.delete(name, &DeleteParams::default()).await?;
    }
    ensure!(operator.settle(&group_2).await?.token.is_some());
    let owner = operator.get(ChildKind::Deployment).await?.context("is there")?.metadata.owner_references;
    ensure!(owner.unwrap_or_default()[0].uid == "uid-2");

    // A rejection by the API is reported, and the other objects are still written.
    let wrong = group("uid-2", json!({"replicas": 3, "pod": {"resources": {"requests": {"cpu": "many"}}}}))?;
    let outcome = operator.reconcile(&wrong).await?;
    ensure!(
        outcome.findings.len() == 1 && outcome.findings[0].reason == Reason::InvalidManifest,
        "{:?}",
        outcome.findings
    );
    let wrong = group(
        "uid-2",
        json!({"replicas": 3, "pod": {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "2"}}}}),
    )?;
    let outcome = operator.reconcile(&wrong).await?;
    ensure!(
        outcome.findings.len() == 1 && outcome.findings[0].message.contains("must be less than or equal to cpu limit"),
        "{:?}",
        outcome.findings
    );
    ensure!(operator.get(ChildKind::PodDisruptionBudget).await?.is_some());

    // The certificate of the serving port: visible errors of its Secret are reported.
    let tls = group("uid-2", json!({"listener": {"tls": {"secretRef": {"name": "public-tls"}}}}))?;
    let said = async || -> Result<Vec<(Reason, String)>> {
        let outcome = operator.reconcile(&tls).await?;
        Ok(outcome.findings.into_iter().map(|finding| (finding.reason, finding.message)).collect())
    };
    let found = said().await?;
    ensure!(found.len() == 1 && found[0].0 == Reason::SecretNotFound, "{found:?}");
    cluster.kubectl(&["-n", "edge", "create", "secret", "generic", "public-tls", "--from-literal=a=b"], None).await?;
    let found = said().await?;
    ensure!(found.len() == 1 && found[0].1.contains("is not of type kubernetes.io/tls"), "{found:?}");
    cluster.kubectl(&["-n", "edge", "delete", "secret", "public-tls"], None).await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "public-tls", "namespace": "edge"}, "stringData": {"tls.crt": "x", "tls.key": "y"}});
    cluster.apply(&secret.to_string()).await?;
    ensure!(said().await?.is_empty());
    // A Service of every type that can be asked for, back and forth.
    for service in [
        json!({"type": "NodePort", "externalTrafficPolicy": "Local"}),
        json!({"type": "LoadBalancer", "annotations": {"a.example/b": "c"}, "loadBalancerClass": "a.example/lb",
               "loadBalancerSourceRanges": ["203.0.113.0/24"]}),
        json!({}),
    ] {
        let asked =
            group("uid-2", json!({"listener": {"tls": {"secretRef": {"name": "public-tls"}}, "service": service}}))?;
        let outcome = operator.settle(&asked).await?;
        ensure!(outcome.findings.is_empty(), "{service}: {:?}", outcome.findings);
        let there = operator.get(ChildKind::Service).await?.context("is there")?;
        ensure!(there.data["spec"]["type"] == *service.get("type").unwrap_or(&json!("ClusterIP")), "{service}");
        let annotated = there.metadata.annotations.unwrap_or_default().contains_key("a.example/b");
        ensure!(annotated == service.get("annotations").is_some(), "{service}");
    }
    // All that pods and their number can be given, taken by the API and left alone by the next look.
    let all = group(
        "uid-2",
        json!({
            "autoscaling": {"minReplicas": 2, "maxReplicas": 4, "targetMemoryUtilization": 80, "behavior": {
                "scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]},
                "scaleDown": {"stabilizationWindowSeconds": 60}}},
            "disruptionBudget": {"minAvailable": "50%"},
            "pod": {"image": "tamis:pinned", "env": [{"name": "RUST_LOG", "value": "debug"}],
                    "tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 60}],
                    "topologySpreadConstraints": [{"topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}],
                    "terminationGracePeriodSeconds": 60},
        }),
    )?;
    ensure!(operator.settle(&all).await?.findings.is_empty());
    let before = operator.versions().await?;
    operator.settle(&all).await?;
    ensure!(operator.versions().await? == before, "written again");
    // Paused: what would be written is named, and nothing is.
    let paused = GroupInput { paused: true, ..group("uid-2", json!({"replicas": 3}))? };
    let outcome = operator.reconcile(&paused).await?;
    ensure!(outcome.writes == 0 && outcome.token.is_some(), "{outcome:?}");
    ensure!(outcome.waiting.contains(&"Deployment tamis-public".to_owned()), "{:?}", outcome.waiting);
    ensure!(outcome.waiting.contains(&"HorizontalPodAutoscaler tamis-public".to_owned()), "{:?}", outcome.waiting);
    ensure!(operator.versions().await? == before, "a pause writes nothing");
    operator.settle(&group_2).await?;

    // A namespace where the operator may not write.
    cluster.namespace("other").await?;
    let other = GroupInput {
        name: tamis_crds::ObjectName { namespace: "other".into(), name: "public".into() },
        ..group("uid-3", json!({}))?
    };
    let outcome = operator.reconcile(&other).await?;
    ensure!(outcome.writes == 0 && outcome.token.is_none(), "{outcome:?}");
    ensure!(
        !outcome.findings.is_empty() && outcome.findings.iter().all(|f| f.reason == Reason::RefNotPermitted),
        "{outcome:?}"
    );

    only_owned_pods_are_gateways(&cluster, &operator, &group_2).await
}

/// There is no controller here: the ReplicaSet and the pods are made by hand, as the controllers would.
async fn only_owned_pods_are_gateways(cluster: &Cluster, operator: &Operator, group: &GroupInput) -> Result<()> {
    let deployment = operator.get(ChildKind::Deployment).await?.context("is there")?;
    let template = deployment.data["spec"]["template"].clone();
    let owner = |kind: &str, name: &str, uid: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true}]);
    let create = async |mut object: Value, kind: &str, owners: Value| -> Result<String> {
        object["kind"] = json!(kind);
        object["metadata"]["labels"] = template["metadata"]["labels"].clone();
        object["metadata"]["ownerReferences"] = owners;
        let made = cluster
            .kubectl(
                &["-n", "edge", "create", "-o", "jsonpath={.metadata.uid}", "--filename=-"],
                Some(&object.to_string()),
            )
            .await?;
        Ok(made)
    };
    // Made by a controller elsewhere; no pod is admitted without.
    cluster.service_account("edge", "default").await?;
    let uid = deployment.metadata.uid.clone().unwrap_or_default();
    let set = json!({"apiVersion": "apps/v1", "metadata": {"name": "tamis-public-1"},
                     "spec": {"selector": deployment.data["spec"]["selector"], "template": template}});
    let set = create(set, "ReplicaSet", owner("Deployment", NAME, &uid)).await?;
    let pods: Api<Pod> = Api::namespaced(operator.admin.clone(), "edge");
    for (name, owners) in [("ours", owner("ReplicaSet", "tamis-public-1", &set)), ("evil", json!([]))] {
        let pod = json!({"apiVersion": "v1", "metadata": {"name": name}, "spec": {
            "containers": [{"name": "gateway", "image": "x"}], "automountServiceAccountToken": false}});
        create(pod, "Pod", owners).await?;
        let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}],
                                       "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    }
    let listed = pods.list(&ListParams::default().labels("tamis.dev/gateway-group=public")).await?;
    ensure!(listed.items.len() == 2, "both have our labels");
    let seen = eventually("the gateway is seen", SOON, async || {
        let seen: Vec<GatewayPod> = group::pods(&operator.observed, group);
        Ok(seen.iter().any(|pod| pod.ready).then_some(seen))
    })
    .await?;
    ensure!(seen.len() == 1 && seen[0].name == "ours", "{seen:?}");
    ensure!(seen[0].admin == ("10.0.0.7".parse()?, 9090), "{seen:?}");
    ensure!(operator.reconcile(group).await?.pods == seen);
    Ok(())
}

/// Changes are reported with the group that they belong to.
#[tokio::test(flavor = "multi_thread")]
async fn changes_name_their_group() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.namespace("edge").await?;
    let (observed, mut changes) = group::watch(&cluster.client(), &["edge".to_owned()]);
    ensure!(observed.waiting_for().contains(&"Deployment of groups in edge".to_owned()), "{observed:?}");
    let mut filled = 0;
    while !observed.waiting_for().is_empty() {
        ensure!(changes.next().await == Some(Change::All));
        filled += 1;
    }
    ensure!(filled == 10, "{filled} stores");
    let accounts = Api::<k8s_openapi::api::core::v1::ServiceAccount>::namespaced(cluster.client(), "edge");
    let account = |name: &str, labels: Value| {
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).context("an account")
    };
    let labels = json!({"app.kubernetes.io/managed-by": "tamis-operator", "tamis.dev/gateway-group": "public"});
    accounts.create(&PostParams::default(), &account("foreign", json!({"tamis.dev/gateway-group": "public"}))?).await?;
    accounts.create(&PostParams::default(), &account("ours", labels)?).await?;
    let change = tokio::time::timeout(SOON, changes.next()).await?;
    let name = tamis_crds::ObjectName { namespace: "edge".into(), name: "public".into() };
    ensure!(change == Some(Change::Children(name)), "{change:?}");
    Ok(())
}
