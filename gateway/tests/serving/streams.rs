//! How streams of notifications end: complete if the gateway ends them on purpose, cut if the caller may no longer
//! listen.

use std::error::Error as _;
use std::io::Read as _;
use std::process::{Command, Stdio};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tamis_config::{Access, CredentialHandle};
use tamis_engine::Enforcement::Advisory;
use tamis_gateway::Options;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::keys::{HANDLE, Keys};
use crate::support::{MODERN, Running, Upstream, exposition, service, snapshot, start, tool};

const KEY: &str = "0123-alice-4567";

/// A gateway with one exposition for Alice, and her keys.
struct Scene {
    running: Running,
    keys: Keys,
    upstream: Upstream,
}

/// Why the gateway ends streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    KeyWithdrawn,
    ExpositionRemoved,
    Shutdown,
}

const ENDS: [End; 3] = [End::KeyWithdrawn, End::ExpositionRemoved, End::Shutdown];

/// What opens a stream, by era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Get,
    Listen,
}

impl Scene {
    async fn new() -> Self {
        let keys = Keys::of(&[("alice", KEY)]);
        let running = start(Options::new(std::sync::Arc::new(keys.clone()))).await;
        let scene = Self { running, keys, upstream: Upstream::start().await };
        scene.publish(&["read"]);
        scene
    }

    fn publish(&self, tools: &[&str]) {
        let declared: serde_json::Map<_, _> = tools.iter().map(|name| ((*name).to_owned(), tool("/doc"))).collect();
        let service = service(&self.upstream.base, &declared.into());
        let tools: Vec<_> = tools.iter().map(|name| (*name, None)).collect();
        let mut document = exposition("api", &service, Advisory, &tools);
        let handle = Some(CredentialHandle(HANDLE.to_owned()));
        document.access = Some(Access::ApiKeys { secret: "partners".to_owned(), handle });
        assert_eq!(self.running.gateway.apply(&snapshot(&service, [document])).failed, []);
    }

    fn end(&self, end: End) {
        match end {
            End::KeyWithdrawn => {
                self.keys.set(&[("alice", "another")]);
                // Wakes the streams, which check their access before they tell of the change.
                self.publish(&["read", "more"]);
            }
            End::ExpositionRemoved => {
                self.running.gateway.apply(&Default::default());
            }
            End::Shutdown => self.running.shutdown.cancel(),
        }
    }
}

/// Method, headers and body of the request that opens a stream.
fn opening(opening: Opening) -> (Method, Vec<(&'static str, String)>, String) {
    let key = ("authorization", format!("Bearer {KEY}"));
    match opening {
        Opening::Get => (Method::GET, vec![key, ("accept", "text/event-stream".to_owned())], String::new()),
        Opening::Listen => {
            let message = json!({
                "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
                "params": {"notifications": {"toolsListChanged": true}, "_meta": {
                    "io.modelcontextprotocol/protocolVersion": MODERN,
                    "io.modelcontextprotocol/clientCapabilities": {},
                }},
            });
            let headers = [
                ("accept", "application/json, text/event-stream"),
                ("content-type", "application/json"),
                ("mcp-protocol-version", MODERN),
                ("mcp-method", "subscriptions/listen"),
            ];
            let headers = headers.map(|(name, value)| (name, value.to_owned()));
            (Method::POST, headers.into_iter().chain([key]).collect(), message.to_string())
        }
    }
}

fn request(scene: &Scene, how: Opening) -> Request<Full<Bytes>> {
    let (method, headers, body) = opening(how);
    let mut request = Request::builder().method(method).uri(scene.running.url("api"));
    for (name, value) in headers.into_iter().chain([("host", scene.running.address.to_string())]) {
        request = request.header(name, value);
    }
    request.body(Full::from(body)).unwrap()
}

/// Ends a stream after its first event, and returns what was read then and whether the body was complete.
async fn finish(scene: &Scene, response: Response<Incoming>, end: End) -> (String, Result<(), hyper::Error>) {
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    scene.end(end);
    let mut rest = String::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => rest.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap()),
            Err(error) => return (rest, Err(error)),
        }
    }
    (rest, Ok(()))
}

/// The last message of a stream that was completed.
fn is_graceful(rest: &str, how: Opening) -> bool {
    match how {
        Opening::Get => rest.is_empty(),
        Opening::Listen => rest.contains(r#""id":1,"result":{"resultType":"complete""#),
    }
}

#[tokio::test]
async fn over_http_1_a_withdrawn_key_cuts_the_stream_and_a_graceful_end_completes_it() {
    for how in [Opening::Get, Opening::Listen] {
        for end in ENDS {
            let scene = Scene::new().await;
            let stream = TokioIo::new(TcpStream::connect(scene.running.address).await.unwrap());
            let (mut sender, connection) = http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let response = sender.send_request(request(&scene, how)).await.unwrap();
            let (rest, ended) = finish(&scene, response, end).await;
            match end {
                End::KeyWithdrawn => assert!(ended.is_err() && rest.is_empty(), "{how:?}: {rest}"),
                End::ExpositionRemoved | End::Shutdown => {
                    ended.unwrap();
                    assert!(is_graceful(&rest, how), "{how:?} {end:?}: {rest}");
                }
            }
        }
    }
}

#[tokio::test]
async fn over_http_2_a_withdrawn_key_resets_the_stream_and_a_graceful_end_completes_it() {
    for how in [Opening::Get, Opening::Listen] {
        for end in ENDS {
            let scene = Scene::new().await;
            let stream = TokioIo::new(TcpStream::connect(scene.running.address).await.unwrap());
            let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            let response = sender.send_request(request(&scene, how)).await.unwrap();
            let (rest, ended) = finish(&scene, response, end).await;
            match end {
                End::KeyWithdrawn => {
                    let error = ended.unwrap_err();
                    let reset = error.source().and_then(|source| source.downcast_ref::<h2::Error>()).unwrap();
                    assert_eq!((reset.is_reset(), reset.reason()), (true, Some(h2::Reason::INTERNAL_ERROR)));
                    assert_eq!(rest, "", "{how:?}");
                    // The connection outlives the stream, and says what became of the key.
                    let again = sender.send_request(request(&scene, how)).await.unwrap();
                    assert_eq!(again.status(), 401);
                }
                End::ExpositionRemoved | End::Shutdown => {
                    ended.unwrap();
                    assert!(is_graceful(&rest, how), "{how:?} {end:?}: {rest}");
                }
            }
        }
    }
}

#[tokio::test]
async fn only_a_complete_stream_ends_with_the_last_chunk() {
    for end in ENDS {
        let scene = Scene::new().await;
        let mut stream = TcpStream::connect(scene.running.address).await.unwrap();
        let head = format!(
            "GET /mcp/default/api HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {KEY}\r\n\r\n",
            scene.running.address
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b": open\n\n\r\n") {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
        }
        scene.end(end);
        // A complete response leaves the connection open, unless the gateway stops.
        let mut rest = Vec::new();
        while !rest.ends_with(b"0\r\n\r\n") && stream.read_buf(&mut rest).await.unwrap() > 0 {}
        let expected: &[u8] = if end == End::KeyWithdrawn { b"" } else { b"0\r\n\r\n" };
        assert_eq!(rest, expected, "{end:?}");
    }
}

/// Exit codes of curl: 18 is `CURLE_PARTIAL_FILE`, 92 is `CURLE_HTTP2_STREAM`.
#[tokio::test(flavor = "multi_thread")]
async fn curl_reports_a_cut_stream_as_an_error() {
    for (version, cut) in [("--http1.1", 18), ("--http2-prior-knowledge", 92)] {
        for end in ENDS {
            let scene = Scene::new().await;
            let mut curl = Command::new("curl")
                .args(["--silent", "--show-error", "--no-buffer", "--max-time", "60", version])
                .args(["--header", &format!("Authorization: Bearer {KEY}"), &scene.running.url("api")])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("curl is installed");
            let mut output = curl.stdout.take().unwrap();
            let (mut output, first) = tokio::task::spawn_blocking(move || {
                let mut first = [0; 8];
                output.read_exact(&mut first).unwrap();
                (output, first)
            })
            .await
            .unwrap();
            assert_eq!(&first, b": open\n\n");
            scene.end(end);
            let (rest, ended) = tokio::task::spawn_blocking(move || {
                let mut rest = String::new();
                output.read_to_string(&mut rest).unwrap();
                (rest, curl.wait_with_output().unwrap())
            })
            .await
            .unwrap();
            let expected = if end == End::KeyWithdrawn { cut } else { 0 };
            let error = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!((rest.as_str(), ended.status.code()), ("", Some(expected)), "{version} {end:?}: {error}");
        }
    }
}
