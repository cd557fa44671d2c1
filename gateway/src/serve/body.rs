//! Bodies of answers: bytes that are there, or a stream of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::connections::Exchange;
use crate::memory::Held;

/// The body of an answer.
pub(crate) struct Body {
    content: Content,
    /// The request that it answers: over when the body is written, or given up.
    exchange: Option<Exchange>,
}

enum Content {
    /// All of it; taken when it is sent.
    Full(Option<Held>),
    /// As it comes.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl Body {
    /// No bytes at all.
    pub(crate) fn empty() -> Self {
        Self { content: Content::Full(None), exchange: None }
    }

    /// Bytes as they come.
    pub(crate) fn stream(stream: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self { content: Content::Stream(Box::pin(stream)), exchange: None }
    }

    /// The stream of events.
    #[cfg(test)]
    pub(crate) fn events(&mut self) -> &mut Pin<Box<dyn Stream<Item = Bytes> + Send>> {
        match &mut self.content {
            Content::Stream(stream) => stream,
            Content::Full(_) => panic!("no stream"),
        }
    }

    /// Ties the request that the body answers to its end. From now on the body has to be read in time.
    pub(super) fn tie(&mut self, mut exchange: Exchange) {
        if let Content::Full(Some(held)) = &self.content {
            exchange.answered(held.bytes.len());
        }
        self.exchange = Some(exchange);
    }
}

impl<T: Into<Held>> From<T> for Body {
    fn from(held: T) -> Self {
        let held: Held = held.into();
        Self { content: Content::Full(Some(held).filter(|held| !held.bytes.is_empty())), exchange: None }
    }
}

/// What is written, with all that is held until it has been: the transport drops it with the last byte.
struct Written {
    held: Held,
    _exchange: Option<Exchange>,
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        &self.held.bytes
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Self { content, exchange } = &mut *self;
        match content {
            Content::Full(held) => Poll::Ready(held.take().map(|held| {
                let written = Written { held, _exchange: exchange.take() };
                Ok(Frame::data(Bytes::from_owner(written)))
            })),
            Content::Stream(stream) => {
                stream.as_mut().poll_next(context).map(|item| item.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Full(held) => SizeHint::with_exact(held.as_ref().map_or(0, |held| held.bytes.len() as u64)),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}
