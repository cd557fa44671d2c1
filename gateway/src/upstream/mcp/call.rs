//! The call of a tool.

use std::time::Instant;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};

use super::flight::{Asked, Flight, NotReady};
use super::result::{self, ToolAnswer};
use super::wire::Answered;
use super::{Action, Server, request};
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
            let (server, session) = Box::pin(self.flight.in_session(server)).await.map_err(NotReady::into_error)?;
            Box::pin(self.flight.set_level(server, session.as_ref())).await;
            let answered = self.call_once(server, session.as_ref(), arguments).await;
            let ended = self.flight.wire.transport.ended().is_some();
            // If the program ended just before, nothing was sent.
            let is_unsent = attempt == 1 && ended && matches!(answered, Err(Fault::Unsent(_)));
            if !is_unsent {
                Box::pin(self.flight.check_session_of_caller(server, session.as_ref(), &answered)).await?;
                let of = (server, session.as_ref());
                if let Some(result) = self.flight.settle(of, answered, self.action.repeatable, attempt)? {
                    return self.answer(result, begun).await;
                }
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
        let asked = Asked {
            method: "tools/call",
            name: Some(&self.action.tool),
            params: &request::call(&self.action.tool, arguments),
            headers: &self.params,
            limit: self.flight.wire.context.bounds.max_response_bytes,
        };
        self.sent = true;
        self.flight.wire.is_call = true;
        let answered = self.flight.send(server, session, asked).await;
        self.flight.wire.is_call = false;
        // What has certainly not been executed was not sent.
        self.sent = !matches!(answered, Err(Fault::Unsent(_)) | Ok(Answered::Refused { .. }));
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
        let (output, media, meta) = match read.map_err(|reason| UpstreamError::Malformed(reason.to_owned()))? {
            ToolAnswer::Done { output, media, meta } => (output, media, meta),
            ToolAnswer::InputRequired(wanted) => return Err(UpstreamError::InputRequired(wanted)),
            ToolAnswer::Failed(text) => return Err(UpstreamError::Tool { body: text }),
        };
        // A slice of the message takes no memory of its own.
        let own = |part: &Bytes| if (start..end).contains(&part.as_ptr().addr()) { 0 } else { part.len() as u64 };
        let kept = own(output.bytes()) + media.iter().chain(&meta).map(own).sum::<u64>();
        self.flight.wire.context.memory.release(copies.saturating_sub(kept));
        Ok(Answer {
            output,
            media,
            meta,
            errors: None,
            pagination: None,
            cut: None,
            status: 200,
            requests: self.flight.wire.requests,
            elapsed: begun.elapsed(),
        })
    }
}
