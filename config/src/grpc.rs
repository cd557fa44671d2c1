//! gRPC services: where calls go, the types of their messages, and the method that a tool calls.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::{Auth, AuthKind, Retry, SentCredential};

/// A gRPC server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcSource {
    /// Scheme, host and port. `https`, except loopback and in-cluster names.
    pub endpoint: String,
    /// How calls are authenticated: `header`, `bearer` or `basic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Further metadata of every call, from a ConfigurationPlan. The values are fixed.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
    /// A `google.protobuf.FileDescriptorSet` in base64, with the methods that tools call and the types that they need.
    pub descriptors: String,
}

impl GrpcSource {
    /// Returns the credential that a call of a method sends, with the request that carries it; `None` without one.
    #[must_use]
    pub fn sent_credential<'d>(&'d self, call: &'d GrpcCall) -> Option<SentCredential<'d>> {
        let Self { endpoint, auth, headers, descriptors: _ } = self;
        let auth = auth.as_ref().filter(|auth| auth.kind != AuthKind::None)?;
        let credential = auth.credential.as_ref()?;
        Some(SentCredential { auth, credential, base_url: endpoint, path: &call.path, headers, has_cookies: false })
    }
}

/// A call of a method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcCall {
    /// The path of requests: `/package.Service/Method`.
    pub path: String,
    /// Whether the server answers with a stream of messages, which become a list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub streams: bool,
    /// Dotted path into the answer: what is below it is the output. Not for a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extract: Option<String>,
    /// When to try again, by the HTTP status that stands for a status of gRPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The text that the caller gets, by the HTTP status that stands for a status of gRPC.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub error_mapping: IndexMap<u16, String>,
}
