//! Entry points for `fuzz/`. Tests of other crates must not use them.

use std::borrow::Cow;

use crate::mcp::{Era, Incoming, era, message};

pub use crate::upstream::mcp_fuzzing::{Answered, answers};

/// Maximum number of messages in a batch.
const BATCH: usize = 16;

/// A message that the gateway accepts.
#[derive(Debug)]
pub struct Message<'a> {
    /// The whole text.
    pub text: &'a str,
    /// Its method, or `None` for an answer.
    pub method: Option<Cow<'a, str>>,
    /// Its id, or `None` for a notification.
    pub id: Option<&'a str>,
}

/// Returns the valid messages in the body of a request.
#[must_use]
pub fn messages(text: &str) -> Vec<Message<'_>> {
    match message::batch(text, BATCH) {
        Some(Ok(batch)) => batch.into_iter().filter_map(|message| read(message.get())).collect(),
        Some(Err(_)) => Vec::new(),
        None => read(text).into_iter().collect(),
    }
}

fn read(text: &str) -> Option<Message<'_>> {
    let (method, id, params) = match message::parse(text) {
        Ok(Incoming::Request { id, method, params }) => (Some(method), Some(id.get()), Some(params)),
        Ok(Incoming::Notification { method, params }) => (Some(method), None, Some(params)),
        Ok(Incoming::Response { .. }) => (None, None, None),
        Err(_) => return None,
    };
    if let Some(params) = params {
        // The era of a message decides the protocol version of its answer.
        let version = params.meta_version();
        let era = era::decide(None, version.as_deref(), method.as_deref());
        assert!(version.is_some() || era == Era::Legacy || method.as_deref() == Some("server/discover"));
    }
    Some(Message { text, method, id })
}
