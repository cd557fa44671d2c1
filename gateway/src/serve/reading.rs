//! Reading the messages of an HTTP request: parsed, checked against the headers, dispatched. Nothing is awaited and nothing
//! happens here, so that a large request can be read off the serving threads.

use bytes::Bytes;
use hyper::header::HeaderMap;
use serde_json::value::RawValue;

use super::header_era;
use crate::call::Caller;
use crate::dispatch::{self, Task};
use crate::exposition::Exposition;
use crate::mcp::era;
use crate::mcp::message::{self, Unreadable};
use crate::mcp::{Era, Incoming, Params, RpcError, headers};

/// What the messages of a request are read with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    /// What they address.
    pub(super) exposition: &'a Exposition,
    /// The headers of the request.
    pub(super) headers: &'a HeaderMap,
    /// Who sent it.
    pub(super) caller: &'a Caller,
    /// Whether calls are traced.
    pub(super) is_traced: bool,
    /// Messages that a batch may have.
    pub(super) batch: usize,
}

/// What a body is.
#[derive(Debug)]
pub(super) enum Read {
    /// One message.
    One(Result<Meaning, Refusal>),
    /// The messages of a batch, at most one more than a batch may have.
    Batch(Result<Vec<Bytes>, RpcError>),
}

/// What a message asks for.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "made once a request, and moved")]
pub(super) enum Meaning {
    /// Nothing.
    Accepted,
    /// To cancel the call of this id, a JSON text.
    Cancel(Box<str>),
    /// An answer.
    Request(Asked),
}

/// A request, understood.
#[derive(Debug)]
pub(super) struct Asked {
    /// Its id, as JSON.
    pub(super) id: Bytes,
    /// How it is spoken.
    pub(super) era: Era,
    /// Whether it opens a session.
    pub(super) is_handshake: bool,
    /// What has to be done, or the error to answer with.
    pub(super) task: Result<Task, RpcError>,
}

/// A message that is not acted upon.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The id to answer to, as JSON.
    pub(super) id: Option<Bytes>,
    /// The error to answer with.
    pub(super) error: RpcError,
    /// How to answer.
    pub(super) era: Era,
}

/// Reads a body.
pub(super) fn body(reader: Reader<'_>, source: &Bytes) -> Read {
    let era = header_era(reader.headers);
    let Ok(text) = std::str::from_utf8(source) else {
        return Read::One(Err(Refusal { id: None, error: RpcError::parse_error(), era }));
    };
    match message::batch(text, reader.batch) {
        None => Read::One(single(reader, source, text)),
        Some(batch) => Read::Batch(batch.map(|all| all.into_iter().map(|raw| slice(source, raw)).collect())),
    }
}

fn single(reader: Reader<'_>, source: &Bytes, text: &str) -> Result<Meaning, Refusal> {
    let hinted = header_era(reader.headers);
    let refusal = |id: Option<&RawValue>, error, era| Refusal { id: id.map(|id| slice(source, id)), error, era };
    let incoming = message::parse(text).map_err(|Unreadable { id, error }| refusal(id, error, hinted))?;
    let header = version(reader.headers).map_err(|error| refusal(None, error, hinted))?;
    match incoming {
        Incoming::Response if hinted == Era::Legacy => Ok(Meaning::Accepted),
        Incoming::Response => Err(refusal(None, RpcError::invalid_request("no request awaits this"), hinted)),
        Incoming::Notification { method, params } => {
            let checked = match era::decide(header, params.meta_version().as_deref(), Some(&method)) {
                Era::Modern => headers::check_modern(reader.headers, &method, &params, false),
                Era::Legacy => {
                    era::legacy_version(header).and_then(|_| headers::check_repeats(reader.headers, &method, &params))
                }
            };
            checked.map_err(|error| refusal(None, error, hinted))?;
            Ok(match params.request_id {
                Some(id) if hinted == Era::Legacy && method == "notifications/cancelled" => {
                    Meaning::Cancel(id.get().into())
                }
                _ => Meaning::Accepted,
            })
        }
        Incoming::Request { id, method, params } => {
            let era = era::decide(header, params.meta_version().as_deref(), Some(&method));
            let checked = match era {
                Era::Modern => headers::check_modern(reader.headers, &method, &params, true),
                // The handshake is what settles the version.
                Era::Legacy if method == "initialize" => headers::check_repeats(reader.headers, &method, &params),
                Era::Legacy => {
                    era::legacy_version(header).and_then(|_| headers::check_repeats(reader.headers, &method, &params))
                }
            };
            checked.map_err(|error| refusal(Some(id), error, era))?;
            Ok(Meaning::Request(asked(reader, source, (id, &method, &params), era, Some(reader.headers))))
        }
    }
}

/// Reads one message of a batch. Returns `None` for a message that gets no answer.
pub(super) fn of_batch(reader: Reader<'_>, source: &Bytes) -> Option<Result<Asked, Refusal>> {
    let era = Era::Legacy;
    let refusal = |id: Option<&RawValue>, error| Refusal { id: id.map(|id| slice(source, id)), error, era };
    let Ok(text) = std::str::from_utf8(source) else {
        return Some(Err(refusal(None, RpcError::parse_error())));
    };
    match message::parse(text) {
        Err(Unreadable { id, error }) => Some(Err(refusal(id, error))),
        Ok(Incoming::Response | Incoming::Notification { .. }) => None,
        Ok(Incoming::Request { id, method, params }) => {
            if method == "initialize" {
                let error = RpcError::invalid_request("initialize cannot be part of a batch");
                return Some(Err(refusal(Some(id), error)));
            }
            Some(Ok(asked(reader, source, (id, &method, &params), era, None)))
        }
    }
}

/// What a request asks for, given its id, its method and its parameters. `headers`: those that may repeat arguments.
fn asked(
    reader: Reader<'_>,
    source: &Bytes,
    (id, method, params): (&RawValue, &str, &Params<'_>),
    era: Era,
    headers: Option<&HeaderMap>,
) -> Asked {
    let Reader { exposition, caller, is_traced, .. } = reader;
    let request = dispatch::Request { exposition, source, id, method, params, era, headers, caller, is_traced };
    let task = dispatch::dispatch(&request);
    Asked { id: slice(source, id), era, is_handshake: method == "initialize", task }
}

/// The version that the header names.
pub(super) fn version(headers: &HeaderMap) -> Result<Option<&str>, RpcError> {
    headers::single(headers, &headers::VERSION)
}

fn slice(source: &Bytes, raw: &RawValue) -> Bytes {
    source.slice_ref(raw.get().as_bytes())
}
