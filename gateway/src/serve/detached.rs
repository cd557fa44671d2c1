//! A future that runs to completion even if it is dropped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// Polled in place while its connection is open. Dropped before its end, it continues as a task of its own: in the legacy era,
/// a closed connection cancels nothing.
pub(crate) struct Detached<F: Future<Output: Send> + Send + 'static> {
    future: Option<Pin<Box<F>>>,
    tracker: TaskTracker,
}

impl<F: Future<Output: Send> + Send + 'static> Detached<F> {
    pub(crate) fn new(future: F, tracker: &TaskTracker) -> Self {
        Self { future: Some(Box::pin(future)), tracker: tracker.clone() }
    }
}

impl<F: Future<Output: Send> + Send + 'static> Future for Detached<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let polled = future.as_mut().poll(context);
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Detached<F> {
    fn drop(&mut self) {
        // Without a runtime, the process is ending.
        if let (Some(future), Ok(handle)) = (self.future.take(), Handle::try_current()) {
            drop(self.tracker.spawn_on(future, &handle));
        }
    }
}
