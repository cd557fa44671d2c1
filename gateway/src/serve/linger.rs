//! Ends a connection whose client may still be sending, such that the client can read the answer first.
//!
//! A socket that is closed with bytes left to read resets its connection, and a client that learns of the reset first drops an
//! answer that it has already received (RFC 9112, 9.6).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::incoming::Unread;

/// How long a client may take to close its side.
const LONGEST: Duration = Duration::from_secs(1);
/// Bytes that are read and dropped in that time.
const MOST: usize = 4 << 20;

/// A connection that reads on for a moment after its last answer, if that answer came before the end of its request.
pub(super) struct Lingering<T> {
    inner: T,
    unread: Unread,
    ending: Option<Ending>,
}

/// What is left to do after the sending side is closed.
struct Ending {
    time: Pin<Box<Sleep>>,
    left: usize,
}

impl<T> Lingering<T> {
    pub(super) fn new(inner: T, unread: Unread) -> Self {
        Self { inner, unread, ending: None }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Lingering<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, buf)
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

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { inner, unread, ending } = self.get_mut();
        let ending = match ending {
            Some(ending) => ending,
            None => {
                ready!(Pin::new(&mut *inner).poll_shutdown(cx))?;
                if !unread.is_unread() {
                    return Poll::Ready(Ok(()));
                }
                ending.insert(Ending { time: Box::pin(tokio::time::sleep(LONGEST)), left: MOST })
            }
        };
        let mut piece = [0; 8 << 10];
        while ending.time.as_mut().poll(cx).is_pending() {
            let mut read = ReadBuf::new(&mut piece);
            let ended = ready!(Pin::new(&mut *inner).poll_read(cx, &mut read)).is_err();
            let filled = read.filled().len();
            ending.left = ending.left.saturating_sub(filled);
            if ended || filled == 0 || ending.left == 0 {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}
