//! Calls to upstreams. What a source answers becomes bytes; nothing here knows of filters or MCP.

mod alias;
mod auth;
mod body;
mod call;
mod client;
mod cluster;
mod connect;
mod credentials;
mod dns;
mod egress;
mod error;
mod exchange;
mod extract;
mod gunzip;
mod headers;
mod local_callers;
mod merge;
mod pace;
mod pages;
mod path;
mod query;
mod render;
mod reserved;
mod retry;
mod returned;
mod service;
mod template;
mod transport;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use std::collections::BTreeMap;
use tamis_config::{AllowedUse, CredentialGrant, CredentialHandle, CredentialRef};

use crate::access::Callers;
use crate::offload::Offload;

pub use client::{Client, ClientError, ClientOptions};
pub use credentials::{LocalCredentials, environment_variable};
pub use egress::{Destination, EgressPolicy, InvalidDestination};
pub use error::UpstreamError;
pub use service::{InvalidService, Upstream};

pub(crate) use client::chain;

/// Arguments of a call after validation: member name to JSON text, digits as the caller wrote them.
pub type Arguments = indexmap::IndexMap<String, Box<serde_json::value::RawValue>>;

/// Bounds of one call.
#[derive(Debug, Clone, Copy)]
pub struct CallBounds<'a> {
    /// When the call has to be over, retries and pages included.
    pub deadline: Instant,
    /// Bytes of output, after decompression, over all pages.
    pub max_response_bytes: u64,
    /// Whether a page that is an object may be searched for its list (`items`, ..). Not under `Enforced`: there data
    /// that the filter removes must not decide which list it is.
    pub detect_list: bool,
    /// Gateways that the call has passed before this one.
    pub hops: u8,
    /// Where answers are taken apart and merged that are too large for a serving thread.
    pub(crate) offload: Offload<'a>,
}

/// What an upstream answered, before any filter. Its `Debug` shows no payload.
pub struct Answer {
    /// The output. For several pages one JSON list of their elements.
    pub body: Bytes,
    /// Whether the body is meant to be JSON.
    pub is_json: bool,
    /// Set where the gateway fetched pages.
    pub pagination: Option<PageReport>,
    /// Status of the last response.
    pub status: u16,
    /// Requests sent, retries and pages included.
    pub requests: u32,
    /// Time spent upstream.
    pub elapsed: Duration,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("bytes", &self.body.len())
            .field("is_json", &self.is_json)
            .field("pages", &self.pagination.as_ref().map(|p| p.pages))
            .field("status", &self.status)
            .field("requests", &self.requests)
            .field("elapsed", &self.elapsed)
            .finish()
    }
}

/// What a caller needs to go on (`_pagination`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageReport {
    /// Pages fetched.
    pub pages: u32,
    /// Items fetched, where the answer was a list.
    pub items: Option<usize>,
    /// Items in all, where the upstream says so.
    pub total: Option<u64>,
    /// The cursor or offset that goes on; none at the end.
    pub next: Option<String>,
}

/// Where credential values come from. A value is read at each call, so that it rotates without a reload.
///
/// Standalone, a value is known by its name ([`get`](Self::get)). In a cluster it is known by the handle that came with
/// the exposition's document ([`by_handle`](Self::by_handle)), and by nothing else: a name would give today's value to
/// yesterday's base URL.
pub trait Credentials: Send + Sync + fmt::Debug {
    /// The value of that name, or none where it is not there. A store of a cluster knows no names.
    fn get(&self, namespace: &str, credential: &CredentialRef) -> Option<Secret>;

    /// The value under a handle, or none where it is not there.
    fn by_handle(&self, handle: &CredentialHandle) -> Option<Secret> {
        let _ = handle;
        None
    }

    /// The callers whom a Secret names: by its handle where there is one, else by its name. None where the Secret is
    /// not there or cannot be used; the exposition then serves nobody. Asked at every request.
    fn callers(&self, namespace: &str, secret: &str, handle: Option<&CredentialHandle>) -> Option<Arc<Callers>> {
        let _ = (namespace, secret, handle);
        None
    }
}

/// What an exposition may do with the credentials of its service, and by which handles it knows them. None at all: they
/// are known by their names and used without restriction, as standalone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handles(Box<[(CredentialRef, CredentialGrant)]>);

impl Handles {
    /// Reads the map of an exposition's document, `name/key` to grant.
    ///
    /// # Errors
    /// Names the entry that is no `name/key`.
    pub fn new(credentials: &BTreeMap<String, CredentialGrant>) -> Result<Self, String> {
        let each = |(reference, grant): (&String, &CredentialGrant)| {
            let (name, key) =
                reference.split_once('/').ok_or_else(|| format!("credentials.{reference}: not name/key"))?;
            Ok((CredentialRef { name: name.to_owned(), key: key.to_owned() }, grant.clone()))
        };
        credentials.iter().map(each).collect::<Result<_, String>>().map(Self)
    }
}

/// The credentials of one exposition.
#[derive(Debug, Clone, Copy)]
pub struct CredentialScope<'a> {
    /// Where values come from.
    pub store: &'a dyn Credentials,
    /// The exposition's namespace.
    pub namespace: &'a str,
    /// How it knows them.
    pub handles: &'a Handles,
}

impl<'a> CredentialScope<'a> {
    /// The value of a credential, and how it may be used. Where the exposition has handles it is read by its own and
    /// never by its name: it could be of another generation than the URL that it is sent to.
    pub(crate) fn get(&self, credential: &CredentialRef) -> Option<(Secret, Permission<'a>)> {
        if self.handles.0.is_empty() {
            return Some((self.store.get(self.namespace, credential)?, Permission::Any));
        }
        let (_, grant) = self.handles.0.iter().find(|(known, _)| known == credential)?;
        Some((self.store.by_handle(&grant.handle)?, Permission::Uses(&grant.uses)))
    }
}

/// How a credential may be used.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Permission<'a> {
    /// In any way: standalone, whoever starts the gateway gives it the credentials.
    Any,
    /// As its owner's lines say.
    Uses(&'a [AllowedUse]),
}

/// A credential's value; a copy of it is cheap. Its `Debug` says nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes a value; surrounding line ends are the file's, not the secret's.
    #[must_use]
    pub fn new(value: &str) -> Self {
        Self(value.trim_end_matches(['\r', '\n']).into())
    }

    /// The value, for the request only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    // Helpers take `json!({..})` as it is written.
    #![allow(clippy::needless_pass_by_value)]

    mod calls;
    mod credential_returned;
    mod floods;
    mod floods_h2;
    mod handles;
    mod paging;
    mod redirects;
    mod retries;
    pub(crate) mod support;
    mod tls;
}
