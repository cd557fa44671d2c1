//! The call of a tool.

use std::time::Instant;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};

use super::flight::{Flight, NotReady};
use super::result::{self, ToolAnswer};
use super::wire::{Answered, Outgoing, malformed};
use super::{Action, Server, decide, request};
use crate::memory::Exhausted;
use crate::upstream::incoming::Fault;
use crate::upstream::{Answer, UpstreamError};

/// A call in flight.
pub(super) struct ToolCall<'a> {
    pub(super) flight: Flight<'a>,
    pub(super) action: &'a Action,
    /// The headers of the call with the arguments that they repeat.
    pub(super) params: HeaderMap,
    /// Whether the call of the tool may have been executed.
    pub(super) sent: bool,
    /// The headers and the id of a call that the server may still execute, and has to be told to give up.
    pub(super) pending: Option<(HeaderMap, u64)>,
}

impl Drop for ToolCall<'_> {
    fn drop(&mut self) {
        // The deadline has passed, or the caller has disconnected.
        if let Some((headers, id)) = self.pending.take() {
            self.flight.wire.transport.cancel(headers, id);
        }
    }
}

impl ToolCall<'_> {
    /// Makes the call.
    ///
    /// # Errors
    /// [`UpstreamError`].
    pub(super) async fn call(&mut self, arguments: &str, begun: Instant) -> Result<Answer, UpstreamError> {
        let mut attempt = 1;
        loop {
            let (server, verdict) = Box::pin(self.flight.ready()).await?;
            let service = self.flight.service;
            if let Some(withheld) = service.why_withheld(self.action, &verdict, self.flight.peer.listed().as_deref()) {
                return Err(UpstreamError::Withheld(withheld));
            }
            let session = Box::pin(self.flight.session(server)).await.map_err(NotReady::into_error)?;
            match self.call_once(server, session.as_ref(), arguments).await {
                Ok(Answered::Result(result, _)) => return self.answer(result, begun).await,
                Ok(Answered::Error(error)) => {
                    return Err(UpstreamError::Rpc { code: error.code, message: error.message });
                }
                Ok(Answered::Refused { status, code, body }) => {
                    let next =
                        decide::refused(server, session.is_some(), (status, code), self.action.repeatable, attempt);
                    self.flight.forget(next.forget, session.as_ref());
                    if !next.again {
                        return Err(UpstreamError::Status { status, mapped: None, body });
                    }
                }
                Ok(Answered::Accepted) => return Err(malformed("holds no answer to the request").into_error()),
                Err(Fault::Broken(_)) if self.action.repeatable && attempt == 1 => {}
                // Nothing was sent, since the program ended just before.
                Err(Fault::Unsent(_)) if attempt == 1 && self.flight.wire.transport.ended().is_some() => {}
                Err(fault) => return Err(fault.into_error()),
            }
            attempt += 1;
        }
    }

    async fn call_once(
        &mut self,
        server: Server,
        session: Option<&HeaderValue>,
        arguments: &str,
    ) -> Result<Answered, Fault> {
        const METHOD: &str = "tools/call";
        let id = self.flight.service.next_id();
        let plain = request::headers(Some(server), session, METHOD, None);
        let mut headers = request::headers(Some(server), session, METHOD, Some(&self.action.tool));
        if server == Server::Modern {
            headers.extend(self.params.clone());
        }
        let body = request::request(id, METHOD, &request::call(&self.action.tool, arguments), server);
        let is_legacy = server != Server::Modern;
        self.sent = true;
        self.pending = self.flight.wire.transport.needs_cancel(server).then(|| (plain.clone(), id));
        let limit = self.flight.wire.context.bounds.max_response_bytes;
        let refuse_with = is_legacy.then_some(&plain);
        let answered =
            self.flight.wire.post(Outgoing { method: METHOD, headers, body, id: Some(id), limit, refuse_with }).await;
        self.pending = None;
        // What has certainly not been executed was not sent.
        self.sent = !matches!(answered, Err(Fault::Unsent(_)) | Ok(Answered::Refused { .. }));
        if std::mem::take(&mut self.flight.wire.list_changed) {
            self.flight.peer.expire();
        }
        answered
    }

    /// Reads the result of the call.
    async fn answer(&mut self, result: Bytes, begun: Instant) -> Result<Answer, UpstreamError> {
        let (bytes, declared) = (result.len(), self.action.declared);
        // What is unescaped, and then joined, is no longer than the message.
        let copies = 2 * bytes as u64;
        let memory = &mut self.flight.wire.context.memory;
        memory.take(copies).await.map_err(|Exhausted| UpstreamError::Exhausted { sent: true })?;
        let (start, end) = (result.as_ptr().addr(), result.as_ptr().addr() + bytes);
        let read = self.flight.wire.off_thread(bytes, move || result::read(&result, declared)).await?;
        let (output, media) = match read.map_err(|reason| UpstreamError::Malformed(reason.to_owned()))? {
            ToolAnswer::Done { output, media } => (output, media),
            ToolAnswer::Failed(text) => return Err(UpstreamError::Tool { body: text }),
        };
        // A slice of the message takes no memory of its own.
        let own = |part: &Bytes| if (start..end).contains(&part.as_ptr().addr()) { 0 } else { part.len() as u64 };
        let kept = own(output.bytes()) + media.iter().map(own).sum::<u64>();
        self.flight.wire.context.memory.release(copies.saturating_sub(kept));
        Ok(Answer {
            output,
            media,
            pagination: None,
            status: 200,
            requests: self.flight.wire.requests,
            elapsed: begun.elapsed(),
        })
    }
}
