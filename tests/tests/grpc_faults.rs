//! `tamis serve` with gRPC servers that fail: on the connection, in HTTP/2, in the frames of gRPC, in their messages, and in TLS.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use axum::body::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use serde_json::{Value, json};
use tamis_tests::documents::Folder;
use tamis_tests::{Gateway, Options, Rpc, until};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};

/// What no caller under `Enforced` may see, and no caller at all if the call fails.
const PRIVATE: &str = "PRIVATE-5c21";
/// The time that a call may take, and a bound on how long it takes.
const TIMEOUT: &str = "1s";
const AT_MOST: Duration = Duration::from_secs(8);

const MANIFEST: &str = r#"apiVersion: tamis.dev/v1alpha1
kind: ServiceManifest
metadata: {name: NAME}
spec:
  version: '1'
  grpc:
    endpoint: ENDPOINT
    inline:
      shop.proto: |
        syntax = "proto3";
        package shop;
        service Shop {
          rpc Get(Key) returns (Item) { option idempotency_level = NO_SIDE_EFFECTS; }
          rpc Put(Key) returns (Item);
          rpc List(Key) returns (stream Item);
        }
        message Key { string id = 1; }
        message Item { string id = 1; string secret = 2; }
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: NAME-open}
spec: {service: {name: NAME, version: '1'}, filters: [], limits: {timeout: TIMEOUT, maxResponseBytes: 100000}}
---
apiVersion: tamis.dev/v1alpha1
kind: ToolsFilters
metadata: {name: NAME-closed}
spec:
  name: closed
  service: {name: NAME, version: '1'}
  enforcement: Enforced
  filters:
    Shop_Get: {root: '', select: {id: id}}
    Shop_Put: {root: '', select: {id: id}}
    Shop_List: {root: '', select: {id: id}, maxItems: 3}
---
apiVersion: tamis.dev/v1alpha1
kind: Exposition
metadata: {name: NAME-closed}
spec:
  service: {name: NAME, version: '1'}
  filters: [closed]
  limits: {timeout: TIMEOUT, maxResponseBytes: 100000}
"#;

fn manifest(name: &str, endpoint: &str) -> String {
    MANIFEST.replace("NAME", name).replace("ENDPOINT", endpoint).replace("TIMEOUT", TIMEOUT)
}

/// What the connections of a server do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    /// GOAWAY; calls in flight are answered.
    Finish,
    /// GOAWAY with an error, at once.
    GoAway,
    /// The connection ends without a word.
    Drop,
}

/// A gRPC server that does what the `id` of a request says. It ends when this is dropped.
struct Server {
    address: SocketAddr,
    commands: broadcast::Sender<Command>,
    /// Connections that are open.
    open: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Server {
    async fn start(tls: Option<TlsAcceptor>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (commands, _) = broadcast::channel(16);
        let open = Arc::new(AtomicUsize::new(0));
        let (sender, count) = (commands.clone(), Arc::clone(&open));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (commands, count, tls) = (sender.clone(), Arc::clone(&count), tls.clone());
                tokio::spawn(async move {
                    count.fetch_add(1, Ordering::SeqCst);
                    // Clients that do not trust it hang up.
                    match tls {
                        None => serve(stream, commands).await.ok(),
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, commands).await.ok(),
                            Err(_) => None,
                        },
                    };
                    count.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Ok(Self { address, commands, open, serving })
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, commands: broadcast::Sender<Command>) -> Result<()> {
    let mut received = commands.subscribe();
    let mut connection = h2::server::handshake(stream).await?;
    loop {
        tokio::select! {
            request = connection.accept() => {
                let Some(request) = request else { return Ok(()) };
                let (request, respond) = request?;
                tokio::spawn(answer(request, respond, commands.clone()));
            }
            command = received.recv() => match command? {
                Command::Finish => connection.graceful_shutdown(),
                Command::GoAway => connection.abrupt_shutdown(Reason::INTERNAL_ERROR),
                Command::Drop => return Ok(()),
            },
        }
    }
}

/// A message of an answer in its frame. `secret` comes after the id.
fn item(id: &str) -> Vec<u8> {
    let mut message = vec![0x0a, u8::try_from(id.len()).unwrap_or_default()];
    message.extend_from_slice(id.as_bytes());
    message.extend_from_slice(&[0x12, u8::try_from(PRIVATE.len()).unwrap_or_default()]);
    message.extend_from_slice(PRIVATE.as_bytes());
    frame(0, &message)
}

fn frame(mark: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[mark][..], &length.to_be_bytes(), message].concat()
}

fn gzip(zeros: usize) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; zeros];
    encoder.write_all(&zeros).and_then(|()| encoder.finish()).unwrap_or_default()
}

fn trailers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.insert(*name, http::HeaderValue::from_static(value));
    }
    map
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    commands: broadcast::Sender<Command>,
) -> Result<()> {
    let streams = request.uri().path().ends_with("/List");
    let mut body = request.into_body();
    let mut message = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        message.extend_from_slice(&chunk);
    }
    // After the frame, the tag of the field, and its length.
    let id = String::from_utf8_lossy(message.get(7..).unwrap_or_default()).into_owned();
    let head = |status: u16, content_type: &str, encoding: Option<&str>| {
        let mut head = Response::builder().status(status).header("content-type", content_type);
        if let Some(encoding) = encoding {
            head = head.header("grpc-encoding", encoding);
        }
        head.body(())
    };
    let grpc = || head(200, "application/grpc", None);
    let finish = |mut stream: SendStream<Bytes>, body: Vec<u8>, end: HeaderMap| {
        stream.send_data(body.into(), false)?;
        stream.send_trailers(end)
    };
    let ok = || trailers(&[("grpc-status", "0")]);
    match &*id {
        "silent" => std::future::pending::<()>().await,
        "refused" => respond.send_reset(Reason::REFUSED_STREAM),
        "reset" => respond.send_reset(Reason::INTERNAL_ERROR),
        "reset-later" => {
            let mut stream = respond.send_response(grpc()?, false)?;
            stream.send_data(item("a").into(), false)?;
            // So that the message comes before the reset.
            tokio::time::sleep(Duration::from_millis(50)).await;
            stream.send_reset(Reason::INTERNAL_ERROR);
        }
        "goaway" | "drop" | "finish" => {
            let stream = respond.send_response(grpc()?, false)?;
            let command = match &*id {
                "goaway" => Command::GoAway,
                "drop" => Command::Drop,
                _ => Command::Finish,
            };
            commands.send(command)?;
            if command != Command::Finish {
                std::future::pending::<()>().await;
            }
            finish(stream, item("finish"), ok())?;
        }
        "stalled" => {
            let mut stream = respond.send_response(grpc()?, false)?;
            let body = if streams { [item("a"), item("b")].concat() } else { item("a")[..12].to_vec() };
            stream.send_data(body.into(), false)?;
            std::future::pending::<()>().await;
        }
        "no-status" => {
            finish(respond.send_response(grpc()?, false)?, item("a"), trailers(&[("grpc-message", "PRIVATE-5c21")]))?;
        }
        "no-trailers" => respond.send_response(grpc()?, false)?.send_data(item("a").into(), true)?,
        "empty" => finish(respond.send_response(grpc()?, false)?, Vec::new(), ok())?,
        "bad-status" => {
            let end = trailers(&[("grpc-status", "seven"), ("grpc-message", "PRIVATE-5c21")]);
            finish(respond.send_response(grpc()?, false)?, item("a"), end)?;
        }
        "no-frame" => finish(respond.send_response(grpc()?, false)?, b"PRIVATE-5c21".to_vec(), ok())?,
        "bad-mark" => finish(respond.send_response(grpc()?, false)?, frame(2, b"PRIVATE-5c21"), ok())?,
        "short" => finish(respond.send_response(grpc()?, false)?, item("a")[..12].to_vec(), ok())?,
        "two" => finish(respond.send_response(grpc()?, false)?, [item("a"), item("b")].concat(), ok())?,
        "no-message" => finish(respond.send_response(grpc()?, false)?, frame(0, b"\x0a\xffPRIVATE"), ok())?,
        "large" => finish(respond.send_response(grpc()?, false)?, b"\0\xff\xff\xff\xff".to_vec(), ok())?,
        "bomb" => {
            let stream = respond.send_response(head(200, "application/grpc", Some("gzip"))?, false)?;
            finish(stream, frame(1, &gzip(64 << 20)), ok())?;
        }
        "bad-gzip" => {
            let stream = respond.send_response(head(200, "application/grpc", Some("gzip"))?, false)?;
            finish(stream, frame(1, b"PRIVATE-5c21"), ok())?;
        }
        "unasked" => {
            let stream = respond.send_response(head(200, "application/grpc", Some("zstd"))?, false)?;
            finish(stream, frame(1, b"PRIVATE-5c21"), ok())?;
        }
        "unsaid" => finish(respond.send_response(grpc()?, false)?, frame(1, b"PRIVATE-5c21"), ok())?,
        "html" => finish(respond.send_response(head(200, "text/html", None)?, false)?, b"PRIVATE".to_vec(), ok())?,
        "proxy" => finish(respond.send_response(head(502, "text/html", None)?, false)?, b"PRIVATE".to_vec(), ok())?,
        id => finish(respond.send_response(grpc()?, false)?, item(id), ok())?,
    }
    Ok(())
}

/// Calls a tool, and returns the result. The call has to end.
async fn called(rpc: &Rpc, tool: &str, id: &str) -> Result<Value> {
    let begun = Instant::now();
    let message = rpc.call(tool, &json!({"id": id})).await?.message()?;
    ensure!(begun.elapsed() < AT_MOST, "{tool} {id}: {:?}", begun.elapsed());
    Ok(message["result"].clone())
}

/// Calls a tool that has to fail, with nothing of the upstream's answer.
async fn failed(rpc: &Rpc, tool: &str, id: &str) -> Result<String> {
    let result = called(rpc, tool, id).await?;
    let text = result.to_string();
    ensure!(result["isError"] == true && !text.contains("PRIVATE"), "{tool} {id}: {result}");
    Ok(result["content"][0]["text"].as_str().context("a text")?.to_owned())
}

/// A server that works is called.
async fn works(open: &Rpc, closed: &Rpc, after: &str) -> Result<()> {
    let (first, second) = (called(open, "Shop_Get", "good").await?, called(closed, "Shop_Get", "good").await?);
    ensure!(first["content"][0]["text"] == format!(r#"{{"id":"good","secret":"{PRIVATE}"}}"#), "{after}: {first}");
    ensure!(second["content"][0]["text"] == r#"{"id":"good"}"#, "{after}: {second}");
    Ok(())
}

async fn start(name: &str, endpoint: &str) -> Result<(Folder, Gateway)> {
    let folder = Folder::new()?;
    folder.write("shop.yaml", &manifest(name, endpoint))?;
    let gateway = Gateway::start(folder.path()).await?;
    Ok((folder, gateway))
}

/// What a server does, and the error that callers get. Under `Enforced` it may say less.
const FAULTS: &[(&str, &str)] = &[
    ("silent", "did not answer in time"),
    ("stalled", "did not answer in time"),
    ("refused", "could not be reached"),
    ("reset", "could not be reached"),
    ("reset-later", "could not be reached"),
    ("goaway", "could not be reached"),
    ("drop", "could not be reached"),
    ("no-status", "ends without a status"),
    ("no-trailers", "ends without a status"),
    ("empty", "has no message"),
    ("bad-status", "The upstream answered 500"),
    ("no-frame", "has no messages of gRPC"),
    ("bad-mark", "has no messages of gRPC"),
    ("short", "ends within a message"),
    ("two", "more than one message"),
    ("no-message", "message"),
    ("large", "larger than 100000 bytes"),
    ("bomb", "larger than 100000 bytes"),
    ("bad-gzip", "could not be decompressed"),
    ("unasked", "in a way that was not asked for"),
    ("unsaid", "compressed without saying how"),
    ("html", "is not one of gRPC"),
    ("proxy", "The upstream answered 502"),
];

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_errors_and_the_next_call_works() -> Result<()> {
    let server = Server::start(None).await?;
    let (_folder, gateway) = start("shop", &format!("http://{}", server.address)).await?;
    let (open, closed) = (gateway.rpc("shop-open")?, gateway.rpc("shop-closed")?);
    works(&open, &closed, "the start").await?;
    let mut wrong = Vec::new();
    for (id, expected) in FAULTS {
        let said = match failed(&open, "Shop_Get", id).await {
            // A status of the server comes with its message, under `Advisory`.
            Err(_) if *id == "bad-status" => called(&open, "Shop_Get", id).await?["content"][0]["text"].to_string(),
            said => said?,
        };
        if !said.contains(expected) {
            wrong.push(format!("{id}: {said}"));
        }
        works(&open, &closed, id).await?;
        let said = failed(&closed, "Shop_Get", id).await?;
        ensure!(!said.contains("executed"), "{id}: {said}");
        works(&open, &closed, id).await?;
        // Of a call that writes, callers learn whether it may have been executed.
        let said = failed(&closed, "Shop_Put", id).await?;
        let may_be_executed = !["bad-status", "proxy"].contains(id);
        if said.contains("may have been executed") != may_be_executed {
            wrong.push(format!("{id}: {said}"));
        }
        works(&open, &closed, id).await?;
    }
    ensure!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_may_end_between_calls() -> Result<()> {
    let server = Server::start(None).await?;
    let (_folder, gateway) = start("shop", &format!("http://{}", server.address)).await?;
    let (open, closed) = (gateway.rpc("shop-open")?, gateway.rpc("shop-closed")?);
    for command in [Command::Finish, Command::GoAway, Command::Drop] {
        works(&open, &closed, &format!("before {command:?}")).await?;
        ensure!(server.open.load(Ordering::SeqCst) > 0, "a connection is kept");
        server.commands.send(command)?;
        until("the connections end", || server.open.load(Ordering::SeqCst) == 0).await?;
        works(&open, &closed, &format!("after {command:?}")).await?;
    }
    // GOAWAY during a call, which the server still answers.
    let result = called(&closed, "Shop_Put", "finish").await?;
    assert_eq!(result["content"][0]["text"], r#"{"id":"finish"}"#, "{result}");
    works(&open, &closed, "GOAWAY during a call").await
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_break_give_no_data_and_those_that_are_cut_say_so() -> Result<()> {
    let server = Server::start(None).await?;
    let (_folder, gateway) = start("shop", &format!("http://{}", server.address)).await?;
    let (open, closed) = (gateway.rpc("shop-open")?, gateway.rpc("shop-closed")?);
    for id in ["silent", "reset-later", "goaway", "drop", "no-status", "short", "no-message", "large", "bomb"] {
        for rpc in [&open, &closed] {
            failed(rpc, "Shop_List", id).await?;
            works(&open, &closed, id).await?;
        }
    }
    // What has come before the deadline is the answer, with a sentence that it may not be all.
    let result = called(&closed, "Shop_List", "stalled").await?;
    assert_eq!(result["content"][0]["text"], r#"[{"id":"a"},{"id":"b"}]"#, "{result}");
    let cut = "The stream did not end before the call's timeout. These are the messages that came until then.";
    assert_eq!(result["content"][1]["text"], cut, "{result}");
    let result = called(&open, "Shop_List", "stalled").await?;
    assert_eq!(result["content"][1]["text"], cut, "{result}");
    // A stream that ends has no such sentence.
    let result = called(&closed, "Shop_List", "two").await?;
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1), "{result}");
    Ok(())
}

/// Servers of something else than HTTP/2.
#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_place_of_http2_is_an_error() -> Result<()> {
    const BODIES: [(&str, &[u8]); 5] = [
        ("http1", b"HTTP/1.1 400 Bad Request\r\ncontent-length: 7\r\n\r\nPRIVATE"),
        ("ssh", b"SSH-2.0-PRIVATE\r\n"),
        ("zeros", &[0; 4_096]),
        ("ones", &[0xff; 4_096]),
        ("mute", b""),
    ];
    let folder = Folder::new()?;
    let mut servers = tokio::task::JoinSet::new();
    for (name, body) in BODIES {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        folder.write(&format!("{name}.yaml"), &manifest(name, &format!("http://{}", listener.local_addr()?)))?;
        servers.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    stream.write_all(body).await?;
                    // Reads until the client ends.
                    let mut buffer = [0; 4_096];
                    while stream.read(&mut buffer).await? > 0 {}
                    std::io::Result::Ok(())
                });
            }
        });
    }
    let gateway = Gateway::start(folder.path()).await?;
    for (name, body) in BODIES {
        for enforcement in ["open", "closed"] {
            let rpc = gateway.rpc(&format!("{name}-{enforcement}"))?;
            for attempt in 0..2 {
                let said = failed(&rpc, "Shop_Get", "good").await?;
                let expected = if body.is_empty() { "did not answer in time" } else { "could not be reached" };
                ensure!(said.contains(expected), "{name} {enforcement} {attempt}: {said}");
            }
        }
    }
    Ok(())
}

/// Only a certificate for the name that the manifest has is accepted.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_checked() -> Result<()> {
    let folder = Folder::new()?;
    let certificates = tempfile::tempdir()?;
    let mut pems = String::new();
    let mut servers = Vec::new();
    for (name, host, is_trusted) in
        [("right", "127.0.0.1", true), ("other", "grpc.example.com", true), ("unknown", "127.0.0.1", false)]
    {
        let made = rcgen::generate_simple_self_signed(vec![host.to_owned()])?;
        if is_trusted {
            pems.push_str(&made.cert.pem());
        }
        let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes())?;
        let mut config =
            ServerConfig::builder().with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let server = Server::start(Some(TlsAcceptor::from(Arc::new(config)))).await?;
        folder.write(&format!("{name}.yaml"), &manifest(name, &format!("https://{}", server.address)))?;
        servers.push(server);
    }
    let roots = certificates.path().join("roots.pem");
    std::fs::write(&roots, pems)?;
    let environment = vec![("SSL_CERT_FILE".to_owned(), roots.to_string_lossy().into_owned())];
    let gateway = Gateway::with(folder.path(), &Options { environment, ..Options::default() }).await?;
    for _ in 0..2 {
        for name in ["other", "unknown"] {
            for enforcement in ["open", "closed"] {
                let rpc = gateway.rpc(&format!("{name}-{enforcement}"))?;
                let said = failed(&rpc, "Shop_Put", "good").await?;
                ensure!(said.contains("tls") && !said.contains("executed"), "{name} {enforcement}: {said}");
            }
        }
        works(&gateway.rpc("right-open")?, &gateway.rpc("right-closed")?, "a certificate").await?;
    }
    Ok(())
}
