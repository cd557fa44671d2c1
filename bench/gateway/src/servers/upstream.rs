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
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::Interval;

use super::mcp::{HELD_SECONDS, Reply};
use super::{Local, Tools};
use crate::payload::payload;

/// Prints its port on one line. Answers `GET /items/KB` with a JSON list of that many kB, accepts spans, and is an MCP server at
/// `/mcp`, a GraphQL API at `/graphql` and the gRPC server `bench.Items`. `GET /run/KB` answers with what `cat` prints.
pub(crate) fn serve(sizes: &[usize]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    for &kb in sizes {
        std::fs::write(folder.path().join(kb.to_string()), payload(kb))?;
    }
    let answers = Rc::new(Answers {
        items: sizes.iter().map(|&kb| (format!("/items/{kb}"), payload(kb))).collect(),
        fields: sizes.iter().map(|&kb| (format!("items{kb}"), field(kb))).collect(),
        messages: sizes
            .iter()
            .map(|&kb| Ok((format!("/bench.Items/List{kb}"), message(kb)?)))
            .collect::<Result<_>>()?,
        folder,
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
                let _ = auto::Builder::new(Local).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

/// What the upstream answers.
struct Answers {
    /// By path.
    items: HashMap<String, Bytes>,
    /// Answers of GraphQL by field.
    fields: HashMap<String, Bytes>,
    /// Messages of gRPC, each in its frame, by path.
    messages: HashMap<String, Bytes>,
    /// The lists as files.
    folder: TempDir,
    tools: Tools,
}

/// Returns the answer of GraphQL with a field of `kb` kB.
fn field(kb: usize) -> Bytes {
    let items = payload(kb);
    Bytes::from([format!("{{\"data\":{{\"items{kb}\":").as_bytes(), &items, b"}}"].concat())
}

/// Returns the message of gRPC with the items of `kb` kB, in its frame.
fn message(kb: usize) -> Result<Bytes> {
    #[derive(Deserialize)]
    struct Item<'a> {
        id: u64,
        number: u64,
        title: &'a str,
        state: &'a str,
        locked: bool,
        comments: u64,
        user: User<'a>,
        body: &'a str,
    }
    #[derive(Deserialize)]
    struct User<'a> {
        login: &'a str,
        id: u64,
        r#type: &'a str,
    }
    let mut page = Vec::new();
    for item in serde_json::from_slice::<Vec<Item<'_>>>(&payload(kb))? {
        let mut user = Vec::new();
        bytes_field(&mut user, 1, item.user.login.as_bytes());
        number_field(&mut user, 2, item.user.id);
        bytes_field(&mut user, 3, item.user.r#type.as_bytes());
        let mut out = Vec::new();
        number_field(&mut out, 1, item.id);
        number_field(&mut out, 2, item.number);
        bytes_field(&mut out, 3, item.title.as_bytes());
        bytes_field(&mut out, 4, item.state.as_bytes());
        number_field(&mut out, 5, u64::from(item.locked));
        number_field(&mut out, 6, item.comments);
        bytes_field(&mut out, 7, &user);
        bytes_field(&mut out, 8, item.body.as_bytes());
        bytes_field(&mut page, 1, &out);
    }
    let length = u32::try_from(page.len())?.to_be_bytes();
    Ok(Bytes::from([&[0], &length[..], &page].concat()))
}

/// Writes a field of numbers as protobuf does; 0 is absent.
fn number_field(out: &mut Vec<u8>, number: u8, value: u64) {
    if value > 0 {
        out.push(number << 3);
        varint(out, value);
    }
}

/// Writes a field of bytes as protobuf does.
fn bytes_field(out: &mut Vec<u8>, number: u8, value: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
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

/// The body of an answer of gRPC: a message, and the status in a trailer.
struct Message {
    data: Option<Bytes>,
    ended: bool,
}

impl Body for Message {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(data) = self.data.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if std::mem::replace(&mut self.ended, true) {
            return Poll::Ready(None);
        }
        let status = (HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
        Poll::Ready(Some(Ok(Frame::trailers(HeaderMap::from_iter([status])))))
    }
}

type Answer = Response<Either<Full<Bytes>, Either<Held, Message>>>;

async fn answer(answers: Rc<Answers>, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let mut response = Response::new(Either::Left(Full::default()));
    let path = request.uri().path();
    if path == "/v1/traces" {
        // The connection can be used again only if its request is read to the end.
        let _ = request.into_body().collect().await;
        return Ok(response);
    }
    if let Some(message) = answers.messages.get(path) {
        // A server that answers before the request has ended resets its stream.
        let _ = request.into_body().collect().await;
        *response.body_mut() = Either::Right(Either::Right(Message { data: Some(message.clone()), ended: false }));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        return Ok(response);
    }
    if path == "/graphql" {
        let query = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
        // The query asks for one field, and its name follows that of the query: `query NAME{..`.
        let query = std::str::from_utf8(&query).unwrap_or_default();
        let name = query.split_once("query ").map_or("", |(_, rest)| rest);
        let name = name.split(['{', '(', ' ']).next().unwrap_or_default();
        match answers.fields.get(name) {
            Some(body) => *response.body_mut() = Either::Left(Full::new(body.clone())),
            None => *response.status_mut() = StatusCode::BAD_REQUEST,
        }
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        return Ok(response);
    }
    if let Some(kb) = path.strip_prefix("/run/") {
        match tokio::process::Command::new("cat").arg(answers.folder.path().join(kb)).output().await {
            Ok(output) if output.status.success() => {
                *response.body_mut() = Either::Left(Full::new(output.stdout.into()));
            }
            _ => *response.status_mut() = StatusCode::NOT_FOUND,
        }
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
                *response.body_mut() = Either::Right(Either::Left(Held { each, left: HELD_SECONDS, progress, last }));
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
