//! The Secret with the token that `/config` and `/acks` of a group's gateways want.

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use tamis_config::names;

use super::GroupInput;
use super::apply::Error;
use super::child::metadata;
use super::step::{Standing, standing};
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
    Ok(get(client, group).await?.map(|secret| state(group, &secret)))
}

/// The token of a group, made where there is none: a Secret that somebody deletes comes back with another token. One that
/// is there is never written again: gateways would have to learn of it before the operator uses it.
pub(super) async fn ensure(client: &Client, permit: &Permit, group: &GroupInput) -> Result<(TokenState, bool), Error> {
    if let Some(secret) = get(client, group).await? {
        return Ok((state(group, &secret), false));
    }
    let api: Api<Secret> = Api::namespaced(client.clone(), &group.name.namespace);
    let parameters = PostParams { field_manager: Some(names::MANAGED_BY.to_owned()), ..PostParams::default() };
    let made = make(group)?;
    match permit.write(api.create(&parameters, &made)).await? {
        Ok(secret) => Ok((state(group, &secret), true)),
        // Somebody was quicker.
        Err(kube::Error::Api(status)) if status.is_already_exists() => match get(client, group).await? {
            Some(secret) => Ok((state(group, &secret), false)),
            None => Ok((TokenState::Wait, false)),
        },
        Err(error) => Err(failed(group, error)),
    }
}

async fn get(client: &Client, group: &GroupInput) -> Result<Option<Secret>, Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &group.name.namespace);
    api.get_opt(&names::token_secret(&group.name.name)).await.map_err(|error| failed(group, error))
}

fn failed(group: &GroupInput, error: kube::Error) -> Error {
    let name = names::token_secret(&group.name.name);
    Error::Api { object: format!("Secret {}/{name}", group.name.namespace), error }
}

fn state(group: &GroupInput, secret: &Secret) -> TokenState {
    match standing(group, &secret.metadata) {
        Standing::Foreign => TokenState::Foreign,
        Standing::Leftover => TokenState::Wait,
        Standing::Ours if secret.metadata.deletion_timestamp.is_some() => TokenState::Wait,
        Standing::Ours => {
            let value = secret.data.as_ref().and_then(|data| data.get(names::TOKEN_KEY));
            let text = value.and_then(|ByteString(bytes)| std::str::from_utf8(bytes).ok());
            text.and_then(Token::new).map_or(TokenState::Empty, TokenState::Found)
        }
    }
}

fn make(group: &GroupInput) -> Result<Secret, Error> {
    let mut bytes = [0_u8; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Random)?;
    let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let metadata = serde_json::from_value(metadata(group, &names::token_secret(&group.name.name)));
    // Built here from strings alone: it cannot be of another shape.
    let metadata = metadata.map_err(|error| Error::Api {
        object: format!("Secret of {}", group.name),
        error: kube::Error::SerdeError(error),
    })?;
    Ok(Secret {
        metadata,
        type_: Some("Opaque".to_owned()),
        data: Some([(names::TOKEN_KEY.to_owned(), ByteString(token.into_bytes()))].into()),
        ..Secret::default()
    })
}
