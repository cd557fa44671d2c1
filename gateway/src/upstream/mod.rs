//! Calls to upstreams. What a source answers becomes bytes; nothing here knows of filters or MCP.

mod auth;
mod body;
mod call;
mod client;
mod credentials;
mod egress;
mod exchange;
mod extract;
mod headers;
mod merge;
mod pages;
mod path;
mod query;
mod render;
mod retry;
mod service;
mod template;

use std::time::{Duration, Instant};

use bytes::Bytes;
use tamis_config::CredentialRef;

pub use client::{Client, ClientError, ClientOptions};
pub use credentials::{LocalCredentials, environment_variable};
pub use egress::{Destination, EgressPolicy, InvalidDestination};
pub use service::{InvalidService, Upstream};

/// Arguments of a call after validation: member name to JSON text, digits as the caller wrote them.
pub type Arguments = indexmap::IndexMap<String, Box<serde_json::value::RawValue>>;

/// Bounds of one call.
#[derive(Debug, Clone, Copy)]
pub struct CallBounds {
    /// When the call has to be over, retries and pages included.
    pub deadline: Instant,
    /// Bytes of output, after decompression, over all pages.
    pub max_response_bytes: u64,
}

/// What an upstream answered, before any filter.
#[derive(Debug)]
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

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// An argument cannot be put where its template wants it. The caller's fault; names the argument.
    #[error("argument `{argument}` {reason}")]
    Argument {
        /// Which.
        argument: String,
        /// Why; never holds the value.
        reason: String,
    },
    /// The upstream answered with an error status.
    #[error("the upstream answered {status}")]
    Status {
        /// The status code.
        status: u16,
        /// The manifest's text for it (`error_mapping`).
        mapped: Option<String>,
        /// The first 64 KiB of the error body, for `Advisory` callers only.
        body: Bytes,
    },
    /// The time limit passed.
    #[error("the upstream did not answer in time")]
    Timeout {
        /// Whether the request may have been executed.
        sent: bool,
    },
    /// The output is larger than allowed.
    #[error("the upstream's answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The answer could not be read as what the manifest says it is.
    #[error("the upstream's answer {0}")]
    Malformed(String),
    /// No connection, or it broke.
    #[error("the upstream could not be reached: {reason}")]
    Unreachable {
        /// A short category: `connect`, `tls`, `dns`, `reset`, `redirect` or `egress`.
        reason: &'static str,
        /// Whether the request may have been executed.
        sent: bool,
    },
    /// The service has no such tool. A gateway that lists what it calls does not see this.
    #[error("the service has no tool `{0}`")]
    UnknownTool(String),
    /// A credential is not there, empty, or cannot be sent.
    #[error("credential `{}` key `{}` is not available", .0.name, .0.key)]
    Credential(CredentialRef),
}

/// Where credential values come from. A value is read at each call, so that it rotates without a reload.
pub trait Credentials: Send + Sync + std::fmt::Debug {
    /// The value, or none where it is not there.
    fn get(&self, namespace: &str, credential: &CredentialRef) -> Option<Secret>;
}

/// A credential's value. Its `Debug` says nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a value; surrounding line ends are the file's, not the secret's.
    #[must_use]
    pub fn new(value: &str) -> Self {
        Self(value.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// The value, for the request only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    mod calls;
    pub(crate) mod support;
}
