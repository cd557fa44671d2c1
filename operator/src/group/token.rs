//! The Secret with the token that `/config` and `/acks` of a group's gateways want.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use tamis_config::names;

use super::GroupInput;
use super::apply::Error;
use super::own_secret::{self, OwnSecret};
use crate::leader::Permit;
use crate::options::Token;

/// What became of a group's token.
pub(super) enum TokenState {
    /// It is there.
    Found(Token),
    /// The Secret is there, is ours and holds no token.
    Empty,
    /// The Secret is of a group that is gone, or going itself.
    Wait,
    /// The Secret is somebody else's.
    Foreign,
}

/// What has become of a group's token; none where its Secret is not there.
pub(super) async fn look(client: &Client, group: &GroupInput) -> Result<Option<TokenState>, Error> {
    let found = own_secret::look(client, group, &names::token_secret(&group.name.name)).await?;
    Ok(found.as_ref().map(state))
}

/// The token of a group, made where there is none: a Secret that somebody deletes comes back with another token. One that
/// is there is never written again: gateways would have to learn of it before the operator uses it.
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
