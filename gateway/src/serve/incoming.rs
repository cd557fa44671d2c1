//! The body of a request, which knows whether it has been read to its end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// Whether a connection of HTTP/1.1 has a part of the current request's body left to read. Such a connection cannot be used for
/// another request (RFC 9112, 9.3), which the answer has to say: a client would otherwise send the next request to where it is not
/// read.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread(Arc<AtomicBool>);

impl Unread {
    pub(super) fn set(&self, is_unread: bool) {
        self.0.store(is_unread, Ordering::Relaxed);
    }

    /// Returns whether there is a part left.
    pub(super) fn is_unread(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The body of a request.
#[derive(Debug)]
pub(crate) struct RequestBody {
    incoming: Incoming,
    /// None in HTTP/2, where a stream ends without its connection.
    unread: Option<Unread>,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, unread: Option<&Unread>) -> Self {
        if let Some(unread) = unread {
            unread.set(!incoming.is_end_stream());
        }
        Self { incoming, unread: unread.cloned() }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { incoming, unread } = self.get_mut();
        let polled = Pin::new(incoming).poll_frame(cx);
        if let (Poll::Ready(None), Some(unread)) = (&polled, unread) {
            unread.set(false);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
