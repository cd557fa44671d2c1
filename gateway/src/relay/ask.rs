//! Requests that a server sends during a call, for the caller.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use tamis_engine::json;

use super::{MAX_DEPTH, text};
use crate::input::{CannotAsk, InputKind};
use crate::mcp::encode::Sink as _;
use crate::seal::{Keyring, SealError};
use crate::sealed::{CallerSession, Question, QuestionSession, Scope, now};

/// Bytes of the parameters of a request that passes.
const MAX_PARAMS: usize = 64 << 10;

/// A request of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerRequest {
    /// Its id, as JSON.
    pub(crate) id: Bytes,
    /// What it asks for; none for anything else than input.
    pub(crate) kind: Option<InputKind>,
    /// Its parameters, a JSON object.
    pub(crate) params: Option<Bytes>,
}

/// Whom a server may ask during a call, and how its requests are named.
pub(crate) struct Asking {
    keyring: Arc<Keyring>,
    scope: Scope,
    session: Box<CallerSession>,
    /// When the call has ended, in seconds since 1970.
    expires: u64,
}

/// Without the session.
impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asking(..)")
    }
}

impl Asking {
    /// Asks the client of a session, during a call that takes this long at most.
    pub(crate) fn new(keyring: &Arc<Keyring>, scope: Scope, session: &CallerSession, timeout: Duration) -> Self {
        let (keyring, session) = (Arc::clone(keyring), Box::new(session.clone()));
        Self { keyring, scope, session, expires: now().saturating_add(timeout.as_secs() + 1) }
    }

    /// Returns a server's request as the caller gets it. `version` and `id`: the version that the server speaks, and its session.
    ///
    /// # Errors
    /// [`CannotAsk`].
    pub(crate) fn write(
        &self,
        request: &ServerRequest,
        version: &'static str,
        id: Option<&HeaderValue>,
    ) -> Result<String, CannotAsk> {
        let ServerRequest { id: asked, kind, params } = request;
        let kind = kind.ok_or(CannotAsk::Method)?;
        let params = params.as_ref();
        self.session.capabilities.check(kind, params.map(|params| &**params))?;
        if params.is_some_and(|params| params.len() > MAX_PARAMS) {
            return Err(CannotAsk::TooLarge);
        }
        let known = self.session.server.as_ref().and_then(|server| server.id.as_ref());
        let question = Question {
            nonce: nonce().ok_or(CannotAsk::NoKeys)?,
            expires: self.expires,
            version,
            session: match id {
                None => QuestionSession::None,
                Some(id) if Some(id) == known => QuestionSession::Known,
                Some(id) => QuestionSession::Other(id.clone()),
            },
            id: text(asked).to_owned(),
        };
        let token = question.seal(&self.keyring, &self.scope, &self.session.name).map_err(|error| match error {
            SealError::NoKeys => CannotAsk::NoKeys,
            SealError::Invalid => CannotAsk::TooLarge,
        })?;
        let mut out = String::with_capacity(token.len() + params.map_or(0, Bytes::len) + 80);
        out.put(r#"{"jsonrpc":"2.0","id":""#);
        out.put(&token);
        out.put(r#"","method":""#);
        out.put(kind.method());
        out.put("\"");
        if let Some(params) = params {
            out.put(r#","params":"#);
            if memchr::memchr2(b'\n', b'\r', params).is_some() {
                // An event has no line ends.
                out.put(&json::to_string(&json::parse(params, MAX_DEPTH).map_err(|_| CannotAsk::TooLarge)?));
            } else {
                out.put(text(params));
            }
        }
        out.put("}");
        Ok(out)
    }
}

fn nonce() -> Option<u64> {
    let mut bytes = [0; 8];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(u64::from_be_bytes(bytes))
}
