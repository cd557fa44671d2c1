//! The operator's admin listener: `/metrics`, `/livez` and `/readyz`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics::Metrics;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// The maximum of concurrent connections: enough for probes and a few Prometheus servers.
const CONNECTIONS: usize = 64;
/// The longest time in which a connection sends its request headers, and the longest idle time.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long connections may drain after `shutdown`.
const DRAIN: Duration = Duration::from_secs(2);

/// Serves on `listener` until `shutdown`. `waits_for` returns what the operator still waits for before it is ready;
/// empty if it is ready. A follower whose caches are filled is ready.
pub async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    waits_for: impl Fn() -> Vec<String> + Send + Sync + 'static,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let answers = Arc::new(Answers { metrics, waits_for: Box::new(waits_for) });
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the admin port");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let (answers, shutdown) = (Arc::clone(&answers), shutdown.clone());
        connections.spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let response = answers.answer(request.method(), request.uri().path());
                async move { Ok::<_, Infallible>(response) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
            let ended = tokio::select! {
                ended = serving.as_mut() => ended,
                () = shutdown.cancelled() => {
                    serving.as_mut().graceful_shutdown();
                    serving.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection to the admin port ended");
            }
            drop(place);
        });
    }
    connections.close();
    tokio::time::timeout(DRAIN, connections.wait()).await.ok();
}

struct Answers {
    metrics: Metrics,
    waits_for: Box<dyn Fn() -> Vec<String> + Send + Sync>,
}

impl Answers {
    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n");
        }
        match path {
            "/metrics" => respond(StatusCode::OK, METRICS, self.metrics.render((self.waits_for)().is_empty())),
            "/livez" => respond(StatusCode::OK, TEXT, "ok\n"),
            "/readyz" => match (self.waits_for)().as_slice() {
                [] => respond(StatusCode::OK, TEXT, "ok\n"),
                waiting => {
                    let lines: String = waiting.iter().map(|what| format!("waiting for {what}\n")).collect();
                    respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, lines)
                }
            },
            _ => respond(StatusCode::NOT_FOUND, TEXT, "/metrics /livez /readyz\n"),
        }
    }
}

fn respond(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    async fn ask(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("connects");
        let request = format!("{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("writes");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("reads");
        answer
    }

    #[tokio::test]
    async fn readiness_names_what_the_operator_waits_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("an address");
        let waiting = Arc::new(Mutex::new(vec!["Expositions".to_owned(), "Secrets in team-a".to_owned()]));
        let shutdown = CancellationToken::new();
        let seen = Arc::clone(&waiting);
        let waits_for = move || seen.lock().expect("is whole").clone();
        let metrics = Metrics::new().expect("the names are good");
        let serving = tokio::spawn(serve(listener, metrics, waits_for, shutdown.clone()));

        let answer = ask(address, "GET /readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("waiting for Expositions\nwaiting for Secrets in team-a\n"), "{answer}");
        waiting.lock().expect("is whole").clear();
        for (request, status, body) in [
            ("GET /readyz", "200", "ok"),
            ("GET /livez", "200", "ok"),
            ("GET /metrics", "200", "tamis_leader 0"),
            ("HEAD /metrics", "200", ""),
            ("POST /metrics", "405", "GET only"),
            ("GET /config", "404", "/readyz"),
        ] {
            let answer = ask(address, request).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(body), "{request}: {answer}");
        }
        shutdown.cancel();
        serving.await.expect("ends");
        assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
    }
}
