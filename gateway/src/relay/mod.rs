//! What an MCP server sends while a call runs, on its way to the caller: progress, log messages, and requests for input.
//!
//! The side that reads the server's messages never waits for the side that writes to the caller. Between them, a [`Relay`] keeps
//! the last few messages of progress and of the log, and drops what is older. The memory of a call is therefore bounded, however
//! fast the server sends and however slowly the caller reads.
//!
//! None of it has passed a filter. Under `Enforced` only the numbers of progress pass.

mod ask;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tamis_engine::{Enforcement, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::mcp::encode::Sink as _;
use crate::mcp::level::Level;

pub(crate) use ask::{Asking, ServerRequest};

/// Interval at which the messages of a call are passed on.
const INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of a number that passes.
const MAX_NUMBER: usize = 32;
/// Bytes of the text of progress, as JSON. A longer text is left out, and the numbers pass.
const MAX_TEXT: usize = 2 << 10;
/// Bytes of the name of a logger, as JSON. A longer name is left out.
const MAX_LOGGER: usize = 256;
/// Bytes of the data of a log message, as JSON. A log message with more is dropped.
const MAX_DATA: usize = 8 << 10;
/// How deep the data of a log message may be nested if it has line ends, which have to be removed.
const MAX_DEPTH: usize = 64;
/// Messages of progress that wait for the caller.
const MAX_PROGRESS: usize = 4;
/// Log messages that wait for the caller, and their bytes.
const MAX_WAITING: usize = 32;
const MAX_WAITING_BYTES: usize = 16 << 10;
/// Bytes that pass during one call.
const MAX_PASSED: usize = 4 << 20;

/// What a caller wants to get of what a server sends during a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// The token under which the caller gets progress, as JSON.
    pub(crate) token: Option<Bytes>,
    /// The least severe log messages that the caller gets, if the request says so.
    pub(crate) level: Option<Level>,
}

/// The kinds of messages that a call passes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kinds {
    /// Progress.
    pub(crate) progress: bool,
    /// Log messages.
    pub(crate) logs: bool,
}

/// A message of a server, as JSON texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sent {
    /// `notifications/progress`.
    Progress {
        /// A number.
        progress: Bytes,
        /// A number.
        total: Option<Bytes>,
        /// A string.
        message: Option<Bytes>,
    },
    /// `notifications/message`.
    Log {
        level: Level,
        /// A string.
        logger: Option<Bytes>,
        /// Any value.
        data: Bytes,
    },
}

/// Passes on what a server sends during one call.
#[derive(Debug)]
pub(crate) struct Relay {
    /// The caller's token, as JSON; none if the caller wants no progress.
    token: Option<Bytes>,
    /// The least severe log messages that pass; none if none do.
    level: Option<Level>,
    /// Whether the text of progress passes.
    passes_text: bool,
    /// How the caller is asked for input; none if it cannot be asked.
    asking: Option<Asking>,
    state: Mutex<State>,
    /// Notified when something waits that nothing waited before.
    waiting: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The newest messages of progress, the oldest first.
    progress: VecDeque<String>,
    /// Log messages, the oldest first.
    logs: VecDeque<String>,
    log_bytes: usize,
    /// Requests of the server. The caller of `put_question` bounds their number and reserves memory for them.
    questions: Vec<String>,
    /// Bytes that were passed on.
    passed: usize,
    /// When something was passed on last.
    last: Option<Instant>,
}

impl State {
    fn is_empty(&self) -> bool {
        self.progress.is_empty() && self.logs.is_empty() && self.questions.is_empty()
    }
}

impl Relay {
    /// Makes a relay for a call of an exposition with this enforcement; none if the caller wants nothing that may pass, and cannot
    /// be asked for anything.
    pub(crate) fn new(wanted: &Wanted, asking: Option<Asking>, enforcement: Enforcement) -> Option<Arc<Self>> {
        let Wanted { token, level } = wanted;
        let passes_text = enforcement == Enforcement::Advisory;
        let (level, asking) = (level.filter(|_| passes_text), asking.filter(|_| passes_text));
        (token.is_some() || level.is_some() || asking.is_some()).then(|| {
            let token = token.clone();
            Arc::new(Self { token, level, passes_text, asking, state: Mutex::default(), waiting: Notify::new() })
        })
    }

    /// Returns how the caller is asked for input; none if it cannot be asked.
    pub(crate) fn asking(&self) -> Option<&Asking> {
        self.asking.as_ref()
    }

    /// Takes a request of the server, as the caller gets it. Never waits, and never drops one.
    pub(crate) fn put_question(&self, question: String) {
        let mut state = self.lock();
        let was_empty = state.is_empty();
        state.questions.push(question);
        drop(state);
        if was_empty {
            self.waiting.notify_one();
        }
    }

    /// Returns what passes.
    pub(crate) fn kinds(&self) -> Kinds {
        Kinds { progress: self.token.is_some(), logs: self.level.is_some() }
    }

    /// Returns the level of the least severe log messages that pass; none if none do.
    pub(crate) fn level(&self) -> Option<Level> {
        self.level
    }

    /// Returns the bytes that may wait at once.
    pub(crate) fn memory(&self) -> u64 {
        let logs = if self.level.is_some() { MAX_WAITING_BYTES } else { 0 };
        (logs + MAX_PROGRESS * (MAX_TEXT + 512)) as u64
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message of the server. Never waits.
    pub(crate) fn take_in(&self, sent: &Sent) {
        let (progress, log) = match sent {
            Sent::Progress { progress, total, message } => {
                (self.progress(progress, total.as_ref(), message.as_ref()), None)
            }
            Sent::Log { level, logger, data } if self.level.is_some_and(|least| *level >= least) => {
                (None, log(*level, logger.as_ref(), data))
            }
            Sent::Log { .. } => (None, None),
        };
        if progress.is_none() && log.is_none() {
            return;
        }
        let mut state = self.lock();
        if state.passed >= MAX_PASSED {
            return;
        }
        let was_empty = state.is_empty();
        if let Some(progress) = progress {
            if state.progress.len() == MAX_PROGRESS {
                state.progress.pop_front();
            }
            state.progress.push_back(progress);
        }
        if let Some(log) = log {
            state.log_bytes += log.len();
            state.logs.push_back(log);
            while state.logs.len() > MAX_WAITING || state.log_bytes > MAX_WAITING_BYTES {
                let Some(oldest) = state.logs.pop_front() else { break };
                state.log_bytes -= oldest.len();
            }
        }
        drop(state);
        if was_empty {
            self.waiting.notify_one();
        }
    }

    /// Returns a notification of progress; none if the caller wants none, or a number is none.
    fn progress(&self, progress: &Bytes, total: Option<&Bytes>, message: Option<&Bytes>) -> Option<String> {
        let token = text(self.token.as_ref()?);
        if !is_number(progress) || total.is_some_and(|total| !is_number(total)) {
            return None;
        }
        let mut out = String::with_capacity(token.len() + 256);
        out.put(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#);
        out.put(token);
        out.put(r#","progress":"#);
        out.put(text(progress));
        if let Some(total) = total {
            out.put(r#","total":"#);
            out.put(text(total));
        }
        if let Some(message) = message.filter(|message| self.passes_text && message.len() <= MAX_TEXT) {
            out.put(r#","message":"#);
            out.put(text(message));
        }
        out.put("}}");
        Some(out)
    }

    /// Waits until something has to be passed on: at once, or after an interval since the last time. Dropping the future loses
    /// nothing.
    pub(crate) async fn due(&self) {
        loop {
            let at = {
                let state = self.lock();
                (!state.is_empty()).then(|| state.last.map_or_else(Instant::now, |last| last + INTERVAL))
            };
            match at {
                Some(at) => return tokio::time::sleep_until(at).await,
                None => self.waiting.notified().await,
            }
        }
    }

    /// Removes and returns the messages that wait for the caller, in order: complete, in one line each.
    pub(crate) fn take_out(&self) -> Vec<String> {
        let mut state = self.lock();
        if state.is_empty() {
            return Vec::new();
        }
        let mut messages: Vec<_> = state.logs.drain(..).collect();
        messages.extend(state.progress.drain(..));
        state.log_bytes = 0;
        state.passed += messages.iter().map(String::len).sum::<usize>();
        messages.append(&mut state.questions);
        state.last = Some(Instant::now());
        messages
    }
}

/// Returns a log message; none if it has too much data.
pub(crate) fn log(level: Level, logger: Option<&Bytes>, data: &Bytes) -> Option<String> {
    if data.len() > MAX_DATA {
        return None;
    }
    let mut out = String::with_capacity(data.len() + 160);
    out.put(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":""#);
    out.put(level.as_str());
    out.put("\"");
    if let Some(logger) = logger.filter(|logger| logger.len() <= MAX_LOGGER) {
        out.put(r#","logger":"#);
        out.put(text(logger));
    }
    out.put(r#","data":"#);
    if memchr::memchr2(b'\n', b'\r', data).is_some() {
        out.put(&json::to_string(&json::parse(data, MAX_DEPTH).ok()?));
    } else {
        out.put(text(data));
    }
    out.put("}}");
    Some(out)
}

/// Returns JSON as text. Parts of messages are checked when the message is read.
fn text(json: &Bytes) -> &str {
    std::str::from_utf8(json).unwrap_or("null")
}

/// Whether JSON is a number that is short enough to be one of progress.
fn is_number(json: &Bytes) -> bool {
    json.len() <= MAX_NUMBER && matches!(json.first(), Some(b'-' | b'0'..=b'9'))
}

#[cfg(test)]
mod tests;
