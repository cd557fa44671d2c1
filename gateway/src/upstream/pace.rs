//! Turns: what an upstream sends is taken in pieces, and other tasks run between them.
//!
//! hyper and the decompressors read on for as long as there are bytes, so an upstream that never pauses would keep a
//! serving thread to itself: other calls would wait, and so would the timer that ends this one.

use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Frame, SizeHint};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of one turn. The read that reaches them is the last one of the turn.
const TURN_BYTES: usize = 64 << 10;
/// Reads, or frames of a body, of one turn, however small they are.
const TURN_PIECES: usize = 64;

/// What is left of a turn.
#[derive(Debug)]
pub(super) struct Turn {
    bytes: usize,
    pieces: usize,
}

impl Turn {
    pub(super) fn new() -> Self {
        Self { bytes: TURN_BYTES, pieces: TURN_PIECES }
    }

    fn is_over(&self) -> bool {
        self.bytes == 0 || self.pieces == 0
    }

    fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.pieces = self.pieces.saturating_sub(1);
    }

    /// Counts a piece of work, and lets other tasks run if it was the last one of the turn.
    pub(super) async fn spend(&mut self, bytes: usize) {
        self.count(bytes);
        poll_fn(|cx| self.poll_begin(cx)).await;
    }

    /// Returns `Pending` once after each turn. The scheduler wakes the task after it has run the tasks that are ready,
    /// and has polled sockets and timers.
    fn poll_begin(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_over() {
            return Poll::Ready(());
        }
        *self = Self::new();
        // Hands the waker to the scheduler at its first poll, and needs no second one.
        pin!(tokio::task::yield_now()).poll(cx)
    }
}

/// A transport, or a body, that is read in turns.
#[derive(Debug)]
pub(super) struct Paced<T> {
    inner: T,
    turn: Turn,
}

impl<T> Paced<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, turn: Turn::new() }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Paced<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.turn.poll_begin(cx));
        let before = buf.filled().len();
        let read = Pin::new(&mut this.inner).poll_read(cx, buf);
        match read {
            // The task waits and other tasks run, which ends the turn too.
            Poll::Pending => this.turn = Turn::new(),
            Poll::Ready(_) => this.turn.count(buf.filled().len() - before),
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Paced<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl<T: Connection> Connection for Paced<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

impl<T: Body + Unpin> Body for Paced<T> {
    type Data = T::Data;
    type Error = T::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        ready!(this.turn.poll_begin(cx));
        let frame = Pin::new(&mut this.inner).poll_frame(cx);
        match &frame {
            Poll::Pending => this.turn = Turn::new(),
            Poll::Ready(frame) => {
                let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
                this.turn.count(data.map_or(0, bytes::Buf::remaining));
            }
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
#[path = "tests/pace.rs"]
mod tests;
