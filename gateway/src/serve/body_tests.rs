use std::net::{IpAddr, SocketAddr};

use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::super::accept::{self, Listening};
use super::super::incoming::RequestBody;
use super::*;
use crate::options::GatewayLimits;
use crate::workers::Workers;

/// What a client sees of a response.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Complete,
    /// The response ends early. On HTTP/2, with the reason of the reset.
    Cut(Option<h2::Reason>),
}

fn respond(path: &str) -> Response<Body> {
    let first = Ok(Bytes::from_static(b"one "));
    let body = match path {
        "/full" => Body::from(b"one two".to_vec()),
        "/stream" => Body::stream(stream::iter([first, Ok(Bytes::from_static(b"two"))])),
        "/cut" => Body::stream(stream::iter([first, Err(Cut::Lagged)])),
        "/cut-at-once" => Body::stream(stream::iter([Err(Cut::AccessWithdrawn)])),
        "/panic" => Body::stream(stream::iter([0, 1]).map(move |piece| match piece {
            0 => first.clone(),
            _ => panic!("a producer has a bug"),
        })),
        other => panic!("{other}"),
    };
    Response::new(body)
}

/// Serves with the product's own connection loop.
async fn listen(shutdown: CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let listening = Listening::serving(&GatewayLimits::default(), 100, None);
        let answer = |request: Request<RequestBody>, _: SocketAddr| {
            let response = respond(request.uri().path());
            async { response }
        };
        accept::run(listener, &shutdown, listening, &Workers::on_this_runtime(), |_| {}, answer).await;
    });
    address
}

/// Reads a response to its end. If it is cut before its head was flushed, the request fails.
async fn read(answered: Result<Response<Incoming>, hyper::Error>) -> Seen {
    let collected = match answered {
        Ok(response) => {
            assert_eq!(response.status(), StatusCode::OK);
            response.into_body().collect().await
        }
        Err(error) => Err(error),
    };
    match collected {
        Ok(all) => {
            assert_eq!(all.to_bytes(), "one two");
            Seen::Complete
        }
        Err(error) => {
            let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<h2::Error>());
            Seen::Cut(source.filter(|error| error.is_reset()).and_then(h2::Error::reason))
        }
    }
}

fn get(address: SocketAddr, path: &str) -> Request<Empty<Bytes>> {
    let host: IpAddr = address.ip();
    Request::get(format!("http://{host}{path}")).header("host", host.to_string()).body(Empty::new()).unwrap()
}

#[tokio::test]
async fn a_cut_stream_is_never_taken_for_a_complete_one() {
    let shutdown = CancellationToken::new();
    let address = listen(shutdown.clone()).await;
    let internal = Some(h2::Reason::INTERNAL_ERROR);
    let cases = [
        ("/full", Seen::Complete, Seen::Complete),
        ("/stream", Seen::Complete, Seen::Complete),
        ("/cut", Seen::Cut(None), Seen::Cut(internal)),
        ("/cut-at-once", Seen::Cut(None), Seen::Cut(internal)),
        // Unwinding drops the stream, which cancels it.
        ("/panic", Seen::Cut(None), Seen::Cut(Some(h2::Reason::CANCEL))),
    ];
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut multiplexed, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    for (path, one, two) in cases {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        assert_eq!(read(sender.send_request(get(address, path)).await).await, one, "{path} over HTTP/1.1");
        // Other streams of the connection are unharmed.
        let mut request = get(address, path);
        *request.version_mut() = Version::HTTP_2;
        assert_eq!(read(multiplexed.send_request(request).await).await, two, "{path} over HTTP/2");
    }
    shutdown.cancel();
}
