//! The Secret with the token for `/config` and `/acks` of a group's gateways.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use tamis_config::names;

use super::GroupInput;
use super::apply::Error;
use super::own_secret::{self, OwnSecret};
use crate::leader::Permit;
use crate::options::Token;

/// The state of a group's token.
pub(super) enum TokenState {
    /// The token exists.
    Found(Token),
    /// The Secret belongs to the group and holds no usable token.
    Empty,
    /// The Secret belongs to a deleted group, or is being deleted.
    Wait,
    /// The Secret has another owner.
    Foreign,
}

/// Reads a group's token. Returns `None` if its Secret does not exist.
pub(super) async fn look(client: &Client, group: &GroupInput) -> Result<Option<TokenState>, Error> {
    let found = own_secret::look(client, group, &names::token_secret(&group.name.name)).await?;
    Ok(found.as_ref().map(state))
}

/// Reads the token of a group, and creates it if there is none: a deleted Secret is created again with another token.
/// An existing token is never replaced, since gateways would have to know the new one before the operator uses it.
/// Returns its state, and whether it was created.
pub(super) async fn ensure(client: &Client, permit: &Permit, group: &GroupInput) -> Result<(TokenState, bool), Error> {
    let make = || {
        let token: String = own_secret::random()?.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok([(names::TOKEN_KEY.to_owned(), ByteString(token.into_bytes()))].into())
    };
    let name = names::token_secret(&group.name.name);
    let (secret, made) = own_secret::ensure(client, permit, group, &name, make).await?;
    Ok((state(&secret), made))
}

fn state(secret: &OwnSecret) -> TokenState {
    match secret {
        OwnSecret::Foreign => TokenState::Foreign,
        OwnSecret::Wait => TokenState::Wait,
        OwnSecret::Found(secret) => read(secret).map_or(TokenState::Empty, TokenState::Found),
    }
}

fn read(secret: &Secret) -> Option<Token> {
    let ByteString(bytes) = secret.data.as_ref()?.get(names::TOKEN_KEY)?;
    std::str::from_utf8(bytes).ok().and_then(Token::new)
}
