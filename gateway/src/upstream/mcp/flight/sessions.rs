//! Legacy sessions with a server: that of a caller, or that in which lists are read.
//!
//! A caller with a session of its own (`sealed`) has a session of the server for it: the one that its session's id holds, or one that
//! is kept here. All other callers of an exposition have one for each of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::HeaderValue;
use http::{Method, StatusCode};

use super::{Flight, NotReady};
use crate::sealed::{Capabilities, ServerSession};
use crate::upstream::UpstreamError;
use crate::upstream::incoming::Fault;
use crate::upstream::mcp::decide::{self, Forget};
use crate::upstream::mcp::wire::{Answered, Transport};
use crate::upstream::mcp::{Server, request, watch};

/// How long a server may take to say whether it knows a session.
const PING: Duration = Duration::from_secs(5);

/// Whose session a handshake begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::upstream::mcp) enum Whose {
    /// That in which lists are read. It belongs to no caller.
    Lists,
    /// The caller's, kept by this gateway.
    Caller,
    /// The caller's. It travels in the id of the caller's session, with this version and these capabilities.
    Travels(&'static str, Capabilities),
}

/// What became of a wish for a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// The server has opened one, or has none and speaks this version.
    Session(ServerSession),
    /// The server could not be asked. A session is opened when it is needed.
    Later,
    /// The server has no use for one.
    Never,
}

impl Flight<'_> {
    /// Returns the parameters of a handshake.
    pub(super) fn hello(&self, whose: Whose) -> String {
        let newest = request::NEWEST_LEGACY;
        let is_http = matches!(self.wire.transport, Transport::Http(_));
        match whose {
            // The tools of a server that is followed are listed to all callers, whatever they can be asked for.
            Whose::Lists if is_http && !self.service.follows => request::initialize(newest, Capabilities::ALL),
            Whose::Caller if is_http => {
                let session = self.wire.context.session;
                request::initialize(newest, session.map(|session| session.capabilities).unwrap_or_default())
            }
            Whose::Lists | Whose::Caller => request::initialize(newest, Capabilities::default()),
            Whose::Travels(version, capabilities) => request::initialize(version, capabilities),
        }
    }

    /// Returns under which name a session is kept; none if it is not.
    pub(super) fn owner(&self, whose: Whose) -> Option<Arc<str>> {
        match whose {
            Whose::Lists => Some(watch::CALLER.into()),
            Whose::Caller => Some(Arc::clone(&self.caller)),
            Whose::Travels(..) => None,
        }
    }

    /// Returns the session in which lists are read, which begins here if there is none; none if the server has no sessions.
    pub(in crate::upstream::mcp) async fn session_of_lists(
        &mut self,
        server: Server,
    ) -> Result<Option<HeaderValue>, NotReady> {
        self.session(server, Whose::Lists).await
    }

    async fn session(&mut self, server: Server, whose: Whose) -> Result<Option<HeaderValue>, NotReady> {
        let Server::Legacy { has_sessions: true, .. } = server else { return Ok(None) };
        let known = match whose {
            Whose::Lists => self.peer.session(watch::CALLER),
            Whose::Caller | Whose::Travels(..) => self.peer.session(&self.caller),
        };
        if known.is_some() {
            return Ok(known);
        }
        let (server, session) = self.initialize(whose).await?;
        self.peer.set_server(server);
        Ok(session)
    }

    /// Returns the caller's session, and what the server speaks in it: what the id of the caller's session says, or else `server`
    /// and the session that this gateway keeps.
    pub(in crate::upstream::mcp) async fn in_session(
        &mut self,
        server: Server,
    ) -> Result<(Server, Option<HeaderValue>), NotReady> {
        let travels = self.wire.context.session.and_then(|session| session.server.as_ref());
        if let (Some(ServerSession { version, id }), Transport::Http(_)) = (travels, &self.wire.transport) {
            return Ok((Server::Legacy { version, has_sessions: id.is_some() }, id.clone()));
        }
        let session = self.session(server, Whose::Caller).await?;
        Ok((server, session))
    }

    /// Opens a session for a session of the caller, in which a server that speaks both eras is spoken to in the caller's.
    pub(in crate::upstream::mcp) async fn open(
        &mut self,
        version: &'static str,
        capabilities: Capabilities,
    ) -> Result<Opened, NotReady> {
        if self.peer.has_streams() {
            return Ok(Opened::Never);
        }
        match self.server().await? {
            // What belongs to no session has nothing that a caller could be asked in.
            Server::Modern if capabilities.is_empty() || self.peer.is_modern_only() => return Ok(Opened::Never),
            Server::Legacy { has_sessions: false, .. } if capabilities.is_empty() => return Ok(Opened::Never),
            Server::Legacy { version, has_sessions: false } if !self.peer.has_streams() => {
                return Ok(Opened::Session(ServerSession { version, id: None }));
            }
            Server::Legacy { has_sessions: false, .. } => return Ok(Opened::Never),
            Server::Modern | Server::Legacy { has_sessions: true, .. } => {}
        }
        match self.initialize(Whose::Travels(version, capabilities)).await {
            Ok((Server::Legacy { version, .. }, id)) => Ok(Opened::Session(ServerSession { version, id })),
            Err(NotReady::Refused(..)) if self.peer.server() == Some(Server::Modern) => {
                self.peer.note_modern_only();
                Ok(Opened::Never)
            }
            Ok((Server::Modern, _)) => Ok(Opened::Never),
            Err(error) => Err(error),
        }
    }

    /// Checks whether a server refused a request because it has ended the session of the caller's session. The caller then begins
    /// another one: what the server kept in this one is gone, and the caller has to know.
    ///
    /// # Errors
    /// [`UpstreamError::SessionEnded`].
    pub(in crate::upstream::mcp) async fn check_session_of_caller(
        &mut self,
        server: Server,
        session: Option<&HeaderValue>,
        answered: &Result<Answered, Fault>,
    ) -> Result<(), UpstreamError> {
        let (Some(session), Some(_), Ok(Answered::Refused { status, code, .. })) =
            (session, self.wire.context.session, answered)
        else {
            return Ok(());
        };
        if decide::refused(server, true, (*status, *code), false, 1).forget != Forget::Session {
            return Ok(());
        }
        // Some servers refuse a session that they do not know with 400, which may also come from the tool.
        if *status != 404 && self.knows(server, session).await {
            return Ok(());
        }
        self.peer.end_session(&self.caller, session);
        // A server that has lost its sessions may have been replaced by another version of itself.
        self.peer.expire();
        Err(UpstreamError::SessionEnded)
    }

    /// Returns whether the server answers in a session.
    pub(in crate::upstream::mcp) async fn knows(&mut self, server: Server, session: &HeaderValue) -> bool {
        self.ping(server, session).await.is_none_or(|status| status.is_some_and(|status| status.is_success()))
    }

    /// Returns whether the server says that it does not know a session. A server that cannot be reached says nothing.
    pub(in crate::upstream::mcp) async fn has_lost(&mut self, server: Server, session: &HeaderValue) -> bool {
        self.ping(server, session).await.flatten().is_some_and(|status| matches!(status.as_u16(), 400 | 404))
    }

    /// Asks whether the server knows a session. Returns the status of its answer, or none if there is none; none at all for a
    /// program, which has no sessions.
    async fn ping(&mut self, server: Server, session: &HeaderValue) -> Option<Option<StatusCode>> {
        const METHOD: &str = "ping";
        let id = self.service.next_id();
        let headers = request::headers(Some(server), Some(session), METHOD, None);
        let Transport::Http(http) = self.wire.transport else { return None };
        let deadline = self.wire.context.bounds.deadline.min(Instant::now() + PING);
        let sent = self.wire.send_as(http, Method::POST, METHOD, &headers, request::request(id, METHOD, "", server));
        let answer = tokio::time::timeout_at(deadline.into(), Box::pin(sent)).await;
        Some(answer.ok().and_then(Result::ok).map(|answer| answer.status()))
    }
}
