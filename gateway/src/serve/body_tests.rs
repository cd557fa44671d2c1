use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tamis_config::ExpositionId;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::super::accept::{self, Listening};
use super::super::incoming::RequestBody;
use super::*;
use crate::memory::{Chain, Reservation};
use crate::options::GatewayLimits;
use crate::shares::{Limits, Resource, Shares};
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

/// An answer of three buffers.
fn chain() -> Chain {
    let mut chain = Chain::from(vec![b'a'; 200_000]);
    chain.push(vec![b'b'; 300_000]);
    chain.push(vec![b'c'; 100]);
    chain
}

/// Address and length of each buffer that was handed to a vectored write.
type Slices = Arc<Mutex<Vec<(usize, usize)>>>;

/// A stream that notes what is written to it.
struct Noted(DuplexStream, Slices);

impl AsyncRead for Noted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Noted {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let noted = slices.iter().map(|slice| (slice.as_ptr() as usize, slice.len()));
        self.1.lock().unwrap().extend(noted);
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Serves one answer on a connection, and returns the number of its bytes that were written from where they lay, with the
/// bytes that the client received.
async fn in_place(version: Version) -> (usize, Bytes) {
    let chain = chain();
    let places: Vec<_> = chain.buffers().map(|buffer| (buffer.as_ptr() as usize, buffer.len())).collect();
    let slices = Slices::default();
    let (client, server) = tokio::io::duplex(1 << 20);
    let chain = Mutex::new(Some(chain));
    let service = service_fn(move |_: Request<Incoming>| {
        let chain = chain.lock().unwrap().take().unwrap();
        async { Ok::<_, Cut>(Response::new(Body::from(Held { chain, held: None }))) }
    });
    let stream = TokioIo::new(Noted(server, Arc::clone(&slices)));
    let served = tokio::spawn(async move {
        auto::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await.unwrap();
    });
    let mut request =
        Request::get("http://localhost/").header("host", "localhost").body(Empty::<Bytes>::new()).unwrap();
    *request.version_mut() = version;
    let response = if version == Version::HTTP_2 {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await
    } else {
        let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await
    };
    let received = response.unwrap().into_body().collect().await.unwrap().to_bytes();
    served.await.unwrap();
    let inside =
        |(at, len): &(usize, usize)| places.iter().any(|(start, size)| *at >= *start && at + len <= start + size);
    let count = slices.lock().unwrap().iter().filter(|slice| inside(slice)).map(|(_, len)| len).sum();
    (count, received)
}

#[tokio::test]
async fn an_answer_is_written_from_where_its_buffers_lie() {
    let expected = chain().buffers().collect::<Vec<_>>().concat();
    let (count, received) = in_place(Version::HTTP_11).await;
    assert!(received == expected);
    assert!(count >= expected.len(), "{count}");
    // HTTP/2 copies at most 256 bytes of each frame of 16 kB together with the frame's head.
    let (count, received) = in_place(Version::HTTP_2).await;
    assert!(received == expected);
    assert!(count >= expected.len() - expected.len() / 64 - 256, "{count}");
}

#[tokio::test]
async fn an_answer_is_held_until_its_last_byte_is_written() {
    let shares = Shares::new(Limits { bytes: 16 << 20, floor: 16 << 20, calls: 1, streams: 1 });
    let used = || shares.used(Resource::Bytes);
    let id = ExpositionId { namespace: String::new(), name: String::new() };
    let mut held = Reservation::open(&shares.of(&id)).await.unwrap();
    held.take(1 << 20).await.unwrap();
    let mut body = Body::from(Held::new(chain(), held));
    let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap().unwrap();
    assert!(body.is_end_stream());
    drop(body);
    let mut piece = frame.into_data().unwrap();
    piece.advance(piece.remaining() - 1);
    assert!(used() >= 500_100, "{}", used());
    drop(piece);
    assert_eq!(used(), 0);
}
