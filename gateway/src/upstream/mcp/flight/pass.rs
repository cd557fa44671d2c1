//! A request that is passed on to the server as it is: of prompts, resources or completions.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::HeaderMap;

use super::{Asked, Flight, MAX_LIST, NotReady};
use crate::exposition::ServerMethod;
use crate::upstream::UpstreamError;
use crate::upstream::mcp::Server;
use crate::upstream::mcp::decide::Forget;
use crate::upstream::mcp::wire::Answered;

impl Flight<'_> {
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
        let most = self.wire.context.bounds.max_response_bytes;
        let limit = match method {
            ServerMethod::GetPrompt | ServerMethod::ReadResource => most,
            ServerMethod::ListPrompts
            | ServerMethod::ListResources
            | ServerMethod::ListTemplates
            | ServerMethod::Complete => most.min(MAX_LIST),
        };
        let mut attempt = 1;
        loop {
            let server = Box::pin(self.server()).await.map_err(NotReady::into_error)?;
            let (server, session) = Box::pin(self.in_session(server)).await.map_err(NotReady::into_error)?;
            let asked = Asked { method: method.as_str(), name, params, headers: &HeaderMap::new(), limit };
            let answered = match self.send(server, session.as_ref(), asked).await {
                Ok(Answered::Refused { status: 404, code: Some(code), body }) if server == Server::Modern => {
                    // A method that the server does not have.
                    return Err(UpstreamError::Rpc { code, message: body });
                }
                answered => answered,
            };
            self.check_session_of_caller(server, session.as_ref(), &answered).await?;
            if let Some(result) = self.settle((server, session.as_ref()), answered, true, attempt)? {
                return Ok(result);
            }
            attempt += 1;
        }
    }

    /// Returns the server's era, after asking for it if it is not known. The tools are not compared: they are not called.
    pub(in crate::upstream::mcp) async fn server(&mut self) -> Result<Server, NotReady> {
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
        let peer = Arc::clone(&self.peer);
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
