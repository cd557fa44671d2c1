//! Requests that write configuration. Each carries what it saw (`uid`, `resourceVersion`): an operator that was deposed
//! without noticing overwrites nothing and recreates nothing.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams, Preconditions};
use tamis_config::{GatewayConfig, GatewayConfigSpec, names};
use tamis_crds::ObjectName;

use crate::leader::Permit;
use crate::world::ConfigObject;

/// The group that owns what is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) group: ObjectName,
    pub(super) uid: String,
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
}

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Another operator leads.
    #[error(transparent)]
    Deposed(#[from] crate::leader::Deposed),
    /// Somebody else's object has the name.
    #[error("an object of that name is there which the operator did not create")]
    Foreign,
    /// What we saw is not what is there any more; the watch will tell.
    #[error("it has changed meanwhile")]
    Stale,
    /// Anything else.
    #[error(transparent)]
    Api(kube::Error),
}

impl Failure {
    fn of(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.is_conflict() || status.is_already_exists() || status.is_not_found() => {
                Self::Stale
            }
            _ => Self::Api(error),
        }
    }
}

/// Writes one GatewayConfig: creates it, or replaces what was seen.
pub(super) async fn config(
    client: &Client,
    permit: &Permit,
    owner: &Owner,
    name: &ObjectName,
    spec: GatewayConfigSpec,
    seen: Option<&ConfigObject>,
) -> Result<ConfigObject, Failure> {
    if seen.is_some_and(|seen| !seen.ours) {
        return Err(Failure::Foreign);
    }
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

/// Deletes a GatewayConfig as it was seen.
pub(super) async fn remove(client: &Client, permit: &Permit, seen: &ConfigObject) -> Result<(), Failure> {
    let api: Api<GatewayConfig> = Api::namespaced(client.clone(), &seen.name.namespace);
    let preconditions =
        Preconditions { uid: Some(seen.uid.clone()), resource_version: Some(seen.resource_version.clone()) };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    match permit.write(api.delete(&seen.name.name, &params)).await? {
        Ok(_) => Ok(()),
        Err(error) => match Failure::of(error) {
            // Gone already is what was wanted; the watch tells which of the two it was.
            Failure::Stale => Ok(()),
            failure => Err(failure),
        },
    }
}

/// Writes one shard of a group's credentials.
pub(super) async fn shard(
    client: &Client,
    permit: &Permit,
    owner: &Owner,
    number: usize,
    data: BTreeMap<String, Vec<u8>>,
    seen: Option<&Secret>,
) -> Result<Secret, Failure> {
    if seen.is_some_and(|seen| !is_own(seen, owner)) {
        return Err(Failure::Foreign);
    }
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

/// Whether a shard was written for this group, by its owner.
pub(super) fn is_own(secret: &Secret, owner: &Owner) -> bool {
    secret.metadata.owner_references.iter().flatten().any(|reference| reference.uid == owner.uid)
}
