//! Sessions of a server that belong to sessions of callers: opening one, an answer of the caller in one, and the end of one.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::HeaderValue;

use super::flight::Opened;
use super::wire::Transport;
use super::{Endpoint, McpService, Server, request};
use crate::sealed::{Capabilities, ServerSession};
use crate::upstream::incoming::Fault;
use crate::upstream::{CallContext, CredentialScope, UpstreamError};

/// How long a caller's handshake waits for the server's.
const OPENING: Duration = Duration::from_secs(2);

impl McpService {
    /// Returns whether sessions of the server can belong to sessions of callers: it is not a program.
    pub(in crate::upstream) fn has_address(&self) -> bool {
        matches!(self.endpoint, Endpoint::Http(_))
    }

    /// Opens a session for a session of the caller, who speaks this version and can be asked for this. A server that does not answer
    /// holds up no caller for more than two seconds, and then none for half a minute.
    pub(in crate::upstream) async fn open(
        &self,
        version: &'static str,
        capabilities: Capabilities,
        context: CallContext<'_>,
    ) -> Opened {
        let Ok(authentication) = self.authenticate(context.credentials) else { return Opened::Later };
        let caller = context.caller_key().into();
        let Ok(mut flight) = self.flight(&authentication, caller, context) else { return Opened::Never };
        let begun = Instant::now();
        if flight.peer.is_silent(begun) {
            return Opened::Later;
        }
        match tokio::time::timeout(OPENING, Box::pin(flight.open(version, capabilities))).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => {
                tracing::debug!(service = %self.name, "no session with the MCP server: {}", error.into_error());
                Opened::Later
            }
            Err(_) => {
                tracing::warn!(service = %self.name, "MCP server does not answer; sessions of callers begin without it");
                flight.peer.note_silent(Instant::now());
                Opened::Later
            }
        }
    }

    /// Sends a caller's answer to a request of the server. `id` is the server's, `member` is `result` or `error`. Returns the status with
    /// which the server took it.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(in crate::upstream) async fn answer(
        &self,
        (version, session): (&'static str, Option<&HeaderValue>),
        (id, member, value): (&str, &str, &Bytes),
        context: CallContext<'_>,
    ) -> Result<u16, UpstreamError> {
        const METHOD: &str = "response";
        let authentication = self.authenticate(context.credentials)?;
        let deadline = context.bounds.deadline;
        let caller = context.caller_key().into();
        let mut flight = self.flight(&authentication, caller, context)?;
        let Transport::Http(http) = flight.wire.transport else {
            return Err(UpstreamError::UnknownTool(METHOD.to_owned()));
        };
        let server = Server::Legacy { version, has_sessions: session.is_some() };
        let headers = request::headers(Some(server), session, METHOD, None);
        let sent = async {
            let sent = flight
                .wire
                .send_as(http, http::Method::POST, METHOD, &headers, request::answer(id, member, value))
                .await;
            let incoming = sent.map_err(Fault::into_error)?;
            let status = incoming.status().as_u16();
            incoming.finish().await;
            Ok(status)
        };
        let sent = tokio::time::timeout_at(deadline.into(), Box::pin(sent)).await;
        sent.unwrap_or(Err(UpstreamError::Timeout { sent: true }))
    }

    /// Ends a session on the server, in the background.
    pub(in crate::upstream) fn end(&self, session: &ServerSession, credentials: CredentialScope<'_>) {
        let (Endpoint::Http(endpoint), Some(id)) = (&self.endpoint, &session.id) else { return };
        let Ok(authentication) = endpoint.authenticate(credentials) else { return };
        let server = Server::Legacy { version: session.version, has_sessions: true };
        let headers = request::headers(Some(server), Some(id), "DELETE", None);
        if let Some(letter) = endpoint.http(&authentication).letter(&headers) {
            letter.end_session();
        }
    }
}
