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

/// What became of a group's keys.
pub(super) enum KeysState {
    /// They are there, and are to be rotated after this time.
    Found(Duration),
    /// The Secret is there, is the group's and holds no usable keys. Writing over them is left to a person: gateways may
    /// hold the keys that were there before.
    Malformed,
    /// The Secret is of a group that is gone, or going itself.
    Wait,
    /// The Secret belongs to another.
    Foreign,
}

/// The keys of a group: made where there are none, rotated where that is due. Whether anything was written.
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
