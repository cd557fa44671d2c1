//! A request that is passed on to the server as it is: of prompts, resources or completions.

use std::time::Instant;

use bytes::Bytes;
use http::header::HeaderMap;

use super::{Flight, NotReady};
use crate::exposition::ServerMethod;
use crate::upstream::UpstreamError;
use crate::upstream::incoming::Fault;
use crate::upstream::mcp::Server;
use crate::upstream::mcp::decide::{self, Forget};
use crate::upstream::mcp::request;
use crate::upstream::mcp::wire::{Answered, Outgoing, malformed};

/// The most bytes of a page of a list, and of a completion.
const MAX_LIST: u64 = 4 << 20;

/// A request that is passed on.
pub(in crate::upstream::mcp) struct Passing<'a> {
    pub(in crate::upstream::mcp) flight: Flight<'a>,
    /// The headers and the id of a request that the server may still answer, and has to be told to give up.
    pub(in crate::upstream::mcp) pending: Option<(HeaderMap, u64)>,
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        // The deadline has passed, or the caller has disconnected.
        if let Some((headers, id)) = self.pending.take() {
            self.flight.wire.transport.cancel(headers, id);
        }
    }
}

impl Passing<'_> {
    /// Sends the request and returns its result. These requests change nothing, so one that a server refused in a way that
    /// another era or session would explain, or whose connection broke, is sent once more.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(in crate::upstream::mcp) async fn pass(
        &mut self,
        method: ServerMethod,
        name: Option<&str>,
        params: &str,
    ) -> Result<Bytes, UpstreamError> {
        let mut attempt = 1;
        loop {
            let server = Box::pin(self.flight.server()).await.map_err(NotReady::into_error)?;
            let session = Box::pin(self.flight.session(server)).await.map_err(NotReady::into_error)?;
            let id = self.flight.service.next_id();
            let plain = request::headers(Some(server), session.as_ref(), method.as_str(), None);
            let headers = request::headers(Some(server), session.as_ref(), method.as_str(), name);
            let body = request::request(id, method.as_str(), params, server);
            let is_legacy = server != Server::Modern;
            self.pending = self.flight.wire.transport.needs_cancel(server).then(|| (plain.clone(), id));
            let most = self.flight.wire.context.bounds.max_response_bytes;
            let limit = match method {
                ServerMethod::GetPrompt | ServerMethod::ReadResource => most,
                ServerMethod::ListPrompts
                | ServerMethod::ListResources
                | ServerMethod::ListTemplates
                | ServerMethod::Complete => most.min(MAX_LIST),
            };
            let refuse_with = is_legacy.then_some(&plain);
            let outgoing = Outgoing { method: method.as_str(), headers, body, id: Some(id), limit, refuse_with };
            let answered = self.flight.wire.post(outgoing).await;
            self.pending = None;
            if std::mem::take(&mut self.flight.wire.list_changed) {
                self.flight.peer.expire();
            }
            match answered {
                Ok(Answered::Result(result, _)) => return Ok(result),
                Ok(Answered::Error(error)) => {
                    return Err(UpstreamError::Rpc { code: error.code, message: error.message });
                }
                Ok(Answered::Refused { status: 404, code: Some(code), body }) if server == Server::Modern => {
                    // A method that the server does not have.
                    return Err(UpstreamError::Rpc { code, message: body });
                }
                Ok(Answered::Refused { status, code, body }) => {
                    let next = decide::refused(server, session.is_some(), (status, code), true, attempt);
                    self.flight.forget(next.forget, session.as_ref());
                    if !next.again {
                        return Err(UpstreamError::Status { status, mapped: None, body });
                    }
                }
                Ok(Answered::Accepted) => return Err(malformed("holds no answer to the request").into_error()),
                Err(Fault::Broken(_)) if attempt == 1 => {}
                Err(fault) => return Err(fault.into_error()),
            }
            attempt += 1;
        }
    }
}

impl Flight<'_> {
    /// Returns the server's era, after asking for it if it is not known. The tools are not compared: they are not called.
    async fn server(&mut self) -> Result<Server, NotReady> {
        self.attach().await.map_err(NotReady::Failed)?;
        let server = self.era().await;
        if server.is_ok() || self.wire.transport.ended().is_none() {
            return server;
        }
        // The program ended before anything was executed.
        self.attach().await.map_err(NotReady::Failed)?;
        self.era().await
    }

    async fn era(&mut self) -> Result<Server, NotReady> {
        if let Some((server, _)) = self.peer.ready(Instant::now()) {
            return Ok(server);
        }
        if let Some(server) = self.peer.server() {
            return Ok(server);
        }
        let peer = std::sync::Arc::clone(&self.peer);
        let _asking = peer.asking.lock().await;
        if let Some(server) = peer.server() {
            return Ok(server);
        }
        let server = match self.detect().await {
            Err(NotReady::Refused(Forget::Session | Forget::Server, error)) => return Err(NotReady::Failed(error)),
            other => other?,
        };
        peer.set_server(server);
        Ok(server)
    }
}
