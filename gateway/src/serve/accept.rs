//! The connection loop: how many connections, how slow they may be, how they end.

use std::convert::Infallible;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connections::{Bounds, Closed, Connection, Connections};
use super::incoming::{RequestBody, Unread};
use super::linger::Lingering;
use super::signal::End;
use super::{Body, Tls};
use crate::descriptors;
use crate::options::GatewayLimits;
use crate::workers::Workers;

/// The first bytes of an HTTP/2 connection (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Concurrent requests on one HTTP/2 connection.
const STREAMS: u32 = 256;
/// Maximum bytes of a request's headers.
const HEADER_BYTES: u32 = 32 << 10;
/// Bytes that hyper buffers for an HTTP/1 connection, headers included.
const BUFFER_BYTES: usize = 64 << 10;
/// Flow-control windows of HTTP/2 in bytes: of one request's body, and of a whole connection.
const WINDOWS: (u32, u32) = (64 << 10, 256 << 10);
/// Interval of keep-alive pings to HTTP/2 peers.
const PING: Duration = Duration::from_secs(20);
/// Concurrent connections to the admin port.
const ADMIN_CONNECTIONS: usize = 64;
/// How long connections may take to close after the drain has timed out.
const ENDING: Duration = Duration::from_secs(1);
/// File descriptors that are reserved for the admin port.
const ADMIN_RESERVE: usize = 8;

/// What happens to connections that are refused or closed early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// One connection was refused.
    Refused,
    /// This many connections were closed.
    Closed(Closed, usize),
}

/// Bounds of one listener.
#[derive(Debug, Clone)]
pub(crate) struct Listening {
    bounds: Bounds,
    header_timeout: Duration,
    drain: Duration,
    reserve: usize,
    tls: Option<Arc<Tls>>,
}

impl Listening {
    /// The bounds of the serving port.
    pub(crate) fn serving(limits: &GatewayLimits, connections: usize, tls: Option<Arc<Tls>>) -> Self {
        let &GatewayLimits { header_timeout, answer_timeout, answer_rate, drain, .. } = limits;
        let bounds = Bounds { connections, idle: header_timeout, answer: answer_timeout, rate: answer_rate };
        Self { bounds, header_timeout, drain, reserve: 0, tls }
    }

    /// The bounds of the admin port: few connections, and file descriptors of its own.
    pub(crate) fn admin(limits: &GatewayLimits) -> Self {
        Self { reserve: ADMIN_RESERVE, ..Self::serving(limits, ADMIN_CONNECTIONS, None) }
    }
}

/// Accepts connections until `shutdown`, and gives each to one of `workers`. Then lets requests in flight finish, and drops
/// the connections that are still open after `drain`.
pub(crate) async fn run<F, A>(
    listener: TcpListener,
    shutdown: &CancellationToken,
    listening: Listening,
    workers: &Workers,
    note: impl Fn(Event),
    answer: F,
) where
    F: Fn(Request<RequestBody>, SocketAddr) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let Listening { bounds, header_timeout, drain, reserve, tls } = listening;
    let open = Connections::new(bounds);
    let tasks = TaskTracker::new();
    let mut failing = Failing::default();
    let mut spare = Spare::new(reserve);
    let mut sweep = tokio::time::interval(bounds.tick());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = sweep.tick() => {
                open.sweep(|why| note(Event::Closed(why, 1)));
                spare.refill();
                continue;
            }
            () = shutdown.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if descriptors::are_exhausted(&error) {
                    if spare.give_up_one() {
                        continue;
                    }
                    note(Event::Closed(Closed::Evicted, open.make_room()));
                }
                let pause = failing.note(&error, Instant::now());
                tokio::select! {
                    () = tokio::time::sleep(pause) => continue,
                    () = shutdown.cancelled() => break,
                }
            }
        };
        failing.over();
        let assigned = workers.assign();
        let (evicted, place) = open.admit(peer.ip(), assigned.load());
        note(Event::Closed(Closed::Evicted, evicted));
        let Ok(place) = place else {
            note(Event::Refused);
            continue;
        };
        // It is registered with the worker's runtime there.
        let stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%peer, "connection cannot be handed to its worker: {error}");
                continue;
            }
        };
        let (answer, tls) = (answer.clone(), tls.clone());
        let runtime = assigned.runtime().clone();
        let serving = async move {
            let _assigned = assigned;
            match TcpStream::from_std(stream) {
                Ok(stream) => accepted_one(stream, peer, &place.connection, (header_timeout, tls), answer).await,
                Err(error) => tracing::debug!(%peer, "connection cannot be served: {error}"),
            }
        };
        tasks.spawn_on(serving, &runtime);
    }
    drop(listener);
    tasks.close();
    open.end_all(End::Gracefully);
    let watch = async {
        loop {
            sweep.tick().await;
            open.sweep(|why| note(Event::Closed(why, 1)));
        }
    };
    let ended = async {
        tokio::select! {
            () = tasks.wait() => {}
            () = watch => {}
        }
    };
    if tokio::time::timeout(drain, ended).await.is_err() {
        tracing::warn!(open = open.len(), "drain timed out with open connections");
        open.end_all(End::Now);
        // A worker that is held up ends none.
        if tokio::time::timeout(ENDING, tasks.wait()).await.is_err() {
            tracing::warn!(open = open.len(), "connections could not be closed");
        }
    }
}

/// File descriptors in reserve, for when the process has no others.
#[derive(Debug)]
struct Spare {
    files: Vec<File>,
    wanted: usize,
}

impl Spare {
    fn new(wanted: usize) -> Self {
        let mut spare = Self { files: Vec::new(), wanted };
        spare.refill();
        spare
    }

    fn refill(&mut self) {
        while self.files.len() < self.wanted {
            match File::open("/dev/null") {
                Ok(file) => self.files.push(file),
                Err(_) => return,
            }
        }
    }

    /// Releases one. Returns false if there is none.
    fn give_up_one(&mut self) -> bool {
        self.files.pop().is_some()
    }
}

/// Backoff and log sampling for errors of `accept`.
#[derive(Debug, Default)]
struct Failing {
    pause: Duration,
    logged: Option<Instant>,
    since: u64,
}

impl Failing {
    const SHORTEST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_millis(100);
    const LOG_EVERY: Duration = Duration::from_secs(10);

    /// Returns how long to wait before the next attempt. Errors are logged once in ten seconds, with their number.
    fn note(&mut self, error: &io::Error, now: Instant) -> Duration {
        self.pause = (self.pause * 2).clamp(Self::SHORTEST, Self::LONGEST);
        self.since += 1;
        if self.is_due_in_log(now) {
            tracing::warn!(errors = self.since, "connections are not accepted: {error}");
            self.since = 0;
        }
        self.pause
    }

    fn is_due_in_log(&mut self, now: Instant) -> bool {
        let due = self.logged.is_none_or(|logged| now.duration_since(logged) >= Self::LOG_EVERY);
        if due {
            self.logged = Some(now);
        }
        due
    }

    fn over(&mut self) {
        self.pause = Duration::ZERO;
    }
}

/// The version of HTTP that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoken {
    Http1,
    Http2,
}

impl Spoken {
    /// Returns the version by the first bytes of a connection, or `None` if they are too few to tell. Bytes that hyper reads to
    /// tell would stay in a buffer of their own, and double the one for the headers.
    fn of(first: &[u8]) -> Option<Self> {
        if first == PREFACE {
            return Some(Self::Http2);
        }
        (!PREFACE.starts_with(first)).then_some(Self::Http1)
    }
}

async fn accepted_one<F, A>(
    stream: TcpStream,
    peer: SocketAddr,
    connection: &Arc<Connection>,
    (header_timeout, tls): (Duration, Option<Arc<Tls>>),
    answer: F,
) where
    F: Fn(Request<RequestBody>, SocketAddr) -> A + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    // Answers are small, so do not delay them in the hope of more.
    if let Err(e) = stream.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY not set: {e}");
    }
    // hyper waits without a limit for bytes that tell HTTP/1 from HTTP/2, and for the first headers.
    let mut silent = pin!(tokio::time::sleep(header_timeout));
    let Some(tls) = tls else {
        let mut first = [0; PREFACE.len()];
        let mut first = ReadBuf::new(&mut first);
        let peeked = poll_fn(|cx| match connection.signal.poll(cx) {
            None if silent.as_mut().poll(cx).is_pending() => stream.poll_peek(cx, &mut first).map_ok(Some),
            _ => Poll::Ready(Ok(None)),
        });
        return match peeked.await {
            Ok(Some(_)) => {
                serve(stream, Spoken::of(first.filled()), peer, connection, silent, answer).await;
            }
            Ok(None) => {}
            Err(e) => tracing::debug!(%peer, "connection ended: {e}"),
        };
    };
    let accepted = {
        // In a box, which is not kept while the connection is served.
        let mut accepting = Box::pin(tls.accept(stream));
        poll_fn(|cx| match connection.signal.poll(cx) {
            Some(_) => Poll::Ready(None),
            None => accepting.as_mut().poll(cx).map(Some),
        })
        .await
    };
    match accepted {
        Some(Ok(stream)) => {
            silent.as_mut().reset(tokio::time::Instant::now() + header_timeout);
            serve(stream, None, peer, connection, silent, answer).await;
        }
        Some(Err(e)) => tracing::debug!(%peer, "no TLS: {e}"),
        None => {}
    }
}

async fn serve<I, F, A>(
    stream: I,
    spoken: Option<Spoken>,
    peer: SocketAddr,
    connection: &Arc<Connection>,
    mut silent: Pin<&mut Sleep>,
    answer: F,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<RequestBody>, SocketAddr) -> A + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let unread = Unread::default();
    let stream = Lingering::new(stream, unread.clone());
    let service = {
        let connection = Arc::clone(connection);
        service_fn(move |request: Request<Incoming>| {
            let exchange = connection.begin();
            let unread = (request.version() < Version::HTTP_2).then(|| unread.clone());
            let answering = answer(request.map(|body| RequestBody::new(body, unread.as_ref())), peer);
            // An async block would have room for the future twice: before it is awaited, and while.
            answering.map(move |mut response| {
                if unread.is_some_and(|unread| unread.is_unread()) {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                response.body_mut().tie(exchange);
                Ok::<_, Infallible>(response)
            })
        })
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // `Connections::sweep` bounds the time of a request's headers, like that of an idle connection, without a timer for each
    // request.
    builder.http1().header_read_timeout(None).max_buf_size(BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .max_header_list_size(HEADER_BYTES);
    let builder = match spoken {
        Some(Spoken::Http1) => builder.http1_only(),
        Some(Spoken::Http2) => builder.http2_only(),
        None => builder,
    };
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut is_ending = false;
    let ended = poll_fn(|cx| {
        match connection.signal.poll(cx) {
            None => {}
            Some(End::Now) => return Poll::Ready(Ok(())),
            Some(End::Gracefully) if !connection.has_begun() => return Poll::Ready(Ok(())),
            Some(End::Gracefully) if is_ending => {}
            Some(End::Gracefully) => {
                is_ending = true;
                serving.as_mut().graceful_shutdown();
            }
        }
        if let ended @ Poll::Ready(_) = serving.as_mut().poll(cx) {
            return ended;
        }
        if connection.has_begun() { Poll::Pending } else { silent.as_mut().poll(cx).map(Ok) }
    });
    if let Err(e) = ended.await {
        tracing::debug!(%peer, "connection ended: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_logged_once_in_a_while_and_pauses_grow() {
        let error = io::Error::from_raw_os_error(24);
        assert!(descriptors::are_exhausted(&error));
        let start = Instant::now();
        let mut failing = Failing::default();
        let pauses: Vec<u128> = (0..7).map(|_| failing.note(&error, start).as_millis()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 100, 100]);
        // The first was logged, and six are counted until the next line.
        assert_eq!(failing.since, 6);
        failing.over();
        assert_eq!(failing.note(&error, start + Duration::from_secs(9)), Failing::SHORTEST);
        assert_eq!(failing.since, 7);
        failing.note(&error, start + Duration::from_secs(10));
        assert_eq!(failing.since, 0);
    }

    #[test]
    fn the_first_bytes_tell_the_version() {
        for (first, version) in [
            (&b""[..], None),
            (b"P", None),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", None),
            (PREFACE, Some(Spoken::Http2)),
            (b"POST /mcp", Some(Spoken::Http1)),
            (b"PROPFIND / HTTP/1.1\r\n", Some(Spoken::Http1)),
            (b"PRI * HTTP/1.1\r\nHost: a\r\n", Some(Spoken::Http1)),
            (b"\0", Some(Spoken::Http1)),
        ] {
            assert_eq!(Spoken::of(first), version, "{}", first.escape_ascii());
        }
    }

    #[test]
    fn the_reserve_is_released_one_by_one_and_refilled() {
        let mut spare = Spare::new(2);
        assert!(spare.give_up_one() && spare.give_up_one() && !spare.give_up_one());
        spare.refill();
        assert_eq!(spare.files.len(), 2);
        assert!(!Spare::new(0).give_up_one());
    }
}
