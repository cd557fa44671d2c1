//! The Secrets of a group whose content the operator generates: the token and the keys.

use std::collections::BTreeMap;

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use tamis_config::names;

use super::GroupInput;
use super::apply::Error;
use super::child::metadata;
use super::step::{Ownership, ownership};
use crate::leader::Permit;

/// The content of a Secret.
pub(super) type Data = BTreeMap<String, ByteString>;

/// The state of a Secret.
pub(super) enum OwnSecret {
    /// The Secret exists and belongs to the group.
    Found(Box<Secret>),
    /// The Secret belongs to a deleted group, or is being deleted.
    Wait,
    /// The Secret has another owner.
    Foreign,
}

/// Reads the Secret. Returns `None` if it does not exist.
pub(super) async fn look(client: &Client, group: &GroupInput, name: &str) -> Result<Option<OwnSecret>, Error> {
    let secret = api(client, group).get_opt(name).await.map_err(|error| failed(group, name, error))?;
    Ok(secret.map(|secret| state(group, secret)))
}

/// Reads the Secret, and creates it if it does not exist. Returns its state, and whether it was created.
pub(super) async fn ensure(
    client: &Client,
    permit: &Permit,
    group: &GroupInput,
    name: &str,
    data: impl FnOnce() -> Result<Data, Error>,
) -> Result<(OwnSecret, bool), Error> {
    if let Some(there) = look(client, group, name).await? {
        return Ok((there, false));
    }
    let made = make(group, name, data()?)?;
    match permit.write(api(client, group).create(&parameters(), &made)).await? {
        Ok(secret) => Ok((state(group, secret), true)),
        // Another writer has created it meanwhile.
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            Ok((look(client, group, name).await?.unwrap_or(OwnSecret::Wait), false))
        }
        Err(error) => Err(failed(group, name, error)),
    }
}

/// Replaces the content of a Secret. The request carries the `resourceVersion` that was read, so that another write is
/// not overwritten.
pub(super) async fn replace(
    client: &Client,
    permit: &Permit,
    group: &GroupInput,
    secret: &Secret,
    data: Data,
) -> Result<Secret, Error> {
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let changed = Secret { data: Some(data), ..secret.clone() };
    let written = permit.write(api(client, group).replace(name, &parameters(), &changed)).await?;
    written.map_err(|error| failed(group, name, error))
}

/// Returns random bytes for a secret.
pub(super) fn random() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Random)?;
    Ok(bytes)
}

fn parameters() -> PostParams {
    PostParams { field_manager: Some(names::MANAGED_BY.to_owned()), ..PostParams::default() }
}

fn api(client: &Client, group: &GroupInput) -> Api<Secret> {
    Api::namespaced(client.clone(), &group.name.namespace)
}

fn failed(group: &GroupInput, name: &str, error: kube::Error) -> Error {
    Error::Api { object: format!("Secret {}/{name}", group.name.namespace), error }
}

fn state(group: &GroupInput, secret: Secret) -> OwnSecret {
    match ownership(group, &secret.metadata) {
        Ownership::Foreign => OwnSecret::Foreign,
        Ownership::Leftover => OwnSecret::Wait,
        Ownership::Owned if secret.metadata.deletion_timestamp.is_some() => OwnSecret::Wait,
        Ownership::Owned => OwnSecret::Found(Box::new(secret)),
    }
}

fn make(group: &GroupInput, name: &str, data: Data) -> Result<Secret, Error> {
    // Cannot fail: the value is built from strings in this crate.
    let metadata = serde_json::from_value(metadata(group, name));
    let metadata = metadata.map_err(|error| failed(group, name, kube::Error::SerdeError(error)))?;
    Ok(Secret { metadata, type_: Some("Opaque".to_owned()), data: Some(data), ..Secret::default() })
}
