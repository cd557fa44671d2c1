//! Bodies of responses: complete answers, or streams, which may end before they are complete.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use futures_util::Stream;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::connections::Exchange;
use super::relayed::Reading;
use crate::memory::Held;

/// Why a stream ends before it is complete. The response is cut then, and no client takes it for complete: HTTP/1.1 closes
/// the connection without the last chunk, HTTP/2 resets the stream with INTERNAL_ERROR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Cut {
    /// The caller that opened the stream may no longer read it.
    #[error("access was withdrawn")]
    AccessWithdrawn,
    /// Events that the reader has not seen are no longer there.
    #[error("the reader fell too far behind")]
    Lagged,
}

/// Pieces of a body as they come. An error is the last item.
type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, Cut>> + Send>>;

/// A part of a stream that ends with the answer to a call.
pub(super) enum Part {
    /// An event before the answer.
    Event(Bytes),
    /// The event with the answer.
    Last(Held),
}

/// The body of a response.
pub(crate) struct Body {
    content: Content,
    /// The request that it answers: over when the body is written, or given up.
    exchange: Option<Exchange>,
}

enum Content {
    /// All of it; taken when it is sent.
    Full(Option<Held>),
    /// As it comes.
    Stream(Pieces),
    /// What a server sends during a call, and the answer.
    Relayed(Pin<Box<dyn Stream<Item = Part> + Send>>, Arc<Reading>),
}

impl Body {
    /// No bytes at all.
    pub(crate) fn empty() -> Self {
        Self { content: Content::Full(None), exchange: None }
    }

    /// Bytes as they come. The end of `stream` completes the body; an error cuts it.
    pub(crate) fn stream(stream: impl Stream<Item = Result<Bytes, Cut>> + Send + 'static) -> Self {
        Self { content: Content::Stream(Box::pin(stream)), exchange: None }
    }

    /// What a server sends during a call, and the answer. `reading` gets the request that the body answers.
    pub(super) fn relayed(parts: impl Stream<Item = Part> + Send + 'static, reading: Arc<Reading>) -> Self {
        Self { content: Content::Relayed(Box::pin(parts), reading), exchange: None }
    }

    /// The pieces of a stream.
    #[cfg(test)]
    pub(crate) fn events(&mut self) -> &mut Pieces {
        match &mut self.content {
            Content::Stream(stream) => stream,
            Content::Full(_) | Content::Relayed(..) => panic!("no stream"),
        }
    }

    /// Ties the request that the body answers to its end. From now on the body has to be read in time, and one with the answer to
    /// a call in progress when that is ready.
    pub(super) fn tie(&mut self, mut exchange: Exchange) {
        match &self.content {
            Content::Relayed(_, reading) => return reading.tie(exchange),
            Content::Full(Some(held)) => exchange.answered(held.chain.len()),
            Content::Full(None) | Content::Stream(_) => {}
        }
        self.exchange = Some(exchange);
    }
}

impl<T: Into<Held>> From<T> for Body {
    fn from(held: T) -> Self {
        let held: Held = held.into();
        Self { content: Content::Full(Some(held).filter(|held| !held.chain.is_empty())), exchange: None }
    }
}

/// A piece of a body. The transport hands all its buffers to one vectored write.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A complete answer.
    Answer(Written),
    /// A part of a stream.
    Event(Bytes),
}

/// An answer, with everything that is held until it is written: the transport drops it with the last byte.
#[derive(Debug)]
pub(crate) struct Written {
    held: Held,
    _exchange: Option<Exchange>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        match self {
            Self::Answer(written) => written.held.chain.remaining(),
            Self::Event(bytes) => bytes.remaining(),
        }
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Self::Answer(written) => written.held.chain.chunk(),
            Self::Event(bytes) => bytes.chunk(),
        }
    }

    fn chunks_vectored<'a>(&'a self, to: &mut [IoSlice<'a>]) -> usize {
        match self {
            Self::Answer(written) => written.held.chain.chunks_vectored(to),
            Self::Event(bytes) => bytes.chunks_vectored(to),
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Self::Answer(written) => written.held.chain.advance(count),
            Self::Event(bytes) => bytes.advance(count),
        }
    }
}

impl HttpBody for Body {
    type Data = Piece;
    type Error = Cut;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, Cut>>> {
        let Self { content, exchange } = &mut *self;
        match content {
            Content::Full(held) => Poll::Ready(held.take().map(|held| {
                let written = Written { held, _exchange: exchange.take() };
                Ok(Frame::data(Piece::Answer(written)))
            })),
            Content::Relayed(parts, reading) => parts.as_mut().poll_next(context).map(|part| {
                Some(Ok(Frame::data(match part? {
                    Part::Event(bytes) => Piece::Event(bytes),
                    Part::Last(held) => Piece::Answer(Written { held, _exchange: reading.take() }),
                })))
            }),
            Content::Stream(stream) => stream.as_mut().poll_next(context).map(|item| {
                let item = item?;
                if let Err(cut) = &item {
                    tracing::debug!(reason = %cut, "response stream cut");
                }
                Some(item.map(|bytes| Frame::data(Piece::Event(bytes))))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Full(held) => SizeHint::with_exact(held.as_ref().map_or(0, |held| held.chain.len() as u64)),
            Content::Stream(_) | Content::Relayed(..) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
