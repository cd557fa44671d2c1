//! An MCP session, whatever carries it: from the bytes of a message to what has to be done for it.
//!
//! [`read`] and [`read_of_batch`] are pure. They parse a message, decide its era, check it against what the transport says,
//! and return an [`Action`]. HTTP (`serve::mcp`) and standard input (`stdio`) only read, write and spawn.

pub(crate) mod in_flight;
mod levels;
mod listeners;
mod notifications;
mod respond;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::value::RawValue;
use tamis_config::Stopped;

use crate::call::Caller;
use crate::dispatch::{self, Task};
use crate::mcp::era::{self, BATCHES, negotiate};
use crate::mcp::message::{self, Unreadable, string};
use crate::mcp::{Era, Incoming, Params, RpcError, encode, headers};
use crate::sealed::Capabilities;
use crate::target::Target;

pub(crate) use in_flight::InFlight;
pub(crate) use levels::Levels;
pub(crate) use listeners::{Listeners, StreamPlace};
pub(crate) use notifications::{Notice, Notifications};
pub(crate) use respond::CallerAnswer;

/// What a transport says about a message, besides its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Transport<'a> {
    /// HTTP. Each request stands alone, and its headers name the version and repeat parts of the body.
    Http(&'a HeaderMap),
    /// Standard input. One session, with the version that the legacy handshake negotiated, if there was one.
    Stdio(Option<&'static str>),
}

impl<'a> Transport<'a> {
    /// Decides the era of a message by its method and parameters, or, before they are known, by the transport alone.
    pub(crate) fn era(self, message: Option<(&str, &Params<'_>)>) -> Era {
        let header = self.headers().and_then(|headers| headers.get(headers::VERSION)?.to_str().ok());
        let meta = message.and_then(|(_, params)| params.meta_version());
        era::decide(header, meta.as_deref(), message.map(|(method, _)| method))
    }

    fn headers(self) -> Option<&'a HeaderMap> {
        match self {
            Self::Http(headers) => Some(headers),
            Self::Stdio(_) => None,
        }
    }

    /// Checks a message against the rules of its era: its version, its metadata, and the headers that repeat it.
    fn check(self, era: Era, method: &str, params: &Params<'_>, kind: Kind) -> Result<(), RpcError> {
        match (self, era, kind) {
            (Self::Http(headers), Era::Modern, _) => {
                headers::check_modern(headers, method, params, kind == Kind::Request)
            }
            (Self::Http(headers), Era::Legacy, _) => {
                // The handshake negotiates the version.
                if kind == Kind::Notification || method != "initialize" {
                    era::legacy_version(headers::single(headers, &headers::VERSION)?)?;
                }
                headers::check_repeats(headers, method, params)
            }
            (Self::Stdio(_), Era::Modern, Kind::Request) => {
                headers::check_meta(params)?;
                era::check_modern_version(&params.meta_version().unwrap_or_default())
            }
            (Self::Stdio(_), Era::Modern, Kind::Notification) | (Self::Stdio(_), Era::Legacy, _) => Ok(()),
        }
    }

    /// Returns the legacy version that a batch is written in.
    fn batch_version(self) -> Result<Option<&'static str>, RpcError> {
        match self {
            Self::Http(headers) => {
                let header = headers::single(headers, &headers::VERSION)?;
                match self.era(None) {
                    Era::Legacy => era::legacy_version(header).map(Some),
                    Era::Modern => Ok(None),
                }
            }
            Self::Stdio(negotiated) => Ok(negotiated),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request,
    Notification,
}

/// Why no exposition answers a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unserved<'a> {
    /// The exposition is stopped. The sender may learn the reason.
    Stopped(&'a Stopped),
    /// The exposition was deleted while the session was open.
    Deleted,
}

impl Unserved<'_> {
    fn error(self) -> RpcError {
        match self {
            Self::Stopped(Stopped { reason, message }) => RpcError::stopped(format!("not served: {reason}: {message}")),
            Self::Deleted => RpcError::no_such_exposition(),
        }
    }
}

/// What messages are read with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    /// What they address, or why nothing answers.
    pub(crate) target: Result<&'a Target, Unserved<'a>>,
    /// What the transport says.
    pub(crate) transport: Transport<'a>,
    /// Who sent them.
    pub(crate) caller: &'a Caller,
    /// Whether calls are traced.
    pub(crate) is_traced: bool,
    /// Maximum number of messages in a batch.
    pub(crate) batch: usize,
}

/// What the bytes of a request body or of a line are.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "made once a message, and moved")]
pub(crate) enum Input {
    /// One message.
    Message(Action),
    /// The messages of a batch, for [`read_of_batch`]. Their answers are sent together.
    Batch(Vec<Bytes>),
}

/// What to do for a message.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most are requests, and a box would be an allocation for each")]
pub(crate) enum Action {
    /// Nothing: the message gets no answer.
    Nothing,
    /// Cancel the request in flight that has this id, a JSON text. The message gets no answer.
    Cancel(Box<str>),
    /// Pass the caller's answer on to the server that asked. The message gets no answer.
    Respond(CallerAnswer),
    /// Answer with an error.
    Refuse(Refusal),
    /// Do what a request asks for, and answer it.
    Perform(Request),
}

/// A request that was accepted.
#[derive(Debug)]
pub(crate) struct Request {
    /// Its id, as JSON.
    pub(crate) id: Bytes,
    /// How to answer.
    pub(crate) era: Era,
    /// What it addresses.
    pub(crate) target: Target,
    /// What the request negotiated, if it was the handshake.
    pub(crate) handshake: Option<Handshake>,
    /// What it asks for.
    pub(crate) task: Task,
}

/// What a legacy handshake negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// The version.
    pub(crate) version: &'static str,
    /// What the client can be asked for.
    pub(crate) capabilities: Capabilities,
}

/// An error to answer with.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The id to answer to, as JSON.
    pub(crate) id: Option<Bytes>,
    /// The error.
    pub(crate) error: RpcError,
    /// How to answer.
    pub(crate) era: Era,
}

impl Refusal {
    /// The message to send.
    pub(crate) fn encode(&self) -> Vec<u8> {
        encode::error(self.id.as_deref(), &self.error, self.era)
    }
}

/// Reads a request body or a line: a message, or a batch of them.
pub(crate) fn read(reader: Reader<'_>, source: &Bytes) -> Input {
    let era = reader.transport.era(None);
    let Ok(text) = std::str::from_utf8(source) else {
        return Input::Message(refuse(source, None, RpcError::parse_error(), era));
    };
    match message::batch(text, reader.batch) {
        None => Input::Message(single(reader, source, text).unwrap_or_else(Action::Refuse)),
        Some(messages) => match batch(reader, messages) {
            Ok(messages) => Input::Batch(messages.into_iter().map(|raw| slice(source, raw)).collect()),
            Err(error) => Input::Message(refuse(source, None, error, Era::Legacy)),
        },
    }
}

/// Reads one message of a batch. Only a legacy version has batches, so all their messages are legacy.
pub(crate) fn read_of_batch(reader: Reader<'_>, source: &Bytes) -> Action {
    let refuse = |id, error| refuse(source, id, error, Era::Legacy);
    let Ok(text) = std::str::from_utf8(source) else {
        return refuse(None, RpcError::parse_error());
    };
    match message::parse(text) {
        Err(Unreadable { id, error }) => refuse(id, error),
        Ok(Incoming::Response { id, result, error }) => {
            CallerAnswer::read(source, id, result, error).map_or_else(|error| refuse(None, error), Into::into)
        }
        Ok(Incoming::Notification { method, params }) => notified(&method, &params),
        Ok(Incoming::Request { id, method, .. }) if method == "initialize" => {
            refuse(Some(id), RpcError::invalid_request("initialize cannot be part of a batch"))
        }
        Ok(Incoming::Request { id, method, params }) => perform(reader, source, (id, &method, &params), Era::Legacy)
            .map_or_else(|error| refuse(Some(id), error), Action::Perform),
    }
}

fn single(reader: Reader<'_>, source: &Bytes, text: &str) -> Result<Action, Refusal> {
    let transport = reader.transport;
    let hinted = transport.era(None);
    let refusal = |id: Option<&RawValue>, error, era| Refusal { id: id.map(|id| slice(source, id)), error, era };
    let incoming = message::parse(text).map_err(|Unreadable { id, error }| refusal(id, error, hinted))?;
    if let Some(headers) = transport.headers() {
        headers::single(headers, &headers::VERSION).map_err(|error| refusal(None, error, hinted))?;
    }
    match (incoming, transport) {
        (Incoming::Response { .. }, Transport::Http(_)) if hinted == Era::Modern => {
            Err(refusal(None, RpcError::invalid_request("no request awaits this"), hinted))
        }
        (Incoming::Response { .. }, Transport::Stdio(_)) => Ok(Action::Nothing),
        (Incoming::Response { id, result, error }, Transport::Http(headers)) => {
            let read = era::legacy_version(headers::single(headers, &headers::VERSION).unwrap_or_default());
            let read = read.and_then(|_| CallerAnswer::read(source, id, result, error));
            read.map(Into::into).map_err(|error| refusal(None, error, hinted))
        }
        (Incoming::Notification { method, params }, _) => {
            let era = transport.era(Some((&method, &params)));
            transport.check(era, &method, &params, Kind::Notification).map_err(|error| refusal(None, error, hinted))?;
            Ok(match transport {
                // A modern client cancels a request over HTTP by closing the response.
                Transport::Http(_) if hinted == Era::Modern => Action::Nothing,
                Transport::Http(_) | Transport::Stdio(_) => notified(&method, &params),
            })
        }
        (Incoming::Request { id, method, params }, _) => {
            let era = transport.era(Some((&method, &params)));
            let checked = transport.check(era, &method, &params, Kind::Request);
            checked
                .and_then(|()| perform(reader, source, (id, &method, &params), era))
                .map(Action::Perform)
                .map_err(|error| refusal(Some(id), error, era))
        }
    }
}

/// Checks that a batch is one that the version has, and that the transport can carry.
fn batch<'a>(reader: Reader<'_>, messages: Result<Vec<&'a RawValue>, RpcError>) -> Result<Vec<&'a RawValue>, RpcError> {
    if reader.transport.batch_version()? != Some(BATCHES) {
        return Err(RpcError::invalid_request("this version has no batches"));
    }
    let messages = messages?;
    if messages.is_empty() || messages.len() > reader.batch {
        return Err(RpcError::batch_size(reader.batch));
    }
    if reader.transport.headers().is_some_and(headers::has_repeats) {
        return Err(RpcError::header_mismatch("Mcp-Method and Mcp-Name belong to single messages"));
    }
    Ok(messages)
}

fn notified(method: &str, params: &Params<'_>) -> Action {
    match params.request_id {
        Some(id) if method == "notifications/cancelled" => Action::Cancel(id.get().into()),
        _ => Action::Nothing,
    }
}

/// Decides what a request asks for, given its id, its method and its parameters.
fn perform(
    reader: Reader<'_>,
    source: &Bytes,
    (id, method, params): (&RawValue, &str, &Params<'_>),
    era: Era,
) -> Result<Request, RpcError> {
    let Reader { target, transport, caller, is_traced, .. } = reader;
    let target = target.map_err(Unserved::error)?;
    let headers = transport.headers();
    let request = dispatch::Request { target, source, id, method, params, era, headers, caller, is_traced };
    let task = dispatch::dispatch(&request)?;
    let is_handshake = era == Era::Legacy && method == "initialize";
    let handshake = is_handshake.then(|| Handshake {
        version: negotiate(params.protocol_version.and_then(string).as_deref()),
        capabilities: Capabilities::read(params.capabilities),
    });
    Ok(Request { id: slice(source, id), era, target: target.clone(), handshake, task })
}

fn refuse(source: &Bytes, id: Option<&RawValue>, error: RpcError, era: Era) -> Action {
    Action::Refuse(Refusal { id: id.map(|id| slice(source, id)), error, era })
}

fn slice(source: &Bytes, raw: &RawValue) -> Bytes {
    source.slice_ref(raw.get().as_bytes())
}

#[cfg(test)]
mod tests;
