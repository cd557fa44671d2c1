use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use bytes::Bytes;
use tokio::io::AsyncReadExt as _;

use super::*;

/// Always has as many bytes as are asked for, up to a number at once; at first it waits, if told so.
struct Endless {
    at_once: usize,
    waits: bool,
}

impl AsyncRead for Endless {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.waits) {
            return Poll::Pending;
        }
        let bytes = vec![b' '; self.at_once.min(buf.remaining())];
        buf.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl Body for Endless {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; self.at_once])))))
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Reads, and bytes, until a reader pauses.
fn turn(reader: &mut Paced<Endless>, size: usize, cx: &mut Context<'_>) -> (usize, usize) {
    let (mut reads, mut bytes) = (0, 0);
    let mut buffer = vec![0; size];
    loop {
        let mut buf = ReadBuf::new(&mut buffer);
        match Pin::new(&mut *reader).poll_read(cx, &mut buf) {
            Poll::Pending => return (reads, bytes),
            Poll::Ready(read) => {
                read.unwrap();
                reads += 1;
                bytes += buf.filled().len();
            }
        }
    }
}

#[test]
fn a_transport_that_always_has_bytes_pauses_after_each_turn() {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    for (at_once, size, expected) in [
        (1, 8 << 10, (TURN_PIECES, TURN_PIECES)),
        (4 << 10, 8 << 10, (16, TURN_BYTES)),
        (usize::MAX, 40 << 10, (2, 80 << 10)),
        (usize::MAX, 64 << 10, (1, TURN_BYTES)),
    ] {
        let mut reader = Paced::new(Endless { at_once, waits: false });
        let before = wakes.0.load(Ordering::SeqCst);
        for _ in 0..3 {
            assert_eq!(turn(&mut reader, size, &mut cx), expected, "{at_once}");
        }
        // Each pause wakes the task; otherwise the read would never resume.
        assert_eq!(wakes.0.load(Ordering::SeqCst) - before, 3, "{at_once}");
    }
}

#[test]
fn a_body_that_always_has_frames_pauses_after_each_turn() {
    let mut cx = Context::from_waker(Waker::noop());
    for (at_once, frames) in [(0, TURN_PIECES), (1, TURN_PIECES), (16 << 10, 4), (1 << 20, 1)] {
        let mut body = Paced::new(Endless { at_once, waits: false });
        for _ in 0..3 {
            let mut seen = 0;
            while Pin::new(&mut body).poll_frame(&mut cx).is_ready() {
                seen += 1;
            }
            assert_eq!(seen, frames, "{at_once}");
        }
    }
}

#[test]
fn a_wait_for_bytes_begins_a_turn() {
    let mut cx = Context::from_waker(Waker::noop());
    let mut reader = Paced::new(Endless { at_once: 1, waits: false });
    let mut buffer = [0; 8];
    for _ in 1..TURN_PIECES {
        assert!(Pin::new(&mut reader).poll_read(&mut cx, &mut ReadBuf::new(&mut buffer)).is_ready());
    }
    reader.inner.waits = true;
    assert_eq!(turn(&mut reader, 8, &mut cx), (0, 0));
    assert_eq!(turn(&mut reader, 8, &mut cx), (TURN_PIECES, TURN_PIECES));
}

#[tokio::test]
async fn a_paused_read_resumes_and_other_tasks_run() {
    let others = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&others);
    let other = tokio::spawn(async move {
        loop {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    let mut all = Vec::new();
    Paced::new(Endless { at_once: 4 << 10, waits: false }).take(1 << 20).read_to_end(&mut all).await.unwrap();
    assert_eq!(all.len(), 1 << 20);
    // One task, one thread: it runs in the pauses only.
    assert!(others.load(Ordering::SeqCst) >= (1 << 20) / TURN_BYTES - 1, "{others:?}");
    other.abort();
}

#[tokio::test]
async fn work_is_done_in_turns_too() {
    let mut turn = Turn::new();
    let (mut cx, mut pauses) = (Context::from_waker(Waker::noop()), 0);
    for _ in 0..64 {
        let mut spent = pin!(turn.spend(8 << 10));
        while spent.as_mut().poll(&mut cx).is_pending() {
            pauses += 1;
        }
    }
    assert_eq!(pauses, 64 * (8 << 10) / TURN_BYTES);
}
