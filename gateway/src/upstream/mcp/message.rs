//! Messages from a server: answers, requests and notifications (JSON-RPC 2.0), read as spans.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tamis_engine::json;

use super::decide::MISSING_CAPABILITY;
use crate::input::InputKind;
use crate::mcp::level::Level;
use crate::mcp::message;
use crate::relay::{Kinds, Sent, ServerRequest};

/// The most messages that a batch may have.
const MAX_BATCH: usize = 1_000;
/// Bytes of the capabilities that an error names.
const MAX_REQUIRED: usize = 4 << 10;
/// How deep these may be nested.
const MAX_DEPTH: usize = 16;
/// Bytes of the id of a server's request that is answered.
const MAX_ID: usize = 1 << 10;

/// What a text from a server holds for one of our requests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    /// The first answer to the request.
    pub(super) answer: Option<Reply>,
    /// The server's own requests.
    pub(super) asked: Vec<ServerRequest>,
    /// Whether the server says that its list of tools has changed.
    pub(super) list_changed: bool,
    /// Messages to the caller: the progress of the request, and log messages.
    pub(super) sent: Vec<Sent>,
    /// Whether it says so of its prompts.
    pub(super) prompts_changed: bool,
    /// Whether it says so of its resources.
    pub(super) resources_changed: bool,
    /// Messages that are nothing of that: other notifications, answers to other requests.
    pub(super) others: usize,
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The result, as JSON.
    Result(Bytes),
    /// An error.
    Error(RpcFault),
}

/// The error of a JSON-RPC answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RpcFault {
    /// The code; 0 if it is no number.
    pub(super) code: i64,
    /// The message, for `Advisory` callers only.
    pub(super) message: Bytes,
    /// The capabilities that the caller lacks, a JSON object in one line, if the error is about that and names them.
    pub(super) required: Option<Bytes>,
}

/// The text is not JSON, or a batch has too many messages. Holds what is wrong, and no part of the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) &'static str);

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams<'a> {
    #[serde(borrow)]
    progress_token: &'a RawValue,
    #[serde(borrow)]
    progress: &'a RawValue,
    #[serde(borrow, default)]
    total: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct LogParams<'a> {
    #[serde(borrow)]
    level: &'a RawValue,
    #[serde(borrow, default)]
    logger: Option<&'a RawValue>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Deserialize)]
struct ErrorObject<'a> {
    #[serde(borrow, default)]
    code: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MissingCapability<'a> {
    #[serde(borrow)]
    required_capabilities: &'a RawValue,
}

/// Reads a message or a batch that came while the answer to the request `id` is waited for. Parts of the result are slices
/// of `text`. `kinds`: the messages that the caller wants.
///
/// # Errors
/// [`Unreadable`].
pub(super) fn read(text: &Bytes, id: u64, kinds: Kinds) -> Result<Received, Unreadable> {
    const NOT_JSON: Unreadable = Unreadable("is not valid JSON");
    let raw: &RawValue = serde_json::from_slice(text).map_err(|_| NOT_JSON)?;
    let mut received = Received::default();
    if raw.get().starts_with('[') {
        let messages: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| NOT_JSON)?;
        if messages.len() > MAX_BATCH {
            return Err(Unreadable("holds a batch of more than 1000 messages"));
        }
        messages.into_iter().for_each(|message| received.note(text, message, (id, kinds)));
    } else {
        received.note(text, raw, (id, kinds));
    }
    Ok(received)
}

impl Received {
    fn note(&mut self, text: &Bytes, message: &RawValue, (id, kinds): (u64, Kinds)) {
        let envelope = serde_json::from_str(message.get()).ok().filter(|_| message.get().starts_with('{'));
        let Some(Envelope { id: named, method, params, result, error }) = envelope else {
            self.others += 1;
            return;
        };
        match (method, named) {
            (Some(method), Some(named)) if is_id(named) => self.asked.push(ServerRequest {
                id: text.slice_ref(named.get().as_bytes()),
                kind: message::string(method).and_then(|method| InputKind::of_method(&method)),
                params: params
                    .filter(|params| params.get().starts_with('{'))
                    .map(|params| text.slice_ref(params.get().as_bytes())),
            }),
            (Some(method), None) if is(method, "notifications/tools/list_changed") => self.list_changed = true,
            (Some(method), None) if is(method, "notifications/prompts/list_changed") => self.prompts_changed = true,
            (Some(method), None) if is(method, "notifications/resources/list_changed") => self.resources_changed = true,
            (Some(method), None) => match sent(text, method, params, kinds) {
                Some((token, sent)) if token.is_none_or(|token| token == id) => self.sent.push(sent),
                _ => self.others += 1,
            },
            (None, Some(named)) if self.answer.is_none() && is_same(named, id) => match (result, error) {
                (_, Some(error)) => self.answer = Some(Reply::Error(fault(error))),
                (Some(result), None) => self.answer = Some(Reply::Result(text.slice_ref(result.get().as_bytes()))),
                (None, None) => self.others += 1,
            },
            _ => self.others += 1,
        }
    }
}

/// What a message says of single resources.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OfResources {
    /// A resource was updated.
    Updated(String),
    /// The server announces the updates of these.
    Accepted(Vec<String>),
}

#[derive(Deserialize)]
struct Updated {
    uri: String,
}

#[derive(Deserialize)]
struct Acknowledged {
    notifications: AcceptedKinds,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AcceptedKinds {
    #[serde(default)]
    resource_subscriptions: Option<Vec<String>>,
}

/// Reads a message about single resources; none if it is any other one.
pub(super) fn of_resources(text: &[u8]) -> Option<OfResources> {
    let Envelope { id: None, method: Some(method), params: Some(params), result: None, error: None } =
        serde_json::from_slice(text).ok()?
    else {
        return None;
    };
    match () {
        () if is(method, "notifications/resources/updated") => {
            serde_json::from_str(params.get()).ok().map(|Updated { uri }| OfResources::Updated(uri))
        }
        () if is(method, "notifications/subscriptions/acknowledged") => {
            let Acknowledged { notifications } = serde_json::from_str(params.get()).ok()?;
            Some(OfResources::Accepted(notifications.resource_subscriptions.unwrap_or_default()))
        }
        () => None,
    }
}

/// Reads a message that is nothing but a notification of progress or a log message. Returns it with the request that progress
/// belongs to.
pub(super) fn notification(text: &Bytes) -> Option<(Option<u64>, Sent)> {
    let Envelope { id: None, method: Some(method), params, result: None, error: None } =
        serde_json::from_slice(text).ok()?
    else {
        return None;
    };
    sent(text, method, params, Kinds { progress: true, logs: true })
}

/// Reads a notification, if it is one of `kinds`. Progress comes with the request that it belongs to: the gateway's token for a
/// request is its id.
fn sent(text: &Bytes, method: &RawValue, params: Option<&RawValue>, kinds: Kinds) -> Option<(Option<u64>, Sent)> {
    let slice = |raw: &RawValue| text.slice_ref(raw.get().as_bytes());
    let string = |raw: Option<&RawValue>| raw.filter(|raw| raw.get().starts_with('"')).map(slice);
    match () {
        () if kinds.progress && is(method, "notifications/progress") => {
            let params = params.filter(|raw| raw.get().starts_with('{'))?;
            let ProgressParams { progress_token, progress, total, message } =
                serde_json::from_str(params.get()).ok()?;
            let token = progress_token.get().parse().ok()?;
            let sent = Sent::Progress { progress: slice(progress), total: total.map(slice), message: string(message) };
            Some((Some(token), sent))
        }
        () if kinds.logs && is(method, "notifications/message") => {
            let params = params.filter(|raw| raw.get().starts_with('{'))?;
            let LogParams { level, logger, data } = serde_json::from_str(params.get()).ok()?;
            let level =
                level.get().strip_prefix('"').and_then(|level| level.strip_suffix('"')).and_then(Level::parse)?;
            Some((None, Sent::Log { level, logger: string(logger), data: slice(data) }))
        }
        () => None,
    }
}

/// Whether a method has this name. Some servers escape the slash.
fn is(method: &RawValue, name: &str) -> bool {
    message::string(method).is_some_and(|method| method == name)
}

/// Returns the JSON-RPC error in the body of a response with an error status, whatever its id.
pub(super) fn error_in(body: &[u8]) -> Option<RpcFault> {
    let envelope: Envelope<'_> = serde_json::from_slice(body).ok()?;
    envelope.error.map(fault)
}

fn fault(error: &RawValue) -> RpcFault {
    let parts = serde_json::from_str(error.get()).ok().filter(|_| error.get().starts_with('{'));
    let ErrorObject { code, message, data } = parts.unwrap_or(ErrorObject { code: None, message: None, data: None });
    let code = code.and_then(|code| code.get().parse().ok()).unwrap_or(0);
    RpcFault {
        code,
        message: message.and_then(super::text::string).unwrap_or_default(),
        required: data.filter(|_| code == MISSING_CAPABILITY).and_then(required),
    }
}

/// Returns the capabilities that the data of an error names, in one line.
fn required(data: &RawValue) -> Option<Bytes> {
    let MissingCapability { required_capabilities: raw } = serde_json::from_str(data.get()).ok()?;
    if !raw.get().starts_with('{') || raw.get().len() > MAX_REQUIRED {
        return None;
    }
    json::parse(raw.get().as_bytes(), MAX_DEPTH).ok().map(|node| json::to_string(&node).into())
}

/// Whether a value is an id that can be answered.
fn is_id(raw: &RawValue) -> bool {
    raw.get().len() <= MAX_ID && raw.get().starts_with(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
}

fn is_same(raw: &RawValue, id: u64) -> bool {
    raw.get().parse() == Ok(id)
}

#[cfg(test)]
#[path = "tests/message.rs"]
mod tests;
