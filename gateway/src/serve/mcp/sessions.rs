//! Sessions of callers with an exposition of an MCP server: how one begins and ends, and the caller's answers to what the server asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use tamis_engine::Enforcement;

use super::super::respond::plain;
use super::super::{Body, session_id};
use super::{McpRequest, accepted, refuse};
use crate::call;
use crate::exposition::Exposition;
use crate::hops;
use crate::input::CannotAsk;
use crate::mcp::{Era, RpcError};
use crate::memory::Reservation;
use crate::relay::Asking;
use crate::seal::SealError;
use crate::sealed::{CallerSession, Capabilities, Question, QuestionSession, Scope, ServerSession, now};
use crate::session::{CallerAnswer, Handshake};
use crate::target::Target;
use crate::upstream::{CallBounds, CallContext, Opened};

/// How long the server may take to take an answer.
const ANSWERING: Duration = Duration::from_secs(10);
/// Bytes of the server's answer to a handshake.
const MAX_HANDSHAKE: u64 = 256 << 10;

impl McpRequest<'_> {
    /// Returns the exposition, if it publishes an MCP server whose sessions can belong to sessions of callers.
    fn of_server(&self) -> Option<(&Arc<Exposition>, Scope)> {
        let Target::Exposition(exposition) = self.target else { return None };
        let scope = Scope::new(exposition, &self.caller)?;
        exposition.service.upstream.has_sessions().then_some((exposition, scope))
    }

    /// What an MCP server gets besides a message of the session.
    fn context<'c>(
        &'c self,
        exposition: &'c Exposition,
        session: Option<&'c CallerSession>,
        time: Duration,
        memory: &'c mut Reservation,
    ) -> CallContext<'c> {
        CallContext {
            bounds: CallBounds {
                deadline: Instant::now() + time,
                max_response_bytes: MAX_HANDSHAKE,
                detect_list: false,
            },
            hops: hops::hop_count(self.headers),
            credentials: exposition.credentials(self.gateway.options.credentials.as_ref()),
            caller: Some(&self.caller),
            through: None,
            trace: None,
            relay: None,
            input: None,
            session,
            cannot_ask: CannotAsk::NotACall,
            query: None,
            most_messages: None,
            offload: self.gateway.offload(&exposition.id),
            memory,
        }
    }

    /// Returns the id of the session that a handshake begins; none if the system has no random numbers.
    pub(super) async fn begin(&self, handshake: Handshake, held: &mut Reservation) -> Option<HeaderValue> {
        let name = session_id::fresh()?;
        let token = self.seal(&name, handshake, held).await;
        token.and_then(|token| session_id::id(&name, Some(&token))).or_else(|| session_id::id(&name, None))
    }

    /// Returns the sealed part of the id of a session that begins; none if no session of a server belongs to it.
    async fn seal(&self, name: &str, handshake: Handshake, held: &mut Reservation) -> Option<String> {
        let (exposition, scope) = self.of_server()?;
        let Handshake { version, capabilities } = handshake;
        // No request of a server passes under `Enforced`, so no capability is declared.
        let is_advisory = exposition.enforcement == Enforcement::Advisory;
        let capabilities = if is_advisory { capabilities } else { Capabilities::default() };
        let opener = format!("{} {}", exposition.id, self.caller.listener());
        if hops::is_loop(hops::hop_count(self.headers)) || !self.gateway.book.may_open(&opener, Instant::now()) {
            return None;
        }
        let context = self.context(exposition, None, self.target.timeout(), held);
        let server = match exposition.service.upstream.open(version, capabilities, context).await {
            Opened::Session(session) => Some(session),
            Opened::Later if capabilities.is_empty() => return None,
            Opened::Later => None,
            Opened::Never => return None,
        };
        let session = CallerSession { name: name.into(), capabilities, server };
        let token = session.seal(&self.gateway.keyring, &scope);
        if token.is_err() {
            // It could not be named in any request.
            self.end_on_server(exposition, &session);
        }
        token.ok()
    }

    /// Returns the session of the caller that a request names; none if it names none that a session of a server belongs to.
    ///
    /// # Errors
    /// The session has ended, or was never one of this caller with this exposition.
    pub(in crate::serve) fn caller_session(&self) -> Result<Option<Box<CallerSession>>, RpcError> {
        let Some((name, token)) = session_id::sealed(self.headers) else { return Ok(None) };
        let Some((exposition, scope)) = self.of_server() else { return Ok(None) };
        if self.gateway.book.has_ended(name) {
            return Err(RpcError::session_ended());
        }
        let mut session = CallerSession::open(&self.gateway.keyring, &scope, name, token).map_err(not_opened)?;
        if exposition.enforcement == Enforcement::Enforced {
            // The session began before the enforcement was raised.
            session.capabilities = Capabilities::default();
        }
        Ok(Some(Box::new(session)))
    }

    /// Checks that the session that a request names has not ended, as far as this gateway knows.
    ///
    /// # Errors
    /// It has ended.
    pub(super) fn check_session(&self) -> Result<(), RpcError> {
        let ended = session_id::sealed(self.headers).is_some_and(|(name, _)| self.gateway.book.has_ended(name));
        if ended && self.of_server().is_some() { Err(RpcError::session_ended()) } else { Ok(()) }
    }

    /// Returns the session that a call belongs to.
    ///
    /// # Errors
    /// As [`Self::caller_session`].
    pub(super) fn caller_session_of(&self, call: &call::ToolCall) -> Result<Option<Box<CallerSession>>, RpcError> {
        // The modern era has no sessions, and what a client says of one is ignored.
        if call.era == Era::Modern { Ok(None) } else { self.caller_session() }
    }

    /// Returns how the caller is asked for input during a call; none if it cannot be asked.
    pub(super) fn asking(&self, call: &call::ToolCall) -> Option<Asking> {
        let session = call.session.as_deref().filter(|session| !session.capabilities.is_empty())?;
        let (_, scope) = self.of_server()?;
        Some(Asking::new(&self.gateway.keyring, scope, session, self.target.timeout()))
    }

    /// Passes the caller's answer on to the server that asked.
    ///
    /// # Errors
    /// No request of a server in this session has this id, it was answered before, or the server did not take the answer.
    pub(super) async fn respond(&self, answer: &CallerAnswer, held: &mut Reservation) -> Result<(), RpcError> {
        let unknown = || RpcError::invalid_request("no request awaits this");
        let session = self.caller_session()?.ok_or_else(unknown)?;
        let (exposition, scope) = self.of_server().ok_or_else(unknown)?;
        let keyring = &self.gateway.keyring;
        let question = Question::open(keyring, &scope, &session.name, &answer.id).map_err(|error| match error {
            SealError::NoKeys => not_opened(error),
            SealError::Invalid => unknown(),
        })?;
        if exposition.enforcement == Enforcement::Enforced || question.is_past(now()) {
            return Err(unknown());
        }
        let Question { nonce, version, session: of_server, id, .. } = question;
        let known = session.server.as_ref().and_then(|server| server.id.as_ref());
        let of_server = match &of_server {
            QuestionSession::None => None,
            QuestionSession::Known => Some(known.ok_or_else(unknown)?),
            QuestionSession::Other(id) => Some(id),
        };
        let book = &self.gateway.book;
        if !book.begin_answer(&session.name, nonce) {
            return Err(unknown());
        }
        let CallerAnswer { member, value, .. } = answer;
        let context = self.context(exposition, Some(&session), self.target.timeout().min(ANSWERING), held);
        let sent = exposition.service.upstream.answer((version, of_server), (&id, *member, value), context).await;
        match sent {
            Ok(200..=299) => Ok(()),
            Ok(404) if of_server.is_some() => {
                book.end(&session.name);
                Err(RpcError::session_ended())
            }
            Ok(status) => {
                book.undo_answer(&session.name, nonce);
                Err(RpcError::answer_not_taken(format!("the upstream refused the answer with {status}")))
            }
            Err(error) => {
                book.undo_answer(&session.name, nonce);
                Err(RpcError::answer_not_taken(error.to_string()))
            }
        }
    }

    /// Ends the session that the request names, on the server too.
    pub(super) fn delete(&self) -> Response<Body> {
        match self.caller_session() {
            Ok(None) => {
                // There is nothing to end.
                let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, POST"));
                response
            }
            Ok(Some(session)) => {
                self.gateway.book.end(&session.name);
                if let Some((exposition, _)) = self.of_server() {
                    self.end_on_server(exposition, &session);
                }
                let mut response = accepted();
                *response.status_mut() = StatusCode::NO_CONTENT;
                response
            }
            Err(error) => refuse(None, &error, Era::Legacy),
        }
    }

    fn end_on_server(&self, exposition: &Exposition, session: &CallerSession) {
        let credentials = exposition.credentials(self.gateway.options.credentials.as_ref());
        if let Some(server @ ServerSession { id: Some(_), .. }) = &session.server {
            exposition.service.upstream.end_session(server, credentials);
        }
    }
}

fn not_opened(error: SealError) -> RpcError {
    match error {
        SealError::NoKeys => RpcError::busy(503, "the gateway cannot read session ids at the moment", 1),
        SealError::Invalid => RpcError::session_ended(),
    }
}
