//! A bare proxy with axum as server and reqwest as client, on tokio's runtime of several threads.

use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

/// Prints its port on one line. Forwards every path to the upstream's base URL, collects the answer in memory and
/// forwards it.
pub(crate) fn serve(upstream: String) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(listen(upstream))
}

async fn listen(upstream: String) -> Result<()> {
    // Like the gateway's client, it follows no redirects and sends no cookies.
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).tcp_nodelay(true).build()?;
    let router = Router::new().fallback(forward).with_state((client, Arc::<str>::from(upstream)));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
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
