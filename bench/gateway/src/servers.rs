//! The two servers that the gateway is compared with.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use tokio::net::TcpListener;

use crate::targets::payload;

/// Listens on a free loopback port and prints the port on one line, then serves until killed.
async fn serve(router: Router) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
}

/// Answers `GET /items/KB` with a prepared JSON list of that many kB, and accepts spans.
pub(crate) async fn upstream() -> Result<()> {
    let answers: Arc<HashMap<String, Bytes>> =
        Arc::new([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].map(|kb| (format!("/items/{kb}"), payload(kb))).into());
    let router = Router::new().fallback(move |request: Request| {
        let answers = Arc::clone(&answers);
        async move {
            if request.uri().path() == "/v1/traces" {
                return StatusCode::OK.into_response();
            }
            match answers.get(request.uri().path()) {
                Some(body) => ([(header::CONTENT_TYPE, "application/json")], body.clone()).into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            }
        }
    });
    serve(router).await
}

/// A bare proxy with axum as server and reqwest as client, which collects the answer in memory and forwards it.
pub(crate) async fn proxy(upstream: String) -> Result<()> {
    // Like the gateway's client, it follows no redirects and sends no cookies.
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).tcp_nodelay(true).build()?;
    let router = Router::new().fallback(forward).with_state((client, Arc::<str>::from(upstream)));
    serve(router).await
}

async fn forward(State((client, upstream)): State<(reqwest::Client, Arc<str>)>, request: Request) -> Response {
    let url = format!("{upstream}{}", request.uri().path());
    let answer = async {
        let response = client.get(url).send().await?;
        let status = response.status();
        let kind = response.headers().get(header::CONTENT_TYPE).cloned();
        Ok::<_, reqwest::Error>((status, kind, response.bytes().await?))
    };
    match answer.await {
        Ok((status, kind, body)) => {
            let mut response = Response::new(Body::from(body));
            *response.status_mut() = status;
            if let Some(kind) = kind {
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
            }
            response
        }
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}
