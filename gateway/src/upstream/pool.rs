//! HTTP/1.1 connections to upstreams that a worker keeps for itself.
//!
//! A connection has no task of its own: the call that uses it also reads and writes it, so that nothing is handed from task to task.
//! Between calls a connection lies in the pool. It is looked at again before its next use, and once in a while: an upstream may have
//! closed it.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::uri::Authority;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::ext::on_informational;

use super::connect::Stream;
use super::transport::{MAX_HEAD, MAX_HEADERS, MAX_INFORMATIONAL};

/// How long a connection may lie unused.
pub(super) const MAX_IDLE: Duration = Duration::from_secs(90);
/// How often unused connections are looked at.
const SWEEP: Duration = Duration::from_secs(10);

/// The unused connections of one worker.
#[derive(Debug)]
pub(super) struct Pool {
    idle: Mutex<Idle>,
    /// Unused connections to one authority.
    per_authority: usize,
    /// Unused connections to all authorities.
    total: usize,
    is_swept: AtomicBool,
}

#[derive(Debug, Default)]
struct Idle {
    /// By authority, the longest unused first. Authorities without connections are removed once in a while.
    connections: HashMap<Authority, VecDeque<(Connection, Instant)>>,
    count: usize,
}

impl Idle {
    /// Adds a connection, and closes the longest unused one of those that are too many: those to its authority, or, if there are
    /// too many in total, those to the authority that has the most.
    fn put(&mut self, authority: Authority, connection: Connection, per_authority: usize, total: usize) {
        let connections = self.connections.entry(authority).or_default();
        connections.push_back((connection, Instant::now()));
        self.count += 1;
        let closed = if connections.len() > per_authority {
            connections.pop_front()
        } else if self.count > total {
            self.connections.values_mut().max_by_key(|connections| connections.len()).and_then(VecDeque::pop_front)
        } else {
            None
        };
        self.count -= usize::from(closed.is_some());
    }
}

impl Pool {
    /// Creates an empty pool that keeps this many connections to each authority, and in total.
    pub(super) fn new(per_authority: usize, total: usize) -> Arc<Self> {
        Arc::new(Self { idle: Mutex::default(), per_authority, total, is_swept: AtomicBool::new(false) })
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the connection that was used last, of those that are still open.
    pub(super) fn take(&self, authority: &Authority) -> Option<Connection> {
        let mut idle = self.idle();
        let Idle { connections, count } = &mut *idle;
        let connections = connections.get_mut(authority)?;
        while let Some((mut connection, since)) = connections.pop_back() {
            *count -= 1;
            if since.elapsed() < MAX_IDLE && connection.is_open() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection for the next call.
    fn put(self: &Arc<Self>, authority: Authority, connection: Connection) {
        self.idle().put(authority, connection, self.per_authority, self.total);
        if !self.is_swept.swap(true, Ordering::Relaxed) {
            tokio::spawn(sweep(Sweeping(Arc::downgrade(self))));
        }
    }

    /// Closes connections that are too old or no longer open. Returns whether others are left.
    fn close_unusable(&self) -> bool {
        let mut idle = self.idle();
        let Idle { connections, count } = &mut *idle;
        *count = 0;
        connections.retain(|_, connections| {
            connections.retain_mut(|(connection, since)| since.elapsed() < MAX_IDLE && connection.is_open());
            *count += connections.len();
            !connections.is_empty()
        });
        *count > 0
    }
}

/// The task that looks at unused connections, until there are none.
struct Sweeping(Weak<Pool>);

impl Drop for Sweeping {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.is_swept.store(false, Ordering::Relaxed);
        }
    }
}

async fn sweep(sweeping: Sweeping) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let has_more = sweeping.0.upgrade().is_some_and(|pool| pool.close_unusable());
        if !has_more {
            return;
        }
    }
}

/// Informational responses (1xx) to the current request. hyper reads on however many there are.
#[derive(Debug, Default)]
struct Informational(AtomicU32);

/// A connection to an upstream.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<http1::Connection<Stream, Full<Bytes>>>>,
    has_ended: bool,
    informational: Arc<Informational>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

/// Why a connection gave no response.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// Nothing was sent. Holds the request, if it can be sent on another connection.
    Unsent(hyper::Error, Option<Box<Request<Full<Bytes>>>>),
    /// The connection failed after a part of the request may have been sent.
    Broken(hyper::Error),
    /// More informational responses than are waited for.
    Informational,
}

impl Connection {
    /// Begins to speak HTTP/1.1.
    ///
    /// # Errors
    /// hyper's.
    pub(super) async fn new(stream: Stream) -> Result<Self, hyper::Error> {
        let mut builder = http1::Builder::new();
        let (sender, driver) = builder.max_headers(MAX_HEADERS).max_buf_size(MAX_HEAD).handshake(stream).await?;
        Ok(Self { sender, driver: Box::pin(driver), has_ended: false, informational: Arc::default() })
    }

    /// Reads and writes what can be read and written now. A failure also reaches the request that is in flight.
    fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.has_ended {
            self.has_ended = self.driver.as_mut().poll(cx).is_ready();
        }
    }

    /// Returns whether another request can be sent.
    fn is_open(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        !self.has_ended && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of the response.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub(super) async fn send(&mut self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Unanswered> {
        let informational = Arc::clone(&self.informational);
        informational.0.store(0, Ordering::Relaxed);
        on_informational(&mut request, move |_| _ = informational.0.fetch_add(1, Ordering::Relaxed));
        let mut sending = pin!(self.sender.try_send_request(request));
        poll_fn(|cx| {
            if !self.has_ended {
                self.has_ended = self.driver.as_mut().poll(cx).is_ready();
            }
            if self.informational.0.load(Ordering::Relaxed) > MAX_INFORMATIONAL {
                return Poll::Ready(Err(Unanswered::Informational));
            }
            sending.as_mut().poll(cx).map_err(|mut failed| match failed.take_message() {
                Some(request) => Unanswered::Unsent(failed.into_error(), Some(Box::new(request))),
                None => {
                    let error = failed.into_error();
                    if error.is_canceled() { Unanswered::Unsent(error, None) } else { Unanswered::Broken(error) }
                }
            })
        })
        .await
    }
}

/// The body of a response, which reads from its connection. The connection goes back to the pool at the end of the body; a body
/// that is dropped before closes it.
pub(super) struct PooledBody {
    incoming: Incoming,
    connection: Option<(Connection, Arc<Pool>, Authority)>,
}

impl PooledBody {
    pub(super) fn new(incoming: Incoming, connection: Connection, pool: &Arc<Pool>, authority: &Authority) -> Self {
        Self { incoming, connection: Some((connection, Arc::clone(pool), authority.clone())) }
    }

    fn give_back(&mut self, cx: &mut Context<'_>) {
        if let Some((mut connection, pool, authority)) = self.connection.take() {
            connection.drive(cx);
            if !connection.has_ended && matches!(connection.sender.poll_ready(cx), Poll::Ready(Ok(()))) {
                pool.put(authority, connection);
            }
        }
    }
}

impl Body for PooledBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let mut polled = Pin::new(&mut this.incoming).poll_frame(cx);
        // Asking for a frame has let the connection read one.
        if let (Poll::Pending, Some((connection, ..))) = (&polled, &mut this.connection) {
            connection.drive(cx);
            polled = Pin::new(&mut this.incoming).poll_frame(cx);
        }
        if matches!(polled, Poll::Ready(None)) {
            this.give_back(cx);
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

#[cfg(test)]
#[path = "tests/pool.rs"]
mod tests;
