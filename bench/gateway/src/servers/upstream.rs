//! The upstream: prepared answers, and as little work per call as hyper takes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};

use crate::payload::payload;

/// Prints its port on one line. Answers `GET /items/KB` with a JSON list of that many kB, and accepts spans.
pub(crate) fn serve(sizes: &[usize]) -> Result<()> {
    let answers: HashMap<String, Bytes> = sizes.iter().map(|&kb| (format!("/items/{kb}"), payload(kb))).collect();
    let answers = Rc::new(answers);
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

async fn answer(
    answers: Rc<HashMap<String, Bytes>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::default());
    if request.uri().path() == "/v1/traces" {
        // The connection can be used again only if its request is read to the end.
        let _ = request.into_body().collect().await;
        return Ok(response);
    }
    match answers.get(request.uri().path()) {
        Some(body) => {
            *response.body_mut() = Full::new(body.clone());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        None => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    Ok(response)
}
