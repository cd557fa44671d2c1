//! JSON-RPC errors, and the HTTP status of each.

use std::borrow::Cow;

use super::Era;
use crate::access::KEY_REQUIRED;

/// An error to answer with. Its message never contains data of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    /// JSON-RPC code.
    pub(crate) code: i32,
    /// A sentence.
    pub(crate) message: Cow<'static, str>,
    /// JSON text of `data`.
    pub(crate) data: Option<String>,
    /// HTTP status.
    pub(crate) status: u16,
    /// Seconds for `Retry-After`.
    pub(crate) retry_after: Option<u64>,
}

impl RpcError {
    fn new(code: i32, status: u16, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None, status, retry_after: None }
    }

    /// The body is not JSON.
    pub(crate) fn parse_error() -> Self {
        Self::new(-32700, 400, "the body is not JSON")
    }

    /// The body is JSON, but not an acceptable message.
    pub(crate) fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32600, 400, message)
    }

    /// An empty batch, or one that is too long.
    pub(crate) fn batch_size(limit: usize) -> Self {
        Self::invalid_request(format!("a batch has 1 to {limit} messages"))
    }

    /// The method is not served: in the modern era that is a 404.
    pub(crate) fn method_not_found(era: Era) -> Self {
        Self::new(-32601, if era == Era::Modern { 404 } else { 200 }, "method not found")
    }

    /// The method cannot take the parameters. Answered in band.
    pub(crate) fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32602, 200, message)
    }

    /// A modern request lacks metadata that is mandatory.
    pub(crate) fn missing_meta(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32602, 400, message)
    }

    /// A header is missing, or contradicts the body.
    pub(crate) fn header_mismatch(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32020, 400, message)
    }

    /// The version is not served.
    pub(crate) fn unsupported_version(data: String) -> Self {
        Self { data: Some(data), ..Self::new(-32022, 400, "unsupported protocol version") }
    }

    /// There are too many subscriptions. `whose`: of whom.
    pub(crate) fn too_many_subscriptions(whose: &str) -> Self {
        Self::new(
            -32000,
            200,
            format!("{whose} has too many subscriptions to resources; end some with resources/unsubscribe"),
        )
    }

    /// The server does not announce the updates of a resource, and answered with this code.
    pub(crate) fn not_subscribed(era: Era, uri: &str, code: i64) -> Self {
        match code {
            -32601 => Self::new(-32601, 200, "the server announces no updates of resources"),
            -32002 | -32602 => Self::resource_not_found(era, uri),
            code => Self::upstream(format!("the server answered the subscription with error {code}")),
        }
    }

    /// The request needs capabilities that the client has not declared. `required`: these, as JSON.
    pub(crate) fn missing_capability(required: &str) -> Self {
        let data = Some(format!("{{\"requiredCapabilities\":{required}}}"));
        Self { data, ..Self::new(-32021, 400, "the client has not declared a capability that the request needs") }
    }

    /// There is no resource with this URI, or it may not be known here.
    pub(crate) fn resource_not_found(era: Era, uri: &str) -> Self {
        // MCP 2026-07-28 replaced the code of its own by that of invalid parameters.
        let code = if era == Era::Modern { -32602 } else { -32002 };
        let mut data = String::from("{\"uri\":");
        super::encode::string(&mut data, uri);
        data.push('}');
        Self { data: Some(data), ..Self::new(code, 200, "resource not found") }
    }

    /// The upstream gave no answer that can be passed on. Answered in band.
    pub(crate) fn upstream(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32603, 200, message)
    }

    /// The gateway has a bug.
    pub(crate) fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32603, 500, message)
    }

    /// A limit was reached. The client may retry.
    pub(crate) fn busy(status: u16, message: impl Into<Cow<'static, str>>, retry_after: u64) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(-32000, status, message) }
    }

    /// The memory is exhausted. The client may retry.
    pub(crate) fn exhausted() -> Self {
        Self::busy(503, "the gateway's memory is in use", 1)
    }

    /// The request presents no key, or one that belongs to no caller.
    pub(crate) fn unauthorized() -> Self {
        Self::new(-32000, 401, KEY_REQUIRED)
    }

    /// The client cancelled the call, and expects no answer.
    pub(crate) fn cancelled() -> Self {
        Self::new(-32000, 200, "the call was cancelled")
    }

    /// The exposition is not served at the moment. The sender is not authenticated, so it does not learn the reason, which is in
    /// the log, in `/config` and in the status.
    pub(crate) fn unavailable() -> Self {
        Self::new(-32000, 503, "the exposition is not available")
    }

    /// The exposition is not served at the moment, for a client that may learn the reason.
    pub(crate) fn stopped(reason: String) -> Self {
        Self::new(-32000, 503, reason)
    }

    /// The call has passed too many gateways, and probably reaches itself.
    pub(crate) fn looped() -> Self {
        Self::new(-32000, 508, "the call has passed too many gateways")
    }

    /// The session that the request names has ended. The client begins another one (MCP 2025-11-25, "Session Management").
    pub(crate) fn session_ended() -> Self {
        Self::new(-32001, 404, "the session has ended; begin another one with initialize")
    }

    /// The server of a session did not take an answer of the caller.
    pub(crate) fn answer_not_taken(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(-32603, 502, message)
    }

    /// No exposition is published at the address.
    pub(crate) fn no_such_exposition() -> Self {
        Self::new(-32000, 404, "no exposition at this address")
    }
}
