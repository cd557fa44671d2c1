//! What travels sealed in the ids that legacy callers get: the session of an MCP server in the id of a session of the gateway, and
//! a request of the server in the id of the request that the caller gets.
//!
//! Any gateway of the group can open both, so it needs no memory of a session to answer for it. Both are bound to the exposition, to
//! the server's address and to the caller's name: an id that leaked is of no use to another caller. The keys are those of
//! [`Keyring`], which are rotated once a day; a session is therefore usable for a day at least, and for two at most.
//!
//! ```text
//! capabilities   what a caller can be asked for          pure
//! question       ids of requests of servers              pure
//! book           what a gateway remembers of sessions    bounded
//! ```

mod book;
mod capabilities;
mod question;

use std::fmt;

use http::header::HeaderValue;
use tamis_config::Source;

use crate::call::Caller;
use crate::exposition::Exposition;
use crate::mcp::era::LEGACY_VERSIONS;
use crate::seal::{Keyring, SealError};

pub(crate) use book::Book;
pub(crate) use capabilities::Capabilities;
pub(crate) use question::{PREFIX, Question, QuestionSession, now};

/// Bytes of a server's session id that is sealed.
const MAX_SESSION: usize = 1 << 10;

/// A session of a caller with an exposition of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallerSession {
    /// Its name: random, and a part of its id.
    pub(crate) name: Box<str>,
    /// What its client can be asked for. None under `Enforced`.
    pub(crate) capabilities: Capabilities,
    /// The server's session; none if the server could not be asked when the session began.
    pub(crate) server: Option<ServerSession>,
}

/// A session of an MCP server, or its version alone if it has no sessions.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServerSession {
    /// The version that was negotiated.
    pub(crate) version: &'static str,
    /// The session's id.
    pub(crate) id: Option<HeaderValue>,
}

/// Without the id, which is a credential.
impl fmt::Debug for ServerSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSession").field("version", &self.version).field("id", &self.id.is_some()).finish()
    }
}

/// The exposition, the server and the caller that ids are bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope(String);

impl Scope {
    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the scope of a caller of an exposition; none if the exposition publishes no MCP server at an address.
    pub(crate) fn new(exposition: &Exposition, caller: &Caller) -> Option<Self> {
        let Source::Mcp(source) = &exposition.service.document.source else { return None };
        // Only the last part may hold a space. A cursor's scope begins with a namespace, which is none of the words below.
        Some(Self(format!("{} {} {}", exposition.id, source.url, caller.name().unwrap_or_default())))
    }

    fn of_sessions(&self) -> String {
        format!("mcp-session {}", self.0)
    }

    fn of_questions(&self, session: &str) -> String {
        format!("mcp-request {session} {}", self.0)
    }
}

impl CallerSession {
    /// Returns the sealed part of the session's id.
    ///
    /// # Errors
    /// There are no keys, or the server's id is one that no header can repeat.
    pub(crate) fn seal(&self, keyring: &Keyring, scope: &Scope) -> Result<String, SealError> {
        let Self { name, capabilities, server } = self;
        let (version, id) = match server {
            None => ("-", "-"),
            Some(ServerSession { version, id }) => {
                (*version, id.as_ref().map_or(Some("-"), visible).ok_or(SealError::Invalid)?)
            }
        };
        keyring.seal(&scope.of_sessions(), &format!("{name} {} {version} {id}", capabilities.bits()))
    }

    /// Opens the sealed part of the id of the session `name`.
    ///
    /// # Errors
    /// It was sealed for another scope or another name, or with keys that are gone.
    pub(crate) fn open(keyring: &Keyring, scope: &Scope, name: &str, token: &str) -> Result<Self, SealError> {
        let text = keyring.open(&scope.of_sessions(), token)?;
        Self::parse(&text).filter(|session| *session.name == *name).ok_or(SealError::Invalid)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ' ');
        let (name, bits, version, id) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let server = match version {
            "-" => None,
            version => Some(ServerSession {
                version: LEGACY_VERSIONS.into_iter().find(|known| *known == version)?,
                id: if id == "-" { None } else { Some(HeaderValue::from_str(id).ok()?) },
            }),
        };
        Some(Self { name: name.into(), capabilities: Capabilities::of_bits(bits.parse().ok()?), server })
    }
}

/// Returns a server's session id as text, if it has the form that the specification prescribes (visible ASCII) and is not too long.
/// `-` stands for no id.
fn visible(id: &HeaderValue) -> Option<&str> {
    let text = id.to_str().ok()?;
    (text != "-" && (1..=MAX_SESSION).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()))
        .then_some(text)
}

#[cfg(test)]
mod tests;
