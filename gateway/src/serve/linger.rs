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
/// Pieces that are read before other connections have their turn.
const PIECES: usize = 8;

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
        for _ in 0..PIECES {
            if ending.time.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut read = ReadBuf::new(&mut piece);
            let ended = ready!(Pin::new(&mut *inner).poll_read(cx, &mut read)).is_err();
            let filled = read.filled().len();
            ending.left = ending.left.saturating_sub(filled);
            if ended || filled == 0 || ending.left == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    fn lingering(buffered: usize, is_unread: bool) -> (tokio::io::DuplexStream, Lingering<tokio::io::DuplexStream>) {
        let (client, server) = tokio::io::duplex(buffered);
        let unread = Unread::default();
        unread.set(is_unread);
        (client, Lingering::new(server, unread))
    }

    #[tokio::test]
    async fn a_client_that_sends_on_is_read_in_turns_and_within_bounds() {
        const ALL: usize = 8 << 20;
        let (mut client, mut server) = lingering(ALL, true);
        client.write_all(&vec![0; ALL]).await.unwrap();
        let mut shutdown = std::pin::pin!(server.shutdown());
        assert!(poll!(shutdown.as_mut()).is_pending());
        let turn = PIECES * (8 << 10);
        assert_eq!(client.write(&vec![0; ALL]).await.unwrap(), turn, "there is room for what was read");
        let mut turns = 1;
        while poll!(shutdown.as_mut()).is_pending() {
            turns += 1;
            tokio::task::yield_now().await;
        }
        assert!(turns < MOST / turn, "{turns}");
    }

    #[tokio::test]
    async fn only_a_client_that_may_be_sending_is_waited_for() {
        let (client, mut server) = lingering(1, true);
        drop(client);
        assert!(poll!(std::pin::pin!(server.shutdown())).is_ready(), "it has closed its side");
        let (_client, mut server) = lingering(1, false);
        assert!(poll!(std::pin::pin!(server.shutdown())).is_ready(), "its request was read");
        let (_client, mut server) = lingering(1, true);
        let began = std::time::Instant::now();
        server.shutdown().await.unwrap();
        assert!(began.elapsed() >= LONGEST);
    }
}
