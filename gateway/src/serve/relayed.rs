//! The answer to a call whose caller wants progress or log messages: plain JSON if the server sends nothing before its result,
//! otherwise a stream of events that ends with the answer.
//!
//! The call is a task of its own, so that a caller that reads slowly does not hold it up.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tokio::task::JoinHandle;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::Body;
use super::auth::{Access, AuthContext};
use super::body::Part;
use super::connections::Exchange;
use super::stream::event;
use crate::mcp::{Era, RpcError, encode};
use crate::memory::{Chain, Held};
use crate::relay::Relay;

/// How often a silent stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What a call comes to: its answer, or why it was refused.
type Outcome = Result<Held, RpcError>;

/// The request that a stream answers. It is over when the answer is written, and from the moment at which the answer is ready, the
/// caller has to read in time.
#[derive(Debug, Default)]
pub(super) struct Reading(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    exchange: Option<Exchange>,
    /// Bytes of the answer, when it is ready.
    ready: Option<usize>,
}

impl Reading {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ties the request to the stream.
    pub(super) fn tie(&self, mut exchange: Exchange) {
        let mut state = self.lock();
        if let Some(bytes) = state.ready {
            exchange.answered(bytes);
        }
        state.exchange = Some(exchange);
    }

    /// Notes that an answer of this many bytes is ready.
    fn ready(&self, bytes: usize) {
        let mut state = self.lock();
        state.ready = Some(bytes);
        if let Some(exchange) = &mut state.exchange {
            exchange.answered(bytes);
        }
    }

    /// Returns the request, to be dropped when the answer is written.
    pub(super) fn take(&self) -> Option<Exchange> {
        self.lock().exchange.take()
    }
}

/// A call in progress. In the modern era, dropping it ends the call. In the legacy era, the call goes on.
pub(super) enum Running {
    Modern(AbortOnDropHandle<Outcome>),
    Legacy(JoinHandle<Outcome>),
}

impl Running {
    /// Starts a call. Its answer will be noted in `reading`, if that still exists.
    pub(super) fn start(
        call: impl Future<Output = Outcome> + Send + 'static,
        era: Era,
        reading: Weak<Reading>,
        detached: &TaskTracker,
    ) -> Self {
        let call = async move {
            let outcome = call.await;
            if let Some(reading) = reading.upgrade() {
                reading.ready(outcome.as_ref().map_or(0, |answer| answer.chain.len()));
            }
            outcome
        };
        match era {
            Era::Modern => Self::Modern(AbortOnDropHandle::new(tokio::spawn(call))),
            Era::Legacy => Self::Legacy(detached.spawn(call)),
        }
    }
}

impl Future for Running {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let polled = match self.get_mut() {
            Self::Modern(task) => Pin::new(task).poll(context),
            Self::Legacy(task) => Pin::new(task).poll(context),
        };
        // A call that panics fails alone.
        polled.map(|joined| joined.unwrap_or_else(|_| Err(RpcError::internal("the call failed"))))
    }
}

/// A stream of events that ends with the answer to a call.
pub(super) struct Events {
    pub(super) relay: Arc<Relay>,
    pub(super) running: Running,
    /// The request's id, as JSON.
    pub(super) id: Bytes,
    pub(super) era: Era,
    /// Whether the caller may still read.
    pub(super) auth: AuthContext,
}

/// What comes next.
enum Next {
    /// The call goes on, or its answer is to follow.
    Call(Events),
    Answer(Held),
}

/// Returns the body of a response that is such a stream.
pub(super) fn body(events: Events, reading: Arc<Reading>) -> Body {
    let parts = stream::unfold(Some(Next::Call(events)), |next| async {
        Some(match next? {
            Next::Call(events) => {
                let (part, next) = events.next().await;
                (part, next)
            }
            Next::Answer(answer) => (Part::Last(answer), None),
        })
    });
    Body::relayed(parts, reading)
}

impl Events {
    async fn next(mut self) -> (Part, Option<Next>) {
        let outcome = tokio::select! {
            biased;
            outcome = &mut self.running => Some(outcome),
            () = self.relay.due() => None,
            () = tokio::time::sleep(KEEP_ALIVE) => return (Part::Event(Bytes::from_static(b": keep-alive\n\n")), Some(Next::Call(self))),
        };
        // Nothing that waits comes after the answer.
        let mut messages = self.relay.take_out();
        if self.auth.access() != Access::Granted {
            messages.clear();
        }
        let events = messages.iter().fold(Vec::new(), |mut all, message| {
            all.extend_from_slice(&event(message));
            all
        });
        let Some(outcome) = outcome else { return (Part::Event(events.into()), Some(Next::Call(self))) };
        let answer = last(outcome.unwrap_or_else(|error| encode::error(Some(&self.id), &error, self.era).into()));
        if events.is_empty() {
            (Part::Last(answer), None)
        } else {
            (Part::Event(events.into()), Some(Next::Answer(answer)))
        }
    }
}

/// Returns the event with an answer.
fn last(answer: Held) -> Held {
    let Held { chain, held } = answer;
    let mut event = Chain::from(b"event: message\ndata: ".to_vec());
    event.append(chain);
    event.put(b"\n\n");
    Held { chain: event, held }
}
