//! TLS and HTTP/2, with certificates of the test's own.

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;

use axum::response::IntoResponse;
use axum::serve::Listener;
use http::StatusCode;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::server::TlsStream;

use super::support::{Seen, Server, TOKEN, arguments, bounds, context, document, given, room};
use crate::upstream::{Answer, Client, ClientOptions, Upstream, UpstreamError};

struct Tls {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.tcp.accept().await.unwrap();
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}

/// A server for `localhost`, and the certificate to trust.
async fn server<R: IntoResponse + 'static>(
    alpn: &[&str],
    answer: impl Fn(&Seen, usize) -> R + Send + Sync + 'static,
) -> (Server, String) {
    let (acceptor, pem) = acceptor(alpn);
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    (Server::listen(Tls { tcp, acceptor }, answer), pem)
}

/// TLS for `localhost`, and the certificate to trust.
pub(super) fn acceptor(alpn: &[&str]) -> (TlsAcceptor, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), made.cert.pem())
}

async fn call(host: &str, server: &Server, roots: &[&str]) -> Result<Answer, UpstreamError> {
    let extra_roots = roots.iter().map(|pem| pem.as_bytes().to_vec()).collect();
    let client = Client::new(ClientOptions { extra_roots, ..ClientOptions::default() }, NonZero::<usize>::MIN).unwrap();
    let auth = json!({"type": "bearer", "credential": {"name": "n", "key": "k"}});
    let document = document(&format!("https://{host}:{}", server.address.port()), Some(auth), json!({}));
    let upstream = Upstream::new(&Arc::new(document), Arc::new(client)).unwrap();
    upstream.call("call", &arguments("{}"), context(bounds(), given(), &mut room())).await
}

#[tokio::test]
async fn http2_is_spoken_where_it_is_offered() {
    for (alpn, version) in [
        (["h2", "http/1.1"].as_slice(), http::Version::HTTP_2),
        (&["http/1.1"], http::Version::HTTP_11),
        (&[], http::Version::HTTP_11),
    ] {
        let (server, pem) = server(alpn, |_, _| "{}").await;
        assert_eq!(call("localhost", &server, &[&pem]).await.unwrap().output.bytes(), "{}");
        let seen = server.only();
        assert_eq!(seen.version, version);
        assert_eq!(seen.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    }
}

#[tokio::test]
async fn a_server_that_cannot_prove_who_it_is_gets_nothing() {
    let (server, pem) = server(&["h2"], |_, _| "{}").await;
    for (host, roots) in [("localhost", [].as_slice()), ("127.0.0.1", &[&*pem])] {
        let error = call(host, &server, roots).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Unreachable { reason: "tls", sent: false }), "{host}: {error:?}");
    }
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn a_redirect_never_leaves_tls() {
    let plain = Server::start(|_, _| "{}").await;
    let location = plain.url();
    let (tls, pem) = server(&[], move |_, _| (StatusCode::FOUND, [("location", location.clone())])).await;
    let error = call("localhost", &tls, &[&pem]).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Unreachable { reason: "redirect", sent: true }), "{error:?}");
    assert_eq!(plain.seen().len(), 0);
}

#[test]
fn an_authority_that_cannot_be_read_is_an_error() {
    let options =
        ClientOptions { extra_roots: vec![b"-----BEGIN CERTIFICATE-----\nnonsense".to_vec()], ..Default::default() };
    let error = Client::new(options, NonZero::<usize>::MIN).unwrap_err().to_string();
    assert!(error.starts_with("the HTTP client cannot be set up: "), "{error}");
}
