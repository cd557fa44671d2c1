//! Messages from a server: answers, requests and notifications (JSON-RPC 2.0), read as spans.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The most messages that a batch may have.
const MAX_BATCH: usize = 1_000;
/// Bytes of the id of a server's request that is answered.
const MAX_ID: usize = 1 << 10;

/// What a text from a server holds for one of our requests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    /// The first answer to the request.
    pub(super) answer: Option<Reply>,
    /// The ids of the server's own requests, as JSON.
    pub(super) asked: Vec<Bytes>,
    /// Whether the server says that its list of tools has changed.
    pub(super) list_changed: bool,
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
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ErrorObject<'a> {
    #[serde(borrow, default)]
    code: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

/// Reads a message or a batch that came while the answer to the request `id` is waited for. Parts of the result are slices
/// of `text`.
///
/// # Errors
/// [`Unreadable`].
pub(super) fn read(text: &Bytes, id: u64) -> Result<Received, Unreadable> {
    const NOT_JSON: Unreadable = Unreadable("is not valid JSON");
    let raw: &RawValue = serde_json::from_slice(text).map_err(|_| NOT_JSON)?;
    let mut received = Received::default();
    if raw.get().starts_with('[') {
        let messages: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| NOT_JSON)?;
        if messages.len() > MAX_BATCH {
            return Err(Unreadable("holds a batch of more than 1000 messages"));
        }
        messages.into_iter().for_each(|message| received.note(text, message, id));
    } else {
        received.note(text, raw, id);
    }
    Ok(received)
}

impl Received {
    fn note(&mut self, text: &Bytes, message: &RawValue, id: u64) {
        let envelope = serde_json::from_str(message.get()).ok().filter(|_| message.get().starts_with('{'));
        let Some(Envelope { id: named, method, result, error }) = envelope else {
            self.others += 1;
            return;
        };
        match (method, named) {
            (Some(_), Some(named)) if is_id(named) => self.asked.push(text.slice_ref(named.get().as_bytes())),
            (Some(method), None) if method.get() == r#""notifications/tools/list_changed""# => self.list_changed = true,
            (None, Some(named)) if self.answer.is_none() && is_same(named, id) => match (result, error) {
                (_, Some(error)) => self.answer = Some(Reply::Error(fault(error))),
                (Some(result), None) => self.answer = Some(Reply::Result(text.slice_ref(result.get().as_bytes()))),
                (None, None) => self.others += 1,
            },
            _ => self.others += 1,
        }
    }
}

/// Returns the JSON-RPC error in the body of a response with an error status, whatever its id.
pub(super) fn error_in(body: &[u8]) -> Option<RpcFault> {
    let envelope: Envelope<'_> = serde_json::from_slice(body).ok()?;
    envelope.error.map(fault)
}

fn fault(error: &RawValue) -> RpcFault {
    let parts = serde_json::from_str(error.get()).ok().filter(|_| error.get().starts_with('{'));
    let ErrorObject { code, message } = parts.unwrap_or(ErrorObject { code: None, message: None });
    RpcFault {
        code: code.and_then(|code| code.get().parse().ok()).unwrap_or(0),
        message: message.and_then(super::text::string).unwrap_or_default(),
    }
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
