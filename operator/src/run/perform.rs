//! Performs writes. Each carries the `uid` and `resourceVersion` that the decision was based on, so that a deposed
//! operator that has not noticed overwrites nothing and recreates nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt as _, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{
    Api, DeleteParams, DynamicObject, ObjectMeta, PartialObjectMeta, Patch, PatchParams, PostParams, Preconditions,
};
use serde_json::{Value, json};
use tamis_config::{GatewayConfig, GatewayConfigSpec, names};
use tamis_crds::ObjectName;
use tokio::sync::Semaphore;

use super::action::{Failure, Fence, Owner, Probe, Reconciled, Report, Request, StatusWrite, Write};
use super::sleep_detector::SleepDetector;
use crate::cluster_state::{ConfigObject, shard_name};
use crate::group::{self, Observed};
use crate::leader::{Deposed, Leadership, Permit};
use crate::watch;

/// The maximum of concurrent writes of configuration, and of statuses.
const WRITERS: usize = 24;
const STATUS_WRITERS: usize = 16;
/// The field manager of statuses.
const MANAGER: &str = "tamis-operator";

/// Performs the writes and probes that the state requests. Clones share the limits on concurrency.
#[derive(Clone)]
pub(super) struct Performer {
    client: Client,
    leadership: Leadership,
    sleep_detector: SleepDetector,
    observed: Observed,
    group_settings: group::Settings,
    writers: Arc<Semaphore>,
    status_writers: Arc<Semaphore>,
}

impl Performer {
    pub(super) fn new(
        client: Client,
        leadership: Leadership,
        sleep_detector: SleepDetector,
        observed: Observed,
        group_settings: group::Settings,
    ) -> Self {
        let (writers, status_writers) = (Arc::new(Semaphore::new(WRITERS)), Arc::new(Semaphore::new(STATUS_WRITERS)));
        Self { client, leadership, sleep_detector, observed, group_settings, writers, status_writers }
    }

    /// Performs a write when its turn comes, if its fence still holds then.
    pub(super) async fn write(self, write: Write) -> Report {
        let Write { fence, request } = write;
        match request {
            Request::Shard { owner, number, data, seen } => {
                let name = shard_name(&owner.group, number);
                let _turn = self.writers.acquire().await;
                let result =
                    async { shard(&self.client, &self.permit(fence)?, &owner, number, data, seen.as_deref()).await }
                        .await;
                Report::Shard { name, result: result.map(Box::new) }
            }
            Request::Config { owner, name, spec, seen } => {
                let _turn = self.writers.acquire().await;
                let result =
                    async { config(&self.client, &self.permit(fence)?, &owner, &name, *spec, seen.as_deref()).await }
                        .await;
                Report::Config { name, result: result.map(Box::new) }
            }
            Request::Delete(seen) => {
                let _turn = self.writers.acquire().await;
                let result = async { remove(&self.client, &self.permit(fence)?, &seen).await }.await;
                Report::Deleted { name: seen.name.clone(), uid: seen.uid.clone(), result }
            }
            Request::Status(request) => {
                let _turn = self.status_writers.acquire().await;
                let result = async { status(&self.client, &self.permit(fence)?, &request).await }.await;
                Report::Status { key: request.key, result: result.map(Box::new) }
            }
            Request::Group { of, input } => {
                let began = Instant::now();
                let outcome = async {
                    group::reconcile(&self.client, &self.permit(fence)?, &input, &self.group_settings, &self.observed)
                        .await
                }
                .await;
                Report::Group(Box::new(Reconciled { group: input.name, of, fence, took: began.elapsed(), outcome }))
            }
        }
    }

    /// Asks the API server whether Secrets exist.
    pub(super) async fn probe(self, probe: Probe) -> Report {
        let Probe { names, purpose } = probe;
        let answers = stream::iter(names)
            .map(|name| {
                let api: Api<Secret> = Api::namespaced(self.client.clone(), &name.namespace);
                async move {
                    let found: Result<Option<PartialObjectMeta<Secret>>, _> = api.get_metadata_opt(&name.name).await;
                    (name, matches!(found, Ok(Some(_))))
                }
            })
            .buffer_unordered(WRITERS)
            .collect()
            .await;
        Report::Probed { purpose, answers }
    }

    /// Returns the permit of the fence's term, unless the process has slept since the decision. The permit checks the
    /// term itself whenever a request begins.
    fn permit(&self, fence: Fence) -> Result<Permit, Deposed> {
        if self.sleep_detector.sleeps() != fence.sleeps {
            return Err(Deposed);
        }
        Ok(self.leadership.permit(fence.term))
    }
}

impl Owner {
    fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: tamis_crds::resources::API_VERSION.to_owned(),
            kind: "GatewayGroup".to_owned(),
            name: self.group.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }

    fn labels(&self, component: &str) -> BTreeMap<String, String> {
        [
            ("app.kubernetes.io/managed-by", names::MANAGED_BY),
            ("app.kubernetes.io/part-of", "tamis"),
            ("app.kubernetes.io/component", component),
            (names::GROUP_LABEL, &self.group.name),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
    }

    /// Returns whether a shard belongs to this group, by its owner reference.
    pub(super) fn owns(&self, secret: &Secret) -> bool {
        secret.metadata.owner_references.iter().flatten().any(|reference| reference.uid == self.uid)
    }
}

/// Writes one GatewayConfig: creates it, or replaces the version that was seen.
async fn config(
    client: &Client,
    permit: &Permit,
    owner: &Owner,
    name: &ObjectName,
    spec: GatewayConfigSpec,
    seen: Option<&ConfigObject>,
) -> Result<ConfigObject, Failure> {
    let api: Api<GatewayConfig> = Api::namespaced(client.clone(), &name.namespace);
    let mut labels = owner.labels("configuration");
    if let Some(exposition) = &spec.exposition {
        labels.insert(names::EXPOSITION_LABEL.to_owned(), exposition.name.clone());
        labels.insert(names::EXPOSITION_NAMESPACE_LABEL.to_owned(), exposition.namespace.clone());
    }
    let metadata = ObjectMeta {
        name: Some(name.name.clone()),
        namespace: Some(name.namespace.clone()),
        labels: Some(labels),
        owner_references: Some(vec![owner.reference()]),
        uid: seen.map(|seen| seen.uid.clone()),
        resource_version: seen.map(|seen| seen.resource_version.clone()),
        ..ObjectMeta::default()
    };
    let object = GatewayConfig { metadata, spec };
    let params = PostParams::default();
    let written = match seen {
        None => permit.write(api.create(&params, &object)).await?,
        Some(_) => permit.write(api.replace(&name.name, &params, &object)).await?,
    };
    let written = written.map_err(Failure::of)?;
    ConfigObject::new(&written.metadata, Some(written.spec)).ok_or(Failure::Stale)
}

/// Deletes the version of a GatewayConfig that was seen.
async fn remove(client: &Client, permit: &Permit, seen: &ConfigObject) -> Result<(), Failure> {
    let api: Api<GatewayConfig> = Api::namespaced(client.clone(), &seen.name.namespace);
    let preconditions =
        Preconditions { uid: Some(seen.uid.clone()), resource_version: Some(seen.resource_version.clone()) };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match permit.write(api.delete(&seen.name.name, &params)).await? {
        Ok(_) => Ok(()),
        Err(error) => match Failure::of(error) {
            // It may be gone already, which is the goal. If it has changed instead, the watch delivers the new version.
            Failure::Stale => Ok(()),
            failure => Err(failure),
        },
    }
}

/// Writes one shard of a group's credentials.
async fn shard(
    client: &Client,
    permit: &Permit,
    owner: &Owner,
    number: usize,
    data: BTreeMap<String, Vec<u8>>,
    seen: Option<&Secret>,
) -> Result<Secret, Failure> {
    let name = names::credentials_secret(&owner.group.name, number);
    let api: Api<Secret> = Api::namespaced(client.clone(), &owner.group.namespace);
    let mut labels = owner.labels("credentials");
    labels.insert(names::SHARD_LABEL.to_owned(), number.to_string());
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(owner.group.namespace.clone()),
            labels: Some(labels),
            owner_references: Some(vec![owner.reference()]),
            uid: seen.and_then(kube::ResourceExt::uid),
            resource_version: seen.and_then(kube::ResourceExt::resource_version),
            ..ObjectMeta::default()
        },
        type_: Some("tamis.dev/credentials".to_owned()),
        data: Some(data.into_iter().map(|(handle, value)| (handle, ByteString(value))).collect()),
        ..Secret::default()
    };
    let params = PostParams::default();
    let written = match seen {
        None => permit.write(api.create(&params, &secret)).await?,
        Some(_) => permit.write(api.replace(&name, &params, &secret)).await?,
    };
    written.map_err(Failure::of)
}

/// Writes the status of one object.
async fn status(client: &Client, permit: &Permit, write: &StatusWrite) -> Result<DynamicObject, Failure> {
    let StatusWrite { key, uid, resource_version, status, merge, is_unusable } = write;
    let resource = watch::resource_of(key.kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &key.name.namespace, &resource);
    let body = |status: &Value| {
        json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "name": key.name.name,
                "namespace": key.name.namespace,
                "uid": uid,
                "resourceVersion": resource_version,
            },
            "status": status,
        })
    };
    let (name, merging) = (&key.name.name, Patch::Merge(body(merge)));
    let merging_params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    // Server-side apply parses the whole object. It cannot parse a malformed one, and a definition of an older version
    // does not know all fields of the status: a merge patch does both.
    if *is_unusable {
        return permit.write(api.patch_status(name, &merging_params, &merging)).await?.map_err(Failure::of);
    }
    let applying = PatchParams::apply(MANAGER).force();
    match permit.write(api.patch_status(name, &applying, &Patch::Apply(body(status)))).await? {
        Err(kube::Error::Api(answer)) if answer.message.contains("failed to create typed") => {
            permit.write(api.patch_status(name, &merging_params, &merging)).await?.map_err(Failure::of)
        }
        written => written.map_err(Failure::of),
    }
}
