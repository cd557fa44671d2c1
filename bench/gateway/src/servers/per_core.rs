//! A bare proxy with one single-threaded runtime per core: a call stays on the thread that accepted its connection.
//!
//! hyper on both sides, a pool of upstream connections per worker, and no JSON-RPC, no filter, no metrics. The answer's
//! body is forwarded frame by frame.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{LocalSet, spawn_local};

/// Prints its port on one line. Accepts connections on this thread and hands them to the workers in turn.
pub(crate) fn serve(upstream: u16) -> Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let workers: Vec<_> = (0..std::thread::available_parallelism()?.get())
        .map(|_| {
            let (sender, connections) = unbounded_channel();
            std::thread::spawn(move || work(connections, upstream));
            sender
        })
        .collect();
    println!("{}", listener.local_addr()?.port());
    for (turn, stream) in listener.incoming().enumerate() {
        workers[turn % workers.len()].send(stream?).context("a worker ended")?;
    }
    Ok(())
}

/// Serves one worker's connections until the process ends.
fn work(mut connections: UnboundedReceiver<std::net::TcpStream>, upstream: u16) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async move {
        let pool = Rc::new(Pool::new(upstream)?);
        while let Some(stream) = connections.recv().await {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let stream = TokioIo::new(TcpStream::from_std(stream)?);
            let pool = Rc::clone(&pool);
            let service = service_fn(move |request| Rc::clone(&pool).forward(request));
            spawn_local(async move {
                // A client that goes away is no failure of the proxy.
                let _ = auto::Builder::new(Local).serve_connection(stream, service).await;
            });
        }
        Ok(())
    })
}

/// Runs the tasks of HTTP/2 connections on the thread that spawns them.
#[derive(Clone)]
pub(crate) struct Local;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, task: F) {
        spawn_local(task);
    }
}

/// One worker's connections to the upstream.
struct Pool {
    port: u16,
    host: HeaderValue,
    idle: RefCell<Vec<SendRequest<Full<Bytes>>>>,
}

impl Pool {
    fn new(port: u16) -> Result<Self> {
        Ok(Self { port, host: HeaderValue::try_from(format!("127.0.0.1:{port}"))?, idle: RefCell::default() })
    }

    async fn forward(self: Rc<Self>, request: Request<Incoming>) -> Result<Response<Forwarded>> {
        let mut sender = self.connection().await?;
        let (head, body) = request.into_parts();
        let body = if head.method == Method::GET { Bytes::new() } else { body.collect().await?.to_bytes() };
        let mut forwarded = Request::new(Full::new(body));
        *forwarded.method_mut() = head.method;
        *forwarded.uri_mut() = head.uri.path().parse()?;
        forwarded.headers_mut().insert(HOST, self.host.clone());
        let (from, body) = sender.send_request(forwarded).await?.into_parts();
        let mut response = Response::new(Forwarded { body, sender: Some(sender), pool: self });
        *response.status_mut() = from.status;
        if let Some(kind) = from.headers.get(CONTENT_TYPE) {
            response.headers_mut().insert(CONTENT_TYPE, kind.clone());
        }
        Ok(response)
    }

    /// Returns an idle connection that is still open, or a new one.
    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>> {
        loop {
            let Some(mut sender) = self.idle.borrow_mut().pop() else { break };
            if sender.ready().await.is_ok() {
                return Ok(sender);
            }
        }
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        spawn_local(connection);
        Ok(sender)
    }
}

/// The upstream's body. Its connection returns to the pool when the body has ended.
struct Forwarded {
    body: Incoming,
    sender: Option<SendRequest<Full<Bytes>>>,
    pool: Rc<Pool>,
}

impl Body for Forwarded {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if (frame.is_none() || self.body.is_end_stream())
            && let Some(sender) = self.sender.take()
        {
            self.pool.idle.borrow_mut().push(sender);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
