//! The upstream: prepared answers, and as little work per call as hyper takes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::Interval;

use super::Tools;
use super::mcp::{HELD_SECONDS, Reply};
use crate::payload::payload;

/// Prints its port on one line. Answers `GET /items/KB` with a JSON list of that many kB, accepts spans, and is an MCP server at
/// `/mcp`.
pub(crate) fn serve(sizes: &[usize]) -> Result<()> {
    let answers = Rc::new(Answers {
        items: sizes.iter().map(|&kb| (format!("/items/{kb}"), payload(kb))).collect(),
        tools: Tools::new(sizes)?,
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async move {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let answers = Rc::clone(&answers);
            let service = service_fn(move |request| answer(Rc::clone(&answers), request));
            spawn_local(async move {
                // A client that goes away is no failure of the upstream.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

/// What the upstream answers.
struct Answers {
    /// By path.
    items: HashMap<String, Bytes>,
    tools: Tools,
}

/// The body of a call that takes [`HELD_SECONDS`]: an event each second.
struct Held {
    each: Interval,
    left: u32,
    progress: Bytes,
    last: Bytes,
}

impl Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        ready!(self.each.poll_tick(context));
        self.left -= 1;
        let event = if self.left == 0 { &self.last } else { &self.progress };
        Poll::Ready(Some(Ok(Frame::data(event.clone()))))
    }
}

type Answer = Response<Either<Full<Bytes>, Held>>;

async fn answer(answers: Rc<Answers>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let mut response = Response::new(Either::Left(Full::default()));
    if request.uri().path() == "/v1/traces" {
        // The connection can be used again only if its request is read to the end.
        let _ = request.into_body().collect().await;
        return Ok(response);
    }
    if request.uri().path() == "/mcp" && request.method() == Method::POST {
        let message = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
        let media_type = match answers.tools.reply(&message) {
            Reply::Accepted => {
                *response.status_mut() = StatusCode::ACCEPTED;
                return Ok(response);
            }
            Reply::Message(body) => {
                *response.body_mut() = Either::Left(Full::new(body));
                "application/json"
            }
            Reply::Held { progress, last } => {
                let each = tokio::time::interval(Duration::from_secs(1));
                *response.body_mut() = Either::Right(Held { each, left: HELD_SECONDS, progress, last });
                "text/event-stream"
            }
        };
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        return Ok(response);
    }
    match answers.items.get(request.uri().path()) {
        Some(body) => {
            *response.body_mut() = Either::Left(Full::new(body.clone()));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        None => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    Ok(response)
}
