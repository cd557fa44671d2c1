//! JSON-RPC messages, parsed without a tree. Everything borrows from the request's bytes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::RpcError;

/// A JSON string, borrowed if it has no escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsText;
        impl<'de> Visitor<'de> for AsText {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(AsText)
    }
}

/// Checks that a result is one, by its `resultType`, which the legacy era does not have.
///
/// # Errors
/// What is wrong with the result.
pub(crate) fn check_complete(result_type: Option<&RawValue>) -> Result<(), &'static str> {
    match result_type.map(RawValue::get) {
        None | Some(r#""complete""#) => Ok(()),
        Some(r#""input_required""#) => Err("asks the caller for input, which the gateway does not pass on"),
        Some(_) => Err("has a `resultType` that is not known"),
    }
}

/// Returns the text of a raw value if it is a JSON string.
pub(crate) fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|text| text.0)
}

/// Distinguishes `null` from an absent member, which an `Option` of a borrowed raw value would not.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "P: Deserialize<'de>"))]
struct Envelope<'a, P> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Text<'a>>,
    #[serde(default)]
    params: Option<P>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A message from a client.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// A message that gets an answer.
    Request {
        /// A string or a number, as it was written.
        id: &'a RawValue,
        /// The method.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Params<'a>,
    },
    /// A message that gets no answer.
    Notification {
        /// The method.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Params<'a>,
    },
    /// An answer to a request of a server that the gateway has passed on. It answers nothing else.
    Response {
        /// A string or a number, as it was written.
        id: Option<&'a RawValue>,
        /// The result.
        result: Option<&'a RawValue>,
        /// The error.
        error: Option<&'a RawValue>,
    },
}

/// The members of `params` that the gateway's methods read. Each is parsed only by a method that needs it, so that a wrong type
/// elsewhere does no harm.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Params<'a> {
    /// Of `tools/call` and `prompts/get`.
    #[serde(borrow, default)]
    pub(crate) name: Option<&'a RawValue>,
    /// Of `tools/call` and `prompts/get`.
    #[serde(borrow, default)]
    pub(crate) arguments: Option<&'a RawValue>,
    /// Of lists.
    #[serde(borrow, default)]
    pub(crate) cursor: Option<&'a RawValue>,
    /// Of `initialize`.
    #[serde(borrow, default)]
    pub(crate) protocol_version: Option<&'a RawValue>,
    /// Of `initialize`: what the client can do.
    #[serde(borrow, default)]
    pub(crate) capabilities: Option<&'a RawValue>,
    /// Of `logging/setLevel`.
    #[serde(borrow, default)]
    pub(crate) level: Option<&'a RawValue>,
    /// Of `subscriptions/listen`.
    #[serde(borrow, default)]
    pub(crate) notifications: Option<&'a RawValue>,
    /// Of `notifications/cancelled`.
    #[serde(borrow, default)]
    pub(crate) request_id: Option<&'a RawValue>,
    /// Of `tools/call`: the caller's answers to what the server has asked for.
    #[serde(borrow, default)]
    pub(crate) input_responses: Option<&'a RawValue>,
    /// Of `tools/call`: the state that came with what the server has asked for.
    #[serde(borrow, default)]
    pub(crate) request_state: Option<&'a RawValue>,
    /// Of `resources/read`.
    #[serde(borrow, default)]
    pub(crate) uri: Option<&'a RawValue>,
    /// Of `completion/complete`.
    #[serde(rename = "ref", borrow, default)]
    pub(crate) reference: Option<&'a RawValue>,
    /// Of `completion/complete`.
    #[serde(borrow, default)]
    pub(crate) argument: Option<&'a RawValue>,
    /// Metadata of the request.
    #[serde(rename = "_meta", borrow, default)]
    pub(crate) meta: Option<Meta<'a>>,
}

/// The members of `_meta` that the gateway reads.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meta<'a> {
    /// The protocol version of the request.
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", borrow, default)]
    pub(crate) version: Option<&'a RawValue>,
    /// The client's capabilities.
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", borrow, default)]
    pub(crate) capabilities: Option<&'a RawValue>,
    /// The token under which the caller wants progress.
    #[serde(borrow, default)]
    pub(crate) progress_token: Option<&'a RawValue>,
    /// The level of the log messages that the caller wants.
    #[serde(rename = "io.modelcontextprotocol/logLevel", borrow, default)]
    pub(crate) log_level: Option<&'a RawValue>,
    /// The caller's span, in the format of W3C Trace Context.
    #[serde(borrow, default)]
    pub(crate) traceparent: Option<&'a RawValue>,
    /// Data of tracing systems about the span.
    #[serde(borrow, default)]
    pub(crate) tracestate: Option<&'a RawValue>,
}

impl Meta<'_> {
    /// The version, if it is a string.
    pub(crate) fn version(&self) -> Option<Cow<'_, str>> {
        self.version.and_then(string)
    }
}

/// Parameters that are an object. A derived struct would accept a list, too, member by member.
struct Object<'a>(Params<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<'de>, A::Error> {
                Params::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl<'a> Params<'a> {
    fn parse(raw: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let Some(raw) = raw else { return Ok(Self::default()) };
        if !raw.get().starts_with('{') {
            return Err(RpcError::invalid_params("params must be an object"));
        }
        let params = serde_json::from_str(raw.get()).map(|Object(params)| params);
        params.map_err(|_| RpcError::invalid_params("params are malformed"))
    }

    /// The version that `_meta` names.
    pub(crate) fn meta_version(&self) -> Option<Cow<'_, str>> {
        self.meta.as_ref().and_then(Meta::version)
    }
}

/// Why a message was not understood, with its id if that could be read.
#[derive(Debug)]
pub(crate) struct Unreadable<'a> {
    /// The id to answer to.
    pub(crate) id: Option<&'a RawValue>,
    /// The error to answer with.
    pub(crate) error: RpcError,
}

/// Parses one message. Anything but one JSON object is refused; [`batch`] splits batches.
pub(crate) fn parse(text: &str) -> Result<Incoming<'_>, Unreadable<'_>> {
    match serde_json::from_str::<Envelope<'_, Object<'_>>>(text) {
        Ok(envelope) => {
            incoming(text, envelope, |params| Ok(params.map_or_else(Params::default, |Object(params)| params)))
        }
        // A message with wrong parameters has an id all the same.
        Err(_) => parse_twice(text),
    }
}

/// Parses a message, and then its parameters: the reference that [`parse`] equals.
fn parse_twice(text: &str) -> Result<Incoming<'_>, Unreadable<'_>> {
    let refuse = |error| Err(Unreadable { id: None, error });
    match serde_json::from_str::<Envelope<'_, &RawValue>>(text) {
        Ok(envelope) => incoming(text, envelope, Params::parse),
        Err(e) if e.is_data() => refuse(RpcError::invalid_request("not a JSON-RPC 2.0 message")),
        Err(_) => refuse(RpcError::parse_error()),
    }
}

fn incoming<'a, P>(
    text: &'a str,
    envelope: Envelope<'a, P>,
    params: impl FnOnce(Option<P>) -> Result<Params<'a>, RpcError>,
) -> Result<Incoming<'a>, Unreadable<'a>> {
    let refuse = |id, error| Err(Unreadable { id, error });
    if !text.trim_ascii_start().starts_with('{') {
        return refuse(None, RpcError::invalid_request("not a JSON-RPC 2.0 message"));
    }
    let id = match envelope.id {
        Some(id) if is_id(id) => Some(id),
        Some(_) => {
            return refuse(None, RpcError::invalid_request("id must be a string or a number of at most 1024 bytes"));
        }
        None => None,
    };
    if envelope.jsonrpc.is_none_or(|version| version.get() != r#""2.0""#) {
        return refuse(id, RpcError::invalid_request("jsonrpc must be \"2.0\""));
    }
    let Some(method) = envelope.method else {
        if envelope.result.is_some() || envelope.error.is_some() {
            return Ok(Incoming::Response { id, result: envelope.result, error: envelope.error });
        }
        return refuse(id, RpcError::invalid_request("method is missing"));
    };
    let params = match params(envelope.params) {
        Ok(params) => params,
        Err(error) => return refuse(id, error),
    };
    Ok(match id {
        Some(id) => Incoming::Request { id, method: method.0, params },
        None => Incoming::Notification { method: method.0, params },
    })
}

/// Maximum bytes of an id, which is repeated in answers and traces.
const ID_BYTES: usize = 1 << 10;

/// Whether a value is a string or a number of at most 1024 bytes.
pub(crate) fn is_id(raw: &RawValue) -> bool {
    raw.get().len() <= ID_BYTES && matches!(raw.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'))
}

/// Splits a batch; none if `text` is not a list. Of a batch with more than `limit` messages, only one more is kept.
pub(crate) fn batch(text: &str, limit: usize) -> Option<Result<Vec<&RawValue>, RpcError>> {
    if !text.trim_ascii_start().starts_with('[') {
        return None;
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let messages = json.deserialize_seq(Messages { limit }).and_then(|messages| json.end().map(|()| messages));
    Some(messages.map_err(|_| RpcError::parse_error()))
}

/// The first elements of a list.
struct Messages {
    limit: usize,
}

impl<'de> Visitor<'de> for Messages {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut messages = Vec::new();
        while messages.len() <= self.limit {
            match seq.next_element()? {
                Some(message) => messages.push(message),
                None => return Ok(messages),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(messages)
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
