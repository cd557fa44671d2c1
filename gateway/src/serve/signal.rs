//! Tells the task of one connection to end it. Costs a task one load of an atomic for each of its polls, while tokens that all
//! connections share would cost locks that all workers contend for.

use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Context;

use futures_util::task::AtomicWaker;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// Once no request is in flight.
    Gracefully,
    /// Now.
    Now,
}

/// What the task of a connection is told. At most one task listens.
#[derive(Debug, Default)]
pub(super) struct Signal {
    /// 0, or one more than the number of an [`End`].
    state: AtomicU8,
    waker: AtomicWaker,
}

impl Signal {
    /// Tells the task to end its connection. Cannot be taken back, and [`End::Now`] overrides [`End::Gracefully`].
    pub(super) fn send(&self, end: End) {
        let state = end as u8 + 1;
        if self.state.fetch_max(state, Ordering::AcqRel) < state {
            self.waker.wake();
        }
    }

    /// Returns what the task was told.
    pub(super) fn get(&self) -> Option<End> {
        match self.state.load(Ordering::Acquire) {
            0 => None,
            1 => Some(End::Gracefully),
            _ => Some(End::Now),
        }
    }

    /// Returns what the task was told, and wakes it when it is told something else. To be called in each poll of the task
    /// until it returns [`End::Now`].
    pub(super) fn poll(&self, cx: &Context<'_>) -> Option<End> {
        self.waker.register(cx.waker());
        self.get()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::Poll;

    use super::*;

    #[test]
    fn now_overrides_gracefully() {
        let signal = Signal::default();
        assert_eq!(signal.get(), None);
        for (sent, got) in [(End::Gracefully, End::Gracefully), (End::Now, End::Now), (End::Gracefully, End::Now)] {
            signal.send(sent);
            assert_eq!(signal.get(), Some(got));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_signal_wakes_the_task() {
        for end in [End::Gracefully, End::Now] {
            let signal = Arc::new(Signal::default());
            let waiting = {
                let signal = Arc::clone(&signal);
                tokio::spawn(poll_fn(move |cx| signal.poll(cx).map_or(Poll::Pending, Poll::Ready)))
            };
            tokio::task::yield_now().await;
            signal.send(end);
            assert_eq!(waiting.await.unwrap(), end);
        }
    }
}
