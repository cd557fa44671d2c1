//! How a request proves who sends it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use tamis_config::{Auth, AuthKind, CredentialRef};

use super::headers::header_name;
use super::render::encoded;
use super::{CredentialScope, InvalidService, Secret, UpstreamError};

/// A credential and its place in the request.
#[derive(Debug, Clone)]
pub(super) struct AuthPlan {
    credential: CredentialRef,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    Header {
        name: HeaderName,
        prefix: Box<str>,
    },
    Basic {
        username: Option<Box<str>>,
    },
    /// The parameter's name, percent-encoded.
    Query {
        name: Box<str>,
    },
    Body {
        name: Box<str>,
    },
}

/// What authentication adds to one request. Goes to the service's own origin only.
#[derive(Default)]
pub(super) struct Authentication {
    /// Marked sensitive.
    pub(super) header: Option<(HeaderName, HeaderValue)>,
    /// `name=value`, percent-encoded.
    pub(super) query: Option<String>,
    /// The value of the body's member.
    pub(super) body: Option<Secret>,
}

impl AuthPlan {
    /// # Errors
    /// Where the credential is missing, or the place that the kind needs.
    pub(super) fn new(field: &str, auth: &Auth) -> Result<Option<Self>, InvalidService> {
        let invalid = |message: &str| InvalidService::new(field, message);
        let name = || auth.name.as_deref().filter(|n| !n.is_empty()).ok_or_else(|| invalid("needs a `name`"));
        let place = match auth.kind {
            AuthKind::None => return Ok(None),
            AuthKind::Header => Place::Header {
                name: header_name(name()?).map_err(|reason| invalid(&reason))?,
                prefix: auth.prefix.as_deref().unwrap_or_default().into(),
            },
            AuthKind::Bearer => {
                Place::Header { name: AUTHORIZATION, prefix: auth.prefix.as_deref().unwrap_or("Bearer ").into() }
            }
            AuthKind::Basic if auth.username.as_deref().is_some_and(|u| u.contains(':')) => {
                return Err(invalid("has a `username` with a colon, which Basic cannot carry"));
            }
            AuthKind::Basic => Place::Basic { username: auth.username.as_deref().map(Into::into) },
            AuthKind::Query => Place::Query { name: encoded(name()?).into() },
            AuthKind::Body => Place::Body { name: name()?.into() },
        };
        let credential = auth.credential.clone().ok_or_else(|| invalid("needs a credential"))?;
        Ok(Some(Self { credential, place }))
    }

    /// The body's member that holds the credential.
    pub(super) fn body_member(&self) -> Option<&str> {
        match &self.place {
            Place::Body { name } => Some(name),
            _ => None,
        }
    }

    /// The query parameter that holds the credential, percent-encoded.
    pub(super) fn query_parameter(&self) -> Option<&str> {
        match &self.place {
            Place::Query { name } => Some(name),
            _ => None,
        }
    }

    /// Reads the credential and puts it in its form.
    ///
    /// # Errors
    /// [`UpstreamError::Credential`] where it is not there, empty, or holds control characters.
    pub(super) fn authenticate(&self, credentials: CredentialScope<'_>) -> Result<Authentication, UpstreamError> {
        let unavailable = || UpstreamError::Credential(self.credential.clone());
        let secret = credentials.get(&self.credential).ok_or_else(unavailable)?;
        let value = secret.expose();
        if value.is_empty() || value.chars().any(char::is_control) {
            return Err(unavailable());
        }
        let header = |name: HeaderName, text: String| {
            let mut header = HeaderValue::try_from(text).map_err(|_| unavailable())?;
            header.set_sensitive(true);
            Ok(Some((name, header)))
        };
        let mut made = Authentication::default();
        match &self.place {
            Place::Header { name, prefix } => made.header = header(name.clone(), format!("{prefix}{value}"))?,
            Place::Basic { username } => {
                let pair = match username {
                    Some(user) => format!("{user}:{value}"),
                    None => value.to_owned(),
                };
                made.header = header(AUTHORIZATION, format!("Basic {}", BASE64_STANDARD.encode(pair)))?;
            }
            Place::Query { name } => made.query = Some(format!("{name}={}", encoded(value))),
            Place::Body { .. } => made.body = Some(secret),
        }
        Ok(made)
    }
}
