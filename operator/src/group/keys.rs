//! The Secret with the keys that a group's gateways share, and its rotation.

use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use tamis_config::group_keys::{GroupKeys, RootKey};
use tamis_config::names;

use super::GroupInput;
use super::apply::Error;
use super::own_secret::{self, Data, OwnSecret};
use crate::leader::Permit;

/// The state of a group's keys.
pub(super) enum KeysState {
    /// The keys exist, and have to be rotated after this time.
    Found(Duration),
    /// The Secret belongs to the group and holds no usable keys. A user has to replace it: gateways may still use the
    /// keys that it held before.
    Malformed,
    /// The Secret belongs to a deleted group, or is being deleted.
    Wait,
    /// The Secret has another owner.
    Foreign,
}

/// Creates the keys of a group if there are none, and rotates them if that is due. Returns their state, and whether
/// anything was written.
pub(super) async fn ensure(client: &Client, permit: &Permit, group: &GroupInput) -> Result<(KeysState, bool), Error> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let make = || Ok(data(&GroupKeys::new(fresh()?, fresh()?, now)));
    let name = names::keys_secret(&group.name.name);
    let (secret, made) = own_secret::ensure(client, permit, group, &name, make).await?;
    let secret = match secret {
        OwnSecret::Foreign => return Ok((KeysState::Foreign, made)),
        OwnSecret::Wait => return Ok((KeysState::Wait, made)),
        OwnSecret::Found(secret) => secret,
    };
    let Some(keys) = read(&secret) else { return Ok((KeysState::Malformed, made)) };
    let due = keys.due_in(now);
    if !due.is_zero() {
        return Ok((KeysState::Found(due), made));
    }
    let rotated = keys.rotate(fresh()?, now);
    own_secret::replace(client, permit, group, &secret, data(&rotated)).await?;
    tracing::info!(group = %group.name, "keys of the group rotated");
    Ok((KeysState::Found(rotated.due_in(now)), true))
}

fn fresh() -> Result<RootKey, Error> {
    own_secret::random().map(RootKey::new)
}

fn data(keys: &GroupKeys) -> Data {
    keys.data().into_iter().map(|(name, value)| (name, ByteString(value))).collect()
}

fn read(secret: &Secret) -> Option<GroupKeys> {
    let data = secret.data.as_ref()?;
    GroupKeys::read(|name| data.get(name).map(|ByteString(bytes)| bytes.as_slice()))
}
