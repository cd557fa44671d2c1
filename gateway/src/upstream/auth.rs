//! Authenticates requests to upstreams.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use tamis_config::{Auth, AuthKind, CredentialRef, CredentialUse};

use super::origin::Target;
use super::returned::Needles;
use super::syntax::{encoded, header_name};
use super::{CredentialScope, InvalidService, Permission, Secret, UpstreamError};

/// Maximum bytes of a percent-encoded query parameter with a credential. A URL with it still fits HTTP's types.
const MAX_PARAMETER: usize = 4 << 10;

/// A credential and its place in the request.
#[derive(Debug, Clone)]
pub(super) struct AuthPlan {
    credential: CredentialRef,
    kind: AuthKind,
    /// The name of the header, parameter or member in the document.
    name: Option<Box<str>>,
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

/// The parts that authentication adds to one request. They go only to the service's own origin.
#[derive(Default)]
pub(super) struct Authentication<'a> {
    /// How the credential may be used; none without a credential.
    guard: Option<Guard<'a>>,
    /// The texts that no answer may contain; none without a credential, or with a very short one.
    pub(super) needles: Option<Arc<Needles>>,
    /// Marked sensitive.
    pub(super) header: Option<(HeaderName, HeaderValue)>,
    /// `name=value`, percent-encoded.
    pub(super) query: Option<String>,
    /// The value of the body's member.
    pub(super) body: Option<Secret>,
}

/// The rules that are checked before a credential goes into a request.
struct Guard<'a> {
    credential: &'a CredentialRef,
    permission: Permission<'a>,
    kind: AuthKind,
    name: Option<&'a str>,
}

impl Authentication<'_> {
    /// Returns whether the credential's owner allows it in a request to `target`. Checked for each request, including
    /// redirects.
    pub(super) fn may_go_to(&self, target: &Target) -> bool {
        let Some(Guard { credential: _, permission, kind, name }) = &self.guard else { return true };
        match permission {
            Permission::Any => true,
            Permission::Uses(uses) => {
                let usage = CredentialUse {
                    host: target.origin().host_str(),
                    port: Some(target.origin().port()),
                    path: target.path(),
                    kind: *kind,
                    name: *name,
                };
                uses.iter().any(|allowed| allowed.allows(&usage))
            }
        }
    }
}

impl<'a> Authentication<'a> {
    /// Reads the credential of a plan. Without a plan, nothing is added to a request.
    ///
    /// # Errors
    /// As [`AuthPlan::authenticate`].
    pub(super) fn of(plan: Option<&'a AuthPlan>, credentials: CredentialScope<'a>) -> Result<Self, UpstreamError> {
        plan.map_or_else(|| Ok(Self::default()), |plan| plan.authenticate(credentials))
    }

    /// Checks that the credential's owner allows it in a request to `target`.
    ///
    /// # Errors
    /// [`UpstreamError::CredentialUse`].
    pub(super) fn check(&self, target: &Target) -> Result<(), UpstreamError> {
        match &self.guard {
            Some(guard) if !self.may_go_to(target) => Err(UpstreamError::CredentialUse(guard.credential.clone())),
            _ => Ok(()),
        }
    }
}

impl AuthPlan {
    /// Parses the authentication of a document. Returns none for the type `none`.
    ///
    /// # Errors
    /// The credential, or a field that the type needs, is missing or invalid.
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
        Ok(Some(Self { credential, kind: auth.kind, name: auth.name.as_deref().map(Into::into), place }))
    }

    /// Returns the body's member that holds the credential.
    pub(super) fn body_member(&self) -> Option<&str> {
        match &self.place {
            Place::Body { name } => Some(name),
            _ => None,
        }
    }

    /// Returns the name of the query parameter that holds the credential, percent-encoded.
    pub(super) fn query_parameter(&self) -> Option<&str> {
        match &self.place {
            Place::Query { name } => Some(name),
            _ => None,
        }
    }

    /// Reads the credential and writes it in the form that its place needs.
    ///
    /// # Errors
    /// [`UpstreamError::Credential`] if it is missing, empty, too long for its place, or has control characters.
    pub(super) fn authenticate<'a>(
        &'a self,
        credentials: CredentialScope<'a>,
    ) -> Result<Authentication<'a>, UpstreamError> {
        let unavailable = || UpstreamError::Credential(self.credential.clone());
        let (secret, permission) = credentials.get(&self.credential).ok_or_else(unavailable)?;
        let value = secret.expose();
        if value.is_empty() || value.chars().any(char::is_control) {
            return Err(unavailable());
        }
        let header = |name: HeaderName, text: String| {
            let mut header = HeaderValue::try_from(text).map_err(|_| unavailable())?;
            header.set_sensitive(true);
            Ok(Some((name, header)))
        };
        let guard = Guard { credential: &self.credential, permission, kind: self.kind, name: self.name.as_deref() };
        // Without `username`, the value is `user:password`. An answer must not contain the password alone either.
        let password = match &self.place {
            Place::Basic { username: None } => value.split_once(':').map(|(_, password)| password),
            _ => None,
        };
        let needles = Needles::new(std::iter::once(value).chain(password)).map(Arc::new);
        let mut made = Authentication { guard: Some(guard), needles, ..Authentication::default() };
        match &self.place {
            Place::Header { name, prefix } => made.header = header(name.clone(), format!("{prefix}{value}"))?,
            Place::Basic { username } => {
                let pair = match username {
                    Some(user) => format!("{user}:{value}"),
                    None => value.to_owned(),
                };
                made.header = header(AUTHORIZATION, format!("Basic {}", BASE64_STANDARD.encode(pair)))?;
            }
            Place::Query { name } => {
                let parameter = format!("{name}={}", encoded(value));
                if parameter.len() > MAX_PARAMETER {
                    return Err(unavailable());
                }
                made.query = Some(parameter);
            }
            Place::Body { .. } => made.body = Some(secret.clone()),
        }
        Ok(made)
    }
}
