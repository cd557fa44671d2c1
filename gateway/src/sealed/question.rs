//! The ids of requests that a server sends to a caller during a call.

use std::time::{SystemTime, UNIX_EPOCH};

use http::header::HeaderValue;

use super::{Scope, visible};
use crate::mcp::era::LEGACY_VERSIONS;
use crate::seal::{Keyring, SealError};

/// What such an id begins with.
pub(crate) const PREFIX: &str = "t.";
/// Bytes of an id of a server's request that is passed on.
const MAX_ID: usize = 128;
/// Bytes of an id for the caller. Longer ones are not read when they come back.
const MAX_TOKEN: usize = 1_000;
/// How far the clocks of two gateways may differ, in seconds.
const SKEW: u64 = 60;

/// A request of a server, as the id that a caller gets for it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// Random: a server may use an id again in another call.
    pub(crate) nonce: u64,
    /// When the call has ended at the latest, in seconds since 1970. A later answer is refused.
    pub(crate) expires: u64,
    /// The version that the server speaks.
    pub(crate) version: &'static str,
    /// The server's session.
    pub(crate) session: QuestionSession,
    /// The id that the server gave it, as JSON.
    pub(crate) id: String,
}

/// The session of a server that a request belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QuestionSession {
    /// None: the server has no sessions.
    None,
    /// That in the id of the caller's session.
    Known,
    /// Another one, which one gateway opened later.
    Other(HeaderValue),
}

impl Question {
    /// Returns the id for the caller, without quotes. `session` is the name of the caller's session.
    ///
    /// # Errors
    /// There are no keys, or the id would be too long.
    pub(crate) fn seal(&self, keyring: &Keyring, scope: &Scope, session: &str) -> Result<String, SealError> {
        let Self { nonce, expires, version, session: of_server, id } = self;
        let of_server = match of_server {
            QuestionSession::None => "-",
            QuestionSession::Known => "=",
            QuestionSession::Other(id) => visible(id).filter(|id| *id != "=").ok_or(SealError::Invalid)?,
        };
        if id.len() > MAX_ID {
            return Err(SealError::Invalid);
        }
        let text = format!("{nonce} {expires} {version} {of_server} {id}");
        let token = format!("{PREFIX}{}", keyring.seal(&scope.of_questions(session), &text)?);
        if token.len() > MAX_TOKEN { Err(SealError::Invalid) } else { Ok(token) }
    }

    /// Opens an id that a caller answers to.
    ///
    /// # Errors
    /// It is not an id of a request in this session, or its keys are gone.
    pub(crate) fn open(keyring: &Keyring, scope: &Scope, session: &str, id: &str) -> Result<Self, SealError> {
        let token = id.strip_prefix(PREFIX).filter(|_| id.len() <= MAX_TOKEN).ok_or(SealError::Invalid)?;
        Self::parse(&keyring.open(&scope.of_questions(session), token)?).ok_or(SealError::Invalid)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, ' ');
        let (nonce, expires) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let (version, session) = (parts.next()?, parts.next()?);
        Some(Self {
            nonce,
            expires,
            version: LEGACY_VERSIONS.into_iter().find(|known| *known == version)?,
            session: match session {
                "-" => QuestionSession::None,
                "=" => QuestionSession::Known,
                id => QuestionSession::Other(HeaderValue::from_str(id).ok()?),
            },
            id: parts.next()?.to_owned(),
        })
    }

    /// Returns whether the call has ended, even if the clock of the gateway that made it is late.
    pub(crate) fn is_past(&self, now: u64) -> bool {
        now > self.expires.saturating_add(SKEW)
    }
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
