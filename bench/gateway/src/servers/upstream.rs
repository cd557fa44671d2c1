//! The upstream: prepared answers, and as little work per call as hyper takes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};

use super::Tools;
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

async fn answer(answers: Rc<Answers>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::default());
    if request.uri().path() == "/v1/traces" {
        // The connection can be used again only if its request is read to the end.
        let _ = request.into_body().collect().await;
        return Ok(response);
    }
    if request.uri().path() == "/mcp" && request.method() == Method::POST {
        let message = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
        match answers.tools.answer(&message) {
            Some(body) => {
                *response.body_mut() = Full::new(body);
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            None => *response.status_mut() = StatusCode::ACCEPTED,
        }
        return Ok(response);
    }
    match answers.items.get(request.uri().path()) {
        Some(body) => {
            *response.body_mut() = Full::new(body.clone());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        None => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    Ok(response)
}
